"""The keys and values of all tokens of a prompt but the last, from which the last one is run again and again.

A causal model's keys and values of earlier tokens do not depend on the last token, so that a run in which only the last
token's state is replaced needs to run only that token (as in activation patching, Meng et al. 2022, section 2, where
the whole prompt is run). The prefix is computed once. A run borrows a view of it and gives it back untouched, so that
nothing is copied to crop or to restore it. (`cache.crop` would do as well after runs of one row, with a negative number
since transformers 5.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer


class NoPrefixError(Exception):
    """The model keeps something else than keys and values of single tokens, so that no prefix can be lent out."""


class Prefix:
    """What a model keeps of the first tokens of a prompt."""

    def __init__(self, cache: Any, length: int) -> None:
        """Take the cache that a run over `length` tokens (batch of 1) has filled.

        Raises NoPrefixError where some layer of it holds no plain keys and values of all these tokens, as layers with a
        recurrent state do.
        """
        layers = cache.layers if isinstance(cache, DynamicCache) else ()
        if not layers or any(type(layer) is not DynamicLayer or layer.keys is None for layer in layers):
            raise NoPrefixError(f"{type(cache).__name__} holds more than keys and values")
        if any(
            tuple(part.shape[i] for i in (0, -2)) != (1, length) for one in layers for part in (one.keys, one.values)
        ):
            raise NoPrefixError("some layers do not keep all tokens")
        self.length = length
        self._cache = cache
        self._kept = [(layer.keys, layer.values) for layer in layers]

    @property
    def bytes(self) -> int:
        """How much memory the keys and values take."""
        return sum(part.numel() * part.element_size() for pair in self._kept for part in pair)

    @contextmanager
    def lent(self, rows: int) -> Iterator[Any]:
        """A cache for a run of `rows` sequences that all begin with this prefix; it is as before once this is closed.

        The rows share the memory of the prefix until a layer adds its new token.
        """
        try:
            for layer, (keys, values) in zip(self._cache.layers, self._kept, strict=True):
                layer.keys = keys.expand(rows, *keys.shape[1:])
                layer.values = values.expand(rows, *values.shape[1:])
            yield self._cache
        finally:
            for layer, (keys, values) in zip(self._cache.layers, self._kept, strict=True):
                layer.keys, layer.values = keys, values


def prefill(model: Any, tokens: Sequence[int], device: torch.device, takes: frozenset[str]) -> Prefix:
    """Run a model over `tokens`, and keep what it keeps of them.

    takes: the names of the arguments of the model's `forward`. Every layer is made to keep all tokens, those with a
    sliding window included, for which transformers masks what lies outside of the window. Raises NoPrefixError where
    the model does not keep keys and values of single tokens, or takes no cache; a model that wants a cache of its own
    kind raises an error of its own.
    """
    if "past_key_values" not in takes:
        raise NoPrefixError(f"{type(model).__name__} takes no cache")
    ids = torch.tensor([list(tokens)], device=device)
    more = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
    output = model(input_ids=ids, past_key_values=DynamicCache(), use_cache=True, **more)
    return Prefix(output.past_key_values, len(tokens))


def stacked_mask(length: int, rows: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The additive attention mask [1, 1, rows, length + rows] of m last tokens side by side.

    Each row sees the prefix of `length` tokens and itself, and none of the other rows: 0 where it sees, the least
    number of the data type where it does not.
    """
    least = torch.finfo(dtype).min
    own = torch.full((rows, rows), least, dtype=dtype, device=device).fill_diagonal_(0)
    return torch.cat([torch.zeros(rows, length, dtype=dtype, device=device), own], dim=1)[None, None]
