"""Studies that read a measured table: what they declare, what is refused, what is left out beside them.
Answers and measurements in one table: who may read both, and that nobody else is given both."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from tests.helpers import measurements
from tests.helpers.measured_tables import FEW, measured
from tests.helpers.measurements import SCHEMA, table
from tests.helpers.score_tables import scores
from tomserve.causal import table as causal_table
from tomserve.errors import ConfigError
from tomserve.studies import Study, compute, default_study, study_of_manifests
from tomserve.studies.answer_rows import split_scores
from tomserve.studies.comparison import combine_scores
from tomserve.studies.study import measured_studies


def count(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    return {"rows": scores.select(pl.len()).collect()}


STUDY = Study(name="mine", tables=count, answers=False, columns=SCHEMA)


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(measurements.study(tmp_path / "content")))


def test_it_requires_its_columns_and_gets_the_table_as_it_is() -> None:
    seen: list[pl.DataFrame] = []
    keep = Study(
        name="mine", tables=lambda scores, intervals: seen.append(scores.collect()) or {}, answers=False, columns=SCHEMA
    )
    found = compute(table(), keep)
    assert found.study.required == tuple(SCHEMA)
    assert seen[0].equals(table())
    assert (dict(found.tables), found.warnings, found.variant_analysis) == ({}, (), None)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (table().drop("depth"), "column 'depth' is missing; the study 'mine' reads a measurement, and this table is"),
        (table().with_columns(depth=pl.lit("deep")), "column 'depth' is String and cannot be read as Int16"),
        (table().with_columns(kind=pl.lit("odd")), "column 'kind' is String and cannot be read as Enum"),
        (table().with_columns(model=pl.lit(None, pl.String)), "column 'model' has empty cells"),
        (table().with_columns(strategy=pl.lit("cot")).drop("held"), "this table holds answers; give a measured run"),
    ],
)
def test_another_table_is_refused_by_its_column(changed: pl.DataFrame, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compute(changed, STUDY)
    assert said in str(refused.value)


@pytest.mark.usefixtures("known")
def test_a_measured_table_is_known_by_its_columns() -> None:
    assert default_study(table()) == "depths"
    assert measured_studies(table().with_columns(status=pl.lit("ok"))) == []
    assert measured_studies(table().drop("held")) == []


def test_two_studies_that_read_it_equally_well_are_a_question_to_the_user(tmp_path: Path, monkeypatch) -> None:
    content = measurements.study(tmp_path)
    (content / "analysis/deeper.py").write_text((content / "analysis/depths.py").read_text())
    monkeypatch.setenv("TOMSERVE_CONTENT", str(content))
    with pytest.raises(ConfigError, match=r"several studies read it \(deeper, depths\); choose one by --study"):
        compute(table())
    named = study_of_manifests([{"kind": "measured", "study": "deeper"}] * 2)
    assert named == "deeper"
    assert compute(table(), named=named).study.path == content / "analysis/deeper.py"
    assert study_of_manifests([{"kind": "measured", "study": one} for one in ("deeper", "depths")]) is None
    assert study_of_manifests([{"kind": "measured", "study": "../deeper"}]) is None


@pytest.mark.usefixtures("known")
def test_a_broken_study_beside_it_does_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "content/analysis/broken.py").write_text("STUDY = 1 / 0")
    assert default_study(table()) == "depths"


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

    return Study(name="both", tables=tables, columns=dict(causal_table.SCHEMA), together=True)


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
