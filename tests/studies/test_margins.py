"""Comparisons of anybody's scores: margins, changes and grades, in tables, sentences, files and 80 columns."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tomserve
from tests.conftest import ROOT, Outcome
from tests.helpers import golden_tables
from tests.helpers.foreign_files import mapped
from tomserve.errors import ConfigError
from tomserve.studies import compared
from tomserve.studies.compare import compare
from tomserve.studies.margins import told

Command = Callable[..., Outcome]
EXAM = ROOT / "docs/gallery/answers"


def scored(path: Path, right: list[int | None], *, each: int = 2, **more: object) -> str:
    """A score table of another tool. right: 1 or 0 for each question, None for a failure; `each` share a cluster."""
    n = len(right)
    frame = pl.DataFrame(
        {
            "model": path.stem,
            "strategy": "imported",
            "item": [f"q{i:04}" for i in range(n)],
            "cluster": [f"c{i // each:04}" for i in range(n)],
            "status": ["timeout" if one is None else "ok" for one in right],
            "correct": [None if one is None else bool(one) for one in right],
            "answer": [None if one is None else "yes" if one else f"no {i % 3}" for i, one in enumerate(right)],
        }
    ).with_columns(**{name: value if isinstance(value, pl.Expr) else pl.Series(value) for name, value in more.items()})
    frame.write_parquet(path)
    return str(path)


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, str]:
    """200 questions of which A has 160 right; B has 4 of these wrong and 2 others right."""
    a = [1] * 160 + [0] * 40
    b = [*a]
    for lost in (3, 50, 51, 120):
        b[lost] = 0
    for gained in (170, 199):
        b[gained] = 1
    return scored(tmp_path / "a.parquet", a), scored(tmp_path / "b.parquet", b)


def test_what_is_tested_is_the_difference_over_clusters(two: tuple[str, str]) -> None:
    found = compare(*two, margin=0.05)
    row, effect = found.margins.row(0, named=True), found.effects.row(0, named=True)
    assert (row["of"], row["margin"], row["unit"], row["units"]) == ("right", 0.05, "clusters", 100)
    assert row["difference"] == pytest.approx(-0.01) == effect["risk_difference"]
    assert (row["share_a"], row["share_b"]) == pytest.approx((0.8, 0.79))
    assert row["low"] < row["low_90"] < row["difference"] < row["high_90"] < row["high"]
    assert row["low"] <= effect["rd_low"] < effect["rd_high"] <= row["high"], "wider, but never narrower"
    assert row["verdict"] == "equivalent"
    assert row["p_not_inferior"] < 0.025
    assert row["p_equivalent"] < 0.05
    assert compare(*two).margins.is_empty(), "nothing is tested that nobody asked for"
    back = compare(*reversed(two), margin=0.05).margins.row(0, named=True)
    assert (back["low"], back["high"]) == pytest.approx((-row["high"], -row["low"]), abs=1e-6)
    assert back["needed_not_inferior"] == row["needed_not_inferior"]


def test_what_changed_counts_every_question_once(two: tuple[str, str]) -> None:
    found = {row["change"]: row for row in compare(*two).changes.iter_rows(named=True)}
    counts = {name: (row["changed"], row["n"]) for name, row in found.items()}
    assert counts["harmful"] == (4, 200)
    assert counts["beneficial"] == (2, 200)
    assert counts["harmful of right"] == (4, 160)
    assert counts["beneficial of wrong"] == (2, 40)
    assert counts["churn"] == (6, 200)
    assert counts["churn both wrong"] == (0, 38)
    for row in found.values():
        assert row["share"] == row["changed"] / row["n"]
        assert row["low"] <= row["share"] <= row["high"]
    assert found["churn both wrong"]["high"] > 0.05, "38 questions do not show that none changes"


def test_wrong_answers_that_become_others_are_churn_and_no_flips(tmp_path: Path) -> None:
    a = scored(tmp_path / "a.parquet", [1, 1, 0, 0, 0, None], each=1)
    other = pl.Series(["YES ", "yes, 4", "No  2", "no 1", "no 1", "x"])
    b = scored(tmp_path / "b.parquet", [1, 1, 0, 0, 0, 0], each=1, answer=other)
    found = {row["change"]: (row["changed"], row["n"]) for row in compare(a, b).changes.iter_rows(named=True)}
    assert found["churn"] == (1, 5), "letter case and spaces are no change, two right answers are the same"
    assert found["churn both wrong"] == (1, 3)
    assert (found["harmful"], found["beneficial"]) == ((0, 6), (0, 6))


def test_failures_that_could_turn_the_verdict_are_named(tmp_path: Path) -> None:
    a = [1] * 270 + [0] * 30
    b = [1] * 255 + [None] * 15 + [0] * 30
    found = compare(scored(tmp_path / "a.parquet", a), scored(tmp_path / "b.parquet", b), margin=0.1)
    row = found.margins.row(0, named=True)
    assert (row["difference"], row["worst_low"], row["worst_high"]) == pytest.approx((-0.05, -0.05, 0.0))
    assert "failures" not in " ".join(told(found.margins)), "they count as wrong already, and cannot make it worse"
    back = compare(scored(tmp_path / "c.parquet", b), scored(tmp_path / "d.parquet", a), margin=0.02).margins
    assert "B is better than A (B is clearly right more often)" in " ".join(told(back))
    assert back["worst_low"][0] == pytest.approx(0.0)
    lost = compare(
        scored(tmp_path / "g.parquet", [1] * 250 + [None] * 50),
        scored(tmp_path / "h.parquet", [1] * 250 + [0] * 50),
        margin=0.05,
    ).margins
    (said,) = told(lost)
    assert lost["verdict"][0] == "equivalent"
    assert "the failures are counted as wrong, and leave anything from −16.7 to 0.0 possible" in said


def test_sentences_say_which_interval_and_what_is_not_shown(tmp_path: Path, two: tuple[str, str]) -> None:
    (said,) = told(compare(*two, margin=0.05).margins)
    assert said.startswith(
        "imported: with a margin of 5 points, B is equivalent to A (the difference is smaller than the "
    )
    assert re.search(r"B minus A is −1\.0 points, 90% interval −\d\.\d to \+\d\.\d\.$", said)
    (open_,) = told(compare(*two, margin=0.01).margins)
    assert "with a margin of 1 points, it is shown neither that B is worse by as much, nor that it is not: " in open_
    assert re.search(
        r"95% interval .*; if there were no difference, about [\d,]+ clusters like these 100 would show", open_
    )
    rng = np.random.default_rng(0)
    a = (rng.random(2000) < 0.8).astype(int)
    b = np.where(rng.random(2000) < 0.06, 0, a)
    paths = [scored(tmp_path / f"{name}.parquet", list(map(int, one)), each=1) for name, one in (("m", a), ("n", b))]
    (worse,) = told(compare(*paths, margin=0.02).margins)
    assert "B is inferior to A (B is worse by more than the margin)" in worse
    (near,) = told(compare(*paths, margin=0.05).margins)
    assert "B clearly is worse, but not clearly by so much" in near
    (small,) = told(compare(*paths, margin=0.2).margins)
    assert "there clearly is a difference, but a smaller one" in small
    (none,) = told(compare(*paths, margin=0.9).margins)
    assert "the margin is no test here" in none


@pytest.mark.parametrize("margin", [0, 1, 2, -0.02, float("nan")])
def test_a_margin_that_is_no_share_is_refused_before_anything_is_read(cli: Command, margin: float) -> None:
    with pytest.raises(ConfigError, match="expected a share above 0 and below 1, such as"):
        compare("nowhere", "either", margin=margin)
    done = cli("compare", "nowhere", "either", "--margin", margin)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "--margin" in done.err


def test_grades_are_compared_and_tested_where_they_are_shares(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    ease = np.repeat(rng.normal(0, 1, 60), 3)
    grade = {name: 1 / (1 + np.exp(-(ease + by + rng.normal(0, 0.5, 180)))) for name, by in (("a", 0.5), ("b", 0.4))}
    paths = [
        scored(tmp_path / f"{name}.parquet", [int(one > 0.5) for one in values], each=3, graded_value=values)
        for name, values in grade.items()
    ]
    found = compare(*paths, margin=0.1)
    row = found.values.row(0, named=True)
    means = [grade[name].reshape(60, 3).mean(axis=1) for name in "ab"]
    assert (row["value_a"], row["value_b"]) == pytest.approx([one.mean() for one in means])
    d = means[1] - means[0]
    half = 2.000995 * d.std(ddof=1) / np.sqrt(60)  # t with 59 df
    assert (row["low"], row["high"]) == pytest.approx((d.mean() - half, d.mean() + half), abs=1e-6)
    assert (row["of"], row["n"], row["failed"], row["unit"], row["units"]) == ("grades", 180, 0, "clusters", 60)
    right, grades = found.margins.iter_rows(named=True)
    assert (right["of"], grades["of"]) == ("right", "grades")
    assert grades["difference"] == row["difference"]
    assert grades["verdict"] == "equivalent"
    assert "B is equivalent to A in its grades" in list(told(found.margins))[1]


@pytest.fixture
def exam(cli: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line with two imported runs, `old` and `new`, of 240 sums without choices."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("old", "new"):
        done = cli("import", "csv", EXAM / f"{name}.csv", *mapped(), "--model", name, "--run", name, "--as", "exam")
        assert done.code == 0, done.err
    return cli


FOREIGN = re.compile(
    r"theory of mind|\bToM\b|belie[fv]|perturb|p_adjusted|\bclass|chance of a blind|best rule|guess|"
    r"stages? .*written|vanilla|\bmind\b",
    re.I,
)
"""What says something of the project's own benchmarks, and nothing of anybody else's sums."""


def test_anybodys_scores_are_analysed_without_a_word_of_what_they_have_not(exam: Command, tmp_path: Path) -> None:
    done = exam("analyze", "old", "new", "--by", "subject")
    assert done.code == 0
    assert done.err == ""
    assert not FOREIGN.search(done.out), FOREIGN.search(done.out)
    assert re.search(r"old +imported +158 +240 +0\.658 +0\.532 +0\.766", done.out)
    assert exam("analyze", "old", "new", "--by", "subject", "--out", tmp_path / "out").code == 0
    for path in (tmp_path / "out").iterdir():
        assert not FOREIGN.search(path.read_text()), path.name
    tables = tomserve.analyze(tomserve.load_scores("old"), "accuracy", by="subject")
    by = {row["subject"]: row for row in tables["by_subject"].iter_rows(named=True)}
    assert set(by) == {"addition", "change", "rates", "sharing"}
    marks = pl.read_csv(EXAM / "old.csv")
    for subject, row in by.items():
        own = marks.filter(subject=subject)
        assert (row["correct"], row["total"]) == (own["mark"].sum(), own.height)
        assert row["ci_low"] < row["accuracy"] < row["ci_high"]


def test_anybodys_scores_are_compared_in_80_columns_and_files(exam: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = exam("compare", "old", "new", "--margin", "0.1", "--out", out, "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert not FOREIGN.search(done.out), FOREIGN.search(done.out)
    tables = [line for line in done.out.splitlines() if re.match(r"(imported|strategy) ", line)]
    assert len(tables) > 12
    assert max(map(len, tables)) <= 80
    text = " ".join(done.out.split())
    assert "with a margin of 10 points, B is equivalent to A" in text
    for word in ("harmful", "churn", "low_90", "p_equivalent"):
        assert f"{word}: " in text or f"{word} and" in text or f"and {word}: " in text, f"{word} is not explained"
    named = {f"{name}.json" for name in ("effects", "flips", "changes", "margins", "differences")}
    assert {path.name for path in out.iterdir()} == {*named, "notes.txt"}
    notes = (out / "notes.txt").read_text().splitlines()
    assert [line.partition(":")[0] for line in notes] == ["changes", "margins"]
    changes = json.loads((out / "changes.json").read_text())
    assert [row["changed"] for row in changes] == [29, 30, 29, 30, 104, 45]
    assert json.loads((out / "margins.json").read_text())[0]["needed_not_inferior"] == 46


def test_samples_are_compared_by_their_mean(cli: Command, tmp_path: Path) -> None:
    for name, right in (("one", "110"), ("two", "100")):
        rows = ["id,asked,text,target,correct,score,repeat"]
        rows += [f"q{i},Sum {i}?,It is {i},{i},{right[s]},0.{1 + s}{i % 10},{s}" for i in range(30) for s in range(3)]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
        done = cli("import", "csv", tmp_path / f"{name}.csv", "--model", name, "--run", name, "--as", "sums")
        assert done.code == 0, done.err
    values = {row["of"]: row for row in compare("one", "two").values.iter_rows(named=True)}
    assert (values["samples"]["value_a"], values["samples"]["value_b"]) == pytest.approx((2 / 3, 1 / 3))
    assert values["grades"]["value_a"] == pytest.approx(0.2 + 0.045), "the mean over the samples of every question"


def test_two_strategies_of_our_own_are_tested_over_stages(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "runs/example", tmp_path / "runs/example")
    found = compare("example", strategies=("vanilla", "cot"), margin=0.1)
    row = found.margins.row(0, named=True)
    assert (row["strategy"], row["unit"], row["units"]) == ("", "stages", 7)
    assert "margin" in compared.verdicts(found)[1]
    assert "strategy" not in compared.further(found)["margins"].columns
    _, effects = compared.effects_shown(found)
    assert {"class", "p_adjusted"} <= set(effects.columns)


def test_a_plan_says_how_many_units_show_that_one_is_not_worse(cli: Command) -> None:
    done = cli("plan", "--benchmark", "perturbed", "--margin", "0.05", "--like", ROOT / "runs/example")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "of two runs on the same questions one is not worse by 5 points" in said
    assert "7 stages 0.066 16 17" in said
    assert "needed_not_inferior and needed_equivalent: how many units show it" in said
    wrong = cli("plan", "--benchmark", "perturbed", "--margin", "5")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "--margin 5: expected a share above 0 and below 1" in wrong.err


def test_numbers_and_sentences_are_what_they_were(tmp_path: Path, two: tuple[str, str]) -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(30, 8, 90)
    stages = pl.Series([f"S{i // 20}" for i in range(200)])
    for number, path in enumerate(two):
        pl.read_parquet(path).with_columns(stage=stages).write_parquet(tmp_path / f"staged{number}.parquet")
    half = pl.Series([0.5] * 38 + [None, None], dtype=pl.Float64)
    pairs = {
        "shares": two,
        "stages": (str(tmp_path / "staged0.parquet"), str(tmp_path / "staged1.parquet")),
        "grades-of-another-scale": (
            scored(tmp_path / "e.parquet", [0] * 90, graded_value=values),
            scored(tmp_path / "f.parquet", [0] * 89 + [None], graded_value=values + rng.normal(4, 3, 90)),
        ),
        "failed-grades": (
            scored(tmp_path / "g.parquet", [1] * 40, each=1, graded_value=pl.Series([0.5] * 40)),
            scored(tmp_path / "h.parquet", [1] * 38 + [None] * 2, each=1, graded_value=half),
        ),
    }
    for name, paths in pairs.items():
        found = compare(*paths, margin=0.05)
        words = {"margins": told(found.margins), "verdicts": compared.verdicts(found)}
        golden_tables.check(f"compare-{name}", compared.tables(found), **words)
    same = scored(tmp_path / "i.parquet", [1] * 30, each=1, graded_value=pl.Series([0.7] * 30))
    row = compare(same, same).values.row(0, named=True)
    assert row["low"] < row["difference"] == 0 < row["high"], "equal grades leave some doubt"
