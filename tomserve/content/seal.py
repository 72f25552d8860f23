"""Keep JSON records in folders that may come from anybody, and believe only those that this user's tomserve has
written.

Results of computations are kept beside what they were computed from, which may be a folder from somebody else. Each
record carries an authentication code (HMAC-SHA256) under a secret key of the user: ``$XDG_STATE_HOME/tomserve/key``, or
else ``~/.local/state/tomserve/key``. A record without the right code is ignored. Where the key can be neither read nor
created no record is kept and none is believed, so that everything is computed each time. If the key is deleted a new
one is made, and older records are no longer believed.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files, temporary
from tomserve.errors import ConfigError

KEY_BYTES = 32
"""Length of the key in bytes."""

LONGEST = 1 << 20
"""The most bytes that a record has; a longer file cannot be one of ours and is not read."""


def keep(path: Path, record: Mapping[str, Any]) -> None:
    """Write the record and its code to `path` in one step; do nothing where there is no key or the file cannot be
    written.

    record: anything that JSON can hold, without a field `seal`, which is where the code goes.
    """
    if (key := _key()) is None:
        return
    text = orjson.dumps({**record, "seal": _code(record, key)}, option=orjson.OPT_INDENT_2) + b"\n"
    with contextlib.suppress(OSError, ConfigError), files.replacing(path) as file:
        file.write(text)


def kept(path: Path) -> dict[str, Any] | None:
    """The record at `path` without its code; None where there is no record that `keep` has written for this user."""
    try:
        with files.reading(path) as file:
            content = file.read(LONGEST + 1)
        record = orjson.loads(content) if len(content) <= LONGEST else None
    except (OSError, ConfigError, orjson.JSONDecodeError):
        return None
    if not isinstance(record, dict) or not isinstance(code := record.pop("seal", None), str):
        return None
    if (key := _key()) is None or not hmac.compare_digest(_code(record, key).encode(), code.encode()):
        return None
    return record


def _code(record: Mapping[str, Any], key: bytes) -> str:
    """The authentication code of a record, in hex; the order of its fields does not matter."""
    return hmac.new(key, orjson.dumps(record, option=orjson.OPT_SORT_KEYS), "sha256").hexdigest()


def _key() -> bytes | None:
    """The user's key, made on first use; None where it can neither be read nor made."""
    try:
        path = _state() / "tomserve" / "key"
        try:
            return _read(path)
        except FileNotFoundError:
            return _made(path)
    except (OSError, RuntimeError):  # RuntimeError: this user has no home folder that could be found
        return None


def _state() -> Path:
    """The folder for a user's state that is no setting. A relative XDG_STATE_HOME is ignored, as its specification
    demands.
    """
    given = Path(os.environ.get("XDG_STATE_HOME") or ".")
    return given if given.is_absolute() else Path.home() / ".local/state"


def _read(path: Path) -> bytes | None:
    """The key; None where it is not secret because the file belongs to another user or is open to others, or has
    another length.
    """
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        key = file.read(KEY_BYTES + 1)
    secret = about.st_uid == os.geteuid() and not about.st_mode & 0o077
    return key if secret and len(key) == KEY_BYTES else None


def _made(path: Path) -> bytes | None:
    """Make a new key and return it, or the key of another process that was faster.

    The finished file gets its name by linking, which is one step, so that no process ever reads half a key.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with temporary.file(path.parent, 0o600) as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)
            files.sync_folder(path.parent)
    return _read(path)
