"""Hostile servers: every transport, and what is asked before a run, ends with the right status and within bounds.
More requests in flight than the system allows open files: the limit is raised, or fewer are in flight, and said.
What a refusal means, by what the run has just seen: on virtual time, against scripted servers.
Rate limits that servers announce: read from headers, obeyed, and kept to without being refused."""

import asyncio
import gzip
import itertools
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, formatdate
from pathlib import Path
from typing import Any

import orjson
import pytest
from tenacity import wait_fixed

from tests.conftest import Endpoint, make_item
from tests.helpers.asking import request, rows
from tests.helpers.hostile import (
    ANSWER,
    DEEP,
    START,
    Answering,
    Hostile,
    Saying,
    completion,
    once,
    response,
    sent,
)
from tests.helpers.outcomes import passes, refuses_in_a_line
from tests.helpers.virtual import Scripted, virtually
from tomserve.engine.rate_limits import Room, announced_room, asked_wait, parse_reset, parse_retry_after
from tomserve.engine.replies import read_reply
from tomserve.engine.request import Sampling
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.transport import MAX_BODY, Reply, Timeouts
from tomserve.engine.transports import SPARE, TRANSPORTS, limit_in_flight, make_transport
from tomserve.errors import ServerError, ServerLostError
from tomserve.items import write_items
from tomserve.runs.journal import Journal
from tomserve.serving.endpoint import probe_endpoint
from tomserve.serving.preflight import PLAIN, learn_adaptations
from tomserve.serving.probe import MOST_BYTES, Probe, is_healthy
from tomserve.status import CONNECTION, LENGTH, MALFORMED, OK, REFUSAL, TIMEOUT

KEY = "sk-0123456789"
BUFFERS = 32 * 2**20
"""Bytes that may lie between a client that reads no more and a server that still writes."""
HASTY, PATIENT = Timeouts(connect=30, total=0.5), Timeouts(connect=30, total=60)

every_transport = pytest.mark.parametrize("name", TRANSPORTS)


def _slowly(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        time.sleep(0.02)
        yield piece


def _drip(head: bytes, letter: bytes) -> Saying:
    return lambda: itertools.chain([head], _slowly(itertools.repeat(letter)))


def _forever(head: bytes, piece: bytes) -> Saying:
    return lambda: itertools.chain([head], itertools.repeat(piece))


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _close(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


@dataclass(frozen=True)
class Behaviour:
    """status: of a transport's reply; None for one of those that say that there was no answer. waits: whether it says
    too little for ever, so that only the time limit ends it."""

    saying: Saying
    status: str | None = None
    waits: bool = False


HALF = START + b"Content-Length: %d\r\n\r\n" % len(ANSWER) + ANSWER[:20]
PACKED = gzip.compress(b" " * (MAX_BODY + 2**20) + ANSWER, 1)

NO_ANSWER: dict[str, Behaviour] = {
    "a head that drips": Behaviour(_drip(START + b"X-Drip: ", b"a"), TIMEOUT, True),
    "a body that drips": Behaviour(_drip(START + b"Content-Length: 1000000\r\n\r\n", b" "), TIMEOUT, True),
    "nothing": Behaviour(lambda: _slowly(itertools.repeat(b"", 500)), TIMEOUT, True),
    "HTTP 100 without end": Behaviour(_forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), waits=True),
    "another protocol": Behaviour(lambda: [b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", ANSWER]),
    "headers without end": Behaviour(_forever(START, b"X-More: " + b"a" * 1000 + b"\r\n"), CONNECTION),
    "a body without end": Behaviour(_forever(START + b"\r\n", b" " * 65536), MALFORMED),
    "chunks without end": Behaviour(
        _forever(START + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"), MALFORMED
    ),
    "a length that is none": Behaviour(lambda: [START + b"Content-Length: -5\r\n\r\n", ANSWER]),
    "a bomb": Behaviour(once(PACKED, "Content-Encoding: gzip"), MALFORMED),
    "a bomb in a bomb": Behaviour(once(gzip.compress(PACKED), "Content-Encoding: gzip, gzip"), MALFORMED),
    "half of gzip": Behaviour(once(gzip.compress(ANSWER)[:-9], "Content-Encoding: gzip"), MALFORMED),
    "JSON of a million levels": Behaviour(once(DEEP % ((b"[" * 1_000_000,) * 4)), MALFORMED),
    "invalid UTF-8": Behaviour(once(ANSWER.replace(b"t", b"t\xff\xfe")), MALFORMED),
    "no HTTP": Behaviour(lambda: [b"SSH-2.0-OpenSSH_9.2\r\n", _close], CONNECTION),
    "reset before an answer": Behaviour(lambda: [_reset], CONNECTION),
    "reset in mid-body": Behaviour(lambda: [HALF, _reset], CONNECTION),
}  # fmt: skip
"""What no client may believe, by name; none of it is an answer."""

ANSWERED: dict[str, Behaviour] = {
    "half a surrogate pair": Behaviour(once(ANSWER.replace(b'"1"', b'"\\ud800"')), OK),
    "a number beyond all bounds": Behaviour(once(ANSWER.replace(b"3", b"1e999")), OK),
    "the answer": Behaviour(once(ANSWER), OK),
    "compressed, unasked": Behaviour(once(gzip.compress(ANSWER), "Content-Encoding: gzip"), OK),
    "an error": Behaviour(once(b'{"error": {"message": "engine"}}', code=500), "http_500"),
    "busy": Behaviour(once(b"{}", "Retry-After: 7", code=429), "http_429"),
    **{f"HTTP {code}": Behaviour(once(b"{}", code=code), f"http_{code}") for code in (400, 404, 422, 503)},
    "a page": Behaviour(once(b"<html>hi</html>"), MALFORMED),
    "cut off": Behaviour(once(completion("half", "length")), LENGTH),
    "a refusal": Behaviour(once(completion(None, refusal="no")), REFUSAL),
}
"""What a server may well answer, good and bad."""


def sent_to_all(name: str, behaviours: Mapping[str, Behaviour]) -> tuple[dict[str, Reply], dict[str, int]]:
    with ExitStack() as stack:
        servers = {key: stack.enter_context(Hostile(one.saying)) for key, one in behaviours.items()}

        async def go() -> list[list[Reply]]:
            asking = (sent(name, servers[key].url, HASTY if behaviours[key].waits else PATIENT) for key in servers)
            return await asyncio.gather(*asking)

        replies = [found for (found,) in asyncio.run(go())]
        return dict(zip(servers, replies, strict=True)), {key: server.sent for key, server in servers.items()}


@every_transport
def test_no_transport_takes_it_for_an_answer_or_reads_without_end(name: str) -> None:
    replies, said = sent_to_all(name, NO_ANSWER)
    found = {key: reply.status for key, reply in replies.items()}
    vague = (MALFORMED, CONNECTION, TIMEOUT, "http_101")
    assert found == {
        key: one.status or (found[key] if found[key] in vague else vague) for key, one in NO_ANSWER.items()
    }
    assert all(reply.reached and reply.error and "\n" not in reply.error for reply in replies.values())
    assert max(said.values()) < 3 * MAX_BODY + BUFFERS


@every_transport
def test_every_answer_has_its_status(name: str) -> None:
    replies, _ = sent_to_all(name, ANSWERED)
    assert {key: reply.status for key, reply in replies.items()} == {key: one.status for key, one in ANSWERED.items()}
    assert {reply.text for reply in replies.values() if reply.status == OK} == {"tea"}
    assert replies["busy"].retry_after == 7.0
    assert replies["an error"].error == "engine"
    assert (replies["a refusal"].text, replies["cut off"].text) == ("no", "half")


@every_transport
def test_metrics_and_signs_of_life_are_bounded_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ("a body without end", "chunks without end", "headers without end", "a bomb", "no HTTP", "another protocol")

    async def go(url: str) -> tuple[bool, bytes | None]:
        client = make_transport(name, KEY, PATIENT)
        try:
            return await client.alive(url), await client.metrics(url)
        finally:
            await client.close()

    for kind in kinds:
        with Hostile(NO_ANSWER[kind].saying) as server:
            _, found = asyncio.run(go(server.url))
        assert found is None or len(found) <= MAX_BODY, kind
        assert server.sent < 2 * (3 * MAX_BODY + BUFFERS), kind
    with Hostile(lambda: [response(ANSWER)]) as server:
        assert asyncio.run(go(server.url)) == (True, ANSWER if name != "openai" else None)
    assert asyncio.run(go("http://127.0.0.1:1/v1")) == (False, None)
    for code, alive in ((501, True), (404, True), (503, False)):
        with Hostile(lambda code=code: [response(b"{}", code=code)]) as server:
            assert asyncio.run(go(server.url)) == (alive, None)


@every_transport
def test_no_redirect_to_another_server_is_followed(name: str) -> None:
    with Hostile(lambda: [response(ANSWER)]) as other:
        away = response(b"", f"Location: {other.url}/chat/completions", code=307)
        with Hostile(lambda: [away]) as server:
            (reply,) = asyncio.run(sent(name, f"{server.url}?v=1"))
            assert (reply.status, other.url in (reply.error or "")) == ("http_307", True)
            assert b"accept-encoding: identity" in server.heard[0].lower()
            with pytest.raises(ServerError, match=f"HTTP 307.*sends the request on to {other.url}"):
                Probe(server.url, KEY).models()
            assert not is_healthy(server.url.removesuffix("/v1"), 1.0)
    assert other.heard == []


@every_transport
def test_a_redirect_on_the_same_server_is_followed_once_and_a_query_goes_with_every_request(name: str) -> None:
    def answer(head: bytes) -> bytes:
        path = head.split()[1]
        if b"/there" in path:
            return response(ANSWER)
        return response(
            b"", f"Location: {path.decode().replace('?', '/' if b'/again' in path else '/there?')}", code=308
        )

    with Answering(answer) as server:
        (reply,) = asyncio.run(sent(name, f"{server.url}?api-version=1"))
        assert (reply.status, reply.text) == (OK, "tea"), reply.error
        assert Probe(f"{server.url}?api-version=1", KEY).models() == [{"id": "tiny"}]
        (astray,) = asyncio.run(sent(name, f"{server.url}/again?x=1"))
        assert astray.status == "http_308"
    lines = [head.split(b" HTTP")[0].decode() for head in server.heard]
    assert lines[1:4] == ["POST /v1/chat/completions/there?api-version=1",
                          "GET /v1/models?api-version=1", "GET /v1/models/there?api-version=1"]  # fmt: skip
    assert all(KEY.encode() in head for head in server.heard)


# a run over each transport


@every_transport
def test_where_nobody_listens_or_no_tls_is_spoken_was_never_reached(name: str, endpoint: Endpoint) -> None:
    (reply,) = asyncio.run(sent(name, "http://127.0.0.1:1/v1"))
    assert (reply.status, reply.reached) == (CONNECTION, False)
    if name != "openai":  # whose errors do not say it
        (reply,) = asyncio.run(sent(name, endpoint.url.replace("http:", "https:")))
        assert (reply.status, reply.reached) == (CONNECTION, False)
        assert "ssl" in (reply.error or "").lower()


def test_an_error_of_no_kind_in_the_library_of_the_sdk_is_that_of_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """anyio raises an AttributeError where a connection is gone before it is looked at."""

    async def gone(*_: Any) -> None:
        raise AttributeError("'NoneType' object has no attribute 'getpeername'")

    library = make_transport("openai", KEY, PATIENT)._http  # type: ignore[attr-defined]
    monkeypatch.setattr(library.AsyncHTTPTransport, "handle_async_request", gone)
    (reply,) = asyncio.run(sent("openai", "http://127.0.0.1:1/v1"))
    assert (reply.status, "getpeername" in reply.error) == (CONNECTION, True)


def test_the_command_takes_a_transport(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(4)])
    common = ("eval", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    written = []
    for name in ("httptools", "openai"):
        passes(cli(*common, "--run", name, "--transport", name), "8 rows in")
        lines = (tmp_path / "runs" / name / "responses.jsonl").read_bytes().splitlines()
        found = [{k: v for k, v in orjson.loads(line).items() if k not in ("time", "timings")} for line in lines]
        written.append(sorted(found, key=lambda row: (row["item"], row["strategy"])))
    assert written[0] == written[1], "the same rows, key for key"
    refuses_in_a_line(cli(*common, "--transport", "requests"), "unknown transport 'requests'")


# what is asked before a run


def test_what_is_asked_before_a_run_is_bounded_and_said_in_one_line() -> None:
    def asked(behaviour: Behaviour) -> list[str]:
        seconds = 0.3 if behaviour.waits else 60.0
        with Hostile(behaviour.saying) as server:
            probe = Probe(server.url, KEY, timeout=seconds)
            said = []
            for ask in (probe.models, lambda: learn_adaptations([probe], "tiny", [("", PLAIN)], Sampling(), "on")):
                with pytest.raises(ServerError) as error:
                    ask()
                said.append(str(error.value))
            assert probe.version() is None
            assert probe.count_prompt_tokens("tiny", [{"role": "user", "content": "hi"}]) is None
            assert is_healthy(server.url.removesuffix("/v1"), 0.3) in (True, False)
        assert server.sent < 5 * (3 * MOST_BYTES + BUFFERS)
        return said

    with ThreadPoolExecutor(16) as pool:
        for said in pool.map(asked, NO_ANSWER.values()):
            assert all(text.isprintable() and len(text) < 1000 for text in said)
    with Hostile(lambda: [response(ANSWER)]) as server:
        probe = Probe(server.url, KEY)
        assert (probe.models(), probe.version(), probe.count_prompt_tokens("tiny", [])) == ([{"id": "tiny"}], "1", 3)


def test_a_name_that_nobody_looks_up_takes_no_longer_than_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [][: over.wait(60)])
    with pytest.raises(ServerError, match="in time"):
        Probe("http://a.invalid:8000/v1", KEY, timeout=0.1).models()
    over.set()


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (lambda: [{"id": "x" * 2**20}], "not an OpenAI-compatible endpoint"),
        (lambda: [{"id": "a\x1b[2J"}], "not an OpenAI-compatible endpoint"),
        (lambda: [{"id": f"m{n}"} for n in range(50_000)], "serves several models"),
        (lambda: [{"id": "m" * 40}] * 100_000, "longer than 4 MiB"),
        (lambda: [{"id": KEY}], "name holds the API key"),
    ],
    ids=["a long name", "an escape sequence", "very many", "too many", "the key"],
)
def test_lists_of_models_that_nobody_has(models, said: str) -> None:
    raw = response(orjson.dumps({"data": models()}))
    with Hostile(lambda: [raw]) as server:
        probe = Probe(server.url, KEY)
        with pytest.raises(ServerError, match=said) as error:
            probe.choose([])
        try:
            other = f"{probe.choose(['mm'])} {probe.unlisted}"
        except ServerError as refused:
            other = str(refused)
    for text in (str(error.value), other):
        assert len(text) < 1000
        assert text.isprintable()
        assert KEY not in text


def test_what_a_server_says_of_itself_is_cut_and_inert(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"data":[{"id":"tiny","root":"/%b/\\u001b[31m%b","max_model_len":1%b}],"version":"\\u0007%b%b"}'
    raw = response(body % (KEY.encode(), b"r" * 2**20, b"0" * 30, KEY.encode(), b"v" * 2**20))
    monkeypatch.setenv("TOMSERVE_API_KEY", KEY)
    with Hostile(lambda: [raw]) as server:
        told = probe_endpoint(server.url, [None])
    assert told["root"].startswith("/***/\N{REPLACEMENT CHARACTER}[31mrrr")
    assert told["engine_version"].startswith("\N{REPLACEMENT CHARACTER}***vvv")
    assert (len(told["root"]) <= 1000, len(told["engine_version"]) <= 300) == (True, True)
    assert told["max_model_len"] is None


# reading a reply


def test_retry_after_in_seconds_and_as_a_date() -> None:
    assert (parse_retry_after("2.5"), parse_retry_after("-3")) == (2.5, 0.0)
    soon = parse_retry_after(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))
    assert soon is not None
    assert 3000 < soon <= 3600
    assert parse_retry_after(format_datetime(datetime.now(UTC) - timedelta(seconds=30), usegmt=True)) == 0.0
    for nonsense in (None, "", "soon", "nan", "inf", "Mon, 99 Nov 2026 00:00:00 GMT"):
        assert parse_retry_after(nonsense) is None


@pytest.mark.parametrize("levels", [10, 900, 1015, 1023, 1024, 100_000])
def test_nothing_that_nests_deeply_or_is_of_another_form_raises(levels: int) -> None:
    forms = (b"%b", b'{"error":%b}', b'{"choices":%b}', b'{"choices":[{"message":%b}]}')
    for raw in (*(around % (b"[" * levels + b"]" * levels) for around in forms), b"", b"null", b"\xff\xfe", b"1" * 5000,
                b'{"choices": [1]}', b'{"choices": [{"message": 3}]}'):  # fmt: skip
        assert (read_reply(200, raw).status, read_reply(400, raw).status) == (MALFORMED, "http_400")
    deep = b"[" * 500 + b"]" * 500
    odd = b'{"choices": [{"message": {"content": "x", "reasoning": %b}, "finish_reason": %b}], "model": %b}'
    assert read_reply(200, odd % (deep, deep, deep)).status == "ok"


ENDS = {
    "ok": [
        *((finish, "tea") for finish in ("stop", "eos_token", "end_turn", "repetition", "", None, 7, "x" * 10**5)),
        *((finish, "") for finish in ("stop", None, "unheard of")),
    ],
    "length": [
        *((finish, "te") for finish in ("length", "model_context_window_exceeded", "FinishReason.MAX_TOKENS")),
        ("length", None),
    ],
    "refusal": [
        *((finish, text) for finish in ("content-filter", "SAFETY") for text in ("", "te", None)),
    ],
    "malformed": [
        *((finish, text) for finish in ("abort", "NETWORK_ERROR") for text in ("", "te", None)),
        *((finish, None) for finish in ("stop", "tool_calls", None)),
    ],
}


@pytest.mark.parametrize("status", ENDS)
def test_what_the_end_of_a_reply_means(status: str) -> None:
    for finish, text in ENDS[status]:
        reply = read_reply(200, completion(text, finish))  # type: ignore[arg-type]
        assert (reply.status, reply.final) == (status, status != "malformed"), (finish, text)
        if status == "malformed":
            assert reply.text is None, "half a text is no answer"
            assert reply.error


@every_transport
def test_nothing_of_the_environment_is_sent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{variable}", "leaked")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-More: leaked\nAuthorization: Bearer leaked")
    with Hostile(lambda: [response(ANSWER)]) as server:
        asyncio.run(sent(name, server.url))
    (head,) = server.heard
    assert b"leaked" not in head
    assert f"authorization: bearer {KEY}".encode() in head.lower()


INFINITY = resource.RLIM_INFINITY


class Limits:
    """The limits of a process, which may forbid to be changed."""

    def __init__(self, soft: int, hard: int, *, fixed: bool = False) -> None:
        self.soft, self.hard, self.fixed = soft, hard, fixed

    def set(self, kind: int, limits: tuple[int, int]) -> None:
        if self.fixed or kind != resource.RLIMIT_NOFILE:
            raise ValueError("not allowed to raise maximum limit")
        self.soft, self.hard = limits


def limited(patch: pytest.MonkeyPatch, limits: Limits) -> None:
    patch.setattr(resource, "getrlimit", lambda kind: (limits.soft, limits.hard))
    patch.setattr(resource, "setrlimit", limits.set)


@pytest.mark.parametrize(
    ("limits", "wanted", "endpoints", "allowed", "soft"),
    [
        (Limits(1024, 1024), 65536, 1, 1024 - SPARE, 1024),
        (Limits(1024, 4096), 65536, 1, 4096 - SPARE, 4096),
        (Limits(1024, INFINITY), 65536, 1, 65536, 65536 + SPARE),
        (Limits(INFINITY, INFINITY), 65536, 1, 65536, INFINITY),
        (Limits(1024, 4096, fixed=True), 65536, 1, 1024 - SPARE, 1024),
        (Limits(1024, 1024), 800, 2, (1024 - SPARE) // 2, 1024),
        (Limits(1024, 1024), 100, 1, 100, 1024),
        (Limits(64, 64), 100, 1, 1, 64),
    ],
)
def test_as_many_as_the_system_allows(
    limits: Limits, wanted: int, endpoints: int, allowed: int, soft: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, limits)
    assert limit_in_flight(wanted, endpoints) == allowed
    assert limits.soft == soft


def test_a_run_says_that_fewer_are_in_flight(endpoint: Endpoint, cli, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, Limits(SPARE + 3, SPARE + 3))
    endpoint.delay = 0.02
    done = passes(cli("eval", "--base-url", endpoint.url, "--limit", 40, "--concurrency", 65536))
    assert "65,536 requests in flight need more open files than this system allows: 3 are in flight" in done.out
    assert endpoint.peak <= 3


TEA = Reply("ok", '{"answer":"tea"}')
PROBE = orjson.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})
POLICY = RetryPolicy(attempts=3, wait=wait_fixed(0.5), lost_after=60.0)
ACCOUNT = Reply("http_400", error="This organisation may not be served")


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
    (400, {"error": {"message": "ThrottlingException: Too many requests, please wait."}}, "http_429"),
    (400, [{"error": {"message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}}], "http_401"),
    (400, {"error": {"message": "filtered", "code": "content_filter"}}, "refusal"),
    (403, {"error": {"message": "requires moderation and your input was flagged for \"x\""}}, "refusal"),
    (500, {"error": {"message": "the request exceeds the available context size"}}, "http_400"),
    (200, {"object": "error", "message": "busy", "code": 503}, "http_503"),
    (200, {"error": {"code": "rate_limit_exceeded", "message": "slower"}}, "http_429"),
    (200, {"choices": [{"message": {"content": ""}, "finish_reason": "error", "error": {"code": 502}}]}, "http_502"),
    (200, {"detail": "Not Found"}, "malformed"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "body", "status"), SAID)
def test_the_words_of_an_error_decide_where_they_are_known(code: int, body: Any, status: str) -> None:
    assert read_reply(code, orjson.dumps(body)).status == status


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
    ({"x-ratelimit-reset-requests": "soon"}, None),
    ({"x-ratelimit-reset-requests": "1" * 60_000 + "x"}, None),  # in no time
    ({}, None),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "seconds"), ASKED)
def test_how_long_a_refusal_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait(headers) == seconds


def test_resets_at_a_time_and_words(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    soon = now + 50
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

    taken, refused = asyncio.run(sent(name, endpoint.url, times=2, body=request(0).body))
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
