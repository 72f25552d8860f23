"""What the programming interface takes and gives where it tells of items and asks one, as its OpenAPI document says."""

from __future__ import annotations

from typing import Annotated

import pydantic

from tomserve import benchmarks
from tomserve.items import Item
from tomserve.web import trying
from tomserve.web.results import Page, Values, plain
from tomserve.web.schemas import Given, Told, Word
from tomserve.web.trying import Trial

Text = Annotated[str, pydantic.Field(max_length=2000)]
Sentence = Annotated[str, pydantic.Field(min_length=1, max_length=10_000)]


class ItemsWish(Given):
    """Which items are wanted."""

    gold: Annotated[Word, pydantic.Field(description="Which set of right answers counts.")] = ""
    where: Annotated[list[Word], pydantic.Field(max_length=40, description="Conditions FACTOR=VALUE.")] = (
        pydantic.Field(default_factory=list)
    )
    text: Annotated[Word, pydantic.Field(description="What id, story or question holds.")] = ""
    page: Page = 1


class ItemsTold(Told):
    """A page of items."""

    items: list[Item]
    total: int
    matched: Annotated[int, pydantic.Field(description="How many of them the conditions leave.")]
    page: int
    pages: int
    factors: Annotated[dict[str, tuple[str, ...]], pydantic.Field(description="The values of factors that have few.")]
    names: Annotated[tuple[str, ...], pydantic.Field(description="All factors.")]


class How(Given):
    """How an item is asked."""

    strategy: Annotated[Word, pydantic.Field(description="The benchmark's first where it is left out.")] = ""
    preset: Annotated[Word, pydantic.Field(description="A preset of a model, by its name.")] = ""
    model: Annotated[Word, pydantic.Field(description="The name by which the server knows the model.")] = ""
    thinking: Annotated[Word, pydantic.Field(description="on, off, or a number of tokens.")] = ""
    temperature: Annotated[float, pydantic.Field(ge=0, le=2)] = 0.0
    seed: Annotated[int, pydantic.Field(ge=0, le=2**31 - 1)] = 0


class PreviewWish(How):
    """Which prompt is wanted."""

    item: Annotated[str, pydantic.Field(min_length=1, max_length=320, description="The id of an item.")]
    gold: Word = ""


class PreviewTold(Told):
    """What would be sent."""

    strategy: str
    more: Annotated[bool, pydantic.Field(description="Whether further requests are made from the replies.")]
    bodies: Annotated[list[str], pydantic.Field(description="The bodies of the requests, byte for byte.")]


class OwnItem(Given):
    """A story of one's own."""

    story: Annotated[list[Sentence], pydantic.Field(min_length=1, max_length=500)]
    question: Text
    choices: Annotated[list[Sentence], pydantic.Field(min_length=2, max_length=50)]
    answer: Annotated[Text, pydantic.Field(description="The right one; the first choice where it is left out.")] = ""


class TryWish(How):
    """What is asked of which model: an item of a benchmark, or a story of one's own."""

    item: Annotated[str, pydantic.Field(min_length=1, max_length=320, description="The id of an item.")] | None = None
    own: OwnItem | None = None
    benchmark: Word = benchmarks.DEFAULT
    gold: Word = ""
    base_url: Annotated[Text, pydantic.Field(description="The endpoint; left out for a server of this machine.")] = ""
    key: Annotated[Word, pydantic.Field(description="The variable that holds the endpoint's key.")] = ""
    seconds: Annotated[float, pydantic.Field(ge=1, le=trying.LONGEST)] = trying.DEADLINE


class TrialTold(Told):
    """What came of a try."""

    name: str
    state: Annotated[str, pydantic.Field(description="`running`, `done` or `failed`.")]
    said: Annotated[str, pydantic.Field(description="Why it failed.")]
    item: Item
    where: str
    begun: str
    model: str
    revision: str
    rows: Annotated[list[Values], pydantic.Field(description="The lines of the journal, one for each request.")]
    score: Annotated[Values, pydantic.Field(description="How the reply was read.")]
    sentences: Annotated[list[Values], pydantic.Field(description="The story beside the reply.")]
    requests: Annotated[list[str], pydantic.Field(description="The bodies that were sent.")]

    @classmethod
    def of(cls, trial: Trial) -> TrialTold:
        """What is told of a try."""
        told = {name: getattr(trial, name) for name in cls.model_fields}
        return cls.model_validate({
            **told,
            "rows": [dict(row) for row in trial.rows],
            "sentences": [plain(one) for one in trial.sentences],
            "requests": list(trial.requests),
        })  # fmt: skip
