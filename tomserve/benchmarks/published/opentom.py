"""OpenToM (Xu et al. 2024, arXiv 2402.06044): what two people know and feel about a thing that one of them moves
away.

    tomserve eval --benchmark opentom --path opentom_data
    tomserve items opentom --path opentom_data --where task=attitude --where length=normal

One person moves a thing, for a reason of her own; another sees it or does not. Asked is where each of them takes the
thing to be (location, coarse: is it where it was; fine: in which place), how full and how accessible things have
become to them (multihop), and what the other feels about it (attitude). The factor `label` is the class of the right
answer, by which the study counts the macro-averaged F1; `label_agrees` is false where a label contradicts the plot or
what the same person is said to believe. The labels are asked as they are: which of two is meant is not known.

    >>> read_place("In the blue box.", "the box", "attic"), read_place("the attic", "box", "attic")
    ('original', 'neither')
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl
from pydantic import ValidationError

from tomserve.benchmarks.base import Benchmark, Findings, Say, outcome
from tomserve.benchmarks.published.base import Source, audit_items, read_digests
from tomserve.errors import ContentError
from tomserve.items import Factor, Item
from tomserve.items.draw import Draw, seeded_order
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import Metric

META = {"normal": "meta_data", "long": "meta_data_long"}
"""The files of narratives, without their ending, by the factor `length`; that of the long ones may be missing."""

PARTS = {
    "location_cg_fo": ("location_coarse", 1),
    "location_cg_so": ("location_coarse", 2),
    "location_fg_fo_new": ("location_fine", 1),
    "location_fg_so_new": ("location_fine", 2),
    "multihop_fo": ("multihop", 1),
    "multihop_so": ("multihop", 2),
    "attitude": ("attitude", 1),
}
"""The files of questions, without their ending, each with the genre of its questions and their order."""

_KEY = re.compile(r"[\w-]{1,60}", re.ASCII)


def plain(place: str) -> str:
    """A place as it is compared: in small letters, with spaces for underscores and without its article."""
    return re.sub(r"^(?:an?|the) ", "", place.replace("_", " ").casefold())


class Narrative(NamedTuple):
    """A narrative and its questions.

    key: its name in the files. length: normal or long. text: what is told. mover, observer: the two people. object:
    what is moved. places: where it was and where it is in the end. observed: whether the observer sees it moved.
    questions: by file, pairs of a question and its answer. row: what its digest is taken of.
    """

    key: str
    length: str
    text: str
    mover: str
    observer: str
    object: str
    places: tuple[str, str]
    observed: bool
    questions: Mapping[str, tuple[tuple[str, str], ...]]
    row: bytes


def read_narratives(source: Source, path: Path | None) -> Iterator[Narrative]:
    """The narratives of a folder, the normal ones first.

    source: where the files come from. path: the user's. Raises ConfigError where nothing is there, ContentError by file
    and field for what cannot be read.
    """
    folder = source.require_path(path)
    if not folder.is_dir():
        reason = "is a file; name the folder of files data/opentom_data, from which opentom.json was put together"
        raise ContentError(f"{reason}: expected {source.words}", path=folder)
    for part in PARTS:
        _require_file(source, folder, part)
    asked = {part: _object(source, folder / f"{part}.json") for part in PARTS}
    for length, name in META.items():
        file = folder / f"{name}.json"
        if length == "normal" or file.exists():
            for key, told in _object(source, file).items():
                yield _narrative(folder, file, length, key, told, asked)


def _require_file(source: Source, folder: Path, part: str) -> None:
    """Raise ContentError where a file of questions is missing, and say so where it is the one that was replaced."""
    old = part.removesuffix("_new")
    if not (folder / f"{part}.json").exists():
        reason = f"is not there; expected {source.words}"
        if old != part and (folder / f"{old}.json").exists():
            reason += f". {old}.json is the older file, whose answers contradict location_c{old[10:]}.json"
        raise ContentError(reason, path=folder / f"{part}.json")


def _object(source: Source, file: Path) -> dict[str, Any]:
    text = source.text(file)
    if text.startswith("version https://git-lfs"):
        raise ContentError("is only a pointer of Git LFS; fetch the file itself (git lfs pull)", path=file)
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ContentError(f"is no JSON ({error}); take the official file", path=file) from None
    if not isinstance(found, dict) or not found:
        raise ContentError(f"is {text!r:.40}; expected a JSON object by the narratives' keys", path=file)
    return found


def _narrative(folder: Path, file: Path, length: str, key: str, told: Any, asked: Mapping[str, Any]) -> Narrative:
    def refuse(field: str, found: object, wanted: str) -> ContentError:
        reason = f"is {found!r:.60}; expected {wanted}; take the official file, or mend this"
        return ContentError(reason, path=file, field=f"{key[:60]}.{field}" if field else repr(key[:60]))

    def text(holder: Any, field: str, within: str = "") -> str:
        value = holder.get(field) if isinstance(holder, dict) else None
        if not isinstance(value, str) or not value.strip():
            raise refuse(f"{within}{field}", value, "text")
        return value.strip()

    if not _KEY.fullmatch(key):
        raise refuse("", key, "letters, digits, '-' and '_'")
    if not isinstance(told, dict):
        raise refuse("", told, "an object")
    plot = told.get("plot_info")
    mover, observer, thing, old, new = (
        text(plot, name, "plot_info.") for name in ("mover", "observer", "eoi", "original_place", "move_to_place")
    )
    if not isinstance(told.get("observed"), bool):
        raise refuse("observed", told.get("observed"), "true or false")
    if plain(old) == plain(new) or len({mover, observer}) < 2:
        raise refuse("plot_info", plot, "two people and two places")
    questions = {part: tuple(_questions(folder, part, key, asked[part].get(key))) for part in PARTS}
    narrative = text(told, "long_narrative" if length == "long" else "narrative")
    row = orjson.dumps([narrative, mover, observer, thing, old, new, told["observed"], questions])
    return Narrative(key, length, narrative, mover, observer, thing, (old, new), told["observed"], questions, row)


def _questions(folder: Path, part: str, key: str, found: Any) -> Iterator[tuple[str, str]]:
    def refuse(field: str, value: object, wanted: str) -> ContentError:
        reason = f"is {value!r:.60}; expected {wanted}; take the official file, or mend this"
        return ContentError(reason, path=folder / f"{part}.json", field=f"{key}{field}")

    if not isinstance(found, list) or not found:
        raise refuse("", found, "a list of questions")
    for place, one in enumerate(found):
        if not isinstance(one, dict):
            raise refuse(f"[{place}]", one, "an object")
        for name in ("question", "answer"):
            if not isinstance(one.get(name), str) or not one[name].strip():
                raise refuse(f"[{place}].{name}", one.get(name), "text")
        yield one["question"].strip(), one["answer"].strip()


CLASSES = {
    "location_coarse": ("Yes", "No"),
    "location_fine": ("original", "new"),
    "fullness": ("less full", "equally full", "more full"),
    "accessibility": ("less accessible", "equally accessible", "more accessible"),
    "attitude": ("positive", "neutral", "negative"),
}
"""The classes of each task's answers. A coarse location asks whether the object is where it was at first."""

_PERSPECTIVE = re.compile(r"From (.+?)'s perspective|As (.+?), what is your attitude")
_FULLNESS = re.compile(r"how does (?:\S+ think )?(.+?)'s fullness")
CLOSE = 0.6
"""How alike a place must be to one of the plot to be taken for it where it is spelt otherwise (0 to 1)."""


class Question(NamedTuple):
    """A question of a narrative.

    part: the file it is in. number: its place there, from 0. question: as the file has it. task: of CLASSES. order: 0
    for the narrator's, 1 for what somebody believes or feels, 2 for what somebody believes of the other. perspective:
    narrator, mover or observer. place: of a question on fullness, the place it asks about: original or new. right: its
    class. spelt: the places' names, that of the right answer as the answer spells it, without underscores.
    """

    part: str
    number: int
    question: str
    task: str
    order: int
    perspective: str
    place: str | None
    right: str


def places(told: Narrative) -> dict[str, str]:
    """The two places by class, as they are offered: with spaces for underscores, as narratives write them."""
    return dict(zip(CLASSES["location_fine"], (place.replace("_", " ") for place in told.places), strict=True))


def questions(told: Narrative) -> list[Question]:
    """The questions of a narrative, in the order of PARTS.

    Raises ValueError with the file, the place in it and the field, and what is wrong, for a question that has another
    form or answer.
    """
    found = []
    for part, (genre, order) in PARTS.items():
        for number, (question, answer) in enumerate(told.questions[part]):
            try:
                found.append(_question(told, part, number, genre, order, question, answer))
            except _WrongError as error:
                field = f"{told.key}[{number}].{error.field}"
                raise ValueError(f"{part}.json", field, error.reason) from None
    return found


class _WrongError(Exception):
    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field, self.reason = field, reason


def _question(told: Narrative, part: str, number: int, genre: str, order: int, question: str, answer: str) -> Question:
    who = _PERSPECTIVE.match(question)
    name = (who[1] or who[2]) if who else ""
    known = {"narrator": "narrator", told.mover: "mover", told.observer: "observer"}
    if name not in known:
        raise _WrongError("question", f"is {question!r:.80}; expected one from the perspective of {', '.join(known)}")
    task = genre
    if genre == "multihop":
        task = "fullness" if "fullness" in question else "accessibility"
    place = None
    if task == "fullness":
        of = _FULLNESS.search(question)
        place = _closest(told, of[1]) if of else None
        if place is None:
            raise _WrongError(
                "question", f"is {question!r:.80}; expected one on the fullness of {' or '.join(told.places)}"
            )
    if task == "location_fine":
        right = _closest(told, answer)
    else:
        right = next((one for one in CLASSES[task] if one.casefold() == answer.casefold()), None)
    if right is None:
        wanted = told.places if task == "location_fine" else CLASSES[task]
        raise _WrongError("answer", f"is {answer!r:.60}; expected {' or '.join(wanted)}")
    own = 0 if known[name] == "narrator" else order
    return Question(part, number, question, task, own, known[name], place, right)


def _closest(told: Narrative, text: str) -> str | None:
    """Which of the two places is meant; None where neither is nearly spelt so."""
    said, names = plain(text), {plain(place): kind for kind, place in places(told).items()}
    close = difflib.get_close_matches(said, names, n=1, cutoff=CLOSE)
    return names[close[0]] if close else None


def check_labels(told: Narrative, asked: list[Question]) -> list[bool | None]:
    """For each question whether its label follows from the plot and from what the same person is said to believe in the
    coarse questions; None where that settles nothing.

    The mover knows that the object was moved, and so does the observer who saw it; the observer who did not takes it to
    be where it was, and takes the mover to think so. Whoever takes it to have been moved takes its first place to be
    less full and the other to be more full, and else both to be equally full, and it to be equally accessible.
    """
    coarse = {(one.order, one.perspective): one.right == "No" for one in asked if one.task == "location_coarse"}
    return [_follows(told, one, coarse) for one in asked]


def _follows(told: Narrative, one: Question, coarse: dict[tuple[int, str], bool]) -> bool | None:
    moved = coarse.get((one.order, one.perspective))
    if one.perspective == "narrator":
        return one.right == ("original" if "beginning" in one.question else "new")
    if one.task == "location_coarse":
        if one.order == 2 and one.perspective == "mover":
            return None
        knows = one.perspective == "mover" or told.observed
        return (one.right == "No") == knows
    if one.task == "accessibility":
        unmoved = one.perspective == "observer" and not told.observed
        return one.right == "equally accessible" if unmoved else None
    if moved is None or one.task == "attitude":
        return None
    if one.task == "location_fine":
        return (one.right == "new") == moved
    expected = {"original": "less full", "new": "more full"}[one.place or "new"] if moved else "equally full"
    return one.right == expected


UNREAD = "unread"
"""The class of a reply that the authors leave out of their figures."""
NEITHER = "neither"
"""The class of a fine location that points to neither place, which they count."""


def read_class(task: str, text: str) -> str:
    """The class that a reply states by the authors' reading, or UNREAD. task: any but location_fine."""
    said = text.strip().lower()
    if task == "location_coarse":
        no, yes = "no" in said, "yes" in said
        return UNREAD if no == yes else "No" if no else "Yes"
    if task == "attitude":
        return _attitude(said)
    if task == "fullness":
        said = said.replace(".", "")
        for found, words in (
            ("less full", ("less full", "emptier", "more empty")),
            ("more full", ("more full", "fuller")),
            ("equally full", ("equally full",)),
        ):
            if any(word in said for word in words):
                return found
        return UNREAD
    said = said.replace(".", "")
    named = (name for name in ("more accessible", "less accessible", "equally accessible") if name in said)
    return next(named, UNREAD)


def _attitude(said: str) -> str:
    part = said.split("\n\n")[-1].split(":")[-1].split(".")[0].strip()
    letters = {"a": "positive", "b": "neutral", "c": "negative"}
    if part in letters:
        return letters[part]
    named = [name for name in letters.values() if name in part]
    return named[0] if len(named) == 1 else UNREAD


def read_place(text: str, original: str, new: str) -> str:
    """The place that a reply names by the authors' reading: `original`, `new`, or NEITHER where the words of one do not
    outweigh those of the other. original, new: the places as the file has them."""
    first, second = (_overlap(text, _strip_article(place).lower()) for place in (original, new))
    return NEITHER if first == second else "original" if first > second else "new"


def _strip_article(place: str) -> str:
    """A place without what they take for its article."""
    for article in ("a", "an", "the"):
        if place.startswith(article):
            return place[len(article) :].strip()
    return place


def _overlap(text: str, place: str) -> float:
    """The share of a place's words that stand in the text."""
    said, words = (one.lower().replace("_", " ").replace("'s", "") for one in (text, place))
    named = words.split()
    return len(set(said.replace(".", "").split()) & set(named)) / len(named) if named else 0.0


_REAL: Mapping[tuple[str, str | None], str] = {
    ("location_coarse", None): "no",
    ("location_fine", None): "new",
    ("fullness", "original"): "less full",
    ("fullness", "new"): "more full",
}
"""What is so in the end, whoever is asked about: the object was moved. Of accessibility and attitude this says
nothing."""


def class_of(item: Item, choice: str) -> str:
    """The class of a choice: `original` or `new` for a place, else the choice itself."""
    for name in ("original", "new"):
        if item.factors.get(f"place_{name}") == choice:
            return name
    return choice


def _choice(item: Item, wanted: str) -> str | None:
    """The choice of that class, in whatever case; None where the item has none."""
    return next((choice for choice in item.choices if class_of(item, choice).casefold() == wanted), None)


def _reality(item: Item) -> str | None:
    if item.factors.get("task") == "location_fine" and "in the beginning" in item.question:
        return _choice(item, "original")
    place = item.factors.get("container")
    wanted = _REAL.get((str(item.factors.get("task")), place if isinstance(place, str) else None))
    return None if wanted is None else _choice(item, wanted)


def _ignore_move(item: Item) -> str | None:
    """The answer of somebody who does not know that the object was moved."""
    for wanted in ("yes", "original", "equally full", "equally accessible"):
        if (found := _choice(item, wanted)) is not None:
            return found
    return None


def _always(wanted: str) -> Callable[[Item], str | None]:
    return lambda item: _choice(item, wanted)


RULES = (
    Baseline("always reality", _reality, "constant"),
    Baseline("always as at first", _ignore_move, "constant"),
    *(Baseline(f"always {name}", _always(name), "constant") for name in ("positive", "neutral", "negative")),
    *(Baseline(f"always {name}", _always(f"{name} accessible"), "constant") for name in ("less", "more")),
)
"""The rules of the benchmark's field `rules`."""


SOURCE = Source(
    "opentom",
    "seacowx/OpenToM",
    "data/opentom_data",
    "CC BY-NC 4.0",
    "3f22b66",
    read_digests("opentom"),
    "It must not be used for training, nor be sent where it may be",
)
DIMENSIONS = {"attitude": "emotion"}
"""What a task asks about where it is no belief."""
JSON = ("json", "fenced", "embedded", "unclosed")
"""How the ways are called in which a reply was read that is, or holds, a JSON object."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'”’])\s+|\n+")


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the user's folder, narrative by narrative. gold: not used, as there is one set of right answers.

    Raises ConfigError where there is no folder, ContentError by file and field for what cannot be read.
    """
    del gold
    folder = SOURCE.require_path(path)
    for told in read_narratives(SOURCE, path):
        try:
            asked = questions(told)
        except ValueError as error:
            file, field, reason = error.args
            told_to = f"{reason}; take the official file, or mend this"
            raise ContentError(told_to, path=folder / file, field=field) from None
        for question, agrees in zip(asked, check_labels(told, asked), strict=True):
            try:
                yield _item(told, question, agrees)
            except ValidationError as error:
                reason = f"makes no item ({error.errors()[0]['msg']}); take the official file, or mend this"
                field = f"{told.key}[{question.number}]"
                raise ContentError(reason, path=folder / f"{question.part}.json", field=field) from None


def _item(told: Narrative, asked: Question, agrees: bool | None) -> Item:
    named = places(told)
    offered = list(named.values()) if asked.task == "location_fine" else CLASSES[asked.task]
    part = asked.part.removesuffix("_new")
    name = f"opentom/{told.key}{'/long' if told.length == 'long' else ''}/{part}/{asked.number + 1}"
    unseen = asked.perspective == "observer" and not told.observed
    condition = ("false_belief" if unseen else "true_belief") if asked.order == 1 else None
    factors: dict[str, Factor] = {
        "task": asked.task,
        "dimension": "reality" if asked.order == 0 else DIMENSIONS.get(asked.task, "belief"),
        "order": asked.order,
        "perspective": asked.perspective,
        "condition": condition,
        "observed": told.observed,
        "length": told.length,
        "container": asked.place,
        "label": asked.right,
        "label_agrees": agrees,
        **{f"place_{kind}": place for kind, place in named.items()},
    }
    return Item(
        id=name,
        benchmark="opentom",
        story=[part for part in _SENTENCE.split(told.text) if part.strip()],
        question=asked.question,
        choices=seeded_order(offered, name, separator=" "),
        answer=named.get(asked.right, asked.right),
        factors=factors,
        cluster=f"opentom/{told.key}",
    )


def validate(path: Path | None, say: Say) -> Findings:
    """Check that the folder is the known one."""
    del say
    every = list(read_narratives(SOURCE, path))
    asked = sum(len(part) for told in every for part in told.questions.values())
    problems = [found] if (found := _differs(every)) else []
    counted = f"{asked:,} questions about {len(every):,} narratives: {outcome(problems)}"
    return Findings.of_problems(problems, counted, under_heading=True)


def _differs(every: list[Narrative]) -> str | None:
    """How the narratives differ from the known ones; each, normal or long, is a row with its questions."""
    return SOURCE.differences(told.row for told in every)


def audit(path: Path | None, say: Say) -> Findings:
    """Count what the folder holds, how far readers get who follow nobody's mind, and which labels contradict others."""
    del say
    told = list(read_narratives(SOURCE, path))
    every = list(load(path))
    wrong = [item for item in every if item.factors["label_agrees"] is False]
    kinds = ("length", "task", "order", "perspective", "observed", "label")
    counts = Counter(tuple(item.factors[name] for name in kinds) for item in wrong)
    table = [{**dict(zip(kinds, key, strict=True)), "labels": count} for key, count in sorted(counts.items(), key=str)]
    lengths = Counter(one.length for one in told)
    differs = _differs(told)
    said = [
        *([differs] if differs else []),
        *([] if lengths["long"] else ["long: meta_data_long.json is not there, so no long narratives are asked."]),
        f"labels: {len(wrong):,} of {sum(item.factors['label_agrees'] is not None for item in every):,} that can be "
        "checked contradict the plot or another label; they are asked as they are (factor label_agrees).",
        f"places: {_count_unnamed(every):,} of {len(told):,} narratives do not name both places in the words of the "
        "answers.",
    ]
    made = audit_items(every, ("length", "task", "order"), RULES, said)
    tables: Mapping[str, pl.DataFrame] = {"labels": pl.DataFrame(table)} if table else {}
    note = "Labels that contradict the plot, or what the same person is said to believe in the coarse questions."
    return Findings(tables={**made.tables, **tables}, notes={**made.notes, "labels": note}, lines=made.lines)


def _count_unnamed(every: list[Item]) -> int:
    """How many narratives lack the words of one of their two places."""
    told = {(item.cluster, item.factors["length"]): item for item in every if item.factors["task"] == "location_fine"}
    words = [(" ".join(item.story).casefold(), item.choices) for item in told.values()]
    return sum(not all(plain(choice) in text for choice in choices) for text, choices in words)


def _official(item: Item, reading: Reading) -> Mapping[str, str]:
    """The class of a reply by the authors' reading; of a reply in JSON, that of its answer."""
    if not reading.text:
        return {}
    inner = reading.answer is not None and (reading.parse or "").split("+")[0] in JSON
    text = str(reading.answer) if inner else reading.text
    task = str(item.factors.get("task"))
    if task == "location_fine":
        first, second = (str(item.factors.get(f"place_{kind}")) for kind in CLASSES[task])
        return {"metric_official": read_place(text, first, second)}
    return {"metric_official": read_class(task, text)} if task in CLASSES else {}


def _class(item: Item, reading: Reading) -> Mapping[str, str]:
    return {} if reading.answer is None else {"metric_class": class_of(item, reading.answer)}


METRICS = (
    Metric({"metric_class": pl.String}, _class),
    Metric({"metric_official": pl.String}, _official),
)
"""metric_class: the class of the answer that was read; metric_official: the class by the authors' reading."""

BENCHMARK = Benchmark(
    "opentom",
    load,
    papers=(
        "OpenToM: A Comprehensive Benchmark for Evaluating Theory-of-Mind Reasoning "
        "Capabilities of Large Language Models (arXiv:2402.06044)",
    ),
    terms=SOURCE.words,
    study="opentom",
    draw=Draw(whole=("length",), unit=("narrative", "narratives")),
    metrics=METRICS,
    rules=RULES,
    validate=validate,
    audit=audit,
)
"""The value by which tomserve knows the benchmark."""
