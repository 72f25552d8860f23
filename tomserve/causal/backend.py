"""What a model has to offer so that its inside can be measured and moved: a protocol of two functions.

Layers are numbered from 1: layer 1 is the residual stream after the first block, as in ``hidden_states[1]``. Arrays
that hold all layers keep layer l at index l - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt up to the token before the answer.

    tokens: the ids of all its tokens, what the reply is made to begin with included. choices: for each choice of the
    item, in the order of the item's own list (not the order in which they are shown), the token with which that choice
    goes on from here; no two are equal.
    """

    tokens: tuple[int, ...]
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """How a model goes on after each of n prompts.

    logits: float32 [n, k], of the choices' tokens; k is the largest number of choices among the prompts, and what a
    prompt does not have is NaN. top: int64 [n], the likeliest token of the whole vocabulary.
    """

    logits: Floats
    top: Ints


@dataclass(frozen=True, slots=True)
class Readings:
    """What a model holds and says at the last token of each of n prompts.

    states: float32 [n, layers, width], the residual stream after every block. answers: how it goes on.
    """

    states: Floats
    answers: Answers


class Backend(Protocol):
    """A causal language model whose residual stream can be read and replaced."""

    @property
    def layers(self) -> int:
        """How many blocks it has."""

    @property
    def width(self) -> int:
        """How wide its residual stream is."""

    def run(self, prompts: Sequence[Prompt]) -> Readings:
        """Run all prompts, in batches of the backend's choice.

        Raises MachineError where the memory does not suffice for a single prompt.
        """

    def rerun(self, prompt: Prompt, layers: Ints, states: Floats) -> Answers:
        """Answer one prompt again, m times, each time with another state at its last token.

        layers: int64 [m], after which block the state is replaced, from 1. states: float32 [m, width], what stands
        there instead. Each of the m answers is what a full run would give in which nothing but that state is replaced.
        """
