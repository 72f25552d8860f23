"""Work in pieces that fit into memory, prefixes that are lent out, and products that stay in float32."""

import numpy as np
import pytest
import torch
from transformers.cache_utils import DynamicCache

from tests.helpers.tiny_models import LAYERS, tiny
from tomserve.causal.activations import Prompt
from tomserve.causal.hf.activation_patching import BatchPieces, NoPrefixError, Prefix, is_out_of_memory, prefill
from tomserve.causal.hf.model import HfBackend, force_float32
from tomserve.errors import MachineError


def test_every_thing_is_done_once_and_in_order_though_pieces_fail() -> None:
    pieces, seen = BatchPieces(8), list[tuple[int, int]]()

    def do(first: int, last: int) -> None:
        seen.append((first, last))
        if last - first > 3:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    pieces.run_each(10, do, lambda first: 10)
    assert seen == [(0, 8), (0, 4), (0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    assert pieces.most == 2  # what did not fit is not tried again


def test_what_is_too_large_for_one_thing_is_one_line_and_other_errors_are_themselves() -> None:
    def full(first: int, last: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    def broken(first: int, last: int) -> None:
        raise RuntimeError("shapes")

    with pytest.raises(MachineError, match="a single prompt"):
        BatchPieces(4).run_each(3, full, lambda first: 3)
    with pytest.raises(RuntimeError, match="shapes"):
        BatchPieces(4).run_each(3, broken, lambda first: 3)
    BatchPieces(4).run_each(0, full, lambda first: 3)


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), True),
        (ValueError("CUDA error: out of memory"), False),
    ],
)
def test_which_errors_are_of_memory(error: Exception, memory: bool) -> None:
    assert is_out_of_memory(error) is memory


# Prefixes that are lent out, and caches that hold more than keys and values


TAKES = frozenset(("past_key_values", "logits_to_keep"))


def test_a_lent_prefix_shares_its_memory_and_comes_back() -> None:
    model = tiny("llama")
    with torch.inference_mode():
        prefix, _ = prefill(model, (3, 4, 5, 6), torch.device("cpu"), TAKES)
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


# Products in float32 stay in float32, though the surroundings allow less


PROMPT = Prompt((3, 4, 5, 6, 7), (8, 9))


def test_every_run_of_the_model_multiplies_in_float32_and_what_was_allowed_comes_back(request) -> None:
    request.addfinalizer(lambda: torch.set_float32_matmul_precision("highest"))
    seen: list[tuple[str, bool]] = []
    model = tiny("llama")
    model.register_forward_pre_hook(
        lambda *_: seen.append((torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32))
    )
    torch.set_float32_matmul_precision("medium")
    backend = HfBackend(model, name="llama")
    assert (len(seen) > 0, torch.get_float32_matmul_precision()) == (True, "medium")
    states = backend.run([PROMPT]).states[0]
    tried = len(seen)
    backend.rerun(PROMPT, np.array([1, 2]), states[:2])
    assert len(seen) > tried
    assert set(seen) == {("highest", False)}
    assert (torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32) == ("medium", True)
    with pytest.raises(ZeroDivisionError), force_float32():
        raise ZeroDivisionError
    assert torch.get_float32_matmul_precision() == "medium"
