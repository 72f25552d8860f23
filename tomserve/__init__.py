"""tomserve: Theory-of-Mind evaluation of language models behind vLLM or any OpenAI-compatible endpoint.

    from rich.console import Console
    from tomserve import EvalOptions, evaluate, scores_of

    result = evaluate(EvalOptions(base_urls=("http://localhost:8000/v1",)), Console())
    print(scores_of(result.folder).group_by("strategy").mean())

Names are imported on first use, so that `import tomserve` and `tomserve --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "EvalOptions": "runs.evaluation",
    "EvalResult": "runs.evaluation",
    "Gold": "items",
    "Item": "items",
    "Preset": "serving.presets",
    "RetryPolicy": "engine.retry",
    "Sampling": "engine.request",
    "Strategy": "prompting.strategy",
    "Timeouts": "engine.transport",
    "TomserveError": "errors",
    "evaluate": "runs.evaluation",
    "read_items": "items",
    "score_run": "runs.scores",
    "scores_of": "runs.scores",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"tomserve.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'tomserve' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
