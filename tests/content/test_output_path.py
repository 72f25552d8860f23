"""What a user names by --out is written without losing anything that is not meant, whatever stands there."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, make_item
from tests.helpers.command import TOMSERVE, environment
from tomserve.content import files, output_path
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.runs import runfolder
from tomserve.runs.runfolder import CHANGED, REPLACED

OF_A_RUN = (
    *REPLACED, *CHANGED, runfolder.TABLE, "scores.json", "report.json", "responses.torn-17.txt", "work/states.bin",
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder that is a run as far as its files' names tell."""
    folder = tmp_path / "runs/r"
    (folder / "work").mkdir(parents=True)
    for name in ("manifest.json", *OF_A_RUN):
        (folder / name).write_bytes(b"precious")
    return folder


def write(path: Path, *inputs: Path) -> None:
    with output_path.open_output(path, *inputs) as file:
        file.write(b"new")


def test_a_file_of_a_run_is_refused_by_every_spelling(run: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(run.parent)
    (tmp_path / "folder").symlink_to(run)
    for name in OF_A_RUN:
        for link, target in ((tmp_path / "link", run / name), (tmp_path / "other", tmp_path / "link")):
            link.unlink(missing_ok=True)
            link.symlink_to(target)
        with (run / name).open("rb") as stream:
            for path in (
                *(run / name, Path("r") / name, run / ".." / "r" / name, tmp_path / "link", tmp_path / "other"),
                *(
                    tmp_path / "folder" / name,
                    Path(f"/proc/self/fd/{stream.fileno()}"),
                    Path(f"/dev/fd/{stream.fileno()}"),
                ),
            ):
                with pytest.raises(ConfigError, match="belongs to the run"):
                    write(path)
        assert (run / name).read_bytes() == b"precious"


def test_a_file_of_a_run_that_is_not_there_yet_is_refused_and_others_are_not(run: Path) -> None:
    (run / "noise.jsonl").unlink()
    with pytest.raises(ConfigError, match="belongs to the run"):
        write(run / "noise.jsonl")
    write(run / "my-table.csv")
    assert (run / "my-table.csv").read_bytes() == b"new"
    with output_path.open_output(run / "report.html", run, own=("report.html",)) as file:
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
    with output_path.open_output(path) as file:
        file.write(b"half")
        print(1 / 0)


def test_nothing_is_written_where_making_it_fails(tmp_path: Path) -> None:
    for path in (tmp_path / "new", Path("/dev/null")):
        with pytest.raises(ZeroDivisionError):
            half_written(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.system
def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    script = (
        "import os, sys, signal; from pathlib import Path; from tomserve.content import files\n"
        "with files.temporary_folder(Path(sys.argv[1])) as one, files.temporary_file(Path(sys.argv[1])) as two:\n"
        "    (one / 'inside').mkdir(); (one / 'inside/file').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, cwd=ROOT)
    assert len(list(tmp_path.iterdir())) == 2
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))  # what was just made is left alone
    with files.temporary_folder(tmp_path) as mine:
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {mine.name}
        with files.temporary_folder(tmp_path) as another:
            assert mine.is_dir()
            assert another.is_dir()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("", "found an empty name"),
        ("new/", "names a folder"),
        ("./i.jsonl", "which is read"),
        ("/dev/full", "No space left on device"),
    ],
)
def test_what_a_command_cannot_write_is_said_in_one_line(cli, tmp_path: Path, monkeypatch, out: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_items(tmp_path / "i.jsonl", [make_item(number) for number in range(3)])
    before = (tmp_path / "i.jsonl").read_bytes()
    done = cli("items", "items", "--path", "i.jsonl", "--out", out)
    assert (done.code, said in done.err, done.err.count("\n")) == (3 if out == "/dev/full" else 2, True, 1), done.err
    assert (tmp_path / "i.jsonl").read_bytes() == before


ITEMS, UNWRITTEN = "{tomserve} items items --path i.jsonl", "standard output cannot be written"
SHELL = {
    "to a substitution": (f"{ITEMS} --out >(cat > out); c=$?; until [ -s out ]; do sleep 0.05; done; exit $c", 0, ""),
    "output that is full": (f"{ITEMS} > /dev/full", 2, UNWRITTEN),
    "output that is closed": (f"{ITEMS} >&-", 2, UNWRITTEN),
    "an error that nobody sees": ("{tomserve} items nonsense 2>&-", 2, ""),
    "nobody reads": ("set -o pipefail; {tomserve} items perturbed | head -1 > out", 0, ""),
}


@pytest.mark.system
@pytest.mark.parametrize("name", SHELL)
def test_on_a_command_line(tmp_path: Path, name: str) -> None:
    write_items(tmp_path / "i.jsonl", [make_item(number) for number in range(3)])
    line, code, said = SHELL[name]
    command = ["bash", "-c", line.format(tomserve=" ".join(TOMSERVE))]
    surroundings = environment(tmp_path / "runs")
    done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") <= 1
    assert (tmp_path / "out").exists() == (code == 0)
    if code == 0:
        assert (tmp_path / "out").read_bytes().count(b'"choices"') in (1, 3)
