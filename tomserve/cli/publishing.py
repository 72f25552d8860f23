"""The commands `export hub` and `export artefact`: data for a dataset hub, and everything that reviewers ask for.

tomserve export hub --benchmark worlds --out worlds-data
tomserve export artefact mine other --out artefact.zip
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tomserve.cli.options import ByOption, IntervalsOption, PathOption, StudyOption
from tomserve.content.inert import say
from tomserve.content.outputs import file_named, folder_named
from tomserve.errors import ConfigError

RunsArgument = Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Names or paths of runs.")]


def export_hub(
    out: Annotated[Path, typer.Option(parser=folder_named, help="Folder to write.")],
    runs: RunsArgument = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark whose questions are written. If left out: those that the runs asked.")
    ] = None,
    path: PathOption = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license", help="Identifier of the data's licence, which is needed where they are not tomserve's own."
        ),
    ] = None,
    terms: Annotated[Path | None, typer.Option("--license-file", help="The text of that licence.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="What the dataset is called.")] = None,
) -> None:
    """Write questions, and answers where runs are given, for a dataset hub: Parquet, card, licence, Croissant metadata.

    Nothing is uploaded.
    """
    from tomserve import benchmarks
    from tomserve.cli.telling import warn
    from tomserve.interop import hub
    from tomserve.interop.answered import Replies
    from tomserve.items import read_items
    from tomserve.runs.runfolder import existing_run
    from tomserve.runs.stock import Stock

    if benchmark is None and not runs:
        raise ConfigError("name runs, or a benchmark by --benchmark NAME")
    replies = [Replies(existing_run(run), None, warn) for run in runs or ()]
    asked = {one.manifest.benchmark for one in replies}
    foreign = path is not None or any(one.manifest.foreign or one.manifest.benchmark_path for one in replies)
    foreign = foreign or any(benchmarks.known(name) is None for name in asked)
    if licence is None and (foreign or (benchmark or "").endswith(".py")):
        raise ConfigError("these data are not tomserve's own; say under which licence they may be shared: --license ID")
    if benchmark is not None:
        items = Stock(benchmarks.load(benchmark, path, None, benchmarks.ALL))
        named = benchmarks.get(benchmark).name
    else:
        known = {item.id: item for one in replies for item in read_items(one.folder / "items.jsonl")}
        items, named = Stock(known[name] for name in sorted(known)), ", ".join(sorted(asked))
    identifier = licence or hub.OWN_LICENCE
    if terms is not None:
        text = terms.read_text("utf-8", errors="replace")[: 1 << 20]
    else:
        text = f"Licence: {identifier}. The data come from the benchmark {named}."
    made = hub.Dataset(
        title or f"{named} ({len(items):,} questions)",
        identifier,
        text,
        f"Questions of the benchmark {named}, as tomserve asks them.",
        items.digest(),
    )
    made.add_items(items)
    if replies:
        made.add_replies(replies)
    for file in hub.write(made, out, [one.folder for one in replies]):
        say(f"written: {file}")


def export_artefact(
    out: Annotated[Path, typer.Option(parser=file_named, help="Zip file to write.")],
    runs: RunsArgument = None,
    study: StudyOption = None,
    intervals: IntervalsOption = None,
    by: ByOption = None,
    label: Annotated[
        list[str] | None, typer.Option(help="RUN=NAME: call the model of that run so; repeat it for several.")
    ] = None,
    title: Annotated[str, typer.Option(help="What the artefact is called.")] = "Artefact",
) -> None:
    """Write what reviewers ask for: runs, tables, figures, report, versions, digests, and a program that checks all of
    it and computes the tables again, offline.
    """
    from tomserve.cli import rescore
    from tomserve.interop import artefact

    if not runs:
        raise ConfigError("name the runs that the artefact is to hold")
    analysis, _ = rescore.analysis_of(runs, study, intervals, by or (), label or [])
    wish = artefact.Wish(runs, study, intervals, by or (), label or [], title)
    members = artefact.write(wish, analysis, out)
    say(f"written: {out}, {len(members):,} files; `python recompute.py --here` in it computes the tables again")
