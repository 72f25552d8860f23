"""The simulation of intervals and tests: it runs, is reproducible, and says so when a recommended method misses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

BENCH = ROOT / "bench" / "coverage.py"
SMALL = ("--replications", "1", "--cells", "2")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=ROOT)


def test_a_small_run_reaches_every_section_and_its_exit_code_follows_its_verdicts(tmp_path: Path) -> None:
    done = run(BENCH, *SMALL, "--jobs", "1", "--json", tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text())
    missed = [figure for figure in figures if figure["verdict"].startswith("MISSES")]
    assert done.returncode == bool(missed), done.stdout + done.stderr
    assert len({figure["section"] for figure in figures}) >= 11
    assert {figure["kind"] for figure in figures} == {"coverage", "level", "share", "planned power"}
    assert all(0 <= figure["value"] <= 1 and figure["error"] > 0 for figure in figures)
    assert f"{len(figures)} figures" in done.stdout


def test_the_number_of_processes_changes_no_figure(tmp_path: Path) -> None:
    only = ("--only", "shares", *SMALL, "--seed", "7")
    for jobs in ("1", "2"):
        run(BENCH, *only, "--jobs", jobs, "--json", tmp_path / jobs)
    assert (tmp_path / "1").read_text() == (tmp_path / "2").read_text()


NAMED = "'prompting, rare differences', 'coverage', 'one class, new stages', '7 stages'"
"""A figure for which an exception is named, from .95 to 1."""


@pytest.mark.parametrize(
    ("figure", "missed", "verdict"),
    [
        ("'s', 'coverage', 'm', 'w'", 0.05, ""),
        ("'s', 'coverage', 'm', 'w'", 0.3, "MISSES 0.93 to 0.97"),
        ("'s', 'coverage', 'm', 'w'", 0.0, "MISSES 0.93 to 0.97"),
        ("'s', 'coverage', 'm', 'w', False", 0.3, ""),
        (NAMED, 0.0, "named"),
        (NAMED, 0.3, "MISSES its exception, 0.95 to 1"),
    ],
)
def test_a_recommended_method_that_misses_its_target_is_an_error(figure: str, missed: float, verdict: str) -> None:
    program = (
        "import sys; sys.path.insert(0, 'bench'); import coverage\n"
        "def once(tally, rng, cell, index):\n"
        f"    tally.interval(coverage.Key({figure}), '', (0, 1), 2.0 if rng.random() < cell else 0.5)\n"
        f"coverage.SECTIONS = (coverage.Section('one', [{missed}], once, 1.0),)\n"
        "sys.exit(coverage.main(['--replications', '400', '--jobs', '1']))"
    )
    done = run("-c", program)
    assert done.returncode == verdict.startswith("MISSES"), done.stdout + done.stderr
    marked = f" 400{'  ' + verdict if verdict else ''}"
    assert any(line.endswith(marked) for line in done.stdout.splitlines()), done.stdout
    assert f"{int(verdict.startswith('MISSES'))} miss their target" in done.stdout


def test_the_docs_name_the_same_exceptions() -> None:
    done = run(BENCH, "--exceptions")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in (ROOT / "docs" / "explanation" / "statistics.md").read_text("utf-8")
