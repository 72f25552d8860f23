"""Keeps products of float32 matrices in float32, whatever the surroundings have allowed.

On GPUs torch may multiply them in TF32, which keeps 10 bits of each number: where `torch.set_float32_matmul_precision`
was called in a notebook, or where TORCH_ALLOW_TF32_CUBLAS_OVERRIDE is set, as it is in images that GPU vendors make.
A model that is said to be run in float32 would then not be, and neither would the logits of one in half precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def float32_products() -> Iterator[None]:
    """While this is open, float32 matrices are multiplied in float32; afterwards as before."""
    cublas = torch.backends.cuda.matmul
    own = getattr(cublas, "fp32_precision", None)  # torch has two ways to say this since 2.9, and refuses a mixture
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:
        before = None  # it was said in the newer way alone
    torch.set_float32_matmul_precision("highest")  # says it in both ways
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        else:
            cublas.fp32_precision = own
