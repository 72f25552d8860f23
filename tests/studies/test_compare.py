"""Comparing two runs, and planning a study."""

import re
import shutil
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import ROOT, make_item
from tomserve import benchmarks
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.studies.compare import compare
from tomserve.studies.plan import plan


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    """The example run, and a copy of it with other answers to one item and another model."""
    first, second = tmp_path / "runs/first", tmp_path / "runs/second"
    ignored = shutil.ignore_patterns("scores.parquet", ".lock", "*.txt", "*.log")
    for folder in (first, second):
        shutil.copytree(ROOT / "runs/example", folder, ignore=ignored)
    items = {row["id"]: row for row in map(orjson.loads, (first / "items.jsonl").read_bytes().splitlines())}
    rows = [orjson.loads(line) for line in (first / "responses.jsonl").read_bytes().splitlines()]
    changed = 0
    for row in rows:
        item = items[row["item"]]
        if row["strategy"] == "vanilla" and item["factors"]["stage"] == "C1" and changed < 6:
            row["text"] = orjson.dumps({"answer": item["answer"]}).decode()
            changed += 1
    (second / "responses.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    manifest = orjson.loads((second / "manifest.json").read_bytes())
    manifest |= {"model": "tuned", "sampling": {"temperature": 0.5, "seed": 0}}
    (second / "manifest.json").write_bytes(orjson.dumps(manifest))
    return str(first), str(second)


def test_paired_differences_flips_and_what_differs(runs: tuple[str, str]) -> None:
    found = compare(*runs)
    assert found.left_out == (0, 0)
    overall = found.effects.filter(strategy="vanilla", perturbation="overall").row(0, named=True)
    flips = found.flips.filter(strategy="vanilla")
    assert overall["gained"] == flips.height > 0
    assert overall["lost"] == 0
    assert overall["risk_difference"] > 0
    assert set(flips["flip"]) == {"gained"}
    assert found.effects.filter(strategy="cot")["gained"].sum() == 0
    differing = {name: (a, b) for name, a, b in found.differences}
    assert differing == {"model": ("reference", "tuned"), "sampling.temperature": ("0.0", "0.5")}
    back = compare(*reversed(runs))
    assert back.effects["risk_difference"].to_list() == pytest.approx([-x for x in found.effects["risk_difference"]])


def test_unequal_questions_are_refused_unless_told(runs: tuple[str, str], cli, tmp_path: Path) -> None:
    second = Path(runs[1]) / "responses.jsonl"
    lines = second.read_bytes().splitlines(keepends=True)
    second.write_bytes(b"".join(lines[:-10]))
    done = cli("compare", *runs)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "10 and 0 answers have no partner" in done.err
    told = cli("compare", *runs, "--common", "--out", tmp_path / "out")
    assert told.code == 0
    assert "left out: 10 answers of A and 0 of B have no partner" in told.out
    assert "noise floor: not measured" in told.out
    assert re.search(r"model\s+reference\s+tuned", told.out)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"effects.csv", "flips.csv", "differences.csv"}


def test_score_tables_compare_too_but_not_several_models(runs: tuple[str, str], cli, tmp_path: Path) -> None:
    for number, run in enumerate(runs):
        assert cli("score", run, "--out", tmp_path / f"{number}.parquet").code == 0
    found = compare(str(tmp_path / "0.parquet"), str(tmp_path / "1.parquet"))
    assert found.differences == []
    both = pl.concat([pl.read_parquet(tmp_path / f"{n}.parquet") for n in (0, 1)])
    both.write_parquet(tmp_path / "both.parquet")
    with pytest.raises(ConfigError, match="holds several models"):
        compare(str(tmp_path / "both.parquet"), str(tmp_path / "0.parquet"))
    other = pl.read_parquet(tmp_path / "0.parquet").with_columns(item=pl.col("item") + "x")
    other.write_parquet(tmp_path / "other.parquet")
    with pytest.raises(ConfigError, match="no question in common"):
        compare(str(tmp_path / "0.parquet"), str(tmp_path / "other.parquet"), common=True)


def test_a_plan_counts_requests_and_what_can_be_found() -> None:
    found = plan(benchmarks.get("perturbed"), None, ("vanilla", "cot"), models=3)
    assert (found.items, found.requests) == (1088, 1088 * 2 * 3)
    assert found.tokens == found.cost["prompt tokens (about)"].sum() > 1_000_000
    rows = {row["comparison"]: row for row in found.comparisons.iter_rows(named=True)}
    four = rows["uninformative_label against none"]
    assert (four["units"], four["least p"], four["can reach 0.05"]) == ("4 stages", 0.125, False)
    assert round(four["detectable, in SD"], 2) == 2.13
    seven = rows["prompting, overall"]
    assert (seven["units"], seven["least p"]) == ("7 stages", 2 / 2**7)
    assert round(seven["detectable, in SD"], 2) == 1.27
    assert seven["in probability, SD 0.15"] == pytest.approx(0.15 * seven["detectable, in SD"])


def test_a_plan_of_anybodys_items(cli, tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(n, factors={}) for n in range(30)])
    done = cli("plan", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--models", 2)
    assert done.code == 0, done.err
    assert "30 items, 2 models: 120 requests" in done.out
    assert re.search(r"prompting, overall\s+30 clusters\s+0.000\s+True\s+0.529", done.out)
    alone = cli("plan", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--strategy", "cot")
    assert "two models, overall" in alone.out
