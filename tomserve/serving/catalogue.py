"""Prints the presets for people to read: the table of `tomserve serve --list` and the arithmetic of `--explain`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table

from tomserve import content
from tomserve.content import files
from tomserve.errors import ConfigError, MachineError
from tomserve.serving import saving, sizing
from tomserve.serving.deriving import resolve
from tomserve.serving.hardware import Gpu, parse_gpus
from tomserve.serving.launching import Wanted, adjusted, assumed, check_replicas
from tomserve.serving.presets import Preset, Verified


def explain(wanted: Wanted, console: Console) -> None:
    """Print how a preset's memory need is worked out on the GPUs it would run on, and what else is known about it.

    Raises ConfigError or ContentError for a preset, flag or GPU that cannot be read, MachineError where it cannot fit.
    """

    say = partial(_say, console)
    found, derived = resolve(wanted.name, wanted.extra, gpus=wanted.gpus)
    if derived is not None:
        say(f"No preset serves {found.model}, so one is derived from its files; --save keeps it.")
        saving.show(derived, console)
    preset = adjusted(found, wanted.extra)
    model = sizing.describe(preset)
    kind = f"{preset.dtype}, {preset.quantization} weights" if preset.quantization else preset.dtype
    say(f"The preset {preset.name} serves {preset.model} ({kind}), whose weights take {model.weights_gb:g} GB.")
    if preset.device == "cpu":
        say("It runs on the CPU and needs no GPU.")
    else:
        gpus = assumed(preset, wanted.gpus, dry=True)
        check_replicas(gpus, wanted.replicas)
        gpus = gpus[: len(gpus) // wanted.replicas]
        if not gpus:
            raise MachineError(f"--replicas {wanted.replicas}: there are fewer GPUs than replicas, and each needs one")
        layout = sizing.choose(preset, gpus)
        for line in layout.lines():
            say(f"  {line}")
        spread = f"tensor parallel {layout.tensor}" + (
            f", pipeline parallel {layout.pipeline}" if layout.pipeline > 1 else ""
        )
        if not layout.comfortable:
            why = f"only {int(layout.questions)} questions fit at a time; {sizing.IN_FLIGHT} would keep the GPUs busy"
        elif preset.tensor_parallel or preset.pipeline_parallel:
            why = "the number of GPUs that the preset or the command line asks for"
        else:
            why = f"the smallest number that holds {sizing.IN_FLIGHT} questions at a time"
        nodes = len({gpu.node for gpu in gpus})
        where = f" on {layout.nodes} of {nodes} nodes" if nodes > 1 else ""
        say(f"  => {layout.gpus} of {len(gpus)} GPUs{where} ({spread}): {why}.")
        if model.shape is not None:
            cannot = [n for n in (2, 4, 8) if not sizing.divides(model.shape, n)]
            if cannot:
                counts = " or ".join(map(str, cannot))
                say(f"  The model's {model.shape.heads} attention heads cannot be split over {counts} GPUs.")
    _explain_prompts(preset, model.context, say)
    if preset.gated:
        say("Access: the weights are gated; accept the licence on their page at huggingface.co and set HF_TOKEN.")
    say(f"Verified: {preset.verified} ({_VERIFIED[preset.verified]}).")
    for remark in (preset.note, preset.warning):
        if remark:
            say(" ".join(remark.split()))


def keep(wanted: Wanted, console: Console, *, force: bool = False) -> None:
    """Derive the preset of a model, write it to launch/models/, and say where it is.

    force: replace one that is there. Raises ConfigError where the name is a preset's own, or the file is there already.
    """
    preset, derived = resolve(wanted.name, wanted.extra, gpus=wanted.gpus, anew=True)
    if derived is None:
        raise ConfigError(f"--save: {wanted.name} is a preset already; name a model (ORG/MODEL or ./FOLDER)")
    path = saving.save(derived, force=force)
    _say(console, f"Written to {path}; `tomserve serve {preset.name}` serves it. Check it, and edit it as you like.")


def _explain_prompts(preset: Preset, context: int | None, say: Callable[[str], None]) -> None:
    """Say what the preset means for prompts: their length, the chat template, the system role and thinking.

    context: tokens that the model was made for; None where nobody states it.
    """
    made_for = f"; the model was made for up to {context}" if context else ""
    say(f"Context: a prompt and its reply may take {preset.max_model_len} tokens together{made_for}.")
    if preset.chat_template is not None:
        where = preset.chat_template.file or "the one in the model's repository"
        say(f"Chat template: {where} ({preset.chat_template.verified}: {preset.chat_template.source}).")
    if not preset.system_role:
        say("System role: the model has none, so the system text is put before the first question.")
    if preset.reasoning is not None:
        off = "--thinking off prevents it" if preset.reasoning.disable is not None else "it cannot be switched off"
        say(f"Thinking: a reply may think for up to {preset.reasoning.budget} tokens before its answer; {off}.")


def list_presets(console: Console, gpus: str | None = None) -> None:
    """Print the table of presets and what its columns mean.

    gpus: the machine that the GPUs of each preset are counted on, as `hardware.parse_gpus` reads it; by default
    `sizing.STUDY`. Raises ConfigError where that cannot be read. A preset that cannot be read is listed below the
    table, with its file, the line and what is wrong, and does not keep the others from being listed.
    """
    machine = gpus or sizing.STUDY
    available = parse_gpus(machine)
    rows, broken = [], []
    for name in content.names("launch/models", ".yaml"):
        try:
            rows.append(_row(Preset.load(name), available))
        except ConfigError as error:
            broken.append(f"broken: {name}: {error}")
    whole = _table(_COLUMNS, rows)
    room = whole.__rich_measure__(console, console.options.update(width=_UNBOUNDED)).maximum
    if room <= console.width:
        console.print(whole)
    else:  # A narrow terminal would cut names in two: the long model ids go into a table of their own.
        console.print(_table(_COLUMNS[:-1], [row[:-1] for row in rows]))
        console.print(_table(("preset", "model"), [(row[0], row[-1]) for row in rows]))
    for line in (
        f"GPUs: how many of {machine} the preset takes (--gpus counts on another machine).",
        "context: tokens that a prompt and its reply may take together.",
        "thinks: whether the model thinks before it answers; where it says `can`, --thinking off prevents it.",
        *(f"verified {name}: {meaning}." for name, meaning in _VERIFIED.items()),
        "`tomserve serve PRESET --explain` prints everything that is known about one preset.",
        "For a model without one, `tomserve serve ORG/MODEL` (on the Hugging Face hub) or ./FOLDER derives a preset.",
    ):
        _say(console, line)
    if broken:
        many = f"{len(broken)} presets cannot" if len(broken) > 1 else "1 preset cannot"
        _say(console, f"{many} be read, so that `tomserve serve` cannot serve what stands in it; mend the file:")
    for line in broken:
        _say(console, files.one_line(line))


def _say(console: Console, text: str) -> None:
    """Print a sentence, broken between words on a terminal and kept as one line in a file or pipe."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


_COLUMNS = ("preset", "weights GB", "GPUs", "context", "thinks", "verified", "model")
_NUMBERS = ("weights GB", "GPUs", "context")
_UNBOUNDED = 10_000
"""A width, in characters, that no table of presets reaches: rich measures no table wider than it may be."""
_VERIFIED: dict[Verified, str] = {
    "yes": "the preset was seen running with these weights",
    "documented": "its settings follow what the publisher of the model documents; it was not run with these weights",
    "unverified": "neither seen running nor documented",
}
"""What the values of a preset's `verified` mean, for people."""


def _row(preset: Preset, available: list[Gpu]) -> tuple[str, ...]:
    """The cells of one preset in the order of _COLUMNS."""
    thinks = "" if preset.reasoning is None else "can" if preset.reasoning.disable is not None else "always"
    verified = "known not to load" if preset.warning else preset.verified
    length = str(preset.max_model_len)
    return preset.name, f"{preset.weights_gb:g}", _gpus(preset, available), length, thinks, verified, preset.model


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in columns:
        justify: Literal["left", "right"] = "right" if heading in _NUMBERS else "left"
        table.add_column(heading, justify=justify, no_wrap=heading != "model", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _gpus(preset: Preset, available: list[Gpu]) -> str:
    """How many of the available GPUs the preset takes, as a cell of the table."""
    if preset.device == "cpu":
        return "CPU"
    try:
        return str(sizing.choose(preset, available).gpus)
    except MachineError:
        return "too small"
