"""Which sentences may change places as far as their text goes: those that lean on nothing and share nothing new."""

import pytest

from tomserve.variants import text_rules

LEANS = """She opens the box. It holds tea. Then Ann opens the box. But Ann opens the box. Ann opens it. They wait. Ann takes
another box. While Ann is away, rain falls. That is a mistake. His cap is red. The lid lies on its back. Lupe says that's
where the broom is now, behind the cupboard. Ann shows Ben that is where the key lies. Ann thinks about that."""
STANDS = "Ann puts her cap on. It is raining. The box that Ann has is red. A lamp hangs above the door."


def test_a_sentence_that_leans_on_the_one_before_and_one_that_stands_by_itself() -> None:
    for text, leans in ((LEANS, True), (STANDS, False)):
        sentences = [f"{sentence}." for sentence in " ".join(text.split()).rstrip(".").split(". ")]
        assert [sentence for sentence in sentences if text_rules.leans_on_context(sentence) is not leans] == []


def test_what_is_introduced_stays_before_what_speaks_of_it() -> None:
    story = ["A box stands on the shelf.", "The box's lid is red.", "A lamp burns.", "Ann waits."]
    assert text_rules.find_swaps(story) == (1, 2)
    assert text_rules.find_swaps(story, ("box",)) == (0, 1, 2), "a label needs no introduction"
    assert text_rules.find_swaps(["Two boxes stand here.", "The box is red."]) == ()


def test_the_sentence_after_the_pair_may_not_lean_on_it() -> None:
    assert text_rules.find_swaps(["Ann waits.", "Ben sleeps.", "He snores."]) == ()
    assert text_rules.find_swaps(["Ann waits.", "Ben sleeps.", "Ben snores."]) == (0,), (
        "Ben is introduced by the second"
    )
    assert text_rules.find_swaps(["On Monday morning rain falls.", "At noon snow falls.", "Ann waits."]) == (1,)


def test_exchanges_do_not_overlap() -> None:
    assert text_rules.choose_swaps((0, 1, 2, 3, 4)) == (0, 3)
    assert text_rules.swap_order(5, (0, 3)) == (1, 0, 2, 4, 3)
    with pytest.raises(ValueError, match="takes part in two exchanges"):
        text_rules.swap_order(3, (0, 1))
