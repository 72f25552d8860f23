"""Does work in pieces that fit into memory: a piece that does not fit is halved, and so are all pieces after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from tomserve.errors import MachineError

Result = TypeVar("Result")

ALLOCATING = ("DefaultCPUAllocator", "CUDA error: out of memory", "_STATUS_ALLOC_FAILED")
"""What stands in errors of no class of their own that say the same: torch's allocator of main memory; the driver, where
another program took what was left; cuBLAS and cuDNN, which take room beside torch's."""


class Pieces:
    """How many things are done at a time."""

    def __init__(self, most: int) -> None:
        """Begin with at most so many at a time."""
        self.most = max(1, most)

    def each(
        self, number: int, do: Callable[[int, int], Result], limit: Callable[[int], int] | None = None
    ) -> list[Result]:
        """Do things 0 to number - 1, a piece [first, last) at a time, and return what came out of each piece.

        limit: how many things, from the one of that number on, may be done at a time where that is fewer than `most`.
        Raises MachineError where the memory does not suffice for a single one.
        """
        results: list[Result] = []
        first = 0
        while first < number:
            allowed = self.most if limit is None else max(1, min(self.most, limit(first)))
            last = min(number, first + allowed)
            try:
                results.append(do(first, last))
            except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if last - first == 1:
                    raise MachineError(
                        "the memory does not suffice for a single prompt: take a device with more memory, spread the "
                        "model over all GPUs (--device auto), or choose a smaller one"
                    ) from None
                self.most = (last - first) // 2
            else:
                first = last
                continue
            # Outside of the handler, whose error keeps the tensors of the failed piece alive.
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return results


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out: torch has a class for that on GPUs only, and not for all of it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in ALLOCATING)
