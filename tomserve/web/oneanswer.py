"""What a page shows of one answer: the question with its chains, the replies, and what was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tomserve import benchmarks
from tomserve.items import Item
from tomserve.scoring.score import sample_of
from tomserve.status import OK
from tomserve.web.prompts import Prompt

Row = Mapping[str, Any]


class Sentence(NamedTuple):
    """A sentence of a story. number: from 1. gold: the labels that are right after it. stated: what the reply says is
    believed, "" where it says nothing. verdict: how that was judged, "" where it was not. breaks: whether the chain
    breaks here. more: for each further column (`Answer.beliefs`) its label."""

    number: int
    text: str
    gold: tuple[str, ...]
    stated: str
    verdict: str
    breaks: bool
    more: tuple[str, ...]


class Reply(NamedTuple):
    """A row of a journal as a page shows it, of which it believes nothing: what has another type than it should have is
    left out. used: counts of tokens by their names. seconds: how long the request took."""

    sample: int
    turn: int
    status: str
    text: str | None
    reasoning: str
    conclusion: str | None
    error: str
    finished: str
    used: tuple[tuple[str, int], ...]
    seconds: float | None
    attempts: int
    reused: bool
    time: str

    @classmethod
    def of(cls, row: Row) -> Reply:
        """The row as a page shows it."""
        used, timings = row.get("usage"), row.get("timings")
        counts = used.items() if isinstance(used, dict) else ()
        total = timings.get("total_s") if isinstance(timings, dict) else None
        return cls(
            sample_of(row),
            _number(row.get("turn")) or 0,
            _text(row.get("status")) or OK,
            _text(row.get("text")),
            _text(row.get("reasoning")) or "",
            _text(row.get("conclusion")),
            _text(row.get("error")) or "",
            _text(row.get("finish_reason")) or "",
            tuple((str(name), count) for name, count in counts if type(count) is int),
            total if isinstance(total, int | float) else None,
            _number(row.get("attempts")) or 1,
            bool(row.get("reused")),
            _text(row.get("time")) or "",
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


@dataclass(frozen=True)
class Answer:
    """One answer.

    run, strategy, model, sample: whose it is. item: the question. row: the line of the journal that counts. score: how
    it was read and judged, by the columns of the score table. place: its place in the index, None without one. replies:
    all turns of all samples of the conversation, in order, the row itself alone where there is but one request.
    sentences: the story with the chains. beliefs: the headings of further columns. beyond: what the chain says after
    the last sentence. original: the item that this is a version of. prompts: what was sent, by turn; untold: why that
    cannot be told. others: other answers to the same item. versions: answers of the same strategy to versions of it.
    """

    run: str
    strategy: str
    model: str
    sample: int
    item: Item
    row: Row
    score: Row
    place: int | None
    replies: tuple[Row, ...]
    sentences: tuple[Sentence, ...]
    beliefs: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    original: Item | None = None
    prompts: tuple[Prompt, ...] = ()
    untold: str = ""
    others: tuple[Row, ...] = field(default=())
    versions: tuple[Row, ...] = field(default=())

    @property
    def reply(self) -> str | None:
        """The text that was scored."""
        return _text(self.row.get("text"))

    @property
    def shown(self) -> tuple[Reply, ...]:
        """All replies as a page shows them."""
        return tuple(Reply.of(row) for row in self.replies)


def story(item: Item, score: Row) -> tuple[tuple[Sentence, ...], tuple[str, ...], tuple[str, ...]]:
    """The story with the gold chain beside what the reply states; what is stated beyond it; further headings."""
    golds = _golds(item)
    numbers, labels = score.get("chain_sentences") or (), score.get("stated") or ()
    said = dict(zip(numbers, labels, strict=False)) if numbers else dict(enumerate(labels, 1))
    verdicts = score.get("chain_verdicts") or ()
    known = benchmarks.find(item.benchmark)
    more: Sequence[tuple[str, Sequence[str]]] = known.beliefs(item) if known is not None else ()
    sentences = tuple(
        Sentence(
            number,
            text,
            golds[number - 1] if number <= len(golds) else (),
            str(said.get(number, "")),
            str(verdicts[number - 1] or "") if number <= len(verdicts) else "",
            score.get("chain_break") == number,
            tuple(str(column[number - 1]) if number <= len(column) else "" for _, column in more),
        )
        for number, text in enumerate(item.story, 1)
    )
    beyond = tuple(f"{number}: {label}" for number, label in said.items() if number > len(item.story))
    return sentences, beyond, tuple(heading for heading, _ in more)


def _golds(item: Item) -> list[tuple[str, ...]]:
    if item.gold is None:
        return []
    if item.gold.chains is not None:
        return [tuple(dict.fromkeys(layer)) for layer in zip(*item.gold.chains, strict=True)]
    return [tuple(layer) for layer in item.gold.sets or ()]
