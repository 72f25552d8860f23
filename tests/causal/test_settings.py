"""What somebody may choose of a measurement, and what is refused."""

from __future__ import annotations

import pytest

from tomserve.causal.settings import Settings, alphas_of, layers_of
from tomserve.errors import ConfigError


@pytest.mark.parametrize("text", ["", "a", "0", "3-1", "1,,2", "-1"])
def test_other_layers_are_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--layers .*(1,4-6|numbered from 1)"):
        layers_of(text)


def test_a_layer_that_the_model_lacks_is_refused() -> None:
    assert Settings(layers=(3, 1)).chosen(3) == (1, 3)
    assert Settings().chosen(3) == (1, 2, 3)
    with pytest.raises(ConfigError, match="layer 4 is none of this model's; it has layers 1 to 3"):
        Settings(layers=(4,)).chosen(3)


def test_strengths_are_numbers_above_zero_each_once() -> None:
    assert (layers_of("3, 1-2,3"), alphas_of("1e-3, 0.01")) == ((3, 1, 2), (0.001, 0.01))
    with pytest.raises(ConfigError, match="expected numbers such as"):
        alphas_of("small")
    for wrong in ((), (0.0,), (-1.0,), (float("nan"),), (0.1, 0.1)):
        with pytest.raises(ConfigError, match="alphas are"):
            Settings(alphas=wrong)


@pytest.mark.parametrize(("field", "value"), [("folds", 1), ("fewest", 1), ("limit", 0)])
def test_numbers_that_make_no_sense_are_refused(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{field} is {value}; expected"):
        Settings(**{field: value})  # type: ignore[arg-type]
