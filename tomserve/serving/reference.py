"""Finds and checks the reference checkpoint: trained in this project and shipped in ``launch/reference/model``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tomserve import content
from tomserve.errors import MachineError

FILES = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""The files that are served, in the order in which they enter the digest that ``digest.txt`` beside them states."""


def folder() -> Path:
    """The folder of the checkpoint, once its files have been checked against their digest.

    Raises MachineError where a file is missing or is not the one that was shipped.
    """
    revision()
    return _folder()


def revision() -> str:
    """The digest of weights, configuration, tokenizer and template, which serves as the model's revision.

    Raises MachineError where a file is missing or is not the one that was shipped.
    """
    return _checked(_folder())


def _folder() -> Path:
    path = content.find("launch/reference/model")
    if path is None:
        raise MachineError("launch/reference/model/ is missing; reinstall tomserve")
    return path


@lru_cache(maxsize=4)
def _checked(folder: Path) -> str:
    try:
        actual = content.digest(*(folder / name for name in FILES))
        stated = (folder / "digest.txt").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"{folder}: cannot be read ({error}); reinstall tomserve to restore the files") from None
    if actual != stated:
        raise MachineError(
            f"{folder}: the files are not those that digest.txt describes (their digest begins with {actual[:19]}); "
            "reinstall tomserve to restore them"
        )
    return actual
