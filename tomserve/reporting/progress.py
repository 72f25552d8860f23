"""Progress of a run, a measurement or a scoring: a live bar on a terminal, elsewhere a plain line every few seconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tomserve.content.text import format_duration, sanitize
from tomserve.engine.runner import RunStatus
from tomserve.reporting.table_layout import Terminal
from tomserve.runs.progress import LONG_PAUSE, LOUD, Listener, MeasureListener
from tomserve.status import ANSWERS, listed

PLAIN_EVERY = 5.0  # seconds between two lines of progress where there is no terminal
SLOW = 30.0  # seconds after which the request that has waited longest is named


class _Bar(Progress):
    """A bar with a text below it, which goes on in further lines where the terminal is narrow."""

    more = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """The bar, then the text."""
        yield from super().get_renderables()
        if self.more:
            yield Text(self.more)


class RunScreen(Listener):
    """A Listener of an evaluation (see tomserve.runs.progress) that counts rows and shows how far the run is. console:
    where to write. quiet: write only the messages that begin as one of LOUD."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self.console, self.quiet = console, quiet
        self._live: _Bar | None = None
        self._count_anew(0, 0)

    def _count_anew(self, total: int, done: int) -> None:
        self.announced, self.before = total, done
        self.statuses: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.written = self.retries = 0
        self.now = RunStatus()
        self._client_bound = 0.0  # seconds
        self._status_at = time.monotonic()
        self._began = self._printed = time.monotonic()
        self._cpu = time.process_time()

    def message(self, text: str) -> None:
        """Print a message of the evaluation."""
        if not self.quiet or text.startswith(LOUD):
            # It may quote a stranger's file or server, so it must not be able to control the terminal.
            self.console.print(sanitize(text), markup=False, highlight=False)

    def begin_phase(self, total: int, done: int) -> None:
        """Begin to show progress: `total` rows in all, of which `done` were answered before."""
        self._count_anew(total, done)
        if self.console.is_terminal and not self.console.is_dumb_terminal and not self.quiet:
            columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
            self._live = _Bar(*columns, console=self.console, transient=True)
            self._task = self._live.add_task("asking", total=total, completed=done, left="")
            self._live.more = self._more()
            self._live.start()

    def end_phase(self) -> None:
        """End the display, and print a line that sums up what was written, if anything was."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        if self.written and not self.quiet:
            self.console.print(self.summary(), markup=False, highlight=False)
        self.written = 0

    @property
    def total(self) -> int:
        """Rows of the whole run, as far as is known by now: programs find out while they run what they have to ask."""
        return self.announced + self.now.extra_requests

    @property
    def rate(self) -> float:
        """Rows written per second since the start of this session."""
        return self.written / max(time.monotonic() - self._began, 1e-9)

    @property
    def failures(self) -> dict[str, int]:
        """How many rows of this session hold no answer, by their status."""
        return {status: count for status, count in sorted(self.statuses.items()) if status not in ANSWERS}

    def row(self, row: dict[str, Any]) -> None:
        """Count a row that was written: its status, retries and tokens."""
        self.written += 1
        self.statuses[row["status"]] += 1
        if not row["reused"]:
            self.retries += row["attempts"] - 1
            for name, count in (row["usage"] or {}).items():
                self.tokens[name] += count

    def status(self, status: RunStatus) -> None:
        """Show the runner's state; it comes several times a second, so that a run waits visibly for its last slow
        requests."""
        before, self._status_at = self._status_at, time.monotonic()
        self._client_bound += (self._status_at - before) * status.client_bound
        self.now = status
        self._show()

    def _more(self) -> str:
        now = self.now
        begun = [f"{self.rate:.1f}/s"] if self.written else ["waiting for the first reply"]
        parts = [*begun, *([f"{now.in_flight} in flight"] if now.in_flight or self.written else [])]
        if now.queue is not None:
            parts.append(f"queue {now.queue}")
        if now.cached is not None:
            parts.append(f"{now.cached:.0%} cached")
        if now.retrying:
            parts.append(f"{now.retrying} waiting to retry")
        if now.pause >= LONG_PAUSE:
            until = time.strftime("%H:%M:%S", time.localtime(time.time() + now.pause))
            parts.append(f"paused by the server until {until} ({now.pause:.0f} s)")
        if now.client_bound:
            parts.append("this client is the limit")
        if self.failures:
            parts.append(listed(self.failures))
        if now.oldest and (slow := now.oldest[1]) > SLOW:
            parts.append(sanitize(f"slowest {now.oldest[0].item} ({now.oldest[0].strategy}) {slow:.0f} s"))
        return ", ".join(parts)

    def summary(self) -> str:
        """One line for the end of a run: time, rate, tokens, retries, failures, and this program's share of one CPU
        core."""
        wall = max(time.monotonic() - self._began, 1e-9)
        share = (time.process_time() - self._cpu) / wall
        parts = [f"{self.written} rows in {wall:.0f} s ({self.written / wall:.1f}/s)"]
        if self.tokens["prompt"]:
            prompt, completion = (self.tokens[name] / wall for name in ("prompt", "completion"))
            parts.append(f"{prompt:.0f} prompt{self._cache()} and {completion:.0f} completion tokens/s")
        if self.now.limit_found:
            parts.append(f"concurrency found: {self.now.limit}")
        if self._client_bound > wall / 4:
            parts.append("this client was the limit")
        failed = sum(self.failures.values())
        return "; ".join([*parts, f"{self.retries} retries", f"{failed} failed requests", f"client CPU {share:.0%}"])

    def _cache(self) -> str:
        """How much of the prompts the server took from its prefix cache, and the most that it could have taken; empty
        where the server does not say."""
        cached, bound = self.now.cached, self.now.shareable
        if cached is None or bound is None:
            return ""
        return f" ({cached:.0%} cached, about {bound:.0%} shareable)"

    def _show(self) -> None:
        done = self.before + self.written
        if self._live:
            self._live.more = self._more()
            self._live.update(self._task, completed=done, total=self.total, left=self._left())
        elif not self.quiet and time.monotonic() - self._printed >= PLAIN_EVERY:
            self._printed = time.monotonic()
            said = ", ".join(filter(None, (self._more(), self._left())))
            self.console.print(f"  {done}/{self.total}  {said}", markup=False)

    def _left(self) -> str:
        """How long it will still take; empty where that cannot be said, as while a server takes no requests."""
        left = self.total - self.before - self.written
        if not self.written or left <= 0 or self.now.pause >= LONG_PAUSE:
            return ""
        return f"about {format_duration(left / self.rate)} left"


MEASURE_EVERY = 10.0  # seconds between two lines of progress where there is no terminal
SETTLED = 2.0  # seconds after which the rate of a phase says something about the time that is left


class MeasureScreen(MeasureListener):
    """A MeasureListener (see tomserve.runs.progress) that writes to a console. console: where to write. quiet: write
    only what is noted and begins as one of LOUD. clock: the time in seconds, for tests."""

    def __init__(self, console: Console, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._quiet, self._clock = console, quiet, clock
        self._name = ""
        self._total = self._done = 0
        self._began = self._printed = clock()
        self._live: Progress | None = None

    def phase(self, name: str, total: int) -> None:
        """End the phase before with a line that sums it up, and begin to show another. name: what is done now, in a few
        words. total: in how many steps."""
        self.done()
        self._name, self._total, self._done = name, total, 0
        self._began = self._printed = self._clock()
        if self._console.is_terminal and not self._console.is_dumb_terminal and not self._quiet:
            bar = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[more]}"),
            )
            self._live = Progress(*bar, console=self._console, transient=True)
            self._task = self._live.add_task(name, total=total, more="")
            self._live.start()

    def advance(self, n: int) -> None:
        """Show that n more steps are done."""
        self._done += n
        if self._live is not None:
            self._live.update(self._task, completed=self._done, more=self._more())
        elif not self._quiet and self._clock() - self._printed >= MEASURE_EVERY:
            self._printed = self._clock()
            self._line(f"  {self._name}: {self._done:,}/{self._total:,}  {self._more()}")

    def note(self, text: str) -> None:
        """Print a line for the user, above the bar where there is one."""
        if not self._quiet or text.startswith(LOUD):
            self._line(text)

    def done(self) -> None:
        """End the display of the phase with a line that says what was done in which time; nothing where there is none,
        so that it may be called twice."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        name, self._name = self._name, ""
        if name and not self._quiet:
            counted = f"{self._done:,}" if self._done >= self._total else f"{self._done:,} of {self._total:,}"
            self._line(f"{name}: {counted} in {format_duration(self._seconds)} ({self._rate:.3g}/s)")

    @property
    def _seconds(self) -> float:
        return max(self._clock() - self._began, 1e-9)

    @property
    def _rate(self) -> float:
        return self._done / self._seconds

    def _more(self) -> str:
        """The rate, and how long it will still take where that can be said."""
        parts = [f"{self._rate:.3g}/s"]
        if self._done and self._seconds >= SETTLED and self._done < self._total:
            parts.append(f"about {format_duration((self._total - self._done) / self._rate)} left")
        return ", ".join(parts)

    def _line(self, text: str) -> None:
        # It may quote a stranger's file, so it must not be able to control the terminal.
        self._console.print(sanitize(text), markup=False, highlight=False, soft_wrap=not self._console.is_terminal)


class ScoringBar:
    """A bar on standard error that grows with each part that is scored; nothing is shown where that is no terminal."""

    def __init__(self) -> None:
        console = Terminal(stderr=True)
        columns = (TextColumn("scoring parts"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("scoring parts", total=None)

    def __enter__(self) -> ScoringBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def done(self, number: int, total: int) -> None:
        """Count a part. number: of the part, from 0. total: how many parts there are."""
        self._bar.update(self._task, completed=number + 1, total=total)
