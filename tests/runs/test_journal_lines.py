"""The lines of a journal: their bytes, and finding them again."""

import resource
from pathlib import Path
from typing import Any

import orjson
import pytest

from tomserve.engine.request import Identity
from tomserve.errors import JournalError
from tomserve.runs.journal import Journal, read_rows

ROW: dict[str, Any] = {"item": "a", "strategy": "cot", "turn": 0, "key": "k" * 32, "status": "ok", "text": "“tea”\n"}


@pytest.mark.parametrize("marks", [{}, {"concurrency": 4}, {"text": "marked"}])
@pytest.mark.parametrize("row", [ROW, {"schema": 1, **ROW}, {**ROW, "schema": 2, "reused": True}])
def test_a_line_is_the_row_after_its_schema_and_before_its_marks(
    marks: dict[str, Any], row: dict[str, Any], tmp_path: Path
) -> None:
    with Journal(tmp_path / "responses.jsonl", marks) as journal:
        journal.append(row)
        journal.append({**row, "item": "b"})
    first, second = (tmp_path / "responses.jsonl").read_bytes().splitlines()
    assert first == orjson.dumps({"schema": 1, **row, **marks})
    assert orjson.loads(second)["item"] == "b"


def test_of_rows_with_one_key_the_first_is_found_and_an_unknown_key_finds_none(tmp_path: Path) -> None:
    with Journal(tmp_path / "responses.jsonl") as journal:
        for number in range(50):
            journal.append({**ROW, "item": f"i{number}", "key": f"{number % 5:032d}"})
        found = [journal.find(f"{number:032d}") for number in range(6)]
    assert [row and row["item"] for row in found] == ["i0", "i1", "i2", "i3", "i4", None]


def test_of_a_row_for_which_there_is_no_room_nothing_stays(tmp_path: Path) -> None:
    path, limits = tmp_path / "responses.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(path) as journal:
        journal.append(ROW)
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))
        try:
            with pytest.raises(JournalError, match=r"cannot be written any more .*free space and resume"):
                journal.append({**ROW, "item": "b"})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before
        journal.append({**ROW, "item": "c"})
    assert [row["item"] for _, row in read_rows(path)] == ["a", "c"]


def test_a_torn_line_is_taken_out_before_the_next_row(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    line = orjson.dumps({"schema": 1, **ROW}) + b"\n"
    path.write_bytes(line + line[:-1])  # all but its end: it is half a line all the same
    with Journal(path) as journal:
        assert journal.torn.read_bytes() == line[:-1]
        journal.append({**ROW, "item": "b"})
    assert [row["item"] for _, row in read_rows(path)] == ["a", "b"]


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
