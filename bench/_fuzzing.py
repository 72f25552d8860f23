"""Runs every command that reads a run on changed copies of real runs (_mutating.py), and says what went wrong.

    python bench/_fuzzing.py FOLDER 4 < seeds          # prints a line of JSON for each finding, and one for each run

One process imports everything and starts no thread; each changed run is read in a copy of it (`os.fork`) of its own,
with limits of time and memory. A finding is a traceback, a warning of Python, an exit code outside of 0 to 3, a line on
the screen or in a file with a character that cannot be printed, a file outside of the run that was read or changed, a
program or module that the run brought, and a command that needs too long or too much memory.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib
import io
import json
import os
import pkgutil
import platform
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from _mutating import mutate

SECONDS, MEMORY = 60.0, 3 << 30
"""So long one command may take, and so many bytes more than before it may use."""

SECRET = "a-secret-of-the-user-that-no-run-may-show"

CODES = (0, 1, 2, 3)

FORMS = ("csv", "md", "latex", "json")

ASKING = {
    "one": ("--benchmark", "items", "--path", "ITEMS"),
    "talk": ("--benchmark", "items", "--path", "ITEMS", "--strategy", "TALK"),
    "samples": ("--benchmark", "items", "--path", "ITEMS", "--repeats", "3", "--temperature", "0.7"),
}
"""How runs of these kinds are resumed."""

COST = {"report": 1, "eval": 1, "again": 1, "python": 2, "table": 2, "layers": 2}
"""Commands that take long, which are chosen the less often where not every command reads every run."""


# ── real runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def make_seeds(folder: Path) -> None:
    """Make a real run of every kind below `folder`/seeds, some of them with scores that this user has kept."""
    import polars as pl

    import tomserve
    from tests.conftest import completion, fill, make_item, running
    from tests.helpers import chain_tables, measured_tables, reports
    from tests.helpers.talking import write_strategy
    from tomserve.items import write_items
    from tomserve.runs.measurement import MeasuredRun

    os.environ["TOMSERVE_RUNS"] = str(folder / "seeds")
    talk = write_strategy(folder / "talk", 2)
    kinds = ("none", "late")
    items = [
        make_item(n, question=f"What is in jar {n}?", factors={"perturbation": kinds[n % 2], "n": n, "odd": n % 2 == 1})
        for n in range(10)
    ]
    write_items(folder / "items.jsonl", items)

    def prose(body: dict[str, Any], number: int) -> dict[str, Any] | None:
        if "response_format" in body and number % 3 == 0:
            return completion(f"I am not sure, it may be number {number}.")
        if "response_format" in body:
            return completion(fill(body["response_format"]["json_schema"]["schema"]), reasoning_content="As told.")
        return None

    with running() as endpoint:
        endpoint.script, url = prose, endpoint.url
        once: dict[str, Any] = {"base_url": url, "path": folder / "items.jsonl", "concurrency": 2}
        tomserve.ask("items", ["vanilla", "cot"], run="one", **once).scores()
        tomserve.ask("items", ["vanilla", "cot"], run="noise", noise_check=0.5, **once).scores()
        tomserve.ask("items", [talk], run="talk", **once).scores()
        tomserve.ask("items", ["vanilla"], run="samples", repeats=3, temperature=0.7, **once)
        read = tomserve.ask("items", ["vanilla"], run="read", **once)
        endpoint.script, endpoint.models = (lambda body, number: completion('{"choice": "tea"}')), ["reading"]
        read.read_by(url, sample=2, may_be_evaluated_model=True)
        read.scores()
    reports.varied_run(folder / "seeds/varied")
    reports.hitom_run(folder / "seeds/hitom")
    worlds, source = folder / "seeds/worlds", Path(__file__).parents[1] / "runs/functional-example/worlds"
    shutil.copytree(source, worlds)
    for name in ("items.jsonl", "responses.jsonl", "noise.jsonl"):
        lines = (source / name).read_bytes().splitlines(keepends=True)
        (worlds / name).write_bytes(b"".join(lines[:24]))
    tables = {
        "inside": ("causal", measured_tables.measured(measured_tables.WORKS, items=24, layers=(1, 2))),
        "edited": ("faithfulness", chain_tables.measured(chain_tables.FOLLOWER, units=3, each=4)),
    }
    for name, (study, table) in tables.items():
        model = str(table["model"][0])
        with MeasuredRun.open(
            folder / "seeds" / name,
            study=study,
            model=model,
            revision="r",
            benchmark="items",
            benchmark_digest="sha256:1",
            settings={"layers": [1, 2], "seed": 0},
            environment={"device": "cpu", "torch": "2.1"},
            command="tomserve causal reference",
        ) as run:
            run.write_items(items)
            run.finish(table.with_columns(run=pl.lit(name)))


# ── what is done to each ────────────────────────────────────────────────────────────────────────────────────────────


def commands(kind: str, run: Path, folder: Path, url: str, rng: Random) -> dict[str, Sequence[str]]:
    """The commands that read this run, by name."""
    given, out, seed = f"{run}/", run.parent / "out", folder / "seeds" / kind
    form = rng.choice(FORMS)
    found: dict[str, Sequence[str]] = {
        "runs": ("runs",),
        "show": ("runs", given),
        "score": ("score", given),
        "unread": ("runs", given, "--unread"),
        "analyze": ("analyze", given),
        "tables": ("analyze", given, "--format", form, "--out", str(out / form)),
        "report": ("report", given, "--out", str(out / "report.html")),
        "compare": ("compare", f"{seed}/", given, "--common", "--format", form, "--out", str(out / "compared")),
        "plan": ("plan", "--benchmark", "items", "--path", str(folder / "items.jsonl"), "--like", given),
        "table": ("analyze", str(run / "scores.parquet"), "--format", "csv"),
        "eval": ("eval", "--quiet", "--no-report", "--base-url", url, "--run", given, *_asking(kind, folder)),
        "edits": ("faithfulness", given, "--plan"),
    }
    if kind in ("worlds", "inside"):
        found["layers"] = ("analyze", given, f"{folder}/seeds/{'inside' if kind == 'worlds' else 'worlds'}/",
                           "--study", "functional")  # fmt: skip
    if rng.random() < 0.25:
        found["by"] = ("analyze", given, "--by", rng.choice(("perturbation", "odd", "n", "kind", "shown")))
    if rng.random() < 0.06 and kind != "hitom":
        found["again"] = ("score", given, "--gold", "current", "--out", str(out / "again.csv"))
    if rng.random() < 0.25:
        found["other"] = ("score", "--responses", str(run / "responses.jsonl"), "--items", str(run / "items.jsonl"),
                          "--out", str(out / "scored.parquet"))  # fmt: skip
    return found


def _asking(kind: str, folder: Path) -> list[str]:
    words = ASKING.get(kind, ASKING["one"])
    places = {"ITEMS": str(folder / "items.jsonl"), "TALK": str(folder / "talk")}
    return [places.get(word, word) for word in words]


def _python(run: Path) -> None:
    """Read the run as programs and notebooks do."""
    import tomserve

    for call in (
        lambda: tomserve.Run.open(run).failures,
        lambda: repr(tomserve.Run.open(run).manifest),
        lambda: tomserve.Run.open(run).scores(),
        lambda: tomserve.analyze(tomserve.load_scores(run)),
        lambda: tomserve.analyze(tomserve.load_scores(run / "scores.parquet")),
        lambda: tomserve.load("items", run / "items.jsonl"),
        lambda: tomserve.score(run / "responses.jsonl", run / "items.jsonl"),
    ):
        with contextlib.suppress(tomserve.TomserveError):
            call()


# ── one changed run, in a process of its own ────────────────────────────────────────────────────────────────────────

OPENED = ("open", "os.remove", "os.rename", "os.chmod", "os.truncate", "os.mkdir", "os.rmdir", "shutil.rmtree")


def _watch(run: Path, victim: Path, told: Callable[[str], None]) -> None:
    """Tell of each file of the user that is opened, and of each program of the run that is executed."""
    guarded, inside = str(victim.parent), str(run)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPENED and any(isinstance(one, str) and one.startswith(guarded) for one in arguments):
            told(f"{event} of {arguments[0]!r}")
        elif event in ("pickle.find_class", "subprocess.Popen", "os.system"):
            told(f"{event} {arguments!r:.200}")
        elif event == "exec" and (code := getattr(arguments[0], "co_filename", "")) and str(code).startswith(inside):
            told(f"executed {code!r}")

    sys.addaudithook(hook)


def unprintable(text: str) -> list[str]:
    """The characters of a text that a terminal may obey or that nobody sees, other than line ends and tabs."""
    return sorted({c for c in text if not c.isprintable() and c not in "\n\t"})


def _said(text: str) -> Iterator[str]:
    if strange := unprintable(text):
        at = text.index(strange[0])
        yield f"unprintable {strange[0]!r} in {text[max(0, at - 60) : at + 20]!r}"
    for mark in ("Traceback", "Warning:", "Exception ignored", "PanicException", "panicked at"):
        if mark in text:
            at = text.index(mark)
            yield f"{mark}: {text[at : at + 300]!r} ... {text[-300:]!r}"
    if SECRET in text:
        yield "shows the user's secret"


def _command(words: Sequence[str], out: Path) -> tuple[Any, str]:
    """Run a command in this process: its exit code (a text for what should not be), and what it printed."""
    from tomserve.cli import main

    sys.argv[:] = ["tomserve", *words]
    code: Any = 0
    with (out / "said").open("w+b") as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
        sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), errors="backslashreplace", write_through=True)  # noqa: SIM115  # as long as the process
        sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), errors="backslashreplace", write_through=True)  # noqa: SIM115  # as long as the process
        try:
            _python(Path(words[1])) if words[0] == "python" else main()
        except SystemExit as error:
            code = error.code or 0
        except BaseException:  # a finding, whatever it is
            code = traceback.format_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        said.seek(0)
        return code, said.read(2_000_000).decode(errors="backslashreplace")


def _fingerprint(folder: Path) -> str:
    """What the files of a folder hold, and what they may."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        digest.update(f"{path} {status.st_mode} {status.st_nlink} {status.st_size}".encode())
        if stat.S_ISREG(status.st_mode):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _one(seed: str, folder: Path, url: str, some: int, send: Callable[[dict[str, Any]], None]) -> None:
    """Change one run and read it by every command; tell of each finding."""
    rng = Random(f"commands {seed}")
    place = folder / "work" / hashlib.sha256(seed.encode()).hexdigest()[:12]
    run, home = place / "runs/r", place / "home"
    kinds = sorted(path.name for path in (folder / "seeds").iterdir() if path.is_dir())
    kind = kinds[rng.randrange(len(kinds))]
    shutil.copytree(folder / "seeds" / kind, run)
    home.mkdir()
    (place / "out").mkdir()
    (run.parent / "out").mkdir()
    (home / "secret").write_text(f'{{"text": "{SECRET}"}}\n')
    os.environ["TOMSERVE_RUNS"] = str(run.parent)
    changed = f"{kind}: {mutate(run, seed, home / 'secret')}"
    before = _fingerprint(home)

    def finding(command: str, what: str) -> None:
        send({"seed": seed, "changed": changed, "command": command, "found": what})

    noted: list[str] = []
    _watch(run, home / "secret", noted.append)
    every = {**commands(kind, run, folder, url, rng), "python": ("python", str(run))}
    if some:
        wanted = rng.sample([name for name in every for _ in range(COST.get(name, 3))], some)
        every = {name: every[name] for name in every if name in wanted}
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_DATA, (2 * MEMORY, 2 * MEMORY))
    ended: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for name, words in every.items():
        send({"seed": seed, "changed": changed, "command": name, "began": time.time()})
        before_it = time.process_time()
        code, text = _command(words, place / "out")
        seconds[name] = round(time.process_time() - before_it, 3)
        ended[name] = code if code in CODES else "?"
        if code not in CODES:
            finding(name, f"exit {code[-1500:] if isinstance(code, str) else code!r}")
        elif code and len([line for line in text.splitlines() if line.startswith("tomserve: ")]) > 1:
            finding(name, f"several lines of an error: {text[-600:]!r}")
        for what in _said(text):
            finding(name, what)
        if (more := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) * 1024 > MEMORY:
            finding(name, f"used {more >> 10} MB")
            used += more
    for path in sorted((run.parent / "out").rglob("*")):
        if path.is_file() and path.suffix != ".parquet":
            for what in _said(path.read_text(errors="backslashreplace")):
                if not (path.suffix == ".json" and what.startswith("unprintable")):
                    finding(path.name, what)
    for what in sorted(set(noted)):
        finding("all", what)
    if _fingerprint(home) != before:
        finding("all", "changed a file of the user")
    send({"seed": seed, "changed": changed, "ended": ended, "seconds": seconds})


def _guarded(seed: str, folder: Path, url: str, some: int) -> list[dict[str, Any]]:
    """What comes of one seed: a copy of this process does it, and is ended where it takes too long."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(reading)
        keep = os.dup(2)

        def send(told: dict[str, Any]) -> None:
            os.write(writing, json.dumps(told).encode() + b"\n")

        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _one(seed, folder, url, some, send)
            code = 0
        except BaseException:
            os.write(keep, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(writing)
    found: list[dict[str, Any]] = []
    began, text = time.time(), b""
    last: dict[str, Any] = {"seed": seed, "command": "before all"}
    while True:
        if not select.select([reading], [], [], max(0.0, began + SECONDS - time.time()))[0]:
            os.killpg(pid, signal.SIGKILL)
            found.append({**last, "found": f"took longer than {SECONDS:.0f} seconds"})
            break
        if not (piece := os.read(reading, 1 << 16)):
            break
        *lines, text = (text + piece).split(b"\n")
        for one in map(json.loads, lines):
            if "began" in one:
                last, began = {key: one[key] for key in ("seed", "changed", "command")}, one["began"]
            else:
                found.append(one)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if status and not any("found" in one for one in found):
        found.append({**last, "found": f"the process ended with {os.waitstatus_to_exitcode(status)}"})
    place = folder / "work" / hashlib.sha256(seed.encode()).hexdigest()[:12]
    for path in place.rglob("*") if place.exists() else ():
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)
    return found


# ── many of them ────────────────────────────────────────────────────────────────────────────────────────────────────


def _endpoint() -> tuple[int, str]:
    """A server that answers every question, in a process of its own; its number, and its address."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        from tests.conftest import running

        with running() as endpoint:
            os.write(writing, endpoint.url.encode())
            os.close(writing)
            parent = os.getppid()
            while os.getppid() == parent:
                time.sleep(0.2)
        os._exit(0)
    os.close(writing)
    url = os.read(reading, 100).decode()
    os.close(reading)
    return pid, url


def fuzz(folder: Path, seeds: Sequence[str], some: int = 0) -> Iterator[dict[str, Any]]:
    """Make real runs in `folder`, change one of them by each seed, and yield what is found and how commands ended.

    some: by how many commands, drawn by the seed, each is read; 0 for all. It happens in a process of its own, which is
    ended where the caller stops.
    """
    command = [sys.executable, __file__, str(folder), str(some)]
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOMSERVE_")}
    surroundings = {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(Path(__file__).parents[1])}
    limits = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "120"}
    environment = {**kept, **surroundings, **limits, "TOMSERVE_RUNS": str(folder / "runs")}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        thread = threading.Thread(target=_feed, args=(process.stdin, seeds), daemon=True)
        thread.start()
        try:
            yield from map(json.loads, process.stdout)
        finally:
            process.kill()


def _feed(pipe: Any, seeds: Sequence[str]) -> None:
    with contextlib.suppress(OSError), pipe:
        pipe.write("\n".join(seeds).encode())


LAZY = (
    *("httptools", "httpx", "jinja2", "openai", "polars", "rich.console", "rich.table"),
    *("scipy.optimize", "scipy.stats", "uvloop"),
)
"""What modules of tomserve import in the functions that need it, and not when they are imported themselves."""

OTHERS = ("tomserve.causal", "tomserve.serving.dbrx", "tomserve.serving.vllm_cli", "tomserve.__main__")
"""What is imported where it is needed alone: it imports torch, or is there to change vLLM, or runs a command."""


def _import_everything() -> None:
    """Import what commands import, and read the stages of the dataset, so that no copy does either again."""
    import tomserve
    from tomserve.benchmarks.perturbed import stages

    modules = (one.name for one in pkgutil.walk_packages(tomserve.__path__, "tomserve."))
    for name in (*LAZY, *(name for name in modules if not name.startswith(OTHERS))):
        importlib.import_module(name)
    vars(stages)["load_stage"] = functools.cache(stages.load_stage)
    for stage in stages.load_stages():
        stage.items()
    gc.collect()
    gc.freeze()  # no collection in a copy then writes to the memory of all this, which would be copied


def main() -> None:
    """Read seeds from standard input, and print what is found as lines of JSON."""
    folder = Path(sys.argv[1])
    seeds = sys.stdin.read().split("\n")
    keep = os.dup(1)
    if not (folder / "seeds").exists():
        if (pid := os.fork()) == 0:
            os.dup2(2, 1)
            make_seeds(folder)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, "the runs to change could not be made"
    server, url = _endpoint()
    try:
        _import_everything()
        platform.processor()  # which starts a program, once
        for seed in seeds:
            for told in _guarded(seed, folder, url, int(sys.argv[2])):
                os.write(keep, json.dumps(told).encode() + b"\n")
    finally:
        os.kill(server, signal.SIGKILL)


if __name__ == "__main__":
    main()
