"""The published record of the second edition's annotation: tiny replies with known figures, and the pages' own figures."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tomserve.benchmarks.perturbed.stages import Stage, load_stage

FOLDER = ROOT / "dataset/perturbed-2/annotation"
PRACTICE = (ROOT / "tests/data/practice_stage_2.yaml").read_text()


@pytest.fixture(scope="module")
def scripts() -> dict[str, Any]:
    """The modules of the folder of annotation by name."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(FOLDER)
        return {name: import_module(f"{name}_2") for name in ("record", "sheets", "agreement", "datasheet")}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    path = tmp_path / "P1.yaml"
    path.write_text(PRACTICE)
    return load_stage(path)


def handed_out(scripts: dict[str, Any], folder: Path, stage: Stage, readers: str) -> dict[str, Any]:
    """Write sheets, gold, and for every reader a reply that is the gold; gives the stories by code."""
    (folder / "sheets").mkdir(exist_ok=True)
    (folder / "replies").mkdir(exist_ok=True)
    for reader in readers:
        (folder / f"sheets/P1-{reader}.txt").write_text("\n".join(scripts["sheets"].sheet(stage, reader)))
    list(scripts["sheets"].write_gold(folder, [stage]))
    told = scripts["record"].stories(stage)
    for reader in readers:
        lines = []
        for key, one in told.items():
            letters = {one.symbols[label]: a for a, label in scripts["sheets"].letters(reader, key, one.belief).items()}
            read = [" ".join("".join(sorted(letters[s] for s in word)) for word in sets) for sets in one.sets]
            lines.append(f"{key} Q1 {read[0]} Q2 {read[1]}\n")
        (folder / f"replies/P1-{reader}.reply").write_text("".join(lines))
    return told  # type: ignore[no-any-return]


def test_figures_of_a_reply_that_differs_in_one_answer(scripts: dict[str, Any], stage: Stage, tmp_path: Path) -> None:
    told = handed_out(scripts, tmp_path, stage, "ab")
    key = next(key for key, one in told.items() if "late_label" in one.name)
    path, letters = tmp_path / "replies/P1-b.reply", scripts["sheets"].letters("b", key, told[key].belief)
    right = next(iter(told[key].sets.belief[-1]))
    wrong = next(a for a, label in letters.items() if told[key].symbols[label] != right)
    path.write_text(re.sub(rf"({key}.*) \S+( Q2.*)", rf"\1 {wrong}\2 # not said", path.read_text()))
    readings, agreement = scripts["record"].readings(tmp_path, [stage]), scripts["agreement"]
    found, stories = list(agreement.units(readings)), len(stage.stories)
    rows = [line.strip("| ").split(" | ") for line in list(agreement.overall(found))[2:]]
    cells = {tuple(row[:3]): row[3:] for row in rows}
    same = [f"{stories}/{stories} (100.0%)", "1.000 (1.000 to 1.000)"]
    assert cells["a and gold", "belief", "last sentences"] == same
    for compared in ("a and b", "b and gold"):
        share, alpha = cells[compared, "belief", "last sentences"]
        assert share == f"{stories - 1}/{stories} ({(stories - 1) / stories:.1%})"
        assert 0.8 < float(alpha.split(" ")[0]) < 1
        assert cells[compared, "reality", "all sentences"][1].startswith("1.000 ")
    listed = list(agreement.disagreements(readings, finals=True))
    assert listed[0].startswith(f"P1/{told[key].name}, belief, sentence ")
    assert listed[2:] == ["    remark: not said"]
    said = "Answers in which a reader ever differed from the gold: 1, of 1 stories; in 0 of them"
    assert agreement.answers(readings).startswith(said)


def test_every_reply_is_of_stories_that_were_handed_out_and_every_dispute_is_decided(scripts: dict[str, Any]) -> None:
    """In the adjudication by name, and in the decisions of its stage."""
    page, readings = (FOLDER / "adjudication.md").read_text(), scripts["record"].readings(FOLDER)
    stems = {path.stem for path in (FOLDER / "replies").iterdir()}
    assert {f"{one.stage}-{one.reader}" for one in readings} == stems <= {p.stem for p in (FOLDER / "sheets").iterdir()}
    decisions = {path.stem: path.read_text() for path in (FOLDER / "decisions").iterdir()}
    for one in readings:
        assert scripts["record"].code(one.where) == one.code, "the code is not of the story that the gold names"
        decided, (task, version) = decisions[one.stage], one.name.split("/")
        if one.sets != one.gold and one.reader in "ab":
            assert any(task in line for line in decided.splitlines() if not line.startswith("changed:")), one.where
        for question, read, gold in zip(("belief", "reality"), one.sets, one.gold, strict=True):
            if read[-1] != gold[-1]:
                rows = [row for row in page.splitlines() if row.startswith(f"| {one.where} | {question} |")]
                assert rows, f"{one.where}, {question}: add a row to adjudication.md"
                assert one.reader in rows[0].split(" | ")[2], one.where
                assert task in decided
                assert f"/{version}" in decided, one.where


@pytest.mark.long
def test_the_figures_of_datasheet_and_adjudication_are_those_of_the_scripts(scripts: dict[str, Any], capsys) -> None:
    """Whoever changes a story runs datasheet_2.py (see its docstring)."""
    assert scripts["datasheet"].main(["--check"]) == 0, capsys.readouterr()
