"""`tomserve serve`: a preset in the foreground, recorded so that `tomserve eval` finds it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table

from tomserve import content
from tomserve.errors import ConfigError, ServerError
from tomserve.serving import hardware, install, records, reference
from tomserve.serving.command import Command, vllm_command
from tomserve.serving.presets import Preset
from tomserve.serving.probe import Probe
from tomserve.serving.server import Server, check_port
from tomserve.serving.target import REFERENCE, api_key

OWN_FLAGS = {
    "--host": "tomserve's --host",
    "--port": "tomserve's --port",
    "--served-model-name": "`name:` in a preset file",
}
"""vLLM flags that may not be given behind tomserve's back, and what to use."""


def command(name: str, host: str, port: int, extra: Sequence[str]) -> Command:
    """The exact command that `serve` would run. Raises ConfigError for an unknown preset."""
    preset = Preset.load(name)
    for flag in extra:
        if (instead := OWN_FLAGS.get(flag.split("=")[0].replace("_", "-"))) is not None:
            raise ConfigError(f"{flag} after `--`: tomserve must know it; use {instead}")
    if preset.warning:
        print(f"warning: {preset.name}: {preset.warning}", file=sys.stderr)
    model = str(reference.checkpoint_path()) if preset.model == REFERENCE else preset.model
    return vllm_command(preset, model, host=host, port=port, extra=extra)


def serve(name: str, host: str, port: int, extra: Sequence[str], *, setup: bool, console: Console) -> None:
    """Serve until Ctrl-C, SIGTERM or the server's own end. Raises MachineError, ServerError."""
    preset = Preset.load(name)
    if preset.device == "cuda":
        hardware.check_fits(preset, hardware.gpus())
    check_port(host, port)
    if setup:
        install.setup("cuda" if preset.device == "cuda" else None, lambda message: console.print(message, markup=False))
    install.require_engine()
    if preset.model == REFERENCE:
        reference.build()
    revision = reference.revision() if preset.model == REFERENCE else preset.revision
    line = command(name, host, port, extra)
    console.print(line.shell(), markup=False, soft_wrap=True)
    record: Path | None = None
    with Server(line, host=host, port=port) as server:
        try:
            took = server.wait_healthy(lambda message: console.print(message))
            with Probe(server.url, api_key()) as probe:
                probe.check_chat(preset.served_name)
            try:
                record = records.write(
                    port, url=server.url, model=preset.served_name, revision=revision, command=line.argv
                )
            except OSError as error:
                where = records.folder()
                hint = "give `tomserve eval` the address by --base-url"
                console.print(f"{where}: cannot be written ({error.strerror}); {hint}", markup=False, soft_wrap=True)
            console.print(
                f"serving {preset.served_name} at {server.url} after {took:.0f} s; "
                "`make eval` in another terminal finds it. Ctrl-C ends it.",
                markup=False,
                soft_wrap=True,
            )
            while (reason := server.gone()) is None:
                time.sleep(0.5)
            raise ServerError(reason)
        finally:
            if record is not None:
                with contextlib.suppress(OSError):
                    record.unlink()


def explain(name: str, console: Console) -> None:
    """Print a preset's memory arithmetic and what of it is known."""
    preset = Preset.load(name)
    devices = preset.tensor_parallel * preset.pipeline_parallel
    kind = "CPU" if preset.device == "cpu" else f"{devices} GPU(s)"
    console.print(
        f"{preset.name}: {preset.model} ({preset.dtype}), {preset.weights_gb:g} GB of weights on {kind}", markup=False
    )
    if preset.device == "cuda":
        each = preset.weights_gb / devices
        wanted = (each + hardware.SPARE_GB) / hardware.USABLE
        console.print(
            f"{preset.weights_gb:g} GB / {devices} = {each:.1f} GB a GPU; + {hardware.SPARE_GB:g} GB to work in, "
            f"/ {hardware.USABLE:g} usable = GPUs of at least {wanted:.0f} GB",
            markup=False,
        )
    console.print(f"context {preset.max_model_len} tokens; preset verified: {preset.verified}", markup=False)
    for remark in (preset.note, preset.warning):
        if remark:
            console.print(remark, markup=False)


def list_presets(console: Console) -> None:
    """Print the table of presets."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("preset", "weights GB", "GPUs", "context", "verified", "model"):
        justify: Literal["left", "right"] = "right" if heading in ("weights GB", "GPUs", "context") else "left"
        # On a narrow terminal the model id goes on in the next line; nothing is cut.
        table.add_column(heading, justify=justify, no_wrap=heading != "model", overflow="fold")
    for name in content.names("launch/models", ".yaml"):
        preset = Preset.load(name)
        devices = "CPU" if preset.device == "cpu" else str(preset.tensor_parallel * preset.pipeline_parallel)
        verified = "known not to load" if preset.warning else preset.verified
        table.add_row(name, f"{preset.weights_gb:g}", devices, str(preset.max_model_len), verified, preset.model)
    console.print(table)
