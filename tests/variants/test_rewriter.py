"""What the text of a rewriting shows: a change that was not asked for is found, whatever a verifier would answer."""

import pytest

from tomserve.items import Item
from tomserve.variants import CONDENSED, OBJECT, ORDER, PERSON, Kind, make_variant, rewriter

STORY = (
    *("Noor is a cook in Peru.", "She puts the red box on the shelf."),
    *("Ben moves the box to the drawer while Noor is out.", "Noor does not see this."),
)
CHOICES = {"choices": ["on the shelf", "in the drawer"], "answer": "on the shelf"}
ITEM = Item(id="q", story=STORY, question="Where does Noor think the box is?", **CHOICES)
WORDS = "other words than those that should change did"
NAMES = "the names are others"


def fault(kind: Kind, *told: str) -> str | None:
    return rewriter.find_fault(rewriter.plan_jobs([(ITEM, kind)])[0][0], told)


def replaced(old: str, new: str) -> tuple[str, ...]:
    return tuple(sentence.replace(old, new) for sentence in STORY)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (replaced("red", "orange"), None),
        (replaced("the red box", "an old red box"), None),
        (replaced("red", "glass"), "something became or stopped being transparent, open or labelled"),
        (replaced("box", "crate"), "words of the question or the choices are missing"),
        (replaced("Ben", "Tom"), NAMES),
        (STORY[::-1], WORDS),
        ((*STORY[:2], "While Noor is out, Ben moves the box to the drawer.", STORY[3]), WORDS),
        (("Noor cooks and lives in Peru with cats.", *STORY[1:]), WORDS),
        (STORY, "nothing or not everything was changed"),
    ],
)
def test_another_object(told: tuple[str, ...], why: str | None) -> None:
    assert fault(OBJECT, *told) == why


def test_another_person() -> None:
    job = rewriter.plan_jobs([(ITEM, PERSON)])[0][0]
    renamed = replaced("Noor", job.new)
    assert rewriter.find_fault(job, renamed) is None
    assert rewriter.find_fault(job, [*renamed[:3], STORY[3]]) == NAMES
    assert rewriter.find_fault(job, [*renamed[:3], "This is not seen."]) == NAMES
    turned = [renamed[0], renamed[1].replace("She", "He"), *renamed[2:]]
    assert rewriter.find_fault(job, turned) == "the pronouns are others"
    assert rewriter.find_fault(job, [renamed[0].replace("cook", "baker"), *renamed[1:]]) == WORDS


def test_fewer_words() -> None:
    assert fault(CONDENSED, *STORY[:3], "Noor does not see.") == "the length is not what it should be"
    short = ("Noor, a cook, puts the box on the shelf.", "Ben moves it to the drawer.", "Noor does not see.")
    assert sum(len(sentence.split()) for sentence in short) == 19
    assert fault(CONDENSED, *short) is None, "Peru may go, persons may not"
    assert fault(CONDENSED, *(sentence.replace("Ben", "Somebody") for sentence in short)) == NAMES


def test_another_order() -> None:
    assert fault(ORDER, *STORY[::-1]) is None, "whether the answer is kept shows only when somebody is asked"
    assert fault(ORDER, *STORY[1:], STORY[3]) == "the sentences are not those of the story"


def test_a_verifier_sees_both_orders_of_the_choices_with_their_meanings() -> None:
    made = make_variant(ITEM, PERSON, by="rules", choices=["in a", "in b"], story=["x"])
    for one in rewriter.choice_orders(made):
        assert [one.meaning(choice) for choice in sorted(one.choices)] == list(ITEM.choices)
