"""What `tomserve doctor` tells of an endpoint before an evaluation."""

import re
from pathlib import Path

import pytest

from tests.conftest import Endpoint
from tests.helpers.endpoints import FINE, REFUSED, STARTS, Behaviour, Server, items
from tests.helpers.providers import PROVIDERS
from tomserve.runs.planning import EvalOptions
from tomserve.workflows.endpoint_check import check_endpoint

KNOWN = {**FINE, **REFUSED, **STARTS, **PROVIDERS}
TOLD = {
    "vLLM": {
        "requests": (True, "accepted as they are"),
        "model": (True, "org/m, loaded from org/m; engine version 0.31.0"),
        "models": (True, "serves org/m"),
        "schema": (True, "enforced"),
        "context": (True, "8,192 tokens"),
        "prompts": (True, "no sign"),
        "replies": (True, "8 of 8"),
        "speed": (True, "answers and .* reply tokens a second, 8 at a time"),
        "cost": (True, "all of items: 12 requests"),
    },
    "a temperature and a schema that is not kept": {
        "requests": (True, "of vanilla: accepted, adapted as follows"),
        "adapted": (True, "no_temperature: .*may differ between runs"),
        "schema": (None, "not enforced: replies are read"),
    },
    "DeepSeek": {"adapted": (True, "json_object: "), "schema": (None, "not enforced: "), "replies": (True, "8 of 8")},
    "Ollama": {"prompts": (None, "cuts prompts off: it counted 2,050")},
    "no list of models": {"models": (None, "HTTP 404"), "context": (None, "unknown"), "replies": (True, "8 of 8")},
    "a schema refused": {"evaluation": (False, "--schema off")},
    "no list of models and no name": {"evaluation": (False, "--model")},
    "a key that is missing": {"evaluation": (False, "You didn't provide an API key")},
}
LOOSE = Behaviour(REFUSED["temperature refused"].answer, schemas=())


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told(name: str, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behaviour = KNOWN.get(name, LOOSE)
    for variable, value in behaviour.environment.items():
        monkeypatch.setenv(variable, value)
    endpoint.first = Server(behaviour)
    path = tmp_path / "items.jsonl"
    path.write_bytes(b"".join(item.to_json() + b"\n" for item in items()))
    url = behaviour.url.replace("ROOT", f"http://127.0.0.1:{endpoint.port}")
    options = EvalOptions("items", path=path, strategies=("vanilla",), base_urls=(url,), **behaviour.options)
    found = {one.what: one for one in reversed(list(check_endpoint(options)))}
    for what, (holds, said) in TOLD[name].items():
        assert found[what].holds is holds, found
        assert re.search(said, found[what].said), found[what]
    assert ("evaluation" in found) == ("evaluation" in TOLD[name])


def test_the_command_fails_where_no_evaluation_could_be_run(endpoint: Endpoint, cli, items_file: Path) -> None:
    asked = ("doctor", "--benchmark", "items", "--path", items_file, "--base-url")
    done = cli(*asked, endpoint.url)
    assert (done.code, done.err) == (0, "")
    assert re.search(r"ok   model +tiny; engine version 0\.0\.test\nok   models +serves tiny\nok   requests", done.out)
    lost = cli(*asked, "http://127.0.0.1:1/v1")
    assert lost.code == 1
    assert "FAIL evaluation  no server answers there" in lost.out
