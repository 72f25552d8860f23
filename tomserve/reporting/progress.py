"""Progress of a run: a live bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tomserve.engine.observe import Status
from tomserve.status import ANSWERS, listed

PLAIN_EVERY = 5.0  # seconds
SLOW = 30.0  # seconds after which the oldest request is named


class Screen:
    """A Listener of an evaluation (see tomserve.runs.listening) that writes to a console.

    quiet: without the progress of a phase; messages and the line at its end are written all the same.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._progress: RunProgress | None = None

    def message(self, text: str) -> None:
        """See Listener."""
        self._console.print(text, markup=False, highlight=False)

    def started(self, total: int, done: int) -> None:
        """See Listener."""
        self._progress = RunProgress(self._console, total, done, quiet=self._quiet)
        self._progress.__enter__()

    def row(self, row: dict[str, Any]) -> None:
        """See Listener."""
        if self._progress is not None:
            self._progress.row(row)

    def status(self, status: Status) -> None:
        """See Listener."""
        if self._progress is not None:
            self._progress.status(status)

    def finished(self) -> None:
        """See Listener."""
        progress, self._progress = self._progress, None
        if progress is not None:
            progress.__exit__(None, None, None)
            if progress.written:
                self._console.print(progress.summary(), markup=False, highlight=False)


class RunProgress:
    """An Observer of the runner (see tomserve.engine.runner). `done` rows were there before."""

    def __init__(self, console: Console, total: int, done: int, *, quiet: bool = False) -> None:
        self.console, self.total, self.before, self.quiet = console, total, done, quiet
        self.statuses: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.written = self.reused = self.retries = 0
        self.now = Status()
        self._client_bound = 0.0  # seconds
        self._told = time.monotonic()
        self._began = self._printed = time.monotonic()
        self._cpu = time.process_time()
        self._live: Progress | None = None
        if console.is_terminal and not quiet:
            columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[more]}"))
            self._live = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
            self._task = self._live.add_task("asking", total=total, completed=done, more="")

    def __enter__(self) -> RunProgress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def rate(self) -> float:
        """Rows a second since the start."""
        return self.written / max(time.monotonic() - self._began, 1e-9)

    @property
    def failures(self) -> dict[str, int]:
        """Rows of this session that hold no answer, by status."""
        return {status: count for status, count in sorted(self.statuses.items()) if status not in ANSWERS}

    def row(self, row: Mapping[str, Any]) -> None:
        """See Observer."""
        self.written += 1
        self.statuses[row["status"]] += 1
        if row["reused"]:
            self.reused += 1
        else:
            self.retries += row["attempts"] - 1
            for name, count in (row["usage"] or {}).items():
                self.tokens[name] += count

    def status(self, status: Status) -> None:
        """See Observer: several times a second, so that a run whose last requests are slow still says so."""
        told, self._told = self._told, time.monotonic()
        self._client_bound += (self._told - told) * status.client_bound
        self.now = status
        self._show()

    def _more(self) -> str:
        now = self.now
        parts = [f"{self.rate:.1f}/s", f"{now.out} of {now.limit} in flight"]
        if now.queue is not None:
            parts.append(f"queue {now.queue}")
        if now.cached is not None:
            parts.append(f"{now.cached:.0%} cached")
        if now.retrying:
            parts.append(f"{now.retrying} waiting to retry")
        if now.client_bound:
            parts.append("this client is the limit")
        if self.failures:
            parts.append(listed(self.failures))
        if now.oldest and (slow := now.oldest[1]) > SLOW:
            parts.append(f"slowest {now.oldest[0].item} ({now.oldest[0].strategy}) {slow:.0f} s")
        return ", ".join(parts)

    def summary(self) -> str:
        """One line for the end: time, rate, tokens, retries, failures, the client's share of one core."""
        wall = max(time.monotonic() - self._began, 1e-9)
        share = (time.process_time() - self._cpu) / wall
        parts = [f"{self.written} rows in {wall:.0f} s ({self.written / wall:.1f}/s)"]
        if self.tokens["prompt"]:
            prompt, completion = (self.tokens[name] / wall for name in ("prompt", "completion"))
            parts.append(f"{prompt:.0f} prompt{self._cache()} and {completion:.0f} completion tokens/s")
        if self.now.found:
            parts.append(f"concurrency found: {self.now.limit}")
        if self._client_bound > wall / 4:
            parts.append("this client was the limit")
        parts += [f"{self.retries} retries", f"{sum(self.failures.values())} failures", f"client CPU {share:.0%}"]
        return "; ".join(parts)

    def _cache(self) -> str:
        """What of the prompts came from the prefix cache, and the most that could have."""
        cached, bound = self.now.cached, self.now.shareable
        if cached is None or bound is None:
            return ""
        return f" ({cached:.0%} cached, about {bound:.0%} shareable)"

    def _show(self) -> None:
        done = self.before + self.written
        if self._live:
            self._live.update(self._task, completed=done, more=self._more())
        elif not self.quiet and time.monotonic() - self._printed >= PLAIN_EVERY:
            self._printed = time.monotonic()
            left = (self.total - done) / self.rate if self.written else float("nan")
            self.console.print(f"  {done}/{self.total}  {self._more()}, about {left:.0f} s left", markup=False)
