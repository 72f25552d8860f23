"""From questions to tables in Python: loading items, scoring answers, analysing and comparing scores; all offline."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve import benchmarks, studies
from tomserve.api.run import Run
from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.items import Item, write_items
from tomserve.runs import scores as scores_of_runs
from tomserve.scoring import table
from tomserve.scoring.sources import ItemFile, ResponseFile
from tomserve.studies import Study
from tomserve.studies import compare as comparing
from tomserve.studies.compare import Comparison

Note = Callable[[str], None]
Source = str | Path | Run
"""A run (its name, its folder, or a Run) or a file with a score table (.parquet, .jsonl, .csv)."""


def load(benchmark: str, path: str | Path | None = None, gold: str | None = None) -> list[Item]:
    """The items of a benchmark, in its order.

    benchmark: its name, e.g. "perturbed"; "items" for a file of your own. path: the file (or folder) it is read from,
    where it takes one. gold: which set of answers counts, where a benchmark has several.

    Raises ConfigError for an unknown name, ContentError by file, line and field for a mistake in a file.

    >>> import tomserve
    >>> items = tomserve.load("perturbed")
    >>> items[0].question, sorted(items[0].choices)
    ('At the end of the story, what is really in the bag?', ['mittens', 'socks', 'unknown'])
    """
    return list(benchmarks.load(benchmark, None if path is None else Path(path).expanduser(), gold))


def score(
    responses: str | Path | Iterable[Mapping[str, Any]],
    items: str | Path | Iterable[Item],
    *,
    model: str | None = None,
    note: Note | None = None,
) -> pl.DataFrame:
    """Score what any tool was answered: one row an item, strategy and model, with the columns of a run's score table.

    responses: a JSONL file, or mappings: each with `item` (an id) and `text` (the reply), and where they are known
    `strategy` ("vanilla"), `model` and `status` ("ok"). Of two of one item, strategy and model the later counts.
    items: a JSONL file of items, or the items. model: the name of the model where the responses have none. note: is
    told, in a sentence, which lines could not be read.

    Raises ConfigError where no response answers a known item, ContentError for a broken items file.

    >>> import tomserve
    >>> item = tomserve.Item(id="q", story=["Tea is in the jar."], question="What is in the jar?",
    ...                      choices=["tea", "salt"], answer="tea")
    >>> tomserve.score([{"item": "q", "text": "Answer: tea"}], [item]).select("answer", "correct").row(0)
    ('tea', True)
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        known = ItemFile(_items_file(items, folder))
        name = Path(responses).stem if isinstance(responses, str | Path) else "responses"
        found = ResponseFile(_responses_file(responses, folder), known, model or name, foreign=True)
        table.tell(note, found)
        table.write_scored(known, found, folder / "scores.parquet", run=name, rules=benchmarks.scoring)
        return pl.read_parquet(folder / "scores.parquet")


def _items_file(items: str | Path | Iterable[Item], folder: Path) -> Path:
    if isinstance(items, str | Path):
        return Path(items).expanduser()
    if not (kept := list(items)):
        raise ConfigError("there are no items to score against; give the items that were asked")
    write_items(folder / "items.jsonl", kept)
    return folder / "items.jsonl"


def _responses_file(responses: str | Path | Iterable[Mapping[str, Any]], folder: Path) -> Path:
    if isinstance(responses, str | Path):
        return Path(responses).expanduser()
    path = folder / "responses.jsonl"
    with files.replacing(path) as file:
        for number, response in enumerate(responses):
            try:
                file.write(orjson.dumps(dict(response), option=orjson.OPT_APPEND_NEWLINE))
            except (TypeError, ValueError) as error:
                raise ConfigError(f"response {number} is no mapping that JSON can hold ({error})") from None
    return path


def load_scores(source: Source | None = None, *, note: Note | None = None) -> pl.DataFrame:
    """The score table of a run (None: the newest), or of a file that `tomserve score` or anybody else wrote.

    One row an item and strategy; the columns of the README. note: is told which lines could not be read.
    Raises ConfigError for what is not there or no score table.

    >>> import tomserve
    >>> tomserve.load_scores("example").group_by("strategy").len().sort("strategy").rows()
    [('cot', 176), ('vanilla', 176)]
    """
    return scores_of_runs.load_scores(_source(source), note=note)


def analyze(
    scores: pl.DataFrame, study: str | Study | None = None, intervals: str | None = None
) -> dict[str, pl.DataFrame]:
    """The tables of a study, by name.

    scores: of `Run.scores`, `load_scores` or `score`; several runs are concatenated first. study: its name, the path of
    a file, or a Study [the one of the scores' benchmark]. intervals: "recommended" or "published" [the study's first].

    Raises ConfigError where a column is missing or holds what the study does not know.

    >>> import tomserve
    >>> sorted(tomserve.analyze(tomserve.load_scores("example"), "accuracy"))
    ['accuracy', 'prompting_effects']
    """
    chosen = studies.default_study(scores) if study is None else study
    return dict(studies.analyze(scores, studies.load_study(chosen) if isinstance(chosen, str) else chosen, intervals))


def compare(a: Source, b: Source, *, common: bool = False, note: Note | None = None) -> Comparison:
    """Compare run (or score table) b with a, on the same questions: paired effects, flips, what else differs.

    common: compare what both were asked and leave out the rest, rather than refuse. Returns a Comparison: `effects`
    (a row a strategy and class, overall last), `flips` (items whose outcome differs), `differences` (of the manifests),
    `left_out` (rows without a partner), `noise` (the noise floor in words, None where it was not measured).

    Raises ConfigError where the questions differ.

    >>> import tomserve
    >>> tomserve.compare("example", "example").flips.height
    0
    """
    first, second = (str(_source(one)) for one in (a, b))
    return comparing.compare(first, second, common=common, note=note)


def _source(source: Source | None) -> str | None:
    if isinstance(source, Run):
        source = source.folder
    return str(source.expanduser().absolute()) if isinstance(source, Path) else source
