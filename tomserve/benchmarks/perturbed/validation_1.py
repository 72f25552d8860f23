"""Validation, audit and variants of the first edition: hand-written gold is compared with the events.

The events of a sentence say who perceives, tells, moves or waits. `track` turns them into reality and the asked
person's belief after each sentence: each event becomes an update for the engine (tomserve.beliefs). What a person
infers (`infer`) cannot be derived; the author states it, and it can be left out. What persons think of each other's
beliefs the events do not say, so that nobody asks for it.

For variants a stage is read as one of the second edition; the pronouns and other words that the first form does not
hold stand in ``dataset/words.yaml``, and retold sentences in ``dataset/retold/STAGE.yaml``.

    >>> track([["world x"], ["read Ada y"], ["see Ada"]], "Ada")
    [({'x'}, {'unknown'}), ({'x'}, {'y'}), ({'x'}, {'x'})]
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.beliefs import Manner, Trace, Update, apart, together
from tomserve.benchmarks.base import Findings, outcome
from tomserve.benchmarks.perturbed import stages_1 as first
from tomserve.benchmarks.perturbed import validation_2
from tomserve.benchmarks.perturbed.baselines import SHIPPED_1, audit_baselines, fit_edition_1
from tomserve.benchmarks.perturbed.fresh import read_names
from tomserve.benchmarks.perturbed.stages_1 import (
    PERTURBATIONS,
    QUESTION_KINDS,
    SCENARIOS,
    Edition1Sentence,
    Edition1Stage,
    in_false_belief_subset,
    load_stages,
    story_of,
)
from tomserve.benchmarks.perturbed.stages_2 import Sentence, Stage, StageFile, Task, Version
from tomserve.benchmarks.perturbed.variants import StageRewording, VariantMaker, read_retold
from tomserve.content.validation import YamlLines, load_model, load_yaml, validate
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.items import UNKNOWN, Item, items_digest
from tomserve.variants import Retell

_FORMS = {
    "world": re.compile(r"world (?P<labels>\w+)(?: seen (?P<agents>.+))?"),
    "see": re.compile(r"see (?P<agents>.+)"),
    "view": re.compile(r"view (?P<agents>.+)"),
    "read": re.compile(r"read (?P<agents>.+) (?P<labels>\w+)"),
    "tell": re.compile(r"tell (?P<agents>.+) (?P<labels>\w+)"),
    "hear": re.compile(r"hear (?P<agents>.+) (?P<labels>\w+)"),
    "arm": re.compile(r"arm (?P<labels>\w+)(?: known (?P<agents>.+))?"),
    "pass": re.compile(r"pass(?: known (?P<agents>.+))?"),
    "stall": re.compile(r"stall(?: known (?P<agents>.+))?"),
    "infer": re.compile(r"infer (?P<agents>[^,]+?) (?P<labels>\w+(?:, ?\w+)*)"),
}
"""The forms of events.

In these forms A and B are persons and L and M are labels:

    world L [seen A, B]    from here on the world is L; A and B perceive it
    see A                  A perceives the thing itself
    view A                 the thing stands in A's plain view: A may have noticed it already or may do so later, so that
                           what A believes so far and what is to be seen are both possible
    read A L               A reads L on a label or sign; A believes it unless A has first-hand or trusted knowledge
    tell A L               somebody whom A trusts and believes tells A: L
    hear A L               A hears L and cannot judge it yet: L is added to what A may believe
    arm L [known A, B]     a mechanism will bring about L; A and B know it
    pass [known A]         its time comes and it runs; A knows that the time has come
    stall [known A]        its time comes and it does not run; A knows that the time has come
    infer A L [, M]        A concludes L (or: L or M) from habit, testimony or taste
"""


@dataclass(frozen=True, slots=True)
class Event:
    """A parsed event: its verb, the persons and the labels it names."""

    verb: str
    agents: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def parse(text: str) -> Event:
    """Read one event; what was read is kept, because stories share most of their events.

    Raises ValueError for an unknown verb, with the known ones, and for words that do not fit.
    """
    verb = text.split(" ", 1)[0]
    form = _FORMS.get(verb)
    if form is None:
        raise ValueError(f"event {text!r}: unknown verb {verb!r}; known: {', '.join(_FORMS)}")
    match = form.fullmatch(text)
    if match is None:
        raise ValueError(
            f"event {text!r}: does not fit the form of {verb!r} (see tomserve/benchmarks/perturbed/validation_1.py)"
        )
    groups = match.groupdict()
    return Event(verb, _names(groups.get("agents")), _names(groups.get("labels")))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


_MANNERS: Mapping[str, Manner] = {"tell": "learn", "infer": "infer", "read": "read", "hear": "hear"}
"""How a person learns the labels that an event names, by its verb."""


class _Reading:
    """Reads events one after another, and makes of each what the engine needs to know."""

    def __init__(self) -> None:
        self.bits: dict[str, int] = {}
        self.updates: list[Update] = []
        self._world: tuple[str, ...] = (UNKNOWN,)
        self._armed: tuple[str, frozenset[str]] | None = None  # what a mechanism will bring about, and who knows of it

    def read(self, line: int, event: Event) -> None:
        verb = event.verb
        if verb == "world":
            self._changes(line, event.labels, event.agents)
        elif verb == "see":
            self._becomes(line, self._world, event.agents, "learn")
        elif verb == "view":
            self._becomes(line, self._world, event.agents, "view")
        elif verb == "arm":
            self._armed = (event.labels[0], frozenset(event.agents))
        elif verb in ("pass", "stall"):
            if self._armed is None:
                raise ValueError(f"event {verb!r}: no mechanism was armed before")
            label, knowing = self._armed
            told = knowing.intersection(event.agents)
            if verb == "pass":
                self._changes(line, (label,), told)
            else:
                self._becomes(line, (label,), told, "learn")
        else:
            self._becomes(line, event.labels, event.agents, _MANNERS[verb])

    def _changes(self, line: int, labels: tuple[str, ...], agents: Iterable[str]) -> None:
        """The world becomes something else, and these persons know it."""
        self._world = labels
        self.updates.append(Update(line, labels, together(self._persons(agents))))

    def _becomes(self, line: int, labels: tuple[str, ...], agents: Iterable[str], manner: Manner) -> None:
        """Each of these persons learns something of the world, which stays as it is."""
        self.updates.append(Update(line, labels, apart(self._persons(agents)), manner))

    def _persons(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= self.bits.setdefault(name, 1 << len(self.bits))
        return found


def track(story: Sequence[Sequence[str]], asked: str, *, inference: bool = True) -> list[tuple[set[str], set[str]]]:
    """Reality and the belief of `asked` after each sentence, both as sets of possible labels.

    story: the events of each sentence. asked: the person. inference: whether `infer` events count. Raises ValueError
    for an event that cannot be read, or that cannot happen.
    """
    reading = _Reading()
    for line, events in enumerate(story):
        for event in map(parse, events):
            if inference or event.verb != "infer":
                reading.read(line, event)
    trace = Trace(len(story), reading.bits, tuple(reading.updates))
    after_each = zip(trace.beliefs(()), trace.beliefs((asked,)), strict=True)
    return [(set(world.labels), set(belief.labels)) for world, belief in after_each]


# Classes in which the asked person infers something, which the author has to state.
INFERENCE = ("induction_from_baseline", "untrustworthy_testimony", "conclusion_from_sentiment")
SENTENCES = (5, 12)
WORDS_A_SENTENCE = 30
WORDS_ON_AVERAGE = 18.0


class Layer(NamedTuple):
    """The hand-written and the derived set of labels after one sentence, of reality or of the asked person's belief."""

    cluster: str
    scenario: str
    sentence: str
    which: str
    written: frozenset[str]
    derived: frozenset[str]


@dataclass(frozen=True)
class Dataset:
    """The stages and the items that are derived from them."""

    stages: list[Edition1Stage]
    items: list[Item]


class Design(BaseModel):
    """What the whole dataset has to hold, as ``dataset/design.yaml`` says.

    items, false_belief_subset: numbers of items. critical: the classes of which about half of the tasks take the
    critical form (the cue agrees with reality). stages: the classes of each stage.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Literal[1] = Field(alias="schema")
    items: int
    false_belief_subset: int
    critical: frozenset[str]
    stages: dict[str, frozenset[str]]


def load_design() -> Design:
    """The design of the dataset. Raises ConfigError where there is none, ContentError by line for a mistake in it."""
    path = content.find("dataset/design.yaml")
    if path is None:
        raise ConfigError("dataset/design.yaml is missing, which says what the whole dataset holds; restore it")
    return load_model(path, Design)


def validate_stages(stages: list[Edition1Stage]) -> Findings:
    """The check as lines: one for each stage, one for each problem, and a summary. The exit code is 1 for problems."""

    listed = [*find_problems(stages), *find_word_problems(stages)]
    lines = []
    for stage in stages:
        tasks = stage.file.tasks
        lines.append(f"{stage.file.stage}: {len(tasks)} tasks, {16 * len(tasks)} items, {stage.file.kind}")
    total = 16 * sum(len(stage.file.tasks) for stage in stages)
    digest = items_digest(item for stage in stages for item in stage.items("perturbed"))
    summary = f"{total} items in {len(stages)} stages, {digest[:19]}: {outcome(listed)}"
    return Findings.of_problems(listed, summary, before=lines)


def find_problems(stages: list[Edition1Stage]) -> Iterator[str]:
    """One line for each problem. The counts of the design are checked only where all stages seem to be there."""
    data = Dataset(stages, [item for stage in stages for item in stage.items("perturbed")])
    wanted = load_design()
    checks: list[Callable[[Dataset], Iterator[str]]] = [
        check_factors,
        check_duplicates,
        check_balance,
        check_leaks,
        partial(check_controls, critical=wanted.critical),
        check_readability,
        check_events,
    ]
    if {stage.file.stage for stage in stages} >= {"C1", "T1"}:
        checks = [
            partial(check_design, wanted=wanted),
            partial(check_critical_forms, critical=wanted.critical),
            *checks,
        ]
    for check in checks:
        yield from check(data)


def check_design(data: Dataset, wanted: Design) -> Iterator[str]:
    """Check that there are the tasks and the numbers of items that the design wants."""
    for place, classes in wanted.stages.items():
        found = next((set(s.file.tasks) for s in data.stages if s.file.stage == place), set())
        for name in sorted(classes ^ found):
            yield f"{place}/{name}: {'is missing' if name in classes else 'is not in the design'}"
    for stage in data.stages:
        if stage.file.stage not in wanted.stages:
            yield f"{stage.file.stage}: is not in the design"
    subset = [i for i in data.items if in_false_belief_subset(i.factors)]
    for what, count, expected in (
        ("items", len(data.items), wanted.items),
        ("false-belief subset", len(subset), wanted.false_belief_subset),
    ):
        if count != expected:
            yield f"{what}: {count}, expected {expected}"


def check_critical_forms(data: Dataset, critical: frozenset[str]) -> Iterator[str]:
    """Check that about half of the tasks of the critical classes take the critical form, and no task of other classes;
    and that `aware` is true in some tasks and false in others of its class, and missing elsewhere."""
    forms: dict[str, list[bool]] = defaultdict(list)
    aware: dict[str, list[bool | None]] = defaultdict(list)
    for stage in data.stages:
        for name, task in stage.file.tasks.items():
            forms[name].append(task.critical_form)
            aware[name].append(task.aware)
    for name, found in forms.items():
        share = sum(found) / len(found)
        if name in critical and not 0.4 <= share <= 0.6:
            yield f"{name}: {sum(found)} of {len(found)} tasks take the critical form, expected about half"
        if name not in critical and share:
            yield f"{name}: takes the critical form, which is not foreseen for this class"
        if name == "automatic_change_knowledge" and set(aware[name]) != {True, False}:
            yield f"{name}: `aware` must be true in some tasks and false in others"
        if name != "automatic_change_knowledge" and set(aware[name]) != {None}:
            yield f"{name}: `aware` is for automatic_change_knowledge only"


def check_factors(data: Dataset) -> Iterator[str]:
    """Check that a task has each combination of scenario, question and swap once, and a stage one set of choices."""
    cells = Counter(
        (i.cluster, i.factors["scenario"], i.factors["question_kind"], i.factors["swapped"]) for i in data.items
    )
    for stage in data.stages:
        for name in stage.file.tasks:
            for scenario in SCENARIOS[stage.file.kind]:
                for kind in QUESTION_KINDS:
                    for swapped in (False, True):
                        cell = (f"{stage.file.stage}/{name}", scenario, kind, swapped)
                        if cells[cell] != 1:
                            yield f"{'/'.join(map(str, cell))}: {cells[cell]} items, expected 1"
        sets = {frozenset(i.choices) for i in data.items if i.factors["stage"] == stage.file.stage}
        if len(sets) != 1 or UNKNOWN not in next(iter(sets)):
            yield f"{stage.file.stage}: the choice set differs between tasks, or lacks {UNKNOWN!r}"


def check_duplicates(data: Dataset) -> Iterator[str]:
    """Check that no story occurs twice."""
    seen: dict[tuple[str, ...], str] = {}
    for item in data.items:
        if item.factors["question_kind"] == "belief":
            first = seen.setdefault(item.story, item.id)
            if first != item.id:
                yield f"{item.id}: tells the same story as {first}"


def check_balance(data: Dataset) -> Iterator[str]:
    """Check that each label of a task is the answer equally often, and that its items have one order of choices."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    orders: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    labels: dict[str, set[str]] = {}
    for item in data.items:
        answers[item.cluster][item.answer] += 1
        orders[item.cluster].add(item.choices)
        labels[item.cluster] = set(item.choices[:]) - {UNKNOWN}
    slots = {stage.file.stage: [slot.label for slot in stage.file.slots.values()] for stage in data.stages}
    for cluster, count in answers.items():
        x, y = slots[cluster.split("/")[0]]
        if count[x] != count[y]:
            yield f"{cluster}: {x!r} is the answer {count[x]} times, {y!r} {count[y]} times"
        if len(orders[cluster]) != 1:
            yield f"{cluster}: the order of choices differs between items"
    rotations = Counter(next(iter(found)).index(UNKNOWN) for found in orders.values())
    if len(answers) > 30 and max(rotations.values()) > 0.6 * len(answers):
        yield f"choices: {UNKNOWN!r} stands at one place in {max(rotations.values())} of {len(answers)} tasks"


def check_leaks(data: Dataset) -> Iterator[str]:
    """Check that no question names a label or asks about the future."""
    for item in data.items:
        for choice in item.choices:
            if re.search(rf"\b{re.escape(choice)}\b", item.question, re.I):
                yield f"{item.id}: the question names the label {choice!r}"
        if "will " in item.question:
            yield f"{item.id}: asks about the future, not about a belief"


def check_controls(data: Dataset, critical: frozenset[str]) -> Iterator[str]:
    """Check what each scenario and class must make of reality and belief, by the designs of paper and dataset."""
    belief = {
        (item.cluster, item.factors["scenario"]): item
        for item in data.items
        if item.factors["question_kind"] == "belief" and not item.factors["swapped"]
    }
    reality = {
        (item.cluster, item.factors["scenario"]): item.answer
        for item in data.items
        if item.factors["question_kind"] == "reality" and not item.factors["swapped"]
    }
    for (cluster, scenario), item in belief.items():
        name, cue, real = item.factors["perturbation"], item.factors["cue"], reality[cluster, scenario]
        if scenario in ("informed_protagonist", "open_container", "present_protagonist") and item.answer != real:
            yield f"{item.id}: the person is told or sees, but the belief is not the reality"
        if real == UNKNOWN:
            yield f"{item.id}: the story never settles reality"
        if scenario != "false_belief":
            continue
        if name in ("none", "add_unrelated_information") and (item.answer != cue or item.answer == real):
            yield f"{item.id}: a classic false belief must be the cue and differ from reality"
        if name in ("transparent_container", "preposition_replacement") and item.answer != real:
            yield f"{item.id}: the person sees, but the belief is not the reality"
        if name == "uninformative_label" and item.answer != UNKNOWN:
            yield f"{item.id}: an unreadable label must leave the belief {UNKNOWN!r}"
        if item.factors["critical_form"] and (cue != real or item.answer in (cue, UNKNOWN)):
            yield f"{item.id}: in the critical form the cue agrees with reality and the belief is the other label"
        if name in critical and not item.factors["critical_form"] and item.answer == cue:
            yield f"{item.id}: a perturbed belief must differ from the cue"


def check_readability(data: Dataset) -> Iterator[str]:
    """Check that stories are neither too short nor too long, and sentences not too long."""
    for item in data.items:
        if item.factors["question_kind"] == "reality":
            continue
        low, high = SENTENCES
        if not low <= len(item.story) <= high:
            yield f"{item.id}: {len(item.story)} sentences, expected {low} to {high}"
        words = [len(sentence.split()) for sentence in item.story]
        if max(words) > WORDS_A_SENTENCE or sum(words) / len(words) > WORDS_ON_AVERAGE:
            yield f"{item.id}: longest sentence {max(words)} words, {sum(words) / len(words):.1f} on average"


def check_events(data: Dataset) -> Iterator[str]:
    """Check that the events give the hand-written gold, and that only the classes that need it state inference."""
    for stage in data.stages:
        for name, task in stage.file.tasks.items():
            for scenario in SCENARIOS[stage.file.kind]:
                where = f"{stage.file.stage}/{name}/{scenario}"
                story = story_of(task, task.scenarios[scenario])
                inferring = [key for key, sentence in story.items() if _infers(sentence)]
                if inferring and name not in INFERENCE:
                    yield f"{where}/{inferring[0]}: `infer` belongs to {', '.join(INFERENCE)} only"
    try:
        for layer in cross_check(data.stages):
            if layer.written != layer.derived:
                yield (
                    f"{layer.cluster}/{layer.scenario}/{layer.sentence}: {layer.which} is written as "
                    f"{_set(layer.written)}, events give {_set(layer.derived)}"
                )
    except ValueError as error:
        yield str(error)


def _infers(sentence: Edition1Sentence) -> bool:
    return any(event.startswith("infer ") for event in sentence.events)


def _set(labels: frozenset[str]) -> str:
    return "{" + ", ".join(sorted(labels)) + "}"


def cross_check(stages: Sequence[Edition1Stage], *, inference: bool = True) -> Iterator[Layer]:
    """The hand-written and the derived sets after every sentence of every story. Raises ValueError for a bad event."""
    for stage in stages:
        for name, task in stage.file.tasks.items():
            for scenario in SCENARIOS[stage.file.kind]:
                version = task.scenarios[scenario]
                story = story_of(task, version)
                cluster = f"{stage.file.stage}/{name}"
                try:
                    derived = track([s.events for s in story.values()], stage.asked_person(name), inference=inference)
                except ValueError as error:
                    raise ValueError(f"{cluster}/{scenario}: {error}") from None
                for key, (world, belief) in zip(story, derived, strict=True):
                    gold = version.gold[key]
                    yield Layer(cluster, scenario, key, "world", frozenset(gold.world), frozenset(world))
                    yield Layer(cluster, scenario, key, "belief", frozenset(gold.belief), frozenset(belief))


WORDS = "dataset/words.yaml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StageWords(_Strict):
    """The pronouns of a stage's persons, by name, and other words for its things, by the word that stands in it."""

    people: dict[str, Literal["she", "he", "they"]]
    words: dict[str, list[str]] = {}


class WordsFile(_Strict):
    """Pronouns and other words by stage."""

    schema_: Literal[1] = Field(alias="schema")
    stages: dict[str, StageWords]


def read_words() -> tuple[Path, WordsFile, YamlLines]:
    """The pronouns and other words of all stages, where they stand and in which lines. Raises ConfigError where the
    file is missing, ContentError for a mistake in it."""
    path = content.find(WORDS)
    if path is None:
        raise ConfigError(f"{WORDS} is not there; name the folder that holds it by --content")
    data, lines = load_yaml(path)
    return path, validate(data, WordsFile, path=path, lines=lines), lines


def convert_stage(stage: first.Edition1Stage, words: StageWords) -> Stage | None:
    """The stage in the form of the second edition; None for one with more than two labels, which has no such form, and
    for one with a person of whom no pronoun is known."""
    file = stage.file
    people = dict.fromkeys(file.people.values())
    if file.extra_labels or not people.keys() <= words.people.keys():
        return None
    made = StageFile(
        schema=2,
        canary=file.canary,
        stage=file.stage,
        kind=file.kind,
        setting=file.setting,
        author="",
        people={name: words.people[name] for name in people},
        labels=dict(file.slots),
        words=dict(words.words),
        questions=file.questions,
        tasks={name: _task(task, stage.asked_person(name)) for name, task in file.tasks.items()},
    )
    return Stage(made, stage.path, stage.lines)


def _task(task: first.Task, asked: str) -> Task:
    versions = {name: _version(scenario) for name, scenario in task.scenarios.items()}
    return Task(asked=asked, questions=task.questions, story=_sentences(task.story), versions=versions)


def _version(scenario: first.Scenario) -> Version:
    inserted: dict[str, Any] = {}
    for one in scenario.insert:
        place = f"after {one.after}" if one.after else f"before {one.before}"
        inserted[place] = _sentences(one.sentences)
    answers = f"{scenario.answer.belief}/{scenario.answer.reality}"
    replaced = _sentences(scenario.replace)
    return Version(answers=answers, replace=replaced, insert=inserted, omit=list(scenario.omit))


def _sentences(sentences: dict[str, first.Edition1Sentence]) -> dict[str, Sentence]:
    return {name: Sentence(texts=[one.text], events=list(one.events)) for name, one in sentences.items()}


def convert_stages(stages: list[first.Edition1Stage]) -> Iterator[tuple[first.Edition1Stage, Stage]]:
    """Each stage that has the form of the second edition, in both forms."""
    _, words, _ = read_words()
    for stage in stages:
        own = words.stages.get(stage.file.stage)
        if own is not None and (made := convert_stage(stage, own)) is not None:
            yield stage, made


def make_retell(path: Path | None) -> Retell:
    """The function that makes variants of the edition's items. path: the user's stage file or folder of them, None for
    the dataset's own. Raises ConfigError and ContentError for files that cannot be read."""
    names = read_names().pools()
    found = convert_stages(load_stages(path))
    return VariantMaker(
        (StageRewording(made, read_retold(made), names), stage.items("perturbed")) for stage, made in found
    ).retell


def find_word_problems(stages: list[first.Edition1Stage]) -> Iterator[str]:
    """What is wrong with the pronouns and other words of these stages, and with their retold sentences: one line for
    each, with file and line."""
    path, words, lines = read_words()
    for stage in stages:
        name = stage.file.stage
        if (own := words.stages.get(name)) is None:
            continue
        here: tuple[str, ...] = ("stages", name, "people")
        known = list(stage.file.people.values())
        reasons = [one_of("person", person, known) for person in own.people if person not in known]
        reasons += [f"the pronoun of {person} is missing" for person in known if person not in own.people]
        faults = [(here, reason) for reason in reasons]
        if (made := convert_stage(stage, own)) is not None:
            for word in own.words:
                faults += [
                    (("stages", name, "words", word), reason) for reason in validation_2.find_word_problems(made, word)
                ]
        for place, reason in faults:
            yield str(ContentError(reason, path=path, line=lines.at(place), field=".".join(place)))
        if made is not None:
            yield from validation_2.find_retold_problems(made)


ORDER = {name: place for place, name in enumerate((*PERTURBATIONS, "overall"))}


def audit_tables(stages: list[Edition1Stage], own: bool = False) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """The tables of the audit by title, and its problems as sentences.

    A problem is a constant or positional rule that reaches "limited robust" Theory of Mind on the false-belief subset;
    and, where these are the dataset's own stages, a learned rule whose answers in the score tables are not those of a
    fit.
    """
    items = [item for stage in stages for item in stage.items("perturbed")]
    learned = fit_edition_1(items)
    accuracy, criteria, kinds = audit_baselines(items, learned)
    cell = pl.format("{}/{}", "right", "total").alias("cell")
    shown = {}
    for subset, title in (("false_belief", "false-belief subset"), ("all", "all questions")):
        part = accuracy.filter(pl.col("subset") == subset).sort(
            pl.col("perturbation").replace_strict(ORDER, return_dtype=pl.Int64), maintain_order=True
        )
        wide = part.with_columns(cell).pivot("perturbation", index="rule", values="cell")
        shown[f"shortcuts, {title}: right of all"] = wide.transpose(
            include_header=True, header_name="class", column_names="rule"
        )
    shown["shortcuts through the published robustness criteria"] = criteria.join(
        kinds, on="rule", how="left", maintain_order="left"
    )
    shown["hand-written gold against events: sets that agree"] = _agreement(stages)
    plain = kinds.filter(kind="constant")["rule"].to_list()
    bad = criteria.filter((pl.col("subset") == "false_belief") & pl.col("limited_robust") & pl.col("rule").is_in(plain))
    problems = [f"{rule!r} reaches limited robust ToM on the false-belief subset" for rule in bad["rule"]]
    if own:
        problems += SHIPPED_1.problems(items, learned)
    return shown, problems


def _agreement(stages: list[Edition1Stage]) -> pl.DataFrame:
    """How many hand-written sets of beliefs agree with those derived from events, with and without stated inference."""
    rows = [
        {"events": label, "of": layer.which, "same": layer.written == layer.derived}
        for label, inference in (("with inference", True), ("without inference", False))
        for layer in cross_check(stages, inference=inference)
    ]
    return (
        pl.DataFrame(rows)
        .group_by("events", "of", maintain_order=True)
        .agg(agree=pl.col("same").sum().cast(pl.Int64), total=pl.len().cast(pl.Int64))
    )


def audit_stages(stages: list[Edition1Stage], own: bool = False) -> Findings:
    """The audit to print; its exit code is 1 where `audit_tables` reports a problem, else 0."""
    shown, problems = audit_tables(stages, own)
    return Findings.of_problems(problems, tables=shown)
