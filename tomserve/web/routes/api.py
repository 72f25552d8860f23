"""Routes of the programming interface, ``/api/v1``, which call the functions that the pages call.

What they take and give is described in tomserve.web.schemas, and as an OpenAPI document at ``/api/openapi.json``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path, Query, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import FileResponse, JSONResponse, Response

from tomserve.content.files import one_line
from tomserve.errors import ConfigError, ConflictError, one_of
from tomserve.runs.runfolder import read_manifest
from tomserve.studies import study_names as studies
from tomserve.web import analyses, answer_index, cache, leaderboard, planning, playground, run_index, run_status
from tomserve.web import answers as web_answers
from tomserve.web import items as web_items
from tomserve.web import queue as web_queue
from tomserve.web.access import Access, Reader, Runner, Workbench, access, workbench
from tomserve.web.accounts import Person, secret_digest
from tomserve.web.answer_index import Filters
from tomserve.web.cache import Result
from tomserve.web.items import How, Source
from tomserve.web.queue import Where
from tomserve.web.routes.items import own_item
from tomserve.web.run_index import RunEntry
from tomserve.web.schemas import (
    AnswerQuery,
    AnswerResponse,
    AnswersQuery,
    AnswersResponse,
    BoardQuery,
    Coming,
    CompareQuery,
    CompareResponse,
    FlipsResponse,
    Health,
    ItemsQuery,
    ItemsResponse,
    KnownToken,
    NewExperiment,
    NewToken,
    PreviewQuery,
    PreviewResponse,
    ProgressResponse,
    QueueResponse,
    Refusal,
    Run,
    RunChange,
    RunLine,
    RunPage,
    RunsQuery,
    ScoresQuery,
    Server,
    Started,
    TableResponse,
    TablesQuery,
    TablesResponse,
    TokenRequest,
    TrialRequest,
    TrialResponse,
)
from tomserve.workflows.evaluate import Experiment

Bench = Annotated[Workbench, Depends(workbench)]
"""Parameter of a route: the workbench that the request was sent to."""


def line_of(name: str, bench: Bench, person: Reader) -> RunEntry:
    """The line of the run that the address names. Raises NoSuchRunError before anything is done."""
    return bench.register.line(name, person)


Found = Annotated[RunEntry, Depends(line_of)]
"""Parameter of a route whose path holds `{name:path}`: the run, which the person may see."""

COMPUTING: dict[int | str, dict[str, Any]] = {
    202: {
        "model": Coming,
        "description": "It is being computed. Ask for the same again in a second.",
        "content": {"application/json": {}},
    }
}
"""What routes say of results that are computed beside."""


def computing_response() -> Response:
    """The answer while something is computed beside."""
    return JSONResponse(Coming().model_dump(), 202, headers={"retry-after": "1"})


board_router = APIRouter()


@board_router.get("/leaderboard")
def board(bench: Bench, person: Reader, wish: Annotated[BoardQuery, Query()]) -> leaderboard.Board:
    """Models by what they were asked; only what can be compared stands in the same column.

    `pending` says how many runs are still being counted: ask again until it is 0.
    """
    filters = leaderboard.Filters(wish.benchmark, wish.strategy, wish.model, wish.sort, wish.order == "down")
    return leaderboard.find_board(bench.register, person, filters)


experiment_router = APIRouter()

PATIENCE = 20.0
"""Seconds for which a plan is waited for before it is said that it is still being computed."""

Action = Literal["pause", "resume", "cancel", "retry", "move"]


@experiment_router.post("/experiments", status_code=201)
def start(bench: Bench, person: Runner, wanted: NewExperiment) -> Started:
    """Put an experiment into the queue. Its fields are those of `tomserve eval --config`.

    A run of yours that exists already goes on. Without `run`, a free name is chosen.
    """
    return Started(name=bench.queue.submit(_experiment(wanted), person, wanted.private))


@experiment_router.post("/experiments/plan", response_model=planning.Plan, responses=COMPUTING)
def plan(bench: Bench, person: Reader, wanted: NewExperiment) -> planning.Plan | Response:
    """What an experiment would cost, and the smallest effect that it could find. Nothing is asked of any server."""
    experiment = web_queue.check_experiment(_experiment(wanted), person, bench.register, bench.settings)
    return planning.PLANNER.foresee(experiment, PATIENCE) or computing_response()


def _experiment(wanted: NewExperiment) -> Experiment:
    fields = wanted.model_dump(by_alias=True, exclude={"private"}, exclude_unset=True)
    return Experiment.model_validate(fields)


@experiment_router.get("/queue")
def queue(bench: Bench, person: Reader) -> QueueResponse:
    """What is in the queue: what runs, then what waits in its order, then what has ended, the latest first."""
    return QueueResponse(runs=[RunLine.of(line) for line in bench.queue.lines(person)[:1000]])


@experiment_router.post("/queue/{action}/{name:path}")
def act(
    bench: Bench,
    person: Runner,
    action: Action,
    name: str,
    where: Annotated[Where | None, Query(description="Only for `move`: to which place.")] = None,
) -> RunLine:
    """Pause, resume, cancel, retry or move an experiment.

    Nothing that was answered is lost by any of them.
    """
    if (action == "move") != (where is not None):
        raise HTTPException(422, "where: goes with move, which needs it: first, up, down or last")
    if where is not None:
        bench.queue.move(name, person, where)
    else:
        getattr(bench.queue, action)(name, person)
    return RunLine.of(bench.register.line(name, person))


progress_router = APIRouter()

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events of which each holds what `progress` tells, sent when that has changed, at most one a "
        "second; the last one is called `end`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@progress_router.get("/progress/{name:path}")
def progress(line: Found) -> ProgressResponse:
    """How far a run is, with its last answers and the end of its log, whoever started it."""
    return ProgressResponse.of(run_status.Follower(line.folder, line.name).look())


@progress_router.get("/events/{name:path}", response_class=EventSourceResponse, responses=STREAM)
async def events(line: Found, request: Request) -> AsyncIterator[ServerSentEvent]:
    """The same as server-sent events, until the run has ended."""
    ending = workbench(request).ending
    async for seen in run_status.events(line.folder, line.name, ending=ending):
        yield ServerSentEvent(data=ProgressResponse.of(seen).model_dump(mode="json"), event="progress", retry=2000)
    if not ending.is_set():
        yield ServerSentEvent(raw_data="ended", event="end")


item_router = APIRouter()


@item_router.get("/items/{benchmark}", response_model=ItemsResponse, responses=COMPUTING)
def items(
    bench: Bench, person: Reader, benchmark: str, wish: Annotated[ItemsQuery, Query()]
) -> ItemsResponse | Response:
    """The items of a benchmark in pages of 50, those that the conditions leave."""
    found = web_items.find_index(Source(benchmark, wish.gold), bench.register, person)
    if found is None:
        return computing_response()
    wanted = web_items.ItemQuery(tuple(wish.where), wish.text.strip(), wish.page)
    return ItemsResponse.model_validate(web_items.list_items(found, wanted))


@item_router.get("/items/{benchmark}/prompt", response_model=PreviewResponse, responses=COMPUTING)
def prompt(
    bench: Bench, person: Reader, benchmark: str, wish: Annotated[PreviewQuery, Query()]
) -> PreviewResponse | Response:
    """The requests that an evaluation would send about an item, as their bodies of JSON."""
    found = web_items.find_index(Source(benchmark, wish.gold), bench.register, person)
    if found is None:
        return computing_response()
    how = How(wish.strategy, wish.preset, wish.model, wish.thinking, wish.temperature, wish.seed)
    made = web_items.preview(web_items.find_item(found, wish.item).item, how)
    return PreviewResponse(strategy=made.strategy.name, more=made.more, bodies=[one.body.decode() for one in made.sent])


@item_router.post("/try", status_code=201, response_model=Started, responses=COMPUTING)
def ask(bench: Bench, person: Runner, wish: TrialRequest) -> Started | Response:
    """Ask one item, or a story of your own, of one model. Nothing of it goes into the runs.

    The answer is the name under which `GET /try/{name}` tells what came of it.
    """
    if (wish.item is None) == (wish.own is None):
        raise HTTPException(422, "name an item of a benchmark, or give a story of your own")
    if wish.own is not None:
        own = wish.own
        chosen = own_item("\n".join(own.story), own.question, "\n".join(own.choices), own.answer)
    else:
        found = web_items.find_index(Source(wish.benchmark, wish.gold), bench.register, person)
        if found is None:
            return computing_response()
        chosen = web_items.find_item(found, wish.item or "").item
    how = How(wish.strategy, wish.preset, wish.model, wish.thinking, wish.temperature, wish.seed)
    name = playground.start_trial(
        bench.settings, person, chosen, how, base_url=wish.base_url.strip(), key=wish.key, seconds=wish.seconds
    )
    return Started(name=name)


@item_router.get("/try/{name}")
def tried(bench: Bench, person: Reader, name: str) -> TrialResponse:
    """What came of a try: the raw reply, how it was read, and what was sent."""
    return TrialResponse.of(playground.read_trial(bench.settings, person, name))


server_router = APIRouter()


@server_router.get("/servers")
def servers(person: Reader) -> list[Server]:
    """The model servers that `tomserve serve` has started on this machine."""
    del person
    return [
        Server(
            model=one_line(one.record.model), url=one_line(one.record.url), started=one.record.started, state=one.state
        )
        for one in run_status.SERVERS.seen()
    ]


result_router = APIRouter()

KINDS = {"parquet": "application/vnd.apache.parquet", "csv": "text/csv", "jsonl": "application/jsonl"}
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The table, as a file.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in KINDS.values()},
    }
}


@result_router.get("/scores/{name:path}", response_class=Response, responses={**FILE, **COMPUTING})
def scores(line: Found, wish: Annotated[ScoresQuery, Query()]) -> Response:
    """The scores of a run, a row for each item and strategy, as Parquet, CSV or lines of JSON."""
    result = _require_result(line, cache.compute("scores", line.folder, form=wish.form))
    if result is None:
        return computing_response()
    return FileResponse(result.folder / result.facts["file"], filename=result.facts["as"], media_type=KINDS[wish.form])


@result_router.get("/tables/{name:path}", response_model=TablesResponse, responses=COMPUTING)
def tables(line: Found, wish: Annotated[TablesQuery, Query()]) -> TablesResponse | Response:
    """The tables of a study of a run, each as CSV. A study is one of the content, by its name."""
    if wish.study and wish.study not in studies():
        raise ConfigError(one_of("study", wish.study, studies()))
    options: dict[str, Any] = {"study": wish.study or None, "intervals": wish.intervals or None, "by": list(wish.by)}
    result = _require_result(line, cache.compute("panels", line.folder, **options))
    if result is None:
        return computing_response()
    told = [
        TableResponse(name=name, rows=rows, csv=(result.folder / f"table-{name}.csv").read_text(encoding="utf-8"))
        for name, rows in result.facts["tables"].items()
    ]
    return TablesResponse(study=result.facts["study"], intervals=result.facts["intervals"], tables=told)


@result_router.get("/answers/{name:path}", response_model=AnswersResponse, responses=COMPUTING)
def answers(line: Found, wish: Annotated[AnswersQuery, Query()]) -> AnswersResponse | Response:
    """The answers of a run in pages of 50, those that the filters leave."""
    plain = wish.model_dump(exclude={"where"})
    found = (
        answer_index.page_of(line.folder, Filters(**plain, factors=_factors(wish.where)))
        if _require_answers(line)
        else None
    )
    return computing_response() if found is None else AnswersResponse.model_validate(found)


@result_router.get("/answer/{name:path}", response_model=AnswerResponse)
def answer(line: Found, wish: Annotated[AnswerQuery, Query()]) -> AnswerResponse:
    """One answer: the question with its gold chain, the reply, how it was read, and what was sent."""
    found = web_answers.answer(line.folder, wish.item, wish.strategy, wish.sample, wish.model)
    return AnswerResponse.of(found)


@result_router.get("/compare", response_model=CompareResponse, responses=COMPUTING)
def compare(bench: Bench, person: Reader, wish: Annotated[CompareQuery, Query()]) -> CompareResponse | Response:
    """How much better or worse b is than a on the same questions: effects, flips, and what else differs.

    Without b, two strategies of a are compared.
    """
    lines = [bench.register.line(name, person) for name in (wish.a, wish.b) if name]
    if bool(wish.sa) != bool(wish.sb) or not (wish.b or wish.sa):
        raise ConfigError("name a second run, b, or two strategies, sa and sb")
    pair = (wish.sa, wish.sb) if wish.sa else None
    a, b = lines[0].folder, lines[-1].folder
    result = _require_result(lines[0], analyses.comparison_of(a, b, pair, common=wish.common, margin=wish.margin))
    if result is None:
        return computing_response()
    flips = analyses.flips_page(result, wish.page, kind=wish.kind, item=wish.item, strategy=wish.strategy)
    told = {**result.facts, "tables": analyses.comparison_tables(result), "flips": FlipsResponse.model_validate(flips)}
    return CompareResponse.model_validate(told)


def _require_result(line: RunEntry, result: Result | None) -> Result | None:
    """The result, None while it is computed. Raises ConfigError with the reason where there is none."""
    _require_answers(line)
    if result is not None and result.error:
        raise ConfigError(result.error)
    return result


def _require_answers(line: RunEntry) -> bool:
    """Raises ConfigError where the run has nothing to show yet."""
    if line.broken:
        raise ConfigError(line.broken)
    if not line.kind:
        raise ConfigError(f"{line.name}: nothing was asked yet; wait until it has begun")
    return True


def _factors(where: list[str]) -> tuple[tuple[str, str], ...]:
    """Conditions NAME=VALUE as pairs. Raises ConfigError for one of another form."""
    pairs = [tuple(one.split("=", 1)) for one in where]
    if any(len(pair) != 2 for pair in pairs):
        raise ConfigError("where: expected conditions such as order=1")
    return tuple((pair[0], pair[1]) for pair in pairs)


run_router = APIRouter()


@run_router.get("/runs")
def runs(
    bench: Bench,
    person: Reader,
    wish: Annotated[RunsQuery, Query()],
) -> RunPage:
    """The runs that whoever asks may see, the newest first."""
    wanted = {"model": wish.model, "benchmark": wish.benchmark, "kind": wish.kind}
    found = [
        line
        for line in bench.register.lines(person)
        if all(not value or getattr(line, name) == value for name, value in wanted.items())
        and (not wish.tag or wish.tag in line.card.tags)
        and (not wish.state or wish.state in _states(line))
        and wish.text.casefold() in " ".join((line.name, line.model, line.benchmark, line.card.notes)).casefold()
    ]
    shown = found[(wish.page - 1) * wish.size : wish.page * wish.size]
    pages = max(1, -(-len(found) // wish.size))
    return RunPage(total=len(found), page=wish.page, pages=pages, runs=[RunLine.of(line) for line in shown])


def _states(line: RunEntry) -> set[str]:
    """All words that say in which state a run is."""
    found = {str(line.card.job.state)} if line.card.job else set()
    if line.broken:
        return found | {"broken"}
    return found | {"complete" if line.complete else "incomplete"} | ({"running"} if line.running else set())


@run_router.get("/runs/{name:path}")
def run(line: Found) -> Run:
    """One run, with its manifest."""
    manifest = None if line.broken else read_manifest(line.folder)
    return Run(**RunLine.of(line).model_dump(), manifest=manifest)


@run_router.patch("/runs/{name:path}")
def change_run(line: Found, person: Runner, change: RunChange) -> RunLine:
    """Change notes and tags of a run, and whether only its owner sees it."""
    return RunLine.of(run_index.change_metadata(line, person, **change.model_dump()))


token_router = APIRouter()

SHOWN = 12
"""Characters of a token's digest by which it is known."""


@token_router.get("/tokens")
def tokens(request: Request, person: Reader) -> list[KnownToken]:
    """The tokens of whoever asks, without the tokens themselves."""
    user = _access(request, person).users.all()[person.name]
    return [KnownToken(id=one.digest[:SHOWN], label=one.label, made=one.made) for one in user.tokens]


@token_router.post("/tokens", status_code=201)
def add_token(request: Request, person: Reader, wish: TokenRequest) -> NewToken:
    """Make a token for programs of whoever asks. It is told this once, and only its digest is kept."""
    token = _access(request, person).users.add_token(person.name, wish.label)
    return NewToken(token=token, id=secret_digest(token)[:SHOWN])


@token_router.delete("/tokens/{id}", status_code=204)
def end_token(request: Request, person: Reader, id: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]) -> None:
    """Take back a token of whoever asks."""
    if not _access(request, person).users.end_token(person.name, id):
        raise HTTPException(404, "you have no such token")


def _access(request: Request, person: Person) -> Access:
    if not person.name:
        raise ConflictError("nobody signs in here: programs send the token of the address that was printed")
    return access(request)


health_router = APIRouter()


@health_router.get("/health")
def health() -> Health:
    """Whether the workbench answers; tells nothing else."""
    return Health()


TITLE = "tomserve workbench"

DESCRIPTION = """
Start experiments, follow them, and fetch what they found out. The pages of the workbench use the same functions.

A program sends `Authorization: Bearer TOKEN`: the token of the address that `tomserve web` prints, or where people sign
in (`--auth`) one of its user (`POST /api/v1/tokens`). A run that you may not see is answered like one that does not
exist. Every refusal is a JSON object with one sentence, `error`.
"""

_bearer = HTTPBearer(auto_error=False, description="The token of the printed address, or one of a user.")
_cookie = APIKeyCookie(name="tomserve_PORT", auto_error=False, description="What a browser holds that was let in.")

WHY = {
    400: "It cannot be understood.",
    401: "Nobody is signed in, or the token is wrong.",
    403: "The person may not do this.",
    404: "There is no such thing, or none that the person may see.",
    409: "It cannot be done now, in the state in which things are.",
    413: "What was sent is too long.",
    414: "The address is too long.",
    422: "A value is wrong; the sentence names it.",
}

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": why} for status, why in WHY.items()
}

GROUPS = (
    (experiment_router, "experiments"),
    (progress_router, "experiments"),
    (run_router, "runs"),
    (result_router, "results"),
    (board_router, "results"),
    (item_router, "items"),
    (server_router, "workbench"),
    (token_router, "tokens"),
)
"""The routers, and under which word the OpenAPI document lists their routes."""


class DescribedApp(FastAPI):
    """An application whose OpenAPI document says of refusals what they are: JSON, also where a route gives a file."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self.openapi_schema is None:
            refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
            for methods in super().openapi()["paths"].values():
                for operation in methods.values():
                    for status, answer in operation["responses"].items():
                        if int(status) >= 400:
                            answer["content"] = refusal
        return super().openapi()


router = APIRouter(prefix="/api/v1", responses=REFUSALS)
router.include_router(health_router, tags=["workbench"])
for group, tag in GROUPS:
    router.include_router(group, tags=[tag], dependencies=[Security(_bearer), Security(_cookie)])
