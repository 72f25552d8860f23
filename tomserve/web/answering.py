"""Reads one answer of a run with all that belongs to it: its story, what was sent, every reply, and how it was read.

>>> answer(Path("runs/example"), "C1/none/false_belief/belief/original", "cot").reply                   # doctest: +SKIP
'{"beliefs":...'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve import benchmarks
from tomserve.content import files
from tomserve.content.paths import run_name
from tomserve.errors import ConfigError, NoSuchAnswerError, TomserveError
from tomserve.items import Item, nfc, read_line
from tomserve.reporting.html.transcripts import MOST
from tomserve.runs import journal, runfolder
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import check_files
from tomserve.scoring.score import sample_of, score_row
from tomserve.status import OK, UNFINISHED
from tomserve.web.answerindex import ANSWERS, ITEMS, TURNS
from tomserve.web.browsing import index_of, opened
from tomserve.web.computing import Result
from tomserve.web.oneanswer import Answer, Row, story
from tomserve.web.prompts import prompts_of

SCANNED = 64 << 20
"""Bytes of a journal that are read for an answer as long as there is no index of it."""

RELATED = 200
"""Answers to the same question, and to versions of it, that are named."""


def answer(folder: Path, item: str, strategy: str, sample: int | None = None, model: str | None = None) -> Answer:
    """The answer to an item by a strategy.

    folder: the run's, which the register has found. sample: which one, None for the one that counts. model: None for
    the first. As long as the index is made, a journal of at most SCANNED bytes is read from its beginning. Raises
    NoSuchAnswerError where there is none, and ConfigError where a file of the run cannot be read.
    """
    run = run_name(folder)
    check_files(folder)
    manifest = Manifest.read(folder)
    if manifest is None:
        raise NoSuchAnswerError(f"{run}: nothing was answered yet")
    item = nfc(item)
    index = index_of(folder)
    if index is None or index.error:
        return _scanned(folder, run, manifest, (item, strategy, sample or 0), index)
    wanted = pl.col("item") == item
    same = opened(index.folder / ANSWERS).filter(wanted).drop("reply").head(RELATED * 5).collect()
    found = same.filter((pl.col("strategy") == strategy) & _is("sample", sample) & _is("model", model))
    if sample is None and found.height > 1:
        found = found.sort(pl.col("score").is_null(), maintain_order=True)
    if not found.height:
        raise _none(run, item, strategy)
    row = found.row(0, named=True)
    question = _item(folder, int(row["item_offset"]))
    line = _line(journal.journal_path(folder), int(row["offset"]))
    reply = _counted(line, manifest)
    score = row if row["score"] is not None else _scored(run, manifest, question, reply, row["model"])
    replies = _turns(folder, index, row) or (reply,)
    original = None
    if (base := question.base) is not None:
        at = opened(index.folder / ITEMS).filter(pl.col("item") == base).select("item_offset").collect()
        original = _item(folder, int(at.item(0, 0))) if at.height else None
    others = [one for one in same.iter_rows(named=True) if one["place"] != row["place"]]
    return _whole(
        Answer(run, strategy, row["model"], row["sample"], question, reply, score, row["place"], replies, ()),
        folder,
        manifest,
        original=original,
        others=tuple(others[:RELATED]),
        versions=_versions(index, row),
    )


def version_of(folder: Path, item: str) -> str | None:
    """The id of the first item of a run that was made from that one, or that one from it; None where there is none."""
    index = index_of(folder)
    if index is None or index.error:
        return None
    table = opened(index.folder / ANSWERS)
    made = [pl.col(name) == item for name in ("base", "factor:base") if name in table.collect_schema().names()]
    found = table.filter(pl.any_horizontal(made)).select("item").head(1).collect()
    return found.item() if found.height else None


def _whole(found: Answer, folder: Path, manifest: Manifest, **more: Any) -> Answer:
    sentences, beyond, beliefs = story(found.item, found.score)
    own = [row for row in found.replies if sample_of(row) == found.sample]
    try:
        prompts, untold = prompts_of(manifest, found.item, own)
    except TomserveError as error:
        prompts, untold = (), f"The prompt cannot be made again: {error}"
    shown: dict[str, Any] = {
        "sentences": sentences,
        "beyond": beyond,
        "beliefs": beliefs,
        "prompts": prompts,
        "untold": untold,
    }
    return replace(found, **shown, **more)


def _is(column: str, value: Any) -> pl.Expr:
    return pl.lit(True) if value is None else pl.col(column) == value


def _none(run: str, item: str, strategy: str) -> NoSuchAnswerError:
    return NoSuchAnswerError(f"{run}: no answer to item {item[:200]!r} by strategy {strategy[:200]!r}")


def _scanned(folder: Path, run: str, manifest: Manifest, asked: tuple[str, str, int], index: Result | None) -> Answer:
    """The same by reading the journal from its beginning, as far as that takes no long time."""
    item, strategy, sample = asked
    rows = [row for row in _rows(journal.journal_path(folder)) if _asks(row, item, strategy)]
    own = [row for row in rows if sample_of(row) == sample]
    if not own:
        if journal.has_journal(folder) and journal.file_size(folder / runfolder.JOURNAL) > SCANNED:
            why = index.error if index is not None else "the index of its answers is still being made; look again soon"
            raise NoSuchAnswerError(f"{run}: {why}")
        raise _none(run, item, strategy)
    question = next((one for one in _lines_of_items(folder / runfolder.ITEMS) if one.id == item), None)
    if question is None:
        raise _none(run, item, strategy)
    last = {row.get("turn") or 0: row for row in own}
    counted = next((row for row in reversed(own) if "closes" in row), last[max(last)])
    reply = _counted(orjson.dumps(counted), manifest)
    model = str(reply.get("model") or manifest.model)
    score = _scored(run, manifest, question, reply, model)
    replies = tuple(last[turn] for turn in sorted(last))
    return _whole(Answer(run, strategy, model, sample, question, reply, score, None, replies, ()), folder, manifest)


def _asks(row: Any, item: str, strategy: str) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("item"), str)
        and nfc(row["item"]) == item
        and row.get("strategy", "vanilla") == strategy
        and type(row.get("turn") or 0) is int
        and isinstance(row.get("status", ""), str)
    )


def _rows(path: Path) -> Iterator[Any]:
    """The lines of a journal that are JSON, as far as SCANNED bytes go."""
    if not path.exists():
        return
    read = 0
    with files.open_for_reading(path) as file:
        for line in files.read_lines(file, path):
            read += len(line)
            if read > SCANNED:
                return
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                continue


def _lines_of_items(path: Path) -> Iterator[Item]:
    read = 0
    with files.open_for_reading(path) as file:
        for number, line in enumerate(files.read_lines(file, path), 1):
            read += len(line)
            if read > SCANNED:
                return
            if line.strip():
                yield read_line(path, number, line)


def _item(folder: Path, offset: int) -> Item:
    path = folder / runfolder.ITEMS
    return read_line(path, 0, _line(path, offset).removeprefix(b"\xef\xbb\xbf"))


def _line(path: Path, offset: int) -> bytes:
    """The line of a file that begins at that offset. Raises ConfigError where the file was changed meanwhile."""
    try:
        with files.open_for_reading(path) as file:
            file.seek(offset)
            return file.readline(files.LONGEST_LINE)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _counted(line: bytes, manifest: Manifest) -> dict[str, Any]:
    """A row as scoring takes it: with the text that its conversation came to, none of a conversation that is open."""
    try:
        row = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        raise ConfigError("the journal was changed while it was read; look again") from None
    row.setdefault("strategy", "vanilla")
    row["status"] = row.get("status") or OK
    strategy = manifest.strategies.get(row["strategy"])
    if "closes" in row:
        row["text"] = row.get("conclusion", row.get("text"))
    elif strategy is not None and strategy.turns != 1:
        row |= {"status": UNFINISHED, "text": None, "reasoning": None}
    return dict(row)


def _scored(run: str, manifest: Manifest, item: Item, row: Row, model: str) -> dict[str, Any]:
    """How an answer is read, for one of which the score table has no row."""
    strategy = manifest.strategies.get(str(row["strategy"]))
    rules = replace(benchmarks.scoring_of(item.benchmark), lettered=bool(strategy and strategy.lettered))
    found = score_row(run, model, item, row, bool(strategy and strategy.chain), (), rules)
    return {**found, "stated": found.get("chain"), "gold": item.answer}


def _turns(folder: Path, index: Result, row: Row) -> tuple[Row, ...]:
    """All replies to the question, of each turn and sample the last."""
    if not index.facts.get("turns"):
        return ()
    keys = [pl.col(name) == row[name] for name in ("item", "strategy", "model")]
    places = opened(index.folder / TURNS).filter(*keys).head(MOST).collect()
    found: list[Row] = []
    for offset, sample, turn in places.select("offset", "sample", "turn").iter_rows():
        try:
            one = orjson.loads(_line(journal.journal_path(folder), offset))
        except orjson.JSONDecodeError:
            continue
        found.append({**one, "sample": sample, "turn": turn})
    return tuple(found)


def _versions(index: Result, row: Row) -> tuple[Row, ...]:
    """The answers of the same strategy to versions of the same question: its original, and what was made of that."""
    base = row["base"] or row["item"]
    same = (pl.col("base") == base) | (pl.col("item") == base)
    table = opened(index.folder / ANSWERS).drop("reply")
    wanted = table.filter(same & (pl.col("strategy") == row["strategy"]) & (pl.col("item") != row["item"]))
    return tuple(wanted.head(RELATED).collect().to_dicts())
