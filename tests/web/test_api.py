"""The programming interface: runs and tokens, and that its OpenAPI document describes what it does.
What runs have found out, by the programming interface and the client: the same as in Python and on the command line."""

from typing import Any

import polars as pl
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks, openapi
from schemathesis.generation.modes import GenerationMode
from starlette.testclient import TestClient

import tomserve
from tests.conftest import Endpoint, make_item
from tests.helpers.examples import copied_example, copied_run
from tests.helpers.queues import until
from tests.helpers.workbenches import ADDRESS, by_python, client, lab, member, signed_in, stranger
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.web import run_index
from tomserve.web.app import make_app
from tomserve.web.run_index import Card
from tomserve.web.settings import Settings

checks.load_all_checks()
CHECKS = [
    checks.CHECKS.get_one(name)
    for name in (
        *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
        *("response_schema_conformance", "negative_data_rejection", "allow_header_conformance", "ignored_auth"),
    )
]
CONFIG = {
    "generation": {"mode": "all", "with-security-parameters": False},
    "checks": {"negative_data_rejection": {"expected-statuses": [400, 401, 403, 404, 405, 409, 413, 414, 422]}},
}
EXAMPLES = 3


@pytest.fixture
def app() -> FastAPI:
    copied_example(runs_root())
    return make_app(Settings())


@pytest.fixture
def shared() -> FastAPI:
    """A workbench where people sign in, with a run that ada keeps for herself."""
    for name, card in (("hers", Card(owner="ada", private=True, notes="nobody else")), ("ours", Card(owner="ada"))):
        run_index.write_card(copied_run(runs_root() / name), card)
    return lab()


def test_runs_are_listed_filtered_and_changed(shared: FastAPI) -> None:
    ada, ben = member(shared, "ada"), member(shared, "ben")
    found = ada.get("/api/v1/runs").json()
    assert (found["total"], found["pages"]) == (2, 1)
    assert ada.get("/api/v1/runs", params={"text": "NOBODY else"}).json()["total"] == 1
    assert ada.get("/api/v1/runs", params={"state": "complete", "size": 1, "page": 2}).json()["pages"] == 2
    assert ada.get("/api/v1/runs", params={"model": "no such"}).json()["runs"] == []
    change = ada.patch("/api/v1/runs/ours", json={"tags": ["pilot", "pilot"], "notes": "new"})
    assert change.json()["tags"] == ["pilot"]
    assert ben.get("/api/v1/runs", params={"tag": "pilot"}).json()["runs"][0]["notes"] == "new"
    assert ben.patch("/api/v1/runs/ours", json={"notes": "mine now"}).status_code == 403
    assert ada.patch("/api/v1/runs/ours", json={"owner": "ben"}).status_code == 422
    assert ada.patch("/api/v1/runs/ours", json={"private": True}).json()["notes"] == "new"
    assert ben.get("/api/v1/runs/ours").status_code == 404
    assert client().patch("/api/v1/runs/ours", json={"private": True}).status_code == 409
    run_index.write_card(copied_run(runs_root() / "nobodys"), Card())
    assert ada.patch("/api/v1/runs/nobodys", json={"private": True}).status_code == 409
    assert client().get("/api/v1/compare", params={"a": "ours", "b": "ours"}).status_code == 422
    assert ada.get("/api/v1/runs/ours").json()["manifest"]["complete"] is True


def test_tokens_are_told_once_and_taken_back(shared: FastAPI) -> None:
    eve = signed_in(shared, "eve")
    assert eve.get("/api/v1/tokens").json() == []
    by_program = member(shared, "eve")
    made = by_program.post("/api/v1/tokens", json={"label": "a notebook"}).json()
    other = stranger(shared)
    bearer = {"Authorization": f"Bearer {made['token']}"}
    assert other.get("/api/v1/runs", headers=bearer).status_code == 200
    listed = by_program.get("/api/v1/tokens")
    assert [one["label"] for one in listed.json()] == ["a test", "a notebook"]
    assert made["token"] not in listed.text
    kept = (runs_root() / ".web/users.json").read_text()
    assert made["token"] not in kept
    assert member(shared, "ben").delete(f"/api/v1/tokens/{made['id']}").status_code == 404
    assert by_program.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
    assert other.get("/api/v1/runs", headers=bearer).status_code == 401
    assert client().post("/api/v1/tokens", json={}).status_code == 409


@pytest.mark.system
def test_every_route_does_what_is_described(app: FastAPI) -> None:
    config = schemathesis.Config.from_dict(CONFIG)
    document = app.openapi()
    schema = openapi.from_dict(document, config=config)
    schema.app = app
    headers = {"Authorization": f"Bearer {app.state.access.token}"}
    found = [result.ok() for result in schema.get_all_operations()]
    assert len(found) >= 14
    tame: set[str] = set()
    for operation in found:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            def follow(case: Any) -> None:
                case.call_and_validate(base_url=ADDRESS, headers=headers, checks=CHECKS)

            try:
                follow()
            except Unsatisfiable:  # where any text is a name, nothing wrong can be sent
                assert mode is GenerationMode.NEGATIVE
                tame.add(operation.label)
    assert not tame & {"POST /api/v1/experiments", "GET /api/v1/runs", "PATCH /api/v1/runs/{name}"}


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


def test_answers_and_comparisons_are_those_of_python(app: FastAPI) -> None:
    person, scores = client(app), tomserve.load_scores("example")
    right = asked(person, "answers/example", outcome="right", strategy="cot").json()
    assert right["total"] == scores.filter(pl.col("correct"), strategy="cot").height
    item = right["rows"][0]["item"]
    one = asked(person, "answer/example", item=item, strategy="cot").json()
    assert (one["item"]["id"], one["score"]["correct"], bool(one["row"]["text"])) == (item, True, True)
    told = asked(person, "compare", a="example", sa="vanilla", sb="cot").json()
    expected = tomserve.compare("example", strategies=("vanilla", "cot"))
    assert told["flips"]["total"] == expected.flips.height
    assert told["overall"][0]["risk_difference"] == pytest.approx(expected.effects["risk_difference"][-1])


def test_one_story_is_asked_of_one_model(app: FastAPI, endpoint: Endpoint) -> None:
    person, item = client(app), make_item(1)
    own = {"story": item.story, "question": item.question, "choices": item.choices, "answer": "tea"}
    wish = {"own": own, "strategy": "vanilla", "model": "tiny", "base_url": endpoint.url}
    name = person.post("/api/v1/try", json=wish).json()["name"]
    told = person.get(f"/api/v1/try/{name}").json()
    assert (told["state"], told["rows"][0]["status"], len(endpoint.requests)) == ("done", "ok", 1)
