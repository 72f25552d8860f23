"""Hedged requests: where one endpoint is slow to answer, a second one is asked as well, and the first answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tomserve.engine.fleet import Fleet
from tomserve.engine.request import Request
from tomserve.engine.transport import Reply

Send = Callable[[str, Request], Awaitable[Reply]]
"""Sends a request to an endpoint and returns its reply."""


async def hedged(
    send: Send, fleet: Fleet, request: Request, avoid: str | None, near: str | None, late: float
) -> tuple[Reply, str]:
    """Send a request, and once more to another endpoint if the first takes too long; the slower one is cancelled.

    send: sends one copy. fleet: chooses the endpoints. avoid, near: what it is to consider (see Fleet.pick).
    late: seconds after which the second copy is sent. Returns the reply that counts with the endpoint that gave it: the
    first final reply, or the last one where none is final.
    """

    async def copy(endpoint: str) -> Reply:
        return await send(endpoint, request)

    first = fleet.pick(request, avoid, near)
    tasks = {asyncio.create_task(copy(first)): first}
    try:
        done, _ = await asyncio.wait(tasks, timeout=late)
        second = fleet.pick(request, first)
        if not done and second != first:
            tasks[asyncio.create_task(copy(second))] = second
        waiting = set(tasks)
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            good = [task for task in done if task.result().final]
            if good or not waiting:
                best = (good or list(done))[0]
                return best.result(), tasks[best]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
