"""Variants of Hi-ToM questions: what changes, what stays, and that the truth is the original's."""

import contextlib
import re
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import DATA
from tests.helpers.hitom_stories import all_beliefs, stories
from tomserve.benchmarks import hitom, retelling
from tomserve.benchmarks.hitom.baselines import EXPLANATIONS, RULES, places, who_knows_what
from tomserve.benchmarks.hitom.events import (
    Distractor,
    Enter,
    Exit,
    Place,
    Story,
    read_any_question,
    read_question,
    read_story,
)
from tomserve.benchmarks.hitom.generator import items as generated
from tomserve.benchmarks.hitom.plan import Plan
from tomserve.benchmarks.hitom.sampler import Dice
from tomserve.benchmarks.hitom.tracker import SEMANTICS, trace
from tomserve.benchmarks.hitom.variants import (
    FIXED,
    NOT_ENOUGH,
    OTHER_FORM,
    TOO_MANY,
    condense,
    other_things,
    reorder,
    retell,
)
from tomserve.benchmarks.hitom.words import words
from tomserve.errors import InapplicableError
from tomserve.items import UNKNOWN, Item
from tomserve.prompting.persons import find_people
from tomserve.variants import AGAIN, CONDENSED, OBJECT, ORDER, PARAPHRASE, PERSON, Dropped, Kind, make_variants

TOLD = (OBJECT, PERSON, CONDENSED, PARAPHRASE, ORDER)
every_kind = pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.name)


@cache
def originals(source: str) -> list[Item]:
    if source == "common_knowledge":
        plan = Plan(stories=24, seed=5, semantics="common_knowledge", twins=True, agents=(4, 5, 6), tells=(2, 3))
        return list(generated(plan))
    if source == "official":
        if not (DATA / "Hi-ToM_data.json").is_file():
            pytest.skip("needs Hi-ToM_data.json in TOMSERVE_DATA")
        found = list(hitom.load(DATA / "Hi-ToM_data.json"))
        some = {item.cluster for item in found if not item.factors["label_agrees"]}
        return [item for place, item in enumerate(found) if place < 75 or item.cluster in some]
    return list(hitom.load())[::2]


@cache
def made(source: str, kind: Kind) -> tuple[list[tuple[Item, Item]], list[str]]:
    """The originals with their variants, and why the others have none."""
    items = originals(source)
    found = list(make_variants(items, [kind], retelling(hitom.BENCHMARK)))
    pairs = [(item, new) for item, new in zip(items, found, strict=True) if not isinstance(new, Dropped)]
    return pairs, [new.reason for new in found if isinstance(new, Dropped)]


@pytest.mark.parametrize("source", ["built-in", "official", "common_knowledge"])
@every_kind
def test_the_truth_of_the_text_is_the_original_truth(source: str, kind: Kind) -> None:
    pairs, reasons = made(source, kind)
    least = 1.0 if kind is not CONDENSED else 0.85 if source == "common_knowledge" else 0.96
    assert len(pairs) >= least * len(originals(source)), "where every agent moves something little can be left out"
    assert set(reasons) <= {NOT_ENOUGH, FIXED}
    semantics = SEMANTICS[source == "common_knowledge"]
    told: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for item, new in pairs:
        asked, obj = read_any_question(new.question)
        story = read_story(new.story)
        story.check()
        traced = trace(story, obj)
        assert new.meaning(new.answer) == item.answer
        assert (new.answer == traced.belief(asked, semantics)) is item.factors["label_agrees"]
        assert (new.gold is None) == (item.gold is None)
        assert new.gold is None or new.gold.chains == (tuple(traced.chain(asked, semantics)),)
        assert (new.base, new.cluster, new.id) == (item.id, item.cluster, f"{item.id}/{kind.name}")
        assert find_people(new.question) == asked
        assert [new.meaning(choice) for choice in new.choices] == list(item.choices)
        told.setdefault(item.story, set()).add(new.story)
        shown = [choice for choice in new.choices if choice != UNKNOWN and choice in words_of_story(new.story)]
        counted = {"n_lines": len(new.story), "object": obj, "n_containers_mentioned": len(shown)}
        counted |= {"variant": kind.name, "variant_by": "record"}
        counted |= {name: new.factors[name] for name in ("answer_place", "n_distractors")}
        assert new.factors == {**item.factors, **counted}
        OF_KIND[kind.name](item, new)
    assert {len(found) for found in told.values()} == {1}, "a story is told once for all its questions"


@cache
def words_of_story(story: tuple[str, ...]) -> frozenset[str]:
    return frozenset(re.findall(r"[\w'-]+", " ".join(story)))


def words_of(item: Item) -> set[str]:
    return {*words_of_story(item.story), *words_of_story((item.question, *item.choices))}


SHOWS = re.compile(r"glass|clear|transparent|open|see|label|crystal|net|cage")
GENDERED = re.compile(r"\b(he|she|him|her|his|hers)\b", re.IGNORECASE)


def object_(item: Item, new: Item) -> None:
    """No name of a thing is left, and nothing else changes."""
    story, again = Story.parse(item.story), Story.parse(new.story)
    gone = {choice for choice in item.choices if choice != UNKNOWN} | set(story.objects)
    gone |= {event.thing for event in story.events if isinstance(event, Distractor)}
    assert not gone & words_of(new)
    assert not [choice for choice in new.choices if SHOWS.search(choice.partition("_")[0])]
    assert (again.agents, again.presence()) == (story.agents, story.presence())
    assert list(map(type, again.events)) == list(map(type, story.events))


def person(item: Item, new: Item) -> None:
    """No name of a person is left, and nothing else changes."""
    story, again = Story.parse(item.story), Story.parse(new.story)
    assert not set(story.agents) & words_of(new)
    assert len(set(again.agents)) == len(story.agents)
    back = dict(zip(again.agents, story.agents, strict=True))
    parts = re.split(r"([\w'-]+)", "\n".join(new.story))
    same = "\n".join(item.story).replace("lost his", "lost their").replace("lost her", "lost their")
    assert "".join(back.get(part, part) for part in parts) == same
    assert not GENDERED.search(" ".join(new.story))
    assert tuple(back[name] for name in read_question(new.question)[0]) == read_question(item.question)[0]


def condensed_(item: Item, new: Item) -> None:
    """A third shorter, with everything that bears on the answer."""
    before, after = (len(" ".join(story).split()) for story in (item.story, new.story))
    assert 0.3 * before <= before - after <= 0.4 * before
    story, obj = Story.parse(item.story), read_question(item.question)[1]
    left = list(read_story(new.story).events)
    kept = [line for line, event in enumerate(story.events) if left and event == left[0] and left.pop(0)]
    assert not left, "the sentences that are left keep their order"
    gone = [event for line, event in enumerate(story.events) if line not in kept]
    assert not [event for event in gone if isinstance(event, Enter | Exit | Place)]
    if new.gold is not None:
        assert new.gold.chains[0] == tuple(item.gold.chains[0][line] for line in kept)
    mentions = [[m[1:] for m in trace(one, obj).mentions] for one in (story, read_story(new.story))]
    assert mentions[0] == mentions[1]


def paraphrase(item: Item, new: Item) -> None:
    """Every sentence in other words."""
    assert not [text for text, before in zip(new.story, item.story, strict=True) if text == before]
    assert new.question != item.question
    assert read_story(new.story) == Story.parse(item.story)
    assert read_any_question(new.question) == read_question(item.question)
    assert new.choices == item.choices


def order(item: Item, new: Item) -> None:
    """The same sentences; the frame of chapters stays."""
    assert Counter(new.story) == Counter(item.story)
    assert new.story != item.story
    one, other = (Story.parse(story).events for story in (item.story, new.story))
    for kind in (Enter, Place):
        assert [e for e in one if isinstance(e, kind)] == [e for e in other if isinstance(e, kind)]
    follows = [sum(isinstance(b, Place) and isinstance(a, Enter) for a, b in pairwise(e)) for e in (one, other)]
    assert follows[0] <= follows[1], "nothing comes between entering a room and what lies there"


OF_KIND = {"object": object_, "person": person, "condensed": condensed_, "paraphrase": paraphrase, "order": order}


@given(stories(), st.integers(0, 99))
@settings(max_examples=40)
def test_in_another_order_or_condensed_every_belief_of_every_order_is_the_same(story: Story, seed: int) -> None:
    for change in (lambda: reorder(story, Dice(str(seed))), lambda: condense(story, "pen")):
        with contextlib.suppress(InapplicableError):
            found = change()
            if isinstance(found, tuple):
                found, sentences = found
                assert read_story(sentences) == found
            found.check()
            for semantics in SEMANTICS:
                before, after = (all_beliefs(told, "pen", semantics, 3)[-1] for told in (story, found))
                assert after == before


@every_kind
def test_other_parts_go_on_knowing_who_believes_what(kind: Kind) -> None:
    for item, new in made("built-in", kind)[0][::7]:
        now = {choice: new.meaning(choice) for choice in new.choices}
        for rule in RULES:
            assert now[rule.answer(new)] == rule.answer(item), rule.name
        before, after = places(item), places(new)
        assert after["tells_false"] == before["tells_false"]
        for name in EXPLANATIONS:
            if kind is not CONDENSED or name not in ("distractor", "other_object"):
                listed = [now[choice] for choice in str(after[f"places_{name}"]).split()]
                assert sorted(listed) == sorted(str(before[f"places_{name}"]).split()), name
        assert all(len(column) == len(new.story) for _, column in who_knows_what(new))


def test_what_has_no_variant_says_why() -> None:
    item = originals("built-in")[3]
    for change in ({"question": "Where is it?"}, {"story": (*item.story, "It rains.")}):
        for kind in TOLD:
            with pytest.raises(InapplicableError, match=f"^{OTHER_FORM}$"):
                retell(item.model_copy(update=change), kind)
    with pytest.raises(InapplicableError, match="no rule for this kind"):
        retell(item, AGAIN)
    story = Story.parse(["Ann entered the den.", "The pen is in the box_1."])
    with pytest.raises(InapplicableError, match=TOO_MANY):
        other_things(story, [f"{colour}_box" for colour in words().other_colours], Dice("1"))
    lines = ["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.", "Ann exited the den."]
    assert reorder(Story.parse(lines), Dice("1")).sentences() == (*lines[:2], lines[3], lines[2])
    with pytest.raises(InapplicableError, match=FIXED):  # Bo trusts Ann because she left later
        reorder(Story.parse([*lines, "Ann privately told Bo that the pen is in the tin."]), Dice("1"))
