"""Requests, and a run of the engine over them, for tests of the engine and of what it writes."""

import asyncio
from collections.abc import Iterable
from typing import Any

from aiohttp import web
from tenacity import wait_none

from tests.conftest import Endpoint
from tomserve.engine.httptools_transport import HttptoolsTransport
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.engine.retry import RetryPolicy
from tomserve.engine.runner import Runner
from tomserve.engine.transport import Timeouts
from tomserve.prompting.conversation import Turn
from tomserve.runs.journal import Journal, read_rows

SCHEMA = {"type": "object", "properties": {"answer": {"enum": ["tea", "salt"]}}}


FAST = RetryPolicy(attempts=3, wait=wait_none(), lost_after=0.5)


def request(number: int, text: str | None = None) -> Request:
    turn = Turn(({"role": "user", "content": text or f"question {number}"},), SCHEMA, 16)
    return Request.build(Identity(f"i{number}", "vanilla", 0), turn, model="tiny", revision=None, sampling=Sampling())


def ask(
    endpoint: Endpoint,
    journal: Journal,
    requests: Iterable[Request],
    *,
    policy: RetryPolicy = FAST,
    concurrency: int | None = 4,
    timeout: float = 60.0,
    **options: Any,
) -> bool:
    """Run requests through a real transport; True when all was asked."""

    async def go() -> bool:
        transport = HttptoolsTransport(endpoint.key, Timeouts(total=timeout))
        urls = options.pop("endpoints", [endpoint.url])
        runner = Runner(urls, transport, journal, concurrency=concurrency, policy=policy, **options)
        try:
            return await runner.run(requests)
        finally:
            await transport.close()

    return asyncio.run(go())


def rows(journal: Journal) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(journal.path)]


def page(code: int, text: str = "{}", kind: str = "application/json") -> web.Response:
    return web.Response(status=code, text=text, content_type=kind)


def row(item: str, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"item": item, "strategy": "s", "turn": 0, "key": f"k-{item}", "status": status, **more}
