"""The command line: one module for each group of commands, thin users of the functions a Python script would call."""

import os
import sys

from tomserve.cli import exit_codes

__all__ = ["main"]


def main() -> None:
    """Entry point: signals are heard before anything else is imported, which takes most of what a command needs."""
    exit_codes.run_to_end(_command)


def _command() -> int:
    if sys.argv[1:2] != ["causal"]:  # all others multiply matrices so small that threads wait longer than they compute
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from tomserve.cli import app

    return app.command()
