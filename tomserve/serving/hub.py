"""Brings the small files that describe a model from the Hugging Face hub: its configuration, never its weights or code.

They land in Hugging Face's own cache, where vLLM finds them later. `huggingface_hub`, which comes with vLLM, does the
work; it is imported only when it is needed, as the core of tomserve does without it.

>>> fetch("ORG/MODEL", None).folder                                                # doctest: +SKIP
PosixPath('.../models--ORG--MODEL/snapshots/0ff1ce...')
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tomserve.content.files import one_line
from tomserve.errors import ConfigError, MachineError, StoppedError
from tomserve.serving.checkpoint import json_object, size_gb, snapshot, weight_names

SMALL = (
    *("config.json", "generation_config.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json"),
    *("model.safetensors.index.json", "pytorch_model.bin.index.json", "tekken.json"),
)
"""The files that are fetched, where a model has them."""
TIMEOUT = 20.0
"""Seconds that the hub may take to describe a model."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Copy:
    """The files of a model that lie on this disk.

    folder: where. commit: the revision on the hub; None for a folder that the user gave. size_gb: of the weights in
    decimal gigabytes, as the files or the hub tell it; None where neither does. gated: whether a licence has to be
    accepted on the hub. source: where the size comes from, in words.
    """

    folder: Path
    commit: str | None = None
    size_gb: float | None = None
    gated: bool = False
    source: str = ""


def is_id(name: str) -> bool:
    """Whether the text has the form of a model's id on the hub, ORG/MODEL.

    >>> is_id("Qwen/Qwen3-8B"), is_id("./folder"), is_id("dbrx")
    (True, False, False)
    """
    return _ID.fullmatch(name) is not None


def fetch(model: str, revision: str | None) -> Copy:
    """The description of a model on the hub: that in Hugging Face's cache where it is whole, else fetched.

    model: its id, ORG/MODEL. revision: the commit, branch or tag; None for its newest. Raises ConfigError where there
    is no such model or revision, or its licence has to be accepted first; MachineError where the hub is not reached or
    huggingface_hub is not installed.
    """
    found = snapshot(model, revision)
    if found is not None and _told(found) and (size := size_gb(found)) is not None:
        return Copy(found, found.name, size, source="the index or the files of the weights in the cache")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # it is read while the package is imported
    try:
        import huggingface_hub
        from huggingface_hub import errors, utils
    except ImportError:
        raise MachineError(
            f"{model}: to ask the hub for its configuration the package huggingface_hub is needed, which comes with "
            "vLLM (`tomserve setup`); or give a folder that holds the model (./FOLDER)"
        ) from None
    utils.disable_progress_bars()
    try:
        told = huggingface_hub.HfApi().model_info(model, revision=revision, files_metadata=True, timeout=TIMEOUT)
        folder = Path(huggingface_hub.snapshot_download(model, revision=told.sha, allow_patterns=list(SMALL)))
    except errors.GatedRepoError:
        raise ConfigError(
            f"{model}: its publisher asks for a licence to be accepted: do so on its page of the hub and set HF_TOKEN, "
            "or give a folder that holds the model (./FOLDER)"
        ) from None
    except errors.RepositoryNotFoundError:
        raise ConfigError(
            f"{model}: the hub has no such model, or it is private and HF_TOKEN is not set; check the name, or give a "
            "folder that holds the model (./FOLDER)"
        ) from None
    except errors.RevisionNotFoundError:
        raise ConfigError(f"{model}: the hub has no revision {one_line(str(revision))!r} of it") from None
    except StoppedError:
        raise
    except Exception as error:  # the errors of the network differ between versions of huggingface_hub
        if found is not None and _told(found):
            return Copy(found, found.name)
        lines = str(error).splitlines()
        reason = one_line(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}")[:160]
        raise MachineError(
            f"{model}: the hub cannot be reached and no copy lies in Hugging Face's cache ({reason}); give a folder "
            "that holds the model (./FOLDER), or write a preset launch/models/NAME.yaml"
        ) from None
    size, source = size_gb(folder), "the index of the weights"
    if size is None:
        sizes = {one.rfilename: one.size or 0 for one in told.siblings or []}
        size = sum(sizes[name] for name in weight_names(iter(sizes))) / 1e9 or None
        source = "the sizes of its files on the hub"
    commit = told.sha if told.sha and _COMMIT.fullmatch(told.sha) else None
    return Copy(folder, commit, size, bool(told.gated), source if size else "")


def _told(folder: Path) -> bool:
    """Whether the folder holds the configuration and what tells the chat template, as a whole copy does."""
    names = ("tokenizer_config.json", "chat_template.jinja", "tekken.json")
    return json_object(folder / "config.json") is not None and any((folder / name).is_file() for name in names)
