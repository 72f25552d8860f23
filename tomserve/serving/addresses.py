"""Reads the address of an endpoint as a user writes it, and shows addresses without what may be secret in them.

>>> normalize("localhost:8000"), normalize("https://host/v1/chat/completions")
('http://localhost:8000/v1', 'https://host/v1')
>>> shown("http://user:secret@host:99999/v1?key=secret")
'http://***@host:99999/v1'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from tomserve.engine.network import is_this_machine
from tomserve.errors import ConfigError

_PLACE = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,9})?", re.ASCII)
"""A host and a port, which may be one that there cannot be."""
_HARMLESS = re.compile(r"[\w./~-]*", re.ASCII)
_LONGEST = 200


def normalize(url: str) -> str:
    """The endpoint that a base URL stands for: with its scheme, without a trailing slash, with a path.

    The scheme is http unless given, and the path ``/v1``. Raises ConfigError where the URL is no http address, or
    holds a user name, a password or a query.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port, host = parts.port, (parts.hostname or "").encode("idna")
    except (ValueError, UnicodeError):
        port, host, parts = 0, b"", urlsplit("")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"the base URL {shown(url)!r} holds a user name, a password or a query; a key belongs into "
            "TOMSERVE_API_KEY, not there"
        )
    usable = host and port != 0 and parts.scheme in ("http", "https") and url.isprintable() and " " not in url.strip()
    if not usable:
        raise ConfigError(
            f"the base URL {shown(url)!r} is no address of a server; expected one such as http://host:8000/v1"
        )
    path = quote(parts.path.rstrip("/").removesuffix("/chat/completions"), safe="/%:@!$&'()*+,;=~") or "/v1"
    if parts.netloc.isascii():
        return f"{parts.scheme}://{parts.netloc}{path}"
    return f"{parts.scheme}://{host.decode()}{'' if port is None else f':{port}'}{path}"


def shown(url: str) -> str:
    """An address in a form that can be shown, however it is written: without a user name, a password and a query.

    What is no plain host and port, and no plain path, is left out, since nobody knows which part of it is secret.
    """
    scheme, mark, rest = url.strip().partition("://")
    if not mark:
        scheme, rest = "", scheme
    elif not re.fullmatch(r"[A-Za-z][\w+.-]{0,19}", scheme, re.ASCII):
        return "***"
    _, at, rest = re.sub("%40|\N{FULLWIDTH COMMERCIAL AT}", "@", rest).rpartition("@")
    place, slash, path = re.split(r"[?#;]", rest, maxsplit=1)[0].partition("/")
    if not _PLACE.fullmatch(place):
        place = "***"
    if not _HARMLESS.fullmatch(path):
        path = "***"
    hidden = "***@" if at and place != "***" else ""
    return f"{scheme}{mark}{hidden}{place}{slash}{path}"[:_LONGEST]


def in_clear(endpoints: list[str], key: str | None) -> Iterator[str]:
    """A warning for every endpoint on another machine to which the key would go over plain http."""
    for endpoint in endpoints if key else ():
        parts = urlsplit(endpoint)
        if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
            yield (
                f"{endpoint}: the API key goes there over plain http, so that others on the way can read it; use "
                "https, or a tunnel (`ssh -L 8000:localhost:8000 HOST` and http://localhost:8000/v1)"
            )
