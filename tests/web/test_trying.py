"""One item asked of one model: what comes of it, who may see it, and where a key is sent."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.conftest import Endpoint, completion, make_item
from tests.helpers.workbenches import client, lab, member, signed_in, visitor
from tomserve.content.places import runs_root
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError
from tomserve.web import trying
from tomserve.web.pages.trying import own_item
from tomserve.web.people import Person
from tomserve.web.previews import How
from tomserve.web.settings import Settings
from tomserve.web.trying import Trial

COT = (
    '{"beliefs": [{"sentence": 1, "belief": "unknown"}, {"sentence": 2, "belief": "salt"}, '
    '{"sentence": 3, "belief": "tea"}], "answer": "tea"}'
)


@pytest.fixture(autouse=True)
def _usual_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of runs is set, as where `make web` starts the workbench in a checkout."""
    monkeypatch.delenv("TOMSERVE_RUNS")
    monkeypatch.chdir(tmp_path)


def ended(settings: Settings, person: Person, name: str) -> Trial:
    """The try once it is over."""
    for _ in range(1200):
        found = trying.look(settings, person, name)
        if found.state != "running":
            return found
        time.sleep(0.1)
    raise AssertionError("the try did not end within two minutes")


def test_a_reply_is_shown_with_how_it_was_read_and_where_the_chain_breaks(endpoint: Endpoint) -> None:
    endpoint.script = lambda body, n: completion(COT, reasoning="Ada looks.")
    settings, me = Settings(), Person()
    name = trying.ask(settings, me, make_item(), How("cot"), base_url=endpoint.url)
    found = ended(settings, me, name)
    assert (found.state, found.said, found.model) == ("done", "", "tiny")
    (row,) = found.rows
    assert (row["text"], row["reasoning"], row["status"]) == (COT, "Ada looks.", "ok")
    assert row["usage"]
    assert (found.score["answer"], found.score["correct"]) == ("tea", True)
    assert [one.stated for one in found.sentences] == ["unknown", "salt", "tea"]
    assert [one.gold for one in found.sentences] == [("unknown",), ("unknown",), ("tea",)]
    assert [one.number for one in found.sentences if one.breaks] == [2]
    assert orjson.loads(found.requests[0]) == endpoint.requests[0]
    assert not list(runs_root().glob("*/manifest.json")), "nothing goes into the runs"


def test_all_requests_of_a_conversation_are_shown(endpoint: Endpoint) -> None:
    settings, me = Settings(), Person()
    found = ended(settings, me, trying.ask(settings, me, make_item(), How("simtom"), base_url=endpoint.url))
    assert len(found.rows) == len(endpoint.requests) == 2
    assert [orjson.loads(text) for text in found.requests] == endpoint.requests


def test_an_endpoint_that_fails_is_said_to_fail(endpoint: Endpoint) -> None:
    endpoint.script = lambda body, n: web.json_response({"error": "<script>no</script>"}, status=500)
    settings, me = Settings(), Person()
    found = ended(
        settings, me, trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url, seconds=20)
    )
    assert found.state == "failed"
    assert found.said


def test_a_try_ends_at_its_deadline(endpoint: Endpoint) -> None:
    endpoint.delay = 600.0
    settings, me = Settings(), Person()
    found = ended(settings, me, trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url, seconds=2))
    assert (found.state, found.rows[:1] and found.rows[0]["status"]) in {
        ("failed", ()),
        ("failed", "timeout"),
        ("done", "timeout"),
    }


def test_a_process_that_is_killed_leaves_a_sentence(endpoint: Endpoint) -> None:
    endpoint.delay = 600.0
    settings, me = Settings(), Person()
    name = trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url)
    trying._children[-1].kill()
    assert "ended before there was an answer" in ended(settings, me, name).said


def test_only_a_few_are_asked_at_once(endpoint: Endpoint) -> None:
    endpoint.delay = 600.0
    settings, me = Settings(), Person()
    for number in range(trying.AT_ONCE):
        trying.ask(settings, me, make_item(number), How("vanilla"), base_url=endpoint.url)
    with pytest.raises(ConflictError, match="under way already"):
        trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url)
    trying.stop()
    assert trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url)
    trying.stop()


def test_a_try_is_nobody_elses(endpoint: Endpoint) -> None:
    settings, ada = Settings(), Person("ada")
    name = trying.ask(settings, ada, make_item(), How("vanilla"), base_url=endpoint.url)
    assert ended(settings, ada, name).state == "done"
    for stranger, given in ((Person("ben"), name), (ada, f"../tries/{name}"), (ada, "0" * 16), (ada, "")):
        with pytest.raises(NoSuchRunError):
            trying.look(settings, stranger, given)


def test_a_key_is_named_and_goes_to_its_address_alone(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-a-secret-of-somebody"
    monkeypatch.setenv("LAB_KEY", secret)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-secret")
    endpoint.key = secret
    settings, me = Settings(keys=(("LAB_KEY", endpoint.url),)), Person()
    with pytest.raises(ConfigError, match="unknown key 'HOME'"):
        trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url, key="HOME")
    with pytest.raises(ConfigError, match="may be sent to"):
        trying.ask(settings, me, make_item(), How("vanilla"), base_url="http://127.0.0.1:9/v1", key="LAB_KEY")
    without = ended(settings, me, trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url))
    assert without.state == "failed"
    found = ended(
        settings, me, trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url, key="LAB_KEY")
    )
    assert found.state == "done", found.said
    kept = b"".join(path.read_bytes() for path in (settings.folder / trying.FOLDER).rglob("*") if path.is_file())
    assert secret.encode() not in kept
    assert b"sk-another-secret" not in kept


def test_an_address_that_is_not_named_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "TOMSERVE_API_KEY", "VLLM_API_KEY", "TOMSERVE_API_KEY_FILE"):
        monkeypatch.setenv(name, "sk-secret")
    assert not [
        name for name, value in trying.environment_of(Settings(), "http://x/v1", "").items() if value == "sk-secret"
    ]
    named = trying.environment_of(Settings(), "http://x/v1", "OPENAI_API_KEY")
    assert [name for name, value in named.items() if value == "sk-secret"] == ["TOMSERVE_API_KEY"]


@pytest.mark.parametrize(
    ("how", "address", "said"),
    [
        (How("cot", model="/etc/passwd"), "", "not a path"),
        (How("cot", model="../x.yaml"), "", "not a path"),
        (How("/tmp/own"), "", "unknown strategy"),
        (How("cot"), "file:///etc/passwd", "no address of a server"),
        (How("cot"), "http://user:pass@x/v1", "holds a user name"),
    ],
)
def test_nothing_but_names_and_addresses_is_taken(how: How, address: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        trying.ask(Settings(), Person(), make_item(), how, base_url=address)


def test_only_the_last_tries_are_kept(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "KEPT", 2)
    settings, me = Settings(), Person()
    names = []
    for _ in range(3):
        names.append(trying.ask(settings, me, make_item(), How("vanilla"), base_url=endpoint.url))
        ended(settings, me, names[-1])
        os.utime(settings.folder / trying.FOLDER / names[-1], (len(names), len(names)))
    with pytest.raises(NoSuchRunError):
        trying.look(settings, me, names[0])
    assert trying.look(settings, me, names[1]).state == "done"


def token(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]*)"', page)
    assert found is not None
    return found[1]


def test_the_pages_ask_and_show_what_came_of_it(endpoint: Endpoint) -> None:
    endpoint.script = lambda body, n: completion('{"answer": "salt"}')
    app = client().app
    assert isinstance(app, FastAPI)
    me = visitor(app)
    form = {"csrf": token(me.get("/try").text), "story": "Tea is in it.\n\nAda looks.", "question": "What is in it?",
            "choices": "tea\nsalt", "answer": "tea", "strategy": "vanilla", "base_url": endpoint.url}  # fmt: skip
    answer = me.post("/try", data=form, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    text = shown(me, answer.headers["location"])
    assert "The reply answers <strong>salt</strong>; right is <strong>tea</strong>." in text
    assert "2. Ada looks." in text  # in the request
    wrong = me.post("/try", data={**form, "answer": "milk"})
    assert wrong.status_code == 422
    assert "none of the choices" in wrong.text
    assert "Tea is in it." in wrong.text  # what was written is not lost


def shown(me: TestClient, address: str) -> str:
    for _ in range(1200):
        answer = me.get(address)
        assert answer.status_code == 200, answer.text
        if "is being asked" not in answer.text:
            return answer.text
        time.sleep(0.1)
    raise AssertionError("the try did not end within two minutes")


def test_an_item_of_a_benchmark_is_asked_by_its_id(endpoint: Endpoint, tmp_path: Path) -> None:
    me = client()
    for _ in range(600):
        if "being read" not in me.get("/items?benchmark=perturbed").text:
            break
        time.sleep(0.1)
    item = "C1/none/false_belief/reality/original"
    assert "what is really in the bag?" in me.get(f"/try?benchmark=perturbed&item={item}").text
    form = {"benchmark": "perturbed", "item": item, "base_url": endpoint.url}
    answer = me.post("/try", data=form, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    assert "Right after it" in shown(me, answer.headers["location"])


def test_a_reader_cannot_ask() -> None:
    app = lab()
    assert "ask whoever keeps" in signed_in(app, "eve").get("/try").text.lower()
    assert member(app, "eve").post("/try", data={"question": "x"}).status_code == 403


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (("", "Q?", "a\nb", ""), "write a story"),
        (("S.", "Q?", "a", ""), "at least two"),
        (("S.", "Q?", "a\nA", ""), "not distinct"),
        (("S.", "Q?", f"a\n{'b' * 3000}", ""), "at most 2000"),
    ],
)
def test_a_story_that_cannot_be_asked_is_refused_in_words(fields: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        own_item(*fields)
