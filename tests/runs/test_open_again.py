"""Final failures that are open again: by status, and where the server's context was raised."""

from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import Endpoint, completion
from tests.helpers.asking import row
from tests.helpers.outcomes import passes
from tomserve.errors import ConfigError
from tomserve.runs.journal import Journal
from tomserve.runs.open_again import OpenAgain, parse_statuses

LONG = "This model's maximum context length is 512 tokens. However, you requested 700 tokens."


def evaluated(cli, endpoint: Endpoint, items_file: Path, *options: object):
    common = ("eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", items_file, "--no-report")
    endpoint.requests.clear()
    return cli(*common, "--strategy", "vanilla", "--run", "r", *options)


def refuse_some(endpoint: Endpoint, error: str) -> None:
    """Refuse three questions of twenty from now on."""
    jars = [f"Jar number {number} " for number in (7, 13, 19)]

    def script(body, number):
        said = str(body["messages"])
        return (
            web.json_response({"error": {"message": error}}, status=400) if any(jar in said for jar in jars) else None
        )

    endpoint.script = script


def test_the_statuses_that_are_named(tmp_path: Path) -> None:
    assert parse_statuses(["refusal, http_400", "http_400"]) == ("refusal", "http_400")
    for given, said in (("ok", "holds an answer"), ("invalid", "is no status"), ("nonsense", "is no status")):
        with pytest.raises(ConfigError, match=f"--again {given}: {said}.*expected such as refusal or http_400"):
            parse_statuses([given])


def test_rows_of_a_status_are_open_again_until_they_have_another(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    with Journal(path) as journal:
        for number, status in enumerate(("ok", "http_400", "refusal")):
            journal.append(row(f"i{number}", status))
    again = OpenAgain(["http_400"], None, None, accepted=False)
    with Journal(path, again=again) as journal:
        assert [(f"i{number}", "s", 0, 0) in journal.final for number in range(3)] == [True, False, True]
        assert journal.find("k-i1") is None
        journal.append(row("i1", "http_400"))
        assert ("i1", "s", 0, 0) in journal.final, "it was asked again in this session"


def test_again_asks_those_alone(endpoint: Endpoint, cli, items_file: Path) -> None:
    refuse_some(endpoint, "no")
    assert evaluated(cli, endpoint, items_file).code == 1
    endpoint.script = lambda body, number: None
    assert evaluated(cli, endpoint, items_file).code == 1
    assert endpoint.requests == []
    passes(evaluated(cli, endpoint, items_file, "--again", "refusal,http_400"))
    assert len(endpoint.requests) == 3
    assert "ok" in passes(cli("verify", "r")).out


def test_a_raised_context_opens_what_was_too_long(endpoint: Endpoint, cli, items_file: Path) -> None:
    endpoint.max_model_len = 512
    refuse_some(endpoint, LONG)
    assert evaluated(cli, endpoint, items_file).code == 1
    endpoint.max_model_len, endpoint.script = 8192, lambda body, number: None
    done = evaluated(cli, endpoint, items_file)
    assert "3 questions were refused as too long before the server's context was raised to 8,192 tokens" in done.out
    assert "--accept-change asks again" in done.out
    assert endpoint.requests == []
    passes(evaluated(cli, endpoint, items_file, "--accept-change"))
    assert len(endpoint.requests) == 3
    assert "too long" not in passes(evaluated(cli, endpoint, items_file, "--accept-change")).out
    assert endpoint.requests == []


def test_a_key_file_that_changes_is_read_again(
    endpoint: Endpoint, cli, items_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text("an-old-token")
    endpoint.key = "an-old-token"
    monkeypatch.setenv("TOMSERVE_API_KEY_FILE", str(file))

    def script(body, number):
        if number == 6:
            endpoint.key = "a-new-token"
            file.write_text("a-new-token")
        return web.json_response(completion("tea"))

    endpoint.script = script
    done = evaluated(cli, endpoint, items_file)
    assert "key was refused" not in done.err
    assert "20 rows" in done.out
    assert "is another one by now" in (tmp_path / "runs/r/log.txt").read_text()
