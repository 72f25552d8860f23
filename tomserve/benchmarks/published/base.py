r"""What published benchmarks share: where files come from, fields and errors by place, option baselines, both checks.

>>> source = Source("demo", "somebody/demo", "data/demo.csv", "MIT", "1f2e3d4")
>>> source.differences([b"a;b"], known=["f9df9163"])
['this is not data/demo.csv of commit 1f2e3d4: 1 of 1 rows differs']
>>> split_sentences('Ivo came. "Is tea left?" he said.\nNobody knew.')
('Ivo came.', '"Is tea left?" he said.', 'Nobody knew.')
>>> item = Item(id="q", story=["Ivo left."], question="What does Ivo think of the tea?",
...             choices=["Ivo does not know.", "Ivo thinks that the tea is cold."], answer="Ivo does not know.")
>>> [rule.name for rule in RULES if rule.answer(item) == item.answer]
['shortest choice', 'denying choice', 'nearest the question']
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import json
import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import orjson
import polars as pl
from pydantic import ValidationError

from tomserve.benchmarks.base import Benchmark, Findings, Load, Say, outcome
from tomserve.content import files
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError, ContentError, nearest
from tomserve.items import Item
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import GENERIC, Baseline
from tomserve.scoring.metrics import Metric

NOTES = {
    "items": "Questions by part of the benchmark: how many, about how many stories, with how many choices, and what a "
    "blind guess among them has right.",
    "right": "Where the right answer stands in the order of choices, and which choice is right most often.",
    "rules": "The share of right answers of shortcut baselines, on the questions that each has an "
    "answer to; empty where those are fewer than one in twenty. Where a rule is above chance, so much of an accuracy "
    "needs no mind.",
    "doubles": "Questions that are asked twice in the same words, questions that are asked twice with different right "
    "answers, and stories that state the right answer in the question's words.",
}


def audit_items(
    items: Iterable[Item], parts: Sequence[str], rules: Iterable[Baseline] = (), said: Sequence[str] = ()
) -> Findings:
    """The audit of items: its tables, and lines about what is known to be wrong with them. items: all of them, of which
    one at a time is held. parts: the factors by which they are counted. rules: the benchmark's own, beside those that
    every benchmark has. said: further lines, such as that the file is not the known one. The exit code is 0: what is
    found is the benchmark's own affair, and belongs beside every figure."""
    every = (*GENERIC, *rules)
    found = defaultdict[tuple[str, ...], list[_Counted]](list)
    asked = defaultdict[int, set[int]](set)
    again = leaks = 0
    for item in items:
        answers = [rule.answer(item) for rule in every]
        hits = tuple(None if answer is None else answer == item.answer for answer in answers)
        place = item.choices.index(item.answer) + 1
        counted = _Counted(hash(item.story), item.cluster, len(item.choices), place, item.answer, hits)
        found[tuple(str(item.factors.get(name)) for name in parts)].append(counted)
        known = asked[hash((item.story, item.question, frozenset(item.choices)))]
        again += bool(known)
        known.add(hash(item.answer))
        told = " ".join(item.story).casefold()
        leaks += [choice for choice in item.choices if choice.casefold() in told] == [item.answer]
    groups = [(dict.fromkeys(parts, "all"), list(chain.from_iterable(found.values())))]
    if len(found) > 1:
        groups += [(dict(zip(parts, names, strict=True)), part) for names, part in sorted(found.items())]
    shares = (
        {rule.name: _share([one.hits[place] for one in part]) for place, rule in enumerate(every)} for _, part in groups
    )
    doubles = {
        "asked_twice": again,
        "two_answers": sum(len(answers) > 1 for answers in asked.values()),
        "only_the_answer_is_in_the_story": leaks,
    }
    tables = {
        "items": pl.DataFrame([{**named, **_count_questions(part)} for named, part in groups]),
        "right answers": pl.DataFrame([{**named, **_count_right(part)} for named, part in groups]),
        "rules": pl.DataFrame(
            [{**named, **share} for (named, _), share in zip(groups, shares, strict=True)], infer_schema_length=None
        ),
        "doubles and leaks": pl.DataFrame([doubles]),
    }
    return Findings(tables=tables, notes=dict(NOTES), lines=tuple(said))


class _Counted(NamedTuple):
    """What is counted of an item. hits: whether each rule is right; None where it says nothing."""

    story: int  # its hash
    cluster: str
    size: int
    place: int
    answer: str
    hits: tuple[bool | None, ...]


def _count_questions(part: Sequence[_Counted]) -> dict[str, object]:
    sizes = Counter(one.size for one in part)
    return {
        "questions": len(part),
        "stories": len({one.story for one in part}),
        "clusters": len({one.cluster for one in part}),
        "choices": ", ".join(f"{size}: {count:,}" for size, count in sorted(sizes.items())),
        "chance": round(sum(count / size for size, count in sizes.items()) / len(part), 3),
    }


def _count_right(part: Sequence[_Counted]) -> dict[str, object]:
    places, labels = Counter(one.place for one in part), Counter(one.answer for one in part)
    label, often = labels.most_common(1)[0]
    return {
        "places": " ".join(f"{place}: {count:,}" for place, count in sorted(places.items())),
        "most_often": label if len(label) <= 40 else f"{label[:37]}...",
        "share": round(often / len(part), 3),
        "answers": len(labels),
    }


def _share(hits: Sequence[bool | None]) -> float | None:
    """The share of hits among what a rule says; None for fewer than one in twenty, which say nothing of the part."""
    said = [hit for hit in hits if hit is not None]
    return round(sum(said) / len(said), 3) if len(said) >= max(1, len(hits) / 20) else None


DIGITS = 8
"""How many hexadecimal digits of a row's SHA-256 digest are kept: enough to tell a changed row, and no copy of it."""


@dataclass(frozen=True)
class Source:
    """Where a benchmark's file comes from. The digests of the known rows, in any order, stand in NAME.txt."""

    benchmark: str
    repository: str  # on GitHub, as owner/name
    file: str  # the path in it of the file or folder
    licence: str  # as its owners state it
    commit: str  # the commit whose file is known
    note: str = ""  # what a user must know to get the file, a whole sentence
    row: tuple[str, str] = ("row", "rows")  # what one row is called in messages, and what several are

    @property
    def words(self) -> str:
        """The file, its repository and its licence, in words."""
        return f"{self.file} of github.com/{self.repository} (licence: {self.licence})"

    def require_path(self, path: Path | None) -> Path:
        """The path, where something is there. Raises ConfigError that says where the file comes from."""
        more = f". {self.note}" if self.note else ""
        if path is None:
            raise ConfigError(
                f"benchmark {self.benchmark!r} needs its file, which tomserve does not hold: --path "
                f"{PurePosixPath(self.file).name}, which is {self.words}{more}"
            )
        path = path.expanduser()
        if not path.exists():
            raise ConfigError(f"{path}: is not there; expected {self.words}{more}")
        return path

    def place(self, path: Path, line: int | None = None) -> Place:
        """A place in a file, for what is wrong there."""
        return Place(self, path, line)

    def text(self, path: Path | None) -> str:
        """The text of the file. Raises ConfigError where it is missing, ContentError where it cannot be read."""
        path = self.require_path(path)
        try:
            text = files.read_own_text(path).removeprefix("\ufeff")
        except OSError as error:
            raise self.place(path).error(f"cannot be read ({error.strerror})") from None
        except UnicodeDecodeError as error:
            raise self.place(path).error(f"is no UTF-8 text ({error.reason})") from None
        if text.startswith("version https://git-lfs"):
            raise self.place(path).error("is only a pointer of Git LFS; fetch the file itself (git lfs pull)")
        return text

    def lines(self, path: Path | None) -> Iterator[tuple[Place, str]]:
        """The lines of the file that hold anything. Raises as `text`."""
        found = self.require_path(path)
        for number, line in enumerate(self.text(path).split("\n"), 1):
            if line.strip():
                yield self.place(found, number), line.rstrip("\r")

    def json(self, path: Path | None) -> Record:
        """The JSON object of the file. Raises as `text`, and ContentError for anything else."""
        return self.place(self.require_path(path)).json(self.text(path))

    def csv(self, path: Path | None, columns: Sequence[str], delimiter: str) -> Iterator[Record]:
        """The rows of the file with values by these columns, each on one line. Raises as `text`, and ContentError for
        what is no such row, or no row at all."""
        place = self.place(self.require_path(path))
        reader = csv.reader(io.StringIO(self.text(path), newline=""), delimiter=delimiter, strict=True)
        expected = f"{len(columns)} with {delimiter!r} between them: {', '.join(columns)}"
        try:
            for row in filter(None, reader):
                place = self.place(place.path, reader.line_num)
                if len(row) != len(columns):
                    raise place.error(f"has {len(row)} fields; expected {expected}")
                yield Record(place, dict(zip(columns, row, strict=True)))
        except csv.Error as error:
            reason = f"is not CSV with {delimiter!r} between fields ({error})"
            raise self.place(place.path, reader.line_num).error(reason) from None
        if place.line is None:
            raise place.error(f"holds no rows; expected fields, {expected}")

    def differences(
        self, rows: Iterable[bytes], *, whole: bool = True, known: Iterable[str] | None = None
    ) -> list[str]:
        """In a sentence how the rows at hand differ from the known ones; nothing where they do not, in whatever order.
        whole: whether all rows are expected; of a part, rows that are not there are no difference. known: the digests
        of the known rows, None for those of the benchmark."""
        found = Counter(map(row_digest, rows))
        expected = Counter(chain.from_iterable(read_digests(self.benchmark)) if known is None else known)
        changed, missing = (found - expected).total(), (expected - found).total() if whole else 0
        lost, many = missing - changed, self.row[1]
        said = [
            f"{changed:,} of {found.total():,} {many} {'differ' if changed != 1 else 'differs'}" if changed else "",
            f"{count_noun(lost, *self.row)} {'is' if lost == 1 else 'are'} missing" if lost > 0 else "",
        ]
        if not any(said):
            return []
        return [f"this is not {self.file} of commit {self.commit}: {' and '.join(filter(None, said))}"]


def row_digest(row: bytes) -> str:
    """The first DIGITS hexadecimal digits of a row's SHA-256 digest. row: its bytes as its benchmark defines them."""
    return hashlib.sha256(row).hexdigest()[:DIGITS]


def git_blob_name(content: bytes) -> str:
    """The name by which git knows a file of that content, as `git ls-tree` prints it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def read_digests(name: str) -> list[list[str]]:
    """The words of each line of NAME.txt, of which the first may say what the digests after it are of."""
    return [line.split() for line in files.read_own_text(Path(__file__).with_name(f"{name}.txt")).splitlines()]


class Place(NamedTuple):
    """Where something stands in a file."""

    source: Source
    path: Path
    line: int | None = None
    field: str = ""

    def at(self, *names: str | int) -> Place:
        """The place of a field within: "story.scene[0]"."""
        field = "".join(f"[{name}]" if isinstance(name, int) else f".{files.one_line(name[:60])}" for name in names)
        return self._replace(field=f"{self.field}{field}".removeprefix("."))

    def error(self, reason: str) -> ContentError:
        """The error for what is wrong here."""
        way_out = f"take {self.source.words} anew, or mend this"
        return ContentError(f"{reason}; {way_out}", path=self.path, line=self.line, field=self.field)

    def wrong(self, found: object, expected: str) -> ContentError:
        """The error for a value that is not as expected."""
        return self.error(f"is {found!r:.80}; expected {expected}")

    def item(self, **fields: Any) -> Item:
        """The item with these fields. Raises ContentError where they make none, such as for an option that is too long
        or holds a control character."""
        try:
            return Item(benchmark=self.source.benchmark, **fields)
        except ValidationError as error:
            wrong = error.errors()[0]
            what = ".".join(map(str, wrong["loc"])) or "item"
            raise self.error(f"makes no item ({what}: {' '.join(wrong['msg'].split()):.200})") from None

    def value(self, text: str, read: Callable[[str], Any] = files.load_json) -> Any:
        """What a text says in JSON. Raises ContentError for anything else."""
        try:
            return read(text)
        except json.JSONDecodeError as error:
            place = self if self.line else self._replace(line=error.lineno)
            raise place.error(f"is no JSON ({error.msg}, column {error.colno})") from None
        except RecursionError:
            raise self.error("is no JSON that can be read (values within too many others)") from None

    def json(self, text: str, read: Callable[[str], Any] = files.load_json) -> Record:
        """The JSON object of a text. Raises ContentError for anything else."""
        if not isinstance(data := self.value(text, read), dict) or not data:
            raise self.wrong(data, "a JSON object")
        return Record(self, data)


class Record(NamedTuple):
    """An object or row of a file: its place, and its fields, which are checked when they are taken. All of these
    functions raise ContentError with the place of a field that is not as expected."""

    place: Place
    data: Mapping[str, Any]

    def take(self, name: str, kind: type, expected: str) -> Any:
        """The value of a field, of that type and not empty."""
        value = self.data.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) or value in ("", {}, []):
            raise self.wrong(name, expected)
        return value

    def text(self, name: str, expected: str = "text") -> str:
        """The text of a field, without white space around it."""
        text = str(self.take(name, str, expected)).strip()
        if not text:
            raise self.wrong(name, expected)
        return text

    def line(self, name: str) -> str:
        """The text of a field, as it is; on one line."""
        text = str(self.take(name, str, "text on one line"))
        if not text.strip() or _CONTROL.search(text):
            raise self.wrong(name, "text on one line")
        return text

    def choice(self, name: str, known: Collection[str]) -> str:
        """The text or number of a field that is one of those known."""
        if (value := str(self.data.get(name)).strip()) not in known:
            raise self.wrong(name, f"one of {', '.join(known)}{nearest(value[:60], known)}")
        return value

    def object(self, name: str) -> Record:
        """The object of a field."""
        return Record(self.place.at(name), self.take(name, dict, "an object"))

    def objects(self, name: str) -> Iterator[Record]:
        """The objects of a field that is a list of them."""
        for number, value in enumerate(self.take(name, list, "a list of objects")):
            place = self.place.at(name, number)
            if not isinstance(value, dict):
                raise place.wrong(value, "an object")
            yield Record(place, value)

    def csv_bytes(self) -> bytes:
        """A row of CSV as its digest is taken of it: its fields with a line each, however the file quotes them."""
        return "\n".join(self.data.values()).encode()

    def wrong(self, name: str, expected: str) -> ContentError:
        """The error for a field that is not as expected."""
        return self.place.at(name).wrong(self.data.get(name), expected)


Differences = Callable[[Path | None], list[str]]
"""A function that says in sentences how the files at a path differ from the known ones."""


def published(
    source: Source,
    load: Load,
    differences: Differences,
    parts: Sequence[str],
    rules: Sequence[Baseline],
    *,
    remarks: Callable[[Path | None, Sequence[Item]], Iterable[str]] = lambda path, items: (),
    tables: Callable[[Sequence[Item]], Mapping[str, pl.DataFrame]] = lambda items: {},
    notes: Mapping[str, str] | None = None,
    **fields: Any,
) -> Benchmark:
    """The benchmark of a source, with the checks that all published ones share. load: as of every benchmark. parts: the
    factors by which the audit counts. rules: those of the benchmark. remarks: lines on what is known to be wrong with
    the items at a path; an empty line is none. tables, notes: further ones of the audit. fields: the other fields of
    the benchmark."""

    def validate(path: Path | None, say: Say) -> Findings:
        clusters = Counter(item.cluster for item in load(path, None))
        problems = differences(path)
        about = count_noun(len(clusters), *benchmark.draw.unit)
        told = f"{clusters.total():,} questions about {about}: {outcome(problems)}"
        known = () if problems else (f"This is {source.file} of commit {source.commit}.",)
        return Findings.of_problems(problems, told, *known, under_heading=True)

    def audit(path: Path | None, say: Say) -> Findings:
        if not (items := list(load(path, None))):
            raise source.place(source.require_path(path)).error("holds no questions")
        said = filter(None, (*differences(path), *remarks(path, items)))
        found = audit_items(items, parts, rules, tuple(said))
        return replace(found, tables={**found.tables, **tables(items)}, notes={**found.notes, **(notes or {})})

    given: dict[str, Any] = {"validate": validate, "audit": audit, "rules": tuple(rules), "terms": source.words}
    benchmark = Benchmark(source.benchmark, load, **(given | fields))
    return benchmark


def by_letter(is_right: Callable[[str, str], bool]) -> Metric:
    """The metric `metric_official` of questions whose options have letters: whether the authors' program, `is_right`,
    counts a reply in free text as right, of which it is given the text and the small letter of the right option."""

    def official(item: Item, reading: Reading) -> dict[str, bool | None]:
        if reading.text.strip().startswith("{"):
            return {}  # the authors ask for no form
        if item.answer not in (offered := reading.choice_order(item.choices)):
            return {}  # nothing says what the letters stood for
        return {"metric_official": is_right(reading.text, string.ascii_lowercase[offered.index(item.answer)])}

    return Metric({"metric_official": pl.Boolean}, official)


def count_wrong_labels(items: Iterable[Item], kinds: Sequence[str]) -> dict[str, pl.DataFrame]:
    """The table of labels that contradict something (factor label_agrees), counted by factors; none where none does."""
    wrong = Counter(
        tuple(item.factors[name] for name in kinds) for item in items if item.factors["label_agrees"] is False
    )
    rows = [{**dict(zip(kinds, key, strict=True)), "labels": count} for key, count in sorted(wrong.items(), key=str)]
    return {"labels": pl.DataFrame(rows)} if rows else {}


_CONTROL = re.compile(r"[\x00-\x1f]")
_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’]))\s+(?![a-z])")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'”’])\s+|\n+")


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, those of each line apart from those of the next."""
    return tuple(sentence for line in split_lines(text) for sentence in _END.split(line) if sentence)


def cut_sentences(text: str) -> list[str]:
    """The same, with white space as it is, and before small letters, too."""
    return [part for part in _SENTENCE.split(text.strip()) if part.strip()]


def split_lines(text: str) -> tuple[str, ...]:
    """The lines of a text that hold anything, with single spaces for white space."""
    return tuple(filter(None, (" ".join(line.split()) for line in text.splitlines())))


LONGEST_LIST = 20_000
"""Most characters of a list of texts that is read from a text."""


def read_texts(text: str) -> list[str]:
    """The texts of a list as Python or JSON writes it; nothing for any other text."""
    try:
        found = ast.literal_eval(text) if len(text) <= LONGEST_LIST else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else []


def digest_key(*parts: object) -> str:
    """Twelve hexadecimal digits that follow from the parts, which are data that JSON can write."""
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:12]


def one_line(text: str) -> str:
    """The text with single spaces for white space."""
    return " ".join(text.split())


def number_again(ids: Counter[str], name: str) -> str:
    """An id for a name that may come again: then its count is added. ids: how often each name has come."""
    ids[name] += 1
    return name if ids[name] == 1 else f"{name}/{ids[name]}"


_WORD = re.compile(r"\w+")
_DENIAL = re.compile(r"\b(?:not|no|never|nothing|unaware|unable|unknown)\b|n['\u2019]t\b", re.I)


def highest_only(value: Callable[[Item, str], float]) -> Callable[[Item], str | None]:
    """The answer of a rule that gives the choice with the highest value; None where several have it."""

    def answer(item: Item) -> str | None:
        values = [value(item, choice) for choice in item.choices]
        best = max(values)
        return item.choices[values.index(best)] if values.count(best) == 1 else None

    return answer


def is_negated(choice: str) -> bool:
    """Whether a choice holds a word such as "not" or "unaware"."""
    return _DENIAL.search(choice) is not None


def lower_words(text: str) -> set[str]:
    """The words of a text in small letters."""
    return set(_WORD.findall(text.casefold()))


def _word_overlap(item: Item, choice: str) -> float:
    """The share of a choice's words that the question has, too."""
    return len(lower_words(choice) & lower_words(item.question)) / max(1, len(lower_words(choice)))


RULES = (
    Baseline("shortest choice", highest_only(lambda _, choice: -len(choice))),
    Baseline("longest choice", highest_only(lambda _, choice: len(choice))),
    Baseline("denying choice", highest_only(lambda _, choice: is_negated(choice))),
    Baseline("affirming choice", highest_only(lambda _, choice: not is_negated(choice))),
    Baseline("nearest the question", highest_only(_word_overlap)),
    Baseline("farthest from the question", highest_only(lambda item, choice: -_word_overlap(item, choice))),
)
