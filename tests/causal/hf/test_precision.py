"""Products in float32 stay in float32, though the surroundings allow less."""

from __future__ import annotations

import numpy as np
import pytest
import torch

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
