"""Addresses of endpoints: what people give as a base URL, the addresses below it, and the form that may be shown.

>>> normalize_url("localhost:8000"), normalize_url("https://host/v1/chat/completions?api-version=1")
('http://localhost:8000/v1', 'https://host/v1?api-version=1')
>>> redact_url("http://user:secret@host:99999/v1?key=secret")
'http://***@host:99999/v1'
"""

import re
from urllib.parse import parse_qsl, quote, urljoin, urlsplit

from tomserve.errors import ConfigError

_PLACE = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,9})?", re.ASCII)
"""A host and a port, which may be one that there cannot be."""
_HARMLESS = re.compile(r"[\w./~-]*", re.ASCII)
_LONGEST = 200

_SECRET = re.compile(r"(?i)key|token|secret|passw|pwd|auth|sig|cred|code|session|jwt|user|login")
"""What the name of a parameter holds whose value is nobody else's business."""
_RANDOM = re.compile(r"[A-Za-z0-9]{20}")  # a value with so many letters and digits in a row may be a key


def normalize_url(url: str) -> str:
    """The endpoint that a base URL stands for: with its scheme (http unless given) and path (``/v1``), without a
    trailing slash, with its query. Raises ConfigError where it is no http address, or holds what may be secret."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port, host = parts.port, (parts.hostname or "").encode("idna")
    except (ValueError, UnicodeError):
        port, host, parts = 0, b"", urlsplit("")
    if "@" in parts.netloc or parts.fragment or not _is_harmless(parts.query):
        raise ConfigError(
            f"the base URL {redact_url(url)!r} holds a user name, a password or a query that may be a key; a key "
            "belongs into TOMSERVE_API_KEY, or into a header of another name by --header NAME=VARIABLE"
        )
    usable = host and port != 0 and parts.scheme in ("http", "https") and url.isprintable() and " " not in url.strip()
    if not usable:
        raise ConfigError(
            f"the base URL {redact_url(url)!r} is no address of a server; expected one such as http://host:8000/v1"
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/models")
    path = quote(path, safe="/%:@!$&'()*+,;=~") or "/v1"
    query = f"?{parts.query}" if parts.query else ""
    if parts.netloc.isascii():
        return f"{parts.scheme}://{parts.netloc}{path}{query}"
    return f"{parts.scheme}://{host.decode()}{'' if port is None else f':{port}'}{path}{query}"


def _is_harmless(query: str) -> bool:
    """Whether a query holds nothing that may be a key, so that it may be kept and shown, as `api-version=2024-10-21`.

    >>> _is_harmless("api-version=2024-10-21"), _is_harmless("sig=x"), _is_harmless("v=0123456789abcdefghij")
    (True, False, False)
    """
    try:
        fields = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        return False
    return all(
        re.fullmatch(r"[A-Za-z_][\w.-]{0,39}", name, re.ASCII)
        and re.fullmatch(r"[\w.:/-]{0,60}", value, re.ASCII)
        and not _SECRET.search(name)
        and not _RANDOM.search(value)
        and not value.startswith("sk-")
        for name, value in fields
    )


def redact_url(url: str) -> str:
    """An address in a form that can be shown, however it is written: without a user name, a password and a query that
    may be secret. What is no plain host and port, and no plain path, is left out, since nobody knows which part of it
    is secret."""
    scheme, mark, rest = url.strip().partition("://")
    if not mark:
        scheme, rest = "", scheme
    elif not re.fullmatch(r"[A-Za-z][\w+.-]{0,19}", scheme, re.ASCII):
        return "***"
    _, at, rest = re.sub("%40|\N{FULLWIDTH COMMERCIAL AT}", "@", rest).rpartition("@")
    place, slash, path = re.split(r"[?#;]", rest, maxsplit=1)[0].partition("/")
    query = rest.partition("?")[2]
    if not _PLACE.fullmatch(place):
        place = "***"
    if not _HARMLESS.fullmatch(path):
        path = "***"
    hidden = "***@" if at and place != "***" else ""
    shown = f"?{query}" if query and place != "***" and path != "***" and not at and _is_harmless(query) else ""
    return f"{scheme}{mark}{hidden}{place}{slash}{path}{shown}"[:_LONGEST]


def url_of(endpoint: str, path: str) -> str:
    """The address of a path below an endpoint, whose query stays at the end.

    >>> url_of("https://host/v1?api-version=1", "/models")
    'https://host/v1/models?api-version=1'
    """
    address, mark, query = endpoint.partition("?")
    return f"{address}{path}{mark}{query}"


def root_of(endpoint: str) -> str:
    """The endpoint without ``/v1``, below which a server has its own paths, such as /metrics."""
    address, mark, query = endpoint.partition("?")
    return f"{address.removesuffix('/v1')}{mark}{query}"


MOVED = frozenset((307, 308))
"""HTTP status codes of a redirect that keeps method and body. Any other would make a GET of a question."""


def follow(url: str, location: str | None) -> str | None:
    """Where a redirect leads, where that is the same scheme, host and port, so that the same may go there."""
    try:
        there = urljoin(url, location or "")
        parts = urlsplit(there)
        same = _site_of(url) == _site_of(there)
    except ValueError:
        return None
    plain = there.isascii() and there.isprintable() and " " not in there
    return there if location and same and plain and "@" not in parts.netloc and there != url else None


def _site_of(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def explain_redirect(url: str, location: str | None) -> str:
    """Why a redirect is not followed, and what to do, as one sentence."""
    try:
        there = redact_url(urljoin(url, location or "").partition("?")[0]) if location else ""
    except ValueError:
        there = ""
    if not there:
        return "the server sends the request on, but does not say where"
    if follow(url, location) is not None:
        return f"the server sends the request on to {there}, and from there on again"
    return f"the server sends the request on to {there}, which is not followed; give that address if you trust it"
