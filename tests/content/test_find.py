"""Content is found in the folders of content, or the user is told how to name another folder."""

from __future__ import annotations

import pytest

from tomserve import content
from tomserve.errors import ConfigError


def test_content_that_must_be_there_is_found_or_asked_for() -> None:
    assert content.required("dataset/worlds/words.yaml") == content.find("dataset/worlds/words.yaml")
    with pytest.raises(ConfigError, match=r"^dataset/moons is in none of the content folders; name one .* --content$"):
        content.required("dataset/moons")
