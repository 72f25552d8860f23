"""The report's item browser: a sample of the items and answers, packed so that thousands of them fit into a page.

Each text is kept once, in a pool, and named by its place there. Of a run too large for a page the questions are drawn
by a fixed seed, half of them among those of which an answer failed.
"""

import base64
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import polars as pl

from tomserve import benchmarks
from tomserve.items import Item
from tomserve.items.draw import draw_from_strata
from tomserve.items.item import gold_layers
from tomserve.reporting.html.sources import Source
from tomserve.scoring.score import sample_of
from tomserve.status import OK, inert
from tomserve.studies.answer_rows import ORIGINAL, has_variants, is_answered
from tomserve.studies.presentation import Versions

# How many bytes the packed data may take; where they are more, long texts are cut, and marked as cut
BUDGET = 3_300_000

# How many characters of a text are kept (None: all), tried in this order until the data is small enough
CUTS = (None, 6000, 3000, 1500, 700, 300)


@dataclass
class Pool:
    """A list of values, each of which is in it once and is named by its place."""

    values: list[Any] = field(default_factory=list)
    _places: dict[Any, int] = field(default_factory=dict)

    def place(self, value: Any) -> int:
        """The place of the value, from 0; a new value is added at the end. The place of None is -1."""
        if value is None:
            return -1
        place = self._places.setdefault(value, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


class Browser:
    """Collects items and answers. Items of one id that differ between runs are kept apart. versions: how the versions
    of a question are found; the original is shown beside each of them."""

    def __init__(self, versions: Versions | None) -> None:
        self._versions = versions
        self._kinds: list[tuple[int, tuple[Any, ...] | None, bool]] = []  # of each item: see _kind
        self._origins: list[tuple[str, str | None]] = []  # of each item its id and, of a variant, that of its original
        self.words = Pool()  # labels, factor values, statuses, names
        self.sentences, self.texts, self.chains, self.golds = Pool(), Pool(), Pool(), Pool()
        self.talks: list[list[tuple[int, ...]]] = []  # of each row with several replies: see _talk
        self.arms: list[dict[str, Any]] = []
        self.factors: Pool = Pool()
        self.items: list[dict[str, Any]] = []
        self._known: dict[bytes, int] = {}
        self._ids: dict[str, int] = {}
        self.columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}

    def add(self, source: Source, chosen: Collection[str] | None = None) -> None:
        """Add the scored answers of a run. chosen: the ids of the items whose answers are wanted; None for all."""
        scores = source.scores if chosen is None else source.scores.filter(pl.col("item").is_in(list(chosen)))
        wanted, chosen_sample = {}, {}
        columns = scores.select(
            *("model", "strategy", "item", "status", "parse", "reason", "answer", "correct", "chain"),
            *("chain_reason", "chain_sentences", "chain_verdicts", "chain_break", "chain_break_kind"),
            pl.col("sample") if "sample" in scores.columns else pl.lit(0).alias("sample"),
        )
        for values in columns.iter_rows():
            wanted[values[:3]], chosen_sample[values[:3]] = values[3:-1], values[-1]
        names = {str(row[0]): str(row[1]) for row in source.scores.select("run", "model").unique().iter_rows()}
        arms: dict[str, int] = {}
        turns = source.turns(chosen)
        for item, row in source.answers(chosen):
            strategy = str(row["strategy"])
            # A label renames the run's model; several models in one run keep their names.
            model = next(iter(names.values())) if len(names) == 1 else str(row["model"])
            asked = (model, strategy, item.id)
            if (scored := wanted.get(asked)) is None or sample_of(row) != (chosen_sample[asked] or 0):
                continue
            if model not in arms:
                arms[model] = len(self.arms)
                self.arms.append({"run": source.run, "model": model})
            self._row(arms[model], strategy, self._item(item), scored, row)
            whose = (item.id, strategy, str(row["model"]))
            talk = turns.of(*whose, sample_of(row)) if turns is not None else []
            self.columns["talk"].append(self._talk(talk))

    def _talk(self, replies: Sequence[Mapping[str, Any]]) -> int:
        """The place among the talks of these replies to one question, -1 where there are none. Each is a tuple of
        numbers: its sample and turn (both from 0), the places of its status, text and reasoning, whether it repeats the
        reply to an equal request, whether it ended the conversation, and the place of the text that the strategy
        concluded (-1: none, then the reply that ended the conversation is the answer)."""
        if not replies:
            return -1
        self.talks.append(
            [
                (
                    row["sample"],
                    row["turn"],
                    self.words.place(inert(str(row.get("status") or OK))),
                    self.texts.place(_string(row.get("text"))),
                    self.texts.place(_string(row.get("reasoning"))),
                    int(bool(row.get("reused"))),
                    int("closes" in row and type(row["closes"]) is int),
                    self.texts.place(_text(row.get("conclusion"))),
                )
                for row in replies
            ]
        )
        return len(self.talks) - 1

    def _row(self, arm: int, strategy: str, item: int, scored: Sequence[Any], row: Mapping[str, Any]) -> None:
        status, parse, reason, answer, correct, chain, broken, sentences, verdicts, place, kind = scored
        stated = (
            tuple(sentences or ()),
            tuple(self.words.place(label) for label in chain or ()),
            tuple(self.words.place(verdict) for verdict in verdicts or ()),
        )
        values = {
            "item": item,
            "arm": arm,
            "strategy": self.words.place(strategy),
            "status": self.words.place(status),
            "parse": self.words.place(parse),
            "reason": self.texts.place(reason),
            "answer": self.words.place(answer),
            "right": int(bool(correct)),
            "chain": self.chains.place(stated) if any(stated) else -1,
            "broken": self.texts.place(broken),
            "break": place if place is not None else -1,
            "kind": self.words.place(kind),
            "text": self.texts.place(_string(row.get("text"))),
            "reasoning": self.texts.place(_string(row.get("reasoning"))),
            "sample": sample_of(row),
        }
        for name, value in values.items():
            self.columns[name].append(value)

    def _item(self, item: Item) -> int:
        text = item.to_json()
        if (known := self._known.get(text)) is not None:
            return known
        number = self._ids[item.id] = self._ids.get(item.id, 0) + 1
        place = self._known[text] = len(self.items)
        self._kinds.append((number, *self._kind(item)))
        self._origins.append((item.id, item.base))
        benchmark = benchmarks.find(item.benchmark)
        self.items.append(
            {
                "id": item.id if number == 1 else f"{item.id} (version {number})",
                "story": [self.sentences.place(sentence) for sentence in item.story],
                "question": self.sentences.place(item.question),
                "choices": [self.words.place(choice) for choice in item.choices],
                "answer": self.words.place(item.answer),
                "gold": self._gold_place(item),
                "beliefs": [
                    [heading, [self.words.place(label) for label in labels]]
                    for heading, labels in (benchmark.beliefs(item) if benchmark is not None else ())
                ],
                "factors": [
                    [self.factors.place(name), self.words.place(_string(value))]
                    for name, value in item.factors.items()
                    if value is not None
                ],
                "cluster": self.words.place(item.cluster),
            }
        )
        return place

    def _gold_place(self, item: Item) -> int:
        if item.gold is None:
            return -1
        sets = tuple(tuple(self.words.place(label) for label in layer) for layer in gold_layers(item.gold))
        edges = tuple((t, self.words.place(a), self.words.place(b)) for t, a, b in item.gold.edges)
        return self.golds.place((sets, edges))

    def data(self, cut: int | None) -> dict[str, Any]:
        """Everything collected, as the page reads it; -1 stands for a missing value. cut: how many characters of a text
        are kept; None for all."""
        return {
            "arms": self.arms,
            "words": self.words.values,
            "factors": self.factors.values,
            "sentences": self.sentences.values,
            "texts": [_cut(text, cut) for text in self.texts.values],
            "chains": self.chains.values,
            "golds": self.golds.values,
            "talks": self.talks,
            "items": self.items,
            "base": self._bases(),
            "rows": self.columns,
            "cut": cut,
        }

    def _kind(self, item: Item) -> tuple[tuple[Any, ...] | None, bool]:
        """What the versions of the item's question have in common, None where it has no versions; and whether the item
        is the original."""
        versions = self._versions
        if versions is None or item.factors.get(versions.factor) is None:
            return None, False
        shared = tuple(item.factors.get(name) for name in versions.matched)
        return None if None in shared else shared, item.factors[versions.factor] == versions.original

    def _bases(self) -> list[int]:
        """For each item the place of its original, -1 where there is none or where it is the original itself."""
        originals: dict[tuple[int, tuple[Any, ...]], int] = {}
        for place, (number, shared, original) in enumerate(self._kinds):
            if shared is not None and original:
                originals.setdefault((number, shared), place)
        places = {
            (kind[0], own): place for place, (kind, (own, _)) in enumerate(zip(self._kinds, self._origins, strict=True))
        }
        bases = []
        for place, (number, shared, _) in enumerate(self._kinds):
            base = -1 if shared is None else originals.get((number, shared), -1)
            if (origin := self._origins[place][1]) is not None:
                base = places.get((number, origin), -1)
            bases.append(-1 if base == place else base)
        return bases


_COLUMNS = (
    *("item", "arm", "strategy", "status", "parse", "reason", "answer", "right", "chain", "broken", "break", "kind"),
    *("text", "reasoning", "sample", "talk"),
)


def _text(value: Any) -> str | None:
    """The value if it is text, else None."""
    return value if isinstance(value, str) else None


def _string(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return "true" if value is True else "false" if value is False else str(value)


def _cut(text: str, cut: int | None) -> str:
    return text if cut is None or len(text) <= cut else f"{text[:cut]} […]"


def pack_browser(
    sources: Iterable[Source],
    extra: Mapping[str, Any],
    versions: Versions | None = None,
    chosen: Collection[str] | None = None,
) -> tuple[str, int | None]:
    """The browser's data as base64 of gzip, and to how many characters its texts were cut (None: they are whole).
    sources: the runs. extra: further data for the page. versions: see Browser. chosen: ids of the items that are shown;
    None for all. Each run's journal is read once."""
    browser = Browser(versions)
    for source in sources:
        browser.add(source, chosen)
    best = ""
    for cut in CUTS:
        best = pack_json({**browser.data(cut), **extra})
        if len(best) <= BUDGET:
            return best, cut
    return best, CUTS[-1]


def pack_json(data: Mapping[str, Any]) -> str:
    """The data as JSON, compressed by gzip, in base64; without a time, so that the same data gives the same text."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    text = orjson.dumps(data)
    return base64.b64encode(compressor.compress(text) + compressor.flush()).decode("ascii")


ANSWERS = 20_000  # how many answers a page may hold; it holds a few more where the last question drawn has more


@dataclass(frozen=True, slots=True)
class ItemSample:
    """The ids of the items that a page holds, None for all; and what the page says of the choice, None where there is
    none."""

    items: frozenset[str] | None = None
    said: str | None = None


def sample_items(
    scores: pl.DataFrame, most: int = ANSWERS, *, versions: Versions | None = None, strata: Sequence[str] = ()
) -> ItemSample:
    """What a page of these scores holds; it is the same for the same scores, whatever the order of their rows. most:
    how many answers it may hold. versions: how versions of a question are found. strata: factors over which the
    questions are spread, where their versions share them."""
    if scores.height <= most:
        return ItemSample()
    if versions is not None and not {versions.factor, *versions.matched} <= set(scores.columns):
        versions = None
    told = has_variants(scores)
    names = [n for n in strata if n in scores.columns and (versions is None or n in versions.matched)]
    asked = (
        scores.lazy()
        .with_columns(failed=~is_answered())
        .select(
            "item",
            "failed",
            pl.concat_str(pl.col(versions.matched).cast(pl.String).fill_null(""), separator="/").alias("question")
            if versions is not None
            else (pl.coalesce(ORIGINAL, "item") if told else pl.col("item")).alias("question"),
            pl.concat_str(pl.lit(""), *(pl.col(name).cast(pl.String).fill_null("") for name in names)).alias("stratum"),
        )
        .collect()
    )
    questions = asked.group_by("question").agg(pl.col("stratum").min(), pl.col("failed").any(), pl.len())
    room = max(2, int(most / (scores.height / questions.height)))
    failed, others = (
        dict(questions.filter(pl.col("failed") == flag).select("question", "stratum").iter_rows())
        for flag in (True, False)
    )
    drawn = draw_from_strata(failed.items(), max(room // 2, room - len(others)))
    drawn |= draw_from_strata(others.items(), room - len(drawn))
    kept = asked.filter(pl.col("question").is_in(list(drawn)))
    what = (
        "questions, each with all its versions and answers"
        if versions is not None or told
        else "questions, each with all its answers"
    )
    among = f"{len(drawn & failed.keys()):,} of the {len(failed):,} of which an answer failed"
    said = (
        f"This page holds {kept.height:,} of {scores.height:,} answers: {len(drawn):,} of {questions.height:,} {what}, "
        f"drawn by a fixed seed, among them {among}. All answers are in each run's responses.jsonl; figures and tables "
        "count all of them."
    )
    return ItemSample(frozenset(kept["item"]), said)
