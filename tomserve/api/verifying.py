"""Verifying a run: what was checked, and what came of it.

>>> import tomserve
>>> found = tomserve.Run.open("example").verify()
>>> found.holds, [one.what for one in found.findings]
(True, ['rows', 'prompts', 'questions', 'scores', 'seal'])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tomserve.runs import verification
from tomserve.runs.verification import SEAL, Finding, VerifyOptions


@dataclass(frozen=True)
class Verification:
    """What came of verifying a run.

    folder
        The run's folder.
    findings
        What was checked, each as (what, holds, said): `holds` is True where all is as it should be, False where it is
        not, and None where that could not be found out; `said` tells it in words.
    """

    folder: Path
    findings: Sequence[Finding]

    @property
    def holds(self) -> bool:
        """Whether nothing was found that is not as it should be. What could not be checked does not count."""
        return all(one.holds is not False for one in self.findings)

    def __str__(self) -> str:
        marks = {True: "ok", False: "NOT OK", None: "not checked"}
        return "\n".join(f"{one.what}: {marks[one.holds]}: {one.said}" for one in self.findings)


def verify(folder: Path, wanted: VerifyOptions | None = None) -> Verification:
    """Check a run folder. Raises ConfigError where it is no run, or what the user gives is wrong."""
    return Verification(folder, tuple(checks(folder, wanted)))


def checks(folder: Path, wanted: VerifyOptions | None = None) -> Iterator[Finding]:
    """The same checks one by one, as each of them may take minutes where a run has a million rows.

    The report is made again only where all else holds that it is made of, so that nothing forged is overwritten.
    """
    holds = True
    for one in verification.verify_run(folder, wanted):
        if one.what == SEAL and holds:
            from tomserve.reporting.html.report import check_report

            if (page := check_report(folder)) is not None:
                yield page
        holds &= one.holds is not False
        yield one
