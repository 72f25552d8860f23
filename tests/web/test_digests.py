"""What a file holds decides, and a file that has not been changed is not read again."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from tomserve.web import digests
from tomserve.web.digests import Allowance, Digests


def wait_until(true: object) -> None:
    end = time.monotonic() + 60
    while not true():  # type: ignore[operator]  # a function without parameters
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    found = Digests()
    assert found.of(path) == hashlib.sha256(b"one").hexdigest()
    assert found.of(tmp_path / "b") == ""


def test_a_change_that_leaves_length_and_time_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    found, before = Digests(), path.stat()
    assert found.of(path) == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found.of(path) == hashlib.sha256(b"two").hexdigest()


def test_a_file_that_has_settled_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    monkeypatch.setattr(digests, "SETTLED", -60.0)  # as if the change were long ago
    found = Digests()
    found.of(path)
    monkeypatch.setattr(digests.files, "reading", lambda _: pytest.fail("it was read again"))
    assert found.of(path) == hashlib.sha256(b"one").hexdigest()


def test_a_long_file_is_read_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    monkeypatch.setattr(digests, "AT_ONCE", 2)
    monkeypatch.setattr(digests, "SETTLED", -60.0)
    found = Digests()
    assert found.of(path) is None
    wait_until(lambda: found.of(path) == hashlib.sha256(b"one").hexdigest())


def test_several_files_share_what_may_be_read_while_a_page_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED", -60.0)
    paths = [tmp_path / name for name in "abcd"]
    for path in paths:
        path.write_bytes(b"one")
    found, allowance = Digests(), Allowance(7)
    one = hashlib.sha256(b"one").hexdigest()
    assert [found.of(path, allowance) for path in paths] == [one, one, None, None]
    wait_until(lambda: [found.of(path, Allowance(0)) for path in paths] == [one] * 4)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"one")
    (tmp_path / "a").symlink_to(tmp_path / "secret")
    assert Digests().of(tmp_path / "a") == ""
