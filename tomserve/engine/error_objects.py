"""What an error that a server sends means, whatever HTTP status carried it.

Servers send the same failure by different statuses: an account without credit by 400, 402, 403 or 429, a rate limit by
200 with an error in the body. The code or the words in the error object decide, where they are known; else the HTTP
status does.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tomserve.status import KEY_REFUSED, MALFORMED, NO_CREDIT, REFUSAL, TOO_MANY, http

_CODES = {
    NO_CREDIT: "insufficient_quota insufficient_balance insufficient_credits insufficient_funds billing_not_active "
    "billing_hard_limit_reached payment_required quota_exhausted arrearage",
    KEY_REFUSED: "invalid_api_key api_key_invalid authentication_error unauthenticated",
    TOO_MANY: "rate_limit_exceeded rate_limit_error rate_limit_reached too_many_requests resource_exhausted "
    "throttling throttlingexception ratelimiterror",
    REFUSAL: "content_filter content_filtered content_policy_violation responsibleaipolicyviolation "
    "data_inspection_failed datainspectionfailed moderation_blocked sensitive_words_detected",
    http(503): "overloaded overloaded_error service_unavailable unavailable engine_overloaded_error server_busy",
    http(504): "deadline_exceeded timeout_error",
    http(500): "server_error internal_error internal_server_error api_error internal",
    http(404): "model_not_found not_found_error not_found",
    http(403): "permission_error permission_denied",
    http(400): "invalid_request_error context_length_exceeded invalid_argument badrequesterror bad_request",
}
"""The codes and types of error objects, by the status that they mean."""

_MEANING = {name: status for status, names in _CODES.items() for name in names.split()}
_ANY = frozenset((200, 400, 401, 402, 403, 422, 429, 451, 500))  # the HTTP statuses by which these errors are sent
_OVER_HTTP = {
    NO_CREDIT: _ANY,
    REFUSAL: _ANY - {401, 402, 429},
    KEY_REFUSED: frozenset((200, 400)),
    TOO_MANY: _ANY - {401, 402},
}
"""Meanings that count although the HTTP status is another, one of these; the first of them before the others."""

_WORDS = {
    NO_CREDIT: r"insufficient[ _](?:quota|balance|credits?|funds)|credit balance is too low|out of credits?\b|"
    r"no credits? (?:left|remaining)|requires more credits|payment required|"
    r"exceeded your current quota(?!.*(?:for metric|retry in|per minute))|account is (?:in arrears|overdue)",
    REFUSAL: r"content management policy|content exists risk|considered high risk|unsafe or sensitive|"
    r"(?:input|prompt|request|content|response) (?:was|is|has been) (?:flagged|filtered)",
    TOO_MANY: r"throttlingexception|too many requests|rate limit (?:was |is |has been )?(?:reached|exceeded)",
    KEY_REFUSED: r"api[ _-]?key (?:is )?(?:not valid|invalid|expired)|(?:invalid|incorrect) api[ _-]?key",
}
"""Words of errors without a code that tells, by the status that they mean."""

_TOO_LONG = re.compile(
    r"(?:context|sequence) (?:length|size|window|limit)|max_model_len|exceed_context_size|too many tokens|"
    r"(?:prompt|input|request|messages?) (?:is|are) too long|must have less than \d+ tokens|"
    r"exceeds? the .{0,40}tokens|reduce the length",
    re.IGNORECASE,
)
_PATTERNS = {status: re.compile(words, re.IGNORECASE | re.DOTALL) for status, words in _WORDS.items()}
LONGEST = 4000  # characters of an error that are looked at

UNVALIDATED = "json_validate_failed"
"""Groq's code for a reply that its schema does not allow; the error holds what the model wrote."""


_RAN_OUT = ("max_tokens or model output limit", UNVALIDATED, "max completion tokens reached")


def error_status(code: int, data: Any, words: str) -> str:
    """The status that an error means: the HTTP status `code`, unless the error says something else. data: the body.
    words: what it says. For 200 it is malformed where nobody knows what it means.

    >>> error_status(429, {"error": {"code": "insufficient_quota"}}, "You exceeded your current quota")
    'http_402'
    >>> error_status(200, {"object": "error", "code": 503}, "Server is busy"), error_status(400, {}, "no such field")
    ('http_503', 'http_400')
    """
    names = {str(name).strip().lower() for name in _codes(data)}
    meant = {_MEANING[name] for name in names if name in _MEANING}
    for status, codes in _OVER_HTTP.items():
        if status in meant and code in codes:
            return status
    for status, pattern in _PATTERNS.items():
        if code in _OVER_HTTP[status] and pattern.search(words[:LONGEST]):
            return status
    if code != 200:
        return http(400) if code == 500 and is_too_long(words) else http(code)
    numbers = sorted(int(name) for name in names if re.fullmatch("[45][0-9][0-9]", name))
    return http(numbers[0]) if numbers else min(meant, default=MALFORMED)


def is_too_long(words: str) -> bool:
    """Whether an error says that prompt and reply do not fit into the model's context."""
    return _TOO_LONG.search(words[:LONGEST]) is not None


def ran_out(words: str | None) -> bool:
    """Whether an error says that a request was taken, and had too few tokens for its reply."""
    return any(one in (words or "") for one in _RAN_OUT)


def failed_generation(data: Any) -> str | None:
    """What the model wrote, where the error says that it was held back as its schema does not allow it; "" for
    nothing, None for another error."""
    error = _error(data)
    if error.get("code") != UNVALIDATED:
        return None
    text = error.get("failed_generation")
    return text if isinstance(text, str) else ""


def _error(data: Any) -> Mapping[str, Any]:
    """The error object in a body."""
    if isinstance(data, list) and len(data) == 1:  # as Google sends it
        data = data[0]
    error = data.get("error", data) if isinstance(data, dict) else None
    return error if isinstance(error, dict) else data if isinstance(data, dict) else {}


def _codes(data: Any) -> Iterator[Any]:
    """All values of a body by which servers name the kind of an error, its numbers among them."""
    error = _error(data)
    inner = error.get("innererror")
    details = error.get("details")
    places = [data, error, inner, *(details if isinstance(details, list) else ())]
    for place in places:
        for name in (
            ("code", "type", "status", "status_code", "reason", "error_type") if isinstance(place, dict) else ()
        ):
            if isinstance(value := place.get(name), str | int):
                yield value
