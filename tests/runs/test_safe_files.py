"""A run folder from somebody else is data: no file of it leads tomserve to another file, or makes it wait for ever."""

import os
import re
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Endpoint, make_item
from tests.helpers.outcomes import passes, refuses_in_a_line
from tests.helpers.reports import run_folder
from tomserve.content import files
from tomserve.errors import ConfigError, ContentError
from tomserve.runs import journal, runfolder
from tomserve.runs.journal import Journal, read_rows
from tomserve.runs.runfolder import CHANGED, REPLACED, RunFolder
from tomserve.scoring.responses import NOISE
from tomserve.serving.command import Command
from tomserve.serving.server import Server

SECRET = b"ssh-rsa AAAA a file of the user's that no run may touch or show\n"
NAMES = REPLACED + CHANGED


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's outside all runs."""
    path = tmp_path / "home/authorized_keys"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three answered items, as it may have been downloaded."""
    items = [make_item(n) for n in range(3)]
    return run_folder(tmp_path / "runs/r", {"vanilla": {item.id: {"text": "tea"} for item in items}}, items)


def commands(endpoint: Endpoint, run: Path) -> dict[str, tuple[object, ...]]:
    """Every command that reads or writes a run, by name."""
    asking = ("--benchmark", "items", "--path", run.parent / "own.jsonl", "--base-url", endpoint.url)
    return {
        "eval": ("eval", "--run", run, *asking),
        "score": ("score", run),
        "analyze": ("analyze", run),
        "report": ("report", run),
        "compare": ("compare", f"{run}/", f"{run}/"),
        "runs": ("runs", f"{run}/"),
        "newest": ("score",),
    }


def assert_refused(done, *said: object) -> None:
    refuses_in_a_line(done, *said)
    assert "AAAA" not in done.out + done.err


def test_no_link_is_followed(endpoint: Endpoint, cli, run: Path, victim: Path, items_file: Path) -> None:
    items_file.rename(run.parent / "own.jsonl")
    (run / "responses.jsonl").rename(victim)  # a link to a file that would do: only its place is wrong
    before = victim.read_bytes()
    (run / "responses.jsonl").symlink_to(victim)
    for command in commands(endpoint, run).values():
        assert_refused(cli(*command), f"responses.jsonl: is a symbolic link to {victim}, which is not followed")
    (run / "responses.jsonl").unlink()
    os.mkfifo(run / "responses.jsonl")
    for command in commands(endpoint, run).values():
        assert_refused(cli(*command), f"{run / 'responses.jsonl'}: is a named pipe; expected a regular file")
    assert victim.read_bytes() == before
    assert endpoint.requests == []


def test_no_file_of_a_run_may_be_anything_but_a_file(
    endpoint: Endpoint, cli, run: Path, victim: Path, tmp_path: Path, items_file: Path
) -> None:
    """And the log and the file of the noise check are among those that are looked at."""
    assert {"manifest.json", "responses.jsonl", "log.txt", NOISE, "scores.parquet", ".lock"} < set(NAMES)
    folder = tmp_path / "plain"
    folder.mkdir()
    for name in NAMES:
        place = folder / name
        for target in (victim, tmp_path / "new"):
            place.symlink_to(target)
            with pytest.raises(ConfigError, match=f"{re.escape(name)}: is a symbolic link"):
                runfolder.check_files(folder)
            place.unlink()
        for kind, make in KINDS.items():
            make(place)
            with pytest.raises(ConfigError, match=f"{re.escape(name)}: is {kind}; expected a regular file"):
                runfolder.check_files(folder)
            place.rmdir() if kind == "a folder" else place.unlink()
        os.link(victim, place)
        runfolder.check_files(folder)
        if name in CHANGED:
            with pytest.raises(ConfigError, match=rf"{re.escape(name)}: has 2 names \(hard links\)"):
                runfolder.check_files(folder, change=True)
        place.unlink()
    items_file.rename(run.parent / "own.jsonl")
    (run / "noise.jsonl").symlink_to(tmp_path / "new")
    assert_refused(cli(*commands(endpoint, run)["eval"]), "noise.jsonl: is a symbolic link")
    assert not (tmp_path / "new").exists()
    assert victim.read_bytes() == SECRET


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may have 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


KINDS = {"a named pipe": os.mkfifo, "a folder": Path.mkdir, "a socket": make_socket}
if os.geteuid() == 0:  # /dev/zero, which never ends
    KINDS["a device"] = lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))


def test_a_pipe_or_device_is_read_only_by_the_name_of_a_stream(tmp_path: Path) -> None:
    path, link = tmp_path / "items.jsonl", tmp_path / "link"
    os.mkfifo(path)
    link.symlink_to("/dev/zero")
    for one, kind in ((path, "a named pipe"), (link, "a device")):
        for read in (files.open_own, files.digest_file):
            with pytest.raises(ContentError, match=f"{one.name}: is {kind}; expected a file, or the name of an open"):
                read(one)
    with (hole := tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match=r"config.json: is 1,048,576 MB long, of which 0 kB were ever written"):
        files.read_own(hole)
    reading, writing = os.pipe()
    os.write(writing, b"text")
    os.close(writing)
    try:
        assert files.read_own(Path(f"/dev/fd/{reading}")) == b"text"
    finally:
        os.close(reading)


def test_a_run_folder_may_be_reached_through_a_link(
    endpoint: Endpoint, cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, items_file: Path
) -> None:
    """`runs/` often lies on another disk."""
    (tmp_path / "disk").mkdir()
    run.rename(tmp_path / "disk/r")
    run.symlink_to(tmp_path / "disk/r")
    assert "3 answers scored, 3 correct" in cli("score", "r").out
    (tmp_path / "other").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "other"))
    assert "3 answers scored, 3 correct" in cli("score", "r").out
    asking = ("--benchmark", "items", "--path", items_file, "--base-url", endpoint.url)
    assert cli("eval", "--run", "new", *asking).code == 0
    assert len(list(read_rows(tmp_path / "disk/new/responses.jsonl"))) == 40


def test_one_run_with_a_link_does_not_hide_the_others(cli, run: Path, victim: Path) -> None:
    other = run.with_name("other")
    other.mkdir()
    (other / "manifest.json").symlink_to(victim)
    done = passes(cli("runs"), "other/manifest.json: is a symbolic link", "tiny")
    assert "AAAA" not in done.out
    (run / "log.txt").symlink_to("x\n2026 all is well\x1b[31m")
    assert_refused(cli("score", run), r"symbolic link to x\n2026 all is well\x1b[31m, which")


# what is written besides


def test_a_torn_line_gets_a_file_of_its_own(tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal.time, "time", lambda: 1234.5)
    path = tmp_path / "responses.jsonl"
    path.write_bytes(b'{"half')
    (tmp_path / "responses.torn-1234.txt").symlink_to(victim)
    (tmp_path / "responses.torn-1234-2.txt").symlink_to(tmp_path / "new")
    with Journal(path) as opened:
        assert opened.torn == tmp_path / "responses.torn-1234-3.txt"
        assert opened.torn.read_bytes() == b'{"half'
    assert path.read_bytes() == b""
    assert victim.read_bytes() == SECRET
    assert not (tmp_path / "new").exists()


def test_a_message_is_one_line_of_the_log(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "r") as folder:
        folder.log("torn\n2026-01-01T00:00:00Z 0 left to ask\r\x1b[2K \u202e \u2028 \ud800 é")
    (line,) = (tmp_path / "r/log.txt").read_text("utf-8").splitlines()
    assert line.endswith(r" torn\n2026-01-01T00:00:00Z 0 left to ask\r\x1b[2K \u202e \u2028 \ud800 é")


def test_a_lock_that_says_anything_but_a_number_is_not_repeated(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "r") as folder:
        (folder.path / ".lock").write_text("\x1b[31m1\n2")
        with pytest.raises(runfolder.MachineError, match=r"\(pid unknown\)"):
            RunFolder(tmp_path / "r")


def test_the_log_of_a_server_is_no_way_out_either(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "server.log").symlink_to(victim)
    command = Command([sys.executable, "-c", "print('said')"], {})
    with pytest.raises(ConfigError, match=r"server.log: is a symbolic link"):
        Server(command, host="127.0.0.1", port=1, log=tmp_path / "server.log")
    assert victim.read_bytes() == SECRET


def outputs(run: Path, out: Path) -> tuple[tuple[Path, tuple[object, ...]], ...]:
    """Files that commands write where the user says, with these commands."""
    items, responses = run / "items.jsonl", run / "responses.jsonl"
    foreign = ("score", "--responses", responses, "--items", items, "--out")
    return (
        (out / "a.jsonl", ("items", "items", "--path", items, "--out", out / "a.jsonl")),
        (out / "g.jsonl", ("generate", "hitom", "--stories", 4, "--out", out / "g.jsonl")),
        (out / "a.csv", ("score", run, "--out", out / "a.csv")),
        (out / "a.parquet", (*foreign, out / "a.parquet")),
        (out / "b.jsonl", (*foreign, out / "b.jsonl")),
        (out / "accuracy.csv", ("analyze", run, "--study", "accuracy", "--out", out, "--format", "csv")),
        (out / "r.html", ("report", run, "--out", out / "r.html")),
    )


def test_out_replaces_a_link_and_leaves_its_target(cli, run: Path, victim: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for path, command in outputs(run, tmp_path / "out"):
        path.symlink_to(victim)
        path.with_name(path.name + ".part").symlink_to(victim)
        passes(cli(*command))
        assert stat.S_ISREG(path.lstat().st_mode)
        assert path.stat().st_size > 0
        assert victim.read_bytes() == SECRET
        assert not list(path.parent.glob(".*")), "nothing is left behind"


def test_an_open_stream_goes_on_where_it_stands(cli, run: Path, tmp_path: Path) -> None:
    """/dev/stdout is a link to /proc/self/fd/1, behind which a regular file may be."""
    with (tmp_path / "captured").open("wb") as stream:
        stream.write(b"before\n")
        stream.flush()
        (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{stream.fileno()}")
        passes(cli("items", "items", "--path", run / "items.jsonl", "--out", tmp_path / "stdout"))
        assert (tmp_path / "stdout").is_symlink()
    first, *items = (tmp_path / "captured").read_bytes().splitlines()
    assert (first, len(items)) == (b"before", 3)


# replacing a file in one step


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    with pytest.raises(KeyboardInterrupt), files.replace_file(path) as file:  # noqa: PT012
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    planted = tmp_path / f".tomserve-{'0' * 16}.part"  # looks like left behind, and is a link
    planted.symlink_to(path)
    with files.replace_file(path) as file:
        file.write(b"new")
    assert (path.read_text(), planted.is_symlink()) == ("new", True)


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, sync, replace = [], os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("name"), replace(*names))[1])
    with files.replace_file(tmp_path / "a") as file:
        file.write(b"content")
    assert done == [7, "name", "folder"]


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_RDWR])
@pytest.mark.parametrize(
    "exchange", [lambda path, victim: path.symlink_to(victim), lambda path, victim: os.mkfifo(path)]
)
def test_what_was_exchanged_after_the_look_is_refused_too(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, flags: int, exchange: Callable[[Path, Path], None]
) -> None:
    monkeypatch.setattr(files, "check_regular", lambda path, alone=False: exchange(path, victim))
    with pytest.raises((ConfigError, OSError)):
        files.open_regular(tmp_path / "a", flags)
    assert victim.read_bytes() == SECRET
