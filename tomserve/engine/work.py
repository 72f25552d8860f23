"""How much work a server has in one answer: what throughput is measured in, since answers differ in length.

>>> work({"prompt": 160, "completion": 9})
19.0
"""

from __future__ import annotations

from collections.abc import Mapping

PROMPT_WEIGHT = 1 / 16
"""The work of one prompt token, measured in completion tokens. A server computes all prompt tokens at once, so that
each of them costs much less than a token that it generates."""


def work(usage: Mapping[str, int] | None) -> float:
    """The work in one answer, in completion tokens; 1.0 where the server did not report the answer's tokens."""
    if not usage or "completion" not in usage:
        return 1.0
    return usage["completion"] + PROMPT_WEIGHT * usage.get("prompt", 0)
