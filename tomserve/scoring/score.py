"""Score responses: one row for each item, strategy and model, with the samples of a question combined into one
(self-consistency).
"""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import orjson
import polars as pl

from tomserve.content.files import one_line
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.rationale import Automaton
from tomserve.scoring import grades, metrics
from tomserve.scoring.answers import Reading, read_reply
from tomserve.scoring.grades import FIELD, PARSE_CHOICE, GraderChoices, grade_fields
from tomserve.scoring.labels import ASKED, LetteredChoices, choices_of
from tomserve.scoring.metrics import (
    NO_REPLY,
    PLAIN,
    STANDARD,
    Kind,
    Metric,
    Scoring,
    ScoringLookup,
    apply_baselines,
    columns_of,
    compute_metric,
)
from tomserve.scoring.thoughts import CUT
from tomserve.status import ANSWERS, INVALID, OK, REFUSAL, UNANSWERED, inert

COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("run", "model", "benchmark", "item", "cluster", "strategy"), pl.String),
    **columns_of(STANDARD),
    **{f"noise_{name}": pl.List(pl.Int64) for name in ("compared", "failed", "text", "answer", "chain", "correct")},
}
"""Columns of the score table before the design factors: what identifies a row, the standard metrics, and the columns of
the noise check, which begin with noise_. Each of these lists numbers of requests in flight at which the question was
asked again: noise_compared where a reply came, noise_failed where none came, and the others where the text, the answer,
the chain, or whether the answer is right differed from the scored reply. Where none did, they are null."""

PARTIAL: dict[str, Kind] = {"questions_given": pl.Int64}
"""The column that a score table has only where another tool's replies answer some of the questions: how many questions
there were to be answered, the same in every row."""

ITEM_COLUMNS = frozenset(("benchmark", "item", "cluster", *columns_of(metric for metric in STANDARD if metric.of_item)))
"""The columns whose values belong to the item, whatever was answered."""

_NOTHING: dict[str, Any] = {name: None for name in COLUMNS if name not in ITEM_COLUMNS}
_OF_REPLIES = tuple(metric.compute for metric in STANDARD if not metric.of_item)
_OF_ITEMS = tuple(metric.compute for metric in STANDARD if metric.of_item)


def score_row(
    run: str,
    model: str,
    item: Item,
    row: Mapping[str, Any],
    chain_asked: bool = False,
    others: Sequence[Automaton] = (),
    scoring: Scoring = PLAIN,
    *,
    reader: GraderChoices | None = None,
) -> dict[str, Any]:
    """The values of one row of the score table, without those of `item_fields` and `noise_fields`. row: the response,
    with `strategy`, `status` and `text`. chain_asked: whether the strategy asked for a chain; then a missing one scores
    0. others: the compiled rationales of other questions about the same story. reader: the choices of a model that has
    read what the rules could not. Raises ConfigError or ContentError where a metric of the benchmark fails."""
    reading = read_response(item, row, scoring.lettered)
    status = inert(row["status"])
    if reader is not None and is_unread(row, reading) and (choice := reader.choice(item, row)):
        reading = reading._replace(parse=PARSE_CHOICE, answer=choice, reason=None)
    grade = grades.grade_of(row) if row["status"] in ANSWERS else None
    if grade is not None and grade.counts:
        unread = reading.reason if grade.unread and reading.reason in _SILENT else grade.unread
        reason = unread or (None if grade.correct is not None else "not graded by the tool that asked")
        reading = reading._replace(parse=None if reason else grades.PARSE_GRADE, answer=grade.answer, reason=reason)
        status = INVALID if reason else status
    elif reading.answer is None and status == OK:
        status = INVALID
    reading = reading._replace(
        reason=reading.reason or row.get("error") or _refusal(row),
        status=status,
        text=row.get("text") or "",
        chain_asked=chain_asked,
        others=tuple(others),
    )
    scored: dict[str, Any] = {**_NOTHING, "run": run, "model": model, "strategy": row["strategy"]}
    for compute in _OF_REPLIES:
        scored.update(compute(item, reading))
    if grade is not None and grade.counts:
        scored["correct"] = bool(grade.correct)
    if scoring.metrics and row["status"] in ANSWERS:
        for metric in scoring.metrics:
            if not metric.of_item:
                scored.update(compute_metric(metric, item, reading))
    return scored


def _refusal(row: Mapping[str, Any]) -> str | None:
    """What a model said that declined, as the reason why there is no answer; None for other rows."""
    text = row.get("text") if row["status"] == REFUSAL else None
    if not isinstance(text, str) or not text.strip():
        return None
    return f"{DECLINED}{one_line(' '.join(text[: 2 * SAID].split())[:SAID])}"


def is_unread(row: Mapping[str, Any], reading: Reading) -> bool:
    """Whether a response is a whole reply in which the rules found no answer: what a model may then read. A reply to an
    open question is not, nor one whose grade by another tool counts."""
    if row["status"] != OK or reading.answer is not None or reading is OPEN:
        return False
    return (grade := grades.grade_of(row)) is None or not grade.counts


def read_response(item: Item, row: Mapping[str, Any], lettered: bool) -> Reading:
    """What the text of a response says; nothing where its status is that of a failure."""
    if row["status"] not in ANSWERS:
        return NO_REPLY
    if not item.choices:
        return OPEN
    text, whole = row.get("text") or "", row["status"] == OK
    blank = not whole and len(text) - len(text.rstrip()) >= MANY_BLANKS
    hidden = not whole and (row.get("usage") or {}).get("reasoning")  # thinking that the server counts and keeps back
    if (row.get("reasoning") or hidden) and not text.strip() and not blank:
        return Reading(None, None, ONLY_THOUGHTS if whole else CUT)
    choices = choices_of(item, row, lettered)
    found = read_reply(text, choices, len(item.story), item.question, whole)
    if blank and found.answer is None:
        found = found._replace(reason=BLANKS)
    return found._replace(offered=choices.offered) if isinstance(choices, LetteredChoices) else found


ONLY_THOUGHTS = "the reply has no text: the server put everything into its reasoning"
"""Why a whole reply says nothing: its tokens were spent on thinking, or the server's parser took the answer for a part
of it."""

BLANKS = "the reply was cut off in blanks without end"
"""Why a reply says nothing whose grammar lets the model write blanks instead of going on."""
MANY_BLANKS = 20  # so many at the end of a reply that was cut off are no layout

_SILENT = (CUT, ONLY_THOUGHTS, BLANKS)
"""Reasons that say more of a reply without a text than that it is empty."""

DECLINED = "the model declined: "
"""How the reason of a refusal begins that is told in the model's own words, and in no error of the server's."""
SAID = 160  # how many characters of these words are kept

OPEN = Reading(None, None, "an open question, which only the tool that asked it can read")
"""What our rules read of a reply to an open question: nothing."""


def noise_fields(
    item: Item, row: Mapping[str, Any], again: Sequence[tuple[int, Mapping[str, Any]]], lettered: bool = False
) -> dict[str, list[int]]:
    """The columns noise_: where replies to the same request differ from the response that is scored. again: these
    replies, each with the number of requests in flight; copies of an equal prompt's and replies to another request are
    left out."""
    if row["status"] not in ANSWERS:
        return {}
    reading = read_response(item, row, lettered)
    found: dict[str, list[int]] = {}
    for level, other in again:
        if other.get("key") != row.get("key") or other.get("reused"):
            continue
        if other["status"] not in ANSWERS:
            found.setdefault("noise_failed", []).append(level)
            continue
        second = read_response(item, other, lettered)
        changes = {
            "compared": True,
            "text": (other.get("text") or "") != (row.get("text") or ""),
            "answer": second.answer != reading.answer,
            "chain": second.chain != reading.chain,
            "correct": (second.answer == item.answer) != (reading.answer == item.answer),
        }
        for name, changed in changes.items():
            if changed:
                found.setdefault(f"noise_{name}", []).append(level)
    return found


def item_fields(item: Item, scoring: Scoring = PLAIN) -> dict[str, Any]:
    """The values of the columns that belong to the item, whatever was answered: its names, the floors, which shortcut
    baselines answer it right, its design factors, and what its benchmark adds."""
    fields: dict[str, Any] = {"benchmark": item.benchmark, "item": item.id, "cluster": item.cluster}
    for compute in _OF_ITEMS:
        fields.update(compute(item, NO_REPLY))
    fields.update(item.factors)
    for metric in scoring.metrics:
        if metric.of_item:
            fields.update(compute_metric(metric, item, NO_REPLY))
    fields.update(apply_baselines(scoring.rules, item))
    return fields


SAMPLED: dict[str, Kind] = {
    "sample": pl.Int64,
    "samples": pl.Int64,
    "samples_right": pl.Int64,
    "samples_read": pl.Int64,
    "correct_any": pl.Boolean,
    "correct_all": pl.Boolean,
    "correct_mean": pl.Float64,
}
"""Columns that a score table has only where a question was asked several times.

sample: the sample whose reply the row describes, from 0. samples: how many samples there are. samples_right: how many
of them are right. samples_read: how many hold an answer that could be read, or were graded by the tool that asked,
where its grade counts. correct_any, correct_all: whether any
sample, or every one, is right. correct_mean: the share of samples that are right; one without an answer is wrong."""

PEOPLE: dict[str, Kind] = {"people": pl.List(pl.String), "people_right": pl.List(pl.Int64)}
"""Columns that a score table has only where people answered, each of whom is one sample (see tomserve.humans).

people: the codes of those who answered the question. people_right: for each of them 1 where the answer is right, else
0. Both are null where nobody did."""

Row = Mapping[str, Any]


def sample_of(row: Row) -> int:
    """The number of the sample that a response is, from 0; 0 where it names none."""
    sample = row.get("sample")
    return sample if type(sample) is int else 0


def people_fields(records: Sequence[Row], rows: Sequence[Row]) -> dict[str, Any]:
    """The columns of PEOPLE for one question. records: its scored samples, each with `status` and `correct`. rows: the
    responses that they were made from, each with the `person` who gave it."""
    there = [
        (str(row["person"]), int(bool(record["correct"])))
        for record, row in zip(records, rows, strict=True)
        if row.get("person") is not None and record["status"] != UNANSWERED
    ]
    return {"people": [code for code, _ in there] or None, "people_right": [right for _, right in there] or None}


def choose_majority(records: Sequence[Row]) -> int:
    """The place of the record that stands for all samples of a question: the first with the answer that most of them
    give. Self-consistency (Wang et al., ICLR 2023, section 2, without weights): of equally frequent answers that of the
    lowest sample counts, and a sample without a readable answer does not vote. Where another tool graded the samples,
    and counts one as right without saying its answer, or says none, the marks vote instead."""
    given = [record["answer"] for record in records]
    marks = [bool(record["correct"]) if _is_grade_final(record) else None for record in records]
    silent = any(mark and answer is None for mark, answer in zip(marks, given, strict=True))
    voting: list[Any] = marks if silent or all(answer is None for answer in given) else given
    votes = Counter(vote for vote in voting if vote is not None)
    most = max(votes.values(), default=0)
    return next((place for place, vote in enumerate(voting) if votes[vote] == most), 0)


def _is_grade_final(record: Row) -> bool:
    """Whether the grade of the tool that asked is the score of a sample."""
    return record.get("parse") == grades.PARSE_GRADE


def sample_fields(records: Sequence[Row], samples: Sequence[int], chosen: int) -> dict[str, Any]:
    """The columns of SAMPLED for one question. records: its scored samples, each with `answer`, `correct` and `parse`.
    samples: the number of each. chosen: the place of the record that stands for all (see `choose_majority`)."""
    right = sum(bool(record["correct"]) for record in records)
    asked = sum(record.get("status") != UNANSWERED for record in records)  # what somebody left open counts nowhere
    return {
        "sample": samples[chosen],
        "samples": asked,
        "samples_right": right,
        "samples_read": sum(record["answer"] is not None or _is_grade_final(record) for record in records),
        "correct_any": right > 0,
        "correct_all": 0 < right == asked,
        "correct_mean": right / asked if asked else None,
    }


Answers = tuple[Item, Sequence[Mapping[str, Any]], Sequence[Automaton], Sequence[tuple[int, Mapping[str, Any]]]]
"""An item, its response (or the responses of its samples), the compiled rationales of other questions about its story,
and the replies that came when it was asked again, each with the number of requests in flight."""


@dataclass(frozen=True)
class TableSpec:
    """What a score table is made by: the run, how its replies are scored, and the columns besides the standard ones."""

    run: str
    chains: Collection[str]  # the strategies that ask for a chain of beliefs
    lettered: Collection[str]  # the strategies that show the choices as A, B, C
    rules: ScoringLookup  # what each benchmark adds
    factors: Mapping[str, Kind]  # the factors of the items
    items: Mapping[str, Kind]  # what their benchmarks compute once for each item
    replies: Mapping[str, Kind]  # and from each reply
    answers: Mapping[str, Kind]  # those of several samples, of people, and of another tool's grades
    reader: GraderChoices | None = None  # the choices of a model that has read what the rules could not
    original: metrics.Original | None = None  # gives the original of a variant, where some items are variants
    given: int | None = None  # how many questions there were, where another tool answered some of them

    @classmethod
    def of(
        cls,
        run: str,
        factors: Mapping[str, set[type]],
        benchmarks: Collection[str],
        rules: ScoringLookup,
        answers: Mapping[str, Kind],
        *,
        original: metrics.Original | None = None,
        given: int | None = None,
        **more: Any,
    ) -> TableSpec:
        """The spec for items with these factors (each with the types of its values) and these benchmarks. more: chains,
        lettered and reader. Raises ConfigError where a metric's column is also a factor, or where two metrics differ
        about a column's type."""
        added: list[Metric] = [metric for name in sorted(benchmarks) for metric in rules(name).metrics]
        columns_of(added)
        items, replies = (columns_of(one for one in added if one.of_item is whose) for whose in (True, False))
        items |= {rule.column: pl.Boolean for name in sorted(benchmarks) for rule in rules(name).rules}
        if clash := sorted(set(factors) & {*items, *replies}):
            raise ConfigError(f"items: factor {clash[0]!r} has the name of a column of their benchmark; rename it")
        if original is not None:
            items, replies = {**metrics.ORIGINAL_ITEM, **items}, {**metrics.ORIGINAL_REPLY, **replies}
        items |= PARTIAL if given is not None else {}
        kinds = {name: _kind(found) for name, found in factors.items()}
        own: dict[str, Any] = {"factors": kinds, "items": items, "replies": replies, "answers": answers}
        return cls(run=run, rules=rules, original=original, given=given, **own, **more)


def _kind(kinds: set[type]) -> type[pl.DataType]:
    """The type of a column for a factor whose values have these types; text where no other type holds them all."""
    kinds = kinds - {type(None)}
    if kinds == {bool}:
        return pl.Boolean
    if kinds == {int}:
        return pl.Int64
    return pl.Float64 if kinds and kinds <= {int, float} else pl.String


@contextlib.contextmanager
def pause_gc() -> Iterator[None]:
    """Switch the collector of reference cycles off for a while. Scored rows hold no cycles, and the collector would
    walk through all of them again and again, which takes a third of the time of scoring."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def build_frame(answered: Iterable[Answers], spec: TableSpec) -> pl.DataFrame:
    """The score table of items with their responses. Columns that belong to the item are half of all and most of the
    work, so they are computed once for each item."""
    places: dict[str, int] = {}
    fields: list[dict[str, Any]] = []
    place_of: list[int] = []
    records: list[dict[str, Any]] = []
    replies = _Replies(spec)
    for item, rows, others, again in answered:
        if item is not replies.item:
            replies.turn_to(item, others)
            place = places.setdefault(item.id, len(fields))
            if place == len(fields):
                scoring = replies.scoring(rows[0]["strategy"])
                fields.append({**item_fields(item, scoring), **dict.fromkeys(PARTIAL, spec.given)})
                if spec.original is not None:
                    fields[-1].update(metrics.original_item_fields(item, replies.original, scoring))
        place_of.append(place)
        scored = [replies.score(row) for row in rows]
        chosen = choose_majority(scored) if len(scored) > 1 else 0
        row, record = rows[chosen], scored[chosen]
        more: dict[str, Any] = {}  # never added to the record itself, which may stand for other replies
        if again:
            same = [(level, other) for level, other in again if sample_of(other) == sample_of(row)]
            more.update(noise_fields(item, row, same, replies.scoring(row["strategy"]).lettered))
        if spec.original is not None:
            more.update(metrics.original_reply_fields(item, replies.original, record["answer"]))
        if "sample" in spec.answers:
            more.update(sample_fields(scored, [sample_of(one) for one in rows], chosen))
            more.update(people_fields(scored, rows))
        if "graded_by" in spec.answers:
            more.update(grade_fields(row, rows))
        records.append({**record, **more} if more else record)
    own = {name: kind for name, kind in COLUMNS.items() if name in ITEM_COLUMNS} | {**spec.factors, **spec.items}
    per_item = _frame(([values.get(name) for values in fields] for name in own), own)
    rest = {name: kind for name, kind in COLUMNS.items() if name not in ITEM_COLUMNS}
    per_row = _frame(zip(*map(itemgetter(*rest), records), strict=True) if records else [()] * len(rest), rest)
    further = {**spec.answers, **spec.replies}
    computed = _frame(([record.get(name) for record in records] for name in further), further)
    per_item = per_item[pl.Series(place_of, dtype=pl.UInt32)]
    wide = pl.concat([per_row, computed, per_item], how="horizontal")
    return wide.select(*COLUMNS, *spec.answers, *spec.factors, *spec.items, *spec.replies)


_REPEATED = 4096  # how many replies are kept of one item, so that an item that is asked very often needs no more memory


class _Replies:
    """Scores replies to one item after the other; replies with the same text to the same item are scored once. item:
    the item whose replies are scored now. original: what it is a variant of, None for any other item, and where that is
    not at hand."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._scorings: dict[tuple[str, bool], Scoring] = {}
        self._known: dict[Any, dict[str, Any]] = {}
        self.item: Item | None = None
        self.original: Item | None = None
        self._others: Sequence[Automaton] = ()

    def turn_to(self, item: Item, others: Sequence[Automaton]) -> None:
        """From now on score replies to that item. others: as in score_row."""
        original = self._spec.original
        self.item, self._others = item, others
        self.original = original(item) if original is not None else None
        self._known.clear()

    def scoring(self, strategy: str) -> Scoring:
        """What the benchmark of the item adds, for replies to that strategy."""
        assert self.item is not None
        name, shown = self.item.benchmark, strategy in self._spec.lettered
        if (found := self._scorings.get((name, shown))) is None:
            found = self._spec.rules(name)
            found = replace(found, lettered=True) if shown and not found.lettered else found
            self._scorings[name, shown] = found
        return found

    def score(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The scored row of one reply to the item (see score_row)."""
        assert self.item is not None
        spec = self._spec
        strategy, text, error = row["strategy"], row.get("text"), row.get("error")
        odd = (text is not None and type(text) is not str) or (error is not None and type(error) is not str)
        if odd or FIELD in row or ASKED in row:
            key = None  # what may not be hashable; or the row has a grade, or an order of choices, of its own
        else:
            silent = bool(row.get("reasoning")) and not (text or "").strip()  # an empty text is read in another way
            key = (strategy, row["status"], text, error, silent)
            if (known := self._known.get(key)) is not None:
                return {**known, "model": row["model"]}
        found = score_row(
            spec.run,
            row["model"],
            self.item,
            row,
            strategy in spec.chains,
            self._others,
            self.scoring(strategy),
            reader=spec.reader,
        )
        if key is not None:
            if len(self._known) >= _REPEATED:
                self._known.clear()
            self._known[key] = found
        return found


def _frame(by_column: Iterable[Sequence[Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """A table of these columns, given as sequences in the order of `schema` (name -> Polars type)."""
    columns = {}
    for (name, kind), values in zip(schema.items(), by_column, strict=True):
        if isinstance(kind, pl.List):  # much quicker than a list of lists, and no label holds the separator
            joined = _join_entries(values, as_text=kind.inner == pl.String)
            columns[name] = pl.Series(name, joined, dtype=pl.String).str.split(_SEPARATOR).cast(kind)
        elif kind == pl.String and name not in COLUMNS:
            columns[name] = pl.Series(name, [_as_text(value) for value in values], dtype=kind)
        elif name in COLUMNS:
            columns[name] = pl.Series(name, values, dtype=kind)
        else:
            columns[name] = _series(name, values, kind)
    return pl.DataFrame(columns)


_SEPARATOR = "\x1f"


def _join_entries(values: Sequence[Any], as_text: bool) -> list[str | None]:
    """The entries of each list as one text, None for no list. as_text: whether the entries are texts."""
    if as_text:
        return [None if value is None else _SEPARATOR.join(value) for value in values]
    known: dict[tuple[Any, ...], str] = {}  # most lists of numbers are the same few
    found: list[str | None] = []
    for value in values:
        if value is None:
            found.append(None)
            continue
        if (text := known.get(key := tuple(value))) is None:
            text = known[key] = _SEPARATOR.join(map(str, value))
        found.append(text)
    return found


def _series(name: str, values: Sequence[Any], kind: Kind) -> pl.Series:
    """A column that a benchmark's metric or a factor fills. Raises ConfigError for a value that is not of its type."""
    try:
        return pl.Series(name, values, dtype=kind)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        types = sorted({type(value).__name__ for value in values if value is not None})
        raise ConfigError(f"score table: column {name!r} is {kind}; found values of type {', '.join(types)}") from None


def _as_text(value: Any) -> str | None:
    """The value of a factor whose values are of several types, as JSON writes it (true, 2, 0.5); a text is kept."""
    return value if value is None or type(value) is str else orjson.dumps(value).decode()
