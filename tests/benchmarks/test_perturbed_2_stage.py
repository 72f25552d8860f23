"""The form of the second edition: what a stage file derives, and every mistake that is refused, by file and line."""

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tomserve.benchmarks import perturbed_2
from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, in_false_belief_subset
from tomserve.benchmarks.perturbed_2.check import load_stage
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item
from tomserve.items.draw import limited

PRACTICE = (ROOT / "tests/data/practice_stage_2.yaml").read_text()


def stage(folder: Path, old: str = "", new: str = "") -> Stage:
    """The practice stage with one edit."""
    assert PRACTICE.count(old), old
    path = folder / "s.yaml"
    path.write_text(PRACTICE.replace(old, new, 1) if old else PRACTICE)
    return load_stage(path)


def by_id(stage: Stage) -> dict[str, Item]:
    return {item.id.removeprefix("P1/"): item for item in stage.items()}


def test_four_questions_a_story_whose_labels_have_the_same_order(tmp_path: Path) -> None:
    items = stage(tmp_path).items()
    assert len(items) == 72
    assert len({item.choices for item in items}) == 6, "all orders come up"
    assert len({(*item.id.split("/")[:3], item.choices) for item in items}) == 18


def test_swapping_exchanges_the_labels_everywhere_and_factors_follow(tmp_path: Path) -> None:
    items = by_id(stage(tmp_path))
    names = {"bells": "lamps", "lamps": "bells", "unknown": "unknown"}
    for name, item in items.items():
        twin = items[name.replace("original", "swapped")]
        if twin is not item:
            assert (twin.answer, twin.choices) == (names[item.answer], item.choices)
            assert twin.gold.sets == tuple(tuple(names[one] for one in layer) for layer in item.gold.sets or ())
            turned = [s.replace("bells", "\0").replace("lamps", "bells").replace("\0", "lamps") for s in item.story]
            assert list(twin.story) == turned
            assert [twin.factors[one] for one in ("cue", "reality")] == [
                names[str(item.factors[one])] for one in ("cue", "reality")
            ]
    factors = items["late_label/emptied/belief/original"].factors
    wanted = {"reality": "unknown", "belief_is_false": True, "answer_role": "other", "belief_role": "opposite"}
    assert {name: factors[name] for name in wanted} == wanted
    assert items["late_label/emptied/reality/original"].answer == "unknown"
    knows = items["automatic_change_knowledge/knows/belief/original"].factors
    assert (knows["aware"], knows["cue"], knows["belief_role"]) == (True, "bells", "opposite")


MISTAKES = [
    ('lacks:\n  transparent_container: ', 'lacks:\n  none: ', 16, 'there is'),
    ('  late_label:\n', '  late_lable:\n', 39, "did you mean 'late_label'"),
    ('      correct_label: {answers: y/y', '      right_label: {answers: y/y', 31, "'correct_label'"),
    ('      plain:', '      no_transfer:', 33, 'unknown unexpected_contents version'),
    ('  late_label:\n', '  late_label:\n    asked: Rav\n', 40, "did you mean 'Ravi'"),
    ('  late_label:\n', '  late_label:\n    cue: z\n', 40, "unknown label 'z'"),
    ('plain: {answers: y/x', 'plain: {answers: z/x', 33, "unknown label 'z'"),
    ('plain: {answers: y/x', 'plain: {answers: x/x', 33, 'the events end in [y]'),
    ('plain: {answers: y/x', 'plain: {answers: y/y', 33, 'the events end in [x]'),
    ('{x: chains, y: pedals}', '{x: chains}', 10, 'at least 2 entries'),
    ('words: {chest: [trunk, case]}', "words: {chest: [trunk, '']}", 11, 'words'),
    ('        twin: remembers\n', '        twin: remembers\n        of: remembers\n', 49, 'either'),
    ('plain: {answers: y/x, ground: unstated}', 'plain: {answers: y/x}', 33, 'stated or unstated'),
    ('ground: unstated, aware: true', 'ground: unstated', 81, 'where every version needs it'),
    ('@ see Ravi"}}}\n  late', '@ see Rafi"}}}\n  late', 38, "did you mean 'Ravi'"),
    ('twin: remembers', 'twin: remember', 47, "did you mean 'remembers'"),
    ('      remembers: {', '      remembers: {of: forgot, ', 46, 'made of each other'),
    ('{after read: {never:', '{after read: {holds:', 32, 'is there already'),
    ('plain: {answers: y/x', 'plain: {omit: [find, holds, label, read], answers: y/x', 33, 'no sentence is left'),
    ('replace: {holds: "It holds {y}, and no {x}. @ world y"}', 'note: none', 34, 'the events end in [x]'),
    ('correct_label: {answers: y/y', 'correct_label: {control_exception: because, answers: y/y', 34, 'not false'),
    ('He has never looked inside.', 'He has never looked@inside.', 32, "an '@' stands in the text"),
    ('@ arm y", "A', '", "A', 82, 'no mechanism was armed'),
]  # fmt: skip
"""What is edited in the practice stage, into what, and the line and the reason of the refusal."""


@pytest.mark.parametrize(("old", "new", "line", "reason"), MISTAKES)
def test_a_mistake_is_refused_with_its_line(old: str, new: str, line: int, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ContentError) as found:
        stage(tmp_path, old, new)
    assert reason in str(found.value)
    assert "\n" not in str(found.value)
    assert (found.value.path, found.value.line) == (tmp_path / "s.yaml", line), found.value


def test_two_files_of_one_stage_and_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no stage files"):
        perturbed_2.stages(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(PRACTICE)
    with pytest.raises(ConfigError, match="'P1' is already in"):
        perturbed_2.stages(tmp_path)


@pytest.mark.parametrize("limit", [176, 600, 1500])
def test_a_drawn_part_holds_whole_pairs_and_all_classes_and_roles(limit: int, second_edition: list[Item]) -> None:
    part = limited(second_edition, limit, perturbed_2.BENCHMARK.draw)
    assert limit - 8 <= len(part) <= limit
    pairs: dict[tuple[object, ...], set[object]] = {}
    for item in part:
        if item.factors["slot"] == "pair":
            pairs.setdefault((item.cluster, item.factors["swapped"]), set()).add(item.factors["version"])
    assert len(pairs) > limit / 50
    assert {len(versions) for versions in pairs.values()} == {2}
    subset = [item for item in part if in_false_belief_subset(item.factors)]
    roles = Counter(item.factors["belief_role"] for item in subset)
    assert min(roles[role] for role in ("cue", "opposite", "unknown")) > len(subset) / 6
    counts = Counter(item.factors["perturbation"] for item in part)
    assert len(counts) == len(PERTURBATIONS)
    usual = sorted(counts.values())[len(counts) // 2]
    assert min(counts.values()) >= usual / 3  # the class that only eleven stages have comes up less often
