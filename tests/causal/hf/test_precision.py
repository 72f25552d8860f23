"""Products in float32 stay in float32, though the surroundings allow less."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.conftest import ROOT
from tests.helpers.tiny_models import tiny
from tomserve.causal.backend import Prompt
from tomserve.causal.hf.model import HfBackend
from tomserve.causal.hf.precision import float32_products

PROMPT = Prompt((3, 4, 5, 6, 7), (8, 9))


def test_every_run_of_the_model_multiplies_in_float32_and_what_was_allowed_comes_back(
    request: pytest.FixtureRequest,
) -> None:
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
    with pytest.raises(ZeroDivisionError), float32_products():
        raise ZeroDivisionError
    assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.system
@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        ("", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
        ("torch.backends.cuda.matmul.fp32_precision = 'tf32'", ""),
        ("torch.backends.fp32_precision = 'tf32'", ""),
    ],
)
def test_nothing_allows_less_however_it_is_said(allowed: str, said: str) -> None:
    """In a process of its own, since torch refuses what mixes its two ways to say so."""
    if allowed and not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this version of torch has one way to say so")
    code = f"""
import torch
from tomserve.causal.hf.precision import float32_products
cublas = torch.backends.cuda.matmul
tf32 = lambda: getattr(cublas, "fp32_precision", None) == "tf32" or cublas.allow_tf32
{allowed}
assert tf32()
with float32_products():
    assert not tf32() and not cublas.allow_tf32 and (torch.ones(2, 2) @ torch.ones(2, 2)).sum() == 8
assert tf32()
"""
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)} | ({said: "1"} if said else {})
    subprocess.run([sys.executable, "-c", code], check=True, env=surroundings, timeout=120)
