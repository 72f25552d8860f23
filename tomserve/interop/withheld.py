"""What other tools record of how a model was asked, without what may be secret: keys, tokens, headers, passwords.

>>> settings_of({"temperature": 0, "api_key": "sk-1", "base_url": "https://me:secret@host/v1?key=1"})
{'temperature': 0, 'base_url': 'https://host/v1'}
>>> masked("401: wrong key sk-abcdefgh1234, sent as Authorization: Bearer abcdefgh1234")
'401: wrong key ***, sent as Authorization: ***'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_SECRET = re.compile(r"key|token(?!s|iz)|secret|passw|auth|header|cookie|credential", re.I)
_ADDRESS = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://[^\s,\"'<>]+", re.I)
_ASSIGNED = re.compile(r"(?<![\w.-])([\w.-]{1,80})=([^,]*)")
_NAMES = r"api[\s_-]?key|access[\s_-]?key|token(?!s|iz)|secret|passw(?:or)?d|authorization|cookie|credentials?"
_NAMED = re.compile(
    rf"""(["']?(?<!\w)[\w-]{{0,24}}?(?:{_NAMES})["']?\s*[:=]\s*)(["']?)(?:(?:bearer|basic)\s+)?"""
    r"""[^\s"',;&<>(){}\[\]]{4,}""",
    re.I,
)
_BEARER = re.compile(r"\b(bearer\s+[\w.~+/=-]{8,}|basic\s+[A-Za-z0-9+/=]{16,})", re.I)
_KEY = re.compile(
    r"\b(?:(?:sk|pk|rk|hf|gsk|ghp|gho|ghs|xai|nvapi|r8|glpat|xox[abp]|github_pat)[-_][\w-]{8,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,})"
)

MASKED = "***"
"""What stands in the place of a secret."""

LONGEST = 500
"""Most characters of a setting that are kept."""

DEEPEST, MOST = 3, 100
"""How deeply settings may lie in each other, and how many of one list or table are kept."""


def settings_of(given: Any, depth: int = 0) -> Any:
    """The settings as JSON can hold them: what is called like a secret is left out, addresses lose names and passwords
    and what stands after a question mark, long texts are cut; None, and what lies deeper than settings do, is left
    out."""
    if isinstance(given, Mapping):
        if depth >= DEEPEST:
            return {}
        pairs = ((masked(str(name)[:80]), value) for name, value in list(given.items())[:MOST])
        found = {name: settings_of(value, depth + 1) for name, value in pairs if not _SECRET.search(name)}
        return {name: value for name, value in found.items() if value is not None}
    if isinstance(given, list | tuple):
        return [settings_of(one, DEEPEST) for one in given[:MOST] if not isinstance(one, Mapping | list | tuple)]
    if isinstance(given, str):
        return _text(given)
    return given if isinstance(given, bool | int | float) and -(2**63) <= given < 2**63 else None


def _text(text: str) -> str:
    """A text without secrets, also where it lists settings as ``name=value,name=value``, as model arguments do."""
    kept = _ASSIGNED.sub(lambda one: "" if _SECRET.search(one[1]) else one[0], text[: 20 * LONGEST])
    kept = re.sub(r"(?:^|,)\s*(?=,|$)", "", kept) if kept != text else kept
    return masked(kept)[:LONGEST]


def masked(text: str) -> str:
    """A text with what looks like a key, a password or an address with one taken out, as in the error of a server that
    repeats what it was sent. What looks like none stays."""
    text = _ADDRESS.sub(lambda one: _bare(one[0]), text)
    text = _NAMED.sub(lambda one: f"{one[1]}{one[2]}{MASKED}", text)
    return _KEY.sub(MASKED, _BEARER.sub(lambda one: f"{one[1].split()[0]} {MASKED}", text))


def _bare(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(address)"
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))
