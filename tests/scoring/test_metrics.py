"""A metric is declared once: its columns follow everywhere. Scoring knows no benchmark and no run folder."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import make_item
from tests.helpers.scored import score_table
from tomserve.errors import ConfigError
from tomserve.items import RESERVED, RESERVED_BEGINNINGS, Item
from tomserve.scoring import metrics
from tomserve.scoring.answers import Reading
from tomserve.scoring.grades import GRADED
from tomserve.scoring.metrics import (
    BEGINNING,
    PLAIN,
    Metric,
    Scoring,
    columns_of,
)
from tomserve.scoring.score import COLUMNS, PARTIAL, PEOPLE, SAMPLED, score_row
from tomserve.scoring.table import read_table, write_scores


def words(item: Item, reading: Reading) -> dict[str, int | None]:
    return {"metric_words": len(reading.text.split()), "metric_chain": len(reading.chain) if reading.chain else None}


def length(item: Item, reading: Reading) -> dict[str, int]:
    return {"sentences": len(item.story)}


WORDS = Metric({"metric_words": pl.Int64, "metric_chain": pl.Int64}, words)
OWN = Scoring((WORDS, Metric({"sentences": pl.Int64}, length, of_item=True)))


def rules(name: str) -> Scoring:
    return OWN if name == "demo" else PLAIN


def row(text: str | None, status: str = "ok") -> dict[str, str | None]:
    return {"strategy": "cot", "status": status, "text": text}


def test_no_factor_may_have_the_name_of_a_column() -> None:
    """Items know nothing of scoring; what they reserve covers what scoring declares, and no more."""
    columns = (*COLUMNS, *metrics.ORIGINAL_ITEM, *metrics.ORIGINAL_REPLY, *GRADED)
    assert [name for name in columns if name not in RESERVED and not name.startswith(RESERVED_BEGINNINGS)] == []
    assert {*COLUMNS, *SAMPLED, *PEOPLE, *PARTIAL} >= RESERVED >= {*SAMPLED, *PEOPLE, *PARTIAL}
    assert BEGINNING in RESERVED_BEGINNINGS
    assert all(any(name.startswith(one) for name in (*columns, BEGINNING)) for one in RESERVED_BEGINNINGS)


def test_a_benchmarks_metrics_stand_behind_the_factors(tmp_path: Path) -> None:
    items = [make_item(1), make_item(2, benchmark="other")]
    rows = [
        (items[0], row('{"beliefs": ["unknown", "tea"], "answer": "tea"}')),
        (items[0], row(None, "timeout") | {"strategy": "vanilla"}),
        (items[1], row("tea")),
    ]
    scores = score_table("r", "m", rows, rules=rules)
    assert scores.columns == [*COLUMNS, "perturbation", "sentences", "metric_words", "metric_chain"]
    assert scores["sentences"].to_list() == [3, 3, None]
    assert scores["metric_words"].to_list() == [5, None, None]  # nothing was answered, and of another benchmark
    assert scores["metric_chain"].to_list() == [2, None, None]
    assert score_table("r", "m", rows).columns == [*COLUMNS, "perturbation"]
    write_scores(scores, tmp_path / "s.csv")
    assert read_table(str(tmp_path / "s.csv"))["metric_words"].to_list() == [5, None, None]


def test_a_metric_sees_what_scoring_knows_of_the_reply() -> None:
    seen: list[Reading] = []

    def look(item: Item, reading: Reading) -> dict[str, int]:
        seen.append(reading)
        return {}

    scoring = Scoring((Metric({"metric_x": pl.Int64}, look),))
    others = (make_item().gold.automaton(),)
    score_row("r", "m", make_item(), row("hm") | {"error": "cut"}, True, others, scoring)
    (reading,) = seen
    assert (reading.status, reading.text, reading.chain_asked, reading.others) == ("invalid", "hm", True, others)
    assert reading.answer is None
    score_row("r", "m", make_item(), row(None, "timeout"), True, (), scoring)
    assert len(seen) == 1  # there is no reply to look at


CLASHES: tuple[tuple[dict[str, Any], bool, str], ...] = (
    ({"words": pl.Int64}, False, "column 'words' of replies must begin with 'metric_'"),
    ({"metric_": pl.Int64}, False, "must begin with 'metric_'"),
    ({"correct": pl.Int64}, True, "column 'correct' of items has a name"),  # a column of the table
    ({"chain_x": pl.Int64}, True, "column 'chain_x' of items has a name"),  # a reserved beginning
    ({}, False, "a metric declares no columns"),
)


@pytest.mark.parametrize(("columns", "of_item", "expected"), CLASHES)
def test_names_with_another_meaning_are_refused(columns: dict[str, Any], of_item: bool, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Scoring((Metric(columns, words, of_item=of_item),))


def test_two_declarations_must_agree_and_no_factor_may_have_that_name() -> None:
    one, other = Metric({"metric_x": pl.Int64}, words), Metric({"metric_x": pl.String}, words)
    assert columns_of([one, one]) == {"metric_x": pl.Int64}
    with pytest.raises(ConfigError, match="column 'metric_x' is declared as Int64 and as String"):
        columns_of([one, other])
    with pytest.raises(ConfigError, match="factor 'sentences' has the name of a column of their benchmark"):
        score_table("r", "m", [(make_item(factors={"sentences": 3}), row("tea"))], rules=rules)


def test_letters_are_read_of_a_strategy_that_shows_the_choices_by_letter() -> None:
    asked = make_item(choices=["tea", "salt"], gold=None)
    rows = [(asked, {"strategy": name, "status": "ok", "text": "B"}) for name in ("by_letter", "by_name")]
    scores = score_table("r", "m", rows, lettered=("by_letter",))
    assert scores["answer"].to_list() == ["salt", None]
