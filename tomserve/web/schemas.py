"""What the programming interface takes and gives, as its OpenAPI document describes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from tomserve.runs.progress import Progress
from tomserve.web.cards import LONGEST_NOTE, State
from tomserve.web.register import Line
from tomserve.web.streaming import Seen
from tomserve.workflows.evaluate import Experiment

Word = Annotated[str, pydantic.Field(max_length=200)]


class Given(pydantic.BaseModel):
    """Something that is given to the workbench: a field that it does not know is refused."""

    model_config = pydantic.ConfigDict(extra="forbid")


class Told(pydantic.BaseModel):
    """Something that the workbench tells."""

    model_config = pydantic.ConfigDict(frozen=True, from_attributes=True)


class Refusal(Told):
    """Why something was not done."""

    error: Annotated[str, pydantic.Field(description="One sentence, which says what can be done about it.")]


class Coming(Told):
    """Something is being computed."""

    computing: Annotated[bool, pydantic.Field(description="Always true.")] = True


class Health(Told):
    """Whether the workbench answers."""

    status: Annotated[str, pydantic.Field(description="Always `ok`.")] = "ok"


class Place(Told):
    """Where a run stands in the queue."""

    state: State
    order: Annotated[float, pydantic.Field(description="The smallest is run first.")]
    group: Annotated[str, pydantic.Field(description="Runs of one group run one after the other.")]
    said: Annotated[str, pydantic.Field(description="Why it waits, or what it failed by.")]
    submitted: str
    began: str | None
    ended: str | None
    exit_code: int | None


class RunLine(Told):
    """What a list says of a run."""

    name: Annotated[str, pydantic.Field(description="Its name, such as `pilot/first`.")]
    kind: Annotated[str, pydantic.Field(description="`answers` or `measured`; empty where it only waits in the queue.")]
    benchmark: str
    model: str
    strategies: tuple[str, ...]
    study: str
    made: Annotated[str, pydantic.Field(description="When it began, in UTC (ISO 8601); empty where it has not.")]
    complete: Annotated[bool, pydantic.Field(description="Whether everything was asked.")]
    running: Annotated[bool, pydantic.Field(description="Whether a process works on it now.")]
    rows: Annotated[int, pydantic.Field(description="Lines of its journal.")]
    size: Annotated[int, pydantic.Field(description="Bytes of its folder.")]
    broken: Annotated[str, pydantic.Field(description="Why it cannot be read; empty where it can.")]
    owner: Annotated[str, pydantic.Field(description="Who started it; empty for nobody in particular.")]
    private: Annotated[bool, pydantic.Field(description="Whether only its owner sees it.")]
    notes: str
    tags: tuple[str, ...]
    job: Annotated[Place | None, pydantic.Field(description="Its place in the queue, where it was ever in it.")]

    @classmethod
    def of(cls, line: Line) -> RunLine:
        """What the list says of that line of the register."""
        card = line.card
        told = {
            name: getattr(source, name) for source in (line, card) for name in cls.model_fields if hasattr(source, name)
        }
        return cls.model_validate(told)


class RunsWish(Given):
    """Which runs are listed; what is left out leaves all."""

    text: Annotated[str, pydantic.Field(max_length=200, description="Part of its name, model, benchmark or notes.")] = (
        ""
    )
    model: Word = ""
    benchmark: Word = ""
    tag: Word = ""
    state: Annotated[Word, pydantic.Field(description="In the queue, or running, complete, incomplete or broken.")] = ""
    kind: Literal["", "answers", "measured"] = ""
    page: Annotated[int, pydantic.Field(ge=1, le=1_000_000)] = 1
    size: Annotated[int, pydantic.Field(ge=1, le=500, description="How many are told at once.")] = 50


class RunPage(Told):
    """A page of the list of runs."""

    total: Annotated[int, pydantic.Field(description="How many runs the filter leaves.")]
    page: int
    pages: int
    runs: list[RunLine]


class Run(RunLine):
    """A run with its manifest: what was asked, of which model, by which code."""

    manifest: Annotated[
        dict[str, Any] | None,
        pydantic.Field(description="The manifest of the run folder; null where there is none yet."),
    ]


Tag = Annotated[str, pydantic.Field(min_length=1, max_length=40)]


class RunChange(Given):
    """What is to be changed of a run; what is left out stays."""

    notes: Annotated[str, pydantic.Field(max_length=LONGEST_NOTE)] | None = None
    tags: Annotated[list[Tag], pydantic.Field(max_length=50)] | None = None
    private: bool | None = None


class TokenWish(Given):
    """A wish for a token."""

    label: Annotated[str, pydantic.Field(max_length=100, description="What it is for.")] = ""


class NewToken(Told):
    """A token that was made. It is told this once."""

    token: str
    id: Annotated[str, pydantic.Field(description="By which it can be taken back.")]


class KnownToken(Told):
    """A token of yours, without the token itself."""

    id: str
    label: str
    made: str


class NewExperiment(Experiment):
    """An experiment that is to be started: the fields of `tomserve eval --config`, and who may see it.

    `key` names the environment variable that holds the key of the endpoint, as far as this workbench permits it.
    """

    private: Annotated[bool, pydantic.Field(description="Whether only you see it, where people sign in.")] = False


class Started(Told):
    """An experiment that was put into the queue."""

    name: Annotated[str, pydantic.Field(description="The name of its run.")]


class QueueTold(Told):
    """What is in the queue."""

    runs: list[RunLine]


class AnsweredTold(Told):
    """One of the last answers of a run."""

    item: str
    strategy: str
    sample: int
    status: str
    text: Annotated[str, pydantic.Field(description="Its beginning, or the error where there is none.")]
    seconds: float | None
    time: str
    reused: bool


class ProgressTold(Told):
    """How far a run is."""

    name: str
    state: Annotated[
        str, pydantic.Field(description="Its state in the queue, or `running`, `complete`, `incomplete`, `broken`.")
    ]
    said: Annotated[str, pydantic.Field(description="Why it is so; mostly empty.")]
    following: Annotated[bool, pydantic.Field(description="Whether this may still change.")]
    done: Annotated[int, pydantic.Field(description="Rows of the present phase that are there.")]
    total: Annotated[int | None, pydantic.Field(description="How many there are to be; null where nobody knows.")]
    failures: Annotated[dict[str, int], pydantic.Field(description="Rows that are no answers, by their status.")]
    progress: Annotated[
        Progress | None, pydantic.Field(description="What the process that works on it has recorded; null without.")
    ]
    answers: tuple[AnsweredTold, ...]
    log: Annotated[str, pydantic.Field(description="The end of its log.")]
    console: Annotated[str, pydantic.Field(description="The end of what its process has printed.")]

    @classmethod
    def of(cls, seen: Seen) -> ProgressTold:
        """What is told of what was seen of a run."""
        return cls.model_validate(seen.plain())


class Server(Told):
    """A model server of this machine."""

    model: str
    url: str
    started: Annotated[str, pydantic.Field(description="In UTC (ISO 8601).")]
    state: Annotated[str, pydantic.Field(description="`ready`, `loading`, or `silent` where it does not answer now.")]


class BoardWish(Given):
    """What of the leaderboard is wanted; what is left out leaves all of it."""

    benchmark: Word = ""
    strategy: Word = ""
    model: Word = ""
    sort: Annotated[Word, pydantic.Field(description="The key of the column by which models stand in order.")] = ""
    order: Literal["up", "down"] = "down"
