"""Answers of fitted rules in a file, where scoring finds them without fitting anything.

They stand there by the question's id with a digest of what it says, so that a question that was changed, or one of
other stage files, has no answer rather than a wrong one. `tomserve dataset audit` compares the file with a fit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import orjson

from tomserve.items import Item
from tomserve.scoring.rules import Rule

TOLERATED = 5
"""In how many answers of a rule a fit may differ from the file: another machine rounds in another way, and where two
answers are nearly as likely that decides."""

Answers = Mapping[str, Mapping[str, str]]
"""Answers as labels by the question's id, by name of the rule."""


@dataclass(frozen=True)
class Shipped:
    """The answers of some rules in one file. names: of the rules, in the order of their answers in the file."""

    names: tuple[str, ...]
    file: Path

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, which answer what the file holds and say nothing of any other question."""
        return tuple(
            Rule(name, lambda item, place=place: self.answer(item, place), "learned")  # type: ignore[misc]
            for place, name in enumerate(self.names)
        )

    def answer(self, item: Item, place: int) -> str | None:
        """The answer of the rule at that place of `names`; None for a question that is not in the file."""
        line = self._lines.get(item.id)
        if line is None or not line.startswith(_digest(item)):
            return None
        return item.choices[int(line.split(" ")[1][place])]

    @cached_property
    def _lines(self) -> Mapping[str, str]:
        answers: dict[str, str] = orjson.loads(self.file.read_bytes())["answers"] if self.file.is_file() else {}
        return answers

    def differing(self, items: Sequence[Item], answers: Answers) -> dict[str, int]:
        """To how many of these questions the file has another answer than a fit, or none, by name of the rule."""
        return {
            name: sum(self.answer(item, place) != answers[name].get(item.id) for item in items)
            for place, name in enumerate(self.names)
        }

    def write(self, items: Sequence[Item], answers: Answers) -> None:
        """Write the file: by id a digest of the question, and for each rule the place of its answer among the choices.

        items: questions that every rule of `answers` answers.
        """
        lines = {}
        for item in items:
            places = [item.choices.index(answers[name][item.id]) for name in self.names]
            lines[item.id] = f"{_digest(item)} {''.join(map(str, places))}"
        text = json.dumps({"schema": 1, "rules": self.names, "answers": lines}, indent=0)
        self.file.write_text(text + "\n", encoding="utf-8")
        self.__dict__.pop("_lines", None)


def _digest(item: Item) -> str:
    text = "\x1f".join((*item.story, item.question, *item.choices))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
