"""What another tool's file says of one reply, in one form for all tools: what was asked, what came, how it was graded.

A reader (`inspect_log`, `lm_eval_samples`, `mapped`) yields a `Sample` for each reply of a file, in the order of the
file, and holds no more of it in memory than one at a time; `bringing` makes a run folder of them.

>>> sample = Sample(id="7", task="gsm8k", model="m", asked="What is 3 + 4?", text="It is 7.", target="7",
...                 grade=Grade("match", correct=True, answer="7"))
>>> sample.grade.value
1.0
>>> decided(Grade("f1", value=0.25), threshold=0.2).correct
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tomserve.items.item import Factor
from tomserve.status import OK

MOST_REPEATS = 2**15
"""A question has fewer replies than this, as a score table numbers them."""


@dataclass(frozen=True)
class Grade:
    """How another tool graded a reply. by: the name of its scorer or metric. correct: whether it counts the reply as
    right, None where it says only how good it is, or nothing. answer: what it read as the answer, None where it does
    not say. value: the score as a number, usually from 0 to 1; where it is left out, 1 for right and 0 for wrong."""

    by: str
    correct: bool | None = None
    answer: str | None = None
    value: float | None = None

    def __post_init__(self) -> None:
        if self.value is None and self.correct is not None:
            object.__setattr__(self, "value", float(self.correct))


def decided(grade: Grade, threshold: float | None = None) -> Grade:
    """The grade with a number made right or wrong: right from the threshold on, and without one from 1 on. What is
    called right or wrong by a word stays so."""
    if grade.correct is not None or grade.value is None:
        return grade
    return replace(grade, correct=grade.value >= (RIGHT if threshold is None else threshold))


RIGHT = 1.0
"""From which number on a grade counts as right where the user names none."""


@dataclass(frozen=True)
class Sample:
    """One reply of another tool, as its file tells it.

    id: of the question, as the tool names it, the same for all replies to it. task: the name of the task. model: who
    answered. asked: all that the model was shown, messages below each other with an empty line between. text: the raw
    reply, None where none came. target: the right answer as the tool knows it. choices: the labels that could be
    answered, empty where any text could. given: the question as the task states it, where the file keeps it apart from
    the prompt that was made of it. story, question: parts of what was asked, where the file keeps them apart. repeat:
    which of several replies to the same question this is, from 0 (Inspect: epoch). strategy: the way of asking, where
    the file names one. item: the id of an item of ours, where the file names one. ours: whether the sample comes from
    tomserve, so that `id` is the id of its item. status: one of
    tomserve.status. error: why there is no reply. reasoning: what a reasoning model thought before. finish: the
    server's reason for the end of the reply. usage: numbers of tokens, by the names of the OpenAI API. seconds: how
    long the reply took. grades: all grades by the name of the scorer; grade: the one that counts. facts: what the file
    knows of the question, from which factors are taken. cluster: which questions belong together (a document, a
    passage), where the file says so. others: how many more replies to the question the file holds that share the grade
    of this one, and are not kept. place: where it stands, such as "line 12", for messages.
    """

    id: str
    task: str
    model: str
    asked: str
    text: str | None
    target: str | None = None
    choices: tuple[str, ...] = ()
    given: str = ""
    story: tuple[str, ...] = ()
    question: str = ""
    repeat: int = 0
    strategy: str | None = None
    item: str | None = None
    ours: bool = False
    status: str = OK
    error: str | None = None
    reasoning: str | None = None
    finish: str | None = None
    usage: Mapping[str, int] | None = None
    seconds: float | None = None
    grade: Grade | None = None
    grades: Mapping[str, Grade] = field(default_factory=dict)
    facts: Mapping[str, Factor] = field(default_factory=dict)
    cluster: str | None = None
    others: int = 0
    place: str = ""


@dataclass(frozen=True)
class Origin:
    """A file that was read: its name without a folder, its length in bytes, and the SHA-256 digest of its content."""

    name: str
    bytes: int
    digest: str


@dataclass(frozen=True)
class About:
    """What a source says of itself. tool: "inspect", "lm-eval", "csv" or "jsonl". version: of the tool, where it is
    known. created: when the tool wrote it, as it says. settings: what it records of how the model was asked, such as
    the temperature, as JSON can hold it; never an address with a key."""

    tool: str
    version: str | None = None
    created: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """A file, or several that belong together, of another tool."""

    path: Path
    """The file that messages name."""

    def about(self) -> About:
        """What the source says of itself. Raises ConfigError where it cannot be read."""

    def samples(self) -> Iterator[Sample]:
        """Its replies, in the order of the file. What cannot be read is counted in `left_out`. Raises ConfigError where
        nothing of it can be read, naming file, place, what was found, what was expected and the way out."""

    def origins(self) -> tuple[Origin, ...]:
        """The files that were read, with their digests; known after `samples` has ended."""

    @property
    def left_out(self) -> Mapping[str, tuple[int, str]]:
        """What was not read: for each reason, in words, how many samples and where the first of them stands."""
