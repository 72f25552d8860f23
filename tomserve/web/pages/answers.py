"""The pages of a run's answers: a list with filters, and one answer with all that belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from tomserve.errors import ConfigError, NoSuchAnswerError
from tomserve.scoring.score import sample_of
from tomserve.web import answering, browsing, computing
from tomserve.web.access import Reader
from tomserve.web.browsing import Filters
from tomserve.web.process import without_paths
from tomserve.web.rendering import page
from tomserve.web.tails import tail
from tomserve.web.workbench import Workbench, workbench

router = APIRouter(include_in_schema=False)
Bench = Annotated[Workbench, Depends(workbench)]

OUTCOMES = {
    "right": "right",
    "wrong": "wrong",
    "none": "no answer",
    "sample": "further sample",
}
"""What a page calls the outcomes of answers."""

CHAINS = {"proper": "proper", "broken": "broken", "unread": "not read", browsing.NONE: "none asked or given"}


@router.get("/answers/{name:path}")
def listed(request: Request, name: str, bench: Bench, person: Reader) -> HTMLResponse:
    """A page of the answers of a run; asked by htmx while the index is made, that part alone."""
    line = bench.register.line(name, person)
    filters = Filters.read(request.query_params)
    shown: dict[str, Any] = {
        "line": line,
        "quoted": quote(name),
        "filters": filters,
        "chosen": dict(filters.factors),
        "outcomes": OUTCOMES,
        "chains": CHAINS,
        "error": "",
        "found": None,
        "recent": (),
        "link": _link,
        "address": f"/answers/{quote(name)}",
        "again": f"/answers/{quote(name)}?{filters.query()}",
        "searches": browsing.SEARCHES,
        "without": browsing.NONE,
    }
    if line.running:
        shown["recent"] = tail(line.folder / "responses.jsonl")
    elif line.kind and not line.broken:
        if request.query_params.get("again") == "1":
            computing.wanted("answers", line.folder, again=True)
        try:
            shown["found"] = browsing.page_of(line.folder, filters)
        except ConfigError as error:
            shown["error"] = without_paths(str(error))
    part = request.headers.get("HX-Request") and not request.headers.get("HX-Boosted")
    return page(request, "answers-part.html.j2" if part else "answers.html.j2", **shown)


def _link(quoted: str, row: Mapping[str, Any], filters: Filters | None = None) -> str:
    """The address of the page of one answer, with the filters that lead to the ones before and after it."""
    asked = [("item", row["item"]), ("strategy", row["strategy"])]
    asked += [("sample", str(row["sample"]))] if row.get("sample") else []
    asked += [("model", row["model"])] if row.get("model") else []
    more = [] if filters is None else [(f"in.{name}", value) for name, value in _pairs(filters)]
    return f"/answer/{quoted}?{urlencode([*asked, *more])}"


def _pairs(filters: Filters) -> list[tuple[str, str]]:
    return [(name, value) for name, value in parse_qsl(filters.query()) if name != "page"]


@router.get("/answer/{name:path}")
def one(
    request: Request,
    name: str,
    bench: Bench,
    person: Reader,
    item: str = "",
    strategy: str = "",
    sample: int | None = None,
    model: str | None = None,
) -> HTMLResponse:
    """One answer."""
    line = bench.register.line(name, person)
    given = {key.removeprefix("in."): value for key, value in request.query_params.items() if key.startswith("in.")}
    filters = Filters.read(given)
    shown: dict[str, Any] = {"line": line, "quoted": quote(name), "filters": filters, "link": _link}
    shown["list"] = f"/answers/{quote(name)}?{filters.query()}"
    try:
        found = answering.answer(line.folder, item, strategy, sample, model)
    except NoSuchAnswerError as error:
        return page(request, "no-answer.html.j2", status=404, error=without_paths(str(error)), item=item, **shown)
    except ConfigError as error:
        return page(request, "no-answer.html.j2", status=409, error=without_paths(str(error)), item=item, **shown)
    before, after = (None, None) if found.place is None else browsing.neighbours(line.folder, filters, found.place)
    return page(
        request,
        "answer.html.j2",
        found=found,
        before=before,
        after=after,
        outcomes=OUTCOMES,
        samples=sorted({sample_of(row) for row in found.replies}),
        **shown,
    )
