"""Find content (presets, prompts, stages, studies): file by file, first hit wins.

Order: ``--content DIR`` or ``TOMSERVE_CONTENT``; the checkout (the package's parent, if its pyproject names
tomserve); ``tomserve/_content/`` in an installed wheel. An explicit path given by the user never comes here.
The current directory is not searched: a study is code, and code is not run because of where one stands.

    >>> find("prompts/vanilla/strategy.yaml").name
    'strategy.yaml'
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tomserve.errors import ConfigError

PACKAGE = Path(__file__).resolve().parents[1]


@cache
def checkout() -> Path | None:
    """The repository this package runs from, or None in an installed wheel."""
    pyproject = PACKAGE.parent / "pyproject.toml"
    try:
        name = tomllib.loads(pyproject.read_text("utf-8")).get("project", {}).get("name")
    except (OSError, tomllib.TOMLDecodeError):
        return None
    return PACKAGE.parent if name == "tomserve" else None


def roots() -> list[Path]:
    """The folders searched, in order. Raises ConfigError when TOMSERVE_CONTENT is no folder."""
    found: list[Path] = []
    chosen = os.environ.get("TOMSERVE_CONTENT")
    if chosen:
        folder = Path(chosen).expanduser()
        if not folder.is_dir():
            raise ConfigError(f"content folder {chosen!r} (--content or TOMSERVE_CONTENT) is not a folder")
        found.append(folder.resolve())
    if (here := checkout()) is not None:
        found.append(here)
    if (PACKAGE / "_content").is_dir():
        found.append(PACKAGE / "_content")
    return found


def find(relative: str) -> Path | None:
    """The first file or folder of that relative path, or None."""
    return next((root / relative for root in roots() if (root / relative).exists()), None)


def names(folder: str, suffix: str) -> dict[str, Path]:
    """Every ``<name><suffix>`` in `folder` over all roots, by name; the first root wins. Sorted by name.

    `suffix` may reach into folders: ``names("prompts", "/strategy.yaml")`` lists strategies.
    """
    found: dict[str, Path] = {}
    for root in roots():
        for path in sorted((root / folder).glob(f"*{suffix}")):
            name = path.relative_to(root / folder).as_posix()[: -len(suffix)]
            found.setdefault(name, path)
    return dict(sorted(found.items()))


def data_file(name: str) -> Path | None:
    """A file of others' data, which we do not ship, in TOMSERVE_DATA or the checkout's ``../shared/data``; or None."""
    chosen, here = os.environ.get("TOMSERVE_DATA"), checkout()
    folder = Path(chosen).expanduser() if chosen else here.parent / "shared/data" if here else None
    return folder / name if folder is not None and (folder / name).is_file() else None


def digest(*parts: bytes | Path) -> str:
    """SHA-256 of byte strings and file contents, each framed by its length, as ``sha256:<64 hex>``."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part
        sha.update(len(data).to_bytes(8, "big") + data)
    return "sha256:" + sha.hexdigest()


CODE = frozenset((".py", ".js", ".css", ".j2"))
"""Suffixes of files that are programs or templates."""


def code_digest(places: Iterable[Path]) -> str:
    """The `digest` of all code below these folders, or in these files, with the names below the place."""
    parts: list[bytes | Path] = []
    for place in places:
        found = place.rglob("*") if place.is_dir() else [place]
        for path in sorted(path for path in found if path.suffix in CODE):
            parts += [path.relative_to(place.parent).as_posix().encode(), path]
    return digest(*parts)
