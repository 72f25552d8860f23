"""Measures time, CPU and memory of asking, scoring, analysing, reporting and resuming a million rows, each by itself.

    python bench/scale.py [--rows 1000000] [--steps ask score analyze report resume] [--folder DIR]

The questions are made from the dataset: its tasks copied, eight questions of each, every question asked by two
strategies (1,000,000 rows: 500,000 items in 62,500 tasks of some 6,400 stages). *ask* is `tomserve.ask` of a benchmark
in a file whose generator makes these items one by one, in a process of its own; nginx answers at once (Debian package
nginx-light, see bench/client.py). It begins anew each time.

The other steps use a run that is made without asking: right answers are drawn by task, so that tasks and stages differ;
one reply in fifty cannot be read. A stand-in server in this process answers the first sixteen questions (so that the
manifest is a real one), the other rows are appended to the journal, but for some that are left to ask. score, analyze
and report are the commands; resume is `tomserve eval` on the same run until its first question arrives, after which it
is killed (so a run that is there can be resumed again). Peaks are ru_maxrss, for resume VmHWM up to then. Aims at
1,000,000 rows on two cores: every step under 1.5 GB, resume under 1 GB and 20 s.
"""

from __future__ import annotations

import argparse
import http.server
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from _figures import figure

from tomserve.benchmarks import Benchmark, get
from tomserve.items import Item

sys.path.insert(0, str(Path(__file__).parent))
from client import nginx

QUESTIONS = 8
STRATEGIES = ("vanilla", "cot")
LEFT = 64
STEPS = ("ask", "score", "analyze", "report", "resume")
MODEL = "stand-in"
MODELS = {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 8192}]}
WHERE = f"""location = /v1/models {{ return 200 '{orjson.dumps(MODELS).decode()}'; }}
    location = /version {{ return 200 '{{"version":"0"}}'; }} location = /health {{ return 200 '{{}}'; }}
    location = /tokenize {{ return 200 '{{"count":300}}'; }}"""
ASK = "import sys, tomserve; tomserve.ask(sys.argv[1], sys.argv[4:], base_url=sys.argv[2], run=sys.argv[3])"


def items(tasks: int) -> Iterator[Item]:
    """Items of so many tasks of eight questions, copied from the dataset; a copied stage is a stage of its own."""
    base: dict[str, list[Item]] = {}
    for item in get("perturbed").items():
        if item.factors["swapped"] is False:
            base.setdefault(item.cluster, []).append(item)
    for number in range(tasks):
        copy, place = divmod(number, len(base))
        cluster = list(base)[place]
        for item in base[cluster]:
            stage = f"{item.factors['stage']}-{copy:04d}"
            changes = {"id": f"{copy:04d}/{item.id}", "cluster": f"{copy:04d}/{cluster}"}
            yield item.model_copy(update={**changes, "factors": {**item.factors, "stage": stage}})


def text_of(item: Item, strategy: str, noise: random.Random, skill: float) -> str:
    """The text of a reply: the answer, for cot after a chain of beliefs that is right or partly random."""
    if noise.random() < 0.02:
        return "I would rather not say."
    right = noise.random() < skill
    answer = item.answer if right else noise.choice([choice for choice in item.choices if choice != item.answer])
    if strategy == "vanilla" or item.gold is None:
        return orjson.dumps({"answer": answer}).decode()
    chain = list(next(item.gold.automaton().chains()))
    if noise.random() > 0.3 + 0.4 * right:
        chain = [noise.choice(item.choices) if noise.random() < 0.3 else belief for belief in chain]
    beliefs = [{"sentence": place, "belief": belief} for place, belief in enumerate(chain, 1)]
    return orjson.dumps({"beliefs": beliefs, "answer": answer}).decode()


def fill(journal: Path, questions: Path, rows: int) -> None:
    """Append so many rows to a run's journal, one strategy after the other."""
    noise = random.Random(0)
    with journal.open("ab") as file:
        for strategy in STRATEGIES:
            skill, task = 0.5, ""
            with questions.open("rb") as lines:
                for number, line in enumerate(lines):
                    item = Item.from_json(line)
                    if item.cluster != task:
                        task, skill = item.cluster, noise.betavariate(2, 1.5)
                    if number < rows // len(STRATEGIES) - LEFT // len(STRATEGIES):
                        file.write(_row(item, strategy, text_of(item, strategy, noise, skill), number))


def _row(item: Item, strategy: str, text: str, number: int) -> bytes:
    row = {"schema": 1, "item": item.id, "strategy": strategy, "turn": 0, "key": f"{strategy}{number:024x}"}
    usage = {"prompt": 350, "completion": 90, "cached": 256}
    row |= {"status": "ok", "text": text, "reasoning": None, "finish_reason": "stop", "usage": usage, "error": None}
    more = {"timings": {"total_s": 0.18}, "attempts": 1, "endpoint": "http://127.0.0.1:1/v1"}
    return orjson.dumps({**row, **more, "time": "2026-11-21T16:16:20Z", "reused": False}) + b"\n"


class StandIn(http.server.ThreadingHTTPServer):
    """A server that answers every question with an empty object.

    `first` is set when the first question arrives; the checks before an evaluation do not count.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.first = threading.Event()
        self.silent = False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Say nothing: a client that is killed resets its connections."""

    @property
    def url(self) -> str:
        """The base URL of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_GET(self) -> None:
        known: dict[str, dict[str, Any]] = {"/v1/models": MODELS, "/version": {"version": "0"}, "/health": {}}
        self._send(200 if self.path in known else 404, known.get(self.path, {}))

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            return self._send(200, {"count": 300})
        if "response_format" in body:
            self.server.first.set()
            if self.server.silent:
                time.sleep(60)
        message = {"role": "assistant", "content": "{}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return self._send(200, {"id": "1", "object": "chat.completion", "model": MODEL, "choices": [choice]})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        data = orjson.dumps(content)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing, so that the bench's own output stays readable."""


def command(*arguments: str) -> list[str]:
    """The command line that runs tomserve with these arguments."""
    return [sys.executable, "-m", "tomserve", *arguments]


def asking(folder: Path, url: str, *more: str) -> list[str]:
    """The command line of `tomserve eval` that asks the questions of the run."""
    strategies = [part for name in STRATEGIES for part in ("--strategy", name)]
    where = ["--benchmark", "items", "--path", str(folder / "questions.jsonl"), "--base-url", url]
    return command("eval", *where, *strategies, "--run", str(folder / "run"), "--quiet", *more)


def make(folder: Path, rows: int) -> None:
    """Make a run of so many rows in the folder `run` within `folder`, with its questions beside it."""
    questions = folder / "questions.jsonl"
    with questions.open("wb") as file:
        for item in items(rows // (QUESTIONS * len(STRATEGIES))):
            file.write(item.to_json() + b"\n")
    server = StandIn()
    begun = subprocess.run(asking(folder, server.url, "--limit", "16"), check=False, stdout=subprocess.DEVNULL)
    server.shutdown()
    if begun.returncode not in (0, 1):  # 1, because no answer of the stand-in can be read
        raise SystemExit(f"tomserve eval: exit code {begun.returncode}")
    fill(folder / "run" / "responses.jsonl", questions, rows)
    (folder / "run" / "items.jsonl").write_bytes(b"".join(sorted(questions.read_bytes().splitlines(keepends=True))))


def watched(arguments: list[str], log: Path, until: threading.Event | None = None) -> tuple[float, float, float]:
    """Seconds and peak memory (GB) of a command, which is ended once `until` is set, where that is given."""
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=subprocess.STDOUT)
    if until is not None:
        while not until.wait(0.1) and process.poll() is None:
            pass
        seconds, peak = time.monotonic() - began, _peak(process.pid)
        if not until.is_set():
            raise SystemExit(f"it ended before it asked anything; see {log}")
        process.kill()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if until is None:
        seconds, peak = time.monotonic() - began, used.ru_maxrss
        if process.returncode:
            raise SystemExit(f"{' '.join(arguments[3:])}: exit code {process.returncode}; see {log}")
    return seconds, used.ru_utime + used.ru_stime, peak / 1e6


def _peak(process: int) -> int:
    """The most memory that a process has had so far, in kB."""
    return int(Path(f"/proc/{process}/status").read_text().split("VmHWM:")[1].split()[0])


def load(path: Path | None, gold: str | None) -> Iterator[Item]:
    """The items of the benchmark that the step `ask` asks, made one by one; their number stands beside this file's copy
    in the folder."""
    return items(int((Path(sys.argv[1]).parent / "tasks").read_text()))


BENCHMARK = Benchmark("scale", load, mixed=True)


def measure(step: str, folder: Path, rows: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak memory (GB) of one step."""
    run, log = str(folder / "run"), folder / f"{step}.log"
    if step == "ask":
        shutil.rmtree(folder / "asked", ignore_errors=True)
        (folder / "tasks").write_text(str(rows // (QUESTIONS * len(STRATEGIES))))
        module = folder / "many.py"
        module.write_text(
            f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom scale import BENCHMARK\n"
        )
        with nginx(WHERE) as url:
            asked = [sys.executable, "-c", ASK, str(module), url, str(folder / "asked"), *STRATEGIES]
            return watched(asked, log)
    if step == "resume":
        server = StandIn()
        server.silent = True
        try:
            return watched(asking(folder, server.url), log, server.first)
        finally:
            server.shutdown()
    more = {"analyze": ("--format", "json", "--out", str(folder / "tables")), "report": (), "score": ()}
    return watched(command(step, run, *more[step]), log)


def main() -> None:
    """Make the run unless the folder holds it, measure the chosen steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--folder", type=Path, help="where to put the run; one that is there is used [temporary]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "run").exists() and set(chosen.steps) != {"ask"}:
            make(folder, chosen.rows)
        print(
            f"{chosen.rows:,} rows, {os.cpu_count()} cores\n{'step':10s} {'seconds':>8s} {'CPU s':>8s} {'peak GB':>8s}"
        )
        for step in chosen.steps:
            seconds, busy, peak = measure(step, folder, chosen.rows)
            print(f"{step:10s} {seconds:8.1f} {busy:8.1f} {peak:8.2f}", flush=True)
            for what, value, unit in (("time", seconds, "s"), ("CPU", busy, "s"), ("peak", peak, "GB")):
                figure(f"{step}, {chosen.rows:,} rows, {what}", value, unit=unit, rounds=1)


if __name__ == "__main__":
    main()
