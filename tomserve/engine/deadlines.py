"""Ends requests that take too long: one timer for all of them, which takes less CPU time than one for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

EVERY = 0.25
"""Seconds between two looks at most."""


class Deadlines:
    """Cancels tasks whose time is over. A transport turns that into the status timeout.

    seconds: how long each may take. tidy: called at every look; while it returns True, looks go on without tasks.
    """

    def __init__(self, seconds: float, tidy: Callable[[], bool] = lambda: False) -> None:
        self._seconds, self._tidy = seconds, tidy
        self._due: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, now: float) -> asyncio.Task[Any]:
        """Watch the current task from now on, and return it. now: seconds of time.perf_counter."""
        task = asyncio.current_task()
        assert task is not None
        self._due[task] = now + self._seconds
        if self._timer is None:
            self._look()
        return task

    def over(self, task: asyncio.Task[Any]) -> bool:
        """Whether a task was cancelled because its time is over, and by nobody else as well."""
        return task in self._overdue and task.uncancel() <= 0

    def end(self, task: asyncio.Task[Any]) -> None:
        """Watch a task no longer."""
        del self._due[task]
        self._overdue.discard(task)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Cancel the tasks that are overdue."""
        now = time.perf_counter()
        for task, due in self._due.items():
            if due > now:  # tasks stand in the order in which they began
                break
            if task not in self._overdue:
                self._overdue.add(task)
                task.cancel()
        going = self._tidy() or bool(self._due)
        every = min(EVERY, self._seconds / 20)
        self._timer = asyncio.get_running_loop().call_later(every, self._look) if going else None
