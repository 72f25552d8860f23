"""The tables of the score: B, C, S and what is made of them, ranks, and how far they depend on the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.scoring.samples import PEOPLE
from tomserve.stats.corrected import task_mean
from tomserve.stats.functional import FTOM_1, LAYERS, Formula, Scored, rank_probabilities
from tomserve.stats.proportions import Interval
from tomserve.stats.simplex import rankings, swap
from tomserve.studies import people, tasks
from tomserve.studies.contrasts import Record, codes

from .rows import B_NAME, C_NAME, COUNTED, S_NAME, Gathered, again

Floats = npt.NDArray[np.float64]

FULL, BS = "ftom", "ftom_bs"
"""The two scores: that of all layers, and that of behaviour and stability."""
PARTS: Mapping[str, tuple[str, ...]] = {FULL: LAYERS, BS: ("b", "s")}
"""The layers of each score."""
MOST = 20
"""So many rankings are listed at most."""


def columns(name: str, found: Interval) -> Record:
    """An estimate with its ends as NAME, NAME_low and NAME_high; None where undefined."""
    ends = (found.estimate, found.low, found.high)
    return {key: value if math.isfinite(value) else None
            for key, value in zip((name, f"{name}_low", f"{name}_high"), ends, strict=True)}  # fmt: skip


def by_model(
    found: Gathered, scored: Mapping[str, Scored], formula: Formula = FTOM_1, why_no_c: str = ""
) -> Iterator[Record]:
    """The table `score`: a row for each model; those with a score of all layers first, by that, then by FToM_BS.

    why_no_c: why nothing was measured, where it was tried."""
    rows = []
    for model, one in scored.items():
        row: Record = {"model": model, "formula": formula.name, "holds": holds(one)}
        for name in (*LAYERS, FULL, BS):
            row |= columns(name, {**dict(zip(LAYERS, (one.b, one.c, one.s), strict=True)), FULL: one.ftom,
                                  BS: one.ftom_bs}[name])  # fmt: skip
        measured = found.measured.get(model)
        row |= {"adjusted": _known(one.adjusted), "ceiling": _known(one.ceiling)}
        row |= {"eligible": measured.chosen().height if measured is not None else None}
        row |= {f"no_{name}": one.lacking.get(name) for name in LAYERS}
        if why_no_c and measured is None:
            row["no_c"] = why_no_c
        row |= {"t0_asked": again(found, model), "scenarios": _scenarios(found, model)}
        row |= {"inputs": ", ".join(dict.fromkeys(each["run"] or "a table" for each in found.inputs
                                                  if each["model"] == model and each["counted"]))}  # fmt: skip
        rows.append(row)
    yield from sorted(rows, key=lambda row: (-(row[FULL] or -1), -(row[BS] or -1), row["model"]))


def holds(one: Scored) -> str:
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


_ENDS = {"over_rule": "over", "minus_floor": "minus", "accuracy": "ci"}


def _ends(figure: str, row: Record) -> tuple[float | None, float | None]:
    stem = _ENDS.get(figure, figure)
    return row.get(f"{stem}_low"), row.get(f"{stem}_high")


def _having(scored: Mapping[str, Scored], score: str) -> dict[str, Scored]:
    return {model: one for model, one in scored.items() if score in one.draws}


def _estimate(one: Scored, score: str) -> float:
    return (one.ftom if score == FULL else one.ftom_bs).estimate


def ranking(scored: Mapping[str, Scored]) -> Iterator[Record]:
    """The table `ranking`: for each score the rank of each model that has it, and how probable ranks are."""
    for score in PARTS:
        own = _having(scored, score)
        if len(own) < 2:
            continue
        chances = rank_probabilities({model: one.draws[score] for model, one in own.items()})
        order = sorted(own, key=lambda model: (-_estimate(own[model], score), model))
        for rank, model in enumerate(order, 1):
            shares = chances[model]
            ends = np.searchsorted(np.cumsum(shares), (0.025, 0.975 - 1e-12)) + 1
            row: Record = {"score": score, "rank": rank, "model": model, "value": _estimate(own[model], score)}
            row |= {"p_first": float(shares[0]), "p_this_rank": float(shares[rank - 1])}
            row |= {"expected_rank": float(shares @ np.arange(1, len(own) + 1))}
            row |= {"rank_low": int(ends[0]), "rank_high": int(min(ends[1], len(own)))}
            yield row


def sensitivity(scored: Mapping[str, Scored], formula: Formula = FTOM_1) -> Iterator[Record]:
    """The table `sensitivity`: every ranking that some weights give, and for which share of all weights."""
    for score, names in PARTS.items():
        own = sorted(_having(scored, score))
        if len(own) < 2:
            continue
        parts = _estimates(scored, own, names)
        now = tuple(np.argsort(-np.round(parts @ _weights(formula, names), 12), kind="stable").tolist())
        for found in rankings(parts)[:MOST]:
            yield {"score": score, "ranking": " > ".join(own[k] for k in found.order), "share": found.share,
                   "at_these_weights": found.order == now}  # fmt: skip


def swaps(scored: Mapping[str, Scored], formula: Formula = FTOM_1) -> Iterator[Record]:
    """The table `swaps`: for each pair of models how often, over all weights, the one that is ahead is ahead."""
    for score, names in PARTS.items():
        own = sorted(_having(scored, score), key=lambda model: (-_estimate(scored[model], score), model))
        if len(own) < 2:
            continue
        parts, weights = _estimates(scored, own, names), _weights(formula, names)
        for first in range(len(own)):
            for second in range(first + 1, len(own)):
                found = swap(parts, first, second, weights.tolist())
                a, b = own[first], own[second]
                gap = scored[a].draws[score] - scored[b].draws[score]
                low, high = np.quantile(gap, (0.025, 0.975))
                near = found.nearest or (None,) * len(names)
                yield {
                    **{"score": score, "ahead": a, "behind": b, "difference": _estimate(scored[a], score)
                       - _estimate(scored[b], score), "low": float(low), "high": float(high)},
                    **{"p_ahead": float((gap > 0).mean() + (gap == 0).mean() / 2), "share_of_weights": found.share},
                    **{f"equal_at_{name}": value for name, value in zip(names, near, strict=True)},
                    "distance": _known(found.distance),
                }  # fmt: skip


def _estimates(scored: Mapping[str, Scored], models: Sequence[str], names: Sequence[str]) -> Floats:
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
