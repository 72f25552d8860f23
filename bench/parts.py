"""Measures where the client's time goes: the microseconds of each step that a request takes, for both strategies.

    python bench/parts.py

Every step runs over the whole dataset, one item after the other; the best of seven rounds counts. In a real run the
steps alternate with each other and with aiohttp and so lose their place in the processor's caches, which makes them
take about half as long again. bench/client.py measures the whole.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from _figures import figure

from tomserve.benchmarks import get
from tomserve.engine.endpoints import EndpointPool
from tomserve.engine.prompt_tokens import PrefixMeter
from tomserve.engine.records import build_row
from tomserve.engine.replies import read_reply
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import Journal

ROUNDS = 7
ANSWER = {
    "id": "chatcmpl-1",
    "model": "tiny",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": '{"answer":"tea"}'}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 350, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 256}},
}


def microseconds(part: Callable[[Any], object], over: Sequence[Any]) -> float:
    """Microseconds of one call of `part`, averaged over the items; the best of ROUNDS."""
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for value in over:
            part(value)
        found.append((time.perf_counter() - began) / len(over) * 1e6)
    return min(found)


def main() -> None:
    """Time every part of a request and print a line for each."""
    items = list(get("perturbed").items())
    raw = orjson.dumps(ANSWER)
    reply = read_reply(200, raw)
    print(f"{'part':44s} {'vanilla':>8s} {'cot':>8s}   microseconds a request")
    table: dict[str, list[float]] = {}
    for name in ("vanilla", "cot"):
        strategy, sampling, meter, pool = Strategy.load(name), Sampling(), PrefixMeter(), EndpointPool(["a"], 60)
        ordered = sorted(items, key=strategy.order)

        def build(item: Any, strategy: Strategy = strategy, sampling: Sampling = sampling) -> Request:
            identity = Identity(item.id, strategy.name, 0)
            return Request.build(identity, strategy.turn(item), model="tiny", revision=None, sampling=sampling)

        requests = [build(item) for item in ordered]
        turns = microseconds(strategy.turn, ordered)

        def steer(request: Request, pool: EndpointPool = pool) -> None:
            pool.note_sent(pool.pick(request), request.identity)
            pool.note_reply("a", reply, request.identity, pool.note_return("a", request.identity))

        with tempfile.TemporaryDirectory() as scratch:
            rows = [build_row(request, reply, "http://127.0.0.1:8000/v1", 1) for request in requests]
            times = []
            for number in range(ROUNDS):
                with Journal(Path(scratch) / f"{number}.jsonl") as journal:
                    began = time.perf_counter()
                    for row in rows:
                        journal.append(row)
                    times.append((time.perf_counter() - began) / len(rows) * 1e6)
                    known = microseconds(lambda r: r.identity in journal.final or journal.find("0" * 32), requests)
        parts = {
            "messages and schema": turns,
            "body and key": microseconds(build, ordered) - turns,
            "asked before? an equal prompt?": known,
            "prefix shared with the one before": microseconds(meter.share, requests),
            "endpoint, limits, pauses": microseconds(steer, requests),
            "reading the reply": microseconds(lambda _: read_reply(200, raw), requests),
            "the row": microseconds(lambda r: build_row(r, reply, "http://127.0.0.1:8000/v1", 1), requests),
            "journal: one line, one write, its index": statistics.median(times),
        }
        for part, cost in parts.items():
            table.setdefault(part, []).append(cost)
        table.setdefault("all", []).append(sum(parts.values()))
    for part, costs in table.items():
        for name, cost in zip(("vanilla", "cot"), costs, strict=True):
            figure(f"{part}, {name}", cost, unit="us", rounds=ROUNDS)
        print(f"{part:44s} " + " ".join(f"{cost:8.2f}" for cost in costs))


if __name__ == "__main__":
    main()
