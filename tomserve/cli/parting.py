"""What the commands that read runs do where they are given the parts of an evaluation, or many files of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tomserve.cli.telling import warn
from tomserve.content.paths import PARTS_ENDING
from tomserve.content.text import say
from tomserve.reporting.progress import ScoringBar
from tomserve.scoring.table import TABLES
from tomserve.studies import missing_data

if TYPE_CHECKING:
    from tomserve.distributed.shards import Partitions, ScoredParts


def folder_of_parts(run: str | None) -> Path | None:
    """The folder of the parts of an evaluation that a RUN on the command line names; None for everything else."""
    if run is None or run.endswith(TABLES) or _is_plain(run):
        return None
    from tomserve.distributed.shards import parts_folder

    return parts_folder(run)


def files_of(run: str) -> Partitions | None:
    """The tables of a RUN on the command line that is a folder or a pattern of files; None for everything else."""
    if _is_plain(run):
        return None
    from tomserve.distributed.shards import find_tables

    return find_tables(run)


def _is_plain(run: str) -> bool:
    """Whether this can only be a run or a single table, for which nothing about parts is imported: that takes long."""
    path = Path(run).expanduser()
    if run.endswith(TABLES):
        return path.exists() or not set(run) & set("*?[")
    return (path / "manifest.json").exists() or not (path.is_dir() or Path(run).name.endswith(PARTS_ENDING))


def found(run: str | None) -> Partitions | None:
    """The score tables of a RUN on the command line that lie in many files; None for a run or a single table.

    Parts of an evaluation that are not scored yet, or whose table is outdated, are scored first. Warns of parts that
    have no answers and of those that cannot be scored. Raises ConfigError where nothing is left to read.
    """
    if run is None:
        return None
    if (folder := folder_of_parts(run)) is None:
        return files_of(run)
    from tomserve.distributed.shards import find_part_tables

    done = scored(folder)
    for said in lacking_of(folder, done):
        warn(said)
    return find_part_tables(folder, done.there)


def scored(folder: Path) -> ScoredParts:
    """Score the parts of an evaluation that are not scored yet, with a line of progress where that takes a while."""
    from tomserve.distributed.shards import score_parts

    with ScoringBar() as screen:
        return score_parts(folder, note=warn, done=screen.done)


def lacking_of(folder: Path, done: ScoredParts) -> list[str]:
    """A sentence on the parts that cannot be scored, and one on those that hold no answers yet."""
    name, total = folder.name.removesuffix(PARTS_ENDING), len(done.there) + len(done.waiting) + len(done.broken)
    said = [f"part {number}: {reason}" for number, reason in sorted(done.broken.items())]
    if done.waiting:
        numbers = ", ".join(map(str, done.waiting[:10])) + (", ..." if len(done.waiting) > 10 else "")
        said.append(
            f"{folder}: {len(done.waiting)} of {total} parts hold no answers yet (part {numbers}); "
            f"`tomserve work {name}` asks them"
        )
    return said


def score(folder: Path) -> tuple[int, list[missing_data.Gaps]]:
    """Score the parts of an evaluation, and say what became of them.

    Returns the exit code, 1 where a part could not be scored, and what is lacking of the parts that were.
    """
    from tomserve.distributed.shards import find_part_tables

    done = scored(folder)
    for said in lacking_of(folder, done):
        warn(said)
    lacking: list[missing_data.Gaps] = []
    if done.there:
        tables = find_part_tables(folder, done.there)
        rows, right = tables.scan().select(pl.len(), pl.col("correct").sum()).collect(engine="streaming").row(0)
        lacking = warn_lacking(tables)
        current = f", {len(done.current)} of them were scored before" if done.current else ""
        say(f"{folder}: {len(done.there)} parts scored{current}: {rows} rows, {right} correct, scores.parquet written")
    return int(bool(done.broken)), lacking


def warn_lacking(tables: Partitions) -> list[missing_data.Gaps]:
    """Warn of what is lacking of score tables in many files, which are read one after the other; returns it."""
    lacking = missing_data.gaps_of_tables(tables.source, (tables.scan([path]) for path in tables.files))
    if tables.folder is not None:
        lacking = [_of_parts(gap, tables.folder) for gap in lacking]
    for said in missing_data.gap_sentences(lacking):
        warn(said)
    return lacking


def _of_parts(gap: missing_data.Gaps, folder: Path) -> missing_data.Gaps:
    """What is lacking of parts, whose record says how many answers there are to be."""
    from tomserve.distributed.shards import Shards

    shards = Shards.read(folder)
    wanted = sum(part.items for part in shards.parts) * len(shards.strategies)
    if gap.there < wanted:
        name = folder.name.removesuffix(PARTS_ENDING)
        warn(
            f"{folder} is incomplete: {wanted - gap.there:,} of {wanted:,} answers were not asked for yet, and those "
            f"that are there may not be typical. `tomserve work {name}` asks them."
        )
    return replace(gap, wanted=None)


def report_of(runs: Sequence[str | None]) -> Path | None:
    """Where the report of the parts of an evaluation lies if nobody says where; None for everything else."""
    folder = folder_of_parts(runs[0]) if len(runs) == 1 else None
    return None if folder is None else folder / "report.html"
