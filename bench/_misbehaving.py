"""A server that misbehaves in every way that bench/soak.py knows, as a process of its own; every answer follows from
its question.

    python bench/_misbehaving.py STATE.json

STATE.json says where it listens, which key it wants and what it tells of its model; the server reads it once. Every
question holds a tag (see `tagged`), and its answer holds the same tag, so that an answer that reaches another question
is seen. Of each whole answer that was sent in time, one line (`tag/turn`) is appended to a file at once, so that it is
known what was answered more often than once although this process is killed, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import random
import re
import sys
import time
import zlib
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any, cast

import httptools
import orjson

MODEL = "soak"
CHOICES = ("tea", "salt")
_TAG = re.compile(rb"the jar number (\d+)q\b")
_TURN = re.compile(rb"^Turn (\d)\. (?:part (\d))?")
SILENT = 60.0
"""Seconds for which a silent connection is held open at most: longer than the client waits."""

OFFENCES = (
    "reset",
    "end",
    "half a head",
    "half a body, end",
    "half a body, reset",
    "answer, end",
    "error",
    "drip",
    "silence",
    "too short",
    "too long",
    "gzip",
    "broken gzip",
    "no HTTP",
    "HTML",
    "no completion",
    "empty",
    "broken chunks",
    "endless numbers",
    "twice",
    "another's answer, too",
    "to be continued",
    "small chunks",
    "late",
)
"""What may happen to a single request; some of these are unusual and right, such as an answer in small chunks."""

ECHOES = ("error", "headers", "content", "reason")
"""Where the server may repeat the key that it was sent."""


def tagged(number: int) -> str:
    """What the text of a question has to hold, so that its answer can be told from all others."""
    return f"the jar number {number}q"


def choice(number: int, turn: int) -> str:
    """The right answer to a turn of a question: one that no other question has."""
    return f"{CHOICES[zlib.crc32(b'%d/%d' % (number, turn)) % 2]} {number}"


def text_of(number: int, turn: int) -> str:
    """The text with which the server answers a turn of a question."""
    return json.dumps({"answer": choice(number, turn)}, separators=(",", ":"))


def mark_of(number: int, turn: int) -> str:
    """What the server says as its reasoning: which question and turn it took this for."""
    return f"q{number}/{turn}"


def place_of(message: bytes) -> tuple[int, int]:
    """The number and the turn of the question that a message asks."""
    found = _TAG.findall(message)
    if not found:
        return -1, 0
    told = _TURN.match(message)
    if told is None:
        return int(found[-1]), 0
    kind, part = int(told[1]), told[2]
    turn = kind - 1 if part is None and kind < 3 else 6 if part is None else 1 + int(part)
    return int(found[-1]), turn


class Weather:
    """What holds for all connections at once, for some seconds: calm, a storm of 429, loading, a model that is gone."""

    def __init__(self, rng: random.Random, often: float) -> None:
        """often: seconds of calm between two storms, in the mean."""
        self._rng, self._often = rng, often
        self._kind, self._until = "calm", time.monotonic() + often / 25

    def now(self) -> str:
        """The weather of this moment."""
        moment = time.monotonic()
        if moment >= self._until:
            stormy = self._kind == "calm"
            self._kind = self._rng.choice(("storm", "loading", "gone", "freeze")) if stormy else "calm"
            lasts = self._rng.uniform(0.3, 1.5) if stormy else self._rng.uniform(0.2, 1.8) * self._often
            self._until = moment + lasts
        return self._kind


class State:
    """What all connections of the server share. told: the content of STATE.json."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told, self.key = told, str(told["key"])
        self.rng = random.Random(f"{told['seed']} {os.getpid()} {time.time_ns()}")
        self.weather = Weather(self.rng, told["storms"])
        self.log = os.open(told["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.echoes = tuple(told["echoes"])
        self.last = b""
        self.tasks: set[asyncio.Task[None]] = set()

    def answer(self, number: int, turn: int, body: dict[str, Any]) -> bytes:
        """A whole chat completion as JSON."""
        reasoning, finish = mark_of(number, turn), "stop"
        if self.rng.random() < 0.01:
            reasoning += f" and your key is {self.key}" if "content" in self.echoes else ""
        if self.rng.random() < 0.003 and "reason" in self.echoes:
            finish = f"stop {self.key}"
        message = {"role": "assistant", "content": text_of(number, turn), "reasoning": reasoning}
        usage = {"prompt_tokens": 300, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 256}}
        choices = [{"index": 0, "message": message, "finish_reason": finish}]
        return orjson.dumps({"id": "1", "object": "chat.completion", "model": body.get("model"), "choices": choices,
                             "usage": usage})  # fmt: skip

    def error(self, text: str) -> bytes:
        """An error as vLLM shapes it, which may repeat the key."""
        told = f" (you sent Authorization: Bearer {self.key})" if "error" in self.echoes else ""
        return orjson.dumps({"error": {"message": text + told, "type": "soak", "code": None}})

    def note(self, number: int, turn: int) -> None:
        """Note that a whole answer was sent."""
        if number >= 0:
            os.write(self.log, b"%d/%d\n" % (number, turn))


class Peer(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._authorised, self._body = b"", False, [b""]
        self._wire: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._wire = cast("asyncio.Transport", transport)  # uvloop's own is registered as none of asyncio's

    def connection_lost(self, error: Exception | None) -> None:
        """The client has gone."""
        self._wire = None

    def data_received(self, data: bytes) -> None:
        """Read a piece of a request."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._reset()

    def on_url(self, url: bytes) -> None:
        """The path of the request."""
        self._url, self._authorised, self._body = url, False, []

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the request."""
        if name.lower() == b"authorization":
            self._authorised = value == f"Bearer {self.state.key}".encode()

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is whole: answer it, in one way or another."""
        task = asyncio.ensure_future(self._answer(self._url, b"".join(self._body), self._authorised))
        self.state.tasks.add(task)  # the loop itself would forget it
        task.add_done_callback(self.state.tasks.discard)

    async def _answer(self, url: bytes, raw: bytes, authorised: bool) -> None:
        state, path = self.state, url.split(b"?")[0]
        weather = state.weather.now()
        if not authorised and path.startswith(b"/v1/"):
            return self._say(401, state.error("no such key"))
        if weather == "freeze":
            await asyncio.sleep(0.5)
        if path == b"/v1/chat/completions":
            return await self._chat(raw, weather)
        model = {"id": MODEL, "object": "model", "max_model_len": 32768, "root": state.told["root"]}
        pages: dict[bytes, dict[str, Any]] = {
            b"/v1/models": {"object": "list", "data": [] if weather == "gone" else [model]},
            b"/version": {"version": state.told["version"]},
            b"/tokenize": {"count": 300},
            b"/health": {},
        }
        if weather == "loading":
            return self._say(503, state.error("the model is loading"), "Retry-After: 1\r\n")
        if path not in pages:
            return self._say(404, state.error("not found"))
        return self._say(200, orjson.dumps(pages[path]))

    async def _chat(self, raw: bytes, weather: str) -> None:
        state, rng = self.state, self.state.rng
        body = orjson.loads(raw)
        message = body["messages"][-1]["content"].encode()
        number, turn = place_of(message)
        if number < 0:  # a question of the checks before the run
            return self._say(200, state.answer(number, turn, body))
        alone = rng.random() < state.told["refusals"]  # each makes the client pause, so there are few of these
        if alone or (weather in ("storm", "loading", "gone") and rng.random() < 0.8):
            if weather == "storm" or alone:
                return self._say(429, state.error("too many requests"), self._later())
            return self._say(503, state.error("the model is loading"), self._later() if rng.random() < 0.5 else "")
        if state.told["delay"]:
            await asyncio.sleep(state.told["delay"] * rng.uniform(0.2, 1.8))
        if turn and not _told(message, number, turn):  # the turn before was answered otherwise than this client says
            return self._say(200, orjson.dumps({"choices": [{"message": {"content": "A SWAPPED TURN"}}]}))
        answer = state.answer(number, turn, body)
        if rng.random() >= state.told["offences"]:
            self._whole(answer, number, turn)
        else:
            await self._offend(rng.choice(state.told["kinds"]), answer, (number, turn))
        state.last = answer
        return None

    def _later(self) -> str:
        rng = self.state.rng
        kind = rng.random()
        if kind < 0.2:
            return f"Retry-After: {formatdate(time.time() + 1, usegmt=True)}\r\n"
        return "Retry-After: " + ("soon" if kind < 0.3 else "0" if kind < 0.5 else "1") + "\r\n"

    async def _offend(self, offence: str, answer: bytes, place: tuple[int, int]) -> None:
        """Answer in the way of that offence."""
        state, rng = self.state, self.state.rng
        head = _head(200, len(answer))
        half = answer[: rng.randrange(1, len(answer))]
        simple: dict[str, Callable[[], None]] = {
            "reset": self._reset,
            "end": self._end,
            "half a head": lambda: self._cut(head[: rng.randrange(1, len(head) - 4)]),
            "half a body, end": lambda: self._cut(head + half),
            "half a body, reset": lambda: self._cut(head + half, self._reset),
            "answer, end": lambda: self._whole(answer, *place, ends=True),
            "error": lambda: self._say(rng.choice((500, 502, 504, 520, 408)), state.error("something broke")),
            "too short": lambda: self._write(_head(200, len(answer) - 7) + answer),
            "too long": lambda: self._cut(_head(200, len(answer) + 7) + answer),
            "broken gzip": lambda: self._say(200, gzip.compress(answer)[:-9], "Content-Encoding: gzip\r\n"),
            "no HTTP": lambda: self._cut(rng.randbytes(200)),
            "HTML": lambda: self._say(200, f"<html>{state.key if 'error' in state.echoes else ''}</html>".encode()),
            "no completion": lambda: self._say(200, state.error("as you like it")),
            "empty": lambda: self._say(200, b""),
            "endless numbers": lambda: self._say(200, b'{"choices": ' + b"[" * 3000 + b"1e999" + b"]" * 3000 + b"}"),
            "twice": lambda: self._whole(answer, *place, after=_head(200, len(answer)) + answer),
            "another's answer, too": lambda: self._whole(
                answer, *place, after=_head(200, len(state.last or answer)) + (state.last or answer)
            ),
        }
        if offence in simple:
            return simple[offence]()
        if offence == "silence":
            await asyncio.sleep(SILENT)
            return self._reset()
        if offence == "late":
            await asyncio.sleep(rng.uniform(0.5, 2.0))
            return self._whole(answer, *place)
        if offence == "gzip":
            packed = gzip.compress(answer, 1)
            return self._whole(packed, *place, more="Content-Encoding: gzip\r\n")
        if offence == "to be continued":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
            return self._whole(answer, *place)
        return await self._in_pieces(offence, answer, place)

    async def _in_pieces(self, offence: str, answer: bytes, place: tuple[int, int]) -> None:
        """Send an answer slowly, or in chunks, which may be broken."""
        if offence == "drip":
            self._write(_head(200, len(answer)))
            for start in range(0, len(answer), 40):
                await asyncio.sleep(0.15)
                self._write(answer[start : start + 40])
        else:
            self._write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in range(0, len(answer), 97):
                piece = answer[start : start + 97]
                self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await asyncio.sleep(0.001)
                if offence == "broken chunks" and start:
                    break
            self._write(b"zz\r\n" if offence == "broken chunks" else b"0\r\n\r\n")
            if offence == "broken chunks":
                return self._end()
        if self._wire is not None and not self._wire.is_closing():
            self.state.note(*place)
        return None

    def _whole(
        self, answer: bytes, number: int, turn: int, *, more: str = "", after: bytes = b"", ends: bool = False
    ) -> None:
        """Send a whole answer, and note it where somebody is there to receive it."""
        if self._wire is not None and not self._wire.is_closing():
            self._write(_head(200, len(answer), more) + answer + after)
            self.state.note(number, turn)
        if ends:
            self._end()

    def _cut(self, data: bytes, by: Callable[[], None] | None = None) -> None:
        """Send something and end the connection then."""
        self._write(data)
        (by or self._end)()

    def _say(self, code: int, content: bytes, more: str = "") -> None:
        if "headers" in self.state.echoes and code != 200:
            more += f"X-Echo: Bearer {self.state.key}\r\nServer: {self.state.key}\r\n"
        self._write(_head(code, len(content), more) + content)

    def _write(self, data: bytes) -> None:
        if self._wire is not None and not self._wire.is_closing():
            self._wire.write(data)

    def _reset(self) -> None:
        if self._wire is not None:
            self._wire.abort()

    def _end(self) -> None:
        if self._wire is not None:
            self._wire.close()


def _head(code: int, length: int, more: str = "") -> bytes:
    return f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n".encode()


def _told(message: bytes, number: int, turn: int) -> bool:
    """Whether the turn of a conversation repeats what the server itself answered in the turns before."""
    before = range(1, 6) if turn == 6 else (0,)
    return all(json.dumps(choice(number, one)).encode()[1:-1] in message for one in before)


async def serve(told: dict[str, Any]) -> None:
    """Listen until killed."""
    loop, state = asyncio.get_running_loop(), State(told)
    server = await loop.create_server(lambda: Peer(state), "127.0.0.1", told["port"], reuse_address=True, backlog=512)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve as the file says that is named on the command line."""
    told = orjson.loads(Path(sys.argv[1]).read_bytes())
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve(told))


if __name__ == "__main__":
    main()
