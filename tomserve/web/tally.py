"""The tally of a run: what lists, the run's own page and the leaderboard say of its result.

It is computed beside the server once for each state of the run, and kept with its other results.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tomserve import benchmarks
from tomserve.causal.settings import ITEMS
from tomserve.content.text import sanitize
from tomserve.content.validation import Strict
from tomserve.errors import ConfigError, TomserveError
from tomserve.runs.manifest import Manifest
from tomserve.runs.scores import load_scored_run
from tomserve.stats.functional import FTOM_1
from tomserve.studies import analyze, breakdowns, default_study, overall_accuracy, people
from tomserve.studies.answer_rows import originals
from tomserve.studies.comparability import AnswerConditions, Conditions, answer_conditions
from tomserve.studies.comparison import CLASS
from tomserve.studies.presentation import finite_or_none
from tomserve.studies.study import load_study
from tomserve.web import background
from tomserve.web.background import Computation, without_paths
from tomserve.web.run_index import MANIFEST, RunEntry
from tomserve.workflows import leaderboard
from tomserve.workflows.functional import INSIDE, find_measurement, read_layers

Interval = tuple[float | None, ...]  # a score with the ends of its interval; () where it was not measured
CLASSES = 24  # a profile has no more bars
MOST_SHARES = 500  # strategies and benchmarks of one run that are counted, each of which takes a moment


class Share(Strict):
    """The share of right answers by one strategy."""

    asked: AnswerConditions
    estimate: float | None = None  # with its interval, as the study of the benchmark computes it
    low: float | None = None
    high: float | None = None
    correct: int = 0
    total: int = 0
    failed: int = 0  # requests that got no reply
    unread: int = 0  # replies that could not be read
    chance: float | None = None  # what a guesser scores on these questions
    rule: str = ""  # the best shortcut baseline, and its share of right answers
    rule_share: float | None = None
    spoiled: str = ""  # why the share cannot be ranked
    people: int = 0  # how many people answered, 0 for a model
    profile: tuple[tuple[str, float], ...] = ()  # the share by class of question, () where there are no classes


class Layers(Strict):
    """The three layers of one model."""

    conditions: Conditions  # what it was asked and measured on
    formula: str = ""
    ftom: Interval = ()
    ftom_bs: Interval = ()
    b: Interval = ()
    c: Interval = ()
    c_measured: Interval = ()
    no_c: str = ""  # why C does not count, or is not known
    s: Interval = ()
    questions: int = 0
    scenarios: int = 0
    cases: int = 0
    unread: int = 0
    failed: int = 0
    spoiled: str = ""

    def estimate(self, score: str) -> float | None:
        """A score or layer by its name."""
        return next(iter(getattr(self, score)), None)


class Tally(Strict):
    """What a leaderboard knows of one run."""

    model: str = ""
    revision: str = ""
    served: str = ""  # further fields of every request that say how the model was to think
    created: str = ""
    shares: tuple[Share, ...] = ()
    layers: Layers | None = None
    broken: str = ""  # why it cannot be read

    @property
    def mixed(self) -> bool:
        """Whether several benchmarks were asked, each of which has shares of its own."""
        return len({share.asked.benchmark for share in self.shares}) > 1


def tally(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The tally of a run; one that says so where it cannot be read. options: `folder`, the folder of these runs where
    they are the three layers of one model."""
    del out
    try:
        folder = options.get("folder")
        found = of_run(Path(runs[0])) if folder is None else of_layers(Path(folder))
    except TomserveError as error:
        found = Tally(broken=sanitize(without_paths(str(error))))
    return found.model_dump(mode="json")


def of_run(folder: Path) -> Tally:
    """The tally of one run. Raises ConfigError where it cannot be read."""
    manifest = Manifest.load(folder)
    own = {name: value for name, value in manifest.sampling.items() if name not in ("temperature", "seed", "repeats")}
    known = _tally(manifest, orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode() if own else "")
    if manifest.measured:
        return known
    table, record, *_ = load_scored_run(folder)
    rows = originals(table)
    if rows.is_empty():
        return known
    rows = rows.with_columns(pl.col("benchmark").fill_null(manifest.benchmark))
    factor = _class_factor(manifest.benchmark, rows)
    shares = []
    places = {name: place for place, name in enumerate(manifest.strategies)}
    rows = rows.sort(pl.col("strategy").replace_strict(places, default=len(places)), maintain_order=True)
    if (groups := rows.select(pl.struct("benchmark", "strategy").n_unique()).item()) > MOST_SHARES:
        raise ConfigError(f"{groups:,} strategies and benchmarks; a leaderboard counts at most {MOST_SHARES}")
    for _, part in rows.group_by(["benchmark", "strategy"], maintain_order=True):
        (asked,) = answer_conditions(part)
        shares.append(_share(part, asked.record(manifest, record), factor))
    return known.model_copy(update={"shares": tuple(shares)})


def _tally(manifest: Manifest, served: str = "") -> Tally:
    revision, created = manifest.revision or "", manifest.created or ""
    return Tally(model=manifest.model, revision=revision, served=served, created=created)


def _class_factor(benchmark: str, rows: pl.DataFrame) -> str:
    """The factor that sorts the questions into classes: the perturbation, else the first that the benchmark's study
    names; "" where none has several values."""
    known = benchmarks.find(benchmark) if benchmark in benchmarks.names() else None
    study = load_study(known.study) if known is not None else None
    factors = (CLASS, *study.strata, *study.labels) if study is not None else (CLASS,)
    several = (name for name in factors if name in rows.columns and 1 < rows[name].n_unique() <= CLASSES)
    return next(several, "")


def _share(part: pl.DataFrame, asked: AnswerConditions, factor: str) -> Share:
    tables = analyze(part, default_study(part))
    if (overall := overall_accuracy(tables)).is_empty():  # a study that counts no single answers
        overall = overall_accuracy(tables := analyze(part, "accuracy"))
    row = overall.row(0, named=True)
    chances = breakdowns.task_rows(part.lazy()).rows["chance"]
    failed, unread = int(row["failed"] or 0), int(row["unread"] or 0)
    estimate, low, high, crowd = row["accuracy"], row["ci_low"], row["ci_high"], 0
    correct, total = int(row["correct"]), int(row["total"])
    profile = _profile(part, factor)
    if people.TABLE in tables:
        each = tables[people.TABLE].filter(factor=people.OVERALL).row(0, named=True)
        estimate, low, high, crowd = each["share"], each["ci_low"], each["ci_high"], int(each["people"])
        correct, total = round(each["share"] * each["answers"]), int(each["answers"])  # of all people
        classes = tables[people.TABLE].filter(factor=factor).drop_nulls("value")
        profile = tuple((str(name), float(of)) for name, of in classes.select("value", "share").iter_rows())
    return Share(
        asked=asked,
        correct=correct,
        total=total,
        failed=max(0, failed - unread),
        unread=unread,
        chance=finite_or_none(chances.mean()) if chances.len() and not chances.null_count() else None,
        rule=str(row.get("best_rule") or ""),
        rule_share=finite_or_none(row.get("best_rule_accuracy")),
        spoiled=leaderboard.explain_lost(part),
        estimate=finite_or_none(estimate),
        low=finite_or_none(low),
        high=finite_or_none(high),
        people=crowd,
        profile=profile,
    )


def _profile(part: pl.DataFrame, factor: str) -> tuple[tuple[str, float], ...]:
    if not factor:
        return ()
    classes = part.group_by(factor, maintain_order=True).agg(pl.col("correct").cast(pl.Float64).mean())
    return tuple((str(name), share) for name, share in classes.rows() if name is not None and share is not None)


def of_layers(folder: Path) -> Tally:
    """The tally of the three layers of one model, as `tomserve functional` makes them. Raises ConfigError where they
    cannot be read."""
    inside = find_measurement(folder)
    places = sorted(path for path in folder.iterdir() if (path / MANIFEST).is_file() and not path.is_symlink())
    parts = [path for path in places if not path.name.startswith(INSIDE)]
    first = Manifest.read(folder / ITEMS)
    assert first is not None  # or the folder would not be taken for one of layers
    known = _tally(first)
    if not all(one.complete for path in parts if (one := Manifest.read(path)) is not None):
        return known
    facts = leaderboard.collect_facts(read_layers(folder, parts, inside))
    told: dict[str, Any] = {
        name: tuple(finite_or_none(facts.row.get(f"{name}{end}")) for end in ("", "_low", "_high"))
        for name in ("ftom", "ftom_bs", "b", "c", "c_measured", "s")
    }
    told["no_c"] = sanitize(leaderboard.explain_missing(facts, ("c",)))
    for name in ("conditions", "questions", "scenarios", "cases", "unread", "failed", "spoiled"):
        told[name] = getattr(facts, name)
    layers = Layers(formula=FTOM_1.name, **told)
    return known.model_copy(update={"layers": layers})


def find_tallies(lines: Sequence[RunEntry]) -> list[Tally | None]:
    """The tally of each run; None where it is being counted, which this begins."""
    return read_tallies([Computation("tally", (line.folder,)) for line in lines])


def read_tallies(computations: Sequence[Computation]) -> list[Tally | None]:
    """What such computations have given, as `background.find_all` finds it."""
    return [
        None if made is None else Tally(broken=made.error) if made.error else Tally.model_validate(made.facts)
        for made in background.find_all(computations)
    ]
