"""Makes the index of a run's answers: a table of what lists and filters show, and where each reply and item stands.

With it one answer among half a million costs milliseconds: its row names the bytes at which the journal and the items
hold the texts. ``answers.parquet`` has a row for each scored answer, of several samples one for each, in the order of
the score table, and beside columns of words their ranks, by which they are quickly sorted; ``turns.parquet`` has
a row for each reply of strategies that ask several requests; ``items.parquet`` has the words of the items.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve.content.paths import run_name
from tomserve.errors import ConfigError
from tomserve.items import nfc
from tomserve.reporting.html.transcripts import Conversations
from tomserve.runs import journal, runfolder
from tomserve.runs.manifest import Manifest
from tomserve.runs.measurement import refuse_measured
from tomserve.runs.runfolder import find_run
from tomserve.runs.scores import load_replies, scores_of
from tomserve.scoring.metrics import BEGINNING
from tomserve.scoring.responses import ResponseFile, offset_of, place_of
from tomserve.scoring.score import sample_of
from tomserve.scoring.table import COLUMNS
from tomserve.studies.answer_rows import ORIGINAL

ANSWERS, TURNS, ITEMS = "answers.parquet", "turns.parquet", "items.parquet"
RANK = "rank:"
"""How the columns of ranks begin."""
RANKED = ("strategy", "status", "outcome", "answer")
"""The columns of words by which a list is sorted."""
SHOWN = 160
"""Characters of a reply that a list shows."""
SEARCHED = 4000
"""Characters of a reply that can be searched."""
VALUES = 60
"""Values that a factor may have to be offered as a filter."""
LONGEST = 100
"""Characters that such a value may have."""
_KEYS = ["item", "strategy", "model", "sample"]
_CHUNK = 20_000


def answers(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the index of a run's answers. Returns what the page says of them all. options: none.

    Raises ConfigError where the run cannot be scored, and for a measured run, which has no answers.
    """
    del options
    folder = find_run(runs[0])
    refuse_measured(folder, "has no answers to page through", "its page shows what was measured")
    scores = scores_of(folder)
    replies = load_replies(folder)
    if replies is None or not scores.height:
        raise ConfigError(f"{run_name(folder)}: nothing was answered yet")
    known = replies.items
    rows = pl.concat(_replies(replies.responses, known.ids))
    items = _items(folder / runfolder.ITEMS)
    table = _joined(rows, scores, items)
    _write(table, out / ANSWERS)
    _write(items, out / ITEMS)
    turns = _turns(folder, Manifest.read(folder), replies.asked.model)
    if turns is not None:
        _write(turns, out / TURNS)
    return _about(table, scores, turns is not None)


def _write(table: pl.DataFrame, path: Path) -> None:
    """Write a table whose rows can be found without reading all of it."""
    table.write_parquet(path, row_group_size=_CHUNK, compression="lz4")


def _replies(responses: ResponseFile, ids: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The replies that count, in the order of the score table, in pieces."""
    keys, values, _ = responses.ordered()
    for start in range(0, len(keys), _CHUNK):
        found: list[tuple[Any, ...]] = []
        for key, value in zip(keys[start : start + _CHUNK], values[start : start + _CHUNK], strict=True):
            row = responses.row(key, value)
            text = row.get("text")
            said = text[:SEARCHED] if isinstance(text, str) else None
            item = ids[place_of(key)]
            found.append((item, row["strategy"], str(row["model"]), sample_of(row), offset_of(value), said))
        yield pl.DataFrame(
            found,
            orient="row",
            schema={
                "item": pl.String,
                "strategy": pl.String,
                "model": pl.String,
                "sample": pl.Int64,
                "offset": pl.UInt64,
                "reply": pl.String,
            },
        )


def _items(path: Path) -> pl.DataFrame:
    """Every item: its id, where its line stands, its original, and its words, in which one can search."""
    ids: list[str] = []
    bases: list[str | None] = []
    words: list[str] = []
    golds: list[str | None] = []
    offsets, offset = array("Q"), 0
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                data = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
                ids.append(nfc(data["id"]))
                bases.append(data.get("base"))
                golds.append(str(data.get("answer")))
                words.append("\n".join((*map(str, data["story"]), str(data["question"]))))
                offsets.append(offset)
            offset += len(line)
    return pl.DataFrame(
        {
            "item": ids,
            "item_offset": pl.Series(offsets, dtype=pl.UInt64),
            "base": pl.Series(bases, dtype=pl.String),
            "gold": golds,
            "words": words,
        }
    )


def _joined(rows: pl.DataFrame, scores: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """The replies with what scoring found of them; a sample that does not stand for its question has no score."""
    sample = pl.col("sample").fill_null(0) if "sample" in scores.columns else pl.lit(0)
    factors = _factors(scores)
    wanted = [
        *("status", "parse", "reason", "answer", "correct", "chain_reason", "chain_proper", "chain_break"),
        *("chain_break_kind", "chain_sentences", "chain_verdicts"),
    ]
    scored = scores.select(
        "item",
        "strategy",
        "model",
        sample.cast(pl.Int64).alias("sample"),
        "cluster",
        *wanted,
        pl.col("chain").alias("stated"),
        *(pl.col(name).cast(pl.String).alias(f"factor:{name}") for name in factors),
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("score"),
    )
    found = rows.join(scored, on=_KEYS, how="left", maintain_order="left")
    found = found.join(items.drop("words"), on="item", how="left", maintain_order="left")
    chain = (
        pl.when(pl.col("chain_proper"))
        .then(pl.lit("proper"))
        .when(pl.col("chain_reason").is_not_null())
        .then(pl.lit("unread"))
        .when(pl.col("chain_break").is_not_null() | (pl.col("chain_proper") == False))  # noqa: E712  # Polars, not Python
        .then(pl.lit("broken"))
    )
    # Samples that do not stand for their question are there to be looked at, and are not counted as answers.
    outcome = (
        pl.when(pl.col("score").is_null())
        .then(pl.lit("sample"))
        .when(pl.col("correct").fill_null(False))
        .then(pl.lit("right"))
        .when(pl.col("answer").is_not_null())
        .then(pl.lit("wrong"))
        .otherwise(pl.lit("none"))
    )
    found = found.with_columns(outcome=outcome, chain=chain, place=pl.int_range(pl.len(), dtype=pl.UInt32))
    ranks = (pl.col(name).rank("dense").cast(pl.UInt32).alias(f"{RANK}{name}") for name in RANKED)
    return found.with_columns(ranks)


def _factors(scores: pl.DataFrame) -> list[str]:
    """The columns of a score table that describe items, and whether it is a variant."""
    own = [name for name in scores.columns if name not in COLUMNS and not name.startswith((BEGINNING, "rule_"))]
    return [name for name in own if name != ORIGINAL and not scores.schema[name].is_nested()]


def _turns(folder: Path, manifest: Manifest | None, model: str) -> pl.DataFrame | None:
    """Where each reply stands of the strategies that ask several requests; None where there are none."""
    assert manifest is not None
    several = {name for name, one in manifest.strategies.items() if one.turns != 1 or manifest.repeats > 1}
    if not several:
        return None
    found = Conversations(journal.journal_path(folder), model, several)
    rows = [(*asked, sample, turn, offset) for asked, sample, turn, offset in found.places()]
    schema = {
        **dict.fromkeys(("item", "strategy", "model"), pl.String),
        **{"sample": pl.Int64, "turn": pl.Int64, "offset": pl.UInt64},
    }
    return pl.DataFrame(rows, orient="row", schema=schema).sort("item", "strategy", "model", "sample", "turn")


def _about(table: pl.DataFrame, scores: pl.DataFrame, turns: bool) -> dict[str, Any]:
    """What the page says of all answers, and offers to filter by."""
    names = [name for name in table.columns if name.startswith("factor:")]
    offered = {name.removeprefix("factor:"): _values(table, name) for name in names}
    return {
        "answers": scores.height,
        "rows": table.height,
        "strategies": _values(table, "strategy")[:VALUES],
        "models": _values(table, "model")[:VALUES],
        "statuses": _values(table, "status")[:VALUES],
        "outcomes": _values(table, "outcome"),
        "chains": _values(table, "chain"),
        "factors": {name: values for name, values in offered.items() if _offered(values)},
        "turns": turns,
        "characters": int(table["reply"].str.len_bytes().sum() or 0),
    }


def _offered(values: Sequence[Sequence[Any]]) -> bool:
    """Whether a factor of these values can be a filter: there are several, and not too many or too long ones."""
    return 1 < len(values) <= VALUES and all(len(str(value)) <= LONGEST for value, _ in values)


def _values(table: pl.DataFrame, column: str) -> list[list[Any]]:
    """The values of a column with how often each comes, the names sorted."""
    found = table.group_by(column).len().drop_nulls().sort(column)
    return [list(row) for row in found.iter_rows()]
