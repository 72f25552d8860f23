"""Hostile servers: every transport, and what is asked before a run, ends with the right status and within bounds.
More requests in flight than the system allows open files: the limit is raised, or fewer are in flight, and said."""

import asyncio
import resource
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import orjson
import pytest

from tests.conftest import Endpoint, make_item
from tests.helpers.hostile import ANSWER, ANSWERED, NO_ANSWER, Answering, Behaviour, Hostile, completion, response
from tests.helpers.outcomes import passes, refuses_in_a_line
from tomserve.engine.rate_limits import parse_retry_after
from tomserve.engine.replies import read_reply
from tomserve.engine.request import Sampling
from tomserve.engine.transport import MAX_BODY, Reply, Timeouts
from tomserve.engine.transports import SPARE, TRANSPORTS, limit_in_flight, make_transport
from tomserve.errors import ServerError
from tomserve.items import write_items
from tomserve.serving.endpoint import probe_endpoint
from tomserve.serving.preflight import PLAIN, learn_adaptations
from tomserve.serving.probe import MOST_BYTES, Probe, is_healthy
from tomserve.status import CONNECTION, MALFORMED, OK, TIMEOUT

KEY = "sk-0123456789"
BODY = b'{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":1}'
BUFFERS = 32 * 2**20
"""Bytes that may lie between a client that reads no more and a server that still writes."""
HASTY, PATIENT = Timeouts(connect=30, stall=30, total=0.5), Timeouts(connect=30, stall=30, total=60)

every_transport = pytest.mark.parametrize("name", TRANSPORTS)


async def sent(name: str, url: str, timeouts: Timeouts = PATIENT, times: int = 1) -> list[Reply]:
    client = make_transport(name, KEY, timeouts)
    try:
        return [await client.send(url, BODY) for _ in range(times)]
    finally:
        await client.close()


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


def test_the_command_takes_a_transport(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(4)])
    common = ("eval", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    written = []
    for name in ("httptools", "openai"):
        done = passes(cli(*common, "--run", name, "--transport", name))
        assert "8 rows in" in done.out
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
        *((finish, "te") for finish in ("length", "max_output_tokens", "model_length", "MAX_TOKENS")),
        *((finish, "te") for finish in ("model_context_window_exceeded", "FinishReason.MAX_TOKENS")),
        *((finish, None) for finish in ("length", "model_length")),
    ],
    "refusal": [
        *((finish, text) for finish in ("content-filter", "SAFETY") for text in ("", "te", None)),
        *((finish, "te") for finish in ("sensitive", "RECITATION", "BLOCKLIST", "refusal")),
    ],
    "malformed": [
        *(
            (finish, text)
            for finish in ("abort", "error", "insufficient_system_resource", "NETWORK_ERROR")
            for text in ("", "te", None)
        ),
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


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ([THOUGHT, {"type": "text", "text": "tea"}], "tea", "Hm."),
        ([{"type": "reasoning", "text": "Hm."}, *({"type": "text", "text": part} for part in ("te", "a"))], "tea", "Hm."),
        ([{"type": "thinking", "thinking": "Hm."}, {"type": "image"}, 7], "", "Hm."),
        ([{"type": ["text"], "text": "tea"}, {"type": "text", "text": {}}], None, None),
    ],
)  # fmt: skip
def test_a_message_in_parts_is_read(content: list[object], text: str | None, reasoning: str | None) -> None:
    reply = read_reply(200, completion(content))  # type: ignore[arg-type]
    assert (reply.status, reply.text, reply.reasoning) == ("malformed" if text is None else "ok", text, reasoning)


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


def test_a_count_that_is_none_is_not_kept() -> None:
    for count in (True, -1, 2**60, "9 or so", 1.5, None):
        usage = {"prompt_tokens": count, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
        answer = orjson.loads(completion("x")) | {"usage": usage}
        assert read_reply(200, orjson.dumps(answer)).usage == {"completion": 3}, count


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
