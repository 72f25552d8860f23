"""The audit of worlds: what readers who follow nobody's mind get right, class by class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from tomserve.benchmarks.findings import Findings, outcome
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.surface import BAG, LOOKING, OMNISCIENT, all_knowing, bag_of_words, roles
from tomserve.items import Item

MARGIN = 0.05
"""By how much a reader may be better than chance in a class."""

CONSTANT = "best constant"
"""The reader that always gives the choice that is right most often in the class: a label, or a place in the list."""

NOTES = {
    "right": "The share of right answers in each class of question (family, task, dimension) of readers who follow "
    "nobody's mind. chance: one over the number of choices, averaged. A reader of kind learned answers each fifth of "
    f"the worlds as the others taught it. {OMNISCIENT}: whoever follows wishes, acts and feelings by the rules, but "
    "takes everybody to know what is really so; that is a reader of minds, for whom the goal does not hold, and shows "
    "how much of a class hangs on beliefs that differ from the world.",
    "balance": "How often the choice of each kind is right: by its place in the list, and by the key of its value in "
    "the record of its world.",
}
GOAL = (
    f"No reader shall be right more often than chance plus {MARGIN:.2f} in a class, unless the class says why. A class "
    "that is too small to tell counts as good while chance plus this margin and three standard errors covers its share."
)


def classes(items: Iterable[Item]) -> dict[tuple[str, str, str], list[Item]]:
    """Items by family, task and dimension."""
    found: dict[tuple[str, str, str], list[Item]] = defaultdict(list)
    for item in items:
        found[tuple(str(item.factors.get(name)) for name in ("family", "task", "dimension"))].append(item)  # type: ignore[index]
    return dict(sorted(found.items()))


def counted(items: Sequence[Item]) -> pl.DataFrame:
    """One row for each class and reader: right, total and chance."""
    rows = []
    for (family, task, dimension), members in classes(items).items():
        chance = sum(1 / len(item.choices) for item in members) / len(members)
        for reader, right in _readers(members):
            known = {"family": family, "task": task, "dimension": dimension, "reader": reader}
            rows.append({**known, "right": right, "total": len(members), "chance": chance})
    return pl.DataFrame(rows)


def _readers(items: Sequence[Item]) -> Iterator[tuple[str, int]]:
    """The names of all readers, and how many of these items each has right."""
    places = Counter(item.choices.index(item.answer) for item in items)
    known = roles(items)
    fixed = Counter(
        role for item in items for role, label in known(item).items() if label == item.answer and role[0] == "="
    )
    yield CONSTANT, max([*places.values(), *fixed.values()])
    for name, rule in LOOKING.items():
        yield name, sum(rule(item) == item.answer for item in items)
    yield OMNISCIENT, sum(all_knowing(item) == item.answer for item in items)
    answers = bag_of_words(items)
    yield BAG, sum(answers.get(item.id) == item.answer for item in items)


def problems(counts: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """For each case in which a reader exceeds the goal (see GOAL) a sentence, with the reason that its family states
    for it, empty where it states none."""
    for row in counts.iter_rows(named=True):
        share, error = row["right"] / row["total"], (row["chance"] * (1 - row["chance"]) / row["total"]) ** 0.5
        if row["reader"] != OMNISCIENT and share > row["chance"] + MARGIN + 3 * error:
            kind = f"{row['task']}/{row['dimension']}" if row["task"] != row["dimension"] else row["task"]
            family = BY_NAME.get(row["family"])
            most, reason = family.reasons.get((row["task"], row["reader"]), (0.0, "")) if family else (0.0, "")
            if share > most:
                reason = ""
            yield (
                f"{row['family']}, {kind}: {row['reader']!r} has {row['right']} of {row['total']} right "
                f"({share:.2f}; chance {row['chance']:.2f})",
                reason,
            )


def balance(items: Sequence[Item]) -> pl.DataFrame:
    """One row a class: how often the right choice stands in each place, and how often each key is right."""
    rows = []
    for (family, task, dimension), members in classes(items).items():
        places = Counter(item.choices.index(item.answer) for item in members)
        keys = Counter(str(item.factors.get("answer_key")) for item in members)
        rows.append(
            {
                **{"family": family, "task": task, "dimension": dimension, "items": len(members)},
                "places": " ".join(str(places[place]) for place in range(max(places) + 1)),
                "keys": ", ".join(f"{key} {count}" for key, count in keys.most_common(6)),
            }
        )
    return pl.DataFrame(rows)


def findings(items: Sequence[Item]) -> Findings:
    """The audit to print; its exit code is 1 where a reader exceeds the goal without a stated reason (see GOAL)."""
    counts = counted(items)
    cells = counts.with_columns(share=(pl.col("right") / pl.col("total")).round(2), chance=pl.col("chance").round(2))
    index = ["family", "task", "dimension", "total", "chance"]
    right = cells.pivot("reader", index=index, values="share", maintain_order=True)
    found = list(problems(counts))
    open_ones = [text for text, reason in found if not reason]
    lines = (
        GOAL,
        *(f"stated reason: {text}: {reason}" for text, reason in found if reason),
        *(f"problem: {text}" for text in open_ones),
        outcome(open_ones),
    )
    tables = {"right answers": right, "balance": balance(items)}
    return Findings(tables=tables, notes=NOTES, lines=lines, code=1 if open_ones else 0)
