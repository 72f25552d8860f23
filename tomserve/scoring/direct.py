"""Score a chain against gold chains that are listed one by one, where a rationale has a few of them only.

Nearly every rationale allows one gold chain or two. Then comparing the two chains directly is several times as fast as
walking through the layers of the rationale (tomserve.scoring.chains, tomserve.scoring.sentences), and gives the same
numbers, because every metric is a maximum over gold chains; a test compares the two. A rationale of more than MOST gold
chains is left to these modules.

>>> from tomserve.items.automaton import compile_sets
>>> compared(compile_sets([["u"], ["x"], ["x"]]), ((1, "u"), (2, "x")), True, ())[0]
ChainScore(proper=True, lcs=1.0, lcps=1.0, transitions=1.0, transitions_distinct=1.0)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import eq, le
from typing import Any

from tomserve.items.automaton import Automaton
from tomserve.scoring.chains import ChainScore, path_proper, score_chain
from tomserve.scoring.sentences import SKIPPED, Judgement, filled_in, judge, verdict

MOST = 8
"""A rationale with more gold chains than this is walked through layer by layer."""

Stated = tuple[tuple[int, str | None], ...]
"""What a reply says: pairs of sentence (from 1, ascending) and belief, None for a text that is no label."""

Compared = tuple[ChainScore, bool, Judgement]
"""The metrics of a chain, whether its path is proper, and the comparison sentence by sentence."""

_KEPT = 4
"""For how many sets of other questions the verdicts of a gold chain are kept."""

_UNREAD = ChainScore(False, 0.0, 0.0, 0.0, 0.0)
_PERFECT = ChainScore(True, 1.0, 1.0, 1.0, 1.0)


def compared(gold: Automaton, stated: Stated, readable: bool, others: tuple[Automaton, ...]) -> Compared:
    """The metrics of what a reply says against a gold rationale.

    gold: the compiled rationale. stated: what the reply says. readable: whether all of it are labels; where that is
    not so the chain scores 0, and is still compared sentence by sentence. others: the compiled rationales of other
    questions about the same story. Raises ValueError for a sentence before the first.
    """
    listed = _listed(gold)
    if not listed:
        chain = [label for _, label in stated if label is not None] if readable else []
        return score_chain(gold, chain), path_proper(gold, chain), judge(gold, stated, others)
    if not readable or not stated:
        return _UNREAD, False, _judged(listed, stated, others)
    chain = [label for _, label in stated if label is not None]
    score, path = _scored(listed, chain)
    return score, path, _judged(listed, stated, others)


class _Listed:
    """One gold chain, with what the metrics look up in it.

    labels: its beliefs. runs, lengths: its stretches of equal beliefs, as the belief of each and how long it is.
    places: for each belief the sentences where it stands, as a set of bits. pairs, changes: its pairs of consecutive
    beliefs, and those of different ones. news: the sentences (from 0) at which the belief changes, each with the new
    one.
    """

    __slots__ = ("_verdicts", "changes", "full", "labels", "lengths", "news", "pairs", "places", "runs")

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self.runs, self.lengths = _runs(labels)
        self.places: dict[str, int] = {}
        for t, label in enumerate(labels):
            self.places[label] = self.places.get(label, 0) | 1 << t
        self.full = (1 << len(labels)) - 1
        self.pairs = frozenset(pairwise(labels))
        self.changes = frozenset(pairwise(self.runs))
        self.news = frozenset((t, label) for t, label in enumerate(labels) if t and label != labels[t - 1])
        self._verdicts: dict[tuple[Automaton, ...], list[_Verdicts]] = {}

    def verdicts(self, others: tuple[Automaton, ...]) -> list[_Verdicts]:
        """The verdicts on beliefs, for each sentence. others: as in `compared`."""
        found = self._verdicts.get(others)
        if found is None:
            if len(self._verdicts) >= _KEPT:  # the same rationale in many stories
                self._verdicts.clear()
            found = self._verdicts[others] = [_Verdicts(self.labels, t, others) for t in range(len(self.labels))]
        return found


class _Verdicts(dict[Any, str]):
    """The verdict on each belief after one sentence, made when it is asked for first."""

    __slots__ = ("_given",)

    def __init__(self, path: tuple[str, ...], t: int, others: tuple[Automaton, ...]) -> None:
        super().__init__({SKIPPED: "skipped", path[t]: "right"})
        self._given = (path, t, others)

    def __missing__(self, belief: str | None) -> str:
        path, t, others = self._given
        found = self[belief] = verdict(path, t, belief, others)
        return found


@lru_cache(maxsize=1024)
def _listed(gold: Automaton) -> tuple[_Listed, ...]:
    """The gold chains of a rationale, in the order in which the first of equally good ones counts; none where there
    are more than MOST."""
    count = [1] * len(gold.labels[0]) if gold.labels else []
    for t in range(1, len(gold.labels)):
        following = [0] * len(gold.labels[t])
        for i, j in gold.steps[t]:
            following[j] += count[i]
        count = following
    return tuple(map(_Listed, _paths(gold))) if 0 < sum(count) <= MOST else ()


def _paths(gold: Automaton) -> Iterator[tuple[str, ...]]:
    """All gold chains, by their last node, then the one before it, and so on: as sentences.best_path prefers them."""

    def extend(t: int, node: int, after: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        path = (gold.labels[t][node], *after)
        if not t:
            yield path
        for before, following in gold.steps[t]:
            if following == node:
                yield from extend(t - 1, before, path)

    last = len(gold.labels) - 1
    for node in range(len(gold.labels[last])):
        yield from extend(last, node, ())


def _runs(labels: Sequence[str]) -> tuple[list[str], list[int]]:
    runs: list[str] = []
    lengths: list[int] = []
    for label, group in groupby(labels):
        runs.append(label)
        lengths.append(len(list(group)))
    return runs, lengths


def _scored(listed: tuple[_Listed, ...], chain: Sequence[str]) -> tuple[ChainScore, bool]:
    """The metrics of tomserve.scoring.chains, and whether the path is proper."""
    runs, lengths = _runs(chain)
    path = False
    for gold in listed:
        if runs[:-1] == gold.runs[:-1] and all(map(le, lengths[:-1], gold.lengths)):
            path = True
            if runs[-1] == gold.runs[-1] and lengths[-1] <= gold.lengths[-1]:
                return _PERFECT, True
    length, pairs, changes = len(chain), set(pairwise(chain)), len(set(pairwise(runs)))
    found = [_against(gold, chain, runs, lengths, pairs) for gold in listed]
    common, leading, shared, changed = found[0] if len(found) == 1 else map(max, *found)
    return ChainScore(
        False,
        common / length,
        leading / length,
        shared / len(pairs) if pairs else 0.0,
        changed / changes if changes else 0.0,
    ), path


def _against(
    gold: _Listed, chain: Sequence[str], runs: Sequence[str], lengths: Sequence[int], pairs: set[tuple[str, str]]
) -> tuple[int, int, int, int]:
    """How much one gold chain and the chain have in common, in beliefs: as a subsequence, and as a pre-proper sequence
    (see tomserve.scoring.chains.lcps); and how many pairs, and pairs of different beliefs."""
    shared = pairs & gold.pairs
    return _common(gold, chain), _leading(gold, runs, lengths), len(shared), len(shared & gold.changes)


def _common(gold: _Listed, chain: Sequence[str]) -> int:
    """Length of the longest common subsequence: a row of its table as the bits of one number (Hyyrö 2004)."""
    places, row = gold.places, gold.full
    for belief in chain:
        here = row & places.get(belief, 0)
        row = (row + here) | (row - here)
    return len(gold.labels) - (row & gold.full).bit_count()


def _leading(gold: _Listed, runs: Sequence[str], lengths: Sequence[int]) -> int:
    """Length of the longest common pre-proper sequence (see tomserve.scoring.chains.lcps)."""
    total = 0
    for mine, theirs, count, most in zip(runs, gold.runs, lengths, gold.lengths, strict=False):
        if mine != theirs:
            break
        total += count if count < most else most
    return total


def _judged(listed: tuple[_Listed, ...], stated: Stated, others: tuple[Automaton, ...]) -> Judgement:
    """The comparison of tomserve.scoring.sentences.judge."""
    length = len(listed[0].labels)
    said, filled, beyond = filled_in(stated, length)
    path, hits = listed[0], sum(map(eq, filled, listed[0].labels))
    for other in listed[1:]:
        if (more := sum(map(eq, filled, other.labels))) > hits:
            path, hits = other, more
    verdicts = tuple([verdicts[belief] for verdicts, belief in zip(path.verdicts(others), said, strict=True)])
    first = None
    if hits < length:
        first = next(t for t, (mine, right) in enumerate(zip(filled, path.labels, strict=True)) if mine != right)
    news = {new for new, before in zip(enumerate(filled[1:], 1), filled, strict=False) if new[1] != before}
    changes = len(news)
    if beyond:
        verdicts += tuple("out_of_vocabulary" if belief is None else "beyond" for belief in beyond)
        first = length if first is None else first
        changes += sum(belief != before for before, belief in pairwise((filled[-1], *beyond)))
    best = 0.0
    for gold in listed:
        total = changes + len(gold.news)
        best = max(best, 2 * len(news & gold.news) / total if total else 1.0)
    return Judgement(hits / length, best, verdicts, first)
