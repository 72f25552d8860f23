"""A switch that ends an evaluation early, from whichever thread it is turned."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from tomserve.errors import StoppedError

INTERRUPTED = 130
"""The exit code of what Ctrl-C ended; a command line that was ended by another signal has another."""


class Stop:
    """Turned once and for all by `set`: nothing new is asked, and what is in flight has half a minute to come back.

    >>> stop = Stop()
    >>> stop.set()
    >>> stop.is_set()
    True
    """

    def __init__(self) -> None:
        self._turned = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def set(self) -> None:
        """End the evaluation; safe to call from any thread, a signal handler of an event loop, and twice."""
        self._turned.set()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # that loop has ended, and nobody waits there any more
                loop.call_soon_threadsafe(event.set)

    def is_set(self) -> bool:
        """Whether it was turned."""
        return self._turned.is_set()

    def event(self) -> asyncio.Event:
        """An event of the running loop that is set when the switch is turned."""
        event = asyncio.Event()
        with self._lock:
            if not self._turned.is_set():
                self._waiting.append((asyncio.get_running_loop(), event))
                return event
        event.set()
        return event

    def check(self) -> None:
        """Raise StoppedError where it was turned: for the work before and after asking."""
        if self.is_set():
            raise StoppedError(
                "stopped; everything that was answered is kept; repeat the command to resume", INTERRUPTED
            )
