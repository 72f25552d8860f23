"""Has a file of `tomserve export batch` answered through Ray Data, by servers that run already.

    tomserve export batch --benchmark perturbed --model my-model --run queued --out asked.jsonl
    python launch/ray/batch.py asked.jsonl answered.jsonl --url http://10.0.0.5:8000/v1 --workers 8
    tomserve import batch answered.jsonl --run queued

Ray Data reads the file in pieces, spreads them over the nodes of the cluster (RAY_ADDRESS, else one of this machine
alone), and hands back the results as they come; so a file may be larger than any node's memory. Every request gets a
line of results, also one that failed: what `tomserve import batch` does not find answered, the next export asks again.
The key is read on each node, from TOMSERVE_API_KEY or the file that TOMSERVE_API_KEY_FILE names, and goes nowhere else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from tomserve.engine.redact import Redactor
from tomserve.serving.keys import api_key

TRIES = 6
"""How often a request is sent before it counts as failed."""
AGAIN = (408, 429, 500, 502, 503, 504)
"""The statuses of a server that is busy or broken; any other is a reply."""
LARGEST = 1 << 26
"""Bytes of a reply; one that is longer counts as no JSON."""
FIRST_WAIT = 0.5
"""Seconds before the second try, doubled before each further one."""


class _Told:
    """What Ray Data sees of a reply: always one that it takes as it is, with the line of results in it."""

    status = 200
    reason = "OK"

    def __init__(self, line: bytes) -> None:
        self._line = line

    async def __aenter__(self) -> _Told:
        return self

    async def __aexit__(self, *raised: object) -> None:
        return None

    async def json(self) -> dict[str, str]:
        return {"result": self._line.decode()}


class Session:
    """Stands for the session of aiohttp that Ray Data's requests are sent by.

    Ray keeps rows in tables, in which the fields of one body would be filled up by those of another. So rows hold whole
    lines of the files, as texts, and bodies are made of them here.
    """

    def __init__(self) -> None:
        self._key = api_key()
        self._redact = Redactor(self._key)

    async def __aenter__(self) -> Session:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3600))
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._session.close()

    def post(self, url: str, *, headers: dict[str, str], data: str) -> asyncio.Task[_Told]:
        """Send the request of a line. data: the line, as a text in JSON."""
        return asyncio.get_running_loop().create_task(self._ask(url, headers, json.loads(data)))

    async def _ask(self, url: str, headers: dict[str, str], line: str) -> _Told:
        asked = orjson.loads(line)
        body = orjson.dumps(asked["body"])
        headers = {**headers, **({"Authorization": f"Bearer {self._key}"} if self._key else {})}
        result: dict[str, Any] = {"custom_id": asked["custom_id"], "response": None, "error": None}
        for number in range(TRIES):
            if number:
                await asyncio.sleep(FIRST_WAIT * 2 ** (number - 1))
            try:
                async with self._session.post(url, headers=headers, data=body, allow_redirects=False) as reply:
                    text = await reply.content.read(LARGEST)
                    while len(text) < LARGEST and (more := await reply.content.read(LARGEST - len(text))):
                        text += more
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                result["error"] = {"code": "connection", "message": type(error).__name__}
                continue
            try:
                told = self._redact.redact_json(orjson.loads(text))
            except orjson.JSONDecodeError:
                told = {"error": {"message": self._redact(text[:200].decode("utf-8", "replace"))}}
            result["response"], result["error"] = {"status_code": reply.status, "body": told}, None
            if reply.status not in AGAIN:
                break
        return _Told(orjson.dumps(result))


def answer(asked: Path, answered: Path, url: str, workers: int) -> int:
    """Have every request of a file answered, and write a line for each; returns how many.

    url: of the server, with its /v1. workers: how many processes send, each 64 requests at a time.
    """
    import ray
    from ray.data.llm import HttpRequestProcessorConfig, build_processor

    ray.init(log_to_driver=False, ignore_reinit_error=True)
    ray.data.DataContext.get_current().enable_progress_bars = False
    processor = build_processor(
        HttpRequestProcessorConfig(
            url=f"{url.rstrip('/')}/chat/completions",
            batch_size=64,
            concurrency=workers,
            session_factory=Session,
        ),
        preprocess=lambda row: {"payload": row["text"]},
        postprocess=lambda row: {"text": row["http_response"]["result"]},
    )
    number = 0
    with answered.open("xb") as file:
        for row in processor(ray.data.read_text(str(asked.resolve()))).iter_rows():
            file.write(row["text"].encode() + b"\n")
            number += 1
    return number


def main() -> None:
    """Read the command line, and have the file answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("asked", type=Path, help="file of requests, from `tomserve export batch`")
    parser.add_argument("answered", type=Path, help="file of results to write, which must not be there yet")
    parser.add_argument("--url", required=True, help="address of the server, with its /v1")
    parser.add_argument("--workers", type=int, default=1, help="processes that send, 64 requests each at a time")
    given = parser.parse_args()
    if given.answered.exists():
        parser.error(f"{given.answered}: is there already; name another file")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    print(f"{answer(given.asked, given.answered, given.url, given.workers)} results in {given.answered}")


if __name__ == "__main__":
    main()
