"""Pages of the workbench that are computed beside it, once they are there."""

from __future__ import annotations

import time
from typing import Any

from fastapi.testclient import TestClient

from tomserve.content.places import runs_root
from tomserve.web import computing
from tomserve.web.computing import Result

PATIENCE = 180.0
"""Seconds after which a page that is still being computed is a failure."""


def settled(person: TestClient, address: str) -> Any:
    """The answer to a request, once nothing in it is being computed any more."""
    end = time.monotonic() + PATIENCE
    while True:
        answer = person.get(address)
        if 'class="coming"' not in answer.text:
            return answer
        assert time.monotonic() < end, f"{address} is still being computed"
        time.sleep(0.1)


def made(work: str, *runs: str, **options: Any) -> Result:
    """What came of a wish, once it is there."""
    end = time.monotonic() + PATIENCE
    folders = [runs_root() / run for run in runs]
    while (found := computing.wanted(work, *folders, **options)) is None:
        assert time.monotonic() < end, f"{work} of {runs} is still being computed"
        time.sleep(0.05)
    return found
