"""Ullman's alterations: three choices, known rows. See test_contract.py for the rest."""

from tests.conftest import data_file
from tomserve import benchmarks


def test_the_known_file_has_its_design() -> None:
    path = data_file("ullman.csv")
    found = list(benchmarks.load("ullman", path))
    assert [item.factors["alteration"] for item in found][:3] == ["original", "transparent_bag", "cannot_read"]
    assert len({item.cluster for item in found}) == 2
    assert [item.answer for item in found if item.factors["condition"] == "no_belief"] == ["she has no guess"]
    assert len({item.choices.index(item.answer) for item in found}) == 3
    for item, line in zip(found, path.read_text("utf-8-sig").splitlines(), strict=True):
        assert " ".join(item.story) == line.split(";")[0]
    assert benchmarks.get("ullman").validate(path, print).code == 0
