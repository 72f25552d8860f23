"""Every command that takes a run takes a measured one, or says in one line why it cannot and what to do instead."""

from pathlib import Path

import orjson
import pytest

from tests.helpers import measurements
from tests.helpers.measurements import measured_run, table
from tests.helpers.outcomes import passes, refuses_in_a_line


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(measurements.study(tmp_path / "content")))
    measured_run(tmp_path / "runs/deep")
    return tmp_path / "runs"


def refused(cli, *arguments: object) -> str:
    return refuses_in_a_line(cli(*arguments)).err


def test_it_is_listed_and_shown_without_anything_that_only_answers_have(cli, runs: Path) -> None:
    listed, shown = cli("runs"), cli("runs", "deep")
    assert listed.code == shown.code == 0
    assert "measured, for depths" in listed.out
    assert "None" not in listed.out + shown.out
    assert "unknown" not in listed.out + shown.out
    said = dict(line.split(None, 1) for line in shown.out.splitlines())
    assert said["study"] == "depths"
    assert said["torch"] == "2.1"
    assert said["complete"] == "yes"
    assert said["setting"].split() == ["folds", "5"]
    assert "scores.parquet, 26 rows, sha256:" in shown.out


def test_it_is_analyzed_by_the_study_that_it_names(cli, runs: Path) -> None:
    found = passes(cli("analyze", "deep", "--format", "json"))
    tables = orjson.loads(found.out)
    assert [row["share"] for row in tables["held"]] == [1 / 3, 2 / 3]
    assert found.err == ""
    printed = cli("analyze", "deep", "--all").out
    assert "Is it held? Yes" in printed
    assert "The share of states that hold it." in printed
    assert not {"unread", "failed", "noise", "chance"} & set(printed.lower().split())


def test_several_runs_stand_side_by_side_and_two_of_one_model_need_labels(cli, runs: Path) -> None:
    measured_run(runs / "other", model="bigger")
    found = cli("analyze", "deep", "other", "--format", "json")
    assert [row["model"] for row in orjson.loads(found.out)["held"]] == ["bigger", "bigger", "tiny", "tiny"]
    measured_run(runs / "again")
    said = refused(cli, "analyze", "deep", "again")
    assert (
        "runs again, deep measured one model, 'tiny'; tell them apart by --label again=NAME --label deep=NAME" in said
    )
    found = cli("analyze", "deep", "again", "--label", "again=second", "--format", "json")
    assert {row["model"] for row in orjson.loads(found.out)["held"]} == {"second", "tiny"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("score", "deep"), "cannot be scored again; to measure again: `tomserve measure tiny --items items --run NEW`"),
        (("compare", "deep", "deep"), "cannot be compared question by question; `tomserve analyze RUN RUN`"),
        (("runs", "deep", "--unread"), "has no replies to read; `tomserve report RUN` shows what was measured"),
        (("analyze", "deep", "--by", "kind"), "--by counts answers by a factor, and the study 'depths' reads a measurement"),
        (("analyze", "deep", "--study", "accuracy"), "the study 'accuracy' counts answers; leave out --study, or choose one "
         "that reads it: depths"),
        (("report", "deep", "--study", "accuracy"), "holds a measurement, and the study 'accuracy' counts answers"),
    ],
)  # fmt: skip
def test_what_only_answers_allow_is_refused_in_one_line(cli, runs: Path, arguments: tuple[str, ...], said: str) -> None:
    before = {path.name: path.read_bytes() for path in (runs / "deep").iterdir() if path.is_file()}
    assert said in refused(cli, *arguments)
    assert {path.name: path.read_bytes() for path in (runs / "deep").iterdir() if path.is_file()} == before


def test_an_unfinished_or_forged_measurement_is_refused_in_one_line(cli, runs: Path) -> None:
    measured_run(runs / "begun", finished=False)
    for command in ("analyze", "report"):
        assert "its measurement is not finished; repeat the command" in refused(cli, command, "begun")
    assert "complete            no" in cli("runs", "begun").out
    table(items=3).write_parquet(runs / "deep/scores.parquet")
    for command in ("analyze", "report"):
        assert "is not the table that was measured" in refused(cli, command, "deep")


def test_a_manifest_cannot_name_a_study_by_path(cli, runs: Path, tmp_path: Path) -> None:
    """A run may come from somebody else: nothing that it names is run as code, unless the user has it by that name."""
    (tmp_path / "evil.py").write_text("raise SystemExit('run as code')")
    measured_run(runs / "theirs", study=str(tmp_path / "evil.py"))
    found = passes(cli("analyze", "theirs", "--format", "json"))
    assert "held" in orjson.loads(found.out)
