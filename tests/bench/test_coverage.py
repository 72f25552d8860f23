"""The simulation of intervals and tests: it runs, is reproducible, and says so when a recommended method misses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
    only = ("--only", "shares", "--only", "rare", *SMALL, "--seed", "7")
    for jobs in ("1", "2"):
        run(BENCH, *only, "--jobs", jobs, "--json", tmp_path / jobs)
    assert (tmp_path / "1").read_text() == (tmp_path / "2").read_text()


def test_a_recommended_method_that_misses_its_target_is_an_error() -> None:
    """The published interval of a class's accuracy covers .76 to .97: were it recommended, the bench would fail."""
    program = (
        "import sys; sys.path.insert(0, 'bench'); import _perturbed, coverage, dataclasses\n"
        "made = _perturbed._of\n"
        "_perturbed._of = lambda *given, **more: dataclasses.replace(made(*given, **more), recommended=True)\n"
        "sys.exit(coverage.main(['--only', 'shares', '--replications', '2', '--cells', '6', '--jobs', '1']))"
    )
    done = run("-c", program)
    assert done.returncode == 1, done.stderr
    listed = done.stdout.split("miss their target")[1]
    assert "- share of a class, coverage: published, 4 stages, all" in listed


def test_the_docs_name_the_same_exceptions() -> None:
    done = run(BENCH, "--exceptions")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in (ROOT / "docs" / "explanation" / "statistics.md").read_text("utf-8")
