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


def test_nothing_is_known_at_first() -> None:
    assert Belief(("unknown",), firm=False, viewed=()) == START
    assert START.label == "unknown"


def test_what_is_learned_replaces_everything() -> None:
    assert START.after(("x",), "view").after(("y",), "learn") == Belief(("y",), firm=True)
    assert START.after(("x",), "learn").after(("y",), "learn").labels == ("y",)
    assert START.after(("x",), "learn").after(("y", "z"), "learn").labels == ("y", "z")


def test_what_is_inferred_replaces_what_was_believed_and_a_label_outweighs_it() -> None:
    assert START.after(("x",), "infer").after(("y",), "read").labels == ("y",)
    assert START.after(("x",), "view").after(("y",), "infer") == Belief(("y",))
    assert START.after(("x",), "learn").after(("y",), "infer").after(("z",), "read").labels == ("y",), "firm it stays"


def test_a_label_is_believed_unless_something_better_is_known() -> None:
    assert START.after(("x",), "read").after(("y",), "read").labels == ("y",)
    assert START.after(("x",), "learn").after(("y",), "read").labels == ("x",)
    assert START.after(("x",), "hear").after(("y",), "read").labels == ("y",)


def test_what_stands_in_view_stays_possible_beside_a_label_that_is_read() -> None:
    seen = START.after(("x",), "view")
    assert seen == Belief(("unknown", "x"), viewed=("x",))
    assert seen.after(("y",), "read") == Belief(("y", "x"), viewed=("x",))
    assert seen.after(("y",), "view").after(("z",), "read").labels == ("z", "x", "y")
    assert START.after(("x",), "learn").after(("y",), "view") == Belief(("x", "y"), firm=True, viewed=("y",))


def test_what_is_heard_of_a_stranger_is_one_possibility_more() -> None:
    assert START.after(("x",), "hear").labels == ("unknown", "x")
    assert START.after(("x",), "learn").after(("x",), "hear").labels == ("x",)
    assert START.after(("x",), "view").after(("y",), "hear").after(("z",), "read").labels == ("z", "x")


def test_a_belief_that_leaves_several_labels_open_has_no_one_label() -> None:
    with pytest.raises(ValueError, match="several labels are possible: unknown, x"):
        START.after(("x",), "hear").label  # noqa: B018


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
