"""What other tools record of how a model was asked, without what may be secret: keys, tokens, headers, passwords.

>>> settings_of({"temperature": 0, "api_key": "sk-1", "base_url": "https://me:secret@host/v1?key=1"})
{'temperature': 0, 'base_url': 'https://host/v1'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_SECRET = re.compile(r"key|token(?!s|izer)|secret|passw|auth|header|cookie|credential", re.I)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s,\"']+", re.I)
_ASSIGNED = re.compile(r"([\w.-]+)=([^,]*)")

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
        pairs = ((str(name)[:80], value) for name, value in list(given.items())[:MOST])
        found = {name: settings_of(value, depth + 1) for name, value in pairs if not _SECRET.search(name)}
        return {name: value for name, value in found.items() if value is not None}
    if isinstance(given, list | tuple):
        return [settings_of(one, DEEPEST) for one in given[:MOST] if not isinstance(one, Mapping | list | tuple)]
    if isinstance(given, str):
        return _text(given)
    return given if isinstance(given, bool | int | float) and -(2**63) <= given < 2**63 else None


def _text(text: str) -> str:
    """A text without secrets, also where it lists settings as ``name=value,name=value``, as model arguments do."""
    kept = _ASSIGNED.sub(lambda one: "" if _SECRET.search(one[1]) else one[0], text)
    kept = re.sub(r"(?:^|,)\s*(?=,|$)", "", kept) if kept != text else kept
    return _ADDRESS.sub(lambda one: _bare(one[0]), kept)[:LONGEST]


def _bare(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(address)"
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))
