"""The authoring format: every mistake is refused with file, line and reason. What it derives: see test_contract.py."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tomserve.benchmarks.perturbed.stages_1 import Edition1Stage, load_stage
from tomserve.errors import ContentError

PRACTICE = (ROOT / "tests/data/practice_stage.yaml").read_text()


def stage(tmp_path: Path, old: str = "", new: str = "") -> Edition1Stage:
    """The practice stage with one edit."""
    assert old in PRACTICE
    path = tmp_path / "s.yaml"
    path.write_text(PRACTICE.replace(old, new, 1) if old else PRACTICE)
    return load_stage(path)


MISTAKES = [
    ('put: {world: x, belief: x}', 'put: {world: z, belief: x}', "gold.put.world: unknown label 'z'"),
    ('          move: {world: y, belief: x}\n', '', "no gold sets for the sentence 'move'"),
    ('put: {world: x, belief: x}', 'put: {world: x}', 'gold.put.belief: is missing'),
    ('          put: {world: x, belief: x}\n          away: {world: x, belief: x}\n', '          away: {world: x, belief: x}\n          put: {world: x, belief: x}\n', 'not in the order of the story'),
    ('          away: {world: x, belief: x}\n          move: {world: y, belief: x}\n', '          away: {world: x, belief: [x, y], belief_edges: [x->y]}\n          move: {world: y, belief: [x, y], belief_edges: [x->x]}\n', 'gold.move.belief: no path of beliefs leads up to this sentence'),
    ('          move: {world: y, belief: x}\n          back: {world: y, belief: x}\n        answer: {reality: y, belief: x}', '          move: {world: y, belief: [x, y]}\n          back: {world: y, belief: x, belief_edges: [x->x]}\n        answer: {reality: y, belief: x}', "'y' lies on no path"),
    ('away: {world: x, belief: x}', 'away: {world: x, belief: x, belief_edges: [y->x]}', 'not from the set'),
    ('answer: {reality: y, belief: x}', 'answer: {reality: y, belief: y}', "is 'y', but the last belief set is [x]"),
    ('Ravi leaves his kite in {x}.', 'Ravi leaves his kite in the sandpit.', "'sandpit' stands outside a slot"),
    ('        answer: {reality: y, belief: x}', '        factors: {swapped: maybe}\n        answer: {reality: y, belief: x}', "factors.swapped: 'swapped' is part of the design"),
    ('Ravi leaves his kite in {x}.', 'Ravi leaves his kite in {z}.', "unknown slot '{z}'"),
    ('{x: the sandpit, y: the toolshed}', '{x: the sandpit, y: the sandpit hut}', 'one contains the other'),
    ('          move: "Lotte looks', '          moove: "Lotte looks', "replace: unknown sentence 'moove'"),
    ('  none:\n    story:', '  none:\n    asked: Rabi\n    story:', "unknown person 'Rabi'; did you mean 'Ravi'"),
    ('        answer: {reality: x, belief: x}', '        control_exception: none needed\n        answer: {reality: x, belief: x}', 'control_exception: given, but the belief is not false'),
    ('      put: {text:', '      away: {text: x}\n      put: {text:', "the key 'away' is given twice"),
    ('tasks:\n', 'tasks: [\n', 'broken YAML'),
    ("schema: 1", "schema: 1\nx: &a [*a]", ""),
    ("told: {world: y, belief: y}\n          believes: {world: y, belief: y}\n        answer: {reality: y, belief: y}",
     "told: {world: y, belief: x}\n          believes: {world: y, belief: x}\n        answer: {reality: y, belief: x}",
     "the belief is false in a control: say why"),
]  # fmt: skip
"""What is edited in the practice stage, into what, and the reason for which that is refused ("" for any)."""


@pytest.mark.parametrize(("old", "new", "reason"), MISTAKES)
def test_a_mistake_is_named_with_file_and_line(tmp_path: Path, old: str, new: str, reason: str) -> None:
    with pytest.raises(ContentError) as error:
        stage(tmp_path, old, new)
    message = str(error.value)
    assert reason in message
    assert message.startswith(f"{tmp_path}/s.yaml:{error.value.line}: " if reason else f"{tmp_path}/s.yaml")
    assert "\n" not in message
    edited = (tmp_path / "s.yaml").read_text().splitlines()
    assert not reason or 1 <= error.value.line <= len(edited)
    if reason.startswith("gold.put.world"):
        assert "world: z" in edited[error.value.line - 1]
