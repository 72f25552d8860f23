"""Gold automata against listed paths."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tomserve.items.automaton import compile_chains, compile_sets

LABELS = "uxy"
layers = st.lists(st.sets(st.sampled_from(LABELS), min_size=1).map(sorted), min_size=1, max_size=5)


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


@given(rationales())
def test_paths_are_those_of_the_definition(rationale: tuple) -> None:
    automaton = compile_sets(*rationale)
    paths = listed(*rationale)
    assert set(automaton.chains()) == paths
    # trimmed: every label that is left lies on a path
    assert [set(layer) for layer in automaton.labels] == [set(column) for column in zip(*paths, strict=True)]


def test_persist_keeps_a_belief_where_the_set_stays() -> None:
    assert set(compile_sets([["x", "y"], ["y", "x"]]).chains()) == {("x", "x"), ("y", "y")}
    assert len(list(compile_sets([["x", "y"], ["x", "y"]], policy="free").chains())) == 4


def test_no_path_leaves_an_empty_automaton() -> None:
    automaton = compile_sets([["x"], ["x", "y"], ["y"]], [(1, "x", "x"), (2, "y", "y")])
    assert automaton.labels == ()
    assert list(automaton.chains()) == []


def test_explicit_chains_do_not_mix() -> None:
    chains = [("u", "x", "x"), ("u", "y", "x")]
    assert sorted(compile_chains(chains).chains()) == chains


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: compile_sets([["x"], []]), "set of sentence 2 is empty"),
        (lambda: compile_sets([["x", "x"]]), "names a belief twice"),
        (lambda: compile_sets([["x"], ["y"]], [(2, "x", "y")]), "t must be 1 to 1"),
        (lambda: compile_sets([["x"], ["y"]], [(1, "y", "y")]), "not from the set of sentence 1"),
        (lambda: compile_sets([["x"]], policy="drift"), "unknown policy 'drift'"),
        (lambda: compile_chains([("x",), ("x", "y")]), "of equal length"),
        (lambda: compile_chains([]), "at least one"),
    ],
)
def test_bad_rationales_are_refused(call: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        call()
