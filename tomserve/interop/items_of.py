"""Makes items of the questions in another tool's files, where they are none of a benchmark of ours.

What the file tells of a question becomes factors, so that accuracy can be split by them. A question whose choices the
file holds becomes an item with these choices; any other is an open item, which any text may answer.

>>> from tomserve.interop.foreign import Sample
>>> asked = "Ann has 3 pens.\\n\\nHow many has she?"
>>> sample = Sample(id="7", task="sums", model="m", asked=asked, text="3", target="3")
>>> made = item_of(sample, "sums", {"kind": "count"})
>>> made.id, made.story, made.question, made.answer, made.choices
('sums/7', ('Ann has 3 pens.',), 'How many has she?', '3', ())
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pydantic

from tomserve.errors import ConfigError
from tomserve.interop.foreign import Sample
from tomserve.items import Item, wrong_factor
from tomserve.items.item import LONGEST_LABEL, Factor

NO_TARGET = "(no target given)"
"""The answer of an open item where the file names none."""

LEVELS = 50
"""What a file tells of questions is a factor where it has at least two values, and at most so many."""

LONGEST_VALUE = 100
"""Most characters of a value that may be a factor."""

_LETTER = re.compile(r"\(?([A-Z])\)?[.)]?")


def one_line(text: str, longest: int = LONGEST_LABEL) -> str:
    """The text on one line without control characters, cut where it is longer."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f]+", " ", text).split())[:longest].strip()


def factor_name(name: str) -> str | None:
    """What a fact may be called as a factor; None where no name can be made of its own."""
    name = re.sub(r"[^\w.-]+", "_", name).strip("_")[:100]
    if name and wrong_factor(name) is not None:
        name = f"their_{name}"[:100]
    return name if name and wrong_factor(name) is None else None


def factor_value(value: object) -> Factor:
    """The value of a fact as that of a factor; None for what cannot be one."""
    if isinstance(value, str):
        value = one_line(value, LONGEST_VALUE + 1)
        return value if 0 < len(value) <= LONGEST_VALUE else None
    if isinstance(value, bool | float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    return None


@dataclass
class Facts:
    """Which facts of a file become factors. wanted: their names as the user gave them, empty for all that vary and have
    at most LEVELS values."""

    wanted: Sequence[str] = ()
    _values: dict[str, set[Factor]] = field(default_factory=dict)

    def see(self, facts: Mapping[str, Factor]) -> None:
        """Note the values of one sample."""
        for name, value in facts.items():
            seen = self._values.setdefault(name, set())
            if len(seen) <= LEVELS and (known := factor_value(value)) is not None:
                seen.add(known)

    def chosen(self) -> dict[str, str]:
        """The factor by the name of its fact. Raises ConfigError for a wanted one that no sample has."""
        for name in self.wanted:
            if name not in self._values:
                known = ", ".join(sorted(self._values)) or "none"
                raise ConfigError(f"--factor {name!r:.80}: no sample tells it; the file tells: {known[:500]}")
        names = self.wanted or [name for name, values in self._values.items() if 2 <= len(values) <= LEVELS]
        found: dict[str, str] = {}
        for name in sorted(names):
            factor = factor_name(name)
            if factor is not None and factor not in found.values():
                found[name] = factor
        return found


def factors_of(sample: Sample, chosen: Mapping[str, str]) -> dict[str, Factor]:
    """The factors of a sample's question. chosen: as Facts.chosen gives them."""
    return {factor: factor_value(sample.facts.get(name)) for name, factor in chosen.items()}


def item_of(sample: Sample, benchmark: str, factors: Mapping[str, Factor], named: str | None = None) -> Item:
    """The item of a sample's question. benchmark: what it is called. named: the beginning of its id, the task where it
    is left out. Raises ConfigError where the question has no text at all."""
    story, question = _parts(sample)
    choices, answer = _choices(sample)
    identity = one_line(f"{named or sample.task}/{sample.id}", 300)
    given = {
        "id": identity,
        "benchmark": benchmark,
        "story": story,
        "question": question,
        "factors": dict(factors),
        "cluster": one_line(sample.cluster, 300) if sample.cluster else identity,
    }
    try:
        return Item.model_validate({**given, "choices": choices, "answer": answer})
    except pydantic.ValidationError:
        target = one_line(sample.target or "") or NO_TARGET
        return Item.model_validate({**given, "choices": (), "answer": target})


def _parts(sample: Sample) -> tuple[tuple[str, ...], str]:
    """What is told and what is asked: as the file keeps them apart, else the last paragraph, line or sentence is the
    question, and the rest is the story."""
    if sample.question:
        return sample.story or (sample.question,), sample.question
    text = sample.asked.strip()
    if not text:
        raise ConfigError(f"{sample.place or sample.id}: the question has no text")
    for apart in (r"\n\s*\n", r"\n", r"(?<=[.!?])\s+"):
        parts = [part for one in re.split(apart, text) if (part := one.strip())]
        if len(parts) > 1:
            return tuple(parts[:-1]), parts[-1]
    return (text,), text


def _choices(sample: Sample) -> tuple[tuple[str, ...], str]:
    """The choices and the right one, in one line each; the target may name it by its letter."""
    choices = tuple(map(one_line, sample.choices))
    target = one_line(sample.target or "")
    if target in choices:
        return choices, target
    letter = _LETTER.fullmatch(target)
    place = ord(letter[1]) - ord("A") if letter else len(choices)
    return choices, choices[place] if place < len(choices) else target


def repeats(samples: Iterable[Sample]) -> int:
    """How many replies to one question there are at most, by the highest number of a repeat."""
    return max((sample.repeat for sample in samples), default=0) + 1
