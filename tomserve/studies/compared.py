"""What a comparison of two runs says to a reader: verdicts in words, the tables, and what the terminal shows."""

from __future__ import annotations

import polars as pl

from tomserve.studies import margins, people
from tomserve.studies.compare import CLASS, Comparison
from tomserve.studies.differing import Difference, shortened
from tomserve.studies.noise import shown as shown_noise
from tomserve.studies.words import points, readable, sign

SHOWN = 20
"""How many flips, and how many differences between the runs, the terminal shows."""


def verdicts(comparison: Comparison) -> list[str]:
    """A sentence for each strategy: whether B is clearly right more or less often than A over all questions, and which
    classes clearly differ."""
    said = []
    for (strategy,), part in comparison.effects.group_by(["strategy"], maintain_order=True):
        row = part.row(-1, named=True)
        gained = f"{row['gained']:,} questions gained, {row['lost']:,} lost"
        text = f"{_MORE[sign(row)]}: B minus A is {points(row)}; {gained}."
        classes = part.head(-1).filter(pl.col("verdict").cast(pl.String).str.starts_with("B "))
        if classes.height:
            named = (f"{readable(name)} ({word})" for name, word in classes.select(CLASS, "verdict").iter_rows())
            text += f" Single classes that clearly differ: {', '.join(named)}."
        elif part.height > 1:
            text += " No single class is shown to differ."
        said.append(f"{strategy}: {text}" if strategy else text)
    return [*said, *margins.told(comparison.margins)]


_MORE = {
    1: "B is clearly right more often than A",
    0: "No clear difference",
    -1: "B is clearly right less often than A",
}


def notes(comparison: Comparison) -> dict[str, str]:
    """What a reader must know of the tables, by name."""
    said = {"effects": comparison.caption, people.TABLE: people.COMPARED if comparison.people.height else None}
    return {name: text for name, text in said.items() if text} | margins.notes(comparison.margins, comparison.values)


def tables(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """All tables whole, by name, those that have rows; flips and differences also without."""
    found = {
        "effects": comparison.effects,
        "flips": comparison.flips,
        margins.CHANGES: comparison.changes,
        margins.MARGINS: comparison.margins,
        margins.VALUES: comparison.values,
        people.TABLE: comparison.people,
    }
    kept = {name: table for name, table in found.items() if table.height or name == "flips"}
    fields = {name: [one[place] for one in comparison.differences] for place, name in enumerate(("field", "a", "b"))}
    return {**kept, "differences": pl.DataFrame(fields, schema=dict.fromkeys(fields, pl.String))}


def summary(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """What the terminal shows: differences a class, the first flips, the first differences of the manifests."""
    found = comparison.effects
    strategy = ["strategy"] if found["strategy"].str.len_chars().max() else []
    effects = found.select(
        *strategy,
        pl.col(CLASS).alias("class"),
        pl.col("share_control").alias("A"),
        pl.col("share_treated").alias("B"),
        pl.col("risk_difference").alias("B - A"),
        pl.col("rd_low").alias("low"),
        pl.col("rd_high").alias("high"),
        "p",
        "p_adjusted",
        "gained",
        "lost",
        "n",
        *shown_noise(found),
    )
    target = found["target"].drop_nulls().unique().to_list()
    frames = {
        f"how much more of the questions B has right than A, with 95% intervals for {' and '.join(target)}": effects
    }
    if comparison.people.height:
        frames[f"with every person's answer counted. {people.COMPARED}"] = comparison.people.drop("method")
    for title, name, table in (
        ("is B as good as A, up to the margin?", margins.MARGINS, comparison.margins),
        ("grades that are more than right or wrong", margins.VALUES, comparison.values),
        ("what changed from A to B, as shares of questions", margins.CHANGES, comparison.changes),
    ):
        if table.height:
            frames[title] = margins.shown(table, name)
    if not comparison.flips.is_empty():
        more = f", the first {SHOWN} of {comparison.flips.height}" if comparison.flips.height > SHOWN else ""
        title = f"questions that only B (gained) or only A (lost) has right{more}"
        frames[title] = comparison.flips.select(*strategy, "flip", "item", "answer_a", "answer_b").head(SHOWN)
    rows: list[dict[str, str]] = []
    for name, a, b in comparison.differences[:SHOWN]:
        one = Difference(name, *shortened(a, b))
        rows.append({"what": one.field, "A": one.a, "B": one.b})
    if rows:
        more = f", the first {SHOWN} of {len(comparison.differences)}" if len(comparison.differences) > SHOWN else ""
        frames[f"what else differs between the runs{more}"] = pl.DataFrame(rows)
    return frames
