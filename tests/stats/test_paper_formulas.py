"""The source's table 6 from its own cells."""

import pytest

from tomserve.stats.paper_formulas import paper_compat, printed_formula


@pytest.mark.parametrize(
    ("cells", "printed", "formula"),
    [((0.58, 0.23, 0.72), 0.58, 0.503), ((0.53, 0.20, 0.70), 0.54, 0.465), ((0.41, 0.11, 0.59), 0.39, 0.356)],
)
def test_open_models_are_printed_with_c_over_twice_the_best(
    cells: tuple[float, float, float], printed: float, formula: float
) -> None:
    assert paper_compat(*cells) == pytest.approx(printed, abs=0.0051)
    assert printed_formula(*cells) == pytest.approx(formula, abs=1e-9)
    assert abs(printed_formula(*cells) - printed) > 0.02


def test_closed_models_are_printed_without_c_and_without_renormalisation() -> None:
    assert paper_compat(0.67, None, 0.80) == pytest.approx(0.495)
    assert paper_compat(0.63, None, 0.77) == pytest.approx(0.469)
    assert paper_compat(1, None, 1) == pytest.approx(0.7)
