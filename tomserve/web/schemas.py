"""Request and response models of the programming interface ``/api/v1``, as its OpenAPI document describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tomserve import benchmarks
from tomserve.items import Item
from tomserve.web import playground
from tomserve.web.analyses import Flips
from tomserve.web.answers import Prompt
from tomserve.web.items import How, Sentence
from tomserve.web.playground import Values
from tomserve.web.run_index import LONGEST_NOTE, MOST_TAGS, RunEntry, State
from tomserve.workflows.evaluate import Experiment

Word = Annotated[str, Field(max_length=200)]


class RequestModel(BaseModel):
    """Something that is given to the workbench: a field that it does not know is refused."""

    model_config = ConfigDict(extra="forbid")


class ResponseModel(BaseModel):
    """Something that the workbench tells."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Refusal(ResponseModel):
    """Why something was not done."""

    error: Annotated[str, Field(description="One sentence, which says what can be done about it.")]


class Coming(ResponseModel):
    """Something is being computed."""

    computing: Annotated[bool, Field(description="Always true.")] = True


class Health(ResponseModel):
    """Whether the workbench answers."""

    status: Annotated[str, Field(description="Always `ok`.")] = "ok"


class Place(ResponseModel):
    """Where a run stands in the queue."""

    state: State
    order: Annotated[float, Field(description="The smallest is run first.")]
    group: Annotated[str, Field(description="Runs of one group run one after the other.")]
    said: Annotated[str, Field(description="Why it waits, or what it failed by.")]
    submitted: str
    began: str | None
    ended: str | None
    exit_code: int | None


class RunLine(ResponseModel):
    """What a list says of a run."""

    name: Annotated[str, Field(description="Its name, such as `pilot/first`.")]
    kind: Annotated[str, Field(description="`answers` or `measured`; empty where it only waits in the queue.")]
    benchmark: str
    model: str
    strategies: tuple[str, ...]
    study: str
    made: Annotated[str, Field(description="When it began, in UTC (ISO 8601); empty where it has not.")]
    complete: Annotated[bool, Field(description="Whether everything was asked.")]
    running: Annotated[bool, Field(description="Whether a process works on it now.")]
    rows: Annotated[int, Field(description="Lines of its journal.")]
    size: Annotated[int, Field(description="Bytes of its folder.")]
    broken: Annotated[str, Field(description="Why it cannot be read; empty where it can.")]
    owner: Annotated[str, Field(description="Who started it; empty for nobody in particular.")]
    private: Annotated[bool, Field(description="Whether only its owner sees it.")]
    notes: str
    tags: tuple[str, ...]
    job: Annotated[Place | None, Field(description="Its place in the queue, where it was ever in it.")]

    @classmethod
    def of(cls, line: RunEntry) -> RunLine:
        """What the list says of that line of the register."""
        card = line.card
        told = {
            name: getattr(source, name) for source in (line, card) for name in cls.model_fields if hasattr(source, name)
        }
        return cls.model_validate(told)


class RunsQuery(RequestModel):
    """Which runs are listed; what is left out leaves all."""

    text: Annotated[str, Field(max_length=200, description="Part of its name, model, benchmark or notes.")] = ""
    model: Word = ""
    benchmark: Word = ""
    tag: Word = ""
    state: Annotated[Word, Field(description="In the queue, or running, complete, incomplete or broken.")] = ""
    kind: Literal["", "answers", "measured"] = ""
    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    size: Annotated[int, Field(ge=1, le=500, description="How many are told at once.")] = 50


class RunPage(ResponseModel):
    """A page of the list of runs."""

    total: Annotated[int, Field(description="How many runs the filter leaves.")]
    page: int
    pages: int
    runs: list[RunLine]


class Run(RunLine):
    """A run with its manifest: what was asked, of which model, by which code."""

    manifest: Annotated[
        dict[str, Any] | None, Field(description="The manifest of the run folder; null where there is none yet.")
    ]


Tag = Annotated[str, Field(min_length=1, max_length=40)]


class RunChange(RequestModel):
    """What is to be changed of a run; what is left out stays."""

    notes: Annotated[str, Field(max_length=LONGEST_NOTE)] | None = None
    tags: Annotated[list[Tag], Field(max_length=MOST_TAGS)] | None = None
    private: bool | None = None


class TokenRequest(RequestModel):
    """A wish for a token."""

    label: Annotated[str, Field(max_length=100, description="What it is for.")] = ""


class NewToken(ResponseModel):
    """A token that was made. It is told this once."""

    token: str
    id: Annotated[str, Field(description="By which it can be taken back.")]


class KnownToken(ResponseModel):
    """A token of yours, without the token itself."""

    id: str
    label: str
    made: str


class NewExperiment(Experiment):
    """An experiment that is to be started: the fields of `tomserve eval --config`, and who may see it. `key` names the
    environment variable that holds the key of the endpoint, as far as this workbench permits it."""

    private: Annotated[bool, Field(description="Whether only you see it, where people sign in.")] = False


class Started(ResponseModel):
    """An experiment that was put into the queue."""

    name: Annotated[str, Field(description="The name of its run.")]


class QueueResponse(ResponseModel):
    """What is in the queue."""

    runs: list[RunLine]


class Server(ResponseModel):
    """A model server of this machine."""

    model: str
    url: str
    started: Annotated[str, Field(description="In UTC (ISO 8601).")]
    state: Annotated[str, Field(description="`ready`, `loading`, or `silent` where it does not answer now.")]


Page = Annotated[int, Field(ge=1, le=10_000_000)]


class ScoresQuery(RequestModel):
    """In which form scores are wanted."""

    form: Literal["parquet", "csv", "jsonl"] = "parquet"


class TablesQuery(RequestModel):
    """Which tables are wanted; what is left out is as the run's benchmark has it."""

    study: Annotated[Word, Field(description="The name of a study.")] = ""
    intervals: Annotated[Word, Field(description="How intervals are computed.")] = ""
    by: Annotated[list[Word], Field(max_length=10, description="Factors, crossed ones with commas.")] = Field(
        default_factory=list
    )


class TableResponse(ResponseModel):
    """A table."""

    name: str
    rows: int
    csv: Annotated[str, Field(description="The whole table as CSV.")]


class TablesResponse(ResponseModel):
    """The tables of a study."""

    study: str
    intervals: str | None
    tables: list[TableResponse]


class AnswersQuery(RequestModel):
    """Which answers are wanted; what is left out leaves all."""

    strategy: Word = ""
    model: Word = ""
    status: Word = ""
    outcome: Literal["", "right", "wrong", "none", "sample"] = ""
    chain: Literal["", "proper", "broken", "unread", "(none)"] = ""
    item: Annotated[Word, Field(description="A part of the item's id.")] = ""
    text: Annotated[Word, Field(description="Words of the story, the question or the reply.")] = ""
    where: Annotated[list[Word], Field(max_length=50, description="Conditions FACTOR=VALUE.")] = Field(
        default_factory=list
    )
    page: Page = 1


class AnswersResponse(ResponseModel):
    """A page of answers."""

    total: Annotated[int, Field(description="How many answers the filters leave.")]
    page: int
    pages: int
    unsearched: Annotated[str, Field(description="Why texts were not searched; empty where they were.")]
    rows: Annotated[list[Values], Field(description="Columns of the score table; `shown`: the reply's beginning.")]


class AnswerQuery(RequestModel):
    """Which answer is wanted."""

    item: Annotated[str, Field(min_length=1, max_length=1000)]
    strategy: Annotated[str, Field(min_length=1, max_length=200)]
    sample: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    model: Word | None = None


class AnswerResponse(ResponseModel):
    """One answer."""

    run: str
    strategy: str
    model: str
    sample: int
    item: Item
    row: Annotated[Values, Field(description="The line of the journal: reply, status, usage, timings.")]
    score: Annotated[Values, Field(description="How it was read and judged.")]
    replies: Annotated[list[Values], Field(description="All turns of all samples.")]
    sentences: list[Sentence]
    prompts: Annotated[list[Prompt], Field(description="What was sent, by turn.")]
    untold: Annotated[str, Field(description="Why it cannot be told what was sent.")]


class CompareQuery(RequestModel):
    """What is compared, and which of the flips are told."""

    a: Annotated[str, Field(min_length=1, max_length=300)]
    b: Annotated[str, Field(max_length=300)] = ""
    sa: Annotated[Word, Field(description="A strategy of a.")] = ""
    sb: Annotated[Word, Field(description="A strategy of b, or of a.")] = ""
    common: Annotated[bool, Field(description="Whether only what both were asked is compared.")] = False
    margin: Annotated[
        float | None, Field(gt=0, lt=1, description="The largest difference that does not matter, a share.")
    ] = None
    kind: Literal["", "gained", "lost"] = ""
    item: Annotated[Word, Field(description="Of the flips: a part of the item's id.")] = ""
    strategy: Annotated[Word, Field(description="Of the flips.")] = ""
    page: Page = 1


class CompareResponse(ResponseModel):
    """A comparison."""

    a: str
    b: str
    verdicts: list[str]
    caption: str | None
    noise: Annotated[str | None, Field(description="How often answers change by chance, in words.")]
    lacking: list[str]
    left_out: Annotated[list[int], Field(description="Answers of a, and of b, without a partner.")]
    differences: Annotated[list[list[str]], Field(description="What else differs: field, in a, in b.")]
    overall: Annotated[list[Values], Field(description="The effect over all questions of each strategy.")]
    tables: list[Values]
    flips: Flips


Text = Annotated[str, Field(max_length=2000)]
Line = Annotated[str, Field(min_length=1, max_length=10_000)]


class ItemsQuery(RequestModel):
    """Which items are wanted."""

    gold: Annotated[Word, Field(description="Which set of right answers counts.")] = ""
    where: Annotated[list[Word], Field(max_length=40, description="Conditions FACTOR=VALUE.")] = Field(
        default_factory=list
    )
    text: Annotated[Word, Field(description="What id, story or question holds.")] = ""
    page: Page = 1


class PreviewQuery(How):
    """Which prompt is wanted."""

    item: Annotated[str, Field(min_length=1, max_length=320, description="The id of an item.")]
    gold: Word = ""


class PreviewResponse(ResponseModel):
    """What would be sent."""

    strategy: str
    more: Annotated[bool, Field(description="Whether further requests are made from the replies.")]
    bodies: Annotated[list[str], Field(description="The bodies of the requests, byte for byte.")]


class OwnItem(RequestModel):
    """A story of one's own."""

    story: Annotated[list[Line], Field(min_length=1, max_length=500)]
    question: Text
    choices: Annotated[list[Line], Field(min_length=2, max_length=50)]
    answer: Annotated[Text, Field(description="The right one; the first choice where it is left out.")] = ""


class TrialRequest(How):
    """What is asked of which model: an item of a benchmark, or a story of one's own."""

    item: Annotated[str, Field(min_length=1, max_length=320, description="The id of an item.")] | None = None
    own: OwnItem | None = None
    benchmark: Word = benchmarks.DEFAULT
    gold: Word = ""
    base_url: Annotated[Text, Field(description="The endpoint; left out for a server of this machine.")] = ""
    key: Annotated[Word, Field(description="The variable that holds the endpoint's key.")] = ""
    seconds: Annotated[float, Field(ge=1, le=playground.LONGEST)] = playground.DEADLINE
