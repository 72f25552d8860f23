"""Shows how many parts of an evaluation are scored: as a bar on a terminal, and not at all elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tomserve.reporting.terminal import Terminal


class Scoring:
    """A bar on standard error that grows with each part that is scored; nothing is shown where that is no terminal."""

    def __init__(self) -> None:
        console = Terminal(stderr=True)
        columns = (TextColumn("scoring parts"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("scoring parts", total=None)

    def __enter__(self) -> Scoring:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def done(self, number: int, total: int) -> None:
        """Count a part. number: of the part, from 0. total: how many parts there are."""
        self._bar.update(self._task, completed=number + 1, total=total)
