"""The optimiser Muon (Jordan et al. 2024) for matrices: it steps by the orthogonal matrix nearest to the momentum."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class Muon(torch.optim.Optimizer):
    """Parameters have shape [..., rows, columns], where leading dimensions count separate matrices.

    lr: size of a step, in units of an orthogonal matrix scaled by sqrt(max(1, rows / columns)).
    momentum: the share of the running mean of gradients that is kept at each step.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step; parameters without a gradient stay as they are. `closure` is not used."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                moving = state["momentum"]
                moving.lerp_(parameter.grad, 1 - group["momentum"])
                step = orthogonal(parameter.grad.lerp(moving, group["momentum"]))
                scale = max(1.0, parameter.shape[-2] / parameter.shape[-1]) ** 0.5
                parameter.add_(step, alpha=-group["lr"] * scale)


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """About U V^T of each matrix's singular value decomposition, by a quintic Newton-Schulz iteration; shape [...,
    rows, columns].
    """
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x.bfloat16()
    for _ in range(steps):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    result: Tensor = (x.mT if tall else x).float()
    return result
