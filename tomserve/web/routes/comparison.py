"""Pages that set models beside each other: the comparison of runs or strategies, question by question, and the
leaderboard.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import quote, urlencode

import pydantic
from annotated_types import Ge, Le, MaxLen
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from pydantic import BaseModel, StringConstraints

from tomserve.content import files
from tomserve.errors import ConfigError, NoSuchAnswerError
from tomserve.reporting import tables as forms
from tomserve.web import analyses, answers, background
from tomserve.web.access import Bench, Reader, workbench
from tomserve.web.accounts import Person
from tomserve.web.analyses import EFFECTS, FLIPS
from tomserve.web.answers import Answer
from tomserve.web.background import Result, without_paths
from tomserve.web.leaderboard import FORMS, Filters, board_file, by_benchmark, find_board
from tomserve.web.page_templates import render_page
from tomserve.web.run_index import RunEntry, RunIndex

router = APIRouter(include_in_schema=False)

Text = Annotated[str, StringConstraints(max_length=300)]
LongText = Annotated[str, StringConstraints(max_length=2000)]
MOST = 40  # runs that are compared with one in a table


class ComparisonQuery(BaseModel):
    """What is to be compared, and what of it is shown, as the address says it."""

    a: Text = ""
    b: Annotated[list[str], MaxLen(MOST)] = []  # the runs that are compared with a
    sa: Text = ""  # strategies of a, and of b
    sb: Text = ""
    common: bool = False  # whether only what both were asked is compared
    margin: Text = ""  # the largest difference that does not matter, a share
    again: bool = False
    page: Annotated[int, Ge(1), Le(10**7)] = 1  # of the questions that only one side has right
    flip: Annotated[str, StringConstraints(max_length=10)] = ""
    item: Annotated[LongText, StringConstraints(strip_whitespace=True)] = ""
    strategy: LongText = ""
    what: Text = "effects"
    form: Text = "csv"

    @pydantic.model_validator(mode="after")
    def _take_first(self) -> Self:
        """Of runs that were selected in a list the first is the one that the others are compared with."""
        if not self.a and self.b:
            self.a, *self.b = self.b
        return self

    @property
    def others(self) -> list[str]:
        """The runs that are compared with the first, which is one of them where its strategies are compared."""
        return list(dict.fromkeys(one for one in self.b if one and (one != self.a or self.strategies)))

    @property
    def strategies(self) -> tuple[str, str] | None:
        """A strategy of a and one of b; None where they are not compared by strategies."""
        return (self.sa, self.sb) if self.sa and self.sb else None

    @property
    def kind(self) -> str:
        """Which flips are wanted, "" for all."""
        return self.flip if self.flip in ("gained", "lost") else ""

    def text(self, b: str | None = None, **more: str) -> str:
        """The query of an address. b: for one of the others alone."""
        pairs = [("a", self.a), *(("b", one) for one in ([b] if b is not None else self.others))]
        if self.strategies:
            pairs += [("sa", self.sa), ("sb", self.sb)]
        if self.margin.strip():
            pairs.append(("margin", self.margin.strip()))
        return urlencode([*pairs, *([("common", "1")] if self.common else []), *more.items()])

    def lines(self, register: RunIndex, person: Person) -> list[RunEntry]:
        """The lines of the first run and of the others. Raises NoSuchRunError."""
        return [register.line(name, person) for name in (self.a, *self.others) if name]

    def compare(self, a: RunEntry, b: RunEntry) -> Result | None:
        """The comparison of the first with one of the others, or with itself; None while it is made. Raises ConfigError
        for a margin that is none."""
        margin = margin_of(self.margin)
        wanted = analyses.comparison_of(a.folder, b.folder, self.strategies, common=self.common, margin=margin)
        return background.find(wanted, again=self.again)


Asked = Annotated[ComparisonQuery, Query()]


def find_answer(run: Path, item: str, strategy: str) -> Answer:
    """The answer of a run to a question. Where the run asks versions of it, the first of these is found.

    Raises NoSuchAnswerError where there is none, ConfigError where a file of the run cannot be read.
    """
    try:
        return answers.answer(run, item, strategy)
    except NoSuchAnswerError:
        found = answers.version_of(run, item)
        if found is None:
            raise
        return answers.answer(run, found, strategy)


def margin_of(text: str) -> float | None:
    """The margin that somebody typed, None for none. Raises ConfigError for what is no share above 0 and below 1."""
    if not (text := text.strip()):
        return None
    try:
        margin = float(text)
    except ValueError:
        raise ConfigError(f"margin {text!r:.40}: expected a number such as 0.02 for two points") from None
    if not 0 < margin < 1:
        raise ConfigError(f"margin {margin:g}: expected a share above 0 and below 1, such as 0.02 for two points")
    return margin


@router.get("/compare")
def show_comparison(request: Request, bench: Bench, person: Reader, query: Asked) -> HTMLResponse:
    """Choose what to compare, and what came of it; asked by htmx, the result alone."""
    lines = [line for line in bench.register.lines(person) if line.kind == "answers" and not line.broken]
    margin_of(query.margin)
    shown: dict[str, Any] = {"query": query, "lines": lines, "kind": "choose", "quote": quote}
    chosen = query.lines(bench.register, person)
    shown["strategies"] = sorted({name for line in chosen for name in line.strategies})
    if query.a and (query.others or query.strategies):
        shown |= _several(query, chosen) if len(query.others) > 1 else _pair(query, chosen)
    part = request.headers.get("HX-Request")
    return render_page(request, "compare-part.html.j2" if part else "compare.html.j2", **shown)


def _pair(query: ComparisonQuery, lines: Sequence[RunEntry]) -> dict[str, Any]:
    other = lines[-1].name
    result = query.compare(lines[0], lines[-1])
    found: dict[str, Any] = {"kind": "pair", "result": result, "other": other, "b": other}
    found["again"] = f"/compare?{query.text()}"
    if result is not None and not result.error:
        own = result.facts["strategies"]
        more = {"sa": own[0], "sb": own[1]} if all(own) and not query.strategies else {}
        found["item_query"] = query.text(**more)
        found["tables"] = result.facts["tables"]
        found["flips"] = analyses.flips_page(
            result, query.page, kind=query.kind, item=query.item, strategy=query.strategy
        )
    return found


def _several(query: ComparisonQuery, lines: Sequence[RunEntry]) -> dict[str, Any]:
    rows: list[tuple[str, Result | None, str]] = []
    for line in lines[1:]:
        rows.append((line.name, query.compare(lines[0], line), f"/compare?{query.text(line.name)}"))
    return {"kind": "several", "rows": rows, "waits": any(made is None for _, made, _ in rows),
            "again": f"/compare?{query.text()}"}  # fmt: skip


@router.get("/compare/download")
def download(bench: Bench, person: Reader, query: Asked) -> Response:
    """The effects or the flips of a comparison as CSV, LaTeX, Markdown or Parquet."""
    what, form = query.what, query.form
    if not query.a:
        raise HTTPException(404, "There is no such comparison.")
    lines = query.lines(bench.register, person)
    result = query.compare(lines[0], lines[min(1, len(lines) - 1)])
    if result is None:
        raise HTTPException(409, "The comparison is still being made; look again soon.")
    if result.error:
        raise ConfigError(result.error)
    made = {"effects": EFFECTS, "flips": FLIPS}
    if what not in made or form not in ("csv", "latex", "md", "parquet"):
        raise HTTPException(404, "There is no such file to download.")
    path = result.folder / made[what]
    if form == "parquet":
        return FileResponse(path, filename=f"{what}.parquet", media_type="application/octet-stream")
    text = forms.render(files.scan_parquet(path).collect(), form)
    ending = {"latex": "tex"}.get(form, form)
    headers = {"Content-Disposition": f'attachment; filename="{what}.{ending}"'}
    return Response(text, media_type="application/octet-stream", headers=headers)


@router.get("/compare/item")
def show_question(request: Request, bench: Bench, person: Reader, query: Asked) -> HTMLResponse:
    """One question, with the answers of both sides beside each other."""
    other = query.others[0] if query.others else query.a
    lines = bench.register.line(query.a, person), bench.register.line(other, person)
    sides: list[tuple[RunEntry, Answer | None, str]] = []
    for line, own in zip(lines, query.strategies or (query.strategy, query.strategy), strict=True):
        try:
            sides.append((line, find_answer(line.folder, query.item, own), ""))
        except ConfigError as error:
            sides.append((line, None, without_paths(str(error))))
    back = f"/compare?{query.text()}"
    found = any(one is not None for _, one, _ in sides)
    status = 200 if found else 404
    return render_page(
        request, "compare-item.html.j2", status=status, sides=sides, back=back, quote=quote, item=query.item
    )


@router.get("/leaderboard")
def leaderboard(request: Request, person: Reader, query: Annotated[Filters, Query()]) -> HTMLResponse:
    """The page of the leaderboard, which fetches its tables again while runs are being scored."""
    found = find_board(workbench(request).register, person, query)
    address = _addresses(query)
    return render_page(
        request, "leaderboard.html.j2", board=found, tables=by_benchmark(found), address=address, forms=FORMS
    )


@router.get("/leaderboard.{form}")
def download_leaderboard(request: Request, person: Reader, form: str, filters: Annotated[Filters, Query()]) -> Response:
    """The board as a file: csv, md, tex or html."""
    text, kind = board_file(find_board(workbench(request).register, person, filters), form)
    head = {"Content-Disposition": f'attachment; filename="leaderboard.{form}"'}
    return Response(text, media_type=kind, headers=head)


def _addresses(filters: Filters) -> dict[str, str]:
    """The parts of addresses that keep what was chosen: `all` of it, and what stays where another order is chosen."""
    chosen = {"benchmark": filters.benchmark, "strategy": filters.strategy, "model": filters.model}
    order = {"sort": filters.sort, **({} if filters.down else {"order": "up"})}
    kept = {name: value for name, value in chosen.items() if value}
    return {
        "all": urlencode({**kept, **{name: value for name, value in order.items() if value}}),
        "chosen": urlencode(kept),
    }
