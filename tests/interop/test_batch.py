"""Batch files: what is exported, answered by somebody else, and imported is a run like one of our own.

A real vLLM answers one in tests/serving/test_serving_started.py.
"""

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Endpoint, completion, make_item
from tests.helpers import batches
from tests.helpers.outcomes import passes, refuses, refuses_in_a_line
from tests.helpers.talking import ITEMS, conversing
from tomserve.content import paths
from tomserve.engine.request import Identity
from tomserve.items import write_items
from tomserve.runs.journal import Journal, read_rows, row_identity


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return conversing(tmp_path)


def asks(folder: Path, *more: object, run: str = "r") -> tuple[object, ...]:
    return ("--benchmark", "items", "--path", folder / "items.jsonl", "--run", run, *more)


def export(cli: Any, folder: Path, out: str, *more: object, run: str = "r") -> Any:
    return cli("export", "batch", *asks(folder, "--model", "tiny", *more, run=run), "--out", folder / out)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(folder / "runs/r/responses.jsonl")]


def said(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says, whoever asked and when, and whether an equal request came first."""
    left_out = ("time", "timings", "attempts", "endpoint", "reused")
    return {name: value for name, value in row.items() if name not in left_out}


def live(cli: Any, folder: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, *more: object) -> Path:
    """The folder of the same run, asked of an endpoint."""
    endpoint.script = batches.scripted
    monkeypatch.setenv("TOMSERVE_RUNS", str(folder / "live"))
    passes(cli("eval", *asks(folder, "--base-url", endpoint.url, *more)))
    monkeypatch.setenv("TOMSERVE_RUNS", str(folder / "runs"))
    return folder / "live/r"


def test_results_make_the_same_run(folder: Path, endpoint: Endpoint, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    again = ("--strategy", "vanilla", "--strategy", "cot", "--temperature", "0.5", "--repeats", "2")
    again += ("--extra-body", '{"top_p": 0.5}', "--reasoning-effort", "low")
    own = live(cli, folder, endpoint, monkeypatch, *again)
    passes(export(cli, folder, "asked.jsonl", *again))
    bodies = [one["body"] for one in batches.asked(folder / "asked.jsonl")]
    assert sorted(map(orjson.dumps, bodies)) == sorted(map(orjson.dumps, endpoint.requests))
    found = batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl")
    done = passes(cli("import", "batch", found, "--run", "r"))
    assert f"{ITEMS * 4} rows added from {ITEMS * 4} results: {ITEMS * 4} ok" in done.out
    assert "nothing is left to ask" in done.out
    theirs = {row_identity(row): said(row) for _, row in read_rows(own / "responses.jsonl")}
    assert {row_identity(row): said(row) for row in rows(folder)} == theirs
    assert cli("score", "r").code == 0
    assert (folder / "runs/r/scores.parquet").read_bytes() == (own / "scores.parquet").read_bytes()
    manifest = orjson.loads((folder / "runs/r/manifest.json").read_bytes())
    assert manifest["complete"]
    assert manifest["sessions"][0]["served_models"] == ["tiny"]
    assert manifest["sessions"][0]["batch_files"][0]["name"] == "answered.jsonl"
    assert "nothing left to ask" in export(cli, folder, "more.jsonl", *again).out
    assert not (folder / "more.jsonl").exists()


def test_conversations_go_on_from_import_to_export_until_nothing_is_left(
    folder: Path, endpoint: Endpoint, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = ("--strategy", folder / "two", "--strategy", folder / "fan")
    own = live(cli, folder, endpoint, monkeypatch, *several)
    for turn in range(10):
        again = ("export", "batch", "--run", "r", "--out", folder / f"asked{turn}.jsonl", *several)
        passes(cli(*again) if turn else export(cli, folder, "asked0.jsonl", *several))
        if not (folder / f"asked{turn}.jsonl").exists():
            break
        found = batches.answered([folder / f"asked{turn}.jsonl"], folder / f"answered{turn}.jsonl", seed=turn)
        assert cli("import", "batch", found, "--run", "r", *several).code == 0
    assert turn == 3  # the first turn, those that go out together, the last one
    theirs = {row_identity(row): said(row) for _, row in read_rows(own / "responses.jsonl")}
    assert {row_identity(row): said(row) for row in rows(folder)} == theirs
    assert cli("score", "r").code == 0
    assert (folder / "runs/r/scores.parquet").read_bytes() == (own / "scores.parquet").read_bytes()


def test_a_file_of_items_is_opened_only_where_an_own_export_has_named_it(folder: Path, cli, tmp_path: Path) -> None:
    passes(export(cli, folder, "asked.jsonl"))
    found = batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl")
    shutil.rmtree(paths.state_root())  # as on the machine of somebody else
    done = cli("import", "batch", found, "--run", "r")
    assert (done.code, "names" in done.err, "no export of yours has written" in done.err) == (2, True, True)
    passes(export(cli, folder, "again.jsonl"))
    passes(cli("import", "batch", found, "--run", "r"))


def test_the_preset_of_a_strangers_record_is_checked_and_brings_no_templates(folder: Path, cli: Any) -> None:
    passes(export(cli, folder, "asked.jsonl"))
    path = folder / "runs/r/batch.json"
    record, preset = (
        {"schema": 1, "exports": [{"model": {"name": "tiny"}}]},
        {"schema": 1, "name": "theirs", "model": "m", "weights_gb": 1},
    )
    endless = "{% for one in range(99999) %}{% for other in range(99999) %}x{% endfor %}{% endfor %}"
    told = "the prompt_parts of theirs are templates, which are never taken from a record"
    for more, said in (({}, "cannot be read"), ({"max_model_len": 2048, "prompt_parts": {"user": endless}}, told)):
        record["exports"][0]["model"]["preset"] = {**preset, **more}
        path.write_bytes(orjson.dumps(record))
        refuses_in_a_line(
            cli("import", "batch", folder / "asked.jsonl", "--run", "r"), "batch.json: model.preset", said
        )


def test_files_are_split_and_equal_requests_are_sent_once(folder: Path, cli: Any) -> None:
    same = [make_item(1, id=f"same/{number}", cluster="same") for number in range(5)]
    write_items(folder / "items.jsonl", [make_item(number) for number in range(7)] + same)
    passes(export(cli, folder, "asked.jsonl", "--strategy", "vanilla", "--per-file", "3"))
    files = [folder / name for name in ("asked.jsonl", "asked-2.jsonl", "asked-3.jsonl")]
    assert [len(batches.asked(path)) for path in files] == [3, 3, 1]
    assert not (folder / "asked-4.jsonl").exists()
    known = {one["custom_id"] for path in files for one in batches.asked(path)}
    assert len(known) == 7
    assert {(one["method"], one["url"]) for one in batches.asked(files[0])} == {("POST", "/v1/chat/completions")}
    found = batches.answered(files, folder / "answered.jsonl")
    assert cli("import", "batch", found, "--run", "r").code == 0
    assert len(rows(folder)) == 12
    assert sum(row["reused"] for row in rows(folder)) == 5
    most = files[0].stat().st_size - 1
    assert export(cli, folder, "small.jsonl", "--strategy", "vanilla", "--max-bytes", most, run="other").code == 0
    small = list(folder.glob("small*.jsonl"))
    assert max(path.stat().st_size for path in small) <= most
    assert sum(len(batches.asked(path)) for path in small) == 7


def test_importing_again_changes_nothing_and_failures_are_asked_again(folder: Path, cli: Any) -> None:
    export(cli, folder, "asked.jsonl", "--strategy", "vanilla")
    ways = iter([*["batch_expired"] * 3, "batch_cancelled", 500, 400])

    def told(name: str, body: dict[str, Any]) -> dict[str, Any]:
        way = next(ways, 200)
        if isinstance(way, str):
            return batches.failed(name, way)
        if way == 400:  # vLLM has no body beside an error
            return batches.result(name, 400, None, {"error": {"message": "too long", "code": 400}})
        return batches.ok(name, body) if way == 200 else batches.result(name, way, {"error": {"message": "no"}})

    found = batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl", told)
    done = cli("import", "batch", found, "--run", "r")
    assert done.code == 1
    assert "1 connection, 1 http_400, 1 http_500, 6 ok, 3 timeout" in done.out, done.out
    assert "5 requests have no answer yet" in done.out
    before = (folder / "runs/r/responses.jsonl").read_bytes()
    again = cli("import", "batch", found, found, "--run", "r")
    assert "0 rows added from 12 results" in again.out
    assert "7 results were there before" in again.out
    assert (folder / "runs/r/responses.jsonl").read_bytes() == before
    errors = {row["status"]: row["error"] for row in rows(folder)}
    assert errors["timeout"] == "batch_expired: it was not asked"
    assert errors["http_400"] == "too long"
    assert cli("export", "batch", "--run", "r", "--out", folder / "again.jsonl").code == 0
    assert len(batches.asked(folder / "again.jsonl")) == 5  # a refused request is not asked again
    second = batches.answered([folder / "again.jsonl"], folder / "second.jsonl")
    passes(cli("import", "batch", second, found, "--run", "r"))
    assert len(orjson.loads((folder / "runs/r/manifest.json").read_bytes())["sessions"]) == 2
    with Journal(folder / "runs/r/responses.jsonl") as journal:
        assert all(Identity(f"demo/{number}", "vanilla", 0) in journal.final for number in range(ITEMS))


def test_results_of_no_request_and_cut_off_files_are_counted_and_named(folder: Path, cli: Any) -> None:
    export(cli, folder, "asked.jsonl", "--strategy", "vanilla")
    found = batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl")
    lines = found.read_bytes().splitlines(keepends=True)
    strange = orjson.dumps(batches.ok("\x1b[2Jstrange", batches.asked(folder / "asked.jsonl")[0]["body"]))
    found.write_bytes(b"\n".join([strange, b"", *lines[:4], lines[5][: len(lines[5]) // 2]]))
    done = cli("import", "batch", found, "--run", "r")
    assert done.code == 1
    assert "4 rows added from 5 results: 4 ok" in done.out
    assert "1 results belong to no request of this run (\\x1b[2Jstrange)" in done.err
    assert f"{found} ends within a line" in done.err
    assert f"{ITEMS - 4} requests have no answer yet" in done.out
    found.write_bytes(b"".join(lines).rstrip(b"\n"))  # some tools end a file without the end of a line
    assert cli("import", "batch", found, "--run", "r").code == 0
    assert len(rows(folder)) == ITEMS


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {}}', "holds requests"),
        (b'{"custom_id": 5, "response": null}', "is no result of a batch"),
        (b"[1]", "is no result of a batch"),
        (b"{", "not JSON"),
    ],
)
def test_a_file_that_holds_no_results_is_refused_by_line(folder: Path, cli: Any, line: bytes, told: str) -> None:
    export(cli, folder, "asked.jsonl", "--strategy", "vanilla")
    found = batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl")
    broken = folder / "broken.jsonl"
    broken.write_bytes(found.read_bytes() + line + b"\n")
    refuses(cli("import", "batch", found, broken, "--run", "r"), f"{broken}:{ITEMS + 1}: {told}")
    assert not rows(folder)


def test_hostile_results_make_rows_of_failures(folder: Path, cli: Any) -> None:
    export(cli, folder, "asked.jsonl", "--strategy", "vanilla")
    no_results = (
        {"response": 5, "error": None},
        {"response": None, "error": {"code": [1]}},
        {"response": {"status_code": True, "body": {}}},
        {"response": {"status_code": 10**15, "body": {}}},
    )
    shapes = iter([*no_results, *({"response": {"status_code": 200, "body": body}} for body in BODIES)])

    def told(name: str, body: dict[str, Any]) -> dict[str, Any]:
        shape = next(shapes, None)
        return batches.ok(name, body) if shape is None else {"custom_id": name, **shape}

    found = batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl", told)
    nested = b'{"choices":[{"message":{"content":"x"}}],"a":%b}' % (b'{"a":' * 500 + b"{}" + b"}" * 500)
    found.write_bytes(found.read_bytes().replace(b'"DEEP"', nested))
    done = cli("import", "batch", found, "--run", "r")
    assert done.code == 1, done.err
    assert "Traceback" not in done.err
    assert "2 connection, 7 malformed, 3 ok" in done.out, done.out


BODIES: tuple[Any, ...] = (None, [1], {"choices": []}, "DEEP", completion(None))
"""What no server should send as a reply; DEEP stands for one of 500 mappings within each other."""


def test_another_model_in_the_replies_ends_the_import_and_keeps_what_came_before(folder: Path, cli: Any) -> None:
    export(cli, folder, "asked.jsonl", "--strategy", "vanilla")
    names = iter(["tiny-2026-01-01"] * 5 + ["other"] * 20)

    def told(name: str, body: dict[str, Any]) -> dict[str, Any]:
        return batches.result(name, 200, completion('{"answer":"tea"}', next(names)))

    found = batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl", told)
    refuses(cli("import", "batch", found, "--run", "r"), "names the model")
    assert 0 < len(rows(folder)) < ITEMS
    done = passes(cli("import", "batch", found, "--run", "r", "--accept-change"))
    assert "warning: replies name the model 'other', and 'tiny' was asked" in done.out
    assert len(rows(folder)) == ITEMS
    changes = [one.get("changes") for one in orjson.loads((folder / "runs/r/manifest.json").read_bytes())["sessions"]]
    assert [one["accepted"] for one in changes[-1] or []] == [True]


def test_an_export_that_was_killed_is_repeated_and_goes_on_with_its_files(folder: Path, cli: Any) -> None:
    asked = (cli, folder, "asked.jsonl", "--strategy", "vanilla", "--per-file", "3")
    passes(export(*asked))
    written = {path: path.read_bytes() for path in sorted(folder.glob("asked*.jsonl"))}
    first, *_, last = written
    last.unlink()
    passes(export(*asked))
    assert {path: path.read_bytes() for path in folder.glob("asked*.jsonl")} == written
    for text in (b"".join(written.values()), written[first][:-1], b""):
        first.write_bytes(text)
        refuses(export(*asked), "is there already, and may wait in a queue")
        assert first.read_bytes() == text


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--model", "tiny"), "is there already"),
        (("--out", "x.jsonl"), "name the model by --model"),
        (("--model", "tiny", "--out", "x.jsonl", "--max-bytes", "1000"), "raise --max-bytes"),
        (("--model", "tiny", "--out", "runs/r/responses.jsonl"), "belongs to the run"),
    ],
)
def test_an_export_that_cannot_be_is_refused(folder: Path, cli: Any, given: tuple[str, ...], told: str) -> None:
    (folder / "taken.jsonl").touch()
    passes(
        cli("export", "batch", *asks(folder), "--model", "tiny", "--strategy", "vanilla", "--out", folder / "a.jsonl")
    )
    words = [str(folder / one) if one.endswith(".jsonl") else one for one in given]
    out = () if "--out" in given else ("--out", folder / "taken.jsonl")
    refuses(cli("export", "batch", *asks(folder), "--strategy", "vanilla", *words, *out), told)
    assert not list(folder.glob("x*.jsonl"))


def test_a_run_of_which_nothing_was_exported_takes_no_results(folder: Path, endpoint, cli, monkeypatch) -> None:
    live(cli, folder, endpoint, monkeypatch, "--strategy", "vanilla")
    (folder / "answered.jsonl").touch()
    monkeypatch.setenv("TOMSERVE_RUNS", str(folder / "live"))
    refuses(cli("import", "batch", folder / "answered.jsonl", "--run", "r"), "nothing was exported from this run")
    (folder / "live/r/batch.json").write_text('{"schema": 1, "exports": [{"limit": 0, "model": {"name": "m"}}]}')
    refuses(cli("import", "batch", folder / "answered.jsonl", "--run", "r"), "batch.json: exports.0.limit: expected")


def test_a_queue_asks_a_part_of_an_evaluation_that_was_divided(folder: Path, endpoint, cli, monkeypatch) -> None:
    own = live(cli, folder, endpoint, monkeypatch, "--strategy", "vanilla")
    passes(cli("shard", *asks(folder, "--base-url", endpoint.url, "--strategy", "vanilla", "--parts", "2")))
    assert cli("work", "r", "--part", "0", "--quiet").code == 0
    passes(cli("export", "batch", "--run", "r.parts/0001", "--out", folder / "asked.jsonl"))
    found = batches.answered([folder / "asked.jsonl"], folder / "answered.jsonl")
    assert cli("import", "batch", found, "--run", "r.parts/0001").code == 0
    assert "nothing left to ask" in cli("export", "batch", "--run", "r.parts/0001", "--out", folder / "b.jsonl").out
    assert not list(folder.glob("runs/r.parts/*/batch.json"))
    assert cli("merge", "r").code == 0
    theirs = {row_identity(row): said(row) for _, row in read_rows(own / "responses.jsonl")}
    assert {row_identity(row): said(row) for row in rows(folder)} == theirs
