"""What a request costs the client: ours against raw sockets, bare aiohttp, httpx and the openai SDK, on one nginx.

    python bench/client.py [--count 4000] [--rounds 5] [--in-flight 64 256]

nginx (Debian: nginx-light) answers every request with one fixed completion, so that the client is all that is measured.
Ours does everything that an evaluation does: render the prompt, compute the key, send, validate, one row in the journal
with its fsync a second. "bare" is the floor: the ready body through aiohttp, orjson on the reply, one append a row.
Reading the dataset is no part of either. Each run is a process of its own, rounds are interleaved, figures are medians
with their spread. Aim (not reached yet): ours at most 1.6 times bare at both levels of concurrency.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import orjson

from tomserve.benchmarks import get
from tomserve.engine.journal import Journal
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.runner import Runner
from tomserve.engine.transport import AiohttpTransport
from tomserve.items import Item
from tomserve.strategies import Strategy

CLIENTS = ("raw", "bare", "ours", "httpx", "openai")
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
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{reply}'; }} }} }}
"""


def items(count: int) -> Iterator[Item]:
    """The dataset, over and over, each time with another first sentence so that no two prompts are equal."""
    base = list(get("perturbed").load(None))
    for number in range(count):
        item = base[number % len(base)]
        story = (f"Story {number}.", *item.story)
        yield item.model_copy(update={"id": f"{number}/{item.id}", "story": story, "gold": None})


def requests(chosen: list[Item]) -> Iterator[Request]:
    """As the engine makes them: rendered one by one when they are asked for."""
    strategy = Strategy.load("vanilla")
    for item in chosen:
        turn = strategy.turn(item)
        identity = Identity(item.id, "vanilla", 0)
        yield Request.build(identity, turn, model="tiny", revision=None, sampling=Sampling())


async def ours(url: str, chosen: list[Item], in_flight: int, folder: Path) -> None:
    """The engine as it is."""
    transport = AiohttpTransport()
    with Journal(folder / "responses.jsonl") as journal:
        await Runner([url], transport, journal, concurrency=in_flight).run(requests(chosen))
        assert len(journal.final) == len(chosen)
    await transport.close()


async def workers(bodies: list[bytes], in_flight: int, ask: Callable[[bytes], Awaitable[None]]) -> None:
    """`in_flight` workers over ready bodies."""
    waiting = iter(bodies)

    async def work() -> None:
        for body in waiting:
            await ask(body)

    await asyncio.gather(*(work() for _ in range(in_flight)))


async def bare(url: str, bodies: list[bytes], in_flight: int, out: int) -> None:
    """aiohttp, orjson, one append a row."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(body: bytes) -> None:
            headers = {"Content-Type": "application/json"}
            async with session.post(f"{url}/chat/completions", data=body, headers=headers) as response:
                os.write(out, orjson.dumps(orjson.loads(await response.read())) + b"\n")

        await workers(bodies, in_flight, ask)


async def raw(url: str, bodies: list[bytes], in_flight: int, out: int) -> None:
    """asyncio streams and nothing else."""
    port = int(url.split(":")[2].split("/")[0])
    waiting = iter(bodies)

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for body in waiting:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            reply = await reader.readuntil(b"\r\n\r\n")
            length = int(reply.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            os.write(out, orjson.dumps(orjson.loads(await reader.readexactly(length))) + b"\n")
        writer.close()

    await asyncio.gather(*(work() for _ in range(in_flight)))


async def with_httpx(url: str, bodies: list[bytes], in_flight: int, out: int) -> None:
    """httpx with as many connections as requests in flight."""
    import httpx

    limits = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:

        async def ask(body: bytes) -> None:
            response = await client.post(f"{url}/chat/completions", content=body)
            os.write(out, orjson.dumps(orjson.loads(response.content)) + b"\n")

        await workers(bodies, in_flight, ask)


async def with_openai(url: str, bodies: list[bytes], in_flight: int, out: int) -> None:
    """The SDK as its documentation uses it."""
    import openai

    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def ask(body: bytes) -> None:
            reply = await client.chat.completions.create(**orjson.loads(body))
            os.write(out, reply.model_dump_json().encode() + b"\n")

        await workers(bodies, in_flight, ask)


def one(client: str, url: str, count: int, in_flight: int) -> None:
    """Run one client in this process and print its CPU seconds, wall seconds and peak memory."""
    kinds = {"raw": raw, "bare": bare, "httpx": with_httpx, "openai": with_openai}
    with tempfile.TemporaryDirectory() as scratch:
        chosen = list(items(count))
        bodies = [] if client == "ours" else [request.body for request in requests(chosen)]
        out = os.open(Path(scratch) / "rows.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        began, cpu = time.perf_counter(), time.process_time()
        if client == "ours":
            asyncio.run(ours(url, chosen, in_flight, Path(scratch)))
        else:
            asyncio.run(kinds[client](url, bodies, in_flight, out))
        used = (time.process_time() - cpu, time.perf_counter() - began)
        print(json.dumps([*used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


@contextlib.contextmanager
def nginx() -> Iterator[str]:
    """A server that costs next to nothing."""
    found = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(found).exists():
        raise SystemExit("nginx is missing: apt-get install nginx-light")
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "nginx.conf"
        reply = orjson.dumps(REPLY).decode().replace("'", "\\'").replace("\\", "\\\\")
        path.write_text(CONFIGURATION.format(folder=scratch, port=port, reply=reply))
        with subprocess.Popen([found, "-c", str(path), "-e", "/dev/null"]) as server:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/v1"
            server.terminate()


def main() -> None:
    """Interleave the clients, print medians and ratios to the floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--one", nargs=2, metavar=("CLIENT", "URL"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        one(*chosen.one, chosen.count, chosen.in_flight[0])
        return
    there = [name for name in CLIENTS if name not in ("httpx", "openai") or importlib.util.find_spec(name)]
    with nginx() as url:
        for in_flight in chosen.in_flight:
            found: dict[str, list[list[float]]] = {name: [] for name in there}
            for _ in range(chosen.rounds):
                for name in there:
                    command = [sys.executable, __file__, "--one", name, url, "--count", str(chosen.count)]
                    command += ["--in-flight", str(in_flight)]
                    done = subprocess.run(command, capture_output=True, check=True, text=True)
                    found[name].append(json.loads(done.stdout))
            print(f"{in_flight} in flight, {chosen.count} requests, median of {chosen.rounds}")
            floor = statistics.median(run[0] for run in found["bare"])
            for name, runs in found.items():
                cpu = sorted(run[0] / chosen.count * 1000 for run in runs)
                middle = statistics.median(cpu)
                rate = statistics.median(chosen.count / run[0] for run in runs)
                memory = statistics.median(run[2] for run in runs)
                ratio = middle * chosen.count / 1000 / floor
                print(
                    f"  {name:7s} {middle:6.3f} ms CPU a request ({cpu[0]:.3f} to {cpu[-1]:.3f}), "
                    f"{ratio:5.2f} x bare, {rate:6.0f} requests/s a core, {memory:.0f} MB"
                )


if __name__ == "__main__":
    main()
