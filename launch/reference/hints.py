"""Hints in training: what the layers should know on the way to an answer, read out of them and thrown away afterwards.

A belief is found in steps. At the end of a sentence: its `number`, whom it lets know something (`who`), and which label
(`what`). Where a label is about to be said: about `who` and, in a chain, after which sentence, in the same terms; and
at which sentence, or which earlier belief of the chain, it is to be found (`look`). From answers alone a small model
had not matched the asked name with those of the story after ten minutes; with a loss on each step it takes two.
`number`, `who` and `what` are linear readouts of a layer's output, `look` is the attention of some heads. Inference
knows nothing of it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from llama import Llama, Seen
from torch import Tensor, nn

LAYERS = {"who": 2, "number": 2, "what": 3}
"""The layer (counted from 1) after which each is read."""
LOOK, HEADS = 4, 2
"""The layer that looks, and with how many of its heads."""


class Hints(nn.Module):
    """The readouts [3, d, d], each into the space of the token embeddings."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.readouts = nn.Parameter(torch.eye(width).repeat(len(LAYERS), 1, 1))

    @staticmethod
    def seen() -> Seen:
        """What the forward pass has to note."""
        return Seen(set(LAYERS.values()), [LOOK])

    def forward(
        self, model: Llama, seen: Seen, shift: tuple[int, int], notes: dict[str, tuple[Tensor, Tensor]], looks: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """By hint the summed loss [], and whether each was right [n].

        seen: what `Llama.hidden` noted; shift: the lengths of opening and stories; notes and looks as in
        `lessons.Batch`, on the model's device.
        """
        found: dict[str, tuple[Tensor, Tensor]] = {}
        for readout, (hint, layer) in zip(self.readouts, LAYERS.items(), strict=True):
            hidden = torch.cat(
                [part[note[:, 0], note[:, 1]] for part, note in zip(seen.hidden[layer], notes[hint], strict=True)]
            )
            tokens = torch.cat([note[:, 2] for note in notes[hint]])
            found[hint] = _judged(model.logits(hidden @ readout.to(hidden.dtype)), tokens)
        rows, places, inside, source = looks.T
        queries, keys, bias = seen.attention[LOOK]
        verdicts = []
        for head in range(HEADS):
            scores = torch.matmul(keys[rows, head], queries[rows, head, places][:, :, None])[:, :, 0]
            scores = (scores * queries.shape[-1] ** -0.5 + bias[rows, places]).float()
            verdicts.append(_judged(scores, source + shift[0] + inside * shift[1]))
        losses, right = zip(*verdicts, strict=True)
        found["look"] = torch.stack(losses).mean(), torch.stack(right).float().mean(0)
        return found


def _judged(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return F.cross_entropy(scores, targets, reduction="sum"), scores.detach().argmax(-1) == targets
