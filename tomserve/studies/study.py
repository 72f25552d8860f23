"""The Study type: how a study is declared, found in the folder analysis/ and loaded, and the verdicts that any study
can give.

from tomserve.studies import Study

def tables(scores, intervals): right = scores.group_by("model", "strategy").agg(accuracy=pl.col("correct").mean())
return {"accuracy": right.sort("model", "strategy").collect()}

STUDY = Study(name="mine", tables=tables)

lies in ``analysis/mine.py``, or in ``analysis/mine/study.py`` where it has modules of its own, and is then known as
``--study mine``; a file or folder anywhere else is given by its path.

>>> load_study("accuracy").intervals
('recommended', 'effective', 'published')
>>> study = study_in_parts("demo", {"tasks": {"task": pl.String}}, {"tasks": "By task."}, baseline="letters")
>>> study.name, sorted(study.notes("recommended"))
('demo', ['accuracy', 'baselines', 'prompting_effects', 'tasks'])
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import itertools
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import polars as pl

from tomserve import benchmarks, content
from tomserve.content.python_file import describe_failure, load_module
from tomserve.errors import ConfigError, ContentError, Interrupted, one_of
from tomserve.studies import baselines
from tomserve.studies.answer_rows import BASELINE, REQUIRED, split_by
from tomserve.studies.baselines import RuleKinds
from tomserve.studies.breakdowns import Rows
from tomserve.studies.contrasts import Record, prompting_effects, share
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import (
    BAD,
    GOOD,
    OPEN,
    Card,
    Chance,
    Context,
    Excerpt,
    Figure,
    ItemOutline,
    Layout,
    Mark,
    Tables,
    Verdict,
    Versions,
    by_choices,
    finite_or_none,
    interval,
    mark_of,
    p_value,
    percent,
    points,
    populations,
    readable_name,
    sign,
    who,
)

if TYPE_CHECKING:  # it reads tables of measurements and manifests, which few commands need
    from tomserve.studies.comparability import Conditions

HELPS = {1: "helps", -1: "hurts", 0: "no significant effect"}  # What the sign of an effect says of a strategy


def has_rows(tables: Tables, name: str, columns: str) -> bool:
    """Whether there is a table of that name with rows and with all of these columns."""
    return name in tables and tables[name].height > 0 and set(columns.split()) <= set(tables[name].columns)


def tables_by_model(tables: Tables) -> Iterator[tuple[str, dict[str, pl.DataFrame]]]:
    """Each model of the table `accuracy`, with its rows of every table that has a column for models; nothing where that
    table lacks model, strategy or accuracy."""
    frame = tables.get("accuracy")
    if frame is None or not {"model", "strategy", "accuracy"} <= set(frame.columns):
        return
    for model in frame["model"].unique(maintain_order=True):
        yield str(model), {n: table.filter(model=model) for n, table in tables.items() if "model" in table.columns}


def overall_accuracy(tables: Tables) -> pl.DataFrame:
    """The row of the table `accuracy` about all questions of each model and strategy, the baseline first; no rows where
    there is no such table. Of a model's rows by one strategy that is the one about the most questions (total)."""
    frame = tables.get("accuracy")
    if frame is None or not {"model", "strategy", "accuracy"} <= set(frame.columns):
        return pl.DataFrame(schema={"model": pl.String})
    group, place = ("model", "strategy"), pl.int_range(pl.len())
    if "total" in frame.columns:  # of equal ones the first
        frame = frame.filter(place.over(group) == pl.col("total").fill_null(-1).arg_max().over(group))
    frame = frame.unique(group, keep="first", maintain_order=True)
    return frame.sort(place.min().over("model"), pl.col("strategy") != BASELINE, maintain_order=True)


def overall_verdicts(tables: Tables, context: Context) -> Sequence[Verdict]:
    """The verdicts of a study that has none of its own: a line for each strategy, and whether reasoning helps."""
    return model_verdicts(tables, context, lambda own: ())


def model_verdicts(
    tables: Tables,
    context: Context,
    cards: Callable[[dict[str, pl.DataFrame]], Iterable[Card]],
    whole: str = "",
    plain: Sequence[str] = (),
) -> Sequence[Verdict]:
    """For each model a line for each strategy beside chance and the best rule, the cards of the study, and whether
    other ways of asking help. whole: the column that is "all" in rows of the table of baselines about all questions.
    plain: strategies that ask for the answer alone, whose effects are left out."""
    verdicts = []
    for model, own in tables_by_model(tables):
        rules = own.get(baselines.TABLE)
        if whole and rules is not None:
            rules = rules.filter(pl.col(whole) == "all") if has_rows(own, baselines.TABLE, whole) else None
        more = [*cards(own)]
        if has_rows(own, "prompting_effects", EFFECT):
            effects = own["prompting_effects"]
            effects = effects.filter(~pl.col("treatment").is_in(plain)) if plain else effects
            more += [effect_cards(effects)] if effects.height else []
        lines = accuracy_lines(own["accuracy"], context.chance.get("all"), rules)
        verdicts.append(Verdict(model, lines, tuple(more), accuracy_marks(own["accuracy"])))
    return verdicts


def accuracy_marks(frame: pl.DataFrame) -> tuple[Mark, ...]:
    """The share right of each strategy beside the best rule's, as terminal and lines say it. frame: as for
    accuracy_lines."""
    marks: list[Mark] = []
    for row in overall_accuracy({"accuracy": frame}).iter_rows(named=True):
        marks += mark_of(row["strategy"], row, "accuracy", ("ci_low", "ci_high"), "best_rule_accuracy")
    return tuple(marks)


def frames_of(made: Mapping[str, Iterable[Record]]) -> dict[str, pl.DataFrame]:
    """A table of each set of records, by name; those without records are left out."""
    listed = {name: list(records) for name, records in made.items()}
    return {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in listed.items() if rows}


def accuracy_lines(frame: pl.DataFrame, chance: float | None, rules: pl.DataFrame | None = None) -> tuple[str, ...]:
    """A line for each strategy, the baseline first: how many questions it has right, and how that compares with chance
    and with the best rule; then a line with the best rule of each kind. frame: the table `accuracy` of one model.
    chance: from 0 to 1, or None. rules: rows of the table of baselines, or None."""
    lines = []
    for row in overall_accuracy({"accuracy": frame}).iter_rows(named=True):
        counted = f"{row['correct']:,} of {row['total']:,}" if {"correct", "total"} <= set(row) else "a share"
        compared = ""
        low, high = finite_or_none(row.get("ci_low")), finite_or_none(row.get("ci_high"))
        if chance is not None and low is not None and high is not None:
            place = "above" if low > chance else "below" if high < chance else "not clearly different from"
            compared = f"; {place} chance ({percent(chance)})"
        if beside := baselines.compare_with_rule(row):
            compared += f"; {beside}"
        lines.append(
            f"{readable_name(row['strategy'])}: {counted} correct ({percent(row['accuracy'])}{interval(row)}){compared}"
        )
    if rules is not None and (sentence := baselines.best_of_kinds(rules)):
        lines.append(sentence)
    return tuple(lines)


EFFECT = "treatment risk_difference rd_low rd_high"  # Columns of a table of paired effects that a verdict reads


def effect_cards(
    effects: pl.DataFrame, parts: Mapping[str, str] | None = None, more: Sequence[tuple[str, str]] = ()
) -> Card:
    """Whether the strategies help against the baseline, read off the intervals of their paired effects; an effect that
    batching alone could have made is not clear. effects: of one model, with EFFECT and maybe `subset`, of which "all"
    decides. parts: what readers call these. more: further grounds."""
    signs, grounds, population = [], [], ""
    marks: list[Mark] = []
    keys = [name for name in ("subset", "treatment") if name in effects.columns]
    for row in effects.unique(keys, keep="first", maintain_order=True).iter_rows(named=True):
        if row.get("subset", "all") == "all":
            signs.append(sign(row))
            marks += mark_of(row["treatment"], row, "risk_difference", ("rd_low", "rd_high"))
        text = f"{HELPS[sign(row)]}, {points(row)}"
        if (p := finite_or_none(row.get("p"))) is not None:
            text += f"; {p_value(p)}"
        if row.get("gained") is not None and row.get("lost") is not None:
            text += f"; {row['gained']:,} questions gained, {row['lost']:,} lost"
        if row.get("target"):
            population = (
                f" The interval says what to expect of {populations(row['target'])}. p is the chance of so large a "
                "difference if there were none, by the test that belongs to the interval: it is at most 0.05 exactly "
                "where the interval does not hold zero."
            )
        grounds.append((who(row["treatment"], row.get("subset", ""), parts or {}), f"{text}."))
    verdict, tone = "No significant effect", OPEN
    if signs and all(one > 0 for one in signs):
        verdict, tone = "Yes, it helps", GOOD
    elif signs and all(one < 0 for one in signs):
        verdict, tone = "No, it hurts", BAD
    elif any(signs):
        verdict = "Some strategies help or hurt, others show no significant effect"
        if {1, -1} <= set(signs):
            verdict = "Some strategies help, others hurt"
    control = readable_name(effects["control"][0] if has_rows({"": effects}, "", "control") else BASELINE)
    remark = (
        f"Each strategy is compared with {control}, which asks for the answer alone, on the same questions. The 95% "
        f"interval of the difference, in percentage points, stands in brackets.{population}"
    )
    reasons = all(not _REASONS.isdisjoint(name.split("_")) for name in effects["treatment"].to_list())
    question = "Does step-by-step reasoning help?" if reasons else "Do other ways of asking help?"
    return Card(question, verdict, tone, (*grounds, *more), remark, tuple(marks), signed=True)


# Words of a strategy's name that say that it has the model reason before it answers.
_REASONS = frozenset(("cot", "reason", "chain", "think", "decompose"))


@dataclass(frozen=True)
class FileCounting:
    """How the tables of a study are counted where its answers lie in many files: `rows` gives those of one score table,
    `tables` makes all tables from the rows of every file, the rules of all of them, and the way to count."""

    rows: Callable[[pl.LazyFrame], pl.DataFrame]
    tables: Callable[[Rows, RuleKinds, str], Mapping[str, pl.DataFrame]]

    def of_one(self, scores: pl.LazyFrame, intervals: str) -> Mapping[str, pl.DataFrame]:
        """All tables of one score table, whose rows `tables` has to ask for once."""
        return self.tables(lambda: [self.rows(scores)], RuleKinds.of(scores), intervals)


def _are_names(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(one, str) for one in value)


_FITTING: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("tables", "notes", "warnings", "summary", "verdicts", "chance"), (callable, " is not a function")),
    **dict.fromkeys(("figures", "conditions"), (lambda it: it is None or callable(it), " is not a function")),
    "name": (lambda it: isinstance(it, str) and bool(it.strip()), "; expected the study's name as text"),
    **dict.fromkeys(("required", "intervals", "strata", "optional"), (_are_names, "; expected a tuple of names")),
    **dict.fromkeys(("answers", "together"), (lambda it: isinstance(it, bool), "; expected True or False")),
    **dict.fromkeys(
        ("values", "layouts", "labels", "columns"), (lambda it: isinstance(it, Mapping), "; expected a mapping by name")
    ),
    "versions": (lambda it: it is None or isinstance(it, Versions), "; expected Versions(...)"),
}


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study of the analysis room. Only `name` and `tables` have to be given. A mistake in a field raises ConfigError,
    which names the field, when the study is made."""

    name: str
    # Makes all tables, by name, from a score table (a row for each answer) and one of `intervals`.
    tables: Callable[[pl.LazyFrame, str], Mapping[str, pl.DataFrame]]
    required: tuple[str, ...] = REQUIRED  # columns without which the study cannot be computed
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by column of text what it may hold
    intervals: tuple[str, ...] = ("recommended", "published")  # ways to count, the default first
    # Gives, for one of `intervals`, what a reader must know of each table, by the table's name.
    notes: Callable[[str], Mapping[str, str]] = lambda intervals: {}
    warnings: Callable[[Tables], Iterable[str]] = lambda tables: ()  # a line for each reason to doubt the numbers
    # What the terminal prints, where it has rows; all tables where nothing is said.
    summary: Callable[[Tables], Iterable[Excerpt]] = lambda tables: (Excerpt(n, t, (n,)) for n, t in tables.items())
    layouts: Mapping[str, Layout] = field(default_factory=dict)  # by table how it is laid out in LaTeX
    # Makes the report's figures; without it the report draws accuracy by strategy and by columns of few values, and
    # paired effects.
    figures: Callable[[Tables, Context], Sequence[Figure]] | None = None
    # Makes the verdicts that the report begins with, one for each model.
    verdicts: Callable[[Tables, Context], Sequence[Verdict]] = overall_verdicts
    # What a guesser gets right of the asked items, each given once, in any order.
    chance: Callable[[Iterable[ItemOutline]], Chance] = by_choices
    versions: Versions | None = None  # so that the report can set versions of a question beside the original
    strata: tuple[str, ...] = ()  # factors over whose values the questions are spread that a report shows
    # Factors by which a reader of the report filters the answers, each with its name on the page; without them the
    # first that vary.
    labels: Mapping[str, str] = field(default_factory=dict)
    variants: bool = False  # whether it counts variants of questions; else it is given the originals alone
    across: bool = False  # whether it sets several benchmarks of one model side by side; else they are refused
    # Whether it counts a model's answers; if not, it is given the table of a measurement as it was stored
    # (tomserve.runs.measurement), and nothing that only answers have is reported beside it.
    answers: bool = True
    # Whether it reads answers and measurements in one table (see answer_rows.split_scores), either of which may be
    # missing; `required` is then about answers, and `columns` about measurements.
    together: bool = False
    # Of a measurement: the columns that its table has to have, with their types; others are left out.
    columns: Mapping[str, pl.DataType | type[pl.DataType]] = field(default_factory=dict)
    optional: tuple[str, ...] = ()  # those of `columns` that older tables lack
    counted: FileCounting | None = None  # without it the columns that it reads of all files have to fit into memory
    path: Path | None = None  # the file it was loaded from, set by load_study
    # Gives, by model, what of a score table its numbers count; equal ones stand side by side (see comparability).
    conditions: Callable[[pl.LazyFrame], Mapping[str, Conditions]] | None = None

    def __post_init__(self) -> None:
        for name, (fits, said) in _FITTING.items():
            if not fits(value := getattr(self, name)):
                raise ConfigError(f"Study.{name}: {value!r}{said}")
        if not self.intervals:
            raise ConfigError("Study.intervals: is empty; name at least one way to count, or leave it out")
        for column, known in self.values.items():
            if not _are_names(known):
                raise ConfigError(f"Study.values[{column!r}]: {known!r}; expected a tuple of names")
        for table, layout in self.layouts.items():
            if not isinstance(layout, Layout):
                raise ConfigError(f"Study.layouts[{table!r}]: {layout!r}; expected a Layout")
        self._check_columns()

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns without which a measurement cannot be read."""
        return tuple(name for name in self.columns if name not in self.optional)

    def _check_columns(self) -> None:
        """Check what only a study of measurements declares, and require all of its columns where nothing is said."""
        for column, kind in self.columns.items():
            if not isinstance(kind, pl.DataType) and not (isinstance(kind, type) and issubclass(kind, pl.DataType)):
                raise ConfigError(f"Study.columns[{column!r}]: {kind!r}; expected a type of Polars, such as pl.Float64")
        if self.together and not self.answers:
            raise ConfigError("Study.together: such a study counts answers, too; leave out answers=False")
        if self.together and not self.columns:
            raise ConfigError("Study.columns: is empty; a study that reads measurements, too, names their columns")
        if self.answers and self.columns and not self.together:
            raise ConfigError("Study.columns: only a study of measurements has them; set answers=False, or drop them")
        if not self.answers and self.required == REQUIRED:  # which are the columns of answers
            object.__setattr__(self, "required", self.needed)
        if not self.answers and not self.required:
            raise ConfigError("Study.columns: is empty; a study of measurements names the columns of its table")


FIELDS = tuple(one.name for one in fields(Study) if one.name != "path")  # The names of what a study may declare


STUDY_FILE = "study.py"  # The file of a study that is a folder


def study_names() -> list[str]:
    return sorted(_study_files())


def _study_files() -> dict[str, Path]:
    """The file of every study by the study's name; where several have one name, that of the first folder."""
    files: dict[str, Path] = {}
    for root in content.roots():
        folder = root / "analysis"
        for path in (*sorted(folder.glob("*.py")), *sorted(folder.glob(f"*/{STUDY_FILE}"))):
            name = path.parent.name if path.parent != folder else path.stem
            if not name.startswith("_"):
                files.setdefault(name, path)
    return files


_LOADING = threading.RLock()  # a study is loaded by one thread at a time, since loading replaces its modules
MOST_FILES = 2_000  # in whose midst a study is loaded each time: to look at all of a home folder takes longer
_State = tuple[tuple[str, int, int, int], ...]
_LOADED: dict[Path, tuple[_State | None, ModuleType]] = {}
"""The modules of studies, which are loaded again only where a file has changed: many a command needs a study twice."""


def load_study(name: str) -> Study:
    """The study of that name, or at that path: a ``.py`` file, or a folder that holds ``study.py``. Raises ConfigError
    for what cannot be found, and ContentError, with file and line, for a file that declares no study."""
    path = _path_of(name) or _study_files().get(name)
    if path is None:
        raise ConfigError(f"{one_of('study', name, study_names())}; a path ends in .py or, of a folder, in /")
    with _LOADING:
        state, place = _find_state(path), path.absolute()
        loaded = _LOADED.get(place)
        if state is None or loaded is None or loaded[0] != state:
            module = _load_folder(path) if path.name == STUDY_FILE else load_module(path, "study")
            loaded = _LOADED[place] = (state, module)
    module = loaded[1]
    study = vars(module).get("STUDY")
    if not isinstance(study, Study):
        raise ContentError(_no_study(module, study), path=path)
    return dataclasses.replace(study, path=path)


def _find_state(path: Path) -> _State | None:
    """What tells whether a study or a file that it may import or read has changed; None where that cannot be known."""
    folder, found = path.parent, []
    try:
        for number, file in enumerate(itertools.chain(folder.glob("*"), folder.glob("*/*"))):
            if number == MOST_FILES:
                return None
            if file.suffix in (".py", ".yaml"):
                known = file.stat()
                found.append((str(file), known.st_mtime_ns, known.st_ctime_ns, known.st_size))
    except OSError:
        return None
    return tuple(sorted(found))


def _path_of(name: str) -> Path | None:
    path = Path(name).expanduser()
    if name.endswith(".py"):
        return path
    return path / STUDY_FILE if "/" in name else None


def _no_study(module: ModuleType, found: object) -> str:
    if found is not None:
        return f"STUDY is a {type(found).__name__}; expected STUDY = Study(name=..., tables=...)"
    if not callable(vars(module).get("tables")):
        return "has no STUDY; write STUDY = Study(name=..., tables=...), with Study from tomserve.studies"
    older = [name for name in FIELDS if name != "tables" and ({name, name.upper()} & set(vars(module)))]
    handed = "".join(f", {name}={name if name in vars(module) else name.upper()}" for name in older if name != "name")
    return (
        "has a function tables(scores, intervals) but no STUDY; write below it: from tomserve.studies import Study; "
        f"STUDY = Study(name={Path(str(module.__file__)).stem!r}, tables=tables{handed})"
    )


def _load_folder(path: Path) -> ModuleType:
    """Run a study that is a folder, as a package whose modules import each other (``from .rows import x``)."""
    if not path.is_file():
        raise ConfigError(f"study {str(path.parent)!r}: no such file ({path})")
    folder = path.resolve().parent
    package = f"tomserve_study_{folder.name}_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    start = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location(package, start) if start.is_file() else None
    if spec is None:
        spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    module = importlib.util.module_from_spec(spec)
    sys.modules[package] = module
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
        return importlib.import_module(f"{package}.{path.stem}")
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:
        raise study_error(error, path, "cannot be loaded") from None


def study_error(error: BaseException, path: Path, what: str) -> ContentError:
    """An error of a study's code as one line, which names the last line of the study's own files that was reached."""
    own = path.resolve().parent
    places = [Path(one.filename) for one in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append(Path(error.filename))
    reached = [place for place in places if place.resolve().parent == own]
    return describe_failure(error, reached[-1] if reached else path, what)


# Columns of which a table of answers has at least one, and a measured table none.
ANSWER_COLUMNS = frozenset(("strategy", "status", "correct"))


def measured_studies(scores: pl.DataFrame) -> list[str]:
    """The names of the studies of measurements whose columns this table has, those that need most of them first; none
    for answers. A study whose file has a mistake in it is passed over."""
    if not ANSWER_COLUMNS.isdisjoint(scores.columns):
        return []
    fitting = [
        (-len(study.required), name)
        for name, study in _loadable()
        if not study.answers and set(study.required) <= set(scores.columns)
    ]
    return [name for _, name in sorted(fitting)]


def studies_of_both() -> list[str]:
    """The names of the studies that read answers and measurements in one table."""
    return [name for name, study in _loadable() if study.together]


def _loadable() -> Iterator[tuple[str, Study]]:
    """Every study but those whose file has a mistake in it."""
    for name in study_names():
        with contextlib.suppress(ConfigError):
            yield name, load_study(name)


def study_of_manifests(manifests: Iterable[Mapping[str, Any]]) -> str | None:
    """The study that all these runs name to read what they hold; None where they do not name one, and the same. A
    manifest may be a stranger's: only a study found by its name counts, never a path."""
    named = {manifest.get("study") for manifest in manifests}
    return next((name for name in study_names() if {name} == named), None)


def default_study(scores: pl.DataFrame) -> str:
    """The name of the study that the benchmark of these answers declares, or that reads the columns of a measured table
    or the questions of a search; the one that fits any items for several benchmarks or an unknown one. Raises
    ConfigError where several read a measured table equally well."""
    if fitting := measured_studies(scores):
        needed = [len(load_study(name).required) for name in fitting[:2]]
        if len(needed) > 1 and needed[0] == needed[1]:
            raise ConfigError(f"score table: several studies read it ({', '.join(fitting)}); choose one by --study")
        return fitting[0]
    asked = scores["benchmark"].drop_nulls().unique().to_list() if "benchmark" in scores.columns else []
    if "cell" in scores.columns and scores["cell"].null_count() == 0:
        from tomserve.weakness import design, rounds

        if {rounds.PART, rounds.ROUND} <= set(scores.columns) and asked and set(asked) <= design.DESIGNS.keys():
            return rounds.STUDY
    known = benchmarks.find(asked[0]) if len(asked) == 1 else None
    return benchmarks.Benchmark.study if known is None else known.study


Columns = Mapping[str, Any]  # Factors of the design, each with its Polars type
# The column that says of a reply whether it is right by the authors' reading; empty where that does not apply.
OFFICIAL = "metric_official"
EXTRA = {"options": pl.Int64}  # Further columns: how many choices the question has, where the score table says it


def study_in_parts(
    name: str,
    parts: Mapping[str, Columns],
    notes: Mapping[str, str],
    baseline: str = BASELINE,
    together: Mapping[str, tuple[str, Columns]] | None = None,
    quoted: Mapping[str, pl.DataFrame] | None = None,
    official: Columns | None = None,
) -> Study:
    """A study with accuracy by parts, sets that are right together, and tables as a paper printed them.

    parts: tables by name, each with its factors. notes: by table. baseline: the strategy that the others are compared
    with. together: tables by name, each with the factor that names the sets and its factors. quoted: printed tables.
    official: the factors by which the authors' reading of replies stands beside tomserve's, or None."""
    sets, printed = together or {}, quoted or {}
    columns: dict[str, Any] = {**EXTRA, OFFICIAL: pl.Boolean, **(official or {})}
    for factors in parts.values():
        columns |= factors
    for unit, factors in sets.values():
        columns |= {unit: pl.String, **factors}

    def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
        rows, kinds = baselines.rows_with_rules(scores, columns)
        shares = partial(baselines.shares_by, rows, kinds=kinds, intervals=intervals, chance=True)
        made: dict[str, Iterable[Record]] = {
            "accuracy": map(_chance_last, shares((), brief=False)),
            baselines.TABLE: baselines.rule_records(rows, kinds, ("model",)),
        }
        made |= {table: map(_chance_last, shares(tuple(keys))) for table, keys in parts.items()}
        if official is not None:
            made["official"] = official_reading(rows, tuple(official))
        if intervals == "recommended":
            made |= {table: joint_accuracy(rows, unit, tuple(keys)) for table, (unit, keys) in sets.items()}
            made["prompting_effects"] = prompting_effects(rows, baseline)
        return {**frames_of(made), **printed}

    def notes_of(intervals: str) -> Mapping[str, str]:
        about = PHRASES["about_share"]
        of_parts = {table: f"{notes[table]} {PHRASES['share_independent']}" for table in parts}
        shared = {baselines.TABLE: PHRASES["about_rules"], **{table: notes[table] for table in printed}}
        if official is not None:
            shared["official"] = PHRASES["about_official"]
        if intervals == "published":
            return {"accuracy": PHRASES["share_independent"], **of_parts, **shared}
        return {
            "accuracy": f"All questions: {about} {baselines.ABOUT}",
            **{table: f"{notes[table]} {about}" for table in parts},
            **{table: f"{notes[table]} {PHRASES['about_together']}" for table in sets},
            "prompting_effects": PHRASES["about_prompting"].format(control=baseline),
            **shared,
        }

    def summary(made: Tables) -> list[Excerpt]:
        return list(
            _excerpts(made, {**parts, **{table: keys for table, (_, keys) in sets.items()}}, printed, official or {})
        )

    return Study(name=name, tables=tables, notes=notes_of, summary=summary, warnings=baselines.missing_warnings)


def _chance_last(record: Record) -> Record:
    return {**{name: value for name, value in record.items() if name != "chance"}, "chance": record["chance"]}


def joint_accuracy(rows: pl.DataFrame, unit: str, keys: Sequence[str]) -> Iterator[Record]:
    """For each model, strategy and value of the keys, the share of sets (column `unit`) of which every question is
    right. rows: prepared rows with the column `options`."""
    named = ["model", "strategy", *keys]
    sets = rows.drop_nulls(unit).group_by([*named, unit], maintain_order=True)
    whole = sets.agg(
        pl.col("correct").all(),
        pl.col("faulty").any(),
        pl.col("unread").any(),
        pl.col("cluster").first(),
        pl.col("correct").sum().alias("right"),
        pl.len().cast(pl.Int64).alias("questions"),
        (1 / pl.col("options")).product().alias("chance"),
        pl.col("options").is_null().any().alias("open"),
    )
    for key, part in split_by(whole, named):
        found, questions = share(part), int(part["questions"].sum())
        each = int(part["right"].sum()) / questions
        yield {
            **{**key, "sets": part.height, "questions": questions, "all_right": found["accuracy"]},
            **{"ci_low": found["ci_low"], "ci_high": found["ci_high"], "accuracy": each},
            "expected": part.select((pl.lit(each) ** pl.col("questions")).mean()).item(),
            "chance": None if part["open"].any() else part["chance"].mean(),
            **{"failed": found["failed"], "tasks": found["tasks"], "method": found["method"]},
        }


def official_reading(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[Record]:
    """For each model, strategy and value of the keys, how many replies are right by the authors' reading (OFFICIAL) and
    by ours. Strategies that ask for JSON, for which it is mostly empty, are left out."""
    free = rows.filter(pl.col(OFFICIAL).is_not_null().mean().over("model", "strategy") > 0.5)
    for key, part in split_by(free.drop_nulls(OFFICIAL), ("model", "strategy", *keys)):
        ours, theirs = part["correct"], part[OFFICIAL]
        yield {
            **{**key, "replies": part.height, "accuracy": ours.mean(), "official_accuracy": theirs.mean()},
            **{"only_ours": int((ours & ~theirs).sum()), "only_official": int((~ours & theirs).sum())},
            "unread": int(part["unread"].sum()),
        }


def _excerpts(
    made: Tables, keyed: Mapping[str, Columns], printed: Mapping[str, pl.DataFrame], official: Columns
) -> Iterator[Excerpt]:
    """What the terminal prints: of each table the columns that a reader needs first."""
    shares = "correct total accuracy ci_low ci_high unread"
    wanted = {"accuracy": f"model strategy {shares}"}
    first = "sets all_right total accuracy ci_low ci_high expected chance best_rule_accuracy"
    wanted |= {table: f"model strategy {' '.join(keys)} {first}" for table, keys in keyed.items()}
    compared = "replies accuracy official_accuracy only_ours only_official unread"
    wanted["official"] = f"model strategy {' '.join(official)} {compared}"
    wanted["prompting_effects"] = "model treatment share_treated share_control risk_difference rd_low rd_high p"
    for table, names in wanted.items():
        if table in made:
            frame = made[table]
            yield Excerpt(table, frame.select([name for name in names.split() if name in frame.columns]), (table,))
            if table == "accuracy":
                yield from baselines.excerpts(frame, ("strategy",))
    for table, frame in printed.items():
        yield Excerpt(table, frame, (table,))
