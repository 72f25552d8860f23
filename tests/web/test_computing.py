"""What takes long is computed beside the server, once for each content of the files, and kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.examples import copied_example
from tests.helpers.reading import made
from tomserve.content.places import runs_root
from tomserve.web import computing, process
from tomserve.web.computing import Computing, Result, Wish
from tomserve.web.process import Process


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return copied_example(tmp_path / "runs")


class Writer(Process):
    """It writes a file rather than starting a process."""

    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self.counted = counted

    def ask(self, out: Path, work: str, runs: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
        self.counted.asked.release()
        with self.counted.counting:
            self.counted.now += 1
            self.counted.most = max(self.counted.most, self.counted.now)
        while not self.counted.go.wait(0.01) and not self._stopped:
            pass
        with self.counted.counting:
            self.counted.now -= 1
            if self._stopped:
                return {"error": "it was stopped"}
            self.counted.made.append((self, dict(options)))
        (out / "file").write_text("x" * 1000)
        number = len(self.counted.made)
        return {"facts": {"number": number}} if not options.get("fails") else {"error": "it is too hot"}


class Counted(Computing):
    """Its processes only write files; it counts how often and by which, and how many at once."""

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(folder, begun=lambda: Writer(self), **more)
        self.made: list[tuple[Process, dict[str, Any]]] = []
        self.asked, self.counting = threading.Semaphore(0), threading.Lock()
        self.now = self.most = 0
        self.go = threading.Event()
        self.go.set()

    def settled(self, wish: Wish, **more: Any) -> Result:
        for _ in range(100_000):
            if (found := self.wanted(wish, **more)) is not None:
                return found
            threading.Event().wait(0.01)
        raise AssertionError("never computed")

    def idle(self) -> None:
        for _ in range(10_000):
            if not self.working():
                return
            threading.Event().wait(0.01)
        raise AssertionError("never idle")


def test_a_process_of_its_own_computes_and_tells(example: Path) -> None:
    del example
    found = made("answers", "example")
    assert not found.error
    assert found.facts["answers"] == 352
    assert (found.folder / "answers.parquet").exists()
    assert oct(found.folder.parent.stat().st_mode & 0o777) == "0o700"


def test_an_error_is_told_in_words_without_the_path_of_the_folder(example: Path) -> None:
    (example / "items.jsonl").write_text("no item\n")
    found = made("panels", "example", study=None, intervals=None, by=[])
    assert "items.jsonl:1" in found.error
    assert str(example.parent) not in found.error


def test_what_is_kept_is_found_by_another_server(example: Path, tmp_path: Path) -> None:
    del example
    wish = Wish("answers", (runs_root() / "example",))
    assert Counted(tmp_path / "cache").settled(wish).facts == {"number": 1}
    other = Counted(tmp_path / "cache")
    assert other.settled(wish).facts == {"number": 1}
    assert not other.made


def test_what_somebody_else_put_there_is_not_believed(example: Path, tmp_path: Path) -> None:
    del example
    wish, first = Wish("answers", (runs_root() / "example",)), Counted(tmp_path / "cache")
    kept = first.settled(wish).folder
    (kept / "file").write_text("something else")
    other = Counted(tmp_path / "cache")
    other.settled(wish)
    assert len(other.made) == 1
    assert (kept / "file").read_text() == "x" * 1000


def test_a_changed_journal_is_computed_anew_whatever_its_time(example: Path, tmp_path: Path) -> None:
    wish, beside = Wish("answers", (runs_root() / "example",)), Counted(tmp_path / "cache")
    before, journal = beside.key(wish), example / "responses.jsonl"
    status = journal.stat()
    os.utime(journal)
    assert beside.key(wish) == before
    text = journal.read_bytes()
    journal.write_bytes(text.replace(b"socks", b"shoes", 1))
    os.utime(journal, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert beside.key(wish) != before
    journal.write_bytes(text)
    assert beside.key(wish) == before


def test_other_wishes_and_other_code_are_others(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del example
    beside = Counted(tmp_path / "cache")
    keys = {beside.key(Wish("answers", (runs_root() / "example",), {"by": by})) for by in ("a", "b")}
    keys.add(beside.key(Wish("panels", (runs_root() / "example",), {"by": "a"})))
    monkeypatch.setattr(process, "CODE", "sha256:other")
    keys.add(beside.key(Wish("answers", (runs_root() / "example",), {"by": "a"})))
    assert len(keys) == 4


def test_two_wishes_at_once_are_computed_once(example: Path, tmp_path: Path) -> None:
    del example
    wish, beside = Wish("answers", (runs_root() / "example",)), Counted(tmp_path / "cache")
    beside.go.clear()
    assert [beside.wanted(wish), beside.wanted(wish)] == [None, None]
    assert beside.working() == 1
    beside.go.set()
    assert beside.settled(wish).facts == {"number": 1}
    assert len(beside.made) == 1


def test_at_most_two_compute_at_once_and_the_others_wait(example: Path, tmp_path: Path) -> None:
    del example
    beside = Counted(tmp_path / "cache")
    beside.go.clear()
    wishes = [Wish("answers", (runs_root() / "example",), {"number": number}) for number in range(5)]
    for wish in wishes:
        beside.wanted(wish)
    assert beside.asked.acquire(timeout=60)
    assert beside.asked.acquire(timeout=60)
    assert beside.working() == 5
    beside.go.set()
    assert all(not beside.settled(wish).error for wish in wishes)
    assert beside.most == computing.MOST


def test_what_failed_is_told_and_tried_again_where_somebody_asks(example: Path, tmp_path: Path) -> None:
    del example
    wish, beside = Wish("answers", (runs_root() / "example",), {"fails": True}), Counted(tmp_path / "cache")
    assert beside.settled(wish).error == "it is too hot"
    assert beside.settled(wish).error == "it is too hot"
    assert len(beside.made) == 1
    assert beside.wanted(wish, again=True) is None
    beside.settled(wish)
    assert len(beside.made) == 2


def test_what_failed_is_tried_again_some_minutes_later(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del example
    wish, beside = Wish("answers", (runs_root() / "example",), {"fails": True}), Counted(tmp_path / "cache")
    assert beside.settled(wish).error == "it is too hot"
    monkeypatch.setattr(computing, "TRY_AGAIN", -1.0)
    assert beside.wanted(wish) is None
    beside.idle()
    assert len(beside.made) == 2


def test_where_nothing_can_be_kept_the_reason_is_told(example: Path, tmp_path: Path) -> None:
    del example
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert "File exists" in Counted(tmp_path / "cache").settled(Wish("answers", (runs_root() / "example",))).error


def test_several_wishes_are_computed_by_one_process_and_leave_a_place(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del example
    monkeypatch.setattr(computing, "TOGETHER", 3)
    beside = Counted(tmp_path / "cache")
    several = [Wish("answers", (runs_root() / "example",), {"number": number}) for number in range(5)]
    alone = Wish("answers", (runs_root() / "example",), {"alone": True})
    beside.go.clear()
    assert beside.every(several) == beside.every(several) == [None] * 5
    assert beside.working() == 3
    assert beside.wanted(alone) is None
    assert beside.asked.acquire(timeout=60)
    assert beside.asked.acquire(timeout=60)
    beside.go.set()
    beside.settled(alone)
    while None in (found := beside.every(several)):
        threading.Event().wait(0.01)
    assert [one.error for one in found if one is not None] == [""] * 5
    by = [made for made, options in beside.made if "number" in options]
    assert len(by) == 5
    assert [len(set(by[:3])), len(set(by[3:]))] == [1, 1]
    assert beside.most == 2


def test_all_ends_with_the_workbench_and_begins_anew_where_it_is_wanted_again(example: Path, tmp_path: Path) -> None:
    del example
    beside = Counted(tmp_path / "cache")
    wishes = [Wish("answers", (runs_root() / "example",), {"number": number}) for number in range(4)]
    beside.go.clear()
    for wish in wishes:
        beside.wanted(wish)
    assert beside.asked.acquire(timeout=60)
    beside.stop()
    assert (beside.working(), beside.made, beside.now) == (0, [], 0)
    assert not list(beside.folder.iterdir())
    beside.go.set()
    assert not beside.settled(wishes[0]).error


def test_further_files_count_by_their_content(tmp_path: Path) -> None:
    beside, path = Counted(tmp_path / "cache"), tmp_path / "data"
    wish = Wish("items", (), {}, sources=(path,))
    keys = [beside.key(wish)]
    for text in ("one", "two", "one"):
        path.write_text(text)
        keys.append(beside.key(wish))
    assert keys[1] == keys[3]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(("room", "pieces"), [(5000, 100), (1 << 20, 3)])
def test_what_was_used_longest_ago_makes_room(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, pieces: int
) -> None:
    del example
    monkeypatch.setattr(computing, "PIECES", pieces)
    beside = Counted(tmp_path / "cache", room=room)
    wishes = [Wish("answers", (runs_root() / "example",), {"number": number}) for number in range(4)]
    folders = []
    for age, wish in enumerate(wishes):
        folder = beside.settled(wish).folder
        os.utime(folder, (1000 + age, 1000 + age))
        folders.append(folder)
    os.utime(folders[0], (9000, 9000))  # used since
    beside.settled(Wish("answers", (runs_root() / "example",), {"number": 9}))
    assert folders[0].exists()
    assert not folders[1].exists()
    assert beside.settled(wishes[1]).folder == folders[1]


def test_a_run_that_grows_is_known_by_how_far_it_had_grown(example: Path, tmp_path: Path) -> None:
    beside = Counted(tmp_path / "cache")
    before = [beside.key(Wish("panels", (runs_root() / "example",), upto=upto)) for upto in (5, 6)]
    with (example / "responses.jsonl").open("ab") as journal:
        journal.write(b"{}\n")
    assert [beside.key(Wish("panels", (runs_root() / "example",), upto=upto)) for upto in (5, 6)] == before
    assert before[0] != before[1]
