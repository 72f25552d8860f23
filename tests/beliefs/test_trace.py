"""Every manner of learning by its rule; a story's updates followed by any chain of agents; and each kind of audience against
the sentence that describes it. All is worked out slowly from the description here: sets of chains, and sets of labels."""

from collections.abc import Iterable, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tomserve.beliefs import Audience, Belief, Manner, Trace, Update, apart, hearsay, shared_hearsay, together

AGENTS = ("Ada", "Bo", "Cleo", "Dov", "Eve")
BITS = {name: 1 << place for place, name in enumerate(AGENTS)}

Names = tuple[str, ...]
CHAINS: list[Names] = [who for order in range(5) for who in permutations(AGENTS, order)]
"""Every chain of up to four of the five agents, and the empty one."""


def bits(names: Iterable[str]) -> int:
    """These agents as bits."""
    return sum({BITS[name] for name in names})


def perceived(present: Iterable[str]) -> set[Names]:
    """The chains that take over what these agents see together: all of them alone, and reality."""
    present = set(present)
    return {chain for chain in CHAINS if present.issuperset(chain)}


def noticed(agents: Iterable[str]) -> set[Names]:
    """The chains that take over what each of these agents learns unnoticed."""
    return {(name,) for name in agents}


def told_as_released(speaker: str, hearers: Iterable[str], trusting: Iterable[str]) -> set[Names]:
    """B[h] and B[h, s] change for every hearer h who trusts the speaker s, and B[s, h] for every hearer."""
    others = set(hearers) - {speaker}
    believing = others & set(trusting)
    return {(speaker, h) for h in others} | {(h,) for h in believing} | {(h, speaker) for h in believing}


def told_among_all(speaker: str, hearers: Iterable[str], trusting: Iterable[str]) -> set[Names]:
    """Every chain of agents who all heard or said it, and that ends in a hearer who trusts the speaker."""
    concerned = {speaker, *hearers}
    believing = (set(hearers) & set(trusting)) - {speaker}
    return {chain for chain in CHAINS if chain and concerned.issuperset(chain) and chain[-1] in believing}


class Mind:
    """What somebody may believe: every label that is possible, and whether it is firm, one history after the other."""

    def __init__(self) -> None:
        self.possible = {("unknown", False)}

    @property
    def labels(self) -> set[str]:
        """The labels that are possible."""
        return {label for label, _ in self.possible}

    def learns(self, labels: Sequence[str], manner: Manner) -> None:
        """These labels become known to them in this manner."""
        named, then = set(labels), set[tuple[str, bool]]()
        for label, firm in self.possible:
            if manner in ("learn", "infer"):
                then |= {(one, manner == "learn") for one in named}
            elif manner == "view":
                then |= {(label, firm)} | {(one, True) for one in named}
            elif manner == "doubt":
                then.add((label, False))
            elif manner == "expect":
                then |= {(one, firm) for one in (label, *named)}
            elif firm:
                then.add((label, True))
            else:
                then |= {(one, False) for one in named | ({label} if manner == "hear" else set())}
        self.possible = then


LINES = 6
some = st.sets(st.sampled_from(AGENTS))
manners: st.SearchStrategy[Manner] = st.sampled_from(("learn", "infer", "read", "view", "hear", "doubt", "expect"))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Update, set[Names]]]:
    """Updates in the order of a story, each with the chains that its description says take it over."""
    found = []
    for line in sorted(draw(st.lists(st.integers(0, LINES - 1), max_size=8))):
        label, manner, who = draw(st.sampled_from("xyz")), draw(manners), draw(some)
        kind = draw(st.sampled_from(("together", "apart", "hearsay", "shared_hearsay")))
        if kind == "together":
            audience, chains = together(bits(who)), perceived(who)
        elif kind == "apart":
            audience, chains = apart(bits(who)), noticed(who)
        else:
            speaker, trusting = draw(st.sampled_from(AGENTS)), draw(some)
            telling, told = (hearsay, told_as_released) if kind == "hearsay" else (shared_hearsay, told_among_all)
            audience, chains = telling(BITS[speaker], bits(who), bits(trusting)), told(speaker, who, trusting)
        found.append((Update(line, (label,), audience, manner), chains))
    return found


@given(histories(), st.data())
def test_every_chain_believes_what_it_took_over(history: list[tuple[Update, set[Names]]], data: st.DataObject) -> None:
    trace = Trace(LINES, BITS, tuple(update for update, _ in history))
    asked = [chain for chain in CHAINS if len(chain) < 2] + data.draw(st.lists(st.sampled_from(CHAINS), max_size=20))
    for chain in asked:
        mine = [update for update, chains in history if chain in chains]
        assert trace.accept_updates(chain) == mine
        expected = []
        for line in range(LINES):
            mind = Mind()
            for update in mine:
                if update.line <= line:
                    mind.learns(update.labels, update.manner)
            expected.append(mind.labels)
        beliefs = [belief for belief, lines in trace.spans(chain) for _ in range(lines)]
        assert [set(belief.labels) for belief in beliefs] == expected
        assert [set(layer.labels) for layer in trace.layers(chain)] == expected
        assert trace.belief(chain) == beliefs[-1]
        if all(len(labels) == 1 for labels in expected):
            assert [{label} for label in trace.chain(chain)] == expected
            assert trace.label(chain) == beliefs[-1].label


def test_labels_after_every_line() -> None:
    found = Trace.of(
        5, ("Ada", "Bo", "Ada"), lambda at: [Update(1, ("box",), together(3)), Update(3, ("tin",), together(1))]
    )
    assert dict(found.bits) == {"Ada": 1, "Bo": 2}
    assert found.chain(()) == ["unknown", "box", "box", "tin", "tin"]
    spans = [(belief.label, length) for belief, length in found.spans(("Ada",))]
    assert spans == [("unknown", 1), ("box", 2), ("tin", 2)]
    assert Trace(2, {"Ada": 1}, ()).chain(("Ada",)) == ["unknown", "unknown"]
    assert (Trace(0, {}, ()).chain(()), Trace(0, {}, ()).label(())) == ([], "unknown")
    found = Trace(2, {"Ada": 1}, (Update(1, ("x",), together(1), "hear"),))
    for ask in (found.chain, found.label):
        with pytest.raises(ValueError, match="several labels are possible: unknown, x"):
            ask(("Ada",))


def test_strangers_believe_nothing_and_nobody_is_asked_about_twice() -> None:
    found = Trace(2, {"Ada": 1, "Bo": 2}, (Update(0, ("x",), together(3)),))
    assert found.accept_updates(("Zoe",)) == []
    assert found.chain(("Ada", "Zoe")) == ["unknown", "unknown"]
    for chain in (("Ada", "Bo", "Ada"), ("Zoe", "Zoe"), ("Ada", "Zoe", "Ada")):
        for ask in (found.accept_updates, found.belief, found.chain, found.label):
            with pytest.raises(ValueError, match=f"asked about twice in {' > '.join(chain)}"):
                ask(chain)


START = Belief()
learned = st.tuples(st.lists(st.sampled_from("xyz"), min_size=1, max_size=2, unique=True).map(tuple), manners)


@given(st.lists(learned, max_size=8))
def test_any_history_agrees_with_the_sets(history: list[tuple[tuple[str, ...], Manner]]) -> None:
    now, mind = START, Mind()
    for labels, manner in history:
        now = now.after(labels, manner)
        mind.learns(labels, manner)
        assert set(now.possible) == mind.possible
        assert len(now.labels) == len(set(now.labels)) == len(mind.labels)


BY_HAND = [
    ("view x, learn y", "y", True),
    ("learn x, learn yz", "yz", True),
    ("infer x, read y", "y", False),
    ("learn x, infer y, read z", "z", False),  # what is concluded is not firm
    ("learn x, read y", "x", True),
    ("learn x, doubt x, read y", "y", False),
    ("view x, read y", "yx", False),  # whoever may have seen it may believe either
    ("learn x, view y", "xy", True),
    ("learn x, hear y", "x", True),
    ("infer x, hear y", "xy", False),
    ("learn x, expect y, read z", "xy", True),
]


def test_each_manner_by_hand() -> None:
    assert (Belief(), Belief().label) == (START, "unknown")
    for history, labels, firm in BY_HAND:
        now = START
        for manner, learned in (one.split() for one in history.split(", ")):
            now = now.after(tuple(learned), manner)
        assert (now.labels, now.firm) == (tuple(labels), firm), history
    with pytest.raises(ValueError, match="several labels are possible: unknown, x"):
        START.after(("x",), "hear").label  # noqa: B018


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


@given(audiences() | st.builds(together, st.integers(0, 31)))
def test_any_automaton_is_read_step_by_step(audience: Audience) -> None:
    for chain in CHAINS:
        assert audience.takes([BITS[name] for name in chain]) == _walk(audience, chain)


def test_agents_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="agents are bits of a number from 0, not of -2"):
        together(~1)
