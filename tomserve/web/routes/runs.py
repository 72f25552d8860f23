"""Pages of one run: its report and files, its answers in a list and one by one, and the run live by server-sent
events.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from markupsafe import Markup

from tomserve.content import files
from tomserve.errors import ConfigError, NoSuchAnswerError, NotAllowedError
from tomserve.scoring.score import sample_of
from tomserve.status import ANSWERS
from tomserve.studies import study_names as studies
from tomserve.web import answer_index, answers, background, queue, run_index, run_status
from tomserve.web.access import Bench, Reader, Runner, VisibleRun, workbench
from tomserve.web.accounts import Person
from tomserve.web.analyses import PANELS, TABLE_FORMS
from tomserve.web.analyses import SCORE_FORMS as TABLES
from tomserve.web.answer_index import Filters
from tomserve.web.background import Result, without_paths
from tomserve.web.page_templates import render_page, render_text
from tomserve.web.run_index import RunEntry
from tomserve.web.run_status import RunStatus
from tomserve.workflows import evaluate

router = APIRouter(include_in_schema=False)


_LONGEST = 200


@router.get("/run/{name:path}")
def show(request: Request, line: VisibleRun, bench: Bench, person: Reader) -> HTMLResponse:
    """The page of a run, or, asked by htmx, the panels alone."""
    name = line.name
    options = _analysis_options(request.query_params)
    shown: dict[str, Any] = {
        "line": line,
        "address": f"/run/{quote(name)}",
        "quoted": quote(name),
        "options": options,
        "query": urlencode([(key, value) for key, value in options.items() if value]),
        "may_change": person.may_change(line.card.owner),
        "result": None,
        "panels": "",
        "again": _again(request, name),
    }
    if line.kind and not line.broken:
        shown |= _panels(request, line, options)
    (row,) = run_status.with_tallies([run_status.row_of(line)])
    shown |= {"tally": row.tally, "counting": row.countable and row.tally is None}
    if request.headers.get("HX-Request") and request.headers.get("HX-Target") != "main":
        return render_page(request, "run-panels.html.j2", **shown)
    rescored = bench.queue.rescored(name, person) if request.query_params.get("rescored") else (False, None)
    return render_page(
        request, "run.html.j2", studies=studies(), rescored=rescored, tables=TABLES, forms=TABLE_FORMS, **shown
    )


@router.post("/run/{name:path}")
def change(
    request: Request,
    name: str,
    bench: Bench,
    person: Runner,
    action: Annotated[str, Form()] = "notes",
    notes: Annotated[str, Form(max_length=run_index.LONGEST_NOTE)] = "",
    tags: Annotated[str, Form(max_length=2000)] = "",
    private: Annotated[str, Form()] = "",
) -> Response:
    """Write notes and tags, or rescore the run."""
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
    run_index.change_metadata(
        line, person, notes=notes, tags=found, private=(private == "yes") if person.name and private else None
    )
    return RedirectResponse(f"{address}#notes", 303)


@router.get("/download/{name:path}")
def download(request: Request, line: VisibleRun) -> Response:
    """A file of a run: its scores, its report, a table of its study, or its experiment."""
    name = line.name
    given = request.query_params
    what, form = given.get("what", "scores"), given.get("form", "")
    if what == "experiment":
        return _experiment(line)
    if what not in ("scores", "report", "table"):
        raise HTTPException(404, "There is no such file.")
    options = {"form": form or "parquet"} if what == "scores" else _work_options(_analysis_options(given))
    result = background.compute("panels" if what == "table" else what, line.folder, **options)
    again = f"/download/{quote(name)}?{urlencode(list(given.items()))}"
    if result is None or result.error or (request.headers.get("HX-Request") and what != "table"):
        part = "download-part.html.j2" if request.headers.get("HX-Request") else "download.html.j2"
        return render_page(
            request, part, status=200 if result else 202, line=line, address=again, result=result, what=what
        )
    if what != "table":
        return FileResponse(result.folder / result.facts["file"], filename=result.facts["as"], media_type=_KIND)
    table = given.get("table", "")
    if table not in result.facts["tables"] or form not in TABLE_FORMS:
        raise HTTPException(404, "The study makes no such table.")
    path = result.folder / f"table-{table}.{TABLE_FORMS[form]}"
    if given.get("shown"):
        return Response(files.read_bytes(path), media_type="text/plain; charset=utf-8")
    return FileResponse(path, filename=f"{name.replace('/', '-')}-{table}.{TABLE_FORMS[form]}", media_type=_KIND)


_KIND = "application/octet-stream"  # files to take away are never shown by the browser, whatever they hold


def _experiment(line: RunEntry) -> Response:
    try:
        with files.open_for_reading(line.folder / evaluate.EXPERIMENT_FILE) as file:
            text = file.read(1 << 20)
    except (OSError, ConfigError):
        raise HTTPException(404, "This run was not started from a file of the workbench.") from None
    headers = {"Content-Disposition": 'attachment; filename="experiment.yaml"'}
    return Response(text, media_type=_KIND, headers=headers)


def _analysis_options(given: Mapping[str, str]) -> dict[str, str]:
    """What somebody chose of an analysis; a study by its name alone, never by a path."""
    study = given.get("study", "")[:_LONGEST]
    if study and study not in studies():
        raise HTTPException(404, f"There is no study {study!r} here.")
    return {"study": study, "intervals": given.get("intervals", "")[:_LONGEST], "by": given.get("by", "")[:_LONGEST]}


def _work_options(options: Mapping[str, str]) -> dict[str, Any]:
    by = options["by"].replace(", ", ",").split()
    return {"study": options["study"] or None, "intervals": options["intervals"] or None, "by": by}


def _panels(request: Request, line: RunEntry, options: Mapping[str, str]) -> dict[str, Any]:
    """The panels, if they are there; of a run that is being worked on, those of the moment that was asked for."""
    upto, grown = request.query_params.get("upto", ""), 0
    if line.running:
        with contextlib.suppress(OSError):
            grown = (line.folder / "responses.jsonl").stat().st_size
        if not upto.isdecimal():
            return {"grown": grown}
        result = background.compute("panels", line.folder, upto=int(upto[:18]), **_work_options(options))
    else:
        again = request.query_params.get("again") == "1" and not request.headers.get("HX-Request")
        result = background.compute("panels", line.folder, again=again, **_work_options(options))
    found: dict[str, Any] = {"result": result or "computing", "grown": grown}
    if isinstance(result, Result) and not result.error:
        # The text was rendered by the report's own templates, which escape what comes from elsewhere.
        found["panels"] = Markup(files.read_bytes(result.folder / PANELS).decode())
    return found


def _again(request: Request, name: str) -> str:
    kept = [(key, value) for key, value in request.query_params.items() if key not in ("again", "rescored")]
    return f"/run/{quote(name)}" + (f"?{urlencode(kept)}" if kept else "")


RETRY = 2000  # milliseconds after which a browser that has lost the connection tries again

PARTS = ("now", "actions", "answers", "log", "said")
"""The parts of the page; each is sent where it has changed, and put in its place."""


@router.get("/live/{name:path}")
def live(line: VisibleRun, request: Request, person: Reader) -> HTMLResponse:
    """The page of a run that goes on, or waits, or has ended."""
    seen = run_status.look(line.folder, line.name, line.rows)
    facts = (
        ("Model", line.model),
        ("Benchmark", line.benchmark),
        ("Strategies", ", ".join(line.strategies)),
        ("Owner", line.card.owner),
    )
    return render_page(request, "live.html.j2", facts=facts, **_shown(request, seen, line, person))


@router.get("/events/{name:path}", response_class=EventSourceResponse)
async def events(line: VisibleRun, request: Request, person: Reader) -> AsyncIterator[ServerSentEvent]:
    """The parts of that page as they change, as fragments of HTML, until the run has ended."""
    before: dict[str, str] = {}
    async for seen in run_status.events(line.folder, line.name, line.rows, ending=workbench(request).ending):
        shown = await run_in_threadpool(_shown, request, seen, line, person)
        for part in PARTS:
            html = render_text(request, f"live/{part}.html.j2", **shown).strip()
            if before.get(part) != html:
                before[part] = html
                yield ServerSentEvent(raw_data=html, event=part, retry=RETRY)
        if not seen.following:  # otherwise the browser connects again, to this server or its next
            yield ServerSentEvent(raw_data="ended", event="end")


def _shown(request: Request, seen: RunStatus, line: RunEntry, person: Person) -> dict[str, Any]:
    try:
        card = run_index.read_card(line.folder)
    except ConfigError:
        card = line.card
    asked = seen.following and seen.progress is not None and not seen.progress.running
    lines = workbench(request).register.lines(person) if asked else ()
    return {
        "seen": seen,
        # as the faithfulness of a run is measured once all of it was answered
        "measuring": [one.name for one in lines if one.of == seen.name and one.running],
        "queued": card.job is not None,
        "actions": queue.actions(card, person),
        "readable": ANSWERS,
    }


RECENT, RECENT_BYTES = 50, 1 << 20  # answers of a run that goes on that are listed; bytes of its journal that are read

OUTCOMES = {"right": "correct", "wrong": "wrong", "none": "no answer", "sample": "further sample"}
"""What a page calls the outcomes of answers."""

CHAINS = {"proper": "proper", "broken": "broken", "unread": "not parsed", answer_index.NONE: "none"}


@router.get("/answers/{name:path}")
def list_answers(request: Request, line: VisibleRun) -> HTMLResponse:
    """A page of the answers of a run; asked by htmx while the index is made, that part alone."""
    quoted = quote(line.name)
    filters = Filters.read(request.query_params)
    shown: dict[str, Any] = {
        "line": line,
        "quoted": quoted,
        "filters": filters,
        "chosen": dict(filters.factors),
        "outcomes": OUTCOMES,
        "chains": CHAINS,
        "error": "",
        "found": None,
        "recent": (),
        "link": _link,
        "address": f"/answers/{quoted}",
        "again": f"/answers/{quoted}?{filters.query()}",
        "searches": answer_index.SEARCHES,
        "without": answer_index.NONE,
    }
    if line.running:
        found = run_status.latest_answers(line.folder / "responses.jsonl", RECENT, RECENT_BYTES)
        shown["recent"] = [one.model_dump() for one in found]
    elif line.kind and not line.broken:
        if request.query_params.get("again") == "1":
            background.compute("answers", line.folder, again=True)
        try:
            shown["found"] = answer_index.page_of(line.folder, filters)
        except ConfigError as error:
            shown["error"] = without_paths(str(error))
    part = request.headers.get("HX-Request") and not request.headers.get("HX-Boosted")
    return render_page(request, "answers-part.html.j2" if part else "answers.html.j2", **shown)


def _link(quoted: str, row: Mapping[str, Any], filters: Filters | None = None) -> str:
    # Without a sample the address is that of the one that counts, which need not be the first.
    asked = [
        (name, str(row[name]))
        for name in ("item", "strategy", "sample", "model")
        if row.get(name) or (name == "sample" and row.get("outcome") == "sample")
    ]
    more = [] if filters is None else [(f"in.{name}", value) for name, value in _pairs(filters)]
    return f"/answer/{quoted}?{urlencode([*asked, *more])}"


def _pairs(filters: Filters) -> list[tuple[str, str]]:
    return [(name, value) for name, value in parse_qsl(filters.query()) if name != "page"]


@router.get("/answer/{name:path}")
def show_answer(
    request: Request, line: VisibleRun, item: str = "", strategy: str = "", sample: int | None = None,
    model: str | None = None,
) -> HTMLResponse:  # fmt: skip
    """One answer."""
    quoted = quote(line.name)
    given = {key.removeprefix("in."): value for key, value in request.query_params.items() if key.startswith("in.")}
    filters = Filters.read(given)
    try:
        found = answers.answer(line.folder, item, strategy, sample, model)
    except ConfigError as error:
        raise HTTPException(404 if isinstance(error, NoSuchAnswerError) else 409, without_paths(str(error))) from None
    shown: dict[str, Any] = {"line": line, "quoted": quoted, "filters": filters, "link": _link}
    shown["list"] = f"/answers/{quoted}?{filters.query()}"
    before, after = (None, None) if found.place is None else answer_index.neighbours(line.folder, filters, found.place)
    samples = sorted({sample_of(row) for row in found.replies})
    return render_page(
        request, "answer.html.j2", found=found, before=before, after=after, outcomes=OUTCOMES, samples=samples, **shown
    )
