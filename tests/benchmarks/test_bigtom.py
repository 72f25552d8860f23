"""BigToM: templates, the ways to tell them, the official files, the authors' scoring, cases, and files that are none."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT, data_file
from tomserve import benchmarks
from tomserve.benchmarks.counterfactuals import Case, NoCase, find_problem
from tomserve.benchmarks.published import bigtom
from tomserve.benchmarks.published.bigtom import make_case, read_templates
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.scoring.answers import Reading
from tomserve.variants.pronouns import PRONOUN, YOU, I, shift_person

SMALL = ROOT / "tests/data/bigtom_small.csv"


def every() -> list[Item]:
    return list(benchmarks.load("bigtom", SMALL, where=benchmarks.ALL))


def test_what_the_paper_reports_is_asked_unless_conditions_say_otherwise() -> None:
    asked = list(benchmarks.load("bigtom", SMALL))
    assert Counter((item.factors["task"], item.factors["condition"]) for item in asked) == dict.fromkeys(
        [(task, belief) for task in bigtom.HEADLINE for belief in bigtom.BELIEFS], 4
    )
    assert {item.factors["init_belief"] for item in asked} == {0}
    assert len(list(benchmarks.load("bigtom", SMALL, where=["condition=control"]))) == 8
    with pytest.raises(ConfigError, match="no item has condition=false"):
        list(benchmarks.load("bigtom", SMALL, where=["condition=false"]))


def test_official_files_are_made() -> None:
    made = bigtom.official_files(read_templates(SMALL))
    assert len(made) == 25
    assert made["0_backward_belief_true_control"] == made["0_backward_belief_false_control"]
    row = made["1_percept_to_belief_true_belief"].decode().split("\r\n")[1]
    assert row.endswith("right drawer.;Marek believes the key is in the left drawer.")  # the official file's order


SCORED = [
    ("Answer:a)Marek", True, None, False),  # they suppose a space after "Answer:", and leave out what stands there
    ("Answer: a)Marek", True, True, False),
    ("B) the right drawer", False, None, False),  # the first seven characters are left out, and "b)" with them
    ("the left drawer", None, None, False),
    ("Thought: not b) but a).\nAnswer: b)", True, False, True),
]


@pytest.mark.parametrize(("text", "plain", "after", "both"), SCORED)
def test_the_authors_scoring(text: str, plain: bool | None, after: bool | None, both: bool) -> None:
    item = next(item for item in every() if item.choices[0] == item.answer)
    found = bigtom.compute(item, Reading(None, None, text=text))
    assert (found.get("metric_official"), found.get("metric_official_after_answer")) == (plain, after)
    assert found["metric_both_keys"] == both
    assert not bigtom.compute(item, Reading(None, None))


# stories told to the reader as the person, and cases

SENTENCES = {
    "Ines watches the goat and carries her jug away.": "You watch the goat and carry your jug away.",
    "Ines, a young gardener, has two jugs.": "You, a young gardener, have two jugs.",
    "While Ines is at the shed, a goat eats and sleeps.": "While you are at the shed, a goat eats and sleeps.",
    "A goat follows Ines and Ines quietly closes the gate.": "A goat follows you and you quietly close the gate.",
    "Ines's goat is hers, and Ines feeds it herself.": "Your goat is yours, and you feed it yourself.",
    "Ines sees the hill she's been looking for.": "You see the hill you've been looking for.",
    "Does Ines believe she has the key, or does she know it is gone?": "Do you believe you have the key, or do you know it is gone?",
    "What will Ines do?": "What will you do?",
    "Unbeknownst to Ines, the barrel leaks.": "Unbeknownst to you, the barrel leaks.",
    "Ines was tired and tries to rest.": "You were tired and try to rest.",
}  # fmt: skip


def test_a_text_is_told_to_the_reader_and_a_choice_is_said_by_the_person() -> None:
    assert {text: shift_person([text], "Ines", YOU, gender="woman")[0] for text in SENTENCES} == SENTENCES
    texts = ["Ines believes her goat is on the hill and has eaten.", "Ines will feed her goat.", "Ines is awake."]
    said = ["I believe my goat is on the hill and has eaten.", "I will feed my goat.", "I am awake."]
    assert shift_person(texts, "Ines", I, gender="woman") == said
    of_two = ["Ines gives her brother his jug."]
    assert shift_person(of_two, "Ines", YOU, gender="woman") == ["You give your brother his jug."]
    assert shift_person(of_two, "Ines", YOU, gender="either") == ["You give your brother your jug."]


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["Ines sees a guest.", "She waves."], "it is not sure whom a pronoun means"),
        (["Ines looks at the jugs.", "They are full."], "they may be the person"),
        (["Ines sees that the goat sleeps and puts it to bed."], "it cannot be told whose second verb it is"),
        (["Ines fills her can."], "it cannot be told whether a pronoun is possessive"),
        (["Ines knows where she's hidden it."], "it cannot be told what a short form stands for"),
    ],
)
def test_what_is_in_doubt_is_refused(texts: Sequence[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        shift_person(texts, "Ines", YOU)


def test_a_template_makes_a_case_for_each_task(tmp_path: Path) -> None:
    text = SMALL.read_text().replace("While Ines is at the shed, a goat", "Unbeknownst to Ines, a goat")
    (tmp_path / "one.csv").write_text(text)
    (first, *_) = read_templates(tmp_path / "one.csv")
    (secret,) = {
        sentence for sentence in make_case(first).own_twin.story if "goat" in sentence and "You" not in sentence
    }
    assert secret.startswith("A goat"), "what is told to you is no secret"
    found = list(bigtom.cases(SMALL))
    made = [case for case in found if isinstance(case, Case)]
    assert [isinstance(case, Case) for case in found[:3]] == [True, True, False]
    refused = {case.reason for case in found if isinstance(case, NoCase) and case.item.factors["template"] == 2}
    assert refused == {"it is not sure whom a pronoun means"}
    assert all(find_problem(case) is None for case in made)
    belief, action, *_ = made
    full, empty = "Ines believes the barrel is full.", "Ines believes the barrel is empty."
    assert belief.holders == {
        **{"protagonist": full, "other": None, "reality": empty},
        **{"protagonist_in_twin": empty, "other_in_twin": None, "reality_in_twin": empty},
    }
    assert action.holders == {}
    assert belief.twin.story[-1] == "Ines sees the goat knock the barrel over."
    p, twin = belief.own, belief.own_twin
    assert p.story[1:] == (
        "You want to water the young trees before noon.",
        "You see that the barrel is full of water.",
    )
    assert twin.story[-1] == "You see the goat knock the barrel over."
    assert p.question == twin.question == "Do you believe the barrel is full or empty?"
    assert (p.answer, twin.answer) == ("I believe the barrel is full.", "I believe the barrel is empty.")


def test_the_known_file_has_cases_enough() -> None:
    templates = read_templates(data_file("bigtom.csv"))
    made = [(found, template) for template in templates if isinstance(found := make_case(template), Case)]
    assert len(made) == 200
    assert all(isinstance(make_case(template, "forward_action"), Case) for template in templates)
    wrong = re.compile(r"\b(?:you (?:is|has|does|was|\w+ly \w+s)|I (?:is|are|has|does)|(?:you|I)['’]s|I \w+es)\b")
    for found, template in made:
        texts = [*found.own_twin.story, found.own.question, *found.own.choices]
        assert not re.search("unbeknown|unknown to you|you unknowingly|unnoticed by you", " ".join(texts), re.I)
        for text in texts:
            assert template.person not in text
            assert PRONOUN.search(text) is None or template.number in (26, 95), "a grandmother's, and a brother's"
            assert not wrong.search(text)
        assert found.own.meaning(found.own.answer) == found.f.answer != found.own_twin.meaning(found.own_twin.answer)
