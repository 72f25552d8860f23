"""Records that only this user's own tomserve can have written: JSON with an authentication code under a secret key.

What is computed is kept beside what it was computed from, in folders that may come from anybody. A record in such a
folder is believed only with a code (HMAC-SHA256) under a key that never leaves this user's state folder:
``$XDG_STATE_HOME/tomserve/key``, else ``~/.local/state/tomserve/key``. Where that folder cannot be written no record is
kept and none is believed, so that everything is computed each time. Who deletes the key gets a new one.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.content import files
from tomserve.errors import ConfigError

KEY_BYTES = 32

LONGEST = 1 << 20
"""Bytes of a record; a longer file is none of ours and is not read."""


def keep(path: Path, record: Mapping[str, Any]) -> None:
    """Write the record with its code in one step; where that, or a key, cannot be had, nothing is written.

    record: what JSON can hold, without a field `seal`.
    """
    if (key := _key()) is None:
        return
    text = orjson.dumps({**record, "seal": _code(record, key)}, option=orjson.OPT_INDENT_2) + b"\n"
    with contextlib.suppress(OSError, ConfigError), files.replacing(path) as file:
        file.write(text)


def kept(path: Path) -> dict[str, Any] | None:
    """The record at that path without its code, None where there is none that `keep` wrote for this user."""
    try:
        with files.reading(path) as file:
            text = file.read(LONGEST + 1)
        record = orjson.loads(text) if len(text) <= LONGEST else None
    except (OSError, ConfigError, orjson.JSONDecodeError):
        return None
    if not isinstance(record, dict) or not isinstance(code := record.pop("seal", None), str):
        return None
    if (key := _key()) is None or not hmac.compare_digest(_code(record, key).encode(), code.encode()):
        return None
    return record


def _code(record: Mapping[str, Any], key: bytes) -> str:
    return hmac.new(key, orjson.dumps(record, option=orjson.OPT_SORT_KEYS), "sha256").hexdigest()


def _key() -> bytes | None:
    """The user's key, made on first use; None where it can neither be read nor made."""
    try:
        path = _state() / "tomserve" / "key"
        try:
            return _read(path)
        except FileNotFoundError:
            return _made(path)
    except (OSError, RuntimeError):  # RuntimeError: nobody knows where this user's home is
        return None


def _state() -> Path:
    """Where programs keep what is the user's and no setting; a relative XDG_STATE_HOME is to be ignored."""
    given = Path(os.environ.get("XDG_STATE_HOME") or ".")
    return given if given.is_absolute() else Path.home() / ".local/state"


def _read(path: Path) -> bytes | None:
    """The key, None where it is not secret: of another user, or open to others."""
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        key = file.read(KEY_BYTES + 1)
    secret = about.st_uid == os.geteuid() and not about.st_mode & 0o077
    return key if secret and len(key) == KEY_BYTES else None


def _made(path: Path) -> bytes | None:
    """A new key, or that of another process that was first: the link is made in one step, of a file that is whole."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".key-") as file:  # mode 0600, and new for certain
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)
    return _read(path)
