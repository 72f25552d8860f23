"""Every status that a response can have and what it means: nowhere else is a status spelled.

| status       | what happened                                              | an answer | asked again           |
|--------------|------------------------------------------------------------|-----------|-----------------------|
| ok           | a whole text came back                                     | yes       | never                 |
| length       | a text that was cut off at its number of tokens            | yes       | never                 |
| refusal      | the model, or a filter before it, declined                 | no        | never                 |
| timeout      | no complete reply in time                                  | no        | at once, then later   |
| connection   | there was no connection, or it broke                       | no        | at once, then later   |
| malformed    | a reply that is no chat completion                         | no        | at once, then later   |
| unfinished   | a conversation of several turns whose last one is missing  | no        | later                 |
| http_<code>  | that HTTP status, whatever the number                      | no        | depends on the number |
| invalid      | only in score tables: a whole text that holds no answer    | no        | never                 |

"At once" is within a run, "later" is when the command is repeated. Any other text is the status of another tool that
nobody knows here: an outcome as well, and no answer. So whatever stands there, a row is counted.

>>> http(503), transient(http(503)), http(503) in FINAL
('http_503', True, False)
>>> known("http_999"), known("done"), "done" in ANSWERS
(True, False, False)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

OK = "ok"
LENGTH = "length"
REFUSAL = "refusal"
TIMEOUT = "timeout"
CONNECTION = "connection"
MALFORMED = "malformed"
UNFINISHED = "unfinished"
INVALID = "invalid"

_HTTP = "http_"


def http(code: int) -> str:
    """The status of a reply with that HTTP status code, which may be any number."""
    return f"{_HTTP}{code}"


ANSWERS = frozenset({OK, LENGTH})
"""Statuses whose text is read as an answer; a whole answer in a text that was cut off counts."""

SPOKEN = ANSWERS | {REFUSAL}
"""Statuses of replies in which the model itself said something."""

REFUSED = frozenset(map(http, (400, 404, 413, 422)))
"""Refusals of a request that would be refused again."""

FINAL = SPOKEN | REFUSED
"""Statuses that are never asked again."""

NOT_FOUND = http(404)
TOO_MANY = http(429)

KEY_REFUSED = frozenset(map(http, (401, 403)))
"""Statuses that end the whole run: no other request would fare better."""

BUSY = frozenset({TOO_MANY, http(503)})
"""Statuses of a server that has too much to do."""

MAYBE_GONE = frozenset({CONNECTION, http(500), http(503)})
"""Statuses after which a server of our own is looked at: its process may have ended."""

_TRANSIENT = frozenset({CONNECTION, TIMEOUT, MALFORMED, http(408), http(425), TOO_MANY})
_NAMED = FINAL | _TRANSIENT | {UNFINISHED, INVALID}

KNOWN = f"{OK}, {LENGTH}, {REFUSAL}, {TIMEOUT}, {CONNECTION}, {MALFORMED}, {UNFINISHED}, {INVALID}, {_HTTP}<code>"
"""All of them, for messages."""

LONGEST = 40
"""Characters of a status that are shown; no status of ours is longer."""

KINDS = 12
"""Different statuses that a line lists; whoever makes up a status for each row must not flood a screen."""


def _code(status: str) -> int | None:
    """The HTTP status code that a status names, or None."""
    digits = status[len(_HTTP) :] if status.startswith(_HTTP) else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(status) <= LONGEST else None


def known(status: str) -> bool:
    """Whether tomserve itself could have written that status."""
    return status in _NAMED or _code(status) is not None


def transient(status: str) -> bool:
    """Whether what failed may go away by itself: connections, timeouts, garbled replies, 408, 425, 429, every 5xx."""
    return status in _TRANSIENT or 500 <= (_code(status) or 0) < 600


def inert(status: str) -> str:
    """The status as it is kept in tables and shown: one that nobody knows without control characters, and not long.

    >>> inert("http_600"), inert("done"), inert("\\x1b[2J" + "x" * 99)
    ('http_600', 'done', '\ufffd[2Jxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…')
    """
    if known(status):
        return status
    cut = status if len(status) <= LONGEST else status[: LONGEST - 1] + "…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut)


def listed(counts: Mapping[str, int]) -> str:
    """How often each status occurs, as `3 http_500, 1 timeout`, by name; of very many the most frequent.

    >>> listed({"timeout": 1, "http_500": 3})
    '3 http_500, 1 timeout'
    """
    shown: Counter[str] = Counter()
    for status, count in counts.items():
        shown[inert(status)] += count
    most = sorted(shown, key=lambda status: (-shown[status], status))[:KINDS]
    parts = [f"{shown[status]} {status}" for status in sorted(most)]
    if rest := len(shown) - len(most):
        parts.append(f"{shown.total() - sum(shown[status] for status in most)} of {rest} other statuses")
    return ", ".join(parts)


def unknown(statuses: Iterable[tuple[str, int]]) -> str | None:
    """One sentence for the statuses, of these with their counts, that nobody knows here; None where all are known."""
    strange = {status: count for status, count in statuses if not known(status)}
    if not strange:
        return None
    return f"rows of an unknown status count as failures: {listed(strange)}; known: {KNOWN}"
