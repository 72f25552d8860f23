"""Forward hooks on the decoder blocks of a model, which read, replace or skip the residual stream that they hand on.

A block hands on the residual stream, as a bare tensor (transformers 5) or first in a tuple (most of transformers
4.57). transformers' own `hidden_states` cannot be used for this: its last entry lies after the final norm.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from tomserve.errors import ConfigError

Output = torch.Tensor | tuple[Any, ...]  # what a block returns


class Blocks:
    """The decoder blocks of a model, numbered from 1."""

    def __init__(self, model: Any) -> None:
        self.modules = find_blocks(model)
        self._named = type(model).__name__
        self._more: tuple[Any, ...] | None = None  # what a block returns beside the residual stream: nothing known yet
        self._bare = True

    def __len__(self) -> int:
        return len(self.modules)

    @contextmanager
    def reading(self) -> Iterator[list[torch.Tensor]]:
        """While this is open, a run of the model fills the list with the last token's state [batch, width] after each
        block: copies in the data type of the model. The run raises ConfigError where a model has no single stream."""
        found: list[torch.Tensor] = []

        def read(module: nn.Module, inputs: Any, output: Output) -> None:
            self._note(output)
            found.append(hidden_of(output)[:, -1].detach().clone())

        with ExitStack() as stack:
            for block in self.modules:
                stack.callback(block.register_forward_hook(read).remove)
            yield found

    @contextmanager
    def replacing(self, layers: Sequence[int], states: torch.Tensor, *, stacked: bool) -> Iterator[None]:
        """While this is open, the state of row i after block layers[i] is states[i] [width] instead of the block's.

        layers: m numbers from 1. stacked: whether the rows are m tokens of one sequence [1, m, width], rather than the
        last tokens of m sequences [m, tokens, width].
        """
        rows: dict[int, list[int]] = {}
        for row, layer in enumerate(layers):
            rows.setdefault(layer, []).append(row)
        with ExitStack() as stack:
            for layer, own in rows.items():
                hook = _replacement(own, states[own], stacked)
                stack.callback(self.modules[layer - 1].register_forward_hook(hook).remove)
            yield

    @contextmanager
    def skipping(self, number: int) -> Iterator[None]:
        """While this is open, the first `number` blocks hand on what they get without computing anything: by another
        `forward`, since their hooks have to run."""
        if self._more is None:
            number = 0  # how the blocks of this model answer was not seen yet
        with ExitStack() as stack:
            for block in list(self.modules)[:number]:
                stack.callback(_restore_forward, block, vars(block).get("forward"))
                block.forward = self._pass_on
            yield

    def _note(self, output: Output) -> None:
        if self._more is None:
            shape = list(hidden_of(output).shape)
            if len(shape) != 3:
                raise ConfigError(
                    f"{self._named}: expected blocks that hand on one residual stream [batch, tokens, width], got "
                    f"{shape}; such a model cannot be measured, choose another one"
                )
            self._bare = isinstance(output, torch.Tensor)
            self._more = () if isinstance(output, torch.Tensor) else (None,) * (len(output) - 1)

    def _pass_on(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Output:
        return hidden_states if self._bare else (hidden_states, *(self._more or ()))


def find_blocks(model: Any) -> nn.ModuleList:
    """The decoder blocks: the one list of modules that is as long as the configuration says, and lies in no other one.
    Raises ConfigError where there is no such list, or several."""
    number = int(model.config.get_text_config().num_hidden_layers)
    fitting = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == number
    }
    # Experts are lists of modules, too; they lie inside of a block.
    outer = {name: one for name, one in fitting.items() if not any(name.startswith(f"{other}.") for other in fitting)}
    if len(outer) != 1:
        found = ", ".join(outer) or "none"
        raise ConfigError(
            f"{type(model).__name__}: expected one list of {number} decoder blocks in the model, found {found}; such a "
            "model cannot be measured, choose another one"
        )
    return next(iter(outer.values()))


def hidden_of(output: Output) -> torch.Tensor:
    """The residual stream in what a block returned, [batch, tokens, width]."""
    hidden: torch.Tensor = output if isinstance(output, torch.Tensor) else output[0]
    return hidden


def _replacement(rows: list[int], states: torch.Tensor, stacked: bool) -> Any:
    """A hook that puts `states` [rows, width] in the place of what the block says of these rows."""

    def replace(module: nn.Module, inputs: Any, output: Output) -> Output:
        hidden = hidden_of(output)
        changed = hidden.clone()  # a block may hand on a tensor that it still needs
        new = states.to(changed.device, changed.dtype)
        if stacked:
            changed[0, rows] = new
        else:
            changed[rows, -1] = new
        return changed if isinstance(output, torch.Tensor) else (changed, *output[1:])

    return replace


def _restore_forward(block: nn.Module, before: Any) -> None:
    """Give a block its `forward` back: that of its class, or the one that accelerate has put there."""
    if before is None:
        del block.forward
    else:
        block.forward = before
