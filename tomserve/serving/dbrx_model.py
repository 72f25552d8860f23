"""vLLM's DBRX model with its weights loaded through `tomserve.serving.dbrx.load`; only vLLM imports this module."""

from typing import TYPE_CHECKING, Any

from tomserve.serving import dbrx

if TYPE_CHECKING:
    Upstream: Any = object
else:
    from vllm.model_executor.models.dbrx import DbrxForCausalLM as Upstream


class DbrxForCausalLM(Upstream):  # type: ignore[misc, unused-ignore]
    """DBRX with a repaired loader. The class must keep this name: vLLM compares it with config.json's architectures."""

    def load_weights(self, weights: dbrx.Weights) -> set[str]:
        """Load pairs of name and tensor, as `dbrx.load` describes; returns the names of the parameters loaded."""
        names = [name for name, _ in self.named_parameters()]
        return dbrx.load(super().load_weights, weights, names)
