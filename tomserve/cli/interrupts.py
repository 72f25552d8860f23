"""Ctrl-C, SIGTERM and SIGHUP: while a model is asked, the first waits for replies under way; else a signal ends the
command.

A signal becomes an `Interrupted` in the main thread. Where a library computes without coming back to Python, or where
the error is lost, a second thread ends the process in the end.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from tomserve.content import files
from tomserve.engine import transports
from tomserve.errors import Interrupted, StoppedError

if TYPE_CHECKING:
    import asyncio
    from sys import UnraisableHookArgs

    from tomserve.runs.progress import Listener, Stop


HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

PATIENCE = 1.5
"""Seconds after which the process is ended where Python has not called the handler of a signal."""

GRACE = 60.0
"""Seconds that a command has to clean up; stopping servers takes longest."""

_HANDLED, _ENDED = b"\0", b"\xff"
"""What the guard is told besides the numbers of signals: a handler was called; the command has ended."""


class Signals:
    """The signals of this process: `listen` begins, and `forget` ends it."""

    def __init__(self) -> None:
        self._tells = -1  # the end of a pipe on which the guard is told of signals
        self._shown: Callable[[UnraisableHookArgs], object] = sys.unraisablehook

    def listen(self) -> None:
        """Hear signals from now on, in the main thread; not SIGHUP where it is ignored, as by `nohup`."""
        for number in HEARD:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._heard)
        if self._tells < 0:
            told, self._tells = os.pipe()
            os.set_blocking(self._tells, False)
            threading.Thread(target=self._guard, args=(told,), daemon=True).start()
            self._shown, sys.unraisablehook = sys.unraisablehook, self._ignored
        self.guarded()

    def guarded(self) -> None:
        """Have the guard told of signals, also where an event loop had them told to itself in the meantime."""
        if signal.getsignal(signal.SIGTERM) == self._heard:
            signal.set_wakeup_fd(self._tells, warn_on_full_buffer=False)

    def forget(self) -> None:
        """The command has ended. From now on a signal ends the process at once."""
        for number in HEARD:
            if signal.getsignal(number) == self._heard:
                signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        self._tell(_ENDED)

    def _tell(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._tells, what)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self._tell(_HANDLED)
        raise Interrupted(number)

    def _ignored(self, lost: UnraisableHookArgs) -> None:
        """Send a signal again that came in a ``__del__`` or in a callback from C, where Python drops every error."""
        if isinstance(lost.exc_value, Interrupted):
            _thread.start_new_thread(_send_later, (lost.exc_value.number,))  # threading's own locks may be held
        else:
            self._shown(lost)

    def _guard(self, told: int) -> None:
        """The thread that ends the process where a signal does not."""
        number, deadline = signal.SIGTERM, float("inf")
        while True:
            left = None if deadline == float("inf") else max(deadline - time.monotonic(), 0.0)
            if not select.select([told], [], [], left)[0]:
                files.abandon_temporaries()
                with contextlib.suppress(OSError):
                    os.write(2, f"tomserve: {Interrupted(number)}\n".encode())
                os._exit(128 + number)
            what = os.read(told, 1)
            if what == _ENDED:
                deadline = float("inf")
            elif what == _HANDLED:
                deadline = time.monotonic() + GRACE
            elif what[0] in HEARD and signal.getsignal(what[0]) == self._heard:
                number, deadline = signal.Signals(what[0]), min(deadline, time.monotonic() + PATIENCE)


def _send_later(number: int) -> None:
    time.sleep(0.1)
    os.kill(os.getpid(), number)


SIGNALS = Signals()


class Stoppable(Protocol):
    """Something that asks until its switch `stop` is turned, such as an evaluation."""

    listener: Listener
    stop: Stop

    async def ask(self) -> None:
        """Ask everything that is left. Raises StoppedError where `stop` ended it early."""
        ...


BUSY = 0.5
"""Seconds after which a signal that the event loop has not heard ends the command: something in it does not end, such
as a strategy's own program."""


def ask_with_signals(evaluation: Stoppable) -> None:
    """Ask all questions of an evaluation, or of a reader, while listening to signals.

    Raises StoppedError where a signal came, with the first signal's exit code (128 and its number).
    """
    handlers = {number: signal.getsignal(number) for number in HEARD}
    handlers = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
    caught: list[int] = []
    try:
        transports.run_loop(_ask(evaluation, caught, list(handlers)))
    except StoppedError as error:
        raise StoppedError(str(error), 128 + caught[0]) from None
    finally:
        for number, handler in handlers.items():  # what follows can be interrupted, too
            signal.signal(number, handler)
        SIGNALS.guarded()


async def _ask(evaluation: Stoppable, caught: list[int], numbers: list[signal.Signals]) -> None:
    """Ask, while listening to these signals; those that came are added to `caught`."""
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    unheard: list[float] = []  # when those came that the loop has not heard yet

    def on_arrival(number: int, frame: object) -> None:
        if unheard and time.monotonic() - unheard[0] > BUSY:
            caught.append(number)
            evaluation.stop.set()
            raise Interrupted(number, " while something kept on computing")
        unheard.append(time.monotonic())
        loop.call_soon_threadsafe(on_heard, number)
        _thread.start_new_thread(insist, (number, unheard[-1]))

    def insist(number: int, came: float) -> None:
        time.sleep(1.2 * BUSY)
        if came in unheard:
            _thread.interrupt_main(signal.Signals(number))

    def on_heard(number: int) -> None:
        unheard.clear()
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
    for number in numbers:
        signal.signal(number, on_arrival)
    await evaluation.ask()
