"""The headers of every response, and which addresses the workbench answers under."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from tomserve.engine.network import is_loopback
from tomserve.web.settings import Settings

POLICY = "; ".join(
    (
        "default-src 'none'",
        *("script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'", "font-src 'none'"),
        *("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"),
    )
)
"""The content security policy: nothing from elsewhere, and no script or style that stands in a page."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "x-robots-tag": "noindex, nofollow",
}

KEPT = "public, max-age=31536000, immutable"
"""How long a browser keeps a file that is asked for with its version."""

STATIC = "/static/"


def lacking(path: str, query: bytes, sent: set[bytes]) -> list[tuple[bytes, bytes]]:
    """The headers that a response to a request for that path has to be given. sent: the names of those it has."""
    kept = KEPT if path.startswith(STATIC) and query.startswith(b"v=") else "no-store"
    wanted = {**HEADERS, "cache-control": kept}
    return [(name.encode(), value.encode()) for name, value in wanted.items() if name.encode() not in sent]


def known_host(host: str, settings: Settings) -> bool:
    """Whether a request was meant for this workbench: its `Host` is one of our names.

    A page of a stranger may have its own name point to this machine, and would then be taken for ours; it cannot do so
    with a number, or with `localhost`. Any port will do, since a tunnel may end at another one.
    """
    name = urlsplit(f"//{host}").hostname if _looks_right(host) else None
    if not name:
        return False
    if is_loopback(name):
        return True
    if settings.proxy and name == urlsplit(settings.proxy).hostname:
        return True
    if is_loopback(settings.host):
        return False
    return _number(name) or name in _names(settings.host)


def known_origin(origin: str, host: str, settings: Settings) -> bool:
    """Whether the page that sends a form is one of ours. origin: of the page. host: that the request was sent to."""
    parts = origin.split("://", 1)
    if len(parts) == 2 and parts[0] in ("http", "https") and parts[1] == host:
        return True
    return bool(settings.proxy) and origin == settings.proxy


def _looks_right(host: str) -> bool:
    try:
        parts = urlsplit(f"//{host}")
        return parts.port != 0 and not parts.username and not parts.path and not parts.query and "#" not in host
    except ValueError:
        return False


def _number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _names(host: str) -> set[str]:
    own = socket.gethostname().lower()
    return {host.lower(), own, own.split(".")[0]}
