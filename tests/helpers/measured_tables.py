"""Tables of measurements whose truth is known, in the columns of tomserve.causal.table, without any model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tomserve.causal import table as t
from tomserve.causal.steering import PUBLISHED_ALPHAS

ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1)
PEAK = (2, 1e-2)
"""The layer and the strength at which a map moves the most."""


@dataclass(frozen=True)
class Truth:
    """What is so in a table.

    `works`: by map, the probability that a move to the true belief at the peak flips an item; away from the peak it is
    smaller, and a move to the false belief never flips. `eligible`: the share of items answered by the false-belief
    choice. `no_op`: the probability that adding nothing changes an answer. `holders`: whose belief a probe reads, with
    its accuracy. `error`: of the map, in every layer. `transfers`: the probability that a map of another family flips.
    `parted`: how a surface cue parts from the belief, by scenario in turn; `parting`: what the probability that the map
    flips is multiplied by in those of "distrusted".
    """

    works: Mapping[str, float] = field(default_factory=dict)
    ceiling: float = 0.95
    in_sample: float = 0.9
    eligible: float = 0.9
    no_op: float = 0.0
    error: float = 0.4
    displacement: float = 0.3
    holders: Mapping[str, float] = field(default_factory=lambda: {"protagonist": 0.9, "reality": 0.95})
    families: tuple[str, ...] = ("contents", "transfer")
    transfers: float = 0.5
    parted: tuple[str | None, ...] = ("informed", None, "distrusted", None)
    parting: float = 1.0


WORKS = Truth({t.PPT: 0.7, t.SHUFFLED_PAIRS: 0.1, t.MEAN_DIFFERENCE: 0.15})
REPRODUCED = Truth({t.PPT: 0.7, t.SHUFFLED_PAIRS: 0.7})
SHARED = Truth({t.PPT: 0.7, t.IDENTITY: 0.7, t.SHUFFLED_PAIRS: 0.1})
NOTHING = Truth({}, in_sample=0.0, transfers=0.0)
FEW = Truth({t.PPT: 0.7}, eligible=0.15)
BROKEN = Truth({t.PPT: 0.7}, no_op=0.1)
NO_CEILING = Truth({t.PPT: 0.0}, ceiling=0.0)
SURFACE = Truth(WORKS.works, parting=0.0)
TOGETHER = Truth(WORKS.works, parted=(None,))
ALONE = Truth(WORKS.works, families=("all",))
UNPROBED = Truth(WORKS.works, holders={})
UNFITTED = Truth(WORKS.works, error=1.3)
LONG = Truth(WORKS.works, displacement=2.5)


def measured(
    truth: Truth,
    model: str = "m",
    items: int = 160,
    layers: Sequence[int] = (1, 2, 3),
    alphas: Sequence[float] = ALPHAS,
    seed: int = 7,
) -> pl.DataFrame:
    """A measured table; two items make a scenario, and families take turns."""
    made = _Table(truth, items, tuple(layers), tuple(alphas), np.random.default_rng(seed))
    made.answer()
    made.move()
    made.map()
    made.probe()
    frame = made.frame().with_columns(run=pl.lit(f"run-{model}"), model=pl.lit(model), benchmark=pl.lit("worlds"))
    frame = frame.with_columns(asked_by=pl.lit("vanilla"))
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in t.SCHEMA.items()
    )


NO_ITEM = np.array([-1])
"""Stands for the row that is of no item."""


@dataclass(frozen=True)
class _Part:
    """Rows that differ in their items and in what was answered alone: values that all share, and columns [rows]."""

    shared: Mapping[str, Any]
    items: npt.NDArray[np.intp]
    columns: Mapping[str, npt.NDArray[Any]]


class _Table:
    """Draws the rows of one table."""

    def __init__(
        self, truth: Truth, items: int, layers: tuple[int, ...], alphas: tuple[float, ...], rng: np.random.Generator
    ) -> None:
        self.truth, self.layers, self.alphas, self.rng = truth, layers, alphas, rng
        place = np.arange(items)
        families = np.array(truth.families)
        names = [(f"worlds/{n // 2}/{n % 2}", f"worlds/{n // 2}") for n in place]
        self.items = pl.DataFrame(names, ["item", "cluster"], orient="row").with_columns(
            family=pl.Series(families[(place // 2) % len(families)]),
            parted=pl.Series([truth.parted[(n // 2) % len(truth.parted)] for n in place], dtype=pl.String),
        )
        self.says_false = rng.random(items) < truth.eligible

        self.family, self.parted = self.items["family"].to_numpy(), self.items["parted"].to_numpy()
        self.parts: list[_Part] = []

    def frame(self) -> pl.DataFrame:
        """All parts, one below the other; made at once, since a frame for each would take most of the time."""
        sizes = [len(part.items) for part in self.parts]
        shared = pl.DataFrame([part.shared for part in self.parts], infer_schema_length=None)
        columns = {}
        for name in ("role", "role_before", "right"):
            values = [part.columns.get(name, np.full(len(part.items), None)) for part in self.parts]
            columns[name] = pl.Series(np.concatenate(values).tolist())
        items = pl.concat([self.items, self.items.clear(1)])[np.concatenate([part.items for part in self.parts])]
        shared = shared[np.repeat(np.arange(len(sizes)), sizes)]
        return pl.concat([items, shared], how="horizontal").with_columns(**columns)

    def answer(self) -> None:
        for told in t.TOLD:
            role = np.where(self.says_false & (told in (t.FALSE, t.OWN)), "false", "true")
            for order in (0, 1):
                self._add({"kind": t.ANSWER, "told": told, "order": order, "strict": True, "gap": -1.0}, role=role)

    def _add(self, shared: Mapping[str, Any], items: npt.NDArray[np.intp] | None = None, **columns: Any) -> None:
        items = np.arange(self.items.height) if items is None else items
        self.parts.append(_Part(shared, items, columns))

    def move(self) -> None:
        truth = self.truth
        for layer in self.layers:
            for name in (t.PPT, *t.CONTROLS):
                for alpha in self.alphas:
                    chance = truth.works.get(name, 0.0) * self._fading(layer, alpha)
                    self._move(name, t.HELD_OUT, layer, alpha, chance)
            for alpha in self.alphas:
                self._move(t.REPLACE, t.HELD_OUT, layer, alpha, 0.3)
                if len(truth.families) > 1:
                    for name in (t.PPT, t.SHUFFLED_PAIRS, t.IDENTITY):
                        chance = truth.transfers * self._fading(layer, alpha) if name == t.PPT else 0.0
                        for family in truth.families:
                            self._move(name, family, layer, alpha, chance)
            for alpha in PUBLISHED_ALPHAS:
                self._move(t.REPLACE, t.IN_SAMPLE, layer, alpha, truth.in_sample * self._fading(layer, alpha))
                for name in (t.SHUFFLED_PAIRS, t.IDENTITY):
                    chance = truth.works.get(name, 0.0) * self._fading(layer, alpha)
                    self._move(name, t.IN_SAMPLE, layer, alpha, chance)
            ceiling = truth.ceiling * (1.0 if layer == PEAK[0] else 0.5)
            self._move(t.PATCH, t.HELD_OUT, layer, None, ceiling)
            self._move(t.PATCH_TWIN, t.HELD_OUT, layer, None, ceiling, both=False)
            self._move(t.NO_OP, t.HELD_OUT, layer, None, truth.no_op, both=False)
            self._move(t.REPLACE_NO_OP, t.HELD_OUT, layer, None, 0.05, both=False)

    def _fading(self, layer: int, alpha: float) -> float:
        far = abs(layer - PEAK[0]) + abs(np.log10(alpha / PEAK[1]))
        return float(max(0.0, 1 - 0.35 * far))

    def _move(self, name: str, fitted: str, layer: int, alpha: float | None, chance: float, both: bool = True) -> None:
        items = np.flatnonzero(self.family != fitted)
        before = self.says_false[items]
        there = np.where(self.parted[items] == "distrusted", self.truth.parting if name == t.PPT else 1.0, 1.0)
        for target in (t.TO_TRUE, t.TO_FALSE) if both else (t.TO_TRUE,):
            flips = self.rng.random(len(items)) < there * (chance if target == t.TO_TRUE else 0.0)
            role_before = np.where(before, "false", "true")
            for order in (0, 1):
                shared = {"kind": t.MOVE, "map": name, "fitted": fitted, "layer": layer, "alpha": alpha, "order": order}
                shared |= {"strict": True, "strict_before": True, "gap": 0.5, "gap_before": -1.0}
                shared |= {"displacement": self.truth.displacement}
                shared |= {"target": None if name in (t.NO_OP, t.REPLACE_NO_OP) else target}
                role = np.where(flips & before, "true", role_before)
                self._add(shared, items, role_before=role_before, role=role)

    def probe(self) -> None:
        for probe, accuracy in self.truth.holders.items():
            for layer in self.layers:
                for told in (t.FALSE, t.TWIN):
                    for labels, share in ((t.TRUE_LABELS, accuracy), (t.SHUFFLED_LABELS, 0.5)):
                        shared = {"kind": t.PROBE, "probe": probe, "labels": labels, "layer": layer}
                        shared |= {"told": told, "fold": 0, "chance": 0.5}
                        self._add(shared, right=self.rng.random(self.items.height) < share)

    def map(self) -> None:
        shared: dict[str, Any] = {"kind": t.MAP, "fitted": t.HELD_OUT, "rank": 40, "gain": 0.9, "norm": 12.0}
        for name in (t.PPT, t.SHUFFLED_PAIRS):
            error = self.truth.error if name == t.PPT else 1.2
            for layer in self.layers:
                for fold in range(5):
                    one = {"map": name, "error": error, "layer": layer, "fold": fold, "penalty": 0.1 * (1 + fold)}
                    self._add({**shared, **one}, NO_ITEM)
