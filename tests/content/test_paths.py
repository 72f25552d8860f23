"""Content is found in the folders of content, or the user is told how; its digest does not depend on where it lies."""

from pathlib import Path

import pytest

from tomserve import content
from tomserve.content.paths import digest, digest_of
from tomserve.errors import ConfigError


def test_content_that_must_be_there_is_found_or_asked_for() -> None:
    assert content.require("dataset/worlds/words.yaml") == content.find("dataset/worlds/words.yaml")
    with pytest.raises(ConfigError, match=r"^dataset/moons is in none of the content folders; name one .* --content$"):
        content.require("dataset/moons")


def test_parts_in_memory_in_files_and_one_after_the_other_have_one_digest(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(b"bc")
    found = digest(b"a", b"bc")
    assert found == digest_of(iter((b"a", b"bc"))) == digest(b"a", path) == digest_of((b"a", path))
    assert digest(b"ab", b"c") != found
    assert digest() == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
