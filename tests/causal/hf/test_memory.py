"""Work in pieces that fit into memory."""

from __future__ import annotations

import pytest
import torch

from tomserve.causal.hf.memory import Pieces, is_out_of_memory
from tomserve.errors import MachineError


def test_every_thing_is_done_once_and_in_order_though_pieces_fail() -> None:
    pieces, seen = Pieces(8), list[tuple[int, int]]()

    def do(first: int, last: int) -> list[int]:
        seen.append((first, last))
        if last - first > 3:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return list(range(first, last))

    assert [one for piece in pieces.each(10, do) for one in piece] == list(range(10))
    assert seen == [(0, 8), (0, 4), (0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    assert pieces.most == 2  # what did not fit is not tried again


def test_a_limit_holds_without_lowering_what_comes_after() -> None:
    pieces = Pieces(4)
    assert pieces.each(7, lambda a, b: b - a, lambda first: 1 if first < 2 else 9) == [1, 1, 4, 1]


def test_what_is_too_large_for_one_thing_is_one_line_and_other_errors_are_themselves() -> None:
    def full(first: int, last: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    def broken(first: int, last: int) -> None:
        raise RuntimeError("shapes")

    with pytest.raises(MachineError, match="a single prompt"):
        Pieces(4).each(3, full)
    with pytest.raises(RuntimeError, match="shapes"):
        Pieces(4).each(3, broken)
    assert Pieces(4).each(0, full) == []


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), True),
        (ValueError("CUDA error: out of memory"), False),
        (RuntimeError("CUDA error: device-side assert"), False),
    ],
)
def test_which_errors_are_of_memory(error: Exception, memory: bool) -> None:
    assert is_out_of_memory(error) is memory
