"""The page of the queue: what waits in which order, and buttons that work as plain forms."""

from __future__ import annotations

import fcntl
import re

import orjson
import pytest
from fastapi import FastAPI

from tests.helpers.workbenches import lab, member, signed_in, visitor
from tomserve.api.experiments import Experiment
from tomserve.content.places import runs_root
from tomserve.web import cards
from tomserve.web.app import make
from tomserve.web.cards import State
from tomserve.web.people import Person
from tomserve.web.settings import Settings


@pytest.fixture
def app() -> FastAPI:
    return make(Settings())


ANYBODY = Person()


def submit(app: FastAPI, *names: str, person: Person = ANYBODY, private: bool = False) -> None:
    for name in names:
        experiment = Experiment(run=name, model="tiny", base_url=("http://127.0.0.1:9/v1",), benchmark="perturbed")
        app.state.workbench.queue.submit(experiment, person, private)


def order(html: str) -> list[str]:
    return re.findall(r'class="run-name" href="/live/([^"]+)"', html)


def state(name: str) -> State | None:
    job = cards.read(runs_root() / name).job
    return None if job is None else job.state


def test_buttons_are_forms_that_work_without_scripts(app: FastAPI) -> None:
    submit(app, "a", "b", "deep/c")
    web = visitor(app)
    page = web.get("/queue").text
    assert order(page) == ["a", "b", "deep/c"]
    assert "3 queued." in page
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf
    own = {"csrf": csrf[1], "back": "/queue"}
    headers = {"Origin": "http://127.0.0.1:8321"}
    for action, name, then in (
        ("first", "deep/c", ["deep/c", "a", "b"]),
        ("down", "deep/c", ["a", "deep/c", "b"]),
        ("last", "a", ["deep/c", "b", "a"]),
        ("up", "a", ["deep/c", "a", "b"]),
    ):
        assert f'action="/queue/{action}/{name}"' in page
        answer = web.post(f"/queue/{action}/{name}", data=own, headers=headers)
        assert (answer.status_code, str(answer.url).endswith("/queue")) == (200, True)
        assert order(answer.text) == then
    for action, expected in (("pause", State.PAUSED), ("resume", State.QUEUED), ("cancel", State.CANCELLED)):
        page = web.post(f"/queue/{action}/b", data=own, headers=headers).text
        assert state("b") is expected
    assert order(page) == ["deep/c", "a"]
    assert 'action="/queue/retry/b"' in page
    web.post("/queue/retry/b", data=own, headers=headers)
    assert state("b") is State.QUEUED


def test_what_is_not_possible_is_said(app: FastAPI) -> None:
    submit(app, "a")
    web = visitor(app)
    csrf = re.search(r'name="csrf" value="([^"]+)"', web.get("/queue").text)
    assert csrf
    answer = web.post("/queue/resume/a", data={"csrf": csrf[1]}, headers={"Origin": "http://127.0.0.1:8321"})
    assert answer.status_code == 409
    assert "not paused" in answer.text
    answer = web.post("/queue/explode/a", data={"csrf": csrf[1]}, headers={"Origin": "http://127.0.0.1:8321"})
    assert answer.status_code in (404, 422)


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example", ""])
def test_nobody_is_sent_elsewhere_afterwards(app: FastAPI, back: str) -> None:
    submit(app, "a")
    web = visitor(app)
    csrf = re.search(r'name="csrf" value="([^"]+)"', web.get("/queue").text)
    assert csrf
    answer = web.post(
        "/queue/pause/a",
        data={"csrf": csrf[1], "back": back},
        headers={"Origin": "http://127.0.0.1:8321"},
        follow_redirects=False,
    )
    assert answer.headers["location"] == "/queue"


def test_readers_and_others_have_no_buttons() -> None:
    app = lab()
    submit(app, "ours", person=Person("ada"))
    submit(app, "hers", person=Person("ada"), private=True)
    assert order(member(app, "ada").get("/queue").text) == ["ours", "hers"]
    for name in ("ben", "eve"):
        page = signed_in(app, name).get("/queue").text
        assert order(page) == ["ours"]
        assert "/queue/pause/" not in page
        assert "/queue/pause/" not in signed_in(app, name).get("/live/ours").text
    assert 'action="/queue/cancel/ours"' in signed_in(app, "ada").get("/live/ours").text


def test_an_empty_queue_says_so(app: FastAPI) -> None:
    page = visitor(app).get("/queue").text
    assert "Nothing waits and nothing runs." in page
    assert "The queue is empty" in page


def test_a_live_page_leads_to_the_measurement_that_follows(app: FastAPI) -> None:
    submit(app, "a")
    told = {"schema": 1, "pid": 1, "began": "", "updated": "", "ended": "2026-01-01T00:00:00Z", "total": 4, "done": 4}
    (runs_root() / "a/progress.json").write_bytes(orjson.dumps(told))
    folder = runs_root() / "faithfulness-a"
    folder.mkdir()
    manifest = {"schema": 1, "kind": "measured", "benchmark": "perturbed", "model": "tiny", "strategies": {}}
    (folder / "manifest.json").write_bytes(orjson.dumps({**manifest, "settings": {"of": "a"}}))
    web = visitor(app)
    assert "now this is measured" not in web.get("/live/a").text
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert 'now this is measured: <a href="/live/faithfulness-a">' in web.get("/live/a").text


def test_the_lists_fetch_themselves(app: FastAPI) -> None:
    submit(app, "a")
    web = visitor(app)
    assert 'hx-get="/parts/queue"' in web.get("/queue").text
    assert order(web.get("/parts/queue").text) == ["a"]
