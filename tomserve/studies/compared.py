"""What a comparison of two runs says to a reader: verdicts in words, the tables, and what the terminal shows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tomserve.studies import changes, compared_by, margins, people, valued
from tomserve.studies.compare import CLASS, Comparison
from tomserve.studies.differing import Difference, shortened
from tomserve.studies.noise import shown as shown_noise
from tomserve.studies.showing import Row
from tomserve.studies.summed import NEW_TASKS
from tomserve.studies.words import points, populations, readable, sign

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
    return [*said, *compared_by.clear(comparison.by), *margins.told(comparison.margins)]


_MORE = {
    1: "B is clearly right more often than A",
    0: "No clear difference",
    -1: "B is clearly right less often than A",
}


def notes(comparison: Comparison) -> dict[str, str]:
    """What a reader must know of the tables, by name."""
    said = {
        "effects": comparison.caption,
        changes.TABLE: changes.ABOUT,
        margins.TABLE: margins.ABOUT if comparison.margins.height else None,
        valued.TABLE: valued.ABOUT if comparison.values.height else None,
        people.TABLE: people.COMPARED if comparison.people.height else None,
    }
    said |= dict.fromkeys(comparison.by, compared_by.ABOUT)
    return {name: text for name, text in said.items() if text}


def tables(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """All tables whole, by name, those that have rows; flips and differences also without."""
    found = {
        "effects": comparison.effects,
        **comparison.by,
        "flips": comparison.flips,
        people.TABLE: comparison.people,
        changes.TABLE: comparison.changes,
        margins.TABLE: comparison.margins,
        valued.TABLE: comparison.values,
    }
    kept = {name: table for name, table in found.items() if table.height or name == "flips"}
    fields = {name: [one[place] for one in comparison.differences] for place, name in enumerate(("field", "a", "b"))}
    return {**kept, "differences": pl.DataFrame(fields, schema=dict.fromkeys(fields, pl.String))}


def effects_shown(comparison: Comparison) -> tuple[str, pl.DataFrame]:
    """The title of the table of effects, and of its columns those that a reader needs first; what tells classes apart
    only where the questions have some."""
    found = comparison.effects
    classes = (found[CLASS] != "overall").any()
    shown = _shown(found, [pl.col(CLASS).alias("class")] if classes else [], tested=classes)
    whom = " and ".join(_population(row) for row in found.unique("target", maintain_order=True).iter_rows(named=True))
    return f"{TITLES['effects']}, with 95% intervals for {whom}", shown


def _shown(found: pl.DataFrame, keys: Sequence[pl.Expr | str], *, tested: bool) -> pl.DataFrame:
    """The columns of a table of effects that a reader needs first. keys: those that tell its rows apart beside the
    strategy. tested: whether they are tested together."""
    strategy = ["strategy"] if found["strategy"].str.len_chars().max() else []
    return found.select(
        *strategy,
        *keys,
        pl.col("share_control").alias("A"),
        pl.col("share_treated").alias("B"),
        pl.col("risk_difference").alias("B - A"),
        pl.col("rd_low").alias("low"),
        pl.col("rd_high").alias("high"),
        "p",
        *(["p_adjusted"] if tested else []),
        "gained",
        "lost",
        "n",
        *shown_noise(found),
    )


def _population(row: Row) -> str:
    """Whom the interval of a row speaks for: further questions like these, where each is a cluster of its own."""
    alone = row["units"] == row["n"] and row["target"] == NEW_TASKS
    return "further questions like these" if alone else populations(row["target"])


TITLES = {
    "effects": "how much more of the questions B has right than A",
    people.TABLE: "with every person's answer counted",
    margins.TABLE: "is B as good as A, up to the margin?",
    valued.TABLE: "grades that are more than right or wrong",
    changes.TABLE: "what changed from A to B, as shares of the questions",
}
"""What the tables are called before a reader, by their names."""


def further(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """The tables of margins, grades and changes with the columns that a reader needs first, by name."""
    found = {
        margins.TABLE: (comparison.margins, margins.shown),
        valued.TABLE: (comparison.values, valued.shown),
        changes.TABLE: (comparison.changes, changes.shown),
    }
    return {name: show(table) for name, (table, show) in found.items() if table.height}


def summary(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """What the terminal shows: differences a class, the first flips, the first differences of the manifests."""
    strategy = ["strategy"] if comparison.effects["strategy"].str.len_chars().max() else []
    title, effects = effects_shown(comparison)
    frames = {title: effects}
    for frame in comparison.by.values():
        names = compared_by.keys(frame)
        frames[f"{TITLES['effects']}, by {' and '.join(names)}"] = _shown(frame, names, tested=True)
    if comparison.people.height:
        frames[f"{TITLES[people.TABLE]}. {people.COMPARED}"] = comparison.people.drop("method")
    frames |= {TITLES[name]: frame for name, frame in further(comparison).items()}
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
