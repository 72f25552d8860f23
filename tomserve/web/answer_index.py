"""The index of a run's answers, and pages of answers by filter and order that are read from it.

``answers.parquet`` has a row for each scored answer and the bytes at which the journal and the items hold its texts,
``turns.parquet`` a row for each reply of strategies that ask several requests, ``items.parquet`` the words of the
items.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import polars as pl

from tomserve.content import files
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
from tomserve.scoring.responses import ResponseFile
from tomserve.scoring.score import sample_of
from tomserve.scoring.table import COLUMNS
from tomserve.studies.answer_rows import ORIGINAL, is_answered
from tomserve.web import background
from tomserve.web.background import Result

ANSWERS, TURNS, ITEMS = "answers.parquet", "turns.parquet", "items.parquet"
SHOWN = 160  # characters of a reply that a list shows
SEARCHED = 4000  # characters of a reply that can be searched
VALUES = 60  # values that a factor may have to be offered as a filter
LONGEST = 100  # characters that such a value may have
_KEY_TYPES = {"item": pl.String, "strategy": pl.String, "model": pl.String, "sample": pl.Int64}
_CHUNK = 20_000


def answers(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the index of a run's answers. Returns what the page says of them all. options: none. Raises ConfigError
    where the run cannot be scored, and for a measured run, which has no answers."""
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
    table = _join_scores(rows, scores, items)
    turns = _turns(folder, Manifest.read(folder), replies.sources["model"])
    for name, written in ((ANSWERS, table), (ITEMS, items), (TURNS, turns)):
        if written is not None:
            written.write_parquet(out / name, row_group_size=_CHUNK, compression="lz4")
    return _about(table, scores, turns is not None)


def _replies(responses: ResponseFile, ids: Sequence[str]) -> Iterator[pl.DataFrame]:
    for rows in responses.sort_rows().iter_slices(_CHUNK):
        found: list[tuple[Any, ...]] = []
        for place, arm, offset, _ in rows.iter_rows():
            row = responses.row(place, arm, offset)
            text = row.get("text")
            said = text[:SEARCHED] if isinstance(text, str) else None
            found.append((ids[place], row["strategy"], str(row["model"]), sample_of(row), offset, said))
        schema = {**_KEY_TYPES, "offset": pl.UInt64, "reply": pl.String}
        yield pl.DataFrame(found, orient="row", schema=schema)


def _items(path: Path) -> pl.DataFrame:
    ids: list[str] = []
    bases: list[str | None] = []
    words: list[str] = []
    golds: list[str | None] = []
    offsets, offset = array("Q"), 0
    with files.open_for_reading(path) as file:
        for line in files.read_lines(file, path):
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


def _join_scores(rows: pl.DataFrame, scores: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
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
    found = rows.join(scored, on=list(_KEY_TYPES), how="left", maintain_order="left")
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
        .when(is_answered())
        .then(pl.lit("wrong"))
        .otherwise(pl.lit("none"))
    )
    return found.with_columns(outcome=outcome, chain=chain, place=pl.int_range(pl.len(), dtype=pl.UInt32))


def _factors(scores: pl.DataFrame) -> list[str]:
    own = [name for name in scores.columns if name not in COLUMNS and not name.startswith((BEGINNING, "rule_"))]
    return [name for name in own if name != ORIGINAL and not scores.schema[name].is_nested()]


def _turns(folder: Path, manifest: Manifest | None, model: str) -> pl.DataFrame | None:
    assert manifest is not None
    several = {name for name, one in manifest.strategies.items() if one.turns != 1 or manifest.repeats > 1}
    if not several:
        return None
    found = Conversations(journal.journal_path(folder), model, several)
    rows = [(*asked, sample, turn, offset) for asked, sample, turn, offset in found.places()]
    schema = {**_KEY_TYPES, "turn": pl.Int64, "offset": pl.UInt64}
    return pl.DataFrame(rows, orient="row", schema=schema).sort("item", "strategy", "model", "sample", "turn")


def _about(table: pl.DataFrame, scores: pl.DataFrame, turns: bool) -> dict[str, Any]:
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
        "factors": {
            name: values
            for name, values in offered.items()
            if 1 < len(values) <= VALUES and all(len(str(value)) <= LONGEST for value, _ in values)
        },
        "turns": turns,
        "characters": int(table["reply"].str.len_bytes().sum() or 0),
    }


def _values(table: pl.DataFrame, column: str) -> list[list[Any]]:
    """The values of a column with how often each comes, the names sorted."""
    found = table.group_by(column).len().drop_nulls().sort(column)
    return [list(row) for row in found.iter_rows()]


SIZE = 50  # answers on a page

MOST_SEARCHED = 200 << 20
"""Bytes of texts that are searched while somebody waits, which takes about a quarter of a second."""

SORTS = {name: name for name in ("strategy", "outcome", "status", "answer", "sample")}
SORTS |= {"item": "place", "break": "chain_break"}
"""What one can sort by, each with its column."""

_PLAIN = ("strategy", "model", "status", "outcome", "chain")
_LONGEST = 300  # characters that a filter may have
NONE = "(none)"  # what a filter says for rows without a value


@dataclass(frozen=True)
class Filters:
    """Which answers are wanted, and in which order.

    strategy, model, status: names, "" for all.
    """

    strategy: str = ""
    model: str = ""
    status: str = ""
    outcome: str = ""  # "right", "wrong", "none" (no answer could be read), "sample" (another one stands for it)
    chain: str = ""  # "proper", "broken", "unread" or "(none)"
    item: str = ""  # a part of the item's id
    text: str = ""  # words that the story, the question or the reply holds
    factors: tuple[tuple[str, str], ...] = ()  # values of design factors
    sort: str = "item"  # one of SORTS
    down: bool = False  # whether the other way round
    page: int = 1  # from 1

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Filters:
        """The filters of an address; what is no filter is passed over. Factors are called ``f.NAME``."""
        texts = {name: given.get(name, "")[:_LONGEST].strip() for name in (*_PLAIN, "item", "text")}
        factors = tuple(
            (name.removeprefix("f.")[:_LONGEST], value[:_LONGEST])
            for name, value in sorted(given.items())
            if name.startswith("f.") and value
        )
        page = given.get("page", "1")
        return cls(
            **texts,
            factors=factors[:50],
            sort=given.get("sort", "item") if given.get("sort") in SORTS else "item",
            down=given.get("down") == "1",
            page=min(max(int(page), 1), 10**7) if page.isascii() and page.isdigit() and len(page) < 9 else 1,
        )

    def query(self, **changes: Any) -> str:
        """The filters as the query of an address, without those that say nothing; changes: fields with other values."""
        new = replace(self, **changes)
        pairs = [(name, _text(new, name)) for name in (*_PLAIN, "item", "text")]
        pairs += [(f"f.{name}", value) for name, value in new.factors]
        pairs += [("sort", new.sort if new.sort != "item" else ""), ("down", "1" if new.down else "")]
        pairs += [("page", str(new.page) if new.page > 1 else "")]
        return urlencode([(name, value) for name, value in pairs if value])

    @property
    def chosen(self) -> int:
        """How many filters say something."""
        return sum(bool(_text(self, name)) for name in (*_PLAIN, "item", "text")) + len(self.factors)


def _text(filters: Filters, name: str) -> str:
    return str(vars(filters)[name])


@dataclass(frozen=True)
class Page:
    """A page of answers.

    page, pages: which of how many.
    """

    rows: tuple[Mapping[str, Any], ...]
    """The answers, each with the columns of the index and `shown`, the beginning of the reply."""
    total: int  # how many answers the filters leave
    page: int
    pages: int
    about: Mapping[str, Any] = field(default_factory=dict)  # what the index says of all (counts by value)
    unsearched: str = ""  # why the texts were not searched, "" where they were or nobody wanted it


def index_of(run: Path) -> Result | None:
    """The index of a run's answers; None while it is made."""
    return background.compute("answers", run)


def page_of(run: Path, filters: Filters) -> Page | None:
    """A page of the answers of a run; None while its index is made. run: its folder, which the register has found.
    Raises ConfigError where the run has no answers to page through."""
    if (index := index_of(run)) is None:
        return None
    if index.error:
        raise ConfigError(index.error)
    table = files.scan_parquet(index.folder / ANSWERS)
    places, unsearched = _places(table, filters, index)
    pages = max(1, -(-places.len() // SIZE))
    page = min(filters.page, pages)
    chosen = places.slice((page - 1) * SIZE, SIZE)
    rows = _rows(table, chosen.to_list())
    return Page(tuple(rows), places.len(), page, pages, index.facts, unsearched)


def neighbours(run: Path, filters: Filters, place: int) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The answers before and after the one at that place of the index, among those that the filters leave."""
    index = index_of(run)
    if index is None or index.error:
        return None, None
    table = files.scan_parquet(index.folder / ANSWERS)
    places, _ = _places(table, filters, index)
    at = (places == place).arg_true()
    if not at.len():
        return None, None
    here = int(at[0])
    near = [places[one] if 0 <= one < places.len() else None for one in (here - 1, here + 1)]
    found = {row["place"]: row for row in _rows(table, [one for one in near if one is not None])}
    before, after = (None if one is None else found[one] for one in near)
    return before, after


def _rows(table: pl.LazyFrame, places: Sequence[int]) -> Sequence[Mapping[str, Any]]:
    shown = pl.col("reply").str.slice(0, SHOWN).alias("shown")
    long = (pl.col("reply").str.len_chars() > SHOWN).alias("long")
    found = table.filter(pl.col("place").is_in(list(places))).with_columns(shown, long).drop("reply").collect()
    rows = {row["place"]: row for row in found.iter_rows(named=True)}
    return [rows[place] for place in places]


def _places(table: pl.LazyFrame, filters: Filters, index: Result) -> tuple[pl.Series, str]:
    """The places of the answers that the filters leave, in order, and why texts were not searched, if they were not."""
    frame, unsearched = _apply_filters(table, filters, index)
    found = frame.select(*dict.fromkeys(("place", SORTS[filters.sort])))
    if filters.sort != "item":
        found = found.sort(SORTS[filters.sort], descending=filters.down, nulls_last=True, maintain_order=True)
    elif filters.down:
        found = found.reverse()
    return found.collect()["place"], unsearched


def _apply_filters(frame: pl.LazyFrame, filters: Filters, index: Result) -> tuple[pl.LazyFrame, str]:
    """The rows that the filters leave, and why texts were not searched, if they were not."""
    known = set(frame.collect_schema().names())
    for name in _PLAIN:
        if value := _text(filters, name):
            frame = frame.filter(_is(name, value))
    for name, value in filters.factors:
        column = f"factor:{name}"
        frame = frame.filter(_is(column, value) if column in known else pl.lit(False))
    if filters.item:
        frame = frame.filter(_holds("item", filters.item))
    if not filters.text:
        return frame, ""
    items = files.scan_parquet(index.folder / ITEMS)
    size = int(index.facts.get("characters") or 0) + (index.folder / ITEMS).stat().st_size
    if size > MOST_SEARCHED:
        said = f"The texts of this run are too long to search ({size >> 20:,} MB). Item ids can be searched."
        return frame, said
    told = items.filter(_holds("words", filters.text)).select("item").collect()["item"]
    return frame.filter(_holds("reply", filters.text) | pl.col("item").is_in(told.implode())), ""


def _is(column: str, value: str) -> pl.Expr:
    return pl.col(column).is_null() if value == NONE else pl.col(column).cast(pl.String) == value


def _holds(column: str, words: str) -> pl.Expr:
    """Whether a column holds these words, whatever the case of their letters from a to z."""
    return pl.col(column).str.contains_any([words], ascii_case_insensitive=True).fill_null(False)


SEARCHES = f"Searches stories, questions and the first {SEARCHED:,} characters of each reply."
