"""The command line: the main job against a real endpoint, and bad input with one clear line each.
--content stands anywhere on the line, and every command's help names it."""

import re
import shutil
import signal
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.conftest import ROOT, Endpoint
from tests.helpers.command import journal
from tests.helpers.outcomes import passes, refuses_in_a_line
from tomserve.cli import interrupts
from tomserve.runs.evaluation import evaluate
from tomserve.runs.planning import EvalOptions


def test_the_main_job(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    passes(cli("eval", "--base-url", endpoint.url, "--limit", 20), "Where does it break?")
    folder = tmp_path / "runs" / "perturbed-tiny"
    files = "manifest.json items.jsonl responses.jsonl scores.parquet log.txt progress.json .lock"
    assert {path.name for path in folder.iterdir()} == set(files.split())
    assert [row["status"] for row in journal(tmp_path / "runs/perturbed-tiny")] == ["ok"] * 40
    scores = pl.read_parquet(folder / "scores.parquet")
    assert scores.height == 40
    assert scores.select(["run", "model", "strategy", "item"]).is_unique().all()
    assert (set(scores["status"]), set(scores["parse"])) == ({"ok"}, {"json"})
    vanilla, cot = (scores.filter(pl.col("strategy") == name) for name in ("vanilla", "cot"))
    assert (vanilla["chain"].null_count(), cot["chain_proper"].null_count()) == (20, 0)
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    assert manifest["complete"] is True
    unknown = ["command", "dtype", "quantization", "tensor_parallel", "revision", "template", "hardware", "driver"]
    told = {"engine_version": "0.0.test", "root": None, "max_model_len": 4096}
    assert manifest["server"] == {**told, "unknown": unknown}
    items = {item["id"]: item for item in map(orjson.loads, (folder / "items.jsonl").read_bytes().splitlines())}
    for row in scores.iter_rows(named=True):  # the endpoint takes the first label, always
        assert row["answer"] == items[row["item"]]["choices"][0]
        assert row["correct"] == (row["answer"] == items[row["item"]]["answer"])


def test_scoring_and_analysis_need_no_server_and_repeat_to_the_byte(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    cli("eval", "--base-url", endpoint.url, "--limit", 10, "--run", "r")
    endpoint.port = 1
    table = tmp_path / "runs/r/scores.parquet"
    first = table.read_bytes()
    table.unlink()
    passes(cli("score", "r"))
    assert table.read_bytes() == first
    passes(cli("analyze", "r", "--format", "csv", "--out", tmp_path / "a"))
    passes(cli("analyze", "r", "--format", "csv", "--out", tmp_path / "b"))
    written = (tmp_path / "a/accuracy.csv").read_text()
    assert written == (tmp_path / "b/accuracy.csv").read_text()
    assert written.startswith("subset,model,strategy,perturbation,correct,total,accuracy,ci_low,ci_high,")
    shown = cli("analyze", table, "--format", "md").out
    assert shown.startswith("# accuracy: The share of right answers with its 95% interval")
    assert "Wilson" in shown.split("\n", 1)[0]
    passes(cli("score", "r", "--out", tmp_path / "s.csv"))
    passes(cli("analyze", tmp_path / "s.csv", "--format", "json", "--study", "perturbed"))


def test_runs_and_items_and_validate(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    assert "make one with" in cli("runs").out
    cli("eval", "--base-url", endpoint.url, "--limit", 4, "--run", "r")
    assert re.search(r"r\s+tiny\s+perturbed", cli("runs").out)
    shown = cli("runs", "r").out
    assert "4 ok" in shown
    assert "server: engine version 0.0.test" in shown
    select = ("--where", "perturbation=none", "--where", "swapped=false")
    assert "written:" in cli("items", "perturbed", *select, "--out", tmp_path / "i.jsonl").out
    count = len((tmp_path / "i.jsonl").read_text().splitlines())
    assert count % 8 == 0
    assert "C2: 10 tasks, 40 stories, 160 questions" in cli("dataset", "validate", "perturbed").out


# bad input: exit code 2, one line, no traceback

BAD = {
    "endpoint down": (["eval", "--base-url", "http://127.0.0.1:1/v1"], "127.0.0.1:1/v1: no server answers there"),
    "not a URL": (["eval", "--base-url", "ftp://x"], "the base URL 'ftp://x' is no address of a server; expected one such as"),
    "too many tokens": (["eval", "--max-tokens", "9" * 20], "--max-tokens"),
    "a flag behind our back": (
        ["serve", "dbrx", "--dry-run", "--", "--port=9"],
        "--port after `--`: tomserve must know it; use tomserve's --port",
    ),
    "credentials in the URL": (["eval", "--base-url", "http://me:sk-secret@h/v1"], "a key belongs into TOMSERVE_API_KEY"),
    "unknown preset": (["eval", "--model", "dbrxx"], "unknown preset 'dbrxx'; did you mean 'dbrx'"),
    "unknown option": (["eval", "--modle", "x"], "No such option"),
    "an option of a group twice": (["generate", "worlds", "--seed", "1", "--seed", "2"], "--seed is given more than once"),
    "argument as an option": (["analyze", "--run", "x"], "--run; write it alone, as in `tomserve analyze RUN`"),
    "unknown command": (["evall"], "No such command"),
    "no such run": (["score", "nothing"], "no run there"),
    "a run outside": (["eval", "--run", ".."], "run name '..'"),
    "items without a path": (["eval", "--benchmark", "items"], "needs a file: --path"),
    "no content folder": (["--content", "/nonexistent", "items", "perturbed"], "is not a folder"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(cli, name: str) -> None:
    arguments, text = BAD[name]
    done = refuses_in_a_line(cli(*arguments), text)
    assert done.err.startswith("tomserve: ")
    assert "sk-secret" not in done.err


def test_further_fields_of_a_request_are_sent_recorded_and_checked(endpoint, cli, tmp_path: Path, monkeypatch) -> None:
    config = tmp_path / "experiment.yaml"
    config.write_text("schema: 1\nextra-body: {top_p: 0.5}\nreasoning-effort: low\n")
    line = ("eval", "--base-url", endpoint.url, "--limit", 1)
    for more in ((*line, "--extra-body", '{"top_p": 0.5}', "--reasoning-effort", "low"), (*line, "--config", config)):
        done = passes(cli(*more))
    sent = endpoint.requests[0]
    assert (sent["top_p"], sent["reasoning_effort"]) == (0.5, "low")
    (folder,) = (tmp_path / "runs").glob("*-effort-low")
    sampling = orjson.loads((folder / "manifest.json").read_bytes())["sampling"]
    assert sampling == {"temperature": 0.0, "seed": 0, "top_p": 0.5, "reasoning_effort": "low"}
    assert "nothing left to ask" in done.out
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-0123456789")
    for given, said in {
        '{"max_tokens": 3}': "tomserve sets 'max_tokens' itself; give it by --max-tokens",
        '{"user": "sk-0123456789"}': "holds an API key",
        "[1]": "expected an object of JSON",
        '{"reasoning_effort": "high"}': "another 'reasoning_effort' than --reasoning-effort",
    }.items():
        refused = cli(*line, "--reasoning-effort", "low", "--extra-body", given)
        refuses_in_a_line(refused, said)
        assert "sk-0" not in refused.err


def test_keys(endpoint: Endpoint, cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    endpoint.key = "sk-right"
    refuses_in_a_line(
        cli("eval", "--base-url", endpoint.url), "the API key is missing (HTTP 401: Unauthorized); set TOMSERVE_API_KEY"
    )
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-wrong")
    done = cli("eval", "--base-url", endpoint.url)
    refuses_in_a_line(done, "the API key was refused")
    assert "sk-wrong" not in done.err
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-right")
    done = passes(cli("eval", "--base-url", endpoint.url, "--limit", 4, "--run", "r"))
    for path in (tmp_path / "runs/r").iterdir():
        assert b"sk-right" not in path.read_bytes()
    assert "sk-right" not in done.out + done.err
    monkeypatch.delenv("TOMSERVE_API_KEY")
    (tmp_path / "key").write_text("sk-right\n")
    monkeypatch.setenv("TOMSERVE_API_KEY_FILE", str(tmp_path / "key"))
    (tmp_path / "key").chmod(0o600)
    passes(cli("eval", "--base-url", endpoint.url, "--limit", 5, "--run", "r"))


def test_context_too_short_names_the_item_before_anything_is_asked(endpoint: Endpoint, cli) -> None:
    endpoint.max_model_len = 1100
    done = cli("eval", "--base-url", endpoint.url)
    refuses_in_a_line(done, "exceed the context of 1100 tokens")
    assert re.search(r"item '\w+/\w+/\w+/\w+/\w+', strategy 'cot': \d+ prompt tokens \+ 1024", done.err)
    assert endpoint.requests == []
    passes(cli("eval", "--base-url", endpoint.url, "--max-tokens", 64, "--limit", 2))


def test_broken_files_in_a_run(endpoint: Endpoint, cli, tmp_path: Path) -> None:
    run = ["eval", "--base-url", endpoint.url, "--strategy", "vanilla", "--run", "r", "--limit", 2]
    cli(*run)
    folder = tmp_path / "runs/r"
    manifest = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(manifest[:50])
    refuses_in_a_line(cli(*run), "manifest.json:")
    (folder / "manifest.json").unlink()
    refuses_in_a_line(cli(*run), "is there without a manifest.json")


def test_a_folder_that_cannot_be_written(endpoint: Endpoint, cli, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()  # root may write anywhere, but not below a file
    monkeypatch.setenv("TOMSERVE_RUNS", str(tmp_path / "file"))
    refuses_in_a_line(
        cli("eval", "--base-url", endpoint.url), "cannot be written (Not a directory); choose a writable place"
    )


def test_unknown_environment_variable(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_CONTNET", "x")
    refuses_in_a_line(cli("runs"), "unknown environment variable 'TOMSERVE_CONTNET'; did you mean 'TOMSERVE_CONTENT'?")


def test_mistakes_in_content_files(cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path))
    folder = tmp_path / "prompts/vanilla"
    folder.mkdir(parents=True)
    original = ROOT / "prompts/vanilla"
    for path in original.iterdir():
        (folder / path.name).write_text(path.read_text())
    shutil.copy(ROOT / "prompts/demonstrations.yaml", tmp_path / "prompts")
    ask = ["eval", "--base-url", endpoint.url, "--strategy", "vanilla", "--limit", 1]
    (folder / "user.j2").write_text("Story:\n{% for %}\n")
    refuses_in_a_line(cli(*ask), f"{folder}/user.j2:2: broken template")
    (folder / "user.j2").write_text((original / "user.j2").read_text())
    (folder / "schema.j2").write_text('{"type": }')
    refuses_in_a_line(cli(*ask), "schema.j2:1: does not render to JSON")
    (folder / "strategy.yaml").write_text("schema: 1\ndescription: x\nmax_token: 3\n")
    refuses_in_a_line(cli(*ask), f"{folder}/strategy.yaml:3: max_token: unknown key; did you mean 'max_tokens'")


def test_signals_are_heard_after_asking_too(endpoint: Endpoint, items_file: Path) -> None:
    """asyncio takes the handlers away with its loop: scoring, the report and the server's end come after it."""
    before = signal.getsignal(signal.SIGTERM)
    ours = lambda number, frame: None  # noqa: E731
    signal.signal(signal.SIGTERM, ours)
    try:
        evaluate(
            EvalOptions(benchmark="items", path=items_file, base_urls=(endpoint.url,), run="r"),
            drive=interrupts.ask_with_signals,
        )
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "prompts/vanilla_1", tmp_path / "own/prompts/terse")
    return tmp_path / "own"


@pytest.mark.parametrize("place", [0, 3])
def test_it_stands_anywhere(place: int, folder: Path, endpoint: Endpoint, cli) -> None:  # type: ignore[no-untyped-def]
    line = ["eval", "--base-url", endpoint.url, "--limit", 2, "--strategy", "terse", "--run", "r"]
    line += ["--benchmark", "perturbed"]  # which the fixture sees to only where the command comes first
    assert "unknown strategy 'terse'" in cli(*line).err
    done = passes(cli(*line[:place], "--content", folder, *line[place:], *(["--no-report"] if place == 0 else [])))
    assert done.err.count("\n") == 1  # the warning that two questions are not all
    assert "covers 2 of" in done.err
