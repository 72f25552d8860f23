"""The bench of answers in many files runs small, and hands over what it measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT


@pytest.mark.long
def test_a_small_run_measures_both_ways_and_extrapolates(tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    options = ["--rows", "4000", "8000", "--each", "2000", "--rounds", "1", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "partitions.py"), *options],
        env={**os.environ, "BENCH_FIGURES": str(figures)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = {one["figure"]: one["value"] for one in map(json.loads, figures.read_text().splitlines())}
    assert told["counted, 8,000 rows in 4 files, time"] > 0
    assert told["counted, 8,000 rows in 4 files, peak"] < 2
    assert "counted, 100,000,000 rows, peak (extrapolated)" in told
    made = pl.read_parquet(tmp_path / "8000-in-4" / "*.parquet")
    assert made.height == 8000
    assert not made.select("item", "strategy").is_duplicated().any(), "no question is in the tables twice"
    counted = json.loads((tmp_path / "tables" / "accuracy.json").read_text())
    assert counted
