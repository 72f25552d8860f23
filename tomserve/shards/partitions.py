"""Score tables that lie in several files: of the parts of an evaluation, or of a folder or pattern of Parquet files.

Nothing is read before a row is needed: `Partitions.scan` gives a lazy table, from which Polars reads the columns and
the files that are asked for.

>>> found = of_parts(Path("runs/mine.parts"), range(4))                                          # doctest: +SKIP
>>> found.scan().select("correct").mean().collect()                                              # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tomserve.content import files
from tomserve.content.paths import PARTS_ENDING
from tomserve.errors import ConfigError
from tomserve.runs import runfolder
from tomserve.runs.runfolder import run_path
from tomserve.scoring.table import COLUMNS, check_columns, read_table
from tomserve.shards.record import FILE, MOST, Shards, part_folder
from tomserve.status import known

_PATTERN = frozenset("*?[")
"""Letters that make a name a pattern."""

PARQUET = ".parquet"


@dataclass(frozen=True)
class Partitions:
    """The score tables of one source.

    source: what the user gave, or the folder that it names. files: the tables, in order; each has rows. folder: that of
    the parts of an evaluation, None for other files. run: what the rows' runs are called instead of what they say, so
    that parts count as the whole that they are parts of; None where every row keeps its run.
    """

    source: str
    files: tuple[Path, ...]
    folder: Path | None = None
    run: str | None = None

    def scan(self, chosen: Iterable[Path] | None = None) -> pl.LazyFrame:
        """The rows of all these tables, or of the `chosen` ones, under the union of their columns.

        A column that a table lacks is empty in its rows, and one whose values are of kinds that have nothing in common
        is text, as in tomserve.studies.combining. Raises ConfigError by file for what is no score table.
        """
        kinds = self.kinds()
        tables = [self._one(path, kinds) for path in (self.files if chosen is None else chosen)]
        return tables[0] if len(tables) == 1 else pl.concat(tables, how="vertical")

    def kinds(self) -> dict[str, pl.DataType]:
        """The columns of the union with their types: those of every score table first, then the others as they come.

        Raises ConfigError by file for what is no score table.
        """
        found: dict[str, list[pl.DataType]] = {}
        for path in self.files:
            for name, kind in _table(path).collect_schema().items():
                found.setdefault(name, []).append(kind)
        first = [name for name in COLUMNS if name in found]
        return {name: _common(found[name]) for name in (*first, *(name for name in found if name not in COLUMNS))}

    def bytes(self) -> int:
        """How large the files are together."""
        return sum(path.stat().st_size for path in self.files)

    def _one(self, path: Path, kinds: dict[str, pl.DataType]) -> pl.LazyFrame:
        table = _table(path)
        there = table.collect_schema()
        columns = [
            (pl.col(name) if name in there else pl.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()
        ]
        named = [pl.lit(self.run).alias("run")] if self.run is not None else []
        return table.select(columns).with_columns(named)


def of_files(given: str) -> Partitions | None:
    """The score tables that lie in a folder, or fit a pattern; None where the name is that of a run or of one table.

    given: the path of a folder that holds Parquet files and no run, or a pattern such as ``tables/*.parquet``. Raises
    ConfigError where nothing is there to read.
    """
    path = Path(given).expanduser()
    if given.endswith(PARQUET) and _PATTERN & set(given) and not path.exists():
        at = next(place for place, part in enumerate(path.parts) if _PATTERN & set(part))
        below = Path(*path.parts[:at]) if at else Path()
        return _of_files(given, sorted(below.glob(str(Path(*path.parts[at:])))), f"no file fits {given}")
    if path.is_dir() and not (path / "manifest.json").exists() and not _names_run(given):
        found = sorted(path.glob(f"*{PARQUET}"))
        return _of_files(str(path), found, "") if found else None
    return None


def _names_run(given: str) -> bool:
    """Whether this is the name of a run, which comes before a folder of the same name in the working directory."""
    try:
        return (run_path(given) / "manifest.json").exists()
    except ConfigError:
        return False


def parts_folder(given: str) -> Path | None:
    """The folder of the parts of an evaluation that is named by its own name or path; None for everything else."""
    for path in (Path(given).expanduser(), run_path(given) if given.endswith(PARTS_ENDING) else None):
        if path is not None and (path / FILE).is_file():
            return path
    return None


def of_parts(folder: Path, numbers: Iterable[int]) -> Partitions:
    """The score tables of parts of an evaluation, whose rows count as those of the whole run.

    folder: that of the parts. numbers: of those that are scored (see tomserve.shards.scoring). Raises ConfigError where
    none of them holds an answer.
    """
    shards = Shards.read(folder)
    there = tuple(path for number in numbers if _rows(path := part_folder(folder, number) / runfolder.TABLE))
    if not there:
        raise ConfigError(
            f"{folder}: nothing was answered yet; `tomserve work {folder.name.removesuffix(PARTS_ENDING)}` asks"
        )
    return Partitions(str(folder), there, folder, shards.run)


def _of_files(source: str, paths: Sequence[Path], none: str) -> Partitions:
    if not paths:
        raise ConfigError(f"{none}; expected the names of Parquet files with score tables")
    if len(paths) > MOST:
        raise ConfigError(f"{source}: {len(paths):,} files; at most {MOST:,} tables are read together; join some")
    for path in paths:
        files.check_regular(path)
    there = tuple(path for path in paths if _rows(path))
    if not there:
        raise ConfigError(f"{source}: none of its {len(paths)} tables holds a row")
    return Partitions(source, there)


def _rows(path: Path) -> int:
    """How many rows a Parquet file holds, as its end says. Raises ConfigError where it is none."""
    try:
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise ConfigError(f"{path}: not a parquet table ({reason})") from None


def _table(path: Path) -> pl.LazyFrame:
    """One score table with its known columns of their types.

    A table that tomserve wrote is read lazily. Another one, whose values have to be looked at first, is read as a whole
    (tomserve.scoring.table.read_table), which raises ConfigError for what does not fit.
    """
    table = pl.scan_parquet(path, glob=False)
    try:
        schema = table.collect_schema()
        plain = all(schema[name] == kind for name, kind in COLUMNS.items() if name in schema)
        if plain and "status" in schema:
            statuses = table.select(pl.col("status").unique()).collect(engine="streaming")["status"].drop_nulls()
            plain = all(map(known, statuses))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ConfigError(f"{path}: not a parquet table ({' '.join(str(error).split())[:120]})") from None
    labels = any(kind in (pl.Categorical, pl.Enum) for kind in schema.values())
    if not plain or labels or not set(COLUMNS) & set(schema):
        return read_table(str(path)).lazy()
    check_columns(pl.DataFrame(schema=schema), str(path))
    return table


def _common(kinds: Sequence[pl.DataType]) -> pl.DataType:
    """One type for the values of a column that has these types in several tables."""
    some = list(dict.fromkeys(kind for kind in kinds if kind != pl.Null)) or [pl.Null()]
    if len(some) == 1:
        return some[0]
    if all(kind.is_numeric() for kind in some):
        return pl.Int64() if all(kind.is_integer() for kind in some) else pl.Float64()
    return pl.String()
