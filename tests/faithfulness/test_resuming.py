"""What a measurement refuses, survives and says when it is gone on with, or meets files and servers that misbehave."""

from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from aiohttp import web

import tomserve
from tests.conftest import Endpoint
from tests.faithfulness.conftest import Source
from tests.helpers.answerers import Answerer
from tests.helpers.asking import FAST
from tomserve.errors import ConfigError, RunMismatchError, ServerError, TomserveError
from tomserve.faithfulness.measurement import MeasurementResult, measure
from tomserve.faithfulness.settings import Connection, Settings
from tomserve.items import Item


@pytest.fixture
def mine(source: Source, endpoint: Endpoint, items: list[Item]) -> Path:
    endpoint.script = Answerer(items, follows=1.0)
    return source()


def measured(endpoint: Endpoint, mine: Path, place: str = "edited", **settings: Any) -> MeasurementResult:
    wanted = {"limit": 4, "probes": ("edits",), **settings}
    return measure(Settings(run=mine, **wanted), Connection(base_urls=(endpoint.url,), policy=FAST, patience=3), place)


def halfway(endpoint: Endpoint, mine: Path) -> Path:
    model = endpoint.script

    def breaks(body: dict[str, Any], number: int) -> Any:
        return web.Response(status=500) if ". ." in body["messages"][-1]["content"] else model(body, number)

    endpoint.script = breaks
    found = measured(endpoint, mine)
    assert found.failures["http_500"] > 0
    endpoint.script = model
    return found.folder


def test_a_server_that_begins_new_replies_does_not_go_on_with_replies_that_were_begun(
    endpoint: Endpoint, mine: Path, items: list[Item]
) -> None:
    folder = halfway(endpoint, mine)
    before = pl.read_parquet(folder / "scores.parquet")
    endpoint.script = Answerer(items, follows=1.0, begins=False, holds=False)
    with pytest.raises(RunMismatchError, match="the server is another one now: it begins a new reply"):
        measured(endpoint, mine)
    endpoint.script = Answerer(items, follows=1.0, holds=False)
    with pytest.raises(RunMismatchError, match="it held replies by structured_outputs, and now does by a schema"):
        measured(endpoint, mine)
    assert pl.read_parquet(folder / "scores.parquet").equals(before)
    endpoint.script = Answerer(items, follows=1.0)
    assert not measured(endpoint, mine).failures


def test_other_weights_under_the_same_name_are_refused(endpoint: Endpoint, items: list[Item]) -> None:
    endpoint.root, endpoint.script = "org/model-a", Answerer(items)
    beliefs = [item for item in items if item.factors["question_kind"] == "belief"]
    mine = tomserve.ask(beliefs[:2], "cot", base_url=endpoint.url, run="mine").folder
    endpoint.root = "org/model-b"
    with pytest.raises(RunMismatchError, match="written by weights org/model-a, and org/model-b is served now"):
        measured(endpoint, mine)
    assert not (mine.parent / "edited").exists(), "no folder is left behind"


def test_another_revision_is_refused(endpoint: Endpoint, mine: Path) -> None:
    manifest = orjson.loads((mine / "manifest.json").read_bytes())
    (mine / "manifest.json").write_bytes(orjson.dumps({**manifest, "revision": "abc"}))
    connection = Connection(base_urls=(endpoint.url,), revision="def", policy=FAST)
    with pytest.raises(RunMismatchError, match="its chains were written by revision abc, and def is served now"):
        measure(Settings(run=mine), connection, "edited")


def test_a_server_that_is_busy_is_waited_for_and_a_broken_one_decides_nothing(endpoint: Endpoint, mine: Path) -> None:
    model, busy = endpoint.script, [0]

    def once(body: dict[str, Any], number: int) -> Any:
        if body.get("preflight") and "continue_final_message" in body:
            busy[0] += 1
            if busy[0] == 1:
                return web.Response(status=429, headers={"Retry-After": "0"})
        return model(body, number)

    endpoint.script = once
    frame = pl.read_parquet(measured(endpoint, mine).folder / "scores.parquet")
    assert set(frame.filter(outcome="ok", kind="edit")["shown"]) == {"prefill"}
    endpoint.script = lambda body, n: web.Response(status=500) if body.get("continue_final_message") else model(body, n)
    with pytest.raises(ServerError, match="HTTP 500"):
        measured(endpoint, mine, "other")


def test_answers_that_have_changed_since_are_told_so(endpoint: Endpoint, mine: Path) -> None:
    measured(endpoint, mine)
    journal = mine / "responses.jsonl"
    journal.write_bytes(journal.read_bytes() + journal.read_bytes().splitlines()[0] + b"\n")
    with pytest.raises(RunMismatchError, match="the answers of mine have changed since their chains were edited here"):
        measured(endpoint, mine)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("temperature", "a\nb", "sampling: temperature: expected a number; found 'a\\nb'"),
        ("seed", "x", "sampling: seed: expected a whole number; found 'x'"),
    ],
)
def test_a_manifest_of_a_stranger_is_read_with_care(
    endpoint: Endpoint, mine: Path, field: str, value: object, said: str
) -> None:
    manifest = orjson.loads((mine / "manifest.json").read_bytes())
    manifest["sampling"][field] = value
    (mine / "manifest.json").write_bytes(orjson.dumps(manifest))
    with pytest.raises(ConfigError) as error:
        measured(endpoint, mine)
    assert said in str(error.value)


def test_replies_and_plans_of_a_stranger_are_read_with_care(endpoint: Endpoint, mine: Path) -> None:
    folder = halfway(endpoint, mine)
    replies, plan = folder / "work/replies.jsonl", folder / "work/planned.jsonl"
    for path, spoilt, said in (
        (replies, {"text": 5}, "expected text"),
        (plan, {"item": "nobody"}, "is about no chain of mine"),
        (plan, {"strategy": "vanilla"}, "is about no chain of mine"),
    ):
        kept = path.read_bytes()
        first, rest = kept.split(b"\n", 1)
        path.write_bytes(orjson.dumps({**orjson.loads(first), **spoilt}) + b"\n" + rest)
        with pytest.raises(ConfigError, match=said):
            measured(endpoint, mine)
        path.write_bytes(kept)
    planned = plan.read_bytes()
    for line in (b"[]", b'{"item":"a","strategy":"b","kind":"c","condition":"d"}'):
        plan.write_bytes(line + b"\n")
        with pytest.raises(ConfigError, match=r"planned\.jsonl:1"):
            measured(endpoint, mine)
    plan.write_bytes(planned)
    assert not measured(endpoint, mine).failures


def test_options_of_another_kind_are_refused_in_one_line(endpoint: Endpoint, mine: Path) -> None:
    for name, values in {
        "limit": (2.5, "5", True), "shown": (5,), "predictor": (5,), "concurrency": (0, "3"), "timeout": (-1, "x"),
        "new": (5,), "revision": (3,), "where": ([3],), "edits": ([3],),
    }.items():  # fmt: skip
        for value in values:
            with pytest.raises(TomserveError) as error:
                tomserve.intervene("mine", base_url=endpoint.url, **{name: value})  # type: ignore[arg-type]
            assert "\n" not in str(error.value)


def test_a_key_is_kept_nowhere(endpoint: Endpoint, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sekret-4711")
    endpoint.key = "sekret-4711"
    folder = measured(endpoint, mine).folder
    for path in folder.rglob("*"):
        assert not path.is_file() or b"sekret-4711" not in path.read_bytes(), path
