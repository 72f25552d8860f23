"""Writes Croissant metadata of a dataset's tables, by which other programs find and read their columns.

Croissant 1.0: http://mlcommons.org/croissant/1.0. What is not known yet, such as where the dataset will be published,
is left out unless the user says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import polars as pl

from tomserve.interop.hub_tables import Table

_TYPES = {pl.String: "sc:Text", pl.Boolean: "sc:Boolean", pl.Int64: "sc:Integer", pl.Float64: "sc:Float"}


def metadata(about: Mapping[str, Any], tables: Mapping[str, Table], digests: Mapping[str, str]) -> bytes:
    """The file's text. about: the fields of the dataset itself, by the names of schema.org; None for what is not known.
    tables: by name. digests: the SHA-256 digest of each table's file."""
    distribution = [
        {
            "@type": "cr:FileObject",
            "@id": f"{name}-parquet",
            "name": f"{name}-parquet",
            "contentUrl": f"data/{name}.parquet",
            "encodingFormat": "application/x-parquet",
            "sha256": digests[name],
        }
        for name in tables
    ]
    records = [
        {
            "@type": "cr:RecordSet",
            "@id": name,
            "name": name,
            "field": [_field(name, column, kind, table.told[column]) for column, kind in table.schema.items()],
        }
        for name, table in tables.items()
    ]
    whole = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        **{name: value for name, value in about.items() if value is not None},
        "distribution": distribution,
        "recordSet": records,
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


def _field(table: str, column: str, kind: Any, told: str) -> dict[str, Any]:
    inner = kind.inner if isinstance(kind, pl.List) else kind
    return {
        "@type": "cr:Field",
        "@id": f"{table}/{column}",
        "name": column,
        "description": told,
        "dataType": next((name for one, name in _TYPES.items() if inner == one), "sc:Text"),
        **({"repeated": True} if isinstance(kind, pl.List) else {}),
        "source": {"fileObject": {"@id": f"{table}-parquet"}, "extract": {"column": column}},
    }


_OWN = (
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet", "format"),
    *("includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex"),
    *("repeated", "replace", "samplingRate", "separator", "source", "subField", "transform"),
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "sc": "https://schema.org/",
    **{name: f"cr:{name}" for name in _OWN},
}
"""The names of Croissant 1.0, as every file of it states them."""
