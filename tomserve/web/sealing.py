"""Proof that this workbench has queued an experiment, for whoever finds it in a folder of runs.

A run folder may have been downloaded, and its card may say that an experiment waits in the queue. To run it would mean
to send prompts, and perhaps an API key, to wherever a stranger likes. Therefore a card holds a seal, which only whoever
can read ``runs/.web/secret`` is able to make.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from tomserve.content import files
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError

LENGTH = 32


def secret() -> bytes:
    """The workbench's own secret, which is drawn where there is none yet. Raises OSError and ConfigError where it can
    neither be read nor be written."""
    place = runs_root() / ".web"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = place / "secret"
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError), files.open_for_reading(path) as file:
            status = os.fstat(file.fileno())
            found = file.read(LENGTH + 1)
            if len(found) == LENGTH and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
                return found
            raise ConfigError(f"{path}: is no secret of this user alone; delete it, and queue the experiments again")
        with contextlib.suppress(FileExistsError):
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(made, "wb") as file:
                file.write(secrets.token_bytes(LENGTH))
    raise ConfigError(f"{path}: cannot be read; delete it")


def seal(name: str, experiment: bytes) -> str:
    """The seal of an experiment. name: of its run. experiment: the bytes of its file."""
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in (name.encode(), experiment))
    return hmac.new(secret(), parts, hashlib.sha256).hexdigest()


def sealed(name: str, experiment: Path, found: str) -> bool:
    """Whether a seal is that of the experiment in a file. Raises OSError and ConfigError where that cannot be read."""
    with files.open_for_reading(experiment) as file:
        return hmac.compare_digest(seal(name, file.read()).encode(), found.encode())
