"""The rules of every benchmark: what they answer, by hand; and what becomes of a benchmark's own."""

import re

import pytest

from tests.conftest import make_item
from tests.helpers.scored import score_table
from tomserve.benchmarks import Benchmark
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item
from tomserve.scoring.baselines import GENERIC, KINDS, Baseline, baseline_name, list_mentions
from tomserve.scoring.metrics import PLAIN, Scoring
from tomserve.scoring.table import read_table, write_scores


def item(**changes: object) -> Item:
    return make_item(**{"gold": None, **changes})


def answers(one: Item) -> dict[str, str | None]:
    return {rule.name: rule.answer(one) for rule in GENERIC}


def test_rules_see_only_the_surface() -> None:
    told = item(story=["Tea is here, no salt.", 'A sign says "salt".', "More tea, steam; Salt."])
    assert list_mentions(told) == ("tea", "salt", "salt", "tea", "salt")
    assert answers(told) == {
        **{"first choice": "tea", "last choice": "unknown", "always unknown": "unknown"},
        **{"always yes": None, "always no": None},
        **{"first mentioned": "tea", "last mentioned": "salt", "most mentioned": "salt"},
    }
    assert answers(item(story=["Salt, tea, tea, salt."]))["most mentioned"] == "salt", "of equals the first"
    told = item(choices=["box", "red box", "unknown"], answer="box", story=["The red box, the box, a box_2, boxes."])
    assert list_mentions(told) == ("red box", "box")
    found = answers(item(choices=["No", "YES"], answer="YES", story=["Is it so?"]))
    assert (found["always yes"], found["always no"]) == ("YES", "No")


@pytest.mark.parametrize(
    ("choices", "expected"), [(["tea", "salt", "unknown"], "unknown"), (["tea", "salt"], None)], ids=["offered", "not"]
)
def test_a_story_without_labels(choices: list[str], expected: str | None) -> None:
    found = answers(item(choices=choices, story=["Nothing is named."]))
    assert [found[f"{which} mentioned"] for which in ("first", "last", "most")] == [expected] * 3
    assert found["always unknown"] == expected


OWN = Baseline("always salt", lambda item: "salt" if "salt" in item.choices else None)
NOTHING = {"strategy": "s", "status": "ok", "text": "tea"}


def test_a_rule_of_its_own_is_a_column(tmp_path) -> None:
    scoring = Scoring(rules=(OWN,))
    asked = [item(number=1), item(number=2, answer="salt"), item(number=3, choices=["tea", "unknown"])]
    scores = score_table(
        "r", "m", [(one, NOTHING) for one in asked], rules=lambda name: scoring if name == "demo" else PLAIN
    )
    write_scores(scores, tmp_path / "s.csv")
    found = read_table(str(tmp_path / "s.csv")).sort("item")
    assert found["rule_always_salt"].to_list() == [False, True, None]
    assert found.row(0, named=True)["rule_first_choice"] is True


def test_column_and_name_go_together() -> None:
    assert [baseline_name(rule.column) for rule in (*GENERIC, OWN)] == [rule.name for rule in (*GENERIC, OWN)]
    assert {rule.kind for rule in GENERIC} <= set(KINDS)


BROKEN = {
    "a name with a capital letter": (lambda: Baseline("Always yes", len), "name of a rule is 'Always yes'; expected small"),
    "no function": (lambda: Baseline("always yes", "yes"), "the answer of rule 'always yes' is 'yes'; expected a function"),
    "an unknown kind": (lambda: Baseline("always tea", len, "surfaces"), "rule 'always tea': .*kind.*'surfaces'.*surface"),
    "a name that is taken": (lambda: Scoring(rules=(Baseline("first choice", len),)), "'first choice' already; every"),
    "no rules": (lambda: Benchmark("mine", lambda path, gold: iter(()), rules=("yes",)), "rules is .*expected a tuple"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_that_makes_no_sense_is_refused(name: str) -> None:
    make, expected = BROKEN[name]
    with pytest.raises(ConfigError, match=expected):
        make()


def test_a_rule_that_fails_or_answers_what_is_no_choice_is_told_by_its_item() -> None:
    def told(rule: Baseline) -> str:
        with pytest.raises((ConfigError, ContentError)) as caught:
            score_table("r", "m", [(item(), NOTHING)], rules=lambda name: Scoring(rules=(rule,)))
        return str(caught.value)

    failed = r"test_baselines\.py:\d+: the rule 'broken' failed for item 'demo/1' \(ZeroDiv"
    assert re.search(failed, told(Baseline("broken", lambda i: 1 / 0)))
    strange = "item 'demo/1': the rule 'milk' answers 'milk'; expected one of the item's choices (tea, salt, unkn"
    assert strange in told(Baseline("milk", lambda i: "milk"))
