"""The perturbed benchmark as it is in dataset/: counts, factors, balance."""

import subprocess
import sys
from collections import Counter

import polars as pl
import pytest

from tests.conftest import ROOT
from tomserve.benchmarks import get, perturbed
from tomserve.benchmarks.perturbed.stagefile import PERTURBATIONS, SCENARIOS
from tomserve.benchmarks.perturbed.validate import cross_check, problems
from tomserve.errors import ConfigError
from tomserve.items import Item, items_digest


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return list(get("perturbed").items())


def test_sixteen_items_a_task_in_a_full_design(items: list[Item]) -> None:
    assert set(Counter(item.cluster for item in items).values()) == {16}
    cells = Counter((i.cluster, i.factors["scenario"], i.factors["question_kind"], i.factors["swapped"]) for i in items)
    assert set(cells.values()) == {1}
    assert len({item.id for item in items}) == len(items)
    for item in items:
        assert item.factors["perturbation"] in PERTURBATIONS
        assert item.factors["scenario"] in SCENARIOS[item.factors["kind"]]


def test_stage_c2_has_its_ten_tasks(items: list[Item]) -> None:
    found = {i.factors["perturbation"] for i in items if i.factors["stage"] == "C2"}
    assert found == set(PERTURBATIONS) - {"automatic_change_knowledge"}


def test_stories_differ_between_scenarios_and_swaps(items: list[Item]) -> None:
    stories = Counter(i.story for i in items if i.factors["question_kind"] == "belief")
    assert [story for story, count in stories.items() if count > 1] == []


def test_a_stage_has_one_closed_choice_set_with_unknown(items: list[Item]) -> None:
    for stage in {i.factors["stage"] for i in items}:
        sets = {frozenset(i.choices) for i in items if i.factors["stage"] == stage}
        assert len(sets) == 1
        assert "unknown" in next(iter(sets))


def test_gold_ends_in_the_answer(items: list[Item]) -> None:
    for item in items:
        assert item.gold is not None
        assert item.gold.sets is not None
        assert item.gold.sets[-1] == (item.answer,)


def test_answers_balance_over_swaps(items: list[Item]) -> None:
    for stage in {i.factors["stage"] for i in items}:
        count = Counter(i.answer for i in items if i.factors["stage"] == stage)
        del count["unknown"]
        assert len(set(count.values())) == 1


def test_a_critical_false_belief_is_neither_classic_nor_reality(items: list[Item]) -> None:
    """With the cue agreeing with reality, "always reality" and "always the cue" both fail."""
    critical = [
        i
        for i in items
        if i.factors["critical_form"]
        and i.factors["scenario"] == "false_belief"
        and i.factors["question_kind"] == "belief"
    ]
    assert critical
    assert {i.factors["answer_role"] for i in critical} == {"other"}
    assert all(i.factors["belief_is_false"] for i in critical)


def test_two_files_of_one_stage_are_refused(tmp_path) -> None:
    text = (perturbed.stages()[0].path).read_text()
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text(text)
    with pytest.raises(ConfigError, match="is already in"):
        perturbed.stages(tmp_path)
    with pytest.raises(ConfigError, match="no stage files"):
        perturbed.stages(tmp_path / "..")


def test_the_whole_design(items: list[Item]) -> None:
    assert len(items) == 1088
    assert len({item.cluster for item in items}) == 68
    subset = [i for i in items if i.factors["scenario"] == "false_belief" and i.factors["question_kind"] == "belief"]
    assert len(subset) == 136
    tasks = Counter(cluster.split("/")[1] for cluster in {item.cluster for item in items})
    assert tasks == dict(zip(PERTURBATIONS, (7, 7, 5, 4, 7, 7, 5, 7, 6, 6, 7), strict=True))


def test_validate_finds_nothing() -> None:
    assert list(problems(perturbed.stages())) == []


BREAKS = {
    "a task is missing": ("C4", "remove", "late_label", "C4/late_label: is missing"),
    "a critical form is lost": ("C1", "    critical_form: true\n", "", "expected about half"),
    "critical where it is not foreseen": (
        "C2",
        "  none:\n",
        "  none:\n    critical_form: true\n",
        "not foreseen for this class",
    ),
    "aware elsewhere": (
        "C2",
        "  none:\n",
        "  none:\n    aware: true\n",
        "none: `aware` is for automatic_change_knowledge only",
    ),
    "the question names a label": (
        "C2",
        "is in the box?",
        "is in the box, {x} or {y}?",
        "the question names the label",
    ),
    "the question asks for the future": (
        "C2",
        "what does {asked} believe is in the box?",
        "what will {asked} say is in the box?",
        "asks about the future",
    ),
    "an event is not in the text's gold": (
        "C2",
        "[read Ines y]",
        "[read Ines x]",
        "belief is written as {y}, events give {x}",
    ),
    "an unknown event": ("C2", "[read Ines y]", "[peek Ines y]", "unknown verb 'peek'"),
    "inference where it does not belong": ("C2", "[read Ines y]", "[infer Ines y]", "`infer` belongs to"),
    "a sentence too long": (
        "C2",
        "Ines reads the label.",
        "Ines reads the label" + " and reads" * 30 + ".",
        "longest sentence",
    ),
    "a control that settles nothing": (
        "C2",
        "told: {world: x, belief: x}\n          believes: {world: x, belief: x}\n        answer: {reality: x, belief: x}",
        "told: {world: x, belief: y}\n          believes: {world: x, belief: y}\n        control_exception: none\n        answer: {reality: x, belief: y}",
        "told or sees, but the belief is not the reality",
    ),
    "the same story twice": (
        "C2",
        '      correct_label:\n        replace:\n          holds: {text: "The box holds {y} and no {x}.", events: [world y]}\n',
        '      correct_label:\n        replace:\n          holds: {text: "The box holds {x} and no {y}.", events: [world y]}\n',
        "tells the same story as",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_property_is_found(name: str, tmp_path) -> None:
    stage, old, new, text = BREAKS[name]
    for found in perturbed.stages():
        source = found.path.read_text()
        if found.file.stage == stage:
            if old == "remove":
                start = source.index(f"\n  {new}:\n")
                end = source.index("\n  non_protagonist_belief:\n")
                source = source[:start] + source[end:]
            else:
                assert old in source
                source = source.replace(old, new, 1)
        (tmp_path / found.path.name).write_text(source)
    assert any(text in problem for problem in problems(perturbed.stages(tmp_path)))


def test_gold_agrees_with_events_in_every_sentence() -> None:
    layers = list(cross_check(perturbed.stages()))
    assert len(layers) > 4000
    assert [layer for layer in layers if layer.written != layer.derived] == []


def test_no_constant_or_positional_rule_is_robust_on_false_beliefs(items: list[Item]) -> None:
    from tomserve.benchmarks.perturbed.learned import NAMES
    from tomserve.benchmarks.perturbed.shortcuts import audit

    table, criteria, kinds = audit(items, {name: {} for name in NAMES})
    plain = kinds.filter(kind="constant")["rule"].to_list()
    assert {"always classic", "always reality", "always unknown", "first mentioned", "last mentioned"} <= set(plain)
    assert {"always yes", "always no"}.isdisjoint(plain)  # which no question offers
    subset = criteria.filter(pl.col("subset") == "false_belief", pl.col("rule").is_in(plain))
    assert subset.height == len(plain)
    assert not subset["limited_robust"].any()
    classic = table.filter(
        pl.col("rule") == "always classic", pl.col("perturbation") == "none", pl.col("subset") == "false_belief"
    )
    assert classic["right"].to_list() == classic["total"].to_list() == [14]


def test_always_reality_is_robust_over_all_questions(items: list[Item]) -> None:
    from tomserve.benchmarks.perturbed.learned import NAMES
    from tomserve.benchmarks.perturbed.shortcuts import audit

    table, criteria, _ = audit(items, {name: {} for name in NAMES})
    overall = table.filter(subset="all", perturbation="overall", rule="always reality")
    assert overall.select("right", "total").row(0) == (982, 1088)
    assert criteria.filter(subset="all", rule="always reality")["robust"].item()


def test_every_item_carries_the_canary_and_no_prompt_does(items: list[Item]) -> None:
    from tomserve.prompting.strategy import Strategy

    assert len({item.canary for item in items}) == 1
    assert items[0].canary.startswith("tomserve-perturbed-")
    assert items[0].canary.encode() in items[0].to_json()
    assert items[0].canary not in str(Strategy.load("cot").turn(items[0]).messages)


def test_the_datasheet_is_about_this_dataset(items: list[Item]) -> None:
    sheet = (ROOT / "dataset/README.md").read_text()
    assert items_digest(items) in sheet
    assert items[0].canary in sheet
    for cluster in {item.cluster for item in items}:
        assert cluster.split("/")[1] in sheet


def agreement(*options: str) -> list[str]:
    script = ROOT / "dataset/annotation/agreement.py"
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_second_annotation_can_be_recomputed() -> None:
    sheet = (ROOT / "dataset/README.md").read_text()
    adjudicated = (ROOT / "dataset/annotation/adjudication.md").read_text()
    first, now = agreement("--as-annotated", "--list"), agreement("--list")
    assert first[0].startswith("272 stories compared; 0 replies")
    for lines in (first, now):
        assert lines[0] in sheet
        for line in lines:
            if line.startswith("| belief") or line.startswith("| reality"):
                assert line in sheet
            if " sentence " in line and ": gold [" in line and not line.startswith("Annotator"):
                assert line.split()[0] in adjudicated, line


def test_a_reply_to_a_story_whose_gold_has_changed_does_not_count() -> None:
    """Gold that was changed after a reply had been read agrees with it for no good reason."""
    sys.path.insert(0, str(ROOT / "dataset/annotation"))
    try:
        import sheets
    finally:
        sys.path.pop(0)
    story = next(iter(sheets.stories().values()))
    belief = story["belief"]
    entry = {"code": "abc123", "sentences": list(belief.story)} | {
        f"{kind}_question": item.question for kind, item in story.items()
    }
    gold = sheets.written("abc123", story)
    assert sheets.unchanged(entry, gold, story)
    assert not sheets.unchanged(entry | {"sentences": entry["sentences"][1:]}, gold, story)
    assert not sheets.unchanged(entry | {"belief_question": "What else?"}, gold, story)
    assert not sheets.unchanged(entry, gold | {"belief": gold["belief"][1:]}, story)


def test_what_stands_in_plain_view_is_a_set_until_it_is_looked_at(items: list[Item]) -> None:
    """The sets of the false-belief stories just before somebody looks, where a closed door does not hide the scene."""
    before: dict[str, set[int]] = {}
    for item in items:
        wanted = item.factors["perturbation"] in ("transparent_container", "preposition_replacement")
        if wanted and item.factors["scenario"] == "false_belief" and item.factors["question_kind"] == "belief":
            assert item.gold is not None
            sets = item.gold.sets or ()
            look = sets.index((item.answer,))
            before.setdefault(item.cluster, set()).add(len(sets[look - 1]))
    assert len(before) == 12
    assert {cluster for cluster, sizes in before.items() if sizes == {1}} == {
        "T2/transparent_container",
        "T2/preposition_replacement",
    }
    assert all(sizes in ({1}, {2}) for sizes in before.values())


def test_distrust_is_told_before_the_words_that_it_bears_on() -> None:
    for stage in perturbed.stages():
        task = stage.file.tasks.get("untrustworthy_testimony")
        if task is not None:
            names = list(task.story)
            assert names.index("sure") < names.index("says"), stage.file.stage


def test_the_changes_name_both_digests(items: list[Item]) -> None:
    changes = (ROOT / "dataset/CHANGES.md").read_text()
    assert items_digest(items) in changes
    assert "e7fcb6b14277829a10c54aa3d29b38eadf63490d6e8f2771b1589b1243620dc1" in changes
