"""What a measurement takes before it starts: re-runs, time, memory and disk, by arithmetic that is shown.

>>> Work(cases=200, tokens=400, layers=80, alphas=9, others=0).reruns
6496000
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from tomserve.causal.checkpoints import Checkpoint
from tomserve.causal.moving import cells_of
from tomserve.causal.table import TOLD
from tomserve.causal.tokens import ORDERS

GPU_RATE = 3e14
"""Multiplications and additions a second that one GPU of today's large ones does in bfloat16, at 30% of its peak: a
guess, as no GPU was at hand to measure it."""

FITTING, FITTING_ALPHA = 500, 70
"""What the maps and controls of a layer cost the CPU, for each pair of cases and unit of width: multiplications and
additions, or what takes as long, and so many more for each strength. From 100 to 400 cases at widths from 1024 to 8192
one core took between .8 and 1.4 times as long as that (2026-11-23)."""

SHARE = 0.25
"""The share of a machine's memory that the steps of a group of layers may take."""

ROW = 14
"""Bytes that a row of the table takes in Parquet, as measured."""


@dataclass(frozen=True)
class Work:
    """How much is to be done. cases: how many false-belief items. tokens: how long a prompt is on average. layers: how
    many are moved. alphas: how many strengths. others: from how many other
    families of stories maps are carried over to a case."""

    cases: int
    tokens: float
    layers: int
    alphas: int
    others: int

    @property
    def prompts(self) -> int:
        """How many prompts are run once in full: every telling of every case in both orders."""
        return self.cases * len(TOLD) * len(ORDERS)

    @property
    def cells(self) -> int:
        """How many steps an item makes in a layer, and each order of its choices."""
        return cells_of(self.alphas, self.others)

    @property
    def reruns(self) -> int:
        """How often the last token of a prompt is run again."""
        return self.cases * len(ORDERS) * self.layers * self.cells


@dataclass(frozen=True)
class Machine:
    """What the measurement runs on. rate: multiplications and additions a second. memory: bytes of the main memory.
    device: in words. weight: bytes of one parameter there. processor: the same as rate, of the CPU, which fits the
    maps whatever runs the model."""

    rate: float
    memory: int
    device: str
    weight: int
    processor: float

    @classmethod
    def here(cls, device: str, gpus: int) -> Machine:
        """This machine. device: cpu or cuda. gpus: how many GPUs are used."""
        memory, processor = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _measured_rate()
        if device == "cpu":
            return cls(processor, memory, f"CPU, {os.cpu_count()} cores", 4, processor)
        several = f"{gpus} GPUs, of which one computes at a time"  # a model is spread over them block by block
        return cls(GPU_RATE, memory, several if gpus > 1 else "one GPU", 2, processor)

    @property
    def for_steps(self) -> int:
        """How many bytes the steps of a group of layers may take."""
        return int(SHARE * self.memory)


def _measured_rate() -> float:
    """Multiplications and additions a second of this CPU in float32, of which a model reaches about half, as do maps in
    float64: by the quickest of the products of two matrices in a fifth of a second, as what else the machine does slows
    down some."""
    left = np.ones((512, 512), np.float32)
    begun, quickest = time.perf_counter(), float("inf")
    while (now := time.perf_counter()) - begun < 0.2:
        left @ left
        quickest = min(quickest, time.perf_counter() - now)
    return 0.5 * 2 * 512**3 / quickest


@dataclass(frozen=True)
class Estimate:
    """What a measurement takes. seconds: of time. fitting: seconds of it in which maps are fitted. weights, cache,
    steps, states: bytes of the model's weights, of one prompt's cache for a batch of re-runs, of the steps of a group
    of layers, and of the states on disk. table: bytes of the table and its parts. groups: in how many groups the layers
    are taken."""

    work: Work
    machine: Machine
    seconds: float
    fitting: float
    weights: int
    cache: int
    steps: int
    states: int
    table: int
    groups: int

    def lines(self) -> list[str]:
        """The estimate in whole sentences, with the arithmetic that it rests on."""
        work = self.work
        return [
            f"{work.cases:,} cases x {len(ORDERS)} orders x {work.layers} layers x {work.cells} steps = "
            f"{work.reruns:,} re-runs of one token, after {work.prompts:,} prompts of {work.tokens:.0f} tokens",
            f"time: about {_time(self.seconds)} on {self.machine.device} "
            f"(at {self.machine.rate / 1e9:,.0f} billion operations a second), of which this CPU fits maps for about "
            f"{_time(self.fitting)}",
            f"memory: weights {_bytes(self.weights)}, cache of one prompt {_bytes(self.cache)}, steps "
            f"{_bytes(self.steps)} (layers in {self.groups} group{'s' * (self.groups > 1)})",
            f"disk: states {_bytes(self.states)}, table {_bytes(self.table)}",
        ]


def estimate(checkpoint: Checkpoint, work: Work, machine: Machine) -> Estimate:
    """What that much work takes with that model on that machine.

    A prompt costs two operations for each parameter that is active and token; a re-run the same for one token and, for
    its attention to the prefix, four for each layer, unit of width and token. Each group of layers runs every prefix
    once more. The maps of a layer cost what FITTING says.
    """
    one = max(1, work.cells * work.cases * checkpoint.width * 4)
    size = max(1, machine.for_steps // one)
    groups = -(-work.layers // size)
    per_token = 2.0 * checkpoint.active
    prefixes = (work.prompts + groups * work.cases * len(ORDERS)) * work.tokens * per_token
    reruns = work.reruns * (per_token + 4.0 * checkpoint.layers * checkpoint.width * work.tokens)
    pairs = work.layers * work.cases**2 * checkpoint.width
    fitting = pairs * (FITTING + FITTING_ALPHA * work.alphas) / machine.processor
    return Estimate(
        work,
        machine,
        (prefixes + reruns) / machine.rate + fitting,
        fitting,
        checkpoint.parameters * machine.weight,
        int(checkpoint.bytes_per_token_of_cache * work.tokens),
        min(size, work.layers) * one,
        work.prompts * checkpoint.layers * checkpoint.width * 4,
        2 * ROW * work.reruns,
        groups,
    )


def _bytes(count: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
