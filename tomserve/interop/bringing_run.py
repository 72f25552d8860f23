"""Prepares and writes one run of foreign replies: its items, its rows and a manifest that says where they come from.

The manifest is written last, so that a run that was interrupted is none, and the import is simply repeated. Bringing
the same files again changes nothing; a folder that holds anything else is refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from tomserve import benchmarks
from tomserve.content import digest
from tomserve.content.compact_index import FirstPlaces
from tomserve.errors import ConfigError
from tomserve.interop.bringing_kept import Arm, manifest_of, put, was_there
from tomserve.interop.bringing_match import Asked
from tomserve.interop.foreign import RIGHT, About, Origin, Sample, decided
from tomserve.interop.items_of import by_letter, factors_of, item_id, item_of, labels_of, one_line, order_of
from tomserve.interop.spool import Spool, other_text, text_digest
from tomserve.items import Item
from tomserve.items.files import write_chunks
from tomserve.runs.item_store import ItemStore
from tomserve.runs.manifest import LONGEST_NAME, Manifest
from tomserve.scoring.grades import Agreement
from tomserve.scoring.score import read_response
from tomserve.status import ANSWERS, LENGTH, MALFORMED, OK, REFUSAL, TIMEOUT, known
from tomserve.status import LONGEST as LONGEST_STATUS

STRATEGY = "imported"
"""The way of asking where neither the file nor the user names one."""


class Meant(NamedTuple):
    """What a run is to hold. task: what it is called. model: who answered. tasks: the tasks as the tool names them.
    about, origins: what the files say of themselves, and which they are. left_out: how many replies were not read, by
    reason. strategy: the way of asking where the file names none. counts: whose reading counts, None to decide. prefix:
    the beginning of the items' ids. threshold: from which number on a grade counts as right, None for 1. factors: which
    facts become which factors. grades, other_grades: what the grades are called that are taken, and those that are
    not. passed_over: the facts that are no factors because they have too many values."""

    task: str
    model: str
    tasks: tuple[str, ...]
    about: About
    origins: tuple[Origin, ...]
    left_out: Mapping[str, int]
    strategy: str | None
    counts: Literal["tomserve", "tool"] | None
    prefix: str
    threshold: float | None
    factors: Mapping[str, str]
    grades: tuple[str, ...] = ()
    other_grades: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()


@dataclass
class Made:
    """A run that was made. folder: of it. replies, items: how many it holds. benchmark: what its questions are of.
    matched: whether that is a benchmark of ours; nearly: in words, why it is none although most questions are of one.
    lost: replies to other questions than those of the benchmark, and where the first of them stands. counts: whose
    reading counts. grades, other_grades: what the grades are called that were taken, and those that were not.
    ungraded: replies whose grade should count and is missing. threshold: from which number on a grade counts as right,
    None for 1. between: grades that are a number other than 0 and 1; highest: the highest number.
    others: further replies that share the grade of one that is kept. cut, failed: replies that were cut off, or failed,
    and that the tool counts as right. differing: how many targets differ from our answers, and the first of these
    questions. factors: what questions can be split by; passed_over: facts that are no factors because they have too
    many values. repeated: replies that a later one to the same question replaced. empty: replies without a text.
    agreement: where our reading counts, how far it agrees with the tool's grade. fresh: whether it was made now,
    rather than found as it is."""

    folder: Path
    replies: int = 0
    items: int = 0
    benchmark: str = ""
    matched: bool = False
    nearly: str = ""
    lost: int = 0
    lost_first: str = ""
    counts: Literal["tomserve", "tool"] = "tool"
    grades: tuple[str, ...] = ()
    other_grades: tuple[str, ...] = ()
    ungraded: int = 0
    threshold: float | None = None
    between: int = 0
    highest: float = RIGHT
    others: int = 0
    cut: int = 0
    failed: int = 0
    differing: int = 0
    differs_first: str | None = None
    factors: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    repeated: int = 0
    empty: int = 0
    agreement: Agreement = field(default_factory=Agreement)
    fresh: bool = True


@dataclass
class Prepared:
    """A run that can be written. made: what it is. items: its questions. rows: the file that holds its rows. manifest:
    where it comes from."""

    made: Made
    items: ItemStore
    rows: Path
    manifest: Manifest

    def write(self) -> None:
        """Write the run, unless its folder holds just that. Raises ConfigError where it holds anything else,
        JournalError and MachineError where it cannot be written."""
        self.made.fresh = put(self.made.folder, self.items, self.rows, self.manifest)


def prepared(folder: Path, spool: Spool, meant: Meant, asked: Asked, scratch: Path) -> Prepared:
    """A run that is ready to be written, in an empty or new folder or one that holds just this run.

    folder: where. spool: its replies. meant: what else it is to hold. asked: whose questions were asked. scratch: a
    folder for temporary files. Raises ConfigError where the folder holds something else, where one id names different
    questions, and where nothing says whether any reply is right.
    """
    made = Made(folder, matched=asked.known is not None, nearly=asked.nearly, repeated=spool.repeated)
    made.threshold, made.grades, made.other_grades = meant.threshold, meant.grades, meant.other_grades
    made.benchmark = asked.known.name if asked.known is not None else _named(meant.task)
    made.counts = meant.counts or ("tomserve" if made.matched else "tool")
    items = _items(spool, meant, asked, made)
    rows = scratch / f"rows-{digest(str(folder).encode())[7:23]}.jsonl"
    writing = _Rows(spool, meant, asked, made)
    write_chunks(rows, writing.lines())
    if made.counts == "tool" and made.ungraded == made.replies:
        raise _ungraded(meant, made, items)
    manifest = manifest_of(meant, made, items, writing.arms, asked)
    was_there(folder, items, rows, manifest)  # what is wrong with the folder is said before any run is written
    return Prepared(made, items, rows, manifest)


class UngradedError(ConfigError):
    """Nothing says whether any reply of a run is right."""


def _ungraded(meant: Meant, made: Made, items: ItemStore) -> UngradedError:
    """The error for replies of which nothing says whether they are right."""
    where = ", ".join(one.name for one in meant.origins[:3]) or meant.task
    what = f"{where}: task {meant.task!r:.80}: no reply carries a grade that says whether it is right"
    mapped = meant.about.tool in ("csv", "jsonl")
    way = "name the column that says it by --map correct=COLUMN" if mapped else "have the tool grade the replies"
    if made.matched or all(item.choices for item in items):
        return UngradedError(f"{what}; {way}, or have tomserve read them by --counts tomserve")
    return UngradedError(
        f"{what}, and the questions are none that tomserve can read replies to; {way}, or name the questions' "
        "benchmark by --benchmark NAME"
    )


def _named(task: str) -> str:
    """What the questions of a task are called as a benchmark: never like one of ours, whose rules would score them."""
    slug = "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in task.lower()).split())[:80]
    slug = slug or "imported"
    return f"imported-{slug}" if slug in (*benchmarks.names(), benchmarks.ANYBODYS) else slug


def _items(spool: Spool, meant: Meant, asked: Asked, made: Made) -> ItemStore:
    """The items that were asked, sorted by their ids."""
    if asked.known is not None:
        wanted = set(asked.found)
        whole = asked.known.stock
        stock = whole.part([place for place, name in enumerate(whole.ids) if name in wanted])
    else:
        stock = ItemStore(_own(spool, meant, made))
        made.factors, made.passed_over = tuple(meant.factors.values()), meant.passed_over
    made.items = len(stock)
    ids = list(stock.ids)
    return stock.part(sorted(range(len(ids)), key=ids.__getitem__))


def _own(spool: Spool, meant: Meant, made: Made) -> Iterator[Item]:
    """An item for each question, as its first reply tells it. Raises ConfigError where another reply of the same way of
    asking tells it otherwise, and where our rules should read replies to an open question."""
    seen, asked, texts, firsts = FirstPlaces(), FirstPlaces(), bytearray(), array("I")
    for place, sample in enumerate(spool):
        name = item_id(meant.prefix, sample)
        if seen.add(name, place) == place:
            item = item_of(sample, made.benchmark, meant.prefix, factors_of(sample, meant.factors))
            if made.counts == "tomserve" and not item.choices:
                raise ConfigError(
                    f"--counts tomserve: {sample.place} has no choices that an answer could be read against; name them "
                    "by --map choices=COLUMN, or leave --counts out, so that the tool's grade counts"
                )
            yield item
        text = text_digest(sample)
        first = asked.add(f"{sample.strategy}\0{name}", len(firsts))
        if first == len(firsts):
            firsts.append(place)
            texts += text
        elif texts[first * len(text) : (first + 1) * len(text)] != text:
            raise other_text(sample, spool[firsts[first]])


class _Rows:
    """Makes the rows of a run, and counts in `made` what they are. arms: the ways of asking."""

    def __init__(self, spool: Spool, meant: Meant, asked: Asked, made: Made) -> None:
        self._spool, self._meant, self._asked, self._made = spool, meant, asked, made
        self.arms: dict[str, Arm] = {}

    def lines(self) -> Iterator[bytes]:
        """The rows, in the order in which the replies came."""
        for sample, item in self._named():
            yield orjson.dumps(self._row(sample, item)) + b"\n"

    def _named(self) -> Iterator[tuple[Sample, str]]:
        """Each reply with the id of its item."""
        known, made, seen = self._asked.known, self._made, FirstPlaces()
        if known is None:
            yield from ((sample, item_id(self._meant.prefix, sample)) for sample in self._spool)
            return
        for sample, item in zip(self._spool, self._asked.found, strict=True):
            if item is None:
                made.lost += 1
                made.lost_first = made.lost_first or sample.place or sample.id
                continue
            made.repeated += f"{sample.strategy}\0{sample.repeat}\0{item}" in seen
            seen.add(f"{sample.strategy}\0{sample.repeat}\0{item}", 0)
            shown, ours = order_of(sample, known.choices[item]), known.answers[item]
            target = by_letter((sample.target or "").strip(), shown) or ""
            if len(target) > 1 and target.casefold() != ours.casefold():
                # so that nobody takes one benchmark's answers for another's
                made.differing += 1
                made.differs_first = made.differs_first or item
            yield sample, item

    def _row(self, sample: Sample, item: str) -> dict[str, Any]:
        made, tool, known = self._made, self._meant.about.tool, self._asked.known
        made.replies += 1
        made.others += sample.others
        strategy = _strategy(self._meant.strategy or sample.strategy)
        arm = self.arms.setdefault(strategy, Arm())
        shown = order_of(sample, labels_of(sample) if known is None else known.choices[item])
        arm.see(sample)
        graded = self._graded(sample, shown)
        status = _status(sample, graded)
        made.cut += status == LENGTH and graded is not None and graded["counts"] and graded["correct"] is True
        made.failed += status == OK and sample.status not in (OK, REFUSAL)
        row = {
            "schema": 1,
            "item": item,
            "strategy": strategy,
            "turn": 0,
            **({"sample": sample.repeat} if sample.repeat else {}),
            "key": digest(tool.encode(), sample.task.encode(), sample.id.encode(), sample.asked.encode())[7:39],
            "status": status,
            "text": sample.text or "" if status in ANSWERS else sample.text,
            "reasoning": sample.reasoning,
            "finish_reason": sample.finish,
            "usage": dict(sample.usage) if sample.usage else None,
            "error": sample.error if status == sample.status else sample.error or sample.status[:LONGEST_STATUS],
            "timings": {} if sample.seconds is None else {"total_s": sample.seconds},
            "attempts": 1,
            "endpoint": tool,
            "served_model": self._meant.model,
            "reused": False,
            "asked": sample.asked,
            "offered": list(shown),
            **({} if graded is None else {"graded": graded}),
        }
        self._compare(sample, row)
        return row

    def _compare(self, sample: Sample, row: Mapping[str, Any]) -> None:
        """Note whether our reading, where it counts, is that of the tool's grade."""
        known, graded = self._asked.known, row.get("graded")
        if graded is None or graded["counts"] or graded["correct"] is None or row["status"] not in ANSWERS:
            return
        name = row["item"]
        if known is not None:
            item = known.stock[known.places[name]]
        else:
            item = item_of(sample, self._made.benchmark, self._meant.prefix, {})
        answer = read_response(item, row, benchmarks.scoring_of(item.benchmark).lettered).answer
        self._made.agreement.see(name, answer, graded=graded["correct"], right=answer == item.answer)

    def _graded(self, sample: Sample, shown: Sequence[str | None]) -> dict[str, Any] | None:
        """The grade as a row keeps it; None where there is none that has to be there. An answer that is the letter of a
        choice is that choice. shown: the choices as they were shown. An empty reply that is not right has no answer."""
        made, grade = self._made, sample.grade
        counts = made.counts == "tool"
        if grade is not None and grade.correct is None and grade.value is not None:
            made.between += grade.value not in (0.0, RIGHT)
            made.highest = max(made.highest, grade.value)
            grade = decided(grade, self._meant.threshold)
        made.ungraded += counts and (grade is None or grade.correct is None)
        if grade is None:
            return {"by": "", "correct": None, "answer": None, "value": None, "counts": True} if counts else None
        empty = sample.text is not None and not sample.text.strip() and sample.status in ANSWERS
        empty = empty and grade.correct is not True
        made.empty += empty
        return {
            "by": one_line(grade.by, LONGEST_NAME),
            "correct": grade.correct,
            "answer": None if empty else by_letter(grade.answer, shown),
            "value": grade.value,
            "counts": counts,
            **({"unread": "the reply is empty"} if empty else {}),
        }


def _status(sample: Sample, graded: Mapping[str, Any] | None) -> str:
    """The status of a reply. One that the tool counts as right is an answer, even where a limit or a filter ended it or
    an error followed, so that as many are right as the tool says. Only a limit cuts a text off."""
    status = sample.status if known(sample.status) else MALFORMED
    if status in ANSWERS or graded is None or not graded["counts"] or graded["correct"] is not True:
        return status
    return LENGTH if status == TIMEOUT else OK


@lru_cache(maxsize=256)
def _strategy(name: str | None) -> str:
    """What the way of asking is called: as the manifest takes it, and never a path."""
    found = "".join(c for c in one_line(name or "", LONGEST_NAME) if c.isprintable()).replace("/", "-").strip()
    return STRATEGY if found in ("", ".", "..") else found
