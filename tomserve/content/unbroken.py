"""Steps that a signal must not break in two, such as making a temporary file and remembering that it has to be removed.

>>> with unbroken():
...     made = "something that has to be removed again"
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class unbroken:  # noqa: N801  # it is used like a function, as contextlib.suppress is
    """A context in which a signal raises nothing: what it would raise is raised when the context is left.

    It is meant for steps that take no time. In other threads than the main one, where no signal arrives, it does
    nothing.
    """

    depth = 0
    late: Callable[[], None] | None = None

    def __init__(self) -> None:
        self._counts = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        if self._counts:
            unbroken.depth += 1

    def __exit__(self, *_: object) -> None:
        if self._counts:
            unbroken.depth -= 1
            if not unbroken.depth and (late := unbroken.late) is not None:
                unbroken.late = None
                late()


def put_off(what: Callable[[], None]) -> bool:
    """Have `what` called when the step under way is done; returns whether there is such a step.

    what: raises what a signal raises. It is called by the handler of a signal, in the main thread.
    """
    if unbroken.depth:
        unbroken.late = what
    return bool(unbroken.depth)
