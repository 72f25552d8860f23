"""Missing data of a score table: replies that could not be read, requests that failed, answers not asked for yet. Each
counts as wrong, so that whoever reads a number has to know it first.

>>> rows = {"strategy": "vanilla", "item": ["a", "b"], "status": ["ok", "invalid"], "answer": ["tea", None]}
>>> (gap,) = gaps_of_scores(pl.DataFrame(rows), None, "runs/mine")
>>> gap.unread_line()
'runs/mine: 1 of 2 replies could not be read; first: b by vanilla; see `tomserve runs runs/mine --unread`'
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tomserve.content import files
from tomserve.content.text import count_noun
from tomserve.engine.prompt_tokens import describe_truncation
from tomserve.engine.redact import LONGEST_ERROR
from tomserve.items import is_variant
from tomserve.runs.runfolder import ITEMS, read_manifest
from tomserve.scoring.grades import GRADE, PARSE_CHOICE, Agreement, compare_table, sum_agreements
from tomserve.scoring.responses import ItemFile, ResponseFile
from tomserve.scoring.score import PARTIAL, sample_of
from tomserve.scoring.table import MEASURED, TABLES
from tomserve.status import FINAL, KINDS, LONGEST, UNANSWERED, listed
from tomserve.studies import baselines
from tomserve.studies.answer_rows import (
    ORIGINAL,
    UNREADABLE,
    count_questions,
    has_variants,
    is_answered,
    is_unreadable,
    originals,
    with_columns,
)
from tomserve.studies.causes import Cause, find_causes, sum_causes
from tomserve.studies.study import measured_studies


def session_doubts(sessions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence on each thing that makes replies doubtful. sessions: those of a manifest that was checked."""
    noted: list[Mapping[str, Any]] = [session.get("doubts") or {} for session in sessions]
    cut = [one["cut"] for one in noted if one.get("cut")]
    if cut:
        yield describe_truncation(max(cut, key=lambda one: int(one["prompts"])))
    if strange := _sum_noted(noted, "strange"):
        named = ", ".join(f"{name!r} ({n:,})" for name, n in strange.most_common(KINDS))
        yield (
            f"{count_noun(strange.total(), 'reply', 'replies')} ended for a reason that is not known to "
            f"tomserve and count as whole texts: {named}; if it means that they were cut off or filtered, so may their "
            "answers be"
        )
    if providers := _sum_noted(noted, "providers"):
        named = ", ".join(f"{name} ({n:,})" for name, n in providers.most_common(KINDS))
        yield (
            f"the router had the questions answered by several providers: {named}; they may serve the model in "
            "different ways, so pin one by --extra-body"
        )


def _sum_noted(noted: Sequence[Mapping[str, Any]], field: str) -> Counter[str]:
    """How many replies of all sessions a field of their doubts counts, by the inert beginning of its names."""
    counts: Counter[str] = Counter()
    for one in noted:
        for name, count in (one.get(field) or {}).items():
            counts[files.one_line(name[:LONGEST])] += count
    return counts


def last_stop(manifest: Mapping[str, Any] | None) -> str:
    """Why a run that is not complete ended early, inert and in one line; empty where nothing was recorded."""
    why = manifest.get("stopped") if manifest is not None and not manifest.get("complete") else None
    return files.one_line(why[:LONGEST_ERROR]) if isinstance(why, str) else ""


# The share of unreadable replies above which `tomserve eval`, `score` and `analyze` end with exit code 1, as eval does
# after a failed request.
UNREAD_SHARE = 0.1
(SHELL_SAFE,) = PARTIAL  # The column that says how many questions there were, where another tool answered some of them
THEIR_GRADE = "the grade of the tool that asked"
LONGEST_REASON = 160  # How many characters of the reason why a reply could not be read are told at most


@dataclass(frozen=True, slots=True)
class Gaps:
    """What is lacking of one run, or of one score table."""

    source: str  # The run or file, for messages
    answered: int  # How many rows there are
    unread: int = 0  # How many of them are replies without an answer that could be read
    failed: Mapping[str, int] = field(default_factory=dict)  # How many of them are no reply, by status
    wanted: int | None = None  # How many rows there should be; None where nobody recorded it
    items: int = 0  # How many questions were chosen or, in a file, answered, without their variants
    expected: int | None = None  # How many questions there are; None where that is not known
    complete: bool | None = None  # Whether the run has asked everything it was to ask; None for a file
    first: str = ""  # The first reply that could not be read: its item, its strategy and the reason, safe to print
    source_argument: str = ""  # What `tomserve runs` takes to list these replies; the source where nothing is said
    by_model: int = 0  # How many answers no rule could read, and a model has read (see tomserve.scoring.grades)
    tool: str = ""  # Another tool that collected the replies
    agreement: Agreement = field(default_factory=Agreement)  # Of our reading with the tool's grades
    causes: tuple[Cause, ...] = ()  # Why replies hold no answer, or did not come, the most frequent cause first
    stopped: str = ""  # Why a run that is not complete ended early
    tokens: int | None = None  # How many tokens a reply might have, where that is known and the same for all
    doubts: tuple[str, ...] = ()  # What makes its replies doubtful (`session_doubts`), or its intervals

    @property
    def replies(self) -> int:
        """How many replies came, be they readable or not."""
        return self.answered - sum(self.failed.values())

    @property
    def missing(self) -> int:
        """How many answers have not been asked yet."""
        return max(0, (self.wanted or 0) - self.answered)

    @property
    def many_unread(self) -> bool:
        """Whether more than UNREAD_SHARE of the replies hold no answer that could be read."""
        return self.unread > UNREAD_SHARE * self.replies

    def unread_line(self) -> str:
        """One line on the replies that could not be read and the command that lists them; empty where every reply was
        read."""
        if not self.unread:
            return ""
        first = f"first: {self.first}; " if self.first else ""
        told = f"{self.unread:,} of {self.replies:,} replies could not be read"
        return f"{self.source}: {told}; {first}see {self._list_of('unread')}"

    def _list_of(self, what: str) -> str:
        return f"`tomserve runs {self.source_argument or shell_argument(self.source)} --{what}`"

    def cause_sentences(self) -> list[str]:
        """Why replies hold no answer, or did not come, each cause with its count and the way out."""
        return [one.sentence(self.replies, self.answered, self.tokens) for one in self.causes]

    def failure_sentences(self) -> list[str]:
        """Why requests failed, likewise."""
        return [said for one, said in zip(self.causes, self.cause_sentences(), strict=True) if not one.of_replies]

    def sentences(self) -> list[str]:
        """What a reader must know, in a few sentences with counts, shares and the way out; none where nothing is
        lacking."""
        differing = self.agreement.sentence(THEIR_GRADE, before=": ")
        parts = (
            self._answerless_clause(),
            *self.doubts,
            differing,
            self._reader_clause(),
            self._unasked_clause(),
            self._sample_clause(),
        )
        return [f"{self.source}{said}" for said in parts if said]

    def in_short(self) -> str:
        """The same in a few words, for a list of facts: "yes", or what is lacking."""
        failed = sum(self.failed.values())
        counts = ((self.missing, "not asked yet"), (self.unread, "unreadable"), (failed, "failed"))
        parts = [f"{count:,} {what}" for count, what in counts if count]
        if self.complete is False and not self.missing:
            parts.insert(0, "not finished")
        if self.expected and self.items < self.expected:
            file = f"{self.items:,} of {self.expected:,} questions answered"  # of another tool's replies, not of a run
            run = f"{self.items:,} of the benchmark's {self.expected:,} questions"
            parts.append(file if self.complete is None else run)
        return f"no: {', '.join(parts)}" if parts else "yes"

    def _answerless_clause(self) -> str:
        failed = sum(self.failed.values())
        parts = []
        if self.unread:
            parts.append(f"{_share_text(self.unread, self.answered, 'answers')} could not be read")
        if failed:
            whole = _share_text(failed, self.answered, "answers")
            counted = f"{failed:,} ({failed / self.answered:.1%})" if self.unread else whole
            parts.append(f"{counted} did not come ({listed(self.failed)})")
        if not parts:
            return ""
        named = zip(self.causes, self.cause_sentences(), strict=True)
        cause = next((f" {said}." for one, said in named if not one.plain), "")
        read = f" {self._list_of('unread' if self.unread else 'failed')} lists them."
        again = self._again("ask again for those that failed") if set(self.failed) - FINAL else ""
        return f": {', and '.join(parts)}; they count as wrong.{cause}{read}{again}"

    def _reader_clause(self) -> str:
        if not self.by_model:
            return ""
        return (
            f": {_share_text(self.by_model, self.answered, 'answers')} were read by a model, as no rule could read "
            "them (parse = reader). How far it agrees with the rules stands in the reader's record (reader.json)."
        )

    def _unasked_clause(self) -> str:
        if self.missing and self.complete is None:
            pairs = _share_text(self.missing, self.wanted or 0, "pairs of a question and a strategy")
            return f": {pairs} have no row; strategies are compared on the questions that both were asked."
        if self.missing:
            told = f"is incomplete: {_share_text(self.missing, self.wanted or 0, 'answers')} have not been asked yet"
        elif self.complete is False and not set(self.failed) - FINAL:
            told = "is incomplete: its record says that not everything was asked"
        else:
            return ""
        why = f" It ended early: {self.stopped.rstrip('.')}." if self.stopped else ""
        return f" {told}, and the results so far may not be representative.{why}{self._again('finish it')}"

    def _again(self, what: str) -> str:
        if self.tool:
            asked = f"{what[:1].upper()}{what[1:]} with the tool that collected the replies ({self.tool})"
            return f" {asked}, and import its new files as a new run."
        return f" Repeat {'its' if 'it' in what.split() else 'the'} eval command to {what}."

    def _sample_clause(self) -> str:
        if not self.expected or self.items >= self.expected:
            return ""
        if self.complete is None:
            return (
                f": {_share_text(self.items, self.expected, 'questions')} were answered. The others have no row and "
                "count nowhere: all results are of the answered ones alone, which may not be representative."
            )
        if self.tool:
            return (
                f" has replies to {_share_text(self.items, self.expected, 'questions')} of its benchmark; "
                "results on all of them may differ."
            )
        return (
            f" covers {_share_text(self.items, self.expected, 'questions')} of its benchmark (--limit); results "
            "on all of them may differ."
        )


def shell_argument(argument: str | Path) -> str:
    """An argument as a line that is shown may hold it, so that a shell takes the line as it stands."""
    return shlex.quote(files.one_line(str(argument)))


def _share_text(count: int, total: int, what: str) -> str:
    return f"{count:,} of {total:,} {what} ({count / total:.1%})"


def gaps_of_source(source: str | Path, scores: pl.DataFrame) -> list[Gaps]:
    """What is lacking of a file of a score table, by run, or of a run folder. Raises ConfigError where its manifest
    cannot be read."""
    folder = None if str(source).endswith(TABLES) else Path(source)
    return gaps_of_scores(scores, folder, str(source))


# The columns of a score table that tell what is lacking.
_READ = (
    "run",
    "model",
    "strategy",
    "benchmark",
    "item",
    "status",
    "parse",
    "reason",
    "answer",
    "correct",
    ORIGINAL,
    SHELL_SAFE,
    GRADE,
)


def _shared_stories(folder: Path, scores: pl.DataFrame) -> Iterator[str]:
    """A sentence on questions of a run about one story that are clusters of their own, as items are that name no
    cluster."""
    if not {"item", "cluster"} <= set(scores.columns):
        return
    alone = set(scores.filter(pl.col("cluster") == pl.col("item"))["item"])
    stories: Counter[int] = Counter()
    if len(alone) > 1 and (path := folder / ITEMS).exists():
        with files.open_for_reading(path) as file:  # checked where they were scored
            told = map(files.load_json, files.read_lines(file, path))
            stories.update(hash(tuple(item["story"])) for item in told if item["id"] in alone)
    shared = sum(count for count in stories.values() if count > 1)
    if shared:
        yield (
            f"{shared:,} of {count_noun(scores['item'].n_unique(), 'question')} tell the same story as others and name "
            "no `cluster`, so that intervals take them for independent and are too narrow; name one in the file of the "
            "items, and count by `tomserve score RUN --gold current --path FILE --out TABLE.csv`"
        )


def gaps_of_scores(scores: pl.DataFrame, folder: Path | None, source: str) -> list[Gaps]:
    """What is lacking of a score table, by run; nothing of a measured one. folder: of the run that it was made of, or
    None."""
    if folder is not None:
        manifest = read_manifest(folder) or {}
        return [_gaps(scores, source, manifest, folder)] if manifest.get("kind") != MEASURED else []
    return gaps_of_tables(source, [scores.lazy()])


def gaps_of_tables(source: str, tables: Iterable[pl.LazyFrame]) -> list[Gaps]:
    """What is lacking of score tables of different questions, by run; one table at a time is in memory."""
    found: dict[str, list[Gaps]] = {}
    for table in tables:
        schema = table.collect_schema()
        if measured_studies(pl.DataFrame(schema=schema)):
            continue
        scores = table.select(name for name in _READ if name in schema).collect(engine="streaming")
        parts = scores.partition_by("run", maintain_order=True) if "run" in scores.columns else [scores]
        for part in parts:
            run = str(part["run"][0]) if "run" in part.columns else ""
            found.setdefault(run, []).append(_gaps(part, source, None, None))
    return [
        replace(
            _sum(some),
            source=f"{source}, run {run}" if len(found) > 1 else source,
            source_argument=shell_argument(source),
        )
        for run, some in found.items()
    ]


def _sum(some: Sequence[Gaps]) -> Gaps:
    """What is lacking of several tables of different questions, together."""
    failed: Counter[str] = Counter()
    for one in some:
        failed.update(one.failed)
    wanted = [one.wanted for one in some if one.wanted is not None]
    return replace(
        some[0],
        answered=sum(one.answered for one in some),
        unread=sum(one.unread for one in some),
        failed=dict(sorted(failed.items())),
        wanted=sum(wanted) if len(wanted) == len(some) else None,
        items=sum(one.items for one in some),
        first=next((one.first for one in some if one.first), ""),
        agreement=sum_agreements([one.agreement for one in some]),
        by_model=sum(one.by_model for one in some),
        causes=sum_causes([one.causes for one in some]),
    )


def _gaps(scores: pl.DataFrame, source: str, manifest: Mapping[str, Any] | None, folder: Path | None) -> Gaps:
    types = {"status": pl.String, "answer": pl.String, "correct": pl.Boolean}
    failures = with_columns(scores.lazy(), types).filter(~is_answered()).group_by("status").len().collect()
    counts = Counter({str(status): int(count) for status, count in failures.iter_rows()})
    counts.pop(UNANSWERED, None)  # left open by a person, which is no failure and is counted nowhere
    unread = sum(counts.pop(status, 0) for status in UNREADABLE)
    every = count_questions(scores)
    items = count_questions(originals(scores)) if has_variants(scores) else every
    wanted, of, complete = None, None, None
    if manifest is not None and folder is not None:
        asked, own = _lines(folder / "items.jsonl")
        every, items = max(every, asked), max(items, own)
        strategies = manifest.get("strategies")
        wanted = every * len(strategies) if isinstance(strategies, dict) and strategies else None
        known = manifest.get("benchmark_items")
        asked_people = "people" in manifest  # who were asked what their plan says, and cannot be asked the rest
        of = known if isinstance(known, int) and known > 0 and not asked_people else None
        complete = bool(manifest.get("complete"))
    elif "strategy" in scores.columns:
        models = scores["model"].n_unique() if "model" in scores.columns else 1
        wanted = every * scores["strategy"].n_unique() if models == 1 else None
    if manifest is None and SHELL_SAFE in scores.columns:
        of = scores.select(pl.col(SHELL_SAFE).cast(pl.Int64, strict=False).max()).item()
    first = _first(scores) if unread else ""
    by_model = int((scores["parse"] == PARSE_CHOICE).sum()) if scores.schema.get("parse") == pl.String else 0
    foreign = (manifest or {}).get("foreign")
    tool = str(foreign.get("tool") or "the other tool")[:LONGEST_REASON] if isinstance(foreign, dict) else ""
    found = [*session_doubts((manifest or {}).get("sessions") or ())]
    if folder is not None and not foreign:  # the stories of other tools may be instructions
        found += _shared_stories(folder, scores)
    doubtful = tuple(f": {doubt}." for doubt in found)
    who = {"tool": files.one_line(tool), "by_model": by_model, "agreement": compare_table(scores), "doubts": doubtful}
    told: dict[str, Any] = {**who, "items": items, "expected": of, "complete": complete, "first": first}
    told |= {"causes": find_causes(scores) if counts or unread else (), "tokens": _tokens(manifest)}
    told["stopped"] = last_stop(manifest)
    return Gaps(source, scores.height, unread, dict(sorted(counts.items())), wanted, **told)


def _tokens(manifest: Mapping[str, Any] | None) -> int | None:
    """How many tokens a reply of a run might have; None where that differs between its strategies, or is not known."""
    strategies = (manifest or {}).get("strategies")
    found = {one.get("max_tokens") for one in strategies.values()} if isinstance(strategies, dict) else set()
    tokens = found.pop() if len(found) == 1 else None
    return tokens if type(tokens) is int else None


def _first(scores: pl.DataFrame) -> str:
    """The first reply of a score table that could not be read, in words; a table may come from anybody."""
    types = dict.fromkeys(("item", "strategy", "reason"), pl.String)
    rows = with_columns(scores.lazy(), {**types, "status": pl.String, "answer": pl.String, "correct": pl.Boolean})
    item, strategy, reason = rows.filter(is_unreadable()).select(*types).head(1).collect().row(0)
    said = f"{item} by {strategy}" + (f" ({reason[:LONGEST_REASON]})" if reason else "")
    return files.one_line(said)


def _lines(path: Path) -> tuple[int, int]:
    """How many lines that are not empty a file of items has, and how many of them are no variants; 0 where there is no
    file."""
    if not path.is_file():
        return 0, 0
    every = variants = 0
    with files.open_for_reading(path) as file:
        for line in files.read_lines(file, path):
            every += bool(line.strip())
            variants += is_variant(line)
    return every, every - variants


def agreement_lines(gaps: Sequence[Gaps]) -> list[str]:
    """In how many replies our reading and the grade of the tool that asked agree, for each source with such grades."""
    return [f"{gap.source}: {said}" for gap in gaps if (said := gap.agreement.line(THEIR_GRADE))]


def unread_lines(gaps: Sequence[Gaps]) -> list[str]:
    return [line for gap in gaps if (line := gap.unread_line())]


def gap_sentences(gaps: Sequence[Gaps]) -> list[str]:
    return [said for gap in gaps for said in gap.sentences()]


def with_unread(cells: pl.DataFrame, shares: pl.DataFrame, key: str) -> pl.DataFrame:
    """Cells for the terminal with a further column: the replies of each row that could not be read. shares: rows of
    accuracy with the column `key` and `unread`."""
    if "unread" not in shares.columns or not shares["unread"].sum():
        return cells
    return baselines.with_column(
        cells, shares.with_columns(pl.col("unread").fill_null(0)), key, "unread", "unread", str
    )


class UnreadReply(NamedTuple):
    """A reply that could not be read, or did not come, as a score table names it; sample: which of several to one
    question, from 0; text: None where only its score is at hand, or where there is none."""

    item: str
    strategy: str
    model: str
    status: str
    reason: str
    sample: int = 0
    text: str | None = None


class UnreadReplies(NamedTuple):
    """The first replies of a source that could not be read, how many there are, and how many replies came in all; or
    the first requests that failed, how many, of how many."""

    shown: list[UnreadReply]
    unread: int
    replies: int


_NAMES = ("item", "strategy", "model", "status", "reason")
_TYPES = {**dict.fromkeys(_NAMES, pl.String), "sample": pl.Int64, "answer": pl.String, "correct": pl.Boolean}


def list_unread(
    scores: pl.DataFrame, count: int, known: ItemFile | None = None, found: ResponseFile | None = None
) -> UnreadReplies:
    """The first replies of a score table that could not be read, at most `count`, with their texts where the items and
    the responses are at hand."""
    listed = _list_rows(scores, count, is_unreadable(), is_answered() | is_unreadable())
    if known is None or found is None:
        return listed
    texts = dict(_texts(known, found, listed.shown))
    return listed._replace(shown=[one._replace(text=texts.get((*one[:3], one.sample))) for one in listed.shown])


def list_failed(scores: pl.DataFrame, count: int) -> UnreadReplies:
    """The first requests of a score table that failed, at most `count`; no question that a person left open."""
    asked = pl.col("status").fill_null("") != UNANSWERED
    return _list_rows(scores, count, ~is_answered() & ~is_unreadable() & asked, asked)


def _list_rows(scores: pl.DataFrame, count: int, wanted: pl.Expr, among: pl.Expr) -> UnreadReplies:
    rows = with_columns(scores.lazy(), _TYPES)
    table = rows.select(*_NAMES, "sample", wanted=wanted, among=among).collect()
    found = table.filter("wanted")
    empty: dict[str, Any] = {**dict.fromkeys(_NAMES, ""), "sample": 0}
    shown = [
        UnreadReply(**{name: empty[name] if value is None else value for name, value in row.items()})
        for row in found.head(count).select(*_NAMES, "sample").iter_rows(named=True)
    ]
    return UnreadReplies(shown, found.height, int(table["among"].sum()))


def _texts(
    known: ItemFile, found: ResponseFile, wanted: Sequence[UnreadReply]
) -> Iterator[tuple[tuple[str, str, str, int], str]]:
    """The texts of the replies to these items, each with its item, strategy, model and sample."""
    places = {place for one in wanted if (place := known.place(one.item)) is not None}
    for place, row in found.rows(places):
        yield (known.ids[place], row["strategy"], row["model"], sample_of(row)), row.get("text") or ""
