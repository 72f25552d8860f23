"""What servers report of a prompt's tokens: hits of the prefix cache, silent truncation, and log-probabilities.

Requests come in the order of a depth-first walk of the radix tree of their prompts (`Strategy.order`), so one prompt in
memory, or one for each turn, tells how much a cache that forgets nothing could save: the radix-tree bound.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tomserve.content.text import count_noun
from tomserve.engine.request import Request

BYTES_A_TOKEN = 4
"""How many bytes of a prompt make a token, about: English text in the vocabularies of today's models."""


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, where no server counts them."""
    return max(1, round(len(text.encode("utf-8", "surrogatepass")) / BYTES_A_TOKEN)) if text else 0


LONG = 4000  # characters of the shortest prompt that is looked at: no server has a context that is smaller
IMPLAUSIBLE = 9  # characters a token from which on a prompt cannot have been counted whole
_SPREAD, _FEW = 1.15, 3
"""By how much the lengths of how many prompts must differ whose equal number of tokens is no accident."""


@dataclass
class _Group:
    """Some prompts: how many, the fewest and most tokens of one, and the fewest and most characters."""

    prompts: int = 0
    tokens: tuple[int, int] = (0, 0)
    characters: tuple[int, int] = (0, 0)

    def add(self, characters: int, tokens: int) -> None:
        one, self.prompts = self.prompts == 0, self.prompts + 1
        self.tokens = (tokens, tokens) if one else (min(self.tokens[0], tokens), max(self.tokens[1], tokens))
        low, high = self.characters
        self.characters = (characters, characters) if one else (min(low, characters), max(high, characters))

    def to_dict(self) -> dict[str, object]:
        return {"prompts": self.prompts, "tokens": list(self.tokens), "characters": list(self.characters)}


class Truncation:
    """The long prompts of a run that were cut off, as far as their numbers of tokens show it."""

    def __init__(self) -> None:
        self._implausible, self._fullest = _Group(), _Group()

    def add(self, prompt: str | bytes, tokens: int | None) -> None:
        """Look at a prompt. tokens: how many the server counted in it; None or 0 where it does not say."""
        if not tokens or len(prompt) < LONG:
            return
        characters = len(prompt if isinstance(prompt, str) else prompt.decode("utf-8", "replace"))
        if characters < LONG:
            return
        if characters > IMPLAUSIBLE * tokens:
            self._implausible.add(characters, tokens)
        if tokens > self._fullest.tokens[1]:
            self._fullest = _Group()
        if tokens >= self._fullest.tokens[1]:
            self._fullest.add(characters, tokens)

    def summarize(self) -> dict[str, object] | None:
        """The prompts that were cut off, as the manifest keeps them; None where nothing shows that any was."""
        low, high = self._fullest.characters
        same = self._fullest.prompts >= _FEW and high > _SPREAD * low
        chosen = self._fullest if same and self._fullest.prompts > self._implausible.prompts else self._implausible
        return chosen.to_dict() if chosen.prompts else None


def describe_truncation(found: Mapping[str, Any] | None) -> str:
    """What a reader must know of prompts that were cut off; "" of none. found: as `Truncation.summarize` gives it."""
    if found is None:
        return ""
    tokens, characters, prompts = found["tokens"], found["characters"], found["prompts"]
    each = sorted((characters[0] / max(1, tokens[0]), characters[1] / max(1, tokens[1])))
    return (
        f"the server cuts prompts off: it counted {_span(tokens)} tokens in {count_noun(prompts, 'prompt')} of "
        f"{_span(characters)} characters ({_span([round(one) for one in each])} characters a token; 3 to 5 are usual), "
        "so these answers are to a part of their question; raise the server's context (num_ctx of Ollama) and ask "
        "again in a new run"
    )


def _span(ends: Sequence[int]) -> str:
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


LEARNED = 16  # how many answers it takes before the number of tokens a byte is learned from them
AT_ONCE = 256  # how many bytes are compared as one number


def common_length(first: bytes, second: bytes) -> int:
    """The number of bytes with which both begin alike."""
    # Found by bisection: comparing two slices is much quicker than comparing byte by byte. What is left of it is taken
    # as two numbers, whose highest different bit tells the first different byte.
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while high - low > AT_ONCE:
        middle = (low + high) >> 1
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    different = int.from_bytes(first[low:high], "big") ^ int.from_bytes(second[low:high], "big")
    return high - (different.bit_length() + 7) // 8


@dataclass
class PrefixMeter:
    """Counts, over the prompts answered so far, the tokens that the server took from its prefix cache.

    What a prompt shares with earlier ones is known in bytes of the request. How many tokens those are is learned from
    the answers by least squares, as the slope of tokens over bytes; that leaves out the fixed end of a prompt (labels,
    chat template), which has more tokens a byte. bench/prefix.py compares the estimate with the true number.
    """

    # tokens of one block of the cache, 1 where the server does not report it; vLLM shares whole blocks only
    block: int = 1
    prompt: int = 0  # all prompt tokens
    cached: int = 0  # those that came from the cache
    shareable: int = 0  # an estimate of those that could have come from a cache that forgets nothing
    reported: bool = False  # whether the server reports cached tokens with its answers

    def __post_init__(self) -> None:
        self.truncation = Truncation()
        self._last: dict[int, bytes] = {}  # the last prompt by the number of its turn
        self._answers, self._bytes, self._squares, self._products = 0, 0.0, 0.0, 0.0

    def share(self, request: Request, before: Request | None = None) -> int:
        """How many bytes the prompt shares with the last one of the same turn, or with that of the turn before in its
        own conversation, whose request is `before`; to be called in the order of requests."""
        prompt, turn = request.prefix, request.identity.turn
        shared = common_length(self._last.get(turn, b""), prompt)
        self._last[turn] = prompt
        if before is not None and prompt.startswith(before.body[: before.prompt - 1]):  # all but the closing bracket
            return max(shared, before.prompt - 1)
        return shared

    def note_answer(self, shared: int, prompt: bytes, usage: Mapping[str, int] | None) -> None:
        """Count the prompt of an answer, and look whether it was cut off. shared: as `share` gives it. usage: the
        tokens that the server reports, as "prompt" and "cached"; without them the answer is not counted."""
        size = len(prompt)
        if not usage or not (tokens := usage.get("prompt")) or size <= 0:
            return
        self.truncation.add(prompt, tokens)
        self.prompt += tokens
        self._answers += 1
        self._bytes += size
        self._squares += size * size
        self._products += size * tokens
        # A server always computes the last token of a prompt, because the answer is sampled from its logits.
        self.shareable += min(int(shared * self._density(tokens / size)), tokens - 1) // self.block * self.block
        if (cached := usage.get("cached")) is not None:
            self.reported = True
            self.cached += cached

    def _density(self, usual: float) -> float:
        """Tokens a byte, by least squares; `usual` while there are few answers or all prompts have the same length."""
        answers, size = self._answers, self._bytes
        spread = answers * self._squares - size**2
        if answers < LEARNED or spread < (0.05 * size) ** 2:
            return usual
        slope = (answers * self._products - size * self.prompt) / spread
        return min(max(slope, usual / 2), usual)

    @property
    def cached_share(self) -> float | None:
        """The share of all prompt tokens that came from the cache, 0 to 1; None where the server does not report it."""
        return self.cached / self.prompt if self.reported and self.prompt else None

    @property
    def bound(self) -> float | None:
        return self.shareable / self.prompt if self.prompt else None

    def to_dict(self) -> dict[str, int]:
        """The token counts as the manifest holds them; without "cached" where the server does not report it."""
        cached = {"cached": self.cached} if self.reported else {}
        return {"prompt": self.prompt, **cached, "shareable": self.shareable, "block": self.block}


KEPT = 256  # how many tokens of a prompt are kept: the last ones, since a row of the journal must stay small
Tokens = list[tuple[str, float | None]]  # tokens with their log-probabilities, None where there is none


def read_prompt_logprobs(entries: Any) -> tuple[Tokens | None, int]:
    """The last KEPT tokens of a prompt with their log-probabilities, and how many stood before them.

    entries: for each token a mapping from its number to its text and log-probability, or null for the first one;
    anything else gives (None, 0). A token whose text is no whole character is named by its number, because different
    ones would look the same.
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
