"""API keys: from the environment or a file, never from a command line, which every user of the machine can read."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from tomserve.errors import ConfigError


def api_key() -> str | None:
    """The key to ask an endpoint with: as `own_key`, else OPENAI_API_KEY. Raises ConfigError."""
    return own_key() or _checked(os.environ.get("OPENAI_API_KEY") or "")


def own_key() -> str | None:
    """The key from TOMSERVE_API_KEY or the file TOMSERVE_API_KEY_FILE. Raises ConfigError."""
    key = os.environ.get("TOMSERVE_API_KEY") or ""
    if not key and (file := os.environ.get("TOMSERVE_API_KEY_FILE")):
        try:
            key = Path(file).expanduser().read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            raise ConfigError("TOMSERVE_API_KEY_FILE: names no readable text file") from None
    return _checked(key)


def server_key(host: str, *, insecure: bool) -> str | None:
    """The key that a server of ours asks for: as `own_key`, else vLLM's own VLLM_API_KEY.

    Raises ConfigError where a server for others than this machine would ask for none, unless `insecure`.
    """
    key = own_key() or _checked(os.environ.get("VLLM_API_KEY") or "")
    if key is None and not insecure and not local(host):
        raise ConfigError(
            f"--host {host}: everybody who reaches this machine could use the model; set TOMSERVE_API_KEY (or "
            "TOMSERVE_API_KEY_FILE) to a key to ask for, or say --insecure"
        )
    return key


def local(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host.strip("[]").split("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_on_line(arguments: Sequence[str]) -> None:
    """Raise ConfigError for a secret among vLLM's flags: the process list shows them."""
    ways = {"--api-key": "TOMSERVE_API_KEY or TOMSERVE_API_KEY_FILE", "--hf-token": "HF_TOKEN"}
    for argument in arguments:
        if (way := ways.get(argument.split("=")[0].replace("_", "-"))) is not None:
            flag = argument.split("=")[0]
            raise ConfigError(f"{flag} after `--`: the process list would show it to everybody here; set {way} instead")


def _checked(key: str) -> str | None:
    key = key.strip()
    if not key.isprintable() or not key.isascii():
        raise ConfigError(
            "the API key holds characters that no HTTP header can carry; was it pasted with a line break?"
        )
    return key or None
