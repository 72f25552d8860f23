"""Rate limits as servers announce them in headers: how long to wait after a refusal, and how many requests are taken
until when."""

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

HEADERS = frozenset((
    "retry-after", "retry-after-ms", "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests", "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
    "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset",
))  # fmt: skip
"""The names of the headers that are read, in lower case."""

_KINDS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", False),
    ("x-ratelimit-remaining", "x-ratelimit-reset", False),
    ("ratelimit-remaining", "ratelimit-reset", False),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", True),
)
"""What is left until a reset, when that is, and whether what is left are tokens rather than requests."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_WORDS = re.compile(r"(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?(?:ms|[smhd])(?![a-z]))+)", re.IGNORECASE)
_EPOCH = 1e9  # a number of seconds from this on is a time since 1970
_EPOCH_MS = 1e11  # and from this on one in milliseconds


def parse_retry_after(header: str | None) -> float | None:
    """The seconds from now that a Retry-After header (a number or an HTTP date) asks for; None if it is neither."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def parse_reset(header: str | None) -> float | None:
    """The seconds until a limit is reset: a number of seconds, a duration such as 6m0s or 20ms, a time since 1970 in
    seconds or milliseconds, or a date; None for anything else.

    >>> parse_reset("6m0s"), parse_reset("20ms"), parse_reset("1.5"), parse_reset("soon")
    (360.0, 0.02, 1.5, None)
    """
    if not header:
        return None
    header = header.strip().lower()
    if _DURATION.fullmatch(header):  # else thousands of digits would be looked through from each of them on
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(header))
    if (seconds := parse_retry_after(header)) is None or seconds < _EPOCH:
        return seconds
    return max(0.0, (seconds / 1000 if seconds >= _EPOCH_MS else seconds) - time.time())


def asked_wait(headers: Mapping[str, str], words: str | None = None) -> float | None:
    """The seconds that a refusal asks to wait, by its headers, whose names are in lower case, or by its words; None
    where it does not say."""
    if (milliseconds := parse_retry_after(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (seconds := parse_retry_after(headers.get("retry-after"))) is not None:
        return seconds
    resets = [(_number(headers.get(left)) == 0, parse_reset(headers.get(reset))) for left, reset, _ in _KINDS]
    known = [(used_up, seconds) for used_up, seconds in resets if seconds is not None]
    if over := [seconds for used_up, seconds in known if used_up]:
        return max(over)
    if said := _WORDS.search(words or ""):
        return parse_reset(said[1])
    return min((seconds for _, seconds in known), default=None)


class Room(NamedTuple):
    """How many further requests a server takes."""

    requests: int
    seconds: float  # until it takes more again
    limit: int | None = None  # how many it takes then, where it says so


def announced_room(headers: Mapping[str, str], tokens: int) -> Room | None:
    """How many further requests a server takes, by the headers of a reply that took so many tokens; of several limits
    the one that is reached first. None where it does not say."""
    found: list[Room] = []
    for left, reset, in_tokens in _KINDS:
        number, seconds = _number(headers.get(left)), parse_reset(headers.get(reset))
        if number is not None and seconds is not None and (tokens or not in_tokens):
            each, limit = tokens if in_tokens else 1, _number(headers.get(left.replace("remaining", "limit")))
            found.append(Room(number // each, seconds, None if limit is None else limit // each))
    return min(found, key=lambda room: room.requests, default=None)


def _number(header: str | None) -> int | None:
    text = (header or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
