"""What is made from other files (score tables, reports), in the user's cache under a digest of what it was made from.

Nobody else can write there, so that what it holds is believed. A copy in a run's folder, which may come from anybody,
is an export and is never read.
"""

import contextlib
import os
from pathlib import Path
from typing import IO

from tomserve.content import files
from tomserve.content.paths import cache_root, digest
from tomserve.errors import ConfigError

ROOM = 4 << 30  # bytes of one kind that are kept; what was used longest ago goes first


def place(kind: str, *made_from: bytes) -> Path:
    """Where that kind of thing is kept that was made from these bytes; there need be none yet."""
    return cache_root() / "tomserve" / kind / digest(*made_from).removeprefix("sha256:")


def find(path: Path) -> IO[bytes] | None:
    """What is kept at that place, open for reading; None where there is nothing that this user has kept."""
    try:
        file = files.open_for_reading(path)
    except (OSError, ConfigError):
        return None
    if os.fstat(file.fileno()).st_uid != os.geteuid():
        file.close()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return file


def keep(path: Path, *pieces: bytes) -> None:
    """Keep these bytes at that place; do nothing where the cache cannot be written."""
    with contextlib.suppress(OSError, ConfigError):
        files.make_private(path.parent)
        with files.replace_file(path, 0o600) as file:
            file.writelines(pieces)
        there = [(one.stat(), one) for one in path.parent.iterdir()]
        total = sum(about.st_size for about, _ in there)
        for about, one in sorted(there, key=lambda entry: entry[0].st_mtime_ns):
            if total <= ROOM or one == path:
                break
            one.unlink(missing_ok=True)
            total -= about.st_size
