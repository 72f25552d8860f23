"""The digest of several parts is one, whether they are in memory, in files, or come one after the other."""

from pathlib import Path

from tomserve.content.find import digest, digest_of


def test_parts_in_memory_in_files_and_one_after_the_other_have_one_digest(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(b"bc")
    found = digest(b"a", b"bc")
    assert found == digest_of(iter((b"a", b"bc"))) == digest(b"a", path) == digest_of((b"a", path))
    assert digest(b"ab", b"c") != found
    assert digest() == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
