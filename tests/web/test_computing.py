"""What takes long is computed beside the server, once for each content of the files, and kept."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.examples import copied_example
from tests.helpers.reading import made
from tomserve.web import computing
from tomserve.web.computing import Computing, Result, Wish


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return copied_example(tmp_path / "runs")


class Counted(Computing):
    """It writes a file rather than starting a process, and counts how often."""

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(folder, **more)
        self.made: list[Wish] = []
        self.go = threading.Event()
        self.go.set()

    def _process(self, out: Path, wish: Wish) -> dict[str, Any]:
        self.go.wait(60)
        self.made.append(wish)
        (out / "file").write_text("x" * 1000)
        return {"facts": {"number": len(self.made)}} if not wish.options.get("fails") else {"error": "it is too hot"}

    def settled(self, wish: Wish, **more: Any) -> Result:
        for _ in range(100_000):
            if (found := self.wanted(wish, **more)) is not None:
                return found
            threading.Event().wait(0.01)
        raise AssertionError("never computed")


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
    wish = Wish("answers", ("example",))
    assert Counted(tmp_path / "cache").settled(wish).facts == {"number": 1}
    other = Counted(tmp_path / "cache")
    assert other.settled(wish).facts == {"number": 1}
    assert not other.made


def test_what_somebody_else_put_there_is_not_believed(example: Path, tmp_path: Path) -> None:
    del example
    wish, first = Wish("answers", ("example",)), Counted(tmp_path / "cache")
    kept = first.settled(wish).folder
    (kept / "file").write_text("something else")
    other = Counted(tmp_path / "cache")
    other.settled(wish)
    assert len(other.made) == 1
    assert (kept / "file").read_text() == "x" * 1000


def test_a_changed_journal_is_computed_anew_whatever_its_time(example: Path, tmp_path: Path) -> None:
    wish, beside = Wish("answers", ("example",)), Counted(tmp_path / "cache")
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
    keys = {beside.key(Wish("answers", ("example",), {"by": by})) for by in ("a", "b")}
    keys.add(beside.key(Wish("panels", ("example",), {"by": "a"})))
    monkeypatch.setattr(computing, "_CODE", "sha256:other")
    keys.add(beside.key(Wish("answers", ("example",), {"by": "a"})))
    assert len(keys) == 4


def test_two_wishes_at_once_are_computed_once(example: Path, tmp_path: Path) -> None:
    del example
    wish, beside = Wish("answers", ("example",)), Counted(tmp_path / "cache")
    beside.go.clear()
    assert [beside.wanted(wish), beside.wanted(wish)] == [None, None]
    assert beside.working() == 1
    beside.go.set()
    assert beside.settled(wish).facts == {"number": 1}
    assert len(beside.made) == 1


def test_at_most_two_compute_at_once_and_the_others_wait(example: Path, tmp_path: Path) -> None:
    del example
    beside, begun, most = Counted(tmp_path / "cache"), threading.Semaphore(0), [0, 0]
    lock, process = threading.Lock(), beside._process

    def counting(out: Path, wish: Wish) -> dict[str, Any]:
        with lock:
            most[0] += 1
            most[1] = max(most)
        begun.release()
        found = process(out, wish)
        with lock:
            most[0] -= 1
        return found

    beside._process = counting  # type: ignore[method-assign]
    beside.go.clear()
    wishes = [Wish("answers", ("example",), {"number": number}) for number in range(5)]
    for wish in wishes:
        beside.wanted(wish)
    assert begun.acquire(timeout=60)
    assert begun.acquire(timeout=60)
    assert beside.working() == 5
    beside.go.set()
    assert all(not beside.settled(wish).error for wish in wishes)
    assert most[1] == computing.MOST


def test_what_failed_is_told_and_tried_again_where_somebody_asks(example: Path, tmp_path: Path) -> None:
    del example
    wish, beside = Wish("answers", ("example",), {"fails": True}), Counted(tmp_path / "cache")
    assert beside.settled(wish).error == "it is too hot"
    assert beside.settled(wish).error == "it is too hot"
    assert len(beside.made) == 1
    assert beside.wanted(wish, again=True) is None
    beside.settled(wish)
    assert len(beside.made) == 2


def test_what_was_used_longest_ago_makes_room(example: Path, tmp_path: Path) -> None:
    del example
    beside = Counted(tmp_path / "cache", room=5000)
    wishes = [Wish("answers", ("example",), {"number": number}) for number in range(4)]
    folders = []
    for age, wish in enumerate(wishes):
        folder = beside.settled(wish).folder
        os.utime(folder, (1000 + age, 1000 + age))
        folders.append(folder)
    os.utime(folders[0], (9000, 9000))  # used since
    beside.settled(Wish("answers", ("example",), {"number": 9}))
    assert folders[0].exists()
    assert not folders[1].exists()
    assert beside.settled(wishes[1]).folder == folders[1]


def test_a_run_that_grows_is_known_by_how_far_it_had_grown(example: Path, tmp_path: Path) -> None:
    beside = Counted(tmp_path / "cache")
    before = [beside.key(Wish("panels", ("example",), upto=upto)) for upto in (5, 6)]
    with (example / "responses.jsonl").open("ab") as journal:
        journal.write(b"{}\n")
    assert [beside.key(Wish("panels", ("example",), upto=upto)) for upto in (5, 6)] == before
    assert before[0] != before[1]
