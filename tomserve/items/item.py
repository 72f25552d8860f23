"""Item: one question about one story, with its choices, gold answer, gold rationale and design factors.

>>> item = Item(id="demo/1", benchmark="demo", story=["The box holds tea."], question="What is in the box?",
...             choices=["tea", "salt", "unknown"], answer="tea", gold={"sets": [["tea"]]}, cluster="demo")
>>> Item.from_json(item.to_json()) == item
True
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from tomserve.content import digest, files
from tomserve.content.yamlfile import explain, first_error, load, validate
from tomserve.errors import ConfigError, ContentError, JournalError, one_of
from tomserve.items.automaton import Automaton, compile_chains, compile_sets

SCHEMA = 1

UNKNOWN = "unknown"
"""The label of a choice that says that nobody can know."""
Factor = str | bool | Annotated[int, Field(ge=-(2**63), lt=2**63)] | float | None


RESERVED = frozenset(
    (
        *("run", "model", "benchmark", "item", "cluster", "strategy", "status", "parse", "reason", "answer", "correct"),
        *("chain", "answer_matches_last"),
    )
)
RESERVED_BEGINNINGS = ("chain_", "floor_", "noise_", "metric_")
"""Columns of the score table, and how the others begin: names that no factor may have. What scoring declares has to be
covered by these two, which a test compares; items know nothing of scoring."""


def nfc(text: str) -> str:
    """Text in the one Unicode form of every file of ours."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _nfc(value: Any) -> Any:
    return nfc(value) if isinstance(value, str) else value


# The validator runs first though it stands last: constraints that stand after one are checked in Python, one by one.
Text = Annotated[str, StringConstraints(min_length=1), BeforeValidator(_nfc)]
Label = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$"),
    BeforeValidator(_nfc),
]


class Gold(BaseModel):
    """The gold rationale: what the question asks about, after each sentence.

    Either `sets` (admissible labels a sentence, with optional `edges` [t, from, to], t the 0-based target sentence)
    or `chains` (every admissible chain, one label a sentence), never both.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
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
        """The compiled rationale (see tomserve.items.automaton)."""
        if self.chains is not None:
            return compile_chains(self.chains)
        return compile_sets(self.sets or (), self.edges, self.policy)

    def to_dict(self) -> dict[str, Any]:
        """The form of the data contract: sets, edges, policy; or chains."""
        if self.chains is not None:
            return {"chains": self.chains}
        return {"sets": self.sets, "edges": self.edges, "policy": self.policy}


class Item(BaseModel):
    """One question. `id` is stable (authored or content-addressed, never a row number).

    `choices` is the closed label set; `answer` one of them; `cluster` the task or story the item comes from (the unit
    that is resampled); `factors` the flat experimental design; `canary` marks data that must not be trained on, and
    travels with every export but never into a prompt. `benchmark` ("items") and `cluster` (the id) may be left out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: Annotated[str, StringConstraints(max_length=300, pattern=r"^[^\x00-\x1f]+$"), BeforeValidator(_nfc)]
    benchmark: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")] = "items"
    story: tuple[Text, ...] = Field(min_length=1)
    question: Text
    choices: tuple[Label, ...] = Field(min_length=2)
    answer: Label
    gold: Gold | None = None
    factors: dict[str, Factor] = Field(default_factory=dict)
    cluster: Text = ""
    canary: str | None = None

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
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _own_cluster(cls, data: Any) -> Any:
        if isinstance(data, dict) and "cluster" not in data and "id" in data:
            return {**data, "cluster": data["id"]}
        return data

    @model_validator(mode="after")
    def _check(self) -> Item:
        folded = [choice.casefold() for choice in self.choices]
        if len(set(folded)) != len(folded):
            raise ValueError(f"choices {list(self.choices)} are not distinct (letter case does not count)")
        if self.answer not in self.choices:
            raise ValueError(f"answer {self.answer!r} is not among the choices {list(self.choices)}")
        if clash := sorted(name for name in self.factors if name in RESERVED or name.startswith(RESERVED_BEGINNINGS)):
            raise ValueError(f"factor {clash[0]!r} has the name of a score column; rename it")
        if self.gold is not None:
            layers = (
                self.gold.sets if self.gold.sets is not None else tuple(zip(*(self.gold.chains or ()), strict=True))
            )
            if len(layers) != len(self.story):
                raise ValueError(f"gold has {len(layers)} layers for {len(self.story)} sentences")
            for number, layer in enumerate(layers, 1):
                if strange := sorted(set(layer) - set(self.choices)):
                    raise ValueError(f"gold of sentence {number} has {strange[0]!r}, not among the choices")
        return self

    def to_json(self) -> bytes:
        """One JSON line without the newline; keys in a fixed order, ``schema`` first."""
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
            }
        )

    @classmethod
    def from_json(cls, line: bytes | str) -> Item:
        """Read one line. Raises ValueError (pydantic.ValidationError, orjson.JSONDecodeError) if it is no Item."""
        return cls._from_dict(orjson.loads(line))

    @classmethod
    def _from_dict(cls, data: Any) -> Item:
        if isinstance(data, dict):
            data = dict(data)
            if data.pop("schema", SCHEMA) != SCHEMA:
                raise ValueError(f"schema is not {SCHEMA}; this file was written by another version of tomserve")
        return cls.model_validate(data)


def read_items(path: str | Path) -> Iterator[Item]:
    """Items of a file, in order: JSONL, one a line; or, where the name ends in .yaml or .yml, the list `items` of a
    YAML file. Raises ContentError with file, line and field; refuses a repeated id."""
    path = Path(path).expanduser()
    seen: dict[str, int] = {}
    for number, item in _yaml_items(path) if path.suffix in (".yaml", ".yml") else _json_lines(path):
        if (first := seen.setdefault(item.id, number)) != number:
            raise ContentError(f"{item.id!r} was already given in line {first}", path=path, line=number, field="id")
        yield item
    if not seen:
        raise ContentError("holds no items", path=path)


def _json_lines(path: Path) -> Iterator[tuple[int, Item]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, read_line(path, number, line)
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror})", path=path) from None


class _ItemsFile(BaseModel):
    """A YAML file of items."""

    model_config = ConfigDict(extra="forbid")
    schema_: Literal[1] = Field(alias="schema")
    items: list[Item]


def _yaml_items(path: Path) -> Iterator[tuple[int, Item]]:
    data, lines = load(path)
    found = validate(data, _ItemsFile, path=path, lines=lines)
    for place, item in enumerate(found.items):
        yield lines[("items", place)], item


def read_ids(path: Path) -> Iterator[str]:
    """The ids of a file of items that was checked when it was written; what is no item is refused as in read_items."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    identifier = _id_of(line)
                    yield read_line(path, number, line).id if identifier is None else identifier
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror})", path=path) from None


def _id_of(line: bytes) -> str | None:
    """The id that a line of ours states; None where it is no such line."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    found = data.get("id") if isinstance(data, dict) and data.get("schema") == SCHEMA else None
    return nfc(found) if isinstance(found, str) else None


def read_line(path: Path, number: int, line: bytes) -> Item:
    """The item of one line. Raises ContentError with file, line and field."""
    try:
        return Item.from_json(line)
    except orjson.JSONDecodeError as error:
        raise ContentError(f"not JSON: {error.msg} (column {error.colno})", path=path, line=number) from None
    except pydantic.ValidationError as error:
        first = first_error(error)
        field = ".".join(map(str, first["loc"]))
        raise ContentError(explain(first, None, Item), path=path, line=number, field=field) from None
    except ValueError as error:
        raise ContentError(str(error), path=path, line=number) from None


def write_items(path: Path, items: Iterable[Item]) -> None:
    """Replace `path` by these items in one step: a reader sees the old file or the new one, never half of one."""
    write_chunks(path, (item.to_json() + b"\n" for item in items))


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Replace `path` by these bytes in one step; nothing is left behind where making them fails.

    Raises JournalError where it cannot be written, ConfigError where it is a folder, a device or the like.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as file:
            for chunk in chunks:
                file.write(chunk)
    except OSError as error:
        raise JournalError(
            f"{path}: cannot be written ({error.strerror}); free space or choose another place"
        ) from None


def items_digest(items: Iterable[Item]) -> str:
    """Content digest of a benchmark, whatever the order of its items."""
    return digest(*sorted(item.to_json() for item in items))


def where(items: Iterable[Item], conditions: Iterable[str]) -> Iterator[Item]:
    """Items whose factors meet every ``factor=value``. Raises ConfigError for a factor that no item has."""
    wanted = []
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals:
            raise ConfigError(f"--where {condition!r}: expected factor=value")
        wanted.append((name, value))
    known: set[str] = set()
    kept = 0
    for item in items:
        known |= set(item.factors)
        if all(name in item.factors and _shown(item.factors[name]) == value for name, value in wanted):
            kept += 1
            yield item
    for name, value in wanted:
        if name not in known:
            raise ConfigError(f"--where: {one_of('factor', name, known)}")
        if not kept:
            raise ConfigError(f"--where: no item has {name}={value}" + (" and the rest" if len(wanted) > 1 else ""))


def _shown(value: Factor) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
