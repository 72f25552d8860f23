"""The lines of a journal: their bytes, and finding them again."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tomserve.engine.request import Identity
from tomserve.runs.journal import Journal

ROW: dict[str, Any] = {"item": "a", "strategy": "cot", "turn": 0, "key": "k" * 32, "status": "ok", "text": "“tea”\n"}


@pytest.mark.parametrize("marks", [{}, {"concurrency": 4}, {"text": "marked"}])
@pytest.mark.parametrize("row", [ROW, {"schema": 1, **ROW}, {**ROW, "schema": 2, "reused": True}])
def test_a_line_is_the_row_with_schema_and_marks(marks: dict[str, Any], row: dict[str, Any], tmp_path: Path) -> None:
    with Journal(tmp_path / "responses.jsonl", marks) as journal:
        journal.append(row)
        journal.append({**row, "item": "b"})
    first, second = (tmp_path / "responses.jsonl").read_bytes().splitlines()
    assert first == orjson.dumps({"schema": 1, **row, **marks})
    assert orjson.loads(second)["item"] == "b"


def test_what_failed_is_known_until_it_is_answered(tmp_path: Path) -> None:
    identity = Identity("a", "cot", 0)
    with Journal(tmp_path / "responses.jsonl") as journal:
        for status, failed, final in (
            *(("http_500", True, False), ("timeout", True, False), ("ok", False, True)),
            ("refusal", True, True),
        ):
            journal.append({**ROW, "status": status})
            assert journal.failed == ({identity: status} if failed else {})
            assert (identity in journal.final) == final
    with Journal(tmp_path / "responses.jsonl") as journal:
        assert (journal.failed, journal.asked) == ({identity: "refusal"}, {"cot"})
