"""Gold rationales as layered automata: which belief may stand after each sentence, and which may follow which.

One layer a sentence. A *gold chain* is a path through the layers. Definitions: the perturbed false-belief paper
(arXiv 2602.22072), section on path-dependent belief chains. Where the author lists no edges at a layer, "persist"
holds: if the set did not change, the belief stays what it was; otherwise any belief of the new set may follow.

    >>> a = compile_sets([["unknown"], ["x", "y"], ["x", "y"], ["x"]])
    >>> a.labels
    (('unknown',), ('x', 'y'), ('x', 'y'), ('x',))
    >>> sorted(a.chains())
    [('unknown', 'x', 'x', 'x'), ('unknown', 'y', 'y', 'x')]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Automaton:
    """Layered graph, trimmed: every node lies on a full path. Empty `labels` means that no path exists.

    labels: per layer, the label of each node. follows: per layer t >= 1, for each node of layer t - 1 a bitset over
    the nodes of layer t that may come next (follows[0] is empty). steps: the same as pairs (node of layer t - 1,
    node of layer t).
    """

    labels: tuple[tuple[str, ...], ...]
    follows: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[tuple[int, int], ...], ...] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # The metrics walk along the edges of many chains; what they need is computed once.
        steps = tuple(
            tuple((i, j) for i, targets in enumerate(layer) for j in range(len(self.labels[t])) if targets >> j & 1)
            for t, layer in enumerate(self.follows)
        )
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "_hash", hash((self.labels, self.follows)))

    def __hash__(self) -> int:
        return self._hash

    def chains(self) -> Iterator[tuple[str, ...]]:
        """Every gold chain, by depth-first search; exponential in the worst case, so for checks and tests."""

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


def compile_sets(
    sets: Sequence[Sequence[str]],
    edges: Sequence[tuple[int, str, str]] = (),
    policy: str = "persist",
) -> Automaton:
    """Automaton of one admissible set a sentence.

    edges: (t, from, to) with t the 0-based index of the *target* sentence; any edge at t replaces that layer's whole
    relation. policy: what holds at layers without edges, "persist" or "free" (any belief may follow any).
    Raises ValueError for an edge outside the sets, an unknown policy, or an empty set.
    """
    # The questions of a benchmark share few rationales.
    return _compile_sets(tuple(map(tuple, sets)), tuple(edges), policy)


@lru_cache(maxsize=8192)
def _compile_sets(
    sets: tuple[tuple[str, ...], ...],
    edges: tuple[tuple[int, str, str], ...],
    policy: str,
) -> Automaton:
    if policy not in ("persist", "free"):
        raise ValueError(f"unknown policy {policy!r}; known: persist, free")
    for t, layer in enumerate(sets):
        if not layer:
            raise ValueError(f"the set of sentence {t + 1} is empty")
        if len(set(layer)) != len(layer):
            raise ValueError(f"the set of sentence {t + 1} names a belief twice")
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
    """Automaton of explicitly listed chains of equal length. Raises ValueError where lengths differ or are 0."""
    if not chains or len({len(chain) for chain in chains}) != 1 or not chains[0]:
        raise ValueError("explicit chains must be at least one, not empty, and of equal length")
    unique = sorted(set(map(tuple, chains)))
    layers = [[chain[t] for chain in unique] for t in range(len(unique[0]))]
    relation: list[list[int]] = [[]] + [[1 << i for i in range(len(unique))] for _ in layers[1:]]
    return Automaton(tuple(map(tuple, layers)), tuple(map(tuple, relation)))


def _trim(layers: list[list[str]], relation: list[list[int]]) -> Automaton:
    """Keep the nodes that are reachable from the first layer and reach the last."""
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
