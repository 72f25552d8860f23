"""The adaptive concurrency limit: how many requests may be in flight at one endpoint, found out during the run from
throughput, refusals (HTTP 429 and 503) and, of vLLM, the load that its /metrics reports."""

import math
import re
import time
from collections.abc import Callable
from typing import NamedTuple

TOLERATED = 0.02  # the share of refused requests, beyond the one borne, that costs too little to act upon it
SIGMAS = 2.0
"""By how many standard deviations the number of refusals must exceed what is tolerated to be taken for more."""

GROSS = 0.75
"""From this share of refusals on, a limit on trial is lowered further without being measured, which would take long."""

FEWEST = 24  # the fewest outcomes by which anything is judged
MOST_ANSWERS = 64  # answers that are enough to measure the throughput of a trial, however high its limit
EXPECTED = 4.0  # how many refusals the share before the trial must predict, so that their absence in it is no accident
FULL = 0.95  # the share of the limit that must be in flight for the server to have accepted as many as the limit allows
LOOKS = 2  # how often the limit must have been seen full
CURED = 0.25  # refusals count as gone where their share is at most this part of what it was before
REMEMBERED = 256  # outcomes after which all counts are halved, so that what was long ago counts ever less


class LimitSample(NamedTuple):
    level: float  # the limit, in requests
    share: float  # of requests that were refused, from 0 to 1
    flow: float | None  # throughput in work a second by Little's law; None where too few answers came


class LoadShedding:
    """Counts answers and refusals since the limit last changed, and judges a trial with a lower limit.

    A server that is overloaded refuses less when fewer requests are in flight; a proxy that refuses at random goes on
    doing so. A trial tells them apart:

        cured    The refusals went away: the server was overloaded, and the lower limit is kept.
        lower    They did not go away, and throughput did not fall either: the limit is still too high.
        borne    They did not go away, and throughput fell as the limit did: the limit goes back to where it was, and a
                 share of refusals as large as that one lowers it no more. It is borne.

    borne: the share of refusals that a lower limit was seen not to cure.
    """

    def __init__(self) -> None:
        self.borne = 0.0
        self.begin()
        self.start(0.0)

    def begin(self) -> None:
        self._sent = self._refused = self._answered = self._out = self._work = self._seconds = 0.0
        self._full = 0

    @property
    def _outcomes(self) -> float:
        """How many requests were sent; a refusal comes at once, so that whatever is not refused counts as accepted."""
        return max(self._sent, self._refused + self._answered)

    @property
    def share(self) -> float:
        """The share of refused requests since the limit last changed; 0 before the first."""
        return self._refused / self._outcomes if self._outcomes else 0.0

    def note_answer(self, seconds: float, done: float, out: int) -> None:
        """Count an answer: the seconds it took, its work, and the requests in flight when it came, itself included."""
        self._answered += 1
        self._seconds += seconds
        self._work += done
        self._out += out

    def note_sent(self) -> None:
        self._sent += 1
        if self._sent > REMEMBERED:
            self._sent, self._refused, self._answered = self._sent / 2, self._refused / 2, self._answered / 2
            self._out, self._work, self._seconds = self._out / 2, self._work / 2, self._seconds / 2

    def note_refusal(self) -> bool:
        """Count a refusal since the limit changed; returns whether there are more than are borne."""
        self._refused += 1
        expected = (self.borne + TOLERATED) * self._outcomes
        return self._refused >= 1 + expected + SIGMAS * math.sqrt(expected)

    def look(self, level: float, out: int) -> None:
        """Take note, a while after requests were last sent, that `out` are in flight where the limit is `level`."""
        self._full += out >= FULL * level

    def measure(self, level: float) -> LimitSample:
        flow = None
        if self._answered >= FEWEST and self._seconds > 0:
            flow = self._out / self._answered * self._work / self._seconds
        return LimitSample(level, self.share, flow)

    def start(self, level: float) -> bool:
        """Begin a trial; returns whether enough is known of the flow at `level` to compare a lower one with it."""
        self._before = self.share
        found = self.measure(level)
        self._best = found if found.flow is not None else None
        return self._best is not None

    @property
    def has_answers(self) -> bool:
        return self._answered > 0

    @property
    def is_gross(self) -> bool:
        """Whether nearly everything is refused."""
        return self._outcomes >= FEWEST / 2 and self.share >= GROSS

    def judge(self, level: float) -> str | LimitSample | None:
        """The verdict on the trial: "cured", "lower", or the limit to go back to; None while more has to be seen."""
        found, best = self.measure(level), self._best
        if self._outcomes < FEWEST or self._outcomes * self._before < EXPECTED:
            return None
        if self._full >= LOOKS and found.share > CURED * self._before:
            self.borne = found.share
            return found
        if self._answered < max(FEWEST, min(level, MOST_ANSWERS)):
            return None
        if found.share <= CURED * self._before:
            self.borne = min(self.borne, found.share)
            return "cured"
        if best is not None and _pointless(found, best):
            self.borne = max(found.share, best.share)
            return best
        if level <= 1:  # refusals of a single request at a time are not due to the number of requests
            self.borne = found.share
            return found
        if best is None or (found.flow or 0.0) > (best.flow or 0.0):
            self._best = found
        return "lower"

    def settle(self) -> None:
        """Follow the share that is borne while the limit stays, so that it is given up once the refusals are over."""
        if self.borne and self._outcomes >= MOST_ANSWERS:
            self.borne += (self.share - self.borne) * self._outcomes / (self._outcomes + REMEMBERED)
            if self.borne < TOLERATED:
                self.borne = 0.0


def _pointless(found: LimitSample, best: LimitSample) -> bool:
    """Whether throughput followed the limit: it changed by more than halfway (of its logarithm) as the limit did."""
    if not found.flow or not best.flow:
        return False
    return found.flow / best.flow < math.sqrt(found.level / best.level)


_NAMES = (
    b"num_requests_running|num_requests_waiting|kv_cache_usage_perc|num_preemptions_total|"
    b"prefix_cache_queries_total|prefix_cache_hits_total"
)
"""The metrics that are read, without their prefix ``vllm:``, as a regular expression."""

LARGEST = 2.0**53
"""A value above this is ignored: a float cannot hold every whole number beyond it, so it counts nothing exactly."""

_SAMPLE = re.compile(rb"^vllm:(" + _NAMES + rb")(?:\{[^}\n]*\})? ([0-9.eE+-]+)\s*$", re.MULTILINE)
_BLOCK = re.compile(rb'^vllm:cache_config_info\{[^}\n]*\bblock_size="([1-9]\d{0,8})"', re.MULTILINE)


class ServerLoad(NamedTuple):
    """The load of one server, summed over its engines; the counters began when the server started."""

    running: int  # requests that are being computed
    waiting: int  # requests in the server's queue
    kv: float  # the used share of the KV cache, from 0 to 1; of several engines that of the fullest
    preemptions: int
    queried: int  # prompt tokens that were looked up in the prefix cache
    hit: int  # of those the tokens that were found
    block: int | None  # tokens of one block of the cache; None where the server does not report it


def read_load(metrics: bytes) -> ServerLoad | None:
    """The load that a page of Prometheus metrics reports; None where the page is not one of vLLM."""
    sums: dict[bytes, float] = {}
    for name, value in _SAMPLE.findall(metrics):
        try:
            number = float(value)
        except ValueError:
            continue
        if not 0 <= number <= LARGEST:  # this leaves out NaN and infinity as well
            continue
        sums[name] = max(sums.get(name, 0), number) if name == b"kv_cache_usage_perc" else sums.get(name, 0) + number
    if b"num_requests_running" not in sums or b"num_requests_waiting" not in sums:
        return None
    block = _BLOCK.search(metrics)

    def count(name: bytes) -> int:
        return int(sums.get(name, 0))

    return ServerLoad(
        count(b"num_requests_running"),
        count(b"num_requests_waiting"),
        sums.get(b"kv_cache_usage_perc", 0.0),
        count(b"num_preemptions_total"),
        count(b"prefix_cache_queries_total"),
        count(b"prefix_cache_hits_total"),
        int(block[1]) if block else None,
    )


START = 16  # the limit, in requests, with which an endpoint begins
MOST = 1024  # the highest limit, in requests, that an endpoint is given unless the caller says otherwise
GAIN = 0.06  # the relative gain in throughput that a doubling of the limit must bring for the higher limit to be kept
TRIAL = 1.25  # the factor by which the limit is raised or lowered for a trial
CUT = 0.7  # the factor by which a refusal or a preemption lowers the limit
USED = 0.8
"""The share of the limit that must be in flight: below it, an answer says nothing of whether the limit is right."""

LEAST_EPOCH = 16  # the fewest answers of an epoch. Limits below 4 need only four times as many answers as the limit.
OVERDUE = 1.5
"""An epoch is judged early once it takes this multiple of the time that it would take at the throughput held. A server
that thrashes takes ever longer to finish the answers that would show it."""

NOTHING = 1e-9  # stands for the throughput of an epoch without any answer: other throughputs are divided by it
LOST = 0.8  # throughput below this multiple of the one held means that the server has changed
QUEUE_FLOOR = 8
"""The limit, in requests, below which a queue alone does not push it: waiting costs the run nothing but latency."""

PATIENCE = (3, 16)
"""How many epochs pass between two trials: at first, and at most, after several trials that brought nothing."""


class _Base(NamedTuple):
    """What was measured in one epoch; a later epoch is compared with it."""

    level: float  # the limit, in requests (not yet rounded)
    rate: float  # throughput, in work a second
    work: float  # the mean work of an answer
    seconds: float  # the mean time of an answer


class AdaptiveLimit:
    """The limit of one endpoint.

    Throughput is measured over an epoch of at least as many answers as the limit N allows in flight: by Little's law it
    is N times the work that one request gets done in a second. Only requests sent after the last change count. The
    modes:

        grow    The limit is doubled as long as each doubling brings throughput and no queue builds up.
        hold    The limit stays as it is; a trial follows after some epochs, or when throughput changes.
        up      A trial with a higher limit than the one held, which is kept if it brings throughput.
        down    A trial with a lower limit, after growth ended or throughput fell, kept if it costs no throughput.
        shed    A trial with a lower limit because requests are refused, kept if it cures that or costs nothing.

    A queue lowers the limit at once. held_back: set from outside while the client itself is too busy; the limit does
    not grow then. found: whether the limit rests on evidence rather than being the one it began with.
    """

    def __init__(self, start: int = START, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.clock = most, clock
        self.start = min(start, most)
        self.held_back = self.found = False
        self.restart()

    def restart(self) -> None:
        """Begin anew: the server behind the endpoint was exchanged or was unreachable."""
        self._level = float(self.start)
        self._mode = "grow"
        self._base: _Base | None = None
        self._upward = True  # the direction of the next trial
        self._settled = True  # whether no more than the limit was in flight when the load was last read
        self._growing = 0  # how many readings of the load in a row showed no queue
        self._patience, self._holds = PATIENCE[0], 0
        self._load: ServerLoad | None = None
        self._cut_at, self._changed, self._shedding = -math.inf, -math.inf, LoadShedding()
        self._queued = False  # whether a queue ended the growth, which may go on once the queue is gone
        self._begin()

    @property
    def limit(self) -> int:
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
            self._changed = self.clock()
            self._shedding.begin()
        self._level = level

    # The evidence that every client sees.

    def note_sent(self) -> None:
        self._shedding.note_sent()

    def note_answer(self, began: float, seconds: float, done: float, out: int) -> None:
        """Count an answer, and end the epoch if it was the last one needed.

        began: when the request was sent, by the clock. seconds: how long it took. done: its work, as `weigh_tokens`
        counts it. out: how many requests were in flight when it came, itself included.
        """
        if began >= self._changed and seconds > 0:
            self._shedding.note_answer(seconds, done, out)
        if self._mode == "shed":
            self._judge_shedding()
            return
        if began < self._since or out < USED * self.limit or seconds <= 0:
            return
        self._count += 1
        self._seconds += seconds
        self._work += done
        if self._count >= self._epoch:
            self._judge(self._level * self._work / self._seconds)

    @property
    def _epoch(self) -> int:
        """How many answers it takes to measure the throughput at this limit."""
        return max(self.limit, min(LEAST_EPOCH, 4 * self.limit))

    def tick(self, out: int) -> None:
        """End an epoch that is overdue; called several times a second with the `out` requests in flight."""
        if self._mode == "shed":
            self._shedding.look(self._level, out)
            self._judge_shedding()
        if self._base is None or self._mode == "down" or out < USED * self.limit:
            return
        elapsed = self.clock() - self._since
        expected = self._epoch * self._base.work / self._base.rate
        if elapsed > OVERDUE * expected + 2 * self._base.seconds:
            if self._mode == "hold":  # either the server got slower or the answers longer; a trial tells which
                self._base = self._base._replace(rate=max(self._work / elapsed, NOTHING))
                self._move(self._level / TRIAL, "down")
                self._begin()
            else:
                self._judge(self._work / elapsed)

    def note_refusal(self, began: float) -> bool:
        """Note that a request sent at `began` was refused, and lower the limit if that may help: once for requests that
        were in flight together. Returns whether all requests should wait for a while, and not only the refused one."""
        if (
            began < self._changed or not self._shedding.note_refusal()
        ):  # another limit's requests say nothing of this one
            return False
        if self._mode == "up" and self._base is not None:
            # More patience than after other trials: a refused request is asked again after a wait, which costs more.
            self._cut(self._level, 4 * PATIENCE[1])
        elif self._mode != "shed":
            known = self._shedding.start(self._level) or self._base is not None
            self._shed(CUT if known or self._shedding.is_gross else 1.0)  # what nothing is known of is measured first
        elif not self._shedding.is_gross:
            return False
        elif self._shedding.has_answers and self._level > 1:
            self._shed()
        self._queued = False
        return True

    def _shed(self, factor: float = CUT) -> None:
        self.found, self._base, self._settled, self._cut_at = True, None, False, self.clock()
        self._move(self._level * factor, "shed")

    def _judge_shedding(self) -> None:
        verdict = self._shedding.judge(self._level)
        if verdict == "lower":
            self._shed()
        elif verdict is not None:
            self._patience = PATIENCE[0]
            self._move(*((verdict.level, "grow") if isinstance(verdict, LimitSample) else (self._level, "hold")))
            self._begin()

    def _cut(self, level: float, patience: int) -> None:
        """Lower the limit at once: by the factor CUT, or back to the one held if a trial was too high."""
        self._cut_at, self.found = self.clock(), True
        if self._mode == "up" and self._base is not None:
            self._patience = min(2 * self._patience, patience)
            level = min(level, self._base.level)
        else:
            self._patience = PATIENCE[0]
            level *= CUT
        self._base, self._settled = None, False
        self._move(level, "hold")

    def _judge(self, rate: float) -> None:
        """End the epoch, in which the throughput was `rate`, and choose the limit of the next one."""
        self.found = True
        base, count, rate = self._base, max(1, self._count), max(rate, NOTHING)
        epoch = _Base(self._level, rate, self._work / count, self._seconds / count)
        if not self._count and base is not None:
            epoch = epoch._replace(work=base.work, seconds=base.seconds)
        self._begin()
        self._shedding.settle()
        if base is None:
            self._base = epoch
            if self._mode == "grow":
                self._raise(2.0)
            return
        gain = rate / base.rate - 1
        if self._mode in ("grow", "up"):
            if gain >= GAIN * math.log2(epoch.level / base.level):
                self._base, self._patience = epoch, PATIENCE[0]
                self._raise(2.0 if self._mode == "grow" else TRIAL)
            elif self._mode == "grow":  # the level before this doubling may already have been too high
                self._queued = False
                self._move(base.level / TRIAL, "down")
            else:
                self._patience = min(2 * self._patience, PATIENCE[1])
                self._upward = False
                self._move(base.level, "hold")
        elif self._mode == "down":
            self._upward = True
            if gain >= -GAIN / 4 and self._level > 1:
                self._base, self._patience = epoch, PATIENCE[0]
                self._move(self._level / TRIAL, "down")
            else:
                self._move(base.level, "hold")
        else:
            self._hold(epoch, gain)

    def _hold(self, epoch: _Base, gain: float) -> None:
        """After an epoch at the limit held: begin a trial when one is due or throughput changed."""
        assert self._base is not None
        self._holds += 1
        if 1 + gain < LOST:
            self._base, self._patience = epoch, PATIENCE[0]
            self._move(self._level * max(0.25, min(1 + gain, 1 / TRIAL)), "down")
        elif 1 + gain > 1 / LOST or self._holds >= self._patience:
            self._base, self._holds = epoch, 0
            if self._upward or 1 + gain > 1 / LOST:
                self._raise(TRIAL, "up")
            else:
                self._move(self._level / TRIAL, "down")
        else:
            self._base = epoch._replace(rate=(self._base.rate + epoch.rate) / 2)

    def _raise(self, factor: float, mode: str | None = None) -> None:
        factor = min(factor, self._room())
        if factor > 1.1:
            self._move(self._level * factor, mode or self._mode)
        else:
            self._move(self._level, "hold")

    # The evidence that only a server with metrics gives.

    def note_load(self, load: ServerLoad, out: int) -> None:
        """Note the server's load while `out` of our requests are in flight, and move the limit by it."""
        before, self._load = self._load, load
        settled, self._settled = self._settled, out <= 1.1 * self._level
        self._growing = self._growing + 1 if load.waiting == 0 else 0
        if before is not None and load.preemptions > before.preemptions:
            if settled or self.clock() - self._cut_at >= 2.0:  # else the requests above the last cut still cause it
                self._cut(min(self._level, out), PATIENCE[1])
        elif load.waiting > self._target(load):
            ours = min(1.0, out / max(1, load.running + load.waiting))
            level = out - (load.waiting - self._target(load)) * ours
            if level < self._level:
                self._base = None
                self._move(max(level, min(self._level, QUEUE_FLOOR)), "hold")
            self._queued = self.found = True
        elif self._mode == "shed":
            return
        elif load.waiting == 0 and out >= USED * self.limit and (self._mode == "grow" or self._queued):
            if self._mode != "grow":
                self._base = None
            self._raise(2.0 if self._mode == "grow" else min(2.0, 1 + self._growing / 4))

    @staticmethod
    def _target(load: ServerLoad) -> float:
        """How many requests may wait in the server's queue, so that it never waits for us."""
        return max(2.0, 0.1 * load.running)

    def _room(self) -> float:
        """The factor by which the limit may grow: the use of the KV cache grows with the requests that run."""
        if self.held_back or self._level >= self.most:
            return 1.0
        load = self._load
        if load is None:
            return math.inf
        return FULL / max(load.kv, 0.01) if load.waiting <= self._target(load) else 1.0
