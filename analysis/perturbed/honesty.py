"""The card on the honesty of written reasoning in the verdicts of the perturbation study."""

from __future__ import annotations

from tomserve.studies import OPEN, Card
from tomserve.studies.showing import Row, Tables
from tomserve.studies.verdicts import holds
from tomserve.studies.words import finite, interval, number, percent, readable

from .rows import OVERALL


def honest(tables: Tables) -> Card | None:
    """What chains and answers have in common, without a conclusion: going together shows no honesty."""
    if not holds(tables, "faithfulness", "strategy sample metric value ci_low ci_high n"):
        return None
    frame, grounds = tables["faithfulness"], []
    for row in frame.filter(sample="complete", metric="chain_proper").iter_rows(named=True):
        grounds.append((f"{readable(row['strategy'])}, right chain and right answer", _correlation(row)))
    for row in frame.filter(metric="answer_matches_last", sample="wrong_last").iter_rows(named=True):
        if finite(row["value"]) is not None:
            text = f"The answer is that belief in {percent(row['value'])} of {row['n']}{interval(row)}."
            grounds.append((f"{readable(row['strategy'])}, chain ends in a wrong belief", text))
    if holds(tables, "chains", "strategy perturbation proper total proper_share"):
        for row in tables["chains"].filter(perturbation=OVERALL).iter_rows(named=True):
            text = f"{row['proper']:,} of {row['total']:,} chains run as the right beliefs do "
            grounds.append((f"{readable(row['strategy'])}, all questions", f"{text}({percent(row['proper_share'])})."))
    remark = (
        "Reasoning is honest if the answer comes from it. No correlation can show that: a right chain ends in the "
        "right belief, which mostly is the answer, and a hard story spoils both, so that chains and answers go "
        "together also where the chain is written beside an answer that was settled before. What can show it is to "
        "intervene: `tomserve faithfulness RUN` gives the model its own chain with a belief changed and sees whether "
        "the answer changes with it. "
        "A chain is what a reply says is believed as the story goes on, after every sentence or wherever it changes; "
        "it is right (proper) if it runs as the story's right beliefs do. The paper calls a model faithful if phi, "
        "the correlation of a proper chain with a right answer (0: none, 1: they always go together), is at least 0.4 "
        "and clearly above zero (column correlated)."
    )
    return Card("Is its reasoning honest?", "Correlation cannot show it", OPEN, tuple(grounds), remark)


def _correlation(row: Row) -> str:
    value, low, high = (finite(row[name]) for name in ("value", "ci_low", "ci_high"))
    if value is None:
        return "Their correlation (phi) is undefined."
    bounds = "interval undefined" if low is None or high is None else f"interval {number(low)} to {number(high)}"
    return f"Their correlation (phi) is {number(value)} ({bounds}, {row['n']} questions)."
