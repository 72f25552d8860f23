"""Whether the server is still the same while a run goes on: it may be started anew, with another model of that name.

A server of vLLM repeats the name that was asked for in its replies, so they cannot tell. It is asked for its root,
version and context now and then, and once at the end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tomserve.errors import ServerError
from tomserve.serving import identity
from tomserve.serving.target import combined, told_by

EVERY = 15.0
"""Seconds between two looks; what another server answered in between is kept, and the error says so."""

PATIENCE = 5.0
"""Seconds for an answer; a server that is too busy, or away for a while, is looked at the next time."""


class Vigil:
    """`told`: what the endpoints said at first. note: called with every change before it raises, or is accepted.
    portable: how what is said now is brought into the form of `told`."""

    def __init__(
        self,
        endpoints: Sequence[str],
        model: str,
        told: Mapping[str, Any],
        note: Callable[[identity.Change], None],
        *,
        accepted: bool,
        portable: Callable[[Any], Any],
    ) -> None:
        self.endpoints, self.model, self.told = endpoints, model, dict(told)
        self._note, self._accepted, self._portable = note, accepted, portable

    @property
    def useful(self) -> bool:
        """Whether the endpoints said anything that could change; hosted providers are not asked in vain."""
        return any(self.told.get(name) is not None for name in ("root", "engine_version", "max_model_len"))

    async def keep(self) -> None:
        """Look every EVERY seconds until cancelled. Raises ServerError as `look` does."""
        while True:
            await asyncio.sleep(EVERY)
            await self.look()

    async def look(self) -> None:
        """Look once. Raises ServerError where the server has changed and that is not accepted."""
        now = await _in_thread(self._asked)
        found = identity.changes(self.told, now)
        for change in found:
            self.told[change["what"]] = identity.both(change["before"], change["now"])
            self._note(change)
        if found and not self._accepted:
            raise ServerError(
                f"{', '.join(self.endpoints)}: another server answers since the last {EVERY:.0f} s or less: "
                f"{'; '.join(map(identity.said, found))}; what was answered is kept, the last of it perhaps by the "
                "other: use --run NEW (make: RUN=NEW), or go on by --accept-change; the manifest records it"
            )

    def _asked(self) -> dict[str, Any]:
        """What those endpoints say that answer now."""
        told = []
        for endpoint in self.endpoints:
            try:
                told.append(told_by(endpoint, [self.model], PATIENCE))
            except ServerError:
                continue
        now = combined(told)
        if len(told) < len(self.endpoints):
            del now["max_model_len"]  # the shortest of them all may be away
        return dict(self._portable(now))


async def _in_thread(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of `work`, done in a thread that nobody waits for at the end of the program."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[dict[str, Any]] = loop.create_future()

    def settle(found: dict[str, Any]) -> None:
        if not future.done():
            future.set_result(found)

    def run() -> None:
        try:
            found = work()
        except Exception:  # a look that fails in a way of its own must not end the run
            found = {}
        try:
            loop.call_soon_threadsafe(settle, found)
        except RuntimeError:  # the loop is closed: the run is over
            return

    threading.Thread(target=run, daemon=True).start()
    return await future
