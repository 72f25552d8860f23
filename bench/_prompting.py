"""Simulated effects of prompting: two strategies on the same items, also where they hardly ever differ."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl
from _answers import BELIEF, CLASSES, ITEMS, MIXED, SPREADS, SUBSETS, Design, Study, cell, draw
from _tally import Key, Tally, agrees

from tomserve.stats import paper_formulas, proportions
from tomserve.studies.contrasts import THESE, Record, adjust_family, contrast, pair_rows

DESIGNS = [Design(m, base, spread) for m in (4, 7, 14, 21) for base in (0.2, 0.5, 0.9, 0.99) for spread in SPREADS]
GAINS = (0.0, 0.1, -0.2)
"""What the second strategy adds to the probability of a right answer, in one replication after another."""
RARE = (0.0, 0.002, 0.005, 0.01, 0.02)
"""How often two strategies differ on an item, where they hardly ever do."""


def _pairs(study: Study, belief: bool) -> pl.DataFrame:
    keep = pl.col("belief") if belief else pl.lit(True)
    return pair_rows(study.frame(1).filter(keep), study.frame(0).filter(keep))


def _interval(found: Record) -> tuple[float, float]:
    return found["rd_low"], found["rd_high"]


def prompting(tally: Tally, rng: np.random.Generator, design: Design, index: int) -> None:
    """The effect of a strategy by class, over all classes for new stages, and over all for these stages."""
    gain = GAINS[index % len(GAINS)] * (-1 if design.base < 0.4 else 1)
    sign = -1 if design.base < 0.4 else 1
    study = draw(replace(design, effects=tuple(sign * e for e in MIXED), gain=gain), rng)
    at, rates = cell(design), study.truth.rates
    counts = study.there
    for belief, subset in SUBSETS:
        key = partial(_key, where=f"{design.stages} stages, {subset}")
        items = BELIEF if belief else slice(0, ITEMS)
        differences = (rates[1] - rates[0])[:, items].mean(axis=-1)
        pairs, records = _pairs(study, belief), []
        for (name,), part in pairs.partition_by("class", as_dict=True, maintain_order=True).items():
            found, true = contrast(part, "stage"), float(differences[int(name)])
            records.append({"class": str(name), **found})
            tally.interval(key("by class", "coverage", "difference, t over stages"), at, _interval(found), true)
            if abs(true) < 1e-9:
                tally.test(key("by class", "level", "t over stages"), at, found["p"])
                tally.test(key("by class", "level", "sign flips over stages"), at, found["p_sign_flip"])
                mcnemar = key("by class", "level", "McNemar exact, items", recommended=False)
                tally.test(mcnemar, at, found["mcnemar_exact"])
            else:
                tally.test(key("by class", "share", "power, t over stages"), at, found["p"])
        if not gain:  # then no class has an effect, and every discovery is false
            tested = adjust_family(records, [record["class"] for record in records], "class")
            for method, column in (("t + BH", "p_adjusted"), ("moderated t + BH", "p_moderated_adjusted")):
                wrong = any(record[column] <= 0.05 for record in tested)
                tally.note(key("by class", "level", f"any false discovery, {method}"), at, wrong)
        weights = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
        true = float(weights @ differences)
        _overall(tally, key, at, pairs, true)
        if index // 3 % 3 == 0:  # drawing sign flips of all tasks takes longer than all else
            local = (study.local[:, 1] - study.local[:, 0])[..., items].mean(axis=-1)
            _these(tally, key, at, pairs, float(local[counts].mean()))


def _key(what: str, kind: str, method: str, where: str, recommended: bool = True) -> Key:
    return Key(f"prompting, {what}", kind, method, where, recommended)


def _overall(tally: Tally, key: partial[Key], at: str, pairs: pl.DataFrame, true: float) -> None:
    found = contrast(pairs, "stage")
    tally.interval(key("all classes", "coverage", "difference, new stages"), at, _interval(found), true)
    if abs(true) < 1e-9:
        tally.test(key("all classes", "level", "t over stages"), at, found["p"])
        tally.test(key("all classes", "level", "sign flips over stages"), at, found["p_sign_flip"])
        tally.test(key("all classes", "level", "McNemar exact, items", recommended=False), at, found["mcnemar_exact"])
    agrees(tally, "prompting, all classes", found)
    n1, n0 = (int(pairs[name].sum()) for name in ("correct", "control"))
    _, low, high = paper_formulas.risk_difference(n1, pairs.height, n0, pairs.height)
    tally.interval(key("all classes", "coverage", "published", recommended=False), at, (low, high), true)


def _these(tally: Tally, key: partial[Key], at: str, pairs: pl.DataFrame, true: float) -> None:
    found = contrast(pairs, None, THESE)
    tally.interval(key("all classes", "coverage", "difference, these stages"), at, _interval(found), true)
    tango = proportions.tango(found["gained"], found["lost"], pairs.height)
    tally.interval(key("all classes", "coverage", "Tango, items", recommended=False), at, (tango.low, tango.high), true)


def rare(tally: Tally, rng: np.random.Generator, given: tuple[int, float, bool], index: int) -> None:
    """Two strategies that differ on few items or none: gains alone, or gains and losses alike.

    How often a task's answers differ varies from stage to stage and from task to task (gamma with shape 1 and 1).
    """
    stages, often, both = given
    shape = (stages, CLASSES, ITEMS)
    rates = np.minimum(0.5, often * rng.gamma(1, 1, (stages, 1)) * rng.gamma(1, 1, (stages, CLASSES)))
    differ = rng.random(shape) < rates[..., None]
    control = rng.random(shape) < 0.5 if both else np.zeros(shape, dtype=bool)
    treated = np.where(differ, ~control, control)
    stage, name, _ = (axis.ravel() for axis in np.indices(shape))
    true = 0.0 if both else often
    pairs = _frame(stage, name, treated.ravel(), control.ravel())
    how = "gains and losses" if both else "gains only"
    at = f"{often}"
    key = partial(_rare_key, where=f"{stages} stages, {how}")
    found = contrast(pairs, "stage")
    tally.interval(key("coverage", "all classes, new stages"), at, _interval(found), true)
    local = 0.0 if both else float(rates.mean())
    tally.interval(key("coverage", "all classes, these stages"), at, _interval(contrast(pairs, None, THESE)), local)
    first = pairs.filter(pl.col("class") == 0)
    one = contrast(first, "stage")
    tally.interval(key("coverage", "one class, new stages"), at, _interval(one), true)
    if both or not often:
        tally.test(key("level", "all classes, new stages"), at, found["p"])
        tally.test(key("level", "one class, new stages"), at, one["p"])
    for record in (found, one):
        agrees(tally, "prompting, rare differences", record)


def _rare_key(kind: str, method: str, where: str, recommended: bool = True) -> Key:
    return Key("prompting, rare differences", kind, method, where, recommended)


def _frame(
    stage: npt.NDArray[np.intp],
    name: npt.NDArray[np.intp],
    treated: npt.NDArray[np.bool_],
    control: npt.NDArray[np.bool_],
) -> pl.DataFrame:
    lost = np.zeros(stage.size, dtype=bool)
    columns = {"item": np.arange(stage.size), "cluster": stage * CLASSES + name, "stage": stage, "class": name}
    columns |= {"faulty": lost, "re_asked": lost, "changed": lost}
    return pair_rows(pl.DataFrame({**columns, "correct": treated}), pl.DataFrame({**columns, "correct": control}))


RARE_DESIGNS = [(m, often, both) for m in (4, 7, 14, 21) for often in RARE for both in (False, True) if often or both]
