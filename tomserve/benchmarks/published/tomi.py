"""ToMi (Le, Boureau and Nickel 2019) and the fixed ToMi: where somebody looks for an object that may have been moved.

    tomserve eval --benchmark tomi --path tomi_balanced_story_types --where split=fb_all_test
    tomserve eval --benchmark tomi --path test_balanced.jsonl
    tomserve items tomi --path tomi_balanced_story_types --gold released

Six questions a story: where the object was at first (memory), where it really is (reality), and where two people look
for it (first order) and think that the other looks (second order). In 1,468 of 17,982 questions of the original file
the label of a second-order question is not what follows from the story: it is the place where the object really is.
In the fixed file this holds of 1 of 1,000 (a first-order question).

    >>> story = ("Ann entered the hall.", "Ben entered the hall.", "The key is in the box.", "Ben exited the hall.",
    ...          "Ann moved the key to the bag.")
    >>> question = ParsedQuestion.of("Where does Ann think that Ben searches for the key?")
    >>> ParsedStory.of(story, question.object).answer(question)
    'box'
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import orjson
import polars as pl
from pydantic import ValidationError

from tomserve.beliefs import Trace, Update, together
from tomserve.benchmarks.base import Benchmark, Findings, Say, outcome
from tomserve.benchmarks.published.base import Source, audit_items, read_named_digests, row_digest
from tomserve.errors import ContentError
from tomserve.items import Factor, Item
from tomserve.items.draw import Draw, seeded_order
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import Metric

STORY_TYPES = ("true_belief", "false_belief", "second_order_false_belief")
QUESTION_TYPES = (
    *("memory", "reality"),
    *(
        f"{order}_order_{person}_{tom}"
        for order in ("first", "second")
        for person in (0, 1)
        for tom in ("tom", "no_tom")
    ),
)
FIELDS = ("story", "question", "answer", "question_type", "story_type")
"""The fields of a JSON line that are used, all of them text."""

_LINE = re.compile(r"(\d{1,4}) (\S.*)")
_QUESTION = re.compile(r"([^\t]+\?)\t([^\t]+)\t(\d+)")


class Record(NamedTuple):
    """One question as a file has it.

    story: its lines without their numbers. question_type, story_type: the file's, of QUESTION_TYPES and STORY_TYPES.
    path, line: where it stands, so that an error can say so.
    """

    story: tuple[str, ...]
    question: str
    answer: str
    question_type: str
    story_type: str
    path: Path
    line: int

    def refuse(self, field: str, reason: str) -> ContentError:
        """The error for something that is wrong with the question."""
        return ContentError(
            f"{reason}; take the official file, or mend this", path=self.path, line=self.line, field=field
        )

    @property
    def row(self) -> bytes:
        """What the digest of the question is taken of: the same in all forms of the file."""
        return "\n".join((*self.story, *self[1:5])).encode()


def read_records(source: Source, path: Path | None) -> Iterator[Record]:
    """The questions of a file, or of all files of a folder, in their order.

    source: where the file comes from. path: the user's. Raises ConfigError where nothing is there, ContentError by
    file, line and field for what cannot be read.
    """
    found = source.require_path(path)
    if found.is_dir():
        texts = sorted(one for one in found.glob("*.txt") if one.with_suffix(".trace").exists())
        if not texts:
            raise ContentError(f"holds no .txt file with its .trace file; expected {source.words}", path=found)
        for text in texts:
            yield from _pair(source, text)
    elif found.suffix in (".jsonl", ".json"):
        yield from _lines(source, found)
    elif found.suffix == ".txt":
        yield from _pair(source, found)
    else:
        reason = (
            f"ends in {found.suffix or 'nothing'!r}; expected a .txt file with its .trace, a folder of them, or .jsonl"
        )
        raise ContentError(f"{reason}; unpack a .zip file first", path=found)


def _pair(source: Source, path: Path) -> Iterator[Record]:
    """The questions of a .txt file and the .trace file beside it."""
    traces = path.with_suffix(".trace")
    if not traces.exists():
        raise ContentError(f"is not there; expected beside {path.name}, as in {source.words}", path=traces)
    kinds = [line for line in source.text(traces).split("\n") if line.strip()]
    story: list[str] = []
    count = 0
    for number, line in enumerate(source.text(path).split("\n"), 1):
        if not line.strip():
            continue
        if (told := _LINE.fullmatch(line.rstrip("\r"))) is None:
            raise ContentError(f"is {line!r:.60}; expected a number, a space and a sentence", path=path, line=number)
        if told[1] == "1":
            story = []
        if int(told[1]) != len(story) + 1:
            reason = f"has the number {told[1]}; expected {len(story) + 1}, or 1 where a story begins"
            raise ContentError(reason, path=path, line=number)
        if "\t" not in told[2]:
            story.append(told[2])
            continue
        if (asked := _QUESTION.fullmatch(told[2])) is None:
            reason = f"is {told[2]!r:.80}; expected question?, answer and a number with tabs between them"
            raise ContentError(reason, path=path, line=number)
        if count == len(kinds):
            reason = f"has {count} lines, fewer than {path.name} has questions; take both from one place"
            raise ContentError(reason, path=traces)
        *_, question_type, story_type = ["", *kinds[count].strip().split(",")]
        count += 1
        _check_types(question_type, story_type, traces, count)
        yield Record(tuple(story), asked[1], asked[2], question_type, story_type, path, number)
        story = []
    if count != len(kinds):
        reason = f"has {len(kinds)} lines; {path.name} has {count} questions; take both from one place"
        raise ContentError(reason, path=traces)
    if story or not count:
        raise ContentError("ends without a question" if story else "holds no questions", path=path)


def _lines(source: Source, path: Path) -> Iterator[Record]:
    """The questions of a file of JSON lines."""
    count = 0
    for number, line in enumerate(source.text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ContentError(f"is no JSON ({error}); expected an object a line", path=path, line=number) from None
        if not isinstance(row, dict):
            raise ContentError(f"is {line!r:.60}; expected an object", path=path, line=number)
        for name in FIELDS:
            if not isinstance(row.get(name), str) or not row[name].strip():
                raise ContentError(f"is {row.get(name)!r:.60}; expected text", path=path, line=number, field=name)
        story, question, answer, question_type, story_type = (row[name].strip() for name in FIELDS)
        _check_types(question_type, story_type, path, number)
        told = tuple(re.sub(r"^\d{1,4} ", "", one.strip()) for one in story.split("\n") if one.strip())
        count += 1
        yield Record(told, question, answer, question_type, story_type, path, number)
    if not count:
        raise ContentError("holds no questions", path=path)


def _check_types(question_type: str, story_type: str, path: Path, line: int) -> None:
    for field, found, known in (
        ("question_type", question_type, QUESTION_TYPES),
        ("story_type", story_type, STORY_TYPES),
    ):
        if found not in known:
            raise ContentError(
                f"is {found!r:.60}; expected one of {', '.join(known)}", path=path, line=line, field=field
            )


QUESTIONS = {
    "memory": re.compile(r"Where was the (?P<object>\S+) at the beginning\?"),
    "reality": re.compile(r"Where is the (?P<object>\S+) really\?"),
    "first_order": re.compile(r"Where will (?P<a>\S+) look for the (?P<object>\S+)\?"),
    "second_order": re.compile(r"Where does (?P<a>\S+) think that (?P<b>\S+) searches for the (?P<object>\S+)\?"),
}
ORDERS = {"memory": 0, "reality": 0, "first_order": 1, "second_order": 2}
_GOES = re.compile(r"(\S+) (entered|exited) the (\S+?)\.?")
_IS = re.compile(r"(?!The )(\S+) is in the (\S+?)\.?")
_LIES = re.compile(r"The (\S+) is in the (\S+?)\.?")
_MOVES = re.compile(r"(\S+) moved the (\S+) to the (\S+?)\.?")


class ParsedQuestion(NamedTuple):
    """What a question asks: its task (a key of QUESTIONS), the object, and whose belief, the outermost person first."""

    task: str
    object: str
    people: tuple[str, ...]

    @classmethod
    def of(cls, question: str) -> ParsedQuestion:
        """The question's parts. Raises ValueError where it has none of the forms of QUESTIONS."""
        for task, form in QUESTIONS.items():
            if found := form.fullmatch(question):
                people = tuple(found[name] for name in ("a", "b") if name in form.groupindex)
                return cls(task, found["object"], people)
        raise ValueError(f"is {question!r:.80}; expected such as 'Where will Ann look for the key?'")


class ParsedStory(NamedTuple):
    """What a story tells of an object.

    places: its containers, in their order. trace: the updates of what people believe of it. roomed: whether the story
    says in which room these containers are.
    """

    places: tuple[str, ...]
    trace: Trace
    roomed: bool

    @classmethod
    def of(cls, story: Sequence[str], obj: str) -> ParsedStory:
        """Raises ValueError where the story does not say where the object is."""
        places: list[str] = []
        people: list[str] = []
        for line in story:
            if (found := _LIES.fullmatch(line)) and found[1] == obj:
                places.append(found[2])
            elif found := _MOVES.fullmatch(line):
                people.append(found[1])
                places += [found[3]] if found[2] == obj else []
            elif found := _GOES.fullmatch(line) or _IS.fullmatch(line):
                people.append(found[1])
        if not places:
            raise ValueError(f"does not say where the {obj} is")
        room, roomed = _room(story, obj, places)
        trace = Trace.of(len(story), people, lambda bits: _updates(story, obj, room, bits))
        return cls(tuple(dict.fromkeys(places)), trace, roomed)

    def answer(self, asked: ParsedQuestion) -> str | None:
        """The right answer; None where it does not follow, as for somebody who never learns of the object.

        Raises ValueError where the same person is asked about twice.
        """
        if asked.task == "memory":
            return self.places[0]
        found = self.trace.belief(asked.people)
        return found.labels[-1] if found.firm else None


def _room(story: Sequence[str], obj: str, places: Sequence[str]) -> tuple[str | None, bool]:
    """The room of the object, and whether the story states it: that of its containers, or else of whoever moves it."""
    rooms = {found[1]: found[2] for line in story if (found := _LIES.fullmatch(line)) and found[1] != obj}
    for place in places:
        if place in rooms:
            return rooms[place], True
    where: dict[str, str | None] = {}
    for line in story:
        _walk(line, where)
        if (found := _MOVES.fullmatch(line)) and found[2] == obj and found[1] in where:
            return where[found[1]], False
    return None, False


def _walk(line: str, where: dict[str, str | None]) -> str | None:
    """Note in `where` who is in which room after a line; the room that somebody came into by it, if any."""
    if found := _GOES.fullmatch(line):
        where[found[1]] = found[3] if found[2] == "entered" else None
    elif found := _IS.fullmatch(line):
        where[found[1]] = found[2]
    else:
        return None
    return where[found[1]]


def _updates(story: Sequence[str], obj: str, room: str | None, bits: Mapping[str, int]) -> Iterator[Update]:
    where: dict[str, str | None] = {}
    box = None
    for number, line in enumerate(story):
        entered = _walk(line, where)
        if (found := _LIES.fullmatch(line)) and found[1] == obj:
            box = found[2]
        elif (found := _MOVES.fullmatch(line)) and found[2] == obj:
            box = found[3]
        elif entered != room or box is None or entered is None:
            continue
        assert box is not None
        yield Update(number, (box,), together(sum(bits[name] for name, at in where.items() if at == room)))


@lru_cache(maxsize=256)
def _parse(story: tuple[str, ...], question: str) -> tuple[ParsedQuestion, ParsedStory] | None:
    try:
        asked = ParsedQuestion.of(question)
        return asked, ParsedStory.of(story, asked.object)
    except ValueError:
        return None


def _answer(item: Item, people: slice) -> str | None:
    """The answer to the same question about some of the people only; None where the item has another form."""
    if (found := _parse(item.story, item.question)) is None:
        return None
    asked, told = found
    label = told.answer(asked._replace(task="reality", people=asked.people[people]))
    return label if label in item.choices else None


def _one_of_two(item: Item, people: slice) -> str | None:
    """The same for questions about two people; None for others, of which it would be the very answer."""
    found = _parse(item.story, item.question)
    return _answer(item, people) if found is not None and len(found[0].people) > 1 else None


RULES = (
    Baseline("always reality", lambda item: _answer(item, slice(0)), "constant"),
    Baseline("only the second person", lambda item: _one_of_two(item, slice(1, None)), "simpler"),
    Baseline("only the first person", lambda item: _one_of_two(item, slice(1)), "simpler"),
)
"""The rules of the benchmark's field `rules`."""


GOLDS = ("tracked", "released")
"""`--gold` chooses the right answers:

    tracked     (default) what follows from the story. The factor `label_agrees` is false where the file
                has another label, which stands in the factor `released`.
    released    the file's own labels, as the published scores count.
"""
SOURCE = Source(
    "tomi",
    "facebookresearch/ToMi",
    "tomi_balanced_story_types.zip",
    "CC BY-NC 4.0",
    "dea2bca",
    note="Unpack it and name the folder. The fixed ToMi is data/fixedtomi/test_balanced.jsonl of "
    "github.com/shawnsihyunlee/simulatedtom (licence: MIT)",
)
FIXED = Source("tomi", "shawnsihyunlee/simulatedtom", "data/fixedtomi/test_balanced.jsonl", "MIT", "15cfd30")


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the user's file or folder, one a question; a question that comes twice is one item.

    gold: one of GOLDS, None for the first. Raises ConfigError where there is no file, ContentError by file and line.
    """
    seen: set[str] = set()
    for record in read_records(SOURCE, path):
        item = make_item(record, gold or GOLDS[0])
        if item.id not in seen:
            seen.add(item.id)
            yield item


def make_item(record: Record, gold: str) -> Item:
    """The item of a question. gold: one of GOLDS. Raises ContentError for a question that no item can be made of."""
    try:
        asked = ParsedQuestion.of(record.question)
    except ValueError as error:
        raise record.refuse("question", str(error)) from None
    try:
        told = ParsedStory.of(record.story, asked.object)
        right, real = told.answer(asked), told.answer(ParsedQuestion("reality", asked.object, ()))
    except ValueError as error:
        raise record.refuse("story", str(error)) from None
    if len(told.places) < 2:
        raise record.refuse("story", f"names one place of the {asked.object} only; expected two or more")
    if record.answer not in told.places:
        raise record.refuse("answer", f"is {record.answer!r:.60}; expected one of {', '.join(told.places)}")
    answer = record.answer if gold == "released" or right is None else right
    believed = asked.task in ("first_order", "second_order")
    story = hashlib.sha256("\n".join(record.story).encode()).hexdigest()[:16]
    name = f"tomi/{story}/{hashlib.sha256(record.question.encode()).hexdigest()[:8]}"
    factors: dict[str, Factor] = {
        "task": asked.task,
        "dimension": "belief" if believed else "reality",
        "order": ORDERS[asked.task],
        "condition": ("true_belief" if right == real else "false_belief") if believed and right else None,
        "question_type": record.question_type,
        "story_type": record.story_type,
        "version": "fixed" if told.roomed else "original",
        "split": record.path.stem[:100],
        "gold": gold,
        "label_agrees": None if right is None else right == record.answer,
        "released": record.answer,
        "tracked": right,
    }
    choices = seeded_order(told.places, name, separator=" ")
    try:
        return Item(
            id=name,
            benchmark="tomi",
            story=record.story,
            question=record.question,
            choices=choices,
            answer=answer,
            factors=factors,
            cluster=f"tomi/{story}",
        )
    except ValidationError as error:
        raise record.refuse("story", f"makes no item ({error.errors()[0]['msg']})") from None


def differences(path: Path | None) -> list[str]:
    """A sentence for each file at hand that differs from the known one that it shares the most stories with.

    The stories of a file are its rows: their digests are of all questions about them, in the order of the file.
    """
    known = {name: tuple(digests) for name, *digests in read_named_digests("tomi")}
    stories: dict[Path, dict[tuple[str, ...], bytes]] = {}
    for record in read_records(SOURCE, path):
        rows = stories.setdefault(record.path, {})
        rows[record.story] = rows.get(record.story, b"") + record.row + b"\n"
    said = []
    for file, rows in stories.items():
        found = set(map(row_digest, rows.values()))
        shared = {name: len(found.intersection(digests)) for name, digests in known.items()}
        name = max(sorted(shared), key=lambda name: shared[name])
        if not shared[name]:
            said.append(f"{file.name} is none of the known files: {', '.join(sorted(known))}")
            continue
        of = FIXED if name == Path(FIXED.file).name else SOURCE
        source = Source("tomi", of.repository, name, of.licence, of.commit, known[name])
        if differs := source.differences(rows.values()):
            said.append(f"{file.name}: {differs}")
    return said


def validate(path: Path | None, say: Say) -> Findings:
    """Check that the files are the known ones."""
    del say
    every = list(load(path))
    problems = differences(path)
    wrong = sum(item.factors["label_agrees"] is False for item in every)
    counted = f"{len(every):,} questions about {len({item.cluster for item in every}):,} stories: {outcome(problems)}"
    labels = f"labels that do not follow from their stories: {wrong:,} (see tomserve dataset audit)."
    return Findings.of_problems(problems, counted, labels, under_heading=True)


def audit(path: Path | None, say: Say) -> Findings:
    """Count what the file holds, how far readers get who follow nobody's mind, and which labels do not follow."""
    del say
    every = list(load(path))
    wrong = [item for item in every if item.factors["label_agrees"] is False]
    unknown = sum(item.factors["label_agrees"] is None for item in every)
    kinds = ("version", "question_type", "story_type")
    counts = Counter(tuple(item.factors[name] for name in kinds) for item in wrong)
    table = [{**dict(zip(kinds, key, strict=True)), "labels": count} for key, count in sorted(counts.items(), key=str)]
    roomless = len({item.cluster for item in every if item.factors["version"] == "original"})
    said = [
        *differences(path),
        f"labels: {len(wrong):,} of {len(every):,} are not what follows from the story, which is right by default.",
        *([f"nothing follows for {unknown:,}, and the file's label is taken for right."] if unknown else []),
        f"rooms: {roomless:,} of {len({item.cluster for item in every}):,} stories do not say in which room the "
        "containers are; it is taken to be that of whoever moves the object.",
    ]
    made = audit_items(every, ("version", "task", "condition"), RULES, said)
    tables: Mapping[str, pl.DataFrame] = {"labels": pl.DataFrame(table)} if table else {}
    note = "Labels of the file that do not follow from the story, by the file's own types of question and story."
    return Findings(tables={**made.tables, **tables}, notes={**made.notes, "labels": note}, lines=made.lines)


def _official(item: Item, reading: Reading) -> Mapping[str, bool]:
    """SimToM's grade: whether the released label stands anywhere in the reply, in small letters."""
    label = item.factors.get("released")
    if not reading.text or not isinstance(label, str):
        return {}
    said = reading.text.lower()
    return {
        "metric_official": label in said,
        "metric_both_places": all(choice.lower() in said for choice in item.choices),
    }


OFFICIAL = Metric(dict.fromkeys(("metric_official", "metric_both_places"), pl.Boolean), _official)
"""metric_official: the grade of SimToM's program (code/evaluate_tomi.py), which looks for the file's label anywhere in
the reply; metric_both_places: whether the reply names all places, so that this grade says nothing."""

BENCHMARK = Benchmark(
    "tomi",
    load,
    papers=("Revisiting the Evaluation of Theory of Mind through Question Answering (doi:10.18653/v1/D19-1598)",),
    terms=SOURCE.words,
    study="tomi",
    draw=Draw(over=("version", "story_type"), unit=("story", "stories")),
    golds=GOLDS,
    metrics=(OFFICIAL,),
    rules=RULES,
    validate=validate,
    audit=audit,
)
"""The value by which tomserve knows the benchmark."""
