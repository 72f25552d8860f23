"""A chain held against the gold rationale sentence by sentence: how much is right, and what kind of wrong the rest is.

Precision alone rewards short chains (one right belief scores 1), so here every sentence of the story counts. A sentence
for which nothing was stated keeps the belief stated last (forward fill).

    >>> from tomserve.items.automaton import compile_sets
    >>> gold = compile_sets([["unknown"], ["tea"], ["salt"]])
    >>> judge(gold, [(1, "unknown"), (2, "salt"), (3, "salt")]).verdicts
    ('right', 'too_early', 'right')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tomserve.items.automaton import Automaton

VERDICTS = ("right", "skipped", "too_early", "too_late", "other_belief", "wrong", "out_of_vocabulary")
"""skipped: nothing stated. too_early, too_late: what the gold path holds later, or held before. other_belief: what
another question about the same story asks for here (another person's belief, or reality). wrong: none of these."""

MISSING = "missing"
"""The break of a chain that was asked for and could not be read at all."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """accuracy: share of sentences whose (forward-filled) belief lies on the gold path that maximises it, in [0, 1].

    change_f1: harmonic mean of precision and recall of the pairs (sentence, new belief), maximum over gold paths; 1
    where neither has a change. verdicts: one of VERDICTS a sentence. first_break: index of the first sentence that is
    off the path, None where all are on it (a repeat left out is "skipped" and no break).
    """

    accuracy: float
    change_f1: float
    verdicts: tuple[str, ...]
    first_break: int | None


def judge(gold: Automaton, stated: Sequence[tuple[int, str | None]], others: Sequence[Automaton] = ()) -> Judgement:
    """Judge (sentence, belief) pairs, sentences 1-based and ascending, None for a belief outside the labels.

    others: the rationales of other questions about the same story. Raises ValueError for a sentence out of range.
    """
    length = len(gold.labels)
    said: list[str | None] = [None] * length
    given = [False] * length
    for number, belief in stated:
        if not 1 <= number <= length:
            raise ValueError(f"sentence {number} of {length}")
        said[number - 1], given[number - 1] = belief, True
    filled: list[str | None] = []
    for belief, there in zip(said, given, strict=True):
        filled.append(belief if there else filled[-1] if filled else None)
    if not length:
        return Judgement(0.0, 0.0, (), None)
    path, hits = best_path(gold, filled)
    verdicts = tuple(_verdict(path, t, said[t], others) if given[t] else "skipped" for t in range(length))
    off = (t for t in range(length) if filled[t] != path[t])
    return Judgement(hits / length, change_f1(gold, filled), verdicts, next(off, None))


def best_path(gold: Automaton, filled: Sequence[str | None]) -> tuple[tuple[str, ...], int]:
    """The gold path that agrees with `filled` in most places, and in how many; of equal ones the first in order."""
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


def change_f1(gold: Automaton, filled: Sequence[str | None]) -> float:
    """F1 of the pairs (sentence, new belief), from the second sentence on; the best gold path decides."""
    mine = [t > 0 and filled[t] != filled[t - 1] for t in range(len(filled))]
    # number of changes of the path -> most of them that are also changes of the chain
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
    total = sum(mine)
    return max(
        2 * hits / (total + count) if total + count else 1.0 for counts in states for count, hits in counts.items()
    )


def _verdict(path: Sequence[str], t: int, belief: str | None, others: Sequence[Automaton]) -> str:
    if belief is None:
        return "out_of_vocabulary"
    if belief == path[t]:
        return "right"
    before = next((t - u for u in range(t - 1, -1, -1) if path[u] == belief), None)
    after = next((u - t for u in range(t + 1, len(path)) if path[u] == belief), None)
    if before is not None and (after is None or before <= after):
        return "too_late"
    if after is not None:
        return "too_early"
    if any(t < len(other.labels) and belief in other.labels[t] for other in others):
        return "other_belief"
    return "wrong"
