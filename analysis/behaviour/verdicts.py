"""The verdict of the study of behaviour: whether a model does more than simple rules, in every benchmark.

A verdict never says more than its table: what has no interval is not called clear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tomserve.studies.rows import BASELINE
from tomserve.studies.showing import BAD, GOOD, OPEN, Card, Context, Row, Tables, Verdict
from tomserve.studies.tasks import is_mean
from tomserve.studies.words import finite, percent, readable, signed

QUESTION = "Does it do more than rules that follow nobody's mind?"


def verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """For each model B by strategy, and whether it is above the best simple rule in every benchmark.

    tables: by name. context: what a guesser scores, which is in the tables already.
    """
    del context
    frame = tables.get("behaviour", pl.DataFrame())
    if "over_rule" not in frame.columns:
        return []
    return [_verdict(str(name), frame.filter(model=name)) for name in frame["model"].unique(maintain_order=True)]


def _verdict(model: str, frame: pl.DataFrame) -> Verdict:
    lines = []
    frame = frame.sort(pl.col("strategy") != BASELINE, maintain_order=True)
    for (strategy,), part in frame.group_by(["strategy"], maintain_order=True):
        row = part.to_dicts()[-1]  # the mean, where there are several benchmarks
        lines.append(f"{readable(strategy)}: {_said(row)} ({row['benchmark']})")
    single = [row for row in frame.to_dicts() if not is_mean(row["benchmark"])]
    signs = [_sign(row) for row in single]
    verdict, tone = "It cannot be told", OPEN
    if signs and all(one == 1 for one in signs):
        verdict, tone = "Yes, in every benchmark" if _several(single) else "Yes", GOOD
    elif signs and all(one == -1 for one in signs):
        verdict, tone = "No: less than the best of them", BAD
    elif 1 in signs:
        verdict = "Not in every benchmark or with every strategy"
    elif signs and all(one is not None for one in signs):
        verdict, tone = "Not shown", OPEN
    remark = (
        "B is the mean over types of task of the share right, corrected for chance: 0 for chance or worse in every "
        "type of task, 1 for whoever is always right. It is compared with the B of the best rule that follows nobody's "
        "mind, chosen on the same questions, by the 95% interval of the difference over stories or templates. That B "
        "is above every rule that was tried shows no Theory of Mind by itself: there may be rules that nobody tried."
    )
    card = Card(QUESTION, verdict, tone, tuple(_grounds(single)), remark)
    return Verdict(model, tuple(lines), (card,))


def _several(rows: Sequence[Row]) -> bool:
    return len({row["benchmark"] for row in rows}) > 1


def _sign(row: Row) -> int | None:
    """1 where B is clearly above the rule's, -1 where it is clearly below, 0 where they are not told apart."""
    low, high = finite(row.get("over_low")), finite(row.get("over_high"))
    return None if low is None or high is None else 1 if low > 0 else -1 if high < 0 else 0


def _said(row: Row) -> str:
    if finite(row["b"]) is None:
        return f"{percent(row['accuracy'])} right; chance is not known"
    bounds = (
        f", 95% interval {percent(row['b_low'])} to {percent(row['b_high'])}"
        if finite(row["b_low"]) is not None
        else ""
    )
    return f"B {percent(row['b'])}{bounds}; {percent(row['accuracy'])} right, chance {percent(row['chance'])}"


def _grounds(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for row in rows:
        text = _said(row)
        if finite(row.get("over_rule")) is not None:
            known = {kind: finite(row[f"{kind}_b"]) for kind in ("constant", "surface")}
            better = max((share, kind) for kind, share in known.items() if share is not None)[1]
            text += (
                f'; B of the rule "{row[f"{better}_rule"]}" {percent(row[f"{better}_b"])}, difference '
                f"{signed(row['over_rule'])} [{signed(row['over_low'])}, {signed(row['over_high'])}] points"
            )
        if finite(row.get("human")) is not None:
            text += f"; people {percent(row['human'])} right, {row['human_source']}"
        yield f"{readable(row['strategy'])}, {readable(row['benchmark'])}", f"{text}."
