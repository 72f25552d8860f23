"""The page of a new experiment: its form, what the form offers to choose from, and what the experiment would cost and
could show.

The sentences beside the fields are those of the command line, since the same functions check both.
"""

import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import orjson
import pydantic
from fastapi import APIRouter, Request, UploadFile
from fastapi import Form as Field
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from tomserve import benchmarks, content, variants
from tomserve.content import files, validation
from tomserve.content.validation import explain
from tomserve.engine import transports
from tomserve.engine.adaptations import POLICIES
from tomserve.engine.addresses import normalize_url
from tomserve.errors import ConfigError, NoSuchRunError, TomserveError
from tomserve.runs.manifest import Manifest
from tomserve.serving import keys, registry
from tomserve.serving.presets import REFERENCE, Preset
from tomserve.serving.probe import Probe
from tomserve.web import queue, run_status
from tomserve.web.access import Reader, Runner, workbench
from tomserve.web.accounts import Person
from tomserve.web.background import without_paths
from tomserve.web.page_templates import render_page
from tomserve.web.planning import MATTER, find_plan
from tomserve.web.run_index import RunEntry
from tomserve.workflows import evaluate
from tomserve.workflows.evaluate import Experiment

router = APIRouter(include_in_schema=False)

SOURCES = ("endpoint", "server", "preset")
"""Where the model is: at an address, on a server of this machine, or served by a preset of ours."""

LISTS = ("base_url", "where")  # fields with one value a line
BOXES = ("strategy", "variants")  # fields of which any number of boxes may be checked

SWITCHES = ("start", "accept_change", "faithfulness")
ONES = tuple(name for name in Experiment.model_fields if name not in ("schema_", *LISTS, *BOXES, *SWITCHES))
"""Fields with one value."""

LONGEST = 1 << 16  # characters of a file that somebody pastes or uploads

_ABOUT = {
    "base_url": ("base URL", "--base-url"),
    "benchmark": ("benchmark",),
    "path": ("path",),
    "gold": ("set of right", "--gold"),
    "where": ("where", "factor", "condition"),
    "strategy": ("strateg",),
    "variants": ("--variants", "kind"),
    "noise_check": ("--noise-check", "noise check"),
    "search": ("search", "--budget"),
    **{name: (name,) for name in ("repeats", "temperature", "seed", "run", "key", "transport", "limit")},
    "thinking": ("--thinking",),
    "reasoning_effort": ("--reasoning-effort",),
    "extra_body": ("--extra-body",),
    "answer_schema": ("--schema",),
    "model": ("model", "preset"),
}
"""What stands in the first words of the sentences that are about a field."""


@dataclass
class Form:
    """A form as somebody has filled it in."""

    values: dict[str, list[str]] = field(default_factory=dict)  # the texts of each field, as they were sent
    experiment: Experiment | None = None  # what they make, None where that is not possible
    errors: dict[str, str] = field(default_factory=dict)
    """What is wrong, by field; "" for what is about no single field."""
    private: bool = False  # whether nobody else may see the run

    def one(self, name: str) -> str:
        """The text of a field with one value."""
        return next(iter(self.values.get(name, ())), "")

    def all(self, name: str) -> list[str]:
        """The texts of a field with several."""
        return self.values.get(name, [])

    def wrong(self, sentence: str) -> None:
        """Note what is wrong, at the field that the sentence is about."""
        name = field_about(sentence)
        if name == "model" and self.one("source") == "preset":
            name = "preset"
        self.errors.setdefault(name, sentence)

    @property
    def source(self) -> str:
        """Which of SOURCES is chosen."""
        given = self.one("source")
        return given if given in SOURCES else "endpoint"


def form_of_request(sent: Mapping[str, Sequence[str]]) -> Form:
    """The form that a browser has sent: by the name of each field its values."""
    known = {"source", "server", "preset", "private", *LISTS, *BOXES, *SWITCHES, *ONES}
    values = {name: [text[:LONGEST] for text in texts] for name, texts in sent.items() if name in known}
    form = Form(values, private=bool(values.get("private")))
    data: dict[str, Any] = {}
    for name in ONES:
        if text := form.one(name).strip():
            data[name] = text
    for name in LISTS:
        if lines := [line.strip() for text in form.all(name) for line in text.splitlines() if line.strip()]:
            data[name] = lines
    for name in BOXES:
        if chosen := [text for text in form.all(name) if text]:
            data[name] = chosen
    data |= {name: True for name in SWITCHES if form.all(name)}
    _place(form, data)
    if not data.get("benchmark"):
        form.errors["benchmark"] = "choose a benchmark"
    data = {name.replace("_", "-"): value for name, value in data.items()}
    try:
        form.experiment = Experiment.model_validate(data)
    except pydantic.ValidationError as error:
        for one in error.errors(include_url=False):
            place = str(one["loc"][0]) if one["loc"] else ""
            form.errors.setdefault(place.replace("-", "_"), explain(one, data, Experiment))
    return form


def _place(form: Form, data: dict[str, Any]) -> None:
    if form.source == "endpoint":
        data.pop("start", None)
        if not data.get("base_url"):
            form.errors["base_url"] = "give the address of a server, such as http://host:8000/v1"
    elif form.source == "server":
        data.pop("start", None)
        address, _, model = form.one("server").partition(" ")
        data |= {"base_url": [address] if address else [], "model": model or None}
        if not address:
            form.errors["server"] = "choose a server; where none is listed, start one or choose a preset"
    else:
        data.pop("base_url", None)
        data["model"] = form.one("preset") or None
        if not data["model"]:
            form.errors["preset"] = "choose a preset"


def field_about(sentence: str) -> str:
    """The field that a sentence is about, by how it begins; "" where it does not say."""
    beginning = sentence[:60].lower()
    named = ((word.lower(), name) for name, words in _ABOUT.items() for word in words)
    found = [(beginning.find(word), -len(word), name) for word, name in named if word in beginning]
    return min(found)[2] if found else ""


def form_of_experiment(experiment: Experiment) -> Form:
    """The form that makes this experiment."""
    values: dict[str, list[str]] = {}
    told = experiment.model_dump(mode="json", exclude_defaults=True)
    for name, value in told.items():
        if name in LISTS:
            values[name] = ["\n".join(value)]
        elif name in BOXES:
            values[name] = [str(one) for one in value]
        elif name in SWITCHES:
            values[name] = ["yes"]
        elif name == "extra_body":
            values[name] = [orjson.dumps(value).decode()]
        elif name in ONES:
            values[name] = [f"{value:g}" if isinstance(value, float) else str(value)]
    if experiment.base_url:
        values["source"] = ["endpoint"]
    else:
        values |= {"source": ["preset"], "preset": values.pop("model", [])}
    return Form(values, experiment)


def form_of_text(text: str) -> Form:
    """The form that the text of a file makes. Raises ConfigError by line and field for one that is no experiment."""
    if len(text) > LONGEST:
        raise ConfigError(f"the file has more than {LONGEST:,} characters; expected an experiment")
    with files.temporary_folder() as folder:
        path = Path(folder) / evaluate.EXPERIMENT_FILE
        path.write_text(text, "utf-8")
        try:
            return form_of_experiment(evaluate.read_experiment(path))
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(path), evaluate.EXPERIMENT_FILE)) from None


_OWN = ("temperature", "seed", "repeats", "reasoning_effort")  # what else a manifest's sampling holds


def form_like_run(line: RunEntry) -> Form:
    """The form for the same experiment as an earlier run, under another name. Raises ConfigError where the run does not
    say what it asked. Which key a stranger's experiment names is left out."""
    if (path := line.folder / evaluate.EXPERIMENT_FILE).exists():
        own = line.card.job is not None and queue.is_sealed(line.name, path, line.card.job.seal)
        return form_of_experiment(
            evaluate.read_experiment(path).model_copy(update={"run": None} if own else {"run": None, "key": None})
        )
    manifest = Manifest.read(line.folder)
    if manifest is None:
        raise ConfigError(f"{line.name} does not say what it asked; fill in the form")
    if manifest.measured:
        raise ConfigError(f"{line.name} is a measurement, which the command line starts; see its page for how")
    sampling, noise = manifest.sampling, manifest.noise
    searched = manifest.settings.get("search") or {}
    local = manifest.preset and all("127.0.0.1" in url for url in manifest.endpoints)
    fields = {
        "model": manifest.preset if local else manifest.model,
        "base-url": [] if local else manifest.endpoints,
        "benchmark": manifest.benchmark,
        "path": manifest.benchmark_path,
        "gold": manifest.benchmark_gold,
        "where": next((one.where for one in manifest.sessions if one.where), []),
        "strategy": list(manifest.strategies),
        "limit": manifest.limit,
        "reasoning-effort": sampling.get("reasoning_effort"),
        "extra-body": {} if manifest.preset else {name: sampling[name] for name in sampling if name not in _OWN},
        "temperature": sampling.get("temperature", 0.0),
        "seed": searched.get("seed", sampling.get("seed", 0)),
        "search": searched.get("budget"),
        "repeats": sampling.get("repeats") or 1,
        "variants": manifest.variants.kinds if manifest.variants else [],
        "noise-check": noise.share if noise else None,
    }
    try:
        return form_of_experiment(
            Experiment.model_validate({name: value for name, value in fields.items() if value is not None})
        )
    except pydantic.ValidationError:
        raise ConfigError(f"{line.name} does not say in a form known here what it asked; fill in the form") from None


MODELS_PATIENCE = 8.0  # seconds that an endpoint may take to say which models it has

MOST_MODELS = 500
PACED = 5  # of so many of the newest runs of a model the rate is looked for


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to choose: its name, and what it is in a line."""

    name: str
    about: str
    first: bool = True  # whether it is offered at first sight


@lru_cache(maxsize=1)
def benchmark_choices() -> tuple[Choice, ...]:
    """All benchmarks by name, each with how its module begins, which is read and not run: to import all of them takes
    longer than a page may."""
    found = []
    for name, module in sorted(benchmarks.modules().items()):
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        beginning = files.read_own_text(Path(spec.origin)).split('"""')[1].partition("\n\n")[0]
        found.append(Choice(name, " ".join(beginning.replace("`", "").split())))
    return tuple(found)


def strategy_choices(chosen: Sequence[str] = (), benchmark: str = "") -> list[Choice]:
    """All strategies that can be found, each with its description, or with what is wrong with it: first those that are
    chosen, in their order, then those by which the benchmark is asked where nothing is chosen."""
    first = [*chosen, *_own_strategies(benchmark)]
    offers = [
        Choice(name, _description(path), name in first)
        for name, path in content.names("prompts", "/strategy.yaml").items()
    ]
    return sorted(offers, key=lambda one: first.index(one.name) if one.first else len(first))


def _own_strategies(benchmark: str) -> tuple[str, ...]:
    known = benchmarks.find(benchmark) if benchmark in benchmarks.names() else None
    return known.strategies if known is not None else ()


def _description(path: Path) -> str:
    """What a strategy's file says of it alone: to load the templates of all of them takes longer than a page may."""
    try:
        told, _ = validation.load_yaml(path)
    except ConfigError as error:
        return f"cannot be used: {error}"
    return str(told.get("description", "")) if isinstance(told, dict) else ""


@lru_cache(maxsize=2)
def preset_choices(names: tuple[str, ...]) -> tuple[Choice, ...]:
    """The presets of these names that can be read, each with the model that it serves."""
    return tuple(
        Choice(one.name, f"{one.model}, {one.weights_gb:g} GB") for one in Preset.readable() if one.name in names
    )


def usual_of(name: str) -> str:
    """What a benchmark asks by default, in words; "" for one that is unknown."""
    found = benchmarks.find(name) if name in benchmarks.names() else None
    if found is None:
        return ""
    said = f"Default strategies: {', '.join(found.strategies)}."
    return f"{said} Default conditions: {', '.join(found.usual)}." if found.usual else said


def model_pace(lines: Iterable[RunEntry], model: str | None) -> tuple[float, str] | None:
    """How many rows a second the newest run of a model wrote whose times tell it, and the name of that run."""
    own = [line for line in lines if model and line.model == model and line.kind == "answers"]
    for line in own[:PACED]:
        if (rate := run_status.pace(line.folder)) is not None:
            return rate, line.name
    return None


KNOWING = 3.0
"""Seconds that starting an experiment waits for its plan, which is there already where the form has shown it."""

PLAN_PATIENCE = 0.2
"""Seconds that a page waits for the plan; where it takes longer, the page fetches it when it is there."""

FIELDS = ("", "server", "preset", *ONES, *LISTS, *BOXES)
"""The fields beside which something can be said; "" is the whole form."""

MORE = (
    *("temperature", "seed", "repeats", "thinking", "max_tokens", "revision", "path", "gold", "concurrency", "timeout"),
    *("patience", "hedge", "transport", "answer_schema", "accept_change", "reasoning_effort", "extra_body"),
)
"""The fields that are shown once somebody wants more, or where one of them is filled in."""


@router.get("/new")
def new(request: Request, person: Reader, like: str = "", servers: str = "") -> HTMLResponse:
    """The form: as an earlier run, as the address says, or with what tries out tomserve."""
    form, said, sent = Form(), "", _sent_fields(request.query_params.multi_items())
    if like:
        try:
            form = form_like_run(workbench(request).register.line(like, person))
        except NoSuchRunError:
            raise
        except ConfigError as error:
            said = without_paths(str(error))
    else:
        form = _checked_form(request, person, sent or _first_fields())
    planned = None if like or sent else {**_NO_PLAN, "coming": True}  # the page fetches the plan of the first form
    return _page(request, person, form, said=said, ask_servers=bool(servers), planned=planned)


@router.get("/new/plan")
def plan(request: Request, person: Reader) -> HTMLResponse:
    """The plan of the form as it is filled in now, with what is wrong beside the fields."""
    form = _checked_form(request, person, _sent_fields(request.query_params.multi_items()))
    return render_page(
        request,
        "new/plan.html.j2",
        form=form,
        fields=FIELDS,
        swap=True,
        usual=usual_of(form.one("benchmark")),
        **_plan_of(form, request, person),
    )


@router.get("/new/strategies")
def strategies(request: Request, person: Reader, benchmark: str = "") -> HTMLResponse:
    """The strategies to choose from, with those of a benchmark chosen; the plan follows."""
    form = Form({"strategy": list(_own_strategies(benchmark))})
    offers = strategy_choices(form.all("strategy"))
    page = render_page(request, "new/strategies.html.j2", form=form, strategies=offers)
    page.headers["HX-Trigger-After-Settle"] = "strategies"
    return page


@router.get("/new/servers")
def servers(request: Request, person: Reader, server: str = "") -> HTMLResponse:
    """The servers that run on this machine, to choose from; asked by a request of its own, as one may be busy."""
    return render_page(request, "new/servers.html.j2", servers=_servers(), chosen=server)


@router.get("/new/experiment.yaml")
def download(request: Request, person: Reader) -> Response:
    """The experiment as the file that `tomserve eval --config` takes."""
    form = _checked_form(request, person, _sent_fields(request.query_params.multi_items()))
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
    found, wrong = list[str](), ""
    try:
        place = normalize_url((base_url.split() or [""])[0])
        if key:
            queue.check_key(key, (place,), workbench(request).settings)
        probe = Probe(place, os.environ[key] if key else None, MODELS_PATIENCE, headers=keys.headers([key]))
        found = [str(model["id"]) for model in probe.models()[:MOST_MODELS]]
    except TomserveError as error:
        wrong = str(error)
    return render_page(request, "new/models.html.j2", found=found, wrong=wrong)


@router.post("/new/read")
def read_form(
    request: Request, person: Runner, yaml: Annotated[str, Field()] = "", file: UploadFile | None = None
) -> HTMLResponse:
    """The form as a file fills it in that somebody pasted or uploaded."""
    try:
        text = file.file.read(LONGEST + 1).decode("utf-8") if file is not None and file.filename else yaml
        form, said = form_of_text(text), ""
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
    sent = _sent_fields((name, value) for name, value in (await request.form()).multi_items() if isinstance(value, str))
    return await run_in_threadpool(_submit, request, person, sent)


def _submit(request: Request, person: Person, sent: Mapping[str, list[str]]) -> Response:
    form = _checked_form(request, person, sent)
    if form.experiment is not None and not form.errors:
        try:
            find_plan(form.experiment, KNOWING)  # what is wrong with its items need not wait for its turn
            name = workbench(request).queue.submit(form.experiment, person, form.private)
            return RedirectResponse(f"/live/{name}", 303)
        except TomserveError as error:
            form.wrong(str(error))
    return _page(request, person, form, status=422)


def _first_fields() -> dict[str, list[str]]:
    """What the form holds at first: the small model that needs no GPU, and the benchmark that is asked by default."""
    own = list(_own_strategies(benchmarks.DEFAULT))
    model = {"source": ["preset"], "preset": [REFERENCE], "start": ["yes"]}
    return {**model, "benchmark": [benchmarks.DEFAULT], "strategy": own}


def _sent_fields(pairs: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in ("like", "servers", "csrf", "plan"):
            found.setdefault(name, []).append(value)
    return found


def _checked_form(request: Request, person: Person, sent: Mapping[str, Sequence[str]]) -> Form:
    form = form_of_request(sent)
    _check(form, request, person)
    return form


def _check(form: Form, request: Request, person: Person) -> None:
    """Note what is wrong with the experiment that can be told without loading its items."""
    if form.experiment is None:
        return
    known = workbench(request)
    try:
        form.experiment = queue.check_experiment(form.experiment, person, known.register, known.settings)
        if form.experiment.transport not in transports.TRANSPORTS:
            form.errors["transport"] = f"expected one of {', '.join(transports.TRANSPORTS)}"
        preset = Preset.lookup(form.experiment.model)
        if form.experiment.thinking is not None and preset is not None:
            preset.thinking_tokens(form.experiment.thinking)
    except TomserveError as error:
        form.wrong(str(error))


def _plan_of(form: Form, request: Request, person: Person) -> dict[str, Any]:
    if form.experiment is None or form.errors.keys() & {"", *MATTER}:
        return _NO_PLAN
    try:
        made = find_plan(form.experiment, PLAN_PATIENCE)
    except TomserveError as error:
        form.wrong(str(error))
        return _NO_PLAN
    pace = model_pace(workbench(request).register.lines(person), form.experiment.model)
    return {"plan": made, "coming": made is None, "pace": pace}


def _servers() -> list[Any]:
    return [one for one in registry.believed_records() if one.state != "silent"]


_NO_PLAN: dict[str, Any] = {"plan": None, "coming": False, "pace": None}


def _page(
    request: Request,
    person: Person,
    form: Form,
    *,
    said: str = "",
    pasted: str = "",
    ask_servers: bool = False,
    planned: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HTMLResponse:
    if planned is None:
        planned = _plan_of(form, request, person) if form.values else _NO_PLAN
    settings = workbench(request).settings
    return render_page(
        request,
        "new.html.j2",
        status=status,
        form=form,
        said=said,
        pasted=pasted,
        fields=FIELDS,
        swap=False,
        benchmarks=benchmark_choices(),
        strategies=strategy_choices(form.all("strategy"), form.one("benchmark")),
        presets=preset_choices(tuple(content.names("launch/models", ".yaml"))),
        kinds=variants.KINDS,
        keys=[name for name, _ in settings.keys],
        transports=transports.TRANSPORTS,
        policies=POLICIES,
        usual=usual_of(form.one("benchmark")),
        servers=_servers() if ask_servers else None,
        auth=settings.auth,
        more_open=any(form.all(name) or name in form.errors for name in MORE),
        **planned,
    )
