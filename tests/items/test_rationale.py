"""Gold automata against listed paths."""

import pytest
from hypothesis import given

from tests.helpers.rationales import listed, rationales
from tomserve.items.rationale import compile_chains, compile_sets


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
