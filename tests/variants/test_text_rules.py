"""Texts told otherwise by rules: another person, another detail of an object, another order of the scenery."""

import re
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tests.conftest import data_file
from tomserve import benchmarks
from tomserve.errors import InapplicableError
from tomserve.items import Item
from tomserve.variants import CONDENSED, OBJECT, ORDER, PARAPHRASE, PERSON, Dropped, Kind, make_variants
from tomserve.variants.names import CULTURES, NAMES, find_people, occurs
from tomserve.variants.text_rules import choose_swaps, find_swaps, leans_on_context, retell, swap_order

STORY = ["Noor is a barista in a busy shop.", "She fills her pitcher with milk.", "A guest waits at the counter."]


def item(story: list[str], question: str = "What does Noor believe?", **more: Any) -> Item:
    given = {"choices": ["the pitcher is full", "the pitcher is empty"], "answer": "the pitcher is full"}
    return Item(id="q", story=story, question=question, **{**given, "cluster": "c", **more})


def reason(one: Item, kind: Kind) -> str:
    with pytest.raises(InapplicableError) as caught:
        retell(one, kind)
    return str(caught.value)


def test_another_person_with_the_pronouns_that_are_surely_hers() -> None:
    one = item(
        STORY,
        "Does Noor believe that Noor's pitcher is full, or does she think it empty?",
        choices=["Noor's pitcher is full", "Noor's pitcher is empty"],
        answer="Noor's pitcher is full",
    )
    made = retell(one, PERSON)
    name = made.story[0].split()[0]
    assert made.story == (f"{name} is a barista in a busy shop.", "He fills his pitcher with milk.", STORY[2])
    assert made.question == f"Does {name} believe that {name}'s pitcher is full, or does he think it empty?"
    assert (made.answer, made.meanings) == (f"{name}'s pitcher is full", one.choices)
    assert CULTURES[name] != CULTURES["Noor"]
    assert name in {man for of in NAMES.values() for man in of.get("man", "").split()}
    assert made.factors == {"variant": "person", "variant_by": "rules"}


def test_only_the_name_where_a_pronoun_is_in_doubt() -> None:
    made = retell(item([*STORY, "The guest takes her cap."]), PERSON)
    name = made.story[0].split()[0]
    assert made.story[1:] == ("She fills her pitcher with milk.", STORY[2], "The guest takes her cap.")
    assert name in {woman for of in NAMES.values() for woman in of.get("woman", "").split()}
    made = retell(item(["Noor fills their pitcher.", "They rest."]), PERSON)
    assert made.story[1] == "They rest."
    assert made.story[0].split()[0] in {both for of in NAMES.values() for both in of.get("either", "").split()}


def test_a_form_that_cannot_be_told_keeps_the_pronouns() -> None:
    made = retell(item(["Noor is a cook.", "Noor wants to make her tea."]), PERSON)
    assert made.story[1].endswith(" wants to make her tea.")
    made = retell(item(["Noor is a cook.", "She rests."], "Does Noor believe that some see her duck?"), PERSON)
    assert (made.story[1], made.question.endswith("see her duck?")) == ("She rests.", True)
    both = ["John takes the cat.", "He leaves.", "John and Mark come back.", "They smile."]
    doubted = {"choices": ["he does not know", "he knows"], "answer": "he knows"}
    assert retell(item(both, "Where does John look?", **doubted), PERSON).story[1] == "He leaves."
    assert retell(item(both[:2], "Where does John look?", **doubted), PERSON).choices[1] == "she knows"


NAME, WHOSE = "it is not sure which words are the person's name", "it is not sure whose the pronouns are"


def test_persons_that_no_rule_is_sure_of() -> None:
    for story, why in (
        (["A lamp burns.", "The door is shut."], "no person of the text has a name"),
        (["Mrs Noor is a cook."], NAME),
        (["Noor Haddad is a cook.", "Noor believes it."], NAME),
        (["Rose is a cook.", "A rose blooms."], NAME),
        (["NOOR IS A COOK.", "Noor believes it."], NAME),
        (["Noor is a cook.", "Noori believes it."], NAME),
        (["Noor is a cook.", "He sees her cap."], WHOSE),
    ):
        assert reason(item(story), PERSON) == why
    story = ["John takes the cat.", "Ben moves it.", "He smiles."]  # a name that begins a sentence may be meant
    assert reason(item(story, "What does John know?"), PERSON) == WHOSE


def test_the_person_who_is_asked_about_is_the_one_who_changes() -> None:
    story = ["John takes the cat.", "Mark sees the cat."]
    assert retell(item(story, "What does Mark know?"), PERSON).story[0] == "John takes the cat."
    assert retell(item(story, "What does John know?"), PERSON).story[1] == "Mark sees the cat."
    assert find_people(["The Thames is in London.", "John believes Mary.", "Mary hears it."]) == ("John", "Mary")
    assert find_people(["Ann is a cook in Rome.", "Ben looks at Ann.", "Rome is a city.", "Ann sees Ben."]) == (
        "Ann",
        "Ben",
    )


def test_a_detail_of_an_object_that_nobody_asks_about() -> None:
    made = retell(item(["Noor is a cook.", "Noor leans an umbrella against the door."]), OBJECT)
    assert re.fullmatch(
        r"Noor leans (an? \w+ umbrella against the door|an umbrella against the \w+ door)\.", made.story[1]
    )
    made = retell(item(["Noor takes an orange bag.", "The orange bag is full."]), OBJECT)
    colour = made.story[1].split()[1]
    assert (made.story[0], colour != "orange") == (f"Noor takes a {colour} bag.", True)


STAY = """Noor takes the pitcher. Noor sees a box with a glass lid. Noor opens the box. Noor takes one box and another box.
Noor carves a wooden spoon. A label is on the box. The red cap is next to the blue cap. The clear box is there."""


def test_details_that_may_bear_on_the_answer_stay() -> None:
    for sentence in re.findall(r"\S[^.]*\.", STAY):
        assert reason(item([sentence]), OBJECT) == "no object of the text surely bears on nothing", sentence


def test_scenery_changes_places_before_anything_happens() -> None:
    story = ["A lamp hangs above the door.", "The shelf is old.", "Noor takes the pitcher.", "Rain falls."]
    made = retell(item(story), ORDER)
    assert made.story == (story[1], story[0], *story[2:])
    assert reason(item(story[2:]), ORDER) == "no sentence of the text can surely change its place"
    assert reason(item(story), PARAPHRASE) == reason(item(story), CONDENSED)


def test_all_questions_about_a_story_get_the_same_retold_story() -> None:
    story = [*STORY, "Noor leaves her cap on the stool."]
    asked = ("Where is the milk?", "What does Noor want?", "Is Noor glad?")
    for kind in (PERSON, OBJECT):
        told = [retell(item(story, question), kind).story for question in asked]
        assert len(set(told)) == 1
    assert retell(item(story), PERSON) == retell(item(story), PERSON)


def test_a_whole_benchmark_of_texts() -> None:
    found = benchmarks.load("bigtom", data_file("bigtom.csv"))
    originals = {item.id: item for item in found if item.factors["task"] == "forward_belief"}
    wanted = (OBJECT, PERSON)
    made = list(make_variants(originals.values(), wanted, lambda benchmark: retell))
    counts = Counter(one.kind.name for one in made if isinstance(one, Dropped))
    assert counts["person"] <= 0.05 * len(originals)
    for one in made:
        if isinstance(one, Dropped):
            continue
        before = originals[one.base or ""]
        if one.factors["variant"] == "person":
            old = find_people(before.story)[0]
            assert not any(occurs(old, text) for text in (*one.story, one.question, *one.choices)), one
        changed = [(a, b) for a, b in zip(before.story, one.story, strict=True) if a != b]
        assert changed, one
        assert not any(re.search(r"\ba [aeio]\w|\ban [^aeiouh]", text) for text in one.story), one
        assert all(len(a.split()) == len(b.split()) or one.factors["variant"] == "object" for a, b in changed)
    pairs = [one for one in made if not isinstance(one, Dropped) and one.factors["variant"] == "person"]
    told = [(a, b) for a, b in pairwise(pairs) if a.cluster == b.cluster]
    assert sum(a.story[0] == b.story[0] for a, b in told) >= 0.98 * len(told), "twins get the same person"


LEANS = """She opens the box. It holds tea. Then Ann opens the box. But Ann opens the box. Ann opens it. They wait. Ann takes
another box. While Ann is away, rain falls. That is a mistake. His cap is red. The lid lies on its back. Lupe says that's
where the broom is now, behind the cupboard. Ann shows Ben that is where the key lies. Ann thinks about that."""
STANDS = "Ann puts her cap on. It is raining. The box that Ann has is red. A lamp hangs above the door."


def test_a_sentence_that_leans_on_the_one_before_and_one_that_stands_by_itself() -> None:
    for text, leans in ((LEANS, True), (STANDS, False)):
        sentences = [f"{sentence}." for sentence in " ".join(text.split()).rstrip(".").split(". ")]
        assert [sentence for sentence in sentences if leans_on_context(sentence) is not leans] == []


def test_what_is_introduced_stays_before_what_speaks_of_it() -> None:
    story = ("A box stands on the shelf.", "The box's lid is red.", "A lamp burns.", "Ann waits.")
    assert find_swaps(story) == (1, 2)
    assert find_swaps(story, frozenset(("box",))) == (0, 1, 2), "a label needs no introduction"
    assert find_swaps(("Two boxes stand here.", "The box is red.")) == ()


def test_the_sentence_after_the_pair_may_not_lean_on_it() -> None:
    assert find_swaps(("Ann waits.", "Ben sleeps.", "He snores.")) == ()
    assert find_swaps(("Ann waits.", "Ben sleeps.", "Ben snores.")) == (0,), "Ben is introduced by the second"
    assert find_swaps(("On Monday morning rain falls.", "At noon snow falls.", "Ann waits.")) == (1,)


def test_exchanges_do_not_overlap() -> None:
    assert choose_swaps((0, 1, 2, 3, 4)) == (0, 3)
    assert swap_order(5, (0, 3)) == (1, 0, 2, 4, 3)
    with pytest.raises(ValueError, match="takes part in two exchanges"):
        swap_order(3, (0, 1))


def test_the_longest_texts_that_rules_read_take_no_time_and_longer_ones_are_refused() -> None:
    """Each of these took minutes or hours by a rule that looked at every place anew."""
    assert find_people(["A" * 200_000, "Aa " * 60_000, "Noor thinks."]) == ("Noor",)
    assert len(find_people([" ".join(f"N{place:x} thinks." for place in range(20_000))])) == 100
    letters = str.maketrans("0123456789", "abcdefghij")  # digits would be times
    assert len(find_swaps(tuple(f"A q{place} hangs.".translate(letters) for place in range(3_000)))) == 2_999
    for story in (["he " * 20_000], ["She thinks."] * 6_000):
        assert reason(item([*STORY, *story]), PERSON).startswith("rules retell texts of at most 50,000 characters")
