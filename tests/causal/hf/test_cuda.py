"""What can only be seen on a GPU: the same answers as on a CPU, memory that really runs out, and layouts.

Written where no GPU was at hand: its tolerances are what rounding should need, and have not met a GPU yet.
"""

import gc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers.tiny_models import CONFIGS, LAYERS, VOCABULARY, tiny
from tomserve.causal.activations import Prompt
from tomserve.causal.checkpoints import resolve_model
from tomserve.causal.hf.model import HfBackend, load_checkpoint
from tomserve.errors import MachineError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICES_APART = 1e-3
"""How far states and logits of the order of 1 to 10 may lie apart in float32 on another device; TF32, which keeps 10
bits, would move them by more."""


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A GPU of which this process may take 600 MB."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(6e8 / torch.cuda.get_device_properties(0).total_memory)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_gpu_gives_what_a_cpu_gives(name: str) -> None:
    here, there = (HfBackend(tiny(name, device=device), name=name) for device in ("cpu", "cuda"))
    assert here.method == there.method
    drawn = np.random.default_rng(0)
    asked = [Prompt(tuple(drawn.integers(3, VOCABULARY, length).tolist()), (5, 6, 7)) for length in (21, 8, 14)]
    expected, found = here.run(asked), there.run(asked)
    assert np.abs(found.states - expected.states).max() < DEVICES_APART
    assert np.abs(found.answers.logits - expected.answers.logits).max() < DEVICES_APART
    layers = np.arange(LAYERS) + 1
    moved = expected.states[0] * np.float32(1.5)
    again = [one.rerun(asked[0], layers, moved).logits for one in (here, there)]
    assert np.abs(again[0] - again[1]).max() < DEVICES_APART


@pytest.mark.usefixtures("little_memory")
def test_memory_that_runs_out_halves_the_batch() -> None:
    drawn = np.random.default_rng(0)
    asked = [Prompt(tuple(drawn.integers(3, VOCABULARY, 500).tolist()), (5, 6)) for _ in range(64)]
    backend = HfBackend(tiny("gemma2", device="cuda"), name="gemma2", batch=64)  # keeps whole matrices of attention
    found = backend.run(asked)
    assert backend._prompts.most < 64
    alone = backend.run(asked[:1])
    assert np.abs(found.states[0] - alone.states[0]).max() < DEVICES_APART
    long = Prompt(tuple(drawn.integers(3, VOCABULARY, 20_000).tolist()), (5, 6))
    with pytest.raises(MachineError, match="single prompt"):
        backend.run([long])
    assert torch.cuda.memory_allocated() < 1e8  # nothing of what failed is kept
    assert np.isfinite(backend.run(asked[:1]).states).all()


@pytest.mark.parametrize("layout", [{"device": "cuda"}, {"device": "cuda:0"}, {"device_map": "auto"}, {}])
def test_every_layout_gives_the_same(layout: dict[str, str]) -> None:
    expected = load_checkpoint(resolve_model("reference"), device="cpu").backend
    backend = load_checkpoint(resolve_model("reference"), dtype="float32", **layout).backend
    told = backend.describe()
    assert (told["devices"], told["dtype"], told["reruns"]) == (["cuda:0"], "float32", "stacked")
    assert told["hardware"]
    prompt = Prompt(tuple(range(100, 300)), (5, 6, 7))
    states = expected.run([prompt]).states[0]
    assert np.abs(backend.run([prompt]).states[0] - states).max() < DEVICES_APART
    layers = np.arange(backend.layers) + 1
    one, other = (way.rerun(prompt, layers, states * 1.5).logits for way in (expected, backend))
    assert np.abs(one - other).max() < DEVICES_APART


def test_a_gpu_computes_in_bfloat16_and_what_it_cannot_hold_is_refused_before_it_is_read() -> None:
    told = load_checkpoint(resolve_model("reference")).backend.describe()
    assert (told["dtype"], told["logits"], told["reruns"]) == ("bfloat16", "float32", "stacked")
    with pytest.raises(MachineError, match="more than cuda has free"):
        load_checkpoint(replace(resolve_model("reference"), parameters=10**12), device="cuda")
