"""Starts a vLLM server with the reference model, for the benches that need a real server."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tomserve.serving import checkpoint
from tomserve.serving.command import vllm_command
from tomserve.serving.presets import Preset
from tomserve.serving.server import Server, free_port, wait_healthy


@contextlib.contextmanager
def vllm(*extra: str) -> Iterator[tuple[str, str]]:
    """Serve the reference model with vLLM on the CPU until the block ends; yields the URL and the name of the model."""
    preset, port = Preset.load("reference"), free_port()
    command = vllm_command(preset, str(checkpoint.reference_folder()), port=port, extra=extra)
    command.env["VLLM_API_KEY"] = ""
    with (
        tempfile.TemporaryDirectory() as scratch,
        Server(command, host="127.0.0.1", port=port, log=Path(scratch) / "server.log") as server,
    ):
        print(f"  vLLM healthy after {wait_healthy([server], lambda _: None):.0f} s", flush=True)
        yield server.url, preset.name
