"""The command line: one module for each group of commands, thin users of the functions a Python script would call."""

from tomserve.cli import exit_codes

__all__ = ["main"]


def main() -> None:
    """Entry point: signals are heard before anything else is imported, which takes most of what a command needs."""
    exit_codes.run_to_end(_command)


def _command() -> int:
    from tomserve.cli import app

    return app.command()
