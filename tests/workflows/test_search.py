"""A search as a run: its rounds are journalled and resumed, its study is found by itself, and what it found is exported."""

import re
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from tenacity import wait_none

import tomserve
from tests.conftest import Endpoint, completion, running
from tests.weakness.designs import DESIGN, tell, weak_in
from tomserve.engine import retry
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.items import read_items
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Listener
from tomserve.weakness.design import DESIGNS
from tomserve.web.accounts import Person
from tomserve.web.routes.experiments import form_like_run
from tomserve.web.run_index import RunIndex
from tomserve.workflows.search import SearchOptions, export_found

BUDGET, RIGHT = 200, weak_in(colour="red")


def script(body: dict[str, Any], _: int) -> dict[str, Any] | None:
    """An answer that is mostly wrong where the box is red."""
    if (said := re.search(r"Story (\d+) by (\d+) is told as (\d)", str(body["messages"]))) is None:
        return None
    number, seed, telling = map(int, said.groups())
    item = tell(seed, number, False)[telling - 1]
    other = next(choice for choice in item.choices if choice != item.answer)
    return completion(orjson.dumps({"answer": item.answer if RIGHT(item) else other}).decode())


@pytest.fixture
def answering(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """An endpoint that fails red boxes, asked about the small design."""
    monkeypatch.setitem(DESIGNS, "worlds", DESIGN)
    endpoint.script = script
    return endpoint


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished search, which the tests copy."""
    with pytest.MonkeyPatch.context() as patched, running() as server:
        patched.setitem(DESIGNS, "worlds", DESIGN)
        server.script = script
        return search(server, tmp_path_factory.mktemp("runs") / "whole").folder


@pytest.fixture
def done(whole: Path, answering: Endpoint, tmp_path: Path) -> Path:
    """A copy of the finished search."""
    return Path(shutil.copytree(whole, tmp_path / "runs/whole"))


def search(endpoint: Endpoint, run: Path, **options: Any) -> tomserve.Run:
    given: SearchOptions = {"budget": BUDGET, "base_url": endpoint.url, "run": run, **options}  # type: ignore[typeddict-item]
    return tomserve.search(**given)


def rows(run: Path) -> dict[str, str]:
    lines = (run / "responses.jsonl").read_bytes().splitlines()
    return {row["item"]: row["text"] for row in map(orjson.loads, lines)}


def test_a_search_is_an_ordinary_run_with_its_own_study(done: Path) -> None:
    manifest = Manifest.read(done)
    assert manifest is not None
    assert (manifest.study, manifest.benchmark, manifest.complete) == ("search", "worlds", True)
    assert manifest.settings == {"search": {"benchmark": "worlds", "budget": BUDGET, "seed": 0}}
    assert {item.id for item in read_items(done / "items.jsonl")} == set(rows(done))
    scores = tomserve.load_scores(str(done))
    first = tomserve.analyze(scores, "search")["cells"].row(0, named=True)
    assert (first["cell"], first["weak"]) == ("colour=red", True)
    assert first["finding"].startswith("fails where the box is red: ")


class Totals(Listener):
    """Keeps of how many questions each round is shown to be."""

    def __init__(self) -> None:
        self.totals: list[int] = []

    def begin_phase(self, total: int, done: int) -> None:
        self.totals.append(total)


def test_a_killed_search_is_resumed_exactly(done: Path, answering: Endpoint, tmp_path: Path) -> None:
    lines = (done / "responses.jsonl").read_bytes().splitlines(keepends=True)
    for kept, torn in ((70, b'{"item": "torn'), (len(lines) - 5, b"")):
        run = tmp_path / f"runs/{kept}"
        shutil.copytree(done, run)
        (run / "responses.jsonl").write_bytes(b"".join(lines[:kept]) + torn)
        listener = Totals()
        search(answering, run, progress=listener)
        assert listener.totals == [BUDGET] * (len(listener.totals) - 1) + [len(lines)], "rounds to come count"
        assert rows(run) == rows(done)
        assert (run / "items.jsonl").read_bytes() == (done / "items.jsonl").read_bytes()


def test_an_experiment_that_searches_is_the_same_search(done: Path, answering: Endpoint, cli, tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(f"schema: 1\nbase-url: {answering.url}\nbenchmark: worlds\nsearch: {BUDGET}\nrun: again\n")
    assert cli("eval", "--config", file, "--benchmark", "worlds", "--quiet").code == 0
    assert rows(tmp_path / "runs/again") == rows(done)
    (like,) = (form_like_run(line).experiment for line in RunIndex().lines(Person()) if line.name == "whole")
    assert like is not None
    assert like.search == BUDGET
    file.write_text(file.read_text() + "limit: 5\n")
    assert (
        "experiment.yaml:4: search: limit: a search draws its own questions"
        in cli("eval", "--config", file, "--benchmark", "worlds").err
    )


def test_a_finished_search_asks_nothing_more_and_keeps_its_settings(done: Path, answering: Endpoint) -> None:
    before = (done / "responses.jsonl").read_bytes()
    search(answering, done)
    assert (done / "responses.jsonl").read_bytes() == before
    with pytest.raises(RunMismatchError, match="settings of this run"):
        search(answering, done, budget=BUDGET + 100)


def test_a_search_waits_for_requests_that_failed(answering: Endpoint, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(retry, "wait_random_exponential", lambda **_: wait_none())
    answering.script = lambda body, n: {"choices": []} if "3 by" in str(body["messages"]) else script(body, n)
    assert search(answering, tmp_path / "runs/r").failures
    assert len(rows(tmp_path / "runs/r")) <= 48
    answering.script = script
    assert not search(answering, tmp_path / "runs/r").failures
    assert len(rows(tmp_path / "runs/r")) > 100


def test_what_was_found_is_exported_and_asked_of_another_model(done: Path, answering: Endpoint, cli, tmp_path) -> None:
    sheet = export_found(done, tmp_path / "hard.jsonl").read_text("utf-8")
    items = list(read_items(tmp_path / "hard.jsonl"))
    assert {item.factors["part"] for item in items} == {"confirmed", "random", "twin"}
    assert "adversarial to one model" in sheet
    assert "## Where the box is red" in sheet
    assert sheet.count("\n- Story") == 10
    assert "&lt;anew>" in sheet  # a story is no HTML
    told = orjson.loads((done / "manifest.json").read_bytes())
    odd = dict.fromkeys(("tomserve", "created"), "<img src=x>\n\n# Mine")
    (done / "manifest.json").write_bytes(orjson.dumps(told | odd))
    by_a_stranger = export_found(done, tmp_path / "hard.jsonl").read_text("utf-8")
    assert "<img" not in by_a_stranger
    assert "\n# Mine" not in by_a_stranger
    (done / "manifest.json").write_bytes(orjson.dumps(told))
    items_of = ("--benchmark", "items", "--path", tmp_path / "hard.jsonl", "--strategy", "vanilla")
    shown = cli(
        "eval", *items_of, "--run", "other", "--base-url", answering.url
    )  # the other model is the same one here
    assert "colour=red" in shown.out, shown.err
    export_found(done, tmp_path / "hard.jsonl")
    (tmp_path / "README.md").write_text("# My notes\n")
    with pytest.raises(ConfigError, match=r"README\.md: is there already, and no datasheet"):
        export_found(done, tmp_path / "README.jsonl")
    assert not (tmp_path / "README.jsonl").exists()
    with pytest.raises(ConfigError, match=r"expected NAME\.jsonl"):
        export_found(done, tmp_path / "hard.md")
    (done / "responses.jsonl").write_bytes((done / "responses.jsonl").read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(ConfigError, match="is no search"):
        export_found(Path("runs/example"), tmp_path / "none.jsonl")


def test_the_command_prints_the_weak_cell_on_one_screen(answering: Endpoint, cli, tmp_path: Path) -> None:
    asked = ("search", "--base-url", answering.url, "--budget", BUDGET, "--no-report", "--quiet")
    shown = cli(*asked, "--export", tmp_path / "found.jsonl")
    assert shown.code == 0, shown.err
    assert "Where does it break?" in shown.out
    assert "colour=red" in shown.out
    assert len(shown.out.splitlines()) <= 27
    assert (tmp_path / "found.md").exists()
    assert "search-worlds-tiny" in shown.out
