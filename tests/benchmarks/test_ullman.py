"""Ullman's alterations: three choices, known rows, and files that are none. See test_contract.py for the rest."""

from pathlib import Path

import pytest

from tests.conftest import data_file
from tomserve import benchmarks
from tomserve.errors import ContentError


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


BROKEN = [
    ("a;b;c;d\n", "ullman.csv:1: has 4 fields; expected story"),
    ("Tea.;What?;tea;salt;\n", "ullman.csv:1: no guess: is ''"),
    ('Tea.;What?;"tea"x;salt;none\n', "ullman.csv:1: is not CSV"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_what_is_no_row_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "ullman.csv").write_text(text)
    with pytest.raises(ContentError) as error:
        list(benchmarks.load("ullman", tmp_path / "ullman.csv"))
    assert said in str(error.value)
