"""The verdict of the study of stability: whether a model's answers survive what should not matter.

A verdict never says more than its table: without a noise floor nothing is called lost, and where agreement is no more
than habit nothing is called kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Verdict
from tomserve.studies.showing import Row, Tables
from tomserve.studies.words import cell, finite, percent, readable, signed
from tomserve.variants import AGAIN

MARGIN = 0.1
"""A kind is survived where the interval excludes that so large a share of answers or more is lost beyond noise."""

KEPT, LOST, HABIT, UNDECIDED = "kept", "lost", "habit", "undecided"
_OUTCOMES = {LOST: "does not survive", HABIT: "may be a habit", UNDECIDED: "not shown", KEPT: "survives"}
"""The outcomes in the words of the report, in the order in which it names them."""


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model whether its answers survive the variants.

    tables: by name. context: what a guesser scores, which is not needed.
    """
    del context
    frame = tables.get("stability", pl.DataFrame())
    if "kappa" not in frame.columns:
        return []
    models = frame["model"].unique(maintain_order=True)
    return [_verdict(str(model), frame.filter(model=model)) for model in models]


def outcome(row: Row) -> str:
    """What a row of the table says of its kind: KEPT, LOST, HABIT (agreement may be no more than habits would give) or
    UNDECIDED.

    Where T0 was not asked, S is compared with 1, and nothing is called lost, since noise is not known."""
    measured = finite(row.get("minus_floor")) is not None
    low, high = (finite(row.get(name)) for name in (("minus_low", "minus_high") if measured else ("s_low", "s_high")))
    if low is None or high is None:
        return UNDECIDED
    if not measured:
        low, high = low - 1, high - 1
    if measured and high < 0 and low < -MARGIN:
        return LOST
    kappa = finite(row.get("kappa_low"))
    if kappa is None or kappa <= 0:
        return HABIT
    return KEPT if low >= -MARGIN else UNDECIDED


def _verdict(model: str, frame: pl.DataFrame) -> Verdict:
    lines: list[str] = []
    grounds: list[tuple[str, str]] = []
    found: dict[tuple[str, str], str] = {}
    several = frame["benchmark"].n_unique() > 1
    for (strategy, benchmark), part in frame.group_by(["strategy", "benchmark"], maintain_order=True):
        who = readable(strategy) + (f", {readable(benchmark)}" if several else "")
        rows = part.to_dicts()
        kinds = [row for row in rows if row["pairs"] and row["variant"] != AGAIN.name and not _is_mean(row)]
        for row in kinds:
            found[who, _name(row)] = outcome(row)
        grounds += _grounds(who, kinds)
        again = [row for row in rows if row["variant"] == AGAIN.name]
        means = [row for row in rows if _is_mean(row)]
        lines.append(f"{who}: {_lead(again, means or kinds)}")
    verdict, tone = _whole(found)
    remark = (
        "Of each kind stand here S, the share of variants that got the same answer as their original, and S minus that "
        "of T0, the same prompt once more, with its interval: what the change does beyond the noise of the server. "
        "A kind of variant is survived if the "
        f"95% interval of S minus T0 lies above −{100 * MARGIN:.0f} points and that of kappa above 0 (kappa: the "
        "agreement beyond what the habit of naming certain places gives by itself); it is not survived if the interval "
        f"of S minus T0 lies below 0 and reaches beyond −{100 * MARGIN:.0f} points. {100 * MARGIN:.0f} points are a "
        "convention. An answer that survives may still be wrong."
    )
    card = Card("Does the answer survive what should not matter?", verdict, tone, tuple(grounds), remark)
    return Verdict(model, tuple(lines), (card,))


def _is_mean(row: Row) -> bool:
    return str(row["variant"]).startswith("mean")


def _name(row: Row) -> str:
    return readable(" ".join(filter(None, (str(row["short"] or ""), str(row["variant"])))))


def _lead(again: Sequence[Row], rows: Sequence[Row]) -> str:
    """S of the means (of the kinds where there are none), and of T0."""
    said = ", ".join(f"{row['variant']} {percent(row['s'])}" for row in rows) or "no variant was answered"
    if again:
        return f"answers that stayed the same: {said}; the same prompt again {percent(again[0]['s'])}"
    return f"answers that stayed the same: {said}; the same prompt was not asked again"


def _grounds(who: str, kinds: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """For each outcome the kinds that have it, with what it rests on."""
    for what, words in _OUTCOMES.items():
        told = [f"{_name(row)} {_said(row)}" for row in kinds if outcome(row) == what]
        if told:
            yield f"{who}, {words}", f"{'; '.join(told)}."


def _said(row: Row) -> str:
    """S, and S minus that of T0 with its interval, or else that of S; then kappa, with its interval if it decides."""
    text = percent(row["s"])
    if finite(row.get("minus_floor")) is not None:
        gap, low, high = (signed(row[name]) for name in ("minus_floor", "minus_low", "minus_high"))
        text += f", {gap} [{low}, {high}] points"
    elif finite(row["s_low"]) is not None:
        text += f" [{percent(row['s_low'])} to {percent(row['s_high'])}]"
    kappa, least, most = (finite(row.get(name)) for name in ("kappa", "kappa_low", "kappa_high"))
    if kappa is None:
        return f"{text}, kappa undefined: all answers are one"
    bounds = f" [{cell(least)}, {cell(most)}]" if outcome(row) == HABIT else ""
    return f"{text}, kappa {cell(kappa)}{bounds}"


def _whole(found: dict[tuple[str, str], str]) -> tuple[str, str]:
    """The verdict of all kinds and strategies, and its tone."""
    outcomes = set(found.values())
    lost, habits, undecided = (
        list(dict.fromkeys(kind for (_, kind), said in found.items() if said == what))
        for what in (LOST, HABIT, UNDECIDED)
    )
    if not found:
        return "No variant was answered", OPEN
    if lost:
        everywhere = outcomes == {LOST}
        return f"No{': with no kind of change' if everywhere else ', not with ' + _listed(lost)}", BAD
    if habits:
        return f"It cannot be told from a habit ({_listed(habits)})", OPEN
    if undecided:
        return f"Not shown for {_listed(undecided)}" + ("; otherwise yes" if KEPT in outcomes else ""), OPEN
    return "Yes, with every kind of change that was asked", GOOD


def _listed(kinds: Sequence[str]) -> str:
    return ", ".join(kinds[:3]) + (f" and {len(kinds) - 3} more" if len(kinds) > 3 else "")
