"""Ctrl-C and SIGTERM while an evaluation asks: the first waits for the replies under way, the second ends at once.

Before and after the asking, a signal ends the command by the error that tomserve.cli.app raises for it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Protocol

from tomserve.engine import loop as event_loop
from tomserve.errors import StoppedError
from tomserve.runs.stopping import INTERRUPTED

if TYPE_CHECKING:
    from tomserve.runs.listening import Listener
    from tomserve.runs.stopping import Stop


class Asking(Protocol):
    """Something that asks until its switch `stop` is turned, such as an evaluation."""

    listener: Listener
    stop: Stop

    async def ask(self) -> None:
        """Ask everything that is left. Raises StoppedError where `stop` ended it early."""
        ...


HEARD = (signal.SIGINT, signal.SIGTERM)

BUSY = 0.5
"""Seconds for which a first signal goes unheard when a second one ends the command whatever it is doing: it is then in
the middle of something that does not end, such as a strategy's own program."""


def heard(evaluation: Asking) -> None:
    """Ask all questions of an evaluation, or of a reader, while listening to signals.

    Raises StoppedError where a signal came, with the first signal's exit code (128 and its number).
    """
    handlers = {number: signal.getsignal(number) for number in HEARD}
    caught: list[int] = []
    try:
        event_loop.run(_ask(evaluation, caught))
    except StoppedError as error:
        raise StoppedError(str(error), 128 + caught[0]) from None
    finally:
        for number, handler in handlers.items():  # what follows can be interrupted, too
            signal.signal(number, handler)


async def _ask(evaluation: Asking, caught: list[int]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def on_signal(number: int) -> None:
        caught.append(number)
        if len(caught) == 1:
            evaluation.listener.message("stopping: waiting for what is in flight (again to stop at once) ...")
            evaluation.stop.set()
        elif task is not None:
            task.cancel()

    unheard: list[tuple[int, float]] = []

    def on_arrival(number: int, frame: object) -> None:
        # The loop's own handlers would never be called while a strategy's program does not end.
        del frame
        if unheard and time.monotonic() - unheard[0][1] > BUSY:
            unheard.clear()
            caught.append(number)
            evaluation.stop.set()
            raise StoppedError("stopped while something kept on computing; repeat the command to go on", INTERRUPTED)
        unheard.append((number, time.monotonic()))
        loop.call_soon_threadsafe(on_heard)

    def on_heard() -> None:
        if unheard:
            on_signal(unheard.pop(0)[0])

    for number in HEARD:
        signal.signal(number, on_arrival)
    await evaluation.ask()
