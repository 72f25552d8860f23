"""Batch files that a real vLLM answers, by its command `run-batch` on the CPU."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.outcomes import passes
from tomserve.runs.journal import read_rows
from tomserve.serving import install, serve
from tomserve.serving.server import free_port

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]

OF_SERVERS = ("--host", "--port", "--max-num-queued-reqs")
"""Flags of a server that `run-batch` does not have."""


def test_what_vllm_answers_in_a_batch_becomes_a_run(tmp_path: Path, cli: Any) -> None:
    asked = tmp_path / "asked.jsonl"
    options = ("--benchmark", "perturbed", "--model", "reference", "--strategy", "vanilla", "--limit", "8")
    passes(cli("export", "batch", *options, "--max-tokens", "40", "--run", "r", "--out", asked))
    long = asked.read_bytes().splitlines()[0].replace(b'"max_tokens":40', b'"max_tokens":99999')
    asked.write_bytes(asked.read_bytes().replace(asked.read_bytes().splitlines()[0], long))
    (replica,) = serve.plan_replicas(serve.ServeOptions("reference", port=free_port()))
    words, env = replica.command.argv, replica.command.env
    at = words.index("serve")
    model, flags = words[at + 1], words[at + 2 :]
    kept = [word for place, word in enumerate(flags) if not {word, *flags[max(0, place - 1) : place]} & set(OF_SERVERS)]
    command = [*words[:at], "run-batch", "-i", asked, "-o", tmp_path / "answered.jsonl", "--model", model, *kept]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    read = cli("import", "batch", tmp_path / "answered.jsonl", "--run", "r")
    assert read.code == 1, read.err  # the one request that wants more tokens than the model has room for
    assert "8 rows added from 8 results: 1 http_400, 7 ok" in read.out, read.out
    rows = [row for _, row in read_rows(tmp_path / "runs/r/responses.jsonl")]
    assert {row["served_model"] for row in rows if row["status"] == "ok"} == {"reference"}
    assert all(row["usage"]["prompt"] > 100 for row in rows if row["status"] == "ok")
    assert all("token" in row["error"] for row in rows if row["status"] != "ok")
    scored = cli("score", "r", "--out", tmp_path / "scores.csv")
    assert scored.code in (0, 1), scored.err
    assert (tmp_path / "scores.csv").read_text().count("\n") == 9
