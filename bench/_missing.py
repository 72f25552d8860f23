"""Simulated failures that are missing not at random, and answers that change by the server's batches alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl
from _answers import CLASSES, SPREADS, SUBSETS, Design, Study, cell, draw
from _tally import Key, Tally

from tomserve.studies.contrasts import (
    NEW,
    Record,
    adjust_family,
    contrast,
    failures_may_explain,
    matched_contrast,
    pair_rows,
)

Flags = npt.NDArray[np.bool_]
FAILING = {
    "all fail alike, 2%": (0.02, 0.02, 0.02),
    "all fail alike, 15%": (0.15, 0.15, 0.15),
    "2% against 15%": (0.02, 0.15, 0.15),
    "2%, one class 30%": (0.02, 0.30, 0.02),
}
"""Shares of failures: of the unperturbed stories, of the first class, of the other nine."""
FAILURE_DESIGNS = [(Design(m, 0.8, spread), kind) for m in (4, 7, 14) for spread in SPREADS for kind in FAILING]
NOISE_DESIGNS = [
    (Design(m, base, SPREADS[1]), often, re_asked)
    for m in (7, 14)
    for base in (0.5, 0.9)
    for often in (0.005, 0.02, 0.05)
    for re_asked in (1.0, 0.1)
]
"""Share of answers that change, and share of the questions that the noise check asks again."""


def failures(tally: Tally, rng: np.random.Generator, given: tuple[Design, str], index: int) -> None:
    """Whether the tests of differential failure keep their level and find what there is, and whether bounds hold."""
    design, kind = given
    control, first, rest = FAILING[kind]
    shares = np.array([control, first, *[rest] * (CLASSES - 2)])
    study = draw(design, rng)
    lost = study.lost(rng, shares)
    key, at = partial(_key, where=f"{design.stages} stages, {kind}"), cell(design)
    full, seen = study.frame(), study.frame(0, lost)
    records = [{"class": str(name), **_against(seen, name)} for name in range(1, CLASSES)]
    family = adjust_family(records, [record["class"] for record in records], "class")
    for name, found in zip(range(1, CLASSES), family, strict=True):
        same = shares[name] == control
        tally.test(key("level" if same else "share", "p_failure of a class"), at, found["p_failure"])
        exact = _against(full, name)["risk_difference"]
        tally.note(key("share", "worst bounds hold the contrast without failures"), at, _holds(found, exact))
        if not same and found["p"] <= 0.05:
            warned = failures_may_explain(found)
            tally.note(key("share", "warned, of clear effects that are none"), at, warned)
    _failed_pairs(tally, rng, study, (lost, shares, control), key)


def _holds(found: Record, exact: float) -> bool:
    return bool(found["worst_low"] - 1e-9 <= exact <= found["worst_high"] + 1e-9)


def _failed_pairs(
    tally: Tally,
    rng: np.random.Generator,
    study: Study,
    given: tuple[Flags, npt.NDArray[np.float64], float],
    key: partial[Key],
) -> None:
    """The same for two strategies: the second fails everywhere as the unperturbed stories do with the first."""
    lost, shares, control = given
    at = cell(study.design)
    other = study.lost(rng, np.full(CLASSES, control), strategy=1)
    pairs = pair_rows(study.frame(0, lost), study.frame(1, other))
    for (name,), part in pairs.partition_by("class", as_dict=True, maintain_order=True).items():
        same = shares[int(name)] == control
        found = contrast(part, "stage")
        tally.test(key("level" if same else "share", "p_failure of prompting, a class"), at, found["p_failure"])
    same = bool((shares == control).all())
    found = contrast(pairs, "stage")
    tally.test(key("level" if same else "share", "p_failure of prompting, all"), at, found["p_failure"])


def _key(kind: str, method: str, where: str, recommended: bool = True) -> Key:
    return Key("failures", kind, method, where, recommended)


def noise(tally: Tally, rng: np.random.Generator, given: tuple[Design, float, float], index: int) -> None:
    """Whether an effect moves by more than noise_high where the same questions are asked once more.

    How often answers change varies from task to task (gamma with shape 1). The noise check asks a share of the
    questions again; another run then asks all of them.
    """
    design, often, share = given
    study = draw(design, rng)
    task = study.stage * CLASSES + study.name
    chances = np.minimum(0.5, often * rng.gamma(1, 1, task.max() + 1))[task]
    re_asked = rng.random(task.size) < share
    frames, later = [], []
    for strategy in range(2):
        flips = [rng.random(task.size) < chances for _ in range(2)]
        frames.append(study.frame(strategy, again=(re_asked, re_asked & flips[0])))
        later.append(frames[-1].with_columns(correct=pl.col("correct") ^ pl.Series(flips[1])))
    how = "all re-asked" if share == 1 else f"{share:.0%} re-asked"
    at = f"{design.base} {often}"
    for belief, subset in SUBSETS:
        keep = pl.col("belief") if belief else pl.lit(True)
        key = partial(_noise_key, where=f"{design.stages} stages, {subset}, {how}")
        before, after = ([frame.filter(keep) for frame in pairs] for pairs in (frames, later))
        for name in range(1, CLASSES):
            found, moved = (_against(rows[0], name) for rows in (before, after))
            _moved(tally, key("effect of a class"), at, found, moved)
        found, moved = (matched_contrast(f[0], f[0]["class"] > 0, stratum="stage", pool=NEW) for f in (before, after))
        _moved(tally, key("effect of all classes"), at, found, moved)
        pairs = [pair_rows(frames_[1], frames_[0]) for frames_ in (before, after)]
        for name in range(CLASSES):
            found, moved = (contrast(rows.filter(pl.col("class") == name), "stage") for rows in pairs)
            _moved(tally, key("prompting, a class"), at, found, moved)
        found, moved = (contrast(rows, "stage") for rows in pairs)
        _moved(tally, key("prompting, all classes"), at, found, moved)


def _against(rows: pl.DataFrame, name: int) -> Record:
    """The record of a class against the unperturbed tasks."""
    two = rows.filter(pl.col("class").is_in([0, name]))
    return matched_contrast(two, two["class"] == name, stratum="stage")


def _moved(tally: Tally, key: Key, at: str, found: Record, moved: Record) -> None:
    """Note whether the effect has moved by more than noise_high; nothing where no answer was asked again."""
    if found["noise_high"] is not None:
        difference = abs(moved["risk_difference"] - found["risk_difference"])
        tally.note(key, at, difference > found["noise_high"] + 1e-9)


def _noise_key(method: str, where: str) -> Key:
    return Key("noise floor", "level", method, where)
