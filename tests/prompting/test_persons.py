"""Whose minds a question goes through, by its text or by the factor of its item."""

import time

import pytest

from tests.conftest import make_item
from tomserve.benchmarks import load
from tomserve.prompting.persons import find_people, people_of

QUESTIONS = {
    "Where does Ann think Bo thinks the pen is?": ["Ann", "Bo"],
    "Where does Anne think that Sally searches for the marble?": ["Anne", "Sally"],
    "Where does Anne think Sally will look for the marble?": ["Anne", "Sally"],
    "Where will Sally look for the marble?": ["Sally"],
    "Where is the marble really?": [],
    "At the end of the story, what is really in the drum?": [],
    "At the end of the story, on top of what does Linh believe the compass is lying?": ["Linh"],
    "What will Noor do?": ["Noor"],
    "Does Azola believe the package contains the book she ordered or a scarf?": ["Azola"],
    "Yoshi, Does Yoshi believe the sand pattern is perfectly raked?": ["Yoshi"],
    "Does Ann believe the machine will open the door?": ["Ann"],
    "Does Carlos believe he knows what is in the box?": ["Carlos"],
    "What does the old nurse believe is in the jar?": ["the old nurse"],
    "Is Ann Smith aware that the pen is gone?": ["Ann Smith"],
    "What does Dr. Ito think Jean-Luc believes Ann-Marie wants?": ["Dr. Ito", "Jean-Luc", "Ann-Marie"],
    "Where does Élodie think Özil believes it is?": ["Élodie", "Özil"],
    "What does Ann's brother think?": ["Ann's brother"],
    "What is the belief of Lily in scenario 2?": ["Lily"],
    "What is Lily's intention?": ["Lily"],
    "In Lily's opinion, where is it?": ["Lily"],
    "What does she think is in the box?": ["she"],
    "On Monday, does Ann think Bo knows?": ["Ann", "Bo"],
    "Where does Ann think Bo expects Cleo believes Dov thinks it is?": ["Ann", "Bo", "Cleo", "Dov"],
}


def test_the_text_of_a_question_tells_whose_minds_it_goes_through() -> None:
    assert {question: list(find_people(question)) for question in QUESTIONS} == QUESTIONS


def test_every_perturbed_question_is_read_as_the_stage_says() -> None:
    for item in load("perturbed"):
        asked = (item.factors["asked"],) if item.factors["question_kind"] == "belief" else ()
        assert find_people(item.question) == asked, item.question


@pytest.mark.parametrize(
    ("factor", "people"), [("Ann > Bo", ("Ann", "Bo")), ("Ann", ("Ann",)), ("", ()), (None, ("Ada",))]
)
def test_the_factor_of_an_item_wins_over_its_question(factor: str | None, people: tuple[str, ...]) -> None:
    assert people_of(make_item(factors={"person": factor})) == people
    assert people_of(make_item()) == ("Ada",)


@pytest.mark.parametrize("text", ["does " + "Aa " * 2000, "Aa " * 5000, "A'" * 8000, "is " + "Ann's " * 3000])
def test_a_strange_question_takes_no_long_time(text: str) -> None:
    began = time.process_time()  # of this process, whatever else the machine does
    assert find_people(text) == ()
    assert time.process_time() - began < 2  # it took seconds where every beginning was tried with every end
