"""The main job through a real vLLM on the CPU, as `make eval` does it: the embedded model is started, asked, and stopped.

All else that needs a real vLLM is in tests/serving/, for `make test-system`.
"""

import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from tests.helpers.command import tomserve
from tomserve.serving import checkpoint, install

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]

RUN = "perturbed-2-reference"


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: its run folder, what the command printed, and what it printed when it was repeated."""

    folder: Path
    printed: str
    repeated: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in (self.folder / "responses.jsonl").read_bytes().splitlines()]


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """Thirty questions, asked by both strategies. Processes that share the tests start one vLLM at a time."""
    runs = tmp_path_factory.mktemp("main-job")
    with (tmp_path_factory.getbasetemp().parent / "vllm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = tomserve(runs, "eval", "--limit", "30", "--no-report")
        assert done.returncode == 0, done.stderr
    again = tomserve(runs, "eval", "--limit", "30", "--no-report")
    assert again.returncode == 0, again.stderr
    return Evaluation(runs / RUN, done.stdout, again.stdout)


def test_every_question_is_answered_by_both_strategies_and_written_down(evaluation: Evaluation) -> None:
    rows = evaluation.rows
    assert len(rows) == len({(row["item"], row["strategy"]) for row in rows}) == 60
    assert {row["status"] for row in rows} == {"ok"}
    assert {row["strategy"] for row in rows} == {"vanilla", "cot"}
    assert any(row["usage"]["cached"] > 0 for row in rows), "the demonstration is shared"
    assert "reference: accuracy, all questions" in evaluation.printed


def test_the_guided_schema_is_obeyed(evaluation: Evaluation) -> None:
    scores = pl.read_parquet(evaluation.folder / "scores.parquet")
    assert (set(scores["status"]), set(scores["parse"])) == ({"ok"}, {"json"})
    items = {one["id"]: one for one in map(orjson.loads, (evaluation.folder / "items.jsonl").read_bytes().splitlines())}
    for row in scores.iter_rows(named=True):
        item = items[row["item"]]
        assert row["answer"] in item["choices"]
        assert row["correct"] == (row["answer"] == item["answer"])
        if row["strategy"] == "cot":
            assert 1 <= len(row["chain"]) <= len(item["story"])  # it may leave out what does not change


def test_the_manifest_says_what_was_asked_of_which_server(evaluation: Evaluation) -> None:
    manifest = orjson.loads((evaluation.folder / "manifest.json").read_bytes())
    server = manifest["server"]
    assert (manifest["complete"], manifest["revision"]) == (True, checkpoint.reference_revision())
    assert server["engine_version"].startswith("0.")
    assert (server["max_model_len"], server["dtype"], server["quantization"]) == (4096, "float32", "none")
    assert "--served-model-name" in server["command"]
    assert server["template"]["digest"].startswith("sha256:")
    assert server["unknown"] == []


def test_repeating_the_command_starts_no_server_and_asks_nothing(evaluation: Evaluation) -> None:
    assert "starting" in evaluation.printed
    assert "nothing left to ask" in evaluation.repeated
    assert "starting" not in evaluation.repeated
