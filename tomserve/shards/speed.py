"""How fast a node of a cluster answers, and the numbers that this and the other figures of a plan rest on.

What was measured on one node is taken as it is. Without that there is a rough rule: every token takes two operations
for each parameter of the model, a GPU has some share of the operations that its data sheet promises, and a token of a
reply costs as much as several of a prompt.

>>> load = Load(requests=10**8, prompt_tokens=600, reply_tokens=60, shared=0.5)
>>> round(load.work(reply_weight=4))
540
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tomserve.errors import ConfigError, MachineError
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import BYTES, STUDY, Gpu, Layout, choose_layout

PEAKS = {
    **{"A100": 312.0, "H100": 989.0, "H200": 989.0, "B200": 2250.0, "V100": 125.0, "T4": 65.0, "L4": 121.0},
    **{"L40S": 362.0, "A10": 125.0, "A10G": 125.0, "A40": 150.0, "A6000": 155.0, "RTX3090": 71.0, "RTX4090": 165.0},
}
"""Operations a second (10**12) that a GPU does at most in 16 bits without sparsity, by the data sheets of its maker."""

HAD = 0.3
"""The share of that which a server has on average: a guess, as nothing of this size was measured here."""

REPLY_WEIGHT = 4.0
"""How many prompt tokens a token of a reply costs: it is made one at a time, in a batch with those of other replies. A
guess."""

START = 10.0
"""Minutes from the start of a node until its server answers, which are mostly those of loading the weights: a guess."""

LOST = 0.05
"""The share of all requests that is asked twice because nodes fail: the bound that bench/nodes.py keeps."""

PART_ROWS = 500_000
"""So many rows a part should have at most: then its resume takes some 17 seconds on one core."""

PART_HOURS = 4.0
"""So many hours a part should take at most."""


@dataclass(frozen=True)
class Load:
    """What is asked. requests: how many. prompt_tokens, reply_tokens: of one request on average. shared: the share of
    the prompt tokens that a prefix cache has already, 0 to 1. per_item: how many requests there are about one question.
    source: where these numbers come from, in words."""

    requests: int
    prompt_tokens: float
    reply_tokens: float
    shared: float
    per_item: float = 2.0
    source: str = "as given"

    def work(self, reply_weight: float) -> float:
        """What one request costs, in computed prompt tokens."""
        return self.prompt_tokens * (1 - self.shared) + reply_weight * self.reply_tokens


@dataclass(frozen=True)
class Nodes:
    """Who is asked. nodes: how many there are. gpus: those of one node. preset: of the model, None where its speed is
    given. tokens_a_second: of replies, that one node gives while it is asked such requests; None for the rough rule.
    tflops: operations a second (10**12) that a GPU has on average; None for HAD of its peak. parameters: how many
    (10**9) a token is computed with; None for all that the weights hold. reply_weight, start_minutes, lost: see
    REPLY_WEIGHT, START and LOST. part_rows, part_hours: how many rows a part may have,
    and how long it may take."""

    nodes: int
    gpus: str = STUDY
    preset: Preset | None = None
    tokens_a_second: float | None = None
    tflops: float | None = None
    parameters: float | None = None
    reply_weight: float = REPLY_WEIGHT
    start_minutes: float = START
    lost: float = LOST
    part_rows: int = PART_ROWS
    part_hours: float = PART_HOURS


@dataclass(frozen=True)
class Figure:
    """A figure of the plan. name: of it. value: the number itself, in `unit`. said: the figure in words. why: what it
    rests on. options: those that change it."""

    name: str
    value: float
    unit: str
    said: str
    why: str
    options: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """The figure as JSON has it."""
        return {**vars(self), "options": list(self.options)}


def speed_of(load: Load, nodes: Nodes, gpus: list[Gpu]) -> tuple[float, Figure]:
    """Requests a second that one node answers, and the figure that explains it."""
    if nodes.tokens_a_second is not None:
        rate = nodes.tokens_a_second / load.reply_tokens
        why = f"{nodes.tokens_a_second:,.0f} reply tokens a second, as given"
        return rate, Figure("a node", rate, "1/s", f"{rate:,.1f} requests a second", why, ("--tokens-a-second",))
    if nodes.preset is None:
        raise ConfigError(
            "the speed of a node is not known: name a preset by --model for a rough guess, or give what one node does "
            "by --tokens-a-second"
        )
    layout, each = _layout(nodes.preset, gpus, nodes.nodes)
    used = len(gpus) if each > 1 else len(gpus) // layout.gpus * layout.gpus
    tflops, rule = _tflops(nodes, gpus[0])
    parameters = (nodes.parameters or _parameters(nodes.preset, layout)) * 1e9
    tokens = used * tflops * 1e12 / (2 * parameters)
    rate = tokens / load.work(nodes.reply_weight)
    spread = f"one server over {each} nodes" if each > 1 else f"servers of {layout.gpus} GPUs"
    several = f"{used} GPU{'s' * (used > 1)}"
    why = (
        f"A ROUGH GUESS, to be replaced by a measurement on one node: {spread}; {several} x {rule} / (2 x "
        f"{parameters / 1e9:,.1f} billion parameters) = {tokens:,.0f} tokens a second, where a computed prompt token "
        f"counts 1 and a reply token {nodes.reply_weight:g}"
    )
    options = ("--tokens-a-second", "--gpu-tflops", "--parameters", "--reply-weight")
    return rate, Figure("a node", rate, "1/s", f"about {rate:,.1f} requests a second", why, options)


def _layout(preset: Preset, gpus: list[Gpu], nodes: int) -> tuple[Layout, int]:
    """How the model is spread, and over how many nodes. Raises MachineError where all nodes together cannot hold it."""
    error: MachineError | None = None
    for each in (1, 2, 4, 8):
        if each > nodes:
            break
        try:
            return choose_layout(preset, gpus * each), each
        except MachineError as found:
            error = error or found
    assert error is not None
    raise error


def _tflops(nodes: Nodes, gpu: Gpu) -> tuple[float, str]:
    """Operations a second (10**12) of one GPU, and how that was found. Raises ConfigError for an unknown kind."""
    if nodes.tflops is not None:
        return nodes.tflops, f"{nodes.tflops:g}e12 operations/s (as given)"
    peak = PEAKS.get(gpu.name) or PEAKS.get(gpu.name.split("-")[0])
    if peak is None:
        raise ConfigError(
            f"--gpus {nodes.gpus}: the speed of {gpu.name} is not known here; give the operations a second (10^12) "
            "that one has on average by --gpu-tflops, or what a node does by --tokens-a-second"
        )
    return peak * HAD, f"{HAD:.0%} of {peak:g}e12 operations/s"


def _parameters(preset: Preset, layout: Layout) -> float:
    """Parameters (10**9) that a token is computed with: all that the weights hold."""
    kind = (preset.quantization or "").lower()
    size = BYTES.get(preset.dtype, 2) if not kind else 0.5 if "4" in kind or kind in ("awq", "gptq") else 1.0
    return layout.model.weights_gb / size
