"""Whether the difference of two runs is smaller than a margin that somebody names, and how their grades differ where
these are more than right or wrong.

>>> check_margin(0.02)
>>> check_margin(2)
Traceback (most recent call last):
tomserve.errors.ConfigError: --margin 2: expected a share above 0 and below 1, such as 0.02 for two points
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import polars as pl

from tomserve.errors import ConfigError
from tomserve.stats import clustered as of_pairs
from tomserve.stats.equivalence import VERDICTS, compare_margin, units_for_margin
from tomserve.stats.proportions import Interval
from tomserve.studies import summed
from tomserve.studies.valued import GRADES, SAMPLES, Valued
from tomserve.studies.words import finite

TABLE = "margins"
"""Name of the table."""

RIGHT = "right"
"""What is compared, in the column `of`: right answers. Else it is valued.GRADES or valued.SAMPLES."""

ABOUT = (
    "Whether B is as good as A, up to the margin, a difference that does not matter. not inferior: the 95% interval "
    "of B minus A lies above -margin (a one-sided test at 2.5%). equivalent: the 90% interval lies between -margin "
    "and margin (two one-sided tests at 5% each, TOST); so equivalence may be shown where non-inferiority, at its "
    "stricter level, is not. p_not_inferior and p_equivalent belong to these tests. A difference that is not "
    "significant shows neither. The intervals are over units (clusters, or stages where the questions name them); of "
    "right answers they are t intervals or, where that is wider, Tango's score interval for the number of independent "
    "pairs with the same error, so that they may be wider than those of the effects. needed_not_inferior and "
    "needed_equivalent: about how many units like these would show it in 4 of 5 studies if there were no difference. "
    "worst_low and worst_high: the least and greatest difference that failures leave possible. Each strategy is tested "
    "alone. Name the margin before you look."
)
"""What a reader must know of it."""


def check_margin(margin: float | None) -> None:
    """Raise ConfigError for a margin that is no share."""
    if margin is not None and not 0 < margin < 1:
        raise ConfigError(f"--margin {margin:g}: expected a share above 0 and below 1, such as 0.02 for two points")


def margins(pairs: pl.DataFrame, margin: float, valued: Sequence[Valued] = ()) -> pl.DataFrame:
    """What tests against the margin show: a row for the right answers of each strategy, and one for their grades where
    these lie between 0 and 1.

    pairs: what contrasts.pair makes, with `strategy` and, where all questions have one, `stage`. valued: the grades
    that are compared (see tomserve.studies.valued).
    """
    rows = [
        {"strategy": strategy, "of": RIGHT, **_of_right(part, margin)}
        for (strategy,), part in pairs.group_by(["strategy"], maintain_order=True)
    ]
    for one in valued:
        if one.bounded:
            found = _row(one.intervals(), margin, one.differences, None)
            sides = {"share_a": one.means[0], "share_b": one.means[1], "unit": one.unit}
            worst = dict(zip(("worst_low", "worst_high"), one.worst(), strict=True))
            rows.append({"strategy": one.strategy, "of": one.kind, **found, **sides, **worst})
    columns = ["strategy", "of", "margin", "share_a", "share_b"]
    table = pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)
    return table.select(*columns, pl.exclude(columns))


def _of_right(part: pl.DataFrame, margin: float) -> dict[str, Any]:
    """The tests of the shares of right answers of one strategy."""
    staged = "stage" if part["stage"].null_count() == 0 else None
    sums = summed.of_pairs(part, [staged] if staged else [])
    units = summed.pair_sums(sums, staged)
    kept = replace(units, treated=sums["kept"].to_numpy(), control=sums["control_kept"].to_numpy())
    worst = of_pairs.bounds(kept, sums["failed"].to_numpy(), sums["control_failed"].to_numpy())
    sides = [units.by_unit(one) for one in (units.control, units.treated)]
    interval = of_pairs.margin_intervals(units, strata=staged is not None)
    return {
        **_row(interval, margin, sides[1] - sides[0], float(units.by_unit(units.changed).mean())),
        "share_a": float(sides[0].mean()),
        "share_b": float(sides[1].mean()),
        "unit": "stages" if staged else unit_of(units.units, part.height),
        "worst_low": worst[0],
        "worst_high": worst[1],
    }


def unit_of(clusters: int, questions: int) -> str:
    """What is counted as independent: questions where each is a cluster of its own."""
    return "questions" if clusters == questions else "clusters"


def _row(
    interval: Callable[[float], Interval],
    margin: float,
    differences: np.ndarray[Any, np.dtype[np.float64]],
    changed: float | None,
) -> dict[str, Any]:
    """The columns that belong to any test. differences: those of the units. changed: as for `units_for_margin`."""
    found = asdict(compare_margin(interval, margin))
    sd = float(differences.std(ddof=1)) if differences.size > 1 else math.nan
    one, both = units_for_margin(
        margin, sd or math.nan, changed
    )  # units that happen to agree do not show that all would
    return {
        **{"margin": margin, "difference": float(differences.mean()), **found},
        **{"units": differences.size, "needed_not_inferior": one, "needed_equivalent": both},
        "method": interval(0.95).method,
    }


_SAID = {
    "equivalent": "B is equivalent to A",
    "better": "B is better than A",
    "not inferior": "B is not inferior to A",
    "inferior": "B is inferior to A",
    "undecided": "it is shown neither that B is worse by as much, nor that it is not",
}
_OF = {RIGHT: "", GRADES: " in its grades", SAMPLES: " in the mean of its samples"}
_BETTER = "B's mean is clearly higher"


def told(table: pl.DataFrame) -> Iterator[str]:
    """A sentence for each row: what was shown, and what not."""
    for row in table.iter_rows(named=True):
        yield f"{row['strategy']}: {_sentence(row)}" if row["strategy"] else _sentence(row)


def _sentence(row: Mapping[str, Any]) -> str:
    verdict, margin = row["verdict"], row["margin"]
    level, ends = (90, ("low_90", "high_90")) if verdict == "equivalent" else (95, ("low", "high"))
    values = [row[name] for name in ("difference", *ends)]
    of = _OF[row["of"]]
    means = "" if verdict == "undecided" else f" ({_BETTER if of and verdict == 'better' else VERDICTS[verdict]})"
    interval = "has no interval"
    if all(finite(value) is not None for value in values):
        difference, low, high = _points(values, margin)
        interval = f"is {difference} points, {level}% interval {low} to {high}"
    more = "".join(clause(row) for clause in (_clear, _few, _failures, _trivial))
    return f"with a margin of {100 * margin:g} points, {_SAID[verdict]}{of}{means}: B minus A {interval}{more}."


def _points(values: Sequence[float], margin: float) -> list[str]:
    """Differences in percentage points, with as many decimals as tell each from the margin, at least one."""
    for decimals in range(1, 5):
        shown = [f"{100 * value:+.{decimals}f}" for value in values]
        bound = f"{100 * margin:.{decimals}f}"
        if not any(one[1:] == bound and abs(value) != margin for one, value in zip(shown, values, strict=True)):
            break
    return [f"{0:.{decimals}f}" if not one.strip("+-0.") else one.replace("-", "−") for one in shown]


def _clear(row: Mapping[str, Any]) -> str:
    """That there clearly is a difference, where the verdict does not say so."""
    low, high = finite(row["low"]), finite(row["high"])
    if low is None or high is None or not (low > 0 or high < 0):
        return ""
    if row["verdict"] == "equivalent":
        return "; there clearly is a difference, but a smaller one"
    return "; B clearly is worse, but not clearly by so much" if row["verdict"] == "undecided" else ""


def _few(row: Mapping[str, Any]) -> str:
    """How many units would be needed, where too few are why nothing is shown."""
    wanted = row["needed_not_inferior"]
    if row["verdict"] != "undecided" or wanted is None or wanted <= row["units"]:
        return ""
    return (
        f"; if there were no difference, about {wanted:,} {row['unit']} like these {row['units']:,} would show "
        "non-inferiority in 4 of 5 studies"
    )


def _failures(row: Mapping[str, Any]) -> str:
    """That failures could turn the verdict."""
    worst = finite(row["worst_low"]), finite(row["worst_high"])
    if worst[0] is None or worst[1] is None or row["verdict"] in ("undecided", "inferior"):
        return ""
    if worst[0] > -row["margin"] and (row["verdict"] != "equivalent" or worst[1] < row["margin"]):
        return ""
    low, high = _points((worst[0], worst[1]), row["margin"])
    return f"; the failures are counted as wrong, and leave anything from {low} to {high} possible"


def _trivial(row: Mapping[str, Any]) -> str:
    """That the margin is no test."""
    if row["share_a"] is None or row["share_a"] > row["margin"]:
        return ""
    return f"; but the margin is no test here: A has only {100 * row['share_a']:.1f} points, which B cannot fall below"


def shown(table: pl.DataFrame) -> pl.DataFrame:
    """The columns that the terminal shows."""
    strategy = ["strategy"] if table["strategy"].str.len_chars().max() else []
    of = ["of"] if table["of"].n_unique() > 1 else []
    ends = ("low_90", "high_90", "p_not_inferior", "p_equivalent", "verdict")
    return table.select(*strategy, *of, *ends)
