"""Defines what a study is: a function that makes tables of scores, and what belongs to these tables.

    from tomserve.studies import Study

    def tables(scores, intervals):
        right = scores.group_by("model", "strategy").agg(accuracy=pl.col("correct").mean())
        return {"accuracy": right.sort("model", "strategy").collect()}

    STUDY = Study(name="mine", tables=tables)

lies in ``analysis/mine.py``, or in ``analysis/mine/study.py`` where it has modules of its own, and is then known as
``--study mine``; a file or folder anywhere else is given by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import polars as pl

from tomserve.errors import ConfigError
from tomserve.studies.baselines import Kinds
from tomserve.studies.counting import Rows
from tomserve.studies.rows import REQUIRED
from tomserve.studies.showing import (
    Asked,
    Chance,
    Context,
    Excerpt,
    Figure,
    Layout,
    Tables,
    Verdict,
    Versions,
    by_choices,
)
from tomserve.studies.verdicts import overall


def _nothing_said(intervals: str) -> Mapping[str, str]:
    del intervals
    return {}


def _no_doubts(tables: Tables) -> Sequence[str]:
    del tables
    return ()


def _whole(tables: Tables) -> Sequence[Excerpt]:
    return [Excerpt(name, frame, (name,)) for name, frame in tables.items()]


@dataclass(frozen=True)
class Counted:
    """How the tables of a study are counted file by file, where its answers lie in many files.

    columns: gives, for a score table, the columns that `tables` needs of its prepared rows (studies.rows.prepared).
    tables: makes all tables of the prepared rows of every file (see tomserve.studies.counting), of the rules of all of
    them, and of the way to count. They are those that Study.tables makes of the same rows.
    """

    columns: Callable[[pl.LazyFrame], Sequence[str]]
    tables: Callable[[Rows, Kinds, str], Mapping[str, pl.DataFrame]]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study of the analysis room. Only `name` and `tables` have to be given.

    A mistake in a field raises ConfigError, which names the field, when the study is made.
    """

    name: str
    """What the study is called in the report."""

    tables: Callable[[pl.LazyFrame, str], Mapping[str, pl.DataFrame]]
    """Makes all tables, by name, from a score table (a row for each answer) and one of `intervals`."""

    required: tuple[str, ...] = REQUIRED
    """Columns of the score table without which the study cannot be computed."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For columns of text the values that they may hold. Another value is refused with a message that names its
    item."""

    intervals: tuple[str, ...] = ("recommended", "published")
    """Ways to count, the default first; `--intervals` chooses one."""

    notes: Callable[[str], Mapping[str, str]] = _nothing_said
    """Gives, for one of `intervals`, what a reader must know of each table, by the table's name."""

    warnings: Callable[[Tables], Sequence[str]] = _no_doubts
    """Gives a line for each reason to doubt the numbers of these tables."""

    summary: Callable[[Tables], Sequence[Excerpt]] = _whole
    """What the terminal prints of the tables; all of them unless the study says otherwise."""

    layouts: Mapping[str, Layout] = field(default_factory=dict)
    """How a table is laid out in LaTeX, by its name; a table without a layout is printed as it stands."""

    figures: Callable[[Tables, Context], Sequence[Figure]] | None = None
    """Makes the figures of the report. Without it the report draws what can be drawn of any tables: accuracy by
    strategy and by each column of few values, and paired effects."""

    verdicts: Callable[[Tables, Context], Sequence[Verdict]] = overall
    """Makes the verdicts that the report begins with, one for each model. Without it they say how much each strategy
    has right and, where there is a table `prompting_effects`, whether reasoning helps."""

    chance: Callable[[Iterable[Asked]], Chance] = by_choices
    """Computes what a guesser gets right of the asked items, each of which is given once, in any order. Without it the
    guesser picks one of the offered choices blindly."""

    versions: Versions | None = None
    """How the versions of a question are found, so that the report can set them beside the original."""

    strata: tuple[str, ...] = ()
    """Factors over whose values the questions are spread that a report shows where it cannot show all of them."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Factors by which a reader of the report filters the answers, in order, each with its name on the page. Without
    them the report offers the first factors that vary."""

    variants: bool = False
    """Whether the study counts variants of questions (see tomserve.variants), beside their originals; any other is
    given the originals alone."""

    across: bool = False
    """Whether the study sets several benchmarks that one model was asked side by side; any other refuses them, since
    its tables would count them as one."""

    answers: bool = True
    """Whether the study counts a model's answers. If not, it reads the table of a measurement, which has rows of its
    own kind (see tomserve.runs.measurement); such a study is given that table as it was stored, and nothing that only
    answers have, such as chance, the noise floor or failures, is reported beside it."""

    together: bool = False
    """Whether the study reads answers and measurements in one table, such as a run that was asked and one that was
    measured. A row of a measurement has a `kind`, and that of an answer has none (see tomserve.studies.together);
    either sort may be missing. `required` is then about the rows of answers, and `columns` about those of measurements.
    Any other study is given one sort of rows."""

    columns: Mapping[str, pl.DataType | type[pl.DataType]] = field(default_factory=dict)
    """For a study of measurements: the columns that its table has to have, with their types. A table that has others
    besides is read without these; one that lacks some, or holds values that do not fit, is refused."""

    counted: Counted | None = None
    """How its tables are counted file by file. Without it the columns that the study reads have to fit into memory."""

    path: Path | None = None
    """The file it was loaded from, set by load_study; an error in a study's function then names file and line."""

    def __post_init__(self) -> None:
        for name in ("tables", "notes", "warnings", "summary", "verdicts", "chance", "figures"):
            value = getattr(self, name)
            if not callable(value) and not (name == "figures" and value is None):
                raise ConfigError(f"Study.{name}: {value!r} is not a function")
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(f"Study.name: {self.name!r}; expected the study's name as text")
        for name in ("required", "intervals", "strata"):
            _check_names(name, getattr(self, name))
        if not self.intervals:
            raise ConfigError("Study.intervals: is empty; name at least one way to count, or leave it out")
        for name in ("answers", "together"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"Study.{name}: {getattr(self, name)!r}; expected True or False")
        for name in ("values", "layouts", "labels", "columns"):
            if not isinstance(getattr(self, name), Mapping):
                raise ConfigError(f"Study.{name}: {getattr(self, name)!r}; expected a mapping by name")
        if self.versions is not None and not isinstance(self.versions, Versions):
            raise ConfigError(f"Study.versions: {self.versions!r}; expected Versions(...)")
        for column, known in self.values.items():
            _check_names(f"values[{column!r}]", known)
        for table, layout in self.layouts.items():
            if not isinstance(layout, Layout):
                raise ConfigError(f"Study.layouts[{table!r}]: {layout!r}; expected a Layout")
        self._check_columns()

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
            object.__setattr__(self, "required", tuple(self.columns))
        if not self.answers and not self.required:
            raise ConfigError("Study.columns: is empty; a study of measurements names the columns of its table")


FIELDS = tuple(one.name for one in fields(Study) if one.name != "path")
"""The names of what a study may declare."""


def _check_names(name: str, value: object) -> None:
    if not isinstance(value, tuple | list) or not all(isinstance(one, str) for one in value):
        raise ConfigError(f"Study.{name}: {value!r}; expected a tuple of names")
