"""How many requests are out at one endpoint: grows while that brings throughput, until the server says stop.

Two sources of evidence. The server's own load (`Load`, where it has vLLM's /metrics): a queue above a small target,
preemptions, a full KV cache. And what every client sees: refusals (429, 503), and throughput. Throughput at a limit of
N is N times the work that one request gets done in a second (Little's law), so that an epoch of N answers measures it
however bursty they are; only requests sent since the last change count.

    grow    double as long as each doubling brings throughput and no queue builds up
    hold    what was found; look again after some epochs, or when throughput changes
    up      a trial above what is held: kept if it brings throughput
    down    a trial below, after growth has ended or throughput fell: kept if it costs none

A refusal or a queue cuts at once and needs no trial. Time is injected; nothing here waits.

>>> limit = Adaptive(start=8, clock=lambda: 0.0)
>>> limit.load(Load(running=8, waiting=0, kv=0.1, preemptions=0, queried=0, hit=0, block=None), out=8); limit.limit
16
>>> limit.load(Load(running=9, waiting=7, kv=0.1, preemptions=0, queried=0, hit=0, block=None), out=16); limit.limit
11
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tomserve.engine.load import Load

START = 16
MOST = 1024
GAIN = 0.06
"""Relative throughput that a doubling must bring to be kept."""

TRIAL = 1.25
"""How far a trial goes from what is held."""

CUT = 0.7
"""What a refusal or a preemption leaves of the limit."""

FULL = 0.95
"""Use of the KV cache above which a server begins to preempt."""

USED = 0.8
"""An answer tells something of a limit only while at least this share of it is out."""

LEAST_EPOCH = 16
"""Answers that an epoch needs at least, but at low limits: four rounds are enough there."""

OVERDUE = 1.5
"""An epoch that takes this multiple of its time at the throughput held is judged by what it has: a server that thrashes
takes ever longer to give evidence of it."""

NOTHING = 1e-9
"""Throughput of an epoch without an answer: a number to divide by."""

LOST = 0.8
"""Throughput below this multiple of what was held means that the server has changed."""

QUEUE_FLOOR = 8
"""A queue alone does not push the limit below this: waiting costs the run nothing but latency."""

PATIENCE = (3, 16)
"""Epochs between two trials: at first, and at most after trials that brought nothing."""

PROMPT_WEIGHT = 1 / 16
"""Work of a prompt token in completion tokens: it is computed in bulk."""


def work(usage: Mapping[str, int] | None) -> float:
    """The work in an answer: its tokens where they are told, else one unit an answer."""
    if not usage or "completion" not in usage:
        return 1.0
    return usage["completion"] + PROMPT_WEIGHT * usage.get("prompt", 0)


class _Base(NamedTuple):
    """What a trial is compared with: throughput at a level, mean work and seconds of an answer there."""

    level: float
    rate: float
    work: float
    seconds: float


class Adaptive:
    """The limit of one endpoint.

    held_back: set by the runner while the client itself is what limits. found: whether the limit rests on evidence.
    """

    def __init__(self, start: int = START, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.clock = most, clock
        self.start = min(start, most)
        self.held_back = self.found = False
        self.restart()

    def restart(self) -> None:
        """Forget everything: the server behind the endpoint is another, or was away."""
        self._level = float(self.start)
        self._mode = "grow"
        self._base: _Base | None = None
        self._upward = True  # the direction of the next trial
        self._settled = True  # whether no more than the limit was out at the last poll
        self._growing = 0  # polls in a row that found no queue
        self._patience, self._holds = PATIENCE[0], 0
        self._load: Load | None = None
        self._cut_at, self._answered = -math.inf, True
        self._queued = False  # whether a queue ended the growth, so that its absence may start it again
        self._begin()

    @property
    def limit(self) -> int:
        """Requests that may be out; at least one."""
        return max(1, round(self._level))

    def _begin(self) -> None:
        self._since = self.clock()
        self._count, self._seconds, self._work = 0, 0.0, 0.0

    def _move(self, level: float, mode: str) -> None:
        level = min(max(level, 1.0), float(self.most))
        if mode != self._mode:
            self._holds = 0
        self._mode = mode
        if round(level) != round(self._level):
            self._begin()
        self._level = level

    # what the client sees

    def answered(self, began: float, seconds: float, done: float, out: int) -> None:
        """An answer to a request sent at `began` took `seconds` for `done` units of work while `out` were out."""
        self._answered = True
        if began < self._since or out < USED * self.limit or seconds <= 0:
            return
        self._count += 1
        self._seconds += seconds
        self._work += done
        if self._count >= self._epoch:
            self._judge(self._level * self._work / self._seconds)

    @property
    def _epoch(self) -> int:
        """Answers that it takes to tell the throughput at this limit."""
        return max(self.limit, min(LEAST_EPOCH, 4 * self.limit))

    def tick(self, out: int) -> None:
        """Look at the clock while `out` are out: an epoch that is overdue ends."""
        if self._base is None or self._mode == "down" or out < USED * self.limit:
            return
        elapsed = self.clock() - self._since
        expected = self._epoch * self._base.work / self._base.rate
        if elapsed > OVERDUE * expected + 2 * self._base.seconds:
            if self._mode == "hold":  # a server that got slower, or requests that got longer: the trial will tell
                self._base = self._base._replace(rate=max(self._work / elapsed, NOTHING))
                self._move(self._level / TRIAL, "down")
                self._begin()
            else:
                self._judge(self._work / elapsed)

    def refused(self, began: float) -> None:
        """429 or 503 to a request sent at `began`. One cut answers for all that were out together."""
        if began <= self._cut_at or not self._answered:  # a second cut tells nothing before the first has been tried
            return
        self._cut(self._level, 4 * PATIENCE[1])  # a refusal costs more than the trial: it is asked again, later
        self._queued = False

    def _cut(self, level: float, patience: int) -> None:
        """Less at once: what was held before, if this came of a trial."""
        self._cut_at, self._answered, self.found = self.clock(), False, True
        if self._mode == "up" and self._base is not None:
            self._patience = min(2 * self._patience, patience)
            level = min(level, self._base.level)
        else:
            self._patience = PATIENCE[0]
            level *= CUT
        self._base, self._settled = None, False
        self._move(level, "hold")

    def _judge(self, rate: float) -> None:
        """End an epoch: throughput at this level is `rate`."""
        self.found = True
        base, count, rate = self._base, max(1, self._count), max(rate, NOTHING)
        found = _Base(self._level, rate, self._work / count, self._seconds / count)
        if not self._count and base is not None:
            found = found._replace(work=base.work, seconds=base.seconds)
        self._begin()
        if base is None:
            self._base = found
            if self._mode == "grow":
                self._raise(2.0)
            return
        gain = rate / base.rate - 1
        if self._mode in ("grow", "up"):
            if gain >= GAIN * math.log2(found.level / base.level):
                self._base, self._patience = found, PATIENCE[0]
                self._raise(2.0 if self._mode == "grow" else TRIAL)
            elif self._mode == "grow":  # too much already, perhaps
                self._queued = False
                self._move(base.level / TRIAL, "down")
            else:
                self._patience = min(2 * self._patience, PATIENCE[1])
                self._upward = False
                self._move(base.level, "hold")
        elif self._mode == "down":
            self._upward = True
            if gain >= -GAIN / 4 and self._level > 1:
                self._base, self._patience = found, PATIENCE[0]
                self._move(self._level / TRIAL, "down")
            else:
                self._move(base.level, "hold")
        else:
            self._hold(found, gain)

    def _hold(self, found: _Base, gain: float) -> None:
        assert self._base is not None
        self._holds += 1
        if 1 + gain < LOST:
            self._base, self._patience = found, PATIENCE[0]
            self._move(self._level * max(0.25, min(1 + gain, 1 / TRIAL)), "down")
        elif 1 + gain > 1 / LOST or self._holds >= self._patience:
            self._base, self._holds = found, 0
            if self._upward or 1 + gain > 1 / LOST:
                self._raise(TRIAL, "up")
            else:
                self._move(self._level / TRIAL, "down")
        else:
            self._base = found._replace(rate=(self._base.rate + found.rate) / 2)

    def _raise(self, factor: float, mode: str | None = None) -> None:
        factor = min(factor, self._room())
        if factor > 1.1:
            self._move(self._level * factor, mode or self._mode)
        else:
            self._move(self._level, "hold")

    # what the server says

    def load(self, load: Load, out: int) -> None:
        """The server's load, with `out` of ours among it."""
        before, self._load = self._load, load
        settled, self._settled = self._settled, out <= 1.1 * self._level
        self._growing = self._growing + 1 if load.waiting == 0 else 0
        if before is not None and load.preemptions > before.preemptions:
            if settled or self.clock() - self._cut_at >= 2.0:  # not what is still draining since the last cut
                self._cut(min(self._level, out), PATIENCE[1])
        elif load.waiting > self._target(load):
            ours = min(1.0, out / max(1, load.running + load.waiting))
            level = out - (load.waiting - self._target(load)) * ours
            if level < self._level:
                self._base = None
                self._move(max(level, min(self._level, QUEUE_FLOOR)), "hold")
            self._queued = self.found = True
        elif load.waiting == 0 and out >= USED * self.limit and (self._mode == "grow" or self._queued):
            if self._mode != "grow":
                self._base = None
            self._raise(2.0 if self._mode == "grow" else min(2.0, 1 + self._growing / 4))

    @staticmethod
    def _target(load: Load) -> float:
        """Requests that may wait, so that the server never does."""
        return max(2.0, 0.1 * load.running)

    def _room(self) -> float:
        """The multiple of the limit that nothing speaks against: cache use grows with what runs."""
        if self.held_back or self._level >= self.most:
            return 1.0
        load = self._load
        if load is None:
            return math.inf
        return FULL / max(load.kv, 0.01) if load.waiting <= self._target(load) else 1.0
