"""The one place that takes secrets out of texts, before any of them is cut, shown or written: the keys that are known,
out of what a server said, and what is called or looks like a secret, out of settings and logs of others.

A key is found as it is, and as it stands in a URL, in JSON, in HTML, in Python and in base64, alone or within a longer
text such as ``Bearer KEY``. A server that disguises it in other ways, or sends it in pieces, is not found out.

>>> Redactor("sk-0123456789")("you sent Bearer sk-0123456789"), Redactor("EMPTY")("the EMPTY jar")
('you sent Bearer ***', 'the EMPTY jar')
"""

import base64
import html
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit, urlunsplit

import orjson

LEAST = 8
"""Characters that a key must have to be masked. Shorter ones, such as EMPTY, are no secrets but may be words of an
answer."""

MASKED = "***"
LONGEST_NAME = 200  # characters kept of the name that a server gives its model, and of the reason why it ended
LONGEST_ERROR = 500  # characters kept of what went wrong


class Redactor:
    """Replaces the keys in the texts that it is called with; None and short keys are left out."""

    __slots__ = ("_spellings", "looks")

    def __init__(self, *keys: str | None) -> None:
        found = {one for key in keys if key is not None and len(key) >= LEAST for one in _spellings(key)}
        # The longest comes first, so that nothing of a longer spelling is left when a shorter one is part of it.
        self._spellings = tuple(sorted(found, key=lambda one: (-len(one), one)))
        self.looks = bool(found)

    def __call__(self, text: str) -> str:
        """The text without the keys; the same object where it holds none."""
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASKED)
        return text

    def redact_json(self, value: Any) -> Any:
        """What was read from JSON, with the keys in its texts and names replaced; the same object without any, None
        where the key can only be taken out together with what is around it, such as a number."""
        if not self.looks:
            return value
        try:
            text = orjson.dumps(value).decode()
            return value if (masked := self(text)) is text else orjson.loads(masked)
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):  # the latter for what is nested too deeply
            return None


def _spellings(key: str) -> Iterator[str]:
    yield from (key, repr(key)[1:-1], html.escape(key), html.escape(key, quote=False))
    for quoted in (quote(key), quote(key, safe=""), quote_plus(key)):
        yield from (quoted, re.sub("%..", lambda code: code[0].lower(), quoted))
    escaped = orjson.dumps(key).decode()[1:-1]
    yield from (escaped, escaped.replace("/", "\\/"))
    for before in range(3):  # three bytes make four characters, so it depends on what stands before, by three
        coded = base64.b64encode(b"\0" * before + key.encode())
        own = coded[-(-before * 8 // 6) : (before + len(key.encode())) * 8 // 6].decode()
        yield from (own, own.replace("+", "-").replace("/", "_"))


_BETWEEN_WORDS = " \n\t\"'<>,\u3001\u3002\uff0c"  # the last are commas and the full stop of Chinese and Japanese


def cut_words(text: str, most: int) -> str:
    """A text of at most so many characters that ends between two words, so that a key in it, which is not replaced yet,
    stands there whole or not at all."""
    return text if len(text) <= most else text[: max(0, *(text.rfind(mark, 0, most) for mark in _BETWEEN_WORDS))]


def clean_text(text: str, most: int) -> str:
    """A text that is fit to be shown and kept: of at most so many characters, without those that cannot be printed."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[:most])


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

LONGEST = 500
"""Most characters of a setting that are kept."""

DEEPEST, MOST = 3, 100
"""How deeply settings may lie in each other, and how many of one list or table are kept."""


def is_secret_name(name: str) -> bool:
    """Whether a setting, a header or a variable of that name may hold a secret.

    >>> [is_secret_name(one) for one in ("api_key", "Authorization", "max_tokens", "tokenizer")]
    [True, True, False, False]
    """
    return _SECRET.search(name) is not None


def is_secret_variable(name: str) -> bool:
    """Whether a variable of the environment may hold a secret, where "tokens" are no number of them, as in settings.

    >>> [is_secret_variable(one) for one in ("MY_TOKENS", "AWS_SECRET_ACCESS_KEY", "LANG")]
    [True, True, False]
    """
    return is_secret_name(name) or "tokens" in name.casefold()


def redact_settings(given: Any, depth: int = 0) -> Any:
    """The settings as JSON can hold them: what is called like a secret is left out, addresses lose names and passwords
    and what stands after a question mark, long texts are cut; None, and what lies deeper than settings do, is left
    out.

    >>> redact_settings({"temperature": 0, "api_key": "sk-1", "base_url": "https://me:secret@host/v1?key=1"})
    {'temperature': 0, 'base_url': 'https://host/v1'}
    """
    if isinstance(given, Mapping):
        if depth >= DEEPEST:
            return {}
        pairs = ((redact_text(str(name)[:80]), value) for name, value in list(given.items())[:MOST])
        found = {name: redact_settings(value, depth + 1) for name, value in pairs if not is_secret_name(name)}
        return {name: value for name, value in found.items() if value is not None}
    if isinstance(given, list | tuple):
        return [redact_settings(one, DEEPEST) for one in given[:MOST] if not isinstance(one, Mapping | list | tuple)]
    if isinstance(given, str):
        return _text(given)
    return given if isinstance(given, bool | int | float) and -(2**63) <= given < 2**63 else None


def _text(text: str) -> str:
    """A text without secrets, also where it lists settings as ``name=value,name=value``, as model arguments do."""
    kept = _ASSIGNED.sub(lambda one: "" if is_secret_name(one[1]) else one[0], text[: 20 * LONGEST])
    kept = re.sub(r"(?:^|,)\s*(?=,|$)", "", kept) if kept != text else kept
    return redact_text(kept)[:LONGEST]


def redact_text(text: str) -> str:
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
