"""Train the reference model on generated stories: one command, seeded, resumable.

    python launch/reference/train.py                       # state, curve and model in build/reference/
    python launch/reference/train.py --work W --steps 300  # somewhere else, shorter; --processes N shares each batch
    python launch/reference/train.py --export --out launch/reference/model

Repeat the command to resume: the state is written every --save-every steps, data depend on seed, step and processes
alone, so on a CPU a resumed run ends with the same weights, bit for bit, as one that was never stopped (same machine,
same sources, one thread a process).
`curve.jsonl` in the work folder is the learning curve: loss, and accuracy by class on held-out stories.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
import torch.nn.functional as F  # noqa: N812
from hints import Hints
from lessons import FORMS, SEED, Batch, Recipe, batches, die_with_parent, held_out
from llama import Llama, save
from muon import Muon
from packing import CHAT_TEMPLATE, Packer, build_tokenizer, opening
from stories import positive
from torch.multiprocessing.spawn import ProcessExitedException, start_processes

from tomserve import content
from tomserve.serving import reference


def _summed(tensor: torch.Tensor) -> torch.Tensor:
    """The sum over all processes, in place."""
    if distributed.is_initialized():
        distributed.all_reduce(tensor)
    return tensor


def keep_memory() -> None:
    """Let glibc keep freed memory: without that a tenth of the time goes into asking the kernel for it again. Does
    nothing where the system is not Linux with glibc."""
    try:
        libc = ctypes.CDLL(None)
        for setting, value in ((-4, 0), (-1, 2**31 - 1), (-2, 2**26)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
            libc.mallopt(setting, value)
    except (OSError, AttributeError):  # another libc
        pass


class Trainer:
    """Model, optimisers and step; `advance` takes one step. On `device`; arithmetic in bfloat16.

    Where torch.distributed is started, every process holds all of it and sees a share of each batch.
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
            form: torch.tensor(
                self.packer.ids(opening(strategy, demonstration=shown)) if system else [], dtype=torch.long
            ).to(device)
            for form, (strategy, system, shown) in FORMS.items()
        }

    def forward(self, batch: Batch) -> tuple[torch.Tensor, dict[str, list[float]]]:
        """The weighted loss of a batch, and by class whether each label was right (gold before it)."""
        stories, lengths, branches, owner, targets, weights = (
            torch.from_numpy(array).to(self.device)
            for array in (batch.stories, batch.lengths, batch.branches, batch.owner, batch.targets, batch.weights)
        )
        seen = self.hints.seen()
        start = self._openings[batch.form]
        told, asked = self.model.hidden(start, stories, lengths, branches, owner, seen)
        counted = weights > 0
        logits = self.model.logits(asked[counted])
        losses = F.cross_entropy(logits, targets[counted], reduction="none")
        right = torch.zeros_like(counted)
        right[counted] = logits.detach().argmax(-1) == targets[counted]
        found: dict[str, list[float]] = defaultdict(list)
        verdicts = right.cpu().numpy()
        for row, place, name in batch.checks:
            found[name].append(float(verdicts[row, place]))
        if not torch.is_grad_enabled():
            return (losses * weights[counted]).sum() / weights.sum(), found
        there = torch.arange(stories.shape[1] - 1, device=stories.device) < lengths[:, None] - 1
        reading = F.cross_entropy(self.model.logits(told[:, :-1][there]), stories[:, 1:][there], reduction="sum")
        notes = {
            hint: (torch.from_numpy(in_stories).to(self.device), torch.from_numpy(in_branches).to(self.device))
            for hint, (in_stories, in_branches) in batch.notes.items()
        }
        looks = torch.from_numpy(batch.looks).to(self.device)
        hints = self.hints(self.model, seen, (len(start), stories.shape[1]), notes, looks)
        counts = [weights.sum(), there.sum(), *(torch.tensor(len(right)) for _, right in hints.values())]
        # Means are over the shares of all processes: each adds its part of the loss, and gradients are summed.
        wholes = _summed(torch.stack([count.float().to(self.device) for count in counts]))
        loss = (losses * weights[counted]).sum() / wholes[0] + self.recipe.story_weight * reading / wholes[1]
        for (hint, (missed, right)), whole in zip(hints.items(), wholes[2:], strict=True):
            loss = loss + (self.recipe.look if hint == "look" else self.recipe.hints) * missed / whole
            found[f"hint {hint}"] = right.float().tolist()
        return loss, found

    def advance(self, batch: Batch) -> tuple[float, dict[str, list[float]]]:
        """One step; returns loss and verdicts by class."""
        levels = (self.recipe.matrix_rate, self.recipe.embedding_rate)
        for optimizer, level in zip(self.optimizers, levels, strict=True):
            optimizer.param_groups[0]["lr"] = level * self.recipe.rate(self.step)
            optimizer.zero_grad()
        loss, found = self.forward(batch)
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
        return loss.item(), found

    def save(self, path: Path) -> None:
        """Write the whole state in one step: the old file or the new one, never half of one."""
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
        """Take up a saved state. Raises ValueError where it is broken or belongs to another recipe."""
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            tokenizer = state["tokenizer"]
        except Exception as error:  # a torn file fails in any way
            raise ValueError(f"{path} is broken ({type(error).__name__}); delete it to begin again") from None
        if tokenizer != self.packer.tokenizer.to_str():
            raise ValueError(
                f"{path}: made with other words, phrasings or prompts; restore them, or give another --work"
            )
        theirs, ours = state["recipe"], asdict(self.recipe)
        if other := [name for name in ours if theirs.get(name) != ours[name]]:
            differ = ", ".join(f"{name} {theirs.get(name)}, not {ours[name]}" for name in other)
            raise ValueError(f"{path}: made with {differ}; give the same settings, or another --work")
        self.step, self.seconds = state["step"], state["seconds"]
        self.model.load_state_dict(state["model"])
        self.hints.load_state_dict(state["hints"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def export(self, folder: Path) -> None:
        """Write the checkpoint that servers load: weights, config, tokenizer, chat template."""
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
        digest = content.digest(*(folder / name for name in reference.FILES))
        (folder / "digest.txt").write_text(digest + "\n")


@torch.no_grad()
def measure(trainer: Trainer, checked: list[Batch]) -> dict[str, float]:
    """Accuracy by form and class, next token against gold with gold before it."""
    found: dict[str, list[float]] = defaultdict(list)
    for batch in checked:
        for name, verdicts in trainer.forward(batch)[1].items():
            found[f"{batch.form}/{name}"] += verdicts
    return {name: round(sum(verdicts) / len(verdicts), 3) for name, verdicts in sorted(found.items())}


def train(rank: int, recipe: Recipe, chosen: argparse.Namespace, meeting: str) -> None:
    """What one process does; the first one measures, saves and exports."""
    torch.set_num_threads(chosen.threads)
    keep_memory()
    if chosen.processes > 1:
        die_with_parent()
        distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=chosen.processes)
    trainer = Trainer(recipe, chosen.device)
    state = chosen.work / "state.pt"
    if state.exists():
        trainer.load(state)
    shares = batches(recipe, trainer.step, rank, chosen.processes)
    stopped: list[int] = []

    def stop(number: int, _: object) -> None:  # after the step: an exception amid one may leave the others waiting
        stopped.append(number)
        signal.alarm(5)  # and nobody waits longer than that

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    steps = _lead(trainer, shares, chosen) if rank == 0 else (trainer.advance(batch) for batch in shares)
    try:
        for _ in steps:
            if stopped:
                raise SystemExit(130)
    except RuntimeError:  # gloo's, where the other process was first to end
        if not stopped:
            raise
        raise SystemExit(130) from None


def _lead(trainer: Trainer, shares: Iterator[Batch], chosen: argparse.Namespace) -> Iterator[int]:
    """Take the steps, one at a time; measure, save, and export in the end."""
    recipe, state = trainer.recipe, chosen.work / "state.pt"
    total = sum(parameter.numel() for parameter in trainer.model.parameters())
    print(f"{total:,} parameters; step {trainer.step} of {recipe.steps}; state and curve: {chosen.work}", flush=True)
    _cut(chosen.work / "curve.jsonl", trainer.step)
    checked = held_out(trainer.packer, 64)
    seen: dict[str, list[float]] = defaultdict(list)
    losses: list[float] = []
    first, before, began = trainer.step, trainer.seconds, time.monotonic()
    with (chosen.work / "curve.jsonl").open("a") as curve:
        for batch in shares:
            loss, found = trainer.advance(batch)
            losses.append(loss)
            for name, verdicts in found.items():
                seen[name] += verdicts
            last = trainer.step == recipe.steps
            trainer.seconds = before + time.monotonic() - began
            if trainer.step % 50 == 0 or last:
                row: dict[str, Any] = {
                    "step": trainer.step,
                    "seconds": round(trainer.seconds),
                    "loss": round(sum(losses) / len(losses) * chosen.processes, 4),
                    "training": {name: round(sum(of) / len(of), 3) for name, of in sorted(seen.items())},
                }
                if trainer.step % chosen.measure_every == 0 or last:
                    row["held_out"] = measure(trainer, checked)
                curve.write(json.dumps(row) + "\n")
                curve.flush()
                print(_line(row, recipe.steps, (time.monotonic() - began) / (trainer.step - first)), flush=True)
                seen.clear()
                losses.clear()
            if trainer.step % chosen.save_every == 0 or last:
                trainer.save(state)
            yield trainer.step
    trainer.export(chosen.out or chosen.work / "model")
    print(f"exported after {trainer.seconds / 60:.0f} minutes of training", flush=True)


def _cut(curve: Path, step: int) -> None:
    """Drop what a run noted after its last saved state: it is about to be noted again."""
    if curve.exists():
        whole = [line for line in curve.read_text().splitlines(keepends=True) if line.endswith("\n")]
        curve.write_text("".join(line for line in whole if json.loads(line)["step"] <= step))


def _line(row: dict[str, Any], steps: int, pace: float) -> str:
    """What a person reads: where training stands, and the share of answers right by class."""
    right = ", ".join(f"{name} {value:.2f}" for name, value in row["training"].items() if " " not in name)
    left = (steps - row["step"]) * pace / 60
    return (
        f"step {row['step']}/{steps}, {pace:.2f} s a step, {left:.0f} min left; loss {row['loss']:.2f}; right: {right}"
    )


@contextlib.contextmanager
def _stopped(work: Path) -> Iterator[None]:
    """One line instead of a traceback where Ctrl-C or SIGTERM ends it, and no process left behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except (KeyboardInterrupt, SystemExit, ProcessExitedException) as error:
        if isinstance(error, SystemExit) and error.code != 130:
            raise
        if isinstance(error, ProcessExitedException) and error.exit_code != 130:
            raise
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # it is ending
        for process in multiprocessing.active_children():
            process.terminate()
        for process in multiprocessing.active_children():
            process.join(30)
            process.kill()
        print(f"\nstopped; repeat the command to go on from the last state in {work}", flush=True)
        raise SystemExit(130) from None


def main() -> None:
    """Train or go on training, then export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--work", type=Path, default=here.parent.parent / "build/reference", help="state and curve")
    parser.add_argument("--out", type=Path, help="checkpoint folder [WORK/model]")
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument("--processes", type=positive, default=1 if on_gpu else min(2, os.cpu_count() or 1))
    parser.add_argument("--threads", type=positive, default=1, help="a process; on a busy machine more are slower")
    parser.add_argument("--export", action="store_true", help="write the checkpoint of the state so far, train nothing")
    parser.add_argument("--measure-every", type=positive, default=250)
    parser.add_argument("--save-every", type=positive, default=100)
    names: dict[str, Callable[[str], float]] = {
        "steps": positive,
        "batch": positive,
        "seed": int,
        "matrix_rate": float,
        "embedding_rate": float,
        "single": float,
        "short": float,
        "plain": float,
        "relay": float,
        "hints": float,
        "look": float,
    }
    for name, kind in names.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=getattr(Recipe, name))
    chosen = parser.parse_args()
    state = chosen.work / "state.pt"
    try:  # all that the processes will do, so that what is wrong is said once
        recipe = Recipe(**{name: getattr(chosen, name) for name in names})
        if recipe.batch % chosen.processes:
            raise ValueError(f"--batch {recipe.batch} cannot be shared by {chosen.processes} processes")
        chosen.work.mkdir(parents=True, exist_ok=True)
        trainer = Trainer(recipe, chosen.device)
        if state.exists():
            trainer.load(state)
        if chosen.export:
            if not state.exists():
                raise ValueError(f"{state} does not exist: nothing was trained there yet")
            trainer.export(chosen.out or chosen.work / "model")
            print(f"exported step {trainer.step}")
            return
    except (OSError, RuntimeError, ValueError, AssertionError) as error:  # torch without CUDA asserts
        parser.error(str(error).splitlines()[0])
    with tempfile.TemporaryDirectory() as scratch, _stopped(chosen.work):
        job = (recipe, chosen, f"{scratch}/meeting")
        if chosen.processes > 1:
            start_processes(train, job, nprocs=chosen.processes, start_method="spawn")  # type: ignore[no-untyped-call]
        else:
            train(0, *job)


if __name__ == "__main__":
    main()
