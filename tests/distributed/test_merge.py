"""Merging: however the rows of a run are divided, cut and repeated, what is merged is the run that was never divided."""

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_item
from tests.helpers import parting
from tests.helpers.parted import divided_example
from tests.helpers.parting import ONCE, REPEATS, TALK
from tomserve.distributed.merge import merge
from tomserve.distributed.shards import part_folder
from tomserve.errors import ConfigError, JournalError, MachineError, RunMismatchError
from tomserve.items import write_items
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder

ITEMS = parting.names(4)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """The rows of a run in which all was answered, and those of its noise check, as they came in."""
    waiting = [
        parting.talk(item, strategy, sample, failures=draw(st.integers(0, 2)), second=draw(st.integers(0, 90)))
        for item in ITEMS
        for strategy in (ONCE, TALK)
        for sample in range(REPEATS)
    ]
    turns = draw(st.permutations([number for number, rows in enumerate(waiting) for _ in rows]))
    rows = [waiting[number].pop(0) for number in turns]
    noise = [
        parting.line(item, ONCE, 0, 0, text=draw(st.sampled_from(["tea", "salt"])), second=99, concurrency=level)
        for item in ITEMS[:2]
        for level in (1, 64)
    ]
    return rows, noise


def of_items(rows: list[bytes], items: set[str]) -> list[bytes]:
    return [row for row in rows if orjson.loads(row)["item"] in items]


@settings(max_examples=12)
@given(run=runs(), data=st.data())
def test_parts_cut_anywhere_are_the_undivided_run(run: tuple[list[bytes], list[bytes]], data: st.DataObject) -> None:
    rows, noise = run
    where = [data.draw(st.integers(0, 2)) for _ in ITEMS]
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        whole = parting.written(root / "whole/mine", ITEMS, rows, noise)
        sources = []
        for part in range(3):
            own = {name for name, at in zip(ITEMS, where, strict=True) if at == part}
            held = b"".join(of_items(rows, own))
            if own:
                sources.append(parting.written(root / f"p{part}", own, [held], of_items(noise, own)))
                cut = data.draw(st.integers(0, len(held)))  # a copy that was made while the part was asked
                sources.append(parting.written(root / f"early{part}", own, [held[:cut]]))
        order = data.draw(st.permutations(sources))
        at = data.draw(st.integers(0, len(order)))
        into = root / "merged/mine"
        if order[:at]:
            merge(order[:at], into)  # the merged run itself is one of those that are merged then
        done = merge(order, into)
        assert done.complete
        assert done.answered == done.wanted == len(ITEMS) * 2 * REPEATS
        assert parting.scored(into) == parting.scored(whole)
        assert (into / "items.jsonl").read_bytes() == (whole / "items.jsonl").read_bytes()
        for name in ("responses.jsonl", "noise.jsonl"):
            assert parting.talks(into, name) == parting.talks(whole, name)
        before = (into / "responses.jsonl").read_bytes()
        again = merge(data.draw(st.permutations(sources)), into)
        assert not again.changed
        assert (into / "responses.jsonl").read_bytes() == before


@st.composite
def copies(draw: st.DrawFn) -> list[list[bytes]]:
    """The rows of three copies of a run that went on each by itself, so that they disagree."""
    found: list[list[bytes]] = [[], [], []]
    for item, strategy in itertools.product(ITEMS[:2], (ONCE, TALK)):
        for copy in found:
            failures, second = draw(st.integers(0, 1)), draw(st.integers(0, 3))
            rows = parting.talk(item, strategy, 0, failures=failures, second=second, text=draw(st.sampled_from("ab")))
            copy += rows[: draw(st.integers(0, len(rows)))]
    return found


@settings(max_examples=12)
@given(copies())
def test_copies_that_disagree_become_the_same_run_in_any_order_and_grouping(rows: list[list[bytes]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        a, b, c = (parting.written(root / f"s{n}", ITEMS[:2], one) for n, one in enumerate(rows))
        for name, sources in {"all": (a, b, c), "back": (c, b, a), "ab": (a, b), "bc": (b, c)}.items():
            merge(sources, root / name)
        merge((root / "ab", c), root / "left")
        merge((a, root / "bc"), root / "right")
        merge((root / "all", b, a), root / "again")
        wanted = parting.talks(root / "all")
        assert (root / "back/responses.jsonl").read_bytes() == (root / "all/responses.jsonl").read_bytes()
        for name in ("left", "right", "again"):
            assert parting.talks(root / name) == wanted
        for key, held in wanted.items():  # all of a conversation comes from one of them
            assert held in [parting.talks(source).get(key) for source in (a, b, c)]


def test_an_ended_conversation_comes_first_and_then_the_older_reply(tmp_path: Path) -> None:
    first, second = ITEMS[:2]
    by_time = [
        [
            *parting.talk(first, ONCE, 0, failures=0, second=when, text=f"{when}"),
            *parting.talk(second, ONCE, 0, failures=0, second=90 - when, text=f"{when}"),
        ]
        for when in (40, 50)
    ]
    begun = parting.talk(first, TALK, 0, failures=0, second=1, text="never")[:1]
    ended = parting.talk(first, TALK, 0, failures=3, second=80)
    one = parting.written(tmp_path / "one", ITEMS[:2], [*by_time[0], *begun])
    two = parting.written(tmp_path / "two", ITEMS[:2], [*by_time[1], *ended])
    assert not merge((one, two), tmp_path / "both").complete
    found = parting.talks(tmp_path / "both")
    assert found.pop((first, TALK, 0, None)) == ended
    assert found == {(first, ONCE, 0, None): by_time[0][:1], (second, ONCE, 0, None): by_time[1][1:]}
    assert Manifest.read(tmp_path / "both").complete is False  # type: ignore[union-attr]


def test_what_was_refused_and_asked_again_is_not_lost_to_a_copy_from_before(tmp_path: Path) -> None:
    refused = [parting.line(one, ONCE, 0, 0, text=None, second=1, status="http_400") for one in ITEMS]
    again = [parting.line(one, ONCE, 0, 0, text="tea", second=9) for one in ITEMS]
    before = parting.written(tmp_path / "before", ITEMS, refused)
    merge((before, parting.written(tmp_path / "after", ITEMS, [*refused, *again])), tmp_path / "both")
    assert parting.talks(tmp_path / "both").keys() == {(one, ONCE, 0, None) for one in ITEMS}
    assert list(parting.talks(tmp_path / "both").values()) == [[*pair] for pair in zip(refused, again, strict=True)]


def test_the_manifest_of_all_says_what_was_merged_and_who_answered(tmp_path: Path) -> None:
    sessions = [{"time": f"2026-01-0{day}T00:00:00Z", "endpoints": [f"http://{day}"]} for day in (1, 2, 3)]
    rows = parting.talk(ITEMS[0], ONCE, 0, failures=0, second=1)
    again = [parting.line(name, ONCE, 0, 0, text="tea", second=9, concurrency=1) for name in ITEMS[:2]]
    about = {
        "noise": {"share": 0.5, "seed": 1, "items": 1, "of": 2, "concurrencies": [1, 64]},
        "variants": {"kinds": ["again"], "made": {"again": 4}, "dropped": {"again": {"too short": 1}}},
    }
    parts = [
        parting.written(tmp_path / name, ITEMS[n : n + 1], rows[n:], again[n : n + 1], sessions=those, **about)
        for n, (name, those) in enumerate((("one", sessions[::2]), ("two", sessions[1:2])))
    ]
    merge(parts[::-1], tmp_path / "mine")
    found = orjson.loads((tmp_path / "mine/manifest.json").read_bytes())
    assert [(one["time"][9], one["part"]) for one in found["sessions"]] == [("1", "one"), ("2", "two"), ("3", "one")]
    wanted = [("one", 1, False), ("two", 0, False)]
    assert [(one["run"], one["rows"], one["complete"]) for one in found["parts"]] == wanted
    assert (found["noise"]["items"], found["noise"]["of"], found["noise"]["concurrencies"]) == (2, 4, [1, 64])
    assert found["variants"] == about["variants"]  # each part states that of the whole


def test_a_part_that_is_a_copy_of_another_leaves_the_run_incomplete(tmp_path: Path) -> None:
    folder = divided_example(tmp_path)
    assert merge([folder], tmp_path / "all").complete
    shutil.rmtree(part_folder(folder, 1))
    shutil.copytree(part_folder(folder, 0), part_folder(folder, 1))
    found = merge([folder], tmp_path / "less")
    assert (found.missing, found.complete, found.answered < found.wanted) == ((), False, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "other"}, "model is other"),
        ({"benchmark_digest": "sha256:9"}, "benchmark_digest is"),
        ({"strategies": {ONCE: {"digest": "sha256:7", "max_tokens": 16}}}, "digest is sha256:7"),
        ({"kind": "measured"}, "holds a measurement"),
    ],
)
def test_runs_that_ask_something_else_are_refused_by_name(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    one = parting.written(tmp_path / "one", ITEMS[:1], [])
    two = parting.written(tmp_path / "two", ITEMS[1:2], [], **change)
    with pytest.raises(RunMismatchError, match=f"two: .*{said}"):
        merge((one, two), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_what_nobody_asked_is_refused_by_file_and_line_and_leaves_no_folder(tmp_path: Path) -> None:
    good, strange = (parting.line(name, ONCE, 0, 0, text="tea", second=1) for name in (ITEMS[0], "demo/7"))
    one = parting.written(tmp_path / "one", ITEMS[:1], [])
    for rows, said in (
        (good + strange, "one/responses.jsonl:2: item 'demo/7' is none of the items"),
        (good + b"{}\n", "one/responses.jsonl:2: not a response row"),
        (good.replace(b"vanilla", b"nonsense"), "one/responses.jsonl:1: strategy 'nonsense'"),
    ):
        (one / "responses.jsonl").write_bytes(rows)
        with pytest.raises(ConfigError, match=said):
            merge((one,), tmp_path / "mine")
    other = parting.written(tmp_path / "two", ITEMS[:1], [])
    write_items(other / "items.jsonl", [make_item(1, question="Another one?")])
    with pytest.raises(RunMismatchError, match=r"two/items.jsonl:1: item 'demo/1' is another one than in .*one"):
        merge((one, other), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_run_that_was_not_merged_is_never_written_to(tmp_path: Path) -> None:
    one, two = (parting.written(tmp_path / name, ITEMS[:1], []) for name in ("one", "two"))
    before = {path.name: path.read_bytes() for path in two.iterdir()}
    with pytest.raises(RunMismatchError, match="was not made by merging"):
        merge((one,), two)
    with pytest.raises(ConfigError, match="is to be merged, and to be what is merged into"):
        merge((one, two), two)
    assert {path.name: path.read_bytes() for path in two.iterdir() if path.name != ".lock"} == before
    with RunFolder(tmp_path / "held"), pytest.raises(MachineError, match="in use"):
        merge((one,), tmp_path / "held")


def test_a_full_disk_and_an_end_leave_the_merged_run_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = parting.talk(ITEMS[0], ONCE, 0, failures=0, second=1)
    one = parting.written(tmp_path / "one", ITEMS[:1], rows)
    merge((one,), tmp_path / "mine")
    before = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    with (one / "responses.jsonl").open("ab") as journal:
        journal.writelines(parting.talk(ITEMS[0], TALK, 0, failures=0, second=1))

    for error, raised, said in (
        (OSError(28, "No space left on device"), JournalError, r"No space left on device.*as it was"),
        (KeyboardInterrupt("by Ctrl-C"), KeyboardInterrupt, "by Ctrl-C"),
    ):
        monkeypatch.setattr("tomserve.distributed.journals.copy_rows", Mock(side_effect=error))
        with pytest.raises(raised, match=said):
            merge((one,), tmp_path / "mine")
    assert {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == before


def test_a_sealed_run_is_not_changed_by_merging(tmp_path: Path) -> None:
    from tomserve.runs.verification import seal

    one = parting.written(tmp_path / "one", ITEMS[:1], [])
    merge((one,), tmp_path / "mine")
    seal(tmp_path / "mine")
    assert not merge((one,), tmp_path / "mine").changed
    with (one / "responses.jsonl").open("ab") as journal:
        journal.writelines(parting.talk(ITEMS[0], ONCE, 0, failures=0, second=1))
    with pytest.raises(RunMismatchError, match="is sealed"):
        merge((one,), tmp_path / "mine")
