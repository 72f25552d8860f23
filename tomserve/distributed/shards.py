"""The shards of an evaluation: the record ``shards.json``, how far each shard is, and the score tables of all.

The record lies in the folder of the shards, by default ``runs/NAME.parts/``, and never changes. Shard 3 is the run
folder ``runs/NAME.parts/0003/``, in which ``items.jsonl`` holds its questions from the beginning.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import orjson
import polars as pl
import pydantic

from tomserve.content import digest_of, files
from tomserve.content.paths import PARTS_ENDING, run_name
from tomserve.content.validation import CODE, Name, RunName, Strict, check_part, read_record, strategy_name
from tomserve.errors import ConfigError, ContentError
from tomserve.runs import progress, runfolder
from tomserve.runs.manifest import AskedStrategy, Manifest, VariantsRecord, check_strategy_names
from tomserve.runs.planning import EvalOptions, RecordedOptions
from tomserve.runs.progress import Progress
from tomserve.runs.runfolder import PARTS, run_path
from tomserve.runs.scores import export_scores, load_scored_run
from tomserve.scoring.table import COLUMNS, UNREAD, Note, check_columns, read_table
from tomserve.serving.endpoint import Target
from tomserve.status import ANSWERS, FINAL, known


class ShardOptions(RecordedOptions):
    """What the parts of an evaluation ask. Files of items and folders of weights are given by their whole paths, so
    that a part can be asked from any folder; programs and prompts by their names."""

    noise_check: Annotated[float, pydantic.Field(gt=0, le=1)] | None = None

    @classmethod
    def of(cls, options: EvalOptions, benchmark: str, target: Target, key: str | None) -> ShardOptions:
        """What these options want. benchmark: its name. target: the model that they lead to. key: the name of the
        variable that holds the API key. Raises ConfigError for the file of a preset."""
        own = ("model", "base_url", "key", "benchmark", "path", "strategy")
        same = {name: getattr(options, name) for name in cls.model_fields if name not in own}
        return cls(
            model=_model(options, target),
            base_url=tuple(target.endpoints) if options.base_urls else (),
            key=key,
            benchmark=benchmark,
            path=None if options.path is None else os.path.abspath(options.path),
            strategy=tuple(map(strategy_name, options.strategies)),
            **same,
        )

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _model(options: EvalOptions, target: Target) -> str:
    """The model as it is to be named wherever a part is asked, also where nothing serves it yet."""
    name = target.starts if target.embedded else options.model or target.model
    if name.endswith(CODE):
        raise ConfigError(
            f"--model {name}: parts name no file of a preset; put it into launch/models/ of a content folder, and give "
            "its name and --content DIR"
        )
    folder = Path(name).expanduser()
    return str(folder.resolve()) if "/" in name and folder.is_dir() else name


FILE = PARTS  # the name of the record in the folder of the parts
ITEMS = "items.jsonl"  # the name of the file in the folder of a part that holds its questions from the beginning
MOST = 10_000  # how many parts an evaluation may have. Their folders have names of four digits.

EXPECTED = 4
"""A reply is expected to take one in so many of the tokens that it may have, as bounds are set so that hardly any reply
is cut off."""

WAY_OUT = "restore the file, or divide the evaluation again under another name"

Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]


ASKED = (
    *("benchmark", "benchmark_path", "benchmark_gold", "benchmark_digest", "benchmark_items"),
    *("model", "revision", "preset", "sampling"),
)
"""The fields that are those of the manifest of the whole run."""


class PartRecord(Strict):
    """One part of an evaluation."""

    items: Count  # questions, variants included
    requests: Count  # first ones: for each item, strategy and sample
    prompt_tokens: Count  # about
    shared_tokens: Count  # about how many of these a prefix cache that forgets nothing would save
    reply_tokens: Count  # at most
    digest: str  # of the items, which does not depend on their order
    again: tuple[str, ...] = ()  # ids of the items that the noise check asks again

    @property
    def weight(self) -> int:
        """How much work it is, in tokens that are computed or expected in replies."""
        return self.prompt_tokens - self.shared_tokens + self.reply_tokens // EXPECTED


class Shards(Strict):
    """What an evaluation asks that is divided into parts."""

    schema_: Literal[1] = pydantic.Field(alias="schema", default=1)
    run: RunName  # the name of the run that the parts are merged into
    created: str
    tomserve: str
    experiment: dict[str, Any]  # what the user wants: the fields of ShardOptions
    benchmark: str
    benchmark_path: str | None = None
    benchmark_gold: str | None = None
    benchmark_digest: str
    benchmark_items: Count
    provenance: dict[Literal["benchmark_file"], Any] = {}  # as in the manifest, like the fields of the benchmark
    model: str
    revision: str | None = None
    preset: Name | None = None  # of the model, like its revision
    sampling: dict[str, Any]
    strategies: dict[str, AskedStrategy]
    variants: VariantsRecord | None = None  # as in the manifest, like sampling and strategies
    noise: Annotated[float, pydantic.Field(ge=0, le=1)] = 0.0  # the share of the originals that is asked again
    originals: Count = 0  # how many items are no variants
    shared_tokens: Count = 0  # as of a part, if the evaluation were not divided
    parts: Annotated[tuple[PartRecord, ...], pydantic.Field(min_length=1, max_length=MOST)]  # in the order of prompts

    _check_names = pydantic.field_validator("strategies")(check_strategy_names)

    @pydantic.field_validator("experiment")
    @classmethod
    def _check_experiment(cls, experiment: dict[str, Any]) -> dict[str, Any]:
        check_part(experiment, ShardOptions)
        return experiment

    @pydantic.model_validator(mode="after")
    def _check_asked(self) -> Self:
        check_part({"schema": 1, "strategies": {}, **self.asked}, Manifest)
        return self

    @property
    def asked(self) -> dict[str, Any]:
        """What the manifest of each part, and of the whole run, says of what is asked of which model."""
        found = {name: getattr(self, name) for name in ASKED} | self.provenance
        return {name: value for name, value in found.items() if value or name != "benchmark_gold"}

    @property
    def options(self) -> ShardOptions:
        return ShardOptions.model_validate(self.experiment)

    @property
    def digest(self) -> str:
        """The digest by which parts name the evaluation that they belong to."""
        return digest_of([self.text()])

    def text(self) -> bytes:
        try:
            held = self.model_dump(mode="json", by_alias=True)
            return orjson.dumps(held, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"
        except (TypeError, UnicodeError):  # as of a file's name
            raise ConfigError(f"{FILE}: cannot hold a name that is no UTF-8; rename the file that is given") from None

    def write(self, folder: Path) -> None:
        files.replace_bytes(folder / FILE, self.text())

    @classmethod
    def read(cls, folder: Path) -> Shards:
        """The record in a folder of parts. Raises ConfigError, by file and field, where it is missing or broken."""
        if (found := read_record(folder / FILE, cls, WAY_OUT)) is None:
            raise ConfigError(f"{folder}: holds no parts ({FILE} is missing); `tomserve shard` makes them")
        return found


def merged_folder(folder: Path) -> Path:
    """The folder of the run that parts are merged into, beside theirs, unless the user says otherwise."""
    return folder.with_name(Shards.read(folder).run.rpartition("/")[2])


def part_folder(folder: Path, number: int) -> Path:
    """The run folder of a part. number: from 0. Raises ConfigError for a link: the parts may come from somebody else,
    whose link could lead to any run of this machine."""
    path = folder / f"{number:04}"
    files.refuse_link(path)
    return path


def find_folder(given: str) -> Path:
    """The folder of the parts of an evaluation, by the name of its run, or by the folder's own name or path. ``mine``
    and ``mine.parts`` both mean ``runs/mine.parts``. Raises ConfigError for a name that no folder may have."""
    path = run_path(given)
    path = path if path.name else path.resolve()  # as of ./
    if not path.name or path.name.endswith(PARTS_ENDING) or (path / FILE).exists():
        return path
    return path.with_name(path.name + PARTS_ENDING)


def shown_name(folder: Path) -> str:
    """What commands find a folder of parts by: the name of its run, or the folder's path where it lies elsewhere."""
    name = run_name(folder).removesuffix(PARTS_ENDING)
    return name if find_folder(name).resolve() == folder.resolve() else str(folder.resolve())


State = Literal["waiting", "running", "stopped", "failures", "complete"]
"""waiting: nobody has begun to ask the part. running: a process asks it. stopped: its last session ended before
everything was asked. failures: everything was asked, and some requests failed that may be sent again. complete: every
question has its final reply."""


@dataclass(frozen=True)
class PartState:
    """How far a part is."""

    number: int  # from 0
    state: State
    done: int  # requests that have their final reply,
    total: int  # of so many; for a conversation these are only known once it is asked
    failures: int  # requests of its last session that ended in something else than an answer


def part_states(folder: Path) -> list[PartState]:
    """How far each part in a folder is. Raises ConfigError where its record, or the manifest of a part, is broken."""
    return [part_state(folder, number, part) for number, part in enumerate(Shards.read(folder).parts)]


def part_state(folder: Path, number: int, part: PartRecord) -> PartState:
    place = part_folder(folder, number)
    manifest, record = Manifest.read(place), progress.read_progress(place)
    running = record.running if record is not None else progress.is_locked(place)
    state = _state(manifest, record, part, running=running)
    # After the questions comes the noise check, whose replies are none to them.
    statuses = {} if record is None else record.before if record.phase > 1 else record.statuses
    failures = sum(n for status, n in statuses.items() if status not in ANSWERS)
    again = sum(n for status, n in statuses.items() if status not in FINAL)
    counted = record is not None and record.phase == 1 and record.total >= part.requests
    total = record.total if record is not None and counted else part.requests
    complete = manifest is not None and manifest.complete
    done = total if complete else record.done - again if record is not None and counted else 0
    return PartState(number, state, max(done, 0), total, failures)


def _state(manifest: Manifest | None, record: Progress | None, part: PartRecord, *, running: bool) -> State:
    if running:
        return "running"
    if manifest is None:
        return "waiting"
    ended = record is not None and record.ended is not None and not record.outcome
    if manifest.complete and (ended or not part.again):  # whether its noise check is done, the manifest does not say
        return "complete"
    return "failures" if ended else "stopped"


@dataclass(frozen=True)
class ScoredParts:
    """What became of the parts of an evaluation."""

    scored: tuple[int, ...]  # now
    current: tuple[int, ...]  # whose table was made from the very files that are there
    waiting: tuple[int, ...]  # that hold no answers yet
    broken: dict[int, str]  # for each part that could not be scored, the reason

    @property
    def there(self) -> tuple[int, ...]:
        return tuple(sorted((*self.scored, *self.current)))


def score_parts(folder: Path, note: Note | None = None, done: Callable[[int, int], None] | None = None) -> ScoredParts:
    """Score every part that holds answers. note: gets a sentence on each thing that could not be read. done: called
    after each part with its number and how many there are. Raises ConfigError for a broken record of the parts."""
    shards = Shards.read(folder)
    scored, current, waiting, broken = [], [], [], {}
    for number in range(len(shards.parts)):
        part = part_folder(folder, number)
        try:
            if not (part / "manifest.json").exists():
                waiting.append(number)
            elif export_scores(part):
                current.append(number)
            else:
                made = load_scored_run(part, note=note, again=True)
                if files.digest_file(part / runfolder.TABLE)[1] != made.record["table"]:
                    raise ConfigError(
                        f"{part / runfolder.TABLE}: is not what the part gives, and cannot be replaced; copy the parts"
                    )
                scored.append(number)
        except (ConfigError, OSError) as error:
            broken[number] = str(error)
        if done is not None:
            done(number, len(shards.parts))
    return ScoredParts(tuple(scored), tuple(current), tuple(waiting), broken)


_PATTERN = frozenset("*?[")  # letters that make a name a pattern

PARQUET = ".parquet"


@dataclass(frozen=True)
class Partitions:
    """The score tables of one source."""

    source: str  # what the user gave, or the folder that it names
    files: tuple[Path, ...]  # the tables, in order; each has rows
    folder: Path | None = None  # of the parts of an evaluation; None for other files
    run: str | None = None  # what the rows' runs are called instead, as parts count as the whole; None: as they say

    def scan(self, chosen: Iterable[Path] | None = None) -> pl.LazyFrame:
        """The rows of all these tables, or of the `chosen` ones, under the union of their columns.

        A column that a table lacks is empty in its rows, and one whose values have nothing in common is text. Raises
        ConfigError by file for what is no score table.
        """
        kinds = self.kinds()
        tables = [self._one(path, kinds) for path in (self.files if chosen is None else chosen)]
        return tables[0] if len(tables) == 1 else pl.concat(tables, how="vertical")

    def kinds(self) -> dict[str, pl.DataType]:
        """The columns of the union with their types, those of every score table first. Raises ConfigError by file."""
        found: dict[str, list[pl.DataType]] = {}
        for path in self.files:
            for name, kind in _table(path).collect_schema().items():
                found.setdefault(name, []).append(kind)
        first = [name for name in COLUMNS if name in found]
        return {name: _common(found[name]) for name in (*first, *(name for name in found if name not in COLUMNS))}

    @contextmanager
    def name_damaged(self) -> Iterator[None]:
        """Raises ConfigError that names the file where what is done meanwhile fails since a table is damaged: its rows
        are read only then, and whoever reads them does not know from which file. Where none is, their columns of one
        name hold what cannot be one column."""
        try:
            yield
        except (*UNREAD, ContentError) as error:
            for path in self.files:
                read_table(str(path))
            if isinstance(error, ContentError):
                raise
            reason = " ".join(str(error).split())[:120]
            raise ConfigError(f"{self.source}: its tables do not fit each other ({reason})") from None

    def _one(self, path: Path, kinds: dict[str, pl.DataType]) -> pl.LazyFrame:
        table = _table(path)
        there = table.collect_schema()
        columns = [
            (pl.col(name) if name in there else pl.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()
        ]
        named = [pl.lit(self.run).alias("run")] if self.run is not None else []
        return table.select(columns).with_columns(named)


def find_tables(given: str) -> Partitions | None:
    """The score tables in a folder that is no run, or of a pattern such as ``tables/*.parquet``; None for anything
    else. Raises ConfigError where nothing is there to read."""
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


def find_part_tables(folder: Path, numbers: Iterable[int]) -> Partitions:
    """The score tables of the parts of these numbers, which are scored; their rows count as those of the whole run.
    Raises ConfigError where none of them holds an answer."""
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
    """How many rows a Parquet file holds, as its end says. Raises ConfigError where it is none, or one of texts that
    are longer than it can hold."""
    try:
        table = files.scan_foreign_parquet(path)
        files.refuse_long_texts(path, table)
        return int(table.select(pl.len()).collect().item())
    except UNREAD as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise ConfigError(f"{path}: not a parquet table ({reason})") from None


def _table(path: Path) -> pl.LazyFrame:
    """One score table: lazily where tomserve wrote it, else read as a whole (tomserve.scoring.table.read_table), which
    raises ConfigError for values that do not fit."""
    table = files.scan_parquet(path)
    try:
        schema = table.collect_schema()
        plain = all(schema[name] == kind for name, kind in COLUMNS.items() if name in schema)
        if plain and "status" in schema:
            statuses = table.select(pl.col("status").unique()).collect(engine="streaming")["status"].drop_nulls()
            plain = all(map(known, statuses))
    except UNREAD as error:
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
