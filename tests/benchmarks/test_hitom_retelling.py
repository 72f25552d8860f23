"""Variants of Hi-ToM questions: what changes, what stays, and that the truth is the original's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.conftest import DATA, ROOT
from tests.helpers.hitom_stories import all_beliefs, stories
from tomserve.benchmarks import hitom, retelling
from tomserve.benchmarks.hitom import other_words, words
from tomserve.benchmarks.hitom.condensing import NOT_ENOUGH, condensed
from tomserve.benchmarks.hitom.dice import Dice
from tomserve.benchmarks.hitom.events import Distractor, Enter, Exit, Place, Story
from tomserve.benchmarks.hitom.explain import EXPLANATIONS, places
from tomserve.benchmarks.hitom.generator import items as generated
from tomserve.benchmarks.hitom.knowledge import who_knows_what
from tomserve.benchmarks.hitom.plan import Plan
from tomserve.benchmarks.hitom.questions import read_question
from tomserve.benchmarks.hitom.renaming import TOO_MANY, other_things
from tomserve.benchmarks.hitom.reordering import FIXED, reordered
from tomserve.benchmarks.hitom.retelling import OTHER_FORM, _retold, retell
from tomserve.benchmarks.hitom.rules import RULES
from tomserve.benchmarks.hitom.tracker import SEMANTICS, trace
from tomserve.benchmarks.hitom.wordings import read_asked, read_story
from tomserve.content.pyfile import load_module
from tomserve.errors import InapplicableError
from tomserve.items import UNKNOWN, Item, items_digest
from tomserve.prompting.people import asked_about
from tomserve.stability import Dropped, Kind, kinds, variants

TOLD = (kinds.OBJECT, kinds.PERSON, kinds.CONDENSED, kinds.PARAPHRASE, kinds.ORDER)
SOURCES = ("built-in", "official", "common_knowledge")
every_source = pytest.mark.parametrize("source", SOURCES)
every_kind = pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.name)
Pair = tuple[Item, Item]


@cache
def originals(source: str) -> list[Item]:
    if source == "common_knowledge":
        plan = Plan(stories=24, seed=5, semantics="common_knowledge", twins=True, agents=(4, 5, 6), tells=(2, 3))
        return list(generated(plan))
    if source == "official":
        if not (DATA / "Hi-ToM_data.json").is_file():
            pytest.skip("needs Hi-ToM_data.json in TOMSERVE_DATA")
        return list(hitom.load(DATA / "Hi-ToM_data.json"))
    return list(hitom.load())


@cache
def made(source: str, kind: Kind) -> tuple[list[Pair], list[str]]:
    """The originals with their variants, and why the others have none."""
    items = originals(source)
    found = list(variants(items, [kind], retelling(hitom.BENCHMARK)))
    pairs = [(item, new) for item, new in zip(items, found, strict=True) if not isinstance(new, Dropped)]
    return pairs, [new.reason for new in found if isinstance(new, Dropped)]


def words_of(item: Item) -> set[str]:
    return set(re.findall(r"[\w'-]+", " ".join((*item.story, item.question, *item.choices))))


@every_source
@every_kind
def test_the_truth_of_the_text_is_the_original_truth(source: str, kind: Kind) -> None:
    pairs, _ = made(source, kind)
    for item, new in pairs:
        semantics = SEMANTICS[source == "common_knowledge"]
        asked, obj = read_asked(new.question)
        story = read_story(new.story)
        story.check()
        traced = trace(story, obj)
        assert new.meaning(new.answer) == item.answer
        assert (new.answer == traced.belief(asked, semantics)) is item.factors["label_agrees"]
        assert (new.gold is None) == (item.gold is None)
        if new.gold is not None:
            assert new.gold.chains == (tuple(traced.chain(asked, semantics)),)
        assert (new.base, new.cluster, new.id) == (item.id, item.cluster, f"{item.id}/{kind.name}")
        assert len(asked) == item.factors["order"]
        assert asked_about(new.question) == asked
        assert [new.meaning(choice) for choice in new.choices] == list(item.choices)
        assert Item.from_json(new.to_json()) == new


@every_source
def test_nearly_every_item_has_a_variant_of_every_kind(source: str) -> None:
    short = 0.85 if source == "common_knowledge" else 0.97  # where every agent moves something little can be left out
    least = dict.fromkeys(TOLD, 1.0) | {kinds.CONDENSED: short}
    for kind in TOLD:
        pairs, reasons = made(source, kind)
        assert len(pairs) >= least[kind] * len(originals(source)), kind
        assert set(reasons) <= {NOT_ENOUGH, FIXED}


@every_source
@every_kind
def test_a_story_is_told_once_and_counted_again(source: str, kind: Kind) -> None:
    told: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    stays = ("order", "length", "deception", "label_agrees", "order_sensitive", "semantics_differ", "tell_relevant")
    stays += ("equals_first_order", "equals_reality", "equals_joint_witness", "answer_position", "n_agents", "n_tells")
    for item, new in made(source, kind)[0]:
        told.setdefault(item.story, set()).add(new.story)
        assert set(new.factors) == {*item.factors, "variant", "variant_by"}
        assert (new.factors["variant"], new.factors["variant_by"]) == (kind.name, "record")
        assert {name: new.factors[name] for name in stays} == {name: item.factors[name] for name in stays}
        assert new.factors["n_lines"] == len(new.story)
        assert new.factors["object"] == read_asked(new.question)[1]
        shown = [choice for choice in new.choices if choice != UNKNOWN and choice in words_of_story(new.story)]
        assert new.factors["n_containers_mentioned"] == len(shown)
    assert {len(found) for found in told.values()} == {1}


@cache
def words_of_story(story: tuple[str, ...]) -> frozenset[str]:
    return frozenset(re.findall(r"[\w'-]+", " ".join(story)))


@every_source
def test_other_objects_leave_no_name_of_a_thing_and_nothing_else_changes(source: str) -> None:
    shown = re.compile(r"glass|clear|transparent|open|see|label|crystal|net|cage")
    for item, new in made(source, kinds.OBJECT)[0]:
        story = Story.parse(item.story)
        assert new.meanings == item.choices
        assert all(choice == meant == UNKNOWN or choice not in item.choices for choice, meant in zip_choices(new))
        gone = {choice for choice in item.choices if choice != UNKNOWN} | set(story.objects)
        gone |= {event.thing for event in story.events if isinstance(event, Distractor)}
        assert not gone & words_of(new)
        assert not [choice for choice in new.choices if shown.search(choice.partition("_")[0])]
        coloured = re.compile(r"(red|blue|green)_(.+)")
        for choice, meant in zip_choices(new):
            if (match := coloured.fullmatch(meant)) is not None:
                assert choice.partition("_")[2] == match[2]
                assert choice.partition("_")[0] in other_words.COLOURS
        again = Story.parse(new.story)
        assert (again.agents, again.presence()) == (story.agents, story.presence())
        assert list(map(type, again.events)) == list(map(type, story.events))


def zip_choices(new: Item) -> list[tuple[str, str]]:
    return list(zip(new.choices, new.meanings or new.choices, strict=True))


@every_source
def test_other_persons_leave_no_name_of_a_person_and_nothing_else_changes(source: str) -> None:
    for item, new in made(source, kinds.PERSON)[0]:
        story, again = Story.parse(item.story), Story.parse(new.story)
        assert not set(story.agents) & words_of(new)
        assert len(set(again.agents)) == len(story.agents)
        back = dict(zip(again.agents, story.agents, strict=True))
        parts = re.split(r"([\w'-]+)", "\n".join(new.story))
        assert "".join(back.get(part, part) for part in parts) == "\n".join(item.story).replace(
            "lost his", "lost their"
        ).replace("lost her", "lost their")
        assert tuple(back[name] for name in read_question(new.question)[0]) == read_question(item.question)[0]


def test_no_sentence_of_a_variant_with_other_persons_has_a_gender() -> None:
    gendered = re.compile(r"\b(he|she|him|her|his|hers)\b", re.IGNORECASE)
    assert any(gendered.search(" ".join(item.story)) for item in originals("official"))
    for _, new in made("official", kinds.PERSON)[0]:
        assert not gendered.search(" ".join(new.story))


@every_source
def test_condensed_stories_are_shorter_by_a_third_and_keep_what_bears_on_the_answer(source: str) -> None:
    for item, new in made(source, kinds.CONDENSED)[0]:
        before, after = (len(" ".join(story).split()) for story in (item.story, new.story))
        assert 0.3 * before <= before - after <= 0.4 * before
        story, left = Story.parse(item.story), list(read_story(new.story).events)
        obj = read_question(item.question)[1]
        kept = [line for line, event in enumerate(story.events) if left and event == left[0] and left.pop(0)]
        assert not left, "the sentences that are left keep their order"
        gone = [event for line, event in enumerate(story.events) if line not in kept]
        assert not [event for event in gone if isinstance(event, Enter | Exit | Place)]
        if item.gold is not None and item.gold.chains and new.gold and new.gold.chains:
            assert new.gold.chains[0] == tuple(item.gold.chains[0][line] for line in kept)
        assert [m[1:] for m in trace(story, obj).mentions] == [
            m[1:] for m in trace(read_story(new.story), obj).mentions
        ]


@every_source
def test_every_sentence_of_a_paraphrase_is_in_other_words(source: str) -> None:
    openings: Counter[str] = Counter()
    for item, new in made(source, kinds.PARAPHRASE)[0]:
        assert not [text for text, before in zip(new.story, item.story, strict=True) if text == before]
        assert new.question != item.question
        assert read_story(new.story) == Story.parse(item.story)
        assert read_asked(new.question) == read_question(item.question)
        assert new.choices == item.choices
        openings[new.question.split()[0]] += 1
    assert len(openings) == 2, "both wordings of the question occur"


@every_source
def test_another_order_has_the_same_sentences_and_keeps_the_frame_of_chapters(source: str) -> None:
    for item, new in made(source, kinds.ORDER)[0]:
        assert Counter(new.story) == Counter(item.story)
        assert new.story != item.story
        for kind in (Enter, Place):
            assert [e for e in Story.parse(new.story).events if isinstance(e, kind)] == [
                e for e in Story.parse(item.story).events if isinstance(e, kind)
            ]
        follows = [next_is_placed(Story.parse(story)) for story in (item.story, new.story)]
        assert follows[0] <= follows[1], "nothing comes between entering a room and what lies there"


def next_is_placed(story: Story) -> int:
    return sum(
        isinstance(b, Place) and isinstance(a, Enter) for a, b in zip(story.events, story.events[1:], strict=False)
    )


@given(stories(), st.integers(0, 99))
@settings(max_examples=60)
def test_in_another_order_every_belief_of_every_order_is_the_same(story: Story, seed: int) -> None:
    try:
        found = reordered(story, Dice(str(seed)))
    except InapplicableError:
        assume(False)
    found.check()
    for obj in story.objects:
        for semantics in SEMANTICS:
            assert all_beliefs(found, obj, semantics, 3)[-1] == all_beliefs(story, obj, semantics, 3)[-1]


@given(stories())
@settings(max_examples=60)
def test_in_a_condensed_story_every_belief_of_every_order_is_the_same(story: Story) -> None:
    try:
        left, sentences = condensed(story, "pen")
    except InapplicableError:
        assume(False)
    assert read_story(sentences) == left
    for semantics in SEMANTICS:
        before, after = (all_beliefs(told, "pen", semantics, 3)[-1] for told in (story, left))
        assert after == before


@every_kind
def test_other_parts_go_on_knowing_who_believes_what(kind: Kind) -> None:
    module = load_module(ROOT / "prompts/simtom_oracle/program.py", "strategy")
    for item, new in made("built-in", kind)[0][::7]:
        now = {choice: new.meaning(choice) for choice in new.choices}
        for rule in RULES:
            said = rule.answer(new)
            assert said is not None
            assert now[said] == rule.answer(item), rule.name
        before, after = places(item), places(new)
        assert after["tells_false"] == before["tells_false"]
        for name in EXPLANATIONS:
            if kind is not kinds.CONDENSED or name not in ("distractor", "other_object"):
                listed = [now[choice] for choice in str(after[f"places_{name}"]).split()]
                assert sorted(listed) == sorted(str(before[f"places_{name}"]).split()), name
        known = who_knows_what(new)
        assert len(known) == len(who_knows_what(item))
        assert all(len(column) == len(new.story) for _, column in known)
        if asked := read_asked(new.question)[0]:
            kept = module.witnessed(new, asked)
            assert kind in (kinds.CONDENSED, kinds.ORDER) or kept == module.witnessed(
                item, read_asked(item.question)[0]
            )


def test_a_label_that_the_tracker_does_not_give_is_kept() -> None:
    strange = [item for item in originals("official") if not item.factors["label_agrees"]]
    assert len(strange) == 17
    for kind in TOLD:
        found = [(item, new) for item, new in made("official", kind)[0] if item in strange]
        assert found
        for item, new in found:
            assert new.gold is None
            assert new.meaning(new.answer) == item.answer
    wrong = originals("built-in")[3]
    other = next(choice for choice in wrong.choices if choice != wrong.answer)
    for kind in TOLD:
        new = retell(wrong.model_copy(update={"answer": other}), kind)
        assert new.meaning(new.answer) == other
        assert new.gold is None


def test_twins_are_retold_alike() -> None:
    names: dict[str, set[tuple[str, ...]]] = {}
    for _, new in made("common_knowledge", kinds.PERSON)[0]:
        names.setdefault(new.cluster, set()).add(Story.parse(new.story).agents)
    assert {len(found) for found in names.values()} == {1}
    assert len({next(iter(found)) for found in names.values()}) == len(names)


def changed(change: Callable[[Item], dict[str, object]]) -> Item:
    item = originals("built-in")[3]
    return item.model_copy(update=change(item))


@every_kind
@pytest.mark.parametrize(
    "item",
    [
        pytest.param(lambda item: {"question": "Where is it?"}, id="question"),
        pytest.param(lambda item: {"story": (*item.story, "It rains.")}, id="sentence"),
        pytest.param(lambda item: {"story": (*item.story, "Tea went into the den.")}, id="other words"),
        pytest.param(lambda item: {"question": "Where does Ann think Ann thinks the pen is?"}, id="agent twice"),
    ],
)
def test_an_item_of_another_form_has_no_variant(kind: Kind, item: Callable[[Item], dict[str, object]]) -> None:
    with pytest.raises(InapplicableError, match=f"^{OTHER_FORM}$"):
        retell(changed(item), kind)


def test_the_kinds_that_need_no_record_are_not_made_here() -> None:
    for kind in (kinds.AGAIN, kinds.CHOICES):
        with pytest.raises(InapplicableError, match="no rule for this kind"):
            retell(originals("built-in")[0], kind)


def test_more_names_than_there_are_words_are_said_to_be_too_many() -> None:
    story = Story.parse(["Ann entered the den.", "The pen is in the box_1."])
    with pytest.raises(InapplicableError, match=TOO_MANY):
        other_things(story, [f"box_{number}" for number in range(70)], Dice("1"))
    with pytest.raises(InapplicableError, match=TOO_MANY):
        other_things(story, [f"{colour}_box" for colour in other_words.COLOURS], Dice("1"))


def test_a_story_whose_sentences_hang_together_has_no_other_order() -> None:
    lines = ["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den."]
    item = Item(id="q", story=lines, question="Where is the pen really?", choices=["red_box", "tin"], answer="red_box")
    with pytest.raises(InapplicableError, match=FIXED):
        retell(item, kinds.ORDER)


def test_two_who_leave_change_places_only_where_nobody_is_told_anything() -> None:
    lines = ["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.", "Ann exited the den."]
    assert reordered(Story.parse(lines), Dice("1")).sentences() == (*lines[:2], lines[3], lines[2])
    with pytest.raises(InapplicableError, match=FIXED):  # Bo trusts Ann because she left later
        reordered(Story.parse([*lines, "Ann privately told Bo that the pen is in the tin."]), Dice("1"))


def test_variants_are_the_same_in_every_process() -> None:
    _retold.cache_clear()
    items = originals("built-in")[::40]
    again = [retell(item, kind) for item in reversed(items) for kind in TOLD]
    told = {new.id: new for kind in TOLD for _, new in made("built-in", kind)[0]}
    assert all(told[new.id] == new for new in again)
    assert items_digest(again) == "sha256:c6e656269d989449912c80a1985f724a02e85e0268637ad48bab520a9b68b597"


def test_the_words_of_variants_name_one_thing_each() -> None:
    lists = [words.ROOMS, words.OBJECTS, words.CONTAINERS, words.AGENTS, words.ANIMALS, words.BELONGINGS, words.FOODS]
    lists += [other_words.OTHER_AGENTS, other_words.OTHER_CONTAINERS]
    everything = [word.casefold() for listed in lists for word in listed]
    assert len(set(everything)) == len(everything)
    for part in (0, 1):
        assert len({name.split("_")[part] for name in other_words.OTHER_CONTAINERS}) == len(
            other_words.OTHER_CONTAINERS
        )
    people = (*words.AGENTS, *other_words.OTHER_AGENTS)
    assert not [(one, other) for one in people for other in other_words.OTHER_AGENTS if one != other and one in other]
    assert not {word.casefold() for item in originals("official") for word in words_of(item)} & {
        word.casefold() for word in (*other_words.OTHER_AGENTS, *other_words.OTHER_CONTAINERS)
    }
