"""Moves the states of all cases and asks the model again: every layer, strength, map, control and reference.

The layers are taken in groups small enough that their steps fit into memory. Within a group the cases are taken one
after another, as all the re-runs of a prompt share its prefix. What was asked is kept in parts, each the rows of some
cases in one group, so that a measurement that was killed goes on after its last part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tomserve.causal.asked import Asked, one_of, said
from tomserve.causal.backend import Backend, Floats, Ints
from tomserve.causal.states import States
from tomserve.causal.steering import TRANSFER_LEAST, FitRow, LayerStates, Step, steps
from tomserve.causal.table import (
    CONTROLS,
    FALSE,
    MAP,
    MOVE,
    OWN,
    OWN_TWIN,
    REFERENCES,
    REPLACE,
    ROLES,
    SCHEMA,
    TWIN,
)
from tomserve.causal.tokens import ORDERS
from tomserve.content import files

PART = 4
"""So many cases make a part: what a process that is killed has to ask again at most."""


@dataclass(frozen=True)
class Moves:
    """What is moved: the cases and their states, by which folds, strengths and seed.

    folds: int64 [n], the fold of each case. alphas: the strengths. seed: of everything random. memory: how many bytes
    the steps of a group of layers may take.
    """

    asked: Asked
    states: States
    folds: Ints
    alphas: tuple[float, ...]
    seed: int
    memory: int

    def layer_states(self, layer: int) -> LayerStates:
        """The states of all cases after that block, averaged over both orders, in float64."""
        found = self.states.layer(layer)
        return LayerStates(
            false=self.asked.mean(found, FALSE),
            own=self.asked.mean(found, OWN),
            own_twin=self.asked.mean(found, OWN_TWIN),
            twin=self.asked.mean(found, TWIN),
            clusters=self.asked.clusters,
            families=tuple(case.family for case in self.asked.cases),
        )

    def steps(self, layer: int) -> tuple[list[Step], list[FitRow]]:
        """The steps of all cases in that layer, and how well the maps fit that they come from."""
        return steps(self.layer_states(layer), self.folds, self.alphas, self.seed)

    def groups(self, layers: Sequence[int], cells: int) -> Iterator[tuple[int, ...]]:
        """The layers in groups whose steps fit into the memory; one layer at least.

        cells: how many steps an item makes in a layer, as is known from the first.
        """
        one = max(1, cells * len(self.asked.cases) * self.states.width * 4)
        size = max(1, self.memory // one)
        for start in range(0, len(layers), size):
            yield tuple(layers[start : start + size])


@dataclass(frozen=True)
class _Cell:
    """One step of a layer, with what the rows of the table say of it."""

    layer: int
    step: Step


def cells_of(alphas: int, others: int = 0) -> int:
    """How many steps an item makes in a layer. alphas: how many strengths. others: from how many other families maps
    are carried over to it."""
    with_alpha = 1 + len(CONTROLS) + 2  # the map, its controls, in sample, and replaced
    towards = 2 * alphas * (with_alpha + 3 * others)
    return towards + len([one for one in REFERENCES if one != REPLACE]) + 1  # `patch` aims at both targets


def expected(moves: Moves, layers: int) -> int:
    """How many re-runs there will be in so many layers."""
    sizes = Counter(case.family for case in moves.asked.cases)
    large = [family for family, size in sizes.items() if size >= TRANSFER_LEAST]
    steps_made = 0
    for number, case in enumerate(moves.asked.cases):
        others = len(large) - 1 if case.family in large else 0
        lacking = moves.asked.place(number, ORDERS[0], TWIN) < 0
        steps_made += cells_of(len(moves.alphas), others) - lacking
    return len(ORDERS) * layers * steps_made


def move(
    moves: Moves, backend: Backend, layers: Sequence[int], folder: Path, advance: Callable[[int], None]
) -> Iterator[Path]:
    """Move the states of all cases in these layers and ask again; yield the file of each part, as the table's rows.

    folder: where the parts are kept; those that are there already are not asked again. advance: told how many re-runs
    were made, or were there. The parts begin with the rows that say how well the maps of a group fit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    others = len({case.family for case in moves.asked.cases}) - 1
    for group in moves.groups(layers, cells_of(len(moves.alphas), others)):
        name = f"layers-{group[0]:03d}-{group[-1]:03d}"
        parts = _parts(len(moves.asked.cases))
        paths = [folder / f"{name}-{number:05d}.parquet" for number in range(len(parts))]
        fits = folder / f"{name}-maps.parquet"
        if not fits.exists() or not all(path.exists() for path in paths):
            cells, found = _cells(moves, group)
            _write(fits, _fit_rows(found))
            for path, numbers in zip(paths, parts, strict=True):
                if not path.exists():
                    _write(path, pl.concat([_moved(moves, backend, cells, number, advance) for number in numbers]))
                else:
                    advance(sum(len(ORDERS) * len(_there(cells, number)) for number in numbers))
        else:
            advance(sum(pl.scan_parquet(path).select(pl.len()).collect().item() for path in paths))
        yield fits
        yield from paths


def _parts(cases: int) -> list[range]:
    return [range(start, min(start + PART, cases)) for start in range(0, cases, PART)]


def _cells(moves: Moves, group: Sequence[int]) -> tuple[list[_Cell], list[tuple[int, FitRow]]]:
    """The steps of a group of layers, and the fits of their maps, each with its layer."""
    cells: list[_Cell] = []
    fits: list[tuple[int, FitRow]] = []
    for layer in group:
        made, found = moves.steps(layer)
        cells += [_Cell(layer, step) for step in made]
        fits += [(layer, row) for row in found]
    return cells, fits


def _there(cells: Sequence[_Cell], number: int) -> list[_Cell]:
    """The steps that a case makes: all but those that do not apply to it, such as one without its telling."""
    return [cell for cell in cells if np.isfinite(cell.step.delta[number, 0])]


def _moved(
    moves: Moves, backend: Backend, cells: Sequence[_Cell], number: int, advance: Callable[[int], None]
) -> pl.DataFrame:
    """The rows of one case: each of its steps, in both orders."""
    case, own = moves.asked.cases[number], _there(cells, number)
    layers = np.array([cell.layer for cell in own], np.int64)
    known, which = np.unique(layers, return_inverse=True)  # so that a state is read once, however often it is moved
    deltas = np.stack([cell.step.delta[number] for cell in own]).astype(np.float32, copy=False)
    replaces = np.array([cell.step.replaces for cell in own])
    displacement = _displacement(moves, layers, deltas, replaces, number)
    frames = []
    for order in ORDERS:
        place = moves.asked.place(number, order)
        prompt = moves.asked.prompts[place]
        before = said(case, prompt, one_of(moves.states.answers, place))
        wanted = np.stack([moves.states.layer(int(layer))[place] for layer in known])[which]
        wanted += deltas
        wanted[replaces] = deltas[replaces]
        after = said(case, prompt, backend.rerun(prompt, layers, wanted))
        advance(len(own))
        frames.append(
            pl.DataFrame(
                {
                    "item": pl.Series([case.f.id], dtype=pl.String).new_from_index(0, len(own)),
                    "cluster": pl.Series([case.scenario], dtype=pl.String).new_from_index(0, len(own)),
                    "family": pl.Series([case.family], dtype=pl.String).new_from_index(0, len(own)),
                    "told": [FALSE] * len(own),
                    "order": [order] * len(own),
                    "layer": layers,
                    "alpha": [cell.step.alpha for cell in own],
                    "map": [cell.step.map for cell in own],
                    "target": [cell.step.target for cell in own],
                    "fitted": [cell.step.fitted for cell in own],
                    "fold": [int(moves.folds[number])] * len(own),
                    "role_before": [ROLES[before.role[0]]] * len(own),
                    "strict_before": [bool(before.strict[0])] * len(own),
                    "gap_before": [float(before.gap[0])] * len(own),
                    "role": [ROLES[role] for role in after.role],
                    "strict": after.strict,
                    "gap": after.gap,
                    "displacement": displacement,
                }
            )
        )
    return rows(MOVE, pl.concat(frames))


def _displacement(
    moves: Moves, layers: Ints, deltas: Floats, replaces: np.ndarray[tuple[int], np.dtype[np.bool_]], number: int
) -> Floats:
    """How far each step goes, over the norm of the state averaged over both orders."""
    places = [moves.asked.place(number, order) for order in ORDERS]
    known, which = np.unique(layers, return_inverse=True)
    mean = np.stack([np.mean(moves.states.layer(int(layer))[places], axis=0, dtype=np.float64) for layer in known])
    gone = np.sqrt(np.einsum("ij,ij->i", deltas, deltas, dtype=np.float64))  # no array of float64 for every step
    gone[replaces] = np.linalg.norm(deltas[replaces] - mean[which[replaces]], axis=1)
    norms = np.linalg.norm(mean, axis=1)[which]
    return np.asarray(gone / np.where(norms > 0, norms, np.nan), np.float32)


def _fit_rows(found: Sequence[tuple[int, FitRow]]) -> pl.DataFrame:
    return rows(
        MAP,
        pl.DataFrame(
            {
                "layer": [layer for layer, _ in found],
                "map": [row.map for _, row in found],
                "fitted": [row.fitted for _, row in found],
                "fold": [row.fold for _, row in found],
                "penalty": [row.penalty for _, row in found],
                "error": [row.error for _, row in found],
                "rank": [row.rank for _, row in found],
                "gain": [row.gain for _, row in found],
                "norm": [row.norm for _, row in found],
            }
        ),
    )


def rows(kind: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of one kind with all columns of the table; those that the frame lacks are null."""
    given = {**{name: pl.lit(None) for name in SCHEMA}, "kind": pl.lit(kind)}
    return frame.select(
        (pl.col(name) if name in frame.columns else given[name]).cast(dtype).alias(name)
        for name, dtype in SCHEMA.items()
    )


def _write(path: Path, frame: pl.DataFrame) -> None:
    with files.replace_file(path) as file:
        frame.write_parquet(file)
