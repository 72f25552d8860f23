"""`tomserve compare --by`: the paired difference for each value of a factor of the questions."""

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tomserve
from tests.conftest import Cli, make_item
from tests.helpers.outcomes import passes
from tests.helpers.reports import run_folder
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.stats.paired import adjust
from tomserve.studies.comparison import compare, comparison_summary, comparison_verdicts
from tomserve.studies.comparison_tables import ABOUT_FACTORS

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
def runs(tmp_path: Path) -> tuple[str, str]:
    items = questions()
    made = []
    for model in "ab":
        said = ["tea" if right(model, n) else "salt" for n in range(len(items))]
        replies = {item.id: {"text": f'{{"answer": "{one}"}}'} for item, one in zip(items, said, strict=True)}
        made.append(str(run_folder(tmp_path / "runs" / model, {"vanilla": replies}, items, model)))
    return made[0], made[1]


def test_each_value_has_the_difference_of_its_own_questions(runs: tuple[str, str]) -> None:
    found = compare(*runs, by=["subject"])
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


def test_one_value_alone_is_what_a_comparison_of_its_questions_says(runs: tuple[str, str], tmp_path: Path) -> None:
    row = compare(*runs, by=["subject"]).by["by_subject"].row(0, named=True)
    own = []
    for run in runs:
        scores = tomserve.load_scores(run).filter(pl.col("subject") == row["subject"])
        own.append(tmp_path / f"{Path(run).name}.parquet")
        scores.write_parquet(own[-1])
    alone = compare(*map(str, own)).effects.row(-1, named=True)
    for name in ("risk_difference", "rd_low", "rd_high", "p", "gained", "lost", "n", "units"):
        assert row[name] == pytest.approx(alone[name]), name


def test_factors_are_crossed_and_each_has_its_table(runs: tuple[str, str]) -> None:
    found = compare(*runs, by=["subject,grade", "grade"])
    assert list(found.by) == ["by_subject_grade", "by_grade"]
    crossed = found.by["by_subject_grade"]
    assert crossed.select("subject", "grade").rows() == [(s, g) for s in sorted(SUBJECTS) for g in ("1", "2")]
    assert crossed["n"].sum() == 58
    assert found.by["by_grade"]["n"].to_list() == [30, 30]


def test_a_factor_that_only_the_second_table_has_counts_as_well(runs: tuple[str, str], tmp_path: Path) -> None:
    without = tmp_path / "a.parquet"
    tomserve.load_scores(runs[0]).drop("subject").write_parquet(without)
    found, whole = (compare(str(first), runs[1], by=["subject"]).by["by_subject"] for first in (without, runs[0]))
    assert found.equals(whole)


@pytest.mark.parametrize("name", ["A", "low", "n", "class", "units"])
def test_a_factor_called_like_a_column_that_is_shown_is_kept_apart(tmp_path: Path, name: str) -> None:
    items = [make_item(n, factors={name: "xy"[n % 2]}, gold=None) for n in range(12)]
    replies = {item.id: {"text": '{"answer": "tea"}'} for item in items}
    made = [str(run_folder(tmp_path / model, {"vanilla": replies}, items, model)) for model in "ab"]
    (shown,) = [
        frame
        for title, frame in comparison_summary(compare(*made, by=[name])).items()
        if f"by {name} (factor)" in title
    ]
    assert shown[f"{name} (factor)"].to_list() == ["x", "y"]


def test_questions_without_a_value_and_values_that_differ_are_told(runs: tuple[str, str], tmp_path: Path) -> None:
    found = compare(*runs, by=["subject", "subject,grade", "grade"])
    left = [said for said in found.lacking if said.startswith("--by")]
    told = "2 of 60 questions have no value of it and are left out"
    assert left == [f"--by subject: {told}", f"--by subject,grade: {told}"]
    other = tmp_path / "b.parquet"
    tomserve.load_scores(runs[1]).with_columns(grade=pl.col("grade").replace(1, 3)).write_parquet(other)
    said = "--by grade: A and B have different values of it for 30 of 60 questions; those of A are used"
    assert said in " ".join(compare(runs[0], str(other), by=["grade"]).lacking)


def test_what_is_no_factor_is_refused(runs: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"--by subjec: unknown factor 'subjec'; did you mean 'subject'\?"):
        compare(*runs, by=["subjec"])


def test_the_command_shows_and_writes_it(runs: tuple[str, str], cli: Cli, tmp_path: Path) -> None:
    done = passes(cli("compare", *runs, "--by", "subject", "--out", tmp_path / "out", "--all"))
    assert "in short: vanilla: by subject: music (B lower)." in done.out
    assert "accuracy of B minus A, by subject" in done.out
    written = pl.read_csv(tmp_path / "out/by_subject.csv")
    assert written["subject"].to_list() == sorted(SUBJECTS)
    assert ABOUT_FACTORS[:60] in (tmp_path / "out/notes.txt").read_text()
    assert cli("compare", *runs, "--by", "nothing").code == 2
