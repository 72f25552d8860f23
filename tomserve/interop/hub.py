"""Writes a benchmark, with or without answers to it, as a folder for a dataset hub: Parquet, card, Croissant metadata.

Nothing is uploaded. The card says what the data are, what each column holds, and that no model must be trained on
them; the canary, a text by which leaked data can be found, stands in the card and in every row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import yaml

import tomserve
from tomserve.content import outputs
from tomserve.errors import ConfigError
from tomserve.interop.answered import Answered, Replies
from tomserve.items import Item

OWN_LICENCE = "cc-by-4.0"
"""The licence of the data that come with tomserve."""

_ITEM = {
    "id": "What the question is called; it never changes.",
    "benchmark": "The benchmark that the question belongs to.",
    "story": "The story, as a list of sentences.",
    "question": "The question about the story.",
    "choices": "The labels that can be answered; empty where any text may answer.",
    "answer": "The right answer.",
    "gold": "The gold rationale as JSON: which labels are right after each sentence. Empty where there is none.",
    "cluster": "The task or story that the question comes from, which is the unit of statistics.",
    "base": "The question that this one is a version of. Empty for an original.",
    "canary": "A text that marks data on which no model must be trained.",
}
_REPLY = {
    "run": "The run that the reply belongs to.",
    "model": "Who answered.",
    "item": "The id of the question.",
    "strategy": "The way of asking.",
    "sample": "Which of several replies to the same prompt it is, from 0.",
    "status": "ok, or why there is no whole reply.",
    "text": "The reply as it came.",
    "answer": "What was read of it as the answer.",
    "correct": "Whether the answer is right; a failure is wrong.",
    "canary": "A text that marks data on which no model must be trained.",
}
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_TYPES = {pl.String: "sc:Text", pl.Boolean: "sc:Boolean", pl.Int64: "sc:Integer", pl.Float64: "sc:Float"}


@dataclass
class Dataset:
    """What is written. title: of the dataset. licence: its identifier, such as cc-by-4.0. terms: the text of the
    licence file. source: what the questions come from, in a sentence. digest: of the questions. tables: by name, with
    what each column holds. canaries: all of them."""

    title: str
    licence: str
    terms: str
    source: str
    digest: str
    tables: dict[str, tuple[pl.DataFrame, dict[str, str]]] = field(default_factory=dict)
    canaries: tuple[str, ...] = ()

    def add_items(self, items: Iterable[Item]) -> None:
        """Add the table of the questions. Raises ConfigError where there are none."""
        rows = list(items)
        if not rows:
            raise ConfigError("there are no questions to publish")
        factors = sorted({name for item in rows for name in item.factors})
        columns: dict[str, Any] = {name: [_value(item, name) for item in rows] for name in _ITEM}
        for name in factors:
            values = [item.factors.get(name) for item in rows]
            kinds = {type(value) for value in values if value is not None}
            columns[f"factor_{name}"] = values if len(kinds) == 1 else [None if v is None else str(v) for v in values]
        told = {f"factor_{name}": "Where the question stands in the design." for name in factors}
        self.tables["items"] = pl.DataFrame(columns, infer_schema_length=None), {**_ITEM, **told}
        self.canaries = tuple(sorted({item.canary for item in rows if item.canary}))

    def add_replies(self, replies: Sequence[Replies]) -> None:
        """Add the table of the answers of these runs."""
        rows = [_reply(one, run) for run in replies for name in run.strategies for one in run.of(name)]
        schema = dict.fromkeys(_REPLY, pl.String) | {"sample": pl.Int64, "correct": pl.Boolean}
        self.tables["replies"] = pl.DataFrame(rows, schema=schema), dict(_REPLY)


def _value(item: Item, name: str) -> Any:
    if name == "gold":
        return orjson.dumps(item.gold.to_dict()).decode() if item.gold is not None else None
    value = getattr(item, name)
    return list(value) if isinstance(value, tuple) else value


def _reply(one: Answered, run: Replies) -> dict[str, Any]:
    return {
        "run": run.manifest.run,
        "model": str(one.row["model"]),
        "item": one.item.id,
        "strategy": one.strategy,
        "sample": one.sample,
        "status": one.score["status"],
        "text": one.row.get("text"),
        "answer": one.score["answer"],
        "correct": bool(one.score["correct"]),
        "canary": one.item.canary,
    }


def write(dataset: Dataset, folder: Path, inputs: Sequence[Path] = ()) -> list[Path]:
    """Write the folder. inputs: what must not be overwritten. Returns the files. Raises ConfigError where one cannot be
    written."""
    files: dict[str, bytes] = {}
    for name, (table, _) in dataset.tables.items():
        files[f"data/{name}.parquet"] = _parquet(table)
    files["README.md"] = _card(dataset).encode()
    files["LICENSE"] = f"{dataset.terms.rstrip()}\n{_canary(dataset)}".encode()
    files["croissant.json"] = _croissant(dataset, files)
    written = []
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with outputs.writing(path, *inputs) as file:
                file.write(content)
            written.append(path)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None
    return written


def _parquet(table: pl.DataFrame) -> bytes:
    import io

    out = io.BytesIO()
    table.write_parquet(out, compression="zstd", row_group_size=10_000)
    return out.getvalue()


def _canary(dataset: Dataset) -> str:
    if not dataset.canaries:
        return ""
    return "\nThese data must not be used to train models. " + " ".join(dataset.canaries) + "\n"


def _card(dataset: Dataset) -> str:
    rows = max(table.height for table, _ in dataset.tables.values())
    size = next((name for most, name in _SIZES if rows < most), "n>1M")
    front = {
        "license": dataset.licence,
        "language": ["en"],
        "pretty_name": dataset.title,
        "task_categories": ["question-answering"],
        "size_categories": [size],
        "tags": ["theory-of-mind", "evaluation", "croissant"],
        "configs": [
            {"config_name": name, "data_files": [{"split": "test", "path": f"data/{name}.parquet"}]}
            for name in dataset.tables
        ],
    }
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n",
        f"# {dataset.title}\n",
        f"{dataset.source} Written by tomserve {tomserve.__version__}.\n",
        f"Digest of the questions: `{dataset.digest}`.\n",
        "## Not for training\n",
        "These data measure models. Whoever trains on them takes away what they measure."
        + ("" if not dataset.canaries else " Every row carries this canary, by which leaks can be found:\n"),
        *(f"```text\n{one}\n```\n" for one in dataset.canaries),
    ]
    for name, (table, columns) in dataset.tables.items():
        parts.append(f"## {name}: {table.height:,} rows\n")
        parts.append("| column | holds |\n|---|---|")
        parts.append("\n".join(f"| `{column}` | {columns[column]} |" for column in table.columns) + "\n")
    parts += [
        "## Limits\n",
        "A share of right answers says what was answered, not why. Constant answers and simple rules solve some of the "
        "questions: report what they score beside every accuracy (`tomserve analyze` does).\n",
        "## Citation\n",
        "Cite the paper of the questions and tomserve with its version and the digest above.\n",
        f"## Licence\n\n{dataset.licence}; the text is in `LICENSE`.\n",
    ]
    return "\n".join(parts)


def _croissant(dataset: Dataset, files: Mapping[str, bytes]) -> bytes:
    """The metadata by which other programs find the columns (Croissant 1.0, mlcommons.org/croissant/1.0)."""
    distribution = [
        {
            "@type": "cr:FileObject",
            "@id": f"{name}-parquet",
            "name": f"{name}-parquet",
            "contentUrl": f"data/{name}.parquet",
            "encodingFormat": "application/x-parquet",
            "sha256": hashlib.sha256(files[f"data/{name}.parquet"]).hexdigest(),
        }
        for name in dataset.tables
    ]
    records = [
        {
            "@type": "cr:RecordSet",
            "@id": name,
            "name": name,
            "field": [_field(name, column, table.schema[column], told[column]) for column in table.columns],
        }
        for name, (table, told) in dataset.tables.items()
    ]
    whole = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": dataset.title,
        "description": f"{dataset.source}{_canary(dataset).rstrip()}",
        "license": dataset.licence,
        "url": "https://example.org/not-uploaded",
        "version": "1.0.0",
        "datePublished": "2026-01-01",
        "citeAs": "Cite the paper of the questions and tomserve with its version and the digest of the data.",
        "distribution": distribution,
        "recordSet": records,
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


def _field(table: str, column: str, kind: Any, told: str) -> dict[str, Any]:
    several = isinstance(kind, pl.List)
    inner = kind.inner if isinstance(kind, pl.List) else kind
    return {
        "@type": "cr:Field",
        "@id": f"{table}/{column}",
        "name": column,
        "description": told,
        "dataType": next((name for one, name in _TYPES.items() if inner == one), "sc:Text"),
        **({"repeated": True} if several else {}),
        "source": {"fileObject": {"@id": f"{table}-parquet"}, "extract": {"column": column}},
    }


_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The names of Croissant 1.0, as every file of it states them."""
