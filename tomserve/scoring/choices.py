"""Choices that a model made as the reader of replies which the rules of tomserve.scoring.answers cannot read.

They are kept in two files: a journal with a row for each reply that was read, and a record that names the reader whose
rows count. A choice belongs to what was read (question, choices and text) and not to a place in a run: equal replies
are read once, and a choice is never used for a reply that has changed. The rules come first: a choice is looked at only
where they find no answer in a whole reply.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tomserve.content import bounded, files
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.scoring.labels import Lettered
from tomserve.scoring.lettering import shown_to
from tomserve.scoring.pinned import PinnedFile
from tomserve.scoring.thoughts import spoken
from tomserve.status import OK

PARSE = "reader"
"""The value of the column `parse` of an answer that a model has read."""

JOURNAL, RECORD = "reader.jsonl", "reader.json"
"""The names of the two files in a run folder."""

MARK = "reader"
"""The field of a row, and of the record, that tells one reader (model, prompt and sampling) from another."""

NOTHING, NONSENSE, MISSING = "none", "nonsense", "missing"
"""What may come of a reply instead of a choice: the reader found no answer in it; the reader's own reply was no choice;
the reader was not asked, or has not replied."""


class Place(NamedTuple):
    """Where the choices about some replies are kept. journal: the rows. record: which reader's rows count."""

    journal: Path
    record: Path

    @classmethod
    def of_run(cls, folder: Path) -> Place:
        """The place in a run folder."""
        return cls(folder / JOURNAL, folder / RECORD)

    @classmethod
    def beside(cls, table: Path) -> Place:
        """The place of replies without a run folder: beside the score table that is made of them."""
        return cls(table.with_name(f"{table.name}.{JOURNAL}"), table.with_name(f"{table.name}.{RECORD}"))


def content(item: Item, row: Mapping[str, Any]) -> str:
    """A digest of what is read: the question, its choices, in which other order they were shown as A, B, C, and what
    the reply says; 32 hexadecimal digits."""
    shown = shown_to(item, row)
    order = [shown] if shown and shown != Lettered(item.choices).offered else []
    parts = orjson.dumps([item.question, item.choices, spoken(row.get("text") or "").text, *order])
    return hashlib.blake2b(parts, digest_size=16).hexdigest()


def none_of(choices: Sequence[str]) -> str:
    """The word for "none of them", which is none of the choices themselves.

    >>> none_of(("tea", "None"))
    '(none)'
    """
    taken, word = {choice.casefold() for choice in choices}, NOTHING
    while word in taken:
        word = f"({word})"
    return word


class Choices:
    """The choices of the reader that the record names.

    place: the files. Raises ConfigError where one of them cannot be read, or is not what it should be. Lines of the
    journal that are no rows of this reader are left out.
    """

    def __init__(self, place: Place) -> None:
        for path in place:
            files.check(path)
        try:
            self.files = (PinnedFile(place.journal), PinnedFile(place.record))
        except OSError as error:
            raise ConfigError(f"{error.filename}: cannot be read ({error.strerror}); {_way_out(place)}") from None
        self.record = _record(place, self.files[1])
        self._texts: dict[str, str] = {}
        for _, _, line in self.files[0].lines():
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            row = orjson.loads(line) if line.endswith(b"\n") else None
        except orjson.JSONDecodeError:
            return
        if isinstance(row, dict) and row.get(MARK) == self.record[MARK] and row.get("status") == OK:
            name, text = row.get("item"), row.get("text")
            if isinstance(name, str) and isinstance(text, str):
                self._texts[name] = text

    def outcome(self, item: Item, row: Mapping[str, Any]) -> tuple[str | None, str]:
        """What the reader made of a reply to an item: the choice and "", or None and one of NOTHING, NONSENSE, MISSING.

        A choice that is none of the item's choices is nonsense, whoever wrote it into the file.
        """
        if (reply := self._texts.get(content(item, row))) is None:
            return None, MISSING
        chosen = _chosen(spoken(reply).text)
        if chosen in item.choices:
            return chosen, ""
        return None, NOTHING if chosen == none_of(item.choices) else NONSENSE

    def choice(self, item: Item, row: Mapping[str, Any]) -> str | None:
        """The choice that the reader found in a reply to an item; None where it found none, or was not asked."""
        return self.outcome(item, row)[0]


def _chosen(reply: str) -> str | None:
    """The member "choice" of the JSON object that the reader replied with; None where it is no such object."""
    try:
        found = orjson.loads(reply)
    except orjson.JSONDecodeError:
        return None
    chosen = found.get("choice") if isinstance(found, dict) else None
    return chosen if isinstance(chosen, str) else None


def _record(place: Place, file: PinnedFile) -> dict[str, Any]:
    for _ in file.lines():
        pass  # so that its digest is known
    try:
        record = bounded.json(place.record, _way_out(place))
    except OSError as error:
        raise ConfigError(f"{place.record}: cannot be read ({error.strerror}); {_way_out(place)}") from None
    if not isinstance(record, dict) or not isinstance(record.get(MARK), str):
        raise ConfigError(f"{place.record}: field {MARK!r} is missing or no text; {_way_out(place)}")
    return record


def _way_out(place: Place) -> str:
    return f"`score --reader` makes both files again; without {place.record.name} the rules alone read"
