"""What all pages and the programming interface work with: settings, register and queue of one workbench."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import cast

from fastapi import Request

from tomserve.web.queue import Queue
from tomserve.web.register import Register
from tomserve.web.settings import Settings


@dataclass(frozen=True, slots=True)
class Workbench:
    """A workbench that runs. settings: what it was told. register: all runs. queue: see tomserve.web.queue. ending: set
    once the server is about to end, so that whatever streams does so, too."""

    settings: Settings
    register: Register
    queue: Queue
    ending: threading.Event = field(default_factory=threading.Event)


def workbench(request: Request) -> Workbench:
    """The workbench that a request belongs to."""
    return cast("Workbench", request.app.state.workbench)
