"""Files that we write as lm-evaluation-harness does: the same fields as its own, read by its functions and by us."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.helpers.exported import SECRETS, same_scores
from tests.helpers.foreign_files import REAL
from tests.helpers.outcomes import passes
from tomserve.interop.lm_eval_files import export_samples, sanitize_name
from tomserve.interop.scored_replies import ScoredReplies
from tomserve.runs.progress import SilentListener
from tomserve.runs.scores import load_scores

OURS = {"tomserve_status", "tomserve_correct", "tomserve_error"}
"""Fields of a sample that lm-eval does not have: how each reply ended, whether it is right, why there is none."""


def written(folder: Path, out: Path) -> tuple[list[Path], Path]:
    """The files of samples, and that of results."""
    *samples, results = export_samples(ScoredReplies(folder), out, SilentListener())
    return samples, results


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_samples_and_results_have_the_fields_of_lm_evals_own(runs: dict[str, Path], tmp_path: Path) -> None:
    theirs = rows(next((REAL / "samples").glob("samples_sums_*")))[0]
    (known,) = (json.loads(path.read_bytes()) for path in (REAL / "samples").glob("results_*"))
    samples, ours = written(runs["perturbed"], tmp_path)
    for path in samples:
        for row in rows(path):
            assert set(row) - OURS == set(theirs)
            for name in set(theirs) - {"doc"}:
                assert type(row[name]) is type(theirs[name]), name
            assert list(row["arguments"]) == list(theirs["arguments"])
            assert list(row["arguments"]["gen_args_0"]) == list(theirs["arguments"]["gen_args_0"])
            assert len(row["doc_hash"]) == len(theirs["doc_hash"]) == 64
            assert row["metrics"] == theirs["metrics"] == ["exact_match"]
    told = json.loads(ours.read_bytes())
    assert set(known) - set(told) == {"lm_eval_version"}
    for name in ("results", "n-shot", "n-samples"):
        assert type(next(iter(told[name].values()))) is type(next(iter(known[name].values()))), name


@pytest.mark.system
def test_lm_evals_own_functions_find_the_files(runs: dict[str, Path], tmp_path: Path) -> None:
    from lm_eval import utils

    samples, results = written(runs["perturbed"], tmp_path)
    named = [str(path) for path in (*samples, results)]
    assert utils.get_results_filenames(named) == [str(results)]
    assert utils.get_sample_results_filenames(named) == [str(path) for path in samples]
    tasks = list(json.loads(results.read_bytes())["results"])
    assert [utils.get_file_task_name(path.name) for path in samples] == tasks
    assert tasks == ["perturbed_cot", "perturbed_vanilla"]
    date = {utils.get_file_datetime(path.name) for path in samples}
    assert date == {results.stem.removeprefix("results_")}
    assert results.parent.name == utils.sanitize_model_name("tiny")
    assert sanitize_name('org/name:v1"<x>') == utils.sanitize_model_name('org/name:v1"<x>')


def test_accuracy_and_its_error_are_those_of_the_documents(runs: dict[str, Path], tmp_path: Path) -> None:
    (path,), results = written(runs["several"], tmp_path)
    found = rows(path)
    (result,) = json.loads(results.read_bytes())["results"].values()
    values = [row["exact_match"] for row in found]
    assert result["exact_match,none"] == pytest.approx(sum(values) / len(values))
    assert result["exact_match_stderr,none"] == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)))
    scores = load_scores(str(runs["several"])).sort("item")
    assert [row["doc"]["id"] for row in found] == scores["item"].to_list()
    assert values == pytest.approx(scores["correct_mean"].to_list())
    assert any(0 < value < 1 for value in values)
    for row in found:
        assert len(row["resps"][0]) == len(row["filtered_resps"]) == len(row["tomserve_status"]) == 3


def test_what_is_read_back_has_the_same_scores(cli: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    passes(cli("export", "lm-eval", runs["perturbed"], "--out", tmp_path / "out"))
    for number, path in enumerate(sorted((tmp_path / "out/tiny").glob("samples_*"))):
        passes(cli("import", "lm-eval", path, "--run", f"again{number}"))
        same_scores(runs["perturbed"], f"again{number}", thoughts=False)


def test_bytes_are_the_same_and_hold_no_secret(runs: dict[str, Path], tmp_path: Path) -> None:
    first, second = (written(runs["odd"], tmp_path / name) for name in ("a", "b"))
    ours = [path.read_bytes() for path in (*first[0], first[1])]
    assert ours == [path.read_bytes() for path in (*second[0], second[1])]
    text = b"".join(ours).decode()
    assert "refused by" in text
    assert not [secret for secret in SECRETS if secret in text]


def test_two_strategies_of_one_name_in_these_letters_are_two_tasks(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "renamed"
    folder.mkdir()
    for name in ("manifest.json", "responses.jsonl", "items.jsonl"):
        text = (runs["perturbed"] / name).read_text("utf-8")
        text = text.replace('"strategy":"vanilla"', '"strategy":"a b"').replace('"strategy":"cot"', '"strategy":"a_b"')
        (folder / name).write_text(text.replace('"vanilla":{', '"a b":{').replace('"cot":{', '"a_b":{'))
    samples, results = written(folder, tmp_path / "out")
    assert list(json.loads(results.read_bytes())["results"]) == ["perturbed_a_b", "perturbed_a_b_2"]
    assert len({path.name for path in samples}) == 2
    assert pl.concat([pl.read_ndjson(path) for path in samples], how="diagonal_relaxed").height == 24
