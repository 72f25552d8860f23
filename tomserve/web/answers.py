"""One answer of a run with all that belongs to it: its story with the gold chain, the prompts that were sent, every
reply, and how it was read.

>>> answer(Path("runs/example"), "C1/none/false_belief/belief/original", "cot").reply                   # doctest: +SKIP
'{"beliefs":...'
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from tomserve import benchmarks
from tomserve.content import files
from tomserve.content.paths import run_name
from tomserve.errors import ConfigError, NoSuchAnswerError, TomserveError
from tomserve.items import Item, nfc, read_line
from tomserve.prompting.strategy import Strategy
from tomserve.reporting.html.transcripts import MOST
from tomserve.runs import journal, runfolder
from tomserve.runs.conversations import replay_conversation
from tomserve.runs.manifest import AskedStrategy, Manifest
from tomserve.runs.runfolder import check_files
from tomserve.runs.verification import find_same_strategy, recorded_build
from tomserve.scoring.score import sample_of, score_row
from tomserve.status import OK, UNFINISHED
from tomserve.web.answer_index import ANSWERS, ITEMS, TURNS, index_of
from tomserve.web.background import Result
from tomserve.web.items import Sentence, sentences, stated_labels


@dataclass(frozen=True)
class Prompt:
    """What was sent for a turn."""

    turn: int
    messages: tuple[Mapping[str, str], ...]  # each with role and content
    body: str  # the JSON of the request
    proved: bool  # whether the key of the journal's row is that of this prompt, so that it is what was sent


def prompts_of(manifest: Manifest, item: Item, rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[Prompt, ...], str]:
    """The prompts of the rows of one conversation, and in words why they cannot be made, "" where they can. rows: of
    one item, strategy and sample. Raises TomserveError where the strategy's program makes a mistake."""
    if not rows:
        return (), "Nothing was sent."
    name, sample = str(rows[0].get("strategy")), sample_of(rows[0])
    if any(isinstance(row.get("person"), str) for row in rows):
        return (), "A person was asked, by a form."
    if manifest.foreign is not None:
        return (), "Another tool asked; what it sent is only known as far as the question and the story show it."
    asked = manifest.strategies.get(name)
    strategy = None if asked is None else _strategy(name, asked, manifest)
    if strategy is None:
        return (), (
            "There is no strategy of that name and content here any more, so that its prompt cannot be made again. "
            "The row of the journal holds its digest."
        )
    last = {row.get("turn") or 0: row for row in rows}
    made = replay_conversation(recorded_build(manifest), strategy, item, sample, last)[: len(last) + 1]
    prompts = []
    for one in made:
        body = orjson.loads(one.body)
        messages = tuple({name: str(part.get(name, "")) for name in ("role", "content")} for part in body["messages"])
        text = orjson.dumps(body, option=orjson.OPT_INDENT_2).decode()
        sent = last.get(one.identity.turn, {}).get("key") == one.key
        prompts.append(Prompt(one.identity.turn, messages, text, sent))
    return tuple(prompts), ""


_STRATEGIES: dict[tuple[object, ...], Strategy] = {}


def _strategy(name: str, asked: AskedStrategy, manifest: Manifest) -> Strategy | None:
    """As `find_same_strategy`; one that was found is kept, as its digest says that it is the same for ever."""
    known = (name, asked.digest, asked.max_tokens, manifest.preset, str(manifest.sampling))
    if (found := _STRATEGIES.get(known)) is None and (found := find_same_strategy(name, asked, manifest)) is not None:
        if len(_STRATEGIES) >= 64:
            _STRATEGIES.clear()
        _STRATEGIES[known] = found
    return found


Row = Mapping[str, Any]


class Reply(NamedTuple):
    """A row of a journal as a page shows it, of which it believes nothing: what has another type than it should have is
    left out."""

    sample: int
    turn: int
    status: str
    text: str | None
    reasoning: str
    conclusion: str | None
    error: str
    finished: str
    used: tuple[tuple[str, int], ...]  # counts of tokens by their names
    seconds: float | None  # how long the request took
    attempts: int
    reused: bool
    time: str

    @classmethod
    def of(cls, row: Row) -> Reply:
        """The row as a page shows it."""
        used, timings = row.get("usage"), row.get("timings")
        counts = used.items() if isinstance(used, dict) else ()
        total = timings.get("total_s") if isinstance(timings, dict) else None
        return cls(
            sample_of(row),
            _number(row.get("turn")) or 0,
            _text(row.get("status")) or OK,
            _text(row.get("text")),
            _text(row.get("reasoning")) or "",
            _text(row.get("conclusion")),
            _text(row.get("error")) or "",
            _text(row.get("finish_reason")) or "",
            tuple((str(name), count) for name, count in counts if type(count) is int),
            total if isinstance(total, int | float) else None,
            _number(row.get("attempts")) or 1,
            bool(row.get("reused")),
            _text(row.get("time")) or "",
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


@dataclass(frozen=True)
class Answer:
    """One answer.

    run, strategy, model, sample: whose it is.
    """

    run: str
    strategy: str
    model: str
    sample: int
    item: Item  # the question
    row: Row  # the line of the journal that counts
    score: Row  # how it was read and judged, by the columns of the score table
    place: int | None  # its place in the index, None without one
    replies: tuple[Row, ...]
    """All turns of all samples of the conversation, in order, the row itself alone where there is but one request."""
    sentences: tuple[Sentence, ...]  # the story with the chains
    beliefs: tuple[str, ...] = ()  # the headings of further columns
    beyond: tuple[str, ...] = ()  # what the chain says after the last sentence
    original: Item | None = None  # the item that this is a version of
    prompts: tuple[Prompt, ...] = ()  # what was sent, by turn
    untold: str = ""  # why it cannot be told what was sent
    others: tuple[Row, ...] = field(default=())  # other answers to the same item
    versions: tuple[Row, ...] = field(default=())  # answers of the same strategy to versions of it

    @property
    def reply(self) -> str | None:
        """The text that was scored."""
        return _text(self.row.get("text"))

    @property
    def shown(self) -> tuple[Reply, ...]:
        """All replies as a page shows them."""
        return tuple(Reply.of(row) for row in self.replies)


SCANNED = 64 << 20  # bytes of a journal that are read for an answer as long as there is no index of it
LONGEST = 500_000  # characters of a reply that is scored while somebody waits: several megabytes take half a minute
RELATED = 200  # answers to the same question, and to versions of it, that are named


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
        return _scan_journal(folder, run, manifest, (item, strategy, sample), index)
    wanted = pl.col("item") == item
    same = files.scan_parquet(index.folder / ANSWERS).filter(wanted).drop("reply").head(RELATED * 5).collect()
    found = same.filter((pl.col("strategy") == strategy) & _is("sample", sample) & _is("model", model))
    if sample is None and found.height > 1:
        found = found.sort(pl.col("score").is_null(), maintain_order=True)
    if not found.height:
        raise _none(run, item, strategy)
    row = found.row(0, named=True)
    question = _item(folder, int(row["item_offset"]))
    reply = _row_for_scoring(_journal_row(folder, int(row["offset"])), manifest)
    score = row if row["score"] is not None else _score_of(run, manifest, question, reply, row["model"])
    replies = _turns(folder, index, row) or (reply,)
    original = None
    if (base := question.base) is not None:
        at = files.scan_parquet(index.folder / ITEMS).filter(pl.col("item") == base).select("item_offset").collect()
        original = _item(folder, int(at.item(0, 0))) if at.height else None
    others = [one for one in same.iter_rows(named=True) if one["place"] != row["place"]]
    return _answer_of(
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
    table = files.scan_parquet(index.folder / ANSWERS)
    made = [pl.col(name) == item for name in ("base", "factor:base") if name in table.collect_schema().names()]
    found = table.filter(pl.any_horizontal(made)).select("item").head(1).collect()
    return found.item() if found.height else None


def _answer_of(found: Answer, folder: Path, manifest: Manifest, **more: Any) -> Answer:
    """The answer with all that is shown beside it. Raises ConfigError where a row is one that no page can show."""
    if any(map(files.is_deep, (found.row, *found.replies))):
        raise ConfigError("the answer's row in responses.jsonl lies too deep in lists and mappings to be shown")
    stated = stated_labels(found.score, found.score.get("stated"))
    beliefs, story = sentences(found.item, found.score, stated)
    own = [row for row in found.replies if sample_of(row) == found.sample]
    try:
        prompts, untold = prompts_of(manifest, found.item, own)
    except TomserveError as error:
        prompts, untold = (), f"The prompt cannot be made again: {error}"
    beyond = tuple(f"{number}: {label}" for number, label in stated.items() if number > len(found.item.story))
    return replace(found, sentences=story, beyond=beyond, beliefs=beliefs, prompts=prompts, untold=untold, **more)


def _is(column: str, value: Any) -> pl.Expr:
    return pl.lit(True) if value is None else pl.col(column) == value


def _none(run: str, item: str, strategy: str) -> NoSuchAnswerError:
    return NoSuchAnswerError(f"{run}: no answer to item {item[:200]!r} by strategy {strategy[:200]!r}")


def _scan_journal(
    folder: Path, run: str, manifest: Manifest, asked: tuple[str, str, int | None], index: Result | None
) -> Answer:
    item, strategy, sample = asked
    rows = [row for row in _rows(journal.journal_path(folder)) if _asks(row, item, strategy)]
    own = [row for row in rows if sample_of(row) == (sample or 0)]
    unclear = sample is None and len(own) < len(rows)  # which of the samples counts
    if not own or unclear:
        if unclear or (journal.has_journal(folder) and journal.file_size(folder / runfolder.JOURNAL) > SCANNED):
            why = index.error if index is not None else "the index of its answers is still being made; look again soon"
            raise NoSuchAnswerError(f"{run}: {why}")
        raise _none(run, item, strategy)
    path = folder / runfolder.ITEMS
    lines = ((number, line) for number, line in enumerate(_first_lines(path), 1) if line.strip())
    question = next((one for one in (read_line(path, *line) for line in lines) if one.id == item), None)
    if question is None:
        raise _none(run, item, strategy)
    last = {row.get("turn") or 0: row for row in own}
    counted = next((row for row in reversed(own) if "closes" in row), last[max(last)])
    reply = _row_for_scoring(counted, manifest)
    model = str(reply.get("model") or manifest.model)
    score = _score_of(run, manifest, question, reply, model)
    replies = tuple(last[turn] for turn in sorted(last))
    return _answer_of(
        Answer(run, strategy, model, sample or 0, question, reply, score, None, replies, ()), folder, manifest
    )


def _asks(row: Any, item: str, strategy: str) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("item"), str)
        and nfc(row["item"]) == item
        and row.get("strategy", "vanilla") == strategy
        and type(row.get("turn") or 0) is int
        and isinstance(row.get("status", ""), str)
    )


def _first_lines(path: Path) -> Iterator[bytes]:
    read = 0
    with files.open_for_reading(path) as file:
        for line in files.read_lines(file, path):
            read += len(line)
            if read > SCANNED:
                return
            yield line


def _rows(path: Path) -> Iterator[Any]:
    for line in _first_lines(path) if path.exists() else ():
        with contextlib.suppress(orjson.JSONDecodeError):
            yield orjson.loads(line)


def _item(folder: Path, offset: int) -> Item:
    path = folder / runfolder.ITEMS
    return read_line(path, 0, _line(path, offset).removeprefix(b"\xef\xbb\xbf"))


def _line(path: Path, offset: int) -> bytes:
    """The line of a file that begins at that offset. Raises ConfigError where the file was changed meanwhile."""
    with files.refuse_os_errors(path), files.open_for_reading(path) as file:
        file.seek(offset)
        return file.readline(files.LONGEST_LINE)


def _journal_row(folder: Path, offset: int) -> dict[str, Any]:
    try:
        return dict(orjson.loads(_line(journal.journal_path(folder), offset).removeprefix(b"\xef\xbb\xbf")))
    except orjson.JSONDecodeError:
        raise ConfigError("the journal was changed while it was read; look again") from None


def _row_for_scoring(found: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """A row as scoring takes it: with the text that its conversation came to, none of a conversation that is open."""
    row = {"strategy": "vanilla", **found, "status": found.get("status") or OK}
    strategy = manifest.strategies.get(row["strategy"])
    if "closes" in row:
        row["text"] = row.get("conclusion", row.get("text"))
    elif strategy is not None and strategy.turns != 1:
        row |= {"status": UNFINISHED, "text": None, "reasoning": None}
    return row


def _score_of(run: str, manifest: Manifest, item: Item, row: Row, model: str) -> dict[str, Any]:
    """How a reply is read, which the index does not say. Raises ConfigError for one that takes too long."""
    if (length := len(_text(row.get("text")) or "")) > LONGEST:
        raise ConfigError(
            f"this reply has {length:,} characters, too many to be scored while a page waits; responses.jsonl holds it"
        )
    strategy = manifest.strategies.get(str(row["strategy"]))
    rules = benchmarks.scoring_of(item.benchmark)
    rules = replace(rules, lettered=True) if strategy and strategy.lettered else rules
    found = score_row(run, model, item, row, bool(strategy and strategy.chain), (), rules)
    return {**found, "stated": found.get("chain"), "gold": item.answer}


def _turns(folder: Path, index: Result, row: Row) -> tuple[Row, ...]:
    if not index.facts.get("turns"):
        return ()
    keys = [pl.col(name) == row[name] for name in ("item", "strategy", "model")]
    places = files.scan_parquet(index.folder / TURNS).filter(*keys).head(MOST).collect()
    found: list[Row] = []
    for offset, sample, turn in places.select("offset", "sample", "turn").iter_rows():
        try:
            one = orjson.loads(_line(journal.journal_path(folder), offset))
        except orjson.JSONDecodeError:
            continue
        found.append({**one, "sample": sample, "turn": turn})
    return tuple(found)


def _versions(index: Result, row: Row) -> tuple[Row, ...]:
    base = row["base"] or row["item"]
    same = (pl.col("base") == base) | (pl.col("item") == base)
    table = files.scan_parquet(index.folder / ANSWERS).drop("reply")
    wanted = table.filter(same & (pl.col("strategy") == row["strategy"]) & (pl.col("item") != row["item"]))
    return tuple(wanted.head(RELATED).collect().to_dicts())
