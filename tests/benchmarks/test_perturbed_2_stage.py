"""The form of the second edition: what a stage file derives, and every mistake that is refused, by file and line."""

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tomserve.benchmarks import perturbed_2
from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, in_false_belief_subset
from tomserve.benchmarks.perturbed_2.check import load_stage
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.benchmarks.perturbed_2.stagefile import story_of
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


def test_four_questions_a_story(tmp_path: Path) -> None:
    found = stage(tmp_path)
    assert len(found.stories) == 18
    assert len(by_id(found)) == 4 * len(found.stories)
    assert {item.cluster for item in found.items()} == {f"P1/{task}" for task in found.file.tasks}
    assert {item.canary for item in found.items()} == {"practice"}


def test_a_twin_edits_the_story_of_the_other(tmp_path: Path) -> None:
    items = by_id(stage(tmp_path))
    one, other = (items[f"late_label/{name}/belief/original"] for name in ("remembers", "forgot"))
    assert one.story[0] == other.story[0] == "Ravi packs bells into a chest."
    assert (one.story[1], other.story[1]) == (
        "Months pass, and he has forgotten nothing.",
        "Months pass, and he has forgotten everything.",
    )
    assert (one.answer, other.answer) == ("bells", "lamps")
    assert one.gold is not None
    assert other.gold is not None
    assert one.gold.sets == (("bells",),) * 4
    assert other.gold.sets == (("bells",), ("unknown",), ("unknown",), ("lamps",))
    assert (one.factors["belief_role"], other.factors["belief_role"]) == ("opposite", "cue")
    assert (one.factors["twin"], other.factors["twin"]) == (None, "remembers")


def test_of_edits_a_version_that_edits_another(tmp_path: Path) -> None:
    file = stage(tmp_path).file
    story = story_of(file.tasks["automatic_change_knowledge"], "open_container")
    assert list(story) == ["sight", "timer", "shown", "six", "look"]
    assert story["shown"].text == "Lotte once showed Wim how the spring works."
    assert story["sight"].texts[1] == "Ravi finds {x} when he opens the chest."


def test_swapping_exchanges_the_labels_everywhere(tmp_path: Path) -> None:
    items = by_id(stage(tmp_path))
    names = {"bells": "lamps", "lamps": "bells", "unknown": "unknown"}
    for name, item in items.items():
        if name.endswith("swapped"):
            continue
        twin = items[name.replace("original", "swapped")]
        assert twin.answer == names[item.answer]
        assert twin.choices == item.choices
        assert item.gold is not None
        assert twin.gold is not None
        assert twin.gold.sets == tuple(tuple(names[one] for one in layer) for layer in item.gold.sets or ())
        turned = [s.replace("bells", "\0").replace("lamps", "bells").replace("\0", "lamps") for s in item.story]
        assert list(twin.story) == turned
        assert twin.factors["cue"] == names[str(item.factors["cue"])]
        assert twin.factors["reality"] == names[str(item.factors["reality"])]


def test_factors_of_reality_and_belief(tmp_path: Path) -> None:
    items = by_id(stage(tmp_path))
    factors = items["late_label/emptied/belief/original"].factors
    wanted = {"reality": "unknown", "belief_is_false": True, "answer_role": "other", "belief_role": "opposite"}
    assert {name: factors[name] for name in wanted} == wanted
    assert items["late_label/emptied/reality/original"].answer == "unknown"
    knows = items["automatic_change_knowledge/knows/belief/original"].factors
    assert (knows["aware"], knows["cue"], knows["belief_role"]) == (True, "bells", "opposite")


def test_all_six_orders_of_labels_come_up_and_are_those_of_the_story(tmp_path: Path) -> None:
    items = stage(tmp_path).items()
    assert len({item.choices for item in items}) == 6
    by_story: dict[str, set[tuple[str, ...]]] = {}
    for item in items:
        by_story.setdefault("/".join(item.id.split("/")[:3]), set()).add(item.choices)
    assert {len(orders) for orders in by_story.values()} == {1}


def test_wordings_share_their_events_and_the_first_is_released(tmp_path: Path) -> None:
    found = stage(tmp_path, '"There are {x} in it and no {y}."', '"There are {x} in it and no {y}. @ world x"')
    holds = found.file.tasks["none"].story["holds"]
    assert (len(holds.texts), holds.events) == (2, ["world x"])


MISTAKES = {
    "a class that is neither told nor lacking": ("lacks:\n  transparent_container: ", "lacks:\n  none: ", 16, "there is"),
    "a class nobody knows": ("  late_label:\n", "  late_lable:\n", 39, "did you mean 'late_label'"),
    "labels within each other": ("{x: bells, y: lamps}", "{x: bell, y: bells}", 9, "one contains the other"),
    "a form that one label lacks": (
        "{x: bells, y: lamps}",
        "{x: {label: bells, one: a bell}, y: lamps}",
        9,
        "must offer the same forms",
    ),
    "a control is missing": ("      correct_label: {answers: y/y", "      right_label: {answers: y/y", 31, "'correct_label'"),
    "a control of the other kind": ("      plain:", "      no_transfer:", 33, "unknown unexpected_contents version"),
    "somebody unknown is asked about": ("  late_label:\n", "  late_label:\n    asked: Rav\n", 40, "did you mean 'Ravi'"),
    "no such label as cue": ("  late_label:\n", "  late_label:\n    cue: z\n", 40, "unknown label 'z'"),
    "no such label as answer": ("plain: {answers: y/x", "plain: {answers: z/x", 33, "unknown label 'z'"),
    "the answer is not that of the events": ("plain: {answers: y/x", "plain: {answers: x/x", 33, "the events end in [y]"),
    "reality is not that of the events": ("plain: {answers: y/x", "plain: {answers: y/y", 33, "the events end in [x]"),
    "half a spare pair": ("{x: chains, y: pedals}", "{x: chains}", 10, "at least 2 entries"),
    "a word that is nothing": ("words: {chest: [trunk, case]}", "words: {'': [trunk, case]}", 11, "words"),
    "a word that ends in a space": ("words: {chest: [trunk, case]}", "words: {'chest ': [trunk, case]}", 11, "words"),
    "another word that is nothing": ("words: {chest: [trunk, case]}", "words: {chest: [trunk, '']}", 11, "words"),
    "a person whose name begins with a space": ("Wim: he}", "' W': he}", 8, "people"),
    "both twin and of": ("        twin: remembers\n", "        twin: remembers\n        of: remembers\n", 49, "either"),
    "no ground": ("plain: {answers: y/x, ground: unstated}", "plain: {answers: y/x}", 33, "stated or unstated"),
    "ground in a control": ("correct_label: {answers: y/y", "correct_label: {ground: stated, answers: y/y", 34, "belongs"),
    "aware elsewhere": ("plain: {answers: y/x", "plain: {aware: true, answers: y/x", 33, "where every version"),
    "aware left out": ("ground: unstated, aware: true", "ground: unstated", 81, "where every version needs it"),
    "a person who is not there": ("@ see Ravi\"}}}\n  late", "@ see Rafi\"}}}\n  late", 38, "did you mean 'Ravi'"),
    "a label that is not there": ("@ read Ravi y\"\n    versions:\n      classic", "@ read Ravi z\"\n    versions:\n      classic", 30, "'z'"),
    "an event nobody knows": ("@ world x\", \"There", "@ word x\", \"There", 28, "unknown verb 'word'"),
    "a version of a version that is not there": ("twin: remembers", "twin: remember", 47, "did you mean 'remembers'"),
    "versions made of each other": ("      remembers: {", "      remembers: {of: forgot, ", 46, "made of each other"),
    "an edit of a sentence that is not there": ("replace: {months: \"Months pass, and he has forgotten every", "replace: {month: \"Months pass, and he has forgotten every", 47, "did you mean 'months'"),
    "an insertion that is there": ("{after read: {never:", "{after read: {holds:", 32, "is there already"),
    "an insertion after nothing": ("{after read: {never:", "{after reed: {never:", 32, "did you mean 'read'"),
    "nothing is left": ("plain: {answers: y/x", "plain: {omit: [find, holds, label, read], answers: y/x", 33, "no sentence is left"),
    "a false belief in a control": ("replace: {holds: \"It holds {y}, and no {x}. @ world y\"}", "note: none", 34, "the events end in [x]"),
    "an exception of nothing": ("correct_label: {answers: y/y", "correct_label: {control_exception: because, answers: y/y", 34, "not false"),
    "wordings with different events": ("\"There are {x} in it and no {y}.\"", "\"There are {x} in it and no {y}. @ world y\"", 28, "different events"),
    "a stray sign": ("He has never looked inside.", "He has never looked@inside.", 32, "an '@' stands in the text"),
    "a field that nobody knows": ("setting: A", "seting: A", 6, "did you mean 'setting'"),
    "a mechanism that was not armed": ("@ arm y\", \"A", "\", \"A", 82, "no mechanism was armed"),
    "another schema": ("schema: 2", "schema: 3", 2, "2"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    old, new, line, reason = MISTAKES[name]
    with pytest.raises(ContentError) as found:
        stage(tmp_path, old, new)
    assert reason in str(found.value)
    assert "\n" not in str(found.value)
    assert found.value.path == tmp_path / "s.yaml"
    assert found.value.line == line, found.value


def test_two_files_of_one_stage_and_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no stage files"):
        perturbed_2.stages(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(PRACTICE)
    with pytest.raises(ConfigError, match="'P1' is already in"):
        perturbed_2.stages(tmp_path)


@pytest.mark.parametrize("limit", [176, 600, 1500])
def test_a_drawn_part_holds_whole_pairs_and_all_classes_and_roles(limit: int) -> None:
    items = list(perturbed_2.load())
    part = limited(items, limit, perturbed_2.BENCHMARK.draw)
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


def test_slots_tell_the_stories_of_a_task_apart(tmp_path: Path) -> None:
    found: dict[str, list[object]] = {}
    for item in stage(tmp_path).items():
        if item.factors["question_kind"] == "belief" and not item.factors["swapped"]:
            found.setdefault(str(item.factors["perturbation"]), []).append(item.factors["slot"])
    controls = ["correct_label", "informed_protagonist", "open_container"]
    assert found["none"] == ["other_1", "other_2", *controls]
    assert found["late_label"] == ["pair", "pair", "other_1", "other_2", *controls]
