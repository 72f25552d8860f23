"""Verifying a run: what was checked, and what came of it.

>>> import tomserve
>>> found = tomserve.Run.open("example").verify()
>>> found.holds, [one.what for one in found.findings]
(True, ['rows', 'prompts', 'questions', 'scores', 'seal'])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tomserve.runs import verifying
from tomserve.runs.verifying import Finding, Wanted


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


def verify(folder: Path, wanted: Wanted | None = None) -> Verification:
    """Check a run folder. Raises ConfigError where it is no run, or what the user gives is wrong."""
    found = list(verifying.findings(folder, wanted))
    if all(one.holds is not False for one in found if one.what not in ("seal", "signature")):
        from tomserve.reporting.html.remade import remade

        page = remade(folder)
        seals = sum(one.what in ("seal", "signature") for one in found)
        found[len(found) - seals : len(found) - seals] = [page] if page is not None else []
    return Verification(folder, tuple(found))
