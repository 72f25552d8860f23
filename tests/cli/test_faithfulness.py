"""The command `faithfulness`: what it says before, while and after it asks, and how it refuses."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import tomserve
from tests.conftest import ROOT, Endpoint, running
from tests.helpers.answerers import Answerer
from tests.helpers.command import TOMSERVE, environment
from tomserve.items import Item
from tomserve.runs.manifest import Manifest

Cli = Callable[..., Any]
LEFT = ("none", "late_label", "untrustworthy_testimony")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return [one for one in tomserve.load("perturbed") if one.factors["perturbation"] in LEFT]


@pytest.fixture
def server(items: list[Item]) -> Iterator[Endpoint]:
    with running() as found:
        found.script = Answerer(items, follows=1.0, wrong=0.15)
        yield found


@pytest.fixture
def source(server: Endpoint, items: list[Item]) -> Path:
    return tomserve.ask(items, ["vanilla", "cot"], base_url=server.url, run="mine").folder


def said(text: str) -> str:
    return " ".join(text.split())


def test_it_measures_prints_its_tables_and_writes_a_report(
    cli: Cli, server: Endpoint, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = cli("faithfulness", "mine", "--base-url", server.url, "--limit", 40)
    assert found.code == 0, found.out + found.err
    text = said(found.out)
    assert "the answer follows the chain" in text
    assert re.search(r"prompts: [\d,]+ tokens, 50% of them from the server's cache", text)
    folder = source.parent / "faithfulness-mine"
    assert f"run: {folder}" in text
    assert f"report: {folder / 'report.html'}" in text
    manifest = Manifest.read(folder)
    assert manifest is not None
    assert (manifest.measured, manifest.complete, manifest.study) == (True, True, "faithfulness")
    assert manifest.settings["of"] == "mine"
    page = (folder / "report.html").read_text()
    assert "the answer follows the chain" in page.casefold()
    again = cli("faithfulness", "mine", "--base-url", server.url, "--limit", 40)
    assert again.code == 0
    assert "nothing left to ask" in again.out
    assert cli("analyze", "faithfulness-mine").code == cli("report", "faithfulness-mine").code == 0


def test_a_plan_needs_no_server_and_says_how_much_would_be_asked(cli: Cli, source: Path, server: Endpoint) -> None:
    count = len(server.requests)
    found = cli("faithfulness", "mine", "--plan", "--limit", 10)
    assert found.code == 0, found.err
    assert "chains: 10 of cot" in found.out
    assert re.search(r"requests: [\d,]+ \([\d,]+ after edited chains, [\d,]+ with hints\)", found.out)
    assert len(server.requests) == count
    assert not (source.parent / "faithfulness-mine").exists()


def test_plan_counts_faithfulness_before_there_is_a_run(cli: Cli) -> None:
    found = cli("plan", "--benchmark", "perturbed", "--faithfulness")
    assert found.code == 0, found.err
    (row,) = [line for line in found.out.splitlines() if line.startswith("cot ") and "136" in line]
    assert row.split()[1:5] == ["136", str(13 * 136), str(10 * 136), str(23 * 136)]
    refused = cli("plan", "--benchmark", "perturbed", "--faithfulness", "--strategy", "vanilla")
    assert refused.code == 2
    assert "none of vanilla marks where its reasoning is" in refused.err


def test_quiet_prints_tables_and_paths_alone(cli: Cli, server: Endpoint, source: Path) -> None:
    found = cli(
        "faithfulness", "mine", "--base-url", server.url, "--limit", 8, "--probe", "edits", "--quiet", "--no-report"
    )
    assert found.code == 0, found.err
    assert "asking" not in found.out
    assert "from the server's cache" not in found.out
    assert "run: " in found.out


def test_requests_without_a_reply_end_in_exit_code_1(
    cli: Cli, server: Endpoint, source: Path, items: list[Item]
) -> None:
    model = server.script

    def refuses(body: dict[str, Any], number: int) -> Any:
        filler = ". . ." in body["messages"][-1]["content"]
        return web.json_response({"error": {"message": "too long"}}, status=400) if filler else model(body, number)

    server.script = refuses
    found = cli("faithfulness", "mine", "--base-url", server.url, "--limit", 8, "--probe", "edits", "--no-report")
    assert found.code == 1, found.out + found.err
    assert "failures: 8 http_400; final, not asked again" in said(found.out)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nowhere",), "unknown run 'nowhere'"),
        (("mine", "--probe", "hint"), "unknown probe 'hint'; did you mean 'hints'"),
        (("mine", "--edit", "gould"), "unknown edit 'gould'; did you mean 'gold'"),
        (("mine", "--shown", "prefil"), "unknown way of showing chains 'prefil'; did you mean 'prefill'"),
        (("mine", "--strategy", "vanilla"), "none of its answers has a chain that can be edited"),
        (("mine", "--where", "stage=Z"), "no item has stage=Z"),
        (("mine", "--predictor-model", "x"), "--predictor-model names a model at an address; give that by --predictor"),
        (("mine", "--run", "mine"), "holds a model's answers and no measurement"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    cli: Cli, server: Endpoint, source: Path, arguments: tuple[str, ...], text: str
) -> None:
    found = cli("faithfulness", *arguments, "--base-url", server.url)
    assert found.code == 2, found.out + found.err
    (line,) = found.err.splitlines()
    assert text in line


def test_a_run_that_holds_a_measurement_has_no_chains(cli: Cli, server: Endpoint, source: Path) -> None:
    assert cli("faithfulness", "mine", "--base-url", server.url, "--limit", 4, "--no-report").code == 0
    found = cli("faithfulness", "faithfulness-mine", "--base-url", server.url)
    assert found.code == 2
    assert "holds a measurement and no answers" in found.err


def test_ctrl_c_ends_by_130_and_the_same_command_goes_on(server: Endpoint, source: Path, tmp_path: Path) -> None:
    server.delay = 0.05
    command = [*TOMSERVE, "faithfulness", "mine", "--base-url", server.url, "--limit", "20", "--concurrency", "2"]
    surroundings = {**environment(source.parent), "TOMSERVE_CONTENT": str(ROOT)}
    process = subprocess.Popen(
        [*command, "--no-report"], env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    journal = source.parent / "faithfulness-mine/work/replies.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.stat().st_size > 5000):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "repeat the command to resume" in said(err)
    assert "Traceback" not in err
    server.delay = 0
    done = subprocess.run([*command, "--no-report"], env=surroundings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
