"""How much more one side of a comparison has right than the other, for each value of a factor of the questions.

>>> pairs = pl.DataFrame({"item": ["a", "b"], "strategy": "", "correct": [True, True], "control": [False, True],
...                       "faulty": False, "control_faulty": False, "cluster": ["a", "b"], "stage": [None, None]})
>>> questions = pl.DataFrame({"item": ["a", "b"], "subject": ["sums", "logic"]})
>>> found = effects_by(pairs, questions, [("subject",)])["by_subject"]
>>> found.select("subject", "risk_difference", "gained", "n").rows()
[('logic', 0.0, 0, 1), ('sums', 1.0, 1, 1)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from tomserve.errors import ConfigError
from tomserve.studies.by import By, inner, left_out, text_of, wanted
from tomserve.studies.by import called as name_of
from tomserve.studies.contrasts import Record, contrast
from tomserve.studies.families import adjusted

WORDS = ("B lower", "B higher")
"""What a clear effect below and above zero is called."""

ABOUT = (
    "B minus A for the questions with each value of the factor (of crossed factors, for each combination of values "
    "that was asked). p_adjusted is p corrected for testing all rows of a strategy at once (Benjamini and Hochberg's "
    "method), and verdict says what is shown; with fewer than four units nothing is. That one value differs clearly "
    "and another does not is no proof that the two differ from each other."
)
TAKEN = frozenset(("A", "B", "B - A", "low", "high", "class", "n"))
"""What no column of a factor is called, since the terminal shows other columns by these names."""

_CELL = "values"
"""The name of the column that tells the rows of a strategy apart while they are tested together."""


def factors_of(tables: Sequence[pl.DataFrame], given: Sequence[str]) -> tuple[list[By], pl.DataFrame]:
    """The factors that texts such as "kind" and "kind,order" name, and a table with them for every item.

    tables: the score tables of A and of B; what A's does not know of its items is taken from B's. Raises ConfigError as
    tomserve.studies.by.wanted does.
    """
    if not given:
        return [], pl.DataFrame()
    own, more = (table.unique("item", keep="first", maintain_order=True) for table in tables)
    added = [name for name in more.columns if name not in own.columns]
    questions = own.join(more.select("item", *added), on="item", how="left", maintain_order="left")
    return wanted(given, questions), questions


def doubts(pairs: pl.DataFrame, tables: Sequence[pl.DataFrame], questions: pl.DataFrame, by: Sequence[By]) -> list[str]:
    """A sentence for each entry of `by` that some of the questions compared have no value of, and one for each factor
    of which A and B have different values for the same question.

    pairs: the answers compared. tables: the score tables of A and of B. questions, by: as `factors_of` gives them.
    """
    if not by:
        return []
    asked = pairs.select("item").unique()
    said = left_out(questions.join(asked, on="item", how="semi"), by)
    sides = [asked.join(table.unique("item", keep="first"), on="item", how="left").sort("item") for table in tables]
    for name in dict.fromkeys(name for one in by for name in one if all(name in side.columns for side in sides)):
        of_a, of_b = (side[name].map_elements(text_of, pl.String) for side in sides)
        if other := int((of_a != of_b).sum()):
            said.append(
                f"--by {name}: A and B have different values of it for {other:,} of {asked.height:,} questions; those "
                "of A are used"
            )
    return said


def effects_by(pairs: pl.DataFrame, questions: pl.DataFrame, by: Sequence[By]) -> dict[str, pl.DataFrame]:
    """For each entry of `by` a table with a row for each strategy and value, of the paired difference.

    pairs: the answers of B beside what A has right (contrasts.pair). questions: the factors of each item. by: as
    `factors_of` gives it. A factor that is called like another column of the table is the column `NAME (factor)`.
    Raises ConfigError where no question that both were asked has a value.
    """
    apart = inner(name for one in by for name in one)
    known = questions.select("item", *(pl.col(name).alias(own) for name, own in apart.items()))
    joined = pairs.join(known, on="item", how="left", maintain_order="left")
    made: dict[str, pl.DataFrame] = {}
    for one in by:
        owns = [apart[name] for name in one]
        records = [record for part in _by_strategy(joined.drop_nulls(owns)) for record in _effects(part, owns)]
        if not records:
            raise ConfigError(f"--by {','.join(one)}: no question that both were asked has a value of it")
        frame = framed(records)
        taken = {*frame.columns, *TAKEN}
        titles = {own: f"{name} (factor)" if name in taken else name for own, name in zip(owns, one, strict=True)}
        made[name_of(one, made)] = frame.rename(titles)
    return made


def framed(records: Sequence[Record]) -> pl.DataFrame:
    """The records as a table, in which what is undefined or infinite is null."""
    frame = pl.DataFrame(records, infer_schema_length=None)
    floats = [name for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in floats)


def _by_strategy(pairs: pl.DataFrame) -> list[pl.DataFrame]:
    return [part for _, part in pairs.group_by("strategy", maintain_order=True)]


def _effects(pairs: pl.DataFrame, owns: Sequence[str]) -> list[Record]:
    """The rows of one strategy, in the order of the values, tested together."""
    staged = "stage" if pairs["stage"].null_count() == 0 else None
    found: list[Record] = []
    for place, (key, part) in enumerate(pairs.sort(owns, maintain_order=True).group_by(owns, maintain_order=True)):
        named = {"strategy": part["strategy"][0], **dict(zip(owns, map(text_of, key), strict=True))}
        found.append({**named, _CELL: str(place), **contrast(part, staged)})
    rows = adjusted(found, [row[_CELL] for row in found], _CELL, WORDS, "stage" if staged else "task")
    return [{name: value for name, value in row.items() if name != _CELL} for row in rows]


def clear(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """A sentence for each table and strategy: which values clearly differ between the two sides, if any."""
    said = []
    for frame in tables.values():
        names = keys(frame)
        for (strategy,), part in frame.group_by("strategy", maintain_order=True):
            shown = part.filter(pl.col("verdict").cast(pl.String).str.starts_with("B "))
            values = [f"{', '.join(map(str, row[:-1]))} ({row[-1]})" for row in shown.select(*names, "verdict").rows()]
            text = f"by {' and '.join(names)}: {'; '.join(values) or 'no single value is shown to differ'}"
            said.append(f"{strategy}: {text}." if strategy else f"{text}.")
    return said


def keys(frame: pl.DataFrame) -> list[str]:
    """The columns of the factors of such a table."""
    return frame.columns[1 : frame.columns.index("risk_difference")]
