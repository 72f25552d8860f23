"""The accuracy table of the perturbation study, against the paper's own cells where they are at hand."""

import csv
import math
import os
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from tomserve.errors import ConfigError, ContentError
from tomserve.reporting.tables import render
from tomserve.stats.published import accuracy_interval
from tomserve.studies import analyze, load_study

PUBLISHED = Path(__file__).parent / "data" / "published_counts.csv"


def scores(**changes) -> pl.DataFrame:
    rows = []
    for cls in ("none", "late_label"):
        for n in range(4):
            for strategy in ("cot", "vanilla"):
                row = {"run": "r", "model": "m", "strategy": strategy, "item": f"{cls}/{n}", "status": "ok"}
                row |= {"correct": n != 0, "perturbation": cls, "scenario": "false_belief" if n < 2 else "no_transfer"}
                rows.append(row | {"question_kind": "belief"})
    return pl.DataFrame(rows).with_columns(**changes)


def test_accuracy_by_class_and_strategy() -> None:
    table = analyze(scores(), load_study("perturbed"), "published")["accuracy"]
    assert table.columns == [
        "subset",
        "model",
        "strategy",
        "perturbation",
        "correct",
        "total",
        "accuracy",
        "ci_low",
        "ci_high",
    ]
    assert table.height == 12
    assert table.filter(pl.col("subset") == "all", pl.col("perturbation") == "overall")["correct"].to_list() == [6, 6]
    row = table.row(
        by_predicate=(pl.col("subset") == "false_belief")
        & (pl.col("strategy") == "cot")
        & (pl.col("perturbation") == "none"),
        named=True,
    )
    assert (row["correct"], row["total"], row["accuracy"]) == (1, 2, 0.5)
    assert table["strategy"].to_list()[:3] == ["vanilla"] * 3
    assert table["perturbation"].to_list()[:3] == ["none", "late_label", "overall"]


def test_published_intervals_of_all_printed_cells() -> None:
    with PUBLISHED.open() as file:
        cells = list(csv.DictReader(file))
    assert len(cells) >= 130
    for cell in cells:
        low, high = accuracy_interval(int(cell["k"]), int(cell["n"]))
        printed = (float(cell["ci_low"]), float(cell["ci_high"]))
        assert (round(low, 3), round(high, 3)) == pytest.approx(printed, abs=0.00051), cell


def test_interval_edges() -> None:
    assert accuracy_interval(0, 4)[0] == 0.0
    assert accuracy_interval(4, 4)[1] == 1.0
    assert all(map(math.isnan, accuracy_interval(0, 0)))
    with pytest.raises(ValueError, match="expected 0 <= correct <= total"):
        accuracy_interval(5, 4)


def test_tables_that_do_not_fit_are_refused_by_name() -> None:
    study = load_study("perturbed")
    with pytest.raises(ConfigError, match="column 'scenario' is missing; required: model, strategy"):
        analyze(scores().drop("scenario"), study, "published")
    with pytest.raises(ConfigError, match="item 'none/0': unknown perturbation 'late_lable'; did you mean"):
        analyze(scores(perturbation=pl.lit("late_lable")), study, "published")
    with pytest.raises(ConfigError, match="more than one row for run 'r', model 'm', strategy 'cot', item 'none/0'"):
        analyze(pl.concat([scores(), scores()]), study, "published")
    with pytest.raises(ConfigError, match="unknown intervals 'recomended'"):
        analyze(scores(), study, "recomended")


def test_a_study_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def tables(scores, intervals):\n    return {'n': scores.select('item').collect()}\n")
    assert analyze(scores(), load_study(str(path)), "published")["n"].height == 16
    path.write_text("x = 1\ny = x / 0\n")
    with pytest.raises(ContentError, match=r"mine.py:2: cannot be loaded \(ZeroDivisionError"):
        load_study(str(path))
    path.write_text("x = 1\n")
    with pytest.raises(ContentError, match="has no function tables"):
        load_study(str(path))


def test_studies_are_not_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis/evil.py").write_text("raise SystemExit('ran')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="unknown study 'evil'"):
        load_study("evil")
    assert os.getcwd() != str(ROOT)


def test_hostile_text_is_inert_in_files() -> None:
    frame = pl.DataFrame({"model": ["=HYPERLINK(1)", "a|b<script>"], "n": [-1, 2]})
    assert render(frame, "csv") == "model,n\n'=HYPERLINK(1),-1\na|b<script>,2\n"
    assert "a\\|b&lt;script>" in render(frame, "md")
    assert render(frame, "json").startswith("[{")
