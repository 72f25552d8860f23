"""The transports that a user can choose by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tomserve.engine.transport import Timeouts, Transport

HTTPTOOLS, AIOHTTP, OPENAI = "httptools", "aiohttp", "openai"
TRANSPORTS = (HTTPTOOLS, AIOHTTP, OPENAI)
"""Their names: each is that of the library which sends requests or reads replies."""

DEFAULT = HTTPTOOLS
"""The one that takes the least CPU time. Where its library cannot be imported, aiohttp does its work."""


def transport(name: str, api_key: str | None = None, timeouts: Timeouts | None = None) -> Transport:
    """Make the transport of a name. api_key: sent as a bearer token. timeouts: in seconds.

    Raises MachineError where the package openai is wanted and missing.
    """
    if name == OPENAI:
        from tomserve.engine.openai_transport import OpenAITransport

        return OpenAITransport(api_key, timeouts)
    if name == HTTPTOOLS:
        try:
            from tomserve.engine.httptools_transport import HttptoolsTransport
        except ImportError:  # no build of httptools for this machine
            pass
        else:
            return HttptoolsTransport(api_key, timeouts)
    from tomserve.engine.aiohttp_transport import AiohttpTransport

    return AiohttpTransport(api_key, timeouts)
