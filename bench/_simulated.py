"""A server that behaves like a language model under load: the batcher of bench/_batcher.py over HTTP.

    python bench/_simulated.py --port 0 --slots 48                         # prints its URL, then serves until SIGTERM
    python bench/_simulated.py --slots 16 --at '10 slots=64' --no-metrics  # four times the room after ten seconds
    curl -d '{"knee": 32, "schedule": [[10, {"slots": 16}]], "reset": true}' localhost:PORT/simulate

Paths: /v1/models, /v1/chat/completions, /health, /version, /metrics with the names and labels of vLLM 0.32, and
/simulate (GET: what happened since the last reset; POST: change any setting).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from collections import OrderedDict
from typing import Any

import orjson
from _batcher import Batcher, Schedule
from _batcher import Settings as Settings
from aiohttp import web

MODEL = "tiny"
ANSWER = '{"answer":"tea"}'
BLOCK = 64
"""Characters of a block of the prefix cache: 16 tokens of 4 characters, vLLM's default on GPUs."""

BLOCKS = 65536
"""Blocks that the prefix cache holds; the one not used for longest goes first."""

BUSY = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
METRICS = (
    ("num_requests_running", "gauge", "Number of requests in model execution batches.", ""),
    ("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", ""),
    ("num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.", ',reason="capacity"'),
    ("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", ""),
    ("prefix_cache_queries", "counter", "Prefix cache queries, in terms of number of queried tokens.", ""),
    ("prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens.", ""),
    ("num_preemptions", "counter", "Cumulative number of preemption from the engine.", ""),
)


class PrefixCache:
    """The blocks of prompts that were seen, each known by all text before it; the least recently used are dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, None] = OrderedDict()
        self.queries = self.hits = 0

    def ask(self, prompt: str) -> tuple[int, int]:
        """How many tokens a prompt has and how many of them are cached; remembers its blocks from now on."""
        found, chain, known = 0, 0, self._known
        hitting = True
        for start in range(0, len(prompt) - BLOCK, BLOCK):
            chain = hash((chain, prompt[start : start + BLOCK]))
            if chain in known:
                known.move_to_end(chain)
                found += hitting
            else:
                hitting = False
                known[chain] = None
        while len(known) > BLOCKS:
            known.popitem(last=False)
        tokens, cached = len(prompt) // 4 + 1, found * BLOCK // 4
        self.queries += tokens
        self.hits += cached
        return tokens, cached


def error(status: int, message: str, **headers: str) -> web.Response:
    """The body of an error, worded as vLLM words it."""
    kinds = {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError", 503: "Service Unavailable"}
    body = {"error": {"message": message, "type": kinds.get(status, "Error"), "param": None, "code": status}}
    return web.json_response(body, status=status, headers=headers)


class Simulated:
    """Answers HTTP requests out of a Batcher."""

    def __init__(self, batcher: Batcher) -> None:
        self.batcher, self.cache = batcher, PrefixCache()
        self._created = time.time()

    def app(self) -> web.Application:
        """The web application with all its routes."""
        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/simulate", self._report)
        app.router.add_post("/simulate", self._change)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.0.simulated"})

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": MODEL, "object": "model", "created": int(self._created), "owned_by": "vllm", "root": MODEL}
        return web.json_response({"object": "list", "data": [{**model, "max_model_len": 8192}]})

    async def _chat(self, request: web.Request) -> web.Response:
        try:
            body = orjson.loads(await request.read())
            model, prompt = body["model"], "\n".join(message["content"] for message in body["messages"])
        except (orjson.JSONDecodeError, KeyError, TypeError) as problem:
            return error(400, f"not a chat request: {problem!r}")
        if model != MODEL:
            return error(404, f"The model `{model}` does not exist.")
        job = self.batcher.enter()
        if isinstance(job, int):
            wait = self.batcher.settings.retry_after
            return error(job, BUSY, **({"Retry-After": f"{wait:g}"} if wait >= 0 else {}))
        tokens, cached = self.cache.ask(prompt)
        try:
            await job.done
        except asyncio.CancelledError:
            self.batcher.leave(job)
            raise
        made = max(1, round(job.work))
        reply = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": int(self._created),
            "model": model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": tokens,
                "completion_tokens": made,
                "total_tokens": tokens + made,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }
        return web.Response(body=orjson.dumps(reply), content_type="application/json")

    async def _metrics(self, _: web.Request) -> web.Response:
        batcher, settings = self.batcher, self.batcher.settings
        if not settings.metrics:
            return web.json_response({"detail": "Not Found"}, status=404)
        batcher.advance()
        values = {
            "num_requests_running": batcher.running,
            "num_requests_waiting": batcher.waiting,
            "num_requests_waiting_by_reason": batcher.waiting,
            "kv_cache_usage_perc": min(1.0, batcher.running / (settings.knee or 2 * settings.slots)),
            "prefix_cache_queries": self.cache.queries,
            "prefix_cache_hits": self.cache.hits,
            "num_preemptions": int(batcher.preemptions),
        }
        lines = []
        for name, kind, about, label in METRICS:
            labels = f'{{engine="0",model_name="{MODEL}"{label}}}'
            total = "_total" if kind == "counter" else ""
            for suffix, shown, value in ((total, kind, float(values[name])), ("_created", "gauge", self._created)):
                if suffix != "_created" or kind == "counter":
                    full = f"vllm:{name}{suffix}"
                    figure = repr(value) if value < 1e6 else f"{value:.12e}"
                    lines += [f"# HELP {full} {about}", f"# TYPE {full} {shown}", f"{full}{labels} {figure}"]
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body="\n".join([*lines, ""]).encode(), headers=headers)

    async def _report(self, _: web.Request) -> web.Response:
        return web.json_response(self.batcher.report())

    async def _change(self, request: web.Request) -> web.Response:
        try:
            changes = orjson.loads(await request.read())
            schedule, reset = changes.pop("schedule", None), changes.pop("reset", False)
            checked = None if schedule is None else check(schedule, self.batcher.settings.changed(changes))
            self.batcher.change(changes)
        except (AttributeError, TypeError, ValueError) as problem:
            return error(400, str(problem))
        if checked is not None:
            self.batcher.schedule = checked
        if reset:
            self.batcher.reset()
        return web.json_response(self.batcher.report())


def check(schedule: Any, settings: Settings) -> Schedule:
    """The schedule that JSON [[seconds, {name: value}], ...] describes, by time. Raises TypeError, ValueError."""
    found = sorted(((float(at), dict(changes)) for at, changes in schedule), key=lambda entry: entry[0])
    for _, changes in found:
        settings.changed(changes)
    return found


def scheduled(text: str) -> tuple[float, dict[str, Any]]:
    """The change that a text such as '10 slots=64 base=0.01' describes, as seconds and settings."""
    at, *pairs = text.split()
    return float(at), {name: orjson.loads(value) for name, _, value in (pair.partition("=") for pair in pairs)}


async def serve(settings: Settings, schedule: Schedule, host: str, port: int, with_parent: bool) -> None:
    """Print the URL and serve until SIGTERM or SIGINT or, where `with_parent`, until the parent process has ended."""
    stop, parent = asyncio.Event(), os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    app = Simulated(Batcher(settings, check(schedule, settings))).app()
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2, keepalive_timeout=3600.0
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=2048).start()
    print(f"http://{host}:{runner.addresses[0][1]}/v1", flush=True)
    while not stop.is_set() and not (with_parent and os.getppid() != parent):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
    await runner.cleanup()


def main() -> None:
    """Read the settings from the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--with-parent", action="store_true", help="end when the process that started this ends")
    parser.add_argument("--at", type=scheduled, action="append", default=[], metavar="'SECONDS NAME=VALUE ...'")
    for entry in dataclasses.fields(Settings):
        name = f"--{entry.name.replace('_', '-')}"
        if isinstance(entry.default, bool):
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=entry.default)
        else:
            parser.add_argument(name, type=type(entry.default), default=entry.default, help=f"{entry.default}")
    chosen = parser.parse_args()
    values = {entry.name: getattr(chosen, entry.name) for entry in dataclasses.fields(Settings)}
    try:
        settings = Settings().changed(values)
        check(chosen.at, settings)
    except ValueError as problem:
        parser.error(str(problem))
    asyncio.run(serve(settings, chosen.at, chosen.host, chosen.port, chosen.with_parent))


if __name__ == "__main__":
    main()
