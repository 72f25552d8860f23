"""ToMATO: what an item says of its question, and the authors' reading of replies."""

from tests.conftest import ROOT
from tomserve.benchmarks.published.tomato import BENCHMARK, METRIC
from tomserve.scoring.answers import Reading

PATH = ROOT / "tests/data/choices/tomato_fb.json"


def test_an_item_says_who_is_asked_about_what_and_conversations_of_the_same_people_are_one_cluster() -> None:
    items = list(BENCHMARK.items(PATH))
    assert {item.cluster for item in items} == {"E/P/U"}
    assert items[3].factors == {
        **{"task": "emotion", "dimension": "emotion", "order": 2, "options": 4, "false_belief": True},
        **{"openness": "high", "conscientiousness": "low", "extraversion": "high"},
        **{"agreeableness": None, "neuroticism": None},
    }
    assert items[0].story[0] == 'Pia Noll: "Hi!"'


def test_the_authors_take_the_first_letter_in_brackets() -> None:
    item = next(iter(BENCHMARK.items(PATH)))
    said = {"[B]": True, "Not [A] but [B]": False, "[[B]]": True, "[,] [B]": False, "B": False, "": False}
    assert {text: METRIC.compute(item, Reading(None, None, text=text))["metric_official"] for text in said} == said
    assert METRIC.compute(item, Reading(None, None, text='{"answer": "[B]"}')) == {}
