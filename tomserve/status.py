"""Every status that a response can have, and what it means. Other modules use these names and spell no status.

| status       | what happened                                              | an answer | asked again           |
|--------------|------------------------------------------------------------|-----------|-----------------------|
| ok           | a whole text came back                                     | yes       | never                 |
| length       | a text that was cut off at its number of tokens            | yes       | never                 |
| refusal      | the model, or a filter before it, declined                 | no        | never                 |
| timeout      | no complete reply in time                                  | no        | at once, then later   |
| connection   | there was no connection, or it broke                       | no        | at once, then later   |
| malformed    | a reply that is no chat completion, or was broken off      | no        | at once, then later   |
| unfinished   | a conversation of several turns whose last one is missing  | no        | later                 |
| http_<code>  | that HTTP status, whatever the number                      | no        | depends on the number |
| unanswered   | only in runs of people: the question was left open         | no        | never                 |
| invalid      | only in score tables: a whole text that holds no answer    | no        | never                 |

"At once" means within the run, "later" means when the command is repeated. Any other text comes from another tool; a
row with such a status counts as a failure, so that every row is counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

OK = "ok"
LENGTH = "length"
REFUSAL = "refusal"
TIMEOUT = "timeout"
CONNECTION = "connection"
MALFORMED = "malformed"
UNFINISHED = "unfinished"
UNANSWERED = "unanswered"
INVALID = "invalid"
HTTP = "http_"  # how the status of every HTTP status code begins


def http(code: int) -> str:
    """The status of a reply with that HTTP status code, which may be any number."""
    return f"{HTTP}{code}"


ANSWERS = frozenset({OK, LENGTH})
"""Statuses whose text is read as an answer; a whole answer in a text that was cut off counts."""

SPOKEN = ANSWERS | {REFUSAL}  # statuses of replies in which the model itself said something
REFUSED = frozenset(map(http, (400, 413, 422)))  # refusals of a request that would be refused again
FINAL = SPOKEN | REFUSED  # statuses that are never asked again

_REASONS = {
    OK: "stop stop_sequence stop_token eos eos_token end_of_sequence end_turn complete completed finished done normal "
    "repetition tool_calls tool_use function_call json_validate_failed",
    LENGTH: "length max_tokens max_token max_length max_output_tokens max_completion_tokens token_limit model_length "
    "context_length context_length_exceeded model_context_window_exceeded incomplete",
    REFUSAL: "content_filter content_filtered refusal sensitive safety recitation blocklist prohibited_content spii "
    "image_safety model_armor guardrail guardrail_intervened moderation error_toxic",
    MALFORMED: "abort aborted cancelled canceled error timeout failed internal_error server_error network_error "
    "insufficient_system_resource malformed_function_call unexpected_tool_call user_cancel",
}
"""What servers call the end of a reply, by what it makes of it: a usual end; tokens, or the model's context, used up;
held back by a filter; or given up by the server, so that what is there is no answer."""

_ENDED = {name: status for status, names in _REASONS.items() for name in names.split()}


def _plain_reason(reason: str | None) -> str:
    """A reason in the spelling of the table: Google's are in capitals, with the name of their kind before them."""
    return (reason or "").strip().lower().rpartition(".")[2].replace("-", "_").removeprefix("finish_reason_")


def finished(reason: str | None) -> str:
    """The status that a server's reason for the end of a reply makes of it; one that is not known, or none at all,
    makes a whole text of it (see `strange_reason`).

    >>> [finished(reason) for reason in ("stop", "MAX_TOKENS", "network_error", "FinishReason.SAFETY", "done", None)]
    ['ok', 'length', 'malformed', 'refusal', 'ok', 'ok']
    """
    return _ENDED.get(_plain_reason(reason), OK)


def strange_reason(reason: str | None) -> bool:
    """Whether nobody knows what a server means by that reason, so that its replies may not be whole."""
    plain = _plain_reason(reason)
    return bool(plain) and plain not in _ENDED


KEY_REFUSED = http(401)
NO_CREDIT = http(402)  # the account is to be paid for first, by whatever HTTP status the server says so
FORBIDDEN = http(403)  # the key is refused, or a filter refuses that one question
NOT_FOUND = http(404)  # the server does not know the model, or not the address; or another one answers in its place
TOO_MANY = http(429)  # the server has more requests than it takes
BUSY = frozenset({TOO_MANY, http(503)})  # statuses of a server that has too much to do
GATEWAY_TIMEOUTS = frozenset(map(http, (504, 522, 524)))
"""Statuses of a gateway that does not wait for the server any longer, though this one may go on working."""

MAYBE_GONE = frozenset({CONNECTION, http(500), http(503)})
"""Statuses after which a server that tomserve itself started is checked, because its process may have ended."""

_PASSING = (408, 409, 420, 421, 423, 424, 425, 429, 449, 460, 498, 499)
_TRANSIENT = frozenset({CONNECTION, TIMEOUT, MALFORMED, *map(http, _PASSING)})
"""Failures that may go away by themselves, beside every HTTP status from 500 to 599."""

_NAMED = FINAL | _TRANSIENT | {UNFINISHED, UNANSWERED, INVALID}
_WORDS = (OK, LENGTH, REFUSAL, TIMEOUT, CONNECTION, MALFORMED, UNFINISHED, UNANSWERED, INVALID, f"{HTTP}<code>")
KNOWN = ", ".join(_WORDS)  # all statuses in words, for messages
LONGEST = 40  # how many characters of a status are shown at most; no status of tomserve is longer
KINDS = 12
"""How many different statuses a line lists at most, so that a file with a different one in each row cannot flood the
screen."""


def http_code(status: str) -> int | None:
    """The HTTP status code of a status; None of one that names none."""
    digits = status[len(HTTP) :] if status.startswith(HTTP) else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(status) <= LONGEST else None


def known(status: str) -> bool:
    return status in _NAMED or http_code(status) is not None


def transient(status: str) -> bool:
    """Whether a failure may go away by itself: connection, timeout, garbled reply, HTTP 408, 409, 429 and the like, or
    500 to 599."""
    return status in _TRANSIENT or 500 <= (http_code(status) or 0) < 600


def failed_inside(status: str) -> bool:
    """Whether a server failed at a request that it had read: HTTP 500 to 599, but for one that is busy, and for a
    gateway that did not wait."""
    return 500 <= (http_code(status) or 0) < 600 and status not in BUSY | GATEWAY_TIMEOUTS


def inert(status: str) -> str:
    """The status in a form that is safe to show: an unknown one is shortened and loses its control characters."""
    if known(status):
        return status
    cut = status if len(status) <= LONGEST else status[: LONGEST - 1] + "…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut)


def listed(counts: Mapping[str, int]) -> str:
    """How often each status occurs, in words and by name; of more than KINDS statuses only the most frequent."""
    rows: Counter[str] = Counter()
    for status, count in counts.items():
        rows[inert(status)] += count
    frequent = sorted(rows, key=lambda status: (-rows[status], status))[:KINDS]
    parts = [f"{rows[status]} {status}" for status in sorted(frequent)]
    if rest := len(rows) - len(frequent):
        parts.append(f"{rows.total() - sum(rows[status] for status in frequent)} of {rest} other statuses")
    return ", ".join(parts)


def unknown(statuses: Iterable[tuple[str, int]]) -> str | None:
    """One sentence that lists the unknown statuses among these (status, number of rows); None where all are known."""
    strange = {status: count for status, count in statuses if not known(status)}
    if not strange:
        return None
    return f"rows of an unknown status count as failures: {listed(strange)}; known: {KNOWN}"
