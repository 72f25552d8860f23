"""The page of one run: what it is, what its report says, and what can be done with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from markupsafe import Markup

from tomserve.content import files
from tomserve.errors import ConfigError, NotAllowedError
from tomserve.studies import study_names as studies
from tomserve.web import cards, computing, noting
from tomserve.web.access import Reader, Runner
from tomserve.web.analysing import FORMS, PANELS
from tomserve.web.computing import Result
from tomserve.web.exporting import FORMS as TABLES
from tomserve.web.register import Line
from tomserve.web.rendering import page
from tomserve.web.workbench import Workbench, workbench
from tomserve.workflows import evaluate

router = APIRouter(include_in_schema=False)
Bench = Annotated[Workbench, Depends(workbench)]

_LONGEST = 200


@router.get("/run/{name:path}")
def show(request: Request, name: str, bench: Bench, person: Reader) -> HTMLResponse:
    """The page of a run, or, asked by htmx, the panels alone."""
    line = bench.register.line(name, person)
    wishes = _wishes(request.query_params)
    shown: dict[str, Any] = {
        "line": line,
        "address": f"/run/{quote(name)}",
        "quoted": quote(name),
        "wishes": wishes,
        "query": urlencode([(key, value) for key, value in wishes.items() if value]),
        "may_change": person.may_change(line.card.owner),
        "result": None,
        "panels": "",
        "again": _again(request, name),
    }
    if line.kind and not line.broken:
        shown |= _panels(request, line, wishes)
    if request.headers.get("HX-Request"):
        return page(request, "run-panels.html.j2", **shown)
    rescored = bench.queue.rescoring(name, person) if request.query_params.get("rescored") else None
    return page(request, "run.html.j2", studies=studies(), rescored=rescored, tables=TABLES, forms=FORMS, **shown)


@router.post("/run/{name:path}")
def change(
    request: Request,
    name: str,
    bench: Bench,
    person: Runner,
    action: Annotated[str, Form()] = "notes",
    notes: Annotated[str, Form(max_length=cards.LONGEST_NOTE)] = "",
    tags: Annotated[str, Form(max_length=2000)] = "",
    private: Annotated[str, Form()] = "",
) -> Response:
    """Write notes and tags, or score the run anew."""
    line = bench.register.line(name, person)
    if not person.may_change(line.card.owner):
        raise NotAllowedError(f"the run {name!r} belongs to somebody else; only they may change it")
    address = f"/run/{quote(name)}"
    if action == "rescore":
        bench.queue.rescore(name, person)
        return RedirectResponse(f"{address}?rescored=1", 303)
    found = tuple(dict.fromkeys(tag.strip() for tag in tags.split(",") if tag.strip()))
    if any(len(tag) > 40 for tag in found) or len(found) > 30:
        raise HTTPException(422, "A tag has at most 40 characters, and a run at most 30 tags.")
    noting.change(line, person, notes=notes, tags=found, private=(private == "yes") if person.name else None)
    return RedirectResponse(f"{address}#notes", 303)


@router.get("/download/{name:path}")
def download(request: Request, name: str, bench: Bench, person: Reader) -> Response:
    """A file of a run: its scores, its report, a table of its study, or its experiment."""
    line = bench.register.line(name, person)
    given = request.query_params
    what, form = given.get("what", "scores"), given.get("form", "")
    if what == "experiment":
        return _experiment(line)
    if what not in ("scores", "report", "table"):
        raise HTTPException(404, "There is no such file to download.")
    options = {"form": form or "parquet"} if what == "scores" else _options(_wishes(given))
    result = computing.wanted("panels" if what == "table" else what, line.folder, **options)
    again = f"/download/{quote(name)}?{urlencode(list(given.items()))}"
    if result is None or result.error or (request.headers.get("HX-Request") and what != "table"):
        part = "download-part.html.j2" if request.headers.get("HX-Request") else "download.html.j2"
        return page(request, part, status=200 if result else 202, line=line, address=again, result=result, what=what)
    if what != "table":
        return FileResponse(result.folder / result.facts["file"], filename=result.facts["as"], media_type=_KIND)
    table = given.get("table", "")
    if table not in result.facts["tables"] or form not in FORMS:
        raise HTTPException(404, "The study makes no such table.")
    path = result.folder / f"table-{table}.{FORMS[form]}"
    if given.get("shown"):
        return Response(path.read_bytes(), media_type="text/plain; charset=utf-8")
    return FileResponse(path, filename=f"{name.replace('/', '-')}-{table}.{FORMS[form]}", media_type=_KIND)


_KIND = "application/octet-stream"
"""Files to take away are never shown by the browser, whatever they hold."""


def _experiment(line: Line) -> Response:
    try:
        with files.open_for_reading(line.folder / evaluate.EXPERIMENT_FILE) as file:
            text = file.read(1 << 20)
    except (OSError, ConfigError):
        raise HTTPException(404, "This run was not started from a file of the workbench.") from None
    headers = {"Content-Disposition": 'attachment; filename="experiment.yaml"'}
    return Response(text, media_type=_KIND, headers=headers)


def _wishes(given: Mapping[str, str]) -> dict[str, str]:
    """What somebody wishes of an analysis; a study by its name alone, never by a path."""
    study = given.get("study", "")[:_LONGEST]
    if study and study not in studies():
        raise HTTPException(404, f"There is no study {study!r} here.")
    return {"study": study, "intervals": given.get("intervals", "")[:_LONGEST], "by": given.get("by", "")[:_LONGEST]}


def _options(wishes: Mapping[str, str]) -> dict[str, Any]:
    """The wishes as the work takes them; factors are separated by spaces, crossed ones by commas."""
    by = wishes["by"].replace(", ", ",").split()
    return {"study": wishes["study"] or None, "intervals": wishes["intervals"] or None, "by": by}


def _panels(request: Request, line: Line, wishes: Mapping[str, str]) -> dict[str, Any]:
    """The panels, if they are there; of a run that is being worked on, those of the moment that was asked for."""
    upto = request.query_params.get("upto", "")
    if line.running:
        grown = _grown(line)
        if not upto.isdigit():
            return {"grown": grown}
        result = computing.wanted("panels", line.folder, upto=int(upto[:18]), **_options(wishes))
    else:
        again = request.query_params.get("again") == "1" and not request.headers.get("HX-Request")
        result = computing.wanted("panels", line.folder, again=again, **_options(wishes))
    found: dict[str, Any] = {"result": result or "computing", "grown": _grown(line) if line.running else 0}
    if isinstance(result, Result) and not result.error:
        # The text was rendered by the report's own templates, which escape what comes from elsewhere.
        found["panels"] = Markup((result.folder / PANELS).read_text(encoding="utf-8"))
    return found


def _grown(line: Line) -> int:
    try:
        return (line.folder / "responses.jsonl").stat().st_size
    except OSError:
        return 0


def _again(request: Request, name: str) -> str:
    """The address of the same page without what was asked for once."""
    kept = [(key, value) for key, value in request.query_params.items() if key not in ("again", "rescored")]
    return f"/run/{quote(name)}" + (f"?{urlencode(kept)}" if kept else "")
