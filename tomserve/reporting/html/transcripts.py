"""Reads every reply of the conversations in a run's journal, for the report's item browser.

The score table has one row for a question, although a strategy may have asked several requests, or the same question
several times. A reader who wants to know how an answer came about needs all of these replies.

>>> turns = Conversations(Path("runs/mine/responses.jsonl"), model="m", strategies={"simtom"})        # doctest: +SKIP
>>> [row["text"] for row in turns.of("item-1", "simtom", "m")]                               # doctest: +SKIP
['Ada saw the tea.', '{"answer": "tea"}']
"""

from collections.abc import Collection, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from tomserve.content.files import FileSnapshot
from tomserve.items import nfc

MOST = 200  # how many replies to one question are shown at most
Row = dict[str, Any]  # one row of a journal


class Conversations:
    """The replies to the questions of a journal, each turn of each sample once, of which the later row counts. path:
    the journal. model: the model of rows that name none. strategies: those whose replies are wanted. items: the ids of
    the items that are wanted; None for all. size: how many bytes of the journal to read; None for all of them. Lines
    that are no rows are left out, since scoring has told of them already. Only the places of the rows are kept in
    memory. Raises OSError where the journal cannot be read."""

    def __init__(
        self,
        path: Path,
        model: str,
        strategies: Collection[str],
        items: Collection[str] | None = None,
        size: int | None = None,
    ) -> None:
        self.file = FileSnapshot(path, size)
        self._at: dict[tuple[str, str, str], dict[tuple[int, int], int]] = {}
        for _, offset, line in self.file.lines():
            row = _row(line)
            if row is None or row["strategy"] not in strategies:
                continue
            item, place = nfc(row["item"]), (row.get("sample") or 0, row.get("turn") or 0)
            if (items is None or item in items) and all(type(one) is int and 0 <= one < 2**15 for one in place):
                asked = (item, row["strategy"], str(model if row.get("model") is None else row["model"]))
                self._at.setdefault(asked, {})[place] = offset

    def of(self, item: str, strategy: str, model: str, scored: int = 0) -> list[Row]:
        """The replies to a question in the order of its samples and turns, at most MOST of them. item: its id.
        strategy, model: their names. scored: the sample that is scored, whose replies are never left out for those of
        others; the one that ends its conversation is always there. `turn` and `sample` are in each row. Of the rows of
        one sample at most one has `closes`: the last that was written with it."""
        places = self._at.get((item, strategy, model), {})
        closing: dict[int, int] = {}
        rows: list[Row] = []
        for (sample, turn), offset in sorted(places.items(), key=lambda entry: entry[1]):
            row = {**(_row(self.file.line(offset)) or {}), "sample": sample, "turn": turn}
            if type(row.get("closes")) is int:
                if (former := closing.get(sample)) is not None:
                    rows[former].pop("closes")
                closing[sample] = len(rows)
            rows.append(row)
        order = itemgetter("sample", "turn")
        kept = sorted(rows, key=lambda row: (row["sample"] != scored, "closes" not in row, *order(row)))[:MOST]
        return sorted(kept, key=order)

    def places(self) -> Iterator[tuple[tuple[str, str, str], int, int, int]]:
        """Every reply: whose it is (item, strategy, model), its sample, its turn, and where its line begins."""
        for asked, found in self._at.items():
            for (sample, turn), offset in found.items():
                yield asked, sample, turn, offset


def _row(line: bytes) -> Row | None:
    """The row on a line; None where it is none."""
    try:
        row = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(row, dict) or type(row.get("item")) is not str or type(row.get("strategy")) is not str:
        return None
    return row
