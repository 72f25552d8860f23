"""What somebody may choose of a measurement, and what is recorded of it in the run's manifest."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tomserve.errors import ConfigError

STRENGTHS = 9  # at how many strengths a layer is moved, where nobody names any (tomserve.causal.strengths)
BY_EFFECT = "by effect"  # how a manifest says so

FOLDS = 5  # into how many parts the scenarios are divided: a map moves no item whose scenario it was fitted on
FEWEST = 50  # so many eligible items a measurement needs; with fewer its intervals are too wide to say anything
REFERENCE = "reference"  # the model that is examined where nobody names one: the one that comes with tomserve

ITEMS = "worlds"  # the benchmark whose cases are measured where nobody names one

STRATEGY = "vanilla"  # the strategy whose prompt asks for the answer, unless another is named


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is measured of which model on which cases; everything here must be the same when a run goes on."""

    model: str = REFERENCE  # the model: a preset, ORG/NAME on the hub, or ./FOLDER
    items: str = ITEMS  # a benchmark that has cases, a FILE.py that declares one, or a file of items
    path: Path | None = None  # the file or folder that the benchmark reads instead of its own data
    where: tuple[str, ...] = ()  # conditions on the false-belief items; empty for the benchmark's usual ones
    limit: int | None = None  # at most so many cases, whole scenarios of them
    strategy: str = STRATEGY  # the strategy whose prompt asks
    layers: tuple[int, ...] | None = None  # the layers that are moved, from 1; None for all
    alphas: tuple[float, ...] | None = None  # the strengths of the moves; None for those that each layer needs
    folds: int = FOLDS  # into how many parts the scenarios are divided for holding out
    seed: int = 0  # the seed of the folds and of everything random
    fewest: int = FEWEST  # how many items have to be eligible
    true_pairs: bool = False  # whether a second map is fitted on pairs of true beliefs, too

    def __post_init__(self) -> None:
        if self.alphas is not None:
            if not self.alphas or any(not 0 < alpha < float("inf") for alpha in self.alphas):
                raise ConfigError(f"alphas are {list(self.alphas)}; expected numbers above 0, such as 0.001,0.01")
            if len(set(self.alphas)) != len(self.alphas):
                raise ConfigError(f"alphas are {list(self.alphas)}; each may stand there once")
        if self.layers is not None and not self.layers:
            raise ConfigError(f"layers are {list(self.layers)}; expected whole numbers from 1, such as 4 and 5")
        if self.folds < 2:
            raise ConfigError(f"folds is {self.folds}; expected 2 or more, as a map moves no item it was fitted on")
        if self.fewest < 2:
            raise ConfigError(f"fewest is {self.fewest}; expected 2 or more eligible items")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}; expected 1 or more cases")

    @property
    def strengths(self) -> int:
        """At how many strengths each layer is moved."""
        return STRENGTHS if self.alphas is None else len(self.alphas)

    def selected_layers(self, layers: int) -> tuple[int, ...]:
        """The layers that are moved, in ascending order, of a model of so many. Raises ConfigError for one it lacks."""
        if self.layers is None:
            return tuple(range(1, layers + 1))
        if strange := [layer for layer in self.layers if not 1 <= layer <= layers]:
            raise ConfigError(f"layer {strange[0]} is none of this model's; it has layers 1 to {layers}")
        return tuple(sorted({int(layer) for layer in self.layers}))

    def to_record(self) -> dict[str, Any]:
        """What the manifest records of these settings, beside the model and the benchmark."""
        return {
            "strategy": self.strategy,
            "where": list(self.where) or "the usual ones",
            "limit": self.limit or "all",
            "layers": "all" if self.layers is None else sorted({int(layer) for layer in self.layers}),
            "alphas": BY_EFFECT if self.alphas is None else list(self.alphas),
            "folds": self.folds,
            "seed": self.seed,
            "fewest": self.fewest,
            **({"true_pairs": True} if self.true_pairs else {}),
        }


def layers_of(text: str) -> tuple[int, ...]:
    """The layers that a text names. Raises ConfigError for any other text.

    >>> layers_of("1,4-6")
    (1, 4, 5, 6)
    """
    found: list[int] = []
    for part in text.split(","):
        if not (match := re.fullmatch(r"\s*(\d{1,4})(?:\s*-\s*(\d{1,4}))?\s*", part)):
            raise ConfigError(f"--layers {text!r}: expected numbers of layers such as 1,4-6")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first or first < 1:
            raise ConfigError(f"--layers {text!r}: {part.strip()!r} names no layer; they are numbered from 1, upwards")
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def alphas_of(text: str) -> tuple[float, ...]:
    """The strengths that a text names, such as "1e-3, 0.01". Raises ConfigError for any other text."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--alphas {text!r}: expected numbers such as 0.001,0.01") from None
