"""SSH keys for tests of signatures. Tests are skipped without ssh-keygen; with NEED_SSH=1, as in CI, they fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

needs_ssh = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None and os.environ.get("NEED_SSH") != "1",
    reason="needs ssh-keygen (Debian: openssh-client)",
)


def new_key(folder: Path, name: str) -> Path:
    """A new key without a passphrase, whose comment is that name; its public half has the suffix .pub."""
    path = folder / name.partition("@")[0]
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path
