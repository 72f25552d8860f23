"""Which chains of agents take something over: each kind of audience against the sentence that describes it."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import beliefs_by_hand as by_hand
from tests.helpers.beliefs_by_hand import AGENTS, BITS, CHAINS, bits
from tomserve.beliefs import Audience, apart, hearsay, shared_hearsay, together

some = st.sets(st.sampled_from(AGENTS))
GROUPS = [group for size in range(len(AGENTS) + 1) for group in combinations(AGENTS, size)]


def taken(audience: Audience) -> set[tuple[str, ...]]:
    return {chain for chain in CHAINS if audience.takes([BITS[name] for name in chain])}


def test_who_sees_something_together_and_who_learns_it_apart() -> None:
    for agents in GROUPS:
        assert taken(together(bits(agents))) == by_hand.perceived(agents)
        assert taken(apart(bits(agents))) == by_hand.noticed(agents)


@given(st.sampled_from(AGENTS), some, some)
def test_tellings_reach_the_chains_of_their_description(speaker: str, hearers: set[str], trusting: set[str]) -> None:
    concerned = (BITS[speaker], bits(hearers), bits(trusting))
    assert taken(hearsay(*concerned)) == by_hand.told_as_released(speaker, hearers, trusting)
    assert taken(shared_hearsay(*concerned)) == by_hand.told_among_all(speaker, hearers, trusting)


def test_audiences_are_equal_by_their_steps_and_where_they_end() -> None:
    found, same = (Audience((((1, 1), (3, 2)), (), ()), 0b100) for _ in range(2))
    assert (found, hash(found)) == (same, hash(same))
    assert found != Audience((((1, 2), (3, 2)), (), ()), 0b100)


@st.composite
def audiences(draw: st.DrawFn) -> Audience:
    """Any automaton of up to three states over the five agents."""
    states = draw(st.integers(1, 3))
    step = st.tuples(st.integers(0, 31), st.integers(0, states - 1))
    steps = [tuple(draw(st.lists(step, max_size=3))) for _ in range(states)]
    return Audience(tuple(steps), draw(st.integers(0, 2**states - 1)))


def _walk(audience: Audience, chain: tuple[str, ...]) -> bool:
    """Whether the steps, read as they are written, lead the chain to where it may end."""
    state = 0
    for name in chain:
        ways = [to for agents, to in audience.steps[state] if agents & BITS[name]]
        if not ways:
            return False
        state = ways[0]
    return audience.accepting & 1 << state != 0


@given(audiences())
def test_any_automaton_is_read_step_by_step(audience: Audience) -> None:
    assert taken(audience) == {chain for chain in CHAINS if _walk(audience, chain)}


@given(audiences() | st.builds(together, st.integers(0, 31)))
def test_what_is_worked_out_beforehand_is_what_reading_would_find(audience: Audience) -> None:
    for chain in CHAINS:
        strange = bool(bits(chain) & audience.strangers)
        assert not (strange and _walk(audience, chain))
        if audience.joint and not strange:
            assert _walk(audience, chain)
        if audience.memoryless and not strange:
            ending = BITS[chain[-1]] << 1 if chain else 1
            assert bool(audience.endings & ending) == _walk(audience, chain)


def test_what_is_joint_and_what_keeps_nothing_of_those_before_the_last() -> None:
    found = (together(3), together(0), shared_hearsay(1, 2, 2), apart(3), hearsay(1, 2, 2))
    assert [audience.joint for audience in found] == [True, True, False, False, False]
    assert [audience.memoryless for audience in found] == [True, True, True, False, False]
    assert not Audience((((1, 0),),), 0).joint
    assert not Audience((((1, 0),), ((2, 1),)), 1).joint, "Bo leads nowhere, though a step has him"
    assert (shared_hearsay(1, 6, 2).endings, apart(3).endings) == (2 << 1, 0)


def test_agents_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="agents are bits of a number from 0, not of -2"):
        together(~1)
