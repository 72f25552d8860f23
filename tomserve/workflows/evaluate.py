"""Asking a model from Python (`ask`, `aask`), and experiments in a file (`tomserve eval --config`, the workbench).

It works in a script, a notebook, a thread or a coroutine. Nothing is printed unless wanted. The fields of an
experiment are called as the options of `tomserve eval`; what the command line names besides wins over the file.

    model: llama3-70b
    benchmark: perturbed-2
    strategy: [vanilla, cot]
    limit: 200
    noise-check: 0.05
    variants: [all]
    faithfulness: true
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast

import orjson
import pydantic
import yaml

from tomserve.content import validation
from tomserve.content.validation import RunName
from tomserve.errors import ConfigError, ContentError, StoppedError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.runs.evaluation import EvalResult, Evaluation, Servers, evaluate, open_evaluation
from tomserve.runs.item_store import ItemStore
from tomserve.runs.planning import EvalOptions, RecordedOptions
from tomserve.runs.progress import INTERRUPTED, Listener, Stop
from tomserve.workflows.run import Place, Run, as_name, given_options, run_beside_loop


class AskOptions(TypedDict, total=False):
    """The options of `ask` and `aask`, given by name. An option that is left out, or None, has the default in brackets.

    These options say which model answers:

    base_url
        The server's address, such as "http://localhost:8000/v1", or a list of addresses of servers with the same model
        [a server that `tomserve serve` started on this machine, else a small one that is started for you].
    model
        The model's id or the name of a preset [the model that the server serves].
    revision
        The exact version of the model, for servers that do not report it.
    transport
        "httptools", or "openai" to send requests by the openai package ["httptools"].

    These options say what is asked:

    path
        The file or folder of a benchmark that is given by name [the benchmark's own].
    gold
        Which set of correct answers counts, for a benchmark that has several [the benchmark's first].
    where
        Conditions that the items of a benchmark have to meet, such as "condition=false_belief" or a list of several;
        "all" for every item [those that the benchmark asks by default, which mostly are all].
    limit
        Ask at most this many items: whole stories, spread over the design of the benchmark [all].
    max_tokens
        How many tokens a reply may have [what the strategy says].
    thinking
        "on", "off" or a number of tokens, for a model whose preset says how it thinks [the preset's].
    reasoning_effort
        How much a hosted reasoning model is to think, as its provider calls it: "low", "medium", "high" [unsaid].
    extra_body
        Further fields of every request, such as {"top_p": 0.9} [none].
    answer_schema
        Whether replies are held to their JSON schema: always ("on"), as far as the server can ("auto"), or never
        ("off") ["on"].
    temperature
        How much chance there is in the choice of each token; 0 takes the likeliest one always [0].
    seed
        The seed of the first sample of a question; each further one has the next number [0].
    repeats
        How many samples of each question are asked; the answer that most of them give is scored, and `Run.scores()` has
        further columns such as `samples_right` [1].
    noise_check
        The share of the items, such as 0.02, that is asked again to see how often an answer changes by chance [none].
    variants
        The kinds of variants to ask besides each item, such as "all" or ["person", "choices"], to see whether answers
        survive changes that should not matter (see tomserve.variants.KINDS) [none].

    These options say how it is done:

    run
        The name of the run, such as "mine" or "pilot/mine", or its folder, where everything is kept
        [<benchmark>-<model>].
    timeout
        Seconds that one request may take [600].
    concurrency
        How many requests are in flight at the same time [found out while running].
    hedge
        Seconds after which a question that is not answered yet is also sent to a second server [never].
    again
        Statuses of failures that are final, such as "refusal" or ["http_400"], whose questions are asked again [none].
    accept_change
        True to go on with a run although another server or model answers now; the manifest records the change [False].
    patience
        Seconds to wait for a server that still loads [1800], or that gives nothing but refusals [60].
    setup
        True to install vLLM where a server has to be started and vLLM is missing [False].
    progress
        True to print what happens, or a Listener of your own (see tomserve.runs.progress) [False].
    """

    base_url: str | Sequence[str] | None
    model: str | None
    revision: str | None
    transport: Literal["httptools", "openai"]
    path: Place | None
    gold: str | None
    where: str | Sequence[str] | None
    limit: int | None
    max_tokens: int | None
    thinking: str | None
    reasoning_effort: str | None
    extra_body: Mapping[str, Any]
    answer_schema: Literal["on", "auto", "off"]
    temperature: float
    seed: int
    repeats: int
    noise_check: float | None
    variants: str | Sequence[str] | None
    run: Place | None
    timeout: float
    concurrency: int | None
    hedge: float | None
    again: str | Sequence[str] | None
    accept_change: bool
    patience: float | None
    setup: bool
    progress: bool | Listener


Questions = str | Item | Iterable[Item]  # what is asked: the name of a benchmark, one item, or several items

# How it is asked: strategies by name, by folder or loaded; None for those of the benchmark
Strategies = Place | Strategy | Sequence[Place | Strategy] | None


def ask(questions: Questions, strategies: Strategies = None, **options: Unpack[AskOptions]) -> Run:
    """Ask a model the questions of a benchmark, or your own, and return the run with its answers.

    Every answer is kept in the run's folder as soon as it comes. If the asking was interrupted, repeat the same call:
    it goes on where it ended and asks nothing twice. In a notebook, an interrupt (the stop button or Ctrl-C) waits up
    to half a minute for the answers that are on their way.

    questions
        The name of a benchmark such as "perturbed", or items (from `load`, `read_items`, or made by you).
    strategies
        How each question is put to the model: the name of a prompting strategy such as "vanilla" or "cot", the folder
        of one, or a list of several [the strategies of the benchmark].
    options
        Further options by name, listed in `AskOptions`; the usual ones are base_url, model, run, limit and progress.

    A question that gets no answer raises no error: it is kept with a status such as "timeout", and counted in
    `Run.failures`. Other problems raise a TomserveError, whose message says what to do about it: ConfigError for a
    mistake in what was given, ServerError for a server that is missing or does not work, ServerLostError for one that
    went away meanwhile, RunMismatchError where the run's folder belongs to other questions, prompts or another model.

    >>> import tomserve
    >>> items = tomserve.load("perturbed")
    >>> run = tomserve.ask(items, "vanilla", base_url="http://localhost:8000/v1", limit=24)     # doctest: +SKIP
    >>> run.scores().group_by("perturbation").agg(pl.col("correct").mean())                    # doctest: +SKIP
    """
    made, listener = _options(questions, strategies, options)
    return _open_run(run_evaluation(made, listener))


def run_evaluation(options: EvalOptions, listener: Listener, servers: Servers | None = None) -> EvalResult:
    """Do what `evaluate` does, also in a notebook."""
    stop = Stop()
    return run_beside_loop(lambda: evaluate(options, listener, stop=stop, servers=servers), stop)


async def aask(questions: Questions, strategies: Strategies = None, **options: Unpack[AskOptions]) -> Run:
    """Do the same as `ask`, for programs that use asyncio: other coroutines go on while the model is asked.

    Parameters, result and errors are those of `ask`. Cancelling the coroutine ends the asking at once; every answer
    that has come is kept.

    >>> import asyncio, tomserve
    >>> asyncio.run(tomserve.aask("perturbed", base_url="http://localhost:8000/v1"))            # doctest: +SKIP
    """
    made, listener = _options(questions, strategies, options)
    stop = Stop()
    opening = _Opening(open_evaluation(made, listener, stop), stop)
    evaluation = await opening.enter()
    try:
        await evaluation.ask()
    except BaseException as error:
        await asyncio.shield(asyncio.to_thread(opening.manager.__exit__, type(error), error, error.__traceback__))
        raise
    await asyncio.to_thread(opening.manager.__exit__, None, None, None)
    return _open_run(evaluation.result())


class _Opening:
    """Opens an evaluation in a thread of its own, because opening blocks, and closes it again if it was cancelled."""

    def __init__(self, manager: AbstractContextManager[Evaluation], stop: Stop) -> None:
        self.manager, self._stop = manager, stop
        self._lock = threading.Lock()
        self._opened = False

    async def enter(self) -> Evaluation:
        """Open the evaluation and return it. If the task is cancelled meanwhile, the evaluation is closed again."""
        try:
            return await asyncio.shield(asyncio.to_thread(self._enter))
        except asyncio.CancelledError:
            with self._lock:
                self._stop.set()
            if self._opened:
                await asyncio.shield(asyncio.to_thread(self.manager.__exit__, None, None, None))
            raise

    def _enter(self) -> Evaluation:
        evaluation = self.manager.__enter__()
        with self._lock:
            if not self._stop.is_set():
                self._opened = True
                return evaluation
        self.manager.__exit__(None, None, None)
        raise StoppedError("stopped before anything was asked; repeat the call to go on", INTERRUPTED)


def _open_run(result: EvalResult) -> Run:
    return Run(result.folder, result.failures)


def _options(questions: Questions, strategies: Strategies, given: AskOptions) -> tuple[EvalOptions, Listener]:
    """The options in the form that an evaluation takes, and the listener. Raises ConfigError, and TypeError for an
    option that does not exist."""
    options_given = given_options("ask", AskOptions, given)
    progress = cast("bool | Listener", options_given.pop("progress", False))
    base_urls = as_texts(options_given.pop("base_url", ()), "base_url", "an address such as 'http://host:8000/v1'")
    variants = as_texts(options_given.pop("variants", ()), "variants", "a kind such as 'person'")
    where = as_texts(options_given.pop("where", ()), "where", "a condition such as 'order=1'")
    again = as_texts(options_given.pop("again", ()), "again", "a status such as 'refusal'")
    path, run = (cast("Place | None", options_given.pop(name, None)) for name in ("path", "run"))
    items = ItemStore() if isinstance(questions, str) else _items(questions)
    if items and (path is not None or "gold" in options_given):
        raise ConfigError("path and gold belong to a benchmark given by name; these are items already")
    options = EvalOptions(
        benchmark=questions if isinstance(questions, str) else _benchmark(items),
        items=items,
        strategies=tuple(as_name(one.folder if isinstance(one, Strategy) else one) for one in _several(strategies)),
        base_urls=base_urls,
        variants=variants,
        where=where,
        again=again,
        path=None if path is None else Path(path).expanduser(),
        run=as_name(run),
        **options_given,  # these options have the names of the fields
    )
    return options, choose_listener(progress)


def as_texts(given: object, name: str, wanted: str) -> tuple[str, ...]:
    """The texts of an option that takes one or several. Raises ConfigError for anything else."""
    several = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else None
    if several is None or not all(isinstance(one, str) for one in several):
        raise ConfigError(f"{name} is {given!r:.60}; expected {wanted}, or a list")
    return several


def _items(questions: Item | Iterable[Item]) -> ItemStore:
    """The items, each kept as a line as soon as it comes, so that a generator may make millions."""
    items = ItemStore(_check_items((questions,) if isinstance(questions, Item) else questions))
    if not len(items):
        raise ConfigError("there are no items to ask; give at least one, or the name of a benchmark")
    return items


def _check_items(items: Iterable[Item]) -> Iterator[Item]:
    for number, item in enumerate(items):
        if not isinstance(item, Item):
            raise ConfigError(f"item {number} is a {type(item).__name__}; expected a tomserve.Item")
        yield item


def _benchmark(items: ItemStore) -> str:
    """The benchmark that all these items belong to; "items" where they belong to several."""
    return next(iter(items.benchmarks)) if len(items.benchmarks) == 1 else "items"


def _several(strategies: Strategies) -> Sequence[Place | Strategy]:
    if strategies is None:
        return ()
    return (strategies,) if isinstance(strategies, str | Path | Strategy) else strategies


def choose_listener(progress: bool | Listener) -> Listener:
    """Who is told what happens: the screen for True, nobody for False, or the listener that was given."""
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return Listener()
    from tomserve.reporting.progress import RunScreen
    from tomserve.reporting.table_layout import Terminal

    return RunScreen(Terminal(highlight=False))


EXPERIMENT_FILE = "experiment.yaml"  # the name of the file in the folder of a run that the workbench has queued


def _describe_shorter_forms(schema: dict[str, Any]) -> None:
    """Say in the schema of an experiment what its validators take besides."""
    fields = schema["properties"]
    for name in ("base-url", "where", "strategy", "variants"):
        fields[name] = {"anyOf": [fields[name], {"type": "string"}]}
    fields["thinking"]["anyOf"] += [{"type": "boolean"}, {"type": "integer"}]


class Experiment(RecordedOptions):
    """What is to be asked of which model. Fields that are left out have the defaults of `tomserve eval`. start: whether
    a server of the model may be started on this machine where none runs. faithfulness: whether the chains are edited
    and asked again afterwards, as `tomserve faithfulness` does. search: the questions of a search, which is
    made instead, as `tomserve search --budget` does."""

    model_config = pydantic.ConfigDict(json_schema_extra=_describe_shorter_forms)

    schema_: Literal[1] = 1
    start: bool = False
    run: RunName | None = None
    accept_change: bool = False
    faithfulness: bool = False
    search: int | None = None

    @pydantic.field_validator("base_url", "where", "strategy", "variants", mode="before")
    @classmethod
    def _several(cls, given: Any) -> Any:
        """One text stands for a list of one."""
        return (given,) if isinstance(given, str) else given

    @pydantic.field_validator("extra_body", mode="before")
    @classmethod
    def _as_object(cls, given: Any) -> Any:
        """A form gives it as text; what cannot be written again, as it is nested too deeply, is none."""
        found = orjson.loads(given) if isinstance(given, str) else given
        try:
            orjson.dumps(found)
        except TypeError as error:
            raise ValueError(f"expected an object of JSON ({error})") from None
        return found

    @pydantic.field_validator("thinking", mode="before")
    @classmethod
    def _as_words(cls, given: Any) -> Any:
        """`on`, `off` and a number of tokens are no texts in YAML unless they stand in quotation marks."""
        if isinstance(given, bool):
            return "on" if given else "off"
        return str(given) if isinstance(given, int) else given

    def text(self) -> str:
        """The experiment as the YAML of its file, with the fields that were set."""
        fields = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return yaml.safe_dump({"schema": 1, **fields}, sort_keys=False, allow_unicode=True)


def read_experiment(path: Path) -> Experiment:
    """The experiment in a file. Raises ContentError that names file, line and field."""
    return validation.load_model(path, Experiment, own=False)


def experiment_error(path: Path, field: str, reason: str) -> ContentError:
    """The error for a value in the file of an experiment that cannot be used, with its line where the file has it."""
    _, lines = validation.load_yaml(path, own=False)
    return ContentError(reason, path=path, line=lines.at((field,)), field=field)
