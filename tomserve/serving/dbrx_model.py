"""DBRX as vLLM has it, loading its weights through `tomserve.serving.dbrx.load`. Only vLLM imports this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tomserve.serving import dbrx

if TYPE_CHECKING:
    Upstream: Any = object
else:
    from vllm.model_executor.models.dbrx import DbrxForCausalLM as Upstream


class DbrxForCausalLM(Upstream):  # type: ignore[misc, unused-ignore]
    """The name matters: vLLM compares it with the architectures of config.json."""

    def load_weights(self, weights: dbrx.Weights) -> set[str]:
        """See `dbrx.load`."""
        names = [name for name, _ in self.named_parameters()]
        return dbrx.load(super().load_weights, weights, names)
