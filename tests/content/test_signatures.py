"""Signatures by OpenSSH: made and checked by the real ssh-keygen."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.ssh import needs_ssh, new_key
from tomserve.content.signatures import check_signature, sign_text
from tomserve.errors import ConfigError, MachineError

TEXT = "sha256:" + "0" * 64


@needs_ssh
def test_a_signature_names_its_key_and_does_not_fit_another_text(tmp_path: Path) -> None:
    key = new_key(tmp_path, "alice@lab")
    signature = sign_text(TEXT, key)
    found = check_signature(TEXT, signature)
    assert found.is_valid
    assert "ED25519 key SHA256:" in found.message
    changed = check_signature(TEXT.replace("0", "1", 1), signature)
    assert not changed.is_valid
    assert changed.message.startswith("does not fit")


@needs_ssh
@pytest.mark.parametrize("form", ["public key", "with a comment line"])
def test_a_signature_counts_only_of_a_key_that_is_named(tmp_path: Path, form: str) -> None:
    own, other = new_key(tmp_path, "alice@lab"), new_key(tmp_path, "mallory@elsewhere")
    public = own.with_suffix(".pub").read_text()
    file = tmp_path / "signers"
    file.write_text(public if form == "public key" else f"# who may sign\n\nalice@lab {public}")
    found = check_signature(TEXT, sign_text(TEXT, own), file)
    assert (found.is_valid, found.message.startswith("by alice@lab (ED25519 key SHA256:")) == (True, True)
    forged = check_signature(TEXT, sign_text(TEXT, other), file)
    assert not forged.is_valid
    assert "which is none of those" in forged.message


@needs_ssh
def test_a_signature_for_another_purpose_does_not_count(tmp_path: Path) -> None:
    key = new_key(tmp_path, "alice@lab")
    for_git = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", "git"],
        input=TEXT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert not check_signature(TEXT, for_git).is_valid
    assert not check_signature(TEXT, for_git, key.with_suffix(".pub")).is_valid


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN SSH SIGNATURE-----\nAAAA", "x" * 100_000])
def test_what_is_no_signature_is_not_handed_to_another_program(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert check_signature(TEXT, text) == (False, "is no signature of OpenSSH")


@needs_ssh
def test_keys_and_signers_that_are_none_are_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no key; make one by `ssh-keygen"):
        sign_text(TEXT, tmp_path / "missing")
    (tmp_path / "no-key").write_text("hello\n")
    os.chmod(tmp_path / "no-key", 0o600)
    with pytest.raises(ConfigError, match="ssh-keygen does not sign with it"):
        sign_text(TEXT, tmp_path / "no-key")
    signature = sign_text(TEXT, new_key(tmp_path, "a@b"))
    for content, wanted in {
        "": "names no key",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n": "line 1 holds no public key",
    }.items():
        (tmp_path / "signers").write_text(content)
        with pytest.raises(ConfigError, match=wanted):
            check_signature(TEXT, signature, tmp_path / "signers")
    with pytest.raises(ConfigError, match="cannot be read"):
        check_signature(TEXT, signature, tmp_path / "nothing")


def test_a_missing_program_is_told_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("x")
    monkeypatch.setenv("PATH", "/nowhere")
    assert shutil.which("ssh-keygen") is None
    with pytest.raises(MachineError, match="apt-get install openssh-client"):
        sign_text(TEXT, tmp_path / "key")
