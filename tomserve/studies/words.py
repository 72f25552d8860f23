"""Puts numbers into sentences: shares as percentages, differences in percentage points, with their intervals.

>>> points({"risk_difference": -0.05, "rd_low": -0.12, "rd_high": 0.02})
'−5 [−12, +2] points'
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tomserve.studies.showing import Row

ABOUT_EFFECT = (
    "risk_difference is share_treated minus share_control, the shares right of both sides; each is a mean over the "
    "clusters (stories, tasks) of the questions that both were asked, so that it may differ from an accuracy, which "
    "counts questions. Its 95% interval is a t interval (the mean of the clusters' differences, give or take their "
    "spread), and relative_risk is the ratio of the same two shares with an interval over the same clusters."
)
ABOUT_TESTS = (
    "p is that of the t test which the interval belongs to: it is at most .05 exactly where the interval does not "
    "hold zero. p_sign_flip makes no assumption about distributions: it is the share of all ways of flipping the "
    "signs of the differences that give an effect at least as large, and cannot fall below p_smallest. "
    "minimum_detectable_effect is the smallest true difference that so many clusters with such a spread (sd) would "
    "find in four of five studies."
)
ABOUT_WORST = (
    "worst_low and worst_high are the effect if the failures had all been to its disadvantage, or all to its "
    "advantage: what missing answers could hide, and no confidence interval. p_failure tests whether both sides "
    "failed (gave no readable answer) equally often; where it is small, part of the effect may be who failed."
)
"""What the columns of an effect mean, for the notes of studies."""

POPULATIONS = {
    "new stages": "stages that have not been written yet (a stage is a setting with its people, things and stories)",
    "these stages": "further stories of the very stages that were asked, and of no others",
    "new tasks": "further tasks or stories like those that were asked",
    "new stories": "further stories like those that were asked",
}
"""In words whom an interval speaks for, by the value of the column `target`."""


def populations(target: object) -> str:
    """Whom an interval speaks for, in words that need no further explanation; an unknown target stays as it is."""
    return POPULATIONS.get(str(target), readable(target))


def finite(value: object) -> float | None:
    """The value as a number, or None where it is missing, infinite or not a number."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def readable(value: object) -> str:
    """A name of the data as a reader says it, at most 34 characters long: transparent_container becomes transparent
    container."""
    return plain(value).replace("_", " ")


def plain(text: object, limit: int = 34) -> str:
    """The text on one line without control characters, cut to `limit` characters, the last of which is then an
    ellipsis."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def percent(value: object) -> str:
    """A share from 0 to 1 as a reader says it: 43%, or 99.8% where rounding would hide the rest."""
    number = finite(value)
    if number is None:
        return "undefined"
    if round(number, 9) in (0, 1):  # a mean of ones may miss one by its last digit
        number = round(number)
    return f"{100 * number:.1f}%" if 0 < number < 0.01 or 0.99 < number < 1 else f"{100 * number:.0f}%"


def number(value: float) -> str:
    """A number with two decimals and a real minus sign."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def cell(value: float | None) -> str:
    """A share, or a difference of shares, as a cell of a narrow table has it: two decimals without the zero before
    them, no sign where it rounds to zero, and a question mark where it is undefined.

    >>> cell(0.5), cell(-0.25), cell(-0.004), cell(1.0), cell(None)
    ('.50', '-.25', '.00', '1.00', '?')
    """
    if value is None or not math.isfinite(value):
        return "?"
    return f"{round(value, 2) + 0.0:.2f}".replace("0.", ".", 1)


def p_value(value: float) -> str:
    """A p in words, with three decimals: p = 0.017, or p < 0.001, since no test gives a p of zero.

    A p above .05 is never shown as .05 nor one below it, so that what is said beside it cannot seem to contradict it.

    >>> p_value(0.0172), p_value(1e-9), p_value(0.0504), p_value(0.0496)
    ('p = 0.017', 'p < 0.001', 'p = 0.0504', 'p = 0.0496')
    """
    if value < 0.0005:
        return "p < 0.001"
    return f"p = {value:.4f}" if f"{value:.3f}" == "0.050" and value != 0.05 else f"p = {value:.3f}"


def interval(row: Row) -> str:
    """The 95% interval of a share (ci_low and ci_high of the row), to follow the share in a sentence; empty without
    one."""
    low, high = finite(row.get("ci_low")), finite(row.get("ci_high"))
    return "" if low is None or high is None else f", 95% interval {percent(low)} to {percent(high)}"


def points(row: Row) -> str:
    """The difference of shares in a row (risk_difference, with its interval rd_low to rd_high) in percentage points.

    The two shares follow where the row has them (share_treated, share_control), and, where the noise floor was
    measured, how far the server's batching alone could move the difference.
    """
    value, low, high = (finite(row.get(name)) for name in ("risk_difference", "rd_low", "rd_high"))
    if value is None:
        return "undefined"
    bounds = "" if low is None or high is None else f" [{signed(low)}, {signed(high)}]"
    return f"{signed(value)}{bounds} points{_shares(row)}{_noise(row, value)}"


def _shares(row: Row) -> str:
    treated, control = finite(row.get("share_treated")), finite(row.get("share_control"))
    return "" if treated is None or control is None else f" ({percent(treated)} against {percent(control)})"


def worst(row: Row) -> str:
    """What failures leave possible of a difference (worst_low to worst_high of the row), as a clause."""
    low, high = finite(row.get("worst_low")), finite(row.get("worst_high"))
    if low is None or high is None:
        return "what its failures hide is unknown"
    return f"had they all been answered, it could lie anywhere from {signed(low)} to {signed(high)}"


def _noise(row: Row, effect: float) -> str:
    high = finite(row.get("noise_high"))
    if high is None:
        return ""
    compared = "; no larger than" if abs(effect) <= high else "; more than"
    return f"{compared} what batching alone could move, {_unsigned(high)} points"


def _unsigned(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


def signed(share: object) -> str:
    """A difference of shares in percentage points with its sign: −29, or "undefined" where there is none."""
    value = finite(share)
    if value is None:
        return "undefined"
    return f"{100 * value + 0.0:+.0f}".replace("-", "−").replace("+0", "0").replace("−0", "0")


def sign(row: Row) -> int:
    """1 where a difference is clearly above zero, -1 where it is clearly below, else 0.

    It is clear where its interval does not hold zero and, where the noise floor was measured, it is larger than what
    the server's batching alone could move (noise_high).
    """
    low, high = finite(row.get("rd_low")), finite(row.get("rd_high"))
    effect, noise = finite(row.get("risk_difference")), finite(row.get("noise_high"))
    if noise is not None and effect is not None and abs(effect) <= noise:
        return 0
    return 0 if low is None or high is None else 1 if low > 0 else -1 if high < 0 else 0


def who(strategy: object, part: object, parts: Mapping[str, str]) -> str:
    """Whom a sentence is about: the strategy, and the part of the questions where one is given.

    parts: what readers call a part of the questions, by its name in the tables.
    """
    return ", ".join(filter(None, (readable(strategy), parts.get(str(part), readable(part)))))
