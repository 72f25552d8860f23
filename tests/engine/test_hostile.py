"""A hostile server, with every transport: every item ends with the right status, and the healthy rest is not lost."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from tenacity import wait_none

from tests.conftest import Endpoint, completion, make_item
from tests.helpers.asking import page, request, rows
from tomserve.engine import runner as runner_module
from tomserve.engine.aiohttp_transport import AiohttpTransport
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.openai_transport import OpenAITransport
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import MAX_BODY, Timeouts, retry_after
from tomserve.errors import ServerError, ServerLostError
from tomserve.items import write_items
from tomserve.runs.journal import Journal

FAST = RetryPolicy(attempts=2, wait=wait_none(), lost_after=5.0)
TRANSPORTS = {"httptools": HttptoolsTransport, "aiohttp": AiohttpTransport, "openai": OpenAITransport}
OURS = ("httptools", "aiohttp")
"""Those whose connections are in our hands."""


@pytest.fixture
def journal(tmp_path: Path):
    with Journal(tmp_path / "responses.jsonl") as opened:
        yield opened


@pytest.fixture(params=list(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=OURS)
def ours(request: pytest.FixtureRequest) -> str:
    return request.param


def ask(transport: str, urls: list[str], journal: Journal, requests, *, timeouts=None, policy=FAST, **options) -> bool:
    async def go() -> bool:
        client = TRANSPORTS[transport]("sk-secret-key", timeouts or Timeouts(connect=2, stall=1, total=2))
        try:
            return await Runner(urls, client, journal, policy=policy, **{"concurrency": 4, **options}).run(requests)
        finally:
            await client.close()

    return asyncio.run(go())


class Raw:
    """A server below HTTP: `behave(connection, body)` gets each request's socket; questions without "bad" are answered."""

    def __init__(self, behave: Callable[[socket.socket, bytes], None]) -> None:
        self.behave = behave
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            data = b""
            while b"\r\n\r\n" not in data:
                if not (piece := connection.recv(65536)):
                    return
                data += piece
            head, _, body = data.partition(b"\r\n\r\n")
            self.head = head.lower()
            lengths = [
                line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
            ]
            length = int(lengths[0]) if lengths else 0  # a GET, for metrics
            while len(body) < length:
                body += connection.recv(65536)
            if b"bad" in body:
                self.behave(connection, body)
            else:
                connection.sendall(http(orjson.dumps(completion('{"answer":"tea"}'))))


def http(body: bytes, *, length: int | None = None, close: bool = True) -> bytes:
    size = len(body) if length is None else length
    head = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {size}"]
    return "\r\n".join([*head, *(["Connection: close"] if close else []), "", ""]).encode() + body


def test_nothing_of_the_environment_is_sent(transport: str, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "leaked")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-More: leaked\nAuthorization: Bearer leaked")
    server = Raw(reset)
    assert ask(transport, [server.url], journal, [request(0)])
    assert b"leaked" not in server.head
    assert b"authorization: bearer sk-secret-key" in server.head


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()


PROBE = orjson.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})
SALT = orjson.dumps(completion('{"answer":"salt"}'))
GOOD = orjson.dumps(completion('{"answer":"tea"}'))


def drip(connection: socket.socket, body: bytes) -> None:
    connection.sendall(http(b"", length=len(GOOD)))
    for byte in GOOD:
        time.sleep(0.1)  # never silent for long, never done in time
        connection.sendall(bytes([byte]))


BELOW_HTTP: dict[str, tuple[Callable[[socket.socket, bytes], None], str]] = {
    "reset before an answer": (lambda c, b: reset(c), "connection"),
    "reset in mid-body": (lambda c, b: (c.sendall(http(GOOD[:20], length=len(GOOD))), reset(c)), "connection"),
    "closed without an answer": (lambda c, b: c.shutdown(socket.SHUT_RDWR), "connection"),
    "half-closed in mid-body": (
        lambda c, b: (c.sendall(http(GOOD[:20], length=len(GOOD))), c.shutdown(socket.SHUT_WR)),
        "connection",
    ),
    "silent": (lambda c, b: time.sleep(3), "timeout"),
    "silent in mid-body": (lambda c, b: (c.sendall(http(GOOD[:20], length=len(GOOD))), time.sleep(3)), "timeout"),
    "a slow drip": (drip, "timeout"),
    "not HTTP": (lambda c, b: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "connection"),
    "invalid UTF-8": (lambda c, b: c.sendall(http(GOOD.replace(b"tea", b"t\xff\xfe"))), "malformed"),
    "two answers to one request": (lambda c, b: c.sendall(http(GOOD, close=False) + http(SALT, close=False)), "ok"),
    "an endless body": (lambda c, b: c.sendall(http(b"[" + b" " * (MAX_BODY + 10))), "malformed"),
}


@pytest.mark.parametrize("name", BELOW_HTTP)
def test_faults_below_http(name: str, transport: str, journal: Journal) -> None:
    behave, status = BELOW_HTTP[name]

    def tolerant(connection: socket.socket, body: bytes) -> None:
        with contextlib.suppress(OSError):
            behave(connection, body)

    server = Raw(tolerant)
    try:
        assert ask(transport, [server.url], journal, [request(0, "bad"), *(request(n) for n in range(1, 6))])
    finally:
        server.socket.close()
    found = {row["item"]: row for row in rows(journal)}
    assert found["i0"]["status"] == status, found["i0"]
    assert found["i0"]["attempts"] == (1 if status == "ok" else 2)
    if (transport, name) == ("openai", "two answers to one request"):
        return  # httpx gives such a connection to the next request, unless it has been closed by then: a race
    assert {found[f"i{n}"]["text"] for n in range(1, 6)} == {'{"answer":"tea"}'}, "the second answer is nobody's"


ABOVE_HTTP: dict[str, tuple[Callable[[], web.Response], str, int]] = {
    "a proxy's page": (lambda: page(502, "<html>Bad Gateway</html>", "text/html"), "http_502", 2),
    "500": (lambda: page(500, '{"error": {"message": "engine"}}'), "http_500", 2),
    "503": (lambda: page(503), "http_503", 2),
    "429": (lambda: page(429), "http_429", 2),
    "a redirect": (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "http_302", 1),
    "400": (lambda: page(400, '{"error": {"message": "too long"}}'), "http_400", 1),
    "404": (lambda: page(404), "http_404", 1),
    "422": (lambda: page(422), "http_422", 1),
    "a page": (lambda: page(200, "<html>hi</html>", "text/html"), "malformed", 2),
    "truncated JSON": (lambda: page(200, '{"choices": [{"mess'), "malformed", 2),
    "no choices": (lambda: page(200, '{"choices": []}'), "malformed", 2),
    "no content": (lambda: web.json_response(completion(None)), "malformed", 2),
    "JSON of the wrong type": (lambda: page(200, "[1, 2]"), "malformed", 2),
    "JSON with another content type": (lambda: page(200, GOOD.decode(), "text/plain"), "ok", 1),
    "cut off": (lambda: web.json_response(completion("half", finish="length")), "length", 1),
    "a refusal": (lambda: web.json_response(completion(None, refusal="no")), "refusal", 1),
}


@pytest.mark.parametrize("name", ABOVE_HTTP)
def test_faults_of_http(name: str, transport: str, endpoint: Endpoint, journal: Journal) -> None:
    reply, status, attempts = ABOVE_HTTP[name]
    endpoint.script = lambda body, n: reply() if body["messages"][0]["content"] == "bad" else None
    assert ask(transport, [endpoint.url], journal, [request(0, "bad"), *(request(n) for n in range(1, 6))])
    found = {row["item"]: row for row in rows(journal)}
    assert (found["i0"]["status"], found["i0"]["attempts"]) == (status, attempts), found["i0"]
    assert {found[f"i{n}"]["status"] for n in range(1, 6)} == {"ok"}
    assert "sk-secret-key" not in journal.path.read_text()


def test_retry_after_in_seconds_and_as_a_date() -> None:
    assert retry_after("2.5") == 2.5
    assert retry_after("-3") == 0.0
    soon = retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True))
    assert soon is not None
    assert 25 < soon <= 30
    assert retry_after(format_datetime(datetime.now(UTC) - timedelta(seconds=30), usegmt=True)) == 0.0
    for nonsense in (None, "", "soon", "nan", "inf", "Mon, 99 Nov 2026 00:00:00 GMT"):
        assert retry_after(nonsense) is None


def test_retry_after_is_waited_for(transport: str, endpoint: Endpoint, journal: Journal) -> None:
    times: list[float] = []

    def script(body, n):
        times.append(time.monotonic())
        return web.json_response({}, status=429, headers={"Retry-After": "0.7"}) if n == 1 else None

    endpoint.script = script
    assert ask(transport, [endpoint.url], journal, [request(0)])
    assert times[1] - times[0] >= 0.69


def test_a_server_that_speaks_no_tls_is_lost(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    """TLS asked of a plain server: never an answer, so the run ends, with the reason."""
    policy = RetryPolicy(attempts=2, wait=wait_none(), lost_after=0.3)
    with pytest.raises(ServerLostError, match=r"last error: https://127.*(SSL|ssl)"):
        ask(ours, [endpoint.url.replace("http:", "https:")], journal, [request(0), request(1)], policy=policy)


def test_an_endpoint_where_nobody_listens_is_lost(transport: str, journal: Journal) -> None:
    policy = RetryPolicy(attempts=2, wait=wait_none(), lost_after=0.3)
    with pytest.raises(ServerLostError, match="no contact for") as error:
        ask(transport, ["http://127.0.0.1:1/v1"], journal, [request(0), request(1)], policy=policy)
    assert error.value.exit_code == 3
    assert rows(journal) == []


def test_the_same_refusal_of_the_first_questions_is_one_error(
    transport: str, endpoint: Endpoint, journal: Journal
) -> None:
    endpoint.script = lambda body, n: page(400, '{"error": {"message": "unknown field response_format"}}')
    with pytest.raises(
        ServerError, match=r"the first 8 questions were all refused with http_400 \(unknown field"
    ) as error:
        ask(transport, [endpoint.url], journal, (request(n) for n in range(1000)))
    assert error.value.exit_code == 2
    assert rows(journal) == []
    assert len(endpoint.requests) <= 12
    endpoint.script = lambda body, n: None
    assert ask(transport, [endpoint.url], journal, (request(n) for n in range(20)))
    assert len(rows(journal)) == 20, "nothing of it was final"


def test_few_questions_all_refused_and_one_question_refused(ours: str, endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.script = lambda body, n: page(400, '{"error": {"message": "no"}}')
    with Journal(tmp_path / "three.jsonl") as journal:
        with pytest.raises(ServerError, match="the first 3 questions"):
            ask(ours, [endpoint.url], journal, [request(n) for n in range(3)])
        assert rows(journal) == []
    with Journal(tmp_path / "one.jsonl") as journal:
        assert ask(ours, [endpoint.url], journal, [request(0)])
        assert [row["status"] for row in rows(journal)] == ["http_400"]


def test_different_refusals_are_rows(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    words = ("too long", "no such field", "bad schema")
    endpoint.script = lambda body, n: page(400, orjson.dumps({"error": {"message": words[n % 3]}}).decode())
    assert ask(ours, [endpoint.url], journal, [request(n) for n in range(20)])
    assert [row["status"] for row in rows(journal)] == ["http_400"] * 20


def test_refusals_held_back_are_kept_when_the_run_is_stopped(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: page(400, '{"error": {"message": "no"}}')

    async def go() -> bool:
        stop = asyncio.Event()
        client = TRANSPORTS[ours]()

        def slowly():
            for n in range(5):
                yield request(n)
                if n == 3:
                    stop.set()

        try:
            return await Runner([endpoint.url], client, journal, concurrency=1, stop=stop).run(slowly())
        finally:
            await client.close()

    assert asyncio.run(go()) is False
    assert len(rows(journal)) == len(endpoint.requests) > 1


def test_a_server_that_only_fails_ends_the_run_with_a_diagnosis(
    ours: str, endpoint: Endpoint, journal: Journal
) -> None:
    """Not thousands of error rows: they would all have to be asked again."""
    endpoint.script = lambda body, n: page(503, '{"error": {"message": "overloaded"}}') if n > 20 else None
    policy = RetryPolicy(attempts=3, wait=wait_none(), lost_after=0.5)
    reason = (
        r"no answer for \d+ s \(since \d\d:\d\d:\d\d UTC\), \d+ questions in a row failed; last error: http.*overloaded"
    )
    with pytest.raises(ServerLostError, match=reason) as error:
        ask(ours, [endpoint.url], journal, (request(n) for n in range(500)), policy=policy, concurrency=16)
    assert error.value.exit_code == 3
    statuses = [row["status"] for row in rows(journal)]
    assert statuses.count("ok") == 20
    assert len(statuses) < 40
    endpoint.script = lambda body, n: None
    assert ask(ours, [endpoint.url], journal, (request(n) for n in range(500)))
    assert len({row["item"] for row in rows(journal) if row["status"] == "ok"}) == 500


def test_an_outage_that_passes_costs_no_item(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    began = time.monotonic()
    endpoint.script = lambda body, n: page(503) if n > 10 and time.monotonic() - began < 1.5 else None
    policy = RetryPolicy(attempts=2, wait=runner_wait(), lost_after=20)
    assert ask(ours, [endpoint.url], journal, (request(n) for n in range(200)), policy=policy, concurrency=16)
    statuses = [row["status"] for row in rows(journal)]
    assert statuses.count("ok") >= 200 - 8, "only those given up before the outage was suspected"


def runner_wait():
    from tenacity import wait_fixed

    return wait_fixed(0.05)


def test_an_error_storm_does_not_pin_the_event_loop(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    """10,000 garbled answers in a row after one good one; a heartbeat in the same loop must go on."""
    endpoint.script = lambda body, n: (
        None if n == 1 else page(400, orjson.dumps({"error": {"message": "no " + "x" * (n % 7 + 1)}}).decode())
    )
    late: list[float] = []

    async def heartbeat() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.02)
            late.append(time.monotonic() - last)
            last = time.monotonic()

    async def go() -> bool:
        beat = asyncio.create_task(heartbeat())
        client = TRANSPORTS[ours]()
        try:
            return await Runner([endpoint.url], client, journal, concurrency=64).run(request(n) for n in range(10_000))
        finally:
            beat.cancel()
            await client.close()

    assert asyncio.run(go())
    assert len(rows(journal)) == 10_000
    assert max(late) < 5, "seconds between two beats"


def test_the_healthy_rest_is_not_slowed_by_a_silent_item(ours: str, journal: Journal) -> None:
    """One question hangs for the whole time limit; every other is answered before it ends."""
    server = Raw(lambda c, b: time.sleep(2.5))
    assert ask(ours, [server.url], journal, [request(0, "bad"), *(request(n) for n in range(1, 200))])
    server.socket.close()
    order = [row["item"] for row in rows(journal)]
    assert order[-1] == "i0"
    assert len(order) == 200


def test_another_model_is_seen_but_no_error(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: web.json_response(completion('{"answer":"tea"}', "another"))
    assert ask(ours, [endpoint.url], journal, [request(0)])
    assert rows(journal)[0]["status"] == "ok"
    assert rows(journal)[0]["served_model"] == "another"


def test_a_replica_that_comes_back_is_used_again(
    ours: str, endpoint: Endpoint, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "PROBE_EVERY", 0.05)
    endpoint.delay = 0.02
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    late: list[Raw] = []

    def start() -> None:
        time.sleep(0.5)
        server = Raw.__new__(Raw)
        server.behave = lambda c, b: None
        server.socket = socket.create_server(("127.0.0.1", port), reuse_port=False)
        server.url = f"http://127.0.0.1:{port}/v1"
        late.append(server)
        server._accept()

    original = Raw._serve

    def serve(self: Raw, connection: socket.socket) -> None:
        peek = connection.recv(3, socket.MSG_PEEK)
        if peek == b"GET":
            connection.sendall(http(b'{"data": []}'))
            connection.close()
        else:
            original(self, connection)

    monkeypatch.setattr(Raw, "_serve", serve)
    threading.Thread(target=start, daemon=True).start()
    urls = [endpoint.url, f"http://127.0.0.1:{port}/v1"]
    policy = RetryPolicy(attempts=2, lost_after=20)
    assert ask(ours, urls, journal, (request(n) for n in range(400)), policy=policy, concurrency=8)
    late[0].socket.close()
    by_endpoint = {row["endpoint"] for row in rows(journal)}
    assert by_endpoint == set(urls)
    assert {row["status"] for row in rows(journal)} == {"ok"}


def test_hedging_is_an_option_and_makes_one_row(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    slow = Raw(lambda c, b: (time.sleep(1.5), c.sendall(http(GOOD))))
    urls = [slow.url, endpoint.url]  # the first of equals is asked first
    began = time.monotonic()
    timeouts = Timeouts(connect=2, stall=5, total=5)
    assert ask(ours, urls, journal, [request(0, "bad")], hedge=0.1, concurrency=1, timeouts=timeouts)
    slow.socket.close()
    assert [(row["item"], row["endpoint"]) for row in rows(journal)] == [("i0", endpoint.url)]
    assert time.monotonic() - began < 1.4
    assert len(endpoint.requests) == 1


def test_the_command_takes_both_transports(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(12)])
    common = ("eval", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    assert cli(*common, "--run", "a").code == 0
    done = cli(*common, "--run", "b", "--transport", "openai")
    assert done.code == 0, done.err
    assert "24 rows in" in done.out
    assert "retries" in done.out
    texts = []
    for run in "ab":
        lines = (tmp_path / "runs" / run / "responses.jsonl").read_bytes().splitlines()
        found = [{k: v for k, v in orjson.loads(line).items() if k not in ("time", "timings")} for line in lines]
        texts.append(sorted(found, key=lambda row: (row["item"], row["strategy"])))
    assert texts[0] == texts[1], "the same rows, key for key"
    bad = cli(*common, "--transport", "requests")
    assert (bad.code, bad.err.count("\n")) == (2, 1)
    assert "unknown transport 'requests'" in bad.err


def test_items_that_always_fail_end_as_rows_once_a_probe_is_answered(
    ours: str, endpoint: Endpoint, journal: Journal
) -> None:
    """More bad items than an outage needs, and nothing else left: they must not keep the run from ever ending."""
    bad = lambda body, n: page(500) if body["messages"][0]["content"] != "hi" else None  # noqa: E731
    endpoint.script = bad
    policy = RetryPolicy(attempts=3, wait=runner_wait(), lost_after=5.0)
    assert ask(ours, [endpoint.url], journal, [request(n) for n in range(12)], policy=policy, probe=PROBE)
    assert [row["status"] for row in rows(journal)] == ["http_500"] * 12


def test_a_slow_server_is_not_lost_because_some_items_fail(
    ours: str, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight items are dropped at once, the healthy rest takes longer than the bound for an outage."""
    monkeypatch.setattr(runner_module, "PROBE_EVERY", 0.1)
    server = Raw(lambda c, b: reset(c))
    original = server._serve

    def slow(connection: socket.socket) -> None:
        peek = connection.recv(65536, socket.MSG_PEEK)
        while not peek.startswith(b"GET") and peek and (b"\r\n\r\n" not in peek or len(peek) < 300):
            peek = connection.recv(65536, socket.MSG_PEEK)
        if b"bad" not in peek:
            time.sleep(1.2)
        original(connection)

    server._serve = slow  # type: ignore[method-assign]
    policy = RetryPolicy(attempts=3, wait=runner_wait(), lost_after=0.8)
    asked = [*(request(n, f"bad {n}") for n in range(8)), *(request(n) for n in range(8, 24))]
    timeouts = Timeouts(connect=2, stall=5, total=5)
    assert ask(ours, [server.url], journal, asked, policy=policy, concurrency=24, timeouts=timeouts, probe=PROBE)
    server.socket.close()
    statuses = [row["status"] for row in rows(journal)]
    assert statuses.count("ok") == 16


def test_a_replica_that_fails_does_not_attract_the_work(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    """One refuses everything at once, with 404 or 500; the other is slower and does all the work."""
    endpoint.delay = 0.02
    for status in (404, 500):
        broken = Raw(lambda c, b: None)
        broken._serve = lambda c, status=status: always(c, status)  # type: ignore[method-assign]
        asked = [request(status * 1000 + n) for n in range(60)]
        policy = RetryPolicy(attempts=4, wait=wait_none(), lost_after=20)
        assert ask(ours, [broken.url, endpoint.url], journal, asked, policy=policy, concurrency=8)
        broken.socket.close()
    found = rows(journal)
    assert {row["status"] for row in found} == {"ok"}
    assert len(found) == 120


def always(connection: socket.socket, status: int) -> None:
    connection.recv(65536)
    connection.sendall(http(b'{"error": {"message": "model not found"}}').replace(b"200 OK", f"{status} No".encode()))
    connection.close()


def test_a_retry_after_of_zero_is_not_taken_literally() -> None:
    from tenacity import wait_fixed

    from tomserve.engine.transport import Reply

    policy = RetryPolicy(wait=wait_fixed(3))
    assert policy.seconds(Reply("http_503", retry_after=0.0), 1) == 3
    assert policy.seconds(Reply("http_503", retry_after=7.0), 1) == 7
    assert policy.seconds(Reply("http_503", retry_after=9999.0), 1) == 120


def test_refusals_that_differ_in_numbers_only_are_the_same(ours: str, endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: page(400, f'{{"error": {{"message": "you requested {1000 + n} tokens"}}}}')
    with pytest.raises(ServerError, match="the first 8 questions were all refused"):
        ask(ours, [endpoint.url], journal, (request(n) for n in range(40)))
    assert rows(journal) == []
