"""The rules of the benchmarks that ship with tomserve: what they answer, and that audit and score table agree."""

import polars as pl
import pytest

from tomserve import benchmarks
from tomserve.benchmarks import hitom, perturbed
from tomserve.benchmarks.hitom.baselines import joint_witness
from tomserve.benchmarks.hitom.events import Story
from tomserve.benchmarks.hitom.questions import read_question
from tomserve.benchmarks.hitom.rules import RULES as HITOM
from tomserve.benchmarks.perturbed import learned
from tomserve.benchmarks.perturbed.rules import RULES
from tomserve.benchmarks.perturbed.shortcuts import audit
from tomserve.benchmarks.perturbed.stagefile import in_false_belief_subset
from tomserve.items import Item
from tomserve.scoring.table import table

BY_NAME = {rule.name: rule for rule in RULES}


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return list(perturbed.load())


def scored(items: list[Item]) -> pl.DataFrame:
    """The score table of a model that never answers."""
    nothing = {"strategy": "s", "status": "timeout", "text": None}
    return table("r", "m", [(item, nothing) for item in items], rules=benchmarks.scoring)


def one(items: list[Item], name: str) -> Item:
    return next(item for item in items if item.id == name)


def test_the_score_table_holds_what_the_audit_counts(items: list[Item]) -> None:
    scores = scored(items)
    assert scores["rule_always_reality"].sum() == 982
    assert scores.height == 1088
    shipped = {
        rule.name: {item.id: rule.answer(item) or "" for item in items} for rule in RULES if rule.kind == "learned"
    }
    counted, _, kinds = audit(items, shipped)
    assert set(kinds["kind"]) == {"constant", "surface", "learned"}
    totals = counted.filter(subset="all", perturbation="overall")
    for rule, right, total in totals.select("rule", "right", "total").iter_rows():
        column = scores[f"rule_{rule.replace(' ', '_')}"]
        assert (column.sum(), column.len() - column.null_count()) == (right, total), rule


def test_on_the_false_belief_subset_the_opposite_of_the_cue_gets_far(items: list[Item]) -> None:
    subset = scored([item for item in items if in_false_belief_subset(item.factors)])
    names = ("rule_always_classic", "rule_opposite_of_the_cue", "rule_always_reality", "rule_always_unknown")
    assert [int(subset[name].sum()) for name in names] == [32, 96, 62, 8]


def test_rules_of_one_story_by_hand(items: list[Item]) -> None:
    """C1, class none: the tag says socks, the bag holds mittens, and Amaru only reads the tag."""
    belief = one(items, "C1/none/false_belief/belief/original")
    real = one(items, "C1/none/false_belief/reality/original")
    told = one(items, "C1/none/informed_protagonist/belief/original")
    expected = {
        "always classic": ("socks", "socks", "socks"),
        "always reality": ("mittens", "mittens", "mittens"),
        "always label": ("socks", "socks", "socks"),
        "opposite of the cue": ("mittens", "mittens", "mittens"),
        "keyword": ("socks", "mittens", "mittens"),
    }
    for name, answers in expected.items():
        assert tuple(BY_NAME[name].answer(item) for item in (belief, real, told)) == answers, name


def test_always_reality_is_right_where_the_answer_to_the_question_about_reality_is(items: list[Item]) -> None:
    def story(item: Item) -> tuple[object, ...]:
        return item.cluster, item.factors["scenario"], item.factors["swapped"]

    world = {story(item): item.answer for item in items if item.factors["question_kind"] == "reality"}
    rule = BY_NAME["always reality"]
    for item in items:
        assert (rule.answer(item) == item.answer) == (world[story(item)] == item.answer), item.id
        if item.answer != "unknown":
            assert rule.answer(item) == world[story(item)], item.id


def test_items_of_another_design_have_no_answer_of_these_rules(items: list[Item]) -> None:
    foreign = items[0].model_copy(update={"factors": {}})
    silent = ("always classic", "opposite of the cue", "always reality")
    assert [BY_NAME[name].answer(foreign) for name in silent] == [None, None, None]
    assert BY_NAME["keyword"].answer(foreign) in foreign.choices


def test_the_learned_answers_are_those_of_a_fit(items: list[Item]) -> None:
    """This fits the rules, which takes some seconds."""
    found = learned.differing(items, learned.fitted(items))
    assert list(found) == list(learned.NAMES)
    assert max(found.values()) <= learned.TOLERATED


def test_a_changed_question_has_no_learned_answer(items: list[Item]) -> None:
    rule = BY_NAME["bag of words"]
    item = items[0]
    assert rule.answer(item) in item.choices
    assert rule.answer(item.model_copy(update={"question": "What is in it?"})) is None
    assert rule.answer(item.model_copy(update={"id": "mine/1"})) is None
    assert learned.differing([item.model_copy(update={"id": "mine/1"})], {name: {} for name in learned.NAMES}) == {
        "question only": 0,
        "bag of words": 0,
    }


def test_learned_answers_that_no_fit_gives_are_a_problem_of_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    from tomserve.benchmarks.perturbed import auditing

    monkeypatch.setattr(auditing, "fitted", lambda items: {name: {i.id: "no" for i in items} for name in learned.NAMES})
    found = auditing.findings(perturbed.stages(), own=True)
    assert found.code == 1
    assert [line for line in found.lines if "1088 answers of the rule 'bag of words' that a fit does not give" in line]
    assert auditing.findings(perturbed.stages()).code == 0  # other stage files have no answers in the file


def test_rules_that_nest_nothing_agree_with_the_factors_and_with_the_rooms() -> None:
    items = list(hitom.load())
    scores = scored(items)
    for rule, factor in (("always_reality", "reality"), ("first_order", "first_order"), ("joint_witness",) * 2):
        assert scores[f"rule_{rule}"].to_list() == scores[f"equals_{factor}"].to_list(), rule
    for item in items[:200]:
        asked, obj = read_question(item.question)
        told = joint_witness(Story.parse(item.story), asked, obj)
        assert HITOM[2].answer(item) == told, item.id
