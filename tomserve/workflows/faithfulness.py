"""Editing the chains of a run from Python (`intervene`), as `tomserve faithfulness` does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tomserve.runs.progress import Stop
from tomserve.runs.runfolder import find_answered_run
from tomserve.workflows.evaluate import as_texts, choose_listener
from tomserve.workflows.run import Place, Run, as_name, given_options, run_beside_loop

if TYPE_CHECKING:
    from tomserve.runs.progress import Listener


class InterveneOptions(TypedDict, total=False):
    """The options of `intervene`, given by name. An option that is left out, or None, has the default in brackets.

    strategies
        The strategies whose chains are edited, one or a list [all of the run that mark where their reasoning is].
    where
        Conditions on the questions, such as "stage=C1" or a list; "all" for every question [those that the benchmark
        names].
    limit
        At most so many chains of each strategy, spread over stages [300].
    probes
        What the model is asked: "edits", "hints", "continued" or a list of these [edits and hints].
    edits
        Ways to edit a chain besides "full" and "paraphrase", one or a list (see tomserve.faithfulness.table) [all].
    hints
        Where hints stand, such as "user" or a list (see tomserve.faithfulness.table) [all].
    shown
        How a chain is shown: "prefill", "call" or "both" [what strategy and server allow].
    predictor, predictor_model
        The address or name of a second model that predicts answers from chains, and which one at that address [none].
    rewriter, rewriter_model
        The same for a model that puts chains of prose in other words [rules do].
    reader, reader_model
        The same for a model that says whether chains speak of the hints that they followed [rules look for words].
    unlearn
        The checkpoint of the run's model, a preset or a folder: a step of each chain (of 40 unless limit says
        otherwise) is unlearned in it, and only what probes names is asked of a server [none].
    base_url
        The address of the server of the run's model, one or a list of replicas [one that runs here, else one is
        started].
    revision
        The revision of the served model, as you know it [what the server's record says].
    concurrency, timeout
        Requests in flight at each endpoint [found out]; seconds that one request may take [600].
    new
        The name of the new run, such as "mine", or its folder [faithfulness-<run>].
    progress
        True to print what happens, or a Listener of your own (see tomserve.runs.progress) [False].
    """

    strategies: str | Sequence[str] | None
    where: str | Sequence[str] | None
    limit: int | None
    probes: str | Sequence[str] | None
    edits: str | Sequence[str] | None
    hints: str | Sequence[str] | None
    shown: str | None
    predictor: str | None
    predictor_model: str | None
    rewriter: str | None
    rewriter_model: str | None
    reader: str | None
    reader_model: str | None
    unlearn: str | None
    base_url: str | Sequence[str] | None
    revision: str | None
    concurrency: int | None
    timeout: float | None
    new: Place | None
    progress: bool | Listener


_LISTS = ("strategies", "where", "probes", "edits", "hints")
_TEXTS = (
    "shown",
    "predictor",
    "predictor_model",
    "rewriter",
    "rewriter_model",
    "reader",
    "reader_model",
    "limit",
    "unlearn",
)


def intervene(run: Run | Place | None = None, **options: Unpack[InterveneOptions]) -> Run:
    """Edit the chains of a finished run, ask its model again, and return the run that holds what was measured.

    `Run.scores()` is the measured table (tomserve.faithfulness.table) and `tomserve.analyze(run.scores())` its tables;
    see docs/explanation/faithfulness.md. Interrupted, the same call goes on where it was; so it does to ask again what
    had no reply.

    run
        The finished run: a Run, its name or its folder [the newest run of answers].
    options
        Further options by name, listed in `InterveneOptions`.

    Raises ConfigError for a run without chains that can be edited, RunMismatchError where another model is served than
    wrote them, ServerError where none can be asked; all are a TomserveError.

    >>> import tomserve
    >>> made = tomserve.intervene("mine", base_url="http://localhost:8000/v1", progress=True)   # doctest: +SKIP
    >>> tomserve.analyze(made.scores())["headline"]                                             # doctest: +SKIP
    """
    from tomserve.faithfulness.measurement import measure
    from tomserve.faithfulness.settings import Connection, Settings, usual_settings
    from tomserve.faithfulness.table import FULL, PARAPHRASE

    given = given_options("intervene", InterveneOptions, options)
    lists: dict[str, Any] = {name: as_texts(given[name], name, "a name") for name in _LISTS if name in given}
    if "edits" in lists:
        lists["edits"] = tuple(one for one in dict.fromkeys((FULL, PARAPHRASE, *lists["edits"])))
    folder = run.folder if isinstance(run, Run) else find_answered_run(as_name(run))
    texts = {name: given[name] for name in _TEXTS if name in given}
    settings = Settings(run=folder, **{**usual_settings(given.get("unlearn")), **lists, **texts})
    urls = as_texts(given.get("base_url", ()), "base_url", "an address")
    reached = {one.name for one in fields(Connection)}
    how = Connection(base_urls=urls, **{name: value for name, value in given.items() if name in reached})
    listener, stop = choose_listener(given.get("progress", False)), Stop()
    made = run_beside_loop(lambda: measure(settings, how, given.get("new"), listener, stop=stop), stop)
    return Run(made.folder, dict(made.failures))
