"""The commands `import inspect`, `lm-eval`, `csv` and `jsonl`: replies that another tool collected.

tomserve import inspect logs/*.eval
tomserve import csv answers.csv --model my-model --map text=reply --map correct=mark
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tomserve.cli.options import PathOption, QuietOption, console
from tomserve.errors import ConfigError, one_of

if TYPE_CHECKING:
    from tomserve.interop.importer import ImportOptions
    from tomserve.interop.samples import Source

FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE", help="Files, or folders of them.")]
RunOption = Annotated[str | None, typer.Option(help="Name of the run. If left out: <task>-<model>.")]
ModelOption = Annotated[
    str | None, typer.Option(help="Only the replies of this model; for files that name none, who answered.")
]
TaskOption = Annotated[
    str | None, typer.Option(help="Only the replies to this task; for files that name none, what it is called.")
]
StrategyOption = Annotated[
    str | None, typer.Option(help="What the way of asking is called. If left out: as the file says, or imported.")
]
MatchOption = Annotated[
    str | None,
    typer.Option(
        "--benchmark",
        help="The benchmark whose questions were asked, none to take them as they are. If left out: it is found out.",
    ),
]
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Take all tasks together under this name, with the factor task."),
]
ScorerOption = Annotated[
    str | None, typer.Option(help="Whose grade counts, where replies have several. If left out: the first.")
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(help="From which value on a grade that is a number counts as right. If left out: from 1 on."),
]
CountsOption = Annotated[
    str | None,
    typer.Option(
        help="Whose reading of the replies counts: tomserve or tool. If left out: tomserve for questions of one of its "
        "benchmarks, tool for all others."
    ),
]
FactorOption = Annotated[
    list[str] | None,
    typer.Option(
        help="What the file tells of questions that becomes a factor. If left out: all that has 2 to 100 values, "
        "which recur. Repeatable."
    ),
]
ClusterOption = Annotated[
    str | None, typer.Option(help="What the file tells that says which questions belong together, such as a text.")
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="What a column means; FIELD is id, text (the reply), asked, story, question, choices, target, correct, "
        "score, answer, model, strategy, task, repeat, cluster, status or item. Repeatable.",
    ),
]


def import_inspect(
    logs: FilesArgument,
    run: RunOption = None,
    model: ModelOption = None,
    task: TaskOption = None,
    strategy: StrategyOption = None,
    benchmark: MatchOption = None,
    path: PathOption = None,
    together: AsOption = None,
    scorer: ScorerOption = None,
    threshold: ThresholdOption = None,
    counts: CountsOption = None,
    factor: FactorOption = None,
    cluster: ClusterOption = None,
    quiet: QuietOption = False,
) -> int:
    """Read logs of Inspect (.eval, .json) into runs.

    Each task of each model becomes a run, which score, analyze, compare, report and the workbench take like any other.
    The exit code is 1 where samples could not be read.
    """
    from tomserve.interop.inspect_reader import InspectLog

    wish = _wish(run, model, task, strategy, benchmark, path, together, scorer, threshold, counts, factor, cluster)
    named, found = _files(logs, (".eval", ".json"))
    return _bring([InspectLog(one) for one in named], wish, found, quiet)


def import_lm_eval(
    samples: FilesArgument,
    run: RunOption = None,
    model: ModelOption = None,
    task: TaskOption = None,
    strategy: StrategyOption = None,
    benchmark: MatchOption = None,
    path: PathOption = None,
    together: AsOption = None,
    scorer: ScorerOption = None,
    threshold: ThresholdOption = None,
    counts: CountsOption = None,
    factor: FactorOption = None,
    cluster: ClusterOption = None,
    quiet: QuietOption = False,
) -> int:
    """Read what lm-eval wrote by --log_samples (samples_<task>_<date>.jsonl) into runs.

    The results_<date>.json beside a file says which model answered. The exit code is 1 where samples could not be read.
    """
    from tomserve.interop.lm_eval_files import LmEvalSamples

    wish = _wish(run, model, task, strategy, benchmark, path, together, scorer, threshold, counts, factor, cluster)
    named, found = _files(samples, (".jsonl",), "samples_")
    return _bring([LmEvalSamples(one, model, scorer) for one in named], wish, found, quiet)


def import_csv(
    files: FilesArgument,
    columns: MapOption = None,
    run: RunOption = None,
    model: ModelOption = None,
    task: TaskOption = None,
    strategy: StrategyOption = None,
    benchmark: MatchOption = None,
    path: PathOption = None,
    together: AsOption = None,
    threshold: ThresholdOption = None,
    counts: CountsOption = None,
    factor: FactorOption = None,
    cluster: ClusterOption = None,
    quiet: QuietOption = False,
) -> int:
    """Read a spreadsheet, a row for each reply, into runs.

    Columns that are called like a field need no --map. The exit code is 1 where rows could not be read.
    """
    wish = _wish(run, model, None, strategy, benchmark, path, together, None, threshold, counts, factor, cluster)
    return _bring_mapped("csv", files, columns, task, wish, quiet)


def import_jsonl(
    files: FilesArgument,
    columns: MapOption = None,
    run: RunOption = None,
    model: ModelOption = None,
    task: TaskOption = None,
    strategy: StrategyOption = None,
    benchmark: MatchOption = None,
    path: PathOption = None,
    together: AsOption = None,
    threshold: ThresholdOption = None,
    counts: CountsOption = None,
    factor: FactorOption = None,
    cluster: ClusterOption = None,
    quiet: QuietOption = False,
) -> int:
    """Read JSON lines, an object for each reply, into runs.

    Fields that are called like ours need no --map. The exit code is 1 where lines could not be read.
    """
    wish = _wish(run, model, None, strategy, benchmark, path, together, None, threshold, counts, factor, cluster)
    return _bring_mapped("jsonl", files, columns, task, wish, quiet)


def _wish(
    run: str | None,
    model: str | None,
    task: str | None,
    strategy: str | None,
    benchmark: str | None,
    path: Path | None,
    together: str | None,
    scorer: str | None,
    threshold: float | None,
    counts: str | None,
    factors: list[str] | None,
    cluster: str | None,
) -> ImportOptions:
    from tomserve.interop.importer import ImportOptions

    known: dict[str | None, Literal["tomserve", "tool"] | None] = {None: None, "tomserve": "tomserve", "tool": "tool"}
    if counts not in known:
        raise ConfigError(f"--counts: {one_of('reading', str(counts), ('tomserve', 'tool'))}")
    own = tuple(factors or ())
    return ImportOptions(
        run, model, task, strategy, benchmark, path, together, scorer, threshold, known[counts], own, cluster
    )


def _files(given: Sequence[Path], endings: tuple[str, ...], beginning: str = "") -> tuple[list[Path], set[Path]]:
    """The files that are named, and in folders those with these endings, sorted by name; and which of them nobody
    named."""
    named: list[Path] = []
    found: set[Path] = set()
    for one in given:
        if not one.is_dir():
            named.append(one)
            continue
        inside = [path for path in sorted(one.rglob(f"{beginning}*")) if path.suffix in endings and not path.is_dir()]
        if not inside:
            what = f"begins with {beginning} and ends in" if beginning else "ends in"
            raise ConfigError(f"{one}: no file in this folder {what} {' or '.join(endings)}")
        named += inside
        found |= set(inside)
    return list(dict.fromkeys(named)), found - {one for one in given if not one.is_dir()}


def _bring_mapped(
    kind: Literal["csv", "jsonl"],
    files: Sequence[Path],
    columns: list[str] | None,
    task: str | None,
    wish: ImportOptions,
    quiet: bool,
) -> int:
    from tomserve.interop.csv_reader import MappedFile

    named, found = _files(files, (f".{kind}",))
    return _bring([MappedFile(one, kind, columns or (), wish.model, task) for one in named], wish, found, quiet)


def _bring(sources: Sequence[Source], wish: ImportOptions, found: Collection[Path], quiet: bool) -> int:
    from tomserve.cli.brought import show
    from tomserve.interop.importer import import_replies
    from tomserve.reporting.progress import RunScreen

    return show(import_replies(sources, wish, RunScreen(console(), quiet=quiet), found))
