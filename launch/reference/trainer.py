"""One training step of the reference model, its state on disk, and its accuracy on held-out stories."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as distributed
import torch.nn.functional as F  # noqa: N812
from hints import Hints
from lessons import FORMS, KNOWN, SEED, Batch, Recipe
from llama import Llama, save
from muon import Muon
from packing import Packer
from tokens import CHAT_TEMPLATE, build_tokenizer, openings

from tomserve import content
from tomserve.serving import checkpoint


def _summed(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a tensor over all processes, computed in place."""
    if distributed.is_initialized():
        distributed.all_reduce(tensor)
    return tensor


class Trainer:
    """The model, the optimisers and the number of steps taken, on one device, with arithmetic in bfloat16.

    Where torch.distributed is started, every process holds all of this and sees its share of each batch.

    recipe: the settings. device: for torch, such as "cpu" or "cuda".
    """

    def __init__(self, recipe: Recipe, device: str = "cpu") -> None:
        self.recipe, self.device, self.step, self.seconds = recipe, device, 0, 0.0
        self.packer = Packer(build_tokenizer(SEED))
        torch.manual_seed(recipe.seed)
        self.model = Llama(self.packer.tokenizer.get_vocab_size()).to(device)
        self.hints = Hints(self.model.size.width).to(device)
        self.parameters = [*self.model.parameters(), *self.hints.parameters()]
        matrices = list(self.model.matrices().values())
        rest = [self.model.embed, self.model.norm, *self.hints.parameters()]
        rest += [norm for norm in self.model.layers.parameters() if norm.ndim == 1]
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices, recipe.matrix_rate),
            torch.optim.AdamW(rest, recipe.embedding_rate, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self._openings = {
            form: [
                torch.tensor(self.packer.ids(text) if system else [], dtype=torch.long).to(device)
                for text in openings(strategy, demonstration=shown, unknown=form != KNOWN)
            ]
            for form, (strategy, system, shown) in FORMS.items()
        }

    def forward(self, batch: Batch) -> tuple[torch.Tensor, dict[str, list[float]]]:
        """The weighted loss of a batch [], and by class whether each label was predicted right when gold stood before
        it.

        While gradients are enabled the loss includes those on the story's text and on the hints, and the verdicts those
        of the hints.
        """
        stories, lengths, branches, owner, targets, weights = (
            torch.from_numpy(array).to(self.device)
            for array in (batch.stories, batch.lengths, batch.branches, batch.owner, batch.targets, batch.weights)
        )
        seen = self.hints.seen()
        shown = self._openings[batch.form]
        start = shown[batch.opening % len(shown)]
        told, asked = self.model.hidden(start, stories, lengths, branches, owner, seen)
        counted = weights > 0
        logits = self.model.logits(asked[counted])
        losses = F.cross_entropy(logits, targets[counted], reduction="none")
        right = torch.zeros_like(counted)
        right[counted] = logits.detach().argmax(-1) == targets[counted]
        by_class: dict[str, list[float]] = defaultdict(list)
        verdicts = right.cpu().numpy()
        for row, place, name in batch.checks:
            by_class[name].append(float(verdicts[row, place]))
        if not torch.is_grad_enabled():
            return (losses * weights[counted]).sum() / weights.sum(), by_class
        followed = torch.arange(stories.shape[1] - 1, device=stories.device) < lengths[:, None] - 1
        reading = F.cross_entropy(self.model.logits(told[:, :-1][followed]), stories[:, 1:][followed], reduction="sum")
        notes = {
            hint: (torch.from_numpy(in_stories).to(self.device), torch.from_numpy(in_branches).to(self.device))
            for hint, (in_stories, in_branches) in batch.notes.items()
        }
        looks = torch.from_numpy(batch.looks).to(self.device)
        hints = self.hints(self.model, seen, (len(start), stories.shape[1]), notes, looks)
        counts = [weights.sum(), followed.sum(), *(torch.tensor(len(right)) for _, right in hints.values())]
        # A mean is over the shares of all processes: each computes its part of the loss, and the gradients are summed.
        wholes = _summed(torch.stack([count.float().to(self.device) for count in counts]))
        loss = (losses * weights[counted]).sum() / wholes[0] + self.recipe.story_weight * reading / wholes[1]
        for (hint, (missed, right)), whole in zip(hints.items(), wholes[2:], strict=True):
            loss = loss + (self.recipe.look if hint == "look" else self.recipe.hints) * missed / whole
            by_class[f"hint {hint}"] = right.float().tolist()
        return loss, by_class

    def advance(self, batch: Batch) -> tuple[float, dict[str, list[float]]]:
        """Take one training step; returns the loss and the verdicts by class, as `forward` does."""
        levels = (self.recipe.matrix_rate, self.recipe.embedding_rate)
        for optimizer, level in zip(self.optimizers, levels, strict=True):
            optimizer.param_groups[0]["lr"] = level * self.recipe.rate(self.step)
            optimizer.zero_grad()
        loss, by_class = self.forward(batch)
        torch.autograd.backward(loss)
        if distributed.is_initialized():
            gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
            summed = _summed(torch.cat([gradient.flatten() for gradient in gradients]))
            for gradient, part in zip(
                gradients, torch.split(summed, [each.numel() for each in gradients]), strict=True
            ):
                gradient.copy_(part.view_as(gradient))
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        return loss.item(), by_class

    def save(self, path: Path) -> None:
        """Write the whole state to `path` in one step: readers see the old file or the new one, never half of one."""
        partial = path.with_suffix(".part")
        states = [optimizer.state_dict() for optimizer in self.optimizers]
        modules = {"model": self.model.state_dict(), "hints": self.hints.state_dict()}
        state = {
            "step": self.step,
            "tokenizer": self.packer.tokenizer.to_str(),
            "seconds": self.seconds,
            "recipe": asdict(self.recipe),
            **modules,
            "optimizers": states,
        }
        torch.save(state, partial)
        partial.replace(path)

    def load(self, path: Path) -> None:
        """Continue from a saved state. Raises ValueError where it is broken or belongs to another recipe."""
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            tokenizer = state["tokenizer"]
        except Exception as error:  # a file that is cut off can fail in any way
            raise ValueError(f"{path} is broken ({type(error).__name__}); delete it to begin again") from None
        if tokenizer != self.packer.tokenizer.to_str():
            raise ValueError(
                f"{path}: made with other words, phrasings or prompts; restore them, or give another --work"
            )
        theirs, ours = state["recipe"], asdict(self.recipe)
        # The fifth lesson may be set when the four before it are over.
        later = ("social", "again") if state["step"] <= self.recipe.steps else ()
        if other := [name for name in ours if theirs.get(name) != ours[name] and name not in later]:
            differ = ", ".join(f"{name} {theirs.get(name)}, not {ours[name]}" for name in other)
            raise ValueError(f"{path}: made with {differ}; give the same settings, or another --work")
        self.step, self.seconds = state["step"], state["seconds"]
        self.model.load_state_dict(state["model"])
        self.hints.load_state_dict(state["hints"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def export(self, folder: Path) -> None:
        """Write the checkpoint that servers load: weights, config, tokenizer and chat template, and their digest."""
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = self.packer.tokenizer
        save(self.model, folder, self.packer.end, self.packer.pad)
        tokenizer.save(str(folder / "tokenizer.json"))
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "clean_up_tokenization_spaces": False,
            "model_max_length": 4096,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
        (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
        digest = content.digest(*(folder / name for name in checkpoint.REFERENCE_FILES))
        (folder / "digest.txt").write_text(digest + "\n")


@torch.no_grad()
def measure(trainer: Trainer, checked: list[Batch]) -> dict[str, float]:
    """Accuracy in [0, 1] by form and class on batches of held-out stories; each next token is predicted with gold
    before it.
    """
    by_class: dict[str, list[float]] = defaultdict(list)
    for batch in checked:
        for name, verdicts in trainer.forward(batch)[1].items():
            by_class[f"{batch.form}/{name}"] += verdicts
    return {name: round(sum(verdicts) / len(verdicts), 3) for name, verdicts in sorted(by_class.items())}
