"""Measures start-up: of an empty interpreter, of `tomserve --help`, and of `tomserve eval` up to its first question.

    python bench/startup.py [--rounds 9]

Figures are medians. The evaluation asks the whole dataset by both strategies of a server on this machine that
answers at once: what is timed is reading and checking the dataset, rendering and measuring every prompt, making the run
folder and checking the server. Aim: less than one second to the first question.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from _figures import spread_figure

ROUNDS = 9
QUESTION, AIM = "eval to first question", 1.0
COMMANDS = {
    "empty interpreter": [sys.executable, "-c", "pass"],
    "tomserve --version": [sys.executable, "-m", "tomserve", "--version"],
    "tomserve --help": [sys.executable, "-m", "tomserve", "--help"],
    "import openai": [sys.executable, "-c", "import openai"],
}
COMPLETION = {"choices": [{"message": {"content": '{"answer": "tea"}'}, "finish_reason": "stop"}]}


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers at once for one model, and records when the first question (the first request with a schema) came."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # head and body in one packet: two would wait for each other
    first: float | None = None

    def do_GET(self) -> None:
        """Answer the routes for models, version and metrics."""
        self._reply({"data": [{"id": "tiny", "max_model_len": 100_000}], "version": "0"})

    def do_POST(self) -> None:
        """Answer a chat request, or a request to count tokens."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if Answers.first is None and b"response_format" in body:
            Answers.first = time.perf_counter()
        self._reply({"count": 500} if self.path == "/tokenize" else COMPLETION)

    def _reply(self, data: object) -> None:
        text = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Log nothing, so that the bench's own output stays readable."""


class Server(http.server.ThreadingHTTPServer):
    """A server whose client is killed as soon as its first question has come."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors, which come from writing to a client that was killed."""


def seconds(command: list[str]) -> float:
    """Wall time of one start in seconds; nan where the command fails, as for a program that is not installed."""
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    return time.perf_counter() - began if done.returncode == 0 else float("nan")


def to_first_question(url: str) -> float:
    """Seconds from the start of `tomserve eval` to its first question."""
    Answers.first = None
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "tomserve", "eval", "--base-url", url, "--quiet", "--no-report"]
        began = time.perf_counter()
        with subprocess.Popen(command, env={**os.environ, "TOMSERVE_RUNS": scratch}, stdout=subprocess.DEVNULL) as run:
            while Answers.first is None and run.poll() is None:
                time.sleep(0.01)
            run.kill()
    return Answers.first - began if Answers.first is not None else float("nan")


def main() -> None:
    """Print the median seconds of each start, their spread, and the ratio to the empty interpreter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float]] = {name: [] for name in [*COMMANDS, QUESTION]}
    with Server(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(rounds):
            for name, command in COMMANDS.items():
                found[name].append(seconds(command))
            found[QUESTION].append(to_first_question(f"http://127.0.0.1:{server.server_port}/v1"))
        server.shutdown()
    floor = statistics.median(found["empty interpreter"])
    for name, times in found.items():
        middle = statistics.median(times)
        print(f"{name:24s} {middle:6.3f} s  ({min(times):.3f} to {max(times):.3f})  {middle / floor:5.1f} x")
        aim = {"at_most": AIM} if name == QUESTION else {}
        spread_figure(name, times, unit="s", **aim)


if __name__ == "__main__":
    main()
