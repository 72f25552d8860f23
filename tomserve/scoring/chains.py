"""Chain metrics of the perturbed false-belief paper (arXiv 2602.22072), each the maximum over all gold chains.

A gold rationale is compiled once (tomserve.scoring.automaton); every metric is one pass over its layers, so the gold
chains, of which there can be exponentially many, are never listed. Greedy matching would be wrong on sets.

    >>> from tomserve.items import Gold
    >>> score_chain(Gold(sets=[["u"], ["x"], ["x"]]), ["u", "x"])
    ChainScore(proper=True, lcs=1.0, lcps=1.0, transitions=1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

from tomserve.items import Gold
from tomserve.scoring.automaton import Automaton


@dataclass(frozen=True, slots=True)
class ChainScore:
    """proper: whether only repeats were left out; the others are precisions in [0, 1] over the chain's length."""

    proper: bool
    lcs: float
    lcps: float
    transitions: float


@lru_cache(maxsize=65536)
def _scored(gold: Gold, chain: tuple[str, ...]) -> ChainScore:
    automaton = gold.automaton()
    if not chain:
        return ChainScore(False, 0.0, 0.0, 0.0)
    length = len(chain)
    right = proper(automaton, chain)
    return ChainScore(
        right,
        lcs(automaton, chain) / length,
        lcps(automaton, chain) / length,
        transition_overlap(automaton, chain, right),
    )


def score_chain(gold: Gold, chain: Sequence[str]) -> ChainScore:
    """All metrics of one chain; an empty (or unreadable) chain is not proper and scores 0. Equal pairs cost once."""
    return _scored(gold, tuple(chain))


def proper(automaton: Automaton, chain: Sequence[str], *, prefix: bool = False) -> bool:
    """Whether deleting repeats from some gold chain gives `chain`; with `prefix`, from some prefix of one (pre-proper).

    A bitset a node: bit k is set when the first k beliefs can have been read on arrival there.
    """
    if not chain or not automaton.labels:
        return False
    reads = {label: sum(1 << k for k, belief in enumerate(chain) if belief == label) for label in set(chain)}
    done = 1 << len(chain)
    layer = [2 if label == chain[0] else 0 for label in automaton.labels[0]]
    for t in range(1, len(automaton.labels)):
        if prefix and any(bits & done for bits in layer):
            return True
        before = automaton.labels[t - 1]
        following = [0] * len(automaton.labels[t])
        for i, bits in enumerate(layer):
            for j, label in enumerate(automaton.labels[t]):
                if bits and automaton.follows[t][i] >> j & 1:
                    following[j] |= (bits & reads.get(label, 0)) << 1
                    if label == before[i]:  # a repeat, left out
                        following[j] |= bits
        layer = following
    return any(bits & done for bits in layer)


def lcs(automaton: Automaton, chain: Sequence[str]) -> int:
    """Length of the longest common subsequence with a gold chain."""
    if not automaton.labels:
        return 0
    empty = [0] * (len(chain) + 1)
    rows = [_lcs_row(empty, label, chain) for label in automaton.labels[0]]
    for t in range(1, len(automaton.labels)):
        following = []
        for j, label in enumerate(automaton.labels[t]):
            sources = [rows[i] for i in range(len(rows)) if automaton.follows[t][i] >> j & 1]
            following.append(_lcs_row([max(cells) for cells in zip(*sources, strict=True)], label, chain))
        rows = following
    return max(row[-1] for row in rows)


def _lcs_row(above: Sequence[int], label: str, chain: Sequence[str]) -> list[int]:
    row = [0]
    for k, belief in enumerate(chain):
        row.append(max(above[k] + 1 if belief == label else above[k + 1], above[k + 1], row[k]))
    return row


def lcps(automaton: Automaton, chain: Sequence[str]) -> int:
    """Length of the longest sequence that is pre-proper in both: min of run lengths, summed over common leading runs.

    State at a node: (run of the chain, how much of it is matched) -> most matched in all.
    """
    if not automaton.labels or not chain:
        return 0
    runs = [(label, len(list(group))) for label, group in groupby(chain)]
    layer: list[dict[tuple[int, int], int]] = [
        {(0, 1): 1} if label == chain[0] else {} for label in automaton.labels[0]
    ]
    best = max((value for states in layer for value in states.values()), default=0)
    for t in range(1, len(automaton.labels)):
        following: list[dict[tuple[int, int], int]] = [{} for _ in automaton.labels[t]]
        for i, states in enumerate(layer):
            for j, label in enumerate(automaton.labels[t]):
                if not automaton.follows[t][i] >> j & 1:
                    continue
                for (run, count), value in states.items():
                    name, length = runs[run]
                    if label == name:
                        state, gain = (run, min(count + 1, length)), int(count < length)
                    elif run + 1 < len(runs) and label == runs[run + 1][0]:
                        state, gain = (run + 1, 1), 1
                    else:
                        continue
                    following[j][state] = max(following[j].get(state, 0), value + gain)
        layer = following
        best = max([best, *(value for states in layer for value in states.values())])
    return best


def transition_overlap(automaton: Automaton, chain: Sequence[str], is_proper: bool) -> float:
    """Share of the chain's set of consecutive pairs (self-pairs included) that one gold chain has too.

    The union over gold chains would credit mixed readings. Without any pair: 1 if proper, else 0.
    """
    pairs = {pair: index for index, pair in enumerate(sorted(set(pairwise(chain))))}
    if not pairs:
        return float(is_proper)
    if not automaton.labels:
        return 0.0
    layer: list[set[int]] = [{0} for _ in automaton.labels[0]]
    for t in range(1, len(automaton.labels)):
        following: list[set[int]] = [set() for _ in automaton.labels[t]]
        for i, masks in enumerate(layer):
            for j, label in enumerate(automaton.labels[t]):
                if automaton.follows[t][i] >> j & 1:
                    index = pairs.get((automaton.labels[t - 1][i], label))
                    following[j] |= masks if index is None else {mask | 1 << index for mask in masks}
        layer = [_undominated(masks) for masks in following]
    return max(mask.bit_count() for masks in layer for mask in masks) / len(pairs)


def _undominated(masks: set[int]) -> set[int]:
    """Drop sets of pairs that are part of another; keeps the search small."""
    return {mask for mask in masks if not any(mask != other and mask & other == mask for other in masks)}
