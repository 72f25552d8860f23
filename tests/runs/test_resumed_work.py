"""How much is done before a resumed run asks its first question: each line once, and each count once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import Endpoint
from tomserve.content.index import Index
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.runs import journal, questions, runfolder
from tomserve.runs.index import Seen

WELL: dict[str, Any] = {"item": "a", "strategy": "s", "turn": 0, "key": "k", "status": "ok"}


def test_a_resumed_run_reads_each_line_once_and_counts_once(
    endpoint: Endpoint, items_file: Path, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    command = ("eval", "--base-url", endpoint.url, "--benchmark", "items", "--path", items_file, "--run", "r")
    command += ("--strategy", "vanilla", "--strategy", "cot")
    assert cli(*command).code in (0, 1)
    rows = tmp_path / "runs/r/responses.jsonl"
    lines = rows.read_bytes().splitlines(keepends=True)
    assert len(lines) == 40
    rows.write_bytes(b"".join(lines[:37]))
    done: Counter[str] = Counter()
    first = []
    monkeypatch.setattr(endpoint, "script", lambda body, number: first.append(Counter(done)))

    def counting(holder: Any, name: str) -> None:
        real = getattr(holder, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            done[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(holder, name, counted)

    counting(journal, "parse_row")
    counting(questions.Questions, "_counted_once")
    counting(runfolder, "read_ids")
    counting(Item, "_from_dict")
    before = len(endpoint.requests)
    assert cli(*command).code in (0, 1)
    assert len(endpoint.requests) == before + 3
    told = next(count for count in first if count)  # what was done when the first question came
    assert told["parse_row"] == 37
    assert told["_counted_once"] == 1
    assert told["read_ids"] == 0
    # Each item once, and again those that the check of the longest prompts and what is left to ask need.
    assert told["_from_dict"] <= 20 + 20 + 3 * 2


def test_the_count_of_what_is_left_follows_the_journal(tmp_path: Path) -> None:
    from tests.conftest import make_item
    from tomserve.prompting.strategy import Strategy
    from tomserve.runs.stock import Stock

    asked = questions.Questions(Stock([make_item(number) for number in range(3)]), [Strategy.load("vanilla")])
    with journal.Journal(tmp_path / "a.jsonl") as one, journal.Journal(tmp_path / "b.jsonl") as other:
        for left in (3, 2, 1, 0):
            assert questions.counted(one, asked).left == questions.counted(one, asked).left == left
            assert questions.counted(other, asked).left == 3
            if left:
                one.append({**WELL, "item": f"demo/{left - 1}", "strategy": "vanilla"})


STRANGE = (None, 0, 1.5, True, "", "x", [], {}, ["ok"])


def test_rows_are_checked_alike_by_the_short_and_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(line: bytes) -> object:
        try:
            return journal.parse_row(Path("r.jsonl"), 1, line)
        except ConfigError as error:
            return str(error)

    rows = [{**WELL, name: value} for name in (*WELL, "sample", "closes", "conclusion", "other") for value in STRANGE]
    rows += [{name: value for name, value in WELL.items() if name != left} for left in WELL]
    lines = [orjson.dumps(row) for row in rows]
    short = [outcome(line) for line in lines]
    monkeypatch.setattr(journal, "_is_plain", lambda row: False)
    assert [outcome(line) for line in lines] == short
    assert {type(one) for one in short} >= {str}, "some are refused"


def test_a_value_of_a_key_is_found_among_others() -> None:
    index = Index(64, 32)
    for value in range(5):
        index.add(7, value)
        index.add(8, value + 10)
    assert [value for value in range(20) if index.has(7, value)] == [0, 1, 2, 3, 4]
    assert not index.has(6, 0)
    assert not index.has(2**64 - 1, 0)
    assert [index.add_once(7, value) for value in (4, 5, 5)] == [False, True, False]
    seen = Seen()
    assert [seen.add(("a", "s", turn, 0)) for turn in (0, 1, 0)] == [True, True, False]
    assert ("a", "s", 2, 0) not in seen
