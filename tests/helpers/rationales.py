"""Random rationales and the list of their chains, for tests of everything that reads chains."""

from itertools import product

from hypothesis import strategies as st

LABELS = "uxy"


def _layers(most: int) -> st.SearchStrategy[list[list[str]]]:
    labels = st.sets(st.sampled_from(LABELS), min_size=1, max_size=most).map(sorted)
    return st.lists(labels, min_size=1, max_size=5)


layers = _layers(1) | _layers(len(LABELS))  # one gold chain, which the metrics take another way, or several


@st.composite
def rationales(draw: st.DrawFn) -> tuple[list[list[str]], list[tuple[int, str, str]], str]:
    """Sets, some explicit edges, a policy."""
    sets = draw(layers)
    edges = [
        (t, a, b)
        for t in range(1, len(sets))
        if draw(st.booleans())
        for a, b in draw(st.sets(st.sampled_from(list(product(sets[t - 1], sets[t]))), min_size=1))
    ]
    return sets, edges, draw(st.sampled_from(["persist", "free"]))


def listed(sets: list[list[str]], edges: list[tuple[int, str, str]], policy: str) -> set[tuple[str, ...]]:
    """Every gold chain, straight from the definition."""

    def allowed(t: int, a: str, b: str) -> bool:
        here = {(x, y) for when, x, y in edges if when == t}
        if here:
            return (a, b) in here
        return policy == "free" or set(sets[t]) != set(sets[t - 1]) or a == b

    return {c for c in product(*sets) if all(allowed(t, c[t - 1], c[t]) for t in range(1, len(c)))}
