"""The presets as people read them: `tomserve serve --list` and `--explain`."""

from __future__ import annotations

from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table

from tomserve import content
from tomserve.errors import MachineError
from tomserve.serving import sizing
from tomserve.serving.hardware import Gpu, parse_gpus
from tomserve.serving.launching import Wanted, adjusted, assumed
from tomserve.serving.presets import Preset


def explain(wanted: Wanted, console: Console) -> None:
    """Print a preset's memory arithmetic on the GPUs it is for, and what of it is known. Raises MachineError."""

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True, highlight=False)

    preset = adjusted(Preset.load(wanted.name), wanted.extra)
    model = sizing.describe(preset)
    kind = f"{preset.dtype}, {preset.quantization} weights" if preset.quantization else preset.dtype
    say(f"{preset.name}: {preset.model} ({kind}), {model.weights_gb:g} GB of weights")
    if preset.device == "cpu":
        say("on the CPU")
    else:
        gpus = assumed(preset, wanted.gpus, dry=True)
        gpus = gpus[: len(gpus) // wanted.replicas]
        if not gpus:
            raise MachineError(f"--replicas {wanted.replicas}: fewer GPUs than replicas")
        layout = sizing.choose(preset, gpus)
        for line in layout.lines():
            say(f"  {line}")
        spread = f"tensor parallel {layout.tensor}" + (
            f", pipeline parallel {layout.pipeline}" if layout.pipeline > 1 else ""
        )
        if not layout.comfortable:
            why = f"only {int(layout.questions)} questions at a time, {sizing.IN_FLIGHT} are wished for"
        elif preset.tensor_parallel or preset.pipeline_parallel:
            why = "as asked for"
        else:
            why = f"the smallest that holds {sizing.IN_FLIGHT} questions at a time"
        say(f"  => {layout.gpus} of {len(gpus)} GPUs ({spread}): {why}")
        if model.shape is not None:
            cannot = [n for n in (2, 4, 8) if not sizing.divides(model.shape, n)]
            if cannot:
                say(f"  {model.shape.heads} attention heads cannot be split over {', '.join(map(str, cannot))} GPUs")
    say(f"context: {preset.max_model_len} tokens" + (f" of {model.context}" if model.context else ""))
    if preset.chat_template is not None:
        where = preset.chat_template.file or "the repository's own"
        say(f"chat template: {where} ({preset.chat_template.verified}: {preset.chat_template.source})")
    if not preset.system_role:
        say("system role: none; the system text goes before the first question")
    if preset.reasoning is not None:
        off = "--thinking off" if preset.reasoning.disable is not None else "cannot be switched off"
        say(f"thinking: up to {preset.reasoning.budget} tokens on top of the answer's ({off})")
    if preset.gated:
        say("gated: accept the licence on the hub and set HF_TOKEN")
    say(f"verified: {preset.verified}")
    for remark in (preset.note, preset.warning):
        if remark:
            say(" ".join(remark.split()))


def list_presets(console: Console, gpus: str | None = None) -> None:
    """Print the table of presets, with the GPUs each would take of `gpus` (the study's machine unless given)."""
    machine = gpus or sizing.STUDY
    found = parse_gpus(machine)
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("preset", "weights GB", f"of {machine}", "context", "thinks", "verified", "model"):
        justify: Literal["left", "right"] = "left" if heading in ("preset", "verified", "model", "thinks") else "right"
        # On a narrow terminal the model id goes on in the next line; nothing is cut.
        table.add_column(heading, justify=justify, no_wrap=heading != "model", overflow="fold")
    for name in content.names("launch/models", ".yaml"):
        preset = Preset.load(name)
        thinks = "" if preset.reasoning is None else "can" if preset.reasoning.disable is not None else "always"
        verified = "known not to load" if preset.warning else preset.verified
        cells = (f"{preset.weights_gb:g}", _gpus(preset, found), str(preset.max_model_len), thinks, verified)
        table.add_row(name, *cells, preset.model)
    console.print(table)


def _gpus(preset: Preset, found: list[Gpu]) -> str:
    if preset.device == "cpu":
        return "CPU"
    try:
        return str(sizing.choose(preset, found).gpus)
    except MachineError:
        return "too small"
