"""The page of the queue: what waits in which order, and buttons that work as plain forms."""

import fcntl
import re
from typing import Any

import orjson
import pytest
from fastapi import FastAPI

from tests.helpers.workbenches import lab, member, signed_in, visitor
from tomserve.content.paths import runs_root
from tomserve.web import run_index
from tomserve.web.accounts import Person
from tomserve.web.app import make_app
from tomserve.web.run_index import State
from tomserve.web.settings import Settings
from tomserve.workflows.evaluate import Experiment


@pytest.fixture
def app() -> FastAPI:
    return make_app(Settings())


ANYBODY = Person()


def submit(app: FastAPI, *names: str, person: Person = ANYBODY, private: bool = False) -> None:
    for name in names:
        experiment = Experiment(run=name, model="tiny", base_url=("http://127.0.0.1:9/v1",), benchmark="perturbed")
        app.state.workbench.queue.submit(experiment, person, private)


def order(html: str) -> list[str]:
    return re.findall(r'class="run-name" href="/live/([^"]+)"', html)


def state(name: str) -> State | None:
    job = run_index.read_card(runs_root() / name).job
    return None if job is None else job.state


def test_buttons_are_forms_that_work_without_scripts(app: FastAPI) -> None:
    web = visitor(app)
    empty = web.get("/queue").text
    assert "Nothing is queued or running." in empty
    submit(app, "a", "b", "deep/c")
    page = web.get("/queue").text
    assert order(page) == order(web.get("/parts/queue").text) == ["a", "b", "deep/c"]
    assert "3 queued." in page
    assert 'hx-get="/parts/queue"' in page
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf

    def press(action: str, name: str, **more: Any) -> Any:
        headers = {"Origin": "http://127.0.0.1:8321"}
        return web.post(f"/queue/{action}/{name}", data={"csrf": csrf[1], "back": "/queue"} | more, headers=headers)

    for action, name, then in (
        ("first", "deep/c", ["deep/c", "a", "b"]),
        ("down", "deep/c", ["a", "deep/c", "b"]),
        ("last", "a", ["deep/c", "b", "a"]),
        ("up", "a", ["deep/c", "a", "b"]),
    ):
        assert f'action="/queue/{action}/{name}"' in web.get("/queue").text
        answer = press(action, name)
        assert (answer.status_code, str(answer.url).endswith("/queue")) == (200, True)
        assert order(answer.text) == then
    for action, expected in (("pause", State.PAUSED), ("resume", State.QUEUED), ("cancel", State.CANCELLED)):
        page = press(action, "b").text
        assert state("b") is expected
    assert order(page) == ["deep/c", "a"]
    assert 'action="/queue/retry/b"' in page
    press("retry", "b")
    assert state("b") is State.QUEUED
    refused = press("resume", "a")
    assert (refused.status_code, "not paused" in refused.text) == (409, True)
    assert press("explode", "a").status_code in (404, 422)
    web.follow_redirects = False
    for back in ("https://evil.example/", "//evil.example", "/\\evil.example", ""):
        assert press("first", "a", back=back).headers["location"] == "/queue"


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
        assert 'Measuring: <a href="/live/faithfulness-a">' in web.get("/live/a").text
