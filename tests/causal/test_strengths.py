"""The strengths at which a layer is moved: where the effect goes from nothing to everything, whatever the map's gain."""

from pathlib import Path

import numpy as np
import pytest

from tomserve.causal.interventions import read_strengths
from tomserve.causal.projection import Map
from tomserve.causal.settings import STRENGTHS
from tomserve.causal.strengths import TRIED, choose_strengths, spread
from tomserve.errors import ConfigError

N, D, K = 60, 30, 4
RNG = np.random.default_rng(3)
FRAME = np.linalg.qr(RNG.normal(size=(D, 2 * K)))[0]
X, Y = RNG.normal(size=(2, N, D))


def a_map(gain: float) -> Map:
    return Map(FRAME[:, :K], np.full(K, gain), FRAME[:, K:])


def share_further_than(limit: float) -> object:
    return lambda moved: (np.linalg.norm(moved, axis=2) > limit).mean(axis=1)


@pytest.mark.parametrize("gain", [0.05, 1.0, 40.0])
def test_strengths_span_the_effect_for_every_gain_and_no_more(gain: float) -> None:
    w, y = a_map(gain), gain * Y
    limit = 0.5 * float(np.median(w.lengths(X, y, (0.0,))))
    found = choose_strengths([(w, X, y)], ([(w, X, y)], share_further_than(limit)))
    assert len(set(found)) == STRENGTHS
    assert list(found) == sorted(found)
    lengths = np.median(w.lengths(X, y, found), axis=1)
    assert lengths[:-1] / lengths[1:] == pytest.approx(lengths[0] / lengths[1], rel=0.02), "in equal ratios"
    shares = (w.lengths(X, y, found) > limit).mean(axis=1)
    assert shares[-1] <= 0.05
    assert shares[0] >= 0.9
    assert (np.diff(shares) < 0).sum() >= STRENGTHS // 2, "most lie where the effect grows"


def test_where_nothing_flips_they_are_spread_over_all_lengths() -> None:
    w = a_map(1.0)
    for tried in (None, ([(w, X, Y)], lambda moved: np.zeros(len(moved)))):
        lengths = np.median(w.lengths(X, Y, choose_strengths([(w, X, Y)], tried)), axis=1)
        assert lengths[0] > 5 * lengths[-1] > 0


@pytest.mark.parametrize("w", [Map(FRAME[:, :0], np.zeros(0), FRAME[:, :0]), a_map(1e-12), a_map(1e12)])
def test_a_map_that_reaches_nothing_has_strengths_too(w: Map) -> None:
    for x, y in ((X, Y), (X, X), (0 * X, 0 * X)):
        found = choose_strengths([(w, x, y)], ([(w, x, y)], lambda moved: np.zeros(len(moved))))
        assert len(set(found)) == STRENGTHS
        assert min(found) > 0
        assert np.isfinite(found).all()


def test_cases_to_try_are_eligible_and_from_everywhere() -> None:
    assert spread([False, True, True]).tolist() == [1, 2]
    assert spread([False] * 3).tolist() == []
    many = spread([True, False] * 100)
    assert (many.size, many[0], many[-1]) == (TRIED, 0, 198)
    assert not (many % 2).any()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"held out": 1}', '{"held out": [0]}', '{"held out": [true]}'])
def test_strengths_that_a_stranger_has_left_are_refused(tmp_path: Path, text: str) -> None:
    kept = tmp_path / "strengths.json"
    kept.write_text('{"held out": [0.5, 1]}')
    assert read_strengths(kept, ["held out"]) == {"held out": (0.5, 1)}
    kept.write_text(text)
    with pytest.raises(ConfigError, match=r"strengths\.json.*delete it, and the strengths are chosen again"):
        read_strengths(kept, ["held out"])
