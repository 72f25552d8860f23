"""A run as a Python script holds it: its folder, its manifest, its scores, its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tomserve.runs.journal import identity_of, read_rows
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import existing_run, without_manifest

if TYPE_CHECKING:
    import polars as pl

    from tomserve.engine.request import Identity

_ANSWERS = frozenset({"ok", "length"})


@dataclass(frozen=True)
class Run:
    """What was asked and answered, in `folder`. `failures`: how often each status came that is no answer.

    After `ask` the failures are those of the questions of that call, after `Run.open` those of the whole run.

    >>> import tomserve
    >>> run = tomserve.Run.open("example")
    >>> run.failures, run.manifest.model, run.scores().height
    ({}, 'reference', 352)
    """

    folder: Path
    failures: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, run: str | Path | None = None) -> Run:
        """A run that is there already, by name or folder; None is the newest. Raises ConfigError."""
        folder = existing_run(str(run.absolute()) if isinstance(run, Path) else run)
        return cls(folder, _failures(folder / "responses.jsonl"))

    @property
    def manifest(self) -> Manifest:
        """What was asked of whom, by which prompts, as ``manifest.json`` says now. Raises ConfigError."""
        found = Manifest.read(self.folder)
        if found is None:
            raise without_manifest(self.folder / "responses.jsonl")
        return found

    def scores(self) -> pl.DataFrame:
        """The score table: one row an item and strategy, with status, answer, `correct`, chain measures and factors.

        It is made from the folder and kept there as ``scores.parquet``. Raises ConfigError where a file is broken.
        """
        from tomserve.runs.scores import scores_of

        return scores_of(self.folder)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report, one HTML file that needs nothing else, and return where it is.

        path: the file to write [``report.html`` in the run's folder]. Raises ConfigError.
        """
        from tomserve.reporting.html.build import write_report

        return write_report([f"{self.folder.absolute()}/"], None if path is None else Path(path).expanduser())


def _failures(journal: Path) -> dict[str, int]:
    """The statuses of last rows that are no answers, counted."""
    failed: dict[Identity, str] = {}
    for _, row in read_rows(journal):
        if row["status"] in _ANSWERS:
            failed.pop(identity_of(row), None)
        else:
            failed[identity_of(row)] = row["status"]
    return dict(sorted(Counter(failed.values()).items()))
