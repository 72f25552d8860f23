"""Effects of several classes that are tested at once: adjusted and moderated tests, and a verdict for each class.

Ten tests at .05 find something in four of ten studies in which there is nothing. `adjusted` therefore corrects p over
the family of classes (Benjamini and Hochberg, J R Stat Soc B 57:289, 1995: of the effects that are called clear at .05
at most 5% are expected to be false), sets beside it the moderated t test, which borrows strength from the other classes
(Smyth, Stat Appl Genet Mol Biol 3:3, 2004), and says in words what the study shows of a class, or that it has too few
units to show anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tomserve.stats import paired
from tomserve.stats.failures import Failures, family_p
from tomserve.stats.paired import moderate_tests
from tomserve.stats.power import minimum_detectable_effect, units_needed
from tomserve.studies.words import finite

Record = dict[str, Any]
LEVEL = 0.05
"""An adjusted p up to this is clear."""

WORTH = 0.2
"""The difference of shares that a study of classes is asked to find: twenty percentage points. Where a difference that
large would be missed in more than one of five studies, an effect that is not clear is called undecided, rather than not
shown."""

LEAST = 4
"""With fewer units nothing is called clear. A test then rests on a spread of one or two degrees of freedom, and the
simulations of bench/coverage.py begin with four."""

LOWER, HIGHER = "lower", "higher"
NOT_SHOWN, UNDECIDED = "not shown", "cannot be decided"
UNLESS_FAILURES, UNLESS_NOISE = ", unless failures explain it", ", as batching alone could move it so far"
"""The words of a verdict, which follow each other in this order."""


def adjusted(
    records: list[Record],
    family: Iterable[str],
    name: str = "perturbation",
    words: tuple[str, str] = (LOWER, HIGHER),
    unit: str = "stage",
) -> list[Record]:
    """The records of effects, those of the family with what testing them together adds.

    records: as contrasts.matched and contrasts.contrast make them. family: the values of column `name` that are tested
    together. words: what a clear effect below and above zero is called. unit: what a unit is called.

    p_adjusted: p, adjusted over the family; p_moderated, p_moderated_adjusted: the moderated t test, and the same
    adjusted. minimum_detectable_effect and units_needed are made anew, with the SD of the units pooled over the family
    and the level divided by its size, as for one affected class alone. verdict: see `verdict`. Outside the family the
    tests are nan and the verdict is None.
    """
    members = set(family)
    inside = [record for record in records if record[name] in members]
    for record in records:
        record |= dict.fromkeys(("p_adjusted", "p_moderated", "p_moderated_adjusted"), math.nan) | {"verdict": None}
    if not inside:
        return records
    means, sds, units = ([record[key] for record in inside] for key in ("risk_difference", "sd", "units"))
    found = moderate_tests(means, sds, units)
    sd, tested = pooled_sd(inside), sum(not math.isnan(record["p"]) for record in inside)
    plain = paired.adjust([record["p"] for record in inside])
    shared = paired.adjust(p_moderated := [float(p) for p in found.p])
    for record, p in zip(inside, _failure_p(inside), strict=True):
        record["p_failure"] = p
    for record, *tests in zip(inside, plain, p_moderated, shared, strict=True):
        record |= dict(zip(("p_adjusted", "p_moderated", "p_moderated_adjusted"), tests, strict=True))
        record["minimum_detectable_effect"] = minimum_detectable_effect(record["units"], sd, family=max(1, tested))
        record["units_needed"] = units_needed(WORTH, sd, family=max(1, tested))
        record["verdict"] = verdict(record, words, unit)
    return records


def _failure_p(records: Sequence[Record]) -> list[float]:
    """p_failure of classes that share their control tasks, whose failures are known by stage (`contrasts.matched`),
    with the variances of all classes shared; of other effects, their own."""
    if not all("failure_sd" in record for record in records):
        return [record["p_failure"] for record in records]
    keys = ("failed_treated", "failed_control", "p_failure", "units", "failure_mean", "failure_sd")
    return family_p([Failures(*(record[key] for key in keys)) for record in records])


def pooled_sd(records: Sequence[Record]) -> float:
    """The standard deviation of the units' differences, pooled over the effects: the root of the mean variance,
    weighted by degrees of freedom; nan where no effect has two units, or where none of them varies, which does not show
    that none would."""
    known = [(record["units"] - 1, record["sd"] ** 2) for record in records if not math.isnan(record["sd"])]
    freedom = sum(df for df, _ in known)
    pooled = math.sqrt(sum(df * variance for df, variance in known) / freedom) if freedom else math.nan
    return pooled or math.nan


def verdict(record: Record, words: tuple[str, str] = (LOWER, HIGHER), unit: str = "stage") -> str | None:
    """What the study shows of one class, in words.

    A clear effect (p_adjusted at most LEVEL, and larger than noise_high where the noise was measured) is one of
    `words`, with a reservation where failures could explain its sign. Another is "not shown" where the study was large
    enough to find an effect of WORTH, with 80% power (or, where no unit differs from another, where the interval holds
    none so large); else it cannot be decided, with the number of units that would
    be enough, which are LEAST at least. None where the effect is undefined.
    """
    effect = finite(record["risk_difference"])
    if effect is None:
        return None
    least, needed, units = (record[name] for name in ("minimum_detectable_effect", "units_needed", "units"))
    undecided = f"{UNDECIDED} with {units} {unit}{'s' * (units != 1)}"
    if units < LEAST:
        return f"{undecided} (needs {max(needed or 0, LEAST)})"
    p, noise = finite(record["p_adjusted"]), finite(record.get("noise_high"))
    if p is not None and p <= LEVEL and effect != 0:
        if noise is not None and abs(effect) <= noise:
            return NOT_SHOWN + UNLESS_NOISE
        return words[effect > 0] + (UNLESS_FAILURES if failures_may_explain(record) else "")
    if least <= WORTH if not math.isnan(least) else _within_worth(record):
        return NOT_SHOWN
    return undecided if needed is None or needed <= units else f"{undecided} (needs {needed})"


def _within_worth(record: Record) -> bool:
    """Whether the interval excludes all effects of WORTH and more, which decides where no spread is known."""
    low, high = finite(record["rd_low"]), finite(record["rd_high"])
    return low is not None and high is not None and low > -WORTH and high < WORTH


def failures_may_explain(record: Record) -> bool:
    """Whether failures could explain the sign of an effect: they differ between its sides (p_failure at most LEVEL), or
    its worst bounds hold zero although its interval does not."""
    p, *bounds = (finite(record.get(name)) for name in ("p_failure", "rd_low", "rd_high", "worst_low", "worst_high"))
    if p is not None and p <= LEVEL:
        return True
    low, high, worst_low, worst_high = (math.nan if bound is None else bound for bound in bounds)
    return (low > 0 or high < 0) and worst_low <= 0 <= worst_high
