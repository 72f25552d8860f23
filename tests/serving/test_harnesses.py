"""The model that comes with tomserve, behind a real vLLM, asked the same questions by `tomserve eval`, by Inspect and by
lm-evaluation-harness."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tomserve
from tests.helpers.command import ready
from tests.helpers.forked import Forge
from tomserve.interop.asking_inside import Asking
from tomserve.runs.scores import load_scores
from tomserve.serving import install
from tomserve.serving.ports import free_port

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.skipif(install.engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]

MOST = 24


@pytest.fixture(scope="module")
def served(forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of the reference model."""
    folder = tmp_path_factory.mktemp("served")
    port = free_port()
    with (folder / "log").open("w") as log:
        process = forge.tomserve(
            "serve", "reference", "--port", str(port), runs=folder / "runs", stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + 400
        while not ready(folder / "runs/.servers" / f"{port}.json"):
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            assert time.monotonic() < until
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


@pytest.fixture(scope="module")
def ours(served: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Any]]]:
    """The scores of `tomserve eval`, by strategy and question."""
    run = tmp_path_factory.mktemp("ours") / "run"
    asked = tomserve.ask("perturbed", ["vanilla", "cot"], base_url=served, run=run, limit=MOST, concurrency=1)
    rows = load_scores(str(asked.folder)).to_dicts()
    return {name: {row["item"]: row for row in rows if row["strategy"] == name} for name in ("vanilla", "cot")}


def test_inspects_answers_are_ours(served: str, ours: dict[str, dict[str, dict[str, Any]]], tmp_path: Path) -> None:
    from inspect_ai import eval as evaluate

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("VLLM_API_KEY", "none")
        (log,) = evaluate(
            "tomserve/perturbed",
            model="vllm/reference",
            model_base_url=served,
            task_args={"strategy": "cot", "limit": MOST},
            log_dir=str(tmp_path / "logs"),
            display="none",
            max_connections=1,
            max_retries=1,
        )
    assert log.status == "success", log.error
    found = ours["cot"]
    assert len(found) == len(log.samples) > 10
    for sample in log.samples:
        row, score = found[sample.id], sample.scores["tomserve"]
        assert (score.value == "C", score.answer) == (row["correct"], row["answer"]), sample.id
        assert score.metadata.get("chain") == row["chain"]
        assert score.metadata.get("chain_lcs") == row["chain_lcs"]


@pytest.mark.parametrize("schema", [True, False], ids=["with the schema", "without it"])
def test_lm_evals_answers_are_ours_where_the_schema_is_sent(
    served: str, ours: dict[str, dict[str, dict[str, Any]]], schema: bool
) -> None:
    """What differs without it are the replies that the schema would not have let through."""
    from lm_eval import evaluator
    from lm_eval.tasks import TaskManager

    from tomserve.interop.lm_eval import FOLDER

    task = "tomserve_perturbed_vanilla"
    told = {"most": MOST, "schema": schema}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HF_HUB_OFFLINE", "1")
        found = evaluator.simple_evaluate(
            model="local-chat-completions",
            model_args=f"model=reference,base_url={served}/chat/completions,num_concurrent=1",
            tasks=[task],
            task_manager=TaskManager(include_path=str(FOLDER), include_defaults=False, metadata=told),
            apply_chat_template=True,
            log_samples=True,
            bootstrap_iters=0,
        )
    scores, samples = ours["vanilla"], {one["doc"]["id"]: one for one in found["samples"][task]}
    assert set(samples) == set(scores)
    rows = [{"item": name, "strategy": "vanilla", "text": one["resps"][0][0]} for name, one in samples.items()]
    again = {row["item"]: row for row in tomserve.score(rows, Asking.of("perturbed", limit=MOST).items).to_dicts()}
    assert {name: bool(one["acc"]) for name, one in samples.items()} == {n: row["correct"] for n, row in again.items()}
    differing = {name for name, row in again.items() if row["answer"] != scores[name]["answer"]}
    assert len(differing) <= MOST // 2
    if schema:
        assert not differing
    assert all(again[name]["answer"] is None and again[name]["status"] == "invalid" for name in differing)
