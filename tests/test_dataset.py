"""The perturbed benchmark as it is in dataset/: counts, factors, balance."""

from collections import Counter

import pytest

from tomserve.benchmarks import get, perturbed
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.stagefile import PERTURBATIONS, SCENARIOS


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return list(get("perturbed").load())


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
