"""The leaderboard."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tomserve.web import leaderboard, ranking
from tomserve.web.access import Reader
from tomserve.web.api.common import Bench
from tomserve.web.schemas import BoardWish

router = APIRouter()


@router.get("/leaderboard")
def board(bench: Bench, person: Reader, wish: Annotated[BoardWish, Query()]) -> ranking.Board:
    """Models by what they were asked; only what can be compared stands in the same column.

    `pending` says how many runs are still being counted: ask again until it is 0.
    """
    filters = ranking.Filters(wish.benchmark, wish.strategy, wish.model, wish.sort, wish.order == "down")
    return leaderboard.board(bench.register, person, filters)
