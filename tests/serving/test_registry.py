"""Keys go only to an address that the user gave, or to a server that this user started on this machine."""

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Endpoint
from tests.helpers.outcomes import passes, refuses
from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.serving import registry
from tomserve.serving.probe import WaitPolicy

KEY = "sk-of-the-user"
MODEL = "yi-34b"  # a preset, which is not started by `eval` itself


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", KEY)


@pytest.fixture
def thief() -> Iterator[str]:
    """The address of somebody else's server, to which nobody may come, with a key or without."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def true_record(url: str, **changes: Any) -> dict[str, Any]:
    """The record that this process would write for a server at that address, with some fields changed."""
    pid = os.getpid()
    own = registry.Record(pid, url, MODEL, None, [], "now", socket.gethostname(), born=registry.process_birth(pid))
    return {**asdict(own), **changes}


def put(record: dict[str, Any], name: str = "8000.json") -> Path:
    path = registry.make_registry_folder() / name
    path.write_bytes(orjson.dumps(record))
    path.chmod(0o600)
    return path


FORGED = {
    "another host": ({"host": "elsewhere"}, "is on another machine (elsewhere): give --base-url"),
    "a process of mine": ({"born": None}, "does not say when its process started"),
    "its number only": ({"born": "0/0"}, ""),
    "another boot": ({"born": f"{'0' * 8}-0000-0000-0000-{'0' * 12}/1"}, ""),
    "no process": ({"pid": 2**22 + 1}, ""),
    "all processes": ({"pid": -1}, ""),
}


def test_a_downloaded_record_gets_no_key(cli, thief: str) -> None:
    paths = {which: put(true_record(thief, **changes), f"{which}.json") for which, (changes, _) in FORGED.items()}
    assert registry.records_at([thief], WaitPolicy()) is None, "nor does one say what an address serves"
    done = refuses(cli("eval", "--model", MODEL), f"no server with '{MODEL}' is running")
    for which, (_, said) in FORGED.items():
        assert said in done.err
        assert (f"a recorded server is not used: {which}.json: " in done.err) == bool(said)
        assert paths[which].exists() == bool(said), "what is stale is removed, what is another's is left"


@pytest.mark.parametrize(
    "url",
    [
        "http://203.0.113.7:8000/v1", "http://127.0.0.1.example:8000/v1", "http://127.0.0.1@203.0.113.7:8000/v1",
        "http://203.0.113.7:8000/v1?http://127.0.0.1:8000", "https://127.0.0.1:8000/v1", "http://127.0.0.1/v1",
        "http://0.0.0.0:8000/v1", "http://2130706433:8000/v1", "http://127.0.0.1:80000/v1", "http://[::1:8000/v1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_this_machine(url: str) -> None:
    path = put(true_record(url))
    assert "is no address of this machine" in registry.judge_record(path).doubt
    assert registry.believed_records() == []


def test_a_server_that_lives_but_does_not_answer_is_not_forgotten() -> None:
    path = registry.write_record(9, url="http://127.0.0.1:1/v1", model="a", revision=None, command=[])
    (one,) = registry.believed_records()
    assert (one.state, "is running but does not answer" in one.silence, path.exists()) == ("silent", True, True)


def test_addresses_of_this_machine(endpoint: Endpoint) -> None:
    """`serve --host` records 127.0.0.1 for 0.0.0.0 and [::1] for ::, else the host itself."""
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "[::1]", socket.gethostname()):
        url = f"http://{host}:8000/v1"
        assert registry.judge_record(put(true_record(url))).record == registry.Record(**true_record(url)), url
    put(true_record(endpoint.url))
    assert [one.record.url for one in registry.believed_records()] == [endpoint.url]


def test_what_others_could_have_written_is_not_believed(thief: str) -> None:
    path = put(true_record(thief))
    for place, what in ((path, "it"), (path.parent, ".servers")):
        before = stat.S_IMODE(place.stat().st_mode)
        for more in (0o020, 0o002):
            place.chmod(before | more)
            assert (
                registry.judge_record(path).doubt == f"{what} can be written by other users (`chmod go-w` forbids it)"
            )
        place.chmod(before)
    if os.geteuid() == 0:
        for place, what in ((path, "it"), (path.parent, ".servers")):
            os.chown(place, 65534, -1)
            assert registry.judge_record(path).doubt == f"{what} belongs to another user (user id 65534)"
            assert registry.believed_records() == []
            os.chown(place, 0, -1)


def test_links_pipes_and_folders_are_no_records(thief: str, tmp_path: Path) -> None:
    path = put(true_record(thief))
    path.rename(tmp_path / "true.json")
    path.symlink_to(tmp_path / "true.json")
    os.mkfifo(path.with_name("1.json"))
    path.with_name("2.json").mkdir()
    assert registry.believed_records() == []
    said = "it is no regular file (a link is not followed)"
    assert registry.describe_doubts() == [f"1.json: {said}", f"2.json: {said}", f"8000.json: {said}"]
    path.parent.rename(tmp_path / "theirs")
    registry.registry_folder().symlink_to(tmp_path / "theirs")
    assert registry.believed_records() == []
    with pytest.raises(NotADirectoryError, match="is a symbolic link"):
        registry.make_registry_folder()


def test_a_record_is_written_beside_what_lies_in_its_place(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    fields: dict[str, Any] = {"url": "http://127.0.0.1:1/v1", "model": "m", "revision": None, "command": []}
    for name in ("9.json", "9.part", "9.json.part"):
        (registry.make_registry_folder() / name).symlink_to(victim)
    path = registry.write_record(9, **fields)
    assert registry.judge_record(path).record is not None
    assert victim.read_text() == "mine"
    os.mkfifo(path.with_name("10.json"))
    with pytest.raises(ConfigError, match=r"10.json: is a named pipe"):
        registry.write_record(10, **fields)


def test_a_server_that_this_user_started_gets_the_key_as_long_as_it_lives(endpoint: Endpoint, cli) -> None:
    endpoint.key = KEY
    with subprocess.Popen(["sleep", "300"]) as serving:
        own = {"pid": serving.pid, "born": registry.process_birth(serving.pid), "model": "tiny"}
        path = put(true_record(endpoint.url, **own))
        passes(cli("eval", "--limit", 2))
        assert len(endpoint.requests) == 4
        copy = put(true_record(endpoint.url, born=own["born"]), "1.json")
        assert registry.judge_record(copy).stale, "the number of another living process of the same user"
        serving.kill()
        serving.wait()
    assert registry.believed_records() == []
    assert not path.exists()


def test_the_last_line_of_a_log_holds_no_key_nor_half_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", KEY)
    (tmp_path / "8000.log").write_text(f"sent {KEY} {'word ' * 30}")
    live = registry.LiveRecord(tmp_path / "8000.json", registry.Record(1, "", "", None, [], "", ""), "loading")
    assert KEY[-4:] not in live.last_log_line()
    assert files.read_tail(tmp_path / "8000.log", 154) == f" {'word ' * 30}"


def test_a_zombie_serves_nothing() -> None:
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{ended.pid}").exists()
        assert registry.process_birth(ended.pid) is None


def test_a_record_without_end_is_not_read_to_the_end(thief: str) -> None:
    assert registry.judge_record(put(true_record(thief, server={"said": "x" * 2**19}))).record is not None
    for path in (put(true_record(thief, server={"said": "x" * 2**21})), put({"pid": "x"}, "2.json")):
        assert registry.judge_record(path).stale
