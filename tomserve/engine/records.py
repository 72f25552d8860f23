"""The rows of a run's journal as the runner makes them, with the time of each, and what it needs of the place that
keeps them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from tomserve.engine.request import Identity, Request

if TYPE_CHECKING:  # the transports need asyncio, which who only reads rows does not
    from tomserve.engine.transport import Reply


def utc_now() -> str:
    """The current time in UTC as ISO 8601 with whole seconds, such as ``2026-11-21T12:00:00Z``."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


Row = dict[str, Any]
"""One row: a reply with the identity that it answers, with the fields of the data contract Response."""

CLOSES, CONCLUSION = "closes", "conclusion"
"""Fields of the row whose reply ended a conversation of several turns: how many turns the conversation had, and the
text that is its answer where that is another one than the row's own. Other rows have neither."""

CLOSING: dict[str, type] = {CLOSES: int, CONCLUSION: str}  # these fields with the types of their values
MASKED = "key_masked"
"""Field of a row whose reply held the API key, which stands there as ***; other rows do not have it."""


class Identities(Protocol):
    """A set of identities of which only its size and its members can be asked."""

    def __contains__(self, identity: Identity, /) -> bool: ...

    def __len__(self) -> int: ...


class Rows(Protocol):
    """The rows of a run: they tell which questions need not be asked again, and grow as replies come in."""

    @property
    def final(self) -> Identities:
        """The identities whose last row is never to be asked again."""

    def find(self, key: str) -> Row | None:
        """A final row of a request with that key, or None."""

    def append(self, row: Row) -> None:
        """Keep one more row. Raises JournalError where it cannot be written."""

    def sync(self) -> None:
        """Make sure that what was appended survives a power cut."""


def reuse_row(row: Row, identity: Identity) -> Row:
    """A copy of a row as the answer to an equal request of another identity: a row of its own that is `reused`."""
    item, strategy, turn, sample = identity
    copy = {**row, "item": item, "strategy": strategy, "turn": turn, "reused": True}
    for name in (*CLOSING, "sample"):  # they belong to the conversation of the other identity
        copy.pop(name, None)
    return {**copy, "sample": sample} if sample else copy


def build_row(request: Request, reply: Reply, endpoint: str, attempts: int) -> dict[str, Any]:
    """The journal row of a request and its reply, by the data contract Response. attempts: how often it was sent."""
    # The model that the reply names is `served_model`: scoring reads a field `model` as the score table's column.
    item, strategy, turn, sample = request.identity
    row = {
        "item": item,
        "strategy": strategy,
        "turn": turn,
        "key": request.key,
        "status": reply.status,
        "text": reply.text,
        "reasoning": reply.reasoning,
        "finish_reason": reply.finish_reason,
        "usage": reply.usage,
        "error": reply.error,
        "timings": reply.timings,
        "attempts": attempts,
        "endpoint": endpoint,
        "served_model": reply.model,
        "time": utc_now(),
        "reused": False,
    }
    if reply.provider:
        row["provider"] = reply.provider
    if reply.fingerprint:
        row["system_fingerprint"] = reply.fingerprint
    if reply.masked:
        row[MASKED] = True
    if reply.tokens is not None:
        row["tokens"], row["tokens_skipped"] = reply.tokens, reply.skipped
    # The number of a sample stands after that of the turn, as the first fields tell what the row answers.
    return {"item": item, "strategy": strategy, "turn": turn, "sample": sample, **row} if sample else row
