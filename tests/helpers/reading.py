"""Pages of the workbench that are computed beside it, once they are there."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

from tests.helpers.queues import until
from tomserve.content.places import runs_root
from tomserve.web import computing
from tomserve.web.computing import Result

WAITS = ('class="coming"', "being read for the first time", "being counted", "is being scored anew")
"""What stands in a page of which something is still being computed."""


def settled(person: TestClient, address: str) -> Any:
    """The answer to a request, once nothing in it is being computed any more."""
    return until(lambda: (found := person.get(address)) and not any(one in found.text for one in WAITS) and found)


def made(work: str, *runs: str, **options: Any) -> Result:
    """What came of a wish, once it is there."""
    folders = [runs_root() / run for run in runs]
    found: Result = until(lambda: computing.wanted(work, *folders, **options), f"{work} of {runs}")
    return found
