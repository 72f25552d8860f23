"""The second form in which stories are written: one YAML file for each stage, from which all items are derived.

A stage fixes two labels, ``x`` and ``y``, which prose names only by the slots ``{x}`` and ``{y}``, so that the swapped
version of an item is the same text with the slots exchanged. A task is one class of perturbation in that stage: a story
of named sentences, and versions of it that ``replace``, ``insert`` or ``omit`` sentences of the story or, with ``twin``
or ``of``, of another version, so that nothing is written twice. A sentence carries its events after an ``@``; what is
so and what is believed after each sentence is derived from them (see tomserve.benchmarks.perturbed_2.derive). Answers
are written out and must agree with what is derived. The guide is dataset/perturbed-2/WRITING.md.

>>> Sentence.model_validate(_as_sentence("Ines reads the tag. @ read Ines y; doubt Mei")).events
['read Ines y', 'doubt Mei']
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tomserve.benchmarks.perturbed.stagefile import SCENARIOS, Questions, Slot
from tomserve.errors import one_of
from tomserve.items import UNKNOWN

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


def _as_slot(value: Any) -> Any:
    return {"label": value} if isinstance(value, str) else value


Labels = dict[Literal["x", "y"], Annotated[Slot, BeforeValidator(_as_slot)]]
"""The two labels with their other forms."""


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
_Name = Annotated[str, Field(min_length=2, pattern=_SPACED)]


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

    def asked(self, task: str) -> str:
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
        story = _edited(story, task.versions[name])
    return story


def _edited(story: Mapping[str, Sentence], version: Version) -> dict[str, Sentence]:
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
