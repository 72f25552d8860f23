"""Progress of a run: a live bar on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tomserve.engine.request import Identity

PLAIN_EVERY = 5.0  # seconds
SLOW = 30.0  # seconds after which the oldest request is named


class RunProgress:
    """An Observer of the runner (see tomserve.engine.runner). `done` rows were there before."""

    def __init__(self, console: Console, total: int, done: int, *, quiet: bool = False) -> None:
        self.console, self.total, self.before, self.quiet = console, total, done, quiet
        self.statuses: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.written = self.reused = self.waiting = self.retries = 0
        self._out: dict[Identity, float] = {}
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
        """Rows of this session that are neither ok nor length, by status."""
        return {status: count for status, count in sorted(self.statuses.items()) if status not in ("ok", "length")}

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
        self._show()

    def sending(self, identity: Identity, delta: int) -> None:
        """See Observer."""
        if delta > 0:
            self._out.setdefault(identity, time.monotonic())
        else:
            self._out.pop(identity, None)

    def retrying(self, delta: int) -> None:
        """See Observer."""
        self.waiting += delta
        self._show()

    @property
    def in_flight(self) -> int:
        """Requests that are out."""
        return len(self._out)

    def _more(self) -> str:
        parts = [f"{self.rate:.1f}/s", f"{self.in_flight} in flight"]
        if self.waiting:
            parts.append(f"{self.waiting} waiting to retry")
        parts += [f"{count} {status}" for status, count in self.failures.items()]
        if self._out:  # the first that went out is the oldest
            identity, began = next(iter(self._out.items()))
            if (slow := time.monotonic() - began) > SLOW:
                parts.append(f"slowest {identity.item} ({identity.strategy}) {slow:.0f} s")
        return ", ".join(parts)

    def summary(self) -> str:
        """One line for the end: time, rate, tokens, retries, failures, the client's share of one core."""
        wall = max(time.monotonic() - self._began, 1e-9)
        share = (time.process_time() - self._cpu) / wall
        parts = [f"{self.written} rows in {wall:.0f} s ({self.written / wall:.1f}/s)"]
        if self.tokens["prompt"]:
            cached = f", {self.tokens['cached'] / self.tokens['prompt']:.0%} cached" if self.tokens["cached"] else ""
            prompt, completion = (self.tokens[name] / wall for name in ("prompt", "completion"))
            parts.append(f"{prompt:.0f} prompt{cached} and {completion:.0f} completion tokens/s")
        parts += [f"{self.retries} retries", f"{sum(self.failures.values())} failures", f"client CPU {share:.0%}"]
        return "; ".join(parts)

    def tick(self) -> None:
        """Called now and then, so that a run whose last requests are slow still says so."""
        self._show()

    def _show(self) -> None:
        done = self.before + self.written
        if self._live:
            self._live.update(self._task, completed=done, more=self._more())
        elif not self.quiet and time.monotonic() - self._printed >= PLAIN_EVERY:
            self._printed = time.monotonic()
            left = (self.total - done) / self.rate if self.written else float("nan")
            self.console.print(f"  {done}/{self.total}  {self._more()}, about {left:.0f} s left", markup=False)
