"""SIGINT and SIGTERM as an error that ends the command, wherever it is, and that nothing can swallow.

Python raises what a signal's handler raises in whatever function runs just then. Where that is a ``__del__`` or a
callback from C, the error is dropped after a traceback on standard error, and a library's ``except Exception`` drops it
silently; the command would then go on to its end as if nobody had asked it to stop. So the error is watched: where it
is gone before `main` has caught it, another one is raised, in the first function that goes on.
"""

from __future__ import annotations

import _thread
import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from tomserve.errors import StoppedError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

HEARD = (signal.SIGINT, signal.SIGTERM)

TRIES = 100
"""How often one signal is raised again. A loop that swallows whatever is raised in it shall not spin for ever; each
`__del__` within another, and each ``try`` around another, takes one."""

LOOKS = (0.3, 1.0, 3.0)
"""Seconds between the looks whether an error that was swallowed is held by nothing but itself, as by a variable of the
function that swallowed it."""


class Insisted(SystemExit):
    """What is raised where a StoppedError was swallowed: no ``except Exception`` catches it.

    number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def stopped(number: int) -> StoppedError:
    """The error by which that signal ends the command."""
    return StoppedError(f"stopped by {signal.Signals(number).name}; repeat the command to go on", 128 + number)


class Insisting:
    """Turns signals into errors until one of them has arrived in `main`.

    `listen` begins and `forget` ends it: what becomes of an error that has arrived in `main` is of no interest.
    """

    def __init__(self) -> None:
        self._number = signal.SIGTERM
        self._tries = 0
        self._watched: set[weakref.ref[BaseException]] = set()
        self._set = self._again = self._looking = False
        self._shown: Callable[[UnraisableHookArgs], object] = sys.unraisablehook
        ours = (self._heard, self._hushed, self._gone, self._set_trap, self._spring, self._unsprung)
        self._ours = {method.__code__ for method in ours}

    def listen(self) -> None:
        """Hear signals from now on, in the main thread."""
        self._watched.clear()
        for number in HEARD:
            signal.signal(number, self._heard)
        if sys.unraisablehook != self._hushed:
            self._shown, sys.unraisablehook = sys.unraisablehook, self._hushed

    def forget(self) -> None:
        """Watch no error any longer, as the command has ended."""
        self._watched.clear()
        self._set = False

    def arrived(self) -> None:
        """Watch no longer, as a signal has ended the command. A further one ends the process at once."""
        self.forget()
        for number in HEARD:
            signal.signal(number, signal.SIG_DFL)

    # No function here keeps the error in a variable: its traceback holds the handler's frame, so that it would hold
    # itself, and that it is gone would be noticed only when Python next looks for such circles.

    def _heard(self, number: int, frame: FrameType | None) -> None:
        again, self._again = self._again, False
        if not again:
            self._number, self._tries = signal.Signals(number), TRIES
        if any(one.f_code in self._ours for one in _outward(frame)):
            self._set_trap(frame)  # what is raised in the functions below would be swallowed, too
        else:
            raise self._watch(Insisted(number) if again else stopped(number))

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
        if not isinstance(ignored.exc_value, StoppedError | Insisted):
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
            raise self._watch(Insisted(self._number))

    def _unsprung(self, frame: FrameType, event: str, argument: Any) -> None:
        """Trace no function that begins now: it may be the next `__del__`."""


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
