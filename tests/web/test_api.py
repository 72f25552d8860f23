"""The programming interface: what every route of it keeps to, found from the routes themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from tests.conftest import ROOT
from tests.helpers.workbenches import ADDRESS, client, filled, lab, member, routes, signed_in, stranger
from tomserve.content.places import runs_root
from tomserve.web import cards, guard
from tomserve.web.app import make
from tomserve.web.cards import Card
from tomserve.web.settings import Settings


def example(name: str = "mine", **card: object) -> Path:
    """A copy of the committed run, with that card."""
    folder = runs_root() / name
    shutil.copytree(ROOT / "runs/example", folder)
    if card:
        cards.write(folder, Card.model_validate(card))
    return folder


ALL = routes()
CHANGES = [(method, path) for method, path in ALL if method not in guard.SAFE and path != "/login"]
NAMED = [(method, path) for method, path in ALL if "{name:path}" in path]


@pytest.fixture
def shared() -> FastAPI:
    """A workbench where people sign in, with a run that ada keeps for herself."""
    example("hers", owner="ada", private=True, notes="nobody else reads this")
    example("ours", owner="ada", notes="everybody reads this")
    return lab()


def test_strangers_get_nothing_from_any_route() -> None:
    app = make(Settings())
    open_to = {path for method, path in ALL if stranger(app).request(method, filled(path)).status_code != 401}
    assert open_to == {"/login", "/api/v1/health"}


def test_no_page_of_a_stranger_changes_anything() -> None:
    app = make(Settings())
    person = stranger(app)
    person.cookies.set(app.state.access.cookie, app.state.access.ticket)
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": ADDRESS}, {}):
        for method, path in CHANGES:
            answer = person.request(method, filled(path), headers=headers, data={"csrf": "wrong"})
            assert answer.status_code == 403, (method, path, headers)


def test_a_reader_changes_nothing(shared: FastAPI) -> None:
    reader = member(shared, "eve")
    theirs = {("POST", "/logout"), ("POST", "/api/v1/experiments/plan")}
    theirs |= {("POST", "/api/v1/tokens"), ("DELETE", "/api/v1/tokens/{id}")}
    for method, path in CHANGES:
        if (method, path) not in theirs:
            assert reader.request(method, filled(path, "ours")).status_code == 403, (method, path)
    declared = {path for method, path in CHANGES if not _asks_for_a_runner(path, method)}
    assert declared <= {path for _, path in theirs}  # the routes themselves say it, too


def _asks_for_a_runner(path: str, method: str) -> bool:
    from tomserve.web import access, api, app

    for router in (api.router, *(module.router for module in app.PAGES)):
        for route in router.routes:
            if isinstance(route, APIRoute) and route.path == path and method in route.methods:
                return any(one.call is access.runner for one in route.dependant.dependencies)
    raise AssertionError(path)


OUTSIDE = (
    *(
        "%2e%2e/secret",
        "%2e%2e%2fsecret",
        "..%2f..%2fetc%2fpasswd",
        "/etc/passwd",
        "%2fetc%2fpasswd",
    ),
    *(
        "%252e%252e%252fsecret",
        "mine%00",
        "%00",
        "mine/%2e%2e/mine",
        "%2e/mine",
        "~root",
        "link",
        ".web",
    ),
    *("mine%0d%0aX-Evil:1", "..%5csecret", "mine/%2e", "mine//", "link/deeper", "x" * 5000, "%ff%fe", "%e2%80%ae"),
)


def test_no_name_leads_out_of_the_folder_of_runs(tmp_path: Path) -> None:
    example("mine", notes="inside")
    example("elsewhere")
    (runs_root() / "elsewhere").rename(tmp_path / "secret")
    cards.write(tmp_path / "secret", Card(notes="outside"))
    (runs_root() / "deep").mkdir()
    (runs_root() / "deep/link").symlink_to(tmp_path)
    person = client()
    for method, path in NAMED:
        for name in (*OUTSIDE, "deep/link/secret"):
            answer = person.request(method, filled(path, name))
            assert 300 <= answer.status_code < 500, (method, path, name)
            assert "outside" not in answer.text, (method, path, name)
            assert "x-evil" not in answer.headers, (method, path, name)
    assert cards.read(tmp_path / "secret").notes == "outside"


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
