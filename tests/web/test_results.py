"""What runs have found out, by the programming interface and the client: the same as in Python and on the command line."""

from typing import Any

import polars as pl
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import tomserve
from tests.conftest import Endpoint, make_item
from tests.helpers.examples import copied_example
from tests.helpers.queues import until
from tests.helpers.workbenches import by_python, client
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.web.app import make_app
from tomserve.web.settings import Settings


@pytest.fixture
def app() -> FastAPI:
    copied_example(runs_root())
    return make_app(Settings())


def asked(person: TestClient, address: str, **query: Any) -> Any:
    def answer() -> Any:
        found = person.get(f"/api/v1/{address}", params=query)
        if found.status_code == 202:
            assert (found.json(), found.headers["retry-after"]) == ({"computing": True}, "1")
        return found.status_code != 202 and found

    return until(answer)


def test_scores_tables_and_plans_are_those_of_python(app: FastAPI) -> None:
    bench = by_python(app)
    scores = tomserve.load_scores("example")
    assert bench.scores("example").equals(scores)
    person = client(app)
    csv = asked(person, "scores/example", form="csv")
    assert csv.headers["content-type"].startswith("text/csv")
    assert len(csv.content.splitlines()) == scores.height + 1
    assert len(asked(person, "scores/example", form="jsonl").content.splitlines()) == scores.height
    assert person.get("/api/v1/scores/example", params={"form": "exe"}).status_code == 422
    tables = bench.tables("example", "accuracy")
    assert sorted(tables) == sorted(tomserve.analyze(scores, "accuracy"))
    for name, table in tomserve.analyze(scores, "accuracy").items():
        assert tables[name].shape == table.shape
    for wrong in ("../../analysis/accuracy.py", "/tmp/x.py", "none"):
        with pytest.raises(ConfigError, match="unknown study"):
            bench.tables("example", wrong)
    assert bench.plan(model="yi-34b", benchmark="perturbed", limit=10, strategy=["vanilla"])["requests"] == 10
    with pytest.raises(ConfigError, match="limit"):
        bench.plan(limit=0)


def test_answers_are_paged_and_one_is_told_whole(app: FastAPI) -> None:
    person, scores = client(app), tomserve.load_scores("example")
    first = asked(person, "answers/example").json()
    assert first["total"] == scores.height
    assert len(first["rows"]) == 50
    right = asked(person, "answers/example", outcome="right", strategy="cot").json()
    assert right["total"] == scores.filter((pl.col("strategy") == "cot") & pl.col("correct")).height
    row = right["rows"][0]
    one = asked(person, "answer/example", item=row["item"], strategy="cot").json()
    assert one["row"]["text"]
    assert one["item"]["id"] == row["item"]
    assert one["score"]["correct"] is True
    assert one["prompts"]
    assert person.get("/api/v1/answer/example", params={"item": "none", "strategy": "cot"}).status_code == 404
    assert person.get("/api/v1/answers/example", params={"where": "no condition"}).status_code == 422


def test_two_strategies_are_compared_as_in_python(app: FastAPI) -> None:
    person = client(app)
    told = asked(person, "compare", a="example", sa="vanilla", sb="cot").json()
    expected = tomserve.compare("example", strategies=("vanilla", "cot"))
    assert told["flips"]["total"] == expected.flips.height
    assert told["overall"][0]["n"] == expected.effects["n"][-1]
    assert person.get("/api/v1/compare", params={"a": "example"}).status_code == 422
    assert person.get("/api/v1/compare", params={"a": "example", "b": "none"}).status_code == 404


def test_one_story_is_asked_of_one_model(app: FastAPI, endpoint: Endpoint) -> None:
    person, item = client(app), make_item(1)
    own = {"story": item.story, "question": item.question, "choices": item.choices, "answer": "tea"}
    wish = {"own": own, "strategy": "vanilla", "model": "tiny", "base_url": endpoint.url}
    started = person.post("/api/v1/try", json=wish)
    assert started.status_code == 201, started.text
    told = person.get(f"/api/v1/try/{started.json()['name']}").json()
    assert told["state"] == "done", told["said"]
    assert told["rows"][0]["status"] == "ok"
    assert len(endpoint.requests) == 1
    assert person.post("/api/v1/try", json={}).status_code == 422
    assert person.get("/api/v1/try/none").status_code == 404
