"""What needs torch is left out where the extra `causal` is not installed, and runs on a GPU too where there is one."""

import importlib.util

import pytest

THERE = all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))

collect_ignore_glob = [] if THERE else ["test_*.py"]


def gpus() -> int:
    """How many GPUs torch sees."""
    if not THERE:
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not gpus(), reason="needs a GPU"))])
def device(request: pytest.FixtureRequest) -> str:
    """Every device on which a model has to give the same."""
    return str(request.param)
