"""The house itself: public surface, packaging, Makefile, README, start-up."""

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tomserve
from tests.conftest import ROOT
from tests.helpers.documents import Reader, commands
from tests.helpers.wheels import built_wheel
from tomserve.runs.manifest import make_portable


def test_names_are_imported_when_they_are_used() -> None:
    """tests/test_pins.py has which there are."""
    with pytest.raises(AttributeError):
        tomserve.nothing  # noqa: B018
    code = (
        "import sys, tomserve\n"
        "heavy = {'polars', 'pydantic', 'httpx', 'rich', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert tomserve.errors.ConfigError.exit_code == 2\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_users_script_names_the_whole_surface() -> None:
    """`make lint` has mypy read the script: every name has types of its own, and a wrong use of one is found."""
    script = (ROOT / "tests/data/user_script.py").read_text()
    assert set(re.findall(r"tomserve\.(\w+)", script)) >= {*tomserve.__all__} - {"__version__"}


def test_versions_agree() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert pyproject["project"]["version"] == tomserve.__version__
    done = subprocess.run([sys.executable, "-m", "tomserve", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tomserve {tomserve.__version__}\n"


def test_help_imports_none_of_the_heavy_parts() -> None:
    code = (
        "import sys\n"
        "from tomserve.cli import main\n"
        "sys.argv = ['tomserve', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'polars', 'httpx', 'jinja2', 'pydantic', 'scipy', 'torch', 'vllm', 'asyncio'}\n"
        "heavy = (heavy | {'urllib.request', 'ssl', 'tomserve.cli.evaluate'}) & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for command in ("eval", "serve", "score", "analyze", "report", "compare", "plan", "items", "runs", "doctor"):
        assert re.search(rf"[ ,]{command}\b", done.stdout)


def test_the_core_never_depends_on_torch_or_vllm() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [d for d in project["dependencies"] if re.match(r"torch|vllm|transformers", d)]
    assert {"cpu", "cuda", "causal", "dev"} <= set(project["optional-dependencies"])


LOCKED = ROOT / "launch/locked"


def _listed(name: str) -> dict[str, tuple[str, int]]:
    """The packages of a list that is installed, each with its version and how many digests of its files are listed."""
    blocks = re.split(r"\n(?=\S)", (LOCKED / f"{name}.txt").read_text().partition("\n")[2].strip())
    pinned = [re.match(r"([\w.\[\],-]+)==([^ ;\\]+)", block) for block in blocks]
    assert all(pinned), name
    return {
        one[1]: (one[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)))
        for one, block in zip(pinned, blocks, strict=True)
        if one is not None
    }


@pytest.mark.parametrize("name", ["build", "core", "dev", "cpu", "cuda"])
def test_every_package_that_is_installed_has_a_version_and_digests(name: str) -> None:
    listed = _listed(name)
    assert len(listed) > 5
    assert all(digests for _, digests in listed.values())
    tested = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "launch/constraints.txt").read_text(), re.M))
    differing = {one: version for one, (version, _) in listed.items() if tested.get(one, version) != version}
    assert name == "cuda" or not differing
    assert "file:" not in (LOCKED / f"{name}.txt").read_text()


def test_what_tomserve_asks_for_is_in_the_lists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    for name, wanted in {
        "build": project["build-system"]["requires"],
        "core": project["project"]["dependencies"],
        "dev": [*project["project"]["dependencies"], *extras["dev"][1:], *extras["docs"]],
        "cpu": extras["cpu"],
        "cuda": extras["cuda"],
    }.items():
        names = {re.split(r"[\W]", one.replace("-", "_"))[0].replace("_", "-").lower() for one in wanted}
        assert names <= {one.replace("_", "-").lower() for one in _listed(name)}


def test_the_lists_hold_what_the_packages_in_them_ask_for() -> None:
    """For make installs them with `--no-deps`. The packages that `launch/lock.py` leaves out for the CPU come otherwise."""
    for names, elsewhere in (
        (["core"], set()),
        (["core", "dev"], {"tomserve"}),
        (["core", "cpu"], {"torch", "torchaudio", "torchcodec", "torchvision"}),
    ):
        listed = {canonicalize_name(re.sub(r"\[.*", "", one)) for name in names for one in _listed(name)}
        for one in sorted(listed):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                asked = map(Requirement, importlib.metadata.requires(one) or ())
                needed = {
                    canonicalize_name(r.name) for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})
                }
                assert needed <= listed | elsewhere, f"{one} in {names}"


def test_make_installs_nothing_whose_digest_is_not_known() -> None:
    text = (ROOT / "Makefile").read_text()
    installing = [line for line in text.splitlines() if re.search(r"\$\((PIP|LOCKED)\)", line)]
    assert [line.split()[0] for line in installing].count("@$(PIP)") == 1  # tomserve itself, from this folder
    assert "@$(PIP) --no-deps --no-build-isolation --editable ." in text
    assert "--require-hashes" in next(line for line in installing if line.startswith("LOCKED"))


@pytest.mark.system
def test_a_release_names_all_that_it_was_tested_with(tmp_path: Path) -> None:
    """The bill of materials of the core, as `make release` writes it."""
    out = tmp_path / "sbom.json"
    command = [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements", "launch/locked/core.txt"]
    command += ["--pyproject", "pyproject.toml", "--output-reproducible", "--of", "JSON", "-o", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    bill = json.loads(out.read_bytes())
    assert bill["metadata"]["component"]["version"] == tomserve.__version__
    named = {one["name"]: one["version"] for one in bill["components"]}
    assert named == {name: version for name, (version, _) in _listed("core").items()}
    assert all(one["externalReferences"][0]["hashes"] for one in bill["components"])
    for line in ("-m build --no-isolation", "cyclonedx-py requirements", "sha256sum"):
        assert line in make("release", "-n").stdout


@pytest.mark.system
def test_a_wheel_works_from_an_empty_folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Build the wheel, install it alone, and use it where no checkout is near."""
    pip, wheel = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"], built_wheel(tmp_path_factory)
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", site, wheel], check=True, cwd=empty)
    env = {**os.environ, "PYTHONPATH": str(site), "TOMSERVE_RUNS": str(empty / "runs")}
    env.pop("TOMSERVE_CONTENT", None)

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "tomserve", *arguments]
        return subprocess.run(command, cwd=empty, env=env, capture_output=True, text=True, check=True).stdout

    assert f"ok   content     {site}/tomserve/_content" in run("doctor")
    assert "21 stages" in run("dataset", "validate")
    assert "dbrx-instruct" in run("serve", "dbrx", "--dry-run")
    assert not (site / "tomserve" / "_content" / "runs").exists()
    assert (site / "tomserve/py.typed").exists()
    assert (site / "tomserve/reporting/html/assets/report.html.j2").exists()
    run("report", str(ROOT / "runs/example"), "--out", "r.html")
    assert (empty / "r.html").read_text().startswith("<!doctype html>")


# make


def make(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "-C", ROOT, *arguments], capture_output=True, text=True, check=False, env={**clean, **env}
    )


def test_make_refuses_an_unknown_variable() -> None:
    done = make("eval", "MODLE=dbrx", "-n")
    assert done.returncode == 2
    assert "unknown variable MODLE; known: MODEL BASE_URL" in done.stderr


def test_make_hands_its_variables_on() -> None:
    done = make(
        "eval", "-n", "MODEL=m", "BASE_URL=http://a/v1 http://b/v1", "STRATEGY=vanilla cot", "RUN=r", "LIMIT=3",
        "ARGS=--quiet",
    )  # fmt: skip
    line = " ".join(done.stdout.replace("\\\n", " ").split())
    assert "tomserve eval --setup --model 'm' --base-url 'http://a/v1' --base-url 'http://b/v1'" in line
    assert "--strategy 'vanilla' --strategy 'cot' --run 'r' --limit '3' --quiet" in line
    flags = " ".join(make("serve", "-n", "MODEL=dbrx", "ARGS=-- --max-num-seqs 4").stdout.split())
    assert "tomserve serve --setup dbrx -- --max-num-seqs 4" in flags
    assert "tomserve serve --setup --port '9' dbrx" in " ".join(
        make("serve", "-n", "MODEL=dbrx", "PORT=9").stdout.split()
    )


def test_what_the_readme_tells_the_reader_to_type_works(endpoint, tmp_path: Path) -> None:
    """In order, as written, but for the address of the endpoint; make gets an environment that is set up already."""
    page = (ROOT / "README.md").read_text()
    assert len(commands(page)) > 7
    reader = Reader(tmp_path, endpoint, Reader.begin(tmp_path / "begun", endpoint))
    reader.follow(page)
    made = "perturbed-2-reference perturbed-reference perturbed-2-my-model mine faithfulness-mine notebook "
    made += "example functional-example"
    assert {path.name for path in reader.runs.iterdir()} == set(made.split())


def test_the_result_that_the_readme_shows_is_that_of_the_gallery() -> None:
    (block,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert block in (ROOT / "docs/gallery/smollm2.md").read_text()  # whose commands tests/docs/test_gallery.py follows


def test_the_example_run_shows_the_whole_room(cli, tmp_path: Path) -> None:
    """Committed, so that scoring and analysis can be looked at on a machine with nothing else; tests/test_pins.py has
    their tables and reports."""
    folder = tmp_path / "example"
    shutil.copytree(
        ROOT / "runs/example", folder, ignore=shutil.ignore_patterns("scores.parquet", ".lock", "*.txt", "*.log")
    )
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000
    text = (folder / "manifest.json").read_text()
    assert json.loads(text)["complete"] is True
    assert not re.search(r'"/|[^.~]/home/|/root/', text), "a path of somebody's machine"
    assert "352 answers scored" in cli("score", folder).out


def test_the_example_of_three_layers_is_small_and_can_be_analysed(cli, tmp_path: Path) -> None:
    """What is committed of it: answers that are scored again, and a measurement without its tellings."""
    listed = subprocess.run(["git", "ls-files", "runs/functional-example"], cwd=ROOT, capture_output=True, text=True)
    files = [ROOT / line for line in listed.stdout.splitlines()]
    assert len(files) == 6
    assert sum(path.stat().st_size for path in files) < 2_000_000
    for path in files:
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / path.parent.name)
        assert path.suffix != ".json" or not re.search(r'"/|[^.~]/home/|/root/|/tmp/', path.read_text()), path
    parts = (tmp_path / "worlds", tmp_path / "inside")
    assert "570 answers scored" in cli("score", parts[0]).out
    shown = [line.rstrip() for line in cli("analyze", *parts, "--study", "functional", "--all").out.splitlines()]
    page = (ROOT / "docs/how-to/functional.md").read_text()
    (block,) = re.findall(r"```text\n(model +B .*?)```", page, re.S)
    assert all(line in shown for line in block.splitlines()), "the page shows what it gives"


def test_manifests_name_no_folder_of_the_machine() -> None:
    home, root = Path.home(), ROOT
    found = make_portable(
        {"root": f"{home}/models/x", "command": [sys.executable, f"{root}/launch/a.yaml"], "n": 1, "s": "/opt/m"}
    )
    assert found == {"root": "~/models/x", "command": ["python", "./launch/a.yaml"], "n": 1, "s": "/opt/m"}
