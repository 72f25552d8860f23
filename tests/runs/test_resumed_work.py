"""What a resumed run knows of its journal: what is left, and rows that are checked by the short way."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tomserve.content.compact_index import Index
from tomserve.errors import ConfigError
from tomserve.runs import journal
from tomserve.runs.journal import IdentitySet

WELL: dict[str, Any] = {"item": "a", "strategy": "s", "turn": 0, "key": "k", "status": "ok"}


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
    seen = IdentitySet()
    assert [seen.add(("a", "s", turn, 0)) for turn in (0, 1, 0)] == [True, True, False]
    assert ("a", "s", 2, 0) not in seen
