"""Verdicts that any study can give: how many questions each strategy has right, and whether step-by-step reasoning
helps.

A verdict never says more than its table: what is undefined, or was not asked, is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from tomserve.studies import baselines
from tomserve.studies.rows import BASELINE
from tomserve.studies.showing import BAD, GOOD, OPEN, Card, Context, Tables, Verdict
from tomserve.studies.words import finite, interval, p_value, percent, points, populations, readable, sign, who

HELPS = {1: "helps", -1: "hurts", 0: "no clear effect"}
"""What the sign of an effect says of a strategy."""


def holds(tables: Tables, name: str, columns: str) -> bool:
    """Whether there is a table of that name with rows and with all of these columns."""
    return name in tables and tables[name].height > 0 and set(columns.split()) <= set(tables[name].columns)


def by_model(tables: Tables) -> Iterator[tuple[str, dict[str, pl.DataFrame]]]:
    """Each model of the table `accuracy`, with its rows of every table that has a column for models.

    Nothing comes where there is no such table, or where it lacks the columns model, strategy and accuracy.
    """
    frame = tables.get("accuracy")
    if frame is None or not {"model", "strategy", "accuracy"} <= set(frame.columns):
        return
    for model in frame["model"].unique(maintain_order=True):
        yield str(model), {n: table.filter(model=model) for n, table in tables.items() if "model" in table.columns}


def overall(tables: Tables, context: Context) -> Sequence[Verdict]:
    """The verdicts of a study that has none of its own: a line for each strategy, and whether reasoning helps.

    tables: by name. context: what a guesser scores.
    """
    verdicts = []
    for model, own in by_model(tables):
        effects = own.get("prompting_effects", pl.DataFrame())
        card = reasoning_helps(effects) if holds(own, "prompting_effects", EFFECT) else None
        rules = own.get(baselines.TABLE)
        lines = lead(own["accuracy"], context.chance.get("all"), rules)
        verdicts.append(Verdict(model, lines, (card,) if card else ()))
    return verdicts


def lead(frame: pl.DataFrame, chance: float | None, rules: pl.DataFrame | None = None) -> tuple[str, ...]:
    """A line for each strategy, the baseline first: how many questions it has right, and how that compares with chance
    and with the best rule that follows nobody's belief; then a line with the best rule of each kind.

    frame: rows of one model; the first row of each strategy is that of all questions. chance: the share of right
    answers of somebody who guesses, from 0 to 1; None where it is not known, which leaves the comparison out. rules:
    rows of the table of baselines for these questions, the best rule first; None where there are none.
    """
    first = frame.unique(["strategy"], keep="first", maintain_order=True)
    lines = []
    for row in first.sort(pl.col("strategy") != BASELINE, maintain_order=True).iter_rows(named=True):
        counted = f"{row['correct']:,} of {row['total']:,}" if {"correct", "total"} <= set(row) else "a share"
        compared = ""
        low, high = finite(row.get("ci_low")), finite(row.get("ci_high"))
        if chance is not None and low is not None and high is not None:
            place = "above" if low > chance else "below" if high < chance else "not clearly different from"
            compared = f"; {place} chance ({percent(chance)})"
        if beside := baselines.compared(row):
            compared += f"; {beside}"
        lines.append(
            f"{readable(row['strategy'])}: {counted} right ({percent(row['accuracy'])}{interval(row)}){compared}"
        )
    if rules is not None and (sentence := baselines.best_of_kinds(rules)):
        lines.append(sentence)
    return tuple(lines)


EFFECT = "treatment risk_difference rd_low rd_high"
"""Columns of a table of paired effects that a verdict reads."""


def reasoning_helps(
    effects: pl.DataFrame, parts: Mapping[str, str] | None = None, more: Sequence[tuple[str, str]] = ()
) -> Card:
    """Whether the strategies help against the baseline, read off the intervals of their paired effects; an effect that
    batching alone could have made is not clear.

    effects: of one model, with the columns of EFFECT and maybe `subset` (a part of the questions; the verdict is that
    of "all"); the first row of each strategy is that of all questions. parts: what readers call these parts. more:
    further grounds of the verdict, as pairs of what is spoken of and a sentence about it.
    """
    signs, grounds, population = [], [], ""
    keys = [name for name in ("subset", "treatment") if name in effects.columns]
    for row in effects.unique(keys, keep="first", maintain_order=True).iter_rows(named=True):
        if row.get("subset", "all") == "all":
            signs.append(sign(row))
        text = f"{HELPS[sign(row)]}, {points(row)}"
        if (p := finite(row.get("p"))) is not None:
            text += f"; {p_value(p)}"
        if row.get("gained") is not None and row.get("lost") is not None:
            text += f"; {row['gained']:,} questions gained, {row['lost']:,} lost"
        if row.get("target"):
            population = (
                f" The interval says what to expect of {populations(row['target'])}. p is the chance of so large a "
                "difference if there were none, by the test that belongs to the interval: it is at most 0.05 exactly "
                "where the interval does not hold zero."
            )
        grounds.append((who(row["treatment"], row.get("subset", ""), parts or {}), f"{text}."))
    verdict, tone = "No clear effect", OPEN
    if signs and all(one > 0 for one in signs):
        verdict, tone = "Yes, it helps", GOOD
    elif signs and all(one < 0 for one in signs):
        verdict, tone = "No, it hurts", BAD
    elif any(signs):
        verdict = "Some strategies help or hurt, others show no clear effect"
        if {1, -1} <= set(signs):
            verdict = "Some strategies help, others hurt"
    control = readable(effects["control"][0] if holds({"": effects}, "", "control") else BASELINE)
    remark = (
        f"Each strategy is compared with {control}, which asks for the answer alone, on the same questions. The 95% "
        f"interval of the difference, in percentage points, stands in brackets.{population}"
    )
    return Card(_question(effects), verdict, tone, (*grounds, *more), remark)


def _question(effects: pl.DataFrame) -> str:
    """What a card of effects asks: of reasoning only where each strategy's name says that it reasons. A form such as
    that of a benchmark's authors, in which nobody thinks aloud, is another way of asking."""
    reasons = [not _REASONS.isdisjoint(name.split("_")) for name in effects["treatment"].to_list()]
    return "Does step-by-step reasoning help?" if all(reasons) else "Do other ways of asking help?"


_REASONS = frozenset(("cot", "reason", "chain", "think", "decompose"))
"""Words of a strategy's name that say that it has the model reason before it answers."""
