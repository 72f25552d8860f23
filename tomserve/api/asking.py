"""Asking a model from Python: in a script, a notebook, a thread or a coroutine, with nothing printed unless wanted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, TypedDict, Unpack, cast

from tomserve.api.run import Run
from tomserve.errors import ConfigError, StoppedError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.runs.evaluation import EvalResult, Evaluation, evaluate, opened
from tomserve.runs.listening import Listener, Silent
from tomserve.runs.planning import EvalOptions
from tomserve.runs.stopping import INTERRUPTED, Stop

Place = str | Path


LOOK_EVERY = 0.2
"""Seconds for which a notebook's thread waits without listening to Ctrl-C. Polars has signals restart what they
interrupt, so a wait without an end would not notice it."""


class AskOptions(TypedDict, total=False):
    """The options of `ask` and `aask` by name; what is left out, or None, is as `tomserve eval` has it.

    Whom to ask
        base_url: address or addresses of replicas, such as "http://localhost:8000/v1" [a server of `tomserve serve` on
        this machine, else the embedded one]. model: its id, or a preset [what is served]. revision: of the model, where
        only you know it. transport: "aiohttp", or "openai" for hosted providers.
    What to ask
        path, gold: file and set of answers of a benchmark given by name. limit: only so many items, spread over the
        classes. max_tokens: of a reply. thinking: "on", "off" or tokens, of a model that thinks. noise_check: share of
        the items that is asked again with others in flight.
    How
        run: name or folder of the run [<benchmark>-<model>]. timeout: seconds a request. concurrency: requests in
        flight [found out while running]. hedge: seconds after which a second endpoint is asked, too. setup: install
        vLLM where a server must be started and it is missing. progress: True prints what happens; or a Listener that is
        told (see tomserve.runs.listening).
    """

    base_url: str | Sequence[str] | None
    model: str | None
    revision: str | None
    transport: Literal["aiohttp", "openai"]
    path: Place | None
    gold: str | None
    limit: int | None
    max_tokens: int | None
    thinking: str | None
    noise_check: float | None
    run: Place | None
    timeout: float
    concurrency: int | None
    hedge: float | None
    setup: bool
    progress: bool | Listener


Questions = str | Item | Iterable[Item]
Strategies = Place | Strategy | Sequence[Place | Strategy] | None


def ask(questions: Questions, strategies: Strategies = None, **options: Unpack[AskOptions]) -> Run:
    """Ask a model, keep every answer in a run folder, and return the run. Repeat the call to resume it.

    It works anywhere: in a script, in a thread, and in a notebook, where it asks in a thread of its own. There an
    interrupt (Ctrl-C) waits for what is in flight, half a minute at most; what was answered is kept.

    questions: the name of a benchmark, or items (of `load`, `read_items` or your own making).
    strategies: one or several: a name, the path of a folder, or a Strategy [the benchmark's own].
    options: see AskOptions; the usual ones are base_url, model, run, limit and progress.

    Raises TomserveError with one line that names the way out: ConfigError for what was given, ServerError for a server
    that is missing or broken, ServerLostError where it went away in the middle, RunMismatchError where the run folder
    was made of other questions, another model or other prompts. Failed requests raise nothing: they are rows with a
    status, counted in `Run.failures`.

    >>> import tomserve
    >>> items = tomserve.load("perturbed")
    >>> run = tomserve.ask(items, "vanilla", base_url="http://localhost:8000/v1", limit=24)     # doctest: +SKIP
    >>> run.scores().group_by("perturbation").agg(pl.col("correct").mean())                    # doctest: +SKIP
    """
    made, listener = _options(questions, strategies, options)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(evaluate(made, listener))
    stop = Stop()
    with ThreadPoolExecutor(1, thread_name_prefix="tomserve-ask") as pool:
        asking = pool.submit(evaluate, made, listener, stop=stop)
        try:
            while not wait([asking], timeout=LOOK_EVERY).done:
                pass
            return _run(asking.result())
        except BaseException:
            stop.set()
            raise


async def aask(questions: Questions, strategies: Strategies = None, **options: Unpack[AskOptions]) -> Run:
    """The same as `ask`, as a coroutine of the running event loop, which stays free while a server starts.

    Cancelling it ends the asking at once; what was answered is kept. Parameters, result and errors are those of `ask`.

    >>> import asyncio, tomserve
    >>> asyncio.run(tomserve.aask("perturbed", base_url="http://localhost:8000/v1"))            # doctest: +SKIP
    """
    made, listener = _options(questions, strategies, options)
    stop = Stop()
    opening = _Opening(opened(made, listener, stop), stop)
    evaluation = await opening.enter()
    try:
        await evaluation.ask()
    except BaseException as error:
        await asyncio.shield(asyncio.to_thread(opening.manager.__exit__, type(error), error, error.__traceback__))
        raise
    await asyncio.to_thread(opening.manager.__exit__, None, None, None)
    return _run(evaluation.result())


class _Opening:
    """An evaluation that is opened in a thread, because that blocks, and closed again where nobody waits any more."""

    def __init__(self, manager: AbstractContextManager[Evaluation], stop: Stop) -> None:
        self.manager, self._stop = manager, stop
        self._lock = threading.Lock()
        self._opened = False

    async def enter(self) -> Evaluation:
        """The opened evaluation. Where the task is cancelled meanwhile, nothing stays open."""
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


def _run(result: EvalResult) -> Run:
    return Run(result.folder, result.failures)


def _options(questions: Questions, strategies: Strategies, given: AskOptions) -> tuple[EvalOptions, Listener]:
    """The options as an evaluation takes them, and who is told of it. Raises ConfigError."""
    if unknown := sorted(set(given) - set(AskOptions.__annotations__)):
        raise TypeError(f"ask() got an unexpected keyword argument {unknown[0]!r}")
    told = {name: value for name, value in given.items() if value is not None}
    progress = cast("bool | Listener", told.pop("progress", False))
    base_url = cast("str | Sequence[str]", told.pop("base_url", ()))
    path, run = (cast("Place | None", told.pop(name, None)) for name in ("path", "run"))
    items = () if isinstance(questions, str) else _items(questions)
    if items and (path is not None or "gold" in told):
        raise ConfigError("path and gold belong to a benchmark given by name; these are items already")
    options = EvalOptions(
        benchmark=questions if isinstance(questions, str) else _benchmark(items),
        items=items,
        strategies=tuple(map(_strategy, _several(strategies))),
        base_urls=(base_url,) if isinstance(base_url, str) else tuple(base_url),
        path=None if path is None else Path(path).expanduser(),
        run=str(run.absolute()) if isinstance(run, Path) else run,
        **told,  # type: ignore[arg-type]  # named as the fields are
    )
    return options, _listener(progress)


def _items(questions: Item | Iterable[Item]) -> tuple[Item, ...]:
    items = (questions,) if isinstance(questions, Item) else tuple(questions)
    if not items:
        raise ConfigError("there are no items to ask; give at least one, or the name of a benchmark")
    for number, item in enumerate(items):
        if not isinstance(item, Item):
            raise ConfigError(f"item {number} is a {type(item).__name__}; expected a tomserve.Item")
    return items


def _benchmark(items: Sequence[Item]) -> str:
    """The benchmark that all these items are of; "items", the name of anybody's own, where they are of several."""
    names = {item.benchmark for item in items}
    return names.pop() if len(names) == 1 else "items"


def _several(strategies: Strategies) -> Sequence[Place | Strategy]:
    if strategies is None:
        return ()
    return (strategies,) if isinstance(strategies, str | Path | Strategy) else strategies


def _strategy(given: Place | Strategy) -> str:
    """A name as it is; a folder as an absolute path, so that it is not taken for a name."""
    if isinstance(given, str):
        return given
    return str((given.folder if isinstance(given, Strategy) else given).absolute())


def _listener(progress: bool | Listener) -> Listener:
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return Silent()
    from rich.console import Console

    from tomserve.reporting.progress import Screen

    return Screen(Console(highlight=False))
