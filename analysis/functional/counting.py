"""The tables of the score: B, C, S and what is made of them, ranks, and how far they depend on the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.scoring.score import PEOPLE
from tomserve.stats.accuracy import guesser_mean, task_mean
from tomserve.stats.functional import FTOM_1, LAYERS, Formula, ModelScore, score_models
from tomserve.stats.proportions import Interval
from tomserve.stats.ranks import EQUAL, Ranking, ScoreComparison, compare_scores, ranking_share, rankings, swap
from tomserve.studies import people, tasks
from tomserve.studies.contrasts import Record, codes

from .comparing import BS, FULL, PARTS, Group, estimate, few
from .replies import Replies, explained, questions, readable, variants
from .rows import B_NAME, C_NAME, COUNTED, S_NAME, Gathered, again

Floats = npt.NDArray[np.float64]

MOST = 20
"""So many rankings are listed at most, and that of the formula's own weights in any case."""


def counted(found: Gathered, formula: Formula = FTOM_1) -> dict[str, ModelScore]:
    """The layers and scores of each model; a layer most of whose replies failed or could not be read is missing."""
    layers, why = readable(found)
    return explained(score_models(layers, formula), why)


def columns(name: str, found: Interval) -> Record:
    """An estimate with its ends as NAME, NAME_low and NAME_high; None where undefined."""
    ends = (found.estimate, found.low, found.high)
    return {key: value if math.isfinite(value) else None
            for key, value in zip((name, f"{name}_low", f"{name}_high"), ends, strict=True)}  # fmt: skip


def by_model(
    found: Gathered, scored: Mapping[str, ModelScore], formula: Formula = FTOM_1, why_no_c: str = ""
) -> Iterator[Record]:
    """The table `score_models`: a row for each model; those with a score of all layers first, by that, then by FToM_BS.

    why_no_c: why nothing was measured, where it was tried."""
    rows = []
    for model, one in scored.items():
        row: Record = {"model": model, "formula": formula.name, "holds": holds(one)}
        for name in (*LAYERS, FULL, BS):
            row |= columns(name, {**dict(zip(LAYERS, (one.b, one.c, one.s), strict=True)), FULL: one.ftom,
                                  BS: one.ftom_bs}[name])  # fmt: skip
        behaviour = found.models[model].b if "b" not in one.lacking else None
        row["b_guesser"] = _known(guesser_mean(behaviour.chance, behaviour.task)) if behaviour is not None else None
        row |= _replies(found, model)
        measured = found.measured.get(model)
        row |= {"adjusted": _known(one.adjusted), "ceiling": _known(one.ceiling)}
        row |= {"eligible": measured.chosen().height if measured is not None else None}
        row |= {f"no_{name}": one.lacking.get(name) for name in LAYERS}
        if why_no_c and measured is None:
            row["no_c"] = why_no_c
        if (
            model not in {who for who, _ in found.plain}
            and found.asked is not None
            and found.asked.rows.filter(model=model).height
        ):
            why = "asked by no strategy that is known to ask for the answer alone"
            row |= {name: why for name in ("no_b", "no_s") if row[name] is not None}
        row |= {"no_interval": few(one) if one.few else None}
        row |= {"t0_asked": again(found, model)}
        row |= {f"w_{name}": weight for name, weight in zip(LAYERS, formula.weights, strict=True)}
        row |= {"inputs": ", ".join(dict.fromkeys(each["run"] or "a table" for each in found.inputs
                                                  if each["model"] == model and each["counted"]))}  # fmt: skip
        rows.append(row)
    yield from sorted(rows, key=lambda row: (*(_descending(row[name]) for name in (FULL, BS)), row["model"]))


def _descending(value: float | None) -> float:
    """Sorts the highest value first and a missing one last; a score of 0 is none that is missing."""
    return math.inf if value is None else -value


def _replies(found: Gathered, model: str) -> Record:
    """How much was asked, and which shares of the counted replies failed or could not be read."""
    asked = Replies.of(questions(found, model))
    every = asked + Replies.of(variants(found, model))
    row: Record = {"questions": asked.count, "scenarios": _scenarios(found, model)}
    return row | {name: getattr(every, name) / every.count if every.count else None for name in ("failed", "unread")}


def holds(one: ModelScore) -> str:
    """Which layers a model has, such as "b, s"."""
    return ", ".join(name for name in LAYERS if name not in one.lacking) or "none"


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _scenarios(found: Gathered, model: str) -> int:
    layers = found.models[model]
    names = {str(name) for part in (layers.b, layers.c, layers.s) if part is not None for name in
             np.unique(np.asarray(part.scenario, dtype=np.str_))}  # fmt: skip
    return len(names)


def layers(found: Gathered) -> Iterator[Record]:
    """The table `layers`: what the study of each layer says of each model, strategy and benchmark, a row a figure."""
    for study, name, figures in (
        (B_NAME, "behaviour", ("b", "over_rule", "accuracy", "chance", "constant_b", "surface_b")),
        (S_NAME, "stability", ("s", "kappa", "minus_floor", "floor", "s0")),
        (C_NAME, "headline", ("adjusted", "net", "control_net", "ceiling", "p_over_controls", "published_net")),
    ):
        for row in found.told.get(study, {}).get(name, pl.DataFrame()).iter_rows(named=True):
            if study == S_NAME and row["short"] not in (*COUNTED, "T1-T4"):
                continue
            key = {"layer": study, "model": row["model"], "benchmark": row["benchmark"]}
            strategy = {"strategy": row.get("strategy"), "of": row.get("variant")}
            for figure in figures:
                low, high = _ends(figure, row)
                if row.get(figure) is not None:
                    yield {**key, **strategy, "figure": figure, "value": float(row[figure]), "low": low, "high": high}
    for model, own in found.models.items():
        for (benchmark, name), value in _guessed(found, model) if own.b is not None else ():
            told = {"layer": B_NAME, "model": model, "benchmark": benchmark, "strategy": name, "of": None}
            yield {**told, "figure": "b_guesser", "value": value, "low": None, "high": None}


def _guessed(found: Gathered, model: str) -> Iterator[tuple[tuple[str, str], float]]:
    """B that a blind guesser has on average on the questions of each benchmark, where their chances are known."""
    for (benchmark, strategy), part in questions(found, model).group_by("benchmark", "strategy", maintain_order=True):
        value = guesser_mean(part["chance"].cast(pl.Float64).to_numpy(), part["task"].to_numpy())
        if math.isfinite(value):
            yield (str(benchmark), str(strategy)), value


_ENDS = {"over_rule": "over", "minus_floor": "minus", "accuracy": "ci"}


def _ends(figure: str, row: Record) -> tuple[float | None, float | None]:
    stem = _ENDS.get(figure, figure)
    return row.get(f"{stem}_low"), row.get(f"{stem}_high")


def _compared(group: Group, name: str) -> ScoreComparison:
    own = group.ranked
    scores = {model: estimate(one, name) for model, one in own.items()}
    return compare_scores(scores, {model: one.draws[name] for model, one in own.items()})


def ranking(groups: Mapping[str, Group]) -> Iterator[Record]:
    """The table `ranking`: for each score the rank of each model that can be compared, and how probable ranks are.
    Equal scores have one rank, and the next one follows after as many as there are."""
    for name, group in groups.items():
        own = group.ranked
        if len(own) < 2:
            continue
        chances = _compared(group, name).rank_probabilities()
        values = {model: estimate(one, name).estimate for model, one in own.items()}
        for model in sorted(own, key=lambda model: (-values[model], model)):
            rank = 1 + sum(other > values[model] + EQUAL for other in values.values())
            shares = chances[model]
            ends = np.searchsorted(np.cumsum(shares), (0.025, 0.975 - 1e-12)) + 1
            row: Record = {"score": name, "rank": rank, "model": model, "value": values[model]}
            row |= {"p_first": float(shares[0]), "p_this_rank": float(shares[rank - 1])}
            row |= {"expected_rank": float(shares @ np.arange(1, len(own) + 1))}
            row |= {"rank_low": int(ends[0]), "rank_high": int(min(ends[1], len(own)))}
            yield row


def sensitivity(groups: Mapping[str, Group], formula: Formula = FTOM_1) -> Iterator[Record]:
    """The table `sensitivity`: the rankings that some weights give, and for which share of all weights. The ranking of
    the formula's weights is among them however rare it is."""
    for name, group in groups.items():
        own, names = sorted(group.ranked), PARTS[name]
        if len(own) < 2:
            continue
        parts = _estimates(group.ranked, own, names)
        now = tuple(np.argsort(-np.round(parts @ _weights(formula, names), 12), kind="stable").tolist())
        found = rankings(parts)
        of_formula = next((one for one in found if one.order == now), None) or Ranking(now, ranking_share(parts, now))
        listed = found[:MOST] if of_formula in found[:MOST] else [*found[: MOST - 1], of_formula]
        for one in listed:
            yield {"score": name, "ranking": " > ".join(own[k] for k in one.order), "share": one.share,
                   "at_these_weights": one.order == now}  # fmt: skip


def swaps(groups: Mapping[str, Group], formula: Formula = FTOM_1) -> Iterator[Record]:
    """The table `swaps`: for each pair of models the difference of their scores with its interval, and how often, over
    all weights, the one that is ahead is ahead."""
    for name, group in groups.items():
        values = {model: estimate(one, name).estimate for model, one in group.ranked.items()}
        own, names = sorted(values, key=lambda model: (-values[model], model)), PARTS[name]
        if len(own) < 2:
            continue
        parts, weights, pairs = _estimates(group.ranked, own, names), _weights(formula, names), _compared(group, name)
        for first in range(len(own)):
            for second in range(first + 1, len(own)):
                found = swap(parts, first, second, weights.tolist())
                a, b = own[first], own[second]
                i, j = pairs.names.index(a), pairs.names.index(b)
                near = found.nearest or (None,) * len(names)
                yield {
                    **{"score": name, "ahead": a, "behind": b, "difference": values[a] - values[b]},
                    **{"low": float(pairs.low[i, j]), "high": float(pairs.high[i, j])},
                    **{"p_ahead": pairs.ahead(a, b), "share_of_weights": found.share},
                    **{f"equal_at_{part}": value for part, value in zip(names, near, strict=True)},
                    "distance": _known(found.distance),
                }  # fmt: skip


def _estimates(scored: Mapping[str, ModelScore], models: Sequence[str], names: Sequence[str]) -> Floats:
    of = {model: {"b": one.b, "c": one.c, "s": one.s} for model, one in scored.items()}
    return np.array([[of[model][name].estimate for name in names] for model in models])


def _weights(formula: Formula, names: Sequence[str]) -> Floats:
    chosen = np.array([formula.weights[LAYERS.index(name)] for name in names])
    return chosen / chosen.sum() if chosen.sum() > 0 else np.full(len(names), 1 / len(names))


def humans(found: Gathered) -> Iterator[Record]:
    """The table `humans`: B of people who were asked, each answer of each person counted; C and S are unknown."""
    if not found.people.height or not set(PEOPLE) <= set(found.people.columns):
        return
    placed = tasks.asked(found.people.lazy()).rows.filter("mind")
    answers = people.answers(found.people).select("model", "strategy", "item", "person", right=pl.col("right") > 0)
    rows = answers.join(placed.drop("correct"), on=["model", "strategy", "item"], how="inner")
    for (model, benchmark), part in rows.sort("model", "benchmark", "item").group_by(
        "model", "benchmark", maintain_order=True
    ):
        row: Record = {"people": model, "benchmark": benchmark, "answers": part.height,
                       "persons": part["person"].n_unique(), "accuracy": part["right"].mean()}  # fmt: skip
        if not part["chance"].null_count():
            mean = task_mean(part["right"].to_numpy(), part["chance"].to_numpy(), codes(part["task"]),
                             codes(part["cluster"]))  # fmt: skip
            row |= columns("b", mean.interval())
        yield {**row, "c": None, "s": None}
