"""Stages of the second edition: their YAML format, gold derived from events, checks, and the items.

A stage fixes two labels, ``x`` and ``y``, which prose names only by the slots ``{x}`` and ``{y}``, so that the
swapped version of an item is the same text with the slots exchanged. A task is one class of perturbation in that
stage: a story of named sentences, and versions of it that ``replace``, ``insert`` or ``omit`` sentences of the story
or, with ``twin`` or ``of``, of another version, so that nothing is written twice. A sentence carries its events after
an ``@``; what is so and what is believed after each sentence is derived from them by `derive`. Answers are written
out and must agree with what is derived. The guide is dataset/perturbed-2/WRITING.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tomserve.benchmarks.perturbed.stages_1 import (
    CUE,
    PERTURBATIONS,
    QUESTION_KINDS,
    SCENARIOS,
    Labels,
    Questions,
    StageChecker,
    answer_role,
    fill,
    read_stages,
)
from tomserve.content.validation import YamlLines, load_yaml, validate
from tomserve.errors import ContentError, one_of
from tomserve.items import UNKNOWN, Factor, Gold, Item
from tomserve.items.rationale import compile_sets

FALSE_BELIEF = "false_belief"

ROLES = ("cue", "opposite", UNKNOWN)
"""What the right answer to the belief question is, seen from the answer that a classic reading would give (the cue)."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sentence(_Strict):
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


class Version(_Strict):
    """One version of a task's story.

    answers: the right answers to the belief question and to the reality question, as symbols: ``belief/reality``.
    twin: the version that this one is the minimal pair of, and whose story its edits change. of: a version whose story
    its edits change without being its minimal pair. ground: whether a version of the false-belief scenario says in so
    many words what settles the belief ("stated"), or leaves it to the reader ("unstated"). cue: the symbol that a
    classic reading would answer, where it is another than that of the task. aware: whether the person knows of the
    mechanism, in the class automatic_change_knowledge only. control_exception: why the belief is false although the
    version is a control; without a reason that is refused.
    """

    answers: str = Field(pattern=r"^\w+/\w+$")
    twin: str | None = None
    of: str | None = None
    ground: Literal["stated", "unstated"] | None = None
    cue: str | None = None
    aware: bool | None = None
    replace: Sentences = {}
    insert: dict[Annotated[str, Field(pattern=r"^(after|before) \w+$")], Sentences] = {}
    omit: list[str] = []
    control_exception: str | None = None
    note: str | None = None

    @property
    def belief(self) -> str:
        """The right answer to the belief question, as a symbol."""
        return self.answers.split("/")[0]

    @property
    def reality(self) -> str:
        """The right answer to the reality question, as a symbol."""
        return self.answers.split("/")[1]


class Task(_Strict):
    """One class of perturbation in one stage.

    asked: the person whose belief is asked for, if it is not the stage's first. questions: others than the stage's.
    cue: the symbol that a classic reading would answer, if it is not that of the kind. story: the sentences that the
    versions share. versions: by name. The three controls have the names of their scenarios; every other version is of
    the false-belief scenario.
    """

    asked: str | None = None
    questions: Questions | None = None
    cue: str | None = None
    note: str | None = None
    story: Sentences = Field(min_length=1)
    versions: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Version] = Field(min_length=1)


_SPACED = r"^\S+( \S+)*$"
"""Words with single spaces between them and none around them."""

_Words = Annotated[str, Field(pattern=_SPACED)]


class StageFile(_Strict):
    """A stage file as it is written.

    people: pronoun ("she", "he" or "they") by name; the first person is asked about unless a task says otherwise.
    labels: the two labels x and y, with other forms where prose needs them. spare: pairs of labels that fit the same
    stories, from which fresh editions draw. words: other words for things of the stage, by the word that stands in the
    prose ("bag": [sack, pouch]), from which fresh editions draw, too. lacks: why the stage has no task of a class.
    """

    schema_: Literal[2] = Field(alias="schema")
    canary: str | None = None
    stage: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    kind: Literal["unexpected_contents", "unexpected_transfer"]
    setting: str
    author: str
    people: dict[Annotated[str, Field(min_length=2, pattern=_SPACED)], Literal["she", "he", "they"]] = Field(
        min_length=1
    )
    labels: Labels = Field(min_length=2)
    spare: list[Annotated[Labels, Field(min_length=2)]] = []
    words: dict[_Words, list[_Words]] = {}
    questions: Questions
    lacks: dict[str, str] = {}
    tasks: dict[str, Task] = Field(min_length=1)

    def scenario(self, version: str) -> str:
        """The scenario of a version, by its name."""
        return version if version in SCENARIOS[self.kind] and version != FALSE_BELIEF else FALSE_BELIEF

    def asked_person(self, task: str) -> str:
        """The person whose belief a task is about."""
        return self.tasks[task].asked or next(iter(self.people))


def story_of(task: Task, version: str) -> dict[str, Sentence]:
    """The sentences of a version by name, in order.

    Raises ValueError for an edit of a sentence that is not there, and for versions that are made of each other.
    """
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
    for name, sentence in version.replace.items():
        if name not in edited:
            raise ValueError(f"replace: {one_of('sentence', name, edited)}")
        edited[name] = sentence
    for name in version.omit:
        if name not in edited:
            raise ValueError(f"omit: {one_of('sentence', name, edited)}")
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


FORMS = {
    "world": re.compile(r"world (?P<labels>\w+)(?: seen (?P<agents>.+))?"),
    **{verb: re.compile(rf"{verb} (?P<agents>.+)") for verb in ("see", "view", "forget", "doubt")},
    **{verb: re.compile(rf"{verb} (?P<agents>.+) (?P<labels>\w+)") for verb in ("read", "tell", "hear", "expect")},
    "infer": re.compile(r"infer (?P<agents>[^,]+?) (?P<labels>\w+(?:, ?\w+)*)"),
    "arm": re.compile(r"arm (?P<labels>\w+)(?: known (?P<agents>.+))?"),
    "pass": re.compile(r"pass(?: known (?P<agents>.+))?"),
    "stall": re.compile(r"stall(?: known (?P<agents>.+))?"),
}
"""The forms of events, by their first word."""


class Event(NamedTuple):
    """A parsed event: its verb, the persons and the labels that it names."""

    verb: str
    agents: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class Layer(NamedTuple):
    """What is possible after one sentence: the labels, sorted, and the pairs (label after the sentence before, label
    after this one) that may follow each other."""

    labels: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]


class Line(NamedTuple):
    """Reality and the person's belief after one sentence."""

    world: Layer
    belief: Layer


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
    return Event(verb, _split(groups.get("agents")), _split(groups.get("labels")))


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


Possible = tuple[str, bool]
"""A label that is possible, and whether it rests on something first-hand or on somebody trusted (it is firm)."""


class _Track:
    """What is possible of one thing, and how it comes from what was possible before the sentence."""

    def __init__(self) -> None:
        self.now: set[Possible] = {(UNKNOWN, False)}
        self._steps: set[tuple[str, Possible]] = set()

    @property
    def labels(self) -> set[str]:
        return {label for label, _ in self.now}

    def begin(self) -> None:
        self._steps = {(label, (label, firm)) for label, firm in self.now}

    def move(self, to: Callable[[Possible], set[Possible]]) -> None:
        self._steps = {(before, after) for before, now in self._steps for after in to(now)}
        self.now = {after for _, after in self._steps}

    def become(self, labels: set[str], *, firm: bool) -> None:
        self.move(lambda _: {(label, firm) for label in labels})

    def layer(self) -> Layer:
        return Layer(tuple(sorted(self.labels)), tuple(sorted({(before, after) for before, (after, _) in self._steps})))


class _State:
    """Reality and the belief of one person.

    expected: the label to which a change may come at any time. armed: the label that a mechanism will bring about, and
    who knows of it.
    """

    def __init__(self, asked: str) -> None:
        self.asked = asked
        self.world, self.belief = _Track(), _Track()
        self.expected: str | None = None
        self.armed: tuple[str, tuple[str, ...]] | None = None

    def learn(self, labels: set[str], *, firm: bool) -> None:
        self.belief.become(labels, firm=firm)
        self.expected = None

    def may_change(self, to: str) -> None:
        """The person may come to believe in the change that is counted on, or not yet."""
        self.belief.move(lambda now: {now, (to, now[1])})

    def apply(self, event: Event) -> None:
        concerned = self.asked in event.agents
        if event.verb == "world":
            self.world.become(set(event.labels), firm=True)
            if concerned:
                self.learn(self.world.labels, firm=True)
        elif event.verb == "arm":
            self.armed = (event.labels[0], event.agents)
        elif event.verb in ("pass", "stall"):
            if self.armed is None:
                raise ValueError(f"event {event.verb!r}: no mechanism was armed before")
            label, knowing = self.armed
            if event.verb == "pass":
                self.world.become({label}, firm=True)
            if concerned and self.asked in knowing:
                self.learn({label}, firm=True)
        elif concerned:
            self._person(event.verb, set(event.labels))

    def _person(self, verb: str, labels: set[str]) -> None:
        if verb == "see":
            self.learn(self.world.labels, firm=True)
        elif verb in ("tell", "infer"):
            self.learn(labels, firm=verb == "tell")
        elif verb == "forget":
            self.learn({UNKNOWN}, firm=False)
        elif verb == "doubt":
            self.belief.move(lambda now: {(now[0], False)})
        elif verb == "read":  # what is firm stays; somebody who may have seen the thing may believe either
            self.belief.move(lambda now: {now} if now[1] else {(label, False) for label in labels})
        elif verb == "hear":
            self.belief.move(lambda now: {now} if now[1] else {now, *((label, False) for label in labels)})
        elif verb == "view":
            seen = {(label, True) for label in self.world.labels}
            self.belief.move(lambda now: {now} | seen)
        elif verb == "expect":
            (self.expected,) = labels


def derive(story: Sequence[Sequence[str]], asked: str, *, inference: bool = True) -> list[Line]:
    """Reality and the belief of `asked` after each sentence.

    story: the events of each sentence. asked: the person. inference: whether `infer` events count.
    Raises ValueError for an event that cannot be read, or that cannot happen.

    The author of a story says of each sentence what happens in it, in a few fixed forms; `derive` gives, for reality
    and for one person's belief, the labels that are possible after each sentence and which may follow which. It knows
    nothing of classes, scenarios or right answers. In these forms A and B are persons and L and M labels:

        world L [seen A, B]    from here on it is so: L; A and B perceive it
        see A                  A perceives the thing itself
        view A                 the thing stands in A's plain view: A may have noticed it already, or will later (a set);
                               A who then reads a label may believe either
        read A L               A reads L on a label or sign, and believes it unless A has it first-hand or from somebody
                               trusted
        tell A L               somebody whom A trusts and believes tells A: L
        hear A L               A hears L and cannot judge it yet: L is added to what A may believe
        infer A L [, M]        A concludes L (or: L or M) from habit, testimony or taste
        expect A L             A counts on a change to L that may come at any time from here: until something settles
                               it, A may at each sentence come to believe L (a set)
        forget A               A forgets, and then has no ground for any label
        doubt A                A is no longer sure of what was first-hand or trusted: what is read next counts again
        arm L [known A, B]     a mechanism will bring about L; A and B know it
        pass [known A]         its time comes and it runs; A knows that the time has come
        stall [known A]        its time comes and it does not run; A knows that the time has come

    ``world unknown`` says that nothing in the story settles reality from here on.

    >>> gold = derive([["world x"], ["read Ada y"], ["view Ada"], ["see Ada"]], "Ada")
    >>> [line.belief.labels for line in gold]
    [('unknown',), ('y',), ('x', 'y'), ('x',)]
    """
    state, lines = _State(asked), []
    for events in story:
        state.world.begin()
        state.belief.begin()
        for event in map(parse, events):
            if inference or event.verb != "infer":
                state.apply(event)
        if state.expected is not None:
            state.may_change(state.expected)
        lines.append(Line(state.world.layer(), state.belief.layer()))
    return lines


BENCHMARK = "perturbed-2"

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
        return tuple(self._make_items())

    def _make_items(self) -> Iterator[Item]:
        for story in self.stories:
            for kind in QUESTION_KINDS:
                for swapped in (False, True):
                    yield self._item(story, kind, swapped)

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

    def _item(self, story: Story, kind: str, swapped: bool) -> Item:
        x, y = self.file.labels["x"], self.file.labels["y"]
        slots = {"x": y, "y": x} if swapped else {"x": x, "y": y}
        labels = {symbol: slot.label for symbol, slot in slots.items()} | {UNKNOWN: UNKNOWN}
        task, asked = self.file.tasks[story.task], self.file.asked_person(story.task)
        questions = task.questions or self.file.questions
        version = self.version(story)
        answer = version.belief if kind == "belief" else version.reality
        return Item(
            id=f"{self.file.stage}/{story.task}/{story.version}/{kind}/{'swapped' if swapped else 'original'}",
            benchmark=BENCHMARK,
            story=tuple(fill(sentence.text, slots, asked) for sentence in story.sentences.values()),
            question=fill(questions.belief if kind == "belief" else questions.reality, slots, asked),
            choices=self._choices(story),
            answer=labels[answer],
            gold=rationale([line.belief if kind == "belief" else line.world for line in story.lines], labels),
            factors=self._factors(story, kind, swapped, labels),
            cluster=f"{self.file.stage}/{story.task}",
            canary=self.file.canary,
        )

    def _factors(self, story: Story, kind: str, swapped: bool, labels: Mapping[str, str]) -> dict[str, Factor]:
        version, cue = self.version(story), self.cue(story)
        belief, reality = version.belief, version.reality
        answer = belief if kind == "belief" else reality
        scenario = self.file.scenario(story.version)
        critical = scenario == FALSE_BELIEF and cue == reality and self.role(story) == "opposite"
        return {
            "stage": self.file.stage,
            "kind": self.file.kind,
            "perturbation": story.task,
            "scenario": scenario,
            "version": story.version,
            "twin": version.twin,
            "ground": version.ground,
            "question_kind": kind,
            "swapped": swapped,
            "belief_is_false": (belief not in (UNKNOWN, reality)) if kind == "belief" else None,
            "answer_role": answer_role(answer, reality, cue),
            "belief_role": self.role(story),
            "critical_form": critical,
            "aware": version.aware,
            "cue": labels[cue],
            "reality": labels[reality],
            "asked": self.file.asked_person(story.task),
            "slot": self._slot(story),
            "task_questions": 4 * len(self.file.tasks[story.task].versions),
        }

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

    def _choices(self, story: Story) -> tuple[str, ...]:
        """The labels in one of their six orders, the same for all questions about a story. The orders take turns over
        the versions of a task, and where they begin differs between tasks by a digest with a fixed seed."""
        labels = [self.file.labels["x"].label, self.file.labels["y"].label, UNKNOWN]
        orders = list(permutations(labels))
        begin = hashlib.sha256(f"{ORDER_SEED}/{self.file.stage}/{story.task}".encode()).digest()
        version = list(self.file.tasks[story.task].versions).index(story.version)
        return orders[(5 * version + int.from_bytes(begin[:4], "big")) % len(orders)]


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


SYMBOLS = ("x", "y", UNKNOWN)
AUTOMATIC = "automatic_change_knowledge"
Place = tuple[str | int, ...]


def load_stage(path: Path) -> Stage:
    """Read and check one stage file. Raises ContentError with file, line, field and reason."""
    data, lines = load_yaml(path)
    stage = Stage(validate(data, StageFile, path=path, lines=lines), path, lines)
    check(stage)
    return stage


def check(stage: Stage) -> None:
    """Check a stage, read or made of another. Raises ContentError with file, line, field and reason."""
    _Checker(stage).check()
    try:
        stage.items()
    except (ValueError, TypeError) as error:  # mistakes that show only when items are made, such as an empty question
        raise ContentError(" ".join(str(error).split())[:300], path=stage.path) from None


class _Checker(StageChecker):
    """Checks a stage file of the second edition."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.file = stage, stage.file
        pairs = [self.file.labels, *self.file.spare]
        labels = [form for pair in pairs for slot in pair.values() for form in slot.forms().values()]
        super().__init__(stage.path, stage.lines, labels, list(self.file.labels["x"].forms()))

    def check(self) -> None:
        self.labels()
        self.questions(self.file.questions, "questions")
        for name in (*self.file.tasks, *self.file.lacks):
            self.one_of("perturbation", name, PERTURBATIONS, "tasks" if name in self.file.tasks else "lacks", name)
        for name in PERTURBATIONS:
            if (name in self.file.tasks) == (name in self.file.lacks):
                both = name in self.file.tasks
                reason = (
                    "there is a task of it" if both else f"has no task {name!r}; write it, or say under `lacks` why not"
                )
                self.fail(reason, *(("lacks", name) if both else ("tasks",)))
        for name in self.file.tasks:
            self.task(name)

    def labels(self) -> None:
        for number, pair in enumerate((self.file.labels, *self.file.spare)):
            here = ("labels",) if not number else ("spare", number - 1)
            self.distinct([*(slot.label for slot in pair.values()), UNKNOWN], *here)
            for slot in pair.values():
                if sorted(slot.forms()) != sorted(self.file.labels["x"].forms()):
                    self.fail("all labels must offer the same forms, or one cannot stand for the other", *here)

    def task(self, name: str) -> None:
        task, here = self.file.tasks[name], ("tasks", name)
        controls = [one for one in SCENARIOS[self.file.kind] if one != FALSE_BELIEF]
        if missing := [one for one in controls if one not in task.versions]:
            self.fail(f"the control {missing[0]!r} is missing", *here, "versions")
        others = [
            one for one in SCENARIOS["unexpected_contents"] + SCENARIOS["unexpected_transfer"] if one not in controls
        ]
        if strange := [one for one in task.versions if one in others]:
            self.fail(one_of(f"{self.file.kind} version", strange[0], controls), *here, "versions", strange[0])
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
        if (version.ground is None) != control:
            reason = "belongs to versions of the false-belief scenario" if control else "is missing: stated or unstated"
            self.fail(reason, *here, "ground")
        if (version.aware is not None) != (name == AUTOMATIC):
            self.fail(f"belongs to {AUTOMATIC}, where every version needs it", *here, "aware")
        try:
            story = self.stage.story(name, which)
        except ValueError as error:
            self.fail(str(error), *here)
        if not story.sentences:
            self.fail("no sentence is left", *here, "omit")
        self.answers(story, here)
        false = version.belief not in (UNKNOWN, version.reality)
        if control and false != bool(version.control_exception):
            reason = "the belief is false in a control: say why" if false else "given, but the belief is not false"
            self.fail(reason, *here, "control_exception")

    def answers(self, story: Story, here: Place) -> None:
        version, last = self.stage.version(story), story.lines[-1]
        for which, written, layer in (
            ("belief", version.belief, last.belief),
            ("reality", version.reality, last.world),
        ):
            if layer.labels != (written,):
                found = ", ".join(layer.labels)
                self.fail(f"{which} is {written!r}, but the events end in [{found}]", *here, "answers")

    def sentence(self, sentence: Sentence, *loc: str | int) -> None:
        for text in sentence.texts:
            self.text(text, *loc)
        for event in sentence.events:
            try:
                parsed = parse(event)
            except ValueError as error:
                self.fail(str(error), *loc)
            if strange := [agent for agent in parsed.agents if agent not in self.file.people]:
                self.fail(f"event {event!r}: {one_of('person', strange[0], self.file.people)}", *loc)
            if strange := [label for label in parsed.labels if label not in SYMBOLS]:
                self.fail(f"event {event!r}: {one_of('label', strange[0], SYMBOLS)}", *loc)

    def text(self, template: str, *loc: str | int) -> None:
        if "@" in template:
            self.fail("an '@' stands in the text; events follow ' @ ' with a space on both sides", *loc)
        super().text(template, *loc)


FOLDER = "dataset/perturbed-2/stages"


def load_stages(path: Path | None = None) -> list[Stage]:
    """The checked stages of a stage file or a folder of them; of the dataset's own for None (see `read_stages`)."""
    return read_stages(path, FOLDER, load_stage)
