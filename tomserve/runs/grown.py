"""Score only the rows that a run has won since its table was made.

The record beside the table (see tomserve.runs.kept) says how long the journal was then, and what it began with. Where
the journal has only grown by whole lines since, and nothing else that scores are made from has changed, the new rows
are scored and put between the old ones, which gives the bytes that scoring all of them would give. Everything is made
again where a row alone does not say its question's score: for conversations, for several samples of a question, and
where a noise check was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tomserve.content.files import FileMark, digest_file, find_mark
from tomserve.runs import kept, packed
from tomserve.scoring.responses import NOISE, Problems, ResponseFile


class Before(NamedTuple):
    """The table of a run that has grown since.

    table: the table, which has rows. mark: how far the journal had come. unread: the lines that could not be read, as
    tomserve.scoring.responses.Problems gives them.
    """

    table: pl.DataFrame
    mark: FileMark
    unread: Mapping[str, Any]


def rows_of(responses: ResponseFile, before: Before | None = None) -> dict[str, Any]:
    """What the record of a table says of the journal's rows: how many lines it had, whether each row alone is the reply
    to its question, and which lines could not be read.

    responses: the journal, after it was read. before: what it was read after, None where all of it was read.
    """
    problems = responses.problems if before is None else responses.problems.after(before.unread)
    return {"lines": responses.file.count, "alone": responses.alone, "unread": problems.as_json()}


def unread_of(folder: Path, rows: Mapping[str, Any]) -> Problems:
    """The lines of a run's journal that could not be read. rows: as `rows_of` gives them."""
    return Problems(folder / kept.JOURNAL).after(rows["unread"])


def before_growth(path: Path) -> Before | None:
    """The table at that path of a run folder, where it can be continued; None where it has to be made again.

    Raises ConfigError where the folder is no run.
    """
    record, folder = kept.recorded(path), path.parent
    if record is None or not isinstance(rows := record.get("rows"), dict) or not rows["alone"]:
        return None
    files = record["files"]
    there = kept.sources_in(folder)
    if set(there) != set(files) or NOISE in files or kept.JOURNAL not in files:
        return None
    try:
        table = path.read_bytes()
        same = [(name, *digest_file(folder / name)) for name in there if name != kept.JOURNAL]
        was = (kept.JOURNAL, files[kept.JOURNAL]["bytes"], files[kept.JOURNAL]["digest"])
        sources = replace(kept.Sources.asked(folder).having((*same, was)), rows=rows)
        if sources.record(table) != record:
            return None
        mark = find_mark(packed.journal(folder), was[1], rows["lines"], was[2])
    except OSError:
        return None
    scores = None if mark is None else pl.read_parquet(table)
    if mark is None or scores is None or scores.is_empty():
        return None
    return Before(scores, mark, rows["unread"])
