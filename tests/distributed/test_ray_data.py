"""Batch files through Ray Data: the script in launch/ray/."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.conftest import ROOT, Cli, Endpoint
from tomserve.runs.journal import read_rows

PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("ray")]


@pytest.mark.long
def test_a_batch_file_goes_through_ray_data(cli: Cli, endpoint: Endpoint, tmp_path: Path) -> None:
    """Every request is answered with its body unchanged; one that is refused for good is told, and a busy server asked again."""
    for name in ("ray", "pyarrow", "pandas"):
        pytest.importorskip(name, reason="Ray Data needs it (`pip install 'ray[data]'`)")
    asked, answered = tmp_path / "asked.jsonl", tmp_path / "answered.jsonl"
    options = ("--benchmark", "perturbed", "--limit", "30", "--model", "tiny", "--run", "queued")
    assert cli("export", "batch", *options, "--out", asked).code == 0
    lines = [orjson.loads(line) for line in asked.read_bytes().splitlines()]
    seen: list[int] = []

    def script(body: dict[str, Any], number: int) -> web.Response | None:
        seen.append(number)
        if number <= 3:
            return web.json_response({"error": {"message": "busy"}}, status=503)
        if body == lines[7]["body"]:
            return web.json_response({"error": {"message": "too long"}}, status=400)
        return None

    endpoint.script = script
    endpoint.key = "s3cret"
    command = [sys.executable, ROOT / "launch/ray/batch.py", asked, answered, "--url", endpoint.url]
    env = {**os.environ, "PYTHONPATH": PATH, "TOMSERVE_API_KEY": "s3cret", "RAY_ADDRESS": ""}
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        env |= {"RAY_TMPDIR": folder, "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    again = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
    bodies = [orjson.dumps(body, option=orjson.OPT_SORT_KEYS) for body in endpoint.requests]
    assert set(bodies) == {orjson.dumps(line["body"], option=orjson.OPT_SORT_KEYS) for line in lines}
    assert len(bodies) == len(lines) + 3
    assert b"s3cret" not in answered.read_bytes()
    imported = cli("import", "batch", answered, "--run", "queued")
    assert imported.code in (0, 1), imported.err
    statuses = sorted(row["status"] for _, row in read_rows(tmp_path / "runs/queued/responses.jsonl"))
    assert statuses == ["http_400", *["ok"] * (len(lines) - 1)]
