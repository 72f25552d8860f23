r"""What published benchmarks share: source and digests of files, items from rows, option baselines, the audit.

>>> source = Source("demo", "somebody/demo", "data/demo.csv", "MIT", "1f2e3d4", digests=("f9df9163",))
>>> source.differences([b"a;b"])
'this is not data/demo.csv of commit 1f2e3d4: 1 of 1 rows differs'
>>> split_sentences('Ivo came. "Is tea left?" he said.\nNobody knew.')
('Ivo came.', '"Is tea left?" he said.', 'Nobody knew.')
>>> item = Item(id="q", story=["Ivo left."], question="What does Ivo think of the tea?",
...             choices=["Ivo does not know.", "Ivo thinks that the tea is cold."], answer="Ivo does not know.")
>>> [rule.name for rule in RULES if rule.answer(item) == item.answer]
['shortest choice', 'denying choice', 'nearest the question']
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
import polars as pl
from pydantic import ValidationError

from tomserve.benchmarks.base import Findings
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item
from tomserve.scoring.baselines import GENERIC, Baseline

NOTES = {
    "items": "Questions by part of the benchmark: how many, about how many stories, with how many choices, and what a "
    "blind guess among them has right.",
    "right": "Where the right answer stands in the order of choices, and which choice is right most often.",
    "rules": "The share of right answers of rules that follow nobody's belief, on the questions that each has an "
    "answer to; empty where those are fewer than one in twenty. Where a rule is above chance, so much of an accuracy "
    "needs no mind.",
    "doubles": "Questions that are asked twice in the same words, questions that are asked twice with different right "
    "answers, and stories that state the right answer in the question's words.",
}


def audit_items(
    items: Iterable[Item], parts: Sequence[str], rules: Iterable[Baseline] = (), said: Sequence[str] = ()
) -> Findings:
    """The audit of items: its tables, and lines about what is known to be wrong with them.

    items: all of them, of which one at a time is held. parts: the factors by which they are counted. rules: the
    benchmark's own, beside those that every benchmark has. said: further lines, such as that the file is not the known
    one. The exit code is 0: what is found is the benchmark's own affair, and belongs beside every figure.
    """
    every = (*GENERIC, *rules)
    whole, found, doubles = _Part(), defaultdict[tuple[str, ...], _Part](_Part), _Doubles()
    for item in items:
        answers = {rule.name: rule.answer(item) for rule in every}
        for part in (whole, found[tuple(str(item.factors.get(name)) for name in parts)]):
            part.add(item, answers)
        doubles.add(item)
    groups = [(dict.fromkeys(parts, "all"), whole)]
    if len(found) > 1:
        groups += [(dict(zip(parts, names, strict=True)), part) for names, part in sorted(found.items())]
    names = [rule.name for rule in every]
    tables = {
        "items": pl.DataFrame([{**named, **part.counts()} for named, part in groups]),
        "right answers": pl.DataFrame([{**named, **part.right()} for named, part in groups]),
        "rules": pl.DataFrame(
            [{**named, **part.baseline_shares(names)} for named, part in groups], infer_schema_length=None
        ),
        "doubles and leaks": pl.DataFrame([doubles.counts()]),
    }
    return Findings(tables=tables, notes=NOTES, lines=tuple(said))


@dataclass
class _Part:
    """What is counted of the items of one part of the benchmark. Stories are known by their hashes."""

    stories: set[int] = field(default_factory=set)
    clusters: set[str] = field(default_factory=set)
    sizes: Counter[int] = field(default_factory=Counter)
    places: Counter[int] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)

    def add(self, item: Item, answers: dict[str, str | None]) -> None:
        self.stories.add(hash(item.story))
        self.clusters.add(item.cluster)
        self.sizes[len(item.choices)] += 1
        self.places[item.choices.index(item.answer) + 1] += 1
        self.labels[item.answer] += 1
        for name, given in answers.items():
            self.said[name] += given is not None
            self.hits[name] += given == item.answer

    def counts(self) -> dict[str, object]:
        total = self.sizes.total()
        return {
            "questions": total,
            "stories": len(self.stories),
            "clusters": len(self.clusters),
            "choices": ", ".join(f"{size}: {count:,}" for size, count in sorted(self.sizes.items())),
            "chance": round(sum(count / size for size, count in self.sizes.items()) / total, 3),
        }

    def right(self) -> dict[str, object]:
        label, often = self.labels.most_common(1)[0]
        return {
            "places": " ".join(f"{place}: {count:,}" for place, count in sorted(self.places.items())),
            "most_often": label if len(label) <= 40 else f"{label[:37]}...",
            "share": round(often / self.labels.total(), 3),
            "answers": len(self.labels),
        }

    def baseline_shares(self, names: Sequence[str]) -> dict[str, object]:
        least = max(1, self.sizes.total() / 20)  # a share of two questions in two hundred says nothing of the part
        return {
            name: round(self.hits[name] / self.said[name], 3) if self.said[name] >= least else None for name in names
        }


class _Doubles:
    """Questions that come again, known by their hashes, and stories that state the right answer alone."""

    def __init__(self) -> None:
        self.asked: dict[int, set[int]] = defaultdict(set)
        self.again = self.leaks = 0

    def add(self, item: Item) -> None:
        answers = self.asked[hash((item.story, item.question, frozenset(item.choices)))]
        self.again += bool(answers)
        answers.add(hash(item.answer))
        told = " ".join(item.story).casefold()
        if item.answer.casefold() in told:
            self.leaks += not any(choice.casefold() in told for choice in item.choices if choice != item.answer)

    def counts(self) -> dict[str, int]:
        return {
            "asked_twice": self.again,
            "two_answers": sum(len(answers) > 1 for answers in self.asked.values()),
            "only_the_answer_is_in_the_story": self.leaks,
        }


DIGITS = 8
"""How many hexadecimal digits of a row's SHA-256 digest are kept: enough to tell a changed row, and no copy of it."""


@dataclass(frozen=True)
class Source:
    """Where a benchmark's file comes from.

    benchmark: its name. repository: on GitHub, as owner/name. file: the path in it of the file or folder. licence: as
    its owners state it. commit: the commit whose file is known. digests: of each row of that file, in any order (see
    `row_digest`); empty where none are known. note: what a user must know to get the file, a whole sentence, or "".
    row: what one row is called in messages, and what several are.
    """

    benchmark: str
    repository: str
    file: str
    licence: str
    commit: str
    digests: tuple[str, ...] = ()
    note: str = ""
    row: tuple[str, str] = ("row", "rows")

    @property
    def words(self) -> str:
        """The file, its repository and its licence, in words."""
        return f"{self.file} of github.com/{self.repository} (licence: {self.licence})"

    def require_path(self, path: Path | None) -> Path:
        """The path, where something is there. Raises ConfigError that says where the file comes from."""
        name = PurePosixPath(self.file).name
        more = f". {self.note}" if self.note else ""
        if path is None:
            raise ConfigError(
                f"benchmark {self.benchmark!r} needs its file, which tomserve does not hold: --path {name}, which is "
                f"{self.words}{more}"
            )
        path = path.expanduser()
        if not path.exists():
            raise ConfigError(f"{path}: is not there; expected {self.words}{more}")
        return path

    def text(self, path: Path | None) -> str:
        """The text of the file. Raises ConfigError where it is missing, ContentError where it cannot be read."""
        path = self.require_path(path)
        try:
            return path.read_text("utf-8-sig")
        except OSError as error:
            raise ContentError(f"cannot be read ({error.strerror}); expected {self.words}", path=path) from None
        except UnicodeDecodeError as error:
            raise ContentError(f"is no UTF-8 text ({error.reason}); expected {self.words}", path=path) from None

    def differences(self, rows: Iterable[bytes], *, whole: bool = True) -> str | None:
        """In one sentence how the rows at hand differ from the known ones; None where they do not, in whatever order,
        and where none are known. whole: whether all rows are expected; of a part, rows that are not there are no
        difference."""
        if not self.digests:
            return None
        found, known = Counter(map(row_digest, rows)), Counter(self.digests)
        changed, missing = sum((found - known).values()), sum((known - found).values()) if whole else 0
        if not changed and not missing:
            return None
        (one, many), lost = self.row, missing - changed
        said = [
            f"{changed:,} of {found.total():,} {many} {'differ' if changed != 1 else 'differs'}" if changed else "",
            f"{lost:,} {one if lost == 1 else many} {'is' if lost == 1 else 'are'} missing" if lost > 0 else "",
        ]
        return f"this is not {self.file} of commit {self.commit}: {' and '.join(filter(None, said))}"


def row_digest(row: bytes) -> str:
    """The first DIGITS hexadecimal digits of a row's SHA-256 digest. row: its bytes as its benchmark defines them."""
    return hashlib.sha256(row).hexdigest()[:DIGITS]


def read_digests(name: str) -> tuple[str, ...]:
    """The digests in NAME.txt."""
    return tuple(digest for line in read_named_digests(name) for digest in line)


def read_named_digests(name: str) -> list[list[str]]:
    """The words of each line of NAME.txt, of which the first may say what the digests after it are of."""
    listed = (resources.files(__package__) / f"{name}.txt").read_text("ascii")
    return [line.split() for line in listed.splitlines()]


def validate_rows(source: Source, rows: Sequence[bytes], read: str, further: Sequence[str] = ()) -> Findings:
    """The finding that the rows are the known ones, or how they differ.

    rows: as `Source.differences` takes them. read: what was read, such as "600 questions". further: lines on what else
    is wrong. The exit code is 1 where anything is.
    """
    wrong = [line for line in (source.differences(rows), *further) if line]
    if wrong:
        return Findings(lines=(f"{read} can be read, but:", *wrong), code=1)
    return Findings(lines=(f"{read}: ok; this is {source.file} of commit {source.commit}, row for row.",))


def make_item(path: Path, line: int | None, place: str, **fields: Any) -> Item:
    """The item with these fields.

    path, line, place: the file, and the line and the field in it that the item is of. Raises ContentError with them
    where the fields make no item, such as where an option is too long or holds a control character.
    """
    try:
        return Item(**fields)
    except ValidationError as error:
        wrong = error.errors()[0]
        what = ".".join(map(str, wrong["loc"])) or "item"
        reason = f"makes no item ({what}: {wrong['msg']}); take the official file, or mend this"
        raise ContentError(reason, path=path, line=line, field=place) from None


_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’]))\s+(?![a-z])")


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, those of each line apart from those of the next."""
    return tuple(sentence for line in split_lines(text) for sentence in _END.split(line) if sentence)


def split_lines(text: str) -> tuple[str, ...]:
    """The lines of a text that hold anything, with single spaces for white space."""
    return tuple(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def digest_key(*parts: object) -> str:
    """Twelve hexadecimal digits that follow from the parts, which are data that JSON can write."""
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:12]


def shuffle_options(options: Sequence[str], seed: str) -> tuple[str, ...]:
    """The options in an order that follows from each of them and the seed alone, and not from which is right."""
    return tuple(sorted(options, key=lambda option: (digest_key(seed, option), option)))


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
