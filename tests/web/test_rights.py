"""Who may do what with whose run, whatever it is called: every route, every role, every spelling of a name; runs of others
in a checkout where no folder of runs is set, as `make web` starts the workbench."""

import asyncio
import shutil
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from tests.conftest import ROOT
from tests.helpers.examples import copied_run
from tests.helpers.workbenches import ADDRESS, client, filled, lab, member, routes, stranger
from tomserve.content.paths import runs_root
from tomserve.errors import RunMismatchError
from tomserve.runs.measurement import MeasuredRun
from tomserve.web import access, background, run_index
from tomserve.web.app import PAGES, make_app
from tomserve.web.background import Computation
from tomserve.web.routes import api
from tomserve.web.run_index import Card, Job, State
from tomserve.web.settings import Settings

SPELLINGS = [
    "hers",
    "%2e/hers",
    "runs/hers",
    "%2e/runs/hers",
    "runs/%2e%2e/hers",
    "hers/",
    "hers//",
    "faithfulness-hers",
    "faithfulness-hers/",
    "hers%2f",
    "%2fhers",
    "hers%00",
    "hers/%2e",
    "runs%2fhers%2f",
    "%ef%bd%88ers",  # a wide h
    "h%d0%b5rs",  # a Cyrillic e
    "hers%e2%80%8b",  # with a space of no width
    "HERS",
]
NEW = ("HERS",)
"""Spellings by which anybody may call a run of their own, as it is another folder."""
PARAMETERS = ("a", "b", "run", "like", "name")
"""What parameters of an address are called that name a run."""
MARKS = ("nobody else reads this", "Hidalgo")
"""What stands in the notes of the private run, and in its questions and answers."""
ANSWER = {"item": "C1/add_unrelated_information/informed_protagonist/belief/swapped", "strategy": "cot"}
ASKED = {"benchmark": "perturbed", "model": "m", "base-url": ["http://127.0.0.1:9/v1"], "key": "OPENAI_API_KEY"}
ACTIONS = ("pause", "retry")


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """A workbench where ada keeps a run and its measurement for herself, and ben has tried to call his own alike."""
    monkeypatch.delenv("TOMSERVE_RUNS")
    monkeypatch.chdir(tmp_path)
    for name, card in (("hers", Card(owner="ada", private=True, notes=MARKS[0])), ("runs/hers", Card(owner="ben"))):
        shutil.copytree(ROOT / "runs/example", tmp_path / "runs" / name)
        run_index.write_card(tmp_path / "runs" / name, card)
    for path in (tmp_path / "runs/hers").glob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b"Amaru", MARKS[1].encode()))
    measured(tmp_path / "runs/faithfulness-hers")
    run_index.write_card(tmp_path / "runs/faithfulness-hers", Card(owner="ben", notes=MARKS[0]))
    return lab()


def measured(folder: Path) -> None:
    known: dict[str, Any] = {"model": "m", "revision": None, "benchmark": "perturbed", "benchmark_digest": None}
    with MeasuredRun.open(folder, study="faithfulness", settings={"of": "hers"}, **known):
        pass


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of which anything is to be computed beside, which then is on its way for ever."""
    found: list[Path] = []

    def find_all(wishes: Sequence[Computation], **_: object) -> list[None]:
        found.extend(Path(path).resolve() for wish in wishes for path in (*wish.runs, *wish.sources))
        return [None] * len(wishes)

    monkeypatch.setattr(background, "find_all", find_all)
    return found


def requests(spelling: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every request that names a run: in its path, or in the parameters of the address that can do so."""
    plain = unquote(spelling)
    for method, path in routes():
        if "{name:path}" in path:
            for action in ACTIONS if "{action}" in path else ("",):
                yield method, filled(path.replace("{action}", action), spelling), {"params": ANSWER}
        elif method == "GET":
            yield method, filled(path), {"params": {**ANSWER, **dict.fromkeys(PARAMETERS, plain)}}
    yield "POST", "/api/v1/experiments", {"json": {**ASKED, "run": plain}}


ALL = routes()
CHANGES = [(method, path) for method, path in ALL if method not in access.SAFE and path != "/login"]
OPEN = {"/login", "/api/v1/health"}
"""What strangers may ask for."""
READERS = {("POST", "/logout"), ("POST", "/api/v1/experiments/plan"), ("POST", "/api/v1/tokens")}
READERS |= {("DELETE", "/api/v1/tokens/{id}")}
"""What a reader may send."""
OUTSIDE = (
    "%2e%2e/secret %2e%2e%2fsecret ..%2f..%2fetc%2fpasswd /etc/passwd %2fetc%2fpasswd %252e%252e%252fsecret mine%00 %00 "
    "mine/%2e%2e/mine %2e/mine ~root link .web mine%0d%0aX-Evil:1 ..%5csecret mine/%2e mine// link/deeper %ff%fe "
    f"%e2%80%ae deep/link/secret {'x' * 5000}"
).split()
"""What leads to no run."""


def test_strangers_and_their_pages_get_nothing_and_change_nothing() -> None:
    app = make_app(Settings())
    assert {path for method, path in ALL if stranger(app).request(method, filled(path)).status_code != 401} == OPEN
    person = stranger(app)
    person.cookies.set(app.state.access.cookie, app.state.access.ticket)
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": ADDRESS}, {}):
        for method, path in CHANGES:
            answer = person.request(method, filled(path), headers=headers, data={"csrf": "wrong"})
            assert answer.status_code == 403, (method, path, headers)


def test_a_reader_changes_nothing() -> None:
    reader = member(lab(), "eve")
    for method, path in set(CHANGES) - READERS:
        assert reader.request(method, filled(path, "ours")).status_code == 403, (method, path)
    routers = (api.router, *PAGES)
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        runner = any(one.call is access.runner for one in route.dependant.dependencies)  # the route itself says it, too
        changes = {(method, route.path) for method in route.methods if (method, route.path) in CHANGES}
        assert runner or changes <= READERS, route.path


def test_no_name_leads_out_of_the_folder_of_runs(tmp_path: Path, read: list[Path]) -> None:
    for folder, notes in ((runs_root() / "mine", "inside"), (tmp_path / "secret", "outside")):
        run_index.write_card(copied_run(folder), Card(notes=notes))
    (runs_root() / "deep").mkdir()
    (runs_root() / "deep/link").symlink_to(tmp_path)
    person = client()
    for method, path in ALL:
        for name in OUTSIDE if "{name:path}" in path else ():
            answer = person.request(method, filled(path, name))
            assert 300 <= answer.status_code < 500, (method, path, name)
            assert "outside" not in answer.text, (method, path, name)
            assert "x-evil" not in answer.headers, (method, path, name)
    assert run_index.read_card(tmp_path / "secret").notes == "outside"
    assert not [path for path in read if tmp_path / "secret" in (path, *path.parents)]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("who", ["ben", "eve"])
def test_nobody_reads_or_changes_a_private_run(app: FastAPI, read: list[Path], who: str, spelling: str) -> None:
    person, hers = member(app, who), Path("runs/hers").resolve()
    before = {path: path.read_bytes() for path in hers.iterdir() if path.is_file()}
    for (method, path, sent), (_, other, missing) in zip(requests(spelling), requests("nine"), strict=True):
        answer = person.request(method, path, **sent)
        assert not [mark for mark in MARKS if mark in answer.text], (method, path)
        if method != "GET" and spelling not in ("runs/hers", "runs%2fhers%2f", *NEW):  # which is ben's own
            assert answer.status_code in (404, 409, 422) if who == "ben" else answer.status_code == 403, (method, path)
        if spelling.endswith("hers") and not {*"/%"} & {*spelling} and method == "GET":  # as one that does not exist
            none = person.request(method, other, **missing)
            assert (answer.status_code, answer.text) == (none.status_code, none.text.replace("nine", spelling)), path
    assert not [path for path in read if hers in (path, *path.parents)]
    assert before == {path: path.read_bytes() for path in hers.iterdir() if path.is_file()}


def test_its_owner_reads_it_under_its_own_name_alone(app: FastAPI, read: list[Path]) -> None:
    ada = member(app, "ada")
    for spelling in SPELLINGS:
        for path in ("/api/v1/runs/{}", "/api/v1/scores/{}", "/run/{}", "/answers/{}"):
            known = spelling in ("hers", "runs/hers", "faithfulness-hers")
            assert (ada.get(path.format(spelling)).status_code < 300) == known, (path, spelling)
    assert MARKS[1] in ada.get("/api/v1/answer/hers", params=ANSWER).text
    assert "hers" not in [run["name"] for run in member(app, "eve").get("/api/v1/runs").json()["runs"]]
    line = ada.get("/api/v1/runs/faithfulness-hers").json()
    assert (line["owner"], line["private"], Path("runs/hers").resolve() in read) == ("ada", True, True)
    ada.patch("/api/v1/runs/faithfulness-hers", json={"notes": "changed"})
    assert "changed" not in member(app, "eve").get("/api/v1/runs").text


def test_a_measurement_goes_into_no_folder_that_an_experiment_waits_in(tmp_path: Path) -> None:
    run_index.write_card(tmp_path / "soon", Card(owner="ben", job=Job(submitted="2026-11-23T12:00:00Z")))
    with pytest.raises(RunMismatchError, match="waits in the queue of the workbench"):
        measured(tmp_path / "soon")


def test_a_key_goes_to_no_address_of_a_strangers_experiment(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    ada, folder = member(app, "ada"), Path("runs/theirs")
    own = ada.post("/api/v1/experiments", json={**ASKED, "run": "own"})
    assert (own.status_code, ada.post("/api/v1/queue/pause/own").status_code) == (201, 200)
    assert ada.post("/api/v1/queue/resume/own").status_code == 200
    run_index.write_card(folder, Card(job=Job(state=State.PAUSED, submitted="2026-11-23T12:00:00Z", seal="0" * 64)))
    shutil.copy("runs/own/experiment.yaml", folder)
    refused = ada.post("/api/v1/queue/resume/theirs")
    assert (refused.status_code, "would send OPENAI_API_KEY to http://127.0.0.1:9/v1" in refused.text) == (403, True)
    chosen = "<option selected>OPENAI_API_KEY"
    assert [chosen in ada.get("/new", params={"like": name}).text for name in ("own", "theirs")] == [True, False]


@pytest.mark.parametrize(
    ("parts", "status"), [(["x" * 5000], 413), (["x"] * 5000, 413), (["x", None], 408), (["x"], None)]
)
def test_a_stranger_sends_little_and_soon_or_leaves_without_a_trace(
    app: FastAPI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    parts: list[str | None],
    status: int | None,
) -> None:
    """parts: of the body, None for nothing more for ever; after the last one the sender leaves."""
    monkeypatch.setattr(access, "STRANGERS_TIME", 0.05)
    sent: list[MutableMapping[str, Any]] = []
    coming = iter(parts)

    async def receive() -> dict[str, Any]:
        if (part := next(coming, "")) is None:
            await asyncio.Event().wait()
        return (
            {"type": "http.request", "body": part.encode(), "more_body": True} if part else {"type": "http.disconnect"}
        )

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", ADDRESS.removeprefix("http://").encode())]
    scope = {"type": "http", "method": "POST", "path": "/login", "query_string": b"", "headers": headers}
    asyncio.run(app(scope, receive, send))
    assert [one["status"] for one in sent if "status" in one] == ([status] if status else [])
    assert "Traceback" not in capsys.readouterr().err
