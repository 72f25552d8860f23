"""Train the reference model on generated stories: one command, seeded, which can be stopped and resumed.

    python launch/reference/train.py                       # state, curve and model in build/reference/
    python launch/reference/train.py --work W --steps 300  # somewhere else, shorter; --processes N shares each batch
    python launch/reference/train.py --export --out launch/reference/model

Repeat the command to resume. The state is written every --save-every steps, and the data depend only on seed, step and
number of processes. On a CPU a resumed run therefore ends with the same weights, bit for bit, as one that was never
stopped (on the same machine, with the same sources and one thread a process). `curve.jsonl` in the work folder is the
learning curve: the loss, and the accuracy by class on held-out stories.
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
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
from lessons import Batch, Recipe, batches, die_with_parent, held_out
from stories import positive
from torch.multiprocessing.spawn import ProcessExitedException, start_processes
from trainer import Trainer, measure


def keep_memory() -> None:
    """Let glibc keep freed memory; otherwise a tenth of the time goes into asking the kernel for it again. On systems
    without glibc nothing is done.
    """
    try:
        libc = ctypes.CDLL(None)
        for setting, value in ((-4, 0), (-1, 2**31 - 1), (-2, 2**26)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
            libc.mallopt(setting, value)
    except (OSError, AttributeError):  # not glibc
        pass


def train(rank: int, recipe: Recipe, chosen: argparse.Namespace, meeting: str) -> None:
    """Train in one process; the first one (rank 0) also measures, saves and exports.

    rank: number of the process. recipe: the settings. chosen: the options of the command line. meeting: path of the
        file by which the processes find each other.
    """
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

    def stop(number: int, _: object) -> None:
        # Stop after the step, because an exception in the middle of one may leave the other processes waiting.
        stopped.append(number)
        signal.alarm(5)  # the step may take so many seconds at most

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    steps = _lead(trainer, shares, chosen) if rank == 0 else (trainer.advance(batch) for batch in shares)
    try:
        for _ in steps:
            if stopped:
                raise SystemExit(130)
    except RuntimeError:  # from gloo, where the other process ended first
        if not stopped:
            raise
        raise SystemExit(130) from None


def _lead(trainer: Trainer, shares: Iterator[Batch], chosen: argparse.Namespace) -> Iterator[int]:
    """Yield after each training step; measure, save and print on the way, and export at the end."""
    recipe, state = trainer.recipe, chosen.work / "state.pt"
    total = sum(parameter.numel() for parameter in trainer.model.parameters())
    print(f"{total:,} parameters; step {trainer.step} of {recipe.total}; state and curve: {chosen.work}", flush=True)
    _cut(chosen.work / "curve.jsonl", trainer.step)
    checked = held_out(trainer.packer, chosen.held_out)
    seen: dict[str, list[float]] = defaultdict(list)
    losses: list[float] = []
    first, before, began = trainer.step, trainer.seconds, time.monotonic()
    with (chosen.work / "curve.jsonl").open("a") as curve:
        for batch in shares:
            loss, by_class = trainer.advance(batch)
            losses.append(loss)
            for name, verdicts in by_class.items():
                seen[name] += verdicts
            last = trainer.step == recipe.total
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
                print(_line(row, recipe.total, (time.monotonic() - began) / (trainer.step - first)), flush=True)
                seen.clear()
                losses.clear()
            if trainer.step % chosen.save_every == 0 or last:
                trainer.save(state)
            yield trainer.step
    trainer.export(chosen.out or chosen.work / "model")
    print(f"exported after {trainer.seconds / 60:.0f} minutes of training", flush=True)


def _cut(curve: Path, step: int) -> None:
    """Remove from the curve what was noted after the last saved state, because those steps are taken again."""
    if curve.exists():
        complete = [line for line in curve.read_text().splitlines(keepends=True) if line.endswith("\n")]
        curve.write_text("".join(line for line in complete if json.loads(line)["step"] <= step))


def _line(row: dict[str, Any], steps: int, pace: float) -> str:
    """A line for people: how far training is, and the share of labels predicted right by class."""
    right = ", ".join(f"{name} {value:.2f}" for name, value in row["training"].items() if " " not in name)
    left = (steps - row["step"]) * pace / 60
    return (
        f"step {row['step']}/{steps}, {pace:.2f} s a step, {left:.0f} min left; loss {row['loss']:.2f}; right: {right}"
    )


@contextlib.contextmanager
def _stopped(work: Path) -> Iterator[None]:
    """Where Ctrl-C or SIGTERM ends the training, print one line and no traceback, and leave no process behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except (KeyboardInterrupt, SystemExit, ProcessExitedException) as error:
        if isinstance(error, SystemExit) and error.code != 130:
            raise
        if isinstance(error, ProcessExitedException) and error.exit_code != 130:
            raise
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second signal must not disturb the end
        for process in multiprocessing.active_children():
            process.terminate()
        for process in multiprocessing.active_children():
            process.join(30)
            process.kill()
        print(f"\nstopped; repeat the command to go on from the last state in {work}", flush=True)
        raise SystemExit(130) from None


def main() -> None:
    """Train, or continue to train, and export the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent
    on_gpu = torch.cuda.is_available()
    parser.add_argument(
        "--work",
        type=Path,
        default=here.parent.parent / "build/reference",
        help="folder of the state and the learning curve",
    )
    parser.add_argument("--out", type=Path, help="folder for the finished checkpoint [WORK/model]")
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument("--processes", type=positive, default=1 if on_gpu else min(2, os.cpu_count() or 1))
    parser.add_argument(
        "--threads",
        type=positive,
        default=1,
        help="threads of each process; on a busy machine more than one are slower",
    )
    parser.add_argument(
        "--export", action="store_true", help="write the checkpoint of the saved state without training"
    )
    parser.add_argument("--measure-every", type=positive, default=250)
    parser.add_argument(
        "--held-out", type=positive, default=64, help="stories that training never shows, on which it is measured"
    )
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
        "social": int,
        "again": float,
    }
    for name, kind in names.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=getattr(Recipe, name))
    chosen = parser.parse_args()
    state = chosen.work / "state.pt"
    try:  # everything that the processes will do first, so that a mistake is reported once and not by each of them
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
