"""The rules of every benchmark: what they answer, by hand; and what becomes of a benchmark's own."""

import re

import polars as pl
import pytest

from tests.conftest import make_item
from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item
from tomserve.scoring.metric import PLAIN, Scoring
from tomserve.scoring.rules import GENERIC, KINDS, Rule, mentions, name_of
from tomserve.scoring.table import table
from tomserve.scoring.tablefile import read_table, write_scores


def item(**changes: object) -> Item:
    return make_item(**{"gold": None, **changes})


def answers(one: Item) -> dict[str, str | None]:
    return {rule.name: rule.answer(one) for rule in GENERIC}


def test_rules_see_only_the_surface() -> None:
    told = item(story=["Tea is here, no salt.", 'A sign says "salt".', "More tea, steam; Salt."])
    assert mentions(told) == ("tea", "salt", "salt", "tea", "salt")
    assert answers(told) == {
        **{"first choice": "tea", "last choice": "unknown", "always unknown": "unknown"},
        **{"always yes": None, "always no": None},
        **{"first mentioned": "tea", "last mentioned": "salt", "most mentioned": "salt"},
    }


def test_a_tie_goes_to_the_label_that_is_mentioned_first() -> None:
    assert answers(item(story=["Salt, tea, tea, salt."]))["most mentioned"] == "salt"


def test_of_labels_within_labels_the_longer_is_meant() -> None:
    told = item(choices=["box", "red box", "unknown"], answer="box", story=["The red box, the box, a box_2, boxes."])
    assert mentions(told) == ("red box", "box")


@pytest.mark.parametrize(
    ("choices", "expected"), [(["tea", "salt", "unknown"], "unknown"), (["tea", "salt"], None)], ids=["offered", "not"]
)
def test_a_story_without_labels(choices: list[str], expected: str | None) -> None:
    found = answers(item(choices=choices, story=["Nothing is named."]))
    assert [found[f"{which} mentioned"] for which in ("first", "last", "most")] == [expected] * 3
    assert found["always unknown"] == expected


def test_yes_and_no_are_found_in_any_case() -> None:
    found = answers(item(choices=["No", "YES"], answer="YES", story=["Is it so?"]))
    assert (found["always yes"], found["always no"]) == ("YES", "No")


def test_the_score_table_says_which_rules_are_right() -> None:
    one = item(story=["Salt is here, then tea."], choices=["salt", "tea"], answer="tea")
    scores = table("r", "m", [(one, {"strategy": name, "status": "timeout", "text": None}) for name in ("a", "b")])
    found = scores.select(rule.column for rule in GENERIC).unique()
    assert found.schema == dict.fromkeys(found.columns, pl.Boolean)
    assert found.row(0) == (False, True, None, None, None, False, True, False)


OWN = Rule("always salt", lambda item: "salt" if "salt" in item.choices else None)
NOTHING = {"strategy": "s", "status": "ok", "text": "tea"}


def test_a_rule_of_its_own_is_a_column(tmp_path) -> None:
    scoring = Scoring(rules=(OWN,))
    asked = [item(number=1), item(number=2, answer="salt"), item(number=3, choices=["tea", "unknown"])]
    for number, one in enumerate(asked):
        asked[number] = one.model_copy(update={"id": f"demo/{number}"})
    scores = table("r", "m", [(one, NOTHING) for one in asked], rules=lambda name: scoring if name == "demo" else PLAIN)
    write_scores(scores, tmp_path / "s.csv")
    found = read_table(str(tmp_path / "s.csv")).sort("item")
    assert found["rule_always_salt"].to_list() == [False, True, None]


def test_column_and_name_go_together() -> None:
    assert [name_of(rule.column) for rule in (*GENERIC, OWN)] == [rule.name for rule in (*GENERIC, OWN)]
    assert {rule.kind for rule in GENERIC} <= set(KINDS)


BROKEN = {
    "a name with a capital letter": (lambda: Rule("Always yes", len), "name of a rule is 'Always yes'; expected small"),
    "a name that is no text": (lambda: Rule(3, len), "name of a rule is 3"),
    "no function": (lambda: Rule("always yes", "yes"), "the answer of rule 'always yes' is 'yes'; expected a function"),
    "an unknown kind": (lambda: Rule("always tea", len, "surfaces"), "rule 'always tea': .*kind.*'surfaces'.*surface"),
    "a name that is taken": (lambda: Scoring(rules=(Rule("first choice", len),)), "'first choice' already; every"),
    "a name given twice": (lambda: Scoring(rules=(OWN, OWN)), "there is a rule 'always salt' already"),
    "no rules": (lambda: Benchmark("mine", lambda path, gold: iter(()), rules=("yes",)), "rules is .*expected a tuple"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_that_makes_no_sense_is_refused(name: str) -> None:
    make, expected = BROKEN[name]
    with pytest.raises(ConfigError, match=expected):
        make()


def test_a_rule_that_fails_or_answers_what_is_no_choice_is_told_by_its_item() -> None:
    def told(rule: Rule) -> str:
        with pytest.raises((ConfigError, ContentError)) as caught:
            table("r", "m", [(item(), NOTHING)], rules=lambda name: Scoring(rules=(rule,)))
        return str(caught.value)

    assert re.search(
        r"test_rules\.py:\d+: the rule 'broken' failed for item 'demo/1' \(ZeroDiv",
        told(Rule("broken", lambda i: 1 / 0)),
    )
    strange = told(Rule("milk", lambda i: "milk"))
    assert (
        "item 'demo/1': the rule 'milk' answers 'milk'; expected one of the item's choices (tea, salt, unkn" in strange
    )


def test_no_factor_may_look_like_a_rule() -> None:
    with pytest.raises(ValueError, match="factor 'rule_mine' has the name of a score column"):
        item(factors={"rule_mine": True})
