"""Signatures of a text by OpenSSH (`ssh-keygen -Y`), which prove who has sealed a run."""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from tomserve.content import files
from tomserve.content.files import one_line
from tomserve.errors import ConfigError, MachineError

NAMESPACE = "tomserve"
"""What a signature is for, as OpenSSH calls it: one that was made for anything else does not count."""

LONGEST_SIGNATURE = 1 << 14
"""The most characters that a signature has; a longer text is none and is not handed to ssh-keygen."""

_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"


class SignatureCheck(NamedTuple):
    """What came of checking a signature."""

    is_valid: bool  # whether it is one of this text; where signers are given, whether it is by one of them, too
    message: str  # who signed it, or what is wrong with it, to follow the word "signature"


def sign_text(text: str, key: Path) -> str:
    """The signature of a text. key: a file with a private key, or with the public one of a key that ssh-agent holds.
    Raises ConfigError where ssh-keygen does not sign with it; MachineError where ssh-keygen is missing."""
    path = key.expanduser()
    if not path.is_file():
        raise ConfigError(f"{path}: there is no key; make one by `ssh-keygen -t ed25519 -f FILE`, or name another")
    done = _run_keygen(["sign", "-f", str(path), "-n", NAMESPACE], text)
    if done.returncode != 0 or not _is_signature(done.stdout):
        raise ConfigError(f"{path}: ssh-keygen does not sign with it ({_reason(done)}); give the file of an SSH key")
    return done.stdout


def check_signature(text: str, signature: str, signers: Path | None = None) -> SignatureCheck:
    """Check a signature of a text, which may come from anybody. signers: a file of OpenSSH's "allowed signers", or a
    single public key (``.pub``); None to tell only which key it was. Raises ConfigError where the file of signers has a
    mistake in it, MachineError where ssh-keygen is missing."""
    if not _is_signature(signature):
        return SignatureCheck(False, "is no signature of OpenSSH")
    with files.temporary_folder() as scratch:
        file = scratch / "signature"
        file.write_text(signature, "utf-8")
        by_anybody = _run_keygen(["check-novalidate", "-n", NAMESPACE, "-s", str(file)], text)
        if by_anybody.returncode != 0:
            return SignatureCheck(False, f"does not fit ({_reason(by_anybody)})")
        found = re.search(r"with ([\w-]+ key SHA256:[A-Za-z0-9+/=]+)", by_anybody.stdout)
        key = found[1] if found else "a key that ssh-keygen does not name"
        if signers is None:
            return SignatureCheck(True, f"by {key}; give --signers FILE to check whose key that is")
        allowed = scratch / "allowed"
        allowed.write_text(_list_signers(signers), "utf-8")
        names = _run_keygen(["find-principals", "-f", str(allowed), "-s", str(file)], "")
        for name in names.stdout.splitlines() if names.returncode == 0 else ():
            arguments = ["verify", "-f", str(allowed), "-I", name, "-n", NAMESPACE, "-s", str(file)]
            if _run_keygen(arguments, text).returncode == 0:
                return SignatureCheck(True, f"by {one_line(name)} ({key})")
    return SignatureCheck(False, f"by {key}, which is none of those that {signers} names")


def _list_signers(signers: Path) -> str:
    """The text of a file of allowed signers; a public key alone becomes a line for whoever has it."""
    path = signers.expanduser()
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"{path}: cannot be read ({reason}); expected public keys of OpenSSH") from None
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise ConfigError(f"{path}: names no key; expected a public key, or lines of a name and a public key")
    for number, line in enumerate(lines, 1):
        if "PRIVATE KEY" in line or not re.search(r"\b(ssh|ecdsa|sk)-[\w@.-]+\s+[A-Za-z0-9+/=]{16,}", line):
            raise ConfigError(
                f"{path}: line {number} holds no public key; expected one as in a file .pub, after a name or alone"
            )
    return "\n".join(_name_signer(line) for line in lines) + "\n"


def _name_signer(line: str) -> str:
    """A line of allowed signers. A public key alone has its comment, as alice@lab, for a name."""
    if not re.match(r"(ssh|ecdsa|sk)-", line):
        return line
    kind, key, *comment = line.split()
    name = re.sub(r"[^\w@.+-]", "", comment[0]) if comment else ""
    return f"{name or 'the-given-key'} {kind} {key}"


def _run_keygen(arguments: list[str], text: str) -> subprocess.CompletedProcess[str]:
    """Run ``ssh-keygen -Y``, with the text as its input. Raises MachineError where there is no such program."""
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise MachineError(
            "signatures are made and checked by ssh-keygen, which is missing: install OpenSSH's client (Debian: "
            "apt-get install openssh-client)"
        ) from None


def _is_signature(signature: str) -> bool:
    text = signature.strip()
    return len(text) <= LONGEST_SIGNATURE and text.startswith(_BEGIN) and text.endswith(_END)


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return one_line(lines[-1])[:200] if lines else f"exit code {done.returncode}"
