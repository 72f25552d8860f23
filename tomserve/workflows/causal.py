"""Looking inside a model from Python (`examine`): the mechanism layer, as `tomserve causal` measures it."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tomserve.errors import ConfigError
from tomserve.workflows.run import Place, Run, as_name, given_options

if TYPE_CHECKING:
    from tomserve.runs.progress import MeasureListener


class ExamineOptions(TypedDict, total=False):
    """The options of `examine`, given by name. An option that is left out, or None, has the default in brackets.

    path
        The file or folder that a benchmark reads [the benchmark's own].
    where
        Conditions on the false-belief questions, such as "family=transfer" or a list of several; "all" for every one
        [those that the benchmark measures by default].
    limit
        At most this many false-belief questions: whole stories [all].
    strategy
        The name of the prompting strategy that asks; its reply has to begin with the answer ["vanilla"].
    layers
        The layers that are changed, from 1 [all].
    alphas
        The strengths of the change [nine for each layer, from where nothing flips to where everything does].
    folds
        Into how many parts the stories are divided for holding out [5].
    seed
        The seed of the parts and of all that is random [0].
    fewest
        How many questions have to be answered by the false belief, at least [50].
    true_pairs
        True to fit a second map on pairs of true beliefs, too, with controls of its own [False].
    revision
        The revision of a model on the hub [the newest].
    device
        "cpu", "cuda", "cuda:1", or "auto" for all GPUs [what is there].
    dtype
        "float32", "bfloat16" or "float16" [float32, on a GPU bfloat16].
    batch
        How many prompts run at once [as many as the memory holds].
    run
        The name of the run, such as "mine", or its folder [causal-<items>-<model>].
    progress
        True to print what happens, or a MeasureListener of your own (see tomserve.runs.progress) [False].
    """

    path: Place | None
    where: str | Sequence[str] | None
    limit: int | None
    strategy: str | None
    layers: Sequence[int] | None
    alphas: Sequence[float] | None
    folds: int | None
    seed: int | None
    fewest: int | None
    true_pairs: bool
    revision: str | None
    device: str | None
    dtype: str | None
    batch: int | None
    run: Place | None
    progress: bool | MeasureListener


def examine(model: Place | None = None, items: Place | None = None, **options: Unpack[ExamineOptions]) -> Run:
    """Look for a perspective-taking map inside a model, test whether it causes the answer, and return the run.

    The residual stream of false-belief questions is moved by a linear map that was fitted on other stories, and the
    model answers again, with every control beside it; see docs/explanation/causal.md. `Run.scores()` is the measured
    table (tomserve.causal.table) and `tomserve.analyze(run.scores())` its tables. Interrupted, the same call goes on
    where it was.

    model
        A preset, "ORG/NAME" on the hub, or a folder with weights [the small model that comes with tomserve].
    items
        A benchmark that tells its stories from the protagonist's place, too, such as "worlds", or a file of items with
        such versions ["worlds"].
    options
        Further options by name, listed in `ExamineOptions`.

    Raises ConfigError for what cannot be measured, MachineError where torch or transformers are missing or the memory
    does not suffice, RunMismatchError where the run's folder holds something else; all are a TomserveError.

    >>> import tomserve
    >>> run = tomserve.examine("reference", "worlds", limit=200, progress=True)                  # doctest: +SKIP
    >>> tomserve.analyze(run.scores())["headline"]                                              # doctest: +SKIP
    """
    from tomserve.causal.experiment import Hardware, measure
    from tomserve.causal.settings import ITEMS, REFERENCE, Settings

    given = given_options("examine", ExamineOptions, options)
    for name in ("layers", "alphas"):
        if name in given and (isinstance(given[name], str) or not isinstance(given[name], Sequence)):
            raise ConfigError(f"{name} is {given[name]!r:.60}; expected a list of numbers")
        kind, words = (Integral, "whole numbers") if name == "layers" else (Real, "numbers above 0")
        if strange := [one for one in given.get(name, ()) if not isinstance(one, kind)]:
            raise ConfigError(f"{name} holds {strange[0]!r:.60}; expected {words}")
    where = given.get("where", ())
    several: dict[str, Any] = {name: tuple(given[name]) for name in ("layers", "alphas") if name in given}
    settings = Settings(
        model=as_name(model) or REFERENCE,
        items=as_name(items) or ITEMS,
        path=Path(given["path"]).expanduser() if "path" in given else None,
        where=(where,) if isinstance(where, str) else tuple(where),
        **several,
        **{
            name: given[name]
            for name in ("limit", "strategy", "folds", "seed", "fewest", "true_pairs")
            if name in given
        },
    )
    on = Hardware(**{name: given[name] for name in ("revision", "device", "dtype", "batch") if name in given})
    listener = _listener(given.get("progress", False))
    return Run(measure(settings, as_name(given.get("run")), listener, on).folder)


def _listener(progress: bool | MeasureListener) -> MeasureListener | None:
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return None
    from tomserve.reporting.progress import MeasureScreen
    from tomserve.reporting.table_layout import Terminal

    return MeasureScreen(Terminal(highlight=False))
