"""Looks whether the report in a run folder is what the run gives, by making it again.

A report that this user's tomserve wrote is known by its record (see tomserve.reporting.html.standing). One of somebody
else is believed only if the same page comes out of the files again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tomserve._version import __version__
from tomserve.content import files
from tomserve.errors import ConfigError, TomserveError
from tomserve.reporting.html.build import report
from tomserve.reporting.html.standing import PAGE, RECORD, Wishes, standing
from tomserve.runs.verification import Finding
from tomserve.studies.study import study_names

_VERSION = f"tomserve {__version__}".encode()


def remade(folder: Path) -> Finding | None:
    """What came of comparing the report of a run with the one that is made now; None where it has no report.

    Raises ConfigError where the folder is no run.
    """
    path = folder / PAGE
    if not path.exists():
        return None
    if standing(folder) is not None:
        return Finding("report", True, f"{PAGE} is as tomserve wrote it here, of these scores")
    try:
        with files.open_for_reading(path) as file:
            page = file.read()
        wishes = _wishes(folder)
        run = f"{folder.absolute()}/"
        made = report([run], wishes.intervals, wishes.labels, wishes.study, by=wishes.by).encode()
    except (OSError, TomserveError) as error:
        return Finding("report", None, f"{PAGE} was not compared: {error}")
    if made == page:
        return Finding("report", True, f"{PAGE} is what the run gives, to the byte")
    if _VERSION not in page:
        return Finding("report", None, f"{PAGE} was not compared, as another version of tomserve made it")
    return Finding("report", False, f"{PAGE} is not what the run gives; `tomserve report` makes it again")


def _wishes(folder: Path) -> Wishes:
    """What was asked of the report according to its record, which may be a stranger's: only names are taken from it,
    and nothing that could lead to a file."""
    try:
        found = files.read_json(folder / RECORD, "it is not used")["wishes"]
        wishes = {name: found.get(name) for name in ("intervals", "labels", "study", "by")}
    except (OSError, ConfigError, TypeError, KeyError, AttributeError):
        return Wishes()
    study: Any = wishes["study"]
    return Wishes(
        intervals=wishes["intervals"] if isinstance(wishes["intervals"], str) else None,
        labels=_texts(wishes["labels"]),
        study=study if isinstance(study, str) and study in study_names() else None,
        by=_texts(wishes["by"]),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
