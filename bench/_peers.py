"""One client in a process of its own, for bench/client.py; nothing but the standard library is needed to import it.

    python bench/_peers.py NAME URL BODIES COUNT IN_FLIGHT

BODIES is a JSONL file of ready request bodies, of which COUNT + IN_FLIGHT are sent. A client is run three times: over
one request, over IN_FLIGHT, over COUNT + IN_FLIGHT. A request costs the third less the second, divided by COUNT:
neither imports nor an evaluation's own beginning and end nor opening the connections are in it. Start-up is the CPU of
the process up to the end of the first run, less reading BODIES (making the items). Memory is VmHWM, the peak of this
program alone: a child's ru_maxrss starts at what its parent had when it was forked.

Ours does everything that an evaluation does: render the prompt, compute the key, send, validate, one row in the
journal with its fsync a second; "ours+progress" shows progress beside, as plain lines to /dev/null; "ours+turns" holds
a conversation of two turns about each item. The others get ready bodies. Inspect and lm-eval run a task with their
own scoring and log, at their defaults but for concurrency and display; "inspect-lean" has everything off that can be.
Both send less than ours, since no schema goes with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

Bodies = list[bytes]


async def ours(url: str, items: list[Any], in_flight: int, folder: Path, observer: Any = None) -> None:
    """Send the items through tomserve's engine, as an evaluation does."""
    from tomserve.engine.httptools_transport import HttptoolsTransport
    from tomserve.engine.request import Identity, Request, Sampling
    from tomserve.engine.runner import Runner
    from tomserve.prompting.strategy import Strategy
    from tomserve.runs.journal import Journal

    strategy, sampling = Strategy.load("vanilla"), Sampling()
    requests = (
        Request.build(
            Identity(item.id, "vanilla", 0), strategy.turn(item), model="tiny", revision=None, sampling=sampling
        )
        for item in items
    )
    transport = HttptoolsTransport()
    with Journal(folder / "responses.jsonl") as journal:
        runner = Runner([url], transport, journal, concurrency=in_flight)
        runner.observer = observer or runner.observer
        await runner.run(requests)
        assert len(journal.final) == len(items), journal.failed
    await transport.close()


async def with_turns(url: str, items: list[Any], in_flight: int, folder: Path) -> None:
    """Send the items through tomserve's engine by a strategy of two turns, each as long as that of `ours`."""
    from tomserve.engine.httptools_transport import HttptoolsTransport
    from tomserve.engine.request import Request, Sampling
    from tomserve.engine.runner import Runner
    from tomserve.runs.conversations import Conversations
    from tomserve.runs.journal import Journal

    strategy = _two_turns(folder / "two")
    build = functools.partial(Request.build, model="tiny", revision=None, sampling=Sampling())
    talks = Conversations(build)
    requests = (request for item in items for request in talks.begin(strategy, item))
    transport = HttptoolsTransport()
    with Journal(folder / "responses.jsonl") as journal:
        await Runner([url], transport, journal, concurrency=in_flight, follower=talks).run(requests)
        assert (len(journal.closed), len(journal.final)) == (len(items), 2 * len(items)), journal.failed
    await transport.close()


def _two_turns(folder: Path) -> Any:
    """A strategy that asks what `ours` asks twice, the second time in a chat of its own with another first word."""
    from tomserve.prompting.strategy import Strategy

    one = Strategy.load("vanilla").folder
    folder.mkdir()
    lines = ["schema: 1", "description: Two turns.", "max_tokens: 64", "turns:"]
    for name, word in (("turn1", ""), ("turn2", "Again. ")):
        lines += [f"  - name: {name}", "    continues: false"]
        for part in ("system", "user", "schema"):
            text = (one / f"{part}.j2").read_text("utf-8")
            (folder / f"{name}.{part}.j2").write_text(text if part == "schema" else word + text, "utf-8")
    (folder / "strategy.yaml").write_text("\n".join(lines) + "\n", "utf-8")
    return Strategy(folder)


@contextlib.contextmanager
def plain_console() -> Iterator[Any]:
    """A rich console that is not a terminal and throws its output away."""
    from rich.console import Console

    with Path(os.devnull).open("w") as nowhere:
        yield Console(file=nowhere, force_terminal=False)


async def with_progress(url: str, items: list[Any], in_flight: int, folder: Path) -> None:
    """Send the items through the engine with its progress lines, as `tomserve eval` shows them without a terminal."""
    from tomserve.reporting.progress import RunScreen

    with plain_console() as console:
        screen = RunScreen(console)
        screen.begin_phase(len(items), 0)
        await ours(url, items, in_flight, folder, screen)


async def workers(bodies: Bodies, in_flight: int, ask: Callable[[bytes], Awaitable[None]]) -> None:
    """Send the bodies by `in_flight` workers at a time; `ask` sends one."""
    waiting = iter(bodies)

    async def work() -> None:
        for body in waiting:
            await ask(body)

    await asyncio.gather(*(work() for _ in range(in_flight)))


@contextlib.contextmanager
def rows(folder: Path) -> Iterator[Callable[[bytes], int]]:
    """Open the file of a bare client's answers; yields the function that appends one row and returns its length."""
    out = os.open(folder / "rows.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        yield lambda row: os.write(out, row + b"\n")
    finally:
        os.close(out)


async def bare(url: str, bodies: Bodies, in_flight: int, folder: Path) -> None:
    """Send the bodies by aiohttp, read answers by orjson, append a row for each: the least that a client must do."""
    import aiohttp
    import orjson

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        with rows(folder) as append:

            async def ask(body: bytes) -> None:
                headers = {"Content-Type": "application/json"}
                async with session.post(f"{url}/chat/completions", data=body, headers=headers) as response:
                    append(orjson.dumps(orjson.loads(await response.read())))

            await workers(bodies, in_flight, ask)


async def raw(url: str, bodies: Bodies, in_flight: int, folder: Path) -> None:
    """Send the bodies over asyncio streams, without any HTTP library."""
    import orjson

    port = int(url.split(":")[2].split("/")[0])
    waiting = iter(bodies)
    with rows(folder) as append:

        async def work() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for body in waiting:
                head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                reply = await reader.readuntil(b"\r\n\r\n")
                length = int(reply.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                append(orjson.dumps(orjson.loads(await reader.readexactly(length))))
            writer.close()

        await asyncio.gather(*(work() for _ in range(in_flight)))


async def with_httpx(url: str, bodies: Bodies, in_flight: int, folder: Path) -> None:
    """Send the bodies by httpx, with as many connections as requests in flight."""
    import httpx
    import orjson

    limits = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:
        with rows(folder) as append:

            async def ask(body: bytes) -> None:
                response = await client.post(f"{url}/chat/completions", content=body)
                append(orjson.dumps(orjson.loads(response.content)))

            await workers(bodies, in_flight, ask)


async def with_openai(url: str, bodies: Bodies, in_flight: int, folder: Path) -> None:
    """Send the bodies by the openai SDK, as its documentation uses it."""
    import openai
    import orjson

    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        with rows(folder) as append:

            async def ask(body: bytes) -> None:
                reply = await client.chat.completions.create(**orjson.loads(body))
                append(reply.model_dump_json().encode())

            await workers(bodies, in_flight, ask)


def with_inspect(url: str, bodies: Bodies, in_flight: int, folder: Path, **options: Any) -> None:
    """Send the bodies as an Inspect task with a dataset, a generating solver, a scorer and a log."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate

    kinds = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    asked = [json.loads(body) for body in bodies]
    samples = [
        Sample(input=[kinds[m["role"]](content=m["content"]) for m in body["messages"]], target="tea") for body in asked
    ]
    os.environ |= {"LOCAL_API_KEY": "none", "LOCAL_BASE_URL": url}
    (log,) = evaluate(
        Task(dataset=MemoryDataset(samples), solver=generate(), scorer=includes()),
        model="openai-api/local/tiny",
        max_connections=in_flight,
        max_samples=in_flight,
        temperature=0.0,
        max_tokens=asked[0]["max_tokens"],
        log_dir=str(folder),
        display="none",
        **options,
    )
    assert log.status == "success", log.error
    assert log.results is not None
    assert log.results.completed_samples == len(bodies)


def with_lean_inspect(url: str, bodies: Bodies, in_flight: int, folder: Path) -> None:
    """Send the bodies as an Inspect task without scoring and without a log written while it runs."""
    off = {"score": False, "log_samples": False, "log_realtime": False, "log_model_api": False}
    with_inspect(url, bodies, in_flight, folder, ctl_server=False, **off)


def with_lm_eval(url: str, bodies: Bodies, in_flight: int, folder: Path) -> None:
    """Send the bodies as an lm-eval task: one message each, scored by exact match, samples kept."""
    import datasets
    import lm_eval

    asked = [json.loads(body) for body in bodies]
    texts = ["\n\n".join(message["content"] for message in body["messages"]) for body in asked]
    task = {
        "task": "tom",
        "custom_dataset": lambda **_: {"test": datasets.Dataset.from_dict({"text": texts})},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "text",
        "doc_to_target": "tea",
        "generation_kwargs": {"until": ["\n\n\n"], "max_gen_toks": asked[0]["max_tokens"], "temperature": 0},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }
    found = lm_eval.simple_evaluate(
        model="local-chat-completions",
        model_args={"model": "tiny", "base_url": f"{url}/chat/completions", "num_concurrent": in_flight},
        tasks=[task],
        apply_chat_template=True,
        bootstrap_iters=0,
    )
    assert len(found["samples"]["tom"]) == len(bodies)
    (folder / "results.json").write_text(json.dumps(found, default=str))


OURS = ("ours", "ours+progress", "ours+turns")
TURNS = {"ours+turns": 2}
"""How many requests a client sends for one item, where it is not one."""

CLIENTS: dict[str, Callable[..., Any]] = {
    "raw": raw,
    "bare": bare,
    "ours": ours,
    "ours+progress": with_progress,
    "ours+turns": with_turns,
    "httpx": with_httpx,
    "openai": with_openai,
    "lm-eval": with_lm_eval,
    "inspect-lean": with_lean_inspect,
    "inspect": with_inspect,
}


def items(count: int) -> list[Any]:
    """The first `count` items of the repeated dataset; each repetition has its own first sentence."""
    from tomserve.benchmarks import get

    base = list(get("perturbed").items())
    chosen = (base[number % len(base)] for number in range(count))
    return [
        item.model_copy(update={"id": f"{n}/{item.id}", "story": (f"Story {n}.", *item.story), "gold": None})
        for n, item in enumerate(chosen)
    ]


def peak() -> float:
    """The peak memory of this program so far, in MB."""
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(found.split()[1]) / 1024


def measure(name: str, url: str, bodies: Path, count: int, in_flight: int) -> dict[str, float]:
    """Run one client as the module describes; returns seconds of CPU, wall time and start-up, and peak memory in MB."""
    before = time.process_time()
    run: Callable[[Any], object] = asyncio.run
    if name in OURS:
        from tomserve.engine import transports

        run = transports.run_loop  # as the command line runs it
        before = time.process_time()
        material: list[Any] = items(count + in_flight)
    else:
        material = bodies.read_bytes().splitlines()[: count + in_flight]
    assert len(material) == count + in_flight
    reading = time.process_time() - before
    runs: list[tuple[float, float]] = []
    for size in (1, in_flight, count + in_flight):
        with tempfile.TemporaryDirectory() as scratch:
            gc.collect()  # or one of the three pays for what another left
            wall, cpu = time.perf_counter(), time.process_time()
            result = CLIENTS[name](url, material[:size], in_flight, Path(scratch))
            if asyncio.iscoroutine(result):
                run(result)
            runs.append((time.process_time() - cpu, time.perf_counter() - wall))
            if len(runs) == 1:
                started = time.process_time() - reading
    (few_cpu, few_wall), (all_cpu, all_wall) = runs[1:]
    cpu = all_cpu - few_cpu
    return {"cpu": cpu, "wall": all_wall - few_wall, "startup": started, "peak": peak()}


if __name__ == "__main__":
    _, _name, _url, _bodies, _count, _in_flight = sys.argv
    _found = measure(_name, _url, Path(_bodies), int(_count), int(_in_flight))
    print("\n" + json.dumps(_found))  # the last line: a harness may have printed before
