"""What a file holds decides, and a file that has not been changed is not read again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.helpers.queues import until
from tomserve.web import digests
from tomserve.web.digests import Allowance, Digests

ONE = hashlib.sha256(b"one").hexdigest()


def test_the_digest_is_that_of_the_content_whatever_its_length_and_time(tmp_path: Path) -> None:
    path, found = tmp_path / "a", Digests()
    path.write_bytes(b"one")
    before = path.stat()
    assert (found.of(path), found.of(tmp_path / "b")) == (ONE, "")
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found.of(path) == hashlib.sha256(b"two").hexdigest()
    (tmp_path / "link").symlink_to(path)
    assert found.of(tmp_path / "link") == ""


def test_a_file_that_has_settled_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    monkeypatch.setattr(digests, "SETTLED", -60.0)  # as if the change were long ago
    found = Digests()
    found.of(path)
    monkeypatch.setattr(digests.files, "reading", lambda _: pytest.fail("it was read again"))
    assert found.of(path) == ONE


def test_several_files_share_what_may_be_read_while_a_page_waits_and_long_ones_are_read_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED", -60.0)
    paths = [tmp_path / name for name in "abcd"]
    for path in paths:
        path.write_bytes(b"one")
    found, allowance = Digests(), Allowance(7)
    assert [found.of(path, allowance) for path in paths] == [ONE, ONE, None, None]
    until(lambda: [found.of(path, Allowance(0)) for path in paths] == [ONE] * 4)
