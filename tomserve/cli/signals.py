"""Ctrl-C and SIGTERM while an evaluation asks: the first lets what is in flight come back, the second ends at once.

Before and after the asking a signal ends the command by an error that `main` raises; here an event loop hears them.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from tomserve.errors import StoppedError

if TYPE_CHECKING:
    from tomserve.runs.evaluation import Evaluation

HEARD = (signal.SIGINT, signal.SIGTERM)


def heard(evaluation: Evaluation) -> None:
    """Ask all of an evaluation. Raises StoppedError with the exit code of the first signal, where one came."""
    handlers = {number: signal.getsignal(number) for number in HEARD}
    caught: list[int] = []
    try:
        asyncio.run(_ask(evaluation, caught))
    except StoppedError as error:
        raise StoppedError(str(error), 128 + caught[0]) from None
    finally:
        for number, handler in handlers.items():  # the loop takes them away; what comes after must end well, too
            signal.signal(number, handler)


async def _ask(evaluation: Evaluation, caught: list[int]) -> None:
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
