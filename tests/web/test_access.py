"""What stands before every page: names of the host, tokens, forms of strangers, limits, and headers."""

import errno

import pytest
from fastapi import FastAPI

from tests.helpers.workbenches import ADDRESS, client, stranger, visitor
from tomserve.web import access
from tomserve.web.accounts import derive_secret
from tomserve.web.app import make_app
from tomserve.web.settings import Settings


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
    others = ("evil.example", "127.0.0.1.evil.example:8321", "8.8.8.8", "", "a@localhost", "localhost:x")
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
    kept = stranger(app).get("/static/workbench.css?v=1")
    assert kept.headers["cache-control"] == access.CACHED


def test_a_full_disk_is_told_as_such(app: FastAPI) -> None:
    @app.post("/api/fills")
    def fills() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    answer = client(app).post("/api/fills")
    assert (answer.status_code, "No space left on device" in answer.text) == (409, True)


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
    monkeypatch.setattr(access, "MOST_STREAMS_EACH", 0)
    answer = client(app).get("/nothing", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 503
    monkeypatch.setattr(access, "MOST_STREAMS_EACH", 1)
    for _ in range(3):  # each ends before the next begins
        assert client(app).get("/nothing", headers={"Accept": "text/event-stream"}).status_code == 404
