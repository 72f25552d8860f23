"""The type of an item: one question about one story, with its choices, gold answer, gold rationale and design factors.

>>> item = Item(id="demo/1", benchmark="demo", story=["The box holds tea."], question="What is in the box?",
...             choices=["tea", "salt", "unknown"], answer="tea", gold={"sets": [["tea"]]}, cluster="demo")
>>> Item.from_json(item.to_json()) == item
True
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

import orjson
from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from tomserve.content import digest
from tomserve.content.files import is_deep, load_json
from tomserve.content.validation import Strict
from tomserve.errors import ConfigError, one_of
from tomserve.items.rationale import Automaton, compile_chains, compile_sets

SCHEMA = 1
"""Version of the JSON form of an item."""

EVERY = "all"
"""The condition that every item meets (see `where`)."""

UNKNOWN = "unknown"
"""The label of the choice that says that nobody can know."""
Factor = str | bool | Annotated[int, Field(ge=-(2**63), lt=2**63)] | float | None
"""What a design factor may be; integers have 64 bits, as in the score table."""


RESERVED = frozenset(
    (
        *("run", "model", "benchmark", "item", "cluster", "strategy", "status", "parse", "reason", "answer", "correct"),
        *("chain", "answer_matches_last"),
        *("sample", "samples", "samples_right", "samples_read", "correct_any", "correct_all", "correct_mean"),
        *("people", "people_right", "questions_given"),
    )
)
RESERVED_BEGINNINGS = ("chain_", "floor_", "noise_", "metric_", "rule_", "original_", "graded_")
"""Columns of the score table (RESERVED) and how its other columns begin: names that no factor may have. A test checks
that these two cover all columns that scoring declares, because items know nothing of scoring.
"""


LONGEST_FACTOR = 100
"""Most characters of a factor's name."""

_FACTOR = re.compile(rf"[\w.-]{{1,{LONGEST_FACTOR}}}")
"""What a factor may be called. Each becomes a column, and other names mean something else where columns are chosen:
``*`` all of them, and what stands between ``^`` and ``$`` a pattern."""


@lru_cache(maxsize=4096)
def wrong_factor(name: str) -> str | None:
    """What is wrong with the name of a factor, in words; None for a good one.

    >>> wrong_factor("order"), wrong_factor("*")
    (None, "factor '*': expected a name of 1 to 100 letters, digits, '_', '-' and '.'")
    """
    if name in RESERVED or name.startswith(RESERVED_BEGINNINGS):
        return f"factor {name!r} has the name of a score column; rename it"
    if _FACTOR.fullmatch(name) is None:
        shown = repr(name) if len(name) <= LONGEST_FACTOR else f"{name[:40]!r}..."
        return f"factor {shown}: expected a name of 1 to {LONGEST_FACTOR} letters, digits, '_', '-' and '.'"
    return None


def nfc(text: str) -> str:
    """The text in Unicode's normal form C, so that equal words are equal bytes in all files."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _nfc(value: Any) -> Any:
    return nfc(value) if isinstance(value, str) else value


LONGEST_LABEL = 2000
"""Most characters of a choice. Published benchmarks offer answers of several sentences; one in FANToM has 1,232."""

MOST_CHOICES, MOST_TEXT = 500, 100_000
"""How many choices a question may have, and how many characters together: telling many apart takes long."""

MOST_SENTENCES = 100_000  # of a story: a page shows each as a row of a table, a prompt as a line

# Pydantic runs a BeforeValidator first wherever it stands. It stands last because pydantic checks constraints that
# follow a validator one by one in Python, which is slower.
Text = Annotated[str, StringConstraints(min_length=1), BeforeValidator(_nfc)]
Label = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_LABEL, pattern=r"^[^\x00-\x1f]+$"),
    BeforeValidator(_nfc),
]


class Gold(Strict):
    """The gold rationale: which labels are right after each sentence of the story, for what the question asks.

    Either `sets` (the admissible labels a sentence), with optional `edges` [t, from, to], t being the 0-based index of
    the target sentence, and `policy` for sentences without edges; or `chains` (all admissible ones).
    """

    sets: tuple[tuple[Label, ...], ...] | None = None
    edges: tuple[tuple[int, Label, Label], ...] = ()
    policy: Literal["persist", "free"] = "persist"
    chains: tuple[tuple[Label, ...], ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Gold:
        if (self.sets is None) == (self.chains is None):
            raise ValueError("give either 'sets' or 'chains', not both and not neither")
        if self.chains is not None and self.edges:
            raise ValueError("'edges' belong to 'sets', not to 'chains'")
        if not self.automaton().labels:
            raise ValueError("the sets and edges leave no path from the first sentence to the last")
        return self

    def automaton(self) -> Automaton:
        """The compiled rationale (see tomserve.items.rationale)."""
        if self.chains is not None:
            return compile_chains(self.chains)
        return compile_sets(self.sets or (), self.edges, self.policy)

    def to_dict(self) -> dict[str, Any]:
        """The rationale as it is written in files of items: sets, edges and policy, or chains."""
        if self.chains is not None:
            return {"chains": self.chains}
        return {"sets": self.sets, "edges": self.edges, "policy": self.policy}


def gold_layers(gold: Gold | None) -> list[tuple[str, ...]]:
    """The labels that are right after each sentence, each once; nothing where there is no rationale."""
    if gold is None or gold.chains is None:
        return list((gold.sets if gold is not None else None) or ())
    return [tuple(dict.fromkeys(layer)) for layer in zip(*gold.chains, strict=True)]


class Item(Strict):
    """One question about one story; the fields are those of a line in a file of items.

    `id` is written by an author or derived from the content, and never changes. `answer` is one of the `choices`; an
    *open* item, as other tools' files make them, has none: any text may answer it. `factors` hold the experimental
    design. `cluster` names the task or story that the item comes from, the unit of statistics (the id where left out).
    `canary` marks data that no model must be trained on; it goes with every export. `base` is the id of the item that
    this one is a version of (the factor `variant` says which), and `meanings` says which of that item's choices each of
    its own stands for, where they are called otherwise. `world` is the record that a generated item was rendered from.
    None of these four goes into a prompt.
    """

    id: Annotated[str, StringConstraints(max_length=300, pattern=r"^[^\x00-\x1f]+$"), BeforeValidator(_nfc)]
    benchmark: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")] = "items"
    story: tuple[Text, ...] = Field(min_length=1, description="a list of sentences")
    question: Text
    choices: tuple[Label, ...] = Field(description="a list of the labels that can be answered, at least two")
    answer: Label
    gold: Gold | None = None
    factors: dict[str, Factor] = Field(default_factory=dict)
    cluster: Text = ""
    canary: str | None = None
    base: str | None = None
    meanings: tuple[Label, ...] | None = None
    world: dict[str, Any] | None = None

    if TYPE_CHECKING:  # lists, as one writes them, are taken for tuples; a type checker cannot know it by itself

        def __init__(
            self,
            *,
            id: str,
            story: Sequence[str],
            question: str,
            choices: Sequence[str],
            answer: str,
            gold: Gold | Mapping[str, Any] | None = None,
            factors: Mapping[str, Factor] = ...,
            benchmark: str = ...,
            cluster: str = ...,
            canary: str | None = None,
            base: str | None = None,
            meanings: Sequence[str] | None = None,
            world: Mapping[str, Any] | None = None,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _own_cluster(cls, data: Any) -> Any:
        if isinstance(data, dict) and "cluster" not in data and "id" in data:
            return {**data, "cluster": data["id"]}
        return data

    @model_validator(mode="after")
    def _check(self) -> Item:
        if len(self.story) > MOST_SENTENCES:
            raise ValueError(f"story has {len(self.story):,} sentences; expected at most {MOST_SENTENCES:,}")
        if len(self.choices) == 1:
            raise ValueError(
                f"choices: expected at least two labels, or none for an open question; found {list(self.choices)}"
            )
        if len(self.choices) > MOST_CHOICES or sum(map(len, self.choices)) > MOST_TEXT:
            raise ValueError(
                f"choices: {len(self.choices):,} of {sum(map(len, self.choices)):,} characters; expected at most "
                f"{MOST_CHOICES} of {MOST_TEXT:,}"
            )
        if len(set(map(str.casefold, self.choices))) != len(self.choices):
            raise ValueError(f"choices {list(self.choices)} are not distinct (letter case does not count)")
        if self.choices and self.answer not in self.choices:
            raise ValueError(f"answer {self.answer!r} is not among the choices {list(self.choices)}")
        if self.world is not None and is_deep(self.world):
            raise ValueError("world holds values within more than 200 others")
        for name in self.factors:
            if (reason := wrong_factor(name)) is not None:
                raise ValueError(reason)
        if self.meanings is not None and self.base is None:
            raise ValueError("'meanings' are those of a variant, which names its original by 'base'")
        if self.meanings is not None and not len(self.choices) == len(self.meanings) == len(set(self.meanings)):
            raise ValueError("'meanings' must name another choice of the original for each of the choices")
        if self.gold is not None:
            layers = gold_layers(self.gold)
            if len(layers) != len(self.story):
                raise ValueError(f"gold has {len(layers)} layers for {len(self.story)} sentences")
            known = set(self.choices)
            for number, layer in enumerate(layers, 1):
                if not known.issuperset(layer) and (strange := sorted(set(layer) - known)):
                    raise ValueError(f"gold of sentence {number} has {strange[0]!r}, not among the choices")
        return self

    def meaning(self, choice: str) -> str:
        """Which choice of the original a choice of this variant stands for; the choice itself where the two have the
        same choices. Raises ValueError for what is no choice."""
        return choice if self.meanings is None else self.meanings[self.choices.index(choice)]

    def to_json(self) -> bytes:
        """The item as one line of JSON without the newline, with keys in a fixed order and ``schema`` first."""
        return orjson.dumps(
            {
                "schema": SCHEMA,
                "id": self.id,
                "benchmark": self.benchmark,
                "story": self.story,
                "question": self.question,
                "choices": self.choices,
                "answer": self.answer,
                "gold": self.gold.to_dict() if self.gold else None,
                "factors": self.factors,
                "cluster": self.cluster,
                **({"canary": self.canary} if self.canary else {}),
                **({"base": self.base} if self.base else {}),
                **({"meanings": self.meanings} if self.meanings else {}),
                **({"world": self.world} if self.world else {}),
            }
        )

    @classmethod
    def from_json(cls, line: bytes | str) -> Item:
        """The item of one line. Raises ValueError (pydantic.ValidationError or orjson.JSONDecodeError) otherwise."""
        data = load_json(line)
        if isinstance(data, dict) and data.pop("schema", SCHEMA) != SCHEMA:
            raise ValueError(f"schema is not {SCHEMA}; this file was written by another version of tomserve")
        return cls.model_validate(data)


def items_digest(items: Iterable[Item]) -> str:
    """SHA-256 digest of the items' content, which does not depend on their order."""
    return digest(*sorted(item.to_json() for item in items))


class HasFactors(Protocol):
    """Anything with a place in a design: an item, or what is known of one."""

    @property
    def factors(self) -> Mapping[str, Factor]:
        """The place in the design."""


HasFactorsT = TypeVar("HasFactorsT", bound=HasFactors)


def where(items: Iterable[HasFactorsT], conditions: Iterable[str]) -> Iterator[HasFactorsT]:
    """Yield the items whose factors meet every condition ``factor=value``, with true, false and none in lower case.

    ``factor=one,another`` is met by both values; a comma before a space is part of a value. The condition ``all``
    (EVERY) is met by every item. Raises ConfigError for a condition of another form, a factor that no item has, and
    conditions that no item meets.
    """
    wanted = []
    for condition in conditions:
        if condition == EVERY:
            continue
        name, equals, value = condition.partition("=")
        if not equals:
            raise ConfigError(f"--where {condition!r}: expected factor=value, or {EVERY} for every item")
        wanted.append((name, value))
    known: set[str] = set()
    values: dict[str, set[str]] = {name: set() for name, _ in wanted}
    kept = 0
    for item in items:
        known |= set(item.factors)
        meets = True
        for name, value in wanted:
            found = factor_text(item.factors[name]) if name in item.factors else None
            meets &= found in _either(value)
            if found is not None and (len(values[name]) <= _LISTED or found in _either(value)):
                values[name].add(found)
        if meets:
            kept += 1
            yield item
    for name, value in wanted:
        if name not in known:
            raise ConfigError(f"--where: {one_of('factor', name, known)}")
        if not kept and values[name].isdisjoint(_either(value)):
            there = sorted(values[name])[:_LISTED]
            more = ", ..." if len(values[name]) > _LISTED else ""
            raise ConfigError(f"--where: no item has {name}={value}; {name} is {', '.join(there)}{more}")
    if wanted and not kept:
        told = " and ".join(f"{name}={value}" for name, value in wanted)
        raise ConfigError(f"--where: no item meets all conditions at once: {told}")


_LISTED = 12
"""How many values of a factor a message lists at most."""


@cache
def _either(value: str) -> tuple[str, ...]:
    """The values that meet a condition's value: itself and, where it lists several, each of them."""
    return (value, *(() if ", " in value else value.split(",")))


def factor_text(value: object) -> str:
    """A factor's value as conditions write it."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
