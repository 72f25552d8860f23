"""`tomserve web`: it starts, says where, lets in, and ends by a signal; one workbench has a folder of runs."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import Outcome
from tests.helpers.browsing import Started
from tests.helpers.examples import copied_example
from tests.helpers.outcomes import refuses_in_a_line
from tests.helpers.queues import asked, kill, processes, until
from tests.helpers.workbenches import example
from tomserve.content.paths import runs_root
from tomserve.errors import MachineError
from tomserve.web import access, app
from tomserve.web.accounts import COST, Users
from tomserve.web.client import Workbench
from tomserve.web.run_index import Card
from tomserve.web.settings import Settings

FREE = Settings(port=0)


def served(visit: Callable[[str], None], number: int = signal.SIGTERM) -> int:
    """Serve until somebody has visited the address and sent a signal; returns the number of the one that ended it."""
    wrong: list[BaseException] = []

    def come(opened: str) -> None:
        try:
            visit(opened)
        except BaseException as error:
            wrong.append(error)
        finally:
            os.kill(os.getpid(), number)

    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as it is heard even where the tests were started in the background
    try:
        ended = app.serve(FREE, lambda opened: threading.Thread(target=come, args=(opened,), daemon=True).start())
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not wrong
    return ended


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "keep_workers", lambda _: contextlib.nullcontext())


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_lets_in_whoever_has_the_address_and_ends_by_a_signal(number: int, capsys, monkeypatch) -> None:
    tokens: list[str] = []
    monkeypatch.setattr(access, "STRANGERS_TIME", 0.5)
    monkeypatch.setattr(app, "GRACE", 0.5)
    deaf: list[socket.socket] = []  # which read nothing of what they have asked for

    def visit(opened: str) -> None:
        base, _, token = opened.partition("/?token=")
        assert httpx.get(f"{base}/api/v1/health").json() == {"status": "ok"}
        assert httpx.get(base).status_code == 401
        sent = 0
        with socket.create_connection(("127.0.0.1", httpx.URL(base).port)) as stranger, contextlib.suppress(OSError):
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            while sent < 64:  # headers without end
                stranger.sendall(b"a: " + b"x" * (1 << 20) + b"\r\n")
                sent += 1
        assert sent < 64
        answered = f"GET / HTTP/1.1\r\nHost: {base[7:]}\r\nContent-Length: 9\r\n\r\n"
        for begun, rest in (("GET / HTTP/1.1\r\n", b""), (answered, b"1")):
            with socket.create_connection(("127.0.0.1", httpx.URL(base).port), 10) as stranger:
                stranger.sendall(begun.encode())
                if rest:
                    assert stranger.recv(1)
                    stranger.sendall(rest)
                while stranger.recv(1 << 16):  # and nothing more is sent
                    pass
        deaf.append(socket.socket())
        deaf[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf[-1].connect(("127.0.0.1", httpx.URL(base).port))
        deaf[-1].sendall(f"GET /static/htmx.min.js HTTP/1.1\r\nHost: {base[7:]}\r\n\r\n".encode() * 40)
        with httpx.Client(follow_redirects=True) as person:
            assert person.get(opened.replace("/?", "/nothing?")).status_code == 404
            assert "server" not in person.get(f"{base}/static/workbench.css").headers
        with pytest.raises(MachineError, match=rf"runs already \(pid {os.getpid()}, {base}\)") as refused:
            app.serve(FREE, lambda _: None)
        assert token not in str(refused.value)
        tokens.append(token)

    assert [served(visit, number), served(visit, number)] == [number, number]
    log = logging.getLogger("uvicorn")
    try:
        raise asyncio.CancelledError
    except asyncio.CancelledError:
        log.exception("Exception in ASGI application")
    log.warning("the end of %s", tokens[0])
    assert capsys.readouterr().err == "Invalid HTTP request received.\n" * 2 + "the end of ***\n"
    assert len(tokens) == 2
    assert len(set(tokens)) == 1, "the token is kept"
    assert (runs_root() / ".web/token").stat().st_mode & 0o077 == 0


def test_a_port_in_use_says_whose_it_is(cli: Callable[..., Outcome]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        outcome = cli("web", "--port", port)
    assert outcome.code == 2
    assert f"127.0.0.1:{port}: cannot listen" in outcome.err
    assert "choose another --port" in outcome.err


def test_databases_are_made_again_from_the_folders_unless_a_workbench_runs(cli: Callable[..., Outcome]) -> None:
    copied_example(runs_root())
    assert cli("web", "--rebuild").out == "read anew: 1 runs, of which 0 wait in the queue\n"
    with app.hold_lock(FREE) as tell:
        tell("http://127.0.0.1:1")
        refused = cli("web", "--rebuild")
    assert (refused.code, "http://127.0.0.1:1" in refused.err) == (2, True)
    os.mkfifo(runs_root() / ".web/cards.lock")
    refuses_in_a_line(cli("web", "--rebuild"), "cards.lock: is a named pipe")
    shutil.move(runs_root() / ".web", runs_root() / "elsewhere")
    (runs_root() / ".web").symlink_to("elsewhere")
    refuses_in_a_line(cli("web", "--rebuild"), ".web: is a symbolic link")


def test_users_are_added_on_the_command_line_without_a_password_in_sight(cli, monkeypatch, tmp_path: Path) -> None:
    def types(text: str) -> None:
        (tmp_path / "typed").write_text(text)
        monkeypatch.setattr("sys.stdin", (tmp_path / "typed").open())

    monkeypatch.setitem(COST, "n", 1 << 10)
    assert "--add-user" in cli("web", "--auth").err
    types("enough letters\n")
    assert cli("web", "--add-user", "ada", "--role", "runner").out == "ada may sign in as a runner\n"
    users = Users(runs_root() / ".web/users.json")
    assert users.path.stat().st_mode & 0o077 == 0
    assert "enough" not in users.path.read_text()
    found = users.signed_in("ada", "enough letters")
    assert found.role == "runner"
    types("\n")
    assert cli("web", "--add-user", "ada").code == 2
    person = users.token_owner(cli("web", "--add-token", "ada").out.strip())
    assert person.name == "ada"
    assert cli("web", "--remove-user", "ada").code == 0
    assert users.all() == {}
    assert "unknown user 'ada'" in cli("web", "--remove-user", "ada").err
    example("hers", Card(owner="ada", private=True))
    types("enough letters\n")
    assert (
        "somebody had this name before, and 1 run of theirs, private or not, will be ada's"
        in cli("web", "--add-user", "ada").err
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "--auth"),
        (("--proxy", "tom.example.org"), "expected a host alone"),
        (("--proxy", "https://tom.example.org/below"), "expected a host alone"),
        (("--role", "runner"), "goes with --add-user"),
        (("--key", "sk-0123456789abcdef"), "never the key itself"),
        (("--rebuild", "--remove-user", "x"), "only one of these"),
    ],
)
def test_what_would_let_strangers_in_is_refused(cli, arguments: tuple[str, ...], said: str) -> None:
    outcome = cli("web", *arguments)
    assert (outcome.code, said in outcome.err) == (2, True)
    assert "sk-0123456789abcdef" not in outcome.err


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    """Start workbenches of one folder as processes; what still runs when the test ends is killed."""
    begun: list[Started] = []

    def starting(*arguments: str) -> Started:
        begun.append(Started(runs_root(), *arguments))
        return begun[-1]

    yield starting
    for pid in (*processes("-m tomserve.web"), *processes("-m tomserve eval")):
        kill(pid)
    for one in begun:
        one.process.kill()
        one.process.communicate()


@pytest.mark.system
def test_what_runs_goes_on_whether_the_workbench_ends_or_is_killed(start: Callable[..., Started], endpoint) -> None:
    endpoint.delay = 0.2
    first = start()
    with Workbench(first.address) as bench:
        assert 0 < bench.plan(benchmark="perturbed", limit=9)["questions"] <= 9  # by a process that has to end, too
        name = bench.start(base_url=[endpoint.url], model="tiny", benchmark="perturbed", limit=60, concurrency=2)
        done = next(seen["done"] for seen in bench.follow(name) if seen["done"])
    host, port = first.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")  # and nothing more: it ends all the same
        code, said = first.end(signal.SIGTERM)
    assert code == 143
    assert f"started again: {name}" in said
    assert said.endswith("tomserve: stopped by SIGTERM; repeat the command to go on\n")
    assert first.address.partition("token=")[2] not in said
    assert processes("-m tomserve") == []
    second = start()
    until(lambda: processes("-m tomserve eval"))
    second.process.kill()
    until(lambda: not processes("-m tomserve.web.worker"), "the worker to end with the workbench")
    assert len(processes("-m tomserve eval")) == 1
    endpoint.delay = 0.0
    with Workbench(start().address) as bench:
        ended = bench.wait(name)
        assert ended["complete"] is True
        assert ended["rows"] >= done
    assert len(asked(name)) == len(set(asked(name)))
