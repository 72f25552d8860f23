"""Studies that read a measured table: what they declare, what is refused, what is left out beside them."""

from pathlib import Path

import polars as pl
import pytest

import tomserve
from tests.helpers import measurements
from tests.helpers.measurements import SCHEMA, measured_run, table
from tomserve.errors import ConfigError
from tomserve.runs.scores import load_replies
from tomserve.studies import Study, compute, default_study, study_of_manifests
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


def test_two_studies_that_read_it_equally_well_are_a_question_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = measurements.study(tmp_path)
    (content / "analysis/deeper.py").write_text((content / "analysis/depths.py").read_text())
    monkeypatch.setenv("TOMSERVE_CONTENT", str(content))
    with pytest.raises(ConfigError, match=r"several studies read it \(deeper, depths\); choose one by --study"):
        compute(table())
    named = study_of_manifests([{"kind": "measured", "study": "deeper"}] * 2)
    assert named == "deeper"
    assert compute(table(), named=named).study.path == content / "analysis/deeper.py"
    assert (
        study_of_manifests([{"kind": "measured", "study": "deeper"}, {"kind": "measured", "study": "depths"}]) is None
    )
    assert study_of_manifests([{"study": "deeper"}, {}]) is None
    assert study_of_manifests([{"kind": "measured", "study": "../deeper"}]) is None


@pytest.mark.usefixtures("known")
def test_a_broken_study_beside_it_does_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "content/analysis/broken.py").write_text("STUDY = 1 / 0")
    assert default_study(table()) == "depths"


@pytest.mark.usefixtures("known")
def test_python_reads_a_measured_run_as_any_other(tmp_path: Path) -> None:
    folder = measured_run(tmp_path / "runs/deep")
    run = tomserve.Run.open("deep")
    assert run.scores().equals(table())
    assert tomserve.analyze(run.scores())["held"]["share"].to_list() == [1 / 3, 2 / 3]
    assert run.report(tmp_path / "r.html").exists()
    with pytest.raises(ConfigError, match="cannot be compared question by question"):
        tomserve.compare(run, run)
    with pytest.raises(ConfigError, match="has no replies to read"):
        load_replies(folder)
