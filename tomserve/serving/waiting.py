"""Waits, before the first question, for a server that is busy or still loads, and says every few seconds for what.

Later on the runner of tomserve.engine waits by the same rules: it obeys Retry-After, and waits longer each time.

>>> Waiting(patience=5).allowed(60.0)
5
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tomserve.engine.retry import RetryPolicy, announced_wait
from tomserve.engine.sync_http import SyncResponse
from tomserve.engine.transport import Reply, parse_retry_after
from tomserve.errors import ServerError
from tomserve.status import BUSY, http

LOADING = 1800.0
"""Seconds for which a server that loads is waited for, unless the user says otherwise."""

ANSWER = 60.0
"""Seconds that a server may take to say what it serves, unless the user gave less to every request."""

SPEAK_EVERY = 5.0
"""Seconds between two lines on what is waited for."""

SLICE = 0.25
"""Seconds between two looks at whether the user has had enough."""


@dataclass
class Waiting:
    """How start-up waits.

    note: told a sentence on what is waited for, at first and every SPEAK_EVERY seconds. check: called several times a
    second; an error that it raises ends the waiting. patience: seconds to wait at most; None for what suits the case.
    policy: how long to wait between two attempts. answer: seconds that a server may take to say what it serves.
    clock, sleep: the monotonic clock and the sleep of the system.
    """

    note: Callable[[str], None] = lambda text: None
    check: Callable[[], None] = lambda: None
    patience: float | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    answer: float = ANSWER
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _spoken: float | None = None

    def allowed(self, usual: float) -> float:
        """The seconds to wait at most: those that the user gave, else the usual ones."""
        return usual if self.patience is None else self.patience

    def speak(self, text: str) -> None:
        """Tell a sentence, unless one was told a moment ago."""
        now = self.clock()
        if self._spoken is None or now - self._spoken >= SPEAK_EVERY:
            self._spoken = now
            self.note(text)

    def rest(self, seconds: float) -> None:
        """Wait so many seconds, unless `check` raises an error."""
        until = self.clock() + seconds
        while (left := until - self.clock()) > 1e-6:
            self.check()
            self.sleep(min(left, SLICE))
        self.check()

    def taken(self, endpoint: str, ask: Callable[[], SyncResponse]) -> SyncResponse:
        """Ask until the server refuses no longer with 429 or 503, and return its response.

        Raises ServerError where it still refuses after the seconds allowed. Without the user's own number, a pause that
        the server itself announces is allowed beyond the usual seconds, as it is while a run goes on.
        """
        began, attempt, longest = self.clock(), 0, 0.0
        while True:
            response = ask()
            if http(response.status_code) not in BUSY:
                return response
            attempt += 1
            reply = Reply(
                http(response.status_code), retry_after=parse_retry_after(response.headers.get("retry-after"))
            )
            longest = max(longest, announced_wait(reply) or 0.0)
            most, passed = self.allowed(self.policy.lost_after + longest), self.clock() - began
            refused = f"HTTP {response.status_code} ({_MEANING[response.status_code]})"
            if passed >= most:
                raise ServerError(
                    f"{endpoint}: the server still refuses every request with {refused} after {passed:.0f} s; repeat "
                    "the command later, or give it more time by --patience SECONDS"
                )
            asks = "" if reply.retry_after is None else f" and asks to wait {announced_wait(reply):.0f} s"
            self.speak(
                f"{endpoint}: the server answers {refused}{asks}; asking again ... {passed:.0f} s of at most {most:.0f}"
            )
            self.rest(min(self.policy.seconds(reply, min(attempt, 6)), most - passed))


_MEANING: dict[int, str] = {429: "too many requests", 503: "busy, or still loading"}


def retried(waiting: Waiting | None, endpoint: str, ask: Callable[[], SyncResponse]) -> SyncResponse:
    """The response to `ask`, asked once where `waiting` is None, else as `Waiting.taken` does."""
    return ask() if waiting is None else waiting.taken(endpoint, ask)


def refusal(response: Any) -> str | None:
    """What a refusal with 429 or 503 means, as the end of a sentence with what to do; None for another response."""
    meaning = _MEANING.get(response.status_code)
    return None if meaning is None else f"HTTP {response.status_code} ({meaning}); try again in a while"
