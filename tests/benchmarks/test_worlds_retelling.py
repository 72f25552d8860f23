"""Items of worlds told otherwise from their records: the truth is the mapped one, and only what should change does."""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.helpers import possible_worlds
from tomserve import benchmarks
from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.draws import ranked
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.lexicon import Lexicon, built_in
from tomserve.benchmarks.worlds.record import Question, Scene, World
from tomserve.benchmarks.worlds.rendering import items, label
from tomserve.benchmarks.worlds.reordering import PAIRS, STUCK, reordered
from tomserve.benchmarks.worlds.retelling import (
    MOMENT,
    NO_FAMILY,
    NO_RECORD,
    OTHER_WORDS,
    SAME,
    UNSETTLED,
    asking,
    retelling,
    retold,
)
from tomserve.benchmarks.worlds.rewording import (
    NO_OBJECT,
    NOT_SHORTER,
    ONE_PHRASING,
    condensed,
    paraphrased,
    with_other_object,
)
from tomserve.benchmarks.worlds.variants import protagonist, record
from tomserve.errors import InapplicableError
from tomserve.items import Item
from tomserve.stability import CHOICES, CONDENSED, KINDS, OBJECT, ORDER, PARAPHRASE, PERSON, Kind, variants
from tomserve.stability.kinds import LEAST, MOST
from tomserve.stability.making import CHANGES_TRUTH, Dropped

TOLD = [(family.name, scenario) for family in FAMILIES for scenario in family.scenarios]
RETOLD = (OBJECT, PERSON, CONDENSED, PARAPHRASE, ORDER)
every_kind = pytest.mark.parametrize("kind", RETOLD, ids=lambda kind: kind.name)
RETELL = retelling()


@cache
def originals() -> tuple[Item, ...]:
    """Items of three worlds of each family in each scenario, some hundreds."""
    found = []
    for family, scenario in TOLD:
        for place in range(3):
            world = BY_NAME[family].world(built_in(), f"{family}-5-{place:04d}", scenario)
            found += items(world, built_in(), questions=range(min(len(world.questions), 6)))
    return tuple(item.model_copy(update={"canary": "a canary"}) for item in found)


@cache
def made(kind: Kind) -> tuple[tuple[Item, Item], ...]:
    """Originals with their variants of a kind, for all that have one."""
    by_id = {item.id: item for item in originals()}
    found = [one for one in variants(originals(), [kind], lambda name: RETELL) if isinstance(one, Item)]
    return tuple((by_id[str(one.base)], one) for one in found)


def words(item: Item) -> list[str]:
    return re.findall(r"[\w-]+", " ".join((*item.story, item.question, *item.choices)))


def proven(item: Item, kind: Kind) -> Item:
    """The item that the retold record of this one makes, of which both implementations of the rules say the same."""
    lexicon, world = built_in(), record(item)
    told, places = retold(world, kind, lexicon)
    question = asking(told, world.questions[0], kind, places, lexicon)
    (one,) = items(told.model_copy(update={"questions": (question,)}), lexicon)
    assert list(possible_worlds.disagreements(orjson.loads(one.to_json()))) == []
    return one


@every_kind
def test_a_variant_has_the_answer_of_its_original_by_both_implementations_of_the_rules(kind: Kind) -> None:
    for original, one in made(kind)[::2]:
        again = proven(original, kind)
        assert (one.story, one.question, one.choices) == (again.story, again.question, again.choices)
        assert (one.answer, one.gold) == (again.answer, again.gold)
        keys = record(original).questions[0].choices
        assert keys[one.choices.index(one.answer)] == original.factors["answer_key"]
        assert one.meaning(one.answer) == original.answer
        assert [one.meaning(choice) for choice in one.choices] == list(original.choices)


@every_kind
def test_a_variant_belongs_to_its_original(kind: Kind) -> None:
    for original, one in made(kind):
        assert one.id == f"{original.id}/{kind.name}"
        assert (one.base, one.cluster, one.canary) == (original.id, original.cluster, "a canary")
        same = {**original.factors, "variant": kind.name, "variant_by": "record"}
        same |= {name: one.factors[name] for name in ("sentences", "reality")}
        assert one.factors == same
        assert one.factors["sentences"] == len(one.story)
        assert one.gold is None or len(one.gold.sets or ()) == len(one.story)
        assert Item.from_json(one.to_json()) == one


@every_kind
def test_all_questions_about_a_story_get_the_same_retold_story(kind: Kind) -> None:
    stories = defaultdict(set)
    for original, one in made(kind):
        stories[original.story].add(one.story)
    assert stories
    assert {len(told) for told in stories.values()} == {1}


def test_nearly_every_item_has_a_variant_of_every_kind() -> None:
    count = len(originals())
    for kind, least in ((OBJECT, 1), (PERSON, 1), (PARAPHRASE, 1), (CONDENSED, 0.95), (ORDER, 0.9)):
        assert len(made(kind)) >= least * count


def test_another_object_has_other_words_and_no_old_one_is_left() -> None:
    families: Counter[str] = Counter()
    for original, one in made(OBJECT):
        family, world = str(original.factors["family"]), record(original)
        told, _ = retold(world, OBJECT, built_in())
        changed = {key for key in world.words if world.words[key] != told.words[key]}
        gone = {world.words[key] for key in changed} - set(told.words.values())
        text = " ".join((*one.story, one.question, *one.choices))
        assert gone
        assert not [word for word in gone if "{" not in word and re.search(rf"\b{re.escape(word)}\b", text)]
        values = [key for key in world.facts[world.questions[0].fact] if key in world.words]
        if family not in ("causal", "appearance") or ("work" not in world.words and family != "causal"):
            assert all(label(told, key) != label(world, key) for key in values)
            real = {label(world, key): label(told, key) for key in values}.get(str(original.factors["reality"]))
            assert one.factors["reality"] == (real or original.factors["reality"])
        families[family] += 1
    assert set(families) == set(BY_NAME)


@pytest.mark.parametrize(("family", "scenario"), TOLD)
def test_no_new_word_lets_one_see_what_is_inside(family: str, scenario: str) -> None:
    world = BY_NAME[family].world(built_in(), f"{family}-6-0000", scenario)
    told = with_other_object(world, built_in())
    new = {told.words[key] for key in told.words if told.words[key] != world.words[key]}
    assert not [word for word in new if re.search(r"transparent|see-through|\bopen\b|glass|crystal|label|wire", word)]


def test_a_world_without_things_on_lists_has_no_other_object() -> None:
    people: dict[str, Any] = {"P": {"name": "Ann", "gender": "woman"}, "Q": {"name": "Bo", "gender": "man"}}
    world = World(
        family="transfer", name="w", people=people, words={}, facts={"who": ("P", "Q")}, scenes=(Scene(role="people"),)
    )
    with pytest.raises(InapplicableError, match=NO_OBJECT):
        with_other_object(world, built_in())


def test_another_person_leaves_no_trace_of_the_old_one() -> None:
    for original, one in made(PERSON):
        world = record(original)
        told, _ = retold(world, PERSON, built_in())
        key = protagonist(world)
        old, new = world.people[key], told.people[key]
        assert old.name not in words(one)
        assert old.gender != new.gender
        assert old.culture != new.culture
        if old.name in words(original):
            assert new.name in words(one)


def test_all_tellings_of_a_world_get_the_same_person_and_the_same_object() -> None:
    for family in FAMILIES:
        told = [family.world(built_in(), f"{family.name}-5-0001", scenario) for scenario in family.versions[-1]]
        assert len({retold(world, PERSON, built_in())[0].people["P"] for world in told}) == 1
        named = [retold(world, OBJECT, built_in())[0].words for world in told]
        assert all(named[0].get(key) == text for other in named for key, text in other.items() if key in "xyzw")


def test_a_condensed_story_is_30_to_40_percent_shorter_and_has_no_filler() -> None:
    for original, one in made(CONDENSED):
        before, after = (sum(len(text.split()) for text in item.story) for item in (original, one))
        assert 1 - MOST <= after / before <= 1 - LEAST
        told, places = retold(record(original), CONDENSED, built_in())
        assert "filler" not in {scene.part for scene in told.scenes}
        assert list(places) == sorted(places)
        for text, place in zip(one.story, places, strict=True):
            assert len(text.split()) <= len(original.story[place].split())


def test_a_story_that_is_brief_already_is_not_condensed() -> None:
    world = BY_NAME["transfer"].world(built_in(), "transfer-5-0000", "false_belief")
    told, _ = condensed(world, built_in())
    brief = tuple(scene.model_copy(update={"told": "short"}) for scene in told.scenes)
    with pytest.raises(InapplicableError, match=NOT_SHORTER):
        condensed(told.model_copy(update={"scenes": brief}), built_in())


def test_a_paraphrase_says_every_sentence_by_another_entry_of_its_file() -> None:
    for original, one in made(PARAPHRASE):
        assert len(one.story) == len(original.story)
        assert all(before != after for before, after in zip(original.story, one.story, strict=True))
        assert one.question != original.question
        assert one.choices == original.choices
        world, (told, _) = record(original), retold(record(original), PARAPHRASE, built_in())
        for before, after in zip(world.scenes, told.scenes, strict=True):
            groups = built_in().grouped(world.family, before.role)
            offered = built_in().phrasings(world.family, before.role)
            old, new = (offered[scene.phrasing % len(offered)] for scene in (before, after))
            assert not [group for group in groups if old in group and new in group]


def test_a_scene_is_paraphrased_alike_in_all_scenarios_of_a_world() -> None:
    false, true = (
        BY_NAME["transfer"].world(built_in(), "transfer-5-0002", name) for name in ("false_belief", "present")
    )
    numbers = [
        {(old.role, old.phrasing): new.phrasing for old, new in zip(world.scenes, told.scenes, strict=True)}
        for world, told in ((world, paraphrased(world, built_in())) for world in (false, true))
    ]
    shared = numbers[0].keys() & numbers[1].keys()
    assert len(shared) > 4
    assert all(numbers[0][scene] == numbers[1][scene] for scene in shared)


def test_in_another_order_neighbours_of_declared_roles_change_places() -> None:
    for original, one in made(ORDER):
        assert sorted(one.story) == sorted(original.story)
        world = record(original)
        _, places = retold(world, ORDER, built_in())
        assert tuple(original.story[place] for place in places) == one.story
        moved = [place for new, place in enumerate(places) if new != place]
        assert moved
        for first, second in zip(moved[::2], moved[1::2], strict=True):
            assert first == second + 1
            assert (world.scenes[second].role, world.scenes[first].role) in PAIRS[world.family]
        for place in moved[1::2]:
            after = original.story[place + 2 : place + 3]
            assert not [text for text in after if re.match(r"Then|After|Later|Now|With that", text)]


def test_declared_pairs_are_roles_of_their_families() -> None:
    for family, pairs in PAIRS.items():
        for role in {role for pair in pairs for role in pair}:
            assert built_in().phrasings(family, role)


def test_a_sentence_that_leans_on_the_one_before_stays() -> None:
    world = BY_NAME["transfer"].world(built_in(), "transfer-5-0000", "no_transfer")
    scenes = [Scene(role="elsewhere", slots={"A": "S", "l": key}, phrasing=n) for key, n in (("x", 2), ("y", 1))]
    told = world.model_copy(update={"scenes": tuple(scenes)})
    with pytest.raises(InapplicableError, match=STUCK):
        reordered(told, ("Then Ann ties a ribbon to the box.", "Ann oils a hinge of the tin."))
    assert reordered(told, ("Ann dusts the box.", "Ann oils a hinge of the tin."))[1] == (1, 0)


def _asked(world: World, **question: Any) -> Item:
    one = Question(kind="reality", fact="place", choices=("x", "y", "z"), role="reality", **question)
    (item,) = items(world.model_copy(update={"questions": (one,)}), built_in())
    return item


def _moves() -> World:
    """A world in which a thing is moved by two sentences whose roles may change places."""
    world = BY_NAME["transfer"].world(built_in(), "transfer-5-0000", "no_transfer")
    moves = [
        Scene(role="elsewhere", slots={"A": "S", "l": key}, phrasing=0, events=(f"fact place={key} seen S",))
        for key in "xy"
    ]
    return world.model_copy(update={"scenes": tuple(moves)})


def test_where_another_order_changes_the_truth_there_is_no_variant() -> None:
    with pytest.raises(InapplicableError, match=CHANGES_TRUTH):
        RETELL(_asked(_moves()), ORDER)


def test_where_the_new_order_leaves_a_line_without_an_answer_there_is_no_variant() -> None:
    """Before the thing is anywhere, its place is none of the choices."""
    world = _moves()
    scenes = (world.scenes[0], world.scenes[1].model_copy(update={"events": ()}))
    item = _asked(world.model_copy(update={"scenes": scenes}))
    assert item.gold is not None
    with pytest.raises(InapplicableError, match=UNSETTLED):
        RETELL(item, ORDER)


def test_where_two_choices_would_be_called_the_same_there_is_no_variant() -> None:
    world = BY_NAME["valley"].world(built_in(), "valley-5-0000", "missed")
    new = with_other_object(world, built_in()).words["x"]
    question = next(one for one in world.questions if one.kind == "belief")
    question = question.model_copy(update={"choices": (*question.choices, "again")})
    changed = {"words": world.words | {"again": new}, "questions": (question,)}
    (item,) = items(world.model_copy(update=changed), built_in())
    with pytest.raises(InapplicableError, match=SAME):
        RETELL(item, OBJECT)


def test_a_story_whose_roles_have_one_phrasing_is_not_paraphrased(tmp_path: Path) -> None:
    shutil.copytree(built_in().folder, tmp_path / "worlds")
    file = tmp_path / "worlds/phrases/transfer.yaml"
    content = yaml.safe_load(file.read_text("utf-8"))
    content["roles"] = {role: offered[:1] for role, offered in content["roles"].items()}
    file.write_text(yaml.safe_dump(content), "utf-8")
    own = Lexicon(tmp_path / "worlds")
    with pytest.raises(InapplicableError, match=ONE_PHRASING):
        paraphrased(BY_NAME["transfer"].world(own, "transfer-5-0000", "present"), own)


def test_a_kind_that_needs_no_record_is_not_told_from_one() -> None:
    with pytest.raises(InapplicableError, match="know no variant 'choices'"):
        retold(_moves(), CHOICES, built_in())


def test_a_question_about_a_moment_between_two_exchanged_sentences_has_no_variant() -> None:
    with pytest.raises(InapplicableError, match=MOMENT):
        RETELL(_asked(_moves(), at=0), ORDER)


def test_a_moment_that_is_asked_about_moves_with_its_line() -> None:
    world = BY_NAME["valley"].world(built_in(), "valley-5-0000", "missed")
    told, places = retold(world, CONDENSED, built_in())
    for question in world.questions:
        changed = asking(told, question, CONDENSED, places, built_in())
        assert question.at is not None
        assert changed.at is not None
        assert places[changed.at] == question.at
        assert rules.answer(told, changed) == rules.answer(world, question)


def test_what_cannot_be_told_again_is_dropped_with_a_reason() -> None:
    original = next(item for item in originals() if item.factors["order"] == 1)
    assert original.world is not None
    edited = original.model_copy(update={"story": ("Ann has a box.", *original.story[1:])})
    roles = {**original.world, "scenes": [{"role": "nowhere"}]}
    wrong = next(choice for choice in original.choices if choice != original.answer)
    unasked = {**original.world["questions"][0], "kind": "smell"}
    for item, reason in (
        (original.model_copy(update={"world": None}), NO_RECORD),
        (original.model_copy(update={"world": {"family": "contents"}}), NO_RECORD),
        (original.model_copy(update={"world": {**original.world, "people": 3}}), NO_RECORD),
        (original.model_copy(update={"world": {**original.world, "questions": [{}]}}), NO_RECORD),
        (original.model_copy(update={"world": {**original.world, "family": "../words"}}), NO_FAMILY),
        (original.model_copy(update={"world": roles}), OTHER_WORDS),
        (edited, OTHER_WORDS),
        (original.model_copy(update={"question": "What now?"}), OTHER_WORDS),
        (original.model_copy(update={"answer": wrong}), OTHER_WORDS),
        (original.model_copy(update={"world": {**original.world, "questions": [unasked]}}), OTHER_WORDS),
    ):
        with pytest.raises(InapplicableError, match=re.escape(reason)):
            RETELL(item, PERSON)


def test_the_benchmark_offers_the_variants_of_all_kinds() -> None:
    benchmark = benchmarks.get("worlds")
    sample = [next(found) for _, found in groupby(originals(), lambda item: item.factors["family"])]
    found = list(variants(sample, KINDS, benchmarks.retelling(benchmark)))
    assert len(found) == len(sample) * (len(KINDS) - 1)
    assert {one.factors["variant_by"] for one in found if isinstance(one, Item)} == {"record"}
    assert {one.reason for one in found if isinstance(one, Dropped)} <= {STUCK, NOT_SHORTER}


def test_draws_are_the_same_everywhere() -> None:
    assert ranked("abcd", "seed", "more") == ["c", "a", "d", "b"]
    assert ranked("dcba", "seed", "more") == ranked("abcd", "seed", "more")
    assert ranked("abcdefgh", "seed", "more") != ranked("abcdefgh", "seedmore")
