"""New experiment: a form that says what it would cost and could show while it is filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Request, UploadFile
from fastapi import Form as Field
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from tomserve import variants
from tomserve.engine import transports
from tomserve.errors import ConfigError, NoSuchRunError, TomserveError
from tomserve.serving.presets import Preset
from tomserve.web import admitting, forms, offering, overview, rendering
from tomserve.web.access import Reader, Runner
from tomserve.web.forms import Form
from tomserve.web.people import Person
from tomserve.web.planning import DESK
from tomserve.web.workbench import workbench

router = APIRouter(include_in_schema=False)

KNOWING = 3.0
"""Seconds that starting an experiment waits for its plan, which is there already where the form has shown it."""

PATIENCE = 0.2
"""Seconds that a page waits for the plan; where it takes longer, the page fetches it when it is there."""

FIELDS = (
    *(
        "",
        "base_url",
        "model",
        "server",
        "preset",
        "key",
        "benchmark",
        "path",
        "gold",
        "where",
        "strategy",
        "run",
        "limit",
    ),
    *("revision", "max_tokens", "thinking", "temperature", "seed", "repeats", "timeout", "concurrency", "transport"),
    *("hedge", "noise_check", "variants", "patience"),
)
"""The fields beside which something can be said; "" is the whole form."""

MORE = (
    *("temperature", "seed", "repeats", "thinking", "max_tokens", "revision", "path", "gold", "concurrency", "timeout"),
    *("patience", "hedge", "transport", "accept_change"),
)
"""The fields that are shown once somebody wants more, or where one of them is filled in."""


@router.get("/new")
def new(request: Request, person: Reader, like: str = "", servers: str = "") -> HTMLResponse:
    """The form: empty, as an earlier run, or as the address says."""
    form, said = Form(), ""
    if like:
        try:
            form = forms.like(workbench(request).register.line(like, person))
        except NoSuchRunError:
            raise
        except ConfigError as error:
            said = str(error)
    elif sent := _sent(request.query_params.multi_items()):
        form = forms.read(sent)
        _check(form, request, person)
    return _page(request, person, form, said=said, ask_servers=bool(servers))


@router.get("/new/plan")
def plan(request: Request, person: Reader) -> HTMLResponse:
    """The plan of the form as it is filled in now, with what is wrong beside the fields."""
    form = forms.read(_sent(request.query_params.multi_items()))
    _check(form, request, person)
    return rendering.page(
        request,
        "new/plan.html.j2",
        form=form,
        fields=FIELDS,
        swap=True,
        usual=offering.usual_of(form.one("benchmark")),
        **_planned(form, request, person),
    )


@router.get("/new/servers")
def servers(request: Request, person: Reader, server: str = "") -> HTMLResponse:
    """The servers that run on this machine, to choose from; asked by a request of its own, as one may be busy."""
    return rendering.page(request, "new/servers.html.j2", servers=_servers(), chosen=server)


@router.get("/new/experiment.yaml")
def download(request: Request, person: Reader) -> Response:
    """The experiment as the file that `tomserve eval --config` takes."""
    form = forms.read(_sent(request.query_params.multi_items()))
    _check(form, request, person)
    if form.experiment is None or form.errors:
        return _page(request, person, form, status=422)
    headers = {"Content-Disposition": 'attachment; filename="experiment.yaml"'}
    return Response(form.experiment.text(), media_type="application/yaml; charset=utf-8", headers=headers)


@router.post("/new/models")
def models(
    request: Request,
    person: Runner,
    base_url: Annotated[str, Field(max_length=2000)] = "",
    key: Annotated[str, Field(max_length=100)] = "",
) -> HTMLResponse:
    """The models that an endpoint lists. It is asked because somebody wants it to be, and never by itself."""
    found: Sequence[str] = ()
    wrong = ""
    try:
        found = offering.models_at((base_url.split() or [""])[0], key, workbench(request).settings)
    except TomserveError as error:
        wrong = str(error)
    return rendering.page(request, "new/models.html.j2", found=found, wrong=wrong)


@router.post("/new/read")
def read(
    request: Request, person: Runner, yaml: Annotated[str, Field()] = "", file: UploadFile | None = None
) -> HTMLResponse:
    """The form as a file fills it in that somebody pasted or uploaded."""
    try:
        text = file.file.read(forms.LONGEST + 1).decode("utf-8") if file is not None and file.filename else yaml
        form, said = forms.pasted(text), ""
    except UnicodeDecodeError as error:
        form, said = Form(), f"experiment.yaml: is not UTF-8 (byte {error.start})"
    except TomserveError as error:
        form, said = Form(), str(error)
    if not said:
        _check(form, request, person)
    return _page(request, person, form, said=said, pasted=yaml, status=422 if said else 200)


@router.post("/new")
async def submit(request: Request, person: Runner) -> Response:
    """Put the experiment into the queue, and go to the page on which it can be watched."""
    from starlette.concurrency import run_in_threadpool

    sent = _sent((name, value) for name, value in (await request.form()).multi_items() if isinstance(value, str))
    return await run_in_threadpool(_submit, request, person, sent)


def _submit(request: Request, person: Person, sent: Mapping[str, list[str]]) -> Response:
    form = forms.read(sent)
    _check(form, request, person)
    if form.experiment is not None and not form.errors:
        try:
            DESK.foresee(form.experiment, KNOWING)  # what is wrong with its items need not wait for its turn
            name = workbench(request).queue.submit(form.experiment, person, form.private)
            return RedirectResponse(f"/live/{name}", 303)
        except TomserveError as error:
            form.wrong(str(error))
    return _page(request, person, form, status=422)


def _sent(pairs: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in ("like", "servers", "csrf", "plan"):
            found.setdefault(name, []).append(value)
    return found


def _check(form: Form, request: Request, person: Person) -> None:
    """Note what is wrong with the experiment that can be told without loading its items."""
    if form.experiment is None:
        return
    known = workbench(request)
    try:
        form.experiment = admitting.check(form.experiment, person, known.register, known.settings)
        if form.experiment.transport not in transports.TRANSPORTS:
            form.errors["transport"] = f"expected one of {', '.join(transports.TRANSPORTS)}"
        preset = Preset.lookup(form.experiment.model)
        if form.experiment.thinking is not None and preset is not None:
            preset.thinking_tokens(form.experiment.thinking)
    except TomserveError as error:
        form.wrong(str(error))


def _planned(form: Form, request: Request, person: Person) -> dict[str, Any]:
    """The plan, if it is there; whether it is being computed; and how long it would take."""
    if form.experiment is None or form.errors:
        return {"plan": None, "coming": False, "pace": None}
    try:
        made = DESK.foresee(form.experiment, PATIENCE)
    except TomserveError as error:
        form.wrong(str(error))
        return {"plan": None, "coming": False, "pace": None}
    pace = offering.pace_of(workbench(request).register.lines(person), form.experiment.model)
    return {"plan": made, "coming": made is None, "pace": pace}


def _servers() -> list[Any]:
    return [one for one in overview.SERVERS.seen() if one.state != "silent"]


def _page(
    request: Request,
    person: Person,
    form: Form,
    *,
    said: str = "",
    pasted: str = "",
    ask_servers: bool = False,
    status: int = 200,
) -> HTMLResponse:
    planned = _planned(form, request, person) if form.values else {"plan": None, "coming": False, "pace": None}
    settings = workbench(request).settings
    return rendering.page(
        request,
        "new.html.j2",
        status=status,
        form=form,
        said=said,
        pasted=pasted,
        fields=FIELDS,
        swap=False,
        benchmarks=offering.offered_benchmarks(),
        strategies=offering.offered_strategies(form.all("strategy"), form.one("benchmark")),
        presets=offering.offered_presets(),
        kinds=variants.KINDS,
        keys=[name for name, _ in settings.keys],
        transports=transports.TRANSPORTS,
        usual=offering.usual_of(form.one("benchmark")),
        servers=_servers() if ask_servers else None,
        auth=settings.auth,
        more_open=any(form.all(name) or name in form.errors for name in MORE),
        **planned,
    )
