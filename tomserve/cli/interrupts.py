"""Ctrl-C, SIGTERM and SIGHUP: while a model is asked, the first waits for replies under way; else a signal ends the
command.

Python raises what a signal's handler raises in whatever function runs just then. Where that is a ``__del__`` or a
callback from C, or code with ``except BaseException``, the error is dropped. So it is watched: where it is gone
before the command has ended, another one is raised; where a library computes for long without coming back to Python,
the process is ended.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import gc
import os
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from tomserve.content import files
from tomserve.engine import transports
from tomserve.errors import Interrupted, StoppedError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from tomserve.runs.progress import Listener, Stop


HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

TRIES = 100
"""How often one signal is raised again. A loop that swallows whatever is raised in it shall not spin for ever; each
`__del__` within another, and each ``try`` around another, takes one."""

LOOKS = (0.3, 1.0, 3.0)
"""Seconds between the looks whether an error that was swallowed is held by nothing but itself, as by a variable of the
function that swallowed it."""

HANDLED = b"\0"
"""What the handler of signals tells the guard; no signal has this number."""

PATIENCE = 1.5
"""Seconds after which a signal ends the process whose handler has not been called: a library then computes, or waits,
without coming back to Python."""


class PersistentSignals:
    """Turns signals into errors until one of them has arrived in `main`.

    `listen` begins and `forget` ends it: what becomes of an error that has arrived in `main` is of no interest.
    """

    def __init__(self) -> None:
        self._number = signal.SIGTERM
        self._tries = 0
        self._watched: set[weakref.ref[BaseException]] = set()
        self._set = self._again = self._looking = False
        self._taken: list[signal.Signals] = []
        self._told = self._tells = -1  # a pipe that tells the guard that a signal has come
        self._shown: Callable[[UnraisableHookArgs], object] = sys.unraisablehook
        ours = (self._heard, self._hushed, self._gone, self._set_trap, self._spring, self._unsprung)
        self._ours = {method.__code__ for method in ours}

    def listen(self) -> None:
        """Hear signals from now on, in the main thread; not SIGHUP where it is ignored, as by `nohup`."""
        self._watched.clear()
        self._taken = [one for one in HEARD if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
        for number in self._taken:
            signal.signal(number, self._heard)
        if sys.unraisablehook != self._hushed:
            self._shown, sys.unraisablehook = sys.unraisablehook, self._hushed
        if self._told < 0:
            self._told, self._tells = os.pipe()
            os.set_blocking(self._tells, False)
            os.register_at_fork(after_in_child=self._forked)
            _thread.start_new_thread(self._guard, (self._told,))
        self.guarded()

    def guarded(self) -> None:
        """Have the guard told of signals, also where an event loop had them told to itself in the meantime."""
        if self._taken and signal.getsignal(self._taken[0]) == self._heard:
            signal.set_wakeup_fd(self._tells, warn_on_full_buffer=False)

    def forget(self) -> None:
        """Watch no error any longer, as the command has ended. From now on a signal ends the process at once."""
        self._watched.clear()
        self._set = False
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)

    def _forked(self) -> None:
        """A process that was forked has no guard, and must not tell that of its parent."""
        if self._told >= 0:
            os.close(self._told)
            os.close(self._tells)
            self._told = self._tells = -1
            with contextlib.suppress(ValueError):  # it was not the main thread that forked
                signal.set_wakeup_fd(-1)

    def _guard(self, told: int) -> None:
        """The thread that ends the process where the main thread does not come to call the handler of a signal."""
        while number := os.read(told, 1):
            if number[0] not in HEARD:
                continue
            one, came = signal.Signals(number[0]), time.monotonic()
            while not self._handled(told) and signal.getsignal(one) == self._heard:
                if time.monotonic() - came > PATIENCE:
                    self._end(one)
                if threading.main_thread().is_alive():
                    # Some libraries have signals go unnoticed by whoever waits for another process, or for a reply.
                    signal.siginterrupt(one, True)
                    signal.pthread_kill(threading.main_thread().ident or 0, one)

    def _handled(self, told: int) -> bool:
        """Whether the handler says within a fifth of a second, by the same pipe, that it was called. What it says comes
        behind the signal there, so that it cannot be taken for an earlier one, however late this thread looks."""
        until = time.monotonic() + 0.2
        while (left := until - time.monotonic()) > 0:
            if select.select([told], [], [], left)[0] and os.read(told, 1) == HANDLED:
                return True
        return False

    def _end(self, number: signal.Signals) -> None:
        """End the process as it is, without what it has in temporary files."""
        files.abandon_temporaries()
        with contextlib.suppress(OSError):
            os.write(2, f"tomserve: {Interrupted(number)}\n".encode())
        os._exit(128 + number)

    # No function here keeps the error in a variable: its traceback holds the handler's frame, so that it would hold
    # itself, and that it is gone would be noticed only when Python next looks for such circles.

    def _heard(self, number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(self._tells, HANDLED)
        again, self._again = self._again, False
        if not again:
            self._number, self._tries = signal.Signals(number), TRIES
        if any(one.f_code in self._ours for one in _outward(frame)):
            self._set_trap(frame)  # what is raised in the functions below would be swallowed, too
        else:
            raise self._watch(Interrupted(number))

    def _watch(self, error: BaseException) -> BaseException:
        self._watched.add(weakref.ref(error, self._gone))
        if not self._looking:
            self._looking = True
            _thread.start_new_thread(self._look, ())  # threading's own locks may be held by what was interrupted
        return error

    def _look(self) -> None:
        for seconds in LOOKS:
            time.sleep(seconds)
            if self._watched:
                gc.collect()
        self._looking = False

    def _hushed(self, ignored: UnraisableHookArgs) -> None:
        """Show what Python ignores as ever, but not a signal, which will be raised again."""
        if not isinstance(ignored.exc_value, Interrupted):
            self._shown(ignored)

    def _gone(self, reference: weakref.ref[BaseException]) -> None:
        """Called when nobody holds an error of ours any more."""
        if reference not in self._watched:
            return
        self._watched.discard(reference)
        if self._tries <= 0:
            return
        self._tries -= 1
        if threading.get_ident() == threading.main_thread().ident:
            self._set_trap(sys._getframe())
        else:
            self._again = True
            _thread.interrupt_main(self._number)  # the handler is called in the main thread

    def _set_trap(self, frame: FrameType | None) -> None:
        """Let the next line of the functions that called ours raise, whichever of them goes on first.

        To raise the signal once more would not do: the handler would mostly be called here, or in the next `__del__`.
        A function that is being traced goes on in its own code, so that what is raised there is raised for it.
        """
        outside = list(_outward(frame))
        while any(one.f_code in self._ours for one in outside):
            del outside[0]
        for one in outside:
            one.f_trace = self._spring
        self._set = True
        sys.settrace(self._unsprung)

    def _spring(self, frame: FrameType, event: str, argument: Any) -> None:
        del frame, event, argument
        if self._set:
            self._set = False
            sys.settrace(None)
            raise self._watch(Interrupted(self._number))

    def _unsprung(self, frame: FrameType, event: str, argument: Any) -> None:
        """Trace no function that begins now: it may be the next `__del__`."""


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


SIGNALS = PersistentSignals()
"""The signals of this process."""


class Stoppable(Protocol):
    """Something that asks until its switch `stop` is turned, such as an evaluation."""

    listener: Listener
    stop: Stop

    async def ask(self) -> None:
        """Ask everything that is left. Raises StoppedError where `stop` ended it early."""
        ...


BUSY = 0.5
"""Seconds for which a signal goes unheard until it ends the command whatever it is doing: it is then in the middle of
something that does not end, such as a template, or a strategy's own program."""


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
            end()
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
