"""Signing in and out: passwords, sessions, roles, and how fast somebody may try."""

import re
import time
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.helpers.workbenches import ADDRESS, PASSWORDS, lab, member, signed_in, stranger
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.web.accounts import FREE, HOURS, LoginThrottle, Password, Sessions, Users


@pytest.fixture
def app() -> FastAPI:
    return lab()


def _form(person: TestClient) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', person.get("/nothing").text)
    assert found
    return found[1]


def test_a_stranger_is_led_to_the_form_and_then_to_where_they_wanted_to_go(app: FastAPI) -> None:
    person = stranger(app)
    answer = person.get("/queue?x=1")
    assert answer.headers["location"] == "/login?next=%2Fqueue%3Fx%3D1"
    assert 'name="next" value="/queue?x=1"' in person.get(answer.headers["location"]).text
    sent = {"name": "ada", "password": PASSWORDS["ada"], "next": "/queue?x=1"}
    answer = person.post("/login", data=sent, headers={"Origin": ADDRESS})
    assert (answer.status_code, answer.headers["location"]) == (303, "/queue?x=1")
    assert person.get("/nothing").status_code == 404
    assert "ada" in person.get("/nothing").text


def test_signing_in_never_leads_elsewhere_and_is_no_form_of_a_stranger(app: FastAPI) -> None:
    sent, outside = {"name": "ada", "password": PASSWORDS["ada"]}, ("javascript:alert(1)", "/login", "/a\nb")
    for there in ("//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", *outside):
        assert stranger(app).post("/login", data={**sent, "next": there}).headers["location"] == "/"
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}):
        assert stranger(app).post("/login", data=sent, headers=headers).status_code == 403


def test_a_wrong_name_and_a_wrong_password_are_answered_alike_and_cost_the_same(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, password in (("ada", "wrong one"), ("nobody", "wrong one"), ("", ""), ("ada", "")):
        answer = stranger(app).post("/login", data={"name": name, "password": password})
        assert answer.status_code == 401
        assert "wrong name or password" in answer.text
        assert "set-cookie" not in answer.headers
    made: list[tuple[int, int, int]] = []
    real = Password.made_of
    monkeypatch.setattr(
        Password, "made_of", lambda self, text: made.append((self.n, self.r, self.p)) or real(self, text)
    )
    app.state.access.users.put("ada", "runner", PASSWORDS["ada"])
    made.clear()
    for name in ("ada", "nobody"):
        app.state.access.users.signed_in(name, "wrong one")
    assert len(made) == 2
    assert made[0] == made[1]


def test_sessions_end_by_signing_out(app: FastAPI) -> None:
    person = signed_in(app, "ada")
    assert person.get("/nothing").status_code == 404
    other = signed_in(app, "ben").post("/logout", data={"csrf": _form(person)}, follow_redirects=False)
    assert other.status_code == 403  # the form of somebody else
    kept = dict(person.cookies)
    assert person.post("/logout", data={"csrf": _form(person)}, follow_redirects=False).status_code == 303
    again = stranger(app)
    again.cookies.update(kept)
    assert again.get("/nothing").status_code == 303  # the cookie is worth nothing now, whoever kept it


def test_sessions_end_with_the_password_and_the_user(app: FastAPI) -> None:
    users = Users(runs_root() / ".web/users.json")  # as another process changes them
    ada, ben, program = signed_in(app, "ada"), signed_in(app, "ben"), member(app, "ben")
    member(app, "ada")
    assert users.put("ada", "reader", "a new password") is False
    users.remove("ben")
    assert users.all()["ada"].tokens == ()
    for person in (ada, ben):
        assert person.get("/nothing", follow_redirects=False).status_code == 303
    assert program.get("/api/v1/runs").status_code == 401


def test_sessions_outlive_a_restart_and_end_after_hours(app: FastAPI) -> None:
    path = runs_root() / ".web/sessions.json"
    secret = app.state.access.sessions.begin("ada", "stamp")
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert Sessions(path).find(secret) is not None
    assert Sessions(path, clock=lambda: time.time() + HOURS * 3600 - 60).find(secret) is not None
    assert Sessions(path, clock=lambda: time.time() + HOURS * 3600 + 60).find(secret) is None
    assert Sessions(path).find("another") is None
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
    for number in range(100):  # a proxy that names no address shuts out nobody but those whose names are tried
        assert tries.wait(f"name{number}", "") == 0.0
    for _ in range(50):
        assert tries.wait("ada", "there") == 0.0
        tries.forgive("ada", "there")


def test_too_many_tries_are_told_to_wait(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    app.state.access.tries = LoginThrottle(lambda: 0.0)
    monkeypatch.setattr(Users, "signed_in", lambda self, name, password: None)
    answers = [
        stranger(app).post("/login", data={"name": "ada", "password": "wrong one"}) for _ in range(FREE["both"] + 1)
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


def test_a_file_of_users_that_is_broken_lets_nobody_in_and_says_so(
    app: FastAPI, capsys: pytest.CaptureFixture[str]
) -> None:
    person = signed_in(app, "ada")
    path = runs_root() / ".web/users.json"
    path.write_text('{"schema": 1, "users": {"ada": {}}}')
    assert person.get("/nothing").status_code == 422
    assert "users.ada" in capsys.readouterr().err
    path.unlink()
    assert person.get("/nothing", follow_redirects=False).status_code == 303
