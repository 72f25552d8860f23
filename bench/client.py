"""Compares the CPU that a request costs tomserve's client with other clients, from raw sockets to Inspect and lm-eval.

    python bench/client.py [--count 4000] [--rounds 5] [--in-flight 64 256] [--only ours bare]
                           [--python inspect=/path/to/venv/bin/python --python lm-eval=/path/to/python]

nginx (Debian: nginx-light) answers every request with one fixed completion, so that the client is all that is
measured, and counts what it was asked. A peer runs in this interpreter, or in the one that --python names for it, and
is left out, with a line, where it is not installed. What each does and how its CPU is taken is in bench/_peers.py; in
short: CPU of the whole client, threads included, without start-up, which has a column of its own.

Each run is a process of its own; a round runs every client once, every second round backwards. Ratios are to "bare"
(aiohttp + orjson + one append a row) of the same round. Figures are medians over rounds, with lowest and highest.
Slow clients (httpx, openai, Inspect) send --slow-count requests. Aims: ours at most 0.8 times bare at both levels, and
a request of a conversation of two turns (ours+turns) at most 1.1 times one of a single turn, in the same rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import orjson
from _figures import need, spread_figure

from tomserve.engine.request import Identity, Request, Sampling
from tomserve.prompting.strategy import Strategy

sys.path.insert(0, str(Path(__file__).parent))
import _peers as peers

AIM = 0.8
AIM_TURNS = 1.1
SLOW = ("httpx", "openai", "inspect", "inspect-lean")
MODULES = {"openai": "openai", "httpx": "httpx", "inspect": "inspect_ai", "lm-eval": "lm_eval"}
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "tiny",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": '{"answer":"tea"}'}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 350, "completion_tokens": 9, "total_tokens": 359, "prompt_tokens_details": None},
}
CONFIGURATION = """
worker_processes 1; daemon off; pid {folder}/pid; error_log /dev/null;
events {{ worker_connections 4096; }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 1000000000; default_type application/json;
  server {{ listen 127.0.0.1:{port}; location = /status {{ stub_status; }} location = /metrics {{ root {folder}; }}
    {more} location / {{ return 200 '{reply}'; }} }} }}
"""
HISTOGRAMS = ("e2e_request_latency", "request_queue_time", "request_prefill_time", "time_to_first_token", "iteration")


def write_bodies(path: Path, count: int) -> None:
    """Write request bodies as tomserve makes them, one a line, for the other clients to send."""
    strategy, sampling = Strategy.load("vanilla"), Sampling()
    with path.open("wb") as file:
        for item in peers.items(count):
            identity = Identity(item.id, "vanilla", 0)
            turn = strategy.turn(item)
            file.write(Request.build(identity, turn, model="tiny", revision=None, sampling=sampling).body + b"\n")


def metrics() -> str:
    """A page of metrics of the size of vLLM's (60 kB), for clients that ask for it during a run."""
    gauges = {"num_requests_running": 9, "num_requests_waiting": 0, "kv_cache_usage_perc": 0.1}
    counters = {"num_preemptions": 0, "prefix_cache_queries": 90000, "prefix_cache_hits": 45000}
    lines = [f'vllm:{name}{{engine="0",model_name="tiny"}} {value}' for name, value in gauges.items()]
    lines += [f'vllm:{name}_total{{engine="0",model_name="tiny"}} {value}' for name, value in counters.items()]
    for name in HISTOGRAMS:
        bucket = f'vllm:{name}_seconds_bucket{{engine="0",le="%s",model_name="tiny"}} 8.0'
        lines += [f"# TYPE vllm:{name}_seconds histogram", *(bucket % number for number in range(150))]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def nginx(more: str = "") -> Iterator[str]:
    """Run nginx with a fixed answer, which takes hardly any CPU, until the block ends; yields its URL.

    more: further locations of its configuration.
    """
    found = shutil.which("nginx") or "/usr/sbin/nginx"
    need("nginx")
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "nginx.conf"
        reply = orjson.dumps(REPLY).decode().replace("'", "\\'").replace("\\", "\\\\")
        (Path(scratch) / "metrics").write_text(metrics())
        path.write_text(CONFIGURATION.format(folder=scratch, port=port, reply=reply, more=more))
        with subprocess.Popen([found, "-c", str(path), "-e", "/dev/null"]) as server:
            try:
                deadline = time.monotonic() + 10
                while time.monotonic() < deadline:
                    with socket.socket() as probe:
                        if probe.connect_ex(("127.0.0.1", port)) == 0:
                            break
                    time.sleep(0.05)
                yield f"http://127.0.0.1:{port}/v1"
            finally:
                server.terminate()


def asked(url: str) -> int:
    """How many requests nginx has answered so far, including this one."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/status") as reply:
        return int(reply.read().split()[9])


def present(pythons: dict[str, str], only: list[str] | None) -> list[str]:
    """The names of the clients that can run here; prints a line for each that cannot."""
    there = []
    for name in only or list(peers.CLIENTS):
        module = MODULES.get(name.removesuffix("-lean"))
        python = pythons.get(name.removesuffix("-lean"), sys.executable)
        look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
        if module and subprocess.run([python, "-c", look], check=False).returncode:
            print(f"{name}: left out, {python} has no {module} (--python {name.removesuffix('-lean')}=PATH)")
        else:
            there.append(name)
    return there


def run(name: str, python: str, url: str, bodies: Path, count: int, in_flight: int) -> dict[str, float]:
    """Run one client once over so many items; returns the figures of bench/_peers.py, and `ms`, its CPU milliseconds a
    request."""
    before = asked(url)
    command = [python, str(Path(peers.__file__)), name, url, str(bodies), str(count), str(in_flight)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    turns = peers.TURNS.get(name, 1)
    sent, expected = asked(url) - before - 1, turns * (count + 2 * in_flight + 1)
    if not expected <= sent <= expected * 1.01 + 10:  # some look around beside: metrics, models
        raise SystemExit(f"{name}: nginx had {sent} requests where {expected} were to be sent")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "ms": found["cpu"] / count / turns * 1000}


def spread(values: list[float], digits: int) -> str:
    """Text for the median of the values, with the lowest and the highest in brackets."""
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def show(found: dict[str, list[dict[str, float]]], counts: dict[str, int], in_flight: int) -> None:
    """Print the table of one level of concurrency, and the figures of tomserve round by round."""
    rounds = len(next(iter(found.values())))
    print(f"\n{in_flight} in flight, medians of {rounds} rounds (lowest to highest)")
    print(
        f"  {'client':14s} {'ms CPU a request':26s} {'x bare':23s} {'requests/s a core':>17s} "
        f"{'start-up s CPU':>14s} {'peak MB':>7s} {'requests':>8s}"
    )
    ratios = {
        name: [run["ms"] / floor["ms"] for run, floor in zip(runs, found["bare"], strict=True)]
        for name, runs in found.items()
    }
    for name, runs in found.items():
        milliseconds = [run["ms"] for run in runs]
        startup, memory = (statistics.median(run[column] for run in runs) for column in ("startup", "peak"))
        print(
            f"  {name:14s} {spread(milliseconds, 3):26s} {spread(ratios[name], 2):23s} "
            f"{1000 / statistics.median(milliseconds):17.0f} {startup:14.2f} {memory:7.0f} "
            f"{counts[name] * peers.TURNS.get(name, 1):8d}"
        )
    for name in peers.OURS:
        if name in ratios:
            each = " ".join(f"{ratio:.2f}" for ratio in ratios[name])
            spread_figure(f"{name}, {in_flight} in flight", ratios[name], unit="times bare", at_most=AIM)
            met = "met" if statistics.median(ratios[name]) <= AIM else "missed"
            print(f"  {name} / bare by round: {each}; aim of {AIM} {met}")
    if {"ours", "ours+turns"} <= set(found):
        pairs = zip(found["ours+turns"], found["ours"], strict=True)
        turns = [two["ms"] / one["ms"] for two, one in pairs]
        spread_figure(f"two turns / one, {in_flight} in flight", turns, at_most=AIM_TURNS)
        met = "met" if statistics.median(turns) <= AIM_TURNS else "missed"
        print(f"  a request of two turns / of one: {spread(turns, 2)}; aim of {AIM_TURNS} {met}")


def main() -> None:
    """Run the clients in turn and print medians, and their ratios to the bare client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--slow-count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--only", nargs="+", choices=list(peers.CLIENTS), metavar="CLIENT")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="a peer's own interpreter")
    chosen = parser.parse_args()
    pythons = dict(entry.split("=", 1) for entry in chosen.python)
    if unknown := set(pythons) - set(MODULES):
        parser.error(f"--python: no peer {sorted(unknown)}; there are {sorted(MODULES)}")
    there = present(pythons, chosen.only and list(dict.fromkeys(["bare", *chosen.only])))
    counts = {name: min(chosen.slow_count, chosen.count) if name in SLOW else chosen.count for name in there}
    counts = {name: count // peers.TURNS.get(name, 1) for name, count in counts.items()}
    with nginx() as url, tempfile.TemporaryDirectory() as scratch:
        bodies = Path(scratch) / "bodies.jsonl"
        write_bodies(bodies, chosen.count + max(chosen.in_flight))
        for in_flight in chosen.in_flight:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in there}
            for number in range(chosen.rounds):
                for name in there if number % 2 == 0 else reversed(there):
                    python = pythons.get(name.removesuffix("-lean"), sys.executable)
                    found[name].append(run(name, python, url, bodies, counts[name], in_flight))
            show(found, counts, in_flight)


if __name__ == "__main__":
    main()
