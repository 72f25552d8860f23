"""Secrets of the workbench: how they are drawn, kept and compared. None of them is ever printed but the token, once.

What is kept of a secret that somebody else holds is its digest, so that whoever reads the file cannot use it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from pathlib import Path

from tomserve.content import files
from tomserve.errors import ConfigError

LENGTH = 32
"""Random bytes of a secret."""

_LOOK = re.compile(r"[A-Za-z0-9_-]{43}")


def drawn() -> str:
    """A new secret, as 43 characters that need no quoting in an address."""
    return secrets.token_urlsafe(LENGTH)


def digest(secret: str) -> str:
    """What is kept of a secret. It is random and long, so that one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def derived(secret: str, purpose: str) -> str:
    """Another secret, made of the first for one purpose; the first cannot be found from it."""
    return hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def same(first: str, second: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell how much of them agrees."""
    return hmac.compare_digest(first.encode("utf-8", "surrogateescape"), second.encode("utf-8", "surrogateescape"))


def kept_token(folder: Path) -> str:
    """The token of the workbench, in a file that only its owner can read; drawn where there is none yet.

    It stays the same when the workbench is started again, so that bookmarks do; whoever deletes ``token`` draws a new
    one. Raises ConfigError where something else has the file's name, and OSError where it cannot be read or written.
    """
    path = folder / "token"
    try:
        with files.open_for_reading(path) as file:
            found = file.read(1000).decode("ascii", "replace").strip()
    except FileNotFoundError:
        found = drawn()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.replace_file(path, 0o600) as file:
            file.write(f"{found}\n".encode())
    if not _LOOK.fullmatch(found):
        raise ConfigError(f"{path}: does not hold a token of the workbench; delete it, and a new one is drawn")
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"{path}: others on this machine can read the token; delete the file, and a new one is drawn")
    return found
