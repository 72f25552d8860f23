"""The three layers of one model, one after the other: answers with variants, a measurement inside, and one report.

    carry_out(Wish(asking=EvalOptions(model="reference"), run="mine"), Doing(...))

Each part is a run of its own below one folder, `<run>/<benchmark>` and `<run>/inside`, and goes on where it was when
the same wish is carried out again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

import polars as pl

from tomserve import benchmarks
from tomserve.causal import checkpoints
from tomserve.causal.experiment import ExperimentResult, Hardware, find_setup
from tomserve.causal.settings import ITEMS, Settings
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError, RunMismatchError, StoppedError, TomserveError
from tomserve.reporting.html.report import write_report
from tomserve.runs.evaluation import EvalResult, Servers
from tomserve.runs.manifest import Manifest
from tomserve.runs.planning import EvalOptions
from tomserve.runs.runfolder import default_name, run_path
from tomserve.runs.scores import scores_of
from tomserve.scoring.table import Note
from tomserve.serving import endpoint
from tomserve.serving.endpoint import Target
from tomserve.serving.presets import Preset
from tomserve.serving.probe import ANSWER, WaitPolicy
from tomserve.stats.functional import FTOM_1, Formula
from tomserve.studies import Analysis, compute, load_study, relabel
from tomserve.studies.comparison import combine_scores

STUDY = "functional"
"""The study that reads all parts together."""

INSIDE = "inside"
"""The folder of the measurement; those of answers are called as their benchmark."""

STRATEGIES = ("vanilla", "cot")
"""How worlds are asked: for the answer alone, which B and S count, and step by step, which is compared with it."""

VARIANTS = ("T0", "T1", "T2", "T3", "T4")
"""The kinds of variants by their short names: those that S counts, and the same prompt again, the noise floor."""

LIMIT = 300
"""How many questions of a benchmark are asked unless somebody says otherwise: on a laptop a few minutes."""

AGAIN = 100
"""Of so many questions of a benchmark T0 asks the same prompt again, one at a time and then side by side: enough to see
a noise floor, and, one at a time, a third of all the time that asking takes."""

REPORT = "report.html"

NO_WEIGHTS = "none"
"""What is said instead of weights where no mechanism is to be measured."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to be measured of one model.

    asking: the model, its server and how it is asked; benchmark, strategies, variants and run are set for each part.
    benchmarks: those that are asked besides the generated worlds, NAME or NAME=PATH; worlds=FILE asks others. weights:
    a preset, ORG/NAME or a folder; None for those of a server that is started here, NO_WEIGHTS for none at all.
    inside: what is measured of them; its model is set. on: the device and the like. run: the folder of all parts; None
    for ``functional-<model>``. formula: of the score.
    """

    asking: EvalOptions = field(default_factory=EvalOptions)
    benchmarks: tuple[str, ...] = ()
    weights: str | None = None
    inside: Settings = field(default_factory=Settings)
    on: Hardware = field(default_factory=Hardware)
    run: str | None = None
    formula: Formula = FTOM_1

    @property
    def asked(self) -> dict[str, Path | None]:
        """The benchmarks that are asked, the worlds first, and the file or folder that each reads, None for its own."""
        found: dict[str, Path | None] = {ITEMS: None}
        for given in self.benchmarks:
            name, _, path = given.partition("=")
            found[name] = Path(path).expanduser() if path else None
        return found

    def asking_of(self, name: str, path: Path | None, folder: Path | None) -> EvalOptions:
        """How one benchmark is asked. folder: of its run."""
        strategies = self.asking.strategies or (STRATEGIES if name == ITEMS else ())
        run = None if folder is None else str(folder.absolute())
        where = self.asking.where if name == ITEMS else ()  # other benchmarks have other factors
        again = self.asking.noise_check or min(1.0, AGAIN / (self.asking.limit or LIMIT))
        asking = replace(self.asking, benchmark=name, path=path, strategies=strategies, where=where)
        return replace(asking, variants=VARIANTS, noise_check=again, run=run, start=True)

    def weights_of(self, chosen: Target) -> str | None:
        """Where the weights are at hand: named, or those of a server that is started for this. chosen: the server."""
        if self.weights is not None:
            return None if self.weights == NO_WEIGHTS else self.weights
        ours = chosen.embedded or (not self.asking.base_urls and chosen.model == endpoint.REFERENCE)
        return chosen.starts if ours else None

    def measuring(self, weights: str) -> Settings:
        """What is measured inside these weights: where nothing else is named, of the same worlds that are asked."""
        own = self.inside.items == ITEMS and self.inside.path is None
        return replace(self.inside, model=weights, path=self.asked[ITEMS] if own else self.inside.path)


@dataclass(frozen=True)
class Doing:
    """How the parts are done. ask: an evaluation, with what keeps its server for the next. measure: a measurement in
    that folder. part: told which part begins, such as "1 of 2: answers to worlds". note: told a sentence of what went
    otherwise than wished."""

    ask: Callable[[EvalOptions, Servers], EvalResult]
    measure: Callable[[Settings, Path, Hardware], ExperimentResult]
    part: Callable[[str], None] = lambda text: None
    note: Note = lambda text: None


@dataclass(frozen=True)
class Layered:
    """What came of a wish. folder: of all parts. model: its name in the tables. answers: of each benchmark. inside: the
    folder of the measurement, None where there is none; failed: why, where it was wished. analysis: the tables. report:
    None where none was wanted or could be written."""

    folder: Path
    model: str
    answers: tuple[EvalResult, ...]
    inside: Path | None
    failed: TomserveError | None
    analysis: Analysis
    report: Path | None = None

    @property
    def runs(self) -> tuple[Path, ...]:
        """The folders of all parts."""
        return (*(one.folder for one in self.answers), *([self.inside] if self.inside is not None else []))


def check(wish: Wish) -> None:
    """Look before anything is asked, since asking may take hours, whether everything that is named can be read.

    Raises ConfigError for a benchmark that does not exist, ConfigError or ContentError for weights that cannot be
    measured, MachineError where they are given and torch or transformers are missing.
    """
    names = [benchmarks.get(name).name for name in wish.asked]
    if any(name.startswith(INSIDE) for name in names) or len(set(names)) < len(names):
        raise ConfigError(f"--benchmark: {', '.join(names)}; expected names that differ, none like {INSIDE!r}")
    for name, path in wish.asked.items():
        if path is not None and not path.exists():
            raise ConfigError(f"--benchmark {name}={path}: there is no such file or folder")
    if wish.weights not in (None, NO_WEIGHTS):
        found = find_setup(wish.measuring(str(wish.weights)), wish.on)
        wish.inside.chosen(found.checkpoint.layers)
        checkpoints.require_extra()


def carry_out(wish: Wish, doing: Doing, *, report: bool = True) -> Layered:
    """Ask, measure, and compute the tables of all parts together; what is done already is not done again.

    A measurement that fails, such as for want of eligible questions, takes nothing from the other layers: its reason is
    noted, and the tables say that C is missing. report: whether to write one report of all parts into the folder.

    Raises what `check` raises, and TomserveError where the model cannot be asked or somebody stops it.
    """
    check(wish)
    chosen = chosen_for(wish, doing.note)
    folder = run_path(wish.run) if wish.run is not None else runs_root() / default_name(STUDY, chosen.model)
    names, weights = wish.asked, wish.weights_of(chosen)
    check_inside(wish, weights)
    count = len(names) + (weights is not None)
    answers = []
    with Servers() as servers:
        for number, (name, path) in enumerate(names.items(), 1):
            called = benchmarks.get(name).name
            doing.part(f"part {number} of {count}: answers to {called} and to its variants")
            answers.append(doing.ask(wish.asking_of(name, path, folder / called), servers))
    inside, failed = None, None
    if weights is None:
        if wish.weights is None and (inside := finished(folder)) is not None:
            doing.note(f"the mechanism is the one that was measured before ({inside})")
        else:
            doing.note("no mechanism was measured, as no weights are given (--weights); the score is FToM_BS")
    else:
        doing.part(f"part {count} of {count}: a measurement inside {weights}")
        if not chosen.embedded and (doubt := other_weights(chosen, weights)):
            doing.note(doubt)
        try:
            inside = _inside(wish, weights, folder, doing)
        except StoppedError:
            raise
        except TomserveError as error:
            failed = error
            doing.note(f"no mechanism was measured: {error}")
    return _told(wish, folder, answers, inside, failed, doing, report=report)


def check_inside(wish: Wish, weights: str | None) -> None:
    """Raise ConfigError where options say how to measure inside, and there are no weights to measure."""
    if weights is None and (wish.inside != Settings() or wish.on != Hardware()):
        raise ConfigError(
            "--items, --cases, --layers, --alphas, --fewest, --device, --dtype and --revision say how the mechanism is "
            "measured, which needs --weights; give them, or leave these options out"
        )


def other_weights(chosen: Target, weights: str) -> str:
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


def finished(folder: Path) -> Path | None:
    """The measurement below a folder of parts that is finished, the newest where there are several; None for none."""
    found = []
    for path in folder.glob(f"{INSIDE}*"):
        manifest = Manifest.read(path) if path.is_dir() and not path.is_symlink() else None
        if manifest is not None and manifest.measured and manifest.complete:
            found.append((manifest.created, path.name, path))
    return max(found)[-1] if found else None


def _inside(wish: Wish, weights: str, folder: Path, doing: Doing) -> Path:
    """Measure in the first of the folders `inside`, `inside-2` and so on that holds no other measurement, and return
    it: what was measured with other settings is kept, and stops nobody."""
    for number in itertools.count(1):
        path = (folder / (INSIDE if number == 1 else f"{INSIDE}-{number}")).absolute()
        try:
            return doing.measure(wish.measuring(weights), path, wish.on).folder
        except RunMismatchError as error:
            doing.note(f"another measurement is kept, and this one gets a folder of its own: {error}")
    raise AssertionError("there is always a next number")


def _told(
    wish: Wish,
    folder: Path,
    answers: Sequence[EvalResult],
    inside: Path | None,
    failed: TomserveError | None,
    doing: Doing,
    *,
    report: bool,
) -> Layered:
    """The tables of all parts, and the report."""
    runs = [*(one.folder for one in answers), *([inside] if inside is not None else [])]
    frames = [scores_of(run, note=doing.note) for run in runs]
    model = str(frames[0]["model"][0])
    labels = _labels(frames, model, inside)
    analysis = analysed(relabel(combine_scores(frames), labels), wish.formula, str(failed or ""))
    told = Layered(folder, model, tuple(answers), inside, failed, analysis)
    if not report:
        return told
    try:
        named = [f"{run.absolute()}/" for run in runs]
        path = write_report(named, folder / REPORT, labels=labels, note=doing.note, analysis=analysis)
    except ConfigError as error:
        doing.note(f"no report ({error})")
        return told
    return replace(told, report=path)


def analysed(scores: pl.DataFrame, formula: Formula, why_no_c: str = "") -> Analysis:
    """The tables of the study with the weights of a formula. scores: answers, measurements, or both. why_no_c: why the
    mechanism was not measured, where that was tried."""
    study = load_study(STUDY)
    tables = cast("Callable[..., Mapping[str, pl.DataFrame]]", study.tables)
    return compute(scores, replace(study, tables=partial(tables, formula=formula, why_no_c=why_no_c)))


def scored(told: Layered) -> pl.DataFrame:
    """The rows of all parts of one model under its name."""
    frames = [scores_of(run) for run in told.runs]
    return relabel(combine_scores(frames), _labels(frames, told.model, told.inside))


def _labels(frames: Sequence[pl.DataFrame], model: str, inside: Path | None) -> list[str]:
    """What gives the rows of the measurement, the last ones where there is one, the name of the model that answered."""
    return [f"{frames[-1]['run'][0]}={model}"] if inside is not None else []


def chosen_for(wish: Wish, note: Note) -> Target:
    """The server that is asked, or that will be started. Raises as `target.choose`."""
    options = wish.asking
    waiting = WaitPolicy(note, patience=options.patience, policy=options.policy, answer=min(ANSWER, options.timeout))
    return endpoint.choose_target(options.base_urls, options.model, options.revision, waiting, start=True)
