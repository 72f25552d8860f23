"""Comparing two runs, and planning a study."""

import math
import re
import shutil
from pathlib import Path

import numpy as np
import orjson
import polars as pl
import pytest

from tests.conftest import ROOT, make_item
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.talking import FAN_OUT, write_strategy
from tomserve import benchmarks
from tomserve.benchmarks.perturbed.stages import PERTURBATIONS
from tomserve.errors import ConfigError
from tomserve.items import write_items
from tomserve.runs.scores import load_scores
from tomserve.stats.power import count_units, minimum_detectable_effect
from tomserve.studies import analyze
from tomserve.studies.comparison import WIDTH, compare, comparison_verdicts, shorten_pair
from tomserve.studies.power import Plan, plan_study


def changed_manifest(folder: Path, **fields: object) -> None:
    path = folder / "manifest.json"
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | fields))


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    """The example run, and a copy of it with other answers to six questions and another model."""
    first, second = tmp_path / "runs/first", tmp_path / "runs/second"
    ignored = shutil.ignore_patterns("scores.parquet", ".lock", "*.txt", "*.log")
    for folder in (first, second):
        shutil.copytree(ROOT / "runs/example", folder, ignore=ignored)
    right = {row["id"]: row["answer"] for row in map(orjson.loads, (first / "items.jsonl").read_bytes().splitlines())}
    rows = [orjson.loads(line) for line in (first / "responses.jsonl").read_bytes().splitlines()]
    vanilla = [row for row in rows if row["strategy"] == "vanilla"]
    for row in [one for one in vanilla if orjson.loads(one["text"])["answer"] != right[one["item"]]][:6]:
        row["text"] = orjson.dumps({"answer": right[row["item"]]}).decode()
    (second / "responses.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    changed_manifest(second, model="tuned", sampling={"temperature": 0.5, "seed": 0})
    return str(first), str(second)


def test_paired_differences_flips_and_what_differs(runs: tuple[str, str]) -> None:
    found = compare(*runs)
    assert found.left_out == (0, 0)
    overall = found.effects.filter(strategy="vanilla", perturbation="overall").row(0, named=True)
    flips = found.flips.filter(strategy="vanilla")
    assert overall["gained"] == flips.height > 0
    assert set(flips["flip"]) == {"gained"}
    assert found.differences == [("model", "reference", "tuned"), ("sampling.temperature", "0.0", "0.5")]
    assert sum("B was sampled at temperature 0.5 instead of 0.0" in said for said in found.lacking) == 2, (
        "each strategy"
    )
    back = compare(*reversed(runs))
    assert back.effects["risk_difference"].to_list() == pytest.approx([-x for x in found.effects["risk_difference"]])
    order = list(found.effects.filter(strategy="cot")["perturbation"])
    assert order == [*(name for name in PERTURBATIONS if name in order), "overall"]
    (said,) = (said for said in comparison_verdicts(found) if said.startswith("vanilla"))
    assert f"{overall['gained']} questions gained, {overall['lost']} lost" in said
    assert "No single class is shown to differ" in said


def test_unequal_questions_are_refused_unless_told(runs: tuple[str, str], cli, tmp_path: Path) -> None:
    second = Path(runs[1]) / "responses.jsonl"
    lines = second.read_bytes().splitlines(keepends=True)
    second.write_bytes(b"".join(lines[:-10]))
    refuses(cli("compare", *runs, "--all"), "10 and 0 answers have no partner")
    told = passes(cli("compare", *runs, "--common", "--all", "--out", tmp_path / "out"))
    assert "left out: 10 answers of A and 0 of B have no partner" in told.out
    assert "noise floor: not measured" in told.out
    assert re.search(r"model\s+reference\s+tuned", told.out)
    files = ["changes.csv", "differences.csv", "effects.csv", "flips.csv", "notes.txt"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files


def test_score_tables_compare_too_but_not_several_models(tmp_path: Path) -> None:
    one = load_scores(str(ROOT / "runs/example"))
    for name, frame in (
        ("one", one),
        ("two", one.with_columns(model=pl.lit("two"))),
        ("both", pl.concat([one, one.with_columns(model=pl.lit("two"))])),
        ("other", one.with_columns(item=pl.col("item") + "x")),
    ):
        frame.write_parquet(tmp_path / f"{name}.parquet")
    paths = {name: str(tmp_path / f"{name}.parquet") for name in ("one", "two", "both", "other")}
    assert compare(paths["one"], paths["two"]).differences == []
    with pytest.raises(ConfigError, match="holds several models"):
        compare(paths["both"], paths["one"])
    with pytest.raises(ConfigError, match="no question in common"):
        compare(paths["one"], paths["other"], common=True)


def test_a_plan_counts_requests_and_what_can_be_found() -> None:
    found = plan_study(benchmarks.get("perturbed"), None, ("vanilla", "cot"), models=3)
    assert (found.items, found.requests) == (1088, 1088 * 2 * 3)
    assert found.tokens == found.cost["prompt tokens (about)"].sum() > 1_000_000
    rows = {row["comparison"]: row for row in found.comparisons.iter_rows(named=True)}
    four = rows["uninformative_label against none"]
    assert four["units"] == "4 stages"
    assert four["minimum_detectable_effect, SD 0.2"] == minimum_detectable_effect(4, 0.2, family=10)
    assert four["if all are affected, SD 0.2"] == pytest.approx(0.2 * 2.13, abs=0.002)
    assert four["units_needed for 0.2, SD 0.2"] == count_units(0.2, 0.2, family=10) == 18
    alone, seven = rows["all perturbations against none"], rows["prompting, overall"]
    assert alone["units"] == seven["units"] == "7 stages"
    for row in (alone, seven):  # tested alone, so that there is nothing to correct
        assert row["minimum_detectable_effect, SD 0.2"] == row["if all are affected, SD 0.2"]
        assert row["minimum_detectable_effect, SD 0.2"] == pytest.approx(0.2 * 1.27, abs=0.002)


def test_a_plan_counts_samples_turns_and_the_first_requests_of_programs(tmp_path: Path) -> None:
    asked = benchmarks.get("perturbed")
    items = list(asked.items(None))[:40]

    def planned(*strategies: str, **more: int) -> Plan:
        return plan_study(asked, None, ("vanilla", *strategies), items=items, **more)

    once, thrice = planned("forced_choice"), planned("forced_choice", repeats=3)
    assert once.cost["requests"].to_list() == [40, 3 * 40]  # one request for each of three options
    assert (thrice.requests, thrice.tokens) == (3 * once.requests, 3 * once.tokens)
    found = planned(str(write_strategy(tmp_path / "two", 2)))
    assert found.requests == 40 * 3
    assert found.cost["strategy"].to_list() == ["vanilla", "two"]
    assert re.fullmatch(r"120 requests, about [\d.,]+ (thousand|million)? ?prompt tokens of first turns", str(found))
    found = planned(str(write_strategy(tmp_path / "fan", 3, FAN_OUT)), models=2)
    assert found.cost["requests at most"].to_list() == [40 * 2, 40 * 2 * 64]
    assert str(found).startswith("at least 160 requests, about ")


def test_a_plan_takes_the_spread_of_a_run(cli) -> None:
    """Of the classes the spread pooled over them, as the effects of the same run have it."""
    scores = load_scores(str(ROOT / "runs/example"))
    found = plan_study(benchmarks.get("perturbed"), None, ("vanilla", "cot"), like=scores)
    rows = {row["comparison"]: row for row in found.comparisons.iter_rows(named=True)}
    effects = analyze(scores, "perturbed")["perturbation_effects"].filter(subset="all")
    by_class = effects.drop_nulls("verdict")
    freedom = by_class["units"] - 1
    pooled = math.sqrt((freedom * by_class["sd"] ** 2).sum() / freedom.sum())
    assert rows["late_label against none"]["sd"] == pytest.approx(pooled)
    together = effects.filter(perturbation="overall_perturbed", target="new stages")["sd"]
    assert rows["all perturbations against none"]["sd"] == pytest.approx(math.sqrt((together**2).mean()))
    command = ("plan", "--benchmark", "perturbed", "--like", ROOT / "runs/example")
    done = passes(cli(*command, "--all"))
    assert f"{pooled:.3f}" in done.out
    assert "sd: the standard deviation of the units' differences that the run has shown" in done.out
    short = cli(*command).out
    assert len(short.splitlines()) <= 25
    least = rows["late_label against none"]["minimum_detectable_effect"]
    assert re.search(rf"^each of \d+ classes against none +7 stages +{least:.3f} ", short, re.M)


def test_a_plan_of_anybodys_items(cli, tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(n, factors={}) for n in range(30)])
    done = passes(cli("plan", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--models", 2))
    assert "30 questions, 2 models: 120 requests" in done.out
    least = minimum_detectable_effect(30, 0.2)
    assert re.search(rf"prompting, overall\s+30 clusters\s+{least:.3f}\s+", done.out)
    alone = cli("plan", "--benchmark", "items", "--path", tmp_path / "items.jsonl", "--strategy", "cot")
    assert "two models, overall" in alone.out


@pytest.fixture
def halves(runs: tuple[str, str], tmp_path: Path) -> tuple[str, str]:
    """The first run in two: one that was asked by vanilla alone, one by cot alone."""
    rows = [orjson.loads(line) for line in (Path(runs[0]) / "responses.jsonl").read_bytes().splitlines()]
    asked = orjson.loads((Path(runs[0]) / "manifest.json").read_bytes())["strategies"]
    for strategy in ("vanilla", "cot"):
        shutil.copytree(runs[0], tmp_path / strategy, ignore=shutil.ignore_patterns("scores.*"))
        own = b"".join(orjson.dumps(row) + b"\n" for row in rows if row["strategy"] == strategy)
        (tmp_path / strategy / "responses.jsonl").write_bytes(own)
        changed_manifest(tmp_path / strategy, strategies={strategy: asked[strategy]})
    return str(tmp_path / "vanilla"), str(tmp_path / "cot")


def test_two_strategies_of_one_run_are_the_studys_prompting_effects(runs: tuple[str, str], cli) -> None:
    found = compare(runs[0], strategies=("vanilla", "cot"))
    effects = analyze(load_scores(runs[0]), "perturbed")["prompting_effects"].filter(subset="all")
    staged = pl.col("perturbation").ne("overall") | pl.col("target").eq(found.effects["target"][0])
    columns = ("perturbation", "risk_difference", "rd_low", "rd_high", "p", "worst_low", "worst_high")
    expected = effects.filter(staged).select(columns).sort("perturbation")
    assert found.effects.select(columns).sort("perturbation").equals(expected)
    done = passes(cli("compare", runs[0], "--strategies", "vanilla,cot", "--all"))
    assert done.out.startswith(f"A = {runs[0]} by vanilla, B = {runs[0]} by cot\n")
    assert "first covers 176 of 1,088 questions (16.2%) of its benchmark (--limit)" in done.err


def test_two_runs_with_a_strategy_each_are_compared_by_these(runs: tuple[str, str], halves: tuple[str, str]) -> None:
    whole, found = compare(runs[0], strategies=("vanilla", "cot")), compare(*halves)
    assert found.effects.equals(whole.effects)
    assert found.flips.equals(whole.flips)
    assert found.differences == [], "that each has its own strategy is what is compared"
    assert compare(runs[0], halves[1], strategies=("vanilla", "cot")).effects.equals(whole.effects)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["FIRST"], "compare needs a second run, or two strategies of FIRST by --strategies A,B; it has cot, vanilla"),
        (["FIRST", "--strategies", "vanilla"], "expected two names with a comma between them"),
        (["FIRST", "--strategies", "vanilla,x"], "--strategies: FIRST: unknown strategy 'x'"),
        (["FIRST", "--strategies", "cot,cot"], "'cot' is given twice; name two different strategies"),
    ],
)
def test_what_to_compare_has_to_be_clear(runs: tuple[str, str], cli, arguments: list[str], said: str) -> None:
    refuses_in_a_line(
        cli("compare", *(one.replace("FIRST", runs[0]) for one in arguments)), said.replace("FIRST", runs[0])
    )


def test_what_differs_shows_the_difference(runs: tuple[str, str], cli) -> None:
    manifest = orjson.loads((Path(runs[1]) / "manifest.json").read_bytes())
    manifest["server"]["command"][-1] = "128"
    manifest["strategies"]["cot"]["digest"] = "sha256:" + "0" * 64
    changed_manifest(Path(runs[1]), **manifest)
    out = cli("compare", *runs, "--all").out
    assert re.search(r"command that started the server\s+… --max-num-seqs 64\s+… --max-num-seqs 128", out)
    assert re.search(r"digest of the prompts of strategy cot\s+sha256:[0-9a-f]{12}…\s+sha256:000000000000…", out)


def test_long_texts_are_shown_from_where_they_differ() -> None:
    a, b = shorten_pair("x" * 100 + "a" + "y" * 100, "x" * 100 + "b" + "y" * 100)
    assert (a.replace("a", ""), len(a)) == (b.replace("b", ""), WIDTH)
    assert shorten_pair("one two", "one") == ("one two", "one")
    flags = "vllm serve some/very/long/name/of/a/model --dtype auto"
    assert shorten_pair(flags, f"{flags} --enforce-eager") == ("… (nothing)", "… --enforce-eager")
    digests = [f"sha256:{'0' * 20}{letter * 44}" for letter in "12"]
    assert shorten_pair(*digests)[0] != shorten_pair(*digests)[1]


def crowd_table(path: Path, people: int, items: int, seed: int, share: float = 0.6, each: int = 2) -> pl.DataFrame:
    """A score table of people of whom `each` answered a question, the same codes P0, P1, ... in every table."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(items):
        who = rng.choice(people, each, replace=False)
        right = [int(rng.random() < share) for _ in who]
        rows.append({"item": f"task{number // 2}/{number}", "cluster": f"task{number // 2}", "people": [f"P{n}" for n in who],
                     "people_right": right, "correct": sum(right) * 2 > each,
                     "perturbation": "none" if number % 2 else "late_label"})  # fmt: skip
    named = {"model": "human", "strategy": "whole", "status": "ok", "answer": "tea"}
    frame = pl.DataFrame(rows).with_columns(**{name: pl.lit(value) for name, value in named.items()})
    frame.write_parquet(path)
    return frame


def test_two_groups_of_people_are_both_samples_whichever_comes_first(tmp_path: Path) -> None:
    paths = str(tmp_path / "few.parquet"), str(tmp_path / "many.parquet")
    crowd_table(tmp_path / "few.parquet", 4, 40, 1)
    crowd_table(tmp_path / "many.parquet", 30, 40, 2, 0.8, each=9)
    found, back = compare(*paths).people, compare(*reversed(paths)).people
    assert found["class"].to_list() == ["late_label", "none", "overall"]
    for name, other, sign in (("difference",) * 2 + (-1,), ("low", "high", -1), ("A", "B", 1), ("p", "p", 1)):
        assert found[name].to_list() == pytest.approx([sign * value for value in back[other]]), name
    assert found["people"][-1] == 34, "a code in both tables is two people"


def test_the_files_of_a_comparison_hold_people_and_what_to_know(tmp_path: Path, cli) -> None:
    first, second, out = tmp_path / "first.parquet", tmp_path / "second.parquet", tmp_path / "out"
    crowd_table(first, 6, 40, 1)
    told = crowd_table(second, 6, 40, 2)
    told.with_columns(base="item", item=pl.col("item") + "/fresh-7", fresh=pl.lit(7)).write_parquet(second)
    passes(cli("compare", first, second, "--out", out))
    people = pl.read_csv(out / "people.csv")
    assert people["class"].to_list() == ["late_label", "none", "overall"]
    assert people["B"][-1] == pytest.approx(told["people_right"].explode().cast(pl.Float64).mean())
    assert people["tasks"][-1] == 20
    notes = (out / "notes.txt").read_text().splitlines()
    assert [note.split(":")[0] for note in notes] == ["effects", "people", "changes"]
    assert notes[0].startswith("effects: B tells A's questions anew")
