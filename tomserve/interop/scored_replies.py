"""The scored replies of a run one after the other, and its conversations message by message, as exports need them.

Every sample of a question is a reply of its own, with its own score. What was asked is made again by today's strategy
of the same digest; where there is none, the question as it stands is in its place.
"""

import math
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tomserve import benchmarks
from tomserve.engine.request import Identity, Request
from tomserve.errors import ConfigError, TomserveError
from tomserve.items import Item
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.reporting.html import transcripts
from tomserve.runs import journal, measurement
from tomserve.runs.conversations import replay_conversation
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import load_reader_choices, load_replies
from tomserve.runs.verification import find_same_strategy, recorded_build
from tomserve.scoring.labels import lettered_choices
from tomserve.scoring.score import sample_of, score_row
from tomserve.scoring.table import Note
from tomserve.stats.clustered import repeated_share
from tomserve.status import INVALID, UNANSWERED
from tomserve.studies import contrasts

Row = dict[str, Any]


@dataclass(frozen=True)
class ScoredReply:
    """One scored reply. item: the question. strategy: the way of asking. sample: which of several replies to the same
    prompt it is, from 0. row: the reply as the journal holds it. score: the columns of the score table that belong to
    the reply. messages: what the model was shown before its first reply, each with `role` and `content`."""

    item: Item
    strategy: str
    sample: int
    row: Row
    score: Row
    messages: tuple[dict[str, str], ...]

    @property
    def unread(self) -> str:
        """Why no answer was read in the reply; empty where one was, and where none came."""
        return str(self.score["reason"] or "no answer") if self.score["status"] == INVALID else ""


class ScoredReplies:
    """The scored replies of a run.

    folder: the run's folder. strategies: the ways of asking that are wanted, None for all that have replies. note: told
    in a sentence what could not be read, or rendered anew. Raises ConfigError for a measured run, one in which nothing
    was answered, and a strategy that is unknown or has no replies.
    """

    def __init__(self, folder: Path, strategies: Sequence[str] | None = None, note: Note | None = None) -> None:
        measurement.refuse_measured(folder, "has no replies to export", "give a run of answers")
        manifest = Manifest.read(folder)
        replies = load_replies(folder)
        if manifest is None or replies is None or not len(replies.responses):
            raise ConfigError(f"{folder}: nothing was answered yet; ask its questions by `tomserve eval`")
        if note is not None and replies.responses.problems:
            note(str(replies.responses.problems))
        self.folder, self.manifest, self._note = folder, manifest, note
        self._asked, self._items, self._responses = replies
        self._reader = load_reader_choices(folder)
        self._prompts: dict[str, Strategy | None] = {}
        self.strategies, self.chosen = self._choose_strategies(strategies), sorted(set(strategies or ()))

    def _choose_strategies(self, strategies: Sequence[str] | None) -> tuple[str, ...]:
        """The wanted ways of asking that have replies. Raises ConfigError for one that is unknown or has none."""
        known, there = sorted(self.manifest.strategies), self._responses.strategies
        for name in strategies or ():
            if name not in known:
                raise ConfigError(
                    f"--strategy {name!r:.80}: {self.folder} has none of that name; it has: {', '.join(known)}"
                )
            if name not in there:
                raise ConfigError(
                    f"--strategy {name!r:.80}: nothing was answered by it yet in {self.folder}; there are replies by: "
                    f"{', '.join(sorted(there))}"
                )
        found = tuple(name for name in known if name in there and (strategies is None or name in strategies))
        if not found:
            raise ConfigError(f"{self.folder}: no reply is by a strategy that its manifest names: {', '.join(known)}")
        return found

    def __len__(self) -> int:
        return len(self._responses)

    def newest(self, strategy: str) -> str | None:
        """When the newest reply to that way of asking came, as the journal says it; None where it does not."""
        found = (row.get("time") for _, row in self._responses.rows() if row["strategy"] == strategy)
        return max((time for time in found if isinstance(time, str)), default=None)

    def of(self, strategy: str) -> Iterator[ScoredReply]:
        """The replies to one way of asking, sorted by item and sample; without what a person left open, which counts
        nowhere."""
        for place, row in self._responses.rows():
            if row["strategy"] == strategy and row["status"] != UNANSWERED:
                yield self._score_reply(place, row)

    def _score_reply(self, place: int, row: Row) -> ScoredReply:
        item = self._items.item(place)
        strategy = row["strategy"]
        scoring = benchmarks.scoring_of(item.benchmark)
        if strategy in self._asked["lettered"]:
            scoring = replace(scoring, lettered=True)
        score = score_row(
            self._asked["run"],
            row["model"],
            item,
            row,
            strategy in self._asked["chains"],
            self._items.others(place),
            replace(scoring, metrics=tuple(one for one in scoring.metrics if not one.of_item)),
            reader=self._reader,
        )
        return ScoredReply(item, strategy, sample_of(row), row, score, self._messages(item, row))

    def _messages(self, item: Item, row: Row) -> tuple[dict[str, str], ...]:
        """What was shown first: as the row keeps it, else the prompt rendered anew by today's strategy of the same
        digest, else story, question and choices, which is told once. The later turns of a conversation are in
        tomserve.interop.scored_replies."""
        if isinstance(asked := row.get("asked"), str) and asked:
            return ({"role": "user", "content": asked},)
        name = row["strategy"]
        if name not in self._prompts:
            known = self.manifest.strategies.get(name)
            self._prompts[name] = find_same_strategy(name, known, self.manifest) if known is not None else None
            if self._prompts[name] is None and self._note is not None:
                self._note(
                    f"{self.folder}: today's strategy {name!r:.60} asks otherwise than the run did, or there is none; "
                    "story, question and choices stand in the place of its prompts"
                )
        strategy = self._prompts[name]
        if strategy is not None:
            return tuple(dict(one) for one in strategy.turn(item).messages)
        shown = [f"- {choice}" for choice in item.choices]
        if name in self._asked["lettered"] or benchmarks.scoring_of(item.benchmark).lettered:
            shown = [
                f"{letter}. {choice}"
                for letter, choice in zip(string.ascii_uppercase, lettered_choices(item).offered, strict=False)
            ]
        text = "\n".join((*item.story, "", item.question, *shown))
        return ({"role": "user", "content": text},)


@dataclass(frozen=True)
class Message:
    """One message. role: of whom. content: the text; None for a turn without a reply. reasoning: what was thought
    before. turn: of a reply, the number of its turn, from 0; None for what was asked."""

    role: str
    content: str | None
    reasoning: str | None = None
    turn: int | None = None


@dataclass
class Transcript:
    """A conversation. messages: in the order in which they were said. rows: the replies, by the number of the turn."""

    messages: list[Message] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)

    def add(self, shown: Sequence[dict[str, str]], number: int) -> None:
        """Add what a turn showed, as far as it was not said before, and its reply, where there is one."""
        asked = [(one["role"], one["content"]) for one in shown]
        before = [(one.role, one.content) for one in self.messages]
        known = len(before) if asked[: len(before)] == before else 0
        self.messages += [Message(role, content) for role, content in asked[known:]]
        if (row := self.rows.get(number)) is not None and isinstance(text := row.get("text"), str):
            thoughts = row.get("reasoning")
            self.messages.append(Message("assistant", text, thoughts if isinstance(thoughts, str) else None, number))


class Transcripts:
    """The conversations of one strategy of a run. replies: of the run. strategy: its name."""

    def __init__(self, replies: ScoredReplies, strategy: str) -> None:
        self._name, self._build = strategy, recorded_build(replies.manifest)
        self._turns = transcripts.Conversations(
            journal.journal_path(replies.folder), replies.manifest.model, [strategy]
        )
        asked = replies.manifest.strategies[strategy]
        self._strategy: Strategy | None = find_same_strategy(strategy, asked, replies.manifest)

    def of(self, one: ScoredReply) -> Transcript:
        """The conversation that led to a scored reply."""
        rows = self._turns.of(one.item.id, self._name, str(one.row["model"]), one.sample)
        transcript = Transcript(rows={row["turn"]: row for row in rows if sample_of(row) == one.sample})
        shown = self._shown(one, transcript.rows)
        for number in sorted({*transcript.rows, *shown}):
            transcript.add(shown.get(number, one.messages if not transcript.messages else ()), number)
        return transcript

    def _shown(self, one: ScoredReply, rows: dict[int, Row]) -> dict[int, Sequence[dict[str, str]]]:
        """What each turn showed, by its number; nothing where that cannot be made again."""
        if self._strategy is None:
            return {}
        shown: dict[int, Sequence[dict[str, str]]] = {}

        def build(identity: Identity, turn: Turn) -> Request:
            shown[identity.turn] = turn.messages
            return self._build(identity, turn)

        try:
            replay_conversation(build, self._strategy, one.item, one.sample, rows)
        except TomserveError:  # a program that makes another mistake today
            return {}
        return shown


@dataclass
class RightReplies:
    """How many replies to each question are right, for the figures of an export. A question with several replies counts
    by the share of these that is right."""

    right: dict[str, list[float]] = field(default_factory=dict)
    clusters: dict[str, tuple[str, str]] = field(default_factory=dict)  # each with its benchmark

    def add(self, one: ScoredReply) -> None:
        """Count a reply."""
        self.right.setdefault(one.item.id, []).append(float(one.score["correct"]))
        self.clusters[one.item.id] = one.item.benchmark, one.item.cluster

    @property
    def repeats(self) -> int:
        """How many replies a question has at most."""
        return max(map(len, self.right.values()), default=1)

    @property
    def shares(self) -> list[float]:
        """The share of each question."""
        return [sum(found) / len(found) for found in self.right.values()]

    def by_cluster(self) -> dict[tuple[str, str], list[float]]:
        """The shares of the questions of each cluster."""
        found: dict[tuple[str, str], list[float]] = {}
        for item, share in zip(self.right, self.shares, strict=True):
            found.setdefault(self.clusters[item], []).append(share)
        return found

    def interval(self) -> tuple[float, float, str]:
        """The 95% interval of the mean share, its ends and its method: that which `tomserve analyze RUN --study
        accuracy` says, in its table accuracy, or where a question has several replies in the row `mean` of its table
        samples."""
        values = list(self.by_cluster().values())
        if self.repeats > 1:
            sums, sizes = np.array(list(map(math.fsum, values))), np.array(list(map(len, values)))
            found = repeated_share(sums, sizes)
            return *found.bounds, found.method
        counts = {"answers": len(self.right), "right": sum(self.shares), "failed": 0, "clusters": len(values)}
        share = contrasts.share_of_counts(counts)
        return share["ci_low"], share["ci_high"], share["method"]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error with the values taken as independent."""
    n, mean = len(values), math.fsum(values) / len(values)
    spread = math.fsum((one - mean) ** 2 for one in values) / (n - 1) if n > 1 else 0.0
    return mean, math.sqrt(spread / n)
