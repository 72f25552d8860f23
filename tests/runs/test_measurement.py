"""Runs that hold a measurement: what is kept, what is refused, and that a kill at any moment leaves them whole."""

import itertools
import subprocess
import sys
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers.measurements import JAR_ITEMS, LAYER_TABLE, LAYERS, opened
from tomserve.content.files import digest_bytes
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.items import read_items
from tomserve.runs import measurement
from tomserve.runs.manifest import Manifest


def finished(folder: Path) -> Path:
    with opened(folder, command="tomserve measure m --items b") as run:
        run.write_items(JAR_ITEMS)
        LAYER_TABLE.write_parquet(path := run.work_file("table.parquet"))
        run.finish(path)
    return folder


def manifest(folder: Path) -> dict[str, object]:
    data = orjson.loads((folder / "manifest.json").read_bytes())
    assert isinstance(data, dict)
    return data


def test_a_finished_run_holds_its_table_its_items_and_all_that_made_it(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run")
    found = measurement.measured_manifest(folder)
    assert found.complete
    assert (found.settings, found.study, found.table.rows) == (LAYERS, "depths", 3)
    table, record = measurement.read_measurement(folder, found)
    assert table.equals(LAYER_TABLE)
    assert record["table"] == found.table.digest
    assert [item.id for item in read_items(folder / "items.jsonl")] == ["q"]
    assert [session.measured_on for session in found.sessions] == [{"torch": "2.1"}]
    with opened(folder, environment={"torch": "9"}) as run:
        assert run.complete
    assert manifest(folder) == orjson.loads(orjson.dumps(found.to_dict())), "a complete run is not written again"


def test_a_run_is_measured_again_where_its_table_is_gone(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run")
    (folder / "scores.parquet").unlink()
    with opened(folder) as run:
        assert not run.complete
        run.finish(LAYER_TABLE)
    assert len(manifest(folder)["sessions"]) == 2  # type: ignore[arg-type]


OTHER: tuple[tuple[dict[str, object], str], ...] = (
    ({"model": "n"}, "model of this run is m, now it would be n"),
    ({"benchmark_digest": "sha256:2"}, "benchmark_digest of this run is sha256:1, now it would be sha256:2"),
    ({"settings": {**LAYERS, "alphas": (0.1,)}}, "settings.alphas of this run is [0.1,1.0], now it would be [0.1]"),
    ({"settings": {**LAYERS, "folds": 5}}, "settings.folds of this run is not set, now it would be 5"),
)


def test_another_measurement_is_refused_by_its_first_difference(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.work_file("states.bin").write_bytes(b"1")
    for changed, said in OTHER:
        with pytest.raises(RunMismatchError) as refused:
            opened(tmp_path, **changed)
        assert said in str(refused.value)
        assert str(refused.value).endswith("use --run NEW for a new run")
    with opened(tmp_path, settings={"layers": 3, "alphas": (0.1, 1)}) as run:  # the lock was given back
        assert not run.complete
        assert run.work_file("states.bin").read_bytes() == b"1"


def test_what_has_measured_nothing_may_become_another_measurement(tmp_path: Path) -> None:
    opened(tmp_path).__exit__(None, None, None)
    with opened(tmp_path, model="n"):
        assert manifest(tmp_path)["model"] == "n"


def test_a_run_of_answers_takes_no_measurement_and_the_reverse(tmp_path: Path) -> None:
    answers = Manifest.new(tmp_path, [], benchmark="b", model="m")
    (tmp_path / "manifest.json").write_bytes(orjson.dumps(answers.to_dict()))
    with pytest.raises(RunMismatchError, match="holds a model's answers and no measurement"):
        opened(tmp_path)
    folder = finished(tmp_path / "run")
    with pytest.raises(RunMismatchError, match="holds a measurement, to which no answers can be added; use --run NEW"):
        answers.take_over(Manifest.read(folder), folder, ())  # type: ignore[arg-type]


def test_a_table_that_was_not_measured_is_refused(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run")
    found = measurement.measured_manifest(folder)
    assert found is not None
    LAYER_TABLE.with_columns(value=pl.lit(1.0)).write_parquet(folder / "scores.parquet")
    again = "to measure again: `tomserve measure m --items b --run NEW`"
    with pytest.raises(ConfigError, match="is not the table that was measured") as refused:
        measurement.read_measurement(folder, found)
    assert str(refused.value).endswith(again)
    (folder / "scores.parquet").write_bytes(b"PAR1 no table")
    found.table.digest = digest_bytes(b"PAR1 no table")  # forged by somebody who knows of digests
    with pytest.raises(ConfigError, match="not a parquet table"):
        measurement.read_measurement(folder, found)
    (folder / "scores.parquet").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        measurement.read_measurement(folder, found)


@pytest.mark.parametrize("command", ["tomserve x; rm -rf ~", "rm x", "tomserve x `id`", "tomserve x\nid", None])
def test_a_command_that_could_do_harm_is_not_repeated(command: str | None) -> None:
    found = Manifest.model_validate({"schema": 1, "benchmark": "b", "model": "m", "strategies": {}, "command": command})
    assert measurement.suggest_repeat(found) == "to measure again, repeat the command that made it with --run NEW"


def test_no_link_is_followed_in_the_folder_of_work(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("mine")
    with opened(tmp_path / "run") as run:
        (run.work / "states.bin").symlink_to(outside / "kept")
        with pytest.raises(ConfigError, match="symbolic link"):
            run.work_file("states.bin")
        run.clear_work()
        assert not (run.path / "work").exists()
        assert (outside / "kept").read_text() == "mine"
        (run.path / "work").symlink_to(outside)
        for use in (lambda: run.work, run.clear_work):
            with pytest.raises(ConfigError, match="is no folder of this run"):
                use()
    assert (outside / "kept").read_text() == "mine"


PROGRAM = """
import os, signal, sys
from pathlib import Path
from tests.helpers.measurements import JAR_ITEMS, LAYER_TABLE, opened

real = os.replace

def measure(place, nth, after):
    replaced = []

    def replace(source, target):
        replaced.append(target)
        if len(replaced) < nth or after:
            real(source, target)
        if len(replaced) == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace
    run = opened(place)
    run.work_file("states.bin").write_bytes(b"1")
    run.write_items(JAR_ITEMS)
    run.finish(LAYER_TABLE)

for nth in range(1, 6):
    for after in (False, True):
        if (process := os.fork()) == 0:
            measure(Path(sys.argv[1]) / f"{nth}{after}", nth, after)
            os._exit(1)
        assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
"""
"""Processes that kill themselves at the nth replacement of a file, before or after it, so that every state is seen."""


@pytest.mark.system
def test_a_kill_at_any_moment_leaves_a_run_that_goes_on_or_is_complete(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, check=True)
    for nth, after in itertools.product(range(1, 6), (False, True)):
        folder, complete = tmp_path / f"{nth}{after}", nth == 5 and after
        found = measurement.measured_manifest(folder)
        assert (found is not None) == (nth > 1 or after)
        assert (found is not None and found.complete) == complete
        with opened(folder) as run:
            assert run.complete == complete
            if not run.complete:
                assert run.work_file("states.bin").exists() == (nth > 1)
                run.write_items(JAR_ITEMS)
                run.finish(LAYER_TABLE)
        found = measurement.measured_manifest(folder)
        assert found is not None
        assert measurement.read_measurement(folder, found)[0].equals(LAYER_TABLE)
        assert not list(folder.glob(".tomserve-*")), "what the kill has left behind is swept"


def test_a_session_says_what_it_turned_out_to_run_on_and_one_that_did_not_begin_changed_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, environment=None) as run:
        pass
    for device in ("cpu", "cuda"):
        with opened(tmp_path, environment={"torch": "2.1"}) as run:
            run.note_environment({"device": device})
    told = manifest(tmp_path)
    assert [session["measured_on"] for session in told["sessions"]] == [  # type: ignore[attr-defined]
        *({}, {"torch": "2.1", "device": "cpu"}, {"torch": "2.1", "device": "cuda"})
    ]
    (change,) = measurement.environment_changes(told)
    assert change.startswith("device was cpu until the session of ")
