"""Writes a benchmark, with or without answers, as a folder for a dataset hub: Parquet, card, licence, Croissant
metadata.

Nothing is uploaded. Every row and the card carry the canary, a text by which leaked data can be found; rows are
written some thousand at a time. Questions that come with tomserve are under CC BY 4.0; of all others only who holds
them can say the licence. Croissant 1.0: http://mlcommons.org/croissant/1.0.
"""

import contextlib
import hashlib
import re
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import orjson
import polars as pl
import yaml

from tomserve import benchmarks, content
from tomserve._version import __version__
from tomserve.content import files, output_path
from tomserve.content.files import digest_file, temporary_folder
from tomserve.content.paths import run_name
from tomserve.content.text import mark_hidden
from tomserve.content.validation import load_yaml
from tomserve.errors import ConfigError
from tomserve.interop.scored_replies import ScoredReplies, ScoredReply
from tomserve.items import Item, read_items
from tomserve.reporting.tables import markdown
from tomserve.runs.item_store import ItemStore
from tomserve.runs.manifest import Manifest

Row = dict[str, Any]

TEMPLATES = Path(__file__).parent / "templates"

AT_A_TIME = 10_000
"""How many rows are in memory together, and in a group of a Parquet file."""

SHOWN = 6
"""How many values of a factor the card lists at most."""

_TEXTS = load_yaml(TEMPLATES / "dataset.yaml")[0]
ITEM: dict[str, str] = _TEXTS["items"]
REPLY: dict[str, str] = _TEXTS["replies"]
_PAGES: dict[str, str] = _TEXTS["licences"]
_LISTS = ("story", "choices")
_KINDS: dict[type, Any] = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String}


class Table(NamedTuple):
    """A table that was written: its Parquet file, and the types of its columns and what each holds, in their order."""

    path: Path
    rows: int
    schema: Mapping[str, Any]
    descriptions: Mapping[str, str]


def items_table(items: Sequence[Item], path: Path, canary: str) -> Table:
    """Write the table of the questions, which are read twice. canary: that of rows which have none. Raises ConfigError
    where there are no questions."""
    kinds, values = defaultdict[str, set[type]](set), defaultdict[str, set[str]](set)
    for item in items:
        for name, value in item.factors.items():
            kinds[name] |= set() if value is None else {type(value)}
            if value is not None and len(values[name]) <= SHOWN:
                values[name].add(_word(value))
    factors = {name: _column_type(kinds[name]) for name in sorted(kinds)}
    schema: dict[str, Any] = {name: pl.List(pl.String) if name in _LISTS else pl.String for name in ITEM}
    schema |= {f"factor_{name}": kind for name, kind in factors.items()}
    descriptions = {**ITEM, **{f"factor_{name}": _describe_factor(values[name]) for name in factors}}
    count = _write_rows((_question(item, factors, canary) for item in items), schema, path)
    if not count:
        raise ConfigError("there are no questions to publish")
    return Table(path, count, schema, descriptions)


def _column_type(kinds: set[type]) -> Any:
    """The type of a factor's column: text where its values are of several types, but for numbers."""
    if len(kinds) == 1:
        return _KINDS.get(next(iter(kinds)), pl.String)
    return pl.Float64 if kinds == {int, float} else pl.String


def _describe_factor(values: set[str]) -> str:
    if not values or len(values) > SHOWN or any(len(one) > 40 for one in values):
        return "A factor of the design: where the question stands in it."
    return f"A factor of the design: {', '.join(sorted(values))}."


def _question(item: Item, factors: Mapping[str, Any], canary: str) -> Row:
    row: Row = {name: getattr(item, name) for name in ITEM}
    row |= {name: list(row[name]) for name in _LISTS}
    row["gold"] = None if item.gold is None else orjson.dumps(item.gold.to_dict()).decode()
    row["canary"] = item.canary or canary
    for name, kind in factors.items():
        value = item.factors.get(name)
        row[f"factor_{name}"] = _word(value) if kind == pl.String and value is not None else value
    return row


def _word(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def replies_table(runs: Iterable[tuple[str, ScoredReplies]], path: Path, canary: str) -> Table:
    """Write the table of the replies of these runs, each with what it is called. canary: as for `items_table`."""
    schema = dict.fromkeys(REPLY, pl.String) | {"sample": pl.Int64, "correct": pl.Boolean}
    rows = (_reply(one, name, canary) for name, run in runs for strategy in run.strategies for one in run.of(strategy))
    return Table(path, _write_rows(rows, schema, path), schema, REPLY)


def _reply(one: ScoredReply, run: str, canary: str) -> Row:
    thoughts = one.row.get("reasoning")
    return {
        "run": run,
        "model": str(one.row["model"]),
        "item": one.item.id,
        "strategy": one.strategy,
        "sample": one.sample,
        "status": one.score["status"],
        "text": one.row.get("text"),
        "reasoning": thoughts if isinstance(thoughts, str) else None,
        "answer": one.score["answer"],
        "correct": bool(one.score["correct"]),
        "canary": one.item.canary or canary,
    }


def _write_rows(rows: Iterable[Row], schema: Mapping[str, Any], path: Path) -> int:
    """Write rows into a Parquet file, some thousand at a time. Returns how many there are."""
    waiting, parts, count = iter(rows), list[Path](), 0
    while (batch := list(islice(waiting, AT_A_TIME))) or not parts:
        parts.append(path.with_name(f"{path.stem}-{len(parts)}.part"))
        frame = pl.DataFrame(batch, schema=schema)
        frame.write_parquet(parts[-1], compression="zstd", row_group_size=AT_A_TIME)
        count += len(batch)
    if len(parts) == 1:
        parts[0].replace(path)
        return count
    whole = files.scan_parquet(*parts)
    whole.sink_parquet(path, compression="zstd", row_group_size=AT_A_TIME, maintain_order=True)
    for part in parts:
        part.unlink()
    return count


_TYPES: dict[Any, str] = {pl.String: "Text", pl.Boolean: "Boolean", pl.Int64: "Integer", pl.Float64: "Float"}


def render_croissant(about: Mapping[str, Any], tables: Mapping[str, Table]) -> bytes:
    """The file's text. about: the fields of the dataset itself, by the names of schema.org; None for what is not known.
    tables: by name."""
    distribution = [
        {
            "@type": "cr:FileObject",
            "@id": f"{name}-parquet",
            "name": f"{name}-parquet",
            "contentUrl": f"data/{name}.parquet",
            "encodingFormat": "application/x-parquet",
            "sha256": digest_file(table.path)[1].removeprefix("sha256:"),
        }
        for name, table in tables.items()
    ]
    records = [
        {
            "@type": "cr:RecordSet",
            "@id": name,
            "name": name,
            "field": [_field(name, column, kind, table.descriptions[column]) for column, kind in table.schema.items()],
        }
        for name, table in tables.items()
    ]
    whole = {
        **orjson.loads(
            files.read_own(TEMPLATES / "croissant.json")
        ),  # the names of Croissant, as every file states them
        **{name: value for name, value in about.items() if value is not None},
        "distribution": distribution,
        "recordSet": records,
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


def _field(table: str, column: str, kind: Any, description: str) -> dict[str, Any]:
    inner = kind.inner if isinstance(kind, pl.List) else kind
    return {
        "@type": "cr:Field",
        "@id": f"{table}/{column}",
        "name": column,
        "description": description,
        "dataType": f"sc:{_TYPES[inner]}",
        **({"repeated": True} if isinstance(kind, pl.List) else {}),
        "source": {"fileObject": {"@id": f"{table}-parquet"}, "extract": {"column": column}},
    }


OWN = "cc-by-4.0"
"""The licence of the data that come with tomserve."""

MOST = 1 << 20
"""Most bytes of the text of a licence."""


class Holding(NamedTuple):
    """What a benchmark or a run holds: the name of a benchmark, and a sentence that says why the data may be somebody
    else's; None for data that come with tomserve."""

    benchmark: str
    others: str | None


def benchmark_holding(name: str, path: Path | None) -> Holding:
    """Whose the questions of a benchmark are. name: its name or file. path: the user's file of them. Raises ConfigError
    for an unknown one."""
    found = benchmarks.get(name)
    others = None
    if found.terms:
        others = f"the questions of {found.name} are others': {found.terms}"
    elif path is not None:
        others = f"the questions of {found.name} come from {path.name}"
    elif found.file is not None:
        others = f"the benchmark {found.name} is declared in a file of its own, {found.file.name}"
    return Holding(found.name, others)


def run_holding(name: str, manifest: Manifest) -> Holding:
    """Whose the questions and replies of a run are. name: of the run. What a manifest says is never looked for."""
    benchmark = mark_hidden(manifest.benchmark)[:100]
    known, others = benchmarks.find(manifest.benchmark), None
    if manifest.foreign is not None:
        tool = mark_hidden(manifest.foreign.tool)[:40]
        others = f"the questions and replies of {name} were brought from files of {tool}"
    elif known is None or known.file is not None:
        others = f"the benchmark {benchmark} of {name} is none of tomserve's"
    elif known.terms:
        others = f"the questions of {name} are others': {known.terms}"
    elif manifest.benchmark_path is not None or known.mixed:
        file = mark_hidden(Path(manifest.benchmark_path or "items").name)[:100]
        others = f"the questions of {name} come from a file, {file}"
    return Holding(benchmark, others)


def list_papers(names: Iterable[str]) -> list[str]:
    """The papers of the benchmarks of these names, as far as tomserve knows them, each once."""
    found = (benchmarks.find(name) for name in sorted(set(names)))
    return list(dict.fromkeys(paper for one in found if one is not None for paper in one.papers))


def licence_id(given: str) -> str:
    """The identifier of a licence as hubs write it. Raises ConfigError for what is none.

    >>> licence_id("CC-BY-NC-4.0")
    'cc-by-nc-4.0'
    """
    licence = given.strip().lower()
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]{1,39}", licence):
        raise ConfigError(
            f"--license: found {given!r:.60}; expected an identifier such as cc-by-4.0, mit or apache-2.0, or `other` "
            "with --license-file FILE"
        )
    return licence


def are_own_benchmarks(names: Iterable[str]) -> bool:
    """Whether all of these are benchmarks of tomserve, which ask about people's minds."""
    found = [benchmarks.find(name) for name in names]
    return all(one is not None and one.file is None and not one.mixed for one in found)


def state_terms(licence: str, named: str) -> str:
    """What stands in the place of the text of a licence that the user names without its text."""
    where = f" Its text: {_PAGES[licence]}" if licence in _PAGES else ""
    return f"The data of {named} are under the licence {licence}.{where}"


def own_terms() -> str:
    """The text of the licence of the data that come with tomserve."""
    return files.read_own_text(content.require("dataset/LICENSE"))


def read_terms(path: Path) -> str:
    """The text of a licence from the user's file. Raises ConfigError where it is no short text."""
    refused = files.refuse_os_errors(path, way_out="expected the text of a licence")
    with refused, files.open_own(path.expanduser()) as file:
        data = file.read(MOST + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no UTF-8 text ({error.reason}); expected the text of a licence") from None
    if len(data) > MOST or not text.strip():
        what = f"has more than {MOST >> 20} MB" if text.strip() else "is empty"
        raise ConfigError(f"{path}: {what}; expected the text of a licence")
    return text


_SIZES = (("n<1K", 10**3), ("1K<n<10K", 10**4), ("10K<n<100K", 10**5), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7))
_LARGER = "10M<n<100M"


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """What is to be written."""

    title: str
    licence: str  # its identifier, such as cc-by-4.0
    terms: str  # the text of the licence file
    source: str  # what the data are, in sentences
    own: bool  # whether the questions come with tomserve
    items: ItemStore
    replies: Sequence[tuple[str, ScoredReplies]] = ()  # of runs, with what these are called
    papers: Sequence[str] = ()  # to be cited
    languages: Sequence[str] = ()  # codes such as en; empty where that is not known
    url: str | None = None  # where and when it is published
    date: str | None = None
    benchmark: bool = True  # whether the questions are those of a benchmark on Theory of Mind

    @property
    def canary(self) -> str:
        """The canary of rows whose question has none."""
        digest = hashlib.sha256(f"hub {self.items.digest()}".encode()).digest()
        return f"tomserve-hub-{uuid.UUID(bytes=digest[:16], version=4)}: benchmark data; do not train on it"

    @property
    def version(self) -> str:
        """The version of the data: tomserve's for its own, and in any case the digest of the questions."""
        number = __version__ if self.own else "1.0.0"
        return f"{number}+sha256.{self.items.digest().removeprefix('sha256:')[:16]}"


def describe_data(benchmarks: Sequence[str], runs: Sequence[str], others: Sequence[str]) -> str:
    """What the data are, in sentences. benchmarks, runs: their names. others: why they may be somebody else's."""
    sentences = [f"Questions of {', '.join(benchmarks)}, as tomserve asks them."]
    if runs:
        sentences.append(f"With the replies of the run{'s' * (len(runs) > 1)} {', '.join(runs)}.")
    sentences += [f"{one[:1].upper()}{one[1:]}." for one in others]
    return markdown(" ".join(sentences))


def write_dataset(dataset: Dataset, folder: Path, inputs: Sequence[Path] = ()) -> list[Path]:
    """Write the folder. inputs: what must not be overwritten. Returns the files. Raises ConfigError where there are no
    questions, where the folder holds tables of another dataset, and where a file cannot be written."""
    _refuse_leftovers(dataset, folder)
    with files.refuse_os_errors(folder, "cannot be written", "choose another --out"), temporary_folder() as scratch:
        tables = {"items": items_table(dataset.items, scratch / "items.parquet", dataset.canary)}
        if dataset.replies:
            tables["replies"] = replies_table(dataset.replies, scratch / "replies.parquet", dataset.canary)
        canaries = sorted({item.canary or dataset.canary for item in dataset.items})
        written = []
        for name, table in tables.items():
            written.append(folder / f"data/{name}.parquet")
            with files.open_for_reading(table.path) as source, _open(written[-1], inputs) as file:
                shutil.copyfileobj(source, file, 1 << 20)
        texts = {
            "README.md": _card(dataset, tables, canaries).encode(),
            "LICENSE": f"{dataset.terms.rstrip()}\n\nThese data must not be used to train models.\n".encode(),
            "croissant.json": _metadata(dataset, tables, canaries),
        }
        for name, text in texts.items():
            written.append(folder / name)
            with _open(written[-1], inputs) as file:
                file.write(text)
        return written


def _open(path: Path, inputs: Sequence[Path]) -> contextlib.AbstractContextManager[Any]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return output_path.open_output(path, *inputs)


def _refuse_leftovers(dataset: Dataset, folder: Path) -> None:
    """Raise ConfigError where the folder holds a table that the card would not name, and which would be uploaded with
    the others."""
    names = {"items.parquet", *(("replies.parquet",) if dataset.replies else ())}
    with contextlib.suppress(OSError):
        if found := sorted(one.name for one in (folder / "data").iterdir() if one.name not in names):
            raise ConfigError(
                f"{folder / 'data' / found[0]}: is no table of this dataset, and would be published with it; delete "
                "it, or choose another --out"
            )


def _card(dataset: Dataset, tables: Mapping[str, Table], canaries: Sequence[str]) -> str:
    title = " ".join(dataset.title.split())
    rows = max(table.rows for table in tables.values())
    front = {  # by which a hub finds and shows the dataset
        "license": dataset.licence,
        **({"license_name": "other", "license_link": "LICENSE"} if dataset.licence == "other" else {}),
        **({"language": list(dataset.languages)} if dataset.languages else {}),
        "pretty_name": title,
        "task_categories": ["question-answering"],
        "size_categories": [next((name for name, most in _SIZES if rows < most), _LARGER)],
        "tags": [*(["theory-of-mind"] if dataset.benchmark else []), "evaluation", "croissant"],
        "configs": [
            {"config_name": name, "data_files": [{"split": "test", "path": f"data/{name}.parquet"}]} for name in tables
        ],
    }
    return render(
        "dataset.md",
        front=yaml.safe_dump(front, sort_keys=False, allow_unicode=True),
        title=markdown(title),
        dataset=dataset,
        tables=tables,
        canaries=canaries,
    )


def render(name: str, **values: Any) -> str:
    """The text of a template of this package with these values; values of strangers go through the filter markdown."""
    files = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(
        loader=files, trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["markdown"] = markdown
    environment.filters["code_line"] = _code_line
    return environment.get_template(f"{name}.jinja").render(tomserve=__version__, **values)


def _code_line(text: str) -> str:
    """The text as one line of a block of code that it cannot end."""
    return " ".join(mark_hidden(text).split()).lstrip("` ")


def _metadata(dataset: Dataset, tables: Mapping[str, Table], canaries: Sequence[str]) -> bytes:
    about: Mapping[str, Any] = {
        "name": " ".join(dataset.title.split()),
        "description": f"{dataset.source} These data must not be used to train models. {' '.join(canaries)}",
        "license": _PAGES.get(dataset.licence, dataset.licence),
        "url": dataset.url,
        "version": dataset.version,
        "datePublished": dataset.date,
        "citeAs": "; ".join((*dataset.papers, f"tomserve {__version__}; data {dataset.items.digest()}")),
    }
    return render_croissant(about, tables)


WAY_OUT = "export them one by one"


def collect_run_items(runs: Sequence[ScoredReplies]) -> ItemStore:
    """The questions of these runs, each once, sorted by their ids. Raises ConfigError where two runs call different
    questions by one id."""
    items = ItemStore(_each_once(runs))
    return items.part(sorted(range(len(items)), key=lambda place: items.ids[place]))


def _each_once(runs: Sequence[ScoredReplies]) -> Iterator[Item]:
    seen: dict[str, int] = {}
    for run in runs:
        for item in read_items(run.folder / "items.jsonl"):
            checksum = hash(item.to_json())
            if item.id not in seen:
                seen[item.id] = checksum
                yield item
            elif seen[item.id] != checksum:
                raise ConfigError(
                    f"{run.folder}: calls another question {item.id!r:.80} than a run before it does, so that nobody "
                    f"could tell which one a reply answers; {WAY_OUT}"
                )


def collect_benchmark_items(name: str, path: Path | None, runs: Sequence[ScoredReplies]) -> ItemStore:
    """All questions of a benchmark. runs: what answered some of them. Raises ConfigError where one of these asked
    something else."""
    items = ItemStore(benchmarks.load(name, path, None, benchmarks.ALL))
    places = {one: place for place, one in enumerate(items.ids)}
    for run in runs:
        for item in read_items(run.folder / "items.jsonl"):
            place = places.get(item.id)
            if place is None or items[place] != item:
                how = "is not among" if place is None else "is told otherwise by"
                raise ConfigError(
                    f"{run.folder}: its question {item.id!r:.80} {how} today's questions of {name}; leave --benchmark "
                    "out, so that the questions are taken from the runs"
                )
    return items


def name_runs(runs: Sequence[ScoredReplies]) -> list[str]:
    """What the runs are called. Raises ConfigError where two have one name."""
    names = [run_name(run.folder) for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two runs are called {name!r:.100}; rename the folder of one, or {WAY_OUT}")
    return names
