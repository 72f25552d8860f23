"""Extra losses during training, on what some layers should know on the way to an answer; inference does not use them.

A belief is found in steps, and each step gets a loss of its own. At the end of a sentence the model should know the
sentence's number (`number`), who learns something from it (`who`) and which label they learn (`what`). Where a label is
about to be said, it should know whose belief is asked (`who`) and, in a chain, after which sentence (`number`), and it
should attend to the sentence or the earlier belief of the chain where the label is to be found (`look`). With losses on
answers alone a small model had not learned to match the asked name with the names of the story after ten minutes; with
a loss on each step it takes two. `number`, `who` and `what` are linear readouts of a layer's output; `look` is a loss
on the attention of some heads.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from llama import Llama, Seen
from torch import Tensor, nn

LAYERS = {"who": 2, "number": 2, "what": 3}
"""The layer, counted from 1, after which each hint is read out."""
LOOK, HEADS = 4, 2
"""The layer (LOOK) whose attention is trained to find the label, and how many of its heads (HEADS) are."""


class Hints(nn.Module):
    """The linear readouts [3, d, d], one a hint, each from the hidden states into the space of the token embeddings."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.readouts = nn.Parameter(torch.eye(width).repeat(len(LAYERS), 1, 1))

    @staticmethod
    def seen() -> Seen:
        """An empty record of what the forward pass has to note for these losses."""
        return Seen(set(LAYERS.values()), [LOOK])

    def forward(
        self, model: Llama, seen: Seen, shift: tuple[int, int], notes: dict[str, tuple[Tensor, Tensor]], looks: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """By hint the summed loss [] and whether each readout was right [n].

        model: the model that is trained.
        seen: what `Llama.hidden` has noted.
        shift: the padded lengths of the opening and of the stories, to find a place among the keys.
        notes, looks: as in `lessons.Batch`, on the model's device.
        """
        judged: dict[str, tuple[Tensor, Tensor]] = {}
        for readout, (hint, layer) in zip(self.readouts, LAYERS.items(), strict=True):
            hidden = torch.cat(
                [part[note[:, 0], note[:, 1]] for part, note in zip(seen.hidden[layer], notes[hint], strict=True)]
            )
            tokens = torch.cat([note[:, 2] for note in notes[hint]])
            judged[hint] = _judged(model.logits(hidden @ readout.to(hidden.dtype)), tokens)
        rows, places, inside, source = looks.T
        queries, keys, bias = seen.attention[LOOK]
        verdicts = []
        for head in range(HEADS):
            scores = torch.matmul(keys[rows, head], queries[rows, head, places][:, :, None])[:, :, 0]
            scores = (scores * queries.shape[-1] ** -0.5 + bias[rows, places]).float()
            verdicts.append(_judged(scores, source + shift[0] + inside * shift[1]))
        losses, right = zip(*verdicts, strict=True)
        judged["look"] = torch.stack(losses).mean(), torch.stack(right).float().mean(0)
        return judged


def _judged(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The summed cross-entropy of scores [n, classes] and whether each target has the highest score [n]."""
    return F.cross_entropy(scores, targets, reduction="sum"), scores.detach().argmax(-1) == targets
