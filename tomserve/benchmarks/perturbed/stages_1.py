"""Stage files of the first edition, read and checked, with the vocabulary that both editions share.

A stage fixes two labels, ``x`` and ``y``; prose never names them but by the slots ``{x}`` and ``{y}``, so that the
swapped version of an item is the same template with the slots exchanged. A task is a story of named sentences (the
false_belief scenario) and four scenarios, each of which may ``replace``, ``insert`` or ``omit`` sentences and states
for itself, sentence by sentence, what is then true (``world``) and what the asked person believes (``belief``).
Answers are written out and must agree with the last sets. The guide is in dataset/README.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Protocol, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tomserve import content
from tomserve.content.validation import YamlLines, load_yaml, validate
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
SCENARIOS = {
    "unexpected_contents": ("false_belief", "correct_label", "informed_protagonist", "open_container"),
    "unexpected_transfer": ("false_belief", "no_transfer", "informed_protagonist", "present_protagonist"),
}
QUESTION_KINDS = ("reality", "belief")
CUE = {
    "unexpected_contents": "y",
    "unexpected_transfer": "x",
}  # the answer that a classic false-belief task of this kind expects

DERIVED_FACTORS = frozenset(
    {"stage", "kind", "perturbation", "scenario", "question_kind", "swapped", "belief_is_false", "answer_role"}
    | {"critical_form", "aware", "asked", "cue"}
)


def in_false_belief_subset(factors: Mapping[str, Factor]) -> bool:
    """Whether an item with these factors is a belief question of the false-belief scenario."""
    return factors["scenario"] == "false_belief" and factors["question_kind"] == "belief"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def _as_sentence(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


def _as_set(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_edge(value: Any) -> Any:
    if isinstance(value, str) and value.count("->") == 1:
        return [part.strip() for part in value.split("->")]
    return value


class Slot(BaseModel):
    """A label and, as extra keys, its other forms. Prose uses them as ``{x}`` and ``{x.form}``."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    label: str = Field(min_length=2)

    def forms(self) -> dict[str, str]:
        """Every form by its name; the name of the label itself is ""."""
        return {"": self.label, **{name: str(form) for name, form in (self.model_extra or {}).items()}}


def _as_slot(value: Any) -> Any:
    return {"label": value} if isinstance(value, str) else value


Labels = dict[Literal["x", "y"], Annotated[Slot, BeforeValidator(_as_slot)]]
"""The two labels with their other forms."""


class Edition1Sentence(_Strict):
    """One sentence of prose, and the events in it, which check the gold (see validation_1)."""

    text: str = Field(min_length=1)
    events: list[str] = []


class Insertion(_Strict):
    """Sentences that a scenario inserts before or after a named one."""

    after: str | None = None
    before: str | None = None
    sentences: dict[str, Annotated[Edition1Sentence, BeforeValidator(_as_sentence)]] = Field(min_length=1)


Symbols = Annotated[list[str], BeforeValidator(_as_set), Field(min_length=1)]
Edge = Annotated[tuple[str, str], BeforeValidator(_as_edge)]


class GoldLine(_Strict):
    """What holds after one sentence: the possible labels of reality (`world`) and of the asked person's belief.

    Labels are given as symbols: x, y, unknown, or the name of an extra label. The edges are pairs (label after the
    sentence before, label after this one) that are possible; without them the rules of tomserve.items.Gold hold.
    """

    world: Symbols
    belief: Symbols
    world_edges: list[Edge] = []
    belief_edges: list[Edge] = []


class Answer(_Strict):
    """The answers to both questions, as symbols."""

    reality: str
    belief: str


class Scenario(_Strict):
    """One of the four versions of a task: edits of the task's story, with gold and answers of its own.

    control_exception: why the belief is false although the scenario is a control; without a reason that is refused.
    """

    replace: dict[str, Annotated[Edition1Sentence, BeforeValidator(_as_sentence)]] = {}
    insert: list[Insertion] = []
    omit: list[str] = []
    gold: dict[str, GoldLine]
    answer: Answer
    cue: str | None = None
    control_exception: str | None = None
    factors: dict[str, Factor] = {}
    note: str | None = None


class Questions(_Strict):
    """The templates of the two questions, which may use {asked}, {x} and {y}."""

    belief: str
    reality: str


class Task(_Strict):
    """A false-belief task, classic or perturbed.

    asked: the person whose belief is asked for, if it is not the stage's first. cue: the symbol that a classic reading
    would answer. critical_form: whether that cue agrees with reality. aware: whether the person knows of the mechanism,
    in the class automatic_change_knowledge only.
    """

    asked: str | None = None
    questions: Questions | None = None
    cue: str | None = None
    critical_form: bool = False
    aware: bool | None = None
    note: str | None = None
    story: dict[str, Annotated[Edition1Sentence, BeforeValidator(_as_sentence)]] = Field(min_length=1)
    scenarios: dict[str, Scenario]


class StageFile(_Strict):
    """A stage file as it is written. `extra_labels` are further choices by symbol; `people` are names by role."""

    schema_: Literal[1] = Field(alias="schema")
    canary: str | None = None
    stage: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    kind: Literal["unexpected_contents", "unexpected_transfer"]
    setting: str
    people: dict[str, Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    slots: Labels = Field(min_length=2, max_length=2)
    extra_labels: dict[str, str] = {}
    questions: Questions
    tasks: dict[str, Task] = Field(min_length=1)


@dataclass(frozen=True)
class Edition1Stage:
    """A checked stage: `file` is what was written, `path` and `lines` say where."""

    file: StageFile
    path: Path
    lines: YamlLines
    _made: dict[str, list[Item]] = field(default_factory=dict, repr=False, compare=False)

    def items(self, benchmark: str) -> list[Item]:
        """All items: by task in the order of the file, then by scenario and question, original before swapped."""
        if benchmark not in self._made:
            self._made[benchmark] = list(self._items(benchmark))
        return self._made[benchmark]

    def _items(self, benchmark: str) -> Iterator[Item]:
        for name, task in self.file.tasks.items():
            for scenario in SCENARIOS[self.file.kind]:
                story = story_of(task, task.scenarios[scenario])
                for kind in QUESTION_KINDS:
                    for swapped in (False, True):
                        yield self._item(benchmark, name, scenario, story, kind, swapped)

    def _item(
        self, benchmark: str, name: str, scenario: str, story: Mapping[str, Edition1Sentence], kind: str, swapped: bool
    ) -> Item:
        task = self.file.tasks[name]
        version = task.scenarios[scenario]
        slots = self.file.slots
        if swapped:
            slots = {"x": slots["y"], "y": slots["x"]}
        labels = {symbol: slot.label for symbol, slot in slots.items()} | self.file.extra_labels | {UNKNOWN: UNKNOWN}
        asked = self.asked_person(name)
        lines = [version.gold[sentence] for sentence in story]
        sets = [line.belief if kind == "belief" else line.world for line in lines]
        edges = [line.belief_edges if kind == "belief" else line.world_edges for line in lines]
        questions = task.questions or self.file.questions
        cluster = f"{self.file.stage}/{name}"
        answer = version.answer.belief if kind == "belief" else version.answer.reality
        false = version.answer.belief not in (UNKNOWN, version.answer.reality)
        factors: dict[str, Factor] = {
            "stage": self.file.stage,
            "kind": self.file.kind,
            "perturbation": name,
            "scenario": scenario,
            "question_kind": kind,
            "swapped": swapped,
            "belief_is_false": false if kind == "belief" else None,
            "answer_role": answer_role(answer, version.answer.reality, version.cue or task.cue or CUE[self.file.kind]),
            "critical_form": task.critical_form,
            "aware": task.aware,
            "cue": labels[version.cue or task.cue or CUE[self.file.kind]],
            "asked": asked,
        }
        return Item(
            id=f"{cluster}/{scenario}/{kind}/{'swapped' if swapped else 'original'}",
            benchmark=benchmark,
            story=tuple(fill(sentence.text, slots, asked) for sentence in story.values()),
            question=fill((questions.belief if kind == "belief" else questions.reality), slots, asked),
            choices=self.choices(name),
            answer=labels[answer],
            gold=Gold(
                sets=tuple(tuple(labels[symbol] for symbol in layer) for layer in sets),
                edges=tuple((t, labels[a], labels[b]) for t, pairs in enumerate(edges) for a, b in pairs),
            ),
            factors=factors | version.factors,
            cluster=cluster,
            canary=self.file.canary,
        )

    def asked_person(self, task: str) -> str:
        """The person whose belief a task is about: the one that it names, else the first of the stage."""
        return self.file.tasks[task].asked or next(iter(self.file.people.values()))

    def choices(self, task: str) -> tuple[str, ...]:
        """The stage's labels, rotated by a hash of the task, in the same order for original and swapped items."""
        labels = [
            self.file.slots["x"].label,
            self.file.slots["y"].label,
            *self.file.extra_labels.values(),
            UNKNOWN,
        ]
        turn = hashlib.sha256(f"{self.file.stage}/{task}".encode()).digest()[0] % len(labels)
        return tuple(labels[turn:] + labels[:turn])


def answer_role(answer: str, reality: str, cue: str) -> str:
    """What the answer is. Where cue and reality agree it is "classic", because a classic reading is enough."""
    if answer == UNKNOWN:
        return "unknown"
    if answer == cue:
        return "classic"
    return "reality" if answer == reality else "other"


SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


def fill(template: str, slots: Mapping[Any, Slot], asked: str) -> str:
    """A template with its slots filled; a slot at the beginning of the text gets a capital letter."""

    def one(match: re.Match[str]) -> str:
        name, form = match[1], match[2] or ""
        text = asked if name == "asked" else slots[name].forms()[form]
        return text[:1].upper() + text[1:] if match.start() == 0 else text

    return SLOT.sub(one, template)


def story_of(task: Task, scenario: Scenario) -> dict[str, Edition1Sentence]:
    """The sentences of a scenario by name, in order. Raises ValueError for an edit of a sentence that is not there."""
    story = dict(task.story)
    for name, sentence in scenario.replace.items():
        if name not in story:
            raise ValueError(f"replace: {one_of('sentence', name, story)}")
        story[name] = sentence
    for insertion in scenario.insert:
        anchor = insertion.after or insertion.before
        if (insertion.after is None) == (insertion.before is None) or anchor is None:
            raise ValueError("insert: give either 'after' or 'before'")
        if anchor not in story:
            raise ValueError(f"insert: {one_of('sentence', anchor, story)}")
        if clash := sorted(set(insertion.sentences) & set(story)):
            raise ValueError(f"insert: a sentence named {clash[0]!r} is there already")
        order = list(story)
        at = order.index(anchor) + (insertion.after is not None)
        order[at:at] = insertion.sentences
        story = {name: insertion.sentences.get(name) or story[name] for name in order}
    for name in scenario.omit:
        if name not in story:
            raise ValueError(f"omit: {one_of('sentence', name, story)}")
        del story[name]
    return story


class Prose:
    """Checks texts of one stage.

    labels: every form of every label. forms: the names of the forms, "" for the label itself.
    """

    def __init__(self, labels: Iterable[str], forms: Sequence[str]) -> None:
        self._forms = forms
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


def load_stage(path: Path) -> Edition1Stage:
    """Read and check one stage file. Raises ContentError with file, line, field and reason."""
    data, lines = load_yaml(path)
    stage = Edition1Stage(validate(data, StageFile, path=path, lines=lines), path, lines)
    _Checker(stage).check()
    try:
        for item in stage.items("perturbed"):
            item.to_json()
    except (ValueError, TypeError) as error:  # mistakes that show only when items are made, such as an empty question
        raise ContentError(" ".join(str(error).split())[:300], path=path) from None
    return stage


class StageChecker:
    """Checks a stage file for what its types do not say. Every method raises ContentError at the first mistake.

    labels: every form of every label. forms: the names of the forms, "" for the label itself.
    """

    def __init__(self, path: Path, lines: YamlLines, labels: Iterable[str], forms: Sequence[str]) -> None:
        self.path, self.lines, self.prose = path, lines, Prose(labels, forms)

    def fail(self, reason: str, *loc: str | int) -> NoReturn:
        """Raise ContentError with the file, the line and the field of this place."""
        raise ContentError(reason, path=self.path, line=self.lines.at(loc), field=".".join(map(str, loc))) from None

    def one_of(self, what: str, name: str | None, known: Iterable[str], *loc: str | int) -> None:
        """Fail unless the name is one of those known; None is no name."""
        if name is not None and name not in (known := list(known)):
            self.fail(one_of(what, name, known), *loc)

    def distinct(self, labels: Sequence[str], *loc: str | int) -> None:
        """Fail where one label contains another."""
        for one, other in combinations(labels, 2):
            if one.casefold() in other.casefold() or other.casefold() in one.casefold():
                self.fail(f"labels {one!r} and {other!r}: one contains the other", *loc)

    def questions(self, questions: Questions | None, *loc: str | int) -> None:
        """Fail where a question's template holds a mistake."""
        if questions is not None:
            self.text(questions.belief, *loc, "belief")
            self.text(questions.reality, *loc, "reality")

    def text(self, template: str, *loc: str | int) -> None:
        """Fail where a template holds a mistake."""
        if (mistake := self.prose.mistake(template)) is not None:
            self.fail(mistake, *loc)


class _Checker(StageChecker):
    """Checks a stage file of the first edition."""

    def __init__(self, stage: Edition1Stage) -> None:
        self.file = stage.file
        self.symbols = {"x", "y", UNKNOWN, *self.file.extra_labels}
        forms = [form for slot in self.file.slots.values() for form in slot.forms().values()]
        labels = (*forms, *self.file.extra_labels.values())
        super().__init__(stage.path, stage.lines, labels, list(self.file.slots["x"].forms()))

    def check(self) -> None:
        self.labels()
        self.questions(self.file.questions, "questions")
        for name, task in self.file.tasks.items():
            self.one_of("perturbation", name, PERTURBATIONS, "tasks", name)
            self.task(name, task)

    def labels(self) -> None:
        slots = self.file.slots
        self.distinct([slots["x"].label, slots["y"].label, *self.file.extra_labels.values(), UNKNOWN], "slots")
        if sorted(slots["x"].forms()) != sorted(slots["y"].forms()):
            self.fail("x and y must offer the same forms, or one cannot stand for the other", "slots")
        if clash := sorted(set(self.file.extra_labels) & {"x", "y", "asked", UNKNOWN}):
            self.fail(f"the symbol {clash[0]!r} is taken", "extra_labels", clash[0])

    def task(self, name: str, task: Task) -> None:
        here = ("tasks", name)
        expected = SCENARIOS[self.file.kind]
        if missing := [scenario for scenario in expected if scenario not in task.scenarios]:
            self.fail(f"the scenario {missing[0]!r} is missing", *here, "scenarios")
        if strange := [scenario for scenario in task.scenarios if scenario not in expected]:
            self.fail(one_of(f"{self.file.kind} scenario", strange[0], expected), *here, "scenarios", strange[0])
        self.one_of("person", task.asked, self.file.people.values(), *here, "asked")
        self.one_of("label", task.cue, self.symbols, *here, "cue")
        self.questions(task.questions, *here, "questions")
        for key, sentence in task.story.items():
            self.text(sentence.text, *here, "story", key)
        for scenario in expected:
            self.scenario(task, task.scenarios[scenario], (*here, "scenarios", scenario))

    def scenario(self, task: Task, scenario: Scenario, here: tuple[str | int, ...]) -> None:
        for key, sentence in scenario.replace.items():
            self.text(sentence.text, *here, "replace", key)
        for index, insertion in enumerate(scenario.insert):
            for key, sentence in insertion.sentences.items():
                self.text(sentence.text, *here, "insert", index, "sentences", key)
        story: dict[str, Edition1Sentence] = {}
        try:
            story = story_of(task, scenario)
        except ValueError as error:
            self.fail(str(error), *here)
        if not story:
            self.fail("no sentence is left", *here, "omit")
        if clash := sorted(set(scenario.factors) & DERIVED_FACTORS):
            self.fail(f"{clash[0]!r} is part of the design and follows from the file", *here, "factors", clash[0])
        if missing := [key for key in story if key not in scenario.gold]:
            self.fail(f"no gold sets for the sentence {missing[0]!r}", *here, "gold")
        if strange := [key for key in scenario.gold if key not in story]:
            self.fail(f"gold for {one_of('sentence', strange[0], story)}", *here, "gold", strange[0])
        if list(scenario.gold) != list(story):
            self.fail(f"gold lines are not in the order of the story: {', '.join(story)}", *here, "gold")
        self.one_of("label", scenario.cue, self.symbols, *here, "cue")
        for which in ("world", "belief"):
            self.rationale(which, story, scenario, here)
        false = scenario.answer.belief not in (UNKNOWN, scenario.answer.reality)
        if here[-1] != "false_belief" and false != bool(scenario.control_exception):
            reason = "the belief is false in a control: say why" if false else "given, but the belief is not false"
            self.fail(reason, *here, "control_exception")

    def rationale(
        self, which: str, story: Mapping[str, Edition1Sentence], scenario: Scenario, here: tuple[str | int, ...]
    ) -> None:
        sets: list[list[str]] = []
        edges: list[tuple[int, str, str]] = []
        for t, key in enumerate(story):
            layer: list[str] = getattr(scenario.gold[key], which)
            for symbol in layer:
                self.one_of("label", symbol, self.symbols, *here, "gold", key, which)
            sets.append(layer)
            edges += [(t, a, b) for a, b in getattr(scenario.gold[key], f"{which}_edges")]
            try:
                compile_sets(sets, edges)
            except ValueError as error:
                self.fail(str(error), *here, "gold", key, which)
        automaton = compile_sets(sets, edges)
        names = list(story)
        if not automaton.labels:
            # The first sentence up to which no path leads is where the author has to look.
            stop = next(t for t in range(1, len(sets) + 1) if not _prefix(sets, edges, t))
            self.fail(f"no path of {which}s leads up to this sentence", *here, "gold", names[stop - 1], which)
        for t, (written, alive) in enumerate(zip(sets, automaton.labels, strict=True)):
            if dead := [symbol for symbol in written if symbol not in alive]:
                self.fail(f"{dead[0]!r} lies on no path through the story", *here, "gold", names[t], which)
        question = "reality" if which == "world" else "belief"
        answer = getattr(scenario.answer, question)
        self.one_of("label", answer, self.symbols, *here, "answer", question)
        if sets[-1] != [answer]:
            found = ", ".join(sets[-1])
            self.fail(f"is {answer!r}, but the last {which} set is [{found}]", *here, "answer", question)


def _prefix(sets: list[list[str]], edges: list[tuple[int, str, str]], length: int) -> bool:
    return bool(compile_sets(sets[:length], [edge for edge in edges if edge[0] < length]).labels)


class _LoadedStage(Protocol):
    @property
    def file(self) -> Any: ...

    @property
    def path(self) -> Path: ...


_StageT = TypeVar("_StageT", bound=_LoadedStage)


def read_stages(path: Path | None, folder: str, load: Callable[[Path], _StageT]) -> list[_StageT]:
    """The checked stages, sorted by name, of a stage file or a folder of them.

    path: None for `folder`, the dataset's own. load: reads one file. Raises ConfigError where there are none or two
    files claim one stage, ContentError for a mistake in a file.
    """
    if path is None:
        files = list(content.names(folder, ".yaml").values())
    else:
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"no stage files (*.yaml) in {path or folder}")
    found: dict[str, _StageT] = {}
    for file in files:
        stage = load(file)
        if (other := found.setdefault(stage.file.stage, stage)) is not stage:
            raise ConfigError(f"{file}: stage {stage.file.stage!r} is already in {other.path}")
    return [found[name] for name in sorted(found)]


def load_stages(path: Path | None = None) -> list[Edition1Stage]:
    """The checked stages of a stage file or a folder of them; of the dataset's own for None (see `read_stages`)."""
    return read_stages(path, "dataset/stages", load_stage)
