"""What a user names by --out is written without losing anything that is not meant, whatever stands there."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, make_item
from tests.helpers.command import TOMSERVE, environment
from tomserve.content import outputs, temporary
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.runs import kept
from tomserve.runs.runfolder import CHANGED, REPLACED

OF_A_RUN = (*REPLACED, *CHANGED, kept.TABLE, "scores.json", "report.json", "responses.torn-17.txt", "work/states.bin")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder that is a run as far as its files' names tell."""
    folder = tmp_path / "runs/r"
    (folder / "work").mkdir(parents=True)
    for name in ("manifest.json", *OF_A_RUN):
        (folder / name).write_bytes(b"precious")
    return folder


def write(path: Path, *inputs: Path) -> None:
    with outputs.writing(path, *inputs) as file:
        file.write(b"new")


@pytest.mark.parametrize("name", OF_A_RUN)
def test_a_file_of_a_run_is_refused_by_every_spelling(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(run.parent)
    (tmp_path / "link").symlink_to(run / name)
    (tmp_path / "other").symlink_to(tmp_path / "link")
    (tmp_path / "folder").symlink_to(run)
    with (run / name).open("rb") as stream:
        spellings = [
            run / name,
            Path("r") / name,
            run / ".." / "r" / name,
            tmp_path / "link",
            tmp_path / "other",
            tmp_path / "folder" / name,
            Path(f"/proc/self/fd/{stream.fileno()}"),
            Path(f"/dev/fd/{stream.fileno()}"),
        ]
        for path in spellings:
            with pytest.raises(ConfigError, match="belongs to the run"):
                write(path)
    assert (run / name).read_bytes() == b"precious"


def test_a_file_of_a_run_that_is_not_there_yet_is_refused_and_others_are_not(run: Path) -> None:
    (run / "noise.jsonl").unlink()
    with pytest.raises(ConfigError, match="belongs to the run"):
        write(run / "noise.jsonl")
    write(run / "my-table.csv")
    assert (run / "my-table.csv").read_bytes() == b"new"
    with outputs.writing(run / "report.html", run, own=("report.html",)) as file:
        file.write(b"new")
    assert (run / "report.html").read_bytes() == b"new"


def test_an_input_is_refused_by_its_other_names_too(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"precious")
    os.link(tmp_path / "in.csv", tmp_path / "second.csv")
    os.link(run / "responses.jsonl", tmp_path / "third.jsonl")
    for path, given in (
        (tmp_path / "in.csv", tmp_path / "in.csv"),
        (tmp_path / "second.csv", tmp_path / "in.csv"),
        (tmp_path / "third.jsonl", run),
    ):
        with pytest.raises(ConfigError, match="which is read"):
            write(path, given)
        assert path.read_bytes() == b"precious"


def test_a_replaced_file_keeps_its_permissions_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"old")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
    before = path.stat()
    write(path)
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_stays_one_and_what_takes_nothing_is_told(tmp_path: Path) -> None:
    write(Path("/dev/null"))
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        with pytest.raises(ConfigError, match="is a socket; expected a file or a new name"):
            write(tmp_path / "s")


def half_written(path: Path) -> None:
    with outputs.writing(path) as file:
        file.write(b"half")
        print(1 / 0)


def test_nothing_is_written_where_making_it_fails(tmp_path: Path) -> None:
    for path in (tmp_path / "new", Path("/dev/null")):
        with pytest.raises(ZeroDivisionError):
            half_written(path)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    script = (
        "import os, sys, signal; from pathlib import Path; from tomserve.content import temporary\n"
        "with temporary.folder(Path(sys.argv[1])) as one, temporary.file(Path(sys.argv[1])) as two:\n"
        "    (one / 'inside').mkdir(); (one / 'inside/file').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, cwd=ROOT)
    assert len(list(tmp_path.iterdir())) == 2
    with temporary.folder(tmp_path) as mine:
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {mine.name}
        with temporary.folder(tmp_path) as another:
            assert mine.is_dir()
            assert another.is_dir()
    assert not list(tmp_path.iterdir())


SHELL = {
    "to /dev/stdout": ("{tomserve} items items --path i.jsonl --out /dev/stdout > out", 0, ""),
    "to a substitution": ("{tomserve} items items --path i.jsonl --out >(cat > out); c=$?; sleep 1; exit $c", 0, ""),
    "an empty name": ("{tomserve} items items --path i.jsonl --out ''", 2, "found an empty name"),
    "an empty folder": ("{tomserve} analyze x --out ''", 2, "found an empty name"),
    "a folder that is not there": ("{tomserve} items items --path i.jsonl --out new/", 2, "names a folder"),
    "its own input": ("{tomserve} items items --path i.jsonl --out ./i.jsonl", 2, "which is read"),
    "full": ("{tomserve} items items --path i.jsonl --out /dev/full", 3, "No space left on device"),
    "output that is full": (
        "{tomserve} items items --path i.jsonl > /dev/full",
        2,
        "standard output cannot be written",
    ),
    "output that is closed": ("{tomserve} items items --path i.jsonl >&-", 2, "standard output cannot be written"),
    "an error that nobody sees": ("{tomserve} items nonsense 2>&-", 2, ""),
    "nobody reads": ("set -o pipefail; {tomserve} items perturbed | head -1 > out", 0, ""),
    "help that is full": ("{tomserve} --help > /dev/full", 2, "standard output cannot be written"),
}


@pytest.mark.parametrize("name", SHELL)
def test_on_a_command_line(tmp_path: Path, name: str) -> None:
    write_items(tmp_path / "i.jsonl", [make_item(number) for number in range(3)])
    line, code, said = SHELL[name]
    done = subprocess.run(
        ["bash", "-c", line.format(tomserve=" ".join(TOMSERVE))],
        cwd=tmp_path,
        env=environment(tmp_path / "runs"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") <= 1
    assert (tmp_path / "out").exists() == (code == 0)
    if code == 0:
        assert (tmp_path / "out").read_bytes().count(b'"choices"') in (1, 3)
    assert (tmp_path / "i.jsonl").stat().st_size > 300
