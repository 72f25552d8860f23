"""The tables of a dataset for a hub: questions, and replies where runs are given, each a Parquet file.

Rows are written some thousand at a time, so that a table of any length takes no more memory than these. Every row
carries a canary, a text by which leaked data can be found: its own, or that of the dataset where the question has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve.errors import ConfigError
from tomserve.interop.answered import Answered, Replies
from tomserve.items import Item

Row = dict[str, Any]

AT_A_TIME = 10_000
"""How many rows are in memory together, and in a group of a Parquet file."""

SHOWN = 6
"""How many values of a factor the card lists at most."""

ITEM = {
    "id": "What the question is called; it never changes.",
    "benchmark": "The benchmark that the question belongs to.",
    "story": "The story, as a list of sentences.",
    "question": "The question about the story.",
    "choices": "The labels that can be answered; empty where any text may answer.",
    "answer": "The right answer.",
    "gold": "The gold rationale as JSON: which labels are right after each sentence. Empty where there is none.",
    "cluster": "The task or story that the question comes from, which is the unit of statistics.",
    "base": "The question that this one is a version of. Empty for an original.",
    "canary": "A text that marks data on which no model must be trained.",
}
REPLY = {
    "run": "The run that the reply belongs to.",
    "model": "Who answered.",
    "item": "The id of the question.",
    "strategy": "The way of asking.",
    "sample": "Which of several replies to the same prompt it is, from 0.",
    "status": "ok, or why there is no whole reply.",
    "text": "The reply as it came.",
    "reasoning": "What a reasoning model thought before, where the server told it apart.",
    "answer": "What was read of it as the answer.",
    "correct": "Whether the answer is right; a failure is wrong.",
    "canary": "A text that marks data on which no model must be trained.",
}
_LISTS = ("story", "choices")
_KINDS: dict[type, Any] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String}


@dataclass(frozen=True)
class Table:
    """A table that was written. path: of its Parquet file. rows: how many it has. schema: the types of its columns, in
    their order. told: what each holds, in words."""

    path: Path
    rows: int
    schema: Mapping[str, Any]
    told: Mapping[str, str]


@dataclass
class _Factor:
    """What is known of a factor. kinds: the types of its values. values: some of them, in words."""

    kinds: set[type] = field(default_factory=set)
    values: set[str] = field(default_factory=set)

    def see(self, value: Any) -> None:
        if value is None:
            return
        self.kinds.add(type(value))
        if len(self.values) <= SHOWN:
            self.values.add(_word(value))

    @property
    def kind(self) -> Any:
        """The type of its column: text where its values are of several types, but for numbers."""
        if len(self.kinds) == 1:
            return _KINDS.get(next(iter(self.kinds)), pl.String)
        return pl.Float64 if self.kinds == {int, float} else pl.String

    @property
    def told(self) -> str:
        short = sorted(one for one in self.values if len(one) <= 40)
        if not short or len(self.values) > SHOWN or len(short) < len(self.values):
            return "A factor of the design: where the question stands in it."
        return f"A factor of the design: {', '.join(short)}."


def items_table(items: Sequence[Item], path: Path, canary: str) -> Table:
    """Write the table of the questions. items: all of them; they are read twice. path: the file to write, which need
    not be there. canary: that of rows which have none. Raises ConfigError where there are no questions."""
    factors: dict[str, _Factor] = defaultdict(_Factor)
    for item in items:
        for name, value in item.factors.items():
            factors[name].see(value)
    schema: dict[str, Any] = {name: pl.List(pl.String) if name in _LISTS else pl.String for name in ITEM}
    schema |= {f"factor_{name}": factors[name].kind for name in sorted(factors)}
    told = {**ITEM, **{f"factor_{name}": factors[name].told for name in sorted(factors)}}
    count = _stored((_question(item, factors, canary) for item in items), schema, path)
    if not count:
        raise ConfigError("there are no questions to publish")
    return Table(path, count, schema, told)


def _question(item: Item, factors: Mapping[str, _Factor], canary: str) -> Row:
    row: Row = {
        "id": item.id,
        "benchmark": item.benchmark,
        "story": list(item.story),
        "question": item.question,
        "choices": list(item.choices),
        "answer": item.answer,
        "gold": orjson.dumps(item.gold.to_dict()).decode() if item.gold is not None else None,
        "cluster": item.cluster,
        "base": item.base,
        "canary": item.canary or canary,
    }
    for name, known in factors.items():
        value = item.factors.get(name)
        row[f"factor_{name}"] = _word(value) if known.kind == pl.String and value is not None else value
    return row


def _word(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def replies_table(runs: Sequence[Replies], names: Sequence[str], path: Path, canary: str) -> Table:
    """Write the table of the replies of these runs. names: what the runs are called, in their order. path, canary: as
    for `items_table`."""
    schema = dict.fromkeys(REPLY, pl.String) | {"sample": pl.Int64, "correct": pl.Boolean}
    rows = (
        _reply(one, name, canary)
        for run, name in zip(runs, names, strict=True)
        for strategy in run.strategies
        for one in run.of(strategy)
    )
    return Table(path, _stored(rows, schema, path), schema, REPLY)


def _reply(one: Answered, run: str, canary: str) -> Row:
    thoughts = one.row.get("reasoning")
    return {
        "run": run,
        "model": str(one.row["model"]),
        "item": one.item.id,
        "strategy": one.strategy,
        "sample": one.sample,
        "status": one.score["status"],
        "text": one.row.get("text"),
        "reasoning": thoughts if isinstance(thoughts, str) else None,
        "answer": one.score["answer"],
        "correct": bool(one.score["correct"]),
        "canary": one.item.canary or canary,
    }


def _stored(rows: Iterable[Row], schema: Mapping[str, Any], path: Path) -> int:
    """Write rows into a Parquet file, some thousand at a time. Returns how many there are."""
    waiting, parts, count = iter(rows), list[Path](), 0
    while batch := list(islice(waiting, AT_A_TIME)):
        part = path.with_name(f"{path.stem}-{len(parts)}.part")
        pl.DataFrame(batch, schema=schema).write_parquet(part, compression="zstd", row_group_size=AT_A_TIME)
        parts.append(part)
        count += len(batch)
    if len(parts) > 1:
        whole = pl.scan_parquet(parts, glob=False)
        whole.sink_parquet(path, compression="zstd", row_group_size=AT_A_TIME, maintain_order=True)
        for part in parts:
            part.unlink()
    elif parts:
        parts[0].replace(path)
    else:
        pl.DataFrame(schema=schema).write_parquet(path, compression="zstd")
    return count
