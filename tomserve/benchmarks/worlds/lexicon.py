"""The words and phrasings from which worlds are made: ``dataset/worlds/words.yaml`` and ``phrases/*.yaml``.

A file of phrasings has ``roles`` (for each role of a sentence its phrasings), ``questions`` (for each role of a
question) and ``first_person`` (for a role of a question what comes before its choices where they are said in the first
person); ``shared.yaml`` holds those that every family may use. The language is that of
tomserve.benchmarks.worlds.wording.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tomserve import content
from tomserve.benchmarks.worlds.wording import expanded
from tomserve.content import yamlfile
from tomserve.errors import ConfigError, ContentError

FOLDER = "dataset/worlds"
SHARED = "shared"
PHRASINGS = ("roles", "questions", "first_person")
"""The parts of a file of phrasings whose form every family shares."""


class Lexicon:
    """The words and phrasings of one folder.

    folder: that of words.yaml and phrases/. Raises ContentError by file for what cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words: Mapping[str, Any] = _mapping(folder / "words.yaml")
        self._files: dict[str, Mapping[str, Any]] = {}

    def phrasings(self, family: str, role: str, part: str = "roles") -> tuple[str, ...]:
        """All phrasings of a role, alternatives written out. part: "roles" or "questions".

        Raises ContentError with the known roles for one that neither the family's file nor the shared one has.
        """
        own, shared = self._file(family).get(part, {}), self._file(SHARED).get(part, {})
        found = own.get(role) or shared.get(role)
        if not found:
            known = ", ".join(sorted({*own, *shared}))
            raise ContentError(f"{part}: no phrasings of {role!r}; known: {known}", path=self._path(family))
        return tuple(one for phrasing in found for one in expanded(phrasing))

    def extra(self, family: str, name: str) -> Any:
        """Another part of a family's file, such as its scenarios. Raises ContentError where there is none."""
        try:
            return self._file(family)[name]
        except KeyError:
            raise ContentError(f"{name!r} is missing", path=self._path(family)) from None

    def first_person(self, family: str, role: str) -> str:
        """What comes before a choice of this role of question where it is said in the first person, such as "I am ";
        empty where the files have nothing for it."""
        own, shared = (self._file(name).get("first_person", {}) for name in (family, SHARED))
        return str(own.get(role) or shared.get(role) or "")

    def extras(self, family: str) -> Mapping[str, Any]:
        """All that a family's file has beside its phrasings."""
        return {name: part for name, part in self._file(family).items() if name not in PHRASINGS}

    def _path(self, family: str) -> Path:
        return self.folder / "phrases" / f"{family}.yaml"

    def _file(self, family: str) -> Mapping[str, Any]:
        if family not in self._files:
            self._files[family] = _mapping(self._path(family))
        return self._files[family]


@cache
def built_in() -> Lexicon:
    """The words and phrasings that come with tomserve. Raises ConfigError where they are not installed."""
    folder = content.find(FOLDER)
    if folder is None:
        raise ConfigError(f"{FOLDER} is in none of the content folders; name one that has it by --content")
    return Lexicon(folder)


def _mapping(path: Path) -> Mapping[str, Any]:
    loaded, _ = yamlfile.load(path)
    if not isinstance(loaded, dict):
        raise ContentError("expected a mapping", path=path, line=1)
    return loaded
