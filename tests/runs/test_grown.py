"""A run that has grown is scored by its new rows alone, with the bytes that scoring all of it gives."""

import shutil
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_item
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.runs import scores as scores_module
from tomserve.runs.scores import current_scores, load_scored_run, scores_of
from tomserve.scoring import table as table_module

TEXTS = ("tea", "Answer: salt", '{"beliefs": ["tea"], "answer": "tea"}', '{"beliefs": ["salt"], "answer": "tea"}', "")
GOLD = {"sets": [["tea"], ["tea"]]}


def line(item: int, strategy: str = "vanilla", text: str | None = "tea", **more: Any) -> bytes:
    row = {"schema": 1, "item": f"demo/{item}", "strategy": strategy, "turn": 0, "key": "k", "status": "ok"}
    return orjson.dumps({**row, "text": text, **more}) + b"\n"


def run(folder: Path, *lines: bytes, **manifest: Any) -> Path:
    folder.mkdir(parents=True)
    story = {"story": ["a", "b"], "gold": GOLD}
    write_items(folder / "items.jsonl", [make_item(number, **story) for number in range(1, 7)])
    strategies = {"vanilla": {"digest": "d", "chain": False}, "cot": {"digest": "d", "chain": True}}
    found = {"schema": 1, "run": "r", "model": "tiny", "benchmark": "demo", "strategies": strategies, "complete": True}
    (folder / "manifest.json").write_bytes(orjson.dumps({**found, **manifest}))
    (folder / "responses.jsonl").write_bytes(b"".join(lines))
    return folder


def grow(folder: Path, *lines: bytes) -> None:
    with (folder / "responses.jsonl").open("ab") as file:
        file.writelines(lines)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offset in the journal from which each scoring read."""
    found: list[int] = []
    real = scores_module.write_scores

    def noted(folder: Path, path: Path, *, before: Any = None, **options: Any) -> Any:
        found.append(0 if before is None else before.mark.size)
        return real(folder, path, before=before, **options)

    monkeypatch.setattr(scores_module, "write_scores", noted)
    return found


def from_scratch(folder: Path, place: Path) -> tuple[bytes, dict[str, Any]]:
    """The table and the record of a copy of the run that has none yet."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place / folder.name, ignore=shutil.ignore_patterns("scores.*"))
    record = load_scored_run(place / folder.name).record
    return (place / folder.name / "scores.parquet").read_bytes(), dict(record)


rows = st.builds(
    line,
    st.integers(1, 8),  # two of them are unknown
    st.sampled_from(["vanilla", "cot"]),
    st.sampled_from(TEXTS),
    status=st.sampled_from(["ok", "ok", "timeout", "length"]),
    model=st.sampled_from(["tiny", "other"]),
)
others = st.sampled_from(
    [b"{\n", b"\n", b"[1]\n", line(1, turn=1), line(2, sample=1), line(3, closes=1), line(3, text=None)]
)
journals = st.lists(st.one_of(rows, rows, rows, rows, others), max_size=14)


@settings(max_examples=12, deadline=None)
@given(st.lists(journals, min_size=2, max_size=4), st.sampled_from([3, 10_000]))
def test_growing_equals_scoring_from_scratch(tmp_path_factory, steps: list[list[bytes]], part: int) -> None:
    place = tmp_path_factory.mktemp("grown")
    folder = run(place / "runs/r", line(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "PART", part)
        for step in steps:
            grow(folder, *step)
            found = load_scored_run(folder)
            table, record = from_scratch(folder, place / "afresh")
            assert (folder / "scores.parquet").read_bytes() == table
            assert found.record == record
            assert load_scored_run(folder).record == record  # and the table holds


def test_only_the_new_rows_are_read(tmp_path: Path, starts: list[int]) -> None:
    folder = run(tmp_path / "runs/r", line(1), line(2, text="salt"))
    size = (folder / "responses.jsonl").stat().st_size
    assert scores_of(folder)["correct"].to_list() == [True, False]
    grow(folder, line(2), line(3))
    assert scores_of(folder)["correct"].to_list() == [True, True, True]
    assert scores_of(folder)["item"].to_list() == ["demo/1", "demo/2", "demo/3"]
    assert starts == [0, size]


def cut(folder: Path) -> None:
    (folder / "responses.jsonl").write_bytes(line(1))
    grow(folder, line(3, text="salt"), line(4), line(5))


def edited(folder: Path) -> None:
    path = folder / "responses.jsonl"
    path.write_bytes(path.read_bytes().replace(b"salt", b"tea ", 1))
    grow(folder, line(3))


def other_item(folder: Path) -> None:
    story = {"story": ["a", "b"], "gold": GOLD, "answer": "salt"}
    write_items(folder / "items.jsonl", [make_item(number, **story) for number in range(1, 7)])
    grow(folder, line(3))


def checked_for_noise(folder: Path) -> None:
    (folder / "noise.jsonl").write_bytes(line(1, concurrency=1))
    grow(folder, line(3))


def forged(folder: Path) -> None:
    path = folder / "scores.parquet"
    pl.read_parquet(path).with_columns(correct=pl.lit(False)).write_parquet(path)
    grow(folder, line(3))


@pytest.mark.parametrize("change", [cut, edited, other_item, checked_for_noise, forged])
def test_whatever_else_has_changed_is_scored_anew(tmp_path: Path, change) -> None:
    folder = run(tmp_path / "runs/r", line(1), line(2, text="salt"))
    scores_of(folder)
    change(folder)
    found = scores_of(folder)
    assert found.equals(pl.read_parquet(from_scratch(folder, tmp_path / "afresh")[0]))


def test_a_line_that_was_torn_and_is_completed_is_scored_anew(tmp_path: Path, starts: list[int]) -> None:
    folder = run(tmp_path / "runs/r", line(1), line(2)[:20])
    assert scores_of(folder).height == 1
    grow(folder, line(2)[20:])
    assert scores_of(folder).height == 2
    assert starts == [0, 0]


def test_what_cannot_be_read_is_told_each_time_with_its_line_in_the_whole_file(tmp_path: Path, cli) -> None:
    folder = run(tmp_path / "runs/r", line(1), b"{\n", line(2))
    assert "1 lines not read: 1 not JSON (line 2)" in cli("score", folder).err
    grow(folder, line(3), b"{\n", line(77))
    said = "3 lines not read: 2 not JSON (line 2), 1 of unknown items (line 6)"
    done = cli("score", folder)
    assert said in done.err
    assert "3 rows scored, 3 correct" in done.out
    notes: list[str] = []
    assert current_scores(folder, note=notes.append).height == 3
    assert said in notes[0]


def test_a_row_without_a_status_is_named_by_its_line_in_the_whole_file(tmp_path: Path) -> None:
    folder = run(tmp_path / "runs/r", line(1), line(2))
    scores_of(folder)
    before = (folder / "scores.parquet").read_bytes()
    grow(folder, line(3), line(4, status=7))
    with pytest.raises(ConfigError, match=r"responses\.jsonl:4: field 'status' is 7"):
        scores_of(folder)
    assert (folder / "scores.parquet").read_bytes() == before
