"""Why questions have no answer, from the rows of a journal to sentences."""

from pathlib import Path

import polars as pl
import pytest
from aiohttp import web

from tests.conftest import make_item
from tests.helpers.reports import run_folder
from tests.helpers.scored import score_table
from tomserve.items import write_items
from tomserve.runs.scores import scores_of
from tomserve.studies.causes import find_causes, sum_causes
from tomserve.studies.missing_data import gaps_of_source


def table(*fields: dict) -> pl.DataFrame:
    rows = [{"strategy": "vanilla", "status": "ok", "text": None, "sample": None, **one} for one in fields]
    return score_table("r", "m", [(make_item(number), row) for number, row in enumerate(rows)])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"text": "", "reasoning": "Hm", "status": "length"}, "had no text: everything is in their reasoning, and the b"),
        ({"text": "<think>Hm", "status": "length"}, "the budget of 256 tokens ended in thinking: --max-tokens with more, or --th"),
        ({"text": "", "reasoning": "Hm"}, "server's parser of reasoning took the answer: serve without that parser"),
        ({"text": '{"answer": ' + "\n" * 90, "status": "length"}, "allows blanks without end: --structured-outputs"),
        ({"text": "\n" * 90, "status": "length", "reasoning": "Hm"}, "ended in blanks until the budget of 256 tokens"),
        ({"text": " "}, "held an empty text: look at"),
        ({"text": "It might", "status": "length"}, "reached the end of the budget of 256 tokens before an answer"),
        ({"text": "perhaps"}, 'held no answer ("no JSON object with an answer, and no words that state one")'),
        ({"text": "I won't\x1b\n say.", "status": "refusal"}, 'met a refusal by the model ("I won\'t\\x1b say.")'),
        ({"error": "content management policy", "status": "refusal"}, 'before the model ("content management policy")'),
        ({"error": "maximum context length is 512", "status": "http_400"}, "exceeded the context of the model"),
        ({"error": "<title>524</title>", "status": "http_524"}, "met the time limit of a gateway before the server"),
        ({"error": "slow down", "status": "http_429"}, "met the server's rate limit"),
        ({"error": "insufficient_quota", "status": "http_429"}, "met an account without credit"),
        ({"error": "no json_schema", "status": "http_500"}, 'takes no such schema ("no json_schema"): --schema auto'),
        ({"error": "gone\u202e", "status": "http_410"}, 'met HTTP 410 ("gone\ufffd")'),
        ({"error": "late", "status": "timeout"}, 'got no whole reply in time ("late"): --timeout'),
        ({"status": "malformed"}, "got what is no chat completion"),
        ({"status": "theirs"}, "ended as theirs"),
    ],
)  # fmt: skip
def test_each_kind_is_told_with_its_words_and_a_way_out(row: dict, said: str) -> None:
    (cause,) = find_causes(table({"text": '{"answer": "tea"}'}, row))
    sentence = cause.sentence(2, 2, 256)
    assert sentence.startswith("1 of 2 re")
    assert said in sentence
    assert sentence.isprintable()


def test_equal_words_are_one_whatever_their_numbers_and_the_most_frequent_kind_is_the_first() -> None:
    limit = [{"status": "http_429", "error": f"request {number}f00ba12: wait {number} s"} for number in range(3)]
    mixed = [{"status": "http_500", "error": one} for one in ("bad", "worse", "worse", "bad", "bad")]
    found = find_causes(table(*limit, *mixed, {"text": '{"answer": "tea"}'}))
    assert [(one.kind, one.rows, one.words, one.mixed) for one in found] == [
        ("http", 5, "bad", True),
        ("rate", 3, "request 0f00ba12: wait 0 s", False),
    ]
    assert '("bad", among others)' in found[0].sentence(1, 9)
    assert [(one.kind, one.rows) for one in sum_causes([found, found[1:]])] == [("rate", 6), ("http", 5)]


def test_a_run_names_its_first_cause_at_its_end_and_all_of_them_in_runs_and_in_the_report(cli, tmp_path: Path) -> None:
    fields = [{"text": None, "status": "http_400", "error": "filtered\x1b[2J"}] * 3 + [
        {"text": None, "status": "timeout"}
    ]
    items = [make_item(number) for number in range(5)]
    answers = {one.id: row for one, row in zip(items, [*fields, {"text": '{"answer": "tea"}'}], strict=True)}
    folder = run_folder(tmp_path / "runs/mine", {"vanilla": answers}, items)
    first, second = '3 of 5 requests met HTTP 400 ("filtered', "1 of 5 requests got no whole reply in time"
    (gap,) = gaps_of_source(folder, scores_of(folder))
    (sentence,) = gap.sentences()
    assert (first in sentence, second in sentence) == (True, False)
    assert f"`tomserve runs {folder} --failed` lists them" in sentence
    listed = cli("runs", "mine", "--failed", 2)
    for shown in (cli("runs", "mine").out, " ".join(listed.out.split())):
        assert first in shown
        assert second in shown
    assert listed.out.startswith(f"{folder}: 4 of 5 requests failed; the first 2 of them\n")
    assert "1. demo/0 by vanilla\n   http_400: filtered\ufffd[2J\n" in listed.out
    assert cli("report", "mine").code == 0
    page = (folder / "report.html").read_text("utf-8")
    assert second in page[page.index('<section id="failures"') :]


def test_why_a_run_ended_early_is_told_until_it_is_complete(cli, endpoint, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TOMSERVE_API_KEY", "sk-0123456789abcdef")
    write_items(tmp_path / "items.jsonl", [make_item(number) for number in range(9)])
    expired = {"error": "sk-0123456789abcdef has expired\x1b[2J"}
    endpoint.script = lambda body, n: web.json_response(expired, status=401) if n > 5 else None
    where = ("--benchmark", "items", "--path", tmp_path / "items.jsonl", "--base-url", endpoint.url)
    ask = ("eval", *where, "--run", "r", "--strategy", "vanilla", "--concurrency", 1, "--no-report")
    assert cli(*ask).code == 2
    assert "*** has expired" in cli("runs", "r").out
    manifest = (tmp_path / "runs/r/manifest.json").read_text("utf-8")
    assert "*** has expired" in manifest
    assert "sk-0123456789abcdef" not in manifest
    assert "It ended early: " in cli("score", "r").err
    endpoint.script = lambda body, n: web.json_response({"error": "no room"}, status=400)
    assert cli(*ask).code == 2
    assert "no room" in cli("runs", "r").out, "of the check before the questions, too"
    endpoint.script = lambda body, n: None
    assert cli(*ask).code == 0
    assert "expired" not in cli("runs", "r").out
