"""A switch that ends an evaluation early; any thread may turn it."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from tomserve.errors import StoppedError

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended: 128 plus the number of the signal, as shells have it."""


class Stop:
    """A switch that `set` turns for good: nothing new is asked then, and requests in flight have half a minute left.

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
        """End the evaluation. It may be called from any thread, from an event loop's signal handler, and repeatedly."""
        self._turned.set()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # that event loop has ended, so nothing waits in it any more
                loop.call_soon_threadsafe(event.set)

    def is_set(self) -> bool:
        """Whether the switch was turned."""
        return self._turned.is_set()

    def event(self) -> asyncio.Event:
        """An event of the running event loop that is set when the switch is turned."""
        event = asyncio.Event()
        with self._lock:
            if not self._turned.is_set():
                self._waiting.append((asyncio.get_running_loop(), event))
                return event
        event.set()
        return event

    def check(self) -> None:
        """Raise StoppedError if the switch was turned; called in the work before and after the asking."""
        if self.is_set():
            raise StoppedError(
                "stopped; everything that was answered is kept; repeat the command to resume", INTERRUPTED
            )
