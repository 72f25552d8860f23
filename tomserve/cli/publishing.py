"""The commands `export hub` and `export artefact`: data for a dataset hub, and everything that reviewers ask for.

tomserve export hub --benchmark worlds --out worlds-data
tomserve export artefact mine other --out artefact.zip
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tomserve.cli.options import ByOption, IntervalsOption, PathOption, StudyOption
from tomserve.content.output_path import parse_file, parse_folder
from tomserve.content.text import say
from tomserve.errors import ConfigError

RunsArgument = Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Names or paths of runs.")]


def export_hub(
    out: Annotated[Path, typer.Option(parser=parse_folder, help="Folder to write.")],
    runs: RunsArgument = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark whose questions are written. If left out: those that the runs asked.")
    ] = None,
    path: PathOption = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--license",
            metavar="ID",
            help="Identifier of the data's licence, such as mit; needed where the data are not tomserve's own.",
        ),
    ] = None,
    terms: Annotated[Path | None, typer.Option("--license-file", help="The text of that licence.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="What the dataset is called.")] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Code of the data's language, such as en. Repeatable.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Where the dataset will be, for the Croissant metadata.")] = None,
    date: Annotated[str | None, typer.Option(help="The day of publication, as 2026-11-30, for the same.")] = None,
) -> None:
    """Write questions, and answers where runs are given, for a dataset hub: Parquet, card, licence, Croissant metadata.

    Nothing is uploaded.
    """
    from tomserve.cli.telling import warn
    from tomserve.interop import hub
    from tomserve.interop import hub as gathering
    from tomserve.interop import hub as licences
    from tomserve.interop.scored_replies import ScoredReplies
    from tomserve.runs.runfolder import find_run

    if benchmark is None and not runs:
        raise ConfigError("name runs, or a benchmark by --benchmark NAME")
    if benchmark is None and path is not None:
        raise ConfigError("--path is the file of a benchmark; name that by --benchmark NAME")
    _check_words(language or (), url, date)
    replies = [ScoredReplies(find_run(run), None, warn) for run in runs or ()]
    names = gathering.name_runs(replies)
    held = [licences.run_holding(name, one.manifest) for name, one in zip(names, replies, strict=True)]
    if benchmark is not None:
        held.append(licences.benchmark_holding(benchmark, path))
    others = list(dict.fromkeys(one.others for one in held if one.others))
    if others and licence is None:
        raise ConfigError(
            f"{'; '.join(others)}; say under which licence these data may be shared by --license ID, such as mit, or "
            "`--license other` with --license-file FILE"
        )
    for said in others:
        warn(f"{said}; be sure that you may share them under {licence}")
    identifier = licences.OWN if licence is None else licences.licence_id(licence)
    if identifier == "other" and terms is None:
        raise ConfigError("--license other: no text of that licence; name its file by --license-file")
    text = licences.read_terms(terms) if terms is not None else None
    if not others and (text is not None or identifier != licences.OWN):
        raise ConfigError(
            f"the questions come with tomserve under {licences.OWN}, which nobody else can change; leave --license out"
        )
    items = (
        gathering.collect_run_items(replies)
        if benchmark is None
        else gathering.collect_benchmark_items(benchmark, path, replies)
    )
    asked = sorted({one.benchmark for one in held})
    named = ", ".join(asked)
    made = hub.Dataset(
        title=title or f"{named} ({len(items):,} questions)",
        licence=identifier,
        terms=text or (licences.state_terms(identifier, named) if others else licences.own_terms()),
        source=hub.describe_data(asked, names, others),
        own=not others,
        items=items,
        replies=tuple(zip(names, replies, strict=True)),
        papers=licences.list_papers(asked),
        languages=language or (() if others else ("en",)),
        url=url,
        date=date,
        benchmark=licences.are_own_benchmarks(asked),
    )
    for file in hub.write_dataset(made, out, [one.folder for one in replies]):
        say(f"written: {file}")


def _check_words(languages: list[str] | tuple[str, ...], url: str | None, date: str | None) -> None:
    """Raise ConfigError for what would not be understood as a language, an address or a date."""
    import datetime

    for language in languages:
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})?", language):
            raise ConfigError(f"--language: found {language!r:.60}; expected a code such as en or zh")
    if url is not None and not re.fullmatch(r"https?://[\w.-]+(:\d+)?(/[^\s\"<>]*)?", url):
        raise ConfigError(f"--url: found {url!r:.80}; expected an address such as https://example.org/data")
    if date is not None:
        try:
            datetime.date.fromisoformat(date)
        except ValueError:
            raise ConfigError(f"--date: found {date!r:.60}; expected a day such as 2026-11-30") from None


def export_artefact(
    out: Annotated[Path, typer.Option(parser=parse_file, help="Zip file to write.")],
    runs: RunsArgument = None,
    study: StudyOption = None,
    intervals: IntervalsOption = None,
    by: ByOption = None,
    label: Annotated[
        list[str] | None, typer.Option(help="RUN=NAME: call the model of that run so; repeat it for several.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="What the artefact is called.")] = "Artefact",
    wheel: Annotated[
        Path | None, typer.Option(help="tomserve's wheel to put in, so that nobody has to look for it (make release).")
    ] = None,
) -> None:
    """Write what reviewers ask for: runs, tables, figures, report, versions, digests, and a program that checks all of
    it and computes the tables again, offline.
    """
    from tomserve.cli.telling import warn
    from tomserve.interop import artefact

    if not runs:
        raise ConfigError("name the runs that the artefact is to hold")
    wish = artefact.ArtefactOptions(runs, study, intervals, by or (), label or [], title, wheel)
    members = artefact.write_artefact(wish, out, warn)
    say(f"written: {out}, {len(members):,} files; `python recompute.py --here` in it computes the tables again")
