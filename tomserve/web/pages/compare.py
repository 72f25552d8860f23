"""The page that compares runs: two of them, or two strategies, question by question; more than two in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import polars as pl
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from tomserve.errors import ConfigError
from tomserve.reporting import tables as forms
from tomserve.web import comparing, matching
from tomserve.web.access import Reader
from tomserve.web.comparing import EFFECTS, FLIPS
from tomserve.web.computing import Result
from tomserve.web.oneanswer import Answer
from tomserve.web.people import Person
from tomserve.web.process import without_paths
from tomserve.web.register import Line, Register
from tomserve.web.rendering import page
from tomserve.web.workbench import Workbench, workbench

router = APIRouter(include_in_schema=False)
Bench = Annotated[Workbench, Depends(workbench)]

MOST = 40
"""Runs that are compared with one in a table."""

_LONG = Query(max_length=300)


class Wish:
    """What is to be compared, as the address says it."""

    def __init__(
        self,
        a: Annotated[str, _LONG] = "",
        b: Annotated[list[str] | None, Query(max_length=MOST)] = None,
        sa: Annotated[str, _LONG] = "",
        sb: Annotated[str, _LONG] = "",
        common: Annotated[str, _LONG] = "",
        margin: Annotated[str, _LONG] = "",
        again: Annotated[str, _LONG] = "",
    ) -> None:
        """a: the first run. b: the runs that are compared with it. sa, sb: strategies of a and of b. common: "1" for
        what both were asked. margin: the largest difference that does not matter, a share. again: "1" to try once
        more. Raises ConfigError for a margin that is none."""
        self.a, self.others = a, list(dict.fromkeys(one for one in b or () if one))
        self.strategies = (sa, sb) if sa and sb else None
        self.common, self.again = common == "1", again == "1"
        self.margin_text = margin.strip()
        self.margin = margin_of(self.margin_text)

    def query(self, b: str | None = None, **more: str) -> str:
        """The wish as the query of an address. b: for one of the others alone."""
        pairs = [("a", self.a), *(("b", one) for one in ([b] if b is not None else self.others))]
        if self.strategies:
            pairs += [("sa", self.strategies[0]), ("sb", self.strategies[1])]
        if self.margin is not None:
            pairs.append(("margin", self.margin_text))
        return urlencode([*pairs, *([("common", "1")] if self.common else []), *more.items()])

    def lines(self, register: Register, person: Person) -> list[Line]:
        """The lines of the first run and of the others. Raises NoSuchRunError."""
        return [register.line(name, person) for name in (self.a, *self.others) if name]

    def made(self, a: Line, b: Line, *, again: bool = False) -> Result | None:
        """The comparison of the first with one of the others, or with itself; None while it is made."""
        options: dict[str, Any] = {"common": self.common, "margin": self.margin, "again": again}
        return comparing.wanted(a.folder, b.folder, self.strategies, **options)


def margin_of(text: str) -> float | None:
    """The margin that somebody typed, None for none. Raises ConfigError for what is no share above 0 and below 1."""
    if not text:
        return None
    try:
        margin = float(text)
    except ValueError:
        raise ConfigError(f"margin {text!r:.40}: expected a number such as 0.02 for two points") from None
    if not 0 < margin < 1:
        raise ConfigError(f"margin {margin:g}: expected a share above 0 and below 1, such as 0.02 for two points")
    return margin


@router.get("/compare")
def show(
    request: Request,
    bench: Bench,
    person: Reader,
    wish: Annotated[Wish, Depends()],
    flips: Annotated[matching.FlipWish, Depends()],
) -> HTMLResponse:
    """Choose what to compare, and what came of it; asked by htmx, the result alone."""
    lines = [line for line in bench.register.lines(person) if line.kind == "answers" and not line.broken]
    shown: dict[str, Any] = {"wish": wish, "lines": lines, "kind": "choose", "quote": quote, "flip_wish": flips}
    chosen = wish.lines(bench.register, person)
    shown["strategies"] = sorted({name for line in chosen for name in line.strategies})
    if wish.a and (wish.others or wish.strategies):
        shown |= _several(wish, chosen) if len(wish.others) > 1 else _pair(wish, flips, chosen)
    part = request.headers.get("HX-Request")
    return page(request, "compare-part.html.j2" if part else "compare.html.j2", **shown)


def _pair(wish: Wish, flips: matching.FlipWish, lines: Sequence[Line]) -> dict[str, Any]:
    other = lines[-1].name
    result = wish.made(lines[0], lines[-1], again=wish.again)
    found: dict[str, Any] = {"kind": "pair", "result": result, "other": other, "b": other}
    found["again"] = f"/compare?{wish.query()}"
    if result is not None and not result.error:
        own = result.facts["strategies"]
        more = {"sa": own[0], "sb": own[1]} if all(own) and not wish.strategies else {}
        found["item_query"] = wish.query(**more)
        found["tables"] = comparing.tables(result)
        found["flips"] = comparing.flips(result, flips.page, kind=flips.kind, item=flips.item, strategy=flips.strategy)
    return found


def _several(wish: Wish, lines: Sequence[Line]) -> dict[str, Any]:
    """The differences of each of the others from the first."""
    rows: list[tuple[str, Result | None, str]] = []
    for line in lines[1:]:
        if line.name != wish.a or wish.strategies:
            made = wish.made(lines[0], line, again=wish.again)
            rows.append((line.name, made, f"/compare?{wish.query(line.name)}"))
    return {"kind": "several", "rows": rows, "waits": any(made is None for _, made, _ in rows),
            "again": f"/compare?{wish.query()}"}  # fmt: skip


@router.get("/compare/download")
def download(
    bench: Bench, person: Reader, wish: Annotated[Wish, Depends()], what: str = "effects", form: str = "csv"
) -> Response:
    """The effects or the flips of a comparison as CSV, LaTeX, Markdown or Parquet."""
    if not wish.a:
        raise HTTPException(404, "There is no such comparison.")
    lines = wish.lines(bench.register, person)
    result = wish.made(lines[0], lines[min(1, len(lines) - 1)])
    if result is None:
        raise HTTPException(409, "The comparison is still being made; look again soon.")
    if result.error:
        raise ConfigError(result.error)
    files = {"effects": EFFECTS, "flips": FLIPS}
    if what not in files or form not in ("csv", "latex", "md", "parquet"):
        raise HTTPException(404, "There is no such file to download.")
    path = result.folder / files[what]
    if form == "parquet":
        return FileResponse(path, filename=f"{what}.parquet", media_type="application/octet-stream")
    text = forms.render(pl.read_parquet(path), form)
    ending = {"latex": "tex"}.get(form, form)
    headers = {"Content-Disposition": f'attachment; filename="{what}.{ending}"'}
    return Response(text, media_type="application/octet-stream", headers=headers)


@router.get("/compare/item")
def both(
    request: Request,
    bench: Bench,
    person: Reader,
    wish: Annotated[Wish, Depends()],
    question: Annotated[matching.Question, Depends()],
) -> HTMLResponse:
    """One question, with the answers of both sides beside each other."""
    other = wish.others[0] if wish.others else wish.a
    lines = bench.register.line(wish.a, person), bench.register.line(other, person)
    sides: list[tuple[Line, Answer | None, str]] = []
    for line, item, strategy in zip(lines, question.items(), question.strategies(wish.strategies), strict=True):
        try:
            sides.append((line, matching.answer(line.folder, item, strategy), ""))
        except ConfigError as error:
            sides.append((line, None, without_paths(str(error))))
    back = f"/compare?{wish.query()}"
    found = any(one is not None for _, one, _ in sides)
    return page(
        request, "compare-item.html.j2", status=200 if found else 404, sides=sides, back=back, quote=quote,
        question=question,
    )  # fmt: skip
