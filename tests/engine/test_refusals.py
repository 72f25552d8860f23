"""What a refusal means, by what the run has just seen: on virtual time, against scripted servers.
Rate limits that servers announce: read from headers, obeyed, and kept to without being refused."""

import asyncio
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import orjson
import pytest
from tenacity import wait_fixed

from tests.conftest import Endpoint
from tests.helpers.asking import request, rows
from tests.helpers.virtual import Scripted, virtually
from tomserve.engine.rate_limits import Room, announced_room, asked_wait, parse_reset
from tomserve.engine.replies import read_reply
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.transport import Reply, Timeouts
from tomserve.engine.transports import TRANSPORTS, make_transport
from tomserve.errors import ServerError, ServerLostError
from tomserve.runs.journal import Journal

TEA = Reply("ok", '{"answer":"tea"}')
PROBE = orjson.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})
POLICY = RetryPolicy(attempts=3, wait=wait_fixed(0.5), lost_after=60.0)
ACCOUNT = Reply("http_400", error="This organisation may not be served")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "responses.jsonl") as opened:
        yield opened


def run(
    journal: Journal, behave: Callable[[str, int], Reply], count: int = 200, seconds: float = 0.01, **options: Any
) -> list[str]:
    """Ask so many questions; the texts of what was sent."""
    server = Scripted(lambda question, number, endpoint: (seconds, behave(question, number)))
    asked = (request(number) for number in range(count))
    assert virtually(server, journal, asked, **{"policy": POLICY, "probe": PROBE, **options})[0]
    return [question for _, _, question in server.sent]


def statuses(journal: Journal) -> set[str]:
    return {row["status"] for row in rows(journal)}


@pytest.mark.parametrize("concurrency", [1, 16, None])
def test_equal_refusals_in_mid_run_end_it_and_leave_their_questions_open(
    concurrency: int | None, journal: Journal
) -> None:
    with pytest.raises(
        ServerError, match=r"questions in a row were refused, with http_400 \(This organisation.*stay open"
    ):
        run(journal, lambda question, number: TEA if number <= 21 else ACCOUNT, concurrency=concurrency)
    assert (len(rows(journal)), statuses(journal)) == (21, {"ok"})
    assert len(run(journal, lambda question, number: TEA)) == 179


def test_the_last_questions_refused_alike_are_final_only_if_another_one_is_answered(journal: Journal) -> None:
    with pytest.raises(ServerError, match="stay open"):
        run(journal, lambda question, number: TEA if number <= 5 else ACCOUNT, 7, concurrency=1)
    assert len(rows(journal)) == 5
    sent = run(journal, lambda question, number: ACCOUNT if question[-1] in "56" else TEA, 7, concurrency=1)
    assert sent == ["question 5", "question 6", "hi"]
    assert [row["status"] for row in rows(journal)] == ["ok"] * 5 + ["http_400"] * 2


def test_a_row_of_refusals_is_about_their_questions_where_others_are_answered(journal: Journal) -> None:
    """Twenty in a row of one kind: two probes, each by a question that was answered before."""
    long = {f"question {number}" for number in range(40, 60)}
    sent = run(journal, lambda question, number: ACCOUNT if question in long else TEA, 100, concurrency=1)
    assert len(rows(journal)) == 100
    assert sum(row["status"] == "http_400" for row in rows(journal)) == 20
    assert len(sent) == 102
    assert sent.count("question 39") == 3


def test_answers_of_another_endpoint_show_nothing_about_one_that_refuses(journal: Journal) -> None:
    server = Scripted(lambda _, number, endpoint: (0.01, ACCOUNT if endpoint == "two" and number > 20 else TEA))
    asked = (request(number) for number in range(200))
    with pytest.raises(ServerError, match=r"two: \d+ questions in a row were refused"):
        virtually(server, journal, asked, ["one", "two"], policy=POLICY, probe=PROBE, concurrency=8)
    assert statuses(journal) == {"ok"}


def test_an_answer_to_a_request_sent_before_the_refusal_shows_nothing(journal: Journal) -> None:
    """The account runs dry while slow answers are under way."""

    def behave(question: str, number: int, endpoint: str) -> tuple[float, Reply]:
        return (0.01 if number <= 4 else 1.0, TEA) if number <= 12 else (0.01, ACCOUNT)

    asked = [request(number) for number in range(200)]
    with pytest.raises(ServerError, match="stay open"):
        virtually(Scripted(behave), journal, asked, policy=POLICY, probe=PROBE, concurrency=12)
    assert (len(rows(journal)), statuses(journal)) == (12, {"ok"}), "what was under way is kept, as it is paid"


def test_an_account_without_credit_ends_the_run_at_the_first_reply_that_says_so(journal: Journal) -> None:
    body = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
    empty = read_reply(429, orjson.dumps(body))
    with pytest.raises(ServerError, match=r"no credit left, says the server \(You exceeded.*pay, or set the key"):
        run(journal, lambda question, number: TEA if number <= 5 else empty, concurrency=1)
    assert len(rows(journal)) == 5


def test_a_404_after_answers_is_a_server_that_is_away(journal: Journal) -> None:
    away = Reply("http_404", error="not JSON: '404 page not found'", foreign=True)
    with pytest.raises(ServerLostError, match=r"nothing but .*404 page not found") as error:
        run(journal, lambda question, number: TEA if number <= 21 else away)
    assert error.value.exit_code == 3
    assert statuses(journal) == {"ok"}
    run(journal, lambda question, number: away if number < 20 else TEA)
    assert (len(rows(journal)), statuses(journal)) == (200, {"ok"})


def test_one_question_that_alone_gives_404_ends_as_a_row_that_is_asked_again(journal: Journal) -> None:
    sent = run(journal, lambda question, number: Reply("http_404", error="x") if question[-1] == "7" else TEA, 10)
    assert (len(rows(journal)), statuses(journal)) == (10, {"ok", "http_404"})
    assert len(sent) < 20
    assert run(journal, lambda question, number: TEA, 10) == ["question 7"]


def test_a_403_is_a_refusal_of_the_question_unless_another_one_is_refused_too(journal: Journal) -> None:
    filtered = Reply("http_403", error="blocked by policy")
    run(journal, lambda question, number: filtered if question.endswith("3") else TEA, 20)
    found = {row["item"]: row for row in rows(journal) if row["status"] != "ok"}
    assert {item: (row["status"], row["text"], row["error"]) for item, row in found.items()} == {
        "i3": ("refusal", "", "blocked by policy"),
        "i13": ("refusal", "", "blocked by policy"),
    }
    with pytest.raises(ServerError, match=r"the API key was refused in mid-run \(blocked by policy\)"):
        run(journal, lambda question, number: TEA if number < 5 else filtered, 40)
    assert statuses(journal) == {"ok", "refusal"}


def test_a_filter_that_refuses_everything_from_some_moment_on_is_not_believed(journal: Journal) -> None:
    flagged = read_reply(400, orjson.dumps({"error": {"message": "The input was flagged."}}))
    with pytest.raises(ServerError, match=r"refused, with refusal \(The input was flagged.*stay open"):
        run(journal, lambda question, number: TEA if number < 20 else flagged)
    assert statuses(journal) == {"ok"}


def test_a_probe_with_too_few_tokens_for_a_reply_is_answered(journal: Journal) -> None:
    few = Reply("http_400", error="Could not finish the message because max_tokens or model output limit was reached.")
    blocked = Reply("http_403", error="blocked")
    assert run(journal, lambda question, number: few if question == "hi" else blocked, 1) == ["question 0", "hi"]
    assert statuses(journal) == {"refusal"}


def test_a_key_that_expires_is_read_anew_once(journal: Journal) -> None:
    keys, renewals = ["old"], []

    def renew() -> Scripted | None:
        renewals.append(keys[0])
        keys[0] = "new"
        return server if len(renewals) == 1 else None

    expired = Reply("http_401", error="token expired")
    server = Scripted(lambda question, number, endpoint: (0.01, TEA if number < 10 or keys[0] == "new" else expired))
    asked = [request(number) for number in range(40)]
    assert virtually(server, journal, asked, policy=POLICY, probe=PROBE, renew=renew)[0]
    assert (renewals, len(rows(journal)), statuses(journal)) == (["old"], 40, {"ok"})


def test_a_reply_that_will_be_the_same_again_is_asked_for_twice(journal: Journal) -> None:
    odd = read_reply(200, b'{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}')
    sent = run(journal, lambda question, number: odd if question.endswith("3") else TEA, 20)
    assert (sent.count("question 3"), sent.count("question 13")) == (2, 2)
    assert {row["error"] for row in rows(journal) if row["status"] == "malformed"} == {
        "the message has no text content"
    }
    with pytest.raises(ServerError, match=r"questions in a row were refused, with malformed \(the message has no text"):
        run(journal, lambda question, number: odd)


SAID = [
    (429, {"error": {"message": "Rate limit; add a payment method", "code": "rate_limit_exceeded"}}, "http_429"),
    (429, {"error": {"message": "You exceeded your current quota. * Quota exceeded for metric: x"}}, "http_429"),
    (400, {"error": {"message": "Your credit balance is too low to access the API."}}, "http_402"),
    (403, {"error": {"message": "Insufficient credits"}}, "http_402"),
    (403, {"error": {"message": "Your account is not active", "code": "billing_not_active"}}, "http_402"),
    (400, {"error": {"message": "ThrottlingException: Too many requests, please wait."}}, "http_429"),
    (400, [{"error": {"message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}}], "http_401"),
    (400, {"error": {"message": "filtered", "code": "content_filter"}}, "refusal"),
    (400, {"error": {"message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, "refusal"),
    (403, {"error": {"message": "requires moderation and your input was flagged for \"x\""}}, "refusal"),
    (500, {"error": {"message": "the request exceeds the available context size"}}, "http_400"),
    (400, {"error": {"message": "no such field", "code": "unknown_field"}}, "http_400"),
    (200, {"object": "error", "message": "busy", "code": 503}, "http_503"),
    (200, {"error": {"type": "overloaded_error", "message": "x"}}, "http_503"),
    (200, {"error": {"code": "rate_limit_exceeded", "message": "slower"}}, "http_429"),
    (200, {"choices": [{"message": {"content": ""}, "finish_reason": "error", "error": {"code": 502}}]}, "http_502"),
    (200, {"detail": "Not Found"}, "malformed"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "body", "status"), SAID)
def test_the_words_of_an_error_decide_where_they_are_known(code: int, body: Any, status: str) -> None:
    assert read_reply(code, orjson.dumps(body)).status == status


def test_an_error_keeps_its_code_and_what_the_provider_behind_a_gateway_said() -> None:
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "no such field"}}}
    assert read_reply(400, orjson.dumps(body)).error == "Provider returned error: no such field"
    body = {"error": {"message": "Not supported.", "code": "unsupported_parameter"}}
    assert read_reply(400, orjson.dumps(body)).error == "Not supported. (unsupported_parameter)"


def test_what_could_not_be_validated_is_read_as_it_was_written() -> None:
    body = {"error": {"message": "Failed", "code": "json_validate_failed", "failed_generation": '{"answer": "tea"}'}}
    reply = read_reply(400, orjson.dumps(body))
    assert (reply.status, reply.text, reply.finish_reason) == ("ok", '{"answer": "tea"}', "json_validate_failed")
    body["error"]["failed_generation"] = ""
    reply = read_reply(400, orjson.dumps(body))
    assert (reply.status, reply.lasting, reply.error) == ("malformed", True, "Failed (json_validate_failed)")


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
