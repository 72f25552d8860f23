"""Every manner of learning by its rule; a story's updates followed by any chain of agents; and each kind of audience against
the sentence that describes it. Who takes what over is worked out slowly from the description here, as sets of chains."""

from collections.abc import Iterable
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tomserve.beliefs import Belief, Manner, Trace, Update, apart, hearsay, shared_hearsay, together

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


START, LINES = Belief(), 6
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
            now = START
            for update in mine:
                if update.line <= line:
                    now = now.after(update.labels, update.manner)
            expected.append(set(now.labels))
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


def test_agents_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="agents are bits of a number from 0, not of -2"):
        together(~1)
