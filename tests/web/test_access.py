"""What stands before every page: names of the host, tokens, forms of strangers, limits, and headers.
Signing in and out: passwords, sessions, roles, and how fast somebody may try.
Who may do what with whose run, whatever it is called: every route, every role, every spelling of a name; runs of others
in a checkout where no folder of runs is set, as `make web` starts the workbench."""

import asyncio
import errno
import re
import shutil
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from tests.conftest import ROOT
from tests.helpers.examples import copied_run
from tests.helpers.workbenches import (
    ADDRESS,
    PASSWORDS,
    client,
    lab,
    member,
    signed_in,
    stranger,
    visitor,
)
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.runs.measurement import MeasuredRun
from tomserve.web import access, background, run_index
from tomserve.web.accounts import FREE, HOURS, LoginThrottle, Password, Person, Role, Sessions, Users, derive_secret
from tomserve.web.app import PAGES, make_app
from tomserve.web.background import Computation
from tomserve.web.page_templates import stamp
from tomserve.web.routes import api
from tomserve.web.run_index import Card, Job, State
from tomserve.web.settings import Settings


def routes() -> list[tuple[str, str]]:
    """Method and path of every route of a workbench, pages included."""
    every = [route for router in (api.router, *PAGES) for route in router.routes if isinstance(route, APIRoute)]
    return [(method, route.path) for route in every for method in sorted(route.methods)]


def filled(path: str, name: str = "mine") -> str:
    """The path of a route with that name in it."""
    path = path.replace("{name:path}", name).replace("{id}", "0" * 12)
    for one in ("{action}", "{where}", "{what}"):
        path = path.replace(one, "pause")
    return path.replace("{benchmark}", "items").replace("{", "").replace("}", "").replace(":path", "")


@pytest.fixture
def app() -> FastAPI:
    return make_app(Settings())


def test_a_stranger_is_told_how_to_get_in_and_nothing_else(app: FastAPI) -> None:
    page = stranger(app).get("/")
    assert page.status_code == 401
    assert "tomserve web" in page.text
    assert stranger(app).get("/api/v1/runs").json()["error"].startswith("open the address")
    assert app.state.access.token not in page.text


def test_the_printed_address_lets_in_and_its_token_disappears(app: FastAPI) -> None:
    person = stranger(app)
    answer = person.get("/nothing", params={"a": "b c", "token": app.state.access.token})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/nothing?a=b+c"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert cookie.startswith("tomserve_8321=")
    assert app.state.access.token not in cookie
    assert person.get("/nothing").status_code == 404  # let in, where nothing is


def test_the_printed_address_never_leads_elsewhere(app: FastAPI) -> None:
    for path in ("//elsewhere.example/x", "/%5Celsewhere.example", "/%2Felsewhere.example"):
        there = stranger(app).get(f"{ADDRESS}{path}?token={app.state.access.token}").headers["location"]
        assert there.startswith("/")
        assert not there.startswith(("//", "/\\"))


def test_a_wrong_token_lets_nobody_in(app: FastAPI) -> None:
    for token in ("", "wrong", "ü", "x" * 43):
        assert stranger(app).get("/", params={"token": token}).status_code == 401
        assert stranger(app).get("/", headers={"Authorization": b"Bearer " + token.encode()}).status_code == 401
        assert stranger(app).get("/", headers={"Cookie": f"tomserve_8321={token.encode().hex()}"}).status_code == 401


def test_a_wrong_header_is_not_made_good_by_a_cookie(app: FastAPI) -> None:
    person = visitor(app)
    assert person.get("/nothing").status_code == 404
    assert person.get("/nothing", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert person.get("/nothing", headers={"Authorization": "Basic eDp5"}).status_code == 401


def test_only_our_own_names_are_answered(app: FastAPI) -> None:
    ours = ("127.0.0.1:8321", "localhost", "localhost:9", "[::1]:8321", "127.0.0.1")
    others = ("evil.example", "127.0.0.1.evil.example:8321", "8.8.8.8", "", "a@localhost", "localhost:x", "localhost?")
    for host in (*ours, *others, "localhost/x", "localhost#x", "[::1", "192.168.0.1:8321"):
        answer = client(app).get("/api/v1/health", headers={"Host": host})
        assert (answer.status_code != 421) == (host in ours), host


def test_behind_a_proxy_its_name_is_ours_too() -> None:
    away = Settings(host="0.0.0.0", auth=True, proxy="https://tom.example.org")
    assert access.is_known_host("tom.example.org", away)
    assert access.is_known_host("192.168.0.1:8321", away)
    assert not access.is_known_host("evil.example", away)
    assert access.is_known_origin("https://tom.example.org", "127.0.0.1:8321", away)
    assert not access.is_known_origin("https://tom.example.org.evil.example", "127.0.0.1:8321", away)
    assert not access.is_known_origin("null", "127.0.0.1:8321", away)


def test_forms_are_those_of_our_pages_and_carry_what_these_put_into_them(app: FastAPI) -> None:
    csrf = derive_secret(app.state.access.ticket, "forms of the workbench")

    def sent(headers: dict[str, str], given: str = csrf, by: str = "form") -> int:
        more, data = ({"X-CSRF-Token": given}, {}) if by == "htmx" else ({}, {"csrf": given})
        answer = visitor(app).post("/logout", data=data, headers={**headers, **more}, follow_redirects=False)
        return int(answer.status_code)

    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999"):
        assert sent({"Origin": origin}) == 403
    for site in ("cross-site", "same-site"):
        assert sent({"Sec-Fetch-Site": site}) == sent({"Origin": ADDRESS, "Sec-Fetch-Site": site}) == 403
    for own in ({}, {"Origin": ADDRESS}, {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}):
        assert [sent(own, wrong) for wrong in ("", "wrong", "ü", app.state.access.ticket)] == [403] * 4
        assert sent(own) == sent(own, by="htmx") == 303


def test_what_is_sent_is_bounded(app: FastAPI) -> None:
    person = client(app)
    assert person.post("/logout", content=b"x" * (access.LONGEST_BODY + 1)).status_code == 413
    assert person.post("/logout", content=iter([b"x" * 700_000] * 2)).status_code == 413
    assert person.get("/" + "x" * access.LONGEST_ADDRESS).status_code == 414
    many = {f"field{number}": "" for number in range(access.MOST_FIELDS + 1)}
    assert person.post("/logout", data=many).status_code in (400, 413)
    part = b'--b\r\nContent-Disposition: form-data; name="csrf"\r\n\r\nx\r\n--b--\r\n'
    for charset, status in (("UTF-8", 303), ('"utf-8"', 303), ("punycode", 415), ("undefined", 415)):
        kind = {"Content-Type": f"multipart/form-data; boundary=b; charset={charset}"}
        assert person.post("/logout", content=part, headers=kind, follow_redirects=False).status_code == status


def test_every_response_has_the_headers_errors_and_static_files_too(app: FastAPI) -> None:
    @app.get("/breaks", response_model=None)
    def breaks() -> None:
        raise RuntimeError(f"with {app.state.access.token}")

    answers = [
        *(client(app).get(path) for path in ("/", "/nothing", "/static/workbench.css", "/static/none", "/breaks")),
        *(stranger(app).get(path) for path in ("/", "/api/v1/runs", "/api/openapi.json", "/static/none")),
        *(client(app).post("/logout", headers={"Host": "evil.example"}), client(app).delete("/login")),
    ]
    assert {answer.status_code for answer in answers} >= {200, 401, 404, 405, 421, 500}
    for answer in answers:
        for name, value in access.HEADERS.items():
            assert answer.headers.get_list(name) == [value], (answer.status_code, name)
        assert answer.headers["cache-control"] == "no-store"
    kept = [stranger(app).get(f"/static/workbench.css?v={one}").headers["cache-control"] for one in (stamp(), "1")]
    assert kept == [access.CACHED, "no-store"]


def test_a_full_disk_is_told_as_such(app: FastAPI) -> None:
    @app.post("/api/fills")
    def fills() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    answer = client(app).post("/api/fills")
    assert (answer.status_code, "No space left on device" in answer.text) == (409, True)


def test_an_unexpected_error_is_told_to_the_owner_alone(app: FastAPI, monkeypatch, capsys) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")

    @app.get("/api/breaks")
    def breaks() -> None:
        raise RuntimeError(f"secretly {app.state.access.token} and sk-0123456789")

    answer = client(app).get("/api/breaks")
    assert answer.status_code == 500
    assert "secretly" not in answer.text
    told = capsys.readouterr().err
    assert "RuntimeError" in told
    assert "secretly *** and ***" in told
    assert app.state.access.token not in told


def test_streams_are_counted_and_let_go(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_STREAMS_EACH", 0)
    answer = client(app).get("/nothing", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 503
    monkeypatch.setattr(access, "MOST_STREAMS_EACH", 1)
    for _ in range(3):  # each ends before the next begins
        assert client(app).get("/nothing", headers={"Accept": "text/event-stream"}).status_code == 404


@pytest.fixture
def shared() -> FastAPI:
    return lab()


def _form(person: TestClient) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', person.get("/nothing").text)
    assert found
    return found[1]


def test_a_stranger_is_led_to_the_form_and_then_to_where_they_wanted_to_go(shared: FastAPI) -> None:
    person = stranger(shared)
    answer = person.get("/queue?x=1")
    assert answer.headers["location"] == "/login?next=%2Fqueue%3Fx%3D1"
    assert 'name="next" value="/queue?x=1"' in person.get(answer.headers["location"]).text
    sent = {"name": "ada", "password": PASSWORDS["ada"], "next": "/queue?x=1"}
    answer = person.post("/login", data=sent, headers={"Origin": ADDRESS})
    assert (answer.status_code, answer.headers["location"]) == (303, "/queue?x=1")
    assert person.get("/nothing").status_code == 404
    assert "ada" in person.get("/nothing").text


def test_signing_in_never_leads_elsewhere_and_is_no_form_of_a_stranger(shared: FastAPI) -> None:
    sent, outside = {"name": "ada", "password": PASSWORDS["ada"]}, ("javascript:alert(1)", "/login", "/a\nb")
    for there in ("//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", *outside):
        assert stranger(shared).post("/login", data={**sent, "next": there}).headers["location"] == "/"
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
        assert stranger(shared).post("/login", data=sent, headers=headers).status_code == 403


def test_a_wrong_name_and_a_wrong_password_are_answered_alike_and_cost_the_same(shared: FastAPI, monkeypatch) -> None:
    for name, password in (("ada", "wrong one"), ("nobody", "wrong one"), ("", ""), ("ada", "")):
        answer = stranger(shared).post("/login", data={"name": name, "password": password})
        assert answer.status_code == 401
        assert "wrong name or password" in answer.text
        assert "set-cookie" not in answer.headers
    made: list[tuple[int, int, int]] = []
    real = Password.made_of
    monkeypatch.setattr(
        Password, "made_of", lambda self, text: made.append((self.n, self.r, self.p)) or real(self, text)
    )
    shared.state.access.users.put("ada", "runner", PASSWORDS["ada"])
    made.clear()
    for name in ("ada", "nobody"):
        shared.state.access.users.signed_in(name, "wrong one")
    assert len(made) == 2
    assert made[0] == made[1]


def test_sessions_end_by_signing_out(shared: FastAPI) -> None:
    person = signed_in(shared, "ada")
    assert person.get("/nothing").status_code == 404
    other = signed_in(shared, "ben").post("/logout", data={"csrf": _form(person)}, follow_redirects=False)
    assert other.status_code == 403  # the form of somebody else
    kept = dict(person.cookies)
    assert person.post("/logout", data={"csrf": _form(person)}, follow_redirects=False).status_code == 303
    again = stranger(shared)
    again.cookies.update(kept)
    assert again.get("/nothing").status_code == 303  # the cookie is worth nothing now, whoever kept it


def test_sessions_end_with_the_password_and_the_user(shared: FastAPI) -> None:
    users = Users(runs_root() / ".web/users.json")  # as another process changes them
    ada, ben, program = (signed_in(shared, "ada"), signed_in(shared, "ben"), member(shared, "ben"))
    member(shared, "ada")
    assert users.put("ada", "reader", "a new password") is False
    users.remove("ben")
    assert users.all()["ada"].tokens == ()
    for person in (ada, ben):
        assert person.get("/nothing", follow_redirects=False).status_code == 303
    assert program.get("/api/v1/runs").status_code == 401


def test_sessions_outlive_a_restart_and_end_after_hours(shared: FastAPI) -> None:
    path = runs_root() / ".web/sessions.json"
    secret = shared.state.access.sessions.begin("ada", "stamp")
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert Sessions(path).find(secret) is not None
    assert Sessions(path, clock=lambda: time.time() + HOURS * 3600 - 60).find(secret) is not None
    assert Sessions(path, clock=lambda: time.time() + HOURS * 3600 + 60).find(secret) is None
    assert Sessions(path).find("another") is None
    assert len({shared.state.access.sessions.begin("ben", "stamp") for _ in range(1200)}) == 1200
    assert Sessions(path).find(secret) is not None  # nobody signs out others by signing in
    path.write_text("{broken")
    assert Sessions(path).find(secret) is None


def test_whoever_tries_passwords_waits_longer_and_longer() -> None:
    now = [0.0]
    tries = LoginThrottle(lambda: now[0])
    assert [tries.wait("ada", "there") for _ in range(FREE["both"])] == [0.0] * FREE["both"]
    waits = []
    for _ in range(12):
        waits.append(tries.wait("ada", "there"))
        now[0] += waits[-1]
        assert tries.wait("ada", "there") == 0.0
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == 900.0
    assert tries.wait("ada", "elsewhere") == 0.0  # nobody else is shut out
    assert tries.wait("ben", "elsewhere") == 0.0
    tries = LoginThrottle(lambda: 0.0)
    waits = [tries.wait(f"name{number}", "there") for number in range(100)]  # nor can one address try many names
    assert waits[: FREE["address"]] == [0.0] * FREE["address"]
    assert min(waits[FREE["address"] :]) > 0
    tries = LoginThrottle(lambda: 0.0)
    assert max(tries.wait("ada", f"2001:db8::{number:x}") for number in range(100)) > 0  # all of one customer
    tries = LoginThrottle(lambda: 0.0)
    for number in range(100):  # a proxy that names no address shuts out nobody but those whose names are tried
        assert tries.wait(f"name{number}", "") == 0.0
    for _ in range(50):
        assert tries.wait("ada", "there") == 0.0
        tries.forgive("ada", "there")


def test_too_many_tries_are_told_to_wait(shared: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.state.access.tries = LoginThrottle(lambda: 0.0)
    monkeypatch.setattr(Users, "signed_in", lambda self, name, password: None)
    answers = [
        stranger(shared).post("/login", data={"name": "ada", "password": "wrong one"}) for _ in range(FREE["both"] + 1)
    ]
    assert [answer.status_code for answer in answers] == [401] * FREE["both"] + [429]
    assert answers[-1].headers["retry-after"] == "2"
    assert "too many attempts" in answers[-1].text


def test_what_no_user_can_be_called(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.json")
    for name, role, password, said in (
        *((name, "runner", "long enough", "small letters") for name in ("Ada", "../x", "x" * 65)),
        ("ada", "king", "long enough", "unknown role 'king'"),
        ("ada", "runner", "short", "8 to 1000 characters"),
    ):
        with pytest.raises(ConfigError, match=said):
            users.put(name, role, password)


def test_accounts_that_came_with_a_folder_of_runs_let_nobody_in(tmp_path: Path, monkeypatch) -> None:
    users = Users(tmp_path / "users.json")
    users.put("eve", "runner", "long enough")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of somebody else"))
    with pytest.raises(ConfigError, match="names 'eve', whom you have not added on this machine"):
        users.signed_in("eve", "long enough")
    users.put("eve", "reader", "another word")
    token = users.add_token("eve", "")
    assert users.signed_in("eve", "another word") is not None
    assert users.token_owner(token) == Person("eve", Role.READER)
    before = users.path.read_text()
    users.end_token("eve", "")
    for older in (before, users.path.read_text().replace('"reader"', '"runner"')):
        users.path.write_text(older)
        with pytest.raises(ConfigError, match="whom you have not added"):
            users.token_owner(token)
    for call in (lambda: users.signed_in("eve", "another word"), lambda: users.add_token("eve", "")):
        with pytest.raises(ConfigError, match="whom you have not added"):
            call()


def test_a_file_of_users_that_is_broken_lets_nobody_in_and_says_so(shared: FastAPI, capsys) -> None:
    person = signed_in(shared, "ada")
    path = runs_root() / ".web/users.json"
    path.write_text('{"schema": 1, "users": {"ada": {}}}')
    assert person.get("/nothing").status_code == 422
    assert "users.ada" in capsys.readouterr().err
    path.unlink()
    assert person.get("/nothing", follow_redirects=False).status_code == 303


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
TRIED = [*(("ben", spelling) for spelling in SPELLINGS), *(("eve", SPELLINGS[place]) for place in (0, 2, 7, 11))]
"""Who tries which; a reader is refused by the same rule, and changes nothing whatever it is called."""
PARAMETERS = ("a", "b", "run", "like", "name")
"""What parameters of an address are called that name a run."""
MARKS = ("nobody else reads this", "Hidalgo")
"""What stands in the notes of the private run, and in its questions and answers."""
ANSWER = {"item": "C1/add_unrelated_information/informed_protagonist/belief/swapped", "strategy": "cot"}
ASKED = {"benchmark": "perturbed", "model": "m", "base-url": ["http://127.0.0.1:9/v1"], "key": "OPENAI_API_KEY"}
ACTIONS = ("pause", "retry")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
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


@pytest.mark.parametrize(("who", "spelling"), TRIED)
def test_nobody_reads_or_changes_a_private_run(kept: FastAPI, read: list[Path], who: str, spelling: str) -> None:
    person, hers = member(kept, who), Path("runs/hers").resolve()
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


def test_its_owner_reads_it_under_its_own_name_alone(kept: FastAPI, read: list[Path]) -> None:
    ada = member(kept, "ada")
    for spelling in SPELLINGS:
        for path in ("/api/v1/runs/{}", "/api/v1/scores/{}", "/run/{}", "/answers/{}"):
            known = spelling in ("hers", "runs/hers", "faithfulness-hers")
            assert (ada.get(path.format(spelling)).status_code < 300) == known, (path, spelling)
    assert MARKS[1] in ada.get("/api/v1/answer/hers", params=ANSWER).text
    assert "hers" not in [run["name"] for run in member(kept, "eve").get("/api/v1/runs").json()["runs"]]
    line = ada.get("/api/v1/runs/faithfulness-hers").json()
    assert (line["owner"], line["private"], Path("runs/hers").resolve() in read) == ("ada", True, True)
    ada.patch("/api/v1/runs/faithfulness-hers", json={"notes": "changed"})
    assert "changed" not in member(kept, "eve").get("/api/v1/runs").text


def test_a_measurement_goes_into_no_folder_that_an_experiment_waits_in(tmp_path: Path) -> None:
    run_index.write_card(tmp_path / "soon", Card(owner="ben", job=Job(submitted="2026-11-23T12:00:00Z")))
    with pytest.raises(RunMismatchError, match="waits in the queue of the workbench"):
        measured(tmp_path / "soon")


def test_a_key_goes_to_no_address_of_a_strangers_experiment(kept: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    ada, folder = member(kept, "ada"), Path("runs/theirs")
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
    kept: FastAPI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    parts: list[str | None],
    status: int | None,
) -> None:
    """parts: of the body, None for nothing more for ever; after the last one the sender leaves."""
    monkeypatch.setattr(access, "STRANGERS_TIME", 0.05 if status == 408 else 60)
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
    asyncio.run(kept(scope, receive, send))
    assert [one["status"] for one in sent if "status" in one] == ([status] if status else [])
    assert "Traceback" not in capsys.readouterr().err
