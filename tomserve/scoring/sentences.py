"""Compare a chain with the gold rationale sentence by sentence: how much is right, and how the rest is wrong.

The metrics of tomserve.scoring.chains are precisions, which reward short chains (one right belief scores 1); here every
sentence of the story counts. A sentence without a stated belief keeps the one stated last (forward fill).

    >>> from tomserve.items.automaton import compile_sets
    >>> gold = compile_sets([["unknown"], ["tea"], ["salt"]])
    >>> judge(gold, [(1, "unknown"), (2, "salt"), (3, "salt")]).verdicts
    ('right', 'too_early', 'right')
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tomserve.items.automaton import Automaton

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
    """What a comparison by sentence gives.

    accuracy: the share of sentences, in [0, 1], whose (filled) belief is that of the gold path which agrees most.
    change_f1: the harmonic mean of precision and recall of the pairs (sentence, new belief), the maximum over gold
    paths; 1 where neither the chain nor the path has a change; a belief beyond the story that differs from the one
    before it is a change that no path has. verdicts: one of VERDICTS for each sentence, and "beyond" for each belief
    for which there is none. first_break: the index (from 0) of the first sentence whose belief is off the path, or of
    the first belief beyond the story where there is no such sentence, None where there is neither; a repeat that was
    left out is "skipped" and no break.
    """

    accuracy: float
    change_f1: float
    verdicts: tuple[str, ...]
    first_break: int | None


def judge(gold: Automaton, stated: Sequence[tuple[int, str | None]], others: Sequence[Automaton] = ()) -> Judgement:
    """Compare stated beliefs with a gold rationale.

    gold: the compiled rationale. stated: pairs of sentence (from 1, ascending) and belief, None for one that is no
    label; those beyond the story's last sentence count as beliefs for which it has none. others: the compiled
    rationales of other questions about the same story. Raises ValueError for a sentence before the first.
    """
    length = len(gold.labels)
    said, filled, beyond = filled_in(stated, length)
    more = tuple("out_of_vocabulary" if belief is None else "beyond" for belief in beyond)
    if not length:
        return Judgement(0.0, 0.0, more, 0 if beyond else None)
    path, hits = best_path(gold, filled)
    verdicts = tuple(
        "skipped" if belief is SKIPPED else verdict(path, t, belief, others) for t, belief in enumerate(said)
    )
    off = (t for t in range(length) if filled[t] != path[t])
    changed = sum(belief != before for before, belief in pairwise((filled[-1], *beyond)))
    return Judgement(
        hits / length, change_f1(gold, filled, changed), verdicts + more, next(off, length if beyond else None)
    )


def filled_in(
    stated: Sequence[tuple[int, str | None]], length: int
) -> tuple[Sequence[Any], Sequence[str | None], list[str | None]]:
    """What is said of each of `length` sentences, SKIPPED where nothing is; the same with the belief stated last
    where nothing is said; and the beliefs beyond the last sentence. Raises ValueError for a sentence before the first.
    """
    if 0 < length == len(stated) and stated[0][0] == 1 and stated[-1][0] == length:  # every sentence, as they ascend
        every = [belief for _, belief in stated]
        return every, every, []
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
    """The F1 score of the pairs (sentence, new belief), from the second sentence on; the best gold path counts.

    more: how many changes the chain has beyond the story's last sentence.
    """
    mine = [t > 0 and filled[t] != filled[t - 1] for t in range(len(filled))]
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
    total = sum(mine) + more
    return max(
        2 * hits / (total + count) if total + count else 1.0 for counts in states for count, hits in counts.items()
    )


def verdict(path: Sequence[str], t: int, belief: str | None, others: Sequence[Automaton]) -> str:
    """One of VERDICTS for the belief after sentence `t` (from 0); the nearest place on the path decides."""
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
