"""Unlearns a sentence: a few gradient steps after which the model no longer writes it, and its weights exactly as they
were afterwards.

The loss is that of negative preference optimisation (Zhang et al. 2024), with the divergence from the model as it was
on other passages, which is to keep them. Only weights of the decoder blocks move, so that no word becomes rare by its
embedding alone.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from transformers import GenerationConfig

from tomserve.causal.hf.activation_patching import count_shared
from tomserve.causal.hf.model import LoadedCheckpoint, force_float32

MOST_STEPS = 12
RATE = 2e-5
"""How far the first step moves the weights, as a share of their length. Each further one goes twice as far, so that
hardly more is moved than has to be, whatever the model."""
BETA, KEEPING = 0.1, 1.0
"""Of the loss: how soon a text counts as unlearned, and how much the divergence on other passages weighs."""
EVEN = math.log(0.5)
"""A text that is more probable is still the likeliest, so that nothing needs to be asked."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text behind another one, as tokens. start: the place of its first token, 1 or more."""

    tokens: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True)
class Unlearned:
    """What the unlearning of a text came to. before, after: the natural logarithm of its probability. steps: how many
    were taken. moved: how far the weights are from where they were, as a share of their length."""

    before: float
    after: float
    steps: int
    moved: float


@dataclass
class Unlearner:
    """A loaded model, in float32, whose sentences can be unlearned."""

    loaded: LoadedCheckpoint

    def __post_init__(self) -> None:
        backend = self.loaded.backend
        self.model, self.device = backend.model, backend.device
        every = (one for block in backend.blocks.modules for one in block.parameters())
        self.weights = [one for one in every if one.is_floating_point() and one.dim() > 1]

    @property
    def tokenizer(self) -> Any:
        return self.loaded.tokenizer

    def passage(self, before: str, text: str) -> Passage:
        """A text behind another one, as tokens. Where the tokenizer joins the two, the joint belongs to the text."""
        own = self.tokenizer.encode(before, add_special_tokens=False)
        whole = self.tokenizer.encode(before + text, add_special_tokens=False)
        return Passage(tuple(whole), max(1, min(count_shared(own, whole), len(whole) - 1)))

    def probability(self, passage: Passage) -> float:
        """The natural logarithm of the probability of a passage's text."""
        with torch.no_grad(), force_float32():
            return float(self._sum(passage))

    def choose(self, before: str, replies: Sequence[str]) -> int:
        """The place of the likeliest of several replies."""
        found = [self.probability(self.passage(before, one)) for one in replies]
        return max(range(len(found)), key=found.__getitem__)

    def write(self, before: str, most: int) -> str:
        """How the model goes on with a text, by the likeliest token each time. most: tokens."""
        tokens = torch.tensor([self.tokenizer.encode(before, add_special_tokens=False)], device=self.device)
        ends = self.model.generation_config.eos_token_id or self.tokenizer.eos_token_id
        first = ends[0] if isinstance(ends, list) else ends
        how = GenerationConfig(do_sample=False, max_new_tokens=most, eos_token_id=ends, pad_token_id=first or 0)
        with torch.no_grad(), force_float32():
            made = self.model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), generation_config=how)
        return str(self.tokenizer.decode(made[0, tokens.shape[1] :], skip_special_tokens=True))

    @contextmanager
    def unlearned(
        self, passage: Passage, kept: Sequence[Passage], until: int | Callable[[], bool]
    ) -> Iterator[Unlearned]:
        """While this is open, the model has unlearned the passage's text; afterwards its weights are bit for bit as
        before. kept: passages whose tokens are to stay as likely. until: how many steps are taken, or what says after
        each that it was enough, at most MOST_STEPS."""
        were = [one.detach().clone() for one in self.weights]
        try:
            with force_float32():
                before, taken = self.probability(passage), 0
                with torch.no_grad():
                    as_before = [self._every(one) for one in kept]
                for one in self.weights:
                    one.requires_grad_(True)
                while taken < (until if isinstance(until, int) else MOST_STEPS):
                    said = self._sum(passage)
                    if not isinstance(until, int) and float(said.detach()) <= EVEN and until():
                        break
                    loss = -2 / BETA * functional.logsigmoid(-BETA * (said - before))
                    for other, old in zip(kept, as_before, strict=True):
                        new = self._every(other)
                        loss = loss + KEEPING / len(kept) * functional.kl_div(
                            new, old, log_target=True, reduction="batchmean"
                        )
                    self._move(torch.autograd.grad(loss, self.weights, allow_unused=True), RATE * 2**taken)
                    taken += 1
                for one in self.weights:
                    one.requires_grad_(False)
                moved = self._length([one - old for one, old in zip(self.weights, were, strict=True)])
            yield Unlearned(before, self.probability(passage), taken, moved / self._length(were))
        finally:
            with torch.no_grad():
                for one, old in zip(self.weights, were, strict=True):
                    one.requires_grad_(False)
                    one.copy_(old)

    def _move(self, gradients: Sequence[torch.Tensor | None], rate: float) -> None:
        there = [(one, by) for one, by in zip(self.weights, gradients, strict=True) if by is not None]
        length = self._length([by for _, by in there])
        if not length > 0:
            return
        share = rate * self._length(self.weights) / length
        with torch.no_grad():
            for one, by in there:
                one.sub_(by, alpha=share)

    def _length(self, tensors: Sequence[torch.Tensor]) -> float:
        return math.sqrt(sum(float(one.detach().double().square().sum()) for one in tensors))

    def _every(self, passage: Passage) -> torch.Tensor:
        """Log-probabilities [tokens of the text, vocabulary]."""
        ids = torch.tensor([passage.tokens], device=self.device)
        logits = self.model(input_ids=ids, use_cache=False).logits[0, passage.start - 1 : -1]
        return functional.log_softmax(logits.float(), dim=-1)

    def _sum(self, passage: Passage) -> torch.Tensor:
        wanted = torch.tensor(passage.tokens[passage.start :], device=self.device)
        return self._every(passage).gather(1, wanted[:, None]).sum()
