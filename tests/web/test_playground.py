"""One item asked of one model: what comes of it, who may see it, and where a key is sent."""

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiohttp import web
from fastapi import FastAPI

from tests.conftest import Endpoint, completion, make_item
from tests.helpers.queues import until
from tests.helpers.workbenches import client, visitor
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError, ConflictError, NoSuchRunError, TomserveError
from tomserve.web import playground
from tomserve.web.accounts import Person
from tomserve.web.items import How
from tomserve.web.playground import Trial
from tomserve.web.routes.items import own_item
from tomserve.web.settings import Settings

COT = (
    '{"beliefs": [{"sentence": 1, "belief": "unknown"}, {"sentence": 2, "belief": "salt"}, '
    '{"sentence": 3, "belief": "tea"}], "answer": "tea"}'
)
ME = Person()


@pytest.fixture(autouse=True)
def _usual_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of runs is set, as where `make web` starts the workbench in a checkout."""
    monkeypatch.delenv("TOMSERVE_RUNS")
    monkeypatch.chdir(tmp_path)


def begin(endpoint: Endpoint, strategy: str = "vanilla", person: Person = ME, **more: Any) -> str:
    return playground.start_trial(
        Settings(), person, make_item(), How(strategy=strategy), base_url=endpoint.url, **more
    )


def ended(name: str, person: Person = ME) -> Trial:
    until(lambda: playground.read_trial(Settings(), person, name).state != "running")
    return playground.read_trial(Settings(), person, name)


def test_a_reply_is_shown_with_how_it_was_read_and_where_the_chain_breaks(endpoint: Endpoint) -> None:
    endpoint.script = lambda body, n: completion(COT, reasoning="Ada looks.")
    found = ended(begin(endpoint, "cot"))
    assert (found.state, found.said, found.model, found.where) == ("done", "", "tiny", endpoint.url)
    (row,) = found.rows
    assert (row["text"], row["reasoning"], row["status"]) == (COT, "Ada looks.", "ok")
    assert row["usage"]
    assert (found.score["answer"], found.score["correct"]) == ("tea", True)
    assert [one.stated for one in found.sentences] == ["unknown", "salt", "tea"]
    assert [one.gold for one in found.sentences] == [("unknown",), ("unknown",), ("tea",)]
    assert [one.number for one in found.sentences if one.breaks] == [2]
    assert orjson.loads(found.requests[0]) == endpoint.requests[0]
    assert not list(runs_root().glob("*/manifest.json")), "nothing goes into the runs"


def test_what_fails_is_said_to_fail(endpoint: Endpoint) -> None:
    endpoint.script = lambda body, n: web.json_response({"error": "<script>no</script>"}, status=400)
    found = ended(begin(endpoint))
    assert (found.state, bool(found.said)) == ("failed", True)
    name = begin(endpoint)
    (Settings().folder / playground.FOLDER / name / playground.RESULT).unlink()
    assert "ended before there was an answer" in ended(name).said


def test_only_a_few_are_asked_at_once_and_the_last_are_kept(endpoint: Endpoint, monkeypatch) -> None:
    monkeypatch.setattr(playground, "KEPT", 2)
    folder, names = Settings().folder / playground.FOLDER, list[str]()
    for number in range(1, 4):
        names.append(begin(endpoint))
        os.utime(folder / names[-1], (number, number))
    with pytest.raises(NoSuchRunError):
        playground.read_trial(Settings(), ME, names[0])
    assert playground.read_trial(Settings(), ME, names[1]).state == "done"
    running: dict[str, Any] = {str(number): SimpleNamespace(poll=lambda: None) for number in range(playground.AT_ONCE)}
    monkeypatch.setattr(playground, "_children", running)
    with pytest.raises(ConflictError, match="under way already"):
        begin(endpoint)


def test_a_try_is_nobody_elses(endpoint: Endpoint) -> None:
    ada = Person("ada")
    name = begin(endpoint, person=ada)
    assert ended(name, ada).state == "done"
    for stranger, other in ((Person("ben"), name), (ada, f"../tries/{name}"), (ada, "0" * 16), (ada, "")):
        with pytest.raises(NoSuchRunError):
            playground.read_trial(Settings(), stranger, other)


def test_a_key_is_named_and_goes_to_its_address_alone(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-a-secret-of-somebody"
    monkeypatch.setenv("LAB_KEY", secret)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-secret")
    endpoint.key = secret
    settings, item, how = Settings(keys=(("LAB_KEY", endpoint.url),)), make_item(), How(strategy="vanilla")
    for address, key, said in (
        (endpoint.url, "HOME", "HOME is no variable"),
        ("http://127.0.0.1:9/v1", "LAB_KEY", "may only be sent to"),
        ("", "LAB_KEY", "give one, or choose no key"),
    ):
        with pytest.raises(TomserveError, match=said):
            playground.start_trial(settings, ME, item, how, base_url=address, key=key)
    assert ended(playground.start_trial(settings, ME, item, how, base_url=endpoint.url)).state == "failed"
    found = ended(playground.start_trial(settings, ME, item, how, base_url=endpoint.url, key="LAB_KEY"))
    assert found.state == "done", found.said
    kept = b"".join(path.read_bytes() for path in (settings.folder / playground.FOLDER).rglob("*") if path.is_file())
    assert b"secret" not in kept


def test_an_address_that_is_not_named_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "TOMSERVE_API_KEY", "VLLM_API_KEY", "TOMSERVE_API_KEY_FILE"):
        monkeypatch.setenv(name, "sk-secret")

    def keys(address: str, key: str) -> list[str]:
        found = playground.environment_of(Settings(), address, key)
        return [name for name, value in found.items() if value == "sk-secret"]

    assert keys("http://x/v1", "") == []
    assert keys("http://x/v1", "OPENAI_API_KEY") == ["TOMSERVE_API_KEY"]
    assert "TOMSERVE_API_KEY" in keys("", ""), "servers that were started here have their own"


@pytest.mark.parametrize(
    ("how", "address", "said"),
    [
        (How(strategy="cot", model="/etc/passwd"), "", "not a path"),
        (How(strategy="cot", model="../x.yaml"), "", "not a path"),
        (How(strategy="cot", model="a/../../etc/ssl"), "", "unknown model"),
        (How(strategy="/tmp/own"), "", "unknown strategy"),
        (How(strategy="cot"), "file:///etc/passwd", "no address of a server"),
        (How(strategy="cot"), "http://user:pass@x/v1", "holds a user name"),
    ],
)
def test_nothing_but_names_and_addresses_is_taken(how: How, address: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        playground.start_trial(Settings(), ME, make_item(), how, base_url=address)


def test_the_pages_ask_and_show_what_came_of_it(endpoint: Endpoint) -> None:
    endpoint.script = lambda body, n: completion('{"answer": "salt"}')
    app = client().app
    assert isinstance(app, FastAPI)
    me = visitor(app)
    token = re.search(r'name="csrf" value="([^"]*)"', me.get("/try").text)
    form = {"csrf": token[1], "story": "Tea is in it.\n\nAda looks.", "question": "What is in it?",
            "choices": "tea\nsalt", "answer": "tea", "strategy": "vanilla", "base_url": endpoint.url}  # fmt: skip
    answer = me.post("/try", data=form, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    text = me.get(answer.headers["location"]).text
    assert "Answer: <strong>salt</strong>; gold answer: <strong>tea</strong>." in text
    assert "2. Ada looks." in text  # in the request
    wrong = me.post("/try", data={**form, "answer": "milk"})
    assert wrong.status_code == 422
    assert "none of the choices" in wrong.text
    assert "Tea is in it." in wrong.text  # what was written is not lost


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


@pytest.mark.system
def test_a_process_asks_until_its_deadline_or_until_it_is_ended(endpoint: Endpoint) -> None:
    done = ended(begin(endpoint))
    assert (done.state, done.rows[0]["status"]) == ("done", "ok"), done.said
    endpoint.hold = lambda body: True
    try:
        late = ended(begin(endpoint, seconds=2))
        assert late.state == "failed" or late.rows[0]["status"] == "timeout"
        until(lambda: all(child.poll() is not None for child in playground._children.values()), "their places")
        names = [begin(endpoint) for _ in range(playground.AT_ONCE)]
        assert playground.read_trial(Settings(), ME, names[0]).state == "running"
        with pytest.raises(ConflictError, match="under way already"):
            begin(endpoint)
        playground._children[names[-1]].kill()
        assert "ended before there was an answer" in ended(names[-1]).said
        playground.stop_trials()
        assert {ended(name).state for name in names} == {"failed"}
    finally:
        endpoint.hold = lambda body: False
