"""Has the logits of a model computed in float32 where its weights are stored in less.

In bfloat16 logits near 20 lie 1/8 apart, so that choices tie which are not equally likely, and the likeliest token of
the vocabulary is one of several. The last matrix is therefore multiplied in float32, a slice of the vocabulary at a
time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SLICE = 1 << 14
"""How many rows of the matrix are in memory as float32 at a time."""


def make_exact(model: Any) -> bool:
    """Compute the model's logits in float32 from now on, and tell whether that could be done.

    model: a model of transformers, whose last matrix is a plain linear layer; one that is spread over processes by
    tensor parallelism stays as it is. What the model does to its logits afterwards (caps, factors) still applies.
    """
    head = model.get_output_embeddings()
    if head.weight.dtype == torch.float32:
        return True
    if type(head) is not nn.Linear or type(head.weight.data) is not torch.Tensor or head.weight.is_meta:
        return False
    head.register_forward_hook(_exact)
    return True


def _exact(module: nn.Linear, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
    states = inputs[0].to(module.weight.device, torch.float32)
    parts = [states @ rows.float().T for rows in torch.split(module.weight, SLICE)]
    logits = torch.cat(parts, dim=-1)
    return logits if module.bias is None else logits + module.bias.float()
