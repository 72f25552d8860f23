"""The reference checkpoint: trained in this project, kept in ``launch/reference/model``, known by its digest."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tomserve import content
from tomserve.errors import MachineError

FILES = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""What is served, in the order in which the digest takes it; ``digest.txt`` beside them says what they must be."""


def folder() -> Path:
    """The checkpoint's folder, its files checked against their digest. Raises MachineError. Needs no torch."""
    revision()
    return _folder()


def revision() -> str:
    """Digest of weights, configuration, tokenizer and template. Raises MachineError where a file is not as shipped."""
    return _checked(_folder())


def _folder() -> Path:
    found = content.find("launch/reference/model")
    if found is None:
        raise MachineError("launch/reference/model/ is missing; reinstall tomserve")
    return found


@lru_cache(maxsize=4)
def _checked(folder: Path) -> str:
    try:
        found = content.digest(*(folder / name for name in FILES))
        stated = (folder / "digest.txt").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"{folder}: cannot be read ({error}); restore the files") from None
    if found != stated:
        raise MachineError(f"{folder}: the files are not those of digest.txt ({found[:19]} here); restore them")
    return found
