"""Reads beliefs out of the states by linear probes, layer by layer: the protagonist's, another person's, and reality.

A probe learns what a person holds for true, in the words of the choice that says so, and reads which of an item's
choices it is. (Not its place in the list: a model that is asked for the words of its answer has no need of the place,
so that none can be read says nothing about what it knows.) The false-belief story and its true-belief twin,
in both orders, are its items, so that neither what is really so nor where a choice stands tells what the protagonist
believes. It is fitted on the same folds as the maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from tomserve.benchmarks.counterfactuals import IN_TWIN, Case
from tomserve.causal.asked import Asked
from tomserve.causal.backend import Ints
from tomserve.causal.moving import rows
from tomserve.causal.probes import probe
from tomserve.causal.states import States
from tomserve.causal.table import FALSE, PROBE, PROBES, SHUFFLED_LABELS, TRUE_LABELS, TWIN
from tomserve.causal.tokens import ORDERS

TELLINGS = {FALSE: "", TWIN: IN_TWIN}
"""The tellings that a probe reads, with what ends the names of their holders."""


def probed(
    asked: Asked,
    states: States,
    folds: Ints,
    layers: Sequence[int],
    seed: int,
    advance: Callable[[int], None] = lambda count: None,
) -> pl.DataFrame:
    """The rows of all probes in these layers; none for a holder whose belief no case knows.

    folds: int64 [n], the fold of each case. seed: of the shuffled labels. advance: told after every layer.
    """
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
        name: np.array([words.get(_held(asked.cases[number], name, told), -1) for number, told, *_ in items], np.int64)
        for name in PROBES
    }
    found = []
    for layer in layers:
        read = states.layer(layer)[places].astype(np.float64)
        for name, wanted in labels.items():
            if len(set(wanted[wanted >= 0].tolist())) < 2:
                continue
            one = probe(read, wanted, own_folds, groups, seed, offered)
            for kind, right in ((TRUE_LABELS, one.right), (SHUFFLED_LABELS, one.shuffled)):
                found.append(_rows(asked, items, own_folds, (layer, name, kind), right, one.chance.tolist()))
        advance(1)
    return pl.concat(found) if found else rows(PROBE, pl.DataFrame())


def _held(case: Case, holder: str, told: str) -> str:
    """The choice that somebody holds for true; empty where nobody knows or it is no choice."""
    held = case.holders.get(holder + TELLINGS[told])
    return held if held is not None and held in case.f.choices else ""


def _rows(
    asked: Asked,
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
    return rows(PROBE, frame.filter(pl.col("right").is_not_null()))
