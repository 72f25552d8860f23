"""The page of a comparison holds what `tomserve compare` finds."""

from pathlib import Path

import orjson
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tomserve
from tests.helpers.examples import copied_example
from tomserve.errors import ConfigError
from tomserve.studies.comparison import compare as plain
from tomserve.studies.comparison import comparison_verdicts
from tomserve.web import analyses
from tomserve.web.background import Result


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    first = copied_example(tmp_path / "runs")
    second = first.with_name("second")
    second.mkdir()
    for name in ("items.jsonl", "manifest.json"):
        (second / name).write_bytes((first / name).read_bytes().replace(b'"reference"', b'"another"'))
    lines = (first / "responses.jsonl").read_bytes().splitlines()
    changed = [orjson.dumps({**orjson.loads(line), "text": '{"answer":"unknown"}'}) for line in lines]
    kept = [other if number % 5 == 0 else line for number, (line, other) in enumerate(zip(lines, changed, strict=True))]
    (second / "responses.jsonl").write_bytes(b"\n".join(kept) + b"\n")
    return first


def test_it_says_what_compare_says(two: Path, out: Path) -> None:
    del two
    facts = analyses.compare(out, ["example", "second"], {"strategies": None, "common": False})
    found = plain("example", "second")
    assert facts["verdicts"] == comparison_verdicts(found)
    assert facts["flips"] == found.flips.height > 50
    assert_frame_equal(pl.read_parquet(out / "effects.parquet"), found.effects)
    assert_frame_equal(pl.read_parquet(out / "flips.parquet"), tomserve.compare("example", "second").flips)
    assert ["model", "reference", "another"] in facts["differences"]
    effects, changes = analyses.comparison_tables(Result(out))
    assert effects["total"] == found.effects.height
    assert (changes["name"], changes["total"]) == ("changes", 12)  # six kinds for each of two strategies
    assert changes["note"].startswith("harmful: ")


def test_it_tests_against_a_margin(two: Path, out: Path) -> None:
    del two
    facts = analyses.compare(out, ["example", "second"], {"strategies": None, "common": False, "margin": 0.3})
    found = plain("example", "second", margin=0.3)
    assert facts["verdicts"] == comparison_verdicts(found)
    assert sum("with a margin of 30 points" in said for said in facts["verdicts"]) == 2
    margins = analyses.comparison_tables(Result(out))[1]
    assert (margins["title"], margins["total"]) == ("Is B as good as A, up to the margin?", 2)
    assert [row[-1] for row in margins["rows"]] == found.margins["verdict"].to_list()


def test_flips_are_paged_and_filtered(two: Path, out: Path) -> None:
    del two
    facts = analyses.compare(out, ["example", "second"], {"strategies": None, "common": False})
    every = pl.read_parquet(out / "flips.parquet")
    first = analyses.flips_page(Result(out), 1)
    rows = [row for page in range(1, first.pages + 1) for row in analyses.flips_page(Result(out), page).rows]
    assert [(row["item"], row["strategy"]) for row in rows] == every.select("item", "strategy").rows()
    lost = analyses.flips_page(Result(out), 1, kind="lost", strategy="cot", item="c1/")
    wanted = every.filter(pl.col("item").str.starts_with("C1/"), flip="lost", strategy="cot")
    assert lost.total == wanted.height > 0
    assert analyses.flips_page(Result(out), 99).page == first.pages
    assert analyses.flips_page(Result(out), 1, kind="gained").total == facts["gained"]
    assert analyses.flips_page(Result(out), 1, item="no such item").rows == ()


def test_other_questions_are_refused_unless_only_common_ones_are_wanted(two: Path, out: Path) -> None:
    journal = two / "responses.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-3]))
    with pytest.raises(ConfigError, match="--common"):
        analyses.compare(out, ["example", "second"], {"strategies": None, "common": False})
    facts = analyses.compare(out, ["example", "second"], {"strategies": None, "common": True})
    assert facts["left_out"] == [0, 3]
    assert not any(str(two.parent) in said for said in facts["lacking"])


def test_scores_of_anybody_have_no_classes_on_the_page(tmp_path: Path, out: Path) -> None:
    rows = {"model": "m", "strategy": "imported", "status": "ok", "item": [f"q{i}" for i in range(40)]}
    right = pl.Series([i % 5 != 0 for i in range(40)])
    paths = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    for path, flipped in zip(paths, (0, 3), strict=True):
        pl.DataFrame(rows).with_columns(correct=right & (pl.int_range(40) >= flipped)).write_parquet(path)
    facts = analyses.compare(out, paths, {"strategies": None, "common": False, "margin": 0.1})
    effects, margins, changes = analyses.comparison_tables(Result(out))
    assert [name for name, _ in effects["columns"]][:4] == ["strategy", "A", "B", "B - A"]
    assert "class" not in str(facts["verdicts"]).lower()
    assert (margins["name"], changes["total"]) == ("margins", 4)  # nobody tells what was answered
