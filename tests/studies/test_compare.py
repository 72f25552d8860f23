"""Comparing two runs, and planning a study.
`tomserve compare --by`: the paired difference for each value of a factor of the questions.
A fresh edition beside the released one: which questions are compared, and whether memory shows as a gap.
`tomserve plan --people`: power and size of a study with people.
Which results may stand side by side, and what is said of those that may not."""

import math
import re
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pytest

import tomserve
from tests.conftest import ROOT, Cli, make_item
from tests.helpers.drawn import crowd
from tests.helpers.examples import change_manifest, copied_run
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.questionnaires import items
from tests.helpers.reports import run_folder
from tests.helpers.talking import FAN_OUT, write_strategy
from tomserve import benchmarks
from tomserve.benchmarks.perturbed.stages import PERTURBATIONS
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.faithfulness.plan import estimate_costs
from tomserve.items import Item, write_items
from tomserve.items.draw import limit_items
from tomserve.runs.scores import load_scores
from tomserve.stats.paired import adjust
from tomserve.stats.power import Spread, class_power, count_units, minimum_detectable_effect, model_power
from tomserve.studies import analyze, comparison, power
from tomserve.studies import power as planning
from tomserve.studies.analysis import compute_files
from tomserve.studies.answer_rows import REQUIRED, prepare_rows
from tomserve.studies.comparability import (
    AnswerConditions,
    Conditions,
    MeasurementConditions,
    describe_difference,
    group_comparable,
)
from tomserve.studies.comparison import (
    WIDTH,
    compare,
    comparison_summary,
    comparison_verdicts,
    effects_in_short,
    shorten_pair,
)
from tomserve.studies.contrasts import contrast, pair_rows
from tomserve.studies.phrases import PHRASES
from tomserve.studies.power import Plan, known_spreads, plan_study


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    """The example run, and a copy of it with other answers to six questions and another model."""
    first, second = tmp_path / "runs/first", tmp_path / "runs/second"
    for folder in (first, second):
        copied_run(folder)
    right = {row["id"]: row["answer"] for row in map(orjson.loads, (first / "items.jsonl").read_bytes().splitlines())}
    rows = [orjson.loads(line) for line in (first / "responses.jsonl").read_bytes().splitlines()]
    vanilla = [row for row in rows if row["strategy"] == "vanilla"]
    for row in [one for one in vanilla if orjson.loads(one["text"])["answer"] != right[one["item"]]][:6]:
        row["text"] = orjson.dumps({"answer": right[row["item"]]}).decode()
    (second / "responses.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    change_manifest(second, model="tuned", sampling={"temperature": 0.5, "seed": 0})
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
    two = one.with_columns(model=pl.lit("two"))
    other = one.with_columns(item=pl.col("item") + "x")
    paths = {name: str(tmp_path / f"{name}.parquet") for name in ("one", "two", "both", "other")}
    for path, frame in zip(paths.values(), (one, two, pl.concat([one, two]), other), strict=True):
        frame.write_parquet(path)
    assert compare(paths["one"], paths["two"]).differences == []
    with pytest.raises(ConfigError, match="holds several models"):
        compare(paths["both"], paths["one"])
    two.with_columns(benchmark=pl.lit("mine")).write_parquet(paths["two"])
    assert compare(paths["one"], paths["two"]).lacking[-1].startswith("B was asked mine instead of perturbed")
    (said, *_) = compute_files([pl.scan_parquet(paths[name]) for name in ("one", "two")], "accuracy").warnings
    assert said.startswith("not all models were asked the same benchmark (reference: perturbed; two: mine)")
    with pytest.raises(ConfigError, match="no question in common"):
        compare(paths["one"], paths["other"], common=True)


def test_runs_that_were_asked_otherwise_are_told_by_their_names_below_the_folder_of_runs(
    cli: Cli, tmp_path: Path
) -> None:
    for name, changes in (("one", {}), ("two", {"sampling": {"temperature": 0.7, "seed": 0}})):
        change_manifest(copied_run(runs_root() / name / "part"), **changes)
    told = cli("analyze", "one/part", "two/part", "--label", "two/part=other").err
    assert "perturbed by cot, vanilla: not to be set beside one/part, nor ranked with it: two/part" in told
    assert "two/part was sampled at temperature 0.7 instead of 0.0: repeat with the same" in told
    assert "counted as one model" not in told
    for name, temperature in (("a", 0.0), ("b", 0.7)):  # called alike, elsewhere
        change_manifest(copied_run(tmp_path / name / "x"), model=name, sampling={"temperature": temperature, "seed": 0})
    runs = f"{tmp_path}/a/x/", f"{tmp_path}/b/x/"
    said = f"not to be set beside {tmp_path}/b/x, nor ranked with it: x was sampled at temperature 0.0 instead of 0.7"
    assert said in cli("analyze", *runs).err
    assert said in cli("report", *runs, "--out", tmp_path / "r.html").err
    assert said in (tmp_path / "r.html").read_text()


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
    told = scores.with_columns(original_item=pl.col("item"), item=pl.col("item") + "/t1", correct=pl.lit(True))
    both = pl.concat([scores, told], how="diagonal")
    assert known_spreads(both) == known_spreads(scores), "variants of questions spread nothing"
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
    assert not done.err
    assert not cli("plan", "--like", ROOT / "runs/example").err, "tomserve's own tasks are of the same kind"
    other = cli("plan", "--benchmark", "hitom", "--like", ROOT / "runs/example").err
    assert "these are answers to perturbed; the planned questions, those of hitom, may vary more or less" in other
    items = [make_item(n) for n in range(4)]
    own = pl.DataFrame({"benchmark": [items[0].benchmark]})
    assert not planning.other_questions(own, benchmarks.get("items"), items), "own items name their benchmark"
    assert "sd: the standard deviation of the units' differences that the run has shown" in done.out
    short = cli(*command).out
    assert len(short.splitlines()) <= 25
    least = rows["late_label against none"]["minimum_detectable_effect"]
    assert re.search(rf"^each of \d+ classes against none +7 stages +{least:.3f} ", short, re.M)


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


def test_two_tables_with_a_strategy_each_are_compared_by_these(runs: tuple[str, str], tmp_path: Path) -> None:
    halves = [str(tmp_path / f"{name}.parquet") for name in ("vanilla", "cot")]
    for path in halves:
        load_scores(runs[0]).filter(strategy=Path(path).stem).write_parquet(path)
    whole = compare(runs[0], strategies=("vanilla", "cot"))
    for found in (compare(*halves), compare(runs[0], halves[1], strategies=("vanilla", "cot"))):
        assert found.effects.equals(whole.effects)
    assert compare(*halves).flips.equals(whole.flips)


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


def test_long_texts_are_shown_from_where_they_differ() -> None:
    a, b = shorten_pair("x" * 100 + "a" + "y" * 100, "x" * 100 + "b" + "y" * 100)
    assert (a.replace("a", ""), len(a)) == (b.replace("b", ""), WIDTH)
    alike = "x " * 100_000, " ".join(f"x u{number}" for number in range(50_000))  # word by word it would take days
    assert shorten_pair(*alike) == (
        "x x x x x x x x x x x x x x x x x x x x…",
        "x u0 x u1 x u2 x u3 x u4 x u5 x u6 x u7…",
    )


def write_crowd(path: Path, people: int, items: int, seed: int, share: float = 0.6, each: int = 2) -> None:
    """Write a score table of people of whom `each` answered a question, the same codes P0, P1, ... in every table."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(items):
        who = rng.choice(people, each, replace=False)
        right = [int(rng.random() < share) for _ in who]
        rows.append({"item": f"task{number // 2}/{number}", "cluster": f"task{number // 2}", "people": [f"P{n}" for n in who],
                     "people_right": right, "correct": sum(right) * 2 > each,
                     "perturbation": "none" if number % 2 else "late_label"})  # fmt: skip
    named = {"model": "human", "strategy": "whole", "status": "ok", "answer": "tea"}
    pl.DataFrame(rows).with_columns(**{name: pl.lit(value) for name, value in named.items()}).write_parquet(path)


def test_two_groups_of_people_are_both_samples_whichever_comes_first(tmp_path: Path) -> None:
    paths = str(tmp_path / "few.parquet"), str(tmp_path / "many.parquet")
    write_crowd(tmp_path / "few.parquet", 4, 40, 1)
    write_crowd(tmp_path / "many.parquet", 30, 40, 2, 0.8, each=9)
    found, back = compare(*paths).people, compare(*reversed(paths)).people
    assert found["class"].to_list() == ["late_label", "none", "overall"]
    for name, other, sign in (("difference",) * 2 + (-1,), ("low", "high", -1), ("A", "B", 1), ("p", "p", 1)):
        assert found[name].to_list() == pytest.approx([sign * value for value in back[other]]), name
    assert found["people"][-1] == 34, "a code in both tables is two people"
    assert "people" in comparison.all_tables(compare(*paths))


SUBJECTS = ("sums", "logic", "music")


def questions() -> list[Item]:
    """Sixty questions, four about each of fifteen texts, on three subjects and two grades; the last two have no subject."""
    found = []
    for n in range(60):
        factors: dict[str, Any] = {"grade": 1 + n % 2, "strategy_like": "x"}
        if n < 58:
            factors["subject"] = SUBJECTS[n // 4 % 3]
        found.append(make_item(n, cluster=f"demo/{n // 4}", factors=factors, gold=None))
    return found


def right(model: str, n: int) -> bool:
    """B loses all of music, and nothing else."""
    return n % 4 != 0 if model == "a" or SUBJECTS[n // 4 % 3] != "music" else n % 4 == 3


@pytest.fixture
def factored(tmp_path: Path) -> tuple[str, str]:
    items = questions()
    made = []
    for model in "ab":
        said = ["tea" if right(model, n) else "salt" for n in range(len(items))]
        replies = {item.id: {"text": f'{{"answer": "{one}"}}'} for item, one in zip(items, said, strict=True)}
        made.append(str(run_folder(tmp_path / "runs" / model, {"vanilla": replies}, items, model)))
    return made[0], made[1]


def test_it_is_said_that_stories_of_unequal_sizes_count_alike(tmp_path: Path) -> None:
    """The class of the first three questions has one of every story, and all questions have four of the last."""
    kinds = [{"perturbation": "none" if n < 3 else "late_label"} for n in range(6)]
    items = [make_item(n, cluster=f"demo/{min(n, 2)}", gold=None, factors=kinds[n]) for n in range(6)]
    made = []
    for model, wrong in (("a", 0), ("b", 4)):
        text = ['{"answer": "tea"}'] * (6 - wrong) + ["salt"] * wrong
        replies = {item.id: {"text": said} for item, said in zip(items, text, strict=True)}
        made.append(str(run_folder(tmp_path / "runs" / model, {"vanilla": replies}, items, model)))
    found = compare(*made)
    assert next(iter(comparison_summary(found))).endswith("for further tasks or stories like those that were asked")
    (said,) = comparison_verdicts(found)
    assert "points (67% against 100%), with stories weighted equally; 0 questions gained, 4 lost." in said
    assert effects_in_short(found)[-1].title == "differences in accuracy, stories weighted equally"


def test_each_value_has_the_difference_of_its_own_questions(factored: tuple[str, str]) -> None:
    found = compare(*factored, by=["subject"])
    table = found.by["by_subject"]
    assert table["subject"].to_list() == sorted(SUBJECTS)
    for row in table.iter_rows(named=True):
        numbers = [n for n in range(58) if SUBJECTS[n // 4 % 3] == row["subject"]]
        assert row["n"] == len(numbers), "questions without a subject are in no row"
        assert row["lost"] == sum(right("a", n) and not right("b", n) for n in numbers)
        assert row["gained"] == 0
    tested = [math.nan if p is None else p for p in table["p"]]
    assert table["p_adjusted"].to_list() == pytest.approx([None if math.isnan(p) else p for p in adjust(tested)])
    assert table.filter(subject="music")["verdict"].item() == "B lower"
    assert any("by subject: music (B lower)." in said for said in comparison_verdicts(found))


def test_factors_are_crossed_and_each_has_its_table(factored: tuple[str, str]) -> None:
    found = compare(*factored, by=["subject,grade", "grade"])
    assert list(found.by) == ["by_subject_grade", "by_grade"]
    crossed = found.by["by_subject_grade"]
    assert crossed.select("subject", "grade").rows() == [(s, g) for s in sorted(SUBJECTS) for g in ("1", "2")]
    assert crossed["n"].sum() == 58
    assert found.by["by_grade"]["n"].to_list() == [30, 30]


def test_questions_without_a_value_and_values_that_differ_are_told(factored: tuple[str, str], tmp_path: Path) -> None:
    found = compare(*factored, by=["subject", "subject,grade", "grade"])
    left = [said for said in found.lacking if said.startswith("--by")]
    told = "2 of 60 questions have no value of it and are left out"
    assert left == [f"--by subject: {told}", f"--by subject,grade: {told}"]
    other = tmp_path / "b.parquet"
    tomserve.load_scores(factored[1]).with_columns(grade=pl.col("grade").replace(1, 3)).write_parquet(other)
    said = "--by grade: A and B have different values of it for 30 of 60 questions; those of A are used"
    assert said in " ".join(compare(factored[0], str(other), by=["grade"]).lacking)


def test_the_command_shows_and_writes_it(factored: tuple[str, str], cli: Cli, tmp_path: Path) -> None:
    done = passes(cli("compare", *factored, "--by", "subject", "--out", tmp_path / "out", "--all"))
    assert "in short: vanilla: by subject: music (B lower)." in done.out
    assert "accuracy of B minus A, by subject" in done.out
    written = pl.read_csv(tmp_path / "out/by_subject.csv")
    assert written["subject"].to_list() == sorted(SUBJECTS)
    assert PHRASES["compared_factors"][:60] in (tmp_path / "out/notes.txt").read_text()
    assert cli("compare", *factored, "--by", "nothing").code == 2


STAGES, CLASSES, QUESTIONS = 12, 4, 8
"""Of a simulated edition: stages, classes in each, and questions of one class in one stage."""


def edition(correct: np.ndarray, seed: int | None = None) -> pl.DataFrame:
    """A score table of an edition, released or told anew.

    correct: STAGES x CLASSES x QUESTIONS booleans.
    """
    released = _questions().with_columns(correct=pl.Series(correct.ravel()))
    told = {"item": pl.col("item") + f"/fresh-{seed}", "base": pl.col("item"), "fresh": pl.lit(seed)}
    return released if seed is None else released.with_columns(**told)


@cache
def _questions() -> pl.DataFrame:
    rows = []
    for stage, task, number in np.ndindex(STAGES, CLASSES, QUESTIONS):
        cluster = {"cluster": f"S{stage:02d}/class_{task}", "stage": f"S{stage:02d}", "perturbation": f"class_{task}"}
        rows.append({"item": f"{cluster['cluster']}/{number}", **cluster})
    fixed = {"model": "m", "strategy": "vanilla", "status": "ok", "answer": "a"}
    return pl.DataFrame(rows).with_columns(**{name: pl.lit(value) for name, value in fixed.items()})


def answers(rng: np.random.Generator, remembered: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What a model answers to both editions: by understanding alike, which differs from stage to stage and question to
    question, and by memory to a share `remembered` of the released questions, all of which it then has right."""
    size = (STAGES, CLASSES, QUESTIONS)
    ability = np.clip(rng.normal(0.6, 0.12, (STAGES, 1, 1)) + rng.normal(0, 0.15, size), 0.02, 0.98)
    released = (rng.random(size) < ability) | (rng.random(size) < remembered)
    return edition(released), edition(rng.random(size) < ability, seed=7)


def gap(rng: np.random.Generator, remembered: float) -> dict[str, float]:
    """Fresh minus released over all questions, with its interval."""
    tables, _ = comparison.match_questions(answers(rng, remembered), ("a", "b"))
    rows = [
        prepare_rows(table.lazy(), REQUIRED, {"cluster": pl.String, "stage": pl.String}).collect() for table in tables
    ]
    return contrast(pair_rows(rows[1], rows[0], ["item", "strategy"]), "stage")


def test_half_of_the_stories_by_heart_is_a_gap_and_none_is_none_at_the_nominal_rate() -> None:
    """The true gap is half of what the model does not know, 0.5 * 0.4; intervals of 95% cover it, and cover 0 where
    nothing was remembered."""
    rng = np.random.default_rng(20261122)
    clean = [gap(rng, 0.0) for _ in range(40)]
    assert sum(one["rd_low"] > 0 or one["rd_high"] < 0 for one in clean) <= 5
    assert abs(np.mean([one["risk_difference"] for one in clean])) < 0.015
    by_heart = [gap(rng, 0.5) for _ in range(10)]
    assert all(one["rd_high"] < 0 for one in by_heart)
    assert np.mean([one["risk_difference"] for one in by_heart]) == pytest.approx(-0.2, abs=0.03)
    assert sum(one["rd_low"] <= -0.2 <= one["rd_high"] for one in by_heart) >= 8


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """The score tables of a model that remembers half of the released stories."""
    paths = tmp_path / "released.parquet", tmp_path / "fresh.parquet"
    for table, path in zip(answers(np.random.default_rng(1), 0.5), paths, strict=True):
        table.write_parquet(path)
    return paths


def test_a_fresh_edition_is_compared_with_the_items_that_it_was_made_from(tables: tuple[Path, Path], cli) -> None:
    found = compare(*map(str, tables))
    assert found.left_out == (0, 0)
    overall = found.effects.filter(perturbation="overall").row(0, named=True)
    assert overall["n"] == STAGES * CLASSES * QUESTIONS
    assert overall["rd_high"] < 0
    assert "B is significantly less accurate than A" in comparison_verdicts(found)[0]
    said = " ".join(cli("compare", *tables, "--all").out.split())
    assert "B tells A's questions anew: each is compared with the one that it was made from." in said


def test_two_editions_in_one_table_are_refused(tables: tuple[Path, Path], tmp_path: Path) -> None:
    fresh, both = pl.read_parquet(tables[1]), tmp_path / "both.parquet"
    pl.concat([fresh, fresh.with_columns(item=pl.col("base") + "/fresh-8")]).write_parquet(both)
    with pytest.raises(ConfigError, match=r"'S00/class_0/0/fresh-7' and 'S00/class_0/0/fresh-8' are both made from"):
        compare(str(tables[0]), str(both))


def test_each_comparison_has_power_and_sizes() -> None:
    found = power.people_power_table(items(), 20, 4, spread=Spread())
    assert found["comparison"].to_list() == [
        "one class against none",
        "all classes against none",
        "people against a model, one class",
        "people against a model, overall",
    ]
    assert found["power for 0.2"][0] == class_power(20, (2, 2), (4, 4), 0.2)
    assert found["power for 0.1"][3] == model_power(20, 4, 8, 32, 0.1)
    assert found["people for 0.1"][0] is None, "four tasks a class are too few whatever the number of people"
    plain = power.people_power_table([one.model_copy(update={"factors": {}}) for one in items()], 20, 4)
    assert plain["comparison"].to_list() == ["people against a model, overall"]


def test_more_stories_than_tasks_are_refused() -> None:
    assert power.people_power_table(items(), 20, 8).height == 4
    with pytest.raises(ConfigError, match=r"--stories 9: there are 8 tasks .* ask for at most 8 stories"):
        power.people_power_table(items(), 20, 9)


def test_a_plan_is_for_the_questions_that_would_be_drawn() -> None:
    asked = benchmarks.get("perturbed")
    chosen = planning.draw_items(asked, None, 100)
    assert chosen == limit_items(list(asked.items(None)), 100, asked.draw)
    part = planning.draw_items(asked, None, 50, ["perturbation=none"])
    assert {one.factors["perturbation"] for one in part} == {"none"}
    assert 0 < len(part) <= 50
    plain = replace(asked, usual=("perturbation=none",))  # what a user asks for stands in the place of what is usual
    assert len(planning.draw_items(plain, None, None, ["all"])) == 1088
    few = plan_study(asked, None, ("vanilla",), items=planning.draw_items(asked, None, 40)).comparisons
    assert few.filter(comparison="all perturbations against none")["units"].item() == "2 stages", "a third lacks none"


def test_a_plan_draws_questions_and_asks_their_variants_beside_them(tmp_path: Path) -> None:
    told = [make_item(id=f"q{n}", cluster=f"q{n}", question=f"What is in jar {n}?") for n in range(4)]
    every = [*told, *(one.model_copy(update={"id": f"{one.id}/t4", "base": one.id}) for one in told)]
    write_items(tmp_path / "items.jsonl", every)
    drawn = planning.draw_items(benchmarks.get("items"), tmp_path / "items.jsonl", 3)
    assert (len(drawn), sum(one.base is None for one in drawn)) == (6, 3)
    assert estimate_costs(benchmarks.get("items"), drawn, ["cot"])["chains"].item() == 3
    alone = [one.model_copy(update={"cluster": one.id}) for one in drawn]  # variants that name no story
    found = plan_study(benchmarks.get("items"), None, ("vanilla", "cot"), items=alone)
    assert found.comparisons["units"].to_list()[-1] == "3 clusters"
    # Of the 3 x 2 prompts the variants' are those of their questions word for word: each is sent once.
    assert found.cost["requests"].to_list() == [3, 3]


def test_a_pilot_study_tells_the_spread(tmp_path: Path, cli: Cli) -> None:
    one = crowd(np.random.default_rng(2), 40, 6, 12, 0.0, Spread(share=0.6, people=0.2))
    rows = pl.DataFrame(
        {
            "person": [f"P{n}" for n in one.person], "right": one.right.astype(int), "item": [f"t{n}" for n in one.task],
            "perturbation": ["late_label" if arm else "none" for arm in one.treated],
        }
    )  # fmt: skip
    named = pl.lit("human").alias("model"), pl.lit("whole").alias("strategy"), pl.lit("ok").alias("status")
    scores = rows.group_by("item", "perturbation", maintain_order=True).agg(
        pl.col("person").alias("people"), pl.col("right").alias("people_right")
    ).with_columns(*named, pl.col("item").alias("cluster"), pl.col("people_right").list.mean().gt(0.5).alias("correct"),
                   pl.lit("tea").alias("answer"))  # fmt: skip
    spread = power.people_spread(scores)
    assert spread is not None
    assert spread.share == pytest.approx(float(one.right.mean()))
    assert spread.people > 0.1
    assert power.people_spread(scores.drop("people")) is None
    scores.write_parquet(tmp_path / "pilot.parquet")
    small = ("plan", "--benchmark", "perturbed", "--limit", 200, "--people", 30, "--stories", 9, "--all")
    done = passes(cli(*small, "--like", tmp_path / "pilot.parquet"), power.spread_in_words(spread).split(";")[0])
    assert f"Measured in {tmp_path / 'pilot.parquet'}: " in " ".join(done.out.split())


ANSWERS = AnswerConditions(benchmark="worlds", strategy="vanilla", count=60)
INSIDE = MeasurementConditions(benchmark="worlds", cases=100)
BASE = Conditions((ANSWERS,), INSIDE)
OTHERWISE: dict[str, Any] = {"int": 7, "float": 0.7, "int | None": 7, "str": "other", "tuple[float, ...]": (0.1,)}


@pytest.mark.parametrize(
    ("part", "name", "kind"), [(part, one.name, one.type) for part in (ANSWERS, INSIDE) for one in fields(part)]
)
def test_each_condition_that_differs_is_said(part: Any, name: str, kind: str) -> None:
    changed = replace(part, **{name: OTHERWISE.get(kind, ("other",))})
    other = Conditions((changed,), INSIDE) if part is ANSWERS else Conditions((ANSWERS,), changed)
    said = describe_difference(other, BASE)
    assert said.startswith("was ")
    assert ";" not in said
    assert group_comparable({"a": BASE, "b": other, "c": BASE}) == (("a", "c"), {"b": said}, False)


def test_of_groups_of_one_size_that_with_most_questions_is_the_largest() -> None:
    more = replace(BASE, answers=(replace(ANSWERS, count=90),))
    assert group_comparable({"a": BASE, "b": more})[::2] == (("b",), True)
    assert group_comparable({"b": BASE, "a": replace(BASE, answers=())}).largest == ("b",)
    assert group_comparable({}) == ((), {}, False)


def test_the_measurement_counts_only_where_the_score_has_it() -> None:
    alone = replace(BASE, measurement=None)
    assert describe_difference(alone, BASE) == "was not measured inside (--weights)"
    assert group_comparable({"a": BASE, "b": alone}, measured=False).largest == ("a", "b")
