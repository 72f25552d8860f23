"""Commands and programs of the README and of the pages in docs/: found in their text, and run as written."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tests.conftest import ROOT, Endpoint
from tests.helpers import batches, harnesses, tombench
from tests.helpers.command import run_here
from tests.helpers.dyntom import write_trials
from tests.helpers.examples import shortened
from tests.helpers.foreign_files import REAL
from tests.helpers.ssh import new_key
from tomserve import benchmarks

ADDRESS = "http://localhost:8000/v1"
"""The address that pages write where a reader puts that of his own endpoint."""

ENOUGH = "33"
"""The questions that are asked where a page asks all or hundreds: a story or pair for each task would do, and all take
minutes."""

CHAINS = "12"
"""The chains that are edited where a page has all edited: each is asked again in many ways."""

WORLDS = "28"
"""The worlds that are generated where a page has more: readers are fitted to all questions about them."""

BUDGET = "200"
"""The questions that a search may ask where a page has more."""

ELSEWHERE = {
    "make web": "tests/web/test_app.py starts the workbench, looks at it, and ends it",
    "make eval": "tests/test_main_job.py evaluates with the server that tomserve starts",
    "make eval LIMIT=66": "tests/test_main_job.py evaluates with the server that tomserve starts",
    "make eval BENCHMARK=worlds LIMIT=300": "tests/test_main_job.py evaluates with the server that tomserve starts",
    "make stability BASE_URL=http://localhost:8000/v1 LIMIT=40": "tests/test_docs.py follows docs/how-to/stability.md",
    "make search MODEL=reference": "tests/workflows/test_search.py searches, by the command that this calls",
    "make functional": "tests/cli/test_functional.py measures the three layers, by the command that this calls",
    "make eval MODEL=smollm2 LIMIT=136": "tests/serving/test_serving_started.py asks the same model fewer questions",
    "make test": "whoever runs the tests runs it",
    "make serve MODEL=llama3-70b": "tests/serving/test_serving.py serves; this model needs GPUs",
    "make causal": "tests/cli/test_causal.py measures the same model, by the command that this calls, on fewer questions",
    "make lint": "the continuous integration runs it",
    "make docs": "tests/test_docs.py builds the same site, by the same builder",
}
"""Commands that are not run here, each with the reason; `make -n` shows that they exist."""

PUBLISHED = {
    **{"hitom_small.json": "Hi-ToM_data.json", "bigtom_small.csv": "bigtom.csv", "ullman_small.csv": "ullman.csv"},
    **{f"tomi_small.{ending}": f"tomi_balanced_story_types/fb_all_test.{ending}" for ending in ("txt", "trace")},
    "tomi_fixed_small.jsonl": "test_balanced.jsonl",
}
"""Small files of ours, and the names of the published ones for which they stand in."""

SIGNS = shutil.which("ssh-keygen") is not None or os.environ.get("NEED_SSH") == "1"
"""Whether a reader can sign: commands with a key are left out where ssh-keygen is missing, but never in CI."""

_NAMED = re.compile(r"# ([\w/-]+\.py)\n")


def _python(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)


def commands(page: str) -> list[str]:
    """Every command line of a page's shell blocks, in order, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.S | re.M)
    return [line for block in blocks for row in block.splitlines() if (line := re.split(r"(?:^|\s)#", row)[0].strip())]


def programs(page: str) -> list[str]:
    """Every block of Python that a reader types, in order; they go on from one another."""
    return [block for block in _python(page) if not _NAMED.match(block)]


def files(page: str) -> dict[str, str]:
    """Every file that a page shows whole, by its name: that in a caption, or in a comment on the first line."""
    found = re.findall(r"^```\{code-block\} \w+\n:caption: (\S+)\n+(.*?)^```", page, re.S | re.M)
    named = {name[1]: block for block in _python(page) if (name := _NAMED.match(block))}
    return {**dict(found), **named}


def pictures(page: str) -> list[str]:
    """The drawings that a page shows, as it names them."""
    return re.findall(r"^```\{(?:figure|image)\} (\S+\.svg)$", page, re.M)


def put(words: list[str], *options: str) -> None:
    """Give these options and their values in a command, in place of those that it has."""
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option in words:
            words[words.index(option) + 1] = value
        else:
            words += [option, value]


@dataclass
class Reader:
    """Somebody who follows a page in a folder of his own, with the endpoint of a test at hand.

    `runs` holds the example run, and copies of the runs in `begun` (see `begin`); where there are these, half of the
    example is enough. Evaluations write no report, which takes seconds; the commands that make reports have tests of
    their own. `said` is what the commands have printed.
    """

    folder: Path
    endpoint: Endpoint
    begun: Path | None = None
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.endpoint.models = ["reference", "my-model"]
        self.runs, self.venv = self.folder / "runs", self.folder / "venv"
        self._environment()
        self._files()
        others = ("MAKE", "MFLAGS", "ARGS", "TOMSERVE_", "OPENAI_API_KEY")  # of whoever runs the tests
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(others)}
        self.env |= {"TOMSERVE_RUNS": str(self.runs), "PYTHONPATH": os.pathsep.join([str(ROOT), *_more_paths()])}
        self.env["COLUMNS"] = "80"
        self.env["PATH"] = f"{self.venv / 'bin'}:{self.env['PATH']}"

    @classmethod
    def begin(cls, folder: Path, endpoint: Endpoint) -> Path:
        """Make what every reader begins with, `perturbed-2-reference` and `perturbed-reference`, by first evaluations
        of a few questions; returns the folder of these runs."""
        reader = cls(folder, endpoint)
        for name in ("example", "functional-example"):
            shutil.rmtree(reader.runs / name)
        first = ["eval", "--base-url", endpoint.url, "--model", "reference", "--limit", "11", "--no-report"]
        for asked in (first, [*first, "--benchmark", "perturbed"]):
            reader._run(["tomserve", *asked], " ".join(asked))
        return reader.runs

    def _environment(self) -> None:
        """What make takes for an environment that is set up already."""
        (self.venv / "bin").mkdir(parents=True)
        for name, mode in (("bin/python", 0o755), ("bin/tomserve", 0o755), (".core", 0o644), (".dev", 0o644)):
            (self.venv / name).touch(mode)
        (self.venv / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')  # a link has no packages
        (self.venv / "bin/tomserve").write_text(f'#!/bin/sh\nexec {sys.executable} -m tomserve "$@"\n')

    def _files(self) -> None:
        """What pages suppose that a reader has: runs, prompts to copy, another tool's answers, files of others."""
        if self.begun is not None:
            shutil.copytree(self.begun, self.runs)
        answers = ("items.jsonl", "responses.jsonl", "manifest.json")
        for run, names in {
            "example": answers,
            "functional-example/worlds": (*answers, "noise.jsonl"),
            "functional-example/inside": ("manifest.json", "scores.parquet"),
        }.items():
            (self.runs / run).mkdir(parents=True)
            for name in names:
                shutil.copy(ROOT / "runs" / run / name, self.runs / run / name)
        if self.begun is not None:
            shortened(self.runs / "example", 88)
        shutil.copytree(ROOT / "prompts", self.folder / "prompts")
        shutil.copytree(ROOT / "docs/gallery/answers", self.folder / "docs/gallery/answers")
        reply = {"item": "C1/none/false_belief/reality/original", "text": "Answer: unknown"}
        (self.folder / "theirs.jsonl").write_text(json.dumps(reply))
        (self.folder / "tomi_balanced_story_types").mkdir()
        for ours, theirs in PUBLISHED.items():
            shutil.copy(ROOT / "tests/data" / ours, self.folder / theirs)
        shutil.copytree(ROOT / "tests/data/opentom_small", self.folder / "opentom_data")
        shutil.copytree(ROOT / "launch/reference/model", self.folder / "my-model")  # a model that has no preset
        if SIGNS:
            new_key(self.folder, "alice@lab")
        shutil.copytree(ROOT / "tests/data/choices", self.folder, dirs_exist_ok=True)
        shutil.copytree(REAL / "eval", self.folder / "logs")
        others = shutil.ignore_patterns("*_places_*", "*_surprise_*", "*_twice_*")
        shutil.copytree(REAL / "samples", self.folder / "samples", ignore=others)
        write_trials(self.folder / "DynToM/data/script/data", 1)
        tombench.write(self.folder / "ToMBench/data")
        question = next(iter(benchmarks.load("hitom", self.folder / "Hi-ToM_data.json")))
        (self.folder / "hitom.jsonl").write_text(json.dumps({"item": question.id, "text": "B"}))

    def follow(self, page: str) -> None:
        """Write the page's files, run its commands and then its programs; each has to succeed."""
        for name, text in files(page).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for command in commands(page):
            self.type(command)
        program = re.sub(r"budget=\d+", f"budget={BUDGET}", "\n".join(programs(page)))
        if program := program.replace(ADDRESS, self.endpoint.url):
            code = compile(program, "<page>", "exec")
            self._keep(run_here(["-c"], self.folder, self.env, lambda: exec(code, {"__name__": "__main__"})), program)

    def type(self, command: str) -> None:
        """Run a command as written, but for the address of the endpoint, and with a limit where it asks all questions."""
        words = command.replace(ADDRESS, self.endpoint.url).split()
        if {"--key", "--signers"} & set(words) and not SIGNS:
            return
        if words[:2] == ["vllm", "run-batch"]:  # tests/serving/test_serving_started.py runs the real one
            batches.answered([self.folder / words[words.index("-i") + 1]], self.folder / words[words.index("-o") + 1])
            return
        if words[0] == "inspect":  # the real one, which these tests bring along
            script, self.endpoint.script = self.endpoint.script, harnesses.well_formed
            self._run([str(Path(sys.executable).with_name("inspect")), *words[1:], "--display", "none"], command)
            self.endpoint.script = script
            return
        if words[:3] == ["tomserve", "submit", "slurm"] and "--dry-run" not in words:
            self._on_slurm(words)
            return
        if command in ELSEWHERE:
            self._run(["make", "-n", "-C", str(ROOT), f"VENV={self.venv}", *words[1:]], command)
            return
        if words[:2] == ["tomserve", "stability"] or (words[1] == "eval" and {"--variants", "worlds"} & set(words)):
            put(words, "--limit", ENOUGH)
            if "worlds" in words and "--path" not in words:
                put(words, "--path", str(self._worlds()))
        if words[0] == "make":
            words += ["-C", str(ROOT), f"VENV={self.venv}"]
            if words[1] == "eval" and not any(word.startswith("MODEL=") for word in words):
                words.append("MODEL=my-model")  # the endpoint of this test serves two
            if words[1] == "eval":
                words = [*(word for word in words if not word.startswith("LIMIT=")), f"LIMIT={ENOUGH}"]
            if words[1] == "faithfulness":
                words.append(f"LIMIT={CHAINS}")
        elif words[1] == "causal" and "--plan" not in words:
            put(words, "--limit", "24", "--fewest", "2", "--layers", "4", "--alphas", "0.03")
        elif words[1] == "faithfulness":
            put(words, "--limit", CHAINS)
        elif words[1] == "functional":
            words += ["--no-report", "--benchmark", f"worlds={self._worlds()}"]
            if "--plan" not in words:
                put(words, "--limit", "24")
            if "--weights" in words:
                put(words, "--layers", "4", "--alphas", "0.03", "--fewest", "2", "--cases", "24")
        elif words[1] == "generate" and "--worlds" in words:
            put(words, "--worlds", WORLDS)
        elif words[1] == "search":
            put(words, "--budget", BUDGET)
            words += ["--no-report", "my-model"]
        elif words[1] == "eval" and not {"--benchmark", "--limit"} & set(words):
            words += ["--limit", ENOUGH]
        elif words[1] == "shard" and "--limit" not in words:
            put(words, "--limit", ENOUGH)
        elif "--benchmark" in words and words[1] == "eval" and "--model" not in words:
            words += ["--model", "my-model"]
        if words[1] in ("eval", "stability") and not any(word.startswith("ARGS=") for word in words):
            words.append("ARGS=--no-report" if words[0] == "make" else "--no-report")
        self._run(words, command)

    def _on_slurm(self, words: list[str]) -> None:
        """Ask all parts here; tests/distributed/test_slurm.py has a real Slurm ask them."""
        self._run([*words, "--dry-run"], " ".join(words))
        self.endpoint.models.append("llama3-70b")
        self._run(["tomserve", "work", words[3], "--base-url", self.endpoint.url], " ".join(words))

    def _worlds(self) -> Path:
        """A few of the generated worlds; to make all of them takes seconds, for every model anew."""
        path = self.folder / "few-worlds.jsonl"
        if not path.exists():
            path.write_bytes(b"".join(item.to_json() + b"\n" for item in islice(benchmarks.load("worlds"), 240)))
        return path

    def _run(self, words: list[str], shown: str) -> None:
        if words[0] == "tomserve":
            done = run_here(words, self.folder, self.env)
        else:
            done = subprocess.run(words, env=self.env, cwd=self.folder, capture_output=True, text=True, check=False)
        self._keep(done, shown)

    def _keep(self, done: subprocess.CompletedProcess[str], shown: str) -> None:
        assert done.returncode == 0, f"{shown}: {done.stdout}{done.stderr}"
        self.said.append(done.stdout)


def _more_paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != str(ROOT)]
