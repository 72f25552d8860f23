"""The commands `tomserve merge`, `pack` and `unpack`: make one run of several, and make its journal small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli.options import QuietOption, RunArgument, console
from tomserve.content.text import say
from tomserve.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from tomserve.distributed.merge import MergeResult


def merge(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="Name of an evaluation that `tomserve shard` has divided; or names or paths of runs to join, or "
            "addresses of a store, such as s3://bucket/mine.parts.",
        ),
    ],
    into: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Run to make of them. Default: the one that the evaluation was named after."),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Merge the parts of an evaluation, or runs that ask the same, into one ordinary run.

    It may be done at any time, also while parts are still asked, and again: nothing is there twice, and nothing of the
    merged run is lost. The parts stay as they are. A merged run that is not complete can be resumed by `tomserve eval`.
    """
    from tomserve.content import files
    from tomserve.content.paths import runs_root
    from tomserve.distributed import storage
    from tomserve.distributed.merge import check_named_run
    from tomserve.distributed.merge import merge as merge_runs
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs.runfolder import answers_folder

    screen, urls = RunScreen(console(), quiet=quiet), [source for source in sources if storage.is_store_url(source)]
    for url in urls:
        storage.check_address(url)
    folders, name = _found([source for source in sources if source not in urls])
    if not urls:
        if into is None and name is not None:
            check_named_run(name, folders)
        _tell(merge_runs(folders, _into(into, name), screen))
        return
    if into is not None:
        answers_folder(into)  # before anything is copied
    runs_root().mkdir(parents=True, exist_ok=True)
    with files.temporary_folder(runs_root()) as scratch:
        copied = storage.download_parts(urls, scratch, screen)
        fetched = name is None
        name = name or _find_run(copied)
        if into is None and name is not None:
            check_named_run(name, copied if fetched else folders, fetched=fetched)
        _tell(merge_runs([*folders, *copied], _into(into, name), screen))


def _into(given: str | None, name: Path | None) -> Path:
    """The run to make. given: by --into. name: after which the evaluation was named, None where that is not known."""
    from tomserve.runs.runfolder import answers_folder

    run = name if given is None else answers_folder(given)
    if run is None:
        raise ConfigError("--into is missing; expected the name of the run to make, such as --into together")
    return run


def _find_run(folders: list[Path]) -> Path | None:
    """The run that parts from a store are to become."""
    from tomserve.distributed.shards import FILE, merged_folder
    from tomserve.runs.runfolder import answers_folder

    found = next((folder for folder in folders if (folder / FILE).exists()), None)
    return None if found is None else answers_folder(merged_folder(found).name)


def _found(sources: list[str]) -> tuple[list[Path], Path | None]:
    """The folders that are meant, and the run that they are to become where the first of them are parts."""
    from tomserve.content.paths import PARTS_ENDING
    from tomserve.distributed.shards import FILE, find_folder, merged_folder
    from tomserve.runs.runfolder import run_path

    folders: list[Path] = []
    name = None
    for source in sources:
        path, parts = run_path(source), find_folder(source)
        if (parts / FILE).exists():
            path, name = parts, name or merged_folder(parts)
        elif not path.exists():
            raise ConfigError(
                f"{source}: there is neither a run {path} nor the folder of parts {parts}; name runs, or an evaluation "
                f"that `tomserve shard` has divided (its folder ends in {PARTS_ENDING})"
            )
        folders.append(path)
    return folders, name


def _tell(found: MergeResult) -> None:
    """Say what was merged, and what is still missing."""
    if found.missing:
        shown = ", ".join(path.name for path in found.missing[:5]) + ", ..." * (len(found.missing) > 5)
        say(f"warning: {len(found.missing)} parts are not there: {shown}", error=True)
    state = "complete" if found.complete else "not complete yet; merge again later, or go on with `tomserve eval`"
    said = f"{found.answered:,} of {found.wanted:,} have their final reply, {state}"
    if not found.changed:
        say(f"nothing new in {found.parts} runs: {said}\n{found.folder}")
        return
    say(f"merged {found.parts} runs, {found.rows:,} rows in {found.seconds:.1f} s: {said}\n{found.folder}")


def pack(
    runs: RunArgument = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Pack also runs that have no answer to some of their questions.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Pack the journals of finished runs: responses.jsonl becomes responses.parquet, about a tenth as large.

    A packed run is scored, analyzed, reported and merged as before, with the same scores to the byte. What adds rows
    to it, such as `tomserve eval`, unpacks it first.
    """
    from tomserve.distributed.journals import pack as pack_journals
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs.runfolder import find_run

    for run in runs or (None,):
        done = pack_journals(find_run(run), RunScreen(console(), quiet=quiet), unfinished=unfinished)
        say(
            f"packed {done.rows:,} rows in {done.seconds:.1f} s: {done.plain / 1e6:,.1f} MB became "
            f"{done.packed / 1e6:,.1f} MB\n{done.path}"
        )


def unpack(runs: RunArgument = None) -> None:
    """Unpack the journals of packed runs: the same bytes come back, which is checked by their digest."""
    from tomserve.distributed.journals import unpack as unpack_journals
    from tomserve.runs.runfolder import find_run

    for run in runs or (None,):
        say(f"unpacked: {unpack_journals(find_run(run))}")
