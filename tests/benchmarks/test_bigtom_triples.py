"""BigToM's stories told to the reader as the person, and the triples that are made of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.conftest import ROOT, data_file
from tomserve.benchmarks.bigtom.template import Template, read
from tomserve.benchmarks.bigtom.triples import Triple, cases, triple, triples
from tomserve.benchmarks.bigtom.you import YOU, I, told
from tomserve.benchmarks.case import Case, NoCase, problem
from tomserve.stability.pronouns import PRONOUN

SMALL = ROOT / "tests/data/bigtom_small.csv"


@pytest.fixture(scope="module")
def small() -> list[Template]:
    return read(SMALL.read_text(), SMALL)


SENTENCES = {
    "Ines watches the goat and carries her jug away.": "You watch the goat and carry your jug away.",
    "Ines, a young gardener, has two jugs.": "You, a young gardener, have two jugs.",
    "While Ines is at the shed, a goat eats and sleeps.": "While you are at the shed, a goat eats and sleeps.",
    "A goat follows Ines and Ines quietly closes the gate.": "A goat follows you and you quietly close the gate.",
    "Ines's goat is hers, and Ines feeds it herself.": "Your goat is yours, and you feed it yourself.",
    "Ines sees the hill she's been looking for.": "You see the hill you've been looking for.",
    "Does Ines believe she has the key, or does she know it is gone?": "Do you believe you have the key, or do you know "
    "it is gone?",
    "What will Ines do?": "What will you do?",
    "Unbeknownst to Ines, the barrel leaks.": "Unbeknownst to you, the barrel leaks.",
    "Ines was tired and tries to rest.": "You were tired and try to rest.",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_a_text_is_told_to_the_reader(text: str) -> None:
    assert told([text], "Ines", YOU, gender="woman") == [SENTENCES[text]]


def test_a_choice_is_said_by_the_person() -> None:
    texts = ["Ines believes her goat is on the hill and has eaten.", "Ines will feed her goat.", "Ines is awake."]
    said = ["I believe my goat is on the hill and has eaten.", "I will feed my goat.", "I am awake."]
    assert told(texts, "Ines", I, gender="woman") == said


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
        told(texts, "Ines", YOU)


def test_a_triple_has_the_belief_before_and_after_the_event(small: list[Template]) -> None:
    found = triple(small[0])
    assert isinstance(found, Triple)
    f, p, twin = found
    assert f.factors["condition"] == "false_belief"
    assert p.story == (
        "You are a gardener on a hill.",
        "You want to water the young trees before noon.",
        "You see that the barrel is full of water.",
    )
    assert twin.story[:3] == p.story
    assert twin.story[3:] == (
        "While you are at the shed, a goat knocks the barrel over and empties it.",
        "You see the goat knock the barrel over.",
    )
    assert p.question == twin.question == "Do you believe the barrel is full or empty?"
    assert (p.answer, twin.answer) == ("I believe the barrel is full.", "I believe the barrel is empty.")
    assert p.meaning(p.answer) == f.answer != twin.meaning(twin.answer)
    assert (p.base, p.cluster, twin.factors["variant"]) == (f.id, f.cluster, "ppt_p_twin")
    action = triple(small[0], "forward_action")
    assert isinstance(action, Triple)
    assert action.p.answer == "I will fill my jug at the barrel."


def test_a_template_in_doubt_has_no_triple_and_a_reason(small: list[Template]) -> None:
    assert triple(small[1]) == "it is not sure whom a pronoun means"  # a visitor has been mentioned before the "he"
    assert [found.f.factors["template"] for found in triples(small)] == [
        template.number for template in small if not isinstance(triple(template), str)
    ]


def test_the_known_file_has_triples_enough() -> None:
    path = data_file("bigtom.csv")
    templates = read(path.read_text("utf-8-sig"), path)
    made = [triple(template) for template in templates]
    assert Counter(isinstance(one, Triple) for one in made)[True] == 144
    wrong = re.compile(r"\b(?:you (?:is|has|does|was|\w+ly \w+s)|I (?:is|are|has|does)|(?:you|I)['’]s|I \w+es)\b")
    for found, template in zip(made, templates, strict=True):
        if isinstance(found, Triple):
            texts = [*found.p_twin.story, found.p.question, *found.p.choices]
            assert "eknown" not in " ".join(texts)
            assert "you unknowingly" not in " ".join(texts)
            for text in texts:
                assert template.person not in text
                assert not PRONOUN.search(text)
                assert not wrong.search(text)
            assert found.p.meaning(found.p.answer) == found.f.answer != found.p_twin.meaning(found.p_twin.answer)


def test_an_event_of_which_the_person_knows_nothing_makes_no_triple(small: list[Template]) -> None:
    told = SMALL.read_text().replace("While Ines is at the shed, a goat", "Unbeknownst to Ines, a goat")
    (hidden, *_) = read(told, SMALL)
    assert triple(hidden) == "the event says that the person knows nothing of it"


def test_a_template_makes_a_case_for_each_task_and_the_reasons_are_given(small: list[Template]) -> None:
    found = list(cases(small))
    made = [case for case in found if isinstance(case, Case)]
    assert [isinstance(case, Case) for case in found[:3]] == [True, True, False]
    refused = [case for case in found if isinstance(case, NoCase)]
    assert {case.reason for case in refused if case.item.factors["template"] == 2} == {
        "it is not sure whom a pronoun means"
    }
    assert all(problem(case) is None for case in made)
    belief, action, *_ = made
    assert belief.holders == {
        "protagonist": "Ines believes the barrel is full.",
        "other": None,
        "reality": "Ines believes the barrel is empty.",
        "protagonist_in_twin": "Ines believes the barrel is empty.",
        "other_in_twin": None,
        "reality_in_twin": "Ines believes the barrel is empty.",
    }
    assert belief.factors["protagonist"] == belief.f.answer
    assert action.holders == {}
    assert belief.twin is not None
    assert belief.twin.story[-1] == "Ines sees the goat knock the barrel over."
    assert (belief.twin.choices, belief.twin.base) == (belief.f.choices, belief.f.id)
    assert belief.scenario == belief.own.cluster == belief.twin.cluster
