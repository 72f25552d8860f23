"""Prefixes that are lent out come back untouched, and caches that hold more than keys and values are refused."""

from __future__ import annotations

import pytest
import torch
from transformers.cache_utils import DynamicCache

from tests.helpers.tiny_models import LAYERS, tiny
from tomserve.causal.hf.prefix import NoPrefixError, Prefix, prefill

TAKES = frozenset(("past_key_values", "logits_to_keep"))


def test_a_lent_prefix_shares_its_memory_and_comes_back() -> None:
    model = tiny("llama")
    with torch.inference_mode():
        prefix = prefill(model, (3, 4, 5, 6), torch.device("cpu"), TAKES)
        keys = prefix._cache.layers[0].keys
        assert prefix.length == 4
        assert prefix.bytes == LAYERS * 2 * 2 * 4 * 8 * 4  # layers, key and value, heads, tokens, numbers, bytes
        with prefix.lent(5) as cache:
            assert cache.layers[0].keys.shape[0] == 5
            assert cache.layers[0].keys.data_ptr() == keys.data_ptr()
            model(input_ids=torch.full((5, 1), 7), past_key_values=cache, use_cache=True)
            assert cache.get_seq_length() == 5
        assert prefix._cache.layers[0].keys is keys
        assert prefix._cache.get_seq_length() == 4


def test_what_is_no_cache_of_keys_and_values_of_all_tokens_is_refused() -> None:
    model = tiny("llama")
    with pytest.raises(NoPrefixError, match="takes no cache"):
        prefill(model, (3, 4), torch.device("cpu"), frozenset())
    for cache in (None, DynamicCache(), DynamicCache(config=tiny("mistral").config)):
        with pytest.raises(NoPrefixError, match="more than keys and values"):
            Prefix(cache, 2)
    filled = DynamicCache()
    with torch.inference_mode():
        model(input_ids=torch.tensor([[3, 4, 5]]), past_key_values=filled, use_cache=True)
    with pytest.raises(NoPrefixError, match="all tokens"):
        Prefix(filled, 2)
