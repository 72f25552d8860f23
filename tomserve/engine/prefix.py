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

    block: tokens a cache block, where the server tells (vLLM shares whole blocks only). The share of a prompt that
    earlier ones have is measured in bytes of the request and applied to its tokens, so `shareable` is an estimate: it
    leaves out what a chat template adds.
    """

    block: int = 1
    prompt: int = 0
    cached: int = 0
    shareable: int = 0
    told: bool = False  # whether the server reports cached tokens with its answers

    def __post_init__(self) -> None:
        self._last = b""

    def share(self, request: Request) -> float:
        """The share of the prompt that the request before it has too. Call it in the order of the requests."""
        before, self._last = self._last, request.body[: request.prompt]
        return common(before, self._last) / max(1, request.prompt)

    def answered(self, share: float, usage: Mapping[str, int] | None) -> None:
        """Take note of an answer to a request of that `share`."""
        if not usage or not (tokens := usage.get("prompt")):
            return
        self.prompt += tokens
        # the last token is always computed: without it there would be no logits
        self.shareable += min(int(share * tokens), tokens - 1) // self.block * self.block
        if (cached := usage.get("cached")) is not None:
            self.told = True
            self.cached += cached

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
