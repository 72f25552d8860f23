"""Gold rationales as layered automata, which say what may be believed after each sentence, and what may follow it.

There is one layer a sentence, and a *gold chain* is a path through the layers. The definitions are those of the
perturbed false-belief paper (arXiv 2602.22072), section on path-dependent belief chains. Where the author gives no
edges at a layer, the policy "persist" holds: if the set did not change, the belief stays what it was; otherwise any
belief of the new set may follow.

    >>> a = compile_sets([["unknown"], ["x", "y"], ["x", "y"], ["x"]])
    >>> a.labels
    (('unknown',), ('x', 'y'), ('x', 'y'), ('x',))
    >>> sorted(a.chains())
    [('unknown', 'x', 'x', 'x'), ('unknown', 'y', 'y', 'x')]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, pairwise


def count_runs(chain: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """The runs of equal beliefs: of each the belief and the length."""
    return tuple((label, len(list(run))) for label, run in groupby(chain))


@dataclass(frozen=True, slots=True)
class Automaton:
    """A layered graph in which every node lies on a path from the first layer to the last. Empty `labels`: there is no
    path."""

    labels: tuple[tuple[str, ...], ...]  # for each layer the label of each node
    follows: tuple[
        tuple[int, ...], ...
    ]  # for each node of layer t - 1 those of layer t that may come next, as a bitset
    steps: tuple[tuple[tuple[int, int], ...], ...] = field(init=False, compare=False, repr=False)  # the same as pairs
    path: tuple[str, ...] = field(init=False, compare=False, repr=False)  # the only gold chain; empty where several are
    runs: tuple[tuple[str, int], ...] = field(init=False, compare=False, repr=False)  # of equal beliefs of that path
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # The metrics walk along these edges for many chains, so the edges and the hash are computed once.
        steps = tuple(
            tuple((i, j) for i, targets in enumerate(layer) for j in _places(targets))
            for t, layer in enumerate(self.follows)
        )
        path = tuple(labels[0] for labels in self.labels) if all(len(labels) == 1 for labels in self.labels) else ()
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "runs", count_runs(path))
        object.__setattr__(self, "_hash", hash((self.labels, self.follows)))

    def __hash__(self) -> int:
        return self._hash

    def chains(self) -> Iterator[tuple[str, ...]]:
        """Yield every gold chain, depth first; their number can grow exponentially with the sentences."""

        def extend(t: int, node: int, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
            if t + 1 == len(self.labels):
                yield path
                return
            for following, label in enumerate(self.labels[t + 1]):
                if self.follows[t + 1][node] >> following & 1:
                    yield from extend(t + 1, following, (*path, label))

        if self.labels:
            for node, label in enumerate(self.labels[0]):
                yield from extend(0, node, (label,))


MOST_STEPS, MOST_CHAINS, MOST_LABELS = 20_000, 2000, 200_000
"""How many pairs of labels of one sentence and the next a rationale may have, and how many listed chains with how many
labels, as a file of some kilobytes could take gigabytes. Those that come with tomserve have fewer than a hundred."""

MOST_WORK = 1_000_000
"""Metrics walk along the pairs of a rationale once for each sentence, or for each belief of a reply: where there are
several gold chains, both multiplied are at most so many, a tenth of a second."""


def _places(bits: int) -> Iterator[int]:
    """The places of the ones in a bitset, in ascending order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def compile_sets(
    sets: Sequence[Sequence[str]], edges: Sequence[tuple[int, str, str]] = (), policy: str = "persist"
) -> Automaton:
    """The automaton of a rationale that gives one admissible set of labels a sentence.

    edges: triples (t, from, to), where t is the 0-based index of the *target* sentence; edges at t replace all that the
    policy would allow there: "persist" (see the module) or "free" (any belief may follow any).

    Raises ValueError for an edge outside the sets, an unknown policy, a set that is empty or names a label twice, and
    sets that are too large.
    """
    # The questions of a benchmark share a few rationales, so that compiled ones are kept.
    return _compile_sets(tuple(map(tuple, sets)), tuple(edges), policy)


@lru_cache(maxsize=8192)
def _compile_sets(sets: tuple[tuple[str, ...], ...], edges: tuple[tuple[int, str, str], ...], policy: str) -> Automaton:
    if policy not in ("persist", "free"):
        raise ValueError(f"unknown policy {policy!r}; known: persist, free")
    for t, layer in enumerate(sets):
        if not layer:
            raise ValueError(f"the set of sentence {t + 1} is empty")
        if len(set(layer)) != len(layer):
            raise ValueError(f"the set of sentence {t + 1} names a belief twice")
    if (steps := sum(len(one) * len(other) for one, other in pairwise(sets))) > MOST_STEPS:
        raise ValueError(f"the sets have {steps:,} pairs of beliefs in turn; expected at most {MOST_STEPS:,}")
    _refuse_work(sum(map(len, sets)), 0 if steps < len(sets) else steps * len(sets))
    explicit: dict[int, set[tuple[str, str]]] = {}
    for t, source, target in edges:
        if not 1 <= t < len(sets):
            raise ValueError(f"edge [{t}, {source}, {target}]: t must be 1 to {len(sets) - 1}")
        if source not in sets[t - 1] or target not in sets[t]:
            raise ValueError(f"edge [{t}, {source}, {target}]: not from the set of sentence {t} to that of {t + 1}")
        explicit.setdefault(t, set()).add((source, target))

    def may_follow(t: int, source: str, target: str) -> bool:
        if t in explicit:
            return (source, target) in explicit[t]
        return policy == "free" or set(sets[t]) != set(sets[t - 1]) or source == target

    relation: list[list[int]] = [[]]
    for t in range(1, len(sets)):
        relation.append([sum(may_follow(t, s, u) << j for j, u in enumerate(sets[t])) for s in sets[t - 1]])
    return _trim([list(layer) for layer in sets], relation)


def compile_chains(chains: Sequence[Sequence[str]]) -> Automaton:
    """The automaton of listed chains. Raises ValueError where there is none, or too many, or they differ in length or
    are empty."""
    if len(chains) > MOST_CHAINS:
        raise ValueError(f"{len(chains):,} explicit chains; expected at most {MOST_CHAINS:,}")
    if not chains or len({len(chain) for chain in chains}) != 1 or not chains[0]:
        raise ValueError("explicit chains must be at least one, not empty, and of equal length")
    _refuse_work(labels := sum(map(len, chains)), 0 if len(chains) == 1 else labels * len(chains[0]))
    unique = sorted(set(map(tuple, chains)))
    layers = [[chain[t] for chain in unique] for t in range(len(unique[0]))]
    relation: list[list[int]] = [[]] + [[1 << i for i in range(len(unique))] for _ in layers[1:]]
    return Automaton(tuple(map(tuple, layers)), tuple(map(tuple, relation)))


def _refuse_work(labels: int, work: int) -> None:
    """Raise ValueError for a rationale of more than MOST_LABELS labels, or more than MOST_WORK."""
    if labels > MOST_LABELS:
        raise ValueError(f"has {labels:,} labels; expected at most {MOST_LABELS:,}")
    if work > MOST_WORK:
        raise ValueError(
            f"has so many beliefs in so many sentences that comparing takes {work:,} steps; expected at most "
            f"{MOST_WORK:,}, so divide the story"
        )


def _trim(layers: list[list[str]], relation: list[list[int]]) -> Automaton:
    """Drop the nodes that cannot be reached from the first layer or do not lead to the last."""
    alive = [0] * len(layers)
    if layers:
        alive[0] = (1 << len(layers[0])) - 1
    for t in range(1, len(layers)):
        for i in range(len(layers[t - 1])):
            if alive[t - 1] >> i & 1:
                alive[t] |= relation[t][i]
    for t in range(len(layers) - 1, 0, -1):
        for i in range(len(layers[t - 1])):
            if not relation[t][i] & alive[t]:
                alive[t - 1] &= ~(1 << i)
    if not layers or not all(alive):
        return Automaton((), ())
    kept = [[i for i in range(len(layer)) if alive[t] >> i & 1] for t, layer in enumerate(layers)]
    labels = tuple(tuple(layers[t][i] for i in nodes) for t, nodes in enumerate(kept))
    follows: list[tuple[int, ...]] = [()]
    for t in range(1, len(layers)):
        follows.append(
            tuple(sum((relation[t][i] >> j & 1) << new for new, j in enumerate(kept[t])) for i in kept[t - 1])
        )
    return Automaton(labels, tuple(follows))
