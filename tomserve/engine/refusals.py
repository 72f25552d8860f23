"""The same refusal for the first requests is one mistake of the run, not a row for each of ten thousand items.

Until a request succeeds, rows with a final 4xx are held back. Once LIMIT of them say the same the run ends, and nothing
was written, so that it can be repeated when the mistake is mended. Anything else sets them free: they are those items'
rows.
"""

from __future__ import annotations

import re
from typing import Any

from tomserve.errors import ServerError
from tomserve.status import REFUSED

LIMIT = 8
Row = dict[str, Any]


class FirstRefusals:
    """Rows go through `take`; `finish` at the end of the requests. Raises ServerError for a refusal of all."""

    def __init__(self, decided: bool = False) -> None:
        self.decided = decided  # a run that has answers already knows that its requests are well-formed
        self._held: list[Row] = []
        self._ended: ServerError | None = None

    def take(self, row: Row) -> list[Row]:
        """The rows that may be written now, in order: none, this one, or this one after those held back."""
        if self.decided:
            return [row]
        if self._ended is not None:  # in flight when the run ended: no worker is to go on
            raise self._ended
        same = not self._held or _said(row) == _said(self._held[0])
        self._held.append(row)
        if row["status"] not in REFUSED or not same:
            self.decided = True
            return self._release()
        if self._questions() >= LIMIT:
            self._end()
        return []

    def finish(self) -> list[Row]:
        """What is still held, at the end: a single refusal is its item's row."""
        if self._questions() > 1:
            self._end()
        return self._release()

    def give_up(self) -> list[Row]:
        """What is still held when the run is stopped: kept, as everything that completed."""
        return self._release()

    def _questions(self) -> int:
        return len({held["key"] for held in self._held})

    def _release(self) -> list[Row]:
        held, self._held = self._held, []
        return held

    def _end(self) -> None:
        row, count = self._held[0], self._questions()
        self._held = []
        self._ended = ServerError(
            f"{row['endpoint']}: the first {count} questions were all refused with {row['status']} ({row['error']}); "
            "nothing was written: mend the request (model, options, preset) or the server, then repeat the command"
        )
        raise self._ended


def _said(row: Row) -> tuple[str, str]:
    """The refusal without its numbers: "requested 1,234 tokens" says the same of every question."""
    return row["status"], re.sub(r"[0-9]+", "#", row["error"] or "")
