"""Computes a study of answers that lie in many files, more of them than fit into memory.

Where the study can be counted file by file (Study.counted), and no question of a model has rows in two files, only one
file and the sums of all clusters are in memory. Otherwise the columns that the study reads are loaded, which is said
before it begins, and refused where they cannot fit. Both ways give the tables of tomserve.studies.analysis.compute.

>>> row = {"model": "m", "strategy": "s", "status": "ok", "correct": True}
>>> files = [pl.LazyFrame({**row, "item": [name]}) for name in "ab"]
>>> compute_files(files, "accuracy").tables["accuracy"].select("correct", "total").rows()
[(2, 2)]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from tomserve.benchmarks import Benchmark
from tomserve.errors import MachineError
from tomserve.scoring.score import PEOPLE
from tomserve.studies import analysis, baselines, noise, spreading
from tomserve.studies import by as factors
from tomserve.studies.analysis import Analysis
from tomserve.studies.checking import KEY, check
from tomserve.studies.counting import Rows
from tomserve.studies.loading import default_study, load_study, measured_studies
from tomserve.studies.rows import ORIGINAL, prepared
from tomserve.studies.study import Study

LOADED = 4.5
"""How many times the memory of all columns a study takes that is computed from rows, as was measured of several."""

TOLD = 2e9
"""From so many bytes on it is said how much memory a study takes."""

_WIDTHS: dict[type[pl.DataType], float] = {pl.Boolean: 0.25, pl.Float64: 8, pl.Int64: 8, pl.List: 8, pl.Null: 0}
"""Bytes of a value in memory; a text takes 16 and, where it is long and no other has it, as many more."""

Note = Callable[[str], None]


@dataclass(frozen=True)
class Facts:
    """What has to be known of tables in many files before anything is counted.

    rows: of all of them. disjoint: whether every question of a model lies in one file with all its answers, so that the
    files can be counted one after the other. variants, people: whether some questions are variants of others, or were
    answered by people.
    """

    rows: int
    disjoint: bool
    variants: bool
    people: bool

    @property
    def countable(self) -> bool:
        """Whether a study that can be counted file by file can be so here."""
        return self.disjoint and not self.variants and not self.people


def compute_files(
    tables: Sequence[pl.LazyFrame],
    study: Study | str | None = None,
    intervals: str | None = None,
    by: Sequence[str] = (),
    *,
    named: str | None = None,
    note: Note | None = None,
) -> Analysis:
    """What tomserve.studies.compute says of all rows of these tables, each of which fits into memory by itself.

    tables: score tables with the same columns (see tomserve.distributed.shards). study, intervals, by, named: as for
    `compute`. note: told in a sentence how much memory the study takes, where it takes more than one file. Raises what
    `compute` raises, and MachineError where the memory of this machine cannot hold what the study needs.
    """
    sample = _sample(tables)
    if measured_studies(sample.clear()) or "strategy" not in sample.columns:
        return analysis.compute(pl.concat(tables), study, intervals, by, named=named)
    chosen = study if isinstance(study, Study) else load_study(study or named or default_study(sample))
    facts = _facts(tables, chosen)
    if chosen.counted is None or not facts.countable:
        _tell_memory(tables, facts, chosen, note)
    if not facts.countable or chosen.together or not chosen.answers:
        return analysis.compute(pl.concat(tables), study, intervals, by, named=named)
    return _one_by_one(tables, chosen, intervals, by, by_default=study is None and intervals is None and not by)


def _sample(tables: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """The columns of the tables, with a row for each of their benchmarks."""
    schema = tables[0].collect_schema()
    empty = pl.DataFrame(schema=schema)
    if "benchmark" not in schema:
        return empty
    found = [table.select(pl.col("benchmark").unique()).collect(engine="streaming") for table in tables]
    return pl.concat([empty, pl.concat(found).unique().sort("benchmark")], how="diagonal_relaxed")


def _facts(tables: Sequence[pl.LazyFrame], study: Study) -> Facts:
    """Check the tables one after the other, and see what they hold. Raises ConfigError as `check` does."""
    there = tables[0].collect_schema().names()
    wanted = dict.fromkeys((*KEY, *study.required, *study.values, "benchmark", ORIGINAL, *PEOPLE))
    names = [name for name in wanted if name in there]
    rows, variants, people = 0, False, False
    questions: list[pl.Series] = []
    runs: set[tuple[object, ...]] = set()
    for table in tables:
        part = table.select(names).collect(engine="streaming")
        check(part, study.required, study.values, study.across)
        rows += part.height
        variants = variants or (ORIGINAL in names and bool(part[ORIGINAL].is_not_null().any()))
        people = people or (next(iter(PEOPLE)) in names and bool((part[next(iter(PEOPLE))].list.len() > 0).any()))
        once = part.select("model", "item").unique()
        questions.append(once.select(pl.struct("model", "item").hash().alias("hash"))["hash"])
        told = [name for name in ("model", "run", "benchmark") if name in names]
        runs |= set(part.select(told).unique().iter_rows())
    hashes = pl.concat(questions)
    alone = len({row[0] for row in runs}) == len(runs)  # one run of one benchmark for each model
    return Facts(rows, alone and not hashes.is_duplicated().any(), variants, people)


def _one_by_one(
    tables: Sequence[pl.LazyFrame], study: Study, intervals: str | None, by: Sequence[str], *, by_default: bool
) -> Analysis:
    """The tables of a study, with all that `compute` puts beside them: counted file by file or, where the study cannot
    be counted so, from those columns of all files that it reads."""
    every = pl.concat(tables)
    chosen, kinds, said = analysis.way_of(study, intervals), baselines.Kinds.of(every), _noise(every)

    def make() -> Mapping[str, pl.DataFrame]:
        if (way := study.counted) is None:
            return study.tables(every, chosen)
        columns = way.columns(every)

        def rows() -> Iterable[pl.DataFrame]:
            return (prepared(table, columns).collect(engine="streaming") for table in tables)

        return way.tables(rows, kinds, chosen)

    made = analysis.guarded(study, lambda: noise.with_noise(make(), said))
    notes, warnings = {**study.notes(chosen)}, baselines.said_of(study.warnings(made), kinds.columns)
    found = analysis.noted(study, chosen, (made, notes, warnings), by_default)
    if not by:
        names = _factors(tables) if study.name == Benchmark.study else []
        spread = spreading.spread_of(_rows_of(tables, names, baselines.Kinds({})), names) if names else []
        return replace(found, warnings=(*found.warnings, *spread))
    wanted = factors.wanted(by, _values(tables, by))
    needed = [name for one in wanted for name in one]
    guess = factors.GUESS in every.collect_schema()
    more = factors.counted(_rows_of(tables, needed, kinds), wanted, chosen, kinds, guess=guess, taken=found.tables)
    return analysis.with_tables(found, noise.with_noise(more, said), _left_out(tables, wanted))


def _rows_of(tables: Sequence[pl.LazyFrame], names: Sequence[str], kinds: baselines.Kinds) -> Rows:
    return lambda: (factors.rows_of(table, names, kinds) for table in tables)


def _noise(every: pl.LazyFrame) -> pl.DataFrame:
    """The rows that a noise check asked again, and one without a check for each model and strategy."""
    there = every.collect_schema().names()
    arms = every.select("model", "strategy").unique().collect(engine="streaming").sort("model", "strategy")
    lists = [name for name in noise.LISTS if name in there]
    if not lists:
        return arms
    names = [name for name in ("model", "strategy", "chain", "correct", *lists) if name in there]
    known = every.select(names).filter(pl.any_horizontal(pl.col(name).list.len() > 0 for name in lists))
    return pl.concat([known.collect(engine="streaming"), arms], how="diagonal_relaxed")


def _values(tables: Sequence[pl.LazyFrame], by: Sequence[str]) -> pl.DataFrame:
    """A table with the columns of the tables, in which each combination of values of the factors `by` stands once."""
    schema = tables[0].collect_schema()
    asked = {*by, *(name.strip() for text in by for name in text.split(","))}
    names = [name for name in schema if name in asked or name == factors.ITEMS]
    found = [table.select(names).unique().collect(engine="streaming") for table in tables]
    return pl.concat([pl.DataFrame(schema=schema), pl.concat(found).unique()], how="diagonal_relaxed")


def _factors(tables: Sequence[pl.LazyFrame]) -> list[str]:
    """The factors that have several values, and few enough to be set side by side."""
    known = factors.factors(_values(tables, ()))
    values: dict[str, set[object]] = {name: set() for name in known}
    for table in tables:
        part = table.select(list(values)).collect(engine="streaming")
        for name in part.columns:
            values[name] |= set(part[name].drop_nulls().unique())
            if len(values[name]) > factors.MOST:
                del values[name]
    return [name for name, found in values.items() if len(found) > 1]


def _left_out(tables: Sequence[pl.LazyFrame], by: Sequence[factors.By]) -> list[str]:
    """What factors.left_out says of all the tables."""
    found = []
    every = _questions(tables, ())
    for one in by:
        if without := every - _questions(tables, one):
            found.append(factors.left_out_line(one, without, every))
    return found


def _questions(tables: Sequence[pl.LazyFrame], having: Sequence[str]) -> int:
    """How many questions there are that have a value of all these factors."""
    names = dict.fromkeys(("item", *having))
    each = [
        table.select(*names).drop_nulls(list(having) or ["item"]).select(pl.col("item").unique().hash())
        for table in tables
    ]
    return pl.concat([one.collect(engine="streaming") for one in each])["item"].n_unique()


def _tell_memory(tables: Sequence[pl.LazyFrame], facts: Facts, study: Study, note: Note | None) -> None:
    """Say how much memory a study takes that is computed from rows. Raises MachineError where there is not as much."""
    needed = memory_needed(tables[0].collect_schema(), facts.rows) * LOADED
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    said = f"the study {study.name!r} takes about {needed / 1e9:,.1f} GB of memory for {facts.rows:,} answers"
    why = "it is computed from rows" if study.counted is None else _why(facts)
    if needed > there:
        raise MachineError(
            f"{said}, since {why}, and this machine has {there / 1e9:,.1f} GB; analyze fewer files at a time, use a "
            f"machine with more memory, or choose --study {Benchmark.study}, which is counted file by file"
        )
    if needed > TOLD and note is not None:
        note(f"{said}, since {why}")


def _why(facts: Facts) -> str:
    if facts.people:
        return "people answered some of the questions"
    if facts.variants:
        return "some questions are variants of others"
    return "some questions, or several runs of one model, have answers in more than one file"


def memory_needed(schema: pl.Schema, rows: int) -> float:
    """About how many bytes so many rows of these columns take in memory; lists count as if most were empty."""
    return float(rows * sum(_WIDTHS.get(type(kind), 16) for kind in schema.values()))
