"""Finds the answers of two runs to the same question, which one of them may tell anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import Query

from tomserve.errors import NoSuchAnswerError
from tomserve.web import answering
from tomserve.web.oneanswer import Answer

_LONG = Query(max_length=2000)


class FlipWish:
    """Which flips are wanted."""

    def __init__(
        self,
        page: Annotated[int, Query(ge=1, le=10**7)] = 1,
        flip: Annotated[str, Query(max_length=10)] = "",
        item: Annotated[str, Query(max_length=300)] = "",
        strategy: Annotated[str, Query(max_length=300)] = "",
    ) -> None:
        """page: from 1. flip: "gained" or "lost". item: a part of the id. strategy: one of them."""
        self.page, self.item, self.strategy = page, item.strip(), strategy
        self.kind = flip if flip in ("gained", "lost") else ""


class Question:
    """A question that two sides answered."""

    def __init__(self, item: Annotated[str, _LONG] = "", strategy: Annotated[str, _LONG] = "") -> None:
        """item: its id. strategy: of both sides, "" where each has its own."""
        self.item, self.strategy = item, strategy

    def items(self) -> tuple[str, str]:
        """The id of the item in both runs."""
        return self.item, self.item

    def strategies(self, own: tuple[str, str] | None) -> tuple[str, str]:
        """The strategies of both sides. own: where each has its own."""
        return own or (self.strategy, self.strategy)


def answer(run: Path, item: str, strategy: str) -> Answer:
    """The answer of a run to a question. Where the run asks versions of it, the first of these is found.

    Raises NoSuchAnswerError where there is none, ConfigError where a file of the run cannot be read.
    """
    try:
        return answering.answer(run, item, strategy)
    except NoSuchAnswerError:
        found = answering.version_of(run, item)
        if found is None:
            raise
        return answering.answer(run, found, strategy)
