"""Which models can be ranked together: those that were asked the same, in the same way, and measured on the same.

A score of eighty questions and one of twelve others are two numbers and no ranking. Each model has, for each score, a
key of all that decides whether it can be compared: the questions that B counts, with their types of task and chances,
the variants that S counts, the strategies that asked, and for the score of all layers the cases, the strategy, the
layers and the strengths of the measurement. Only models with one key are ranked; `not_compared` lists the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from tomserve.causal.table import CONTROLS, HELD_OUT, PPT, Outcomes
from tomserve.content import digest
from tomserve.stats.functional import FEW_SCENARIOS, LAYERS, ModelScore
from tomserve.stats.proportions import Interval
from tomserve.studies.contrasts import Record

from .replies import questions, variants
from .rows import Gathered

FULL, BS = "ftom", "ftom_bs"
"""The two scores: that of all layers, and that of behaviour and stability."""
PARTS: Mapping[str, tuple[str, ...]] = {FULL: LAYERS, BS: ("b", "s")}
"""The layers of each score."""
NAME = "not_compared"
NOTE = (
    "Models that have a score and no rank by it, and why: what they were asked or measured on differs from what the "
    "ranked models were, which are the largest group that was asked and measured alike (of equally large ones that "
    f"with the most questions), or there are fewer than {FEW_SCENARIOS} scenarios. Their scores stand in `score` and "
    "cannot be compared with the ranked ones."
)
"""What the table `not_compared` means."""


@dataclass(frozen=True)
class Asked:
    """What a model was asked. strategies: by benchmark, in the order of their names. questions, variants: how many are
    counted. items, content, changed: digests of the questions' names, of their types of task and chances as well, and
    of the variants."""

    strategies: tuple[tuple[str, str], ...]
    questions: int
    items: str
    content: str
    variants: int
    changed: str


@dataclass(frozen=True)
class Inside:
    """On what a model was measured. benchmark: of the cases. cases: how many; names: a digest of their names. asked_by:
    the strategies that asked. layers: those that were moved, or the word "all" where they are all from the first on, as
    many as the model has. alphas: the strengths."""

    benchmark: str
    cases: int
    names: str
    asked_by: str
    layers: str
    alphas: tuple[float, ...]
    controls: tuple[str, ...]


@dataclass(frozen=True)
class Key:
    """What decides whether models can be compared by a score. inside: only for the score of all layers."""

    asked: Asked
    inside: Inside | None = None


@dataclass(frozen=True)
class Group:
    """What is compared by one score. ranked: the models that are, by name. apart: rows of the table `not_compared`."""

    ranked: Mapping[str, ModelScore] = field(default_factory=dict)
    apart: tuple[Record, ...] = ()


def estimate(one: ModelScore, score: str) -> Interval:
    """The score of a model by the score's name."""
    return one.ftom if score == FULL else one.ftom_bs


def key(found: Gathered, model: str, score: str) -> Key:
    """What decides whether a model can be compared with others by a score."""
    strategies = tuple(sorted((benchmark, name) for (who, benchmark), name in found.plain.items() if who == model))
    own, moved = questions(found, model), variants(found, model)
    names = own.select("benchmark", "item")
    told = ("benchmark", "item", "task", "dimension", "chance", "options", "answer_role")
    content = own.select(name for name in told if name in own.columns)
    pairs = moved.select("benchmark", "original_item", "variant", "item")
    asked = Asked(strategies, own.height, _digest(names), _digest(content), moved.height, _digest(pairs))
    inside = _inside(found.measured[model]) if score == FULL and model in found.measured else None
    return Key(asked, inside)


def _digest(frame: pl.DataFrame) -> str:
    """A digest of rows whatever their order."""
    told = frame.select(pl.col(pl.Float64, pl.Float32).round(12), pl.exclude(pl.Float64, pl.Float32).cast(pl.String))
    return digest(told.sort(told.columns).write_csv().encode())


def _inside(found: Outcomes) -> Inside:
    moves = found.moves.filter(pl.col("map") == PPT, pl.col("fitted") == HELD_OUT)
    maps = set(found.moves["map"])
    layers = sorted({int(layer) for layer in moves["layer"]})
    whole = layers == list(range(1, len(layers) + 1))
    return Inside(
        benchmark=str(found.arm["benchmark"]),
        cases=found.items.height,
        names=_digest(found.items.select("item")),
        asked_by=", ".join(found.answers["asked_by"].drop_nulls().unique().sort()),
        layers="all" if whole else ", ".join(map(str, layers)),
        alphas=tuple(sorted({float(alpha) for alpha in moves["alpha"].drop_nulls()})),
        controls=tuple(name for name in CONTROLS if name in maps),
    )


def groups(found: Gathered, scored: Mapping[str, ModelScore]) -> dict[str, Group]:
    """For each score the models that can be ranked by it, and why the others that have it cannot.

    The largest group of models that were asked and measured alike is ranked; of equally large ones that with the most
    questions, and then that of the first name. scored: the models with their layers and scores.
    """
    return {score: _group(found, scored, score) for score in PARTS}


def _group(found: Gathered, scored: Mapping[str, ModelScore], score: str) -> Group:
    having = {model: one for model, one in scored.items() if math.isfinite(estimate(one, score).estimate)}
    keys = {model: key(found, model, score) for model, one in having.items() if score in one.draws}
    apart = [{"model": model, "score": score, "why": few(one)} for model, one in having.items() if model not in keys]
    if not keys:
        return Group({}, tuple(apart))
    sizes = Counter(keys.values())
    best = min(keys, key=lambda model: (-sizes[keys[model]], -keys[model].asked.questions, model))
    ranked = {model: having[model] for model, own in keys.items() if own == keys[best]}
    others = "the ranked models" if len(ranked) > 1 else best
    for model, own in keys.items():
        if own != keys[best]:
            why = "; ".join(_differences(own, keys[best], others))
            apart.append({"model": model, "score": score, "why": why})
    return Group(ranked, tuple(sorted(apart, key=lambda row: str(row["model"]))))


def few(one: ModelScore) -> str:
    """Why a score has neither an interval nor a rank, in a few words."""
    told = [f"{name.upper()} has only {count} scenario{'s' * (count != 1)}" for name, count in one.few.items()]
    if len(set(one.few.values())) == 1 and len(told) > 1:
        count = next(iter(one.few.values()))
        told = [f"only {count} scenario{'s' * (count != 1)}"]
    why = " and ".join(told)
    return f"{why}, and {FEW_SCENARIOS} are needed for an interval or a rank" if why else "the score has no interval"


def not_compared(groups: Mapping[str, Group]) -> Iterator[Record]:
    """The table `not_compared`: a row for each score and model that has the score and is not ranked by it."""
    for group in groups.values():
        yield from group.apart


def _differences(own: Key, of: Key, others: str) -> Iterator[str]:
    """What differs, from the model's side, as clauses. others: what those with the other key are called."""
    mine, theirs = own.asked, of.asked
    if mine.strategies != theirs.strategies:
        yield from _strategies(dict(mine.strategies), dict(theirs.strategies), others)
    if mine.questions != theirs.questions:
        yield f"was asked {mine.questions} questions, {others} {theirs.questions}"
    elif mine.items != theirs.items:
        yield f"was asked other questions than {others}"
    elif mine.content != theirs.content:
        yield f"was asked questions of the same names with other types of task, chances or answers than {others}"
    if mine.variants != theirs.variants:
        yield f"was asked {mine.variants} variants, {others} {theirs.variants}"
    elif mine.changed != theirs.changed and mine.items == theirs.items:
        yield f"was asked other variants than {others}"
    if own.inside is not None and of.inside is not None:
        yield from _inside_differs(own.inside, of.inside, others)


def _strategies(mine: Mapping[str, str], theirs: Mapping[str, str], others: str) -> Iterator[str]:
    if set(mine) != set(theirs):
        yield f"was asked {', '.join(mine) or 'no benchmark'}, {others} {', '.join(theirs) or 'none'}"
        return
    for benchmark, name in mine.items():
        if name != theirs[benchmark]:
            of = f" {benchmark}" if len(mine) > 1 else ""
            yield f"was asked{of} by {name}, {others} by {theirs[benchmark]}"


def _inside_differs(mine: Inside, theirs: Inside, others: str) -> Iterator[str]:
    if mine.benchmark != theirs.benchmark:
        yield f"was measured on cases of {mine.benchmark}, {others} of {theirs.benchmark}"
    elif mine.cases != theirs.cases:
        yield f"was measured on {mine.cases} cases, {others} on {theirs.cases}"
    elif mine.names != theirs.names:
        yield f"was measured on other cases than {others}"
    if mine.asked_by != theirs.asked_by:
        yield f"was measured by {mine.asked_by or 'an unknown strategy'}, {others} by {theirs.asked_by or 'another'}"
    if (mine.layers, mine.alphas) != (theirs.layers, theirs.alphas):
        yield f"was measured at other layers or strengths than {others}"
    if mine.controls != theirs.controls:
        yield f"was measured with other controls than {others}"
