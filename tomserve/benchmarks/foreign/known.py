"""The digests of known files, and the finding whether a user's file is the known one.

The files beside this module, one a benchmark, have a digest a line, in the order of the source; they are facts about
its rows and hold none of its words.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from tomserve.benchmarks.findings import Findings
from tomserve.benchmarks.foreign.source import Source


def digests(name: str) -> tuple[str, ...]:
    """The digests in NAME.txt."""
    return tuple((resources.files(__package__) / f"{name}.txt").read_text("ascii").split())


def validated(source: Source, rows: Sequence[bytes], read: str, further: Sequence[str] = ()) -> Findings:
    """The finding that the rows are the known ones, or how they differ.

    rows: as `Source.differences` takes them. read: what was read, such as "600 questions". further: lines on what else
    is wrong. The exit code is 1 where anything is.
    """
    wrong = [line for line in (source.differences(rows), *further) if line]
    if wrong:
        return Findings(lines=(f"{read} can be read, but:", *wrong), code=1)
    return Findings(lines=(f"{read}: ok; this is {source.file} of commit {source.commit}, row for row.",))
