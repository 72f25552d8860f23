"""Metrics of a chain of beliefs against the gold rationale, after arXiv 2602.22072, and its comparison sentence by
sentence.

A gold rationale allows several beliefs after a sentence, and so many gold chains; each metric is its maximum over all
of them. There can be exponentially many, so that the rationale is compiled once into a layered graph
(tomserve.items.rationale), and every metric is computed in one pass over its layers; where there is one gold chain
only, as mostly, without them.
"""

from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from operator import eq
from typing import Any, NamedTuple

from tomserve.items.rationale import Automaton, count_runs

Runs = Sequence[tuple[str, int]]


class ChainScore(NamedTuple):
    """The metrics of one chain. All but `proper` are precisions in [0, 1]: shares of what the chain holds, so that they
    reward short chains: one right belief scores 1."""

    proper: bool  # whether deleting repeated beliefs from some gold chain gives the chain
    lcs: float  # the longest common subsequence with a gold chain, divided by the chain's length
    lcps: float  # the same for the longest common pre-proper sequence (see `lcps`)
    transitions: float | None  # the share of its distinct pairs of consecutive beliefs that a gold chain has too
    # Without pairs of equal beliefs (not in the paper): one would credit many repeats. Both are None where that would
    # take too long to find out (see MOST_WORK).
    transitions_distinct: float | None


def score_chain(automaton: Automaton, chain: Sequence[str]) -> ChainScore:
    """All metrics of one chain of labels. An empty or unreadable one is not proper and scores 0."""
    if not chain:
        return ChainScore(False, 0.0, 0.0, 0.0, 0.0)
    if check_proper(automaton, chain):  # then every precision is 1, as the tests prove over random chains
        return ChainScore(True, 1.0, 1.0, 1.0, 1.0)
    length = len(chain)
    overlap = transition_overlaps(automaton, chain, False)
    return ChainScore(False, lcs(automaton, chain) / length, lcps(automaton, chain) / length, *overlap)


def check_proper(automaton: Automaton, chain: Sequence[str]) -> bool:
    """Whether deleting repeats from some gold chain gives `chain`."""
    if automaton.path:
        return _fits(count_runs(chain), automaton.runs)
    return any(bits >> len(chain) & 1 for bits in _count_read(automaton, chain)[-1])


def _fits(runs: Runs, gold: Runs) -> bool:
    """Whether deleting repeats from the one gives the other."""
    pairs = zip(runs, gold, strict=False)
    return len(runs) == len(gold) and all(mine[0] == its[0] and mine[1] <= its[1] for mine, its in pairs)


def _count_read(automaton: Automaton, chain: Sequence[str]) -> list[list[int]]:
    """For each layer and node an integer whose bit k is set where a path that ends there can have read the first k
    beliefs of the chain, leaving repeats out."""
    if not chain or not automaton.labels:
        return [[0]]
    reads = {label: sum(1 << k for k, belief in enumerate(chain) if belief == label) for label in set(chain)}
    layers = [[2 if label == chain[0] else 0 for label in automaton.labels[0]]]
    for (before, labels), steps in zip(pairwise(automaton.labels), automaton.steps[1:], strict=True):
        following = [0] * len(labels)
        for i, j in steps:
            if bits := layers[-1][i]:
                following[j] |= (bits & reads.get(labels[j], 0)) << 1
                if labels[j] == before[i]:
                    following[j] |= bits
        layers.append(following)
    return layers


def check_path_proper(automaton: Automaton, chain: Sequence[str]) -> bool:
    """Whether the chain without its last belief and all repeats of that is proper for a gold chain without its own.

    A proper chain ends in the right final belief, so that "proper" and "answer right" go together almost by definition;
    this metric is what remains without that link. A chain of one belief alone fits a gold chain of one belief alone.
    """
    if not chain or not automaton.labels:
        return False
    if automaton.path:
        return _fits(count_runs(chain)[:-1], automaton.runs[:-1])
    ends = _last_runs(automaton)
    kept = list(chain)
    while kept and kept[-1] == chain[-1]:
        kept.pop()
    if not kept:
        return any(ends[0])
    layers, labels = _count_read(automaton, kept), automaton.labels
    return any(
        labels[t][j] != labels[t - 1][i] and ends[t][j] and layers[t - 1][i] >> len(kept) & 1
        for t in range(1, len(labels))
        for i, j in automaton.steps[t]
    )


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
    if automaton.path:
        return _lcs_of_path(automaton.path, chain)
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


def _lcs_of_path(path: Sequence[str], chain: Sequence[str]) -> int:
    """The length with a single gold chain, a row of the table being the bits of one number (Hyyro 2004)."""
    places = dict.fromkeys(path, 0)
    for k, belief in enumerate(chain):
        places[belief] = places.get(belief, 0) | 1 << k
    full = row = (1 << len(chain)) - 1
    for label in path:
        met = row & places[label]
        row = (row + met | row - met) & full
    return len(chain) - row.bit_count()


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
    """Length, in beliefs, of the longest sequence that is pre-proper for both the chain and a gold chain: the leading
    runs of equal beliefs in which both agree, each as long as the shorter of the two."""
    # What is known at a node: for each (run of the chain, how much of that run is matched) the most matched in all.
    if not automaton.labels or not chain:
        return 0
    runs = count_runs(chain)
    if automaton.path:
        agreed = takewhile(lambda two: two[0][0] == two[1][0], zip(runs, automaton.runs, strict=False))
        return sum(min(mine[1], its[1]) for mine, its in agreed)
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


MOST_WORK = 10_000_000
"""At most so many sets of pairs are compared for one chain, in about a second, and a tenth as many made by one step:
a chain of many pairs and a rationale of a few labels that may follow each other in any order have more of them than any
memory holds."""


def transition_overlaps(
    automaton: Automaton, chain: Sequence[str], is_proper: bool
) -> tuple[float | None, float | None]:
    """The share of the chain's distinct consecutive pairs that one gold chain has too; and that without equal pairs.
    One gold chain has to hold them all. A chain without any such pair gets 1 if it is proper, else 0. None for both
    where that takes more than MOST_WORK."""
    pairs = {pair: 1 << index for index, pair in enumerate(dict.fromkeys(pairwise(chain)))}
    changes = sum(bit for (before, after), bit in pairs.items() if before != after)
    if not pairs or not automaton.labels:
        return float(is_proper), float(is_proper)
    if automaton.path:
        held = [before != after for before, after in pairs.keys() & set(pairwise(automaton.path))]
        return len(held) / len(pairs), sum(held) / changes.bit_count() if changes else float(is_proper)
    layer: list[set[int]] = [{0} for _ in automaton.labels[0]]
    work = 0
    for t in range(1, len(automaton.labels)):
        before, labels = automaton.labels[t - 1], automaton.labels[t]
        following: list[set[int]] = [set() for _ in labels]
        made = 0
        for i, j in automaton.steps[t]:
            bit = pairs.get((before[i], labels[j]), 0)
            following[j] |= {mask | bit for mask in layer[i]} if bit else layer[i]
            if (made := made + len(layer[i])) > MOST_WORK // 10:
                return None, None
        if (work := work + sum(len(masks) ** 2 for masks in following)) > MOST_WORK:
            return None, None
        layer = [_drop_subsets(masks) if len(masks) > 1 else masks for masks in following]
    masks = {mask for masks in layer for mask in masks}
    overlap = max(mask.bit_count() for mask in masks) / len(pairs)
    if not changes:
        return overlap, float(is_proper)
    return overlap, max((mask & changes).bit_count() for mask in masks) / changes.bit_count()


def _drop_subsets(masks: set[int]) -> set[int]:
    """Leave out each set of pairs that is part of another: it cannot become the best one."""
    return {mask for mask in masks if not any(mask != other and mask & other == mask for other in masks)}


SKIPPED: Any = object()
"""Stands for the belief of a sentence for which none was stated, because None is a belief that is no label."""

VERDICTS = ("right", "skipped", "too_early", "too_late", "other_belief", "wrong", "out_of_vocabulary", "beyond")
"""What the belief after one sentence may be. "skipped": none was stated. "too_early", "too_late": the belief that the
gold path holds later, or held before. "other_belief": what another question about the same story has here (another
person's belief, or reality). "out_of_vocabulary": no label. "beyond": a belief for which the story has no sentence, as
in a plain list of more beliefs than the story has sentences. "wrong": none of these."""

MISSING = "missing"
"""The kind of break of a chain that was asked for and could not be read at all."""


class Judgement(NamedTuple):
    """What a comparison by sentence gives. Every sentence of the story counts; one without a stated belief has the one
    stated last (forward fill).

    change_f1: the harmonic mean of precision and recall of the pairs (sentence, new belief), the maximum over gold
    paths; 1 where neither the chain nor the path has a change; a belief beyond the story that differs from the one
    before it is a change that no path has. first_break: the index (from 0) of the first sentence whose belief is off
    the path, else of the first belief beyond the story; a repeat that was left out is "skipped" and no break.
    """

    accuracy: float  # the share of sentences, in [0, 1], whose (filled) belief is that of the gold path agreeing most
    change_f1: float
    verdicts: tuple[str, ...]  # one of VERDICTS for each sentence, and "beyond" for each belief without one
    first_break: int | None


def judge_sentences(
    gold: Automaton, stated: Sequence[tuple[int, str | None]], others: Sequence[Automaton] = ()
) -> Judgement:
    """Compare stated beliefs with a gold rationale.

    stated: pairs of sentence (from 1, ascending) and belief, None for one that is no label. others: the rationales of
    other questions about the same story. Raises ValueError for a sentence before the first.
    """
    length = len(gold.labels)
    said, filled, beyond = fill_forward(stated, length)
    more = tuple("out_of_vocabulary" if belief is None else "beyond" for belief in beyond)
    if not length:
        return Judgement(0.0, 0.0, more, 0 if beyond else None)
    path, hits = best_path(gold, filled)
    places: dict[str, list[int]] = {}
    for t, label in enumerate(path):
        places.setdefault(label, []).append(t)
    verdicts = [
        "right" if belief == right else "skipped" if belief is SKIPPED else verdict(places, t, belief, others)
        for t, (belief, right) in enumerate(zip(said, path, strict=True))
    ]
    first = length if beyond else None
    if hits < length:
        first = next(t for t in range(length) if filled[t] != path[t])
    changed = sum(belief != before for before, belief in pairwise((filled[-1], *beyond)))
    return Judgement(hits / length, change_f1(gold, filled, changed), (*verdicts, *more), first)


def fill_forward(
    stated: Sequence[tuple[int, str | None]], length: int
) -> tuple[Sequence[Any], Sequence[str | None], list[str | None]]:
    """What is said of each of `length` sentences, SKIPPED where nothing is; the same with the belief stated last where
    nothing is said; and the beliefs beyond the last sentence. Raises ValueError for a sentence before the first."""
    said: list[Any] = [SKIPPED] * length
    beyond: list[str | None] = []
    for number, belief in stated:
        if number < 1:
            raise ValueError(f"sentence {number} of {length}")
        if number > length:
            beyond.append(belief)
        else:
            said[number - 1] = belief
    filled: list[str | None] = []
    last: str | None = None
    for belief in said:
        last = last if belief is SKIPPED else belief
        filled.append(last)
    return said, filled, beyond


def best_path(gold: Automaton, filled: Sequence[str | None]) -> tuple[tuple[str, ...], int]:
    """The gold path that agrees with `filled` at most sentences, and at how many; of equally good ones the first."""
    if gold.path:
        return gold.path, sum(map(eq, gold.path, filled))
    scores = [int(label == filled[0]) for label in gold.labels[0]]
    back: list[list[int]] = []
    for t in range(1, len(gold.labels)):
        labels = gold.labels[t]
        following, source = [-1] * len(labels), [0] * len(labels)
        for i, j in gold.steps[t]:
            if scores[i] > following[j]:
                following[j], source[j] = scores[i], i
        scores = [score + (label == filled[t]) for score, label in zip(following, labels, strict=True)]
        back.append(source)
    node = max(range(len(scores)), key=lambda i: (scores[i], -i))
    hits = scores[node]
    path = [gold.labels[-1][node]]
    for t in range(len(back) - 1, -1, -1):
        node = back[t][node]
        path.append(gold.labels[t][node])
    return tuple(reversed(path)), hits


def change_f1(gold: Automaton, filled: Sequence[str | None], more: int = 0) -> float:
    """The F1 score of the pairs (sentence, new belief), from the second sentence on; the best gold path counts. more:
    how many changes the chain has beyond the story's last sentence."""
    mine = [t > 0 and filled[t] != filled[t - 1] for t in range(len(filled))]
    total = sum(mine) + more
    if path := gold.path:
        hits = sum(mine[t] and filled[t] == path[t] != path[t - 1] for t in range(1, len(path)))
        return 2 * hits / changes if (changes := total + len(gold.runs) - 1) else 1.0
    # For each node: how many changes a path to it has -> how many of these the chain has too, at most.
    states: list[dict[int, int]] = [{0: 0} for _ in gold.labels[0]]
    for t in range(1, len(gold.labels)):
        following: list[dict[int, int]] = [{} for _ in gold.labels[t]]
        before, labels = gold.labels[t - 1], gold.labels[t]
        for i, j in gold.steps[t]:
            change = labels[j] != before[i]
            hit = change and mine[t] and filled[t] == labels[j]
            for count, hits in states[i].items():
                following[j][count + change] = max(following[j].get(count + change, 0), hits + hit)
        states = following
    return max(
        2 * hits / (total + count) if total + count else 1.0 for counts in states for count, hits in counts.items()
    )


def verdict(places: Mapping[str, Sequence[int]], t: int, belief: str | None, others: Sequence[Automaton]) -> str:
    """One of VERDICTS for a belief after sentence `t` (from 0) that is not right, by the nearest place on the path.
    places: those of each label there, ascending."""
    if belief is None:
        return "out_of_vocabulary"
    there = places.get(belief, ())
    at = bisect(there, t)
    before = t - there[at - 1] if at else None
    after = there[at] - t if at < len(there) else None
    if before is not None and (after is None or before <= after):
        return "too_late"
    if after is not None:
        return "too_early"
    if any(t < len(other.labels) and belief in other.labels[t] for other in others):
        return "other_belief"
    return "wrong"


Stated = tuple[tuple[int, str | None], ...]
"""What a reply says: pairs of sentence (from 1, ascending) and belief, None for a text that is no label."""


@lru_cache(maxsize=8192)  # models repeat themselves
def compare_chain(
    gold: Automaton, stated: Stated, readable: bool, others: tuple[Automaton, ...]
) -> tuple[ChainScore, bool, Judgement]:
    """The metrics of what a reply says against a gold rationale, whether its path is proper, and the comparison by
    sentence; readable: whether all beliefs are labels, else the chain scores 0. The rest as for `judge_sentences`."""
    chain = [label for _, label in stated if label is not None] if readable else []
    return score_chain(gold, chain), check_path_proper(gold, chain), judge_sentences(gold, stated, others)
