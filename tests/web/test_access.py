"""Signing in and out: passwords, sessions, roles, and how fast somebody may try."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.helpers.command import TOMSERVE, environment
from tests.helpers.workbenches import ADDRESS, PASSWORDS, lab, member, signed_in, stranger
from tomserve.content.places import runs_root
from tomserve.errors import ConfigError
from tomserve.web.sessions import FREE, HOURS, Sessions, SlowDown
from tomserve.web.users import Password, Users


@pytest.fixture
def app() -> FastAPI:
    return lab()


def _form(person: TestClient) -> str:
    """What a page of ours puts into every form of that person."""
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


@pytest.mark.parametrize(
    "there",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", "javascript:alert(1)", "/login", "/a\nb"],
)
def test_signing_in_never_leads_elsewhere(app: FastAPI, there: str) -> None:
    answer = stranger(app).post("/login", data={"name": "ada", "password": PASSWORDS["ada"], "next": there})
    assert answer.headers["location"] == "/"


def test_signing_in_is_no_form_of_a_stranger(app: FastAPI) -> None:
    sent = {"name": "ada", "password": PASSWORDS["ada"]}
    assert stranger(app).post("/login", data=sent, headers={"Origin": "https://evil.example"}).status_code == 403
    assert stranger(app).post("/login", data=sent, headers={"Sec-Fetch-Site": "same-site"}).status_code == 403


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong one"), ("nobody", "wrong one"), ("", ""), ("ada", "")])
def test_a_wrong_name_and_a_wrong_password_are_answered_alike(app: FastAPI, name: str, password: str) -> None:
    answer = stranger(app).post("/login", data={"name": name, "password": password})
    assert answer.status_code == 401
    assert "the name or the password is wrong" in answer.text
    assert "set-cookie" not in answer.headers


def test_an_unknown_name_costs_as_much_as_a_wrong_password(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
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
    kept = dict(person.cookies)
    assert person.post("/logout", data={"csrf": _form(person)}, follow_redirects=False).status_code == 303
    again = stranger(app)
    again.cookies.update(kept)
    assert again.get("/nothing").status_code == 303  # the cookie is worth nothing now, whoever kept it


def test_sessions_end_with_the_password_and_the_user(app: FastAPI) -> None:
    users = Users(runs_root() / ".web/users.json")  # as another process changes them
    ada, ben, program = signed_in(app, "ada"), signed_in(app, "ben"), member(app, "ben")
    assert users.put("ada", "reader", "a new password") is False
    users.remove("ben")
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


def test_two_people_have_forms_of_their_own(app: FastAPI) -> None:
    ada, ben = signed_in(app, "ada"), signed_in(app, "ben")
    assert ada.post("/logout", data={"csrf": _form(ben)}, follow_redirects=False).status_code == 403


def test_whoever_tries_passwords_waits_longer_and_longer() -> None:
    now = [0.0]
    tries = SlowDown(lambda: now[0])
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


def test_one_address_cannot_try_many_names_at_once() -> None:
    tries = SlowDown(lambda: 0.0)
    waits = [tries.wait(f"name{number}", "there") for number in range(100)]
    assert waits[: FREE["address"]] == [0.0] * FREE["address"]
    assert min(waits[FREE["address"] :]) > 0


def test_signing_in_forgets_failures() -> None:
    tries = SlowDown(lambda: 0.0)
    for _ in range(50):
        assert tries.wait("ada", "there") == 0.0
        tries.worked("ada", "there")


def test_too_many_tries_are_told_to_wait(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    app.state.access.tries = SlowDown(lambda: 0.0)
    monkeypatch.setattr(Users, "signed_in", lambda self, name, password: None)
    answers = [
        stranger(app).post("/login", data={"name": "ada", "password": "wrong one"}) for _ in range(FREE["both"] + 1)
    ]
    assert [answer.status_code for answer in answers] == [401] * FREE["both"] + [429]
    assert answers[-1].headers["retry-after"] == "2"
    assert "too many tries" in answers[-1].text


@pytest.mark.parametrize(
    ("name", "role", "password", "said"),
    [
        ("Ada", "runner", "long enough", "small letters"),
        ("../x", "runner", "long enough", "small letters"),
        ("x" * 65, "runner", "long enough", "small letters"),
        ("ada", "king", "long enough", "unknown role 'king'"),
        ("ada", "runner", "short", "8 to 1000 characters"),
    ],
)
def test_what_no_user_can_be_called(tmp_path: Path, name: str, role: str, password: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Users(tmp_path / "users.json").put(name, role, password)


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


def test_users_are_added_on_the_command_line_without_a_password_in_sight(tmp_path: Path) -> None:
    def command(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        line = [*TOMSERVE, "web", *arguments]
        return subprocess.run(line, env=environment(tmp_path), input=given, capture_output=True, text=True, timeout=300)

    none = command("--auth")
    assert none.returncode == 2
    assert "--add-user" in none.stderr
    added = command("--add-user", "ada", "--role", "runner", given="enough letters\n")
    assert (added.returncode, added.stdout) == (0, "ada may sign in as a runner\n")
    users = Users(tmp_path / ".web/users.json")
    assert users.path.stat().st_mode & 0o077 == 0
    assert "enough" not in users.path.read_text()
    found = users.signed_in("ada", "enough letters")
    assert found is not None
    assert found.role == "runner"
    assert command("--add-user", "ada", given="\n").returncode == 2
    token = command("--add-token", "ada").stdout.strip()
    person = users.of_token(token)
    assert person is not None
    assert person.name == "ada"
    assert command("--remove-user", "ada").returncode == 0
    assert users.all() == {}
    assert "unknown user 'ada'" in command("--remove-user", "ada").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "--auth"),
        (("--host", "192.0.2.1"), "--auth"),
        (("--proxy", "tom.example.org"), "expected a host alone"),
        (("--proxy", "https://tom.example.org/below"), "expected a host alone"),
        (("--role", "runner"), "goes with --add-user"),
        (("--key", "sk-0123456789abcdef"), "never the key itself"),
        (("--rebuild", "--remove-user", "x"), "only one of these"),
    ],
)
def test_what_would_let_strangers_in_is_refused(cli, arguments: tuple[str, ...], said: str) -> None:
    outcome = cli("web", *arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert "sk-0123456789abcdef" not in outcome.err
