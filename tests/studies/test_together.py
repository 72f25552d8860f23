"""Answers and measurements in one table: who may read both, and that nobody else is given both."""

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pytest

from tests.helpers.measured_tables import FEW, measured
from tests.helpers.score_tables import scores
from tomserve.causal.table import SCHEMA
from tomserve.errors import ConfigError
from tomserve.studies import Study, compute
from tomserve.studies.answer_rows import split_scores
from tomserve.studies.comparison import combine_scores, same_model_notes


def moved() -> pl.DataFrame:
    return measured(FEW, items=8, layers=(1,), alphas=(0.1,))


def both() -> pl.DataFrame:
    return combine_scores([scores(kind=pl.lit("unexpected"), order=pl.lit(3)), moved()])


def counting() -> Study:
    """A study that counts the rows of either sort."""

    def tables(frame: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
        del intervals
        parts = split_scores(frame.collect())
        return {"rows": pl.DataFrame({"answers": [parts.answers.height], "measured": [parts.measured.height]})}

    return Study(name="both", tables=tables, columns=dict(SCHEMA), together=True)


@contextmanager
def refused(said: str) -> Iterator[None]:
    with pytest.raises(ConfigError) as caught:
        yield
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_study_of_both_is_given_what_there_is() -> None:
    answers, measurement = scores().height, moved().height
    for frame, rows in ((both(), (answers, measurement)), (scores(), (answers, 0)), (moved(), (0, measurement))):
        assert compute(frame, counting()).tables["rows"].rows() == [rows]


def test_only_rows_of_a_measurement_have_a_kind() -> None:
    parts = split_scores(both())
    assert (parts.answers.height, parts.measured.height, parts.mixed) == (scores().height, moved().height, True)
    assert both().filter(pl.col("strategy").is_not_null())["kind"].null_count() == scores().height
    assert "layer" not in parts.answers.columns
    assert parts.answers["order"].unique().to_list() == [3]


def test_a_factor_that_is_called_kind_is_no_measurement() -> None:
    parts = split_scores(scores(kind=pl.lit("unexpected")))
    assert not parts.mixed
    assert parts.answers["kind"].unique().to_list() == ["unexpected"]
    assert compute(scores(kind=pl.lit("unexpected")), "accuracy").tables


def test_a_measured_table_from_a_file_that_knows_no_types_is_read() -> None:
    plain = both().with_columns(pl.col("alpha", "displacement").cast(pl.String))
    assert compute(plain, counting()).tables["rows"].rows() == [(scores().height, moved().height)]
    with refused("column 'alpha' is String and cannot be read as Float64"):
        compute(plain.with_columns(alpha=pl.lit("high")), counting())


@pytest.mark.parametrize("study", [None, "accuracy", "causal"])
def test_others_refuse_the_mixture_in_one_line_that_names_the_way_out(study: str | None) -> None:
    with refused("some of these hold answers and some a measurement"):
        compute(both(), study)
    with refused("--study functional"):
        compute(both(), study)


def test_what_is_lacking_of_either_sort_is_refused() -> None:
    with refused("column 'layer' is missing"):
        compute(both().drop("layer"), counting())
    with refused("more than one row for"):
        compute(combine_scores([scores(), scores(), moved()]), counting())
    with refused("runs run-m, x measured one model"):
        compute(combine_scores([scores(), moved(), moved().with_columns(run=pl.lit("x"))]), counting())
    with refused("--by counts answers"):
        compute(moved(), counting(), by=["stage"])


def test_factors_count_the_answers_alone() -> None:
    found = compute(both(), counting(), by=["scenario"])
    assert found.tables["by_scenario"]["total"].sum() == scores().height


def test_runs_of_answers_are_one_model_and_measured_ones_are_not_spoken_of() -> None:
    more = combine_scores([both(), scores(run=pl.lit("other"), strategy=pl.lit("third"))])
    (said,) = same_model_notes(more, {})
    assert "the runs r, other are counted as one model" in said
    assert not same_model_notes(both(), {})
