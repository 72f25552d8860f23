"""Pages to begin with: signing in and out, the list of all runs, and the queue."""

from collections import Counter, defaultdict
from typing import Annotated, Any, cast, get_args

from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup
from starlette.responses import Response

from tomserve.content import digest
from tomserve.engine.network import is_loopback
from tomserve.serving import registry
from tomserve.web import queue, run_status
from tomserve.web.access import Reader, Runner, access, workbench
from tomserve.web.accounts import Person
from tomserve.web.page_templates import render_page, render_text
from tomserve.web.queue import ActionName, Where
from tomserve.web.run_index import ENDED, State
from tomserve.web.run_status import Filters, Row

router = APIRouter(include_in_schema=False)


@router.get("/")
def list_runs(request: Request, person: Reader) -> Response:
    """The first page, or, asked by htmx, the list of runs alone, without content where it is as the browser has it.
    The servers are asked by a request of its own, as a busy one takes its time."""
    shown = run_status.overview(workbench(request).register, person, Filters.read(request.query_params))
    values: dict[str, Any] = {
        "shown": shown,
        "filters": shown.filters,
        "progress_of": run_status.progress_of(shown.rows),
    }
    listed = render_text(request, "dashboard/runs.html.j2", **values)
    values |= {"listed": Markup(listed), "seen": digest(listed.encode())[-12:]}
    if request.headers.get("HX-Target") != "runs-list":
        return render_page(request, "dashboard.html.j2", **values)
    if (before := request.query_params.get("seen")) == values["seen"]:
        return Response(status_code=204)
    page = render_page(request, "dashboard/list.html.j2", **values)
    if before is None:  # the filters were changed; the address of the page follows
        page.headers["HX-Replace-Url"] = shown.filters.address()
    return page


@router.get("/parts/servers")
def servers(request: Request, person: Reader) -> HTMLResponse:
    """The part of that page that lists the servers which this user started on this machine."""
    found = [(one, one.last_log_line()) for one in registry.believed_records()]
    return render_page(request, "dashboard/servers.html.j2", servers=found)


ENDED_SHOWN = 20  # so many of the experiments that have ended last are listed


@router.get("/queue")
def show_queue(request: Request, person: Reader) -> HTMLResponse:
    """The page of the queue."""
    return render_page(request, "queue.html.j2", **_shown(request, person))


@router.get("/parts/queue")
def show_lists(request: Request, person: Reader) -> HTMLResponse:
    """The lists of that page, which fetch themselves."""
    return render_page(request, "queue/lists.html.j2", **_shown(request, person))


@router.post("/queue/{action}/{name:path}")
def act(
    action: ActionName | Where,
    name: str,
    request: Request,
    person: Runner,
    back: Annotated[str, Form(max_length=1000)] = "/queue",
) -> RedirectResponse:
    """Do something with a run in the queue, and go back to the page that the button stands on."""
    known = workbench(request).queue
    if action in get_args(Where):
        known.act("move", name, person, cast("Where", action))
    else:
        known.act(cast("ActionName", action), name, person)
    return RedirectResponse(back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/queue", 303)


def _shown(request: Request, person: Person) -> dict[str, Any]:
    rows = [run_status.row_of(line) for line in workbench(request).queue.lines(person)]
    jobs = {row.line.name: row.line.card.job for row in rows if row.line.card.job is not None}
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if jobs[row.line.name].active:
            groups[jobs[row.line.name].group].append(row)
    ended = [row for row in rows if not jobs[row.line.name].active]
    counts = Counter(job.state for job in jobs.values())
    return {
        "groups": dict(sorted(groups.items())),
        "ended": ended[:ENDED_SHOWN],
        "counts": {state.value: counts[state] for state in State if counts[state] and state not in ENDED},
        "progress_of": run_status.progress_of(rows),
        "actions": {row.line.name: queue.actions(row.line.card, person) for row in rows},
        "movable": {
            row.line.name
            for row in rows
            if jobs[row.line.name].state in queue.WAITS and person.may_change(row.line.card.owner)
        },
        "moves": queue.MOVES,
    }


Next = Annotated[str, Query(max_length=2000)]


@router.get("/login")
def show_login(request: Request, next: Next = "/") -> Response:
    """The form where people sign in; where nobody has to, there is no such page."""
    _only_with_users(request)
    return render_page(request, "login.html.j2", next=_inside(next), said="", name="")


@router.post("/login")
def sign_in(
    request: Request,
    name: Annotated[str, Form(max_length=100)] = "",
    password: Annotated[str, Form(max_length=2000)] = "",
    next: Annotated[str, Form(max_length=2000)] = "/",
) -> Response:
    """Sign in, and go to where somebody wanted to go."""
    _only_with_users(request)
    who, address = access(request), request.client.host if request.client else ""
    if who.settings.proxy and is_loopback(address):  # the proxy itself, which has not said for whom it asks
        address = ""
    if (wait := who.tries.wait(name, address)) > 0:
        said = f"too many attempts; try again in {int(wait) + 1} seconds"
        answer = render_page(request, "login.html.j2", status=429, next=_inside(next), said=said, name=name)
        answer.headers["retry-after"] = str(int(wait) + 1)
        return answer
    user = who.users.signed_in(name, password)
    if user is None:
        said = "wrong name or password"
        return render_page(request, "login.html.j2", status=401, next=_inside(next), said=said, name=name)
    who.tries.forgive(name, address)
    response = RedirectResponse(_inside(next), 303)
    who.give_cookie(response, who.sessions.begin(name, user.stamp))
    return response


@router.post("/logout")
def sign_out(request: Request) -> Response:
    """End the session."""
    who = access(request)
    who.sessions.end(request.cookies.get(who.cookie, ""))
    response = RedirectResponse("/login" if who.settings.auth else "/", 303)
    response.delete_cookie(who.cookie, path="/", httponly=True, samesite="strict")
    return response


def _only_with_users(request: Request) -> None:
    if not access(request).settings.auth:
        raise HTTPException(404, "nobody signs in here: the address that `tomserve web` prints lets you in")


def _inside(there: str) -> str:
    """A path of this workbench, also where a stranger has made up the link: never an address elsewhere."""
    plain = there.startswith("/") and not there.startswith(("//", "/\\")) and there.isprintable() and "\\" not in there
    return there if plain and not there.startswith(("/login", "/logout")) else "/"
