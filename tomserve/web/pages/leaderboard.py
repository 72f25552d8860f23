"""The page of the leaderboard, and its downloads."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from tomserve.web.access import Reader
from tomserve.web.boardfiles import FORMS, written
from tomserve.web.leaderboard import board
from tomserve.web.ranking import Board, Filters
from tomserve.web.rendering import page
from tomserve.web.workbench import workbench

router = APIRouter(include_in_schema=False)

WIDE = 12
"""How many columns stand side by side."""

Text = Annotated[str, Query(max_length=300)]
"""A parameter of the address."""


@router.get("/leaderboard")
def leaderboard(
    request: Request,
    person: Reader,
    benchmark: Text = "",
    strategy: Text = "",
    model: Text = "",
    sort: Text = "",
    order: Text = "",
    page_: Annotated[int, Query(alias="page", ge=1, le=10_000)] = 1,
    part: Text = "",
) -> HTMLResponse:
    """The page, or with `part` only the board, which replaces itself while runs are being counted."""
    filters = Filters(benchmark, strategy, model, sort, order != "up")
    found = board(workbench(request).register, person, filters)
    pages = max(1, -(-len(found.columns) // WIDE))
    number = min(page_, pages)
    return page(
        request,
        "leaderboard_part.html.j2" if part else "leaderboard.html.j2",
        board=found,
        columns=found.columns[WIDE * (number - 1) : WIDE * number],
        groups=_groups(found, WIDE * (number - 1)),
        number=number,
        pages=pages,
        address=_addresses(filters),
        forms=FORMS,
    )


@router.get("/leaderboard.{form}")
def download(
    request: Request, person: Reader, form: str, benchmark: Text = "", strategy: Text = "", model: Text = "",
    sort: Text = "", order: Text = "",
) -> Response:  # fmt: skip
    """The board as a file: csv, tex or html."""
    filters = Filters(benchmark, strategy, model, sort, order != "up")
    text, kind = written(board(workbench(request).register, person, filters), form)
    head = {"Content-Disposition": f'attachment; filename="leaderboard.{form}"'}
    return Response(text, media_type=kind, headers=head)


def _groups(found: Board, first: int) -> list[tuple[str, int]]:
    """The benchmarks above the columns that are shown, each with how many columns stand below it."""
    groups: list[tuple[str, int]] = []
    for column in found.columns[first : first + WIDE]:
        name = column.asked.benchmark
        if groups and groups[-1][0] == name:
            groups[-1] = (name, groups[-1][1] + 1)
        else:
            groups.append((name, 1))
    return groups


def _addresses(filters: Filters) -> dict[str, str]:
    """The parts of addresses that keep what was chosen: `all` of it, and what stays where another order is chosen."""
    chosen = {"benchmark": filters.benchmark, "strategy": filters.strategy, "model": filters.model}
    order = {"sort": filters.sort, **({} if filters.down else {"order": "up"})}
    kept = {name: value for name, value in chosen.items() if value}
    return {
        "all": urlencode({**kept, **{name: value for name, value in order.items() if value}}),
        "chosen": urlencode(kept),
    }
