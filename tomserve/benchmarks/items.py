"""Anybody's items: a JSONL file of Items (see tomserve.items), one a line, given by ``--path``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tomserve.errors import ConfigError
from tomserve.items import Item, read_items

STUDY = "accuracy"


def load(path: Path | None = None) -> Iterator[Item]:
    """The items of `path`. Raises ConfigError without a path, ContentError for a bad line."""
    if path is None:
        raise ConfigError("benchmark 'items' needs a file: --path FILE.jsonl")
    return read_items(path)
