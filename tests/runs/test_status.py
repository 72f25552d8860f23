"""Every row counts: whatever its status is, it is an outcome in every table, headline and exit code."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import orjson
import polars as pl
import pytest
from aiohttp import web

from tests.conftest import ROOT, Endpoint, completion, make_item
from tests.helpers.outcomes import passes, refuses_in_a_line
from tomserve import status
from tomserve.engine.replies import read_reply
from tomserve.engine.transport import Reply
from tomserve.items import write_items
from tomserve.runs.scores import load_scores
from tomserve.scoring.score import score_row
from tomserve.studies import analyze, load_study

FAILURES = (
    *(status.REFUSAL, status.TIMEOUT, status.CONNECTION, status.MALFORMED, status.UNFINISHED),
    *map(status.http, (0, 7, 100, 201, 302, 400, 404, 500, 599, 600, 999, 123456789)),
)
UNKNOWN = (
    *("done", "OK", "ok ", "http_", "http_-1", "http_5xx", "success"),
    *("\x1b]0;title\x07" + "x" * 99, "http_" + "9" * 99),
)


def asking(endpoint: Endpoint, items_file: Path) -> tuple[object, ...]:
    common = ("eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", items_file)
    return (*common, "--strategy", "vanilla", "--run", "r")


def journal_path(tmp_path: Path) -> Path:
    return tmp_path / "runs/r/responses.jsonl"


def edit(path: Path, change: Callable[[int, dict], None]) -> None:
    found = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for number, row in enumerate(found):
        change(number, row)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in found))


def test_every_http_status_is_an_outcome_everywhere(endpoint: Endpoint, cli, items_file: Path, tmp_path: Path) -> None:
    code = 600
    endpoint.script = lambda body, n: web.Response(status=code, text="{}") if n % 2 else None
    done = cli(*asking(endpoint, items_file), "--report")
    assert done.code == 1, done.err
    assert f"failures: 10 http_{code}; repeat the command to ask again" in done.out
    assert re.search(r"vanilla .* 50% \[", done.out)
    scores = pl.read_parquet(tmp_path / "runs/r/scores.parquet")
    assert dict(scores["status"].value_counts().iter_rows()) == {"ok": 10, f"http_{code}": 10}
    assert scores.filter(pl.col("status") != "ok")["correct"].to_list() == [False] * 10
    page = (tmp_path / "runs/r/report.html").read_text()
    assert "tiny, vanilla: 10 of 20 without an answer (50.0%)." in page
    assert "answers could be read" not in page
    assert f"10 http_{code}, 10 ok; prompts" in cli("runs", "r").out
    analyzed = cli("analyze", "r", "--study", "accuracy", "--format", "csv", "--out", tmp_path / "tables")
    assert (analyzed.code, analyzed.err.count("\n")) == (0, 1)
    assert f"r: 10 of 20 answers (50.0%) did not come (10 http_{code}); they count as wrong." in analyzed.err
    assert (tmp_path / "tables/accuracy.csv").read_text().splitlines()[1].startswith("tiny,vanilla,10,20,0.5,")
    endpoint.script = lambda body, n: None
    endpoint.requests.clear()
    again = cli(*asking(endpoint, items_file))
    assert (again.code, len(endpoint.requests)) == (0, 10), "what failed is asked again, and nothing else"


def test_what_a_reply_becomes_is_always_known() -> None:
    for code in (0, 100, 201, 302, 418, 600, 999, 70000):
        for body in (b"{}", b"", b"<html>", orjson.dumps(completion("tea"))):
            reply = read_reply(code, body)
            assert (reply.status, reply.final) == (f"http_{code}", False)
            assert status.known(reply.status)


def test_what_each_status_means() -> None:
    assert {"ok", "length", "refusal", "http_400", "http_413", "http_422"} == status.FINAL
    assert {"ok", "length"} == status.ANSWERS
    assert status.UNFINISHED not in status.FINAL, "a conversation without its last turn is to go on"
    for name in FAILURES:
        assert status.known(name), name
        assert status.inert(name) == name
    again = {name for name in (*FAILURES, *UNKNOWN, "ok", "length") if status.transient(name)}
    assert again == {"timeout", "connection", "malformed", "http_500", "http_599"}
    for name in UNKNOWN:
        assert not status.known(name), name
        assert name not in status.FINAL
        assert status.inert(name) not in status.ANSWERS
        assert len(status.inert(name)) <= status.LONGEST
        assert status.inert(name).isprintable()
    assert Reply(status.UNFINISHED).final is False


def test_every_row_is_scored_and_only_answers_can_be_right() -> None:
    for name in (*FAILURES, *UNKNOWN):
        row = {"item": "demo/1", "strategy": "cot", "turn": 0, "status": name, "text": '{"answer": "tea"}'}
        scored = score_row("r", "m", make_item(), row, True)
        assert (scored["status"], scored["answer"], scored["correct"]) == (status.inert(name), None, False)
        assert scored["chain_lcs"] == 0.0


@pytest.mark.parametrize("name", ["timeout", "unfinished", "http_0", "http_999", "OK", UNKNOWN[-2]])
def test_a_table_with_any_status_counts_every_row(name: str, tmp_path: Path) -> None:
    table = [
        {"model": "m", "strategy": "vanilla", "item": f"i{n}", "status": name if n < 2 else "ok", "correct": True}
        for n in range(6)
    ]
    pl.DataFrame(table).write_parquet(tmp_path / "t.parquet")
    said: list[str] = []
    scores = load_scores(str(tmp_path / "t.parquet"), note=said.append)
    found = analyze(scores, load_study("accuracy"))["accuracy"].row(0, named=True)
    assert (found["correct"], found["total"], found["failed"]) == (4, 6, 2)
    assert scores["status"].to_list() == [status.inert(name)] * 2 + ["ok"] * 4
    warning = f"rows of an unknown status count as failures: 2 {status.inert(name)}; known: ok, length, refusal"
    assert [line.partition(": ")[2][: len(warning)] for line in said] == [] if status.known(name) else [warning]


def test_a_journal_with_a_status_that_nobody_knows(endpoint: Endpoint, cli, items_file: Path, tmp_path: Path) -> None:
    """Counted under its own name, its escape sequences taken out; and asked again on resume."""
    assert cli(*asking(endpoint, items_file)).code == 0
    strange = ("done", "\x1b[2Jgone")
    edit(journal_path(tmp_path), lambda number, row: row.update(status=strange[number]) if number < 2 else None)
    done = passes(cli("score", "r"))
    assert "20 answers scored, 18 correct" in done.out
    assert "rows of an unknown status count as failures: 1 done, 1 \ufffd[2Jgone; known: ok, length" in done.err
    assert "1 done, 18 ok, 1 \ufffd[2Jgone; prompts" in (shown := cli("runs", "r")).out
    assert "\x1b" not in shown.out + done.err
    assert "unknown status" in cli("analyze", "r").err
    again = cli(*asking(endpoint, items_file))
    assert (again.code, len(endpoint.requests)) == (0, 22)
    assert re.search(r"vanilla .* 100% \[", again.out)


@pytest.mark.parametrize("found", [5, True, ["ok"], ""])
def test_a_status_that_is_no_text_is_refused_by_file_line_and_field(cli, tmp_path: Path, found: object) -> None:
    write_items(tmp_path / "items.jsonl", [make_item(n) for n in range(3)])
    lines = [{"item": f"demo/{n}", "text": "tea", **({"status": found} if n == 1 else {})} for n in range(3)]
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    refuses_in_a_line(
        cli("score", "--responses", theirs, "--items", tmp_path / "items.jsonl", "--out", tmp_path / "s.csv"),
        f"{theirs}:2: field 'status' is {found!r}; expected text: ok, length, refusal",
    )
    assert not (tmp_path / "s.csv").exists()


def test_the_status_of_a_row_is_a_text(endpoint: Endpoint, cli, items_file: Path, tmp_path: Path) -> None:
    assert cli(*asking(endpoint, items_file)).code == 0
    for found in (5, None, ["ok"], ""):
        edit(journal_path(tmp_path), lambda number, row, found=found: row.update(status=found) if number == 3 else None)
        refuses_in_a_line(
            cli(*asking(endpoint, items_file)), f"responses.jsonl:4: not a response row (field 'status' is {found!r})"
        )


OPTIONS = {"status", "options", "importer", "experiments", "planning"}
"""Modules in which an option of commands, forms, records or Inspect's settings is called `timeout`, and the one."""


def test_statuses_are_spelled_in_one_module() -> None:
    """Words that mean nothing else; so that a new status cannot be forgotten in one of several lists."""
    spelled = {status.TIMEOUT, status.MALFORMED, status.UNFINISHED}
    for path in (ROOT / "tomserve").rglob("*.py"):
        if path.stem in OPTIONS:
            continue
        if not re.search("|".join((*spelled, "http_")), text := path.read_text()):
            continue
        constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        texts = {value for value in constants if isinstance(value, str)}
        assert not texts & spelled, path
        assert not [text for text in texts if re.fullmatch(r"http_\w*", text)], path
