"""What all transports do with a request: time it, end it where it takes too long, keep the API key out of its reply.

One timer for all requests takes less CPU time than one for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from tomserve.engine.masking import Mask
from tomserve.engine.transport import Reply, without_key
from tomserve.status import TIMEOUT

EVERY = 0.25
"""Seconds between two looks at most."""


class Deadlines:
    """The requests of one transport, each with the time by which it has to be answered.

    seconds: how long each may take. key: the API key that no reply may hold. tidy: called at every look; while it
    returns True, looks go on without requests.
    """

    def __init__(self, seconds: float, key: str | None = None, tidy: Callable[[], bool] = lambda: False) -> None:
        self._seconds, self._mask, self._tidy = seconds, Mask(key), tidy
        self._due: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def reply(self, asking: Coroutine[Any, Any, Reply]) -> Reply:
        """The reply that `asking` returns, or one with the status timeout where its time is over first."""
        began = time.perf_counter()
        task = asyncio.current_task()
        assert task is not None
        self._due[task] = began + self._seconds
        if self._timer is None:
            self._look()
        try:
            reply = await asking
        except asyncio.CancelledError:
            if task not in self._overdue or task.uncancel() > 0:  # somebody else cancelled it, too
                raise
            reply = Reply(TIMEOUT, error="no complete reply in time")
        finally:
            del self._due[task]
            self._overdue.discard(task)
        without_key(reply, self._mask)
        reply.timings["total_s"] = round(time.perf_counter() - began, 6)
        return reply

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
