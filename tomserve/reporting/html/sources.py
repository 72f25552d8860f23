"""What a report is made from: run folders with their manifests, scores, items and the texts that models wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import polars as pl

from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.runs.runfolder import existing_run, read_manifest
from tomserve.scoring.sources import ItemFile, ResponseFile
from tomserve.scoring.table import TABLES, Note, load_scores
from tomserve.studies import labelled


@dataclass(frozen=True, slots=True)
class Source:
    """One run: its folder, name and manifest, and its scores, whose models are named as --label says."""

    folder: Path
    run: str
    manifest: Mapping[str, Any]
    scores: pl.DataFrame

    def answers(self) -> Iterator[tuple[Item, Mapping[str, Any]]]:
        """Every response that counts with its item, in the order of the scores.

        Every call indexes and reads both files anew, which takes as long as they are large: call it once.
        """
        journal = self.folder / "responses.jsonl"
        if not journal.exists():
            return
        known = ItemFile(self.folder / "items.jsonl")
        for place, row in ResponseFile(journal, known, str(self.manifest.get("model"))).rows():
            yield known.item(place), row


def load(runs: Sequence[str | None], labels: Sequence[str], note: Note | None) -> tuple[list[Source], pl.DataFrame]:
    """The runs, and all their scores in one table. Raises ConfigError for what is no run folder."""
    loaded: list[tuple[Path, Mapping[str, Any], pl.DataFrame]] = []
    for run in runs:
        if run is not None and run.endswith(TABLES):
            raise ConfigError(
                f"{run}: a report shows items and texts, which a table does not hold; give the run folder"
            )
        folder = existing_run(run)
        if any(folder.resolve() == other.resolve() for other, _, _ in loaded):
            raise ConfigError(f"{folder}: given twice")
        loaded.append((folder, read_manifest(folder) or {}, load_scores(str(folder.resolve()), note=note)))
    scores = labelled(pl.concat([frame for _, _, frame in loaded], how="diagonal_relaxed"), labels)
    if not scores.height:
        raise ConfigError(f"{', '.join(str(folder) for folder, _, _ in loaded)}: nothing was answered yet")
    sources, start = [], 0
    for folder, manifest, frame in loaded:
        part = scores.slice(start, frame.height)
        sources.append(Source(folder, folder.resolve().name, manifest, part))
        start += frame.height
    return sources, scores


_SECRET = re.compile(
    r"(?:^|[^a-z])(api_?key|key|token|secret|password|passwd|credentials?|authorization|bearer)(?:$|[^a-z])", re.I
)
"""Names of what is never shown; `max_tokens` and `tokenizer` are none."""


def provenance(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The manifest as (field, text) pairs, nested fields joined by dots; without credentials; unknowns named."""
    return list(_fields("", manifest))


def _fields(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            path = f"{prefix}.{name}" if prefix else str(name)
            if _SECRET.search(str(name)) and not isinstance(inner, Mapping):
                yield path, "(not shown)"
            else:
                yield from _fields(path, inner)
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        for number, inner in enumerate(value, 1):
            yield from _fields(f"{prefix} {number}", inner)
    else:
        yield prefix, _shown(value)


def _shown(value: Any) -> str:
    if value is None or value in ([], {}, ""):
        return "unknown" if value is None else "none"
    if isinstance(value, list):
        return " ".join(_without_secrets([str(inner) for inner in value]))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _address(str(value))


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    hide = False
    for word in words:
        flag = word.startswith("-") and _SECRET.search(word.partition("=")[0])
        if hide and not word.startswith("-"):
            yield "(not shown)"
        elif flag and "=" in word:
            yield word.split("=")[0] + "=(not shown)"
        else:
            yield _address(word)
        hide = bool(flag) and "=" not in word


def _address(text: str) -> str:
    """An address without user, password and query; any other text as it is."""
    if not re.match(r"^[a-z][a-z0-9+.-]*://", text, re.I):
        return text
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(an address that cannot be read)"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
