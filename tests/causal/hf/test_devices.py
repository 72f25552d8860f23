"""Nothing that is kept on the CPU meets what lies on the device of the model: tried on a device that holds no numbers.

What a run makes besides (ids, masks, positions, states in place of others) has to lie where the model does; on a GPU one
forgotten tensor ends the run. torch's device `meta` refuses a mixture in the same way, and is there on every machine. (Mixtures of experts need numbers.)
"""

from typing import Any

import pytest
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

from tests.helpers.tiny_models import CONFIGS, VOCABULARY, WIDTH
from tomserve.causal.hf.activation_patching import METHODS, Rerunner
from tomserve.causal.hf.hooks import Blocks

TOKENS = (3, 4, 5, 6, 7)
ASKING = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default, torch.ops.aten.is_nonzero.default)
"""How a program asks for a number, which this device does not have."""


class Apart(TorchDispatchMode):
    """Refuses whatever mixes the CPU's tensors with those of the device `meta`, and says yes to what is asked."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in ASKING and args[0].is_meta:
            return True
        places = {one.device.type for one in args if isinstance(one, torch.Tensor) and one.dim()}
        assert len(places) < 2 or "copy" in str(func), f"{func} mixes {places}"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "gpt2"])
def test_everything_that_a_run_makes_lies_where_the_model_does(name: str) -> None:
    with pytest.raises((AssertionError, RuntimeError), match=r"mixes|same device"), Apart():
        torch.ones(2, 2) @ torch.ones(2, 2, device="meta")
    kind, fields = CONFIGS[name]
    place = torch.device("meta")
    with place:
        model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**fields)).eval()
    for method in METHODS:
        with torch.inference_mode(), Apart():
            again = Rerunner(model, Blocks(model), place, method)
            with again.blocks.reading() as read:
                again._full(TOKENS, 2)
            assert {one.device for one in read} == {place}
            for states in (torch.empty(3, WIDTH, device=place), torch.empty(3, WIDTH)):
                found = again.logits(TOKENS, [1, 2, 4], states)
                assert (found.device, found.dtype, found.shape) == (place, torch.float32, (3, VOCABULARY))
            assert again.method_for(TOKENS) == method
