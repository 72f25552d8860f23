"""The score over three layers from Python, as `tomserve functional` computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, cast

from tomserve.api.asking import Place, answered
from tomserve.api.run import Run
from tomserve.engine import transports
from tomserve.errors import ConfigError
from tomserve.stats.functional import Formula, weighted_formula

if TYPE_CHECKING:
    import polars as pl

    from tomserve.api.layering import Wish


@dataclass(frozen=True)
class Functional:
    """The three layers of one model.

    folder
        Where all parts lie.
    tables
        The tables of the study `functional` by name, such as "score", "layers" and "by_variant".
    notes
        What each table means, by its name.
    warnings
        Every reason to doubt the numbers, as a sentence.
    runs
        The run of each benchmark, and last that of the measurement where there is one.
    report
        The path of the report; None where none was written.
    """

    folder: Path
    tables: Mapping[str, pl.DataFrame]
    notes: Mapping[str, str]
    warnings: tuple[str, ...]
    runs: tuple[Run, ...]
    report: Path | None


class FunctionalOptions(TypedDict, total=False):
    """The options of `functional`, given by name. An option that is left out, or None, has the default in brackets.

    base_url
        The server's address, or a list of addresses of servers with the same model [a server that runs on this machine,
        else a small one that is started for you].
    transport
        "httptools", "aiohttp", or "openai" to send requests by the openai package, for hosted models ["httptools"].
    weights
        The model's weights: a folder, a preset or "ORG/NAME" on the hub; "none" for no mechanism [those of a server
        that is started for this, else none].
    benchmarks
        Further benchmarks that are asked besides the generated worlds, as "NAME" or "NAME=PATH"; "worlds=FILE" asks
        worlds of your own [none].
    where
        Conditions that the questions about generated worlds have to meet, such as ["task=belief,surprise"] [none].
    limit
        At most this many questions of each benchmark, each asked with its variants [300].
    items
        What is measured inside: a benchmark with cases or a file of them, as for `examine` ["worlds"].
    cases
        At most this many false-belief questions of the measurement [all usual ones].
    layers, alphas, fewest
        As for `examine` [all layers; nine strengths; 50].
    device, dtype, revision
        Where and how the weights are run, and which revision of them on the hub, as for `examine` [what is there].
    concurrency, accept_change
        As for `ask` [found while running; False].
    formula
        The weights of B, C and S [0.5, 0.3 and 0.2, which is ftom-1].
    run
        The name or the folder of all parts, such as "mine" [functional-<model>].
    report
        Whether to write one report of all parts [True].
    progress
        True to print what happens [False].
    """

    base_url: str | Sequence[str] | None
    transport: Literal["httptools", "aiohttp", "openai"]
    weights: Place | None
    benchmarks: Sequence[str] | None
    where: Sequence[str] | None
    limit: int | None
    items: Place | None
    cases: int | None
    layers: Sequence[int] | None
    alphas: Sequence[float] | None
    fewest: int | None
    device: str | None
    dtype: str | None
    revision: str | None
    concurrency: int | None
    accept_change: bool | None
    formula: Sequence[float] | None
    run: Place | None
    report: bool
    progress: bool


def functional(model: str | None = None, **options: Unpack[FunctionalOptions]) -> Functional:
    """Measure behaviour, stability and, where weights are at hand, mechanism of one model, and compute its score.

    Answers to generated worlds with variants T0 to T4, then a measurement of false-belief questions of the same
    benchmark inside the model, then the tables and one report; see docs/explanation/functional.md. Interrupted, the
    same call goes on where it was. A measurement that fails leaves C empty, and the table `score` says so.

    model
        The model's id or the name of a preset [the model that the server serves]. Where no server of a preset, of
        "ORG/NAME" or of a "./FOLDER" runs, one is started on this machine for as long as it is asked.
    options
        Further options by name, listed in `FunctionalOptions`.

    Raises a TomserveError where the model cannot be asked, or where what is named does not exist.

    >>> import tomserve
    >>> found = tomserve.functional("reference", limit=100, progress=True)                      # doctest: +SKIP
    >>> found.tables["score"].select("model", "b", "c", "s", "ftom", "ftom_bs")                 # doctest: +SKIP
    """
    from tomserve.api.layering import Doing, carry_out
    from tomserve.causal.experiment import measure
    from tomserve.runs.progress import SilentListener, SilentMeasureListener

    if unknown := sorted(set(options) - set(FunctionalOptions.__annotations__)):
        raise TypeError(f"functional() got an unexpected keyword argument {unknown[0]!r}")
    given = {name: value for name, value in options.items() if value is not None}
    wish = _wish(model, given)
    asking, measuring, say = SilentListener(), SilentMeasureListener(), lambda text: None
    if given.get("progress"):
        from tomserve.reporting.progress import MeasureScreen, RunScreen
        from tomserve.reporting.table_layout import Terminal

        screen = Terminal(highlight=False)
        asking, measuring, say = RunScreen(screen), MeasureScreen(screen), lambda text: screen.print(text, markup=False)  # type: ignore[assignment]
    doing = Doing(
        lambda made, servers: answered(made, asking, servers),
        lambda settings, at, on: measure(settings, at, measuring, on),
        say,
        say,
    )
    told = carry_out(wish, doing, report=bool(given.get("report", True)))
    failures = {one.folder: one.failures for one in told.answers}
    runs = tuple(Run(folder, failures.get(folder, {})) for folder in told.runs)
    return Functional(told.folder, told.analysis.tables, told.analysis.notes, told.analysis.warnings, runs, told.report)


def _wish(model: str | None, given: Mapping[str, object]) -> Wish:
    """The wish that the options say. Raises ConfigError for a value that cannot be one."""
    from tomserve.api.layering import LIMIT, Wish
    from tomserve.causal.experiment import Hardware
    from tomserve.causal.settings import ALPHAS, FEWEST, ITEMS, Settings
    from tomserve.runs.planning import EvalOptions

    urls = given.get("base_url", ())
    weights, run, items = (_named(cast("Place | None", given.get(name))) for name in ("weights", "run", "items"))
    layers, alphas = (cast("Sequence[float] | None", given.get(name)) for name in ("layers", "alphas"))
    for name in ("benchmarks", "where", "layers", "alphas", "formula"):
        if isinstance(given.get(name, ()), str) or not isinstance(given.get(name, ()), Sequence):
            raise ConfigError(f"{name} is {given[name]!r:.60}; expected a list")
    inside = Settings(
        items=items or ITEMS,
        limit=cast("int | None", given.get("cases")),
        layers=None if layers is None else tuple(map(int, layers)),
        alphas=ALPHAS if alphas is None else tuple(map(float, alphas)),
        fewest=cast("int", given.get("fewest", FEWEST)),
    )
    asking = EvalOptions(
        model=model,
        base_urls=(urls,) if isinstance(urls, str) else tuple(cast("Sequence[str]", urls)),
        transport=cast("str", given.get("transport", transports.DEFAULT)),
        where=tuple(cast("Sequence[str]", given.get("where", ()))),
        limit=cast("int", given.get("limit", LIMIT)),
        concurrency=cast("int | None", given.get("concurrency")),
        accept_change=bool(given.get("accept_change", False)),
    )
    device, dtype, revision = (cast("str | None", given.get(name)) for name in ("device", "dtype", "revision"))
    return Wish(
        asking=asking,
        benchmarks=tuple(cast("Sequence[str]", given.get("benchmarks", ()))),
        weights=weights,
        inside=inside,
        on=Hardware(device=device, dtype=dtype, revision=revision),
        run=run,
        formula=formula_of(cast("Sequence[float]", given.get("formula", (0.5, 0.3, 0.2)))),
    )


def _named(given: Place | None) -> str | None:
    """A name as it is, a folder or file as an absolute path, which is never mistaken for a name."""
    return str(given.absolute()) if isinstance(given, Path) else given


def formula_of(weights: Sequence[float]) -> Formula:
    """The formula with these weights of B, C and S. Raises ConfigError for weights that cannot be some."""
    if len(weights) != 3:
        raise ConfigError(f"{len(weights)} weights are given; expected three, of B, C and S, such as .5, .3 and .2")
    try:
        return weighted_formula(*map(float, weights))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the weights of B, C and S cannot be used: {error}") from None
