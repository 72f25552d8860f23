"""Ends a run whose first requests are all refused for the same reason, such as an option that the server rejects.

Until a request succeeds, rows with a final refusal (HTTP 400, 404, 413, 422) are held back. Once LIMIT questions were
refused for the same reason, the run ends and none of these rows is written: a row for each of ten thousand items would
never be asked again, while so the command can be repeated when the mistake is mended. As soon as a reply differs, the
rows held back are written: these refusals concern those items alone.
"""

from __future__ import annotations

import re
from typing import Any

from tomserve.errors import ServerError
from tomserve.status import REFUSED

LIMIT = 8
"""How many different questions must be refused for the same reason, with nothing else before, to end the run."""

Row = dict[str, Any]
"""One row of the journal."""


class FirstRefusals:
    """Every row of a run goes through `take`; `finish` is called once all requests have been asked.

    decided: True where rows are written at once, because the run has a reply that shows its requests to be well-formed.
    """

    def __init__(self, decided: bool = False) -> None:
        self.decided = decided
        self._held: list[Row] = []
        self._ended: ServerError | None = None

    def take(self, row: Row) -> list[Row]:
        """The rows that may be written now, in order: none, this one, or this one after those held back.

        Raises ServerError where this was the last refusal needed to end the run.
        """
        if self.decided:
            return [row]
        if self._ended is not None:  # this request was in flight when the run ended; its worker must end, too
            raise self._ended
        same = not self._held or _refusal(row) == _refusal(self._held[0])
        self._held.append(row)
        if row["status"] not in REFUSED or not same:
            self.decided = True
            return self._release()
        if self._questions() >= LIMIT:
            self._end()
        return []

    def finish(self) -> list[Row]:
        """The row still held back at the end, if any: the refusal of a single question concerns that item alone.

        Raises ServerError where several questions were asked and all of them were refused for the same reason.
        """
        if self._questions() > 1:
            self._end()
        return self._release()

    def give_up(self) -> list[Row]:
        """The rows still held back when the run is stopped; they are kept, as everything else that completed."""
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


def _refusal(row: Row) -> tuple[str, str]:
    """Status and error without their numbers: "requested 1,234 tokens" is the same reason for every question."""
    return row["status"], re.sub(r"[0-9]+", "#", row["error"] or "")
