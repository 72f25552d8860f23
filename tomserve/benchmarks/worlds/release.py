"""The fixed release on which figures are quoted: how many worlds, by which seed, and the digest of its items.

>>> released().name
'worlds-1'
"""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.benchmarks.worlds.lexicon import FOLDER
from tomserve.content import validation


class Release(BaseModel):
    """A fixed release. name: what publications call it. worlds, seed: what it is drawn by. items, digest: what must
    come of that, in any order. file: the SHA-256 digest of the file of these items in their order, a line of JSON each.
    canary: marks its items as data that no model must be trained on."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    worlds: int = Field(ge=1)
    seed: int = Field(ge=0)
    items: int = Field(ge=1)
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    file: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    canary: str


@cache
def released() -> Release:
    """The release as ``dataset/worlds/release.yaml`` describes it.

    Raises ConfigError where the file is not installed, ContentError by line for a mistake in it.
    """
    return validation.load_model(content.require(f"{FOLDER}/release.yaml"), Release)
