"""Every manner of learning by its rule; and a story's updates followed by any chain of agents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import beliefs_by_hand as by_hand
from tests.helpers.beliefs_by_hand import AGENTS, BITS, CHAINS, Mind, Names, bits
from tomserve.beliefs import Belief, Manner, Trace, Update, apart, hearsay, shared_hearsay, together

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
            audience, chains = together(bits(who)), by_hand.perceived(who)
        elif kind == "apart":
            audience, chains = apart(bits(who)), by_hand.noticed(who)
        else:
            speaker, trusting = draw(st.sampled_from(AGENTS)), draw(some)
            telling, told = (
                (hearsay, by_hand.told_as_released) if kind == "hearsay" else (shared_hearsay, by_hand.told_among_all)
            )
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
        beliefs = trace.beliefs(chain)
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
    assert (Trace(0, {}, ()).beliefs(()), Trace(0, {}, ()).label(())) == ([], "unknown")
    found = Trace(2, {"Ada": 1}, (Update(1, ("x",), together(1), "hear"),))
    for ask in (found.chain, found.label):
        with pytest.raises(ValueError, match="several labels are possible: unknown, x"):
            ask(("Ada",))


def test_strangers_believe_nothing_and_nobody_is_asked_about_twice() -> None:
    found = Trace(2, {"Ada": 1, "Bo": 2}, (Update(0, ("x",), together(3)),))
    assert found.accept_updates(("Zoe",)) == []
    assert found.chain(("Ada", "Zoe")) == ["unknown", "unknown"]
    for chain in (("Ada", "Bo", "Ada"), ("Zoe", "Zoe"), ("Ada", "Zoe", "Ada")):
        for ask in (found.accept_updates, found.belief, found.beliefs, found.chain, found.label):
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


@given(st.lists(learned, max_size=5), st.lists(learned, max_size=5))
def test_what_was_learned_last_outweighs_all_before_it(
    before: list[tuple[tuple[str, ...], Manner]], after: list[tuple[tuple[str, ...], Manner]]
) -> None:
    with_history, without = START, START
    for labels, manner in before:
        with_history = with_history.after(labels, manner)
    for labels, manner in [(("w",), "learn"), *after]:
        with_history, without = with_history.after(labels, manner), without.after(labels, manner)
    assert with_history == without


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
