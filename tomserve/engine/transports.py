"""The transports that a user can choose by name, the event loop (uvloop or asyncio) and the number of connections
that a process can hold.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

    from tomserve.engine.transport import Timeouts, Transport


DEFAULT = "httptools"  # it takes the least CPU time
TRANSPORTS = (DEFAULT, "openai")  # their names: each is that of the library which sends requests or reads replies


def make_transport(
    name: str, api_key: str | None = None, timeouts: Timeouts | None = None, headers: Mapping[str, str] | None = None
) -> Transport:
    """Make the transport of a name; the API key is sent as a bearer token, and further headers with every request.
    Raises MachineError where the package openai is wanted and missing."""
    if name == "openai":
        from tomserve.engine.openai_transport import OpenAITransport

        return OpenAITransport(api_key, timeouts, headers)
    from tomserve.engine.httptools_transport import HttptoolsTransport

    return HttptoolsTransport(api_key, timeouts, headers)


T = TypeVar("T")


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a loop of its own, as asyncio.run does, and return what it returns."""
    import asyncio  # half of the imports of `tomserve --help`

    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):  # without uvloop, as on Windows, asyncio's own loop is used
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


SPARE = 128  # how many of the open files that the system allows are kept for other things than connections


def limit_in_flight(wanted: int, endpoints: int = 1) -> int:
    """How many requests may be in flight at each of so many endpoints, at most `wanted` and at least 1. Where it takes
    more open files than the process may have, its limit is raised as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = endpoints * wanted + SPARE
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError):  # a sandbox may forbid it, or the kernel has a limit of its own
            pass
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, (soft - SPARE) // endpoints))
