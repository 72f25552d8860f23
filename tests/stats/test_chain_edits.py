"""Estimates of whether an answer follows its chain: by hand, for answerers that are known, and for any outcomes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from tomserve.stats.chain_edits import (
    AFTERWARDS,
    CARRIED,
    CONTINUED,
    DEPENDS,
    DISTURBED,
    ESTIMANDS,
    FOLLOWS,
    KEPT,
    LAST,
    LOCAL,
    MENDS,
    NONE,
    OTHER,
    PARTLY,
    ROOM,
    SWAPPED,
    UNDECIDED,
    Contrast,
    Decision,
    area_above,
    contrast,
    decide,
    follow_effect,
    loss_effect,
    units_to_decide,
)

NAN = math.nan
OUTCOMES = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, NAN]), st.sampled_from([0.0, 1.0, NAN]), st.sampled_from("abcde")),
    min_size=1,
    max_size=40,
)


def test_by_hand_units_count_alike_whatever_their_size() -> None:
    treated = [1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1]
    control = [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0]
    unit = list("aaaabbccddde")
    found = contrast(treated, control, unit)
    means = [0.75, -0.5, 1.0, 1 / 3, 1.0]
    bounds = ttest_1samp(means, 0).confidence_interval(0.95)
    assert found.value == pytest.approx(np.mean(means))
    assert (found.low, found.high) == (pytest.approx(bounds.low), 1.0)  # cut to what is possible
    assert found.p == pytest.approx(ttest_1samp(means, 0).pvalue)
    assert found.treated == pytest.approx(np.mean([0.75, 0.5, 1, 2 / 3, 1]))
    assert found.control == pytest.approx(np.mean([0, 1, 0, 1 / 3, 0]))
    assert (found.items, found.units, found.failures) == (12, 5, 0)
    assert (found.bound_low, found.bound_high) == (found.value, found.value)


def test_a_failure_is_no_answer_and_its_bounds_are_what_it_could_have_been() -> None:
    found = follow_effect([1, NAN, 1, 0], [0, 0, NAN, 0], list("aabb"))
    assert found.value == pytest.approx(0.5)
    assert found.failures == 2
    assert found.causal == 1.0
    assert (found.bound_low, found.bound_high) == (pytest.approx(0.25), pytest.approx(0.75))
    assert found.surely_low == pytest.approx(found.low - 0.25)
    assert found.surely_high == pytest.approx(found.high + 0.25)


def test_a_chain_that_decides_alone_gives_what_is_causal() -> None:
    control = [0, 0, 1, 0, 0, 0, 0, 1]
    found = follow_effect([1] * 8, control, list("aabbccdd"))
    assert found.value == found.causal == 0.75
    assert found.share == 1.0
    assert found.low > 0
    worse = loss_effect([1] * 8, [0] * 8, [0.5] * 8, list("aabbccdd"))
    assert (worse.value, worse.causal, worse.share) == (1.0, 0.5, 1.0), "worse than a guess is no more than all of it"
    taken = loss_effect([1, 1, 0, 1], [1, 0, 0, 0], [0.5, 0.5, 0.25, 0.25], list("aabb"))
    assert taken.causal == pytest.approx(0.75 - 0.375)
    assert taken.value == pytest.approx(0.5)


def test_where_few_items_differ_interval_and_p_are_the_careful_ones() -> None:
    treated = np.zeros(24)
    treated[[0, 4, 8]] = 1  # in three of six units, so that t alone would be narrow
    unit = np.repeat(list("abcdef"), 4)
    found = contrast(treated, np.zeros(24), unit)
    means = treated.reshape(6, 4).mean(axis=1)
    assert "fewer than 5 items are unlike the others" in found.method
    assert found.p >= ttest_1samp(means, 0).pvalue
    assert found.high >= ttest_1samp(means, 0).confidence_interval(0.95).high


def test_no_items_are_no_contrast_and_columns_must_match() -> None:
    assert contrast([], [], []) is NONE
    assert math.isnan(NONE.share)
    one = follow_effect([1] * 20, [0] * 20, ["a"] * 20)
    assert (one.value, one.p > 0.05, one.low <= 0) == (1.0, True, True), "one unit says hardly anything"
    with pytest.raises(ValueError, match="equal lengths"):
        contrast([1, 0], [1], ["a", "b"])


@given(OUTCOMES)
@settings(max_examples=40)
def test_whatever_the_outcomes_value_interval_bounds_and_p_agree(rows: list[tuple[float, float, str]]) -> None:
    treated, control, unit = (list(column) for column in zip(*rows, strict=True))
    found = follow_effect(treated, control, unit)
    assert -1 <= found.low <= found.value + 1e-9 <= found.high + 2e-9 <= 1 + 3e-9
    assert found.bound_low - 1e-9 <= found.value <= found.bound_high + 1e-9
    assert found.treated - found.control == pytest.approx(found.value)
    assert found.value <= found.causal + 1e-9
    if abs(found.p - 0.05) > 1e-6:
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
    swapped = contrast(control, treated, unit)
    assert (swapped.value, swapped.low, swapped.high) == pytest.approx((-found.value, -found.high, -found.low))
    again = follow_effect(treated[::-1], control[::-1], unit[::-1])
    assert (again.value, again.low, again.high, again.p) == pytest.approx((found.value, found.low, found.high, found.p))


def test_the_area_is_nothing_for_a_flat_line_and_by_hand_otherwise() -> None:
    lengths = [0, 0.25, 0.5, 0.75, 1]
    flat = area_above([[1] * 5, [0] * 5, [1] * 5], lengths, list("aab"))
    assert flat.estimate == 0.0
    assert math.isnan(flat.low)
    steps = area_above([[0, 0, 0, 0, 1], [0, 0, 1, 1, 1]], lengths, list("ab"))
    assert steps.estimate == pytest.approx((0.875 + 0.375) / 2)
    assert steps.low < steps.estimate < steps.high
    assert area_above([[0, NAN, 1]], [0, 0.5, 1], ["a"]).estimate == 0.75
    with pytest.raises(ValueError, match="lengths"):
        area_above([[0, 1]], lengths, ["a"])
    assert math.isnan(area_above(np.empty((0, 5)), lengths, []).estimate)


def made(share: float, width: float = 0.05, causal: float = 1.0, **more: float) -> Contrast:
    """An estimate of that share of causal, with an interval of that half width in shares."""
    value, half = share * causal, width * causal
    p = 0.001 if share - width > 0 else 0.5
    known = {"low": value - half, "high": value + half, "p": p, "causal": causal, "sd": 0.2, "items": 60, "units": 14}
    known |= {"bound_low": value, "bound_high": value, "treated": value, "control": 0.0, "failures": 0, **more}
    return Contrast(value=value, method="made", **known)  # type: ignore[arg-type]


def decided(*four: Contrast, beyond: Contrast | None = None, **further: Contrast) -> Decision:
    controls = {} if beyond is None else {LAST: [beyond], SWAPPED: [beyond]}
    return decide(dict(zip(ESTIMANDS, four, strict=True)), controls, further)


@pytest.mark.parametrize(
    ("shares", "code"),
    [
        ((0.9, 0.9, 0.0, 0.0), FOLLOWS),  # it knows the answer without the chain, and follows it all the same
        ((0.9, 0.5, 0.9, 0.9), PARTLY),
        ((0.0, 0.0, 0.0, 0.0), AFTERWARDS),
        ((0.0, 0.0, 0.0, 0.5), ROOM),  # filler does as well
        ((0.0, 0.0, 0.16, 0.0), DEPENDS),
        ((0.0, 0.0, 0.9, 0.9), DEPENDS),
        ((0.0, 0.5, 0.9, 0.9), PARTLY),
        ((0.5, 0.5, 0.5, 0.5), PARTLY),
    ],
)
def test_the_four_estimates_decide(shares: tuple[float, ...], code: str) -> None:
    assert decided(*map(made, shares)).code == code


@pytest.mark.parametrize(
    ("other", "middle", "code"),
    [
        (made(0.9), made(0.0), MENDS),
        (made(0.0), made(0.0), ROOM),  # the chain of another item does as well
        (made(0.9), made(0.5), DEPENDS),  # a belief in the middle is followed
        (made(0.9), NONE, DEPENDS),
        (NONE, made(0.0), DEPENDS),  # any other text might do as well
    ],
)
def test_what_a_chain_is_needed_for_is_told_by_further_edits(other: Contrast, middle: Contrast, code: str) -> None:
    nothing, needed = made(0.0), made(0.9)
    for name in (LOCAL, CONTINUED):
        assert decided(nothing, nothing, needed, needed, **{OTHER: other, name: middle}).code == code


def test_what_filler_does_as_well_is_no_following() -> None:
    half, needed = made(0.5), made(0.9)
    codes = [decided(half, half, needed, needed, beyond=made(share)).code for share in (0.0, 0.22, 0.4)]
    assert codes == [DISTURBED, PARTLY, PARTLY]
    assert decided(half, NONE, needed, needed, beyond=made(0.1, 0.2)).code == DEPENDS
    always = made(1.0, 0.0)
    found = decided(always, always, always, always, beyond=made(0.0, 0.0, causal=0.02))
    assert found.code == DISTURBED, "of two choices the other one comes whatever is done to the chain"


def test_what_a_decision_needs() -> None:
    follows, nothing, few = made(0.9), made(0.0), made(0.3, items=9)
    for unheard in (few, NONE):
        assert decided(follows, unheard, follows, follows).code == FOLLOWS
        assert decided(follows, unheard, follows, follows).estimates == (LAST,)
    for carried, estimates in ((made(0.9), (LAST, CARRIED)), (made(0.4), (LAST,)), (few, (LAST,))):
        found = decided(follows, NONE, follows, follows, **{CARRIED: carried})
        assert (found.code, found.estimates) == (FOLLOWS, estimates), "it may mend what it would follow"
    assert decided(follows, made(0.3, units=2), NONE, NONE).code == FOLLOWS
    assert decided(nothing, nothing, NONE, NONE).code == UNDECIDED, "filler or truncation has to be known"
    blunt = made(0.9, causal=0.1, p=0.5)
    assert decided(nothing, nothing, blunt, nothing).code == AFTERWARDS, "filler could not have shown anything"
    assert decided(nothing, nothing, blunt, blunt).code == UNDECIDED
    assert decided(NONE, nothing, nothing, nothing).estimates == ()
    assert decided(made(0.9, 0.5), made(0.9, 0.5), nothing, nothing).code == UNDECIDED, "it may decide alone"


def test_failures_can_take_a_decision_away_but_never_make_one() -> None:
    follows = made(0.7, bound_low=0.4, bound_high=0.95)
    assert decided(follows, follows, follows, follows).code == UNDECIDED
    nothing, hidden = made(0.0), made(0.0, bound_high=0.3)
    assert decided(hidden, nothing, nothing, nothing).code == UNDECIDED
    raised = made(0.3, bound_low=-0.1)
    assert decided(nothing, nothing, nothing, raised).above == ()
    assert decided(nothing, nothing, nothing, made(0.3)).above == (KEPT,)


def needed_of(*four: Contrast) -> int | None:
    return units_to_decide(dict(zip(ESTIMANDS, four, strict=True)))


def test_how_many_units_would_decide() -> None:
    wide = made(0.7, 0.4)
    needed = needed_of(wide, wide, wide, wide)
    assert needed is not None
    assert 14 < needed < 100
    close = made(0.55, 0.4)
    assert (needed_of(close, close, close, close) or 0) > needed
    inert = made(0.0, 0.4)
    assert needed_of(inert, inert, inert, inert) == needed, "a fifth is as far from 0 as half is from .7"
    assert needed_of(*(made(0.7, 0.4, sd=NAN) for _ in range(4))) is None
    assert needed_of(made(0.3, 0.5), wide, wide, wide) is not None
