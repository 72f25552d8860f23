"""The command line: one module for each group of commands, thin users of the functions a Python script would call."""

from tomserve.cli.app import main

__all__ = ["main"]
