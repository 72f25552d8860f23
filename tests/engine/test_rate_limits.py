"""Rate limits that servers announce: read from headers, obeyed, and kept to without being refused."""

import asyncio
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.conftest import Endpoint
from tests.helpers.asking import request, rows
from tests.helpers.virtual import Scripted, virtually
from tomserve.engine.rate_limits import Room, announced_room, asked_wait, parse_reset
from tomserve.engine.transport import Reply, Timeouts
from tomserve.engine.transports import TRANSPORTS, make_transport
from tomserve.runs.journal import Journal

ASKED = [
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": "7", "retry-after-ms": "1500"}, 1.5),
    ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "1s"}, 360),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2.5s", "x-ratelimit-reset-requests": "9s"}, 62.5),
    ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "2s"}, 0.02),
    ({"ratelimit-reset": "30", "ratelimit-remaining": "0"}, 30.0),
    ({"x-ratelimit-reset-requests": "soon"}, None),
    ({}, None),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "seconds"), ASKED)
def test_how_long_a_refusal_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait(headers) == seconds


def test_resets_at_a_time_and_words() -> None:
    soon = time.time() + 50
    for said in (f"{soon:.0f}", f"{soon * 1000:.0f}", formatdate(soon, usegmt=True)):
        assert parse_reset(said) == pytest.approx(50, abs=2)
    assert parse_reset("1000000000") == 0.0
    assert asked_wait({}, "Rate limit reached. Please try again in 1m3.5s. Visit ...") == 63.5
    assert asked_wait({}, "please retry in 34.07s.") == 34.07
    assert asked_wait({}, "retry in a while") is None


def test_how_many_requests_are_taken_until_when() -> None:
    both = {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "9s"}
    assert announced_room(both, 100) == Room(5, 9.0)
    both |= {"x-ratelimit-remaining-tokens": "350", "x-ratelimit-reset-tokens": "2s", "x-ratelimit-limit-tokens": "900"}
    assert announced_room(both, 100) == Room(3, 2.0, 9)
    assert announced_room(both, 0) == Room(5, 9.0)
    assert announced_room({"x-ratelimit-remaining-requests": "5"}, 1) is None


@pytest.mark.parametrize("name", TRANSPORTS)
def test_every_transport_reads_them(name: str, endpoint: Endpoint) -> None:
    limits = {"X-RateLimit-Remaining-Requests": "3", "X-RateLimit-Reset-Requests": "7s"}
    codes = iter((200, 429))

    def script(body: object, number: int) -> object:
        from aiohttp import web

        from tests.conftest import completion

        code = next(codes)
        return web.json_response(completion("tea") if code == 200 else {}, status=code, headers=limits)

    endpoint.script = script

    async def go() -> tuple[Reply, Reply]:
        transport = make_transport(name, None, Timeouts(total=5, stall=5))
        try:
            body = request(0).body
            return await transport.send(endpoint.url, body), await transport.send(endpoint.url, body)
        finally:
            await transport.close()

    taken, refused = asyncio.run(go())
    assert (taken.status, taken.room) == ("ok", Room(3, 7.0))
    assert (refused.status, refused.retry_after) == ("http_429", 7.0)


@pytest.mark.parametrize("concurrency", [4, None])
def test_limits_a_minute_are_kept_to_without_being_refused(concurrency: int | None, tmp_path: Path) -> None:
    """A server that takes 20 requests in each minute, and says after each how many are left."""
    taken: dict[int, int] = {}
    refused = 0

    def behave(question: str, number: int, endpoint: str) -> tuple[float, Reply]:
        nonlocal refused
        now = asyncio.get_running_loop().time()
        minute = int(now // 60)
        taken[minute] = taken.get(minute, 0) + 1
        if taken[minute] > 20:
            refused += 1
            return 0.01, Reply("http_429", error="slower", retry_after=60 - now % 60)
        return 0.3, Reply("ok", "tea", room=Room(20 - taken[minute], 60.0 - now % 60, 20))

    with Journal(tmp_path / "responses.jsonl") as journal:
        done, took = virtually(Scripted(behave), journal, map(request, range(70)), concurrency=concurrency)
        assert (done, len(rows(journal)), refused) == (True, 70, 0)
    assert took == pytest.approx(181, abs=3)
