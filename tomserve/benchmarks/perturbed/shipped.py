"""Answers of fitted rules in a file, where scoring finds them without fitting anything.

They stand there by the question's id with a digest of what it says, so that a question that was changed, or one of
other stage files, has no answer rather than a wrong one. The file also has the digest of all questions that the rules
were fitted to. `tomserve dataset audit` compares the file with the questions and with a fit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from tomserve.items import Item, items_digest
from tomserve.scoring.baselines import Baseline

TOLERATED = 5
"""In how many answers of a rule a fit may differ from the file: another machine rounds in another way, and where two
answers are nearly as likely that decides."""

Answers = Mapping[str, Mapping[str, str]]
"""Answers as labels by the question's id, by name of the rule."""


@dataclass(frozen=True)
class Shipped:
    """The answers of some rules in one file.

    names: of the rules, in the order of their answers in the file. command: the command that fits the rules to the
    dataset as it is and writes the file again.
    """

    names: tuple[str, ...]
    file: Path
    command: str

    @property
    def rules(self) -> tuple[Baseline, ...]:
        """The rules, which answer what the file holds and say nothing of any other question."""
        return tuple(
            Baseline(name, lambda item, place=place: self.answer(item, place), "learned")  # type: ignore[misc]
            for place, name in enumerate(self.names)
        )

    def answer(self, item: Item, place: int) -> str | None:
        """The answer of the rule at that place of `names`; None for a question that is not in the file."""
        line = self._lines.get(item.id)
        if line is None or not line.startswith(_digest(item)):
            return None
        return item.choices[int(line.split(" ")[1][place])]

    @cached_property
    def _content(self) -> Mapping[str, Any]:
        content: dict[str, Any] = orjson.loads(self.file.read_bytes()) if self.file.is_file() else {}
        return content

    @cached_property
    def _lines(self) -> Mapping[str, str]:
        answers: dict[str, str] = self._content.get("answers", {})
        return answers

    def fitted_to(self, items: Sequence[Item]) -> bool:
        """Whether the answers in the file were fitted to just these questions, with these right answers."""
        return bool(self._content.get("questions") == items_digest(items))

    def problems(self, items: Sequence[Item], answers: Answers) -> Iterator[str]:
        """A sentence for each rule whose answers in the file are not those of a fit; only one sentence where the file
        was fitted to other questions, which explains them all.

        items: questions that every rule answers. answers: as a fit to them gives them, by id by name of the rule.
        """
        again = f"write it again with: {self.command}"
        if not self.fitted_to(items):
            lacking = sum(self.answer(item, 0) is None for item in items)
            yield (
                f"The learned rules in {self.file.name} of {self.file.parent.name} were fitted to other questions than "
                f"these, {lacking} of which have no answer there (of {len(items)}); {again}"
            )
            return
        for rule, count in self.differing(items, answers).items():
            if count > TOLERATED:
                yield (
                    f"The score tables hold {count} answers of the rule {rule!r} that a fit does not give "
                    f"({self.file.name} of {self.file.parent.name}); {again}"
                )

    def differing(self, items: Sequence[Item], answers: Answers) -> dict[str, int]:
        """To how many of these questions the file has another answer than a fit, or none, by name of the rule."""
        return {
            name: sum(self.answer(item, place) != answers[name].get(item.id) for item in items)
            for place, name in enumerate(self.names)
        }

    def write(self, items: Sequence[Item], answers: Answers) -> None:
        """Write the file: the digest of all questions, and by id one of the question, with the place of each rule's
        answer among the choices.

        items: questions that every rule of `answers` answers.
        """
        lines = {}
        for item in items:
            places = [item.choices.index(answers[name][item.id]) for name in self.names]
            lines[item.id] = f"{_digest(item)} {''.join(map(str, places))}"
        content = {"schema": 1, "rules": self.names, "questions": items_digest(items), "answers": lines}
        self.file.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
        for read in ("_content", "_lines"):
            self.__dict__.pop(read, None)


def _digest(item: Item) -> str:
    text = "\x1f".join((*item.story, item.question, *item.choices))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
