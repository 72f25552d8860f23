"""The runner of all benches: every outcome is named, none stops the others, and table, file and exit code agree."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

RUNNER = ROOT / "bench/all.py"
HEAD = f"import sys\nsys.path.insert(0, {str(ROOT / 'bench')!r})\nfrom _figures import figure, need, NEEDS\n"
GOOD = HEAD + (
    "figure('speed', 1.07, 0.87, 1.1, unit='times bare', at_most=0.8, rounds=3)\n"
    "figure('a name that is so long that it would not fit into a line of the table', 12345.678, at_least=1000)\n"
    "import numpy as np\n"
    "figure('numpy', np.int64(3), np.float64(2), at_most=np.float32(4), rounds=len(sys.argv))\n"
)
FAILING = HEAD + "figure('before it failed', 1.0)\nraise RuntimeError('the disk is made of cheese')\n"
OVERLONG = HEAD + (
    "import subprocess, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "open(sys.argv[1], 'w').write(str(child.pid))\n"
    "figure('before it was ended', 1.0)\n"
    "time.sleep(60)\n"
)
UNAVAILABLE = HEAD + "NEEDS['ship'] = (lambda: False, 'a ship is missing: build one')\nneed('ship')\nprint('sailing')\n"
MISSING_AIM = HEAD + "figure('share', 0.5, at_least=0.9)\nsys.exit(1)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    benches = {"good": GOOD, "failing": FAILING, "overlong": OVERLONG, "unavailable": UNAVAILABLE, "last": MISSING_AIM}
    plan = []
    for name, text in benches.items():
        (tmp_path / f"{name}.py").write_text(text)
        arguments = str(tmp_path / "child") if name == "overlong" else "--rounds 2"
        plan.append({"bench": name, "quick": arguments, "long": "", "budget": 3 if name == "overlong" else 60})
    plan.append({"name": "only-long", "bench": "good", "long": "--rounds 9"})
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUNNER), "--plan", str(folder / "plan.yaml"), "--out", str(folder / "out")]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.system
def test_a_bench_that_fails_or_is_ended_or_cannot_run_is_named_and_stops_no_other(folder: Path) -> None:
    done = run(folder, "--quick")
    assert done.returncode == 1, done.stdout + done.stderr
    kept = json.loads((folder / "out/figures.json").read_text())
    outcomes = {one["name"]: one["outcome"] for one in kept["benches"]}
    assert outcomes == {
        "good": "aim missed",
        "failing": "failed",
        "overlong": "over its budget",
        "unavailable": "not taken",
        "last": "aim missed",
    }
    assert "failing failed; see" in done.stderr
    assert "overlong over its budget; see" in done.stderr
    assert "unavailable" not in done.stderr  # nothing is wrong with it
    assert "not taken: a ship is missing: build one" in done.stdout
    assert "cheese" in done.stdout
    child = Path("/proc", (folder / "child").read_text(), "stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"  # what a bench started ends with it


@pytest.mark.system
def test_every_figure_stands_in_the_table_and_in_the_file(folder: Path) -> None:
    done = run(folder, "--quick", "--only", "good", "last")
    assert done.returncode == 0  # an aim that is missed is shown, and is no failure of the bench
    kept = json.loads((folder / "out/figures.json").read_text())
    assert (kept["mode"], kept["schema"]) == ("quick", 1)
    assert {"cores", "flags", "memory_gb", "python", "versions"} <= set(kept["machine"])
    speed, long, plain, share = kept["figures"]
    assert (speed["bench"], speed["figure"], speed["value"]) == ("good", "speed", 1.07)
    assert (speed["low"], speed["high"], speed["at_most"], speed["met"]) == (0.87, 1.1, 0.8, False)
    assert (speed["rounds"], long["met"], plain["met"], share["met"]) == (3, True, True, False)
    assert plain["rounds"] == 3  # the options of the plan reached the bench
    table = done.stdout[done.stdout.index("figure ") :].splitlines()
    row = next(line for line in table if "speed" in line)
    assert row.split() == ["speed,", "times", "bare", "1.07", "(0.87", "to", "1.1)", "<=", "0.8", "MISSED"]
    assert all(len(line) <= 80 for line in table if "figures.json" not in line)


@pytest.mark.system
def test_a_long_run_has_other_options_and_an_unknown_name_is_refused(folder: Path) -> None:
    assert run(folder, "--only", "only-long").returncode == 0
    kept = json.loads((folder / "out/figures.json").read_text())
    assert [one["arguments"] for one in kept["benches"]] == ["--rounds 9"]
    done = run(folder, "--only", "nothing")
    assert done.returncode == 2
    assert "no ['nothing'] in the plan" in done.stderr


@pytest.mark.system
def test_a_runner_that_is_ended_ends_its_bench(folder: Path) -> None:
    command = [sys.executable, str(RUNNER), "--plan", str(folder / "plan.yaml"), "--out", str(folder / "out")]
    with subprocess.Popen([*command, "--quick", "--slack", "99", "--only", "overlong"]) as runner:
        while not (folder / "child").exists() or not (folder / "child").read_text():
            assert runner.poll() is None
            time.sleep(0.05)
        runner.terminate()
        assert runner.wait(60) == 143
    child = Path("/proc", (folder / "child").read_text(), "stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"


def test_the_plan_names_every_bench_with_options_that_it_has_and_fits_into_half_an_hour() -> None:
    plan = yaml.safe_load((ROOT / "bench/plan.yaml").read_text())
    benches = {path.stem for path in (ROOT / "bench").glob("[a-z]*.py")} - {"all"}
    for mode in ("quick", "long"):
        assert {one["bench"] for one in plan if mode in one} == benches
    assert len({one.get("name", one["bench"]) for one in plan}) == len(plan)
    assert sum(one["budget"] for one in plan if "quick" in one) <= 1800
    for one in plan:
        text = (ROOT / f"bench/{one['bench']}.py").read_text()
        for option in {word for mode in ("quick", "long") for word in one[mode].split() if word.startswith("--")}:
            assert f'"{option}"' in text, f"bench/{one['bench']}.py has no {option}"


def test_every_bench_hands_its_figures_over() -> None:
    for path in (ROOT / "bench").glob("[a-z]*.py"):
        text = path.read_text()
        assert "from _figures import" in text, f"{path.name} prints its figures only"
