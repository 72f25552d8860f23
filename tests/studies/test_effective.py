"""`--intervals effective`: an accuracy has the interval of as many independent questions as have its error."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.conftest import Cli, make_item
from tests.helpers.outcomes import passes, refuses
from tests.helpers.reports import run_folder
from tomserve.stats.clustered import designed_share
from tomserve.studies import compute

EFFECTIVE = "effective"


def scored(together: float, clusters: int = 30, size: int = 6) -> pl.DataFrame:
    """Answers of two strategies; a share `together` of the clusters is right or wrong as a whole."""
    rng = np.random.default_rng(5)
    rows: list[dict[str, Any]] = []
    for strategy in ("vanilla", "cot"):
        for cluster in range(clusters):
            whole = rng.random() < together
            one = rng.random() < 0.6
            for place in range(size + cluster % 3):
                right = one if whole else rng.random() < 0.6
                row = {"model": "m", "strategy": strategy, "item": f"q{cluster}-{place}", "status": "ok"}
                rows.append({**row, "cluster": f"c{cluster}", "correct": bool(right), "kind": "ab"[place % 2]})
    return pl.DataFrame(rows)


@pytest.mark.parametrize("together", [0.0, 1.0])
def test_the_interval_is_that_of_the_cluster_robust_error(together: float) -> None:
    scores = scored(together)
    tables = compute(scores, "accuracy", EFFECTIVE, ["kind"]).tables
    for row in [*tables["accuracy"].to_dicts(), *tables["by_kind"].to_dicts()]:
        part = scores.filter(**{name: row[name] for name in ("strategy", "kind") if name in row})
        found = designed_share(part["correct"].cast(pl.Float64).to_numpy(), part["cluster"].to_numpy())
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((found.low, found.high))
        assert row.get("method", found.method) == found.method


def test_it_is_a_way_of_the_command_and_of_studies_that_have_it(cli: Cli, tmp_path: Any) -> None:
    items = [make_item(n, cluster=f"demo/{n // 3}") for n in range(1, 31)]
    replies = {item.id: {"text": '{"answer": "tea"}' if n % 4 else "salt"} for n, item in enumerate(items)}
    run = run_folder(tmp_path / "r", {"vanilla": replies}, items)
    passes(cli("analyze", run, "--intervals", EFFECTIVE, "--out", tmp_path / "tables"))
    assert "effective n = " in (tmp_path / "tables/accuracy.csv").read_text()
    refuses(cli("analyze", run, "--intervals", "efective"), "did you mean 'effective'?")
