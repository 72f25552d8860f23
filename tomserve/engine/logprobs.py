"""The log-probabilities of a prompt's tokens, which vLLM gives where a request asks for `prompt_logprobs`.

>>> prompt_tokens([None, {"312": {"logprob": -0.5, "rank": 1, "decoded_token": " tea"}}])
([('', None), (' tea', -0.5)], 0)
"""

from __future__ import annotations

import math
from typing import Any

KEPT = 256
"""How many tokens of a prompt are kept: the last ones, since a row of the journal must stay small."""

Tokens = list[tuple[str, float | None]]
"""Tokens with their log-probabilities, None where there is none."""


def prompt_tokens(entries: Any) -> tuple[Tokens | None, int]:
    """The last KEPT tokens of a prompt with their log-probabilities, and how many stood before them.

    entries: what the server sent: for each token a mapping from its number to its text and log-probability, or null for
    the first one, which follows nothing. Anything else gives (None, 0). A token whose text is no whole character is
    named by its number, because different ones would look the same.
    """
    if not isinstance(entries, list):
        return None, 0
    tokens: Tokens = []
    for entry in entries[-KEPT:]:
        if entry is None:
            tokens.append(("", None))
            continue
        number, found = next(iter(entry.items()), ("", None)) if isinstance(entry, dict) else ("", None)
        if not isinstance(found, dict):
            return None, 0
        text, value = found.get("decoded_token"), found.get("logprob")
        whole = isinstance(text, str) and text and "\N{REPLACEMENT CHARACTER}" not in text
        given = isinstance(value, int | float) and math.isfinite(value)
        tokens.append((str(text) if whole else f"<{number}>", float(value or 0) if given else None))
    return tokens, len(entries) - len(tokens)
