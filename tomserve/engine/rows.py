"""What the runner needs of whatever keeps its rows, so that the engine knows nothing of run folders and files.

`tomserve.runs.journal.Journal` keeps them in a file; a test or a benchmark may keep them in memory.
"""

from __future__ import annotations

from typing import Any, Protocol

from tomserve.engine.clock import now
from tomserve.engine.request import Identity, Request
from tomserve.engine.transport import Reply

Row = dict[str, Any]
"""One row: a reply with the identity it answers, as the data contract Response has it."""


class Identities(Protocol):
    """A set of identities that can be asked for its size and its members."""

    def __contains__(self, identity: Identity, /) -> bool:
        """Whether that identity is in the set."""
        ...

    def __len__(self) -> int:
        """How many there are."""
        ...


class Rows(Protocol):
    """The rows of a run: read to see what is never to be asked again, appended to as replies come in."""

    @property
    def final(self) -> Identities:
        """The identities whose last row is never to be asked again."""
        ...

    def find(self, key: str) -> Row | None:
        """A final row of a request with that key, or None where there is none."""
        ...

    def append(self, row: Row) -> None:
        """Keep one more row. Raises JournalError where that is no longer possible."""
        ...

    def sync(self) -> None:
        """Make sure that what was appended survives a power cut."""
        ...


def row_of(request: Request, reply: Reply, endpoint: str, attempts: int) -> dict[str, Any]:
    """The journal row of one exchange (data contract: Response).

    `served_model` is the model that the reply names; in `model` scoring would take it for that of the score table.
    """
    item, strategy, turn = request.identity
    return {
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
        "time": now(),
        "reused": False,
    }
