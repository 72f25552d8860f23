"""The short form of a result: a screen of it, with all that is missing, whatever the terminal can show."""

import io

import polars as pl
import pytest

from tests.helpers.score_tables import scores
from tomserve.reporting.overview import LINES, MORE, print_overview, show_overview
from tomserve.reporting.table_layout import Terminal
from tomserve.studies import Excerpt, analyze, compute, overall_accuracy


def shown(print_it, width: int = 80) -> list[str]:
    screen = Terminal(file=io.StringIO(), width=width, highlight=False)
    print_it(screen)
    return str(screen.file.getvalue()).splitlines()  # type: ignore[attr-defined]


def arms(models: int, strategies: int = 2) -> pl.DataFrame:
    rows = [
        {"model": f"a-model-with-a-long-name-{model}", "strategy": f"strategy_{number}", "accuracy": 0.5}
        for model in range(models)
        for number in range(strategies)
    ]
    found = {"ci_low": 0.4, "ci_high": 0.6, "best_rule_accuracy": 0.75, "unread": 1234, "failed": 1240}
    return pl.DataFrame(rows).with_columns(pl.lit(value).alias(name) for name, value in found.items())


LONG = Excerpt("classes", pl.DataFrame({"class": [f"class {place}" for place in range(40)], "right": [0.5] * 40}))
SAID = ["Is it so? " + "Nobody knows, as far as can be seen, " * 5] * 9


@pytest.mark.parametrize("models", [0, 1, 2, 6, 30])
def test_it_fits_a_screen_and_says_what_it_leaves_out(models: int) -> None:
    lines = shown(lambda screen: print_overview(arms(models or 1).head(2 * models), SAID, [LONG], screen))
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 80
    assert lines[-1] == MORE
    assert sum(line.endswith("1,234       6") for line in lines) == min(2 * models, 12)
    assert ("and 48 more" in lines) is (models == 30)
    assert any(" of 40 rows)" in line for line in lines) is (models < 6)


def test_a_study_is_shown_by_its_own_table_and_what_was_asked_for() -> None:
    rows = scores()
    lines = shown(lambda screen: show_overview(compute(rows, "perturbed"), screen))
    assert [line.split()[0] for line in lines[1:3]] == ["vanilla", "cot"]
    assert any(line.startswith("- Where does it break?") for line in lines)
    lines = shown(lambda screen: show_overview(compute(rows, "accuracy", by=["scenario"]), screen))
    assert any("by scenario" in line for line in lines)


def test_the_row_of_all_questions_is_found_among_those_of_classes() -> None:
    found = analyze(scores(), "perturbed")
    whole = overall_accuracy(found)
    assert whole["strategy"].to_list() == ["vanilla", "cot"]
    assert set(whole["subset"]) == {"all"}
    assert overall_accuracy({"headline": pl.DataFrame({"net": [0.5]})}).is_empty()


def test_signs_are_ascii_where_the_locale_has_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    lines = shown(lambda screen: print_overview(arms(2), SAID, [LONG], screen))
    assert all(line.isascii() for line in lines)
    assert "=|" in lines[1] or "-|" in lines[1] or ".|" in lines[1]
