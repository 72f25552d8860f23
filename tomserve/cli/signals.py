"""Ctrl-C and SIGTERM while an evaluation asks: the first waits for the replies under way, the second ends at once.

Before and after the asking, a signal ends the command by the error that tomserve.cli.app raises for it.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Protocol

from tomserve.errors import StoppedError

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


def heard(evaluation: Asking) -> None:
    """Ask all questions of an evaluation, or of a reader, while listening to signals.

    Raises StoppedError where a signal came, with the first signal's exit code (128 and its number).
    """
    handlers = {number: signal.getsignal(number) for number in HEARD}
    caught: list[int] = []
    try:
        asyncio.run(_ask(evaluation, caught))
    except StoppedError as error:
        raise StoppedError(str(error), 128 + caught[0]) from None
    finally:
        for (
            number,
            handler,
        ) in handlers.items():  # the event loop has removed them, and what follows can be interrupted, too
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

    for number in HEARD:
        loop.add_signal_handler(number, on_signal, number)
    await evaluation.ask()
