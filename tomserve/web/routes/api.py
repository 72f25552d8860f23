"""Routes of the programming interface, ``/api/v1``, which call the functions that the pages call.

What they take and give is described in tomserve.web.schemas, and as an OpenAPI document at ``/api/openapi.json``.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, FastAPI, HTTPException, Path, Query, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import FileResponse, JSONResponse, Response

from tomserve.content import files
from tomserve.content.files import one_line
from tomserve.errors import ConfigError, ConflictError, one_of
from tomserve.runs.runfolder import read_manifest
from tomserve.serving import registry
from tomserve.studies import study_names as studies
from tomserve.web import (
    analyses,
    answer_index,
    background,
    leaderboard,
    planning,
    playground,
    run_index,
    run_status,
    schemas,
)
from tomserve.web import answers as web_answers
from tomserve.web import items as web_items
from tomserve.web import queue as web_queue
from tomserve.web.access import Access, Bench, Reader, Runner, VisibleRun, access, workbench
from tomserve.web.accounts import Person, secret_digest
from tomserve.web.answer_index import Filters
from tomserve.web.background import Computation, Result
from tomserve.web.items import Source
from tomserve.web.queue import ActionName, Where
from tomserve.web.routes.items import own_item
from tomserve.web.run_index import RunEntry
from tomserve.workflows.evaluate import Experiment

Found = TypeVar("Found")

COMPUTING: dict[int | str, dict[str, Any]] = {
    202: {
        "model": schemas.Coming,
        "description": "It is being computed. Ask for the same again in a second.",
        "content": {"application/json": {}},
    }
}
"""What routes say of results that are computed beside."""


class ComputingError(Exception):
    """Something is still being computed beside."""


def ready(found: Found | None) -> Found:
    """What was found. Raises ComputingError where it is still being computed, which is answered by a status of its
    own."""
    if found is None:
        raise ComputingError
    return found


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
    status: {"model": schemas.Refusal, "description": why} for status, why in WHY.items()
}


class DescribedApp(FastAPI):
    """An application whose OpenAPI document says of refusals what they are: JSON, also where a route gives a file."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        coming = JSONResponse(schemas.Coming().model_dump(), 202, headers={"retry-after": "1"})
        self.add_exception_handler(ComputingError, lambda request, error: coming)

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
routes = APIRouter(dependencies=[Security(_bearer), Security(_cookie)])
"""The routes that nobody may use who has not signed in: all but the one of `health`."""


@router.get("/health", tags=["workbench"])
def health() -> schemas.Health:
    """Whether the workbench answers; tells nothing else."""
    return schemas.Health()


PATIENCE = 20.0  # seconds for which a plan is waited for before it is said that it is still being computed


@routes.post("/experiments", status_code=201, tags=["experiments"])
def start(bench: Bench, person: Runner, wanted: schemas.NewExperiment) -> schemas.Started:
    """Put an experiment into the queue. Its fields are those of `tomserve eval --config`.

    A run of yours that exists already goes on. Without `run`, a free name is chosen.
    """
    return schemas.Started(name=bench.queue.submit(_experiment(wanted), person, wanted.private))


@routes.post("/experiments/plan", responses=COMPUTING, tags=["experiments"])
def plan(bench: Bench, person: Reader, wanted: schemas.NewExperiment) -> planning.Plan:
    """What an experiment would cost, and the smallest effect that it could find. Nothing is asked of any server."""
    experiment = web_queue.check_experiment(_experiment(wanted), person, bench.register, bench.settings)
    return ready(planning.find_plan(experiment, PATIENCE))


def _experiment(wanted: schemas.NewExperiment) -> Experiment:
    fields = wanted.model_dump(by_alias=True, exclude={"private"}, exclude_unset=True)
    return Experiment.model_validate(fields)


@routes.get("/queue", tags=["experiments"])
def queue(bench: Bench, person: Reader) -> schemas.QueueResponse:
    """What is in the queue: what runs, then what waits in its order, then what has ended, the latest first."""
    return schemas.QueueResponse(runs=[schemas.RunLine.of(line) for line in bench.queue.lines(person)[:1000]])


@routes.post("/queue/{action}/{name:path}", tags=["experiments"])
def act(
    bench: Bench,
    person: Runner,
    action: ActionName,
    name: str,
    where: Annotated[Where | None, Query(description="Only for `move`: to which place.")] = None,
) -> schemas.RunLine:
    """Pause, resume, cancel, retry or move an experiment.

    Nothing that was answered is lost by any of them.
    """
    if (action == "move") != (where is not None):
        raise HTTPException(422, "where: goes with move, which needs it: first, up, down or last")
    bench.queue.act(action, name, person, where)
    return schemas.RunLine.of(bench.register.line(name, person))


STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events of which each holds what `progress` tells, sent when that has changed, at most one a "
        "second; the last one is called `end`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@routes.get("/progress/{name:path}", tags=["experiments"])
def progress(line: VisibleRun) -> run_status.RunStatus:
    """How far a run is, with its last answers and the end of its log, whoever started it."""
    return run_status.look(line.folder, line.name, line.rows)


@routes.get("/events/{name:path}", response_class=EventSourceResponse, responses=STREAM, tags=["experiments"])
async def events(line: VisibleRun, request: Request) -> AsyncIterator[ServerSentEvent]:
    """The same as server-sent events, until the run has ended."""
    async for seen in run_status.events(line.folder, line.name, line.rows, ending=workbench(request).ending):
        yield ServerSentEvent(data=seen.model_dump(mode="json"), event="progress", retry=2000)
        if not seen.following:
            yield ServerSentEvent(raw_data="ended", event="end")


@routes.get("/runs", tags=["runs"])
def runs(bench: Bench, person: Reader, query: Annotated[schemas.RunsQuery, Query()]) -> schemas.RunPage:
    """The runs that whoever asks may see, the newest first."""
    wanted = {"model": query.model, "benchmark": query.benchmark, "kind": query.kind}
    found = [
        line
        for line in bench.register.lines(person)
        if all(not value or getattr(line, name) == value for name, value in wanted.items())
        and (not query.tag or query.tag in line.card.tags)
        and (not query.state or query.state in _states(line))
        and query.text.casefold() in " ".join((line.name, line.model, line.benchmark, line.card.notes)).casefold()
    ]
    shown = found[(query.page - 1) * query.size : query.page * query.size]
    pages = max(1, -(-len(found) // query.size))
    return schemas.RunPage(
        total=len(found), page=query.page, pages=pages, runs=[schemas.RunLine.of(line) for line in shown]
    )


def _states(line: RunEntry) -> set[str]:
    found = {str(line.card.job.state)} if line.card.job else set()
    if line.broken:
        return found | {"broken"}
    return found | {"complete" if line.complete else "incomplete"} | ({"running"} if line.running else set())


@routes.get("/runs/{name:path}", tags=["runs"])
def run(line: VisibleRun) -> schemas.Run:
    """One run, with its manifest."""
    manifest = None if line.broken else read_manifest(line.folder)
    return schemas.Run(**schemas.RunLine.of(line).model_dump(), manifest=manifest)


@routes.patch("/runs/{name:path}", tags=["runs"])
def change_run(line: VisibleRun, person: Runner, change: schemas.RunChange) -> schemas.RunLine:
    """Change notes and tags of a run, and whether only its owner sees it."""
    return schemas.RunLine.of(run_index.change_metadata(line, person, **change.model_dump()))


KINDS = {"parquet": "application/vnd.apache.parquet", "csv": "text/csv", "jsonl": "application/jsonl"}
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The table, as a file.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in KINDS.values()},
    }
}


@routes.get("/scores/{name:path}", response_class=Response, responses={**FILE, **COMPUTING}, tags=["results"])
def scores(line: VisibleRun, query: Annotated[schemas.ScoresQuery, Query()]) -> Response:
    """The scores of a run, a row for each item and strategy, as Parquet, CSV or lines of JSON."""
    result = _find_result(line, Computation("scores", (line.folder,), {"form": query.form}))
    return FileResponse(result.folder / result.facts["file"], filename=result.facts["as"], media_type=KINDS[query.form])


@routes.get("/tables/{name:path}", responses=COMPUTING, tags=["results"])
def tables(line: VisibleRun, query: Annotated[schemas.TablesQuery, Query()]) -> schemas.TablesResponse:
    """The tables of a study of a run, each as CSV. A study is one of the content, by its name."""
    if query.study and query.study not in studies():
        raise ConfigError(one_of("study", query.study, studies()))
    options: dict[str, Any] = {"study": query.study or None, "intervals": query.intervals or None, "by": list(query.by)}
    result = _find_result(line, Computation("panels", (line.folder,), options))
    told = [
        schemas.TableResponse(name=name, rows=rows, csv=files.read_bytes(result.folder / f"table-{name}.csv").decode())
        for name, rows in result.facts["tables"].items()
    ]
    return schemas.TablesResponse(study=result.facts["study"], intervals=result.facts["intervals"], tables=told)


@routes.get("/answers/{name:path}", responses=COMPUTING, tags=["results"])
def answers(line: VisibleRun, query: Annotated[schemas.AnswersQuery, Query()]) -> schemas.AnswersResponse:
    """The answers of a run in pages of 50, those that the filters leave."""
    _require_answers(line)
    filters = Filters(**query.model_dump(exclude={"where"}), factors=_factors(query.where))
    return schemas.AnswersResponse.model_validate(ready(answer_index.page_of(line.folder, filters)))


@routes.get("/answer/{name:path}", response_model=schemas.AnswerResponse, tags=["results"])
def answer(line: VisibleRun, query: Annotated[schemas.AnswerQuery, Query()]) -> schemas.AnswerResponse:
    """One answer: the question with its gold chain, the reply, how it was read, and what was sent."""
    found = web_answers.answer(line.folder, query.item, query.strategy, query.sample, query.model)
    return schemas.AnswerResponse.model_validate(found)


@routes.get("/compare", responses=COMPUTING, tags=["results"])
def compare(bench: Bench, person: Reader, query: Annotated[schemas.CompareQuery, Query()]) -> schemas.CompareResponse:
    """How much better or worse b is than a on the same questions: effects, flips, and what else differs.

    Without b, two strategies of a are compared.
    """
    lines = [bench.register.line(name, person) for name in (query.a, query.b) if name]
    if bool(query.sa) != bool(query.sb) or not (query.b not in ("", query.a) or query.sa):
        raise ConfigError("name a second run, b, or two strategies, sa and sb")
    pair = (query.sa, query.sb) if query.sa else None
    a, b = lines[0].folder, lines[-1].folder
    result = _find_result(lines[0], analyses.comparison_of(a, b, pair, common=query.common, margin=query.margin))
    flips = analyses.flips_page(result, query.page, kind=query.kind, item=query.item, strategy=query.strategy)
    return schemas.CompareResponse.model_validate({**result.facts, "flips": flips})


def _find_result(line: RunEntry, computation: Computation) -> Result:
    """The result. Raises ComputingError while it is computed, and ConfigError with the reason where there is none."""
    _require_answers(line)
    return ready(background.require(computation))


def _require_answers(line: RunEntry) -> None:
    if line.broken:
        raise ConfigError(line.broken)
    if not line.kind:
        raise ConfigError(f"{line.name}: nothing was asked yet; wait until it has begun")


def _factors(where: list[str]) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(one.split("=", 1)) for one in where]
    if any(len(pair) != 2 for pair in pairs):
        raise ConfigError("where: expected conditions such as order=1")
    return tuple((pair[0], pair[1]) for pair in pairs)


@routes.get("/leaderboard", tags=["results"])
def board(bench: Bench, person: Reader, query: Annotated[leaderboard.Filters, Query()]) -> leaderboard.Board:
    """Models by what they were asked; only what can be compared stands in the same column.

    `pending` says how many runs are still being counted: ask again until it is 0.
    """
    return leaderboard.find_board(bench.register, person, query)


@routes.get("/items/{benchmark}", responses=COMPUTING, tags=["items"])
def items(
    bench: Bench, person: Reader, benchmark: str, query: Annotated[schemas.ItemsQuery, Query()]
) -> web_items.Listing:
    """The items of a benchmark in pages of 50, those that the conditions leave."""
    found = ready(web_items.find_index(Source(benchmark, query.gold), bench.register, person))
    wanted = web_items.ItemQuery(tuple(query.where), query.text.strip(), query.page)
    return web_items.list_items(found, wanted)


@routes.get("/items/{benchmark}/prompt", responses=COMPUTING, tags=["items"])
def prompt(
    bench: Bench, person: Reader, benchmark: str, query: Annotated[schemas.PreviewQuery, Query()]
) -> schemas.PreviewResponse:
    """The requests that an evaluation would send about an item, as their bodies of JSON."""
    found = ready(web_items.find_index(Source(benchmark, query.gold), bench.register, person))
    made = web_items.preview(web_items.find_item(found, query.item).item, query)
    return schemas.PreviewResponse(
        strategy=made.strategy.name, more=made.more, bodies=[one.body.decode() for one in made.sent]
    )


@routes.post("/try", status_code=201, responses=COMPUTING, tags=["items"])
def ask(bench: Bench, person: Runner, body: schemas.TrialRequest) -> schemas.Started:
    """Ask one item, or a story of your own, of one model. Nothing of it goes into the runs.

    The answer is the name under which `GET /try/{name}` tells what came of it.
    """
    if (body.item is None) == (body.own is None):
        raise HTTPException(422, "name an item of a benchmark, or give a story of your own")
    if body.own is not None:
        own = body.own
        chosen = own_item("\n".join(own.story), own.question, "\n".join(own.choices), own.answer)
    else:
        found = ready(web_items.find_index(Source(body.benchmark, body.gold), bench.register, person))
        chosen = web_items.find_item(found, body.item or "").item
    name = playground.start_trial(
        bench.settings, person, chosen, body, base_url=body.base_url.strip(), key=body.key, seconds=body.seconds
    )
    return schemas.Started(name=name)


@routes.get("/try/{name}", tags=["items"])
def tried(bench: Bench, person: Reader, name: str) -> playground.Trial:
    """What came of a try: the raw reply, how it was read, and what was sent."""
    return playground.read_trial(bench.settings, person, name)


@routes.get("/servers", tags=["workbench"])
def servers(person: Reader) -> list[schemas.Server]:
    """The model servers that `tomserve serve` has started on this machine."""
    del person
    return [
        schemas.Server(
            model=one_line(one.record.model), url=one_line(one.record.url), started=one.record.started, state=one.state
        )
        for one in registry.believed_records()
    ]


SHOWN = 12  # characters of a token's digest by which it is known


@routes.get("/tokens", tags=["tokens"])
def tokens(request: Request, person: Reader) -> list[schemas.KnownToken]:
    """The tokens of whoever asks, without the tokens themselves."""
    user = _access(request, person).users.all()[person.name]
    return [schemas.KnownToken(id=one.digest[:SHOWN], label=one.label, made=one.made) for one in user.tokens]


@routes.post("/tokens", status_code=201, tags=["tokens"])
def add_token(request: Request, person: Reader, body: schemas.TokenRequest) -> schemas.NewToken:
    """Make a token for programs of whoever asks. It is told this once, and only its digest is kept."""
    token = _access(request, person).users.add_token(person.name, body.label)
    return schemas.NewToken(token=token, id=secret_digest(token)[:SHOWN])


@routes.delete("/tokens/{id}", status_code=204, tags=["tokens"])
def end_token(request: Request, person: Reader, id: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]) -> None:
    """Take back a token of whoever asks."""
    if not _access(request, person).users.end_token(person.name, id):
        raise HTTPException(404, "you have no such token")


def _access(request: Request, person: Person) -> Access:
    if not person.name:
        raise ConflictError("nobody signs in here: programs send the token of the address that was printed")
    return access(request)


router.include_router(routes)
