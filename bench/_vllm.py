"""The reference model behind a vLLM of our own, for the benches that need a real server."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tomserve.serving import reference
from tomserve.serving.command import vllm_command
from tomserve.serving.ports import free_port
from tomserve.serving.presets import Preset
from tomserve.serving.server import Server


@contextlib.contextmanager
def vllm(*extra: str) -> Iterator[tuple[str, str]]:
    """URL and model of a vLLM of our own, ended afterwards: the reference model on the CPU."""
    preset, port = Preset.load("reference"), free_port()
    command = vllm_command(preset, str(reference.folder()), port=port, extra=extra)
    command.env["VLLM_API_KEY"] = ""
    with (
        tempfile.TemporaryDirectory() as scratch,
        Server(command, host="127.0.0.1", port=port, log=Path(scratch) / "server.log") as server,
    ):
        print(f"  vLLM healthy after {server.wait_healthy(lambda _: None):.0f} s", flush=True)
        yield server.url, preset.served_name
