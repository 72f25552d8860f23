"""Three ways to run a prompt again with another state at its last token, and which of them a model can be trusted with.

stacked  the m last tokens stand side by side behind the prefix, at the same position, each seeing the prefix and itself
         alone: the prefix is read once for all of them. Blocks below the replaced one are skipped.
batched  m sequences of one token each behind the prefix, whose keys and values are repeated for each of them.
full     m whole prompts.

The first two are faster, in this order, and rest on how a model is built: that it takes a mask for each pair of tokens,
that nothing but keys and values joins the tokens, that a block needs only what the one before hands on. Rather than to
know this of every architecture, each model is tried on a short random prompt, and the first way counts that gives what
full runs give.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Literal

import torch

from tomserve.causal.hf.blocks import Blocks
from tomserve.causal.hf.memory import is_out_of_memory
from tomserve.causal.hf.prefix import Prefix, prefill, stacked_mask

Method = Literal["stacked", "batched", "full"]
METHODS: tuple[Method, ...] = ("stacked", "batched", "full")

TRIED_TOKENS = 17
"""Length of the random prompt on which a model is tried."""
FLOAT_TOLERANCE, HALF_TOLERANCE = 1e-3, 0.1
"""How far logits may lie from those of a full run, in standard deviations of a prompt's logits, in float32 and in half
precision, where other kernels round differently. In float32, four tiny architectures and the reference model differed
by 2e-6 at most; a mask that hides nothing moved them by .5 and more, a position too many by .2 and more where it counts
(2026-11-23)."""


class Rerunner:
    """Runs prompts of one model again with replaced states; the prefix of the last prompt is kept."""

    def __init__(self, model: Any, blocks: Blocks, device: torch.device, method: Method | None) -> None:
        """Prepare to run `model`, whose inputs go to `device`.

        method: how; None for the fastest way that gives what full runs give.
        """
        self.model, self.blocks, self.device = model, blocks, device
        self.takes = frozenset(inspect.signature(model.forward).parameters)
        self.window = _window(model.config.get_text_config())
        self._prefix: tuple[tuple[int, ...], Prefix] | None = None
        self.beyond: Method = "batched"
        self.method: Method = method or self._trusted()

    def choose(self, method: Method) -> None:
        """Take this way from now on, and forget the prefix that is kept."""
        self.method, self._prefix = method, None

    def way(self, tokens: Sequence[int]) -> Method:
        """How this prompt is run: in full where there is no prefix, and never stacked beyond a sliding window.

        What a stacked token may see is told by one mask for all layers, which those with a window would need smaller.
        """
        if len(tokens) < 2:
            return "full"
        return self.beyond if self.method == "stacked" and len(tokens) > self.window else self.method

    def bytes_a_row(self, tokens: tuple[int, ...]) -> int:
        """How much memory the keys and values of one more row take."""
        return self.prefix(tokens).bytes if self.way(tokens) == "batched" else 0

    def prefix(self, tokens: tuple[int, ...]) -> Prefix:
        """The prefix of a prompt: computed, or kept from the last call."""
        if self._prefix is None or self._prefix[0] != tokens[:-1]:
            self._prefix = None  # so that two are never held at a time
            self._prefix = (tokens[:-1], prefill(self.model, tokens[:-1], self.device, self.takes))
        return self._prefix[1]

    def logits(self, tokens: tuple[int, ...], layers: Sequence[int], states: torch.Tensor) -> torch.Tensor:
        """Float32 logits [m, vocabulary] after the prompt, with states[i] [width] in place after block layers[i]."""
        way = self.way(tokens)
        prefix = None if way == "full" else self.prefix(tokens)  # before any block is changed
        with ExitStack() as stack:
            stack.enter_context(self.blocks.replacing(layers, states, stacked=way == "stacked"))
            if prefix is None:
                return self._full(tokens, len(layers))
            stack.enter_context(self.blocks.skipping(min(layers)))
            if way == "stacked":
                return self._stacked(tokens, prefix, len(layers))
            return self._batched(tokens, prefix, len(layers))

    def _full(self, tokens: tuple[int, ...], rows: int) -> torch.Tensor:
        ids = torch.tensor([tokens] * rows, device=self.device)
        more: dict[str, Any] = {"use_cache": False} if "use_cache" in self.takes else {}
        more |= {"logits_to_keep": 1} if "logits_to_keep" in self.takes else {}
        logits: torch.Tensor = self.model(input_ids=ids, **more).logits[:, -1]
        return logits.float()

    def _batched(self, tokens: tuple[int, ...], prefix: Prefix, rows: int) -> torch.Tensor:
        ids = torch.full((rows, 1), tokens[-1], device=self.device)
        seen = torch.ones((rows, len(tokens)), dtype=torch.long, device=self.device)
        more = {"position_ids": torch.full_like(ids, prefix.length)} if "position_ids" in self.takes else {}
        with prefix.lent(rows) as cache:
            output = self.model(input_ids=ids, attention_mask=seen, past_key_values=cache, use_cache=True, **more)
        logits: torch.Tensor = output.logits[:, -1]
        return logits.float()

    def _stacked(self, tokens: tuple[int, ...], prefix: Prefix, rows: int) -> torch.Tensor:
        ids = torch.full((1, rows), tokens[-1], device=self.device)
        mask = stacked_mask(prefix.length, rows, self.model.dtype, self.device)
        places = torch.full_like(ids, prefix.length)
        with prefix.lent(1) as cache:
            output = self.model(
                input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
            )
        logits: torch.Tensor = output.logits[0]
        return logits.float()

    def _trusted(self) -> Method:
        """The first way that gives what full runs give on a random prompt, or its beginning that fits into a window."""
        noise = torch.Generator().manual_seed(0)
        size = int(self.model.config.get_text_config().vocab_size)
        tokens = tuple(torch.randint(size, (TRIED_TOKENS,), generator=noise).tolist())
        self.beyond = "batched" if self._equal("batched", tokens) else "full"
        short = tokens[: int(min(self.window, TRIED_TOKENS))]
        fast = [way for way in METHODS[:-1] if len(short) > 1 and self._equal(way, short)]
        self._prefix = None
        return fast[0] if fast else "full"

    def _equal(self, method: Method, tokens: tuple[int, ...]) -> bool:
        """Whether this way gives the logits of full runs.

        The states after the first, a middle and the last two blocks are tried, each as it is and moved by as much as
        its own norm in a random direction.
        """
        self.method = "full"
        with self.blocks.reading() as read:
            self._full(tokens, 1)
        number = len(self.blocks)
        layers = sorted({1, (number + 1) // 2, max(1, number - 1), number})
        own = torch.stack([read[layer - 1][0].float().cpu() for layer in layers])
        away = torch.randn(own.shape, generator=torch.Generator().manual_seed(1))
        moved = own + away * own.norm(dim=1, keepdim=True) / away.norm(dim=1, keepdim=True)
        states = torch.cat([own, moved])
        expected = self.logits(tokens, layers * 2, states)
        self.method = method
        try:
            found = self.logits(tokens, layers * 2, states)
        except Exception as error:  # an architecture may fail in any way at what it was not made for
            if is_out_of_memory(error):
                raise
            return False
        apart = ((found - expected).abs().amax(dim=1) / expected.std(dim=1)).cpu()
        if self.model.dtype == torch.float32:
            return bool((apart <= FLOAT_TOLERANCE).all())
        # In half precision a single row may differ by far, where rounding sends its token to another expert.
        return bool(apart.median() <= HALF_TOLERANCE)


def _window(text: Any) -> float:
    """How many tokens the narrowest layer looks back at, the token itself included; infinite where all see all."""
    sizes = [vars(text).get(name) for name in ("sliding_window", "attention_chunk_size", "window_size")]
    return min((size for size in sizes if isinstance(size, int) and size > 0), default=float("inf"))
