"""The score table: made from items and responses, and read and written as Parquet, JSONL or CSV.

A table has one row for each item, strategy and model, and is the same to the byte every time. Rows are scored in the
order of their items and written in parts, so that a million of them need no more memory than a few thousand. What a
benchmark adds is handed in as rules (see tomserve.scoring.metrics); tomserve.runs.scores knows the files of a run.
"""

from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path
from typing import Literal

import orjson
import polars as pl

from tomserve.content import files, output_path
from tomserve.content.rows import check_head, check_lines
from tomserve.errors import ConfigError
from tomserve.scoring import score
from tomserve.scoring.grades import GRADED, GraderChoices
from tomserve.scoring.metrics import ScoringLookup, plain_scoring
from tomserve.scoring.parallel import ScoringWork, score_parts
from tomserve.scoring.responses import ItemFile, NoiseFile, ResponseFile
from tomserve.scoring.score import PEOPLE, SAMPLED, TableSpec, build_frame
from tomserve.status import KNOWN, inert, known, unknown

TABLES = (".parquet", ".jsonl", ".csv")  # the suffixes of files that can hold a score table
PART = 10_000  # how many rows are scored before they are written
Note = Callable[[str], None]  # a function that is told, in one line, what could not be read


def gold_column(columns: Collection[str]) -> pl.Expr | None:
    """Which set of right answers counted, as an expression over a score table with these columns. It is the factor
    `gold` or, for generated items, "tracked:" with their factor `semantics`; None without either."""
    named = [pl.col("gold").cast(pl.String)] if "gold" in columns else []
    if "semantics" in columns:
        named.append(pl.lit("tracked:") + pl.col("semantics").cast(pl.String))
    return pl.coalesce(named).alias("gold") if named else None


def write_score_table(
    items: ItemFile,
    responses: ResponseFile,
    path: Path,
    *,
    run: str,
    chains: Collection[str] = (),
    lettered: Collection[str] = (),
    noise: NoiseFile | None = None,
    rules: ScoringLookup = plain_scoring,
    reader: GraderChoices | None = None,
) -> None:
    """Score every response into a Parquet file, part by part. chains: the strategies that ask for a chain of beliefs;
    there a missing chain scores 0, elsewhere it is null. lettered: those that show the choices as A, B, C. rules: what
    the benchmarks add. reader: the choices of a model that has read what the rules could not. Raises ConfigError or
    ContentError where a metric of a benchmark fails, OSError where the file cannot be written."""
    partly, people = responses.foreign and len(responses.places) < len(items.ids), responses.of_people
    answers = {**(SAMPLED if responses.sampled or people else {}), **(PEOPLE if people else {})}
    answers |= GRADED if responses.graded else {}
    spec = TableSpec.of(
        run,
        items.factors,
        items.benchmarks,
        rules,
        answers,
        original=items.original if items.varied else None,
        given=len(items.ids) if partly else None,
        chains=chains,
        lettered=lettered,
        reader=reader,
    )
    if noise is not None:
        for compared in (responses, noise):
            compared.key_by_first_turn(noise.places)
    work = ScoringWork(items, responses, responses.sort_rows(), spec, noise)
    ends = (work.order["question"] // PART).rle().struct.field("len").cum_sum().to_list()
    parts = [work.order[start:end] for start, end in pairwise((0, *ends))]
    try:
        if len(parts) <= 1:
            work.frame(work.order).write_parquet(path)
            return
        with files.temporary_folder(path.parent) as scratch:
            done = score_parts(work, scratch, parts)
            files.scan_parquet(*done).sink_parquet(path, row_group_size=PART, maintain_order=True)
    except pl.exceptions.ComputeError as error:  # a full disk
        raise OSError(f"{path}: cannot be written ({' '.join(str(error).split())[:120]})") from error


def report_problems(note: Note | None, *files: ResponseFile | None) -> None:
    """Say in one line for each file which of its lines could not be read; say nothing where all of them could."""
    for file in files:
        if note is not None and file is not None and file.problems:
            note(str(file.problems))


def empty_table(run: str) -> pl.DataFrame:
    """The score table of a run in which nothing was answered."""
    return build_frame((), TableSpec.of(run, {}, (), plain_scoring, {}, chains=(), lettered=()))


def status_column(frame: pl.DataFrame, path: str) -> pl.Series:
    """The column `status` of a table that came from `path`, with unknown statuses made safe to print. Raises
    ConfigError where the column does not hold text."""
    column = frame["status"]
    if column.dtype not in (pl.String, pl.Null):
        raise ConfigError(f"{path}: column 'status' is {column.dtype}; expected text: {KNOWN}")
    column = column.cast(pl.String)
    strange = [status for status in column.unique().drop_nulls() if not known(status)]
    return column.replace(strange, [inert(status) for status in strange]) if strange else column


def unknown_statuses(scores: pl.DataFrame) -> str | None:
    """One sentence about the statuses of a score table that are unknown here and so count as failures, or None."""
    if "status" not in scores.columns:
        return None
    return unknown(scores["status"].drop_nulls().value_counts().iter_rows())


def check_status(scores: pl.DataFrame) -> None:
    """Raise ConfigError where a status is empty or no text. Any other value is an outcome."""
    if scores.schema["status"] not in (pl.String, pl.Categorical, pl.Enum):
        raise ConfigError(f"score table: column 'status' is {scores.schema['status']}; expected text: {KNOWN}")
    empty = scores.filter(pl.col("status").cast(pl.String).fill_null("") == "")
    if empty.height:
        raise ConfigError(f"score table: item {empty['item'][0]!r}: status is empty; expected one of {KNOWN}")


COLUMNS = {**score.COLUMNS, **SAMPLED, **PEOPLE, **GRADED, **score.PARTIAL}
"""The columns of every score table, those of one whose questions were asked several times, those of one whose replies
another tool graded, and that of one in which another tool answered some of the questions."""

MEASURED: Literal["measured"] = "measured"
"""The kind of a run that holds a table that was measured inside of a model, and no answers."""


UNREAD = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What polars raises for a file that it cannot read; the last for one that was damaged with care."""


def read_table(source: str) -> pl.DataFrame:
    """The score table in a .parquet, .jsonl or .csv file. Raises ConfigError where the file holds none."""
    path = Path(source).expanduser()
    if not path.is_file():
        raise ConfigError(f"{path}: no such file" if not path.exists() else f"{path}: is no file")
    try:
        if path.suffix == ".parquet":
            frame = files.read_foreign_parquet(path)
        elif path.suffix == ".jsonl":
            check_lines(path)
            frame = pl.read_ndjson(path, infer_schema_length=None)
        else:
            check_head(path)
            text = {
                name: pl.String for name, kind in COLUMNS.items() if kind == pl.Boolean or isinstance(kind, pl.List)
            }
            frame = pl.read_csv(path, infer_schema_length=0, schema_overrides={**COLUMNS, **text}, glob=False)
            check_columns(frame, str(path))
            frame = pl.DataFrame([one if one.name in COLUMNS else _guess(one) for one in frame.iter_columns()])
    except UNREAD as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise ConfigError(f"{path}: not a {path.suffix[1:]} table ({reason})") from None
    return cast_columns(frame, str(path))


_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"


def _guess(text: pl.Series) -> pl.Series:
    """A column of a CSV file as numbers, or true and false, where no two of its texts become one, nor any another: of
    the codes 1, 01 and 1e0 none is a number."""
    there = text.drop_nulls()
    if there.is_empty():
        return text
    if there.is_in(["true", "false"]).all():
        return text == "true"
    for kind in (pl.Int64, pl.Float64):
        found = there.cast(kind, strict=False)
        if found.null_count() or not found.is_finite().all():
            continue
        plain = there.str.contains(_NUMBER).all() and found.n_unique() == there.n_unique()
        if plain or (found.cast(pl.String) == there).all():
            return text.cast(kind)
    return text


def cast_columns(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    """A score table with its known columns first, in order and of their types; true and false may also be texts, or 1
    and 0. Raises ConfigError by file, column and value for what does not fit."""
    known = [name for name in COLUMNS if name in frame.columns]  # JSON lines may have their fields in any order
    if not known:
        shown = ", ".join(frame.columns[:8]) or "none"
        raise ConfigError(
            f"{path}: not a score table: found columns {shown[:200]}; expected model, strategy, item, status, correct "
            "and the study's factors (CSV: separated by commas)"
        )
    if frame.is_empty():
        raise ConfigError(f"{path}: holds no rows")
    check_columns(frame, path)
    labels = [name for name, kind in frame.schema.items() if kind in (pl.Categorical, pl.Enum)]
    frame = frame.with_columns(pl.col(name).cast(pl.String) for name in labels)
    for name in known:
        kind = COLUMNS[name]
        if kind == pl.Boolean:
            frame = frame.with_columns(_truth(frame, name, path))
            continue
        if name == "status":
            frame = frame.with_columns(status_column(frame, path))
            continue
        column = (
            pl.col(name).str.json_decode(kind) if isinstance(kind, pl.List) and path.endswith(".csv") else pl.col(name)
        )
        try:
            frame = frame.with_columns(column.cast(kind))
        except pl.exceptions.PolarsError:
            found = frame.schema[name]
            raise ConfigError(f"{path}: column {name!r} is {found} and cannot be read as {kind}") from None
    # What NumPy writes for a number that is missing, and what is no number either, would be counted as one.
    frame = frame.with_columns(pl.when(one.is_finite()).then(one) for one in [pl.col(pl.Float32, pl.Float64)])
    return frame.select(*known, pl.exclude(*known))


LONGEST_NAME = 200  # most characters of the name of a column

UNREADABLE = (pl.Binary, pl.Struct, pl.Object, pl.Array, pl.Duration, pl.Time)
"""Types that no column of tomserve has and that can be neither counted nor shown."""


def check_columns(frame: pl.DataFrame, path: str) -> None:
    """Raise ConfigError by file and column for a table, whoever made it, whose columns could not be chosen by name, or
    hold what cannot be shown."""
    for name, kind in frame.schema.items():
        pattern = name == "*" or (name.startswith("^") and name.endswith("$"))  # where columns are chosen, any of them
        if not name or pattern or len(name) > LONGEST_NAME or not name.isprintable():
            raise ConfigError(
                f"{path}: a column is called {name[:60]!r}; expected 1 to {LONGEST_NAME} printable characters, and no "
                "pattern such as '*' or '^...$'; rename it"
            )
        if isinstance(kind, UNREADABLE):
            raise ConfigError(f"{path}: column {name!r} is {kind!s:.80}; expected texts, numbers or true and false")


_TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def _truth(frame: pl.DataFrame, name: str, path: str) -> pl.Series:
    """A column as true, false or null. Raises ConfigError by item for a value that is none of these, 1 or 0."""
    column = frame[name]
    if column.dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Boolean)
    if column.dtype.is_float():
        column = column.fill_nan(None)
    try:
        text = column.cast(pl.String).str.to_lowercase()
    except pl.exceptions.PolarsError:
        raise ConfigError(f"{path}: column {name!r} is {column.dtype} and cannot be read as {pl.Boolean}") from None
    found = text.replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean).alias(name)
    strange = text.is_not_null() & (text != "") & found.is_null()
    if strange.any():
        at = int(strange.arg_max() or 0)
        item = frame["item"][at] if "item" in frame.columns else at + 1
        raise ConfigError(f"{path}: item {item!r}: {name} is {frame[name][at]!r:.80}; expected true or false (or 1, 0)")
    return found


def write_scores(scores: pl.DataFrame, path: Path) -> None:
    """Write a score table in the format of the path's suffix: .parquet, .jsonl or .csv (with lists as JSON text).
    Raises ConfigError for another suffix, and where the file cannot be written."""
    lists = [name for name, kind in scores.schema.items() if isinstance(kind, pl.List)]
    as_text = (
        pl.col(name).map_elements(lambda values: orjson.dumps(values.to_list()).decode(), pl.String) for name in lists
    )
    if path.suffix not in TABLES:
        raise ConfigError(f"{path}: unknown kind of table; known: {', '.join(TABLES)}")
    try:
        with output_path.open_output(path) as file:
            if path.suffix == ".parquet":
                scores.write_parquet(file.name)
            elif path.suffix == ".jsonl":
                scores.write_ndjson(file.name)
            else:  # for programs and not for spreadsheets: nothing is escaped, so that it reads back as it was
                scores.with_columns(as_text).write_csv(file.name)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise ConfigError(f"{path}: cannot be written ({reason})") from None
