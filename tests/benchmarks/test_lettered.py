"""MMToM-QA's text part, MuMA-ToM's scenes and ToMATO: audited, decoded, asked and read in the authors' form."""

import json

from tests.conftest import ROOT
from tests.helpers.strategies import talk
from tomserve.benchmarks.published import mmtom, tomato
from tomserve.benchmarks.published.base import audit_items
from tomserve.benchmarks.published.mumatom import decode_description
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import Reading, read_reply
from tomserve.scoring.labels import LetteredChoices

CHOICES = ROOT / "tests/data/choices"
PATH, TOMATO = CHOICES / "mmtom.json", CHOICES / "tomato_fb.json"


def test_the_audit_shows_what_is_asked_twice_and_rules_that_answer_often() -> None:
    assert mmtom.BENCHMARK.audit(PATH, print).lines[2].startswith("1 of the questions is asked twice")
    # A rule that answers one question in eight is shown, one that answers one in forty is not.
    items = list(mmtom.BENCHMARK.items(PATH))
    (said,) = [rule for rule in mmtom.BENCHMARK.rules if rule.name == "denying choice"]
    silent, speaking = (next(i for i in items if (said.answer(i) is None) is quiet) for quiet in (True, False))
    for times, shown in ((7, True), (39, False)):
        table = audit_items([speaking, *[silent] * times], (), [said]).tables["rules"]
        assert (table["denying choice"][0] is not None) is shown


def test_the_official_form_and_reading() -> None:
    item = list(mmtom.BENCHMARK.items(PATH))[2]
    asked, _ = talk(Strategy.load("mmtom_official"), item, lambda turn: "b")
    assert asked[0].messages[0]["content"] == "You are a helpful assistant."
    lines = asked[0].messages[1]["content"].splitlines()
    original = json.loads(PATH.read_text().splitlines()[2])["question"].splitlines()
    assert [" ".join(line.split()) for line in original if line] == lines[:-1]
    assert lines[-1] == "Answer:"
    for text, right in (("b", True), (" B.", True), ("\nbecause", True), ("a", False), ("(b)", False), ("", False)):
        assert mmtom.METRIC.compute(item, Reading(None, None, text=text)) == {"metric_official": right}, text
    assert mmtom.METRIC.compute(item, Reading(None, None, text='{"answer": "b"}')) == {}
    assert read_reply("(b)", LetteredChoices(item.choices)).answer == item.answer, (
        "which the authors' reading takes for wrong"
    )


def test_a_description_of_mumatom_is_decoded_wherever_it_has_marks_of_bytes() -> None:
    assert decode_description("b'One.\\n\\nTwo didn\\'t.'") == "One.\n\nTwo didn't."
    assert decode_description('b"It\'s one.\nTwo."') == "It's one.\nTwo."
    assert decode_description("b'One. Two.") == "One. Two."
    assert decode_description("Plain 'text'") == "Plain 'text'"


def test_an_item_says_who_is_asked_about_what_and_conversations_of_the_same_people_are_one_cluster() -> None:
    items = list(tomato.BENCHMARK.items(TOMATO))
    assert {item.cluster for item in items} == {"E/P/U"}
    assert items[3].factors == {
        **{"task": "emotion", "dimension": "emotion", "order": 2, "options": 4, "false_belief": True},
        **{"openness": "high", "conscientiousness": "low", "extraversion": "high"},
        **{"agreeableness": None, "neuroticism": None},
    }
    assert items[0].story[0] == 'Pia Noll: "Hi!"'


def test_the_authors_take_the_first_letter_in_brackets() -> None:
    item = next(iter(tomato.BENCHMARK.items(TOMATO)))
    said = {"[B]": True, "Not [A] but [B]": False, "[[B]]": True, "[,] [B]": False, "B": False, "": False}
    assert {
        text: tomato.METRIC.compute(item, Reading(None, None, text=text))["metric_official"] for text in said
    } == said
    assert tomato.METRIC.compute(item, Reading(None, None, text='{"answer": "[B]"}')) == {}
