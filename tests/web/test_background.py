"""What takes long is computed beside the server, once for each state of the files, and kept."""

import contextlib
import os
import pickle
import re
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.helpers.examples import copied_example
from tests.helpers.queues import kill, processes, until
from tests.helpers.workbenches import made
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.serving.server import free_port
from tomserve.web import analyses, background
from tomserve.web.background import DIED, Computation, Result
from tomserve.web.settings import Settings
from tomserve.web.worker import keep_workers


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis that keeps nothing on the disk; yields its address. The test is skipped where there is none."""
    program = shutil.which("redis-server")
    if program is None:
        if os.environ.get("NEED_REDIS"):
            pytest.fail("redis-server is missing, and NEED_REDIS is set")
        pytest.skip("needs redis-server")
    port = free_port()
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        client = redis.Redis(port=port)

        def answers() -> bool:
            with contextlib.suppress(redis.RedisError):
                return bool(client.ping())
            return False

        until(answers, "Redis")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def example(tmp_path: Path) -> Path:
    folder = tmp_path / "runs/example"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "responses.jsonl").write_text('{"text": "socks"}\n')
    return folder


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of the works that were done, each of which writes a file."""
    found: list[dict[str, Any]] = []

    def do_work(asked: Mapping[str, Any]) -> dict[str, Any]:
        found.append(dict(asked["options"]))
        (Path(asked["out"]) / "file").write_text("x" * 1000)
        return {"error": "it is too hot"} if found[-1].get("fails") else {"facts": {"number": len(found)}}

    monkeypatch.setattr(background, "do_work", do_work)
    return found


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wanted waits for a process that is not there."""
    monkeypatch.setattr(background, "_IMMEDIATE", [])


def wish(example: Path, number: int = 0, **options: Any) -> Computation:
    return Computation("answers", (example,), {"number": number, **options})


def found(computation: Computation, **more: Any) -> Result:
    result = background.find(computation, **more) or background.find(computation)
    assert result is not None
    return result


def test_it_is_computed_and_told_with_its_errors_in_words(tmp_path: Path) -> None:
    folder = copied_example(tmp_path / "runs")
    result = made("answers", "example")
    assert not result.error
    assert result.facts["answers"] == 352
    assert (result.folder / "answers.parquet").exists()
    assert oct(result.folder.parent.stat().st_mode & 0o777) == "0o700"
    (folder / "items.jsonl").write_text("no item\n")
    result = made("panels", "example", study=None, intervals=None, by=[])
    assert "items.jsonl:1" in result.error
    assert str(tmp_path) not in result.error


def test_a_work_that_takes_too_long_ends_its_process_whatever_it_does(
    example: Path, later: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "LONGEST", 0.1)
    monkeypatch.setattr(background, "enqueue", lambda key, *, alone: None)
    monkeypatch.setattr(background, "do_work", lambda asked: {"facts": {"found": re.search("(a*)*b", "a" * 200)}})
    assert background.find(wish(example)) is None
    (key,) = (path.stem for path in background.wanted().glob("*.json"))
    if not (child := os.fork()):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        background.perform(key)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGALRM


def test_it_is_computed_once_for_each_state_of_the_files_and_each_wish(
    example: Path, done: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [found(wish(example)).facts["number"] for _ in range(2)] == [1, 1]
    assert (found(wish(example)).folder / "file").exists()
    (example / "responses.jsonl").write_text('{"text": "shoes"}\n')
    data, other = tmp_path / "data", Computation("panels", (example,), {"number": 0})
    assert [found(one).facts["number"] for one in (wish(example), wish(example, 1), other)] == [2, 3, 4]
    for text in ("one", "two"):
        data.write_text(text)
        found(Computation("answers", (example,), {}, sources=(data,)))
    monkeypatch.setattr(background, "CODE", "sha256:other")
    assert found(wish(example)).facts == {"number": 7}
    (found(wish(example)).folder / background.RECORD).write_text("{")  # cut short
    assert found(wish(example)).facts == {"number": 8}
    assert found(wish(example), again=True).facts == {"number": 9}


def test_a_run_that_grows_is_known_by_how_far_it_had_grown(example: Path, done: list[dict[str, Any]]) -> None:
    for _ in range(2):
        for upto in (5, 6):
            found(Computation("panels", (example,), upto=upto))
        with (example / "responses.jsonl").open("ab") as journal:
            journal.write(b"{}\n")
    assert len(done) == 2


@pytest.mark.usefixtures("later")
def test_what_waits_is_wanted_once_and_survives_its_queue(example: Path, done: list[dict[str, Any]]) -> None:
    assert [background.find(wish(example)) for _ in range(2)] == [None, None]
    huey, _ = background.connect()
    assert len(huey.pending()) == 1
    huey.flush()
    background.restore(huey)
    (task,) = huey.pending()
    huey.execute(task)
    assert background.find(wish(example)) == Result(background.results() / task.args[0], {"number": 1})
    background.perform(task.args[0])  # nobody wants it any more
    background.perform("../" * 20 + "etc/passwd")
    assert (len(done), background.peek(wish(example))[0]) == (1, False)


@pytest.mark.usefixtures("later")
def test_what_died_is_told_and_what_failed_is_tried_again_where_somebody_asks_or_later(
    example: Path, done: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def perform() -> None:
        for path in background.wanted().glob("*.json"):
            background.perform(path.stem)

    assert background.find(wish(example, fails=True)) is None
    (path,) = background.wanted().glob("*.json")
    path.rename(path.with_suffix(".begun"))
    background.restore(background.connect()[0])
    assert found(wish(example, fails=True)).error == DIED
    assert background.find(wish(example, fails=True), again=True) is None
    perform()
    assert [found(wish(example, fails=True)).error for _ in range(2)] == ["it is too hot"] * 2
    assert len(done) == 1
    monkeypatch.setattr(background, "TRY_AGAIN", -1.0)
    assert background.find(wish(example, fails=True)) is None

    def fill_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("make_private", "replace_bytes"):
        monkeypatch.setattr(background.files, name, fill_disk)
    perform()
    assert {path.suffix for path in background.wanted().iterdir()} <= {".db", ".db-shm", ".db-wal"}, "it is free again"


def test_where_nothing_can_be_kept_the_reason_is_told(example: Path, done: list[dict[str, Any]]) -> None:
    background.results().parent.mkdir(parents=True)
    background.results().write_text("a file where the folder should be")
    assert "File exists" in found(wish(example)).error


@pytest.mark.usefixtures("later")
def test_too_much_is_not_wanted_at_once_and_nothing_where_no_queue_answers(example: Path, monkeypatch) -> None:
    monkeypatch.setattr(background, "WAITING", 2)
    assert background.find_all([wish(example, number) for number in range(4)]) == [None] * 4
    assert len(list(background.wanted().glob("*.json"))) == 2
    background.forget()
    monkeypatch.setattr(background, "WAITING", 9)
    monkeypatch.setattr(background, "WAITING_EACH", 2)
    other = Computation("answers", (example.parent,))
    assert background.find_all([*(wish(example, number) for number in range(4)), other]) == [None] * 5
    assert len(list(background.wanted().glob("*.json"))) == 3  # nor can the wishes for one run keep out the others
    background.forget()
    monkeypatch.setenv("TOMSERVE_QUEUE", "redis://127.0.0.1:1/0")
    assert "does not answer" in found(wish(example)).error
    assert not list(background.wanted().glob("*.json"))


def test_what_was_used_longest_ago_makes_room(example: Path, done: list[dict[str, Any]], monkeypatch) -> None:
    folders = [found(wish(example, number)).folder for number in range(4)]
    for age, folder in enumerate(folders):
        os.utime(folder, (1000 + age, 1000 + age))
    os.utime(folders[0], (9000, 9000))  # used since
    monkeypatch.setattr(background, "PIECES", 3)
    background.trim()
    assert [folder.exists() for folder in folders] == [True, False, True, True]
    monkeypatch.setattr(background, "ROOM", 1500)
    background.trim()
    assert [folder.exists() for folder in folders] == [True, False, False, False]


class _Program:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.usefixtures("later")
def test_an_entry_is_data_and_never_a_program(example: Path, tmp_path: Path) -> None:
    """Whoever can write to a Redis must not be able to run programs here."""
    background.find(wish(example))
    huey, _ = background.connect()
    with sqlite3.connect(background.wanted() / "queue.db") as base:
        base.execute("update task set data = ?", (pickle.dumps(_Program(tmp_path / "ran")),))
    base.close()
    with pytest.raises(ValueError):  # noqa: PT011  # whatever the reader of JSON says
        huey.dequeue()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("{runs}/a: there is no such thing\x1b"), "a: there is no such thing\\x1b"),
        (ValueError("{runs}/b is too hot"), "the computation failed (ValueError: b is too hot)"),
    ],
)
def test_what_goes_wrong_is_said_in_words(monkeypatch, tmp_path: Path, error: BaseException, said: str) -> None:

    def scores(*_: object) -> None:
        raise error

    monkeypatch.undo()
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(analyses, "scores", scores)
    wanted = {"out": str(tmp_path), "work": "scores", "runs": [], "options": {}, "code": background.CODE}
    error.args = tuple(str(one).replace("{runs}", str(runs_root())) for one in error.args)
    assert background.do_work(wanted) == {"error": said}
    assert "restart it" in background.do_work({**wanted, "code": "sha256:other"})["error"]


def test_no_key_of_an_endpoint_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOMSERVE_API_KEY", "TOMSERVE_API_KEY_FILE", "TOMSERVE_KEYS", "AWS_SECRET_ACCESS_KEY", "LAB"):
        monkeypatch.setenv(name, "sk-secret")
    found = background.keyless(Settings(keys=(("LAB", "https://lab.example/v1"),)))
    assert "sk-secret" not in found.values()
    assert found["PATH"] == os.environ["PATH"]


PROCESS = "-m tomserve.web.background"


@pytest.mark.system
@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_process_computes_knows_no_key_is_replaced_and_ends_with_its_server(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    copied_example(runs_root())
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-secret")
    if kind == "redis":
        manager = redis_server(tmp_path)
        monkeypatch.setenv("TOMSERVE_QUEUE", manager.__enter__())
        request.addfinalizer(lambda: manager.__exit__(None, None, None))
    with keep_workers(Settings()):
        assert made("answers", "example").facts["answers"] == 352
        (first,) = processes(PROCESS)
        assert b"sk-secret" not in Path(f"/proc/{first}/environ").read_bytes()
        kill(first)
        assert made("panels", "example", study=None, intervals=None, by=[]).facts["study"]
        assert processes(PROCESS) != [first]
    until(lambda: not processes(PROCESS))
