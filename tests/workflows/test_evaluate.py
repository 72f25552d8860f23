"""`ask` and `aask` from wherever Python runs: a script, a thread, a coroutine, a notebook's loop.
Loading, scoring, analysing and comparing from Python.
What `tomserve doctor` tells of an endpoint before an evaluation."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import orjson
import pytest
from tenacity import wait_none

import tomserve
from tests.conftest import Endpoint, make_item
from tests.helpers import endpoints
from tests.helpers.command import journal
from tests.helpers.endpoints import ENDINGS, PROVIDERS, Behaviour, Server, items
from tests.helpers.examples import copied_example
from tests.helpers.talking import write_strategy
from tomserve.engine import retry
from tomserve.errors import ConfigError, ServerError
from tomserve.runs.planning import EvalOptions
from tomserve.runs.runfolder import RunFolder
from tomserve.workflows.endpoint_check import check_endpoint

ITEMS = [make_item(number) for number in range(1, 9)]


def test_items_are_asked_without_a_file_of_them(endpoint: Endpoint, tmp_path: Path, capfd) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    run = tomserve.ask(ITEMS, "vanilla", base_url=endpoint.url)
    assert run.folder == tmp_path / "runs/demo-tiny"
    assert run.failures == {}
    assert list(tomserve.read_items(str(run.folder / "items.jsonl"))) == ITEMS
    assert (run.manifest.benchmark, run.manifest.benchmark_items, run.manifest.complete) == ("demo", 8, True)
    assert run.scores().select("strategy", "benchmark").unique().rows() == [("vanilla", "demo")]
    assert run.scores().height == 8
    assert capfd.readouterr() == ("", ""), "nothing is printed unless it is wanted"
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


def test_a_benchmark_is_asked_by_its_name_and_resumed(endpoint: Endpoint, tmp_path: Path) -> None:
    run = tomserve.ask("perturbed", base_url=[endpoint.url], limit=4, run="r")
    assert {row["strategy"] for row in journal(run.folder)} == {"vanilla", "cot"}
    assert tomserve.ask("perturbed", base_url=endpoint.url, limit=6, run=run.folder).folder == run.folder
    assert len(endpoint.requests) == len(journal(run.folder)) == 12
    assert tomserve.Run.open("r") == run == tomserve.Run.open(run.folder)


def test_within_a_running_loop(endpoint: Endpoint) -> None:
    """As in a notebook: `ask` from a cell, `await aask` from the next, two at a time."""

    async def cells() -> list[tomserve.Run]:
        first = tomserve.ask(ITEMS, "vanilla", base_url=endpoint.url, run="a")
        second = await tomserve.aask(ITEMS, "vanilla", base_url=endpoint.url, run="b")
        both = (tomserve.aask(ITEMS, "cot", base_url=endpoint.url, run=name) for name in ("c", "d"))
        return [first, second, *await asyncio.gather(*both)]

    runs = asyncio.run(cells())
    assert [run.folder.name for run in runs] == ["a", "b", "c", "d"]
    assert all(len(journal(run.folder)) == 8 and run.manifest.complete for run in runs)


def test_failures_are_counted_not_raised(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "wait_random_exponential", lambda **_: wait_none())
    endpoint.script = lambda body, n: {"choices": []} if n > 3 else None
    run = tomserve.ask(ITEMS, "vanilla", base_url=endpoint.url, run="r", concurrency=1)
    assert set(run.failures) == {"malformed"}
    assert tomserve.Run.open("r").failures == run.failures
    assert run.scores().filter(status="malformed").height == run.failures["malformed"] > 0


@pytest.mark.parametrize(
    ("questions", "options", "error", "said"),
    [
        ([], {}, ConfigError, "there are no items to ask"),
        (iter([ITEMS[0], ITEMS[0]]), {}, ConfigError, "two of the items have the id 'demo/1'"),
        (ITEMS, {"path": "x.jsonl"}, ConfigError, "path and gold belong to a benchmark given by name"),
        (ITEMS, {"limit": 0}, ConfigError, "limit is 0; expected a whole number from 1 on"),
        (ITEMS, {"base_url": "http://127.0.0.1:9/v1"}, ServerError, "no server answers there"),
        (ITEMS, {"bas_url": "x"}, TypeError, "unexpected keyword argument 'bas_url'"),
    ],
)
def test_errors_are_raised_with_the_way_out(endpoint: Endpoint, questions, options, error, said) -> None:
    with pytest.raises(error, match=said):
        tomserve.ask(questions, **{"base_url": endpoint.url, **options})
    assert not endpoint.requests


def test_what_is_cancelled_can_be_resumed(endpoint: Endpoint, tmp_path: Path) -> None:
    third = threading.Event()
    endpoint.script = lambda body, n: third.set() if n == 3 else None
    endpoint.hold = lambda body: third.is_set()

    async def impatient() -> None:
        asking = asyncio.create_task(
            tomserve.aask(ITEMS, "vanilla", base_url=endpoint.url, run="r", concurrency=1, timeout=60)
        )
        await asyncio.to_thread(third.wait, 30)
        asking.cancel()
        await asking

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(impatient())
    kept = len(journal(tmp_path / "runs/r"))
    assert 2 <= kept < 8
    third.clear()
    endpoint.script = lambda body, n: None
    with RunFolder(tmp_path / "runs/r"):
        pass  # nobody holds it any more
    run = tomserve.ask(ITEMS, "vanilla", base_url=endpoint.url, run="r")
    assert run.manifest.complete
    assert len(journal(run.folder)) == 8


@pytest.mark.system
def test_an_interrupt_in_a_running_loop_lets_what_is_in_flight_come_back(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.delay = 1.0
    code = (
        "import asyncio, sys, tomserve\n"
        "from tests.conftest import make_item\n"
        "async def cell():\n"
        f"    tomserve.ask([make_item(n) for n in range(40)], 'vanilla', base_url={endpoint.url!r}, run='r', concurrency=2)\n"
        "try: asyncio.new_event_loop().run_until_complete(cell())  # as a notebook does: Ctrl-C is Python's own\n"
        "except KeyboardInterrupt: sys.exit(77)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ}) as process:
        deadline = time.monotonic() + 60
        while len(endpoint.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 77
    rows = journal(tmp_path / "runs/r")
    assert 2 <= len(rows) < 40
    assert {row["status"] for row in rows} == {"ok"}


RESPONSES = [
    {"item": "demo/1", "text": "Answer: tea"},
    {"item": "demo/2", "text": '{"answer": "salt"}', "strategy": "cot", "model": "other"},
]


@pytest.fixture(autouse=True)
def example(tmp_path: Path) -> Path:
    return copied_example(tmp_path / "runs")


def test_foreign_answers_are_scored_from_memory_and_from_files_alike(tmp_path: Path) -> None:
    items = [make_item(1), make_item(2)]
    scores = tomserve.score(RESPONSES, items, model="theirs")
    assert scores.select("model", "strategy", "item", "answer", "correct").rows() == [
        ("theirs", "vanilla", "demo/1", "tea", True),
        ("other", "cot", "demo/2", "salt", False),
    ]
    responses, file = tmp_path / "responses.jsonl", tmp_path / "items.jsonl"
    responses.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in RESPONSES))
    file.write_bytes(b"".join(item.to_json() + b"\n" for item in items))
    assert tomserve.score(str(responses), file, model="theirs").equals(scores)
    assert tomserve.analyze(scores, "accuracy")["accuracy"].height


def test_a_run_gives_its_scores_tables_and_report(example: Path, tmp_path: Path) -> None:
    run = tomserve.Run.open(example)
    assert run.scores().equals(tomserve.load_scores("example"))
    assert tomserve.load_scores(run).equals(tomserve.load_scores(example))
    assert run.report(tmp_path / "r.html").read_text().startswith("<!doctype html>")

    assert {"accuracy", "failures"} <= set(tomserve.analyze(run.scores(), intervals="published"))
    with pytest.raises(ConfigError, match="no run there"):
        tomserve.Run.open("exampel")
    with pytest.raises(ConfigError, match="unknown intervals"):
        tomserve.analyze(run.scores(), intervals="wide")


KNOWN = {**ENDINGS, **PROVIDERS}
TOLD = {
    "vLLM": {
        "requests": (True, "accepted as they are"),
        "model": (True, "org/m, loaded from org/m; engine version 0.31.0"),
        "models": (True, "serves org/m"),
        "schema": (True, "enforced"),
        "context": (True, "8,192 tokens"),
        "prompts": (True, "no sign"),
        "replies": (True, "8 of 8"),
        "speed": (True, "replies and .* reply tokens a second, 8 at a time"),
        "cost": (True, "all of items: 12 requests"),
    },
    "a temperature and a schema that is not kept": {
        "requests": (True, "of vanilla: accepted, adapted as follows"),
        "adapted": (True, "no_temperature: .*may differ between runs"),
        "schema": (None, "not enforced: replies are read"),
    },
    "Ollama": {"prompts": (None, "cuts prompts off: it counted 2,050")},
    "no list of models": {"models": (None, "HTTP 404"), "context": (None, "unknown"), "replies": (True, "8 of 8")},
    "a schema refused": {"evaluation": (False, "--schema off")},
    "a key that is missing": {"evaluation": (False, "You didn't provide an API key")},
}
LOOSE = Behaviour(endpoints.refuses("temperature", endpoints.NO_TEMPERATURE), schemas=())


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told(name: str, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behaviour = KNOWN.get(name, LOOSE)
    for variable, value in behaviour.environment.items():
        monkeypatch.setenv(variable, value)
    endpoint.first = Server(behaviour)
    path = tmp_path / "items.jsonl"
    path.write_bytes(b"".join(item.to_json() + b"\n" for item in items()))
    url = behaviour.url.replace("ROOT", f"http://127.0.0.1:{endpoint.port}")
    options = EvalOptions("items", path=path, strategies=("vanilla",), base_urls=(url,), **behaviour.options)
    found = {one.what: one for one in reversed(list(check_endpoint(options)))}
    for what, (holds, said) in TOLD[name].items():
        assert found[what].holds is holds, found
        assert re.search(said, found[what].said), found[what]
    assert ("evaluation" in found) == ("evaluation" in TOLD[name])


def test_turns_of_a_conversation_are_requests_and_no_questions(endpoint: Endpoint, tmp_path: Path) -> None:
    path, two = tmp_path / "items.jsonl", write_strategy(tmp_path / "two", 2)
    path.write_bytes(b"".join(item.to_json() + b"\n" for item in items()))
    options = EvalOptions("items", path=path, strategies=(str(two),), base_urls=(endpoint.url,))
    found = {one.what: one.said for one in check_endpoint(options)}
    assert found["replies"].startswith("8 of 8 questions")
    assert found["cost"].startswith("all of items: 24 requests")


def test_the_command_fails_where_no_evaluation_could_be_run(endpoint: Endpoint, cli, items_file: Path) -> None:
    asked = ("doctor", "--benchmark", "items", "--path", items_file, "--base-url")
    done = cli(*asked, endpoint.url)
    assert (done.code, done.err) == (0, "")
    assert re.search(r"ok   model +tiny; engine version 0\.0\.test\nok   models +serves tiny\nok   requests", done.out)
    lost = cli(*asked, "http://127.0.0.1:1/v1")
    assert lost.code == 1
    assert "FAIL evaluation  no server answers there" in lost.out
