"""The quantiles and tails of tomserve.stats.distributions are those of scipy.stats, and importing scores imports none of it."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from tomserve.stats import distributions as d
from tomserve.stats.distributions import find_root
from tomserve.stats.paired import holm, step_up

DF = (1, 2, 6.3, 29, 1000, math.inf)


@pytest.mark.parametrize("df", DF)
def test_students_t(df: float) -> None:
    for p in (0.001, 0.025, 0.5, 0.9, 0.975):
        quantile = d.t_quantile(p, df)
        assert quantile == pytest.approx(stats.t.ppf(p, df), rel=1e-12, abs=1e-12)
        assert d.t_tails(quantile, df) == pytest.approx(2 * stats.t.sf(abs(quantile), df), rel=1e-12)


def test_arrays_of_degrees_of_freedom_keep_their_shape_and_what_has_none_is_undefined() -> None:
    df = np.array([[3.0, math.inf], [0.0, -1.0]])
    found = d.t_tails(np.ones((2, 2)), df)
    assert found[0] == pytest.approx([2 * stats.t.sf(1, 3), 2 * stats.norm.sf(1)])
    assert np.isnan(found[1]).all()
    assert np.isnan([d.t_quantile(0.975, one) for one in (0.0, -1.0)]).all()
    assert isinstance(d.t_tails(1.0, 4.0), float)


def test_other_distributions() -> None:
    for p in (0.0005, 0.2, 0.5, 0.975):
        assert d.normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-13, abs=1e-15)
        assert d.beta_quantile(p, 2.5, 41) == pytest.approx(stats.beta.ppf(p, 2.5, 41), rel=1e-9)
    for x in (-8.0, 0.0, 1.3):
        assert d.normal_cdf(x) == pytest.approx(stats.norm.cdf(x), rel=1e-13)
    assert d.chi2_tail(7.7, 3) == pytest.approx(stats.chi2.sf(7.7, 3), rel=1e-12)
    assert d.binomial_cdf(3, 17, 0.3) == pytest.approx(stats.binom.cdf(3, 17, 0.3), rel=1e-12)
    for n, p in ((12, 0.25), (300, 0.5), (9, 0.0), (9, 1.0)):
        counts = np.arange(n + 1)
        assert d.binomial_pmf(counts, n, p) == pytest.approx(stats.binom.pmf(counts, n, p), rel=1e-10, abs=1e-300)
    below, above = d.t_power(2.2, 11, 1.9)
    assert below == pytest.approx(stats.nct.cdf(-2.2, 11, 1.9), rel=1e-8)
    assert above == pytest.approx(stats.nct.sf(2.2, 11, 1.9), rel=1e-10)


def test_the_p_of_a_correlation() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(2, 23))
    expected = stats.pearsonr(x, y)
    assert d.correlation_p(expected.statistic, 23) == pytest.approx(expected.pvalue, rel=1e-12)
    assert d.correlation_p(1.0, 23) == 0.0


def test_a_root_is_found_to_the_last_digit() -> None:
    assert find_root(lambda x: x * x - 2, 0.0, 2.0) == pytest.approx(math.sqrt(2), rel=1e-15)
    assert find_root(lambda x: x, -3.0, 7.0) == pytest.approx(0.0, abs=1e-50)


def test_adjusted_p_values_are_those_of_scipy_and_statsmodels() -> None:
    generator = np.random.default_rng(2)
    for size in (1, 2, 9, 50):
        p = generator.uniform(size=size) ** 3
        assert step_up(p) == pytest.approx(stats.false_discovery_control(p), rel=1e-12)
        assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], rel=1e-12)


SLOW = "pandas statsmodels scipy.stats scipy.optimize scipy.special openai asyncio httpx jinja2 torch"


@pytest.mark.system
def test_tables_are_computed_and_printed_without_a_slow_import() -> None:
    """Of an example run with chains, by its own study: what a reader waits for is the computing, not the importing."""
    program = (
        "import sys\n"
        "sys.argv = ['tomserve', 'analyze', 'runs/example']\n"
        "from tomserve.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        f"slow = [name for name in {SLOW.split()!r} if name in sys.modules]\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
