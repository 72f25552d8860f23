"""The three layers of one model and a score of them: answers, variants and a measurement inside, with their cost and
report.

Each part is a run of its own below one folder, `<run>/<benchmark>` and `<run>/inside`, and goes on where it was when
the same plan is carried out again. `tomserve functional` and `tomserve.functional` both use it.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast

import polars as pl

from tomserve import benchmarks
from tomserve.causal import checkpoints
from tomserve.causal.experiment import ExperimentResult, Hardware, find_setup, plan_experiment
from tomserve.causal.settings import FEWEST, ITEMS, Settings
from tomserve.content.paths import runs_root
from tomserve.engine import transports
from tomserve.errors import ConfigError, InUseError, RunMismatchError, StoppedError, TomserveError
from tomserve.reporting.html.report import write_report
from tomserve.runs.cost import measure_prompts
from tomserve.runs.evaluation import EvalResult, Servers
from tomserve.runs.manifest import Manifest
from tomserve.runs.noise_check import TIMES
from tomserve.runs.planning import EvalOptions, Plan, make_plan
from tomserve.runs.runfolder import default_name, run_path
from tomserve.runs.scores import scores_of
from tomserve.scoring.table import Note
from tomserve.serving import endpoint
from tomserve.serving.endpoint import Target
from tomserve.serving.presets import REFERENCE, Preset
from tomserve.serving.probe import ANSWER, WaitPolicy
from tomserve.stats.functional import FTOM_1, Formula, weighted_formula
from tomserve.studies import Analysis, compute, load_study, relabel
from tomserve.studies.comparison import combine_scores
from tomserve.workflows.evaluate import run_evaluation
from tomserve.workflows.run import Place, Run, as_name, given_options

STUDY = "functional"  # the study that reads all parts together

INSIDE = "inside"  # the folder of the measurement; those of answers are called as their benchmark

# How worlds are asked: for the answer alone, which B and S count, and step by step, which is compared with it
STRATEGIES = ("vanilla", "cot")

# The kinds of variants by their short names: those that S counts, and the same prompt again, the noise floor
VARIANTS = ("T0", "T1", "T2", "T3", "T4")

LIMIT = 300  # how many questions of a benchmark are asked unless somebody says otherwise: on a laptop a few minutes

# Of so many questions of a benchmark T0 asks the same prompt again, one at a time and then side by side: enough to see
# a noise floor, and, one at a time, a third of all the time that asking takes
AGAIN = 100

REPORT = "report.html"

NO_WEIGHTS = "none"  # what is said instead of weights where no mechanism is to be measured


@dataclass(frozen=True, kw_only=True)
class FunctionalPlan:
    """What is to be measured of one model."""

    # The model, its server and how it is asked; benchmark, strategies, variants and run are set for each part
    evaluation: EvalOptions = field(default_factory=EvalOptions)
    # Those that are asked besides the generated worlds, NAME or NAME=PATH; worlds=FILE asks other worlds
    benchmarks: tuple[str, ...] = ()
    # A preset, ORG/NAME or a folder; None for those of a server that is started here, NO_WEIGHTS for none at all
    weights: str | None = None
    mechanism: Settings = field(default_factory=Settings)  # how the weights are measured inside; the model is set
    hardware: Hardware = field(default_factory=Hardware)
    run: str | None = None  # the folder of all parts; None for ``functional-<model>``
    formula: Formula = FTOM_1

    @property
    def benchmark_paths(self) -> dict[str, Path | None]:
        """The benchmarks that are asked, the worlds first, and the file or folder that each reads, None for its own."""
        found: dict[str, Path | None] = {ITEMS: None}
        for given in self.benchmarks:
            name, _, path = given.partition("=")
            found[name] = Path(path).expanduser() if path else None
        return found

    def options_for(self, name: str, path: Path | None, folder: Path | None) -> EvalOptions:
        """The options by which one benchmark is asked. folder: of its run."""
        strategies = self.evaluation.strategies or (STRATEGIES if name == ITEMS else ())
        run = None if folder is None else os.path.join(".", folder)  # so that it is not taken for a name
        where = self.evaluation.where if name == ITEMS else ()  # other benchmarks have other factors
        again = self.evaluation.noise_check or min(1.0, AGAIN / (self.evaluation.limit or LIMIT))
        return replace(
            self.evaluation, benchmark=name, path=path, strategies=strategies, where=where, variants=VARIANTS,
            noise_check=again, run=run, start=True,
        )  # fmt: skip

    def weights_of(self, chosen: Target) -> str | None:
        """Where the weights are at hand: named, or those of a server that is started for this. chosen: the server."""
        if self.weights is not None:
            return None if self.weights == NO_WEIGHTS else self.weights
        ours = chosen.embedded or (not self.evaluation.base_urls and chosen.model == REFERENCE)
        return chosen.starts if ours else None

    def settings_for(self, weights: str) -> Settings:
        """What is measured inside these weights: where nothing else is named, of the same worlds that are asked."""
        own = self.mechanism.items == ITEMS and self.mechanism.path is None
        return replace(self.mechanism, model=weights, path=self.benchmark_paths[ITEMS] if own else self.mechanism.path)


@dataclass(frozen=True)
class PartRunner:
    """How the parts are run, on a command line or in Python."""

    ask: Callable[[EvalOptions, Servers], EvalResult]  # runs an evaluation; the servers are kept for the next one
    measure: Callable[[Settings, Path, Hardware], ExperimentResult]  # measures a mechanism into that folder
    # Is called with the part that begins, such as "part 1 of 2: answers to worlds"
    announce: Callable[[str], None] = lambda text: None
    warn: Note = lambda text: None  # is called with a sentence about what did not go as planned


@dataclass(frozen=True)
class FunctionalResult:
    """The runs of one model's layers, and their tables."""

    folder: Path  # where all parts lie
    model: str  # the model's name in the tables
    answers: tuple[EvalResult, ...]  # the evaluation of each benchmark
    inside: Path | None  # the folder of the measurement inside the model; None where there is none
    failed: TomserveError | None  # why the mechanism could not be measured, where that was wanted
    analysis: Analysis
    report: Path | None = None  # none where no report was wanted, or none could be written

    @property
    def runs(self) -> tuple[Path, ...]:
        """The folders of all parts."""
        return (*(one.folder for one in self.answers), *([self.inside] if self.inside is not None else []))


def check_plan(plan: FunctionalPlan) -> None:
    """Look before anything is asked, since asking may take hours, whether everything that is named can be read. Raises
    ConfigError for a benchmark that does not exist, ConfigError or ContentError for weights that cannot be measured,
    MachineError where they are given and torch or transformers are missing."""
    names = [benchmarks.get(name).name for name in plan.benchmark_paths]
    if any(name.startswith(INSIDE) for name in names) or len(set(names)) < len(names):
        raise ConfigError(f"--benchmark: {', '.join(names)}; expected names that differ, none like {INSIDE!r}")
    for name, path in plan.benchmark_paths.items():
        if path is not None and not path.exists():
            raise ConfigError(f"--benchmark {name}={path}: there is no such file or folder")
    if plan.weights not in (None, NO_WEIGHTS):
        found = find_setup(plan.settings_for(str(plan.weights)), plan.hardware)
        plan.mechanism.selected_layers(found.checkpoint.layers)
        checkpoints.require_extra()


def measure_layers(plan: FunctionalPlan, runner: PartRunner, *, report: bool = True) -> FunctionalResult:
    """Ask, measure, and compute the tables of all parts together; what is done already is not done again. A measurement
    that fails, such as for want of eligible questions, takes nothing from the other layers: its reason is noted, and
    the tables say that C is missing. report: whether to write one report of all parts into the folder. Raises what
    `check_plan` raises, and TomserveError where the model cannot be asked or somebody stops it."""
    check_plan(plan)
    chosen = choose_server(plan, runner.warn)
    folder = run_path(plan.run) if plan.run is not None else runs_root() / default_name(STUDY, chosen.model)
    names, weights = plan.benchmark_paths, plan.weights_of(chosen)
    if weights is None and (plan.mechanism != Settings() or plan.hardware != Hardware()):
        raise ConfigError(
            "--items, --cases, --layers, --alphas, --fewest, --device, --dtype and --revision say how the mechanism is "
            "measured, which needs --weights; give them, or leave these options out"
        )
    count = len(names) + (weights is not None)
    answers = []
    with Servers() as servers:
        for number, (name, path) in enumerate(names.items(), 1):
            called = benchmarks.get(name).name
            runner.announce(f"part {number} of {count}: answers to {called} and to its variants")
            answers.append(runner.ask(plan.options_for(name, path, folder / called), servers))
    inside, failed = None, None
    if weights is None:
        if plan.weights is None and (inside := find_measurement(folder)) is not None:
            runner.warn(f"the mechanism is the one that was measured before ({inside})")
        else:
            runner.warn("no mechanism was measured, as no weights are given (--weights); the score is FToM_BS")
    else:
        runner.announce(f"part {count} of {count}: a measurement inside {weights}")
        if not chosen.embedded and (doubt := explain_other_weights(chosen, weights)):
            runner.warn(doubt)
        try:
            inside = _measure_inside(plan, weights, folder, runner)
        except (InUseError, StoppedError):
            raise
        except TomserveError as error:
            failed = error
            runner.warn(f"no mechanism was measured: {error}")
    runs = [*(one.folder for one in answers), *([inside] if inside is not None else [])]
    model, scores, labels = combine_parts(runs, inside, runner.warn)
    analysis = analyze_layers(scores, plan.formula, str(failed or ""))
    told = FunctionalResult(folder, model, tuple(answers), inside, failed, analysis)
    if not report:
        return told
    try:
        named = [os.path.join(".", run, "") for run in runs]  # paths, not names
        path = write_report(named, folder / REPORT, labels=labels, note=runner.warn, analysis=analysis)
    except ConfigError as error:
        runner.warn(f"no report ({error})")
        return told
    return replace(told, report=path)


def explain_other_weights(chosen: Target, weights: str) -> str:
    """Why the weights may not be those of the model that is asked, as a sentence; empty where their names agree."""
    preset, named = chosen.preset, Preset.lookup(weights)
    asked = {chosen.model, str(chosen.server.get("root") or "")}
    asked |= {preset.name, preset.model} if preset is not None else set()
    given = {weights, *((named.name, named.model) if named is not None else ())}
    asked, given = ({Path(name).name.lower() for name in names if name} for names in (asked, given))
    if asked & given:
        return ""
    return (
        f"the weights {weights} are measured as those of {chosen.model}, which nothing that the server tells of itself "
        "confirms; C speaks of the weights, B and S of the model that answered"
    )


def find_measurement(folder: Path) -> Path | None:
    """The measurement below a folder of parts that is finished, the newest where there are several; None for none."""
    found = []
    for path in folder.glob(f"{INSIDE}*"):
        manifest = Manifest.read(path) if path.is_dir() and not path.is_symlink() else None
        if manifest is not None and manifest.measured and manifest.complete:
            found.append((manifest.created, path.name, path))
    return max(found)[-1] if found else None


def _measure_inside(plan: FunctionalPlan, weights: str, folder: Path, runner: PartRunner) -> Path:
    """Measure in the first of the folders `inside`, `inside-2` and so on that holds no other measurement, and return
    it: what was measured with other settings is kept, and stops nobody."""
    for number in itertools.count(1):
        path = folder / (INSIDE if number == 1 else f"{INSIDE}-{number}")
        try:
            return runner.measure(plan.settings_for(weights), path, plan.hardware).folder
        except RunMismatchError as error:
            runner.warn(f"another measurement is kept, and this one gets a folder of its own: {error}")
    raise AssertionError("there is always a next number")


def analyze_layers(scores: pl.DataFrame, formula: Formula, why_no_c: str = "") -> Analysis:
    """The tables of the study with the weights of a formula. scores: answers, measurements, or both. why_no_c: why the
    mechanism was not measured, where that was tried."""
    study = load_study(STUDY)
    tables = cast("Callable[..., Mapping[str, pl.DataFrame]]", study.tables)
    return compute(scores, replace(study, tables=partial(tables, formula=formula, why_no_c=why_no_c)))


def read_layers(folder: Path, parts: Sequence[Path], inside: Path | None) -> FunctionalResult:
    """The layers of a model that was asked and measured before. folder: of all parts. parts: the runs of answers."""
    model, scores, _ = combine_parts([*parts, *([inside] if inside is not None else [])], inside)
    results = tuple(EvalResult(path, 0, 0, {}, 0.0) for path in parts)
    return FunctionalResult(folder, model, results, inside, None, analyze_layers(scores, FTOM_1))


def combine_parts(
    runs: Sequence[Path], inside: Path | None, note: Note | None = None
) -> tuple[str, pl.DataFrame, list[str]]:
    """The name of the model that answered, the rows of all parts under it, and the labels that give it to those of the
    measurement (inside), which is the last of the runs where there is one."""
    frames = [scores_of(run, note=note) for run in runs]
    model = str(frames[0]["model"][0])
    labels = [f"{frames[-1]['run'][0]}={model}"] if inside is not None else []
    return model, relabel(combine_scores(frames), labels), labels


def choose_server(plan: FunctionalPlan, note: Note) -> Target:
    """The server that is asked, or that will be started. Raises as `target.choose`."""
    options = plan.evaluation
    waiting = WaitPolicy(note, patience=options.patience, policy=options.policy, answer=min(ANSWER, options.timeout))
    return endpoint.choose_target(options.base_urls, options.model, options.revision, waiting, start=True)


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
        "httptools", or "openai" to send requests by the openai package, for hosted models ["httptools"].
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
    transport: Literal["httptools", "openai"]
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
    from tomserve.causal.experiment import measure
    from tomserve.runs.progress import Listener, MeasureListener

    given = given_options("functional", FunctionalOptions, options)
    plan = plan_layers(model, given)
    asking, measuring, say = Listener(), MeasureListener(), lambda text: None
    if given.get("progress"):
        from tomserve.reporting.progress import MeasureScreen, RunScreen
        from tomserve.reporting.table_layout import Terminal

        screen = Terminal(highlight=False)
        asking, measuring, say = RunScreen(screen), MeasureScreen(screen), lambda text: screen.print(text, markup=False)
    runner = PartRunner(
        lambda made, servers: run_evaluation(made, asking, servers),
        lambda settings, at, on: measure(settings, at, measuring, on),
        say,
        say,
    )
    told = measure_layers(plan, runner, report=bool(given.get("report", True)))
    failures = {one.folder: one.failures for one in told.answers}
    runs = tuple(Run(folder, failures.get(folder, {})) for folder in told.runs)
    return Functional(told.folder, told.analysis.tables, told.analysis.notes, told.analysis.warnings, runs, told.report)


def plan_layers(model: str | None, given: Mapping[str, Any]) -> FunctionalPlan:
    """The plan that options of `functional` say, none of which is None. Raises ConfigError for a value that cannot be
    one."""
    for name in ("benchmarks", "where", "layers", "alphas", "formula"):
        if isinstance(given.get(name, ()), str) or not isinstance(given.get(name, ()), Sequence):
            raise ConfigError(f"{name} is {given[name]!r:.60}; expected a list")
    mechanism = Settings(
        items=as_name(given.get("items")) or ITEMS,
        limit=given.get("cases"),
        layers=tuple(map(int, given["layers"])) if "layers" in given else None,
        alphas=tuple(map(float, given["alphas"])) if "alphas" in given else None,
        fewest=given.get("fewest", FEWEST),
    )
    urls = given.get("base_url", ())
    evaluation = EvalOptions(
        model=model,
        base_urls=(urls,) if isinstance(urls, str) else tuple(urls),
        transport=given.get("transport", transports.DEFAULT),
        where=tuple(given.get("where", ())),
        limit=given.get("limit", LIMIT),
        concurrency=given.get("concurrency"),
        accept_change=bool(given.get("accept_change", False)),
    )
    return FunctionalPlan(
        evaluation=evaluation,
        benchmarks=tuple(given.get("benchmarks", ())),
        weights=as_name(given.get("weights")),
        mechanism=mechanism,
        hardware=Hardware(**{name: given.get(name) for name in ("device", "dtype", "revision")}),
        run=as_name(given.get("run")),
        formula=make_formula(given.get("formula", (0.5, 0.3, 0.2))),
    )


def make_formula(weights: Sequence[float]) -> Formula:
    """The formula with these weights of B, C and S. Raises ConfigError for weights that cannot be some."""
    if len(weights) != 3:
        raise ConfigError(f"{len(weights)} weights are given; expected three, of B, C and S, such as .5, .3 and .2")
    try:
        return weighted_formula(*map(float, weights))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the weights of B, C and S cannot be used: {error}") from None


SAMPLE = 100  # from so many questions, evenly over all of them, the length of the prompts is estimated


def estimate_cost(plan: FunctionalPlan, gpus: int | None = None) -> Iterator[str]:
    """Whole sentences: what each part asks or measures, and its estimated cost. gpus: estimate the mechanism for a
    machine with so many; None for this one. Raises as `carry_out` does before it asks anything. Weights that nobody
    named, and that are not on this machine yet, are said to be unknown."""
    check_plan(plan)
    chosen = choose_server(plan, lambda text: None)
    where = f"a server of {chosen.starts}, which is started" if chosen.embedded else ", ".join(chosen.endpoints)
    yield f"asked: {chosen.model}, at {where}"
    for name, path in plan.benchmark_paths.items():
        requests = _describe_requests(make_plan(plan.options_for(name, path, None)))
        yield f"answers to {benchmarks.get(name).name}: {requests}"
    weights = plan.weights_of(chosen)
    if weights is None:
        why = "by --weights none" if plan.weights == NO_WEIGHTS else "without --weights"
        yield f"no mechanism is measured, {why}; the score is FToM_BS"
        return
    try:
        figures = plan_experiment(plan.settings_for(weights), plan.hardware, gpus)
    except TomserveError as error:
        if plan.weights is not None:
            raise
        yield f"a measurement inside {weights}: cannot be estimated before they are on this machine ({error})"
        return
    yield f"a measurement inside {weights}:"
    yield from (f"  {figure.name}: {figure.text} ({figure.why})" for figure in figures)


def _describe_requests(made: Plan) -> str:
    """How many questions that is, and about how many tokens."""
    questions = made.questions
    every = len(questions.items) * len(questions.strategies)
    originals, variants = len(made.varied.originals), len(questions.items) - len(made.varied.originals)
    again = TIMES * len(made.again.items) * len(questions.strategies)
    sample = [questions.items[place] for place in range(0, len(questions.items), 1 + len(questions.items) // SAMPLE)]
    costs = [measure_prompts(sample, strategy) for strategy in questions.strategies]
    prompts, replies = sum(one.tokens for one in costs), sum(one.reply * one.requests for one in costs)
    share = (every + again) / max(1, len(sample) * len(questions.strategies))
    return (
        f"{originals:,} questions with {variants:,} variants ({', '.join(VARIANTS)}), by "
        f"{' and '.join(strategy.name for strategy in questions.strategies)}: {every + again:,} requests, with about "
        f"{prompts * share / 1e6:.1f} million tokens of prompts and at most {replies * share / 1e6:.1f} "
        "million of replies"
    )
