"""The command `faithfulness`: what it says before, while and after it asks, and how it refuses."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.conftest import Cli, Endpoint, running
from tests.helpers.answerers import Answerer, finished, some_items
from tests.helpers.outcomes import passes, refuses
from tomserve.items import Item
from tomserve.runs.manifest import Manifest

EDITS = ("--probe", "edits", "--no-report")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return some_items()


@pytest.fixture(scope="module")
def answered(items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(items, ["vanilla", "cot"], tmp_path_factory.mktemp("answered") / "mine", wrong=0.15)


@pytest.fixture
def server(items: list[Item]) -> Iterator[Endpoint]:
    with running() as found:
        found.script = Answerer(items, follows=1.0, wrong=0.15)
        yield found


@pytest.fixture
def source(answered: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(answered, tmp_path / "runs/mine"))


def said(text: str) -> str:
    return " ".join(text.split())


def test_it_measures_prints_its_tables_and_writes_a_report(cli, server: Endpoint, source: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    planned = passes(cli("faithfulness", "mine", "--plan", "--limit", 10))
    assert len(planned.out.splitlines()) < 25
    assert re.search(r"^chains +10 of cot$", planned.out, re.M)
    assert re.search(r"requests +[\d,]+ \([\d,]+ after edited chains, [\d,]+ with hints\)", planned.out)
    folder = source.parent / "faithfulness-mine"
    assert (server.requests, folder.exists()) == ([], False), "a plan needs no server"
    found = passes(cli("faithfulness", "mine", "--base-url", server.url, "--limit", 28, "--all"))
    text = said(found.out)
    assert "the answer follows the chain" in text
    assert re.search(r"prompts: [\d,]+ tokens, 50% of them from the server's cache", text)
    assert f"run: {folder}" in text
    assert f"report: {folder / 'report.html'}" in text
    manifest = Manifest.read(folder)
    assert (manifest.measured, manifest.complete, manifest.study) == (True, True, "faithfulness")
    assert manifest.settings["of"] == "mine"
    assert "the answer follows the chain" in (folder / "report.html").read_text().casefold()
    passes(cli("analyze", "faithfulness-mine"))
    refuses(cli("faithfulness", "faithfulness-mine", "--base-url", server.url), "holds a measurement and no answers")


def test_requests_without_a_reply_end_in_exit_code_1_and_are_told_again(cli, server: Endpoint, source: Path) -> None:
    model = server.script

    def refuses(body: dict[str, Any], number: int) -> Any:
        filler = ". . ." in body["messages"][-1]["content"]
        return web.json_response({"error": {"message": "too long"}}, status=400) if filler else model(body, number)

    server.script = refuses
    command = ("faithfulness", "--base-url", server.url, "--limit", 4, *EDITS)  # of the newest run of answers
    first, again = cli(*command), cli(*command, "--quiet")
    assert (first.code, again.code) == (1, 1)
    assert "failures: 4 http_400; final, not asked again" in said(first.out)
    assert "4 http_400; final, not asked again" in again.out + again.err
    assert "nothing left to ask" in again.out
    assert "run: " in again.out
    assert not [word for word in ("asking", "from the server's cache") if word in again.out], "quiet"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nowhere",), "unknown run 'nowhere'"),
        (("mine", "--probe", "hint"), "unknown probe 'hint'; did you mean 'hints'"),
        (("mine", "--edit", "gould"), "unknown edit 'gould'; did you mean 'gold'"),
        (("mine", "--strategy", "vanilla"), "none of its answers has a chain that can be edited"),
        (("mine", "--predictor-model", "x"), "--predictor-model names a model at an address; give that by --predictor"),
        (("mine", "--run", "mine"), "holds a model's answers and no measurement"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    cli: Cli, server: Endpoint, source: Path, arguments: tuple[str, ...], text: str
) -> None:
    found = refuses(cli("faithfulness", *arguments, "--base-url", server.url))
    (line,) = found.err.splitlines()
    assert text in line


def test_plan_counts_faithfulness_before_there_is_a_run(cli: Cli) -> None:
    found = passes(cli("plan", "--benchmark", "perturbed", "--faithfulness"))
    (row,) = [line for line in found.out.splitlines() if line.startswith("cot ") and "136" in line]
    assert row.split()[1:5] == ["136", str(13 * 136), str(18 * 136), str(31 * 136)]
    refuses(
        cli("plan", "--benchmark", "perturbed", "--faithfulness", "--strategy", "vanilla"),
        "none of vanilla marks where its reasoning is",
    )
