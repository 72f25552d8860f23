"""Counterfactual cases of the second edition: of each stage's task `none`, the false-belief story and the one in which
a person whom the protagonist trusts tells how it is, both also told to "you".

What was seen is the same in both, so that in every case a surface cue parts from the belief. The stories told to "you"
are written by hand (``dataset/perturbed-2/own.yaml``), as rules make few of them and bad ones; what "you" believe after
them follows from the events of their sentences, which stand in the stage file.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from tomserve import content
from tomserve.benchmarks.counterfactuals import P_TWIN as LEARNED
from tomserve.benchmarks.counterfactuals import PARTED, TWIN, Case, NoCase, P, add_factors, find_cases
from tomserve.benchmarks.perturbed.stages import (
    Sentence,
    Stage,
    Story,
    derive,
    fill,
    in_false_belief_subset,
    load_stages,
)
from tomserve.benchmarks.perturbed.variants import slots
from tomserve.content.validation import Strict, load_model
from tomserve.errors import ContentError, one_of
from tomserve.items import Item

FILE = "dataset/perturbed-2/own.yaml"
TASK, TWIN_VERSION = "none", "informed_protagonist"
UNTOLD = "no story of its stage is told to you"


class OwnStory(Strict):
    """Both stories of a stage, told to "you": texts by the names of sentences."""

    told: dict[str, str] = Field(min_length=1)  # the false-belief story
    learned: dict[str, str] = Field(min_length=1)  # what the other replaces or inserts


class OwnFile(Strict):
    """The stories told to "you", by stage."""

    schema_: Literal[1] = Field(alias="schema")
    canary: str
    stages: dict[str, OwnStory]


def cases(path: Path | None = None, where: Sequence[str] = ()) -> Iterator[Case | NoCase]:
    """The cases of all stages, each as written and with the labels exchanged. path: a stage file or a folder of them,
    None for the dataset's own. where: not used. Raises ContentError by file and field for a story told to "you" that
    does not fit its stage, ConfigError where there is no file of them."""
    del where
    source = content.require(FILE)
    own = load_model(source, OwnFile).stages
    for stage in load_stages(path):
        if (told := own.get(stage.file.stage)) is None:
            yield from (NoCase(item, UNTOLD) for item in stage.items() if in_false_belief_subset(item.factors))
            continue
        try:
            made = list(make_cases(stage, told))
        except ValueError as error:
            raise ContentError(str(error), path=source, field=f"stages.{stage.file.stage}") from None
        yield from made


def _false_version(stage: Stage) -> str:
    """The version that the informed one edits: the one that it names, or the one without edits. Raises ValueError
    where there is none."""
    versions = stage.file.tasks[TASK].versions if TASK in stage.file.tasks else {}
    plain = [name for name, one in versions.items() if not (one.replace or one.insert or one.omit)]
    if TWIN_VERSION not in versions or not (found := versions[TWIN_VERSION].of or next(iter(plain), None)):
        raise ValueError(f"task {TASK}: expected {TWIN_VERSION}, and the version that it edits")
    return found


def _items(stage: Stage, story: Story) -> tuple[Item, Item]:
    """The questions about the belief in a story: with the labels as written, and exchanged."""
    return stage.item(story, "belief", swapped=False), stage.item(story, "belief", swapped=True)


def make_cases(stage: Stage, own: OwnStory) -> Iterator[Case | NoCase]:
    """The two cases of a stage. Raises ValueError for a story told to "you" that does not fit."""
    false, twin = (stage.story(TASK, name) for name in (_false_version(stage), TWIN_VERSION))
    told = {name: (text, _sentence(name, false)) for name, text in own.told.items()}
    learned = told | {name: (text, _sentence(name, twin)) for name, text in own.learned.items()}
    order = list(told)
    for name in own.learned:
        if name not in order:
            before = list(twin.sentences)[: list(twin.sentences).index(name)]
            order.insert(max((order.index(one) + 1 for one in before if one in order), default=0), name)
    asked = stage.file.asked_person(TASK)
    _check(told, asked, stage.version(false).belief)
    _check(learned, asked, stage.version(twin).belief)
    tellings = ((P, list(told), told), (LEARNED, order, learned))
    question = stage.file.questions.belief.replace("{asked}", "you").replace("does you", "do you")
    for swapped, (f, other) in enumerate(zip(_items(stage, false), _items(stage, twin), strict=True)):
        cue = {"family": stage.file.kind, PARTED: "informed", "protagonist": f.answer}
        made = [add_factors(f, {**cue, "protagonist_in_twin": other.answer, "reality_in_twin": other.answer})]
        for variant, names, texts in tellings:
            story = tuple(fill(texts[name][0], stage.slots(bool(swapped)), "you") for name in names)
            answer = f.answer if variant == P else other.answer
            made.append(_told(f, variant, story=story, question=question, answer=answer))
        made.append(_told(other, TWIN, base=f.id))
        yield from find_cases(made)


def _told(item: Item, variant: str, **changes: object) -> Item:
    """An item of a case that is none of the benchmark's own, without a gold chain."""
    fields = {"id": f"{item.id}/{variant}", "base": item.id, "factors": {"variant": variant}, "gold": None, **changes}
    return item.model_copy(update=fields)


def _sentence(name: str, story: Story) -> Sentence:
    if name not in story.sentences:
        raise ValueError(one_of(f"sentence of {story.version}", name, story.sentences))
    return story.sentences[name]


def _check(told: Mapping[str, tuple[str, Sentence]], asked: str, belief: str) -> None:
    """Raise ValueError for a story told to "you" that tells what the asked person does not notice, names that person,
    has other labels than the stage's, or after which "you" do not believe what that person does (a symbol)."""
    for name, (text, sentence) in told.items():
        if any(event.startswith("world ") and f" {asked}" not in event for event in sentence.events):
            raise ValueError(f"{name}: {asked} does not notice this; leave it out")
        if asked in text:
            raise ValueError(f"{name}: names {asked}; expected a sentence told to you")
        if slots(text) != slots(sentence.text):
            raise ValueError(f"{name}: expected the labels {sorted(slots(sentence.text))}, as in the stage")
    found = derive([sentence.events for _, sentence in told.values()], asked)[-1].belief.labels
    if found != (belief,):
        raise ValueError(f"you believe {' or '.join(found)} after it; expected {belief}")
