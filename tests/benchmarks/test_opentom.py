"""OpenToM: read from its folder, with classes for the macro-averaged F1 and labels that contradict others known."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tomserve import benchmarks
from tomserve.benchmarks.published import opentom
from tomserve.errors import TomserveError
from tomserve.items import Item
from tomserve.scoring.answers import Reading

SMALL = ROOT / "tests/data/opentom_small"


def items(path: Path) -> list[Item]:
    return list(benchmarks.load("opentom", path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL, tmp_path / "opentom_data"))


def test_the_authors_reading_is_kept_with_its_ways() -> None:
    for task, text, expected in (
        ("location_coarse", "No, she moved it.", "No"),
        ("location_coarse", "Yes, as far as he knows.", "unread"),  # "no" stands in "knows"
        ("location_coarse", "Maybe.", "unread"),
        ("fullness", "It is fuller. Not less full.", "less full"),
        ("fullness", "more full", "more full"),
        ("fullness", "the same", "unread"),
        ("accessibility", "less accessible, never more accessible", "more accessible"),
        ("attitude", "My answer: b.", "neutral"),
        ("attitude", "positive or negative", "unread"),
    ):
        assert opentom.read_class(task, text) == expected, text
    assert opentom.read_place("It's in the tool_box.", "tool box", "a cellar shelf") == "original"
    assert opentom.read_place("the shelf", "tool box", "a cellar shelf") == "new"
    assert opentom.read_place("the hall", "tool box", "a cellar shelf") == "neither"
    assert opentom.read_place("the attic", "attic", "crate") == "neither"  # they cut "a" off "attic"


def test_metrics_give_classes() -> None:
    found = {item.id: item for item in items(SMALL)}
    fine, attitude = found["opentom/10000002/location_fg_fo/3"], found["opentom/10000002/attitude/1"]

    def computed(item: Item, reading: Reading) -> dict[str, object]:
        return {name: value for metric in opentom.METRICS for name, value in metric.compute(item, reading).items()}

    json_reply = Reading("json", "the porch", text='{"answer": "the porch"}')
    assert computed(fine, json_reply) == {"metric_class": "new", "metric_official": "new"}
    prose = Reading("sole", "positive", text="Not neutral: positive.")
    assert computed(attitude, prose) == {"metric_class": "positive", "metric_official": "positive"}
    assert computed(attitude, Reading(None, None, text="?")) == {"metric_official": "unread"}
    assert computed(attitude, Reading(None, None)) == {}


def test_files_that_are_missing_or_were_replaced_are_told(folder: Path) -> None:
    found = " ".join(opentom.BENCHMARK.audit(folder, print).lines)
    assert "labels: 2 of 55 that can be checked contradict the plot or another label" in found
    (folder / "meta_data_long.json").unlink()
    assert len(items(folder)) == 2 * 23
    assert "no long narratives are asked" in " ".join(opentom.BENCHMARK.audit(folder, print).lines)
    new, old = folder / "location_fg_fo_new.json", folder / "location_fg_fo.json"
    new.rename(old)
    with pytest.raises(TomserveError, match="is the older file, whose answers contradict location_cg_fo"):
        items(folder)
    old.rename(new)
    (folder / "attitude.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(TomserveError, match="only a pointer of Git LFS"):
        items(folder)
