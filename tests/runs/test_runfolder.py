"""Runs are found by name, also in folders below runs/, and a name never leads out of it."""

from pathlib import Path

import orjson
import pytest

from tomserve.content.paths import run_name
from tomserve.errors import ConfigError
from tomserve.runs.planning import EvalOptions, make_plan
from tomserve.runs.runfolder import RunFolder, find_run, newest_first, run_path, runs_below


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOMSERVE_RUNS", "runs")
    return Path("runs")


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "manifest.json").write_bytes(orjson.dumps({"schema": 1}))
    return path


PATHS = {
    **{"mine": "runs/mine", "pilot/first": "runs/pilot/first", "pilot/first/": "runs/pilot/first"},
    **{"a/b/c": "runs/a/b/c", "runs/mine": "runs/mine", "runs/pilot/first": "runs/pilot/first"},
    **{"./pilot/first": "pilot/first", "../elsewhere/first": "../elsewhere/first", "/data/first": "/data/first"},
}


def test_a_name_with_slashes_is_a_folder_below_the_runs() -> None:
    assert {name: str(run_path(name)) for name in PATHS} == PATHS


def test_no_name_leads_out_of_the_runs() -> None:
    for name in ("a/../../b", "a/..", "runs/../b", "a/./.hidden", "a/-x", "a/b c", "a/b\0", "."):
        with pytest.raises(ConfigError, match=r"begin it with \./ or /"):
            run_path(name)


def test_a_run_of_the_working_directory_is_meant_only_where_there_is_none_of_that_name(runs: Path) -> None:
    made(Path("other/first"))
    assert run_path("other/first") == Path("other/first")
    made(runs / "other/first")
    assert run_path("other/first") == runs / "other/first"
    assert find_run("./other/first") == Path("other/first")


def test_runs_in_folders_are_listed_and_named(runs: Path, tmp_path: Path) -> None:
    for name in ("b", "a/y", "a/x", "b/inside", ".servers/no"):
        made(runs / name)
    (runs / "empty").mkdir()
    elsewhere = made(tmp_path / "disk/kept")
    (runs / "linked").symlink_to(elsewhere)
    (runs / "loop").symlink_to(runs.absolute())
    assert [path.as_posix() for path in runs_below(runs)] == ["runs/a/x", "runs/a/y", "runs/b", "runs/linked"]
    assert set(newest_first()) == set(runs_below(runs))
    assert [run_name(runs / "a/x"), run_name(runs / "b"), run_name(elsewhere)] == ["a/x", "b", "kept"]
    with pytest.raises(ConfigError, match=r"did you mean 'a/x'\?.*Known: a/x, a/y, b, linked"):
        find_run("a/xx")


def test_no_run_is_made_in_another_or_around_others(runs: Path) -> None:
    made(runs / "a")
    made(runs / "b/c")
    with pytest.raises(ConfigError, match=r"lies in .*runs/a, which is a run itself"):
        RunFolder(runs / "a/new")
    with pytest.raises(ConfigError, match="holds other runs, such as c"):
        RunFolder(runs / "b")
    assert not (runs / "a/new").exists()
    with RunFolder(runs / "b/c"), RunFolder(runs / "b/new"):
        pass


def test_one_text_is_not_taken_for_several() -> None:
    with pytest.raises(ConfigError, match=r"base_urls is the text 'http://a/v1'; expected a list of texts"):
        make_plan(EvalOptions(base_urls="http://a/v1"))  # type: ignore[arg-type]
