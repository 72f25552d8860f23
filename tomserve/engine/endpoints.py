"""The endpoints of a run: load balancing by prefix cache, which endpoints are down, outages, and hedged requests."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

from tomserve.engine.concurrency import MOST, AdaptiveLimit
from tomserve.engine.prompt_tokens import common_length
from tomserve.engine.refusals import same_words
from tomserve.engine.request import Identity, Request
from tomserve.engine.retry import Pause, announced_wait
from tomserve.engine.transport import Reply
from tomserve.status import BUSY, FINAL, NOT_FOUND, SPOKEN, TIMEOUT, TOO_MANY, failed_inside

PROMPT_WEIGHT = 1 / 16
"""The work of one prompt token, measured in completion tokens. A server computes all prompt tokens at once, so that
each of them costs much less than a token that it generates."""


def weigh_tokens(usage: Mapping[str, int] | None) -> float:
    """The work in one answer, in completion tokens; 1.0 where the server did not report the answer's tokens."""
    if not usage or "completion" not in usage:
        return 1.0
    return usage["completion"] + PROMPT_WEIGHT * usage.get("prompt", 0)


SUSPECT = 8  # how many different items must fail in a row, without one that succeeds, before an outage is suspected
STRIKES = 4  # how many failures in a row mark an endpoint as down while another one works
PATIENCE = 3
"""For how many multiples of `lost_after` a request that is still being answered keeps the run from being ended."""

ALIVE = FINAL | {TOO_MANY}  # statuses that only a working server gives, even where it refuses the request
IMBALANCE = 0.25
"""By how much the used share of an endpoint's limit may exceed the lowest among the endpoints, if its prefix cache
speaks for it."""


class EndpointPool:
    """All endpoints of a run.

    A request goes to the endpoint whose last prompt shares the longest beginning with its own, because that server's
    prefix cache holds it, or to the one that answered the turn before in the conversation, unless another endpoint has
    much more room. An endpoint that cannot be reached, or that keeps failing while another one works, is down: it gets
    no requests, and is probed until it answers again. Where many different items fail in a row, nothing succeeds, no
    older request is still being answered and a simple probe fails too, it is an outage: no item is given up during one,
    and after `lost_after` seconds without an answer the run ends with a diagnosis instead of thousands of error rows.

    concurrency: how many requests may be in flight over all endpoints; None for an adaptive limit of each endpoint, of
    `most` at most.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        lost_after: float,
        clock: Callable[[], float] = time.monotonic,
        concurrency: int | None = None,
        most: int = MOST,
    ) -> None:
        self.endpoints = list(endpoints)
        self.lost_after, self.clock = lost_after, clock
        self.fixed = concurrency
        self.limits = {endpoint: AdaptiveLimit(most=most, clock=clock) for endpoint in self.endpoints}
        self.pauses = {endpoint: Pause(clock) for endpoint in self.endpoints}
        self._prompts: dict[int, dict[str, bytes]] = {}  # the last prompt of each turn's number at each endpoint
        self.out: dict[str, dict[Identity, float]] = {endpoint: {} for endpoint in self.endpoints}
        self.down: dict[str, float] = {}
        self._good = self._reached = self._answered_at = clock()
        self._refused, self._announced = 0, 0.0
        self._failing: dict[Identity, list[tuple[str, str]]] = {}  # with status and words of each failure
        self._began_failing = 0.0
        self._bad: set[Identity] = set()
        self._strikes: dict[str, int] = dict.fromkeys(self.endpoints, 0)
        self._answered: set[str] = set()
        self._last, self._missing = "", False

    @property
    def available(self) -> list[str]:
        """The endpoints that are not marked as down; all of them where every one is down."""
        return [endpoint for endpoint in self.endpoints if endpoint not in self.down] or self.endpoints

    @property
    def capacity(self) -> int:
        if self.fixed is not None:
            return self.fixed
        return sum(self.limits[endpoint].limit for endpoint in self.available)

    def pick(self, request: Request, avoid: str | None = None, near: str | None = None) -> str:
        """Choose the endpoint for a request. avoid: one to be chosen only where there is no other, as it has just
        failed. near: the one that answered the turn before in the same conversation."""
        if len(self.endpoints) == 1:
            return self.endpoints[0]
        available = self.available
        free = [endpoint for endpoint in available if self.pauses[endpoint].left <= 0] or available
        others = [endpoint for endpoint in free if endpoint != avoid] or free
        share = None if self.fixed is None else self.fixed / len(available)
        used = {endpoint: len(self.out[endpoint]) / (share or self.limits[endpoint].limit) for endpoint in others}
        least = min(used.values())
        fair = [endpoint for endpoint in others if used[endpoint] <= least + IMBALANCE]
        prompts, prompt = self._prompts.setdefault(request.identity.turn, {}), request.prefix
        if len(fair) == 1:
            chosen = fair[0]
        elif near in fair:
            chosen = near
        else:
            chosen = max(
                fair, key=lambda endpoint: (common_length(prompts.get(endpoint, b""), prompt), -used[endpoint])
            )
        prompts[chosen] = prompt
        return chosen

    @property
    def pause(self) -> float:
        """Seconds until some endpoint takes requests again; 0 or less where one takes them now."""
        return min(self.pauses[endpoint].left for endpoint in self.available)

    def note_sent(self, endpoint: str, identity: Identity) -> None:
        self.out[endpoint][identity] = self.clock()
        if (pause := self.pauses[endpoint]).room is not None:
            pause.note_sent()
        if self.fixed is None:
            self.limits[endpoint].note_sent()

    def note_return(self, endpoint: str, identity: Identity) -> float | None:
        """Note that a request is no longer in flight; returns when it was sent, None where it was not in flight."""
        return self.out[endpoint].pop(identity, None)

    @property
    def in_flight(self) -> int:
        return sum(map(len, self.out.values()))

    def oldest(self) -> tuple[Identity, float] | None:
        firsts = [next(iter(out.items())) for out in self.out.values() if out]
        return min(firsts, key=lambda entry: entry[1], default=None)

    @property
    def others_up(self) -> bool:
        """Whether at least one endpoint is not marked as down."""
        return len(self.down) < len(self.endpoints)

    @property
    def refusing(self) -> bool:
        """Whether the server has answered nothing but 429 for several requests in a row."""
        return self._refused >= SUSPECT

    @property
    def suspected(self) -> bool:
        """Whether so many items failed in a row that the server is the likely cause rather than the items."""
        return len(self._failing) >= SUSPECT

    def note_reply(self, endpoint: str, reply: Reply, identity: Identity, sent: float | None = None) -> None:
        """Note a reply: whether the endpoint is up, and what its limit and pause follow from. sent: when the request
        was sent, by the clock; None leaves limit and pause as they are."""
        now = self.clock()
        if sent is not None:
            self._steer(endpoint, reply, sent, now)
        if reply.reached and reply.status != TIMEOUT:
            self._reached = now
        if reply.status in FINAL:
            self._answered.add(endpoint)
            self._strikes[endpoint] = 0
            self.down.pop(endpoint, None)
        else:
            self._strikes[endpoint] += 1
            self._missing = reply.status == NOT_FOUND
            if not reply.reached or (self._strikes[endpoint] >= STRIKES and self._answered - {endpoint}):
                self.down.setdefault(endpoint, now)
        if reply.status == TOO_MANY:
            self._refused += 1
            self._announced = max(self._announced, announced_wait(reply) or 0.0)
            self._last = _in_words(endpoint, reply)
        elif reply.status in FINAL:
            self._refused, self._announced, self._answered_at = 0, 0.0, now
        if reply.status in ALIVE or reply.lasting:
            self._good = now
            self._failing.clear()
        elif identity not in self._bad:
            self._began_failing = self._began_failing if self._failing else now
            self._failing.setdefault(identity, []).append((reply.status, same_words(reply.error)))
            self._last = _in_words(endpoint, reply)

    def common_failure(self) -> tuple[str, str, bool] | None:
        """Status and words of the error that a server gives to all questions that fail, and whether it gave it to many
        of them again, where no older request is still being answered; None for a failure on the way, or of a server
        that is only busy."""
        found = {one for said in self._failing.values() for one in said}
        if len(found) != 1 or not failed_inside((said := found.pop())[0]):
            return None
        if any(start < self._began_failing for out in self.out.values() for start in out.values()):
            return None
        return *said, sum(len(times) > 1 for times in self._failing.values()) >= SUSPECT

    def _steer(self, endpoint: str, reply: Reply, sent: float, now: float) -> None:
        if reply.room is not None:
            self.pauses[endpoint].note_room(reply.room, sent, len(self.out[endpoint]))
        if reply.status in SPOKEN:
            self.pauses[endpoint].note_answer()
            if self.fixed is None:
                self.limits[endpoint].note_answer(
                    sent, now - sent, weigh_tokens(reply.usage), len(self.out[endpoint]) + 1
                )
        elif reply.status in BUSY and (self.fixed is not None or self.limits[endpoint].note_refusal(sent)):
            self.pauses[endpoint].note_refusal(reply, sent)

    def revive(self, endpoint: str) -> None:
        """Note that a probe was answered; the next failure marks the endpoint as down once more."""
        if endpoint in self.down:
            self.limits[endpoint].restart()
        self.down.pop(endpoint, None)
        self._strikes[endpoint] = STRIKES - 1

    def suspect_items(self) -> None:
        """Note that the server answered a probe: the failures are due to the items, which may be given up."""
        self._bad.update(self._failing)
        self._failing.clear()
        self._good = self.clock()

    def explain_loss(self) -> str | None:
        """Why the run has to end: since when nothing is answered, how many failed, the last error. Else None."""
        now = self.clock()
        silence, fruitless = now - self._reached, now - self._good
        if self._is_answering(now):
            return None
        if self.down and not self.others_up and silence > self.lost_after:
            what = "nothing but HTTP 404" if self._missing else "no contact"
            return f"{what} for {silence:.0f} s{self._since(silence)}; last error: {self._last}"
        unanswered = now - self._answered_at
        if self.refusing and unanswered > self.lost_after + self._announced:
            return f"only refusals for {unanswered:.0f} s{self._since(unanswered)}; last one: {self._last}"
        if self.suspected and fruitless > self.lost_after:
            return (
                f"no answer for {fruitless:.0f} s{self._since(fruitless)}, {len(self._failing)} questions in a row "
                f"failed; last error: {self._last}"
            )
        return None

    def _is_answering(self, now: float) -> bool:
        """Whether the server works on a request that it took between `lost_after` / 2 and PATIENCE times `lost_after`
        ago."""
        begun = [start for out in self.out.values() for start in out.values()]
        patient = now - self.lost_after * PATIENCE
        return any(patient < start <= now - self.lost_after / 2 for start in begun)

    def _since(self, seconds: float) -> str:
        began = datetime.fromtimestamp(time.time() - seconds, UTC)
        return f" (since {began:%H:%M:%S} UTC)"


def _in_words(endpoint: str, reply: Reply) -> str:
    return f"{endpoint}: {reply.status}" + (f" ({reply.error})" if reply.error else "")


Send = Callable[[str, Request], Awaitable[Reply]]  # sends a request to an endpoint and returns its reply


async def send_hedged(
    send: Send, pool: EndpointPool, request: Request, avoid: str | None, near: str | None, late: float
) -> tuple[Reply, str]:
    """Send a request, and once more to another endpoint if the first takes longer than `late` seconds; the slower one
    is cancelled. Returns the first final reply, or the last one where none is final, with the endpoint that gave it."""

    async def copy(endpoint: str) -> Reply:
        return await send(endpoint, request)

    first = pool.pick(request, avoid, near)
    tasks = {asyncio.create_task(copy(first)): first}
    try:
        done, _ = await asyncio.wait(tasks, timeout=late)
        second = pool.pick(request, first)
        if not done and second != first:
            tasks[asyncio.create_task(copy(second))] = second
        waiting = set(tasks)
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            good = [task for task in done if task.result().final]
            if good or not waiting:
                best = (good or list(done))[0]
                return best.result(), tasks[best]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
