"""What the programming interface takes and gives where it tells of results, as its OpenAPI document describes it."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import pydantic

from tomserve.items import Item
from tomserve.web.oneanswer import Answer
from tomserve.web.schemas import Given, Told, Word

Values = dict[str, Any]
"""A row: the values of columns by their names."""

Page = Annotated[int, pydantic.Field(ge=1, le=10_000_000)]


class ScoresWish(Given):
    """In which form scores are wanted."""

    form: Literal["parquet", "csv", "jsonl"] = "parquet"


class TablesWish(Given):
    """Which tables are wanted; what is left out is as the run's benchmark has it."""

    study: Annotated[Word, pydantic.Field(description="The name of a study.")] = ""
    intervals: Annotated[Word, pydantic.Field(description="How intervals are computed.")] = ""
    by: Annotated[list[Word], pydantic.Field(max_length=10, description="Factors, crossed ones with commas.")] = (
        pydantic.Field(default_factory=list)
    )


class TableTold(Told):
    """A table."""

    name: str
    rows: int
    csv: Annotated[str, pydantic.Field(description="The whole table as CSV.")]


class TablesTold(Told):
    """The tables of a study."""

    study: str
    intervals: str | None
    tables: list[TableTold]


class AnswersWish(Given):
    """Which answers are wanted; what is left out leaves all."""

    strategy: Word = ""
    model: Word = ""
    status: Word = ""
    outcome: Literal["", "right", "wrong", "none", "sample"] = ""
    chain: Literal["", "proper", "broken", "unread", "(none)"] = ""
    item: Annotated[Word, pydantic.Field(description="A part of the item's id.")] = ""
    text: Annotated[Word, pydantic.Field(description="Words of the story, the question or the reply.")] = ""
    where: Annotated[list[Word], pydantic.Field(max_length=50, description="Conditions FACTOR=VALUE.")] = (
        pydantic.Field(default_factory=list)
    )
    page: Page = 1


class AnswersTold(Told):
    """A page of answers."""

    total: Annotated[int, pydantic.Field(description="How many answers the filters leave.")]
    page: int
    pages: int
    unsearched: Annotated[str, pydantic.Field(description="Why texts were not searched; empty where they were.")]
    rows: Annotated[
        list[Values], pydantic.Field(description="Columns of the score table; `shown`: the reply's beginning.")
    ]


class AnswerWish(Given):
    """Which answer is wanted."""

    item: Annotated[str, pydantic.Field(min_length=1, max_length=1000)]
    strategy: Annotated[str, pydantic.Field(min_length=1, max_length=200)]
    sample: Annotated[int, pydantic.Field(ge=0, le=1_000_000)] | None = None
    model: Word | None = None


class SentenceTold(Told):
    """A sentence of a story beside the chains."""

    number: int
    text: str
    gold: tuple[str, ...]
    stated: Annotated[str, pydantic.Field(description="What the reply says is believed then.")]
    verdict: str
    breaks: Annotated[bool, pydantic.Field(description="Whether the chain breaks here.")]


class AnswerTold(Told):
    """One answer."""

    run: str
    strategy: str
    model: str
    sample: int
    item: Item
    row: Annotated[Values, pydantic.Field(description="The line of the journal: reply, status, usage, timings.")]
    score: Annotated[Values, pydantic.Field(description="How it was read and judged.")]
    replies: Annotated[list[Values], pydantic.Field(description="All turns of all samples.")]
    sentences: list[SentenceTold]
    prompts: Annotated[list[Values], pydantic.Field(description="What was sent, by turn.")]
    untold: Annotated[str, pydantic.Field(description="Why it cannot be told what was sent.")]

    @classmethod
    def of(cls, found: Answer) -> AnswerTold:
        """What is told of an answer."""
        told = {name: getattr(found, name) for name in cls.model_fields if name not in ("prompts", "replies")}
        prompts = [plain(one) for one in found.prompts]
        return cls.model_validate({**told, "prompts": prompts, "replies": [dict(row) for row in found.replies]})


class CompareWish(Given):
    """What is compared, and which of the flips are told."""

    a: Annotated[str, pydantic.Field(min_length=1, max_length=300)]
    b: Annotated[str, pydantic.Field(max_length=300)] = ""
    sa: Annotated[Word, pydantic.Field(description="A strategy of a.")] = ""
    sb: Annotated[Word, pydantic.Field(description="A strategy of b, or of a.")] = ""
    common: Annotated[bool, pydantic.Field(description="Whether only what both were asked is compared.")] = False
    margin: Annotated[
        float | None, pydantic.Field(gt=0, lt=1, description="The largest difference that does not matter, a share.")
    ] = None
    kind: Literal["", "gained", "lost"] = ""
    item: Annotated[Word, pydantic.Field(description="Of the flips: a part of the item's id.")] = ""
    strategy: Annotated[Word, pydantic.Field(description="Of the flips.")] = ""
    page: Page = 1


class FlipsTold(Told):
    """A page of the questions that only one side has right."""

    rows: list[Values]
    total: int
    page: int
    pages: int


class CompareTold(Told):
    """A comparison."""

    a: str
    b: str
    verdicts: list[str]
    caption: str | None
    noise: Annotated[str | None, pydantic.Field(description="How often answers change by chance, in words.")]
    lacking: list[str]
    left_out: Annotated[list[int], pydantic.Field(description="Answers of a, and of b, without a partner.")]
    differences: Annotated[list[list[str]], pydantic.Field(description="What else differs: field, in a, in b.")]
    overall: Annotated[list[Values], pydantic.Field(description="The effect over all questions of each strategy.")]
    tables: list[Values]
    flips: FlipsTold


def plain(value: Any) -> Values:
    """The fields of a dataclass or named tuple."""
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return dict(value._asdict())
