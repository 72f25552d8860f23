"""The verdicts of the Hi-ToM study: whether a model nests beliefs (keeps track of what one person thinks that another
thinks) or copies a simpler answer, and whether reasoning helps."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.studies import BAD, GOOD, OPEN, Card, Context, Verdict, baselines
from tomserve.studies.showing import Tables
from tomserve.studies.verdicts import EFFECT, by_model, holds, lead, reasoning_helps
from tomserve.studies.words import finite, interval, percent, readable

from .rows import ALL, OVERALL


def verdicts(tables: Tables, context: Context) -> list[Verdict]:
    """A verdict for each model of the table `accuracy`. tables: by name. context: what a guesser scores."""
    verdicts_by_model = []
    for model, own in by_model(tables):
        effects = own.get("prompting_effects", pl.DataFrame())
        helps = reasoning_helps(effects) if holds(own, "prompting_effects", EFFECT) else None
        cards = tuple(card for card in (_nests(own), helps) if card is not None)
        rules = own.get(baselines.TABLE)
        if rules is not None:
            rules = rules.filter(pl.col("kind") != "guess", deception=OVERALL, order=ALL)
        verdicts_by_model.append(Verdict(model, lead(own["accuracy"], context.chance.get("all"), rules), cards))
    return verdicts_by_model


_NESTS = {"yes": ("Better than guessing", GOOD), "no": ("No: it copies", BAD), "open": ("Not shown", OPEN)}


def _nests(tables: Tables) -> Card | None:
    """Whether nested questions are answered also where copying a first-order answer fails."""
    if not holds(tables, "lower_order_match", "strategy rule order matches correct total accuracy"):
        return None
    grounds, outcomes = [], set()
    rows = tables["lower_order_match"].filter(rule="first_order", order=ALL, matches=False)
    for row in rows.iter_rows(named=True):
        low, high, guess = (finite(row.get(name)) for name in ("ci_low", "ci_high", "guess"))
        if guess is not None and low is not None and high is not None:
            outcomes.add("yes" if low > guess else "no" if high < guess else "open")
        text = f"{row['correct']:,} of {row['total']:,} right ({percent(row['accuracy'])}{interval(row)})"
        guessing = "" if guess is None else f"; a guess among the containers mentioned gets {percent(guess)}"
        grounds.append((f"{readable(row['strategy'])}, the first-order answer is wrong", f"{text}{guessing}."))
    if not grounds:
        return None
    grounds += _all_orders(tables)
    verdict, tone = _NESTS.get(outcomes.pop(), ("Not shown", OPEN)) if len(outcomes) == 1 else ("Undecided", OPEN)
    remark = (
        "Order 2 asks what somebody thinks that another thinks. This is read off the questions of order 2 and more "
        "whose right answer is not the innermost person's own belief: whoever copies that belief (the first-order "
        "answer) is wrong there."
    )
    return Card("Does it nest beliefs?", verdict, tone, tuple(grounds), remark)


def _all_orders(tables: Tables) -> Iterator[tuple[str, str]]:
    """For each strategy how many stories have all asked orders right, up to the highest order that can be told."""
    if not holds(tables, "joint_accuracy", "strategy deception length order joint stories product"):
        return
    joint = tables["joint_accuracy"].filter(deception=OVERALL, length=ALL).drop_nulls("joint")
    for row in joint.unique("strategy", keep="last", maintain_order=True).iter_rows(named=True):
        text = f"{percent(row['joint'])} of {row['stories']:,} stories; it would be {percent(row['product'])} if the"
        text += " orders were independent."
        yield f"{readable(row['strategy'])}, all asked orders up to {row['order']} right", text
