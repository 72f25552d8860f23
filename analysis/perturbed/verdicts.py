"""The verdicts of the perturbation study: whether a model is robust, where it breaks, whether reasoning helps, and
whether its reasoning is honest.

A verdict never says more than its table: what is undefined, or was not asked, is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Verdict
from tomserve.studies.showing import Row, Tables
from tomserve.studies.verdicts import EFFECT, by_model, holds, lead, reasoning_helps
from tomserve.studies.words import finite, interval, number, percent, points, readable, who

from .rows import CONTROL, OVERALL, SUBSETS


def verdicts(tables: Tables, context: Context) -> list[Verdict]:
    """A verdict for each model of the table `accuracy`."""
    return [_verdict(model, own, context.chance.get("all")) for model, own in by_model(tables)]


def _verdict(model: str, own: dict[str, pl.DataFrame], chance: float | None) -> Verdict:
    cards = (_robust(own), _breaks(own), _helps(own), _honest(own))
    whole = own["accuracy"].filter(subset="all", perturbation=OVERALL)
    return Verdict(model, lead(whole, chance), tuple(card for card in cards if card is not None))


# Is it robust?

_ROBUST = {
    "yes": ("Yes, in every class", GOOD),
    "perhaps": ("By count yes, but not for certain", OPEN),
    "limited": ("Limited: in some classes only", OPEN),
    "ostensible": ("No: on unperturbed stories only", BAD),
    "no": ("No", BAD),
    "open": ("Not shown, but not ruled out", OPEN),
}
_DIFFERS = ("It depends on strategy or questions", OPEN)


def _robust(tables: Tables) -> Card | None:
    """The paper's criteria, and for how many classes the whole interval lies on one side of one half."""
    if not holds(tables, "criteria", "subset strategy rule ostensible classes_above limited_robust robust"):
        return None
    outcomes, grounds = set(), []
    for row in tables["criteria"].filter(rule="strict").iter_rows(named=True):
        above, below, undecided = _sides_of_half(tables, row)
        outcomes.add(_outcome(row, below, undecided))
        control = "also" if row["ostensible"] else "but not"
        tested = row.get("classes_tested", 10)
        text = f"More than half right in {row['classes_above']} of {tested} classes, {control} on unperturbed stories."
        if above + below + undecided:
            text += (
                f" By their intervals: {above} certainly above half, {below} certainly below, {undecided} undecided."
            )
        grounds.append((who(row["strategy"], row["subset"], SUBSETS), text))
    verdict, tone = _ROBUST[outcomes.pop()] if len(outcomes) == 1 else _DIFFERS
    remark = (
        "A class is one kind of change (perturbation) to the stories. The paper calls a model robust that has more "
        "than half right on unperturbed stories and in all ten classes. A class is certain if its 95% interval lies "
        "wholly above one half, or wholly below, and undecided if one half lies within. The false-belief subset "
        "holds the questions about a belief that the story made false."
    )
    return Card("Does it have robust Theory of Mind?", verdict, tone, tuple(grounds), remark)


def _outcome(row: Row, below: int, undecided: int) -> str:
    """Which of _ROBUST holds; below, undecided: classes whose interval lies below one half, or holds it."""
    if row["robust"] and row["ostensible"]:
        return "perhaps" if below or undecided else "yes"
    if row["limited_robust"]:
        return "limited"
    if row["ostensible"]:
        return "ostensible"
    return "no" if below else "open"


def _sides_of_half(tables: Tables, row: Row) -> tuple[int, int, int]:
    """How many classes have an interval that lies above one half, below it, or around it; 0 where nothing is known."""
    if not holds(tables, "accuracy", "subset strategy perturbation ci_low ci_high"):
        return 0, 0, 0
    part = tables["accuracy"].filter(
        ~pl.col("perturbation").is_in([CONTROL, OVERALL]), subset=row["subset"], strategy=row["strategy"]
    )
    above = part.filter(pl.col("ci_low") > 0.5).height
    below = part.filter(pl.col("ci_high") < 0.5).height
    return above, below, part.height - above - below


# Where does it break?


def _breaks(tables: Tables) -> Card | None:
    if not holds(tables, "perturbation_effects", "subset strategy perturbation risk_difference rd_low rd_high"):
        return None
    frame = tables["perturbation_effects"].filter(~pl.col("perturbation").str.starts_with(OVERALL))
    adjusted = "p_adjusted" in frame.columns
    harder: dict[str, None] = {}
    grounds = []
    for (subset, strategy), part in frame.group_by(["subset", "strategy"], maintain_order=True):
        whose = who(strategy, subset, SUBSETS)
        defined = part.filter(pl.col("risk_difference").is_finite()).sort("risk_difference", maintain_order=True)
        if not defined.height:
            grounds.append((whose, "No class can be compared with unperturbed stories."))
            continue
        clear = defined.filter(pl.col("rd_high") < 0)
        if adjusted:
            clear = clear.filter(pl.col("p_adjusted") <= 0.05)
        harder |= dict.fromkeys(readable(name) for name in clear["perturbation"])
        lowest = defined.row(0, named=True)
        text = f"{clear.height} of {defined.height} classes are clearly harder; the lowest is"
        grounds.append((whose, f"{text} {readable(lowest['perturbation'])}, {points(lowest)}."))
    verdict = "No class clearly harder"
    if harder:
        names = list(harder)
        verdict = f"Clearly harder: {', '.join(names[:2])}" + (f", {len(names) - 2} more" if len(names) > 2 else "")
    tone = BAD if harder else OPEN
    return Card(
        "Where does it break?", verdict, tone, (*grounds, *_chain_break(tables)), _what_harder_means(frame, adjusted)
    )


def _what_harder_means(frame: pl.DataFrame, adjusted: bool) -> str:
    meaning = "Points are percentage points of right answers; the 95% interval stands in brackets. "
    meaning += "A class is clearly harder if the interval of its difference from unperturbed stories lies below zero"
    meaning += (
        ", and p, adjusted for how many classes were tested at once, is at most 0.05 (p: how often chance alone would "
        "give so large a difference)."
        if adjusted
        else "."
    )
    if adjusted and "p_smallest" in frame.columns and (few := frame.filter(pl.col("p_smallest") > 0.05)).height:
        classes = few["perturbation"].n_unique()
        which = "class has" if classes == 1 else "classes have"
        meaning += (
            f" {classes} {which} too few stages (settings with their stories) to reach that, whatever the answers."
        )
    return meaning


def _chain_break(tables: Tables) -> Iterator[tuple[str, str]]:
    if not holds(tables, "chains", "strategy perturbation total proper break_sentence break_kind breaks"):
        return
    for row in tables["chains"].filter(perturbation=OVERALL).iter_rows(named=True):
        if row["breaks"]:
            where = "" if row["break_sentence"] is None else f" at sentence {row['break_sentence']}"
            yield (
                f"{readable(row['strategy'])}, written chains",
                f"{row['total'] - row['proper']:,} of {row['total']:,} leave the right course, most often{where} "
                f"({readable(row['break_kind'])}, {row['breaks']:,} times).",
            )


# Does reasoning help?


def _helps(tables: Tables) -> Card | None:
    if not holds(tables, "prompting_effects", f"perturbation {EFFECT}"):
        return None
    frame = tables["prompting_effects"]
    return reasoning_helps(frame.filter(perturbation=OVERALL), SUBSETS, tuple(_classes_helped(frame)))


def _classes_helped(frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
    if "subset" in frame.columns:
        frame = frame.filter(subset="all")
    for (treatment,), rows in frame.group_by(["treatment"], maintain_order=True):
        part = rows.filter(~pl.col("perturbation").str.starts_with(OVERALL))
        up, down = part.filter(pl.col("rd_low") > 0).height, part.filter(pl.col("rd_high") < 0).height
        if part.height:
            text = f"Of {part.height} classes {up} have an interval above zero (helps), {down} below (hurts)."
            yield f"{readable(treatment)}, by class", text


# Is its reasoning honest?

_HONEST = {
    "yes": ("By the paper's measure, yes", GOOD),
    "no": ("By the paper's measure, no", BAD),
    "undefined": ("Undefined here", OPEN),
}


def _honest(tables: Tables) -> Card | None:
    if not holds(tables, "faithfulness", "strategy sample metric value ci_low ci_high n"):
        return None
    frame, grounds, outcomes = tables["faithfulness"], [], set()
    for row in frame.filter(sample="complete", metric="chain_proper").iter_rows(named=True):
        value, flag = finite(row["value"]), row.get("faithful")
        outcomes.add("undefined" if value is None else "yes" if flag else "no" if flag is False else "open")
        grounds.append((f"{readable(row['strategy'])}, proper chain and right answer", _correlation(row)))
    for row in frame.filter(metric="answer_matches_last", sample="wrong_last").iter_rows(named=True):
        if finite(row["value"]) is not None:
            text = f"The answer is that belief in {percent(row['value'])} of {row['n']}{interval(row)}."
            grounds.append((f"{readable(row['strategy'])}, chain ends in a wrong belief", text))
    if holds(tables, "chains", "strategy perturbation proper total proper_share"):
        for row in tables["chains"].filter(perturbation=OVERALL).iter_rows(named=True):
            text = f"{row['proper']:,} of {row['total']:,} chains are proper ({percent(row['proper_share'])})."
            grounds.append((f"{readable(row['strategy'])}, all questions", text))
    verdict, tone = _HONEST.get(outcomes.pop(), ("Undecided", OPEN)) if len(outcomes) == 1 else ("Undecided", OPEN)
    remark = (
        "A chain is the belief that a reply states after every sentence; it is proper if it runs as the right "
        "beliefs do. The paper's measure is phi, the correlation of a proper chain with a right answer (0: none, 1: "
        "they always go together): at least 0.4, and clearly above zero (as published: p at most 0.05, where p is "
        "the chance of so strong a correlation among unrelated ones; as recommended: the whole interval above zero). "
        "A proper chain ends in the right belief, which mostly is the answer, so that a high phi alone proves little."
    )
    return Card("Is its reasoning honest?", verdict, tone, tuple(grounds), remark)


def _correlation(row: Row) -> str:
    value, low, high = (finite(row[name]) for name in ("value", "ci_low", "ci_high"))
    if value is None:
        return "Their correlation (phi) is undefined."
    bounds = "interval undefined" if low is None or high is None else f"interval {number(low)} to {number(high)}"
    return f"Their correlation (phi) is {number(value)} ({bounds}, {row['n']} questions)."
