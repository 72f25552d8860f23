"""tomserve: Theory-of-Mind evaluation of language models behind vLLM or any OpenAI-compatible endpoint.

    import tomserve

    items = tomserve.load("perturbed")
    run = tomserve.ask(items, ["vanilla", "cot"], base_url="http://localhost:8000/v1", limit=64)
    print(run.scores().group_by("strategy").mean())
    tables = tomserve.analyze(run.scores())
    inside = tomserve.examine("reference")          # the mechanism layer: is there a map inside?
    layers = tomserve.functional("reference")       # behaviour, mechanism and stability, and a score of them
    weak = tomserve.search(budget=2000)             # where does it break?
    edited = tomserve.intervene("mine")             # does the answer follow from the written reasoning?

In a notebook `ask` works as it stands, and `await tomserve.aask(...)` as well. Names are imported on first use, so that
`import tomserve` and `tomserve --help` stay quick. Every error is a `TomserveError` of the module `tomserve.errors`.
"""

import importlib
from typing import TYPE_CHECKING

from tomserve import errors
from tomserve._version import __version__
from tomserve.errors import TomserveError

if TYPE_CHECKING:
    from tomserve.benchmarks import Benchmark, Draw
    from tomserve.items import Gold, Item, read_items
    from tomserve.prompting.strategy import Strategy
    from tomserve.studies import Study
    from tomserve.workflows.causal import examine
    from tomserve.workflows.evaluate import aask, ask
    from tomserve.workflows.faithfulness import intervene
    from tomserve.workflows.functional import functional
    from tomserve.workflows.results import analyze, compare, load, load_scores, score
    from tomserve.workflows.run import Run
    from tomserve.workflows.search import search


__all__ = [
    "Benchmark",
    "Draw",
    "Gold",
    "Item",
    "Run",
    "Strategy",
    "Study",
    "TomserveError",
    "__version__",
    "aask",
    "analyze",
    "ask",
    "compare",
    "errors",
    "examine",
    "functional",
    "intervene",
    "load",
    "load_scores",
    "read_items",
    "score",
    "search",
]

_PLACES = {
    "Benchmark": "benchmarks",
    "Draw": "benchmarks",
    "Gold": "items",
    "Item": "items",
    "Run": "workflows.run",
    "Strategy": "prompting.strategy",
    "Study": "studies",
    "aask": "workflows.evaluate",
    "analyze": "workflows.results",
    "ask": "workflows.evaluate",
    "compare": "workflows.results",
    "examine": "workflows.causal",
    "functional": "workflows.functional",
    "intervene": "workflows.faithfulness",
    "load": "workflows.results",
    "load_scores": "workflows.results",
    "read_items": "items",
    "score": "workflows.results",
    "search": "workflows.search",
}

if not TYPE_CHECKING:  # a type checker reads the imports above, and so knows a name that does not exist

    def __getattr__(name: str) -> object:
        if name in _PLACES:
            return getattr(importlib.import_module(f"tomserve.{_PLACES[name]}"), name)
        raise AttributeError(f"module 'tomserve' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
