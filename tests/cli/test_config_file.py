"""An experiment in a file: `tomserve eval --config FILE.yaml`, over which the command line wins."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import Cli, Endpoint, running
from tests.helpers.answerers import Answerer
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tomserve.engine.redact import MASKED
from tomserve.runs.journal import read_rows
from tomserve.runs.manifest import Manifest
from tomserve.serving import keys
from tomserve.workflows import evaluate

KEY = "sk-of-the-experiment-0123456789"


@pytest.fixture(autouse=True)
def _no_key_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_used", [])


@pytest.fixture
def file(tmp_path: Path, endpoint: Endpoint, items_file: Path) -> Path:
    path = tmp_path / "experiment.yaml"
    path.write_text(
        f"base-url: {endpoint.url}\nbenchmark: items\npath: {items_file}\nstrategy: [vanilla]\nlimit: 4\n"
        "run: from-file\ntemperature: 0.5\nseed: 7\n"
    )
    return path


def manifest(tmp_path: Path, name: str) -> Manifest:
    found = Manifest.read(tmp_path / "runs" / name)
    assert found is not None
    return found


def test_the_command_line_wins_also_where_it_says_what_is_the_default_anyway(
    cli: Cli, file: Path, tmp_path: Path, endpoint: Endpoint
) -> None:
    line = ("--temperature", "0", "--limit", "3", "--strategy", "cot", "--run", "other", "--benchmark", "items")
    passes(cli("eval", "--config", file, *line))
    assert {(body["temperature"], body["seed"]) for body in endpoint.requests} == {(0, 7)}
    assert len(endpoint.requests) == 3
    assert list(manifest(tmp_path, "other").strategies) == ["cot"]
    assert not (tmp_path / "runs/from-file").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("limits: 3", ":9: limits: unknown key; did you mean 'limit'?"),
        ("timeout: 0", ":9: timeout: expected a number of at least 1; found 0"),
        ("variants: {all: 1}", ":9: variants: expected a list of texts; found"),
        ("key: TOMSERVE_NOT_THERE", ":9: key: the environment variable TOMSERVE_NOT_THERE is not set"),
        ("seed: 8", ":9: the key 'seed' is given twice"),
    ],
)
def test_what_is_wrong_is_told_by_file_line_and_field(cli: Cli, file: Path, line: str, said: str) -> None:
    file.write_text(file.read_text() + line + "\n")
    done = refuses_in_a_line(cli("eval", "--config", file, "--benchmark", "items"), f"{file}{said}")
    assert done.out == ""


def test_the_key_comes_from_the_variable_that_the_file_names_and_is_shown_nowhere(
    cli: Cli, file: Path, tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PROVIDERS_KEY", KEY)
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-another-one-that-is-not-meant")
    endpoint.key = KEY
    endpoint.script = lambda body, number: (
        web.json_response({"error": {"message": f"no quota for {KEY}"}}, status=400) if number == 1 else None
    )
    file.write_text(file.read_text() + "key: MY_PROVIDERS_KEY\n")
    refuses(cli("eval", "--config", file, "--benchmark", "items"), ":1: base-url: the API key would be sent to")
    assert not endpoint.requests, "a stranger may have written the file"
    done = cli("eval", "--config", file, "--benchmark", "items", "--base-url", endpoint.url)
    assert "failures: 1 " in done.out, done.err
    rows = [row for _, row in read_rows(tmp_path / "runs/from-file/responses.jsonl")]
    assert MASKED in str(rows)
    written = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    assert KEY not in done.out + done.err
    assert KEY.encode() not in written
    assert KEY in keys.all_keys()


def test_no_file_goes_to_an_address_where_a_strangers_experiment_names_both(cli: Cli, file: Path) -> None:
    file.write_text(file.read_text().replace(file.read_text().split()[1], "http://collector.invalid/v1"))
    refuses(
        cli("eval", "--config", file, "--benchmark", "items"),
        "would be sent to http://collector.invalid/v1, and only this file names both",
    )


def test_what_yaml_takes_for_something_else_is_read_as_it_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    for written, meant in (("off", "off"), ("on", "on"), ("512", "512"), ("'on'", "on")):
        path.write_text(f"thinking: {written}\nwhere: all\n")
        found = evaluate.read_experiment(path)
        assert (found.thinking, found.where) == (meant, ("all",))
        path.write_text(found.text())
        assert evaluate.read_experiment(path) == found


@pytest.fixture
def reasoning() -> Iterator[Endpoint]:
    import tomserve

    items = list(tomserve.load("perturbed"))
    with running() as found:
        found.script = Answerer(items, follows=1.0, wrong=0.15)
        yield found


def test_chains_are_edited_afterwards_where_the_file_says_so(cli: Cli, tmp_path: Path, reasoning: Endpoint) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(f"base-url: [{reasoning.url}]\nstrategy: [cot]\nlimit: 60\nrun: mine\nfaithfulness: true\n")
    done = passes(cli("eval", "--config", path))
    assert manifest(tmp_path, "faithfulness-mine").settings["of"] == "mine"
    assert done.out.index("runs/mine") < done.out.index("runs/faithfulness-mine")
