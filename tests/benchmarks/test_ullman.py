"""Ullman's alterations: three choices, known rows, and files that are none. See test_contract.py for the rest."""

from pathlib import Path

import pytest

from tests.conftest import ROOT, data_file
from tomserve import benchmarks
from tomserve.errors import ContentError

SMALL = ROOT / "tests/data/ullman_small.csv"


def test_three_choices_in_an_order_of_their_own() -> None:
    found = list(benchmarks.load("ullman", SMALL))
    assert [item.answer for item in found] == ["pins", "she has no guess", "in the crate"]
    assert {len(item.choices) for item in found} == {3}
    assert [item.factors["no_guess"] for item in found] == ["she has no guess", "she has no guess", "he has no guess"]
    assert {item.factors["alteration"] for item in found} == {None}  # none of them is a known row
    assert len({item.cluster for item in found}) == 3
    assert found[0].story[1] == "The label on the tin says 'pins' and not 'buttons.'"


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
    ("Tea.;What?;tea;Tea;none\n", "ullman.csv:1: has two choices that are the same"),
    ("Tea.;What?;tea;salt;" + "x" * 201, "ullman.csv:1: no guess: has 201 characters"),
    ("", "ullman.csv: holds no rows"),
    ('Tea.;What?;"tea"x;salt;none\n', "ullman.csv:1: is not CSV"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_what_is_no_row_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "ullman.csv").write_text(text)
    with pytest.raises(ContentError) as error:
        list(benchmarks.load("ullman", tmp_path / "ullman.csv"))
    assert said in str(error.value)
