"""Interventions on the activations of all cases, layer by layer, with the baseline answers and the probes beside
them.

The layers are taken in groups whose steps fit into memory; within a group the cases come one after another, as all
re-runs of a prompt share its prefix. What was asked is kept in parts, each the rows of some cases in one group, so that
a measurement that was killed goes on after its last part. Maps are fitted on the states of all cases; moved are those
alone whose answers can flip, which of a small model are the fewest.

A probe learns what a person holds for true, in the words of the choice that says so. (Not its place in the list: a
model that is asked for words has no need of the place.) Its items are the false-belief story and its true-belief twin,
in both orders, so that neither what is really so nor where a choice stands tells what the protagonist believes.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import orjson
import polars as pl
from numpy.typing import NDArray

from tomserve.benchmarks.counterfactuals import IN_TWIN, Case
from tomserve.causal import table
from tomserve.causal.activations import ActivationCache, Answers, Backend, Floats, Ints
from tomserve.causal.projection import Ridge, probe
from tomserve.causal.prompts import ORDERS, PromptSet, find_eligible, read_answers, read_baseline
from tomserve.causal.settings import Settings
from tomserve.causal.steering import (
    PUBLISHED_ALPHAS,
    TRANSFER_LEAST,
    FitRow,
    LayerStates,
    Pilot,
    Step,
    Strengths,
    steps,
)
from tomserve.causal.strengths import spread
from tomserve.content import files
from tomserve.errors import ConfigError

PART = 4  # so many cases make a part: what a process that is killed has to ask again at most


@dataclass(frozen=True)
class Interventions:
    """What is moved: the cases and their states, by which folds and settings."""

    asked: PromptSet
    states: ActivationCache
    folds: Ints  # [n], the fold of each case
    settings: Settings
    memory: int  # bytes that the steps of a group of layers may take

    @cached_property
    def answered(self) -> Floats:
        """The share of the orders of each case in which the likeliest choice is that of the false belief [n]."""
        answers, false = self.states.answers, table.ROLES.index("false")
        said = [
            [read_baseline(self.asked, answers, number, order).role[0] == false for order in ORDERS]
            for number in range(len(self.asked.cases))
        ]
        return np.asarray(np.mean(said, axis=1), np.float32)

    def layer_states(self, layer: int) -> LayerStates:
        """The states of all cases after that block, averaged over both orders, in float64."""
        found = self.states.layer(layer)
        return LayerStates(
            false=self.asked.mean(found, table.FALSE),
            own=self.asked.mean(found, table.OWN),
            own_twin=self.asked.mean(found, table.OWN_TWIN),
            twin=self.asked.mean(found, table.TWIN),
            clusters=self.asked.clusters,
            families=tuple(case.family for case in self.asked.cases),
        )

    def steps(self, layer: int, backend: Backend, folder: Path) -> tuple[list[Step], list[FitRow]]:
        """The steps of all cases in that layer, and how well the maps fit that they come from. folder: keeps the
        strengths that were chosen, since a measurement that goes on has to make the same steps."""
        kept = folder / f"layer-{layer:03d}-strengths.json"
        names = [table.HELD_OUT, table.TRUE_PAIRS] if self.settings.true_pairs else [table.HELD_OUT]
        pilot = None if self.settings.alphas is not None or kept.exists() else self._pilot(layer, backend)
        alphas: dict[str, Strengths]
        if self.settings.alphas is None and pilot is None:
            alphas = read_strengths(kept, names)
        else:
            alphas = dict.fromkeys(names, pilot or self.settings.alphas or ())
        of = self.layer_states(layer)
        made, rows = steps(of, self.folds, alphas[table.HELD_OUT], self.settings.seed, alphas.get(table.TRUE_PAIRS))
        if pilot is not None:
            moved = {(step.fitted, step.alpha) for step in made if step.map == table.PPT and step.alpha is not None}
            chosen = {name: sorted(alpha for fitted, alpha in moved if fitted == name) for name in names}
            with files.replace_file(kept) as file:
                file.write(orjson.dumps(chosen))
        return made, rows

    def _pilot(self, layer: int, backend: Backend) -> Pilot:
        """Tries displacements on a few eligible cases, with the choices as listed."""
        cases = spread(find_eligible(self.asked, self.states.answers))

        def ask(displacements: NDArray[np.float64]) -> NDArray[np.float64]:
            flips = np.zeros(len(displacements))
            for number, moved in zip(cases.tolist(), displacements.transpose(1, 0, 2), strict=True):
                place = self.asked.place(number, ORDERS[0])
                prompt = self.asked.prompts[place]
                wanted = (self.states.layer(layer)[place] + moved).astype(np.float32)
                after = backend.rerun(prompt, np.full(len(wanted), layer, np.int64), wanted)
                read = read_answers(self.asked.cases[number], prompt, after)
                flips += read.strict & (read.role == table.ROLES.index("true"))
            return flips / len(cases)

        return Pilot(cases, ask)

    def groups(self, layers: Sequence[int], cells: int) -> Iterator[tuple[int, ...]]:
        """The layers in groups whose steps fit into memory, or of one. cells: steps of an item in a layer."""
        one = max(1, cells * len(self.asked.cases) * self.states.width * 4)
        size = max(1, self.memory // one)
        for start in range(0, len(layers), size):
            yield tuple(layers[start : start + size])


def read_strengths(path: Path, names: Sequence[str]) -> dict[str, Strengths]:
    """The strengths that were chosen for a layer, by the names of its maps. Raises ConfigError by file where they are
    none, as in a stranger's folder."""
    way_out = "delete it, and the strengths are chosen again"
    found = files.read_json(path, way_out)
    for name in names:
        given = found.get(name) if isinstance(found, dict) else None
        if not isinstance(given, list) or not all(type(one) in (int, float) and one > 0 for one in given):
            raise ConfigError(f"{path}: {name}: expected a list of strengths above 0; {way_out}")
    return {name: tuple(found[name]) for name in names}


_Cell = tuple[int, Step]  # a step, after the layer in which it is made
PUBLISHED_CELLS = 2 * 3 * len(PUBLISHED_ALPHAS)  # steps of an item in a layer that NetEffect as published counts


def count_cells(alphas: int, others: int = 0, true_pairs: bool = False) -> int:
    """How many steps an item makes in a layer, at so many strengths, with the maps of so many other families, and of
    true-belief pairs."""
    with_alpha = 1 + len(table.CONTROLS) + 1  # the map, its controls, and replaced
    towards = 2 * alphas * (with_alpha + 3 * others + 4 * true_pairs) + PUBLISHED_CELLS
    return towards + len([one for one in table.REFERENCES if one != table.REPLACE]) + 1  # `patch` aims at both targets


def count_reruns(moves: Interventions, layers: int) -> int:
    sizes = Counter(case.family for case in moves.asked.cases)
    large = [family for family, size in sizes.items() if size >= TRANSFER_LEAST]
    steps_made = 0
    for number, case in enumerate(moves.asked.cases):
        if moves.answered[number] < 1:
            steps_made += PUBLISHED_CELLS * bool(moves.answered[number])
            continue
        others = len(large) - 1 if case.family in large else 0
        lacking = moves.asked.place(number, ORDERS[0], table.TWIN) < 0
        steps_made += count_cells(moves.settings.strengths, others, moves.settings.true_pairs) - lacking
    return len(ORDERS) * layers * steps_made


def run_interventions(
    moves: Interventions, backend: Backend, layers: Sequence[int], folder: Path, advance: Callable[[int], None]
) -> Iterator[Path]:
    """Move the states of all cases in these layers and ask again; yield the file of each part, as the table's rows.

    folder: where the parts are kept; those that are there already are not asked again. advance: told how many re-runs
    were made, or were there. Before the parts of a group come the rows that say how well its maps fit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    others = len({case.family for case in moves.asked.cases}) - 1
    for group in moves.groups(layers, count_cells(moves.settings.strengths, others, moves.settings.true_pairs)):
        name = f"layers-{group[0]:03d}-{group[-1]:03d}"
        cases = np.flatnonzero(moves.answered).tolist()
        parts = [cases[start : start + PART] for start in range(0, len(cases), PART)]
        paths = [folder / f"{name}-{number:05d}.parquet" for number in range(len(parts))]
        fits = folder / f"{name}-maps.parquet"
        if not fits.exists() or not all(path.exists() for path in paths):
            cells, found = _cells(moves, backend, group, folder)
            _write(fits, _fit_rows(found))
            for path, numbers in zip(paths, parts, strict=True):
                if not path.exists():
                    _write(
                        path,
                        pl.concat([_intervention_rows(moves, backend, cells, number, advance) for number in numbers]),
                    )
                else:
                    advance(sum(len(ORDERS) * len(_there(moves, cells, number)) for number in numbers))
        else:
            advance(sum(files.scan_foreign_parquet(path).select(pl.len()).collect().item() for path in paths))
        yield fits
        yield from paths


def _cells(
    moves: Interventions, backend: Backend, group: Sequence[int], folder: Path
) -> tuple[list[_Cell], list[tuple[int, FitRow]]]:
    cells: list[_Cell] = []
    fits: list[tuple[int, FitRow]] = []
    for layer in group:
        made, found = moves.steps(layer, backend, folder)
        cells += [(layer, step) for step in made]
        fits += [(layer, row) for row in found]
    return cells, fits


def _there(moves: Interventions, cells: Sequence[_Cell], number: int) -> list[_Cell]:
    """The steps that a case makes: all but those that do not apply to it, such as one without its telling. A case that
    is answered by the false belief in one order alone is counted by the published rules only."""
    whole = moves.answered[number] == 1
    return [
        (layer, step)
        for layer, step in cells
        if np.isfinite(step.delta[number, 0]) and (whole or step.fitted == table.IN_SAMPLE)
    ]


def _intervention_rows(
    moves: Interventions, backend: Backend, cells: Sequence[_Cell], number: int, advance: Callable[[int], None]
) -> pl.DataFrame:
    case, own = moves.asked.cases[number], _there(moves, cells, number)
    layers = np.array([layer for layer, _ in own], np.int64)
    known, which = np.unique(layers, return_inverse=True)  # so that a state is read once, however often it is moved
    deltas = np.stack([step.delta[number] for _, step in own]).astype(np.float32, copy=False)
    replaces = np.array([step.replaces for _, step in own])
    displacement = _displacement(moves, layers, deltas, replaces, number)
    frames = []
    for order in ORDERS:
        place = moves.asked.place(number, order)
        prompt = moves.asked.prompts[place]
        before = read_baseline(moves.asked, moves.states.answers, number, order)
        wanted = np.stack([moves.states.layer(int(layer))[place] for layer in known])[which]
        wanted += deltas
        wanted[replaces] = deltas[replaces]
        after = read_answers(case, prompt, backend.rerun(prompt, layers, wanted))
        advance(len(own))
        frames.append(
            pl.DataFrame(
                {
                    "item": pl.Series([case.f.id], dtype=pl.String).new_from_index(0, len(own)),
                    "cluster": pl.Series([case.scenario], dtype=pl.String).new_from_index(0, len(own)),
                    "family": pl.Series([case.family], dtype=pl.String).new_from_index(0, len(own)),
                    "told": [table.FALSE] * len(own),
                    "order": [order] * len(own),
                    "layer": layers,
                    "alpha": [step.alpha for _, step in own],
                    "map": [step.map for _, step in own],
                    "target": [step.target for _, step in own],
                    "fitted": [step.fitted for _, step in own],
                    "fold": [int(moves.folds[number])] * len(own),
                    "role_before": [table.ROLES[before.role[0]]] * len(own),
                    "strict_before": [bool(before.strict[0])] * len(own),
                    "gap_before": [float(before.gap[0])] * len(own),
                    "role": [table.ROLES[role] for role in after.role],
                    "strict": after.strict,
                    "gap": after.gap,
                    "displacement": displacement,
                }
            )
        )
    return table_rows(table.MOVE, pl.concat(frames))


def _displacement(
    moves: Interventions,
    layers: Ints,
    deltas: Floats,
    replaces: np.ndarray[tuple[int], np.dtype[np.bool_]],
    number: int,
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
    rows = [{"layer": layer, **asdict(row)} for layer, row in found]
    return table_rows(table.MAP, pl.DataFrame(rows, infer_schema_length=None))


def table_rows(kind: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of one kind with all columns of the table; those that the frame lacks are null."""
    given = {**{name: pl.lit(None) for name in table.SCHEMA}, "kind": pl.lit(kind)}
    return frame.select(
        (pl.col(name) if name in frame.columns else given[name]).cast(dtype).alias(name)
        for name, dtype in table.SCHEMA.items()
    )


def _write(path: Path, frame: pl.DataFrame) -> None:
    with files.replace_file(path) as file:
        frame.write_parquet(file)


# The tellings that a probe reads, with what ends the names of their holders
TELLINGS = {table.FALSE: "", table.TWIN: IN_TWIN}


def probe_rows(
    asked: PromptSet,
    states: ActivationCache,
    folds: Ints,
    layers: Sequence[int],
    seed: int,
    advance: Callable[[int], None] = lambda count: None,
) -> pl.DataFrame:
    """The rows of all probes in these layers; none for a holder whose belief no case knows. advance: told after every
    layer."""
    scenarios = asked.clusters
    items = [
        (number, told, order, asked.place(number, order, told))
        for number in range(len(asked.cases))
        for told in TELLINGS
        for order in ORDERS
        if asked.place(number, order, told) >= 0
    ]
    places = np.array([place for *_, place in items], np.int64)
    groups = np.array([scenarios[number] for number, *_ in items], np.int64)
    own_folds = np.array([folds[number] for number, *_ in items], np.int64)
    words = {word: code for code, word in enumerate(sorted({word for case in asked.cases for word in case.f.choices}))}
    offered = np.zeros((len(items), len(words)), dtype=bool)
    for row, (number, *_) in enumerate(items):
        offered[row, [words[word] for word in asked.cases[number].f.choices]] = True
    labels = {
        name: np.array(
            [words.get(_believed_choice(asked.cases[number], name, told), -1) for number, told, *_ in items], np.int64
        )
        for name in table.PROBES
    }

    def probe_layer(layer: int) -> list[pl.DataFrame]:
        read, ridges = states.layer(layer)[places].astype(np.float64), dict[bytes, Ridge]()
        rows = []
        for name, wanted in labels.items():
            if len(set(wanted[wanted >= 0].tolist())) < 2:
                continue
            one = probe(read, wanted, own_folds, groups, seed, offered, ridges)
            for kind, right in ((table.TRUE_LABELS, one.right), (table.SHUFFLED_LABELS, one.shuffled)):
                rows.append(_rows(asked, items, own_folds, (layer, name, kind), right, one.chance.tolist()))
        return rows

    found: list[pl.DataFrame] = []
    # A matrix is decomposed by one core; of a wide model what a layer holds is some hundred megabytes.
    pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
    try:
        for rows in pool.map(probe_layer, layers):
            found += rows
            advance(1)
    finally:
        pool.shutdown(cancel_futures=True)
    return pl.concat(found) if found else table_rows(table.PROBE, pl.DataFrame())


def _believed_choice(case: Case, holder: str, told: str) -> str:
    """The choice that somebody holds for true; empty where nobody knows or it is no choice."""
    held = case.holders.get(holder + TELLINGS[told])
    return held if held is not None and held in case.f.choices else ""


def _rows(
    asked: PromptSet,
    items: Sequence[tuple[int, str, int, int]],
    folds: Ints,
    named: tuple[int, str, str],
    right: Sequence[bool | None],
    chance: Sequence[float],
) -> pl.DataFrame:
    layer, name, labels = named
    cases = [asked.cases[number] for number, *_ in items]
    frame = pl.DataFrame(
        {
            "item": [case.f.id for case in cases],
            "cluster": [case.scenario for case in cases],
            "family": [case.family for case in cases],
            "told": [told for _, told, _, _ in items],
            "order": [order for _, _, order, _ in items],
            "layer": [layer] * len(items),
            "probe": [name] * len(items),
            "labels": [labels] * len(items),
            "fold": folds,
            "right": list(right),
            "chance": list(chance),
        },
        schema_overrides={"right": pl.Boolean, "chance": pl.Float32},
    )
    return table_rows(table.PROBE, frame.filter(pl.col("right").is_not_null()))


def baseline_rows(asked: PromptSet, answers: Answers) -> pl.DataFrame:
    """The rows of what the model answered before any intervention, in every telling and order."""
    found: list[dict[str, object]] = []
    for number, case in enumerate(asked.cases):
        for told in table.TOLD:
            for order in ORDERS:
                if asked.place(number, order, told) < 0:
                    continue
                one = read_baseline(asked, answers, number, order, told)
                found.append(
                    {
                        "item": case.f.id,
                        "cluster": case.scenario,
                        "family": case.family,
                        "parted": case.parted,
                        "told": told,
                        "order": order,
                        "role": table.ROLES[one.role[0]],
                        "strict": bool(one.strict[0]),
                        "gap": float(one.gap[0]),
                    }
                )
    return table_rows(table.ANSWER, pl.DataFrame(found, infer_schema_length=None))
