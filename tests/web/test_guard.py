"""What stands before every page: names of the host, tokens, forms of strangers, limits, and headers."""

from __future__ import annotations

import pytest
from fastapi import FastAPI

from tests.helpers.workbenches import ADDRESS, client, stranger, visitor
from tomserve.web import guard, headers
from tomserve.web.app import make
from tomserve.web.settings import Settings


@pytest.fixture
def app() -> FastAPI:
    return make(Settings())


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


@pytest.mark.parametrize("path", ["//elsewhere.example/x", "/%5Celsewhere.example", "/%2Felsewhere.example"])
def test_the_printed_address_never_leads_elsewhere(app: FastAPI, path: str) -> None:
    answer = stranger(app).get(f"{ADDRESS}{path}?token={app.state.access.token}")
    there = answer.headers["location"]
    assert there.startswith("/")
    assert not there.startswith(("//", "/\\"))


@pytest.mark.parametrize("token", ["", "wrong", "ü", "x" * 43])
def test_a_wrong_token_lets_nobody_in(app: FastAPI, token: str) -> None:
    assert stranger(app).get("/", params={"token": token}).status_code == 401
    assert stranger(app).get("/", headers={"Authorization": b"Bearer " + token.encode()}).status_code == 401
    assert stranger(app).get("/", headers={"Cookie": f"tomserve_8321={token.encode().hex()}"}).status_code == 401


def test_a_wrong_header_is_not_made_good_by_a_cookie(app: FastAPI) -> None:
    person = visitor(app)
    assert person.get("/nothing").status_code == 404
    assert person.get("/nothing", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert person.get("/nothing", headers={"Authorization": "Basic eDp5"}).status_code == 401


@pytest.mark.parametrize(
    ("host", "known"),
    [
        *[(name, True) for name in ("127.0.0.1:8321", "localhost", "localhost:9", "[::1]:8321", "127.0.0.1")],
        *[(name, False) for name in ("evil.example", "127.0.0.1.evil.example:8321", "8.8.8.8", "", "a@localhost")],
        *[(name, False) for name in ("localhost:x", "localhost/x", "localhost#x", "[::1", "192.168.0.1:8321")],
    ],
)
def test_only_our_own_names_are_answered(app: FastAPI, host: str, known: bool) -> None:
    answer = client(app).get("/api/v1/health", headers={"Host": host})
    assert (answer.status_code != 421) == known


def test_behind_a_proxy_its_name_is_ours_too() -> None:
    away = Settings(host="0.0.0.0", auth=True, proxy="https://tom.example.org")
    assert headers.known_host("tom.example.org", away)
    assert headers.known_host("192.168.0.1:8321", away)
    assert not headers.known_host("evil.example", away)
    assert headers.known_origin("https://tom.example.org", "127.0.0.1:8321", away)
    assert not headers.known_origin("https://tom.example.org.evil.example", "127.0.0.1:8321", away)
    assert not headers.known_origin("null", "127.0.0.1:8321", away)


WRONG = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": ADDRESS, "Sec-Fetch-Site": "cross-site"},
]


def _csrf(app: FastAPI) -> str:
    from tomserve.web.tokens import derived

    return derived(app.state.access.ticket, "forms of the workbench")


@pytest.mark.parametrize("sent", WRONG)
def test_forms_of_strangers_are_refused(app: FastAPI, sent: dict[str, str]) -> None:
    answer = visitor(app).post("/logout", data={"csrf": _csrf(app)}, headers=sent, follow_redirects=False)
    assert answer.status_code == 403
    assert "does not belong to this workbench" in answer.text


@pytest.mark.parametrize("sent", [{}, {"Origin": ADDRESS}, {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}])
def test_a_form_carries_what_our_pages_put_into_it(app: FastAPI, sent: dict[str, str]) -> None:
    person = visitor(app)
    for wrong in ("", "wrong", "ü", app.state.access.ticket):
        answer = person.post("/logout", data={"csrf": wrong}, headers=sent, follow_redirects=False)
        assert answer.status_code == 403
    assert person.post("/logout", data={"csrf": _csrf(app)}, headers=sent, follow_redirects=False).status_code == 303
    person = visitor(app)
    by_htmx = {**sent, "X-CSRF-Token": _csrf(app)}
    assert person.post("/logout", headers=by_htmx, follow_redirects=False).status_code == 303


def test_what_is_sent_is_bounded(app: FastAPI) -> None:
    person = client(app)
    assert person.post("/logout", content=b"x" * (guard.LONGEST_BODY + 1)).status_code == 413
    assert person.post("/logout", content=iter([b"x" * 700_000] * 2)).status_code == 413
    assert person.get("/" + "x" * guard.LONGEST_ADDRESS).status_code == 414
    many = {f"field{number}": "" for number in range(guard.MOST_FIELDS + 1)}
    assert person.post("/logout", data=many).status_code in (400, 413)


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
        for name, value in headers.HEADERS.items():
            assert answer.headers.get_list(name) == [value], (answer.status_code, name)
        assert answer.headers["cache-control"] == "no-store"
    kept = stranger(app).get("/static/workbench.css?v=1")
    assert kept.headers["cache-control"] == headers.KEPT


def test_an_unexpected_error_is_told_to_the_owner_alone(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
    monkeypatch.setattr(guard, "MOST_STREAMS_EACH", 0)
    answer = client(app).get("/nothing", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 503
    monkeypatch.setattr(guard, "MOST_STREAMS_EACH", 1)
    for _ in range(3):  # each ends before the next begins
        assert client(app).get("/nothing", headers={"Accept": "text/event-stream"}).status_code == 404
