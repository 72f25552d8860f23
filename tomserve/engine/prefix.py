"""What requests share: the common beginning of prompts, and how much of it a prefix cache could save.

Requests come in the order in which a depth-first walk of the radix tree of their prompts meets them
(`Strategy.order`), so that what a prompt shares with any earlier one it shares with the one just before. A walk
therefore needs one prompt in memory to tell the most that a perfect cache could save: the radix-tree bound.

    >>> common(b"Story: 1. Ann", b"Story: 1. Bob")
    10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tomserve.engine.request import Request

LEARNED = 16
"""Answers from which on the tokens a byte are believed."""


def common(first: bytes, second: bytes) -> int:
    """Length of the common beginning, by halving: a comparison of slices is quicker than one of bytes."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass
class PrefixMeter:
    """Tokens of the prompts answered so far, those that the server took from its cache, those that it could have.

    block: tokens a cache block, where the server tells (vLLM shares whole blocks only). What a prompt shares with
    earlier ones is known in bytes of the request; how many tokens those are is learned from the answers, as the slope
    of tokens over bytes, which leaves out the fixed end of a prompt (labels, chat template), where tokens are denser.
    So `shareable` is an estimate; bench/prefix.py compares it with the true tokens.
    """

    block: int = 1
    prompt: int = 0
    cached: int = 0
    shareable: int = 0
    told: bool = False  # whether the server reports cached tokens with its answers

    def __post_init__(self) -> None:
        self._last = b""
        self._answers, self._bytes, self._squares, self._products = 0, 0.0, 0.0, 0.0

    def share(self, request: Request) -> int:
        """Bytes of the prompt that the request before it has too. Call it in the order of the requests."""
        before, self._last = self._last, request.prefix
        return common(before, self._last)

    def answered(self, shared: int, size: int, usage: Mapping[str, int] | None) -> None:
        """Take note of an answer to a prompt of `size` bytes, of which `shared` were the one's before."""
        if not usage or not (tokens := usage.get("prompt")) or size <= 0:
            return
        self.prompt += tokens
        self._answers += 1
        self._bytes += size
        self._squares += size * size
        self._products += size * tokens
        # the last token is always computed: without it there would be no logits
        self.shareable += min(int(shared * self._density(tokens / size)), tokens - 1) // self.block * self.block
        if (cached := usage.get("cached")) is not None:
            self.told = True
            self.cached += cached

    def _density(self, usual: float) -> float:
        """Tokens a byte where prompts differ in length: least squares, once there is something to go by."""
        spread = self._answers * self._squares - self._bytes**2
        if self._answers < LEARNED or spread < (0.05 * self._bytes) ** 2:
            return usual
        slope = (self._answers * self._products - self._bytes * self.prompt) / spread
        return min(max(slope, usual / 2), usual)

    @property
    def cached_share(self) -> float | None:
        """Of all prompt tokens, those from the cache; None where the server does not tell."""
        return self.cached / self.prompt if self.told and self.prompt else None

    @property
    def bound(self) -> float | None:
        """Of all prompt tokens, those that a cache that forgets nothing would have had."""
        return self.shareable / self.prompt if self.prompt else None

    def to_dict(self) -> dict[str, int]:
        """For the manifest."""
        known = {"cached": self.cached} if self.told else {}
        return {"prompt": self.prompt, **known, "shareable": self.shareable, "block": self.block}
