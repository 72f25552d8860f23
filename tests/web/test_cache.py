"""What takes long is computed beside the server, once for each content of the files, and kept."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.examples import copied_example
from tests.helpers.queues import until
from tests.helpers.workbenches import made
from tomserve.web import cache, process
from tomserve.web.cache import Allowance, Computation, ComputationCache, Digests, Result
from tomserve.web.process import Process


@pytest.fixture
def example(tmp_path: Path) -> Path:
    folder = tmp_path / "runs/example"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "responses.jsonl").write_text('{"text": "socks"}\n')
    return folder


class Writer(Process):
    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self.counted = counted
        self.ask = self.write  # type: ignore[method-assign]  # tests of other things have another one

    def write(self, out: Path, work: str, runs: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
        self.counted.asked.release()
        with self.counted.counting:
            self.counted.now += 1
            self.counted.most = max(self.counted.most, self.counted.now)
        until(lambda: self.counted.go.is_set() or self._stopped)
        with self.counted.counting:
            self.counted.now -= 1
            if self._stopped:
                return {"error": "it was stopped"}
            self.counted.made.append((self, dict(options)))
        (out / "file").write_text("x" * 1000)
        number = len(self.counted.made)
        return {"facts": {"number": number}} if not options.get("fails") else {"error": "it is too hot"}


class Counted(ComputationCache):
    """Its processes only write files; it counts how often and by which, and how many at once."""

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(folder, start=lambda: Writer(self), **more)
        self.made: list[tuple[Process, dict[str, Any]]] = []
        self.asked, self.counting = threading.Semaphore(0), threading.Lock()
        self.now = self.most = 0
        self.go = threading.Event()
        self.go.set()

    def settled(self, wish: Computation, **more: Any) -> Result:
        found: Result = until(lambda: self.compute(wish, **more))
        return found


@pytest.fixture
def beside(tmp_path: Path) -> Counted:
    return Counted(tmp_path / "cache")


def wishes(example: Path, count: int, **options: Any) -> list[Computation]:
    return [Computation("answers", (example,), {"number": number, **options}) for number in range(count)]


def test_it_is_computed_and_told_with_its_errors_in_words(tmp_path: Path) -> None:
    folder = copied_example(tmp_path / "runs")
    found = made("answers", "example")
    assert not found.error
    assert found.facts["answers"] == 352
    assert (found.folder / "answers.parquet").exists()
    assert oct(found.folder.parent.stat().st_mode & 0o777) == "0o700"
    (folder / "items.jsonl").write_text("no item\n")
    found = made("panels", "example", study=None, intervals=None, by=[])
    assert "items.jsonl:1" in found.error
    assert str(tmp_path) not in found.error


def test_what_is_kept_is_found_by_another_server(example: Path, tmp_path: Path) -> None:
    (wish,) = wishes(example, 1)
    Counted(tmp_path / "cache").settled(wish)
    other = Counted(tmp_path / "cache")
    assert (other.settled(wish).facts, other.made) == ({"number": 1}, [])


def test_the_content_of_files_decides_and_what_was_wanted_and_the_code(
    example: Path, beside: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish, journal = Computation("answers", (example,), {"by": "a"}), example / "responses.jsonl"
    before, status, text = beside.key(wish), journal.stat(), journal.read_bytes()
    os.utime(journal)
    assert beside.key(wish) == before
    journal.write_bytes(text.replace(b"socks", b"shoes", 1))
    os.utime(journal, ns=(status.st_atime_ns, status.st_mtime_ns))
    keys = {before, beside.key(wish)}
    journal.write_bytes(text)
    assert beside.key(wish) == before
    keys |= {
        beside.key(Computation("answers", (example,), {"by": "b"})),
        beside.key(Computation("panels", (example,), {"by": "a"})),
    }
    data = tmp_path / "data"
    for content in ("one", "two", "one"):
        data.write_text(content)
        keys.add(beside.key(Computation("answers", (example,), {"by": "a"}, sources=(data,))))
    monkeypatch.setattr(process, "CODE", "sha256:other")
    keys.add(beside.key(wish))
    assert len(keys) == 7


def test_a_run_that_grows_is_known_by_how_far_it_had_grown(example: Path, beside: Counted) -> None:
    before = [beside.key(Computation("panels", (example,), upto=upto)) for upto in (5, 6)]
    with (example / "responses.jsonl").open("ab") as journal:
        journal.write(b"{}\n")
    assert [beside.key(Computation("panels", (example,), upto=upto)) for upto in (5, 6)] == before
    assert before[0] != before[1]


def test_two_wishes_at_once_are_computed_once(example: Path, beside: Counted) -> None:
    (wish,) = wishes(example, 1)
    beside.go.clear()
    assert [beside.compute(wish), beside.compute(wish)] == [None, None]
    assert beside.working() == 1
    beside.go.set()
    assert beside.settled(wish).facts == {"number": 1}
    assert len(beside.made) == 1


def test_what_failed_is_told_and_tried_again_where_somebody_asks_or_later(
    example: Path, beside: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wish,) = wishes(example, 1, fails=True)
    assert [beside.settled(wish).error for _ in range(2)] == ["it is too hot"] * 2
    assert len(beside.made) == 1
    assert beside.compute(wish, again=True) is None
    beside.settled(wish)
    assert len(beside.made) == 2
    monkeypatch.setattr(cache, "TRY_AGAIN", -1.0)
    assert beside.compute(wish) is None
    until(lambda: not beside.working())
    assert len(beside.made) == 3


def test_where_nothing_can_be_kept_the_reason_is_told(example: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert "File exists" in Counted(tmp_path / "cache").settled(*wishes(example, 1)).error


def test_several_wishes_are_computed_by_one_process_and_leave_a_place(
    example: Path, beside: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "TOGETHER", 3)
    several, alone = wishes(example, 5), Computation("answers", (example,), {"alone": True})
    beside.go.clear()
    assert beside.every(several) == beside.every(several) == [None] * 5
    assert beside.working() == 3
    assert beside.compute(alone) is None
    for _ in range(2):
        assert beside.asked.acquire(timeout=60)
    beside.go.set()
    beside.settled(alone)
    found = until(lambda: None not in (now := beside.every(several)) and now)
    assert [one.error for one in found] == [""] * 5
    by = [one for one, options in beside.made if "number" in options]
    assert [len(by), len(set(by[:3])), len(set(by[3:]))] == [5, 1, 1]
    assert beside.most == cache.MOST


def test_all_ends_with_the_workbench_and_begins_anew_where_it_is_wanted_again(example: Path, beside: Counted) -> None:
    beside.go.clear()
    for wish in wishes(example, 4):
        beside.compute(wish)
    assert beside.asked.acquire(timeout=60)
    beside.stop()
    assert (beside.working(), beside.made, beside.now) == (0, [], 0)
    assert not list(beside.folder.iterdir())
    beside.go.set()
    assert not beside.settled(wishes(example, 1)[0]).error


@pytest.mark.parametrize(("room", "pieces"), [(4000, 100), (1 << 20, 3)])
def test_what_was_used_longest_ago_makes_room(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, pieces: int
) -> None:
    monkeypatch.setattr(cache, "PIECES", pieces)
    beside, several = Counted(tmp_path / "cache", room=room), wishes(example, 5)
    folders = [beside.settled(wish).folder for wish in several[:4]]
    for age, folder in enumerate(folders):
        os.utime(folder, (1000 + age, 1000 + age))
    os.utime(folders[0], (9000, 9000))  # used since
    beside.settled(several[4])
    assert folders[0].exists()
    assert not folders[1].exists()
    assert beside.settled(several[1]).folder == folders[1]


ONE = hashlib.sha256(b"one").hexdigest()


def test_the_digest_is_that_of_the_content_whatever_its_length_and_time(tmp_path: Path) -> None:
    path, found = tmp_path / "a", Digests()
    path.write_bytes(b"one")
    before = path.stat()
    assert (found.of(path), found.of(tmp_path / "b")) == (ONE, "")
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found.of(path) == hashlib.sha256(b"two").hexdigest()
    (tmp_path / "link").symlink_to(path)
    assert found.of(tmp_path / "link") == ""


def test_a_file_that_has_settled_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    monkeypatch.setattr(cache, "SETTLED", -60.0)  # as if the change were long ago
    found = Digests()
    found.of(path)
    monkeypatch.setattr(cache.files, "open_for_reading", lambda _: pytest.fail("it was read again"))
    assert found.of(path) == ONE


def test_several_files_share_what_may_be_read_while_a_page_waits_and_long_ones_are_read_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "SETTLED", -60.0)
    paths = [tmp_path / name for name in "abcd"]
    for path in paths:
        path.write_bytes(b"one")
    found, allowance = Digests(), Allowance(7)
    assert [found.of(path, allowance) for path in paths] == [ONE, ONE, None, None]
    until(lambda: [found.of(path, Allowance(0)) for path in paths] == [ONE] * 4)
