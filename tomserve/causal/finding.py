"""Finds what is measured: the cases, the model, its tokenizer and the prompts, and refuses what cannot be measured.

Nothing of this imports torch, but for `load`, which reads the weights.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tomserve import benchmarks
from tomserve.benchmarks.counterfactuals import Case, draw_cases
from tomserve.causal import checkpoints
from tomserve.causal.asked import Asked
from tomserve.causal.backend import Backend
from tomserve.causal.checkpoints import Checkpoint
from tomserve.causal.estimate import Estimate, Machine, Work, estimate
from tomserve.causal.settings import Settings
from tomserve.causal.steering import TRANSFER_LEAST
from tomserve.causal.tokens import check_strategy, fitting_strategy, prompts_of
from tomserve.content import digest
from tomserve.content.files import one_line
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.serving.sizing import BYTES

FILES = (".jsonl", ".json", ".yaml", ".yml")
"""How the names of files of items end."""

ANY_FILE = "items"
"""The benchmark that reads a user's file of items."""

DTYPES = ("float32", "bfloat16", "float16")
"""The data types that a model may be run in."""

WORDS_A_TOKEN = 0.7
"""How many words a token of an English prompt has, for an estimate without a tokenizer."""


@dataclass(frozen=True, kw_only=True)
class On:
    """What a measurement runs on; it may differ from session to session, and the manifest notes it for each.

    device: cpu, cuda, cuda:N, or auto for all GPUs; None for what is there. dtype: of the weights, None for float32 on
    a CPU and bfloat16 on a GPU. batch: how many prompts run at once, None for as many as the memory holds. revision:
    of a model on the hub.
    """

    device: str | None = None
    dtype: str | None = None
    batch: int | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        if self.device is not None and not re.fullmatch(r"cpu|cuda(:\d{1,4})?|auto", self.device):
            raise ConfigError(f"--device {one_line(self.device)}: expected cpu, cuda, cuda:N, or auto for all GPUs")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ConfigError(f"--dtype {one_line(self.dtype)}: expected {', '.join(DTYPES)}")
        if self.batch is not None and self.batch < 1:
            raise ConfigError(f"batch is {self.batch}; expected 1 or more prompts")


@dataclass(frozen=True)
class Found:
    """What is measured. checkpoint: the model. benchmark: the name of the benchmark that the cases are of. cases: all
    of them that the settings want. left_out: how many false-belief questions make no case, by the reason."""

    checkpoint: Checkpoint
    benchmark: str
    cases: tuple[Case, ...]
    left_out: Counter[str]

    @property
    def digest(self) -> str:
        """A digest of all tellings of all cases."""
        return digest(*sorted(item.to_json() for case in self.cases for item in tellings(case)))

    @property
    def items(self) -> Iterator[Item]:
        """All tellings of all cases, each once."""
        known: set[str] = set()
        for case in self.cases:
            for item in tellings(case):
                if item.id not in known:
                    known.add(item.id)
                    yield item

    @property
    def others(self) -> int:
        """From how many other families maps are carried over to a case of a family that is large enough."""
        sizes = Counter(case.family for case in self.cases)
        return max(0, sum(size >= TRANSFER_LEAST for size in sizes.values()) - 1)


def tellings(case: Case) -> list[Item]:
    """The tellings of a case: f, p, its twin in the second person and, where there is one, in the third."""
    return [case.f, case.own, case.own_twin, *([case.twin] if case.twin is not None else [])]


def find(settings: Settings, on: On) -> Found:
    """The model and the cases that the settings name; no weights are read.

    Raises ConfigError for a model that cannot be measured (quantised, an encoder-decoder, without a chat template), for
    a benchmark without cases, for conditions that no case meets, and for a strategy whose reply does not begin with the
    answer; ContentError by file and line.
    """
    checkpoint = checkpoints.resolve(settings.model, on.revision)
    name, path = settings.items, settings.path
    if name.endswith(FILES):
        name, path = ANY_FILE, Path(name).expanduser()
    benchmark = benchmarks.get(name)
    left_out: Counter[str] = Counter()
    cases = list(benchmark.found_cases(path, settings.where, left_out))
    draw = benchmarks.draw_of(benchmark, {case.f.benchmark for case in cases})
    cases = draw_cases(cases, settings.limit, draw)
    strategy = Strategy.load(settings.strategy)
    if cases:
        check_strategy(strategy, cases[0].f)
    return Found(checkpoint, benchmark.name, tuple(cases), left_out)


@dataclass(frozen=True)
class Subject:
    """A loaded model with what is asked of it. strategy: whose prompt asks. asked: the cases with their prompts.
    about: what the manifest notes of the model."""

    backend: Backend
    strategy: Strategy
    asked: Asked
    about: dict[str, Any]


def load(found: Found, settings: Settings, on: On) -> Subject:
    """Load the model, and make the prompts of all cases.

    Raises MachineError where torch or transformers are missing or the memory does not suffice, ConfigError for a
    strategy whose reply does not begin with the answer.
    """
    checkpoints.require_extra()
    from tomserve.causal.hf import loading

    spread = on.device == "auto"
    loaded = loading.load(
        found.checkpoint,
        device=None if spread else on.device,
        dtype=on.dtype,
        device_map="auto" if spread else None,
        batch=on.batch,
    )
    strategy = fitting_strategy(settings.strategy, loaded.tokenizer)
    context = loaded.backend.context
    asked = Asked.of(found.cases, lambda case: prompts_of(case, strategy, loaded.tokenizer, context))
    return Subject(loaded.backend, strategy, asked, loaded.backend.describe())


def tokens_of(turn: Turn) -> float:
    """About how many tokens the messages of a turn have, told by the number of their words."""
    return sum(len(message["content"].split()) for message in turn.messages) / WORDS_A_TOKEN


def planned(settings: Settings, on: On, gpus: int | None = None) -> Estimate:
    """What the measurement takes, without reading any weights. gpus: for a machine with so many; None for this one.

    The length of a prompt is told by the number of its words. Raises as `find`.
    """
    found = find(settings, on)
    strategy = Strategy.load(settings.strategy)
    sample = found.cases[:: max(1, len(found.cases) // 50)]
    lengths = [tokens_of(strategy.turn(item)) for case in sample for item in tellings(case)]
    return estimated(found, settings, sum(lengths) / len(lengths), machine(on, gpus))


def machine(on: On, gpus: int | None = None) -> Machine:
    """What the measurement runs on. gpus: for a machine with so many; None for this one."""
    if gpus is not None:
        here = Machine.here("cuda", gpus)
    else:
        from tomserve.serving.sizing import find_gpus as there

        count = 0 if on.device == "cpu" else len(there())
        here = Machine.here("cuda" if count else "cpu", count if on.device == "auto" else min(1, count))
    return here if on.dtype is None else replace(here, weight=int(BYTES[on.dtype]))


def estimated(found: Found, settings: Settings, tokens: float, on: Machine) -> Estimate:
    """What the measurement takes where prompts have so many tokens on average."""
    layers = len(settings.chosen(found.checkpoint.layers))
    work = Work(len(found.cases), tokens, layers, len(settings.alphas), found.others)
    return estimate(found.checkpoint, work, on)
