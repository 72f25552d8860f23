"""Effects never contradict themselves: interval, p, shares and ratio agree, also where hardly anything varies.
What estimators refuse: columns of unequal length, shapes that cannot be compared."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.drawn import study
from tests.helpers.rows import matched_effect, paired_effect, pooled_effect, these_strata_effect, unmatched_effect
from tomserve.stats.effects import Effect, inverted_p

stage_shares = st.lists(
    st.tuples(*[st.sampled_from([0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0])] * 2), min_size=1, max_size=8
)

ESTIMATORS = {
    "matched": matched_effect,
    "pooled": pooled_effect,
    "these strata": these_strata_effect,
    "unmatched": lambda y, arm, task, stage: unmatched_effect(y, arm, task),
    "paired by stage": lambda y, arm, task, stage: paired_effect(y[arm], y[~arm], task[arm], stage[arm]),
    "paired by task": lambda y, arm, task, stage: paired_effect(y[arm], y[~arm], task[arm]),
}


@settings(max_examples=15)
@given(stage_shares)
@example([(0.0, 0.0), (0.0, 0.25), (0.0, 0.25)])  # a linear fit put the treated share at -8e-17
@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_interval_p_shares_and_ratio_agree(name: str, shares: list[tuple[float, float]]) -> None:
    estimate: Callable[..., Effect] = ESTIMATORS[name]
    y, arm, task, stage = study(shares)
    found, mirror = estimate(y, arm, task, stage), estimate(y, ~arm, task, stage)
    assert -1 <= found.low <= found.estimate + 1e-9 <= found.high + 2e-9 <= 1 + 3e-9
    assert found.low == pytest.approx(-mirror.high, abs=1e-6)
    assert found.share_treated - found.share_control == pytest.approx(found.estimate, abs=1e-12)
    clear = found.low > 0 or found.high < 0
    assert clear == (found.p <= 0.05), found
    ratio = found.ratio
    if math.isnan(ratio.low):
        assert math.isnan(ratio.estimate), found
        assert not clear
    else:
        assert ratio.low <= ratio.estimate <= ratio.high
        assert clear == (ratio.low > 1 or ratio.high < 1), found
        if found.share_control > 0:
            assert ratio.estimate == pytest.approx(found.share_treated / found.share_control)


def pairs(lost: list[int], gained: list[int], answers: int = 16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Treated and control outcomes and the stage of 16 pairs a stage, so many of them lost and gained."""
    t, c = np.ones((len(lost), answers)), np.ones((len(lost), answers))
    for index, (minus, plus) in enumerate(zip(lost, gained, strict=True)):
        t[index, :minus] = 0
        c[index, answers - plus :] = 0 if plus else c[index, answers:]
    return t.ravel(), c.ravel(), np.repeat(np.arange(len(lost)), answers)


def test_no_change_at_all_says_as_much_as_the_pairs_allow() -> None:
    """112 pairs in seven stages count for 112 / (1 + 15 x .1) = 44.8."""
    t, c, stage = pairs([0] * 7, [0] * 7)
    found = paired_effect(t, c, stage, stage)
    half = 3.841459 / (44.8 + 3.841459)
    assert (found.estimate, found.low, found.high) == (0, pytest.approx(-half, abs=1e-6), pytest.approx(half, abs=1e-6))
    assert (found.p, found.ratio.low, found.ratio.high) == (1.0, pytest.approx(1 - half), pytest.approx(1 + half))
    assert found.method == "Tango, n = 44.8 of 112 pairs (zero variance), 7 strata paired"
    widths = []
    for stages, answers in ((4, 16), (7, 16), (7, 160), (21, 16)):
        t, c, stage = pairs([0] * stages, [0] * stages, answers)
        widths.append(paired_effect(t, c, stage, stage).high)
    assert widths == sorted(widths, reverse=True), "more stages or more pairs say more"


def test_one_change_says_hardly_more_than_none() -> None:
    none, one, four, five = (
        paired_effect(t, c, stage, stage)
        for t, c, stage in (
            pairs(lost, [0] * 7) for lost in ([0] * 7, [1] + [0] * 6, [1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0])
        )
    )
    assert one.low < none.low < one.high < none.high
    assert "widened to Tango" in one.method
    assert one.high - one.low > 0.9 * (none.high - none.low)
    assert "widened" in four.method
    assert "widened" not in five.method, "five answers that changed show their spread themselves"


def test_all_stages_alike_is_not_certainty() -> None:
    t, c, stage = pairs([1] * 7, [0] * 7)
    found = paired_effect(t, c, stage, stage)
    assert found.estimate == -0.0625
    assert found.low < -0.12 < -0.0625 < found.high
    alone = paired_effect(t[:16], c[:16], stage[:16], stage[:16])
    assert "n = 1.0 of 16 pairs (one unit)" in alone.method
    assert (alone.low < -0.7, alone.high > 0.7) == (True, True), "one stage says nothing about others"


@pytest.mark.parametrize(("rate", "stages"), [(0.005, 7), (0.02, 7), (0.02, 21)])
def test_rare_changes_are_covered(rate: float, stages: int) -> None:
    """Losses that vary from stage to stage, by a beta distribution with an intra-class correlation of .08."""
    rng, hits = np.random.default_rng(11), []
    for _ in range(30):
        p = rng.beta(rate * 11.5, (1 - rate) * 11.5, stages)
        t, c, stage = pairs(list(rng.binomial(16, p)), [0] * stages)
        found = paired_effect(t, c, stage, stage)
        hits.append(found.low <= -rate <= found.high)
    assert np.mean(hits) >= 0.93


def test_p_of_an_interval_that_never_excludes_zero_is_one() -> None:
    assert inverted_p(lambda level: (-0.1, 0.1)) == 1.0
    assert inverted_p(lambda level: (0.1 - level, 1.0)) == pytest.approx(0.9)
    assert inverted_p(lambda level: (1 - 1.02 * level, 1.0)) == pytest.approx(1 - 1 / 1.02)
