"""What `tomserve dataset validate worlds` says of phrasings that are missing, name too little, or slip."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.family import Family
from tomserve.benchmarks.worlds.lexicon import Lexicon, built_in
from tomserve.benchmarks.worlds.validating import brief, named, slips

FAMILY = BY_NAME["transfer"]
WENT = '  goes:\n    - "{A} {A:leaves|leave}."\n    - "{A} {A:goes|go} home."\n'


def lexicon(folder: Path, *, brief: str) -> Lexicon:
    """The words of worlds, with other brief phrasings of one role of the family transfer."""
    copy = folder / "worlds"
    shutil.copytree(built_in().folder, copy)
    file = copy / "phrases/transfer.yaml"
    text = file.read_text(encoding="utf-8")
    assert WENT in text
    file.write_text(text.replace(WENT, brief), encoding="utf-8")
    return Lexicon(copy)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_role_is_said_briefly_without_a_slip(family: Family) -> None:
    told = [family.world(built_in(), f"{family.name}-7-0000", scenario) for scenario in family.scenarios]
    assert [*brief(told, built_in()), *slips(told, built_in())] == []


@pytest.mark.parametrize(
    ("phrasing", "problem"),
    [
        ("", "short: no phrasings of 'goes'; known: "),
        ('  goes: ["Somebody leaves."]\n', "the brief phrasing 'Somebody leaves.' of 'goes' does not name 'A'"),
        (
            '  goes: ["{A} {A:leaves|leave} the {room}."]\n',
            "the brief phrasing '{A} {A:leaves|leave} the {room}.' of 'goes' names 'room', as no longer one does",
        ),
    ],
)
def test_a_brief_phrasing_that_is_missing_or_names_something_else_is_a_problem(
    tmp_path: Path, phrasing: str, problem: str
) -> None:
    own = lexicon(tmp_path, brief=phrasing)
    found = list(brief([FAMILY.world(own, "transfer-7-0000", "false_belief")], own))
    assert len(found) == 1
    assert found[0].startswith(problem)


@pytest.mark.parametrize("slip", ['"{A} {A:leaves|leave} ."', '"{A} {A:leaves|leave} leaves."'])
def test_slips_of_brief_phrasings_are_found(tmp_path: Path, slip: str) -> None:
    own = lexicon(tmp_path, brief=f"  goes: [{slip}]\n")
    assert list(slips([FAMILY.world(own, "transfer-7-0000", "false_belief")], own))


def test_a_role_without_a_brief_phrasing_is_no_traceback(tmp_path: Path) -> None:
    own = lexicon(tmp_path, brief="")
    told = [FAMILY.world(own, "transfer-7-0000", "false_belief")]
    assert any("no phrasings of 'goes'" in one for one in slips(told, own))


def test_the_slots_of_a_phrasing_are_found_in_all_their_forms() -> None:
    assert named("{A} {B:has|have} {C.his} {o}, {D's} {l}.") == {*"ABCDol"}
