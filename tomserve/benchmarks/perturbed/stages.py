"""Stage files: their format, the gold that follows from their events, their checks, and the items made of them.

A stage fixes two labels, ``x`` and ``y``, which prose names only by the slots ``{x}`` and ``{y}``, so that the swapped
version of an item is the same text with the slots exchanged. A task is one class of perturbation in that stage: a story
of named sentences, and versions that edit the story or another version, so that nothing is written twice. What is so
and what is believed after each sentence follows from its events. The guide is dataset/perturbed-2/WRITING.md.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations, permutations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tomserve import content
from tomserve.beliefs import Layer, Manner, Trace, Update, apart, together
from tomserve.content.validation import Strict, YamlLines, load_yaml, validate
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.items import UNKNOWN, Factor, Gold, Item
from tomserve.items.rationale import compile_sets

PERTURBATIONS = (
    "none",
    "transparent_container",
    "preposition_replacement",
    "uninformative_label",
    "late_label",
    "non_protagonist_belief",
    "automatic_change_knowledge",
    "add_unrelated_information",
    "induction_from_baseline",
    "untrustworthy_testimony",
    "conclusion_from_sentiment",
)
FALSE_BELIEF = "false_belief"
SCENARIOS = {
    "unexpected_contents": (FALSE_BELIEF, "correct_label", "informed_protagonist", "open_container"),
    "unexpected_transfer": (FALSE_BELIEF, "no_transfer", "informed_protagonist", "present_protagonist"),
}
QUESTION_KINDS = ("reality", "belief")
QUESTIONS = 2 * len(QUESTION_KINDS)
"""Items of one story: each question as written, and with the labels exchanged."""

CUE = {"unexpected_contents": "y", "unexpected_transfer": "x"}
"""The answer that a classic false-belief task of this kind expects."""

ROLES = ("cue", "opposite", UNKNOWN)
"""What the right answer to the belief question is, seen from the answer that a classic reading would give (the cue)."""

SYMBOLS = ("x", "y", UNKNOWN)
AUTOMATIC = "automatic_change_knowledge"
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Edition:
    """One data folder of the benchmark."""

    name: str  # of its benchmark
    folder: str  # with ``stages``, ``retold`` and ``design.yaml``
    pairs: bool  # whether a task has several false-belief stories, two of them a minimal pair, or one of that name


FIRST = Edition("perturbed", "dataset", pairs=False)
SECOND = Edition("perturbed-2", "dataset/perturbed-2", pairs=True)

OF_PAIRS = frozenset(("version", "twin", "ground", "belief_role", "reality", "slot", "task_questions"))
"""Factors of items that only an edition with pairs has."""


def in_false_belief_subset(factors: Mapping[str, Factor]) -> bool:
    """Whether an item with these factors is a belief question of the false-belief scenario."""
    return factors["scenario"] == FALSE_BELIEF and factors["question_kind"] == "belief"


# The format


class Slot(BaseModel):
    """A label and, as extra keys, its other forms. Prose uses them as ``{x}`` and ``{x.form}``."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    label: str = Field(min_length=2)

    def forms(self) -> dict[str, str]:
        """Every form by its name; the name of the label itself is ""."""
        return {"": self.label, **{name: str(form) for name, form in (self.model_extra or {}).items()}}


_Label = Annotated[Slot, BeforeValidator(lambda value: {"label": value} if isinstance(value, str) else value)]
Labels = Annotated[dict[Literal["x", "y"], _Label], Field(min_length=2, max_length=2)]


class Sentence(Strict):
    """One sentence: its wordings, of which the released stories have the first, and the events in it."""

    texts: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    events: list[str] = []

    @property
    def text(self) -> str:
        """The wording of the released stories."""
        return self.texts[0]


def _as_sentence(value: Any) -> Any:
    """A sentence as it is written: ``text``, ``text @ event; event``, or a list of wordings, one or all with events."""
    wordings = [value] if isinstance(value, str) else value
    if not isinstance(wordings, list) or not all(isinstance(one, str) for one in wordings) or not wordings:
        return value
    parts = [one.partition(" @ ") for one in wordings]
    told = {tuple(filter(None, map(str.strip, events.split(";")))) for _, _, events in parts} - {()}
    if len(told) > 1:
        raise ValueError("the wordings have different events; give them once")
    return {"texts": [text.strip() for text, _, _ in parts], "events": list(next(iter(told), ()))}


Sentences = dict[str, Annotated[Sentence, BeforeValidator(_as_sentence)]]
"""Sentences by their names, in the order of the story."""


class Questions(Strict):
    """The templates of the two questions, which may use {asked}, {x} and {y}."""

    belief: str
    reality: str


class Version(Strict):
    """One version of a task's story, made by edits of that story or of another version."""

    answers: str = Field(pattern=r"^\w+/\w+$")  # belief/reality, as symbols
    twin: str | None = None  # the version of which this is the minimal pair, and which it edits
    of: str | None = None  # the version which it edits without being its minimal pair
    ground: Literal["stated", "unstated"] | None = None  # whether the story says what settles the belief
    cue: str | None = None  # what a classic reading would answer, where it is another symbol than for the task
    aware: bool | None = None  # whether the person knows of the mechanism, in one class only
    replace: Sentences = {}
    insert: dict[Annotated[str, Field(pattern=r"^(after|before) \w+$")], Sentences] = {}
    omit: list[str] = []
    edges: dict[str, list[Annotated[str, Field(pattern=r"^\w+->\w+$")]]] = {}  # which belief may follow which, in items
    control_exception: str | None = None  # why the belief is false in a control
    note: str | None = None

    @property
    def belief(self) -> str:
        """The right answer to the belief question, as a symbol."""
        return self.answers.split("/")[0]

    @property
    def reality(self) -> str:
        """The right answer to the reality question, as a symbol."""
        return self.answers.split("/")[1]


class Task(Strict):
    """One class of perturbation in one stage. Versions with the names of controls are these; all others, or the one
    that is called false_belief, are of the false-belief scenario."""

    asked: str | None = None  # whose belief, if not that of the stage's first person
    questions: Questions | None = None
    cue: str | None = None  # what a classic reading would answer, if not what its kind says
    note: str | None = None
    story: Sentences = Field(min_length=1)  # what the versions share
    versions: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Version] = Field(min_length=1)


_SPACED = r"^\S+( \S+)*$"
"""Words with single spaces between them and none around them."""

_Words = Annotated[str, Field(pattern=_SPACED)]
_Name = Annotated[str, Field(min_length=2, pattern=_SPACED)]


class StageFile(Strict):
    """A stage file as it is written."""

    schema_: Literal[2] = Field(alias="schema")
    canary: str | None = None
    stage: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    kind: Literal["unexpected_contents", "unexpected_transfer"]
    setting: str
    author: str = ""
    people: dict[_Name, Literal["she", "he", "they"]] = Field(min_length=1)  # the first one is asked about
    labels: Labels
    spare: list[Labels] = []  # other labels for fresh editions
    words: dict[_Words, list[_Words]] = {}  # other words for things
    questions: Questions
    lacks: dict[str, str] = {}  # why the stage has no task of a class
    tasks: dict[str, Task] = Field(min_length=1)

    @property
    def label_forms(self) -> list[str]:
        """Every form of every label, spare ones too."""
        return [form for pair in (self.labels, *self.spare) for slot in pair.values() for form in slot.forms().values()]

    def scenario(self, version: str) -> str:
        """The scenario of a version, by its name."""
        return version if version in SCENARIOS[self.kind] else FALSE_BELIEF

    def asked_person(self, task: str) -> str:
        """The person whose belief a task is about."""
        return self.tasks[task].asked or next(iter(self.people))


def story_of(task: Task, version: str) -> dict[str, Sentence]:
    """The sentences of a version by name, in order. Raises ValueError for an edit of a sentence that is not there, and
    for versions that are made of each other."""
    made, chain = task.versions[version], [version]
    while (base := made.twin or made.of) is not None:
        if base not in task.versions:
            raise ValueError(one_of("version", base, task.versions))
        if base in chain:
            raise ValueError(f"the versions {' and '.join(chain)} are made of each other")
        chain.append(base)
        made = task.versions[base]
    story = dict(task.story)
    for name in reversed(chain):
        story = _apply_version(story, task.versions[name])
    return story


def _apply_version(story: Mapping[str, Sentence], version: Version) -> dict[str, Sentence]:
    edited = dict(story)
    for what, names in (("replace", version.replace), ("omit", version.omit)):
        if strange := [name for name in names if name not in story]:
            raise ValueError(f"{what}: {one_of('sentence', strange[0], story)}")
    edited |= version.replace
    for place, sentences in version.insert.items():
        side, anchor = place.split(" ")
        if anchor not in edited:
            raise ValueError(f"insert: {one_of('sentence', anchor, edited)}")
        if clash := sorted(set(sentences) & set(edited)):
            raise ValueError(f"insert: a sentence named {clash[0]!r} is there already")
        order = list(edited)
        at = order.index(anchor) + (side == "after")
        order[at:at] = sentences
        edited = {name: sentences.get(name) or edited[name] for name in order}
    return {name: sentence for name, sentence in edited.items() if name not in version.omit}


# Events, and what follows from them

FORMS = {
    "world": re.compile(r"world (?P<labels>\w+)(?: seen (?P<agents>.+))?"),
    **{verb: re.compile(rf"{verb} (?P<agents>.+)") for verb in ("see", "view", "forget", "doubt")},
    **{verb: re.compile(rf"{verb} (?P<agents>.+) (?P<labels>\w+)") for verb in ("read", "tell", "hear", "expect")},
    "infer": re.compile(r"infer (?P<agents>[^,]+?) (?P<labels>\w+(?:, ?\w+)*)"),
    "arm": re.compile(r"arm (?P<labels>\w+)(?: known (?P<agents>.+))?"),
    "pass": re.compile(r"pass(?: known (?P<agents>.+))?"),
    "stall": re.compile(r"stall(?: known (?P<agents>.+))?"),
}
"""The forms of events, by their first word; the guide says what they mean."""


class Event(NamedTuple):
    """A parsed event: its verb, the persons and the labels that it names."""

    verb: str
    agents: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def parse(text: str) -> Event:
    """Read one event. Raises ValueError for an unknown verb, with the known ones, and for words that do not fit."""
    verb = text.split(" ", 1)[0]
    if (form := FORMS.get(verb)) is None:
        raise ValueError(f"event {text!r}: unknown verb {verb!r}; known: {', '.join(FORMS)}")
    if (match := form.fullmatch(text)) is None:
        raise ValueError(
            f"event {text!r}: does not fit the form of {verb!r}; the forms are listed in dataset/perturbed-2/WRITING.md"
        )
    groups = match.groupdict()
    agents, labels = (
        tuple(part.strip() for part in (groups.get(key) or "").split(",") if part) for key in ("agents", "labels")
    )
    return Event(verb, agents, labels)


class Line(NamedTuple):
    """Reality and the person's belief after one sentence."""

    world: Layer
    belief: Layer


_MANNERS: Mapping[str, Manner] = {
    "see": "learn",
    "tell": "learn",
    "infer": "infer",
    "forget": "infer",
    "read": "read",
    "hear": "hear",
    "view": "view",
    "doubt": "doubt",
}
"""How the person of an event comes to know something, by its verb."""


class _Reader:
    """Makes of each event what the calculus of beliefs needs to know of the world and of one person."""

    def __init__(self, asked: str) -> None:
        self.asked, self.updates = asked, list[Update]()
        self.world, self.expected = UNKNOWN, None
        self.armed: tuple[str, bool] | None = None  # what a mechanism will bring about, and whether the person knows

    expected: str | None  # the label to which the person counts on a change at any time

    def read(self, line: int, event: Event) -> None:
        verb, concerned = event.verb, self.asked in event.agents
        if verb == "world":
            self._change(line, event.labels[0], concerned)
        elif verb == "arm":
            self.armed = (event.labels[0], concerned)
        elif verb in ("pass", "stall"):
            if self.armed is None:
                raise ValueError(f"event {verb!r}: no mechanism was armed before")
            label, known = self.armed
            if verb == "pass":
                self._change(line, label, concerned and known)
            elif concerned and known:
                self._learn(line, (label,), "learn")
        elif concerned and verb == "expect":
            (self.expected,) = event.labels
        elif concerned:
            labels = {"see": (self.world,), "view": (self.world,), "forget": (UNKNOWN,)}.get(verb, event.labels)
            self._learn(line, labels, _MANNERS[verb])

    def _change(self, line: int, label: str, noticed: bool) -> None:
        self.world, self.expected = label, None if noticed else self.expected
        self.updates.append(Update(line, (label,), together(int(noticed))))

    def _learn(self, line: int, labels: tuple[str, ...], manner: Manner) -> None:
        self.updates.append(Update(line, labels, apart(1), manner))
        if manner in ("learn", "infer"):
            self.expected = None


def derive(story: Sequence[Sequence[str]], asked: str, *, inference: bool = True) -> list[Line]:
    """Reality and the belief of the person `asked` after each sentence.

    story: the events of each sentence. inference: whether `infer` events count. Raises ValueError for an event that
    cannot be read, or that cannot happen.

    >>> gold = derive([["world x"], ["read Ada y"], ["view Ada"], ["see Ada"]], "Ada")
    >>> [line.belief.labels for line in gold]
    [('unknown',), ('y',), ('x', 'y'), ('x',)]
    """
    reader = _Reader(asked)
    for line, events in enumerate(story):
        for event in map(parse, events):
            if inference or event.verb != "infer":
                reader.read(line, event)
        if reader.expected is not None:
            reader.updates.append(Update(line, (reader.expected,), apart(1), "expect"))
    trace = Trace(len(story), {asked: 1}, tuple(reader.updates))
    return [Line(*both) for both in zip(trace.layers(()), trace.layers((asked,)), strict=True)]


def rationale(layers: Sequence[Layer], labels: Mapping[str, str]) -> Gold:
    """The rationale of these layers, with the label of each symbol. Edges are written only where the rules of
    tomserve.items.Gold give others."""
    sets = [tuple(labels[symbol] for symbol in layer.labels) for layer in layers]
    usual = compile_sets(sets)
    edges = []
    for t, layer in enumerate(layers[1:], 1):
        steps = {(labels[before], labels[after]) for before, after in layer.steps}
        by_rule = {(usual.labels[t - 1][i], usual.labels[t][j]) for i, j in usual.steps[t]} if usual.labels else set()
        if steps != by_rule:
            edges += [(t, before, after) for before, after in sorted(steps)]
    return Gold(sets=tuple(sets), edges=tuple(edges))


# Stages and their items

SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


def fill(template: str, slots: Mapping[Any, Slot], asked: str) -> str:
    """A template with its slots filled; a slot at the beginning of the text gets a capital letter."""

    def one(match: re.Match[str]) -> str:
        name, form = match[1], match[2] or ""
        text = asked if name == "asked" else slots[name].forms()[form]
        return text[:1].upper() + text[1:] if match.start() == 0 else text

    return SLOT.sub(one, template)


ORDER_SEED = 26
"""The seed of the orders of labels, under which the right answers of each class of the false-belief subset stand about
equally often at each place; `tomserve dataset validate` checks it."""


@dataclass(frozen=True)
class Story:
    """One version of a task, made: its sentences by name, and reality and belief after each."""

    task: str
    version: str
    sentences: Mapping[str, Sentence]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Stage:
    """A stage: `file` is what was written, `path` and `lines` say where."""

    file: StageFile
    path: Path
    lines: YamlLines = field(repr=False)
    edition: Edition = SECOND
    _made: dict[tuple[str, str], Story] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def stories(self) -> list[Story]:
        """Every version of every task, in the order of the file. Raises ValueError for one that cannot be made."""
        return [self.story(task, version) for task, made in self.file.tasks.items() for version in made.versions]

    def story(self, task: str, version: str) -> Story:
        """One version of a task. Raises ValueError where it cannot be made."""
        if (made := self._made.get((task, version))) is None:
            sentences = story_of(self.file.tasks[task], version)
            events = [sentence.events for sentence in sentences.values()]
            lines = tuple(derive(events, self.file.asked_person(task)))
            made = self._made[task, version] = Story(task, version, sentences, lines)
        return made

    def items(self) -> list[Item]:
        """All items: by task and version in the order of the file, then by question, original before swapped."""
        return list(self._items)

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        return tuple(
            self.item(story, kind, swapped)
            for story in self.stories
            for kind in QUESTION_KINDS
            for swapped in (False, True)
        )

    def version(self, story: Story) -> Version:
        """What was written of a story's version."""
        return self.file.tasks[story.task].versions[story.version]

    def cue(self, story: Story) -> str:
        """The symbol that a classic reading would answer."""
        return self.version(story).cue or self.file.tasks[story.task].cue or CUE[self.file.kind]

    def role(self, story: Story) -> str:
        """What the right answer to the belief question is, seen from the cue: one of ROLES."""
        belief = self.version(story).belief
        return UNKNOWN if belief == UNKNOWN else ROLES[belief != self.cue(story)]

    def is_critical(self, story: Story) -> bool:
        """Whether the cue agrees with reality and the belief is the other label: in this story, or, without pairs, in
        the one false-belief story of its task."""
        if not self.edition.pairs:
            story = self.story(story.task, FALSE_BELIEF)
        false_belief = self.file.scenario(story.version) == FALSE_BELIEF
        return false_belief and self.cue(story) == self.version(story).reality and self.role(story) == "opposite"

    def slots(self, swapped: bool) -> Mapping[str, Slot]:
        """The slot of each symbol, as written or exchanged."""
        x, y = self.file.labels["x"], self.file.labels["y"]
        return {"x": y, "y": x} if swapped else {"x": x, "y": y}

    def labels(self, swapped: bool) -> dict[str, str]:
        """The label of each symbol, as written or exchanged."""
        return {symbol: slot.label for symbol, slot in self.slots(swapped).items()} | {UNKNOWN: UNKNOWN}

    def item(self, story: Story, kind: str, swapped: bool) -> Item:
        """The question of that kind about a story, with the labels as written or exchanged."""
        slots, labels, version = self.slots(swapped), self.labels(swapped), self.version(story)
        task, asked = self.file.tasks[story.task], self.file.asked_person(story.task)
        questions = task.questions or self.file.questions
        belief = kind == "belief"
        gold = rationale([line.belief if belief else line.world for line in story.lines], labels)
        if belief and version.edges:
            places = {name: t for t, name in enumerate(story.sentences)}
            pairs = [(places[name], one.split("->")) for name, steps in version.edges.items() for one in steps]
            gold = Gold(sets=gold.sets, edges=tuple((t, labels[before], labels[then]) for t, (before, then) in pairs))
        return Item(
            id=f"{self.file.stage}/{story.task}/{story.version}/{kind}/{'swapped' if swapped else 'original'}",
            benchmark=self.edition.name,
            story=tuple(fill(sentence.text, slots, asked) for sentence in story.sentences.values()),
            question=fill(questions.belief if belief else questions.reality, slots, asked),
            choices=self.choices(story),
            answer=labels[version.belief if belief else version.reality],
            gold=gold,
            factors=self._factors(story, kind, swapped, labels),
            cluster=f"{self.file.stage}/{story.task}",
            canary=self.file.canary,
        )

    def _factors(self, story: Story, kind: str, swapped: bool, labels: Mapping[str, str]) -> dict[str, Factor]:
        version, cue = self.version(story), self.cue(story)
        belief, reality = version.belief, version.reality
        factors: dict[str, Factor] = {
            "stage": self.file.stage,
            "kind": self.file.kind,
            "perturbation": story.task,
            "scenario": self.file.scenario(story.version),
            "version": story.version,
            "twin": version.twin,
            "ground": version.ground,
            "question_kind": kind,
            "swapped": swapped,
            "belief_is_false": (belief not in (UNKNOWN, reality)) if kind == "belief" else None,
            "answer_role": answer_role(belief if kind == "belief" else reality, reality, cue),
            "belief_role": self.role(story),
            "critical_form": self.is_critical(story),
            "aware": version.aware,
            "cue": labels[cue],
            "reality": labels[reality],
            "asked": self.file.asked_person(story.task),
            "slot": self._slot(story),
            "task_questions": 4 * len(self.file.tasks[story.task].versions),
        }
        if self.edition.pairs:
            return factors
        return {name: value for name, value in factors.items() if name not in OF_PAIRS}

    def _slot(self, story: Story) -> str:
        """Which part of its task a story is: of the minimal pair, another false-belief story by its number, or a
        control by its name. The same slots of several tasks are drawn together, and a pair is drawn whole."""
        if self.file.scenario(story.version) != FALSE_BELIEF:
            return story.version
        versions = self.file.tasks[story.task].versions
        told = [name for name in versions if self.file.scenario(name) == FALSE_BELIEF]
        first = next((name for name in told if versions[name].twin), None)
        pair = {first, versions[first].twin} if first is not None else set()
        if story.version in pair:
            return "pair"
        return f"other_{[name for name in told if name not in pair].index(story.version) + 1}"

    def choices(self, story: Story) -> tuple[str, ...]:
        """The labels, in the same order for all questions about a story. Without pairs a digest of the task rotates
        them; with pairs their six orders take turns over the versions, from one that a digest chooses by task."""
        labels = [self.file.labels["x"].label, self.file.labels["y"].label, UNKNOWN]
        task = f"{self.file.stage}/{story.task}"
        if not self.edition.pairs:
            turn = hashlib.sha256(task.encode()).digest()[0] % len(labels)
            return (*labels[turn:], *labels[:turn])
        orders = list(permutations(labels))
        begin = hashlib.sha256(f"{ORDER_SEED}/{task}".encode()).digest()
        version = list(self.file.tasks[story.task].versions).index(story.version)
        return orders[(5 * version + int.from_bytes(begin[:4], "big")) % len(orders)]


def answer_role(answer: str, reality: str, cue: str) -> str:
    """What the answer is. Where cue and reality agree it is "classic", because a classic reading is enough."""
    if answer == UNKNOWN:
        return "unknown"
    if answer == cue:
        return "classic"
    return "reality" if answer == reality else "other"


# Checks


class Prose:
    """Checks texts in which these pairs of labels may stand."""

    def __init__(self, *pairs: Labels) -> None:
        self._forms = list(pairs[0]["x"].forms())
        labels = [form for pair in pairs for slot in pair.values() for form in slot.forms().values()]
        plain = [re.sub(r"^(the|an?|some) ", "", label, flags=re.I).casefold() for label in labels]
        stems = {re.sub(r"s$", "", word) if len(word) > 3 else word for word in plain}
        listed = "|".join(sorted(map(re.escape, stems), key=len, reverse=True))
        self._bare = re.compile(rf"\b({listed})(s|es)?\b", re.I)

    def mistake(self, template: str) -> str | None:
        """What is wrong with a text; None where nothing is."""
        for match in SLOT.finditer(template):
            name, form = match[1], match[2] or ""
            if name == "asked" and not form:
                continue
            if name not in ("x", "y"):
                return one_of("slot", match[0], ["{x}", "{y}", "{asked}"])
            if form not in self._forms:
                return one_of(f"form of {name}", form, [key for key in self._forms if key])
        rest = SLOT.sub("\0", template)
        if "{" in rest or "}" in rest:
            return "a brace outside a slot; slots are {x}, {y}, {x.form}, {asked}"
        if bare := self._bare.search(rest):
            return f"{bare[0]!r} stands outside a slot and would not be swapped; write {{x}} or {{y}}"
        if template != template.strip() or "\n" in template:
            return "text must be one line without spaces around it"
        return None


def check(stage: Stage) -> None:
    """Check a stage, read or made of another. Raises ContentError with file, line, field and reason."""
    _Checker(stage).check()
    try:
        stage.items()
    except (ValueError, TypeError) as error:  # mistakes that show only when items are made, such as an empty question
        raise ContentError(" ".join(str(error).split())[:300], path=stage.path) from None


class _Checker:
    """Checks a stage file for what its types do not say. Every method raises ContentError at the first mistake."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.file = stage, stage.file
        self.prose = Prose(self.file.labels, *self.file.spare)

    def fail(self, reason: str, *loc: str | int) -> NoReturn:
        path, line = self.stage.path, self.stage.lines.at(loc)
        raise ContentError(reason, path=path, line=line, field=".".join(map(str, loc))) from None

    def one_of(self, what: str, name: str | None, known: Iterable[str], *loc: str | int) -> None:
        if name is not None and name not in (known := list(known)):
            self.fail(one_of(what, name, known), *loc)

    def check(self) -> None:
        self.labels()
        self.questions(self.file.questions, "questions")
        for name in (*self.file.tasks, *self.file.lacks):
            self.one_of("perturbation", name, PERTURBATIONS, "tasks" if name in self.file.tasks else "lacks", name)
        for name in PERTURBATIONS:
            if name in self.file.tasks and name in self.file.lacks:
                self.fail("there is a task of it", "lacks", name)
            if name not in self.file.tasks and name not in self.file.lacks:
                self.fail(f"has no task {name!r}; write it, or say under `lacks` why not", "tasks")
        for name in self.file.tasks:
            self.task(name)

    def labels(self) -> None:
        for number, pair in enumerate((self.file.labels, *self.file.spare)):
            here = ("labels",) if not number else ("spare", number - 1)
            for one, other in combinations([*(slot.label for slot in pair.values()), UNKNOWN], 2):
                if one.casefold() in other.casefold() or other.casefold() in one.casefold():
                    self.fail(f"labels {one!r} and {other!r}: one contains the other", *here)
            for slot in pair.values():
                if sorted(slot.forms()) != sorted(self.file.labels["x"].forms()):
                    self.fail("all labels must offer the same forms, or one cannot stand for the other", *here)

    def questions(self, questions: Questions | None, *loc: str | int) -> None:
        if questions is not None:
            self.text(questions.belief, *loc, "belief")
            self.text(questions.reality, *loc, "reality")

    def text(self, template: str, *loc: str | int) -> None:
        if "@" in template:
            self.fail("an '@' stands in the text; events follow ' @ ' with a space on both sides", *loc)
        if (mistake := self.prose.mistake(template)) is not None:
            self.fail(mistake, *loc)

    def task(self, name: str) -> None:
        task, here = self.file.tasks[name], ("tasks", name)
        own = SCENARIOS[self.file.kind][self.stage.edition.pairs :]
        if missing := [one for one in own if one not in task.versions]:
            self.fail(f"the version {missing[0]!r} is missing", *here, "versions")
        others = {one for names in SCENARIOS.values() for one in names}.difference(own)
        for one in task.versions:
            if one in others or not (self.stage.edition.pairs or one in own):
                self.fail(one_of(f"{self.file.kind} version", one, own), *here, "versions", one)
        self.one_of("person", task.asked, self.file.people, *here, "asked")
        self.one_of("label", task.cue, SYMBOLS[:2], *here, "cue")
        self.questions(task.questions, *here, "questions")
        for key, sentence in task.story.items():
            self.sentence(sentence, *here, "story", key)
        for version in task.versions:
            self.version(name, version)

    def version(self, name: str, which: str) -> None:
        version, here = self.file.tasks[name].versions[which], ("tasks", name, "versions", which)
        for key, sentence in version.replace.items():
            self.sentence(sentence, *here, "replace", key)
        for anchor, sentences in version.insert.items():
            for key, sentence in sentences.items():
                self.sentence(sentence, *here, "insert", anchor, key)
        for symbol in version.answers.split("/"):
            self.one_of("label", symbol, SYMBOLS, *here, "answers")
        self.one_of("label", version.cue, SYMBOLS[:2], *here, "cue")
        if version.twin and version.of:
            self.fail("give either `twin` or `of`", *here, "of")
        control = self.file.scenario(which) != FALSE_BELIEF
        if version.ground is not None and control:
            self.fail("belongs to versions of the false-belief scenario", *here, "ground")
        if version.ground is None and not control and self.stage.edition.pairs:
            self.fail("is missing: stated or unstated", *here, "ground")
        if (version.aware is not None) != (name == AUTOMATIC):
            self.fail(f"belongs to {AUTOMATIC}, where every version needs it", *here, "aware")
        try:
            story = self.stage.story(name, which)
        except ValueError as error:
            self.fail(str(error), *here)
        if not story.sentences:
            self.fail("no sentence is left", *here, "omit")
        self.gold(story, here)
        false = version.belief not in (UNKNOWN, version.reality)
        if control and false != bool(version.control_exception):
            reason = "the belief is false in a control: say why" if false else "given, but the belief is not false"
            self.fail(reason, *here, "control_exception")

    def gold(self, story: Story, here: Place) -> None:
        version, last = self.stage.version(story), story.lines[-1]
        both = ("belief", version.belief, last.belief), ("reality", version.reality, last.world)
        for which, written, layer in both:
            if layer.labels != (written,):
                found = ", ".join(layer.labels)
                self.fail(f"{which} is {written!r}, but the events end in [{found}]", *here, "answers")
        derived = dict(zip(story.sentences, (line.belief.steps for line in story.lines), strict=True))
        for key, pairs in version.edges.items():
            self.one_of("sentence", key, list(derived)[1:], *here, "edges", key)
            steps = [f"{before}->{after}" for before, after in derived[key]]
            if sorted(pairs) != steps:
                self.fail(f"are not those of the events: {', '.join(steps)}", *here, "edges", key)

    def sentence(self, sentence: Sentence, *loc: str | int) -> None:
        for text in sentence.texts:
            self.text(text, *loc)
        for event in sentence.events:
            try:
                parsed = parse(event)
            except ValueError as error:
                self.fail(str(error), *loc)
            named = ("person", parsed.agents, tuple(self.file.people)), ("label", parsed.labels, SYMBOLS)
            for what, names, known in named:
                if strange := [name for name in names if name not in known]:
                    self.fail(f"event {event!r}: {one_of(what, strange[0], known)}", *loc)


# Reading


def load_stage(path: Path, edition: Edition = SECOND) -> Stage:
    """Read and check one stage file. Raises ContentError with file, line, field and reason."""
    data, lines = load_yaml(path)
    if isinstance(data, dict) and data.get("schema") == 1:
        reason = (
            "the first form of stage files is no longer read; write the stage as dataset/perturbed-2/WRITING.md says "
            "(people with their pronouns, `labels` for `slots`, `versions` for `scenarios`, events in place of gold)"
        )
        raise ContentError(reason, path=path, line=lines.at(("schema",)), field="schema")
    stage = Stage(validate(data, StageFile, path=path, lines=lines), path, lines, edition)
    check(stage)
    return stage


def load_stages(path: Path | None = None, edition: Edition = SECOND) -> list[Stage]:
    """The checked stages of a file, a folder or, for None, of the edition, sorted by name. Raises ConfigError where
    there are none or two files claim one stage, ContentError for a mistake in a file."""
    folder = f"{edition.folder}/stages"
    if path is None:
        files = list(content.names(folder, ".yaml").values())
    else:
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"no stage files (*.yaml) in {path or folder}")
    found: dict[str, Stage] = {}
    for file in files:
        stage = load_stage(file, edition)
        if (other := found.setdefault(stage.file.stage, stage)) is not stage:
            raise ConfigError(f"{file}: stage {stage.file.stage!r} is already in {other.path}")
    return [found[name] for name in sorted(found)]
