"""The commands `tomserve export inspect` and `lm-eval`: what they write, where, and what they refuse."""

import shutil
import zipfile
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from tests.conftest import Endpoint
from tests.helpers.examples import change_rows, copied_example, shortened
from tests.helpers.measurements import measured_run
from tests.interop.conftest import answered, odd_items
from tomserve.content import paths
from tomserve.interop.scored_replies import ScoredReplies
from tomserve.runs.scores import load_scores

TOOLS = ("inspect", "lm-eval", "every-eval-ever")


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Some of the example: 24 questions, two strategies."""
    return shortened(copied_example(tmp_path / "runs"))


@pytest.fixture
def run(example: Path) -> Path:
    """A copy of it, in which `cot` was not answered yet."""
    folder = example.with_name("mine")
    shutil.copytree(example, folder)
    journal = folder / "responses.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if orjson.loads(line)["strategy"] == "vanilla"))
    return folder


def kept(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("tool", TOOLS)
def test_strategies_are_chosen_and_what_is_not_there_is_told(cli: Any, run: Path, tmp_path: Path, tool: str) -> None:
    example, out = run.with_name("example"), tmp_path / "out"
    assert cli("export", tool, example, "--out", out, "--strategy", "cot").code == 0
    assert not [path for path in out.rglob("*") if "vanilla" in path.name]
    assert [path for path in out.rglob("*") if path.is_file()]
    assert cli("export", tool, run, "--out", tmp_path / "whole").code == 0
    assert not list((tmp_path / "whole").rglob("*cot*")), "what was not asked yet is left out"
    measured = measured_run(tmp_path / "runs/measured")
    (empty := shutil.copytree(run, run.with_name("empty"))).joinpath("responses.jsonl").write_bytes(b"")
    unanswered = f"--strategy 'cot': nothing was answered by it yet in {run}; there are replies by: vanilla"
    for options, said in (
        ((run, "--strategy", "cto"), f"--strategy 'cto': {run} has none of that name; it has: cot, vanilla"),
        ((run, "--strategy", "cot"), unanswered),
        ((empty,), "nothing was answered yet"),
        ((measured,), "holds a measurement and no answers, so that it has no replies to export; give a run of answers"),
        ((tmp_path / "runs/nothing",), "nothing"),
    ):
        done = cli("export", tool, *options, "--out", tmp_path / "none")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), options
        assert said in done.err
    assert not [path for path in (tmp_path / "none").rglob("*") if path.is_file()]


def test_what_a_person_left_open_counts_nowhere(run: Path) -> None:
    left = iter(("unanswered",) * 2)
    change_rows(run, lambda _, row: {**row, "status": next(left, row["status"])})
    assert len(list(ScoredReplies(run, None, print).of("vanilla"))) == 22


def test_variants_of_questions_count_in_no_share(cli: Any, endpoint: Endpoint, tmp_path: Path) -> None:
    run = answered(tmp_path / "runs/r", endpoint, odd_items(), ("vanilla",), lambda *_: None, variants="choices")
    scores = load_scores(str(run))
    own = scores.filter(pl.col("original_item").is_null())
    assert own["correct"].mean() != scores["correct"].mean()
    for tool in ("inspect", "lm-eval"):
        assert cli("export", tool, run, "--out", tmp_path / tool).code == 0
    with zipfile.ZipFile(tmp_path / "inspect/r_vanilla.eval") as log:
        score = orjson.loads(log.read("header.json"))["results"]["scores"][0]
    (results,) = (tmp_path / "lm-eval").rglob("results_*.json")
    (task,) = orjson.loads(results.read_bytes())["results"].values()
    found = [(score["scored_samples"], score["metrics"]["accuracy"]["value"])]
    found.append((task["sample_len"], task["exact_match,none"]))
    assert found == [(own.height, own["correct"].mean())] * 2
    for tool in ("inspect", "lm-eval"):
        (file,) = (path for path in (tmp_path / tool).rglob("*vanilla*") if path.is_file())
        assert "8 left out" in cli("import", tool, file, "--run", back := tmp_path / f"runs/{tool}").err
        assert load_scores(str(back))["correct"].to_list() == own["correct"].to_list()


def test_letters_come_back_where_the_strategy_of_today_shows_others(cli: Any, run: Path, tmp_path: Path) -> None:
    manifest = orjson.loads((run / "manifest.json").read_bytes())
    manifest["strategies"]["vanilla"] |= {"lettered": True, "digest": "sha256:0"}
    (run / "manifest.json").write_bytes(orjson.dumps(manifest))
    change_rows(run, lambda number, row: {**row, "text": "AB"[number % 2]})
    own = load_scores(str(run))["correct"].to_list()
    assert 0 < sum(own) < len(own)
    for tool in ("inspect", "lm-eval"):
        cli("export", tool, run, "--out", tmp_path / tool)
        cli("import", tool, tmp_path / tool, "--run", back := tmp_path / f"runs/{tool}")
        assert load_scores(str(back))["correct"].to_list() == own


def test_runs_that_are_called_alike_in_two_folders_do_not_replace_each_other(
    cli: Any, run: Path, tmp_path: Path
) -> None:
    # a name below the folder of runs, one that reads like it, and one name in two places elsewhere
    places = [tmp_path / name for name in ("runs/a/same", "runs/b/same", "runs/a__same", "x/same", "y/same")]
    for place in places:
        shutil.copytree(run, place)
        for tool in TOOLS:
            assert cli("export", tool, place, "--out", tmp_path / tool).code == 0
    for tool, names in (("inspect", "*.eval"), ("lm-eval", "results_*.json"), ("every-eval-ever", "*_samples.jsonl")):
        assert len(list((tmp_path / tool).rglob(names))) == len(places), tool
    hitom, cot = tmp_path / "runs/m", tmp_path / "runs/m_hitom"
    assert (paths.export_name(hitom, "hitom_cot"), paths.export_name(cot, "cot")) == ("m_hitom-cot", "m_hitom_cot")
    assert paths.export_name(hitom, "hitom-cot").startswith("m_hitom-cot-"), "another strategy of this run"


def test_strategies_exported_one_by_one_have_results_of_their_own(cli: Any, example: Path, tmp_path: Path) -> None:
    for strategy in ("cot", "vanilla"):
        assert cli("export", "lm-eval", example, "--strategy", strategy, "--out", tmp_path).code == 0
    assert len(list(tmp_path.rglob("results_*.json"))) == 2


def test_no_file_of_a_run_is_written_over_not_even_through_a_link(cli: Any, run: Path, tmp_path: Path) -> None:
    before = kept(run)
    out = tmp_path / "out"
    (out / "reference").mkdir(parents=True)
    (out / "mine_vanilla.eval").symlink_to(run / "responses.jsonl")
    (out / "reference/results_2026-11-22T12-12-09.671891.json").symlink_to(run / "manifest.json")
    for tool in ("inspect", "lm-eval"):
        done = cli("export", tool, run, "--out", out)
        assert done.code == 2, tool
        assert f"belongs to the run {run}; choose another file, so that nothing of it is lost" in done.err
        assert kept(run) == before
    (out / "mine_vanilla.eval").unlink()
    other = tmp_path / "elsewhere.eval"
    other.write_bytes(b"theirs")
    (run / "mine_vanilla.eval").symlink_to(other)
    assert cli("export", "inspect", run, "--out", run).code == 0, "other files beside a run are the user's"
    (run / "mine_vanilla.eval").unlink()
    assert {name: data for name, data in kept(run).items() if name in before} == before
