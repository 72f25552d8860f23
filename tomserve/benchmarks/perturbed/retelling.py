"""Variants of the items that are made from stage files of the first edition (see tomserve.stability).

A stage is read as one of the second edition: its scenarios are versions, its sentences have one wording each. What the
first form does not hold, the pronouns of persons and other words for things, stands in ``dataset/words.yaml``, and
sentences told otherwise in ``dataset/retold/STAGE.yaml``, written as for the second edition.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.benchmarks.perturbed import stagefile as first
from tomserve.benchmarks.perturbed_2 import freshcheck, retoldcheck
from tomserve.benchmarks.perturbed_2.fresh import read_names
from tomserve.benchmarks.perturbed_2.retelling import Teller
from tomserve.benchmarks.perturbed_2.retoldfile import read
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.benchmarks.perturbed_2.stagefile import Sentence, StageFile, Task, Version
from tomserve.benchmarks.perturbed_2.telling import Telling
from tomserve.content.validation import YamlLines, load_yaml, validate
from tomserve.errors import ConfigError, ContentError, one_of
from tomserve.stability import Retell

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


def as_second(stage: first.Stage, words: StageWords) -> Stage | None:
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
        tasks={name: _task(task, stage.asked(name)) for name, task in file.tasks.items()},
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


def _sentences(sentences: dict[str, first.Sentence]) -> dict[str, Sentence]:
    return {name: Sentence(texts=[one.text], events=list(one.events)) for name, one in sentences.items()}


def second(stages: list[first.Stage]) -> Iterator[tuple[first.Stage, Stage]]:
    """Each stage that has the form of the second edition, in both forms."""
    _, words, _ = read_words()
    for stage in stages:
        own = words.stages.get(stage.file.stage)
        if own is not None and (made := as_second(stage, own)) is not None:
            yield stage, made


def retelling(path: Path | None) -> Retell:
    """The function that makes variants of the edition's items. path: the user's stage file or folder of them, None for
    the dataset's own. Raises ConfigError and ContentError for files that cannot be read."""
    from tomserve.benchmarks.perturbed.benchmark import stages  # it imports this module

    names = read_names().pools()
    found = second(stages(path))
    return Teller((Telling(made, read(made), names), stage.items("perturbed")) for stage, made in found).retell


def problems(stages: list[first.Stage]) -> Iterator[str]:
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
        if (made := as_second(stage, own)) is not None:
            for word in own.words:
                faults += [(("stages", name, "words", word), reason) for reason in freshcheck.of_word(made, word)]
        for place, reason in faults:
            yield str(ContentError(reason, path=path, line=lines.at(place), field=".".join(place)))
        if made is not None:
            yield from retoldcheck.problems(made)
