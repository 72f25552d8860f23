"""Chains compared with listed gold chains give exactly what walking through the layers of the rationale gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.rationales import LABELS, rationales
from tomserve.items.automaton import Automaton, compile_chains, compile_sets
from tomserve.scoring import chains
from tomserve.scoring.chains import check_path_proper, compare_chain, judge_sentences, score_chain

beliefs = st.sampled_from([*LABELS, "z", None])
said = st.one_of(
    st.dictionaries(st.integers(1, 7), beliefs, max_size=7).map(lambda found: tuple(sorted(found.items()))),
    st.lists(beliefs, min_size=1, max_size=7).map(lambda found: tuple(enumerate(found, 1))),
)
listed_chains = st.integers(1, 5).flatmap(
    lambda length: st.lists(st.lists(st.sampled_from(LABELS), min_size=length, max_size=length), min_size=1, max_size=4)
)


def layer_by_layer(gold: Automaton, stated: chains.Stated, readable: bool, others: tuple[Automaton, ...]):
    chain = [label for _, label in stated if label is not None] if readable else []
    return score_chain(gold, chain), check_path_proper(gold, chain), judge_sentences(gold, stated, others)


@given(
    st.one_of(rationales().map(lambda one: compile_sets(*one)), listed_chains.map(compile_chains)), said, rationales()
)
def test_the_direct_comparison_equals_the_walk_through_the_layers(gold, stated, other) -> None:
    readable = bool(stated) and all(label is not None for _, label in stated)
    for others in ((), (compile_sets(*other),)):
        expected = layer_by_layer(gold, stated, readable, others)
        assert compare_chain(gold, stated, readable, others) == expected
        assert compare_chain(gold, stated, readable, others) == expected  # from the verdicts that were kept


def test_of_equally_good_gold_chains_the_same_one_counts() -> None:
    gold = compile_sets([["x", "y"], ["x", "y"], ["x", "y"]], policy="free")
    assert len(chains._list_gold_chains(gold)) == chains.MOST
    for first in "xyz":
        for last in "xyz":
            stated = ((1, first), (3, last))
            assert compare_chain(gold, stated, True, ())[2] == judge_sentences(gold, stated)


def test_a_rationale_of_many_gold_chains_is_walked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    many = compile_sets([["x", "y"]] * 40, policy="free")  # 2 ** 40 gold chains
    stated = tuple(enumerate("xy" * 20, 1))
    assert chains._list_gold_chains(many) == ()
    assert compare_chain(many, stated, True, ()) == layer_by_layer(many, stated, True, ())


def test_verdicts_of_many_neighbours_are_not_kept_for_ever() -> None:
    gold = compile_sets([["x"], ["x"]])
    for number in range(50):
        others = (compile_sets([[f"a{number}"], ["b"]]),)
        assert compare_chain(gold, ((1, f"a{number}"), (2, "x")), True, others)[2].verdicts == ("other_belief", "right")
    assert len(chains._list_gold_chains(gold)[0]._verdicts) <= chains._KEPT
