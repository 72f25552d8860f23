"""Tells refusals by a server that has too much to do from those that come whatever the load.

Both are HTTP 429 or 503, and both stop being a problem in different ways. A server that is overloaded refuses less when
fewer requests are in flight, and answers as many as before: there the limit has to fall. A provider, or a proxy on the
way to it, that refuses some share of all requests at random goes on doing so: there a lower limit costs answers and
cures nothing. The two cannot be told apart by looking; so the limit is lowered as a trial, and the share of refusals
and the throughput before and after decide:

    cured    The refusals went away: the server was overloaded, and the lower limit is kept.
    lower    They did not go away, and throughput did not fall either: the limit is still too high.
    borne    They did not go away, and throughput fell as the limit did: the limit goes back to where it was, and a
             share of refusals as large as that one lowers it no more. It is borne.

>>> trial = Shedding()
>>> [trial.refused() for _ in range(3)]  # nothing but refusals: cause for alarm from the second on
[False, True, True]
"""

from __future__ import annotations

import math
from typing import NamedTuple

TOLERATED = 0.02
"""The share of refused requests, beyond the one borne, that costs too little to act upon it."""

SIGMAS = 2.0
"""By how many standard deviations the number of refusals must exceed what is tolerated to be taken for more."""

GROSS = 0.75
"""From this share of refusals on, a limit on trial is lowered further without being measured, which would take long."""

FEWEST = 24
"""The fewest outcomes by which anything is judged."""

MOST_ANSWERS = 64
"""Answers that are enough to measure the throughput of a trial, however high its limit."""

EXPECTED = 4.0
"""How many refusals the share before the trial must predict, so that their absence in it is no accident."""

FULL = 0.95
"""The share of the limit that must be in flight for the server to have accepted as many as the limit allows."""

LOOKS = 2
"""How often the limit must have been seen full."""

CURED = 0.25
"""Refusals count as gone where their share is at most this part of what it was before."""

REMEMBERED = 256
"""Outcomes after which all counts are halved, so that what was long ago counts ever less."""


class Measured(NamedTuple):
    """What was seen at one limit.

    level: the limit, in requests. share: the share of requests that were refused, from 0 to 1.
    flow: throughput in work a second by Little's law, from the requests that were in flight when answers came; None
    where too few came.
    """

    level: float
    share: float
    flow: float | None


class Shedding:
    """Counts answers and refusals since the limit last changed, and judges a trial with a lower limit.

    borne: the share of refusals that a lower limit was seen not to cure.
    """

    def __init__(self) -> None:
        self.borne = 0.0
        self.begin()
        self.start(0.0)

    def begin(self) -> None:
        """Count anew: the limit has changed."""
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

    def answered(self, seconds: float, done: float, out: int) -> None:
        """Count an answer: the seconds it took, its work, and the requests in flight when it came, itself included."""
        self._answered += 1
        self._seconds += seconds
        self._work += done
        self._out += out

    def sent(self) -> None:
        """Count a request that is sent now."""
        self._sent += 1
        self._forget()

    def refused(self) -> bool:
        """Count the refusal of a request that was sent since the limit changed.

        Returns whether there are more refusals than are borne, so that something must be done.
        """
        self._refused += 1
        expected = (self.borne + TOLERATED) * self._outcomes
        return self._refused >= 1 + expected + SIGMAS * math.sqrt(expected)

    def look(self, level: float, out: int) -> None:
        """Take note, a while after requests were last sent, that `out` are in flight where the limit is `level`."""
        self._full += out >= FULL * level

    def _forget(self) -> None:
        if self._sent > REMEMBERED:
            self._sent, self._refused, self._answered = self._sent / 2, self._refused / 2, self._answered / 2
            self._out, self._work, self._seconds = self._out / 2, self._work / 2, self._seconds / 2

    def measured(self, level: float) -> Measured:
        """What was seen since the limit changed to `level`."""
        flow = None
        if self._answered >= FEWEST and self._seconds > 0:
            flow = self._out / self._answered * self._work / self._seconds
        return Measured(level, self.share, flow)

    def start(self, level: float) -> bool:
        """Begin a trial, because there are too many refusals at the limit `level`. Returns whether enough is known of
        the throughput at that limit to compare a lower one with it."""
        self._before = self.share
        found = self.measured(level)
        self._best = found if found.flow is not None else None
        return self._best is not None

    @property
    def tried(self) -> bool:
        """Whether anything was answered since the limit last changed."""
        return self._answered > 0

    @property
    def gross(self) -> bool:
        """Whether nearly everything is refused."""
        return self._outcomes >= FEWEST / 2 and self.share >= GROSS

    def judge(self, level: float) -> str | Measured | None:
        """The verdict on the trial at the limit `level`: "cured", "lower", or the limit to go back to; else None.

        None means that more has to be seen. Where the refusals are to be borne, `borne` is their share from now on.
        """
        found, best = self.measured(level), self._best
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


def _pointless(found: Measured, best: Measured) -> bool:
    """Whether throughput followed the limit: it changed by more than halfway (of its logarithm) as the limit did."""
    if not found.flow or not best.flow:
        return False
    return found.flow / best.flow < math.sqrt(found.level / best.level)
