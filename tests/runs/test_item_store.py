"""Items kept as lines, in memory or in a temporary file, and in the order of long keys; a benchmark may make them one by one."""

import functools
import itertools
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Cli, Endpoint, make_item
from tests.helpers.outcomes import refuses
from tomserve import benchmarks
from tomserve.benchmarks import get
from tomserve.content.files import digest_file
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError, ContentError, MachineError
from tomserve.items import items_digest, read_ids, read_items, write_items
from tomserve.prompting.strategy import Strategy
from tomserve.runs import item_store
from tomserve.runs.conversations import Conversations, Questions, count_requests, is_finished
from tomserve.runs.item_store import ItemStore, LineStore, sort_key, sort_places
from tomserve.runs.journal import Journal
from tomserve.runs.runfolder import store_items
from tomserve.variants import CHOICES, make_variant


def filled(count: int) -> tuple[LineStore, list[bytes]]:
    """Lines of many lengths, empty ones among them, and what they are."""
    wanted = [b"%d" % number * (number % 7) for number in range(count)]
    lines = LineStore()
    for number, line in enumerate(wanted):
        lines.append(line)
        assert (lines[number], lines[number // 2]) == (line, wanted[number // 2]), "read while it grows"
    return lines, wanted


@pytest.mark.parametrize("held", [10, 100, 1 << 24])
def test_lines_are_read_wherever_they_lie(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "HELD", held)
    lines, wanted = filled(200)
    assert list(lines) == wanted
    assert len(lines) == 200
    assert lines[-1] == wanted[-1]
    assert lines[50:60] == wanted[50:60]
    part = lines.part([7, 199, 0])
    both = part.concat(lines.part([5])).concat(part)
    assert list(both) == [wanted[place] for place in (7, 199, 0, 5, 7, 199, 0)]
    both.append(b"more")
    assert both[-1] == b"more"
    assert both[0] == wanted[7]
    with pytest.raises(IndexError):
        _ = lines[200]


def test_items_take_little_memory_and_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "HELD", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    items = [make_item(number, question=f"Where is it {number}" + "?" * 400) for number in range(40)]
    stock = ItemStore(items)
    assert list(stock) == items
    assert stock.lines._file._rolled, "it is in a file and not held any more"
    assert stock.digest() == items_digest(items) == items_digest(reversed(items))
    assert list(stock.part([3, 1]).concat(ItemStore(items[:1]))) == [items[3], items[1], items[0]]
    assert not list(tmp_path.iterdir()), "the temporary files have no names"


def test_no_room_for_many_items_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "HELD", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(MachineError, match=r"no temporary file can take them .*TMPDIR"):
        ItemStore([make_item(1)])


TEXTS = st.text(st.sampled_from("\0\x01\x02aAé€\uffff\U0001f600"), max_size=4)
KEYS = st.tuples(TEXTS, st.integers(-(2**63), 2**63 - 1), st.lists(TEXTS, max_size=3).map(tuple), TEXTS)


@given(KEYS, KEYS)
def test_bytes_are_ordered_as_the_tuples_are(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert (sort_key(one) < sort_key(other)) == (one < other)
    assert (sort_key(one) == sort_key(other)) == (one == other)


@pytest.mark.parametrize("name", ["vanilla", "simtom"])
def test_questions_come_in_the_order_of_their_prompts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "HELD", 1 << 12)
    strategy, items = Strategy.load(name), list(itertools.islice(get("perturbed").items(), 200))
    chosen = random.Random(2).sample(items, 90)
    questions = Questions(ItemStore(chosen), [strategy])
    wanted = sorted(range(90), key=lambda place: strategy.order(chosen[place]))
    assert list(questions._in_order(strategy, lambda question: True)) == wanted
    left = {item.id for item in chosen[::3]}
    some = [place for place in wanted if chosen[place].id in left]
    assert list(questions._in_order(strategy, lambda question: question.item in left)) == some


@pytest.mark.usefixtures("small_files")
def test_no_room_to_sort_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "HELD", 1 << 10)
    with pytest.raises(MachineError, match=r"cannot be sorted in a temporary file .*SQLITE_TMPDIR"):
        sort_places(b"%d" % number * 200 for number in range(2000))


def test_ids_of_a_snapshot_are_read_without_checking_it_again(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    write_items(path, [make_item(number) for number in (2, 1, 3)])
    assert list(read_ids(path)) == ["demo/2", "demo/1", "demo/3"]
    path.write_bytes(path.read_bytes() + b'{"id": 5}\n')
    with pytest.raises(ContentError, match=r"items\.jsonl:4"):
        list(read_ids(path))


def test_a_snapshot_keeps_what_was_asked_and_adds_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    first, more = (
        ItemStore([make_item(number) for number in (2, 1)]),
        ItemStore([make_item(number) for number in (3, 1)]),
    )
    assert set(store_items(tmp_path, first, fresh=True)) == {"demo/1", "demo/2"}
    before = path.read_bytes()
    assert set(store_items(tmp_path, first.take(1), fresh=False)) == {"demo/1", "demo/2"}
    assert path.read_bytes() == before
    assert set(store_items(tmp_path, more, fresh=False)) == {"demo/1", "demo/2", "demo/3"}
    assert list(read_ids(path)) == ["demo/1", "demo/2", "demo/3"]


def test_requests_are_made_of_what_is_left(tmp_path: Path) -> None:
    stock = ItemStore([make_item(number) for number in range(1, 6)])
    questions = Questions(stock, [Strategy.load(name) for name in ("vanilla", "cot")])
    talks = Conversations(functools.partial(Request.build, model="tiny", revision=None, sampling=Sampling()))
    every = [request.identity for request in questions.requests(talks)]
    assert sorted(every) == sorted(question.turn(0) for question in questions)
    with Journal(tmp_path / "responses.jsonl") as journal:

        def requests() -> list[Request]:
            return list(questions.requests(talks, lambda question: not is_finished(journal, question)))

        assert (count_requests(journal, questions), [one.identity for one in requests()]) == ((10, 10, 0, False), every)
        for identity in every[:7]:
            journal.append(row(identity))
        assert count_requests(journal, questions).left == 3
        assert [request.identity for request in requests()] == every[7:]
        for identity in every[7:]:
            journal.append(row(identity))
        assert (count_requests(journal, questions).left, requests()) == (0, [])


def row(identity: Identity) -> dict[str, object]:
    return {"item": identity.item, "strategy": identity.strategy, "turn": 0, "key": "k", "status": "ok"}


def test_a_large_file_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "CHECKED", 1)
    path, base = tmp_path / "items.jsonl", make_item(1)
    write_items(path, [base, make_variant(make_item(2), CHOICES, by="record"), make_item(2)])

    def read(times: list[int]) -> ItemStore:
        return item_store.read_checked(path, lambda: times.append(1) or read_items(path))

    asked: list[int] = []
    first, again = read(asked), read(asked)
    assert len(asked) == 1, "the second time nothing is checked"
    assert (list(again), again.ids, again.digest()) == (list(first), first.ids, first.digest())
    assert (again.characters, again.parts, again.benchmarks) == (first.characters, first.parts, first.benchmarks)
    assert [len(part) for part in again.split_variants()] == [2, 1]
    path.write_bytes(path.read_bytes().replace(b'"answer":"tea"', b'"answer":"ink"', 1))
    with pytest.raises(ContentError, match="answer 'ink' is not among the choices"):
        read([])
    path.write_bytes(base.to_json() + b" \n")
    assert [list(read(asked)), list(read(asked)), len(asked)] == [[base], [base], 3], "written by somebody else"
    write_items(path, [base])
    size, digest = digest_file(path)
    read(asked)
    path.write_bytes(make_item(2).to_json() + b"\n")
    monkeypatch.setattr(item_store.files, "digest_file", lambda _: (size, digest))
    with pytest.raises(ConfigError, match="was changed while it was read"):
        read(asked)


def test_items_may_come_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_store, "CHECKED", 1)
    ours, theirs = os.pipe()
    os.write(theirs, make_item(1).to_json())
    os.close(theirs)
    path = Path(f"/dev/fd/{ours}")
    assert list(item_store.read_checked(path, lambda: read_items(path))) == [make_item(1)]
    os.close(ours)


MODULE = """from pathlib import Path
from tomserve.benchmarks import Benchmark
from tomserve.items import Item, read_ids

FIELDS = {"story": ["Tea is in it."], "choices": ["tea", "salt", "unknown"], "answer": "tea"}


def load(path, gold):
    for number in range(int(Path(__file__).with_name("count").read_text())):
        if number == 40:
            raise OSError("the disk with the stories is gone")
        yield Item(id=f"{number:03d}", question=f"What is in jar {number}?", cluster=f"jar {number // 4}", **FIELDS)


BENCHMARK = Benchmark("jars", load, strategies=("vanilla",))
"""


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that other tests loaded are unknown here."""
    monkeypatch.setattr(benchmarks, "_loaded", {})


def test_what_fails_late_is_one_line_and_nothing_is_asked(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> None:
    module = tmp_path / "jars.py"
    module.write_text(MODULE)
    (tmp_path / "count").write_text("100")
    command = ("eval", "--benchmark", module, "--base-url", endpoint.url, "--quiet", "--no-report", "--run", "late")
    failed = refuses(cli(*command), f"{module}:11: load failed after 40 items", "the disk with the stories is gone")
    assert len(failed.err.strip().splitlines()) == 1
    assert not endpoint.requests
    assert not (tmp_path / "runs/late").exists()

    (tmp_path / "count").write_text("24")
    assert cli(*command).code == 0
    files = {path.name: path.read_bytes() for path in (tmp_path / "runs/late").glob("*.jsonl")}
    assert files["responses.jsonl"].count(b"\n") == len(endpoint.requests) == 24
    (tmp_path / "count").write_text("100")
    assert cli(*command).code == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "runs/late").glob("*.jsonl")} == files
    assert len(endpoint.requests) == 24
