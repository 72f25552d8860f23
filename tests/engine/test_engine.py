"""Transport, journal, run folder and runner, against a real HTTP server that misbehaves as told."""

import asyncio
import gc
import json
import os
import socket
import time
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from aiohttp import web
from tenacity import wait_none

from tests.conftest import Endpoint, completion
from tests.helpers.asking import FAST, SCHEMA, ask, page, request, row, rows
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.request import AHEAD, Identity, Request, Sampling
from tomserve.engine.retry import Pause, RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import Reply, Timeouts, read_reply
from tomserve.errors import ConfigError, JournalError, MachineError, RunMismatchError, ServerError, ServerLostError
from tomserve.prompting.turn import Turn
from tomserve.runs.journal import Journal, read_rows
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder, default_name, run_path


@pytest.fixture
def journal(tmp_path: Path):
    with Journal(tmp_path / "responses.jsonl") as opened:
        yield opened


def test_the_key_says_what_was_sent_and_nothing_else() -> None:
    def key(**changes) -> str:
        fields = {"identity": Identity("a", "s", 0), "model": "m", "revision": "r", "sampling": Sampling(), **changes}
        turn = fields.pop("turn", Turn(({"role": "user", "content": "q"},), SCHEMA, 16))
        return Request.build(fields.pop("identity"), turn, **fields).key

    assert key() == key(identity=Identity("b", "t", 1))
    other = [
        key(model="n"),
        key(revision=None),
        key(sampling=Sampling(seed=1)),
        key(turn=Turn(({"role": "user", "content": "Q"},), SCHEMA, 16)),
        key(turn=Turn(({"role": "user", "content": "q"},), {}, 16)),
        key(turn=Turn(({"role": "user", "content": "q"},), SCHEMA, 17)),
    ]
    assert len({key(), *other}) == 7


def test_every_request_becomes_one_row(endpoint: Endpoint, journal: Journal) -> None:
    assert ask(endpoint, journal, (request(n) for n in range(50)))
    found = rows(journal)
    assert sorted(row["item"] for row in found) == sorted(f"i{n}" for n in range(50))
    assert {row["status"] for row in found} == {"ok"}
    assert found[0]["text"] == '{"answer":"tea"}'
    assert found[0]["usage"] == {"prompt": 10, "completion": 5, "cached": 4}
    assert found[0]["schema"] == 1
    assert endpoint.peak <= 4
    body = endpoint.requests[0]
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 0, 16)
    assert body["response_format"]["type"] == "json_schema"


def test_requests_are_made_lazily(endpoint: Endpoint, journal: Journal) -> None:
    made = []

    def stream():
        for n in range(400):
            made.append(n)
            # at most what has been answered, one a worker, and the few that are made at a time
            assert len(made) <= len(endpoint.requests) + 5 + AHEAD
            yield request(n)

    assert ask(endpoint, journal, stream())
    assert len(made) == 400


def test_equal_prompts_are_sent_once_and_get_a_row_each(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.delay = 0.05
    assert ask(endpoint, journal, [request(n, "the same") for n in range(6)])
    assert ask(endpoint, journal, [request(9, "the same")])
    assert len(endpoint.requests) == 1
    found = rows(journal)
    assert sorted(row["item"] for row in found) == ["i0", "i1", "i2", "i3", "i4", "i5", "i9"]
    assert sorted(row["reused"] for row in found) == [False] + [True] * 6
    assert len({row["text"] for row in found}) == 1


def test_what_is_final_is_not_asked_again(endpoint: Endpoint, journal: Journal) -> None:
    ask(endpoint, journal, [request(n) for n in range(5)])
    ask(endpoint, journal, [request(n) for n in range(8)])
    assert len(endpoint.requests) == 8
    assert len(rows(journal)) == 8


@pytest.mark.parametrize(
    ("reply", "status", "copies"),
    [
        (lambda: page(400, '{"error": {"message": "too long", "param": "input_text"}}'), "http_400", 1),
        (lambda: page(404, '{"detail": "Not Found"}'), "http_404", 1),
        (lambda: page(422), "http_422", 1),
        (lambda: page(500, '{"error": {"message": "EngineCore encountered an issue"}}'), "http_500", 3),
        (lambda: page(502, "<html>Bad Gateway</html>", "text/html"), "http_502", 3),
        (lambda: page(503), "http_503", 3),
        (lambda: page(429), "http_429", 3),
        (lambda: page(302), "http_302", 1),
        (lambda: page(200, "<html>hello</html>", "text/html"), "malformed", 3),
        (lambda: page(200, '{"choices": [{"mess'), "malformed", 3),
        (lambda: page(200, '{"choices": []}'), "malformed", 3),
        (lambda: page(200, '{"error": {"message": "dead"}}'), "malformed", 3),
        (lambda: web.json_response(completion(None)), "malformed", 3),
        (lambda: web.json_response(completion("half", finish="length")), "length", 1),
        (lambda: web.json_response(completion(None, finish="length", reasoning="hm")), "length", 1),
        (lambda: web.json_response(completion(None, refusal="I will not")), "refusal", 1),
        (lambda: web.json_response(completion("", finish="content_filter")), "refusal", 1),
    ],
)
def test_statuses(endpoint: Endpoint, journal: Journal, reply, status: str, copies: int) -> None:
    endpoint.script = lambda body, n: reply() if body["messages"][0]["content"] == "bad" else None
    assert ask(endpoint, journal, [request(0, "bad"), request(1), request(2)])
    found = {row["item"]: row for row in rows(journal)}
    assert found["i0"]["status"] == status
    assert found["i0"]["attempts"] == copies
    assert found["i1"]["status"] == found["i2"]["status"] == "ok"
    assert sum(body["messages"][0]["content"] == "bad" for body in endpoint.requests) == copies


def test_a_passing_fault_is_ridden_out(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: page(503) if n <= 2 else None
    assert ask(endpoint, journal, [request(0)], concurrency=1)
    assert [(row["status"], row["attempts"]) for row in rows(journal)] == [("ok", 3)]


def test_retry_after_is_honoured() -> None:
    assert RetryPolicy().seconds(Reply("http_429", retry_after=7.0), 1) == 7.0
    assert 0 <= RetryPolicy().seconds(Reply("http_429"), 3) <= 20


def test_a_slow_reply_is_a_timeout(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.delay = 1.0
    policy = RetryPolicy(attempts=1, wait=wait_none())
    assert ask(endpoint, journal, [request(0)], policy=policy, timeout=0.2)
    assert [row["status"] for row in rows(journal)] == ["timeout"]


def test_a_huge_body_is_bounded(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: page(200, "x" * (17 * 2**20))
    assert ask(endpoint, journal, [request(0)], policy=RetryPolicy(attempts=1))
    assert [(row["status"], row["error"]) for row in rows(journal)] == [("malformed", "huge body")]


def test_a_refused_key_ends_the_run(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: page(401, '{"error": "Unauthorized"}') if n > 3 else None
    with pytest.raises(ServerError, match="API key was refused"):
        ask(endpoint, journal, [request(n) for n in range(50)], concurrency=1)
    assert len(rows(journal)) == 3


def test_a_server_that_is_gone_ends_the_run_and_loses_nothing(endpoint: Endpoint, journal: Journal) -> None:
    ask(endpoint, journal, [request(0)])
    gone = Endpoint(port=1)  # nothing listens on port 1
    policy = RetryPolicy(attempts=3, wait=wait_none(), lost_after=0.3)
    with pytest.raises(ServerLostError, match="no contact for") as error:
        ask(gone, journal, [request(n) for n in range(10)], policy=policy)
    assert error.value.exit_code == 3
    assert [row["item"] for row in rows(journal)] == ["i0"]  # no failure rows for what was never answered


def test_a_server_that_drops_one_request_does_not_lose_the_run(endpoint: Endpoint, journal: Journal) -> None:
    """A healthy server that closes the connection for one item: that item fails, the others and the run do not."""

    endpoint.drop = lambda body: body["messages"][0]["content"] == "bad"
    assert ask(endpoint, journal, [request(0, "bad"), request(1), request(2)], concurrency=1)
    found = {row["item"]: row["status"] for row in rows(journal)}
    assert found == {"i0": "connection", "i1": "ok", "i2": "ok"}


def test_a_machine_that_swallows_connections_is_lost_too(journal: Journal) -> None:
    with socket.socket() as full:  # a listener whose queue is full answers no SYN
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        gone = Endpoint(port=full.getsockname()[1])

        async def go() -> bool:
            transport = HttptoolsTransport(None, Timeouts(connect=0.3, total=5))
            runner = Runner([gone.url], transport, journal, concurrency=2, policy=FAST)
            try:
                return await runner.run([request(0), request(1)])
            finally:
                await transport.close()

        with pytest.raises(ServerLostError):
            asyncio.run(go())
        for filler in fillers:
            filler.close()
    assert rows(journal) == []


def test_a_dead_replica_costs_no_item(endpoint: Endpoint, journal: Journal) -> None:
    async def go() -> bool:
        transport = HttptoolsTransport()
        urls = [endpoint.url, "http://127.0.0.1:1/v1"]
        runner = Runner(urls, transport, journal, concurrency=8, policy=RetryPolicy(attempts=2))
        try:
            return await runner.run(request(n) for n in range(200))
        finally:
            await transport.close()

    assert asyncio.run(go())
    assert {row["status"] for row in rows(journal)} == {"ok"}
    assert len(rows(journal)) == 200


def test_a_disk_that_fails_to_sync_ends_the_run(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.delay = 0.2
    journal = Journal(tmp_path / "responses.jsonl")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(JournalError, match="No space left on device") as error:
        ask(endpoint, journal, (request(n) for n in range(100)), concurrency=1)
    assert error.value.exit_code == 3
    monkeypatch.undo()
    journal.close()


def test_hostile_replies_become_rows(endpoint: Endpoint, journal: Journal) -> None:
    deep = "[" * 500 + "]" * 500
    texts = [
        f'{{"error": {deep}}}',
        f'{{"choices": [{{"message": {{"content": "x", "reasoning": {deep}}}, "finish_reason": {deep}}}], "model": {deep}}}',
        '{"choices": [{"message": {"content": "\\ud800"}}]}',
    ]
    endpoint.script = lambda body, n: page(200, texts[(n - 1) % 3])
    assert ask(endpoint, journal, [request(n) for n in range(3)], policy=RetryPolicy(attempts=1), concurrency=1)
    assert [row["status"] for row in rows(journal)] == ["malformed", "ok", "malformed"]


def test_the_first_stop_drains_what_is_in_flight(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.delay = 0.2

    async def go() -> bool:
        stop = asyncio.Event()
        transport = HttptoolsTransport()
        runner = Runner([endpoint.url], transport, journal, concurrency=3, stop=stop)
        asyncio.get_running_loop().call_later(0.3, stop.set)
        try:
            return await runner.run(request(n) for n in range(1000))
        finally:
            await transport.close()

    assert asyncio.run(go()) is False
    assert 3 <= len(rows(journal)) <= 9
    assert len(rows(journal)) == len(endpoint.requests)


def test_a_key_is_masked_before_an_error_is_cut(endpoint: Endpoint) -> None:
    async def go() -> Reply:
        transport = HttptoolsTransport("sk-" + "s" * 40)
        try:
            return await transport.send(endpoint.url, b'{"model": "m", "response_format": 1, "messages": []}')
        finally:
            await transport.close()

    text = "x" * 480 + "sk-" + "s" * 40
    endpoint.script = lambda body, n: page(400, f'{{"error": {{"message": "{text}"}}}}')
    assert "sss" not in asyncio.run(go()).error


def test_key_never_reaches_an_error(endpoint: Endpoint) -> None:
    async def go() -> Reply:
        transport = HttptoolsTransport("sk-secret")
        try:
            return await transport.send(endpoint.url, b'{"model": "m", "response_format": 1, "messages": []}')
        finally:
            await transport.close()

    endpoint.script = lambda body, n: page(500, '{"error": {"message": "key sk-secret is bad"}}')
    assert asyncio.run(go()).error == "key *** is bad"


def test_read_reply_survives_anything() -> None:
    for raw in (b"", b"null", b"[]", b"\xff\xfe", b'{"choices": [1]}', b'{"choices": [{"message": 3}]}', b"1" * 5000):
        assert read_reply(200, raw).status == "malformed"
        assert read_reply(500, raw).status == "http_500"


# the journal


def test_a_torn_last_line_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with Journal(path) as journal:
        journal.append(row("a"))
        journal.append(row("b"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"item": "c", "stra')
    with Journal(path) as journal:
        assert journal.torn is not None
        assert journal.torn.read_bytes() == b'{"item": "c", "stra'
        assert path.read_bytes() == whole
        journal.append(row("c"))
    assert [r["item"] for _, r in read_rows(path)] == ["a", "b", "c"]


def test_every_cut_of_a_journal_can_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with Journal(path) as journal:
        for name in "abc":
            journal.append(row(name, text="é" * 5))
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        with Journal(path) as journal:
            assert len(journal.final) == whole[:end].count(b"\n")


def test_an_edited_line_is_refused_by_number(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_bytes(orjson.dumps(row("a")) + b'\n{"item": 3}\n' + orjson.dumps(row("b")) + b"\n")
    with pytest.raises(ConfigError, match=r"responses.jsonl:2: not a response row \(field 'strategy' is missing\)"):
        Journal(path)
    path.write_bytes(orjson.dumps({**row("a"), "item": ["a"]}) + b"\n")
    with pytest.raises(ConfigError, match=r"responses.jsonl:1: not a response row \(field 'item' is \['a'\]\)"):
        Journal(path)
    path.write_bytes(orjson.dumps(row("a")) + b"\nnot json\n")
    with pytest.raises(ConfigError, match=r"responses.jsonl:2: not JSON"):
        Journal(path)


def test_only_final_rows_are_final_and_found_by_key(tmp_path: Path) -> None:
    with Journal(tmp_path / "responses.jsonl") as journal:
        for status in ("timeout", "connection", "malformed", "http_503", "http_429"):
            journal.append(row(status, status))
        assert not journal.final
        journal.append(row("x", "http_400", text="y" * 100_000))
        assert len(journal.final) == 1
        assert Identity("x", "s", 0) in journal.final
        assert journal.find("k-x")["text"] == "y" * 100_000
        assert journal.find("k-timeout") is None


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path / "responses.jsonl") as journal:
        journal.append(row("a"))
        real = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:10]))
        with pytest.raises(JournalError, match="free space and resume"):
            journal.append(row("b"))
        monkeypatch.undo()
        journal.append(row("c"))
    assert [r["item"] for _, r in read_rows(journal.path)] == ["a", "c"]


# the run folder


@pytest.mark.parametrize("name", ["..", ".hidden", "-x", "a b", "", "a\0b", "a" * 300])
def test_a_run_name_cannot_leave_the_runs_folder(name: str) -> None:
    with pytest.raises(ConfigError, match="run name"):
        run_path(name)


def test_default_names_are_safe() -> None:
    assert default_name("perturbed", "meta-llama/Llama-3") == "perturbed-meta-llama-Llama-3"
    assert run_path(default_name("perturbed", "../../etc/passwd")).name == "perturbed-etc-passwd"


def test_one_writer_a_run(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "r"), pytest.raises(MachineError, match=f"pid {os.getpid()}"):
        RunFolder(tmp_path / "r")
    with RunFolder(tmp_path / "r"):
        pass


def test_the_first_difference_is_named(tmp_path: Path) -> None:
    old = {"benchmark": "b", "benchmark_digest": "d", "model": "m", "revision": None, "sampling": {"seed": 0}}
    old["strategies"] = {"cot": {"digest": "1", "max_tokens": 5}}
    old["schema"] = 1

    def go_on(new: dict, asked: set[str]) -> None:
        Manifest.model_validate(new).take_over(Manifest.model_validate(old), tmp_path, asked)

    go_on({**old, "strategies": {"cot": {"digest": "1", "max_tokens": 5}, "new": {}}}, {"cot"})
    go_on({**old, "model": "n"}, set())  # nothing asked yet: nothing fixed
    for change, text in [
        ({"model": "n"}, "model of this run is m, now it would be n; use --run NEW"),
        ({"sampling": {"seed": 1}}, "sampling of this run"),
        ({"strategies": {"cot": {"digest": "2", "max_tokens": 5}}}, "strategy 'cot', digest was 1"),
    ]:
        with pytest.raises(RunMismatchError, match=text):
            go_on({**old, **change}, {"cot"})


def test_appends_reach_the_file_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "responses.jsonl")
    journal.append(row("a"))
    assert len(list(read_rows(journal.path))) == 1  # before any sync or close: kill -9 loses nothing
    journal.close()


def test_rows_are_synced_within_a_second(endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[float] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(time.monotonic()), real(fd)))
    endpoint.delay = 0.3
    with Journal(tmp_path / "responses.jsonl") as journal:
        ask(endpoint, journal, [request(n) for n in range(8)], concurrency=1)
    assert len(synced) >= 3
    assert max(b - a for a, b in pairwise(synced)) < 1.0


@pytest.mark.parametrize("count", [True, -1, 2**60, 10**30, "9", 1.5, None])
def test_a_count_that_is_none_is_not_kept(count: object) -> None:
    answer = {
        "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": count, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}},
    }
    body = json.dumps(answer).encode()
    assert read_reply(200, body).usage == {"completion": 3}


def test_a_pause_that_is_as_good_as_over_is_over() -> None:
    """An event loop does not wait for less than its clock can tell: whoever asked again would ask for ever."""
    now = 60.0
    pause = Pause(lambda: now)
    pause.refused(Reply("http_429", retry_after=2.0), sent=60.0)
    assert pause.left == 2.0
    now = 62.0 - 2**-40
    assert pause.left == 0.0
    now = 62.5
    assert pause.left == -0.5


@pytest.mark.parametrize(
    ("finish", "text", "status"),
    [
        *(
            (finish, "tea", "ok")
            for finish in ("stop", "eos_token", "end_turn", "repetition", "", None, 7, "x" * 10**5)
        ),
        *((finish, "", "ok") for finish in ("stop", None, "unheard of")),
        *((finish, "te", "length") for finish in ("length", "max_output_tokens", "model_length", "MAX_TOKENS")),
        *((finish, "te", "length") for finish in ("model_context_window_exceeded", "FinishReason.MAX_TOKENS")),
        *((finish, None, "length") for finish in ("length", "model_length")),
        *((finish, text, "refusal") for finish in ("content-filter", "SAFETY") for text in ("", "te", None)),
        *((finish, "te", "refusal") for finish in ("sensitive", "RECITATION", "BLOCKLIST", "refusal")),
        *(
            (finish, text, "malformed")
            for finish in ("abort", "error", "insufficient_system_resource", "NETWORK_ERROR")
            for text in ("", "te", None)
        ),
        *((finish, None, "malformed") for finish in ("stop", "tool_calls", None)),
    ],
)
def test_what_the_end_of_a_reply_means(finish: object, text: str | None, status: str) -> None:
    reply = read_reply(200, orjson.dumps(completion(text, finish=finish)))
    assert reply.status == status
    assert reply.final == (status != "malformed")
    if status == "malformed":
        assert reply.text is None, "half a text is no answer"
        assert reply.error


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "tea"}],
            "tea",
            "Hm.",
        ),
        (
            [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "te"}, {"type": "text", "text": "a"}],
            "tea",
            "Hm.",
        ),
        ([{"type": "thinking", "thinking": "Hm."}, {"type": "image"}, 7], "", "Hm."),
        ([{"type": ["text"], "text": "tea"}, {"type": "text", "text": {}}], None, None),
    ],
)
def test_a_message_in_parts_is_read(content: list, text: str | None, reasoning: str | None) -> None:
    reply = read_reply(200, orjson.dumps(completion(content)))
    assert (reply.status, reply.text, reply.reasoning) == ("malformed" if text is None else "ok", text, reasoning)


def test_a_reply_that_the_server_broke_off_is_asked_again(endpoint: Endpoint, journal: Journal) -> None:
    endpoint.script = lambda body, n: web.json_response(completion("", finish="abort")) if n == 1 else None
    assert ask(endpoint, journal, [request(0)])
    assert [(row["status"], row["attempts"]) for row in rows(journal)] == [("ok", 2)]


def test_a_key_that_is_refused_in_mid_run_is_one_error(
    endpoint: Endpoint, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """Every worker of many hears of it, and none of their errors is left for asyncio to complain about."""
    endpoint.delay = 0.05
    endpoint.script = lambda body, n: web.json_response({"error": "no"}, status=401) if n > 64 else None
    for hedge in (None, 0.01):
        with pytest.raises(ServerError, match="the API key was refused in mid-run"):
            ask(
                endpoint,
                journal,
                (request(n) for n in range(5000)),
                concurrency=200,
                hedge=hedge,
                endpoints=[endpoint.url, endpoint.url.replace("127.0.0.1", "localhost")],
            )
    gc.collect()
    told = [one.getMessage() for one in caplog.records]
    assert not [said for said in told if "RequestHandler" not in said]  # what the test's own server leaves is its own
