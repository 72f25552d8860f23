r"""Samples of other tools in one form: prompt, reply, grade and the item that they make, with secrets masked.

A reader (`inspect_reader`, `lm_eval_files`, `csv_reader`) yields a `Sample` for each reply of a file, and `importer`
makes a run folder of them. A question whose choices the file holds becomes an item with these choices; any other is an
open item, which any text may answer.

>>> sample = Sample(id="7", task="sums", model="m", asked="Ann has 3 pens.\n\nHow many has she?", text="3", target="3")
>>> made = make_item(sample, "sums", "sums", {})
>>> made.id, made.story, made.question, made.answer, made.choices
('sums/7', ('Ann has 3 pens.',), 'How many has she?', '3', ())
>>> decide_grade(Grade("f1", value=0.25), threshold=0.2).correct
True
>>> parse_grade("match", "C").correct, parse_grade("match", "P").value
(True, 0.5)
"""

import abc
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson
import pydantic

from tomserve.content import digest, files
from tomserve.errors import ConfigError
from tomserve.items import Item, nfc, wrong_factor
from tomserve.items.item import LONGEST_FACTOR, LONGEST_LABEL, MOST_CHOICES, MOST_SENTENCES, MOST_TEXT, Factor
from tomserve.scoring.labels import Order, find_list_order, find_prompt_order
from tomserve.status import OK
from tomserve.variants import KINDS

MOST_REPEATS = 2**15
"""A question has fewer replies than this, as a score table numbers them."""

GRADES_PER_REPLY = 1000
"""A reply with more grades than this is left out, for the reason TOO_MANY_GRADES."""

TOO_MANY_GRADES = f"has more than {GRADES_PER_REPLY:,} grades"


@dataclass(frozen=True)
class Grade:
    """How another tool graded a reply."""

    by: str  # the name of its scorer or metric
    correct: bool | None = None  # None where it says only how good the reply is, or nothing
    answer: str | None = None  # what it read as the answer
    value: float | None = None  # usually from 0 to 1; where it is left out, 1 for right and 0 for wrong

    def __post_init__(self) -> None:
        if self.value is None and self.correct is not None:
            object.__setattr__(self, "value", float(self.correct))


def decide_grade(grade: Grade, threshold: float | None = None) -> Grade:
    """The grade with a number made right or wrong: right from the threshold on, and without one from 1 on. What is
    called right or wrong by a word stays so."""
    if grade.correct is not None or grade.value is None:
        return grade
    return replace(grade, correct=grade.value >= (RIGHT if threshold is None else threshold))


RIGHT = 1.0
"""From which number on a grade counts as right where the user names none."""


@dataclass(frozen=True)
class Sample:
    """One reply of another tool, as its file tells it."""

    id: str  # of the question, as the tool names it, the same for all replies to it
    task: str  # the name of the task
    model: str  # who answered
    asked: str  # all that the model was shown, messages below each other with an empty line between
    text: str | None  # the raw reply; None where none came
    target: str | None = None  # the right answer as the tool knows it
    choices: tuple[str, ...] = ()  # the labels that could be answered; empty where any text could
    given: str = ""  # the question as the task states it, where that is kept apart from the prompt made of it
    story: tuple[str, ...] = ()  # part of what was asked, where the file keeps it apart
    question: str = ""  # the other part
    repeat: int = 0  # which of several replies to the same question this is, from 0 (Inspect: epoch)
    strategy: str | None = None  # the way of asking, where the file names one
    item: str | None = None  # the id of an item of ours, where the file names one
    ours: bool = False  # whether it comes from tomserve, so that `id` is the id of its item
    unread: str | None = None  # why tomserve read no answer there; empty where it did, None where nothing says it
    status: str = OK  # one of tomserve.status
    error: str | None = None  # why there is no reply
    reasoning: str | None = None  # what a reasoning model thought before
    finish: str | None = None  # the server's reason for the end of the reply
    usage: Mapping[str, int] | None = None  # numbers of tokens, by the names of the OpenAI API
    seconds: float | None = None  # how long the reply took
    grade: Grade | None = None  # the one that counts
    grades: Mapping[str, Grade] = field(default_factory=dict)  # all grades by the name of the scorer
    facts: Mapping[str, Factor] = field(default_factory=dict)  # what the file knows of the question, for factors
    cluster: str | None = None  # which questions belong together (a document, a passage), where the file says so
    others: int = 0  # further replies to the question that share this grade, and are not kept
    place: str = ""  # where it stands, such as "line 12", for messages


class Origin(NamedTuple):
    """A file that was read: its name without a folder, its length in bytes, and the SHA-256 digest of its content."""

    name: str
    bytes: int
    digest: str


@dataclass(frozen=True)
class SourceAbout:
    """What a source says of itself."""

    tool: str  # inspect, lm-eval, csv or jsonl
    version: str | None = None
    created: str | None = None  # when the tool wrote it, as it says
    settings: Mapping[str, Any] = field(default_factory=dict)  # how the model was asked; never an address with a key


class LeftOut(dict[str, tuple[int, str]]):
    """What was not read: for each reason, in words, how many samples, and where the first of them stands."""

    def count(self, reason: str, place: str, number: int = 1) -> None:
        """Count samples that were not read. place: where the first of them stands."""
        before, first = self.get(reason, (0, place))
        self[reason] = (before + number, first)

    def __str__(self) -> str:
        return "; ".join(f"{reason}: {count:,} (first: {place})" for reason, (count, place) in self.items())


class Source(abc.ABC):
    """A file of another tool. What cannot be read of it is counted in `left_out`."""

    def __init__(self, path: Path) -> None:
        self.path, self.left_out = path, LeftOut()

    @abc.abstractmethod
    def about(self) -> SourceAbout:
        """What the source says of itself. Raises ConfigError where it cannot be read."""

    @abc.abstractmethod
    def samples(self) -> Iterator[Sample]:
        """Its replies, in the order of the file. Raises ConfigError where nothing of it can be read, naming file,
        place, what was found, what was expected and the way out."""

    def origin(self) -> Origin:
        """The file with its digest."""
        return Origin(self.path.name, *files.digest_file(self.path))

    def leave(self, reason: str, place: str) -> None:
        """Count a sample that cannot be read."""
        self.left_out.count(reason, f"{self.path.name}, {place}")


def open_source(path: Path) -> IO[bytes]:
    """The file, opened. Raises ConfigError where it cannot be, or is no regular file."""
    files.refuse_hole(path)
    try:
        return files.open_for_reading(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


NO_TARGET = "(no target given)"
"""The answer of an open item where the file names none."""

LEVELS = 100
"""What a file tells of questions is a factor by itself where it has two to so many values, and these recur. The largest
sets of subjects that are in use stay below: MMLU has 57, CMMLU 67."""

MOST_VALUES = 500
"""Of a fact with more values than this it is not noted whether they recur."""

LONGEST_VALUE = 100
"""Most characters of a value that may be a factor."""

LONGEST_ID = 300
"""Most characters of an item's id."""

MOST_FACTS = 1000
"""Of more kinds of facts than this the others are passed over."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_LETTER = re.compile(r"\(?([A-Z])\)?[.)]?")


def one_line(text: str, longest: int = LONGEST_LABEL) -> str:
    """The text on one line without control characters, cut where it is longer."""
    return " ".join(_CONTROL.sub(" ", text).split())[:longest].strip()


def item_id(prefix: str, sample: Sample) -> str:
    """The id of the item of a sample's question: what the tool calls the question, or what tomserve called it, where
    the sample comes from there. prefix: the beginning of the id elsewhere, none where it is empty. What does not fit
    into an id is taken out, and a digest of the whole name stands at its end."""
    whole = f"{prefix}/{sample.id}" if prefix and not sample.ours else sample.id
    fit = one_line(whole, LONGEST_ID)
    if fit == whole and fit:
        return fit
    return f"{fit[: LONGEST_ID - 9]}~{digest(whole.encode())[7:15]}"


_VARIANTS = tuple(f"/{kind.name}" for kind in KINDS)


def original_id(name: str) -> str | None:
    """The id of the question whose variant has that id, if a variant has it.

    >>> original_id("tea/1/choices"), original_id("tea/1")
    ('tea/1', None)
    """
    return name.rpartition("/")[0] if name.endswith(_VARIANTS) else None


def factor_name(name: str) -> str | None:
    """What a fact may be called as a factor; None where no name can be made of its own."""
    name = re.sub(r"[^\w.-]+", "_", name).strip("_")[:LONGEST_FACTOR]
    if name and wrong_factor(name) is not None:
        name = f"their_{name}"[:LONGEST_FACTOR]
    return name if name and wrong_factor(name) is None else None


def factor_value(value: object) -> Factor:
    """The value of a fact as that of a factor; None for what cannot be one."""
    if isinstance(value, str):
        value = one_line(value, LONGEST_VALUE + 1)
        return value if 0 < len(value) <= LONGEST_VALUE else None
    if isinstance(value, bool | float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    return None


def sample_record(item: Item, strategy: str, **more: Any) -> dict[str, Any]:
    """What is kept in another tool's file, so that an import finds item, cluster and factors again."""
    record = {"item": item.id, "strategy": strategy, "cluster": item.cluster, "factors": sorted(item.factors)}
    return {**record, **more}


def is_fact(value: Any) -> bool:
    """Whether a value of a file may be a fact: a single one."""
    return isinstance(value, str | bool | int | float)


def facts_of(told: Mapping[str, Any], factors: Any) -> dict[str, Factor]:
    """What a file tells of a question in single values. factors: the names of those that are factors, where a file of
    ours lists them."""
    listed = factors if isinstance(factors, list) else told
    return {name: value for name, value in told.items() if name and name in listed and is_fact(value)}


def as_text(value: Any) -> str | None:
    """The value if it is text that says something, else None."""
    return value if isinstance(value, str) and value else None


@dataclass
class Facts:
    """Which facts of a file become factors. wanted: their names as the user gave them, empty for all that have at most
    LEVELS values, which recur. always: those that become factors whatever their values.

    Questions are counted by their first reply, so that a fact of each question alone does not seem to recur where the
    question was asked several times."""

    wanted: Sequence[str] = ()
    always: Sequence[str] = ()
    _values: dict[str, Counter[Factor]] = field(default_factory=dict)
    _questions: set[str] = field(default_factory=set)

    def see(self, question: str, facts: Mapping[str, Factor]) -> None:
        """Note the facts of one reply, and their values where it is the first to its question."""
        first = question not in self._questions
        self._questions.add(question)
        for name, value in facts.items():
            if name not in self._values and len(self._values) >= MOST_FACTS and name not in self.wanted:
                continue
            seen = self._values.setdefault(name, Counter())
            if first and len(seen) <= MOST_VALUES and (known := factor_value(value)) is not None:
                seen[known] += 1

    def _recurs(self, name: str) -> bool:
        """Whether each value of a fact is told of two questions on average."""
        values = len(self._values[name])
        return 2 <= values <= MOST_VALUES and 2 * values <= self._values[name].total()

    def passed_over(self) -> list[str]:
        """The facts that recur, and are no factors only because they have more than LEVELS values."""
        many = (name for name, values in self._values.items() if len(values) > LEVELS and self._recurs(name))
        return [] if self.wanted else sorted(name for name in many if factor_name(name) and name not in self.always)

    def choose(self) -> dict[str, str]:
        """The factor by the name of its fact. Raises ConfigError for a wanted one that no sample has, or whose name
        cannot be that of a factor."""
        for name in self.wanted:
            if name not in self._values:
                known = ", ".join(sorted(self._values)) or "none"
                raise ConfigError(f"--factor {name!r:.80}: no sample tells it; the file tells: {known[:500]}")
            if factor_name(name) is None:
                raise ConfigError(f"--factor {name!r:.80}: a factor needs a letter or a digit in its name; rename it")
        few = (name for name, values in self._values.items() if len(values) <= LEVELS and self._recurs(name))
        found: dict[str, str] = {}
        for name in sorted({*(self.wanted or few), *(set(self.always) & set(self._values))}):
            factor = factor_name(name)
            if factor is not None and factor not in found.values():
                found[name] = factor
        return found


def make_item(sample: Sample, benchmark: str, prefix: str, factors: Mapping[str, str]) -> Item:
    """The item of a sample's question. benchmark: what it is called. prefix: the beginning of its id. factors: those of
    its facts that are factors, as Facts.choose gives them. Raises ConfigError where the question has no text at all."""
    story, question = _parts(sample)
    story = story if len(story) <= MOST_SENTENCES else ("\n".join(story),)
    choices, answer = _choices(sample)
    identity = item_id(prefix, sample)
    given = {
        "id": identity,
        "benchmark": benchmark,
        "story": story,
        "question": question,
        "factors": {factor: factor_value(sample.facts.get(name)) for name, factor in factors.items()},
        "cluster": (one_line(sample.cluster, LONGEST_ID) if sample.cluster else "")
        or _story_cluster(sample)
        or identity,
    }
    try:
        return Item.model_validate({**given, "choices": choices, "answer": answer})
    except pydantic.ValidationError:
        target = one_line(sample.target or "") or NO_TARGET
        return Item.model_validate({**given, "choices": (), "answer": target})


def _story_cluster(sample: Sample) -> str:
    """What questions about one story have in common, where the file tells it apart; empty elsewhere."""
    told = "\n".join(sample.story) if sample.question else ""
    return f"story/{digest(told.encode('utf-8', 'replace'))[7:19]}" if told else ""


def _parts(sample: Sample) -> tuple[tuple[str, ...], str]:
    """What is told and what is asked: as the file keeps them apart, else the last paragraph, line or sentence is the
    question, and the rest is the story."""
    if sample.question:
        return sample.story or (sample.question,), sample.question
    text = (sample.given or sample.asked).strip()
    if not text:
        raise ConfigError(
            f"{sample.place or sample.id}: the question has no text; expected what the model was asked, by --map "
            "asked=COLUMN or --map question=COLUMN"
        )
    for apart in (r"\n\s*\n", r"\n", r"(?<=[.!?])\s+"):
        parts = [part for one in re.split(apart, text) if (part := one.strip())]
        if len(parts) > 1:
            return tuple(parts[:-1]), parts[-1]
    return (text,), text


def _choices(sample: Sample) -> tuple[tuple[str, ...], str]:
    """The choices and the right one, in one line each; the target may name it by its letter."""
    choices = choice_labels(sample)
    return choices, resolve_letter(one_line(sample.target or ""), choice_order(sample, choices)) or ""


def choice_labels(sample: Sample) -> tuple[str, ...]:
    """The choices that the file names, in one line each; none where they are more than an item has."""
    taken = sum(min(len(one), LONGEST_LABEL) for one in sample.choices)
    few = len(sample.choices) <= MOST_CHOICES and taken <= MOST_TEXT
    return tuple(map(one_line, sample.choices)) if few else ()


def choice_order(sample: Sample, choices: Sequence[str]) -> Order:
    """These choices in the order in which the model was shown them as A, B, C: as the prompt shows it, else as the file
    lists them; empty where neither says it. Prompts of tomserve that show no letters have none."""
    return find_prompt_order(sample.asked, choices) or (() if sample.ours else find_list_order(sample.choices, choices))


def resolve_letter(answer: str | None, choices: Sequence[str | None]) -> str | None:
    """The choice that an answer names by its letter; the answer itself where it names none so, or is a choice.

    >>> [resolve_letter(answer, ("tea", "salt")) for answer in ("(B)", "tea", "C")]
    ['salt', 'tea', 'C']
    """
    letter = None if answer is None or answer in choices else _LETTER.fullmatch(answer.strip())
    place = ord(letter[1]) - ord("A") if letter else len(choices)
    named = choices[place] if place < len(choices) else None
    return answer if named is None else one_line(named)


class _Kept(NamedTuple):
    """Where a reply stands in the file of a ReplyBuffer, and a digest of its question."""

    offset: int
    text: bytes


class ReplyBuffer:
    """The replies of one task by one model, in the order in which they came. path: a file to write. Of two replies to
    the same question, repeat and way of asking the later one counts; `repeated` says how many were replaced."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._kept: dict[tuple[str, int, str | None], _Kept] = {}
        self._end = self.repeated = 0

    def add(self, sample: Sample) -> int:
        """Keep a reply, and return how many bytes that takes. Raises ConfigError where the one that it replaces answers
        another question, although both have the same id, and OSError where the disk is full."""
        line = _encode(sample)
        key, kept = (sample.id, sample.repeat, sample.strategy), _Kept(self._end, text_digest(sample))
        before = self._kept.get(key)
        if before is not None and before.text != kept.text:
            raise differing_text_error(sample, self._read(before).place)
        self.repeated += before is not None
        self._kept[key] = kept
        self._file.seek(self._end)
        self._file.write(line)
        self._end += len(line)
        return len(line)

    def drop_variants(self) -> tuple[int, str]:
        """Leave out the replies to variants, as `tomserve items --variants` names them, of questions that have replies
        here; returns how many there are, and where the first one stands."""
        ids = {key[0] for key in self._kept}
        gone = [key for key in self._kept if original_id(key[0]) in ids]
        place = self._read(self._kept[gone[0]]).place if gone else ""
        for key in gone:
            del self._kept[key]
        return len(gone), place

    def __iter__(self) -> Iterator[Sample]:
        return map(self._read, self._kept.values())

    def spread(self, count: int) -> Iterator[Sample]:
        """Some of the replies, about so many, spread over all."""
        return map(self._read, list(self._kept.values())[:: max(1, len(self._kept) // count)])

    def _read(self, kept: _Kept) -> Sample:
        self._file.seek(kept.offset)
        values = orjson.loads(self._file.readline())
        values |= {name: tuple(values[name]) for name in ("choices", "story")}
        values["grade"] = None if values["grade"] is None else Grade(**values["grade"])
        values["grades"] = {name: Grade(**one) for name, one in values["grades"].items()}
        return Sample(**values)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def text_digest(sample: Sample) -> bytes:
    """Says whether two replies are to the same question: a digest of the question as the task states it, of its choices
    in any order, and of the right one among them."""
    right = [one for one in sample.choices if one == sample.target]
    text = "\n".join((sample.given or sample.asked, *sorted(sample.choices), *right))
    return hashlib.blake2b(nfc(text).encode("utf-8", "replace"), digest_size=8).digest()


def differing_text_error(sample: Sample, before: str) -> ConfigError:
    """The error for two questions of one id that ask different things."""
    return ConfigError(
        f"{sample.place}: question {sample.id!r:.80} has another text, or other choices, than at {before}; give every "
        "question an id of its own, or bring the files one by one, each with --run NAME"
    )


def _encode(sample: Sample) -> bytes:
    """The sample as a line of JSON, in which half characters are signs, and numbers too long for it are texts."""
    try:
        return orjson.dumps(sample) + b"\n"
    except TypeError:
        return json.dumps(_plain(asdict(sample)), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"{value:.6g}" if abs(value) < 10**300 else "a number of more than 300 digits"
    return None if isinstance(value, float) and not math.isfinite(value) else value


_RIGHT, _WRONG = frozenset({"c", "correct", "yes", "true"}), frozenset({"i", "incorrect", "no", "false", "n"})
_PARTLY = frozenset({"p", "partial"})


def parse_grade(by: str, value: Any, answer: str | None = None) -> Grade:
    """The grade that a scorer's value is. A word or a truth value says whether the reply is right. A number says how
    good it is: from where on that is right is decided later (see `decide_grade`), because a scale may go from 0 to 1 or
    from 1 to 10. A value that cannot be read leaves open what it says."""
    if isinstance(value, bool):
        return Grade(by, value, answer)
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in _RIGHT or word in _WRONG:
            return Grade(by, word in _RIGHT, answer)
        if word in _PARTLY:
            return Grade(by, None, answer, 0.5)
    elif not isinstance(value, int | float):
        return Grade(by, None, answer)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return Grade(by, None, answer)
    return Grade(by, None, answer, number if math.isfinite(number) else None)
