"""The runner of all benches: every outcome is named, none stops the others, and table, file and exit code agree."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.helpers.command import until

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
    "child = subprocess.Popen(['sleep', '1000'])\n"
    "open(sys.argv[1], 'w').write(str(child.pid))\n"
    "time.sleep(1000)\n"
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
        plan.append({"bench": name, "quick": arguments, "long": "", "budget": 8 if name == "overlong" else 60})
    plan.append({"name": "only-long", "bench": "good", "long": "--rounds 9"})
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUNNER), "--plan", str(folder / "plan.yaml"), "--out", str(folder / "out")]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


def ended(folder: Path) -> bool:
    """Whether what the overlong bench started has ended with it."""
    child = Path("/proc", (folder / "child").read_text(), "stat")
    return not child.exists() or child.read_text().split()[2] == "Z"


@pytest.mark.system
def test_a_bench_that_fails_or_is_ended_or_cannot_run_is_named_and_stops_no_other(folder: Path) -> None:
    """And every figure stands in the table and in the file."""
    done = run(folder, "--quick")
    assert done.returncode == 1, done.stdout + done.stderr
    kept = json.loads((folder / "out/figures.json").read_text())
    outcomes = {"good": "aim missed", "failing": "failed", "overlong": "over its budget", "unavailable": "not taken"}
    assert {one["name"]: one["outcome"] for one in kept["benches"]} == {**outcomes, "last": "aim missed"}
    assert "failing failed; see" in done.stderr
    assert "unavailable" not in done.stderr  # nothing is wrong with it
    assert "not taken: a ship is missing: build one" in done.stdout
    assert "cheese" in done.stdout
    assert (kept["mode"], kept["schema"]) == ("quick", 1)
    assert {"cores", "memory_gb", "python", "versions"} <= set(kept["machine"])
    figures = [one for one in kept["figures"] if one["bench"] in ("good", "last")]
    speed, _, plain, _ = figures
    assert (speed["bench"], speed["figure"], speed["value"]) == ("good", "speed", 1.07)
    assert (speed["low"], speed["high"], speed["at_most"], speed["rounds"]) == (0.87, 1.1, 0.8, 3)
    assert [one["met"] for one in figures] == [False, True, True, False]
    assert plain["rounds"] == 3  # the options of the plan reached the bench
    row = next(line for line in done.stdout.splitlines() if line.startswith("  speed, "))
    assert row.split()[-9:] == ["times", "bare", "1.07", "(0.87", "to", "1.1)", "<=", "0.8", "MISSED"]
    assert until(lambda: ended(folder))


def test_the_plan_names_every_bench_with_options_that_it_has_and_fits_into_half_an_hour() -> None:
    plan = yaml.safe_load((ROOT / "bench/plan.yaml").read_text())
    benches = {path.stem: path.read_text() for path in (ROOT / "bench").glob("[a-z]*.py")}
    assert not [name for name, text in benches.items() if "from _figures import" not in text]
    for mode in ("quick", "long"):
        assert {one["bench"] for one in plan if mode in one} == set(benches) - {"all"}
    assert sum(one["budget"] for one in plan if "quick" in one) <= 1800
    for one in plan:
        for option in {word for mode in ("quick", "long") for word in one[mode].split() if word.startswith("--")}:
            assert f'"{option}"' in benches[one["bench"]], f"bench/{one['bench']}.py has no {option}"
