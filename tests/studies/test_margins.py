"""Comparisons of anybody's scores: margins, changes and grades, in tables, sentences, files and 80 columns."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tomserve
from tests.conftest import ROOT, Cli
from tests.helpers import golden_tables
from tests.helpers.foreign_files import mapped
from tests.helpers.outcomes import passes, refuses_in_a_line
from tomserve.errors import ConfigError
from tomserve.studies import comparison
from tomserve.studies.comparison import compare
from tomserve.studies.comparison_tables import margin_verdicts

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
    assert row["verdict"] == "equivalent"
    assert row["p_not_inferior"] < 0.025
    assert row["p_equivalent"] < 0.05
    assert compare(*two).margins.is_empty(), "nothing is tested that nobody asked for"
    back = compare(*reversed(two), margin=0.05).margins.row(0, named=True)
    assert (back["low"], back["high"]) == pytest.approx((-row["high"], -row["low"]), abs=1e-6)


def test_what_changed_counts_every_question_once(two: tuple[str, str]) -> None:
    found = compare(*two).changes
    assert dict(zip(found["change"], found.select("changed", "n").rows(), strict=True)) == {
        "harmful": (4, 200), "beneficial": (2, 200), "harmful of right": (4, 160), "beneficial of wrong": (2, 40),
        "churn": (6, 200), "churn both wrong": (0, 38),
    }  # fmt: skip
    assert (found["share"] == found["changed"] / found["n"]).all()
    assert found["share"].is_between(found["low"], found["high"]).all()
    assert found["high"][-1] > 0.05, "38 questions do not show that none changes"


def test_wrong_answers_that_become_others_are_churn_and_no_flips(tmp_path: Path) -> None:
    a = scored(tmp_path / "a.parquet", [1, 1, 0, 0, 0, None], each=1)
    other = pl.Series(["YES ", "yes, 4", "No  2", "no 1", "no 1", "x"])
    b = scored(tmp_path / "b.parquet", [1, 1, 0, 0, 0, 0], each=1, answer=other)
    found = {row["change"]: (row["changed"], row["n"]) for row in compare(a, b).changes.iter_rows(named=True)}
    assert found["churn"] == (1, 5), "letter case and spaces are no change, two right answers are the same"
    assert found["churn both wrong"] == (1, 3)
    assert (found["harmful"], found["beneficial"]) == ((0, 6), (0, 6))


def test_failures_that_could_turn_the_verdict_are_named(tmp_path: Path) -> None:
    def margins(a: list[int | None], b: list[int | None], margin: float) -> pl.DataFrame:
        paths = (scored(tmp_path / f"{name}.parquet", one) for name, one in zip("ab", (a, b), strict=True))
        return compare(*paths, margin=margin).margins

    whole, failed = [1] * 270 + [0] * 30, [1] * 255 + [None] * 15 + [0] * 30
    found = margins(whole, failed, 0.1)
    assert found.select("difference", "worst_low", "worst_high").row(0) == pytest.approx((-0.05, -0.05, 0.0))
    assert "failures" not in " ".join(margin_verdicts(found)), "they count as wrong already, and cannot make it worse"
    assert "B is better than A (B is clearly right more often)" in " ".join(
        margin_verdicts(margins(failed, whole, 0.02))
    )
    lost = margins([1] * 250 + [None] * 50, [1] * 250 + [0] * 50, 0.05)
    assert lost["verdict"][0] == "equivalent"
    assert "the failures are counted as wrong, and leave anything from −16.7 to 0.0 possible" in " ".join(
        margin_verdicts(lost)
    )


def test_sentences_say_which_interval_and_what_is_not_shown(tmp_path: Path, two: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    a = (rng.random(2000) < 0.8).astype(int)
    b = np.where(rng.random(2000) < 0.06, 0, a)
    many = [scored(tmp_path / f"{name}.parquet", list(map(int, one)), each=1) for name, one in (("m", a), ("n", b))]
    for paths, margin, words in (
        (two, 0.05, r"^imported: with a margin of 5 points, B is equivalent to A \(the .* 90% interval −\d\.\d to \+"),
        (two, 0.01, "points, it is shown neither that B is worse by as much, nor that it is not: "),
        (two, 0.01, r"95% .*; if there were no difference, about [\d,]+ clusters like these 100 would show"),
        (many, 0.02, r"B is inferior to A \(B is worse by more than the margin\)"),
        (many, 0.05, "B clearly is worse, but not clearly by so much"),
        (many, 0.2, "there clearly is a difference, but a smaller one"),
        (many, 0.9, "the margin is no test here"),
    ):
        (said,) = margin_verdicts(compare(*paths, margin=margin).margins)
        assert re.search(words, said), said


@pytest.mark.parametrize("margin", [0, 1, 2, -0.02, float("nan")])
def test_a_margin_that_is_no_share_is_refused_before_anything_is_read(cli: Cli, margin: float) -> None:
    with pytest.raises(ConfigError, match="expected a share above 0 and below 1, such as"):
        compare("nowhere", "either", margin=margin)
    refuses_in_a_line(cli("compare", "nowhere", "either", "--margin", margin), "--margin")


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
    assert found.margins["of"].to_list() == ["right", "grades"]
    assert "B is equivalent to A in its grades" in list(margin_verdicts(found.margins))[1]


FOREIGN = re.compile(
    r"theory of mind|\bToM\b|belie[fv]|perturb|p_adjusted|\bclass|chance of a blind|best baseline|guess|"
    r"stages? .*written|vanilla|\bmind\b",
    re.I,
)
"""What says something of the project's own benchmarks, and nothing of anybody else's sums."""


def test_anybodys_scores_are_analysed_and_compared_without_a_word_of_what_they_have_not(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two imported runs of 240 sums without choices."""
    monkeypatch.setenv("COLUMNS", "80")
    told = (*mapped(), "--as", "exam", "--benchmark", "none")  # to look through all benchmarks takes seconds
    for name in ("old", "new"):
        passes(cli("import", "csv", EXAM / f"{name}.csv", *told, "--model", name, "--run", name))
    done = passes(cli("analyze", "old", "new", "--by", "subject", "--all"))
    assert done.err == ""
    assert not FOREIGN.search(done.out), FOREIGN.search(done.out)
    assert re.search(r"old +imported +158 +240 +0\.658 +0\.532 +0\.766", done.out)
    assert cli("analyze", "old", "new", "--by", "subject", "--out", tmp_path / "out").code == 0
    for path in (tmp_path / "out").iterdir():
        assert not FOREIGN.search(path.read_text()), path.name
    found = tomserve.analyze(tomserve.load_scores("old"), "accuracy", by="subject")["by_subject"]
    own = pl.read_csv(EXAM / "old.csv").group_by("subject").agg(pl.col("mark").sum(), pl.len()).sort("subject")
    assert found.sort("subject").select("subject", "correct", "total").rows() == own.rows()
    out = tmp_path / "compared"
    done = cli("compare", "old", "new", "--margin", "0.1", "--out", out, "--format", "json", "--all")
    assert (done.code, done.err) == (0, "")
    tables = [line for line in done.out.splitlines() if re.match(r"(imported|strategy) ", line)]
    assert len(tables) > 12
    assert max(map(len, tables)) <= 80
    text = " ".join(done.out.split())
    assert "with a margin of 10 points, B is equivalent to A" in text
    named = {f"{name}.json" for name in ("effects", "flips", "changes", "margins", "differences")}
    assert {path.name for path in out.iterdir()} == {*named, "notes.txt"}
    assert json.loads((out / "margins.json").read_text())[0]["needed_not_inferior"] == 46


def test_samples_are_compared_by_their_mean(cli: Cli, tmp_path: Path) -> None:
    for name, right in (("one", "110"), ("two", "100")):
        rows = ["id,asked,text,target,correct,score,repeat"]
        rows += [f"q{i},Sum {i}?,It is {i},{i},{right[s]},0.{1 + s}{i % 10},{s}" for i in range(30) for s in range(3)]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
        told = ("--model", name, "--run", name, "--as", "sums", "--benchmark", "none")
        passes(cli("import", "csv", tmp_path / f"{name}.csv", *told))
    values = {row["of"]: row for row in compare("one", "two").values.iter_rows(named=True)}
    assert (values["samples"]["value_a"], values["samples"]["value_b"]) == pytest.approx((2 / 3, 1 / 3))
    assert values["grades"]["value_a"] == pytest.approx(0.2 + 0.045), "the mean over the samples of every question"


def test_samples_without_an_answer_leave_more_possible(tmp_path: Path) -> None:
    """A has two of three samples right, B one of three, and another one of B failed."""
    asked = {"model": "m", "strategy": "s", "item": list("abcdefgh"), "status": "ok", "answer": "tea", "samples": 3}
    for name, right, read in (("a", 2, 3), ("b", 1, 2)):
        own = {"correct": name == "a", "correct_mean": right / 3, "samples_right": right, "samples_read": read}
        pl.DataFrame({**asked, **own}).write_parquet(tmp_path / f"{name}.parquet")
    found = compare(str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet"), margin=0.1)
    row = found.margins.filter(of="samples").row(0, named=True)
    assert [row["difference"], row["worst_low"], row["worst_high"]] == pytest.approx([-1 / 3, -1 / 3, 0], abs=1e-9)
    assert found.values["failed"].to_list() == [8]


def test_a_plan_says_how_many_units_show_that_one_is_not_worse(cli: Cli) -> None:
    done = passes(cli("plan", "--benchmark", "perturbed", "--margin", "0.05", "--like", ROOT / "runs/example"))
    assert "7 stages 0.066 16 17" in " ".join(done.out.split())
    refuses_in_a_line(
        cli("plan", "--benchmark", "perturbed", "--margin", "5"), "--margin 5: expected a share above 0 and below 1"
    )


def test_numbers_and_sentences_are_what_they_were(tmp_path: Path, two: tuple[str, str]) -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(30, 8, 90)
    half = pl.Series([0.5] * 38 + [None, None], dtype=pl.Float64)
    example = str(ROOT / "runs/example")
    found = compare(example, strategies=("vanilla", "cot"), margin=0.1)
    golden_tables.check(
        "compare-strategies", comparison.all_tables(found), verdicts=comparison.comparison_verdicts(found)
    )
    pairs = {
        "shares": two,
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
        words = {"margins": margin_verdicts(found.margins), "verdicts": comparison.comparison_verdicts(found)}
        golden_tables.check(f"compare-{name}", comparison.all_tables(found), **words)
    same = scored(tmp_path / "i.parquet", [1] * 30, each=1, graded_value=pl.Series([0.7] * 30))
    row = compare(same, same).values.row(0, named=True)
    assert row["low"] < row["difference"] == 0 < row["high"], "equal grades leave some doubt"
