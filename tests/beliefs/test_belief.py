"""Every manner of learning by its rule, and all of them one after another against sets that follow the description."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.beliefs_by_hand import Mind
from tomserve.beliefs import Belief, Manner

START = Belief()
MANNERS: tuple[Manner, ...] = ("learn", "infer", "read", "view", "hear")
learned = st.tuples(
    st.lists(st.sampled_from("xyz"), min_size=1, max_size=2, unique=True).map(tuple), st.sampled_from(MANNERS)
)


@given(st.lists(learned, max_size=8))
def test_any_history_agrees_with_the_sets(history: list[tuple[tuple[str, ...], Manner]]) -> None:
    now, mind = START, Mind()
    for labels, manner in history:
        now = now.after(labels, manner)
        mind.learns(labels, manner)
        assert (set(now.labels), now.firm, set(now.viewed)) == (mind.possible, mind.firm, mind.noticed)
        assert len(now.labels) == len(set(now.labels))


@given(st.lists(learned, max_size=5), st.lists(learned, max_size=5))
def test_what_was_learned_last_outweighs_all_before_it(
    before: list[tuple[tuple[str, ...], Manner]], after: list[tuple[tuple[str, ...], Manner]]
) -> None:
    with_history, without = START, START
    for labels, manner in before:
        with_history = with_history.after(labels, manner)
    for labels, manner in [(("w",), MANNERS[0]), *after]:
        with_history, without = with_history.after(labels, manner), without.after(labels, manner)
    assert with_history == without


BY_HAND = [
    ("view x, learn y", ("y",), True, ()),
    ("learn x, learn yz", ("y", "z"), True, ()),
    ("infer x, read y", ("y",), False, ()),
    ("learn x, infer y, read z", ("y",), True, ()),  # firm it stays
    ("read x, read y", ("y",), False, ()),
    ("learn x, read y", ("x",), True, ()),
    ("view x, read y", ("y", "x"), False, ("x",)),
    ("view x, read y, view y, read z", ("z", "x", "y"), False, ("x", "y")),
    ("learn x, view y", ("x", "y"), True, ("y",)),
    ("hear x", ("unknown", "x"), False, ()),
    ("view x, hear y, read z", ("z", "x"), False, ("x",)),
]


def test_each_manner_by_hand() -> None:
    assert (Belief(("unknown",), firm=False, viewed=()), START.label) == (START, "unknown")
    for history, labels, firm, viewed in BY_HAND:
        now = START
        for manner, learned in (one.split() for one in history.split(", ")):
            now = now.after(tuple(learned), manner)
        assert now == Belief(labels, firm=firm, viewed=viewed), history
    with pytest.raises(ValueError, match="several labels are possible: unknown, x"):
        START.after(("x",), "hear").label  # noqa: B018
