"""The work that bench/instructions.py counts, in processes whose instructions valgrind counts one by one.

    valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=FOLDER/%p python bench/_counted.py FOLDER WORK ...

Every piece of work runs in a process forked from one that has imported and warmed what it needs; just before it, a
process is forked that does nothing. Both inherit the count of all that went before, so that their difference is the
work alone. FOLDER/pieces gets a line of JSON a process: its id, and what it did. WORK is name=size.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

REPLY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"tiny","choices":[{"index":0,"message":{"role":'
    b'"assistant","content":"{\\"answer\\":\\"tea\\"}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":350,'
    b'"completion_tokens":9,"total_tokens":359,"prompt_tokens_details":null}}'
)
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(REPLY), REPLY)
IN_FLIGHT = 64
PROSE = "They put it there themselves and saw nobody move it, so I would say: the answer is %s. (Case %d.)"


class Fixed(asyncio.Transport):
    """A connection within this process: each request is answered at once by the same bytes."""

    def __init__(self, protocol: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._protocol, self._loop, self._closing = protocol, loop, False

    def write(self, data: Any) -> None:
        """Answer; a request comes in one piece."""
        self._loop.call_soon(self._protocol.data_received, RESPONSE)

    def writelines(self, list_of_data: Any) -> None:
        """Answer, too."""
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._closing

    def close(self) -> None:
        """End the connection."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        """Go on: what is to be read is there already."""

    def resume_reading(self) -> None:
        """Go on, too."""


class Loop(asyncio.SelectorEventLoop):
    """A loop whose connections are Fixed, so that what is counted does not depend on when the system's network acts."""

    async def create_connection(self, protocol_factory: Any, *_: Any, sock: Any = None, **__: Any) -> Any:
        """Return a Fixed transport and its protocol; the socket, if any, is closed."""
        if sock is not None:
            sock.close()
        protocol = protocol_factory()
        transport = Fixed(protocol, self)
        protocol.connection_made(transport)
        return transport, protocol

    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        """This machine's address, without a thread."""
        import socket

        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", _port()))]


_listener: Any = None


def _port() -> int:
    """A port that accepts connections, which nobody answers."""
    global _listener
    if _listener is None:
        import socket

        _listener = socket.create_server(("127.0.0.1", 0), backlog=4 * IN_FLIGHT)
    return int(_listener.getsockname()[1])


def floor(size: int) -> None:
    """What does not change with tomserve: so many rounds of interpreter, JSON, hashing, searching and a task switch.

    A figure is a ratio to this, counted in the same run, so that it depends little on how Python was built.
    """

    class Point:
        __slots__ = ("label", "seen")

        def __init__(self, label: str) -> None:
            self.label, self.seen = label, 0

        def note(self, word: str) -> bool:
            self.seen += word == self.label
            return self.seen > 0

    pattern = re.compile(r"\b(jar|box|cup)\b")
    story = [f"Person {number} puts the key into the box, looks around and leaves." for number in range(12)]

    async def once(number: int) -> int:
        point = Point("box")
        words = [word for line in story for word in line.split() if point.note(word.strip(".,"))]
        body = json.dumps({"number": number, "story": story, "labels": sorted(set(words))}).encode()
        await asyncio.sleep(0)
        found = json.loads(body)
        counts: dict[str, int] = {}
        for line in found["story"]:
            for match in pattern.finditer(line):
                counts[match[1]] = counts.get(match[1], 0) + 1
        return len(hashlib.blake2b(body).hexdigest()) + counts["box"]

    async def every() -> None:
        for number in range(size):
            await once(number)

    asyncio.run(every())


@cache
def _items() -> list[Any]:
    """The questions of the example run, read before a process is forked that uses them."""
    import tomserve

    return list(tomserve.read_items(Path(__file__).parents[1] / "runs/example/items.jsonl"))


def client(size: int) -> None:
    """Ask so many questions as an evaluation does: prompt, key, HTTP, validation, one row in the journal."""
    from tomserve.engine.httptools_transport import HttptoolsTransport
    from tomserve.engine.request import Identity, Request, Sampling
    from tomserve.engine.runner import Runner
    from tomserve.prompting.strategy import Strategy
    from tomserve.runs.journal import Journal

    base = _items()
    items = []
    for number in range(size):
        item = base[number % len(base)]
        story = (f"Story {number // len(base)}.", *item.story)  # no prompt comes twice
        items.append(item.model_copy(update={"id": f"{number}", "story": story, "gold": None}))
    strategy, sampling = Strategy.load("cot"), Sampling()
    requests = (
        Request.build(Identity(item.id, "cot", 0), strategy.turn(item), model="tiny", revision=None, sampling=sampling)
        for item in items
    )

    async def ask(folder: Path) -> None:
        transport = HttptoolsTransport()
        with Journal(folder / "responses.jsonl") as journal:
            await Runner([f"http://127.0.0.1:{_port()}/v1"], transport, journal, concurrency=IN_FLIGHT).run(requests)
            assert len(journal.final) == size, journal.failed
        await transport.close()

    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(ask(Path(folder)))


@cache
def _responses(size: int) -> list[dict[str, Any]]:
    """So many responses: half of them with a chain of beliefs, a quarter an object, a quarter prose."""
    import random

    noise, base = random.Random(0), _items()
    rows: list[dict[str, Any]] = []
    for number in range(size):
        item = base[number % len(base)]
        answer = noise.choice(item.choices)
        row = {"item": item.id, "strategy": ("cot", "vanilla")[number % 2], "model": f"m{number // len(base)}"}
        text = json.dumps({"answer": answer}) if number % 4 == 1 else PROSE % (answer, number)
        if number % 2 == 0:
            assert item.gold is not None
            chain = [noise.choice(item.choices) if noise.random() < 0.3 else belief
                     for belief in next(item.gold.automaton().chains())]  # fmt: skip
            beliefs = [{"sentence": place, "belief": belief} for place, belief in enumerate(chain, 1)]
            text = json.dumps({"beliefs": beliefs, "answer": answer})
        rows.append(row | {"text": text})
    return rows


def scoring(size: int) -> None:
    """Score so many responses into a table."""
    import tomserve

    assert tomserve.score(_responses(size), _items()).height == size


def start(size: int) -> None:
    """Start `tomserve eval` of so many questions of the first edition up to its first question, with every import; the
    server is bench/instructions.py."""
    import tomserve.engine.runner
    from tomserve.cli import main

    async def run(self: Any, requests: Any) -> bool:
        next(iter(requests))
        os._exit(0)

    tomserve.engine.runner.Runner.run = run  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TOMSERVE_RUNS"] = folder
        sys.argv = ["tomserve", "eval", "--base-url", os.environ["COUNTED_URL"], "--quiet", "--no-report"]
        sys.argv += ["--benchmark", "perturbed", "--limit", str(size)]
        main()
    raise SystemExit("no question was asked")


WORK: dict[str, Callable[[int], None]] = {f.__name__: f for f in (floor, start, client, scoring)}
COLD = ("start",)
"""Work of which imports are a part: it is forked before anything is imported."""


def _ready(size: int) -> None:
    """Import what scoring needs, and start none of the threads of Polars, which a fork would not have."""
    import tomserve.workflows.results  # noqa: F401

    _responses(size)


WARM: dict[str, Callable[[int], None]] = {
    "floor": lambda size: floor(4),
    "client": lambda size: client(2 * IN_FLIGHT),
    "scoring": _ready,
}
"""What is done, before work is forked, so that it is no part of it."""


def main(folder: Path, pieces: list[str]) -> None:
    """Do every piece of work in a process of its own, one after the other; those with imports first."""
    for piece in sorted(pieces, key=lambda piece: piece.split("=")[0] not in COLD):
        name, size = piece.split("=")
        if name not in COLD:
            WARM[name](int(size))
        forked(folder, {"piece": piece, "empty": True}, None)
        forked(folder, {"piece": piece, "empty": False}, lambda name=name, size=size: WORK[name](int(size)))  # type: ignore[misc]


def forked(folder: Path, what: dict[str, Any], work: Callable[[], None] | None) -> None:
    """Run the work in a fork of this process and wait for it; a failure ends this process, too."""
    if (child := os.fork()) == 0:
        try:
            if work is not None:
                work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit(f"{what['piece']} failed")
    with (folder / "pieces").open("a") as file:
        file.write(json.dumps({"pid": child, **what}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
