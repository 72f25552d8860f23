"""Makes items of the questions in another tool's files, where they are none of a benchmark of ours.

What the file tells of a question becomes factors, so that accuracy can be split by them. A question whose choices the
file holds becomes an item with these choices; any other is an open item, which any text may answer.

>>> from tomserve.interop.foreign import Sample
>>> asked = "Ann has 3 pens.\\n\\nHow many has she?"
>>> sample = Sample(id="7", task="sums", model="m", asked=asked, text="3", target="3")
>>> made = item_of(sample, "sums", "sums", {"kind": "count"})
>>> made.id, made.story, made.question, made.answer, made.choices
('sums/7', ('Ann has 3 pens.',), 'How many has she?', '3', ())
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pydantic

from tomserve.content import digest
from tomserve.content.compact_index import FirstPlaces
from tomserve.errors import ConfigError
from tomserve.interop.foreign import Sample
from tomserve.items import Item, wrong_factor
from tomserve.items.item import LONGEST_FACTOR, LONGEST_LABEL, Factor
from tomserve.scoring.labels import Order, find_list_order, find_prompt_order

NO_TARGET = "(no target given)"
"""The answer of an open item where the file names none."""

LEVELS = 100
"""What a file tells of questions is a factor by itself where it has two to so many values, and these recur. The largest
sets of subjects that are in use stay below: MMLU has 57, CMMLU 67."""

MOST_VALUES = 500
"""Of a fact with more values than this it is not noted whether they recur."""

LONGEST_VALUE = 100
"""Most characters of a value that may be a factor."""

LONGEST_ID = 300
"""Most characters of an item's id."""

MOST_FACTS = 1000
"""Of more kinds of facts than this the others are passed over."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_LETTER = re.compile(r"\(?([A-Z])\)?[.)]?")


def one_line(text: str, longest: int = LONGEST_LABEL) -> str:
    """The text on one line without control characters, cut where it is longer."""
    if text.isprintable() and len(text) <= longest and "  " not in text and text.isascii():  # as most are
        return text.strip()
    return " ".join(_CONTROL.sub(" ", text).split())[:longest].strip()


def item_id(prefix: str, sample: Sample) -> str:
    """The id of the item of a sample's question: what the tool calls the question, or what tomserve called it, where
    the sample comes from there. prefix: the beginning of the id elsewhere, none where it is empty. What does not fit
    into an id is taken out, and a digest of the whole name stands at its end."""
    whole = f"{prefix}/{sample.id}" if prefix and not sample.ours else sample.id
    fit = one_line(whole, LONGEST_ID)
    if fit == whole and fit:
        return fit
    return f"{fit[: LONGEST_ID - 9]}~{digest(whole.encode())[7:15]}"


def factor_name(name: str) -> str | None:
    """What a fact may be called as a factor; None where no name can be made of its own."""
    name = re.sub(r"[^\w.-]+", "_", name).strip("_")[:LONGEST_FACTOR]
    if name and wrong_factor(name) is not None:
        name = f"their_{name}"[:LONGEST_FACTOR]
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
    """Which facts of a file become factors. wanted: their names as the user gave them, empty for all that have at most
    LEVELS values, which recur. always: those that become factors whatever their values.

    Questions are counted by their first reply, so that a fact of each question alone does not seem to recur where the
    question was asked several times."""

    wanted: Sequence[str] = ()
    always: Sequence[str] = ()
    _values: dict[str, set[Factor]] = field(default_factory=dict)
    _told: dict[str, int] = field(default_factory=dict)
    _questions: FirstPlaces = field(default_factory=FirstPlaces)

    def see(self, question: str, facts: Mapping[str, Factor]) -> None:
        """Note the facts of one reply, and their values where it is the first to its question."""
        first = question not in self._questions
        self._questions.add(question, 0)
        for name, value in facts.items():
            if (seen := self._values.get(name)) is None:
                if len(self._values) >= MOST_FACTS and name not in self.wanted:
                    continue
                seen = self._values[name] = set()
            if first and len(seen) <= MOST_VALUES and (known := factor_value(value)) is not None:
                seen.add(known)
                self._told[name] = self._told.get(name, 0) + 1

    def _recurs(self, name: str) -> bool:
        """Whether each value of a fact is told of two questions on average."""
        values = len(self._values[name])
        return 2 <= values <= MOST_VALUES and 2 * values <= self._told[name]

    def _few(self, name: str) -> bool:
        return len(self._values[name]) <= LEVELS and self._recurs(name)

    def passed_over(self) -> list[str]:
        """The facts that recur, and are no factors only because they have more than LEVELS values."""
        many = (name for name, values in self._values.items() if len(values) > LEVELS and self._recurs(name))
        return [] if self.wanted else sorted(name for name in many if factor_name(name) and name not in self.always)

    def chosen(self) -> dict[str, str]:
        """The factor by the name of its fact. Raises ConfigError for a wanted one that no sample has, or whose name
        cannot be that of a factor."""
        for name in self.wanted:
            if name not in self._values:
                known = ", ".join(sorted(self._values)) or "none"
                raise ConfigError(f"--factor {name!r:.80}: no sample tells it; the file tells: {known[:500]}")
            if factor_name(name) is None:
                raise ConfigError(f"--factor {name!r:.80}: a factor needs a letter or a digit in its name; rename it")
        names = set(self.wanted or (name for name in self._values if self._few(name)))
        found: dict[str, str] = {}
        for name in sorted(names | (set(self.always) & set(self._values))):
            factor = factor_name(name)
            if factor is not None and factor not in found.values():
                found[name] = factor
        return found


def factors_of(sample: Sample, chosen: Mapping[str, str]) -> dict[str, Factor]:
    """The factors of a sample's question. chosen: as Facts.chosen gives them."""
    return {factor: factor_value(sample.facts.get(name)) for name, factor in chosen.items()}


def item_of(sample: Sample, benchmark: str, prefix: str, factors: Mapping[str, Factor]) -> Item:
    """The item of a sample's question. benchmark: what it is called. prefix: the beginning of its id. Raises
    ConfigError where the question has no text at all."""
    story, question = _parts(sample)
    choices, answer = _choices(sample)
    identity = item_id(prefix, sample)
    given = {
        "id": identity,
        "benchmark": benchmark,
        "story": story,
        "question": question,
        "factors": dict(factors),
        "cluster": (one_line(sample.cluster, LONGEST_ID) if sample.cluster else "") or identity,
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
    text = (sample.given or sample.asked).strip()
    if not text:
        raise ConfigError(
            f"{sample.place or sample.id}: the question has no text; expected what the model was asked, by --map "
            "asked=COLUMN or --map question=COLUMN"
        )
    for apart in (r"\n\s*\n", r"\n", r"(?<=[.!?])\s+"):
        parts = [part for one in re.split(apart, text) if (part := one.strip())]
        if len(parts) > 1:
            return tuple(parts[:-1]), parts[-1]
    return (text,), text


def _choices(sample: Sample) -> tuple[tuple[str, ...], str]:
    """The choices and the right one, in one line each; the target may name it by its letter."""
    choices = labels_of(sample)
    return choices, by_letter(one_line(sample.target or ""), order_of(sample, choices)) or ""


def labels_of(sample: Sample) -> tuple[str, ...]:
    """The choices that the file names, in one line each."""
    return tuple(map(one_line, sample.choices))


def order_of(sample: Sample, choices: Sequence[str]) -> Order:
    """These choices in the order in which the model was shown them as A, B, C: as the prompt shows it, else as the file
    lists them; empty where neither says it. Prompts of tomserve that show no letters have none."""
    return find_prompt_order(sample.asked, choices) or (() if sample.ours else find_list_order(sample.choices, choices))


def by_letter(answer: str | None, choices: Sequence[str | None]) -> str | None:
    """The choice that an answer names by its letter; the answer itself where it names none so, or is a choice.

    >>> by_letter("(B)", ("tea", "salt")), by_letter("tea", ("tea", "salt")), by_letter("C", ("tea", "salt"))
    ('salt', 'tea', 'C')
    """
    letter = None if answer is None or answer in choices else _LETTER.fullmatch(answer.strip())
    place = ord(letter[1]) - ord("A") if letter else len(choices)
    named = choices[place] if place < len(choices) else None
    return answer if named is None else one_line(named)
