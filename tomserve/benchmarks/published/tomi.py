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
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tomserve.beliefs import Trace, Update, together
from tomserve.benchmarks.published.base import (
    Place,
    Record,
    Source,
    count_wrong_labels,
    published,
    read_digests,
    row_digest,
)
from tomserve.items import Item
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

_LINE = re.compile(r"(\d{1,4}) (\S.*)")
_QUESTION = re.compile(r"([^\t]+\?)\t([^\t]+)\t(\d+)")


class StoryQuestion(NamedTuple):
    """One question as a file has it. story: its lines without their numbers. place: where the question stands."""

    place: Place
    story: tuple[str, ...]
    question: str
    answer: str
    question_type: str  # of QUESTION_TYPES
    story_type: str  # of STORY_TYPES

    @property
    def row(self) -> bytes:
        """What the digest of the question is taken of: the same in all forms of the file."""
        return "\n".join((*self.story, *self[2:])).encode()


def read_records(path: Path | None) -> Iterator[StoryQuestion]:
    """The questions of a file, or of all files of a folder, in their order. Raises ConfigError where nothing is there,
    ContentError by file, line and field for what cannot be read."""
    found = SOURCE.require_path(path)
    if found.is_dir():
        texts = sorted(one for one in found.glob("*.txt") if one.with_suffix(".trace").exists())
        if not texts:
            raise SOURCE.place(found).error("holds no .txt file with its .trace file")
        for text in texts:
            yield from _pair(text)
    elif found.suffix in (".jsonl", ".json"):
        yield from _lines(found)
    elif found.suffix == ".txt":
        yield from _pair(found)
    else:
        expected = "a .txt file with its .trace, a folder of them, or .jsonl; unpack a .zip file first"
        raise SOURCE.place(found).error(f"ends in {found.suffix or 'nothing'!r}; expected {expected}")


def _pair(path: Path) -> Iterator[StoryQuestion]:
    """The questions of a .txt file and the .trace file beside it."""
    traces = path.with_suffix(".trace")
    if not traces.exists():
        raise SOURCE.place(traces).error(f"is not there; expected beside {path.name}")
    kinds = list(SOURCE.lines(traces))
    story: list[str] = []
    count = 0
    for place, line in SOURCE.lines(path):
        if (told := _LINE.fullmatch(line)) is None:
            raise place.wrong(line, "a number, a space and a sentence")
        if told[1] == "1":
            story = []
        if int(told[1]) != len(story) + 1:
            reason = f"has the number {told[1]}; expected {len(story) + 1}, or 1 where a story begins"
            raise place.error(reason)
        if "\t" not in told[2]:
            story.append(told[2])
            continue
        if (asked := _QUESTION.fullmatch(told[2])) is None:
            raise place.wrong(told[2], "question?, answer and a number with tabs between them")
        if count < len(kinds):
            at, kind = kinds[count]
            *_, question_type, story_type = ["", *kind.strip().split(",")]
            types = Record(at, {"question_type": question_type, "story_type": story_type})
            yield StoryQuestion(place, tuple(story), asked[1], asked[2], *_types(types))
        count += 1
        story = []
    if count != len(kinds):
        reason = f"has {len(kinds)} lines; {path.name} has {count} questions; take both from one place"
        raise SOURCE.place(traces).error(reason)
    if story or not count:
        raise SOURCE.place(path).error("ends without a question" if story else "holds no questions")


def _lines(path: Path) -> Iterator[StoryQuestion]:
    """The questions of a file of JSON lines."""
    count = 0
    for count, (place, line) in enumerate(SOURCE.lines(path), 1):  # noqa: B007 - counted for what follows
        row = place.json(line)
        story, question, answer, *_ = map(row.text, FIELDS)
        told = tuple(re.sub(r"^\d{1,4} ", "", one.strip()) for one in story.split("\n") if one.strip())
        yield StoryQuestion(place, told, question, answer, *_types(row))
    if not count:
        raise SOURCE.place(path).error("holds no questions")


def _types(row: Record) -> tuple[str, str]:
    return row.choice("question_type", QUESTION_TYPES), row.choice("story_type", STORY_TYPES)


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
    """What a story tells of an object. places: its containers, in their order. trace: the updates of what people
    believe of it. roomed: whether the story says in which room these containers are."""

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
        """The right answer; None where it does not follow, as for somebody who never learns of the object. Raises
        ValueError where the same person is asked about twice."""
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


def _answer(item: Item, people: slice, least: int = 0) -> str | None:
    """The answer to the same question about some of the people only; None where the item has another form, or is about
    fewer people than `least`, so that this would be the very answer."""
    if (found := _parse(item.story, item.question)) is None or len(found[0].people) < least:
        return None
    asked, told = found
    label = told.answer(asked._replace(task="reality", people=asked.people[people]))
    return label if label in item.choices else None


RULES = (
    Baseline("always reality", lambda item: _answer(item, slice(0)), "constant"),
    Baseline("only the second person", lambda item: _answer(item, slice(1, None), 2), "simpler"),
    Baseline("only the first person", lambda item: _answer(item, slice(1), 2), "simpler"),
)
"""The rules of the benchmark's field `rules`."""


GOLDS = ("tracked", "released")
"""`--gold` chooses the right answers:

    tracked     (default) what follows from the story. The factor `label_agrees` is false where the file
                has another label, which stands in the factor `released`.
    released    the file's own labels, as the published scores count.
"""


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the user's file or folder, one a question; a question that comes twice is one item. gold: one of
    GOLDS, None for the first. Raises ConfigError where there is no file, ContentError by file and line."""
    seen: set[str] = set()
    for asked in read_records(path):
        item = make_item(asked, gold or GOLDS[0])
        if item.id not in seen:
            seen.add(item.id)
            yield item


def make_item(record: StoryQuestion, gold: str) -> Item:
    """The item of a question. gold: one of GOLDS. Raises ContentError for a question that no item can be made of."""
    field = "question"
    try:
        asked = ParsedQuestion.of(record.question)
        field = "story"
        told = ParsedStory.of(record.story, asked.object)
        right, real = told.answer(asked), told.answer(ParsedQuestion("reality", asked.object, ()))
    except ValueError as error:
        raise record.place.at(field).error(str(error)) from None
    if len(told.places) < 2:
        reason = f"names one place of the {asked.object} only; expected two or more"
        raise record.place.at("story").error(reason)
    if record.answer not in told.places:
        raise record.place.at("answer").wrong(record.answer, f"one of {', '.join(told.places)}")
    believed = asked.task in ("first_order", "second_order")
    story = hashlib.sha256("\n".join(record.story).encode()).hexdigest()[:16]
    name = f"tomi/{story}/{hashlib.sha256(record.question.encode()).hexdigest()[:8]}"
    return record.place.at("story").item(
        id=name,
        story=record.story,
        question=record.question,
        choices=seeded_order(told.places, name, separator=" "),
        answer=record.answer if gold == "released" or right is None else right,
        factors={
            "task": asked.task,
            "dimension": "belief" if believed else "reality",
            "order": ORDERS[asked.task],
            "condition": ("true_belief" if right == real else "false_belief") if believed and right else None,
            "question_type": record.question_type,
            "story_type": record.story_type,
            "version": "fixed" if told.roomed else "original",
            "split": record.place.path.stem[:100],
            "gold": gold,
            "label_agrees": None if right is None else right == record.answer,
            "released": record.answer,
            "tracked": right,
        },
        cluster=f"tomi/{story}",
    )


def differences(path: Path | None) -> list[str]:
    """A sentence for each file at hand that differs from the known one that it shares the most stories with. The
    stories of a file are its rows: their digests are of all questions about them, in the order of the file."""
    known = {name: digests for name, *digests in read_digests("tomi")}
    stories: dict[Path, dict[tuple[str, ...], bytes]] = defaultdict(lambda: defaultdict(bytes))
    for record in read_records(path):
        stories[record.place.path][record.story] += record.row + b"\n"
    said = []
    for file, rows in stories.items():
        found = set(map(row_digest, rows.values()))
        shared = {name: len(found.intersection(digests)) for name, digests in sorted(known.items())}
        name = max(shared, key=shared.__getitem__)
        if not shared[name]:
            said.append(f"{file.name} is none of the known files: {', '.join(sorted(known))}")
            continue
        source = replace(FIXED if name == Path(FIXED.file).name else SOURCE, file=name)
        said += [f"{file.name}: {differs}" for differs in source.differences(rows.values(), known=known[name])]
    return said


def _remarks(path: Path | None, items: Sequence[Item]) -> Iterator[str]:
    agree = Counter(item.factors["label_agrees"] for item in items)
    yield f"labels: {agree[False]:,} of {len(items):,} are not what follows from the story, which is right by default."
    if agree[None]:
        yield f"nothing follows for {agree[None]:,}, and the file's label is taken for right."
    roomless = len({item.cluster for item in items if item.factors["version"] == "original"})
    yield (
        f"rooms: {roomless:,} of {len({item.cluster for item in items}):,} stories do not say in which room the "
        "containers are; it is taken to be that of whoever moves the object."
    )


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

BENCHMARK = published(
    SOURCE,
    load,
    differences,
    ("version", "task", "condition"),
    RULES,
    remarks=_remarks,
    tables=lambda items: count_wrong_labels(items, ("version", "question_type", "story_type")),
    notes={
        "labels": "Labels of the file that do not follow from the story, by the file's own types of question and story."
    },
    papers=("Revisiting the Evaluation of Theory of Mind through Question Answering (doi:10.18653/v1/D19-1598)",),
    study="tomi",
    draw=Draw(over=("version", "story_type"), unit=("story", "stories")),
    golds=GOLDS,
    metrics=(OFFICIAL,),
)
