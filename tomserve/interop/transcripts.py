"""What was said in the conversations of a run, message by message, for exports to tools that keep whole conversations.

The journal keeps the replies alone; what was asked is made again from the question, by today's strategy of the same
digest and with the replies of the run. Where there is none, the question as it stands is in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tomserve.engine.request import Identity, Request
from tomserve.errors import TomserveError
from tomserve.interop.answered import Answered, Replies
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.reporting.html.turns import Turns
from tomserve.runs import journal
from tomserve.runs.conversations import Conversations
from tomserve.runs.verification import find_same_strategy, recorded_sampling
from tomserve.scoring.score import sample_of

Row = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """One message. role: of whom. content: the text; None for a turn without a reply. reasoning: what was thought
    before. turn: of a reply, the number of its turn, from 0; None for what was asked."""

    role: str
    content: str | None
    reasoning: str | None = None
    turn: int | None = None


@dataclass
class Transcript:
    """A conversation. messages: in the order in which they were said. rows: the replies, by the number of the turn."""

    messages: list[Said] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)

    def add(self, shown: Sequence[dict[str, str]], number: int) -> None:
        """Add what a turn showed, as far as it was not said before, and its reply, where there is one."""
        asked = [(one["role"], one["content"]) for one in shown]
        said = [(one.role, one.content) for one in self.messages]
        known = len(said) if asked[: len(said)] == said else 0
        self.messages += [Said(role, content) for role, content in asked[known:]]
        if (row := self.rows.get(number)) is not None and isinstance(text := row.get("text"), str):
            thoughts = row.get("reasoning")
            self.messages.append(Said("assistant", text, thoughts if isinstance(thoughts, str) else None, number))


class Transcripts:
    """The conversations of one strategy of a run. replies: of the run. strategy: its name."""

    def __init__(self, replies: Replies, strategy: str) -> None:
        self._manifest, self._name = replies.manifest, strategy
        self._turns = Turns(journal.journal_path(replies.folder), replies.manifest.model, [strategy])
        asked = replies.manifest.strategies[strategy]
        self._strategy: Strategy | None = find_same_strategy(strategy, asked, replies.manifest)
        self._sampling = recorded_sampling(replies.manifest)

    def of(self, one: Answered) -> Transcript:
        """The conversation that led to a scored reply."""
        rows = self._turns.of(one.item.id, self._name, str(one.row["model"]), one.sample)
        made = Transcript(rows={row["turn"]: row for row in rows if sample_of(row) == one.sample})
        shown = self._shown(one, made.rows)
        for number in sorted({*made.rows, *shown}):
            made.add(shown.get(number, one.messages if not made.messages else ()), number)
        return made

    def _shown(self, one: Answered, rows: dict[int, Row]) -> dict[int, Sequence[dict[str, str]]]:
        """What each turn showed, by its number; nothing where that cannot be made again."""
        if self._strategy is None:
            return {}
        shown: dict[int, Sequence[dict[str, str]]] = {}

        def build(identity: Identity, turn: Turn) -> Request:
            shown[identity.turn] = turn.messages
            manifest = self._manifest
            return Request.build(
                identity, turn, model=manifest.model, revision=manifest.revision, sampling=self._sampling
            )

        talks = Conversations(build)
        try:
            waiting = list(talks.begin(self._strategy, one.item, one.sample))
            while waiting:
                if (row := rows.get(waiting.pop(0).identity.turn)) is not None:
                    waiting += talks.follow({**row, "strategy": self._strategy.name, "sample": one.sample})
        except TomserveError:  # a program that makes another mistake today
            return {}
        return shown
