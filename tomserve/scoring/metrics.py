"""Metrics: columns of the score table, each declared with the function that fills it, and the standard ones of every
benchmark.

A benchmark adds its own by its field `metrics`. A *floor* is what a chain or a guess scores that knows nothing of the
story. A variant's answer is also given as a choice of its original, so that the two can be compared.

>>> import polars as pl
>>> doubt = Metric({"metric_doubts": pl.Int64}, lambda item, reading: {"metric_doubts": reading.text.count("maybe")})
>>> doubt.compute(None, Reading(None, None, text="maybe tea, maybe salt"))
{'metric_doubts': 2}
"""

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.errors import ConfigError, ContentError, TomserveError
from tomserve.items import RESERVED, RESERVED_BEGINNINGS, UNKNOWN, Gold, Item
from tomserve.items.rationale import MOST_WORK, Automaton
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import GENERIC, Baseline
from tomserve.scoring.chains import MISSING, compare_chain, judge_sentences, score_chain
from tomserve.scoring.labels import count_offered

Kind = pl.DataType | type[pl.DataType]
"""The type of a column, as Polars names it, such as ``pl.Float64`` or ``pl.List(pl.String)``."""

BEGINNING = "metric_"
"""With this the names of columns begin that a benchmark's metrics compute from replies. So a table shows which of its
columns are metrics even where the file that declared them is not at hand, as for a CSV file."""

NO_REPLY = Reading(None, None)
"""The reading that a metric of items is given, because its values do not depend on any reply."""


@dataclass(frozen=True)
class Metric:
    """Some columns of the score table, in its order, and the function that computes them for the reading of a reply; a
    column that this leaves out is null."""

    columns: Mapping[str, Kind]
    compute: Callable[[Item, Reading], Mapping[str, Any]]
    of_item: bool = False  # whether the values belong to the item; then they are computed once for it, with NO_REPLY


@dataclass(frozen=True)
class Scoring:
    """What a benchmark adds to the scoring of its items. Raises ConfigError for a column whose name cannot be used."""

    metrics: tuple[Metric, ...] = ()  # computed after the standard ones
    lettered: bool = False  # whether the choices are shown as A, B, C, so that a reply may name one by its letter
    rules: tuple[Baseline, ...] = ()  # shortcut baselines besides those of every benchmark
    shipped: bool = False  # whether every process of this installation finds the same by the benchmark's name

    def __post_init__(self) -> None:
        for metric in self.metrics:
            _check(metric)
        taken = {rule.name for rule in GENERIC}
        for rule in self.rules:
            if rule.name in taken:
                raise ConfigError(
                    f"rules: there is a rule {rule.name!r} already; every benchmark has the rules "
                    f"{', '.join(one.name for one in GENERIC)}. Choose another name"
                )
            taken.add(rule.name)


PLAIN = Scoring(shipped=True)
"""The standard metrics alone, for items of an unknown benchmark."""

ScoringLookup = Callable[[str], Scoring]
"""A function from the name of a benchmark to what it adds; it gives PLAIN for an unknown name."""


def plain_scoring(name: str) -> Scoring:
    """PLAIN for any name: the rules where only the standard metrics are wanted."""
    del name
    return PLAIN


def columns_of(metrics: Iterable[Metric]) -> dict[str, Kind]:
    """All columns of these metrics with their types. Raises ConfigError where two differ about a type."""
    found: dict[str, Kind] = {}
    for metric in metrics:
        for name, kind in metric.columns.items():
            if found.setdefault(name, kind) != kind:
                raise ConfigError(f"metrics: column {name!r} is declared as {found[name]} and as {kind}; rename one")
    return found


def compute_metric(metric: Metric, item: Item, reading: Reading) -> Mapping[str, Any]:
    """The values by column that a benchmark's metric, which may be a user's own code, gives for one item and one reply.
    Raises ContentError by file and line where it failed, ConfigError for a column that it did not declare."""
    try:
        found = metric.compute(item, reading)
    except TomserveError:
        raise
    except Exception as error:
        raise _metric_error(f"the metric of {', '.join(metric.columns)} failed", item, error) from None
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"metrics: item {item.id!r}: found {found!r:.60}; expected a dict of {', '.join(metric.columns)}"
        )
    if strange := [name for name in found if name not in metric.columns]:
        raise ConfigError(
            f"metrics: item {item.id!r}: column {strange[0]!r} was not declared; declared: {', '.join(metric.columns)}"
        )
    return found


def apply_baselines(rules: Iterable[Baseline], item: Item) -> dict[str, bool | None]:
    """Whether the answers of a benchmark's rules are right, by column; null for a rule that says nothing of the item.
    Raises ContentError by file and line where one failed, ConfigError for a label that is no choice of the item."""
    found: dict[str, bool | None] = {}
    for rule in rules:
        try:
            label = rule.answer(item)
        except TomserveError:
            raise
        except Exception as error:
            raise _metric_error(f"the rule {rule.name!r} failed", item, error) from None
        if label is not None and label not in item.choices:
            raise ConfigError(
                f"rules: item {item.id!r}: the rule {rule.name!r} answers {label!r:.60}; expected one of the item's "
                f"choices ({', '.join(item.choices)}), or None where the rule says nothing"
            )
        found[rule.column] = None if label is None else label == item.answer
    return found


def _metric_error(what: str, item: Item, error: Exception) -> ContentError:
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename] if frames else []
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    where = Path(own[-1].filename) if own else Path("metric")
    return ContentError(f"{what} for item {item.id!r} ({reason})", path=where, line=own[-1].lineno if own else None)


def _check(metric: Metric) -> None:
    if not metric.columns:
        raise ConfigError("metrics: a metric declares no columns; expected e.g. {'metric_words': pl.Int64}")
    for name in metric.columns:
        if metric.of_item:
            if name in RESERVED or name.startswith(RESERVED_BEGINNINGS):
                raise ConfigError(f"metrics: column {name!r} of items has a name of the score table; rename it")
        elif not name.startswith(BEGINNING) or name == BEGINNING:
            raise ConfigError(
                f"metrics: column {name!r} of replies must begin with {BEGINNING!r}, by which studies find it"
            )


FLOORS = ("first", "answer", UNKNOWN)
"""Chains that know nothing of the story and repeat one label, as often as the model wrote a belief: the first gold
belief, the right answer, or "unknown". What they score, a model gets for nothing."""

FLOOR_METRICS = ("lcs", "lcps", "transitions", "sentence_accuracy")
"""The metrics of a chain that are computed for the floors as well."""


def _answer(item: Item, reading: Reading) -> dict[str, Any]:
    return {
        "status": reading.status,
        "parse": reading.parse,
        "reason": reading.reason,
        "answer": reading.answer,
        "correct": reading.answer == item.answer,
    }


ANSWER = Metric(
    {"status": pl.String, "parse": pl.String, "reason": pl.String, "answer": pl.String, "correct": pl.Boolean}, _answer
)
"""The metric of the answer: what it is, how it was read or why it could not be, and whether it is right."""


def _comparable(gold: Automaton, reading: Reading) -> Reading:
    """The reading, without a chain of more beliefs than can be compared with all gold chains (see MOST_WORK)."""
    pairs = 0 if gold.path else sum(map(len, gold.steps))
    if pairs * len(reading.stated or ()) <= MOST_WORK:
        return reading
    return reading._replace(chain=None, stated=None, chain_reason="holds more beliefs than can be compared")


def _chain(item: Item, reading: Reading) -> dict[str, Any]:
    found: dict[str, Any] = {}
    gold = None if item.gold is None else compile_gold(item.gold)
    if gold is not None:
        reading = _comparable(gold, reading)
    if reading.chain is not None:
        last = reading.chain[-1][1]
        found["chain"] = [label for _, label in reading.chain]
        found["chain_length"] = len(reading.chain)
        found["answer_matches_last"] = None if reading.answer is None else reading.answer == last
        found["chain_last_correct"] = last == item.answer
    elif reading.chain_reason is not None:
        found["chain_reason"] = reading.chain_reason
    elif not reading.chain_asked:
        return found
    if reading.stated is not None:
        found["chain_sentences"] = [number for number, _ in reading.stated]
    if gold is not None:
        found.update(_against(gold, reading))
    return found


CHAIN = Metric(
    {
        "chain": pl.List(pl.String),
        "chain_reason": pl.String,
        "chain_proper": pl.Boolean,
        "chain_lcs": pl.Float64,
        "chain_lcps": pl.Float64,
        "chain_transitions": pl.Float64,
        "chain_transitions_distinct": pl.Float64,
        "chain_sentence_accuracy": pl.Float64,
        "chain_change_f1": pl.Float64,
        "chain_path_proper": pl.Boolean,
        "chain_last_correct": pl.Boolean,
        "chain_length": pl.Int64,
        "answer_matches_last": pl.Boolean,
        "chain_sentences": pl.List(pl.Int64),
        "chain_verdicts": pl.List(pl.String),
        "chain_break": pl.Int64,
        "chain_break_kind": pl.String,
    },
    _chain,
)
"""The metrics of the chain of beliefs, compared with the gold rationale. All are null where no chain was asked for and
none was given; a chain that was asked for and could not be read is not proper and scores 0."""


def _against(gold: Automaton, reading: Reading) -> dict[str, Any]:
    """The chain metrics of a reading against a gold rationale, by column."""
    readable = reading.chain is not None
    score, path, judgement = compare_chain(gold, reading.stated or (), readable, reading.others)
    kind, place = None, judgement.first_break
    if not score.proper:
        # A chain that cannot be read breaks where it names what is no label, else at no sentence in particular.
        if not readable and "out_of_vocabulary" in judgement.verdicts:
            place = judgement.verdicts.index("out_of_vocabulary")
        elif not readable:
            place = None
        kind = MISSING if place is None else judgement.verdicts[place]
    return {
        "chain_proper": score.proper,
        "chain_lcs": score.lcs,
        "chain_lcps": score.lcps,
        "chain_transitions": score.transitions,
        "chain_transitions_distinct": score.transitions_distinct,
        "chain_path_proper": path,
        "chain_sentence_accuracy": judgement.accuracy if readable else 0.0,
        "chain_change_f1": judgement.change_f1 if readable else 0.0,
        "chain_length": len(reading.chain or ()),
        "chain_verdicts": list(judgement.verdicts) if reading.stated else None,
        "chain_break": place + 1 if kind is not None and place is not None else None,
        "chain_break_kind": kind,
    }


@lru_cache(maxsize=8192)
def compile_gold(gold: Gold) -> Automaton:
    """The compiled gold rationale; equal ones are compiled once."""
    return gold.automaton()


def _floors(item: Item, reading: Reading) -> dict[str, float | None]:
    """A precision depends on how long a chain is, so that a floor is as long as the chain that it stands beside."""
    if item.gold is None:
        return {}
    gold = compile_gold(item.gold)
    length = len(_comparable(gold, reading).chain or gold.labels)
    return _floors_of(gold, item.answer, UNKNOWN in item.choices, length)


FLOOR = Metric({f"floor_{floor}_{metric}": pl.Float64 for floor in FLOORS for metric in FLOOR_METRICS}, _floors)
"""The metrics of the floors: what the chains of FLOORS score against the item's gold. They are null without gold, and
those of "unknown" where that is no label of the item."""


@lru_cache(maxsize=8192)
def _floors_of(gold: Automaton, answer: str, unknown: bool, length: int) -> dict[str, float | None]:
    first = max(sorted(gold.labels[0]), key=lambda label: score_chain(gold, [label] * length).lcs)
    found: dict[str, float | None] = {}
    for floor, label in zip(FLOORS, (first, answer, UNKNOWN if unknown else None), strict=True):
        if label is None:
            continue
        score = score_chain(gold, [label] * length)
        accuracy = judge_sentences(gold, [(1, label)]).accuracy  # without further beliefs it holds to the end
        values = (score.lcs, score.lcps, score.transitions, accuracy)
        found |= {f"floor_{floor}_{metric}": value for metric, value in zip(FLOOR_METRICS, values, strict=True)}
    return found


def _generic_rules(item: Item, reading: Reading) -> dict[str, bool | None]:
    del reading  # what a rule answers does not depend on a reply
    return apply_baselines(GENERIC, item) if item.choices else {}


RULED = Metric({rule.column: pl.Boolean for rule in GENERIC}, _generic_rules, of_item=True)
"""Whether the answer of each baseline of GENERIC is right; null where it says nothing of the item."""


def _guess_chance(item: Item, reading: Reading) -> dict[str, float | None]:
    del reading  # what a guess scores does not depend on a reply
    return {} if not item.choices else {"floor_guess": 1 / count_offered(item.benchmark, item.choices)}


GUESSED = Metric({"floor_guess": pl.Float64}, _guess_chance, of_item=True)
"""The share right of somebody who picks one of the choices blindly that the item's benchmark offers (in Hi-ToM all but
"unknown"), from 0 to 1: the chance that a study corrects an accuracy for, since items of one table may offer different
numbers of choices."""

STANDARD = (ANSWER, CHAIN, FLOOR, RULED, GUESSED)
"""The metrics of every score table, in the order of their columns."""


ORIGINAL_ITEM: dict[str, Kind] = {
    "original_item": pl.String,
    "original_rules_same": pl.List(pl.String),
    "original_rules_other": pl.List(pl.String),
}
"""Columns of the item that a score table has only where some items are variants.

original_item: the id of the original, null for a question that is no variant. original_rules_same,
original_rules_other: the columns of shortcut baselines that answer the variant as they answer the
original, or otherwise; null for what is no variant."""

ORIGINAL_REPLY: dict[str, Kind] = {"original_answer": pl.String, "original_place": pl.Int64}
"""Columns of the answer that a score table has only where some items are variants.

original_answer: the answer as the choice of the original that it stands for, null where none was read.
original_place: the place of that choice among the original's, from 0."""

Original = Callable[[Item], Item | None]
"""A function that gives the original of a variant: None for what is no variant, and where it is not at hand."""


def original_item_fields(item: Item, original: Item | None, scoring: Scoring) -> dict[str, Any]:
    """The columns ORIGINAL_ITEM. original: the item's original, None where it has none at hand. scoring: what the
    benchmark of the item adds to the rules."""
    fields: dict[str, Any] = {"original_item": item.base}
    if original is None:
        return fields
    same: list[str] = []
    other: list[str] = []
    for rule in (*GENERIC, *scoring.rules):
        before, after = rule.answer(original), rule.answer(item)
        if before is not None and after is not None:
            (same if item.meaning(after) == before else other).append(rule.column)
    return {**fields, "original_rules_same": same or None, "original_rules_other": other or None}


def original_reply_fields(item: Item, original: Item | None, answer: str | None) -> dict[str, Any]:
    """The columns ORIGINAL_REPLY. original: the item's original, None where it is no variant or the original is not at
    hand. answer: the answer that was read, None where there is none."""
    if answer is None or (item.base is not None and original is None):
        return {}
    meant = item.meaning(answer)
    choices = (original or item).choices
    return {"original_answer": meant, "original_place": choices.index(meant) if meant in choices else None}
