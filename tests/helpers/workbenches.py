"""A workbench in this process, its routes, and somebody who is let in."""

from pathlib import Path
from typing import Any
from unittest import mock

import orjson
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.helpers.examples import change_manifest, copied_run
from tests.helpers.queues import until
from tomserve.content.paths import runs_root
from tomserve.web import accounts, background, run_index
from tomserve.web.app import make_app
from tomserve.web.background import Result
from tomserve.web.client import Workbench
from tomserve.web.run_index import Card
from tomserve.web.settings import Settings

ADDRESS = "http://127.0.0.1:8321"
PASSWORDS = {"ada": "enough letters", "ben": "other letters", "eve": "only for reading"}
ROLES = {"ada": "runner", "ben": "runner", "eve": "reader"}


def client(app: FastAPI | None = None, **settings: Any) -> TestClient:
    """Whoever sends the token of a workbench, as a program does; app: None for a new one with these settings."""
    app = app or make_app(Settings(**settings))
    return TestClient(app, base_url=ADDRESS, headers={"Authorization": f"Bearer {app.state.access.token}"})


def stranger(app: FastAPI) -> TestClient:
    """Somebody who is not let in, and is led nowhere by himself."""
    return TestClient(app, base_url=ADDRESS, follow_redirects=False)


def visitor(app: FastAPI) -> TestClient:
    """Somebody who has followed the printed address with a browser."""
    found = TestClient(app, base_url=ADDRESS)
    answer = found.get("/", params={"token": app.state.access.token}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return found


def lab(**settings: Any) -> FastAPI:
    """A workbench where people sign in: ada and ben run experiments, eve reads."""
    app = make_app(Settings(auth=True, **settings))
    with mock.patch.dict(accounts.COST, {"n": 1 << 10, "p": 1}):  # tests of other things need not wait for this
        for name, password in PASSWORDS.items():
            app.state.access.users.put(name, ROLES[name], password)
    return app


def member(app: FastAPI, name: str) -> TestClient:
    """A program of one of them, with a token of theirs."""
    token = app.state.access.users.add_token(name, "a test")
    return TestClient(app, base_url=ADDRESS, headers={"Authorization": f"Bearer {token}"})


def signed_in(app: FastAPI, name: str) -> TestClient:
    """The browser of one of them, who has signed in."""
    found = TestClient(app, base_url=ADDRESS)
    answer = found.post("/login", data={"name": name, "password": PASSWORDS[name]}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return found


def by_python(app: FastAPI) -> Workbench:
    """The Python client of somebody who has the printed address; nothing goes through a network."""
    found = Workbench(f"{ADDRESS}/?token={app.state.access.token}")
    own = TestClient(app, base_url=f"{ADDRESS}/api/v1/", headers=found._client.headers)
    found._client.close()
    found._client = own
    return found


WAITS = ('class="coming"', "Reading the items for the first time", "Scoring ", "Rescoring …")
"""What stands in a page of which something is still being computed."""


def settled(person: TestClient, address: str) -> Any:
    """The answer to a request, once nothing in it is being computed any more."""
    return until(lambda: (found := person.get(address)) and not any(one in found.text for one in WAITS) and found)


def made(work: str, *runs: str, **options: Any) -> Result:
    """What came of a wish, once it is there."""
    folders = [runs_root() / run for run in runs]
    found: Result = until(lambda: background.compute(work, *folders, **options), f"{work} of {runs}")
    return found


def example(name: str, card: Card | None = None, *, strategies: dict[str, Any] | None = None, **manifest: Any) -> Path:
    """A copy of the committed run under another name, with that card, and with these fields of its manifest changed."""
    folder = copied_run(runs_root() / name)
    asked = orjson.loads((folder / "manifest.json").read_bytes())["strategies"]
    changed = {strategy: {**asked[strategy], **fields} for strategy, fields in (strategies or {}).items()}
    change_manifest(folder, strategies=asked | changed, **manifest)
    if card is not None:
        run_index.write_card(folder, card)
    return folder
