"""The texts of a study, in a YAML file beside it.

The file of ``bigtom.py`` is ``bigtom.yaml``, that of a folder ``study.yaml``, with the sections

    phrases    what several texts say; {name} stands for it in them, {Name} where it begins a sentence
    notes      by way to count and table what its columns mean; empty: as in the first way; "a b": the note of both
    shown      by table the columns that the terminal prints
    read       the tables whose notes stand right below these columns
    sections   of the report, by name: heading and link
    figures    by name: section, title, caption, tables, and other fields of a Figure
    texts      all others, by name

and others that the study alone reads.

A place {name} for which there is no phrase is filled by the study, as in ``texts["lost"].format(share=...)``.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.content.validation import load_yaml
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import Excerpt, Figure, Section, Tables, capitalize_first


class Texts:
    """The texts of the study whose module has this path; they are read when the first is wanted. values: what the study
    computes and its texts name, by the names of their places. Raises ContentError for a file that cannot be read."""

    def __init__(self, module: str, **values: str) -> None:
        own = Path(module).with_suffix(".yaml")
        self._path = own if own.is_file() else own.with_name("study.yaml")
        prompting = PHRASES["about_prompting"].format(control="vanilla")
        self._phrases: dict[str, str] = {**PHRASES, "about_prompting": prompting, **values}

    @cached_property
    def _data(self) -> dict[str, Any]:
        data: dict[str, Any] = load_yaml(self._path)[0]
        for name, text in data.pop("phrases", {}).items():
            self._phrases[name] = self._fill(text)
        filled: dict[str, Any] = self._fill(data)
        return filled

    def _fill(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._fill(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._fill(one) for one in value]
        return re.sub(r"\{(\w+)\}", self._phrase, value) if isinstance(value, str) else value

    def _phrase(self, place: re.Match[str]) -> str:
        name = place[1]
        if name not in self._phrases and name[0].isupper():
            return capitalize_first(self._phrases.get(name[0].lower() + name[1:], place[0]))
        return self._phrases.get(name, place[0])

    def __getitem__(self, name: str) -> str:
        text: str = self._data["texts"][name]
        return text

    def section(self, name: str) -> Any:
        """A section that the study alone knows, with its phrases."""
        return self._data[name]

    def notes(self, intervals: str = "recommended") -> dict[str, str]:
        """By table what its columns mean, for one way to count."""
        first, own = self._notes_of("recommended"), self._notes_of(intervals)
        return {name: first[name] if note is None else note for name, note in own.items()}

    def _notes_of(self, intervals: str) -> dict[str, Any]:
        of_ways = self._data["notes"]
        entries = of_ways.get(intervals, of_ways["recommended"]).items()
        return {name: note for names, note in entries for name in names.split()}

    def excerpts(self, tables: Tables, intervals: str = "recommended") -> list[Excerpt]:
        """What the terminal prints of the tables that are there, each under its name in words."""
        notes, read = self.notes(intervals), self._data.get("read", "").split()
        found = []
        for name, columns in self._data["shown"].items():
            if (frame := tables.get(name, pl.DataFrame())).width:
                shown = frame.select(column for column in columns.split() if column in frame.columns)
                found.append(
                    Excerpt(name.replace("_", " "), shown, (name,), notes.get(name, "") if name in read else "")
                )
        return found

    def figure(self, name: str) -> Figure:
        """A figure without its pictures."""
        fields: dict[str, Any] = dict(self._data["figures"][name])
        section = fields.pop("section")
        of_section: Mapping[str, str] = self._data["sections"][section]
        fields["tables"] = tuple(fields.get("tables", name).split())
        return Figure(name, section=Section(section, **of_section), **fields)
