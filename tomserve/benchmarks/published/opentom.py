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

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson
import polars as pl

from tomserve.benchmarks.published.base import Place, Record, Source, count_wrong_labels, cut_sentences, published
from tomserve.items import Item
from tomserve.items.draw import Draw, seeded_order
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import Metric

SOURCE = Source(
    "opentom",
    "seacowx/OpenToM",
    "data/opentom_data",
    "CC BY-NC 4.0",
    "3f22b66",
    "It must not be used for training, nor be sent where it may be",
)
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


def plain(place: str) -> str:
    """A place as it is compared: in small letters, with spaces for underscores and without its article."""
    return re.sub(r"^(?:an?|the) ", "", place.replace("_", " ").casefold())


class Narrative(NamedTuple):
    """A narrative and its questions."""

    key: str  # its name in the files
    length: str  # of META
    text: str
    mover: str
    observer: str
    object: str  # what is moved
    places: tuple[str, str]  # where it was and where it is in the end
    observed: bool  # whether the observer sees it moved
    questions: Mapping[str, tuple[tuple[Place, str, str], ...]]  # by file: where each stands, the question, its answer

    @property
    def row(self) -> bytes:
        """What the digest of a narrative with its questions is taken of."""
        pairs = {part: [pair for _, *pair in asked] for part, asked in self.questions.items()}
        return orjson.dumps([self.text, self.mover, self.observer, self.object, *self.places, self.observed, pairs])


def read_narratives(path: Path | None) -> Iterator[Narrative]:
    """The narratives of a folder, the normal ones first. Raises ConfigError where nothing is there, ContentError by
    file and field for what cannot be read."""
    folder = SOURCE.require_path(path)
    if not folder.is_dir():
        reason = "is a file; name the folder of files data/opentom_data, from which opentom.json was put together"
        raise SOURCE.place(folder).error(reason)
    asked = {part: _read_questions(folder, part) for part in PARTS}
    for length, name in META.items():
        if length == "normal" or (folder / f"{name}.json").exists():
            file = SOURCE.json(folder / f"{name}.json")
            for key in file.data:
                yield _narrative(file.object(key), length, key, asked)


def _read_questions(folder: Path, part: str) -> Record:
    """A file of questions. Raises ContentError where it is missing, which says so where its older form is there."""
    file, old = folder / f"{part}.json", part.removesuffix("_new")
    if not file.exists():
        reason = "is not there"
        if old != part and (folder / f"{old}.json").exists():
            reason += f". {old}.json is the older file, whose answers contradict location_c{old[10:]}.json"
        raise SOURCE.place(file).error(reason)
    return SOURCE.json(file)


def _narrative(told: Record, length: str, key: str, asked: Mapping[str, Record]) -> Narrative:
    plot = told.object("plot_info")
    mover, observer, thing, old, new = map(plot.text, ("mover", "observer", "eoi", "original_place", "move_to_place"))
    observed = told.data.get("observed")
    if not isinstance(observed, bool):
        raise told.wrong("observed", "true or false")
    if plain(old) == plain(new) or mover == observer:
        raise told.wrong("plot_info", "two people and two places")
    questions = {
        part: tuple((one.place, one.text("question"), one.text("answer")) for one in file.objects(key))
        for part, file in asked.items()
    }
    text = told.text("long_narrative" if length == "long" else "narrative")
    return Narrative(key, length, text, mover, observer, thing, (old, new), observed, questions)


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
    """A question of a narrative."""

    place: Place  # where it stands
    part: str  # the file it is in, of PARTS
    number: int  # its place there, from 1
    question: str
    task: str  # of CLASSES
    order: int  # 0: the narrator's; 1: what somebody believes or feels; 2: what somebody believes of the other
    perspective: str  # narrator, mover or observer
    container: str | None  # of a question on fullness the place it asks about: original or new
    right: str  # its class


def places(told: Narrative) -> dict[str, str]:
    """The two places by class, as they are offered: with spaces for underscores, as narratives write them."""
    return dict(zip(CLASSES["location_fine"], (place.replace("_", " ") for place in told.places), strict=True))


def questions(told: Narrative) -> Iterator[Question]:
    """The questions of a narrative, in the order of PARTS. Raises ContentError for one of another form or answer."""
    known = {"narrator": "narrator", told.mover: "mover", told.observer: "observer"}
    for part, (task, order) in PARTS.items():
        for number, (place, question, answer) in enumerate(told.questions[part], 1):
            who = _PERSPECTIVE.match(question)
            perspective = known.get(who[1] or who[2]) if who else None
            if perspective is None:
                raise place.at("question").wrong(question, f"one from the perspective of {', '.join(known)}")
            kind, container = task, None
            if task == "multihop":
                kind = "fullness" if "fullness" in question else "accessibility"
            if kind == "fullness":
                of = _FULLNESS.search(question)
                container = _closest(told, of[1]) if of else None
                if container is None:
                    expected = f"one on the fullness of {' or '.join(told.places)}"
                    raise place.at("question").wrong(question, expected)
            wanted: Sequence[str] = told.places if kind == "location_fine" else CLASSES[kind]
            if kind == "location_fine":
                right = _closest(told, answer)
            else:
                right = next((one for one in wanted if one.casefold() == answer.casefold()), None)
            if right is None:
                raise place.at("answer").wrong(answer, " or ".join(wanted))
            own = 0 if perspective == "narrator" else order
            yield Question(place, part, number, question, kind, own, perspective, container, right)


def _closest(told: Narrative, text: str) -> str | None:
    """Which of the two places is meant; None where neither is nearly spelt so."""
    said, names = plain(text), {plain(place): kind for kind, place in places(told).items()}
    close = difflib.get_close_matches(said, names, n=1, cutoff=CLOSE)
    return names[close[0]] if close else None


def _follows(told: Narrative, one: Question, coarse: Mapping[tuple[int, str], bool]) -> bool | None:
    """Whether a question's label follows from the plot and from what the same person is said to believe in the coarse
    questions; None where that settles nothing. The mover knows that the object was moved, and so does the observer who
    saw it; the observer who did not takes it to be where it was, and takes the mover to think so. Whoever takes it to
    have been moved takes its first place to be less full and the other to be more full, and else both to be equally
    full, and it to be equally accessible. coarse: by order and perspective whether it is said to have been moved."""
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
    expected = {"original": "less full", "new": "more full"}[one.container or "new"] if moved else "equally full"
    return one.right == expected


UNREAD = "unread"
"""The class of a reply that the authors leave out of their figures."""
NEITHER = "neither"
"""The class of a fine location that points to neither place, which they count."""


_READ = {
    "location_coarse": (("No", ("no",)), ("Yes", ("yes",))),
    "fullness": (
        ("less full", ("less full", "emptier", "more empty")),
        ("more full", ("more full", "fuller")),
        ("equally full", ("equally full",)),
    ),
    "accessibility": tuple((f"{how} accessible", (f"{how} accessible",)) for how in ("more", "less", "equally")),
    "attitude": tuple((name, (name,)) for name in CLASSES["attitude"]),
}
"""By task the classes in the order in which the authors look for them, each with the words that they look for."""


def read_class(task: str, text: str) -> str:
    """The class that a reply states by the authors' reading, or UNREAD. task: any but location_fine."""
    said = text.strip().lower()
    if task == "attitude":
        said = said.split("\n\n")[-1].split(":")[-1].split(".")[0].strip()
        if said in ("a", "b", "c"):
            return CLASSES[task]["abc".index(said)]
    elif task != "location_coarse":
        said = said.replace(".", "")
    named = [name for name, words in _READ[task] if any(word in said for word in words)]
    first_counts = task in ("fullness", "accessibility")
    return named[0] if named and (first_counts or len(named) == 1) else UNREAD


def read_place(text: str, original: str, new: str) -> str:
    """The place that a reply names by the authors' reading: `original`, `new`, or NEITHER where the words of one do not
    outweigh those of the other. original, new: the places as the file has them."""
    said = set(_fold(text).replace(".", "").split())
    shares = []
    for place in (original, new):
        article = next((one for one in ("a", "an", "the") if place.startswith(one)), "")  # or what they take for one
        words = _fold(place.removeprefix(article)).split()
        shares.append(len(said & set(words)) / len(words) if words else 0.0)
    return NEITHER if shares[0] == shares[1] else "original" if shares[0] > shares[1] else "new"


def _fold(text: str) -> str:
    return text.lower().replace("_", " ").replace("'s", "")


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


def _always(*wanted: str) -> Callable[[Item], str | None]:
    """The answer of a rule that gives the first of these classes that an item offers."""
    return lambda item: next(filter(None, (_choice(item, one) for one in wanted)), None)


RULES = (
    Baseline("always reality", _reality, "constant"),
    Baseline("always as at first", _always("yes", "original", "equally full", "equally accessible"), "constant"),
    *(Baseline(f"always {name}", _always(name), "constant") for name in ("positive", "neutral", "negative")),
    *(Baseline(f"always {name}", _always(f"{name} accessible"), "constant") for name in ("less", "more")),
)
"""The rules of the benchmark's field `rules`."""


DIMENSIONS = {"attitude": "emotion"}
"""What a task asks about where it is no belief."""
JSON = ("json", "fenced", "embedded", "unclosed")
"""How the ways are called in which a reply was read that is, or holds, a JSON object."""


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the user's folder, narrative by narrative. Raises ConfigError where there is no folder, ContentError
    by file and field for what cannot be read."""
    for told in read_narratives(path):
        asked = list(questions(told))
        coarse = {(one.order, one.perspective): one.right == "No" for one in asked if one.task == "location_coarse"}
        for question in asked:
            yield _item(told, question, _follows(told, question, coarse))


def _item(told: Narrative, asked: Question, agrees: bool | None) -> Item:
    named = places(told)
    offered = list(named.values()) if asked.task == "location_fine" else CLASSES[asked.task]
    part = asked.part.removesuffix("_new")
    name = f"opentom/{told.key}{'/long' if told.length == 'long' else ''}/{part}/{asked.number}"
    unseen = asked.perspective == "observer" and not told.observed
    return asked.place.item(
        id=name,
        story=cut_sentences(told.text),
        question=asked.question,
        choices=seeded_order(offered, name, separator=" "),
        answer=named.get(asked.right, asked.right),
        factors={
            "task": asked.task,
            "dimension": "reality" if asked.order == 0 else DIMENSIONS.get(asked.task, "belief"),
            "order": asked.order,
            "perspective": asked.perspective,
            "condition": ("false_belief" if unseen else "true_belief") if asked.order == 1 else None,
            "observed": told.observed,
            "length": told.length,
            "container": asked.container,
            "label": asked.right,
            "label_agrees": agrees,
            **{f"place_{kind}": place for kind, place in named.items()},
        },
        cluster=f"opentom/{told.key}",
    )


def _remarks(path: Path | None, items: Sequence[Item]) -> Iterator[str]:
    if not any(item.factors["length"] == "long" for item in items):
        yield "long: meta_data_long.json is not there, so no long narratives are asked."
    agree = [item.factors["label_agrees"] for item in items if item.factors["label_agrees"] is not None]
    yield (
        f"labels: {agree.count(False):,} of {len(agree):,} that can be checked contradict the plot or another label; "
        "they are asked as they are (factor label_agrees)."
    )
    told = {(item.cluster, item.factors["length"]): item for item in items if item.factors["task"] == "location_fine"}
    texts = [(" ".join(item.story).casefold(), item.choices) for item in told.values()]
    unnamed = sum(not all(plain(choice) in text for choice in choices) for text, choices in texts)
    yield f"places: {unnamed:,} of {len(texts):,} narratives do not name both places in the words of the answers."


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


METRICS = (
    Metric(
        {"metric_class": pl.String},
        lambda item, reading: {} if reading.answer is None else {"metric_class": class_of(item, reading.answer)},
    ),
    Metric({"metric_official": pl.String}, _official),
)
"""metric_class: the class of the answer that was read; metric_official: the class by the authors' reading."""

BENCHMARK = published(
    SOURCE,
    load,
    lambda path: SOURCE.differences(told.row for told in read_narratives(path)),
    ("length", "task", "order"),
    RULES,
    remarks=_remarks,
    tables=lambda items: count_wrong_labels(items, ("length", "task", "order", "perspective", "observed", "label")),
    notes={
        "labels": "Labels that contradict the plot, or what the same person is said to believe in the coarse questions."
    },
    papers=(
        "OpenToM: A Comprehensive Benchmark for Evaluating Theory-of-Mind Reasoning "
        "Capabilities of Large Language Models (arXiv:2402.06044)",
    ),
    study="opentom",
    draw=Draw(whole=("length",), unit=("narrative", "narratives")),
    metrics=METRICS,
)
