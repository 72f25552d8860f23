"""Simulated tables of the perturbation study: accuracies, and effects of the classes and of all of them together."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars as pl
from _answers import (
    BELIEF,
    CLASSES,
    HALF,
    MIXED,
    NOTHING,
    SPREADS,
    SUBSETS,
    Design,
    Study,
    cell,
    draw,
    where,
)
from _families import discoveries
from _tally import Key, Tally, agrees

from tomserve.stats import paired, paper_formulas
from tomserve.studies.contrasts import NEW, THESE, Record, adjust_family, cluster_correlation, matched_contrast, share

BASES = (0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99)
STAGES = (4, 7, 14, 21)
PATTERNS = (NOTHING, HALF, MIXED)

DESIGNS = [Design(m, base, spread) for m in STAGES for base in BASES for spread in SPREADS]
"""The cells of most sections. What the classes do differs from one replication to the next: nothing, five of ten by
-.3, or each something else."""


def varied(design: Design, index: int) -> Design:
    """The design with the class effects of this replication; nothing is taken from a base that is too low for it."""
    pattern = PATTERNS[index % len(PATTERNS)]
    sign = -1 if design.base < 0.4 else 1
    return Design(design.stages, design.base, design.spread, tuple(sign * effect for effect in pattern))


def parts(study: Study, frame: pl.DataFrame) -> Iterator[tuple[bool, str, pl.DataFrame]]:
    """The rows of all questions and those of the false-belief subset."""
    for belief, subset in SUBSETS:
        yield belief, subset, frame.filter("belief") if belief else frame


def shares(tally: Tally, rng: np.random.Generator, design: Design, index: int) -> None:
    """Accuracy of each class, over new tasks; accuracy over all classes, for new stages."""
    study = draw(varied(design, index), rng)
    truth, at, frame = study.truth, cell(design), study.frame()
    icc = cluster_correlation(frame, "class")
    for belief, subset, rows in parts(study, frame):
        key = where(design, subset)
        for (name,), part in rows.partition_by("class", as_dict=True, maintain_order=True).items():
            true = truth.rate(belief, int(name))
            of_tasks, effective = share(part), share(part, icc=icc)
            tally.interval(_of("share of a class", "Wilson, n = tasks", key, belief), at, _bounds(of_tasks), true)
            tally.interval(
                _of("share of a class", "Wilson, effective n", key, not belief), at, _bounds(effective), true
            )
            known = paper_formulas.accuracy_interval(int(part["correct"].sum()), part.height)
            tally.interval(_of("share of a class", "published", key, False), at, known, true)
        weights = (study.there / study.there.sum(axis=1, keepdims=True)).mean(axis=0)
        true = float(weights @ [truth.rate(belief, name) for name in range(CLASSES)])
        tally.interval(
            _of("share, all classes", "t on logits, new stages", key), at, _bounds(share(rows, "stage")), true
        )
        means = rows.group_by("stage", maintain_order=True).agg(pl.col("correct").mean())["correct"].to_numpy()
        plain = paired.mean_interval(means)
        tally.interval(_of("share, all classes", "plain t, new stages", key, False), at, (plain.low, plain.high), true)


def _of(what: str, method: str, key: str, recommended: bool = True, kind: str = "coverage") -> Key:
    return Key(what, kind, method, key, recommended)


def _bounds(found: Record) -> tuple[float, float]:
    return found["ci_low"], found["ci_high"]


def _difference(found: Record) -> tuple[float, float]:
    return found["rd_low"], found["rd_high"]


def _ratio(found: Record) -> tuple[float, float]:
    """The bounds of the ratio; where it is undefined no ratio is excluded."""
    low, high = found["rr_low"], found["rr_high"]
    return (0.0 if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def effects(tally: Tally, rng: np.random.Generator, design: Design, index: int) -> None:
    """Each class against the unperturbed tasks of the same stages: difference, ratio, tests."""
    study = draw(varied(design, index), rng)
    truth, at, what = study.truth, cell(design), "effect of a class"
    for belief, subset, rows in parts(study, study.frame()):
        key = where(design, subset)
        base = truth.rate(belief, 0)
        records = []
        for name in range(1, CLASSES):
            part = rows.filter(pl.col("class").is_in([0, name]))
            found = matched_contrast(part, part["class"] == name, stratum="stage")
            records.append({"class": str(name), **found})
            rate = truth.rate(belief, name)
            tally.interval(_of(what, "difference, t over stages", key), at, _difference(found), rate - base)
            tally.interval(_of(what, "ratio", key), at, _ratio(found), rate / base)
            agrees(tally, what, found)
            if abs(rate - base) < 1e-9:
                tally.test(Key(what, "level", "t over stages", key), at, found["p"])
                tally.test(Key(what, "level", "sign flips", key), at, found["p_sign_flip"])
        pattern = PATTERNS[index % len(PATTERNS)]
        if pattern is not MIXED:
            kind = "no effects" if pattern is NOTHING else "five of ten at .3"
            tested = adjust_family(records, [record["class"] for record in records], "class")
            discoveries(tally, study, tested, (f"{design.stages} stages, {subset}, {kind}", at))


def pooled(tally: Tally, rng: np.random.Generator, design: Design, index: int) -> None:
    """All perturbed tasks against the unperturbed ones, for new stages and for these stages."""
    study = draw(varied(design, index), rng)
    truth, at, what = study.truth, cell(design), "effect of all classes"
    counts = study.there[:, 1:]
    for belief, subset, rows in parts(study, study.frame()):
        key = f"{design.stages} stages, {subset}"
        rates = np.array([truth.rate(belief, name) for name in range(CLASSES)])
        # the mean over stages of the mean over the classes that are there
        weights = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
        true = float(weights @ rates[1:] - rates[0])
        treated = rows["class"] > 0
        found = matched_contrast(rows, treated, stratum="stage", pool=NEW)
        agrees(tally, what, found)
        tally.interval(_of(what, "difference, new stages", key), at, _difference(found), true)
        if index // 3 % 3 == 0:  # a fit takes ten times as long as all else
            _these(tally, study, (key, at, belief), rows)
        plain = paired.mean_interval(_stage_differences(rows))
        tally.interval(_of(what, "difference, plain t", key, False), at, (plain.low, plain.high), true)
        tally.interval(_of(what, "ratio", key), at, _ratio(found), float(weights @ rates[1:] / rates[0]))
        if not any(study.design.effects):
            tally.test(Key(what, "level", "p of the interval", key), at, found["p"])
            if not design.spread.own:  # otherwise classes differ within a stage, and tasks are not exchangeable
                tally.test(Key(what, "level", "permutation", key), at, found["p_permutation"])


def _these(tally: Tally, study: Study, at: tuple[str, str, bool], rows: pl.DataFrame) -> None:
    """The effect for these stages: what is true is the mean of what is true in each of them, for new tasks."""
    key, here, belief = at
    counts = study.there[:, 1:]
    local = study.local[:, 0, :, BELIEF if belief else slice(None)].mean(axis=-1)
    true = float(np.mean((local[:, 1:] * counts).sum(axis=1) / counts.sum(axis=1) - local[:, 0]))
    found = matched_contrast(rows, rows["class"] > 0, stratum="stage", pool=THESE)
    tally.interval(_of("effect of all classes", "difference, these stages", key), here, _difference(found), true)


def _stage_differences(rows: pl.DataFrame) -> np.ndarray:
    arms = rows.group_by("stage", "class", maintain_order=True).agg(pl.col("correct").mean())
    means = arms.group_by("stage", pl.col("class") > 0, maintain_order=True).agg(pl.col("correct").mean())
    wide = means.pivot("class", index="stage", values="correct").sort("stage")
    return (wide["true"] - wide["false"]).to_numpy()
