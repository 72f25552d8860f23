"""Inspect's own viewer, in a real browser, shows the logs that we write."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from tomserve.interop.answered import Replies
from tomserve.interop.inspect_export import export
from tomserve.runs.listening import Silent
from tomserve.serving.ports import free_port


@pytest.fixture
def log(runs: dict[str, Path], tmp_path: Path) -> Path:
    """A log of questions with odd ids, three samples each, among them failures."""
    path = tmp_path / "logs/odd.eval"
    path.parent.mkdir()
    export(Replies(runs["odd"]), "vanilla", path, Silent())
    return path


@pytest.mark.system
def test_the_viewer_shows_task_score_and_a_samples_text(log: Path, browser: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile(log) as found:
        head = orjson.loads(found.read("header.json"))
        samples = [orjson.loads(found.read(name)) for name in found.namelist() if name.startswith("samples/")]
    sample, thought = next(
        (one, part["reasoning"])
        for one in samples
        if one["id"] != ".."  # which the addresses of the viewer cannot hold
        if isinstance(content := one["messages"][-1]["content"], list)
        for part in content
        if part["type"] == "reasoning" and part["reasoning"].startswith("Let me think")
    )
    name, epoch = sample["id"], sample["epoch"]
    accuracy = head["results"]["scores"][0]["metrics"]["accuracy"]["value"]
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("INSPECT_", "TOMSERVE_"))}
    program = Path(sys.executable).with_name("inspect")
    server = subprocess.Popen(
        [program, "view", "start", "--log-dir", log.parent, "--host", "127.0.0.1", "--port", str(port)],
        cwd=tmp_path,
        env=kept,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/", server)
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/#/logs/{log.name}")
        page.get_by_text("24 rows").wait_for(timeout=60_000)
        shown = page.inner_text("body")
        assert "demo" in shown
        assert "tomserve/tiny" in shown
        assert f"{accuracy:.3f}" in shown
        assert "STDERR[CLUSTER]" in shown.upper()
        page.get_by_text(name, exact=True).nth(epoch - 1).click()
        page.get_by_text(f"Sample {name} (Epoch {epoch})").first.wait_for(timeout=60_000)
        page.get_by_text("Question: What does Ada believe is in the jar?").last.wait_for(timeout=60_000)
        page.get_by_text(thought).first.wait_for(timeout=60_000)
        shown = page.inner_text("body")
        assert f"Jar number {sample['metadata']['level']} holds tea." in shown
        assert sample["target"] in shown
        page.close()
    finally:
        server.terminate()
        server.wait(30)


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers."""
    until = time.monotonic() + 120
    while True:
        assert server.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(url, timeout=5) as found:
                assert found.status == 200
                return
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.1)
