"""Names in files that may come from somebody else: those of installed programs and of runs, and never a path.

A benchmark, a strategy and a preset can be given by a path on the command line, and are then run, or decide what is
started. What a file names is looked up among those that are installed alone. So every record that a run folder, a
folder of parts or an experiment holds declares such a field by one of these types, and what is a path is refused as
soon as the record is read, whoever reads it.

>>> check_name("cot"), strategy_name("prompts/mine/")
('cot', 'mine')
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pydantic

CODE = (".py", ".yaml", ".yml")
"""How the files end that commands take for a program or a preset."""


def check_name(given: str) -> str:
    """The same, where no command takes it for a path. Raises ValueError."""
    if "/" in given:
        raise ValueError(_refused(given))
    return check_no_file(given)


def check_no_file(given: str) -> str:
    """The same, where no command takes it for the file of a program or a preset, as the id of a model may have a slash.

    Raises ValueError."""
    if given.endswith(CODE):
        raise ValueError(_refused(given))
    return given


def _refused(given: str) -> str:
    return (
        f"expected a name; found the path {given[:200]!r}; programs, prompts and presets are never taken from where a "
        "file says, so give the path on the command line"
    )


def check_run_name(given: str) -> str:
    """The same, where it is the name of a run, such as ``pilot/first``. Raises ValueError."""
    if not all(part and not part.startswith(".") and part.isprintable() for part in given.split("/")):
        raise ValueError(f"expected the name of a run, such as mine or pilot/mine; found {given[:200]!r}")
    return given


def strategy_name(given: str) -> str:
    """What a record says of a strategy that the user may have given by its folder: its name."""
    return Path(given).expanduser().resolve().name if "/" in given else given


Name = Annotated[str, pydantic.AfterValidator(check_name)]
"""The name of a benchmark, a strategy or a preset."""

ModelName = Annotated[str, pydantic.AfterValidator(check_no_file)]
"""The name of a model or its preset, its id on the hub, or the folder of its weights, which are data."""

RunName = Annotated[str, pydantic.AfterValidator(check_run_name)]
"""The name of a run."""
