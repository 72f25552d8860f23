"""The fixed release is generated once and read from then on."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.conftest import make_item
from tomserve import content
from tomserve.benchmarks.worlds import benchmark, generator
from tomserve.benchmarks.worlds.generator import Release, load_release
from tomserve.items import Item


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tomserve"


class Generator:
    """Generates twenty items, and counts how often."""

    times, items = 0, [make_item(number) for number in range(20)]

    def __call__(self) -> Iterator[Item]:
        self.times += 1
        yield from self.items

    def release(self) -> Release:
        text = b"".join(item.to_json() + b"\n" for item in self.items)
        return load_release().model_copy(update={"file": f"sha256:{hashlib.sha256(text).hexdigest()}"})


@pytest.fixture
def made() -> Generator:
    return Generator()


def test_what_was_generated_once_is_read_from_then_on(made: Generator, cache: Path) -> None:
    release = made.release()
    for _ in range(3):
        assert list(generator.read_or_generate(release, made)) == made.items
    assert made.times == 1
    path = generator.release_path(release)
    assert path.stat().st_mode & 0o077 == 0


def test_a_part_is_not_kept_and_neither_is_another_release(made: Generator, cache: Path) -> None:
    assert len(list(islice(generator.read_or_generate(made.release(), made), 5))) == 5
    assert not cache.exists()
    assert list(generator.read_or_generate(load_release(), made)) == made.items
    assert not cache.exists(), "these are not the items whose digest the release names"
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where a folder should be")
    assert list(generator.read_or_generate(made.release(), made)) == made.items


def test_other_words_have_a_file_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever changes a word, or brings a folder of words along, is not given the release of other words."""
    before = generator.release_path(load_release())
    words = Path(shutil.copytree(content.require("dataset/worlds"), tmp_path / "content/dataset/worlds"))
    (words / "words.yaml").write_text((words / "words.yaml").read_text() + "# a change\n")
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path / "content"))
    assert generator.release_path(load_release()) != before


@pytest.mark.long
def test_the_file_is_the_one_that_the_release_names() -> None:
    """The fixed release as `tomserve items worlds --where all` writes it, whoever has generated it."""
    assert (
        sum(1 for _ in generator.read_or_generate(load_release(), benchmark.generate_release)) == load_release().items
    )
    assert generator.release_path(load_release()).is_file()
    assert os.path.getsize(generator.release_path(load_release())) < 4_000_000
