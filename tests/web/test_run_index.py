"""The register lists runs quickly, by what stands in their folders, and shows nothing that it should not.
What is seen of one run while it goes on, and of all of them in the list."""

import asyncio
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.helpers.examples import copied_run
from tests.helpers.workbenches import client, example
from tomserve.content.paths import runs_root
from tomserve.errors import NoSuchRunError, NotAllowedError
from tomserve.runs.manifest import Manifest
from tomserve.web import run_index, run_status, tally
from tomserve.web.accounts import Person
from tomserve.web.run_index import Card, Job, RunEntry, RunIndex, State, change_metadata, write_card
from tomserve.web.run_status import Filters, RunStatus, events, look, state_of

ME = Person()
ADA, BEN = Person("ada"), Person("ben")


def made(name: str) -> Path:
    folder = runs_root() / name
    return copied_run(folder)


@pytest.fixture
def runs() -> RunIndex:
    return RunIndex()


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "SETTLED", -(10**18))


def names(found: list[RunEntry]) -> set[str]:
    return {line.name for line in found}


def test_a_line_says_what_the_folder_says(runs: RunIndex) -> None:
    folder = made("pilot/first")
    (line,) = runs.lines(ME)
    manifest = Manifest.read(folder)
    assert (line.name, line.kind, line.folder) == ("pilot/first", "answers", folder)
    assert (line.benchmark, line.model, line.made) == (manifest.benchmark, manifest.model, manifest.created)
    assert line.strategies == tuple(manifest.strategies)
    assert line.rows == len((folder / "responses.jsonl").read_bytes().splitlines())
    assert line.size == sum(path.stat().st_size for path in folder.iterdir())
    assert (line.complete, line.running, line.broken, line.card) == (manifest.complete, False, "", Card())
    assert runs.line("pilot/first", ME) == line


@pytest.mark.usefixtures("settled")
def test_only_what_has_changed_is_read_again(runs: RunIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        made(f"r{number}")
    for _ in range(2):  # rows are counted a part at a time
        runs.lines(ME)
    facts, opened = list[str](), list[Path]()
    own, reading = run_index._read_entry, run_index.files.open_for_reading
    monkeypatch.setattr(run_index, "_read_entry", lambda name, folder: (facts.append(name), own(name, folder))[1])
    monkeypatch.setattr(run_index.files, "open_for_reading", lambda path: (opened.append(path), reading(path))[1])
    runs.lines(ME)
    assert facts == opened == []
    run_index.write_card(runs_root() / "r3", Card(notes="look at it"))
    assert runs.line("r3", ME).card.notes == "look at it"
    assert names(runs.lines(ME)) == {f"r{number}" for number in range(5)}
    assert facts == ["r3"]
    shutil.rmtree(runs_root() / "r1")
    assert "r1" not in names(runs.lines(ME))


def test_two_changes_in_the_same_moment_are_seen(runs: RunIndex) -> None:
    """Files that are replaced twice may get the inode, the size and, where a clock is coarse, the time of the first."""
    folder = made("r")
    for number in range(20):
        run_index.write_card(folder, Card(notes=f"{number:02}"))
        assert runs.line("r", ME).card.notes == f"{number:02}"


def test_rows_are_counted_as_they_come(runs: RunIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made("r")
    journal = folder / "responses.jsonl"
    before = runs.line("r", ME).rows
    with journal.open("ab") as file:
        file.write(b"{}\n" * 7)
    assert runs.line("r", ME).rows == before + 7
    journal.write_bytes(b"{}\n" * 3)
    assert runs.line("r", ME).rows == 3
    monkeypatch.setattr(run_index, "AT_ONCE", 1 << 20)
    other = folder / "other"  # beside the journal, so that it cannot be taken for the same file, grown
    other.write_bytes(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 49_999)
    other.replace(journal)
    assert abs(runs.line("r", ME).rows - 50_000) < 500  # by the first megabyte of five
    for _ in range(6):
        found = runs.line("r", ME).rows
    assert found == 50_000


def test_a_broken_run_and_a_broken_card_have_lines_that_say_so(runs: RunIndex) -> None:
    made("good")
    bad = made("bad") / "manifest.json"
    for text in (b"", b"[]", b"{", b"\xff", b'{"kind": 3}', b'{"strategies": "x"}'):
        bad.write_bytes(text)
        found = {line.name: line for line in runs.lines(ME)}
        assert "manifest.json" in found["bad"].broken
        assert str(runs_root()) not in found["bad"].broken
        assert found["good"].broken == ""
    # with such a turn no next one could be written, and all behind it waited for ever; all tags stand in the list
    turn, tags = {"job": {"turn": 2**64 - 1}}, {"tags": [f"{number}" for number in range(10_000)]}
    for field, card in (("owner", {"owner": 3}), ("job.turn", turn), ("tags", tags)):
        (runs_root() / "good" / run_index.CARD_FILE).write_bytes(orjson.dumps(card))
        assert f"workbench.json: {field}: " in runs.line("good", ME).broken


def test_a_name_is_no_path_and_what_cannot_be_shown_is_passed_over(runs: RunIndex, tmp_path: Path) -> None:
    made("r")
    made("r/inner")  # what lies in a run is none
    (runs_root() / ".web").mkdir()
    (runs_root() / ".web/manifest.json").write_text("{}")
    for name in (b"a\x80b", b"a\nb", b".hidden", "a\u202eb".encode()):
        copied_run(Path(os.fsdecode(os.fsencode(runs_root()) + b"/" + name)))
    copied_run(tmp_path / "elsewhere/r")
    (runs_root() / "outside").symlink_to(tmp_path / "elsewhere/r")
    (runs_root() / "way").symlink_to(tmp_path / "elsewhere")
    paths = ". .. ../r r/.. r/../r /r //r r/ ./r .web ~ ~/r a\\b r/manifest.json /etc/passwd %2e%2e none outside way/r"
    for name in (*paths.split(), "", "r\0", "r\n", "r/" * 40 + "r", "\udc80", "x" * 300):
        for refused in (lambda name=name: runs.line(name, ME), lambda name=name: run_index.safe_path(name)):
            with pytest.raises(NoSuchRunError, match="there is no run"):
                refused()
    with pytest.raises(NoSuchRunError):
        runs.line("r/inner", ME)
    assert names(runs.lines(ME)) == {"r"}


def row(number: int, **changes: Any) -> bytes:
    fields = {
        "item": f"demo/{number}", "strategy": "vanilla", "turn": 0, "key": str(number), "status": "ok",
        "text": f"answer {number}", "error": None, "timings": {"total_s": 0.5},
        "time": f"2026-01-01T00:00:{number % 60:02}Z", "reused": False,
    }  # fmt: skip
    return orjson.dumps({**fields, **changes}) + b"\n"


def record(folder: Path, **changes: Any) -> None:
    fields = {"schema": 1, "pid": os.getpid(), "began": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:09Z"}
    (folder / "progress.json").write_bytes(orjson.dumps({**fields, **changes}))


@contextmanager
def held(folder: Path) -> Iterator[None]:
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)


def collected(folder: Path, until: int = 50) -> list[RunStatus]:
    async def collect() -> list[RunStatus]:
        return [seen async for seen in events(folder, "run", every=0.01)]

    return asyncio.run(asyncio.wait_for(collect(), until))


def test_last_answers_and_log_come_from_the_ends_of_the_files(tmp_path: Path) -> None:
    rows = b"".join(row(number) for number in range(40))
    failed = row(40, status="timeout", text=None, error="no reply in 600 s")
    (tmp_path / "responses.jsonl").write_bytes(rows + failed + row(41)[:-20])
    (tmp_path / "log.txt").write_text("".join(f"line {number}\n" for number in range(300)))
    seen = look(tmp_path, "run")
    assert len(seen.answers) == run_status.ANSWERS
    assert [one.text for one in seen.answers[:2]] == ["no reply in 600 s", "answer 39"]
    assert "demo/41" not in [one.item for one in seen.answers], "a line that is not whole is no answer"
    assert seen.log.splitlines() == [f"line {number}" for number in range(300 - run_status.LOG_LINES, 300)]
    assert (seen.state, seen.following) == ("incomplete", False)
    long = row(0, text="x" * 100_000)
    (tmp_path / "responses.jsonl").write_bytes(long * 20 + b"".join(row(number) for number in range(1, 6)))
    seen = look(tmp_path, "run")
    assert [one.item for one in seen.answers][:5] == [f"demo/{number}" for number in range(5, 0, -1)]
    assert len(seen.answers) < run_status.ANSWERS, "the beginning of a long file is not read"
    assert look(tmp_path, "run", 7).done == 7
    (seen,) = collected(tmp_path / "gone")
    assert (seen.done, seen.total, seen.answers, seen.log) == (0, None, (), "")


def test_events_come_where_something_changed_and_end_with_the_run(tmp_path: Path) -> None:
    async def follow() -> list[RunStatus]:
        found = []
        with held(tmp_path):
            async for seen in events(tmp_path, "run", every=0.01):
                found.append(seen)
                if len(found) < 4:
                    record(tmp_path, total=3, done=len(found))
                else:
                    break
        found += [seen async for seen in events(tmp_path, "run", every=0.01)]
        return found

    record(tmp_path, total=3, done=0)
    found = asyncio.run(asyncio.wait_for(follow(), 60))
    assert [seen.done for seen in found] == [0, 1, 2, 3, 3]
    assert [seen.following for seen in found] == [True, True, True, True, False]


def test_a_stream_ends_after_a_while_so_that_rights_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_status, "STREAMED", -1.0)
    me, folder = client(), example("mine")
    with held(folder):
        for address, ends in (("/api/v1/events/mine", "event: progress"), ("/events/mine", "event: said")):
            told = me.get(address).text
            assert (ends in told, "event: end" in told) == (True, False), address


def test_events_end_with_the_server_whatever_the_run_does(tmp_path: Path) -> None:
    record(tmp_path, total=10, done=4, written=4, statuses={"ok": 3, "timeout": 1})
    ending = threading.Event()

    async def follow() -> list[RunStatus]:
        found = []
        async for seen in events(tmp_path, "run", every=0.01, ending=ending):
            found.append(seen)
            ending.set()
        return found

    with held(tmp_path):
        (seen,) = asyncio.run(asyncio.wait_for(follow(), 60))
    assert (seen.state, seen.done, seen.total, seen.following) == ("running", 4, 10, True)
    assert seen.failures == {"timeout": 1}


def test_a_run_that_waits_in_the_queue_is_followed_until_it_leaves_it(tmp_path: Path) -> None:
    run_index.write_card(tmp_path, Card(job=Job(state=State.WAITING, said="its server does not answer yet")))
    seen = look(tmp_path, "run")
    assert (seen.state, seen.following, seen.said) == ("waiting", True, "its server does not answer yet")
    run_index.write_card(tmp_path, Card(job=Job(state=State.FAILED, said="no such model")))
    (seen,) = collected(tmp_path)
    assert (seen.state, seen.following, seen.said) == ("failed", False, "no such model")


STATES = {
    ("", "running"): "running", ("", "complete"): "complete", ("", ""): "incomplete", ("", "broken"): "broken",
    ("queued", ""): "queued", ("running", "running"): "running", ("done", "complete"): "complete",
    ("done", ""): "incomplete", ("failed", "complete"): "failed", ("cancelled", ""): "cancelled",
    ("cancelled", "running"): "running",
}  # fmt: skip


def test_state_in_a_word() -> None:
    for (job, fact), state in STATES.items():
        card = Card(job=Job(state=State(job)) if job else None)
        facts = {"running": False, "complete": False, **({fact: True} if fact else {})}
        assert state_of(card, **facts) == state, (job, fact)


def test_a_run_whose_card_cannot_be_read_is_nobodys_to_see_where_people_sign_in() -> None:
    folder = example("hers", Card(owner="ada", private=True))
    (folder / run_index.CARD_FILE).write_bytes(b'{"schema": 1, "owner"')
    with pytest.raises(NoSuchRunError):
        RunIndex().line("hers", BEN)
    assert "not JSON" in RunIndex().line("hers", Person()).broken


def test_a_measurement_is_private_as_the_run_is_however_long_that_ones_name() -> None:
    name = f"{'a' * 200}/{'b' * 200}"
    example(name, Card(owner="ada", private=True))
    measured = example("measured", kind="measured", settings={"of": name})
    assert RunIndex().lines(BEN) == []
    (runs_root() / name).rename(runs_root() / "renamed")
    assert RunIndex().lines(BEN) == []
    example(name, Card(owner="ben"), created="2999-01-01T00:00:00Z")  # by whoever takes the name that has become free
    assert [line.name for line in RunIndex().lines(BEN)] == [name]
    with pytest.raises(NoSuchRunError):
        RunIndex().line("measured", BEN)
    write_card(measured, Card(owner="ada"))
    assert "measured" in [line.name for line in RunIndex().lines(BEN)]


def test_what_a_card_has_become_since_it_was_read_stays() -> None:
    example("mine", Card(owner="ada"))
    before = RunIndex().line("mine", ADA)
    change_metadata(before, ADA, private=True)
    assert change_metadata(before, ADA, notes="in another tab").card.private
    write_card(before.folder, Card(owner="ben"))
    with pytest.raises(NotAllowedError):
        change_metadata(before, ADA, notes="mine no longer")


def test_what_is_broken_is_shown_as_missing(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_bytes(b'{"pid": -1')
    (tmp_path / "workbench.json").write_bytes(b"[]")
    (tmp_path / "manifest.json").write_bytes(b"\xff")
    (tmp_path / "responses.jsonl").write_bytes(b'[1]\n{"item": 5}\nnothing\n' + row(1, timings=3, time=None, text=7))
    (tmp_path / "log.txt").write_bytes(b"\xff\xfe" + b"y" * 5000)
    os.mkfifo(tmp_path / "console.txt")
    (tmp_path / "noise.jsonl").symlink_to("/etc/passwd")
    seen = look(tmp_path, "run")
    assert [one.text for one in seen.answers] == ["7"]
    assert len(seen.log) < 500
    assert (seen.console, seen.progress, seen.following) == ("", None, False)
    assert orjson.loads(orjson.dumps(seen.model_dump(mode="json")))["state"] == "incomplete"


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> RunIndex:
    """Six runs, whose results are still being counted."""
    monkeypatch.setattr(run_status, "find_tallies", lambda lines: [None] * len(lines))
    example("a", model="small", created="2026-01-01T00:00:00Z", complete=False)
    example("b", Card(tags=("pilot",), notes="odd answers"), model="Large", created="2026-01-03T00:00:00Z")
    example("deep/c", model="small", created="2026-01-02T00:00:00Z")
    example("d", Card(job=Job(state=State.QUEUED, order=2.0)), model="x", complete=False)
    example("e", Card(job=Job(state=State.PAUSED, order=1.0)), model="x", complete=False)
    example("f", Card(job=Job(state=State.FAILED, said="no such model")), model="x", complete=False)
    return RunIndex()


def overviewed(register: RunIndex, **filters: Any) -> list[str]:
    shown = run_status.overview(register, Person(), Filters(**filters))
    return [row.line.name for row in shown.rows]


def test_filters_sorting_what_failed_and_what_there_is(several: RunIndex) -> None:
    assert overviewed(several, model="small", sort="name", down=False) == ["a", "deep/c"]
    assert overviewed(several, text="ODD large") == ["b"]
    assert overviewed(several, tag="pilot") == ["b"]
    assert overviewed(several, state="queued") == ["d"]
    assert overviewed(several, state="incomplete") == ["a"]
    assert [name for name in overviewed(several, sort="made") if name in ("a", "b", "deep/c")] == ["b", "deep/c", "a"]
    shown = run_status.overview(several, Person())
    assert [row.line.name for row in shown.failed] == ["f"]
    assert shown.choices["model"] == {"small": 2, "Large": 1, "x": 3}
    assert shown.every == 6
    assert shown.free is not None


def test_filters_from_an_address_that_makes_no_sense() -> None:
    filters = Filters.read({"sort": "; drop", "page": "-3", "model": "x" * 999, "down": "?"})
    assert (filters.sort, filters.page, len(filters.model)) == ("made", 1, run_status.LONGEST)
    assert Filters.read({"page": "99999999999999"}).page == 1
    assert Filters.read({"sort": "name"}).sort_address("name").endswith("down=yes")
    assert Filters().address() == "/"


def test_the_page_shows_all_of_it_and_escapes_what_it_shows(several: RunIndex) -> None:
    example("g", Card(tags=("<b>",), notes="n"), model="<script>alert(1)</script>\u202e")
    page = client().get("/").text
    assert "<script>alert" not in page
    assert "\u202e" not in page
    for said in ("no such model", "&lt;b&gt;", "7 runs", 'href="/live/d"', 'href="/run/deep/c"'):
        assert said in page


def test_a_run_of_endless_strategies_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST_SHARES", 1)
    assert "2 strategies and benchmarks" in tally.tally(Path(), [str(example("many"))], {})["broken"]
