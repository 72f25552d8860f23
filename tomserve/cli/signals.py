"""Ctrl-C, SIGTERM and SIGHUP while an evaluation asks: the first waits for the replies under way, the second ends it at
once.

Before and after the asking, a signal ends the command by the error that tomserve.cli.insisting raises for it.
"""

from __future__ import annotations

import _thread
import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any, Protocol

from tomserve.cli.insisting import HEARD, SIGNALS
from tomserve.content.temporary import defer
from tomserve.engine import transports as event_loop
from tomserve.errors import Interrupted, StoppedError

if TYPE_CHECKING:
    from tomserve.runs.progress import Listener, Stop


class Asking(Protocol):
    """Something that asks until its switch `stop` is turned, such as an evaluation."""

    listener: Listener
    stop: Stop

    async def ask(self) -> None:
        """Ask everything that is left. Raises StoppedError where `stop` ended it early."""
        ...


BUSY = 0.5
"""Seconds for which a signal goes unheard until it ends the command whatever it is doing: it is then in the middle of
something that does not end, such as a template, or a strategy's own program."""


def heard(evaluation: Asking) -> None:
    """Ask all questions of an evaluation, or of a reader, while listening to signals.

    Raises StoppedError where a signal came, with the first signal's exit code (128 and its number).
    """
    handlers = {number: signal.getsignal(number) for number in HEARD}
    handlers = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
    caught: list[int] = []
    try:
        event_loop.run_loop(_ask(evaluation, caught, list(handlers)))
    except StoppedError as error:
        raise StoppedError(str(error), 128 + caught[0]) from None
    finally:
        for number, handler in handlers.items():  # what follows can be interrupted, too
            signal.signal(number, handler)
        SIGNALS.guarded()


async def _ask(evaluation: Asking, caught: list[int], numbers: list[signal.Signals]) -> None:
    """Ask, while listening to these signals; those that came are added to `caught`."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def on_signal(number: int) -> None:
        caught.append(number)
        if len(caught) == 1:
            evaluation.listener.message("stopping: waiting for what is in flight (again to stop at once) ...")
            evaluation.stop.set()
        elif task is not None:
            task.cancel()

    def on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not caught:  # what ends early because a signal came has nothing to say
            loop.default_exception_handler(context)

    loop.set_exception_handler(on_error)
    unheard: list[tuple[int, float]] = []

    def on_arrival(number: int, frame: object) -> None:
        # The loop's own handlers would never be called while a strategy's program does not end.
        del frame
        if unheard and time.monotonic() - unheard[0][1] > BUSY:
            if not defer(end):
                end()
            return
        unheard.append((number, time.monotonic()))
        loop.call_soon_threadsafe(on_heard)
        _thread.start_new_thread(insist, (number, unheard[-1]))  # threading's own locks may be held

    def insist(number: int, what: tuple[int, float]) -> None:
        time.sleep(1.2 * BUSY)
        if what in unheard:
            _thread.interrupt_main(signal.Signals(number))

    def end() -> None:
        number, _ = unheard[0]
        unheard.clear()
        caught.append(number)
        evaluation.stop.set()
        raise Interrupted(number, " while something kept on computing")

    def on_heard() -> None:
        if unheard:
            on_signal(unheard.pop(0)[0])

    for number in numbers:
        signal.signal(number, on_arrival)
    await evaluation.ask()
