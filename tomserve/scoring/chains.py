"""Metrics of a chain of beliefs against the gold rationale, after arXiv 2602.22072.

A gold rationale allows several beliefs after a sentence, and so many gold chains; each metric is its maximum over all
of them. There can be exponentially many, so they are never listed: the rationale is compiled once into a layered graph
(tomserve.items.automaton), and every metric is computed in one pass over its layers. Matching a chain greedily against
the sets would give wrong values.

    >>> from tomserve.items.automaton import compile_sets
    >>> score_chain(compile_sets([["u"], ["x"], ["x"]]), ["u", "x"])
    ChainScore(proper=True, lcs=1.0, lcps=1.0, transitions=1.0, transitions_distinct=1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from tomserve.items.automaton import Automaton


class ChainScore(NamedTuple):
    """The metrics of one chain. All but `proper` are precisions in [0, 1]: shares of what the chain holds.

    proper: whether deleting repeated beliefs from some gold chain gives the chain. lcs: the longest common subsequence
    with a gold chain, divided by the chain's length. lcps: the same for the longest common pre-proper sequence (see
    `lcps`). transitions: the share of the chain's distinct pairs of consecutive beliefs that a gold chain has too.
    transitions_distinct: the same without pairs of equal beliefs. It is not in the paper; without it a single such pair
    credits any number of repeats.
    """

    proper: bool
    lcs: float
    lcps: float
    transitions: float
    transitions_distinct: float


def score_chain(automaton: Automaton, chain: Sequence[str]) -> ChainScore:
    """All metrics of one chain of labels. An empty or unreadable one is not proper and scores 0."""
    if not chain:
        return ChainScore(False, 0.0, 0.0, 0.0, 0.0)
    if proper(automaton, chain):  # then every precision is 1, as the tests prove over random chains
        return ChainScore(True, 1.0, 1.0, 1.0, 1.0)
    length = len(chain)
    overlap = transition_overlaps(automaton, chain, False)
    return ChainScore(False, lcs(automaton, chain) / length, lcps(automaton, chain) / length, *overlap)


def proper(automaton: Automaton, chain: Sequence[str], *, prefix: bool = False) -> bool:
    """Whether deleting repeats from some gold chain gives `chain`.

    With `prefix` a beginning of a gold chain is enough (the chain is then *pre-proper*).
    """
    # One integer for each node: bit k is set where a path that ends there can have read the first k beliefs.
    if not chain or not automaton.labels:
        return False
    reads = {label: sum(1 << k for k, belief in enumerate(chain) if belief == label) for label in set(chain)}
    done = 1 << len(chain)
    layer = [2 if label == chain[0] else 0 for label in automaton.labels[0]]
    for t in range(1, len(automaton.labels)):
        if prefix and any(bits & done for bits in layer):
            return True
        before = automaton.labels[t - 1]
        labels = automaton.labels[t]
        following = [0] * len(labels)
        for i, j in automaton.steps[t]:
            if bits := layer[i]:
                following[j] |= (bits & reads.get(labels[j], 0)) << 1
                if labels[j] == before[i]:  # a repeated belief, which the chain may leave out
                    following[j] |= bits
        layer = following
    return any(bits & done for bits in layer)


def path_proper(automaton: Automaton, chain: Sequence[str]) -> bool:
    """Whether the chain without its last belief is proper for a gold chain without its own last belief.

    All repeats of the last belief at the end are taken away together. A proper chain ends in the right final belief, so
    that "proper" and "answer right" go together almost by definition; this metric is what remains without that link. A
    chain of one belief alone fits a gold chain of one belief alone.
    """
    if not chain or not automaton.labels:
        return False
    ends = _last_runs(automaton)
    kept = list(chain)
    while kept and kept[-1] == chain[-1]:
        kept.pop()
    if not kept:
        return any(ends[0])
    reads = {label: sum(1 << k for k, belief in enumerate(kept) if belief == label) for label in set(kept)}
    done = 1 << len(kept)
    layer = [2 if label == kept[0] else 0 for label in automaton.labels[0]]
    for t in range(1, len(automaton.labels)):
        before, labels = automaton.labels[t - 1], automaton.labels[t]
        following = [0] * len(labels)
        for i, j in automaton.steps[t]:
            if labels[j] != before[i] and ends[t][j] and layer[i] & done:
                return True
            following[j] |= (layer[i] & reads.get(labels[j], 0)) << 1
            if labels[j] == before[i]:
                following[j] |= layer[i]
        layer = following
    return False


def _last_runs(automaton: Automaton) -> list[list[bool]]:
    """For each layer and node, whether a path from the node to the end holds the node's belief only."""
    ends = [[True] * len(automaton.labels[-1])]
    for t in range(len(automaton.labels) - 1, 0, -1):
        before, labels = automaton.labels[t - 1], automaton.labels[t]
        here = [False] * len(before)
        for i, j in automaton.steps[t]:
            here[i] = here[i] or (labels[j] == before[i] and ends[0][j])
        ends.insert(0, here)
    return ends


def lcs(automaton: Automaton, chain: Sequence[str]) -> int:
    """Length, in beliefs, of the longest common subsequence of the chain and a gold chain."""
    if not automaton.labels:
        return 0
    empty = [0] * (len(chain) + 1)
    rows = [_lcs_row(empty, label, chain) for label in automaton.labels[0]]
    for t in range(1, len(automaton.labels)):
        labels = automaton.labels[t]
        above: list[list[int] | None] = [None] * len(labels)
        for i, j in automaton.steps[t]:
            known = above[j]
            above[j] = rows[i] if known is None else [max(pair) for pair in zip(known, rows[i], strict=True)]
        rows = [_lcs_row(row, label, chain) for row, label in zip(above, labels, strict=True) if row is not None]
    return max(row[-1] for row in rows)


def _lcs_row(above: Sequence[int], label: str, chain: Sequence[str]) -> list[int]:
    """The next row of the usual table of longest common subsequences, after a gold chain's next label."""
    row = [0]
    last = 0
    for k, belief in enumerate(chain):
        value = above[k] + 1 if belief == label else above[k + 1]
        last = value if value > last else last
        row.append(last)
    return row


def lcps(automaton: Automaton, chain: Sequence[str]) -> int:
    """Length, in beliefs, of the longest sequence that is pre-proper for both the chain and a gold chain.

    A *run* is a stretch of equal beliefs. The sequence consists of the leading runs in which both agree, each as long
    as the shorter of the two.
    """
    # What is known at a node: for each (run of the chain, how much of that run is matched) the most matched in all.
    if not automaton.labels or not chain:
        return 0
    runs = [(label, len(list(group))) for label, group in groupby(chain)]
    layer: list[dict[tuple[int, int], int]] = [
        {(0, 1): 1} if label == chain[0] else {} for label in automaton.labels[0]
    ]
    best = max((value for states in layer for value in states.values()), default=0)
    for t in range(1, len(automaton.labels)):
        following: list[dict[tuple[int, int], int]] = [{} for _ in automaton.labels[t]]
        labels = automaton.labels[t]
        for i, j in automaton.steps[t]:
            label = labels[j]
            for (run, count), value in layer[i].items():
                name, length = runs[run]
                if label == name:
                    state, gain = (run, min(count + 1, length)), int(count < length)
                elif run + 1 < len(runs) and label == runs[run + 1][0]:
                    state, gain = (run + 1, 1), 1
                else:
                    continue
                following[j][state] = max(following[j].get(state, 0), value + gain)
        if not any(following):
            break  # no gold chain agrees with the chain any further
        layer = following
        best = max([best, *(value for states in layer for value in states.values())])
    return best


def transition_overlaps(automaton: Automaton, chain: Sequence[str], is_proper: bool) -> tuple[float, float]:
    """The share of the chain's distinct consecutive pairs that one gold chain has too; and that without equal pairs.

    One gold chain has to hold them, because pairs from several would credit a mixture of readings. A chain without any
    such pair gets 1 if it is proper, else 0.
    """
    pairs = {pair: 1 << index for index, pair in enumerate(dict.fromkeys(pairwise(chain)))}
    changes = sum(bit for (before, after), bit in pairs.items() if before != after)
    if not pairs or not automaton.labels:
        return float(is_proper), float(is_proper)
    layer: list[set[int]] = [{0} for _ in automaton.labels[0]]
    for t in range(1, len(automaton.labels)):
        before, labels = automaton.labels[t - 1], automaton.labels[t]
        following: list[set[int]] = [set() for _ in labels]
        for i, j in automaton.steps[t]:
            bit = pairs.get((before[i], labels[j]), 0)
            following[j] |= {mask | bit for mask in layer[i]} if bit else layer[i]
        layer = [_undominated(masks) if len(masks) > 1 else masks for masks in following]
    masks = {mask for masks in layer for mask in masks}
    overlap = max(mask.bit_count() for mask in masks) / len(pairs)
    if not changes:
        return overlap, float(is_proper)
    return overlap, max((mask & changes).bit_count() for mask in masks) / changes.bit_count()


def _undominated(masks: set[int]) -> set[int]:
    """Leave out each set of pairs that is part of another: it cannot become the best one."""
    return {mask for mask in masks if not any(mask != other and mask & other == mask for other in masks)}
