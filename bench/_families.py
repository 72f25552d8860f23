"""Ten classes tested at once: false discoveries, power, and whether the minimum detectable effect has its power."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
from _answers import BELIEF, CLASSES, SPREADS, SUBSETS, Design, Study, cell, draw, truth
from _tally import Key, Tally

from tomserve.stats import clustered, paired, power
from tomserve.stats.clusters import ArmSums
from tomserve.stats.effects import Effect
from tomserve.studies.contrasts import NOT_SHOWN, UNDECIDED, Record

Flags = npt.NDArray[np.bool_]
FAMILY = CLASSES - 1


def discoveries(tally: Tally, study: Study, records: list[Record], at: tuple[str, str]) -> None:
    """Note false discoveries and power of a family of tests, from the records of all ten classes.

    at: where in the design, and the cell. Power is noted for classes in all stages and for those in fewer.
    """
    where, here = at
    affected: Flags = np.array(study.design.effects) != 0
    everywhere: Flags = np.asarray(study.there.all(axis=0))[1:]
    flip_p = np.array([record["p_sign_flip"] for record in records], dtype=float)
    steps = float((1 / np.arange(1, 1 + np.isfinite(flip_p).sum())).sum())  # as Benjamini and Yekutieli
    flips = [value * steps for value in paired.adjust(flip_p.tolist())]
    methods = {
        "t + BH": ([record["p_adjusted"] for record in records], True),
        "moderated t + BH": ([record["p_moderated_adjusted"] for record in records], True),
        "sign flips + BY": (flips, False),
    }
    for name, some in (("-.3 or +.3", affected), ("no effect", ~affected)):
        for word in (UNDECIDED, NOT_SHOWN):
            said = [str(record["verdict"]).startswith(word) for record, one in zip(records, some, strict=True) if one]
            if said:
                verdict = Key("ten classes at once", "share", f"verdict '{word}', {name}", where)
                tally.note(verdict, here, float(np.mean(said)))
    for method, (values, recommended) in methods.items():
        found: Flags = np.array(values, dtype=float) <= 0.05
        wrong = int((found & ~affected).sum()) / max(1, int(found.sum()))
        tally.note(Key("ten classes at once", "level", f"false discoveries, {method}", where, recommended), here, wrong)
        for name, some in (("in all stages", everywhere), ("in fewer stages", ~everywhere)):
            if (affected & some).any():
                power = Key("ten classes at once", "share", f"power, {method}, {name}", where, recommended)
                tally.note(power, here, float(found[affected & some].mean()))


@dataclass(frozen=True)
class Planned:
    """A design, the questions it is about, and how many classes are tested together."""

    design: Design
    belief: bool
    family: int


PLANNED = [
    Planned(Design(m, base, spread, complete=True), belief, family)
    for m in (7, 14, 21)
    for base in (0.5, 0.85)
    for spread in SPREADS
    for belief, _ in SUBSETS
    for family in (1, FAMILY)
]


def planning_power(tally: Tally, rng: np.random.Generator, given: Planned, index: int) -> None:
    """The power at the minimum detectable effect, where one class alone is affected."""
    effect = detectable(given)
    subset = "false-belief" if given.belief else "all"
    where = f"{given.design.stages} stages, {subset}, {'ten classes' if given.family > 1 else 'one test'}"
    at = cell(given.design)
    key = partial(Key, "planning", where=where)
    tally.note(key("share", "there is such an effect"), at, not math.isnan(effect))
    if math.isnan(effect):
        return
    study = draw(_with(given.design, effect), rng)
    found = [_effect(study, name, given.belief).p for name in range(1, given.family + 1)]
    adjusted = paired.adjust(found)
    tally.note(key("planned power", "power at the minimum detectable effect"), at, adjusted[0] <= 0.05)


def _with(design: Design, effect: float) -> Design:
    """The first class is affected, downwards."""
    return replace(design, effects=(-effect, *[0.0] * (FAMILY - 1)))


def _effect(study: Study, name: int, belief: bool) -> Effect:
    chosen = ((study.name == name) | (study.name == 0)) & ((study.item < BELIEF.stop) | (not belief))
    arm, stage = study.name[chosen] == name, study.stage[chosen]
    return clustered.cells_effect(ArmSums.of(study.right[0][chosen], arm, stage * 2 + arm, stage).cells())


@lru_cache(maxsize=256)
def detectable(given: Planned) -> float:
    """The effect on the first class that is its own minimum detectable effect, with the SD that stages then have.

    The SD at each effect is simulated; nan where every effect that the base allows is too small.
    """
    rng, last = np.random.default_rng([given.design.stages, int(100 * given.design.base), given.belief]), 0.0
    for effect in np.arange(0.02, given.design.base, 0.02):
        design = _with(given.design, float(effect))
        true = truth(design).rate(given.belief, 0) - truth(design).rate(given.belief, 1)
        sds = [_sd(draw(design, rng), given.belief) for _ in range(60)]
        sd = float(np.sqrt(np.mean(np.square(sds))))
        if power.minimum_detectable_effect(given.design.stages, sd, family=given.family) <= true:
            return float(effect + last) / 2 if last else float(effect)
        last = float(effect)
    return math.nan


def _sd(study: Study, belief: bool) -> float:
    items = study.right[0].reshape(study.design.stages, CLASSES, -1)[:, :2, BELIEF if belief else slice(None)]
    means = items.mean(axis=-1)
    return float((means[:, 1] - means[:, 0]).std(ddof=1))
