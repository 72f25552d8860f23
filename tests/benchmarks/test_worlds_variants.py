"""Worlds told otherwise, as interventions need it: what changes, what stays, and that nothing of the old story is left.
Items of worlds told otherwise from their records: the truth is the mapped one, and only what should change does.
Cases of worlds: what every telling says, what its answer is, and who believes what."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.small_worlds import small
from tomserve import benchmarks
from tomserve.benchmarks.counterfactuals import Case, find_problem
from tomserve.benchmarks.worlds import rules, variants
from tomserve.benchmarks.worlds.benchmark import cases, find_world_cases, holders_of, load
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.generator import draw_worlds, items, label, question_text, sentences
from tomserve.benchmarks.worlds.lexicon import built_in, fill_phrasing
from tomserve.benchmarks.worlds.record import Question, Scene, World
from tomserve.benchmarks.worlds.variants import (
    PAIRS,
    STUCK,
    change_object,
    draw_twin,
    drop_scenes,
    find_protagonist,
    make_retell,
    read_record,
    recast,
    reorder_scenes,
    retell_question,
    retell_world,
    second_person,
)
from tomserve.errors import ConfigError, ContentError, InapplicableError
from tomserve.items import Item, write_items
from tomserve.variants import (
    CHANGES_TRUTH,
    CHOICES,
    CONDENSED,
    LEAST,
    MOST,
    OBJECT,
    ORDER,
    PARAPHRASE,
    PERSON,
    Kind,
    make_variants,
)

SCENARIOS = [(family.name, scenario) for family in FAMILIES for scenario in family.scenarios]
TWINS = [(family.name, scenario) for family in FAMILIES for scenario in family.twins]


@cache
def drawn(family: str, scenario: str, place: int = 0) -> World:
    return BY_NAME[family].world(built_in(), f"{family}-3-{place:04d}", scenario)


def text(world: World) -> list[str]:
    """All that a reader sees: the sentences, the questions, their choices."""
    shown = [label(world, key) for question in world.questions for key in question.choices]
    return [*sentences(world, built_in()), *(question_text(world, one, built_in()) for one in world.questions), *shown]


def same_answers(one: World, other: World) -> bool:
    return [rules.answer(one, q) for q in one.questions] == [rules.answer(other, q) for q in other.questions]


VERBS = "is was has does goes says knows thinks wants sees hears looks takes puts".replace(" ", "|")
DISAGREES = re.compile(
    rf"\b(?i:you) (?:{VERBS})\b|\b(?:Is|is|Has|has|Does|does|Was|was) you\b(?! and)|\byou (?:me|I|you)\b"
    r"|\byour(?:s?[.,;:?!]|$)|\bby you are|\byou's\b|[.!?]\"? you"
    r"|\b(?:absence|presence|eyes|opinion|mind|view|hands|back|name|words) of you\b|\b(?i:you)\b[^.;:?!]*\bthemselves\b"
)
"""Where "you" has a verb of the third person, is called "themselves", or a possessive stands alone, or a sentence begins
without a capital, or "of you" stands for "your"."""


@pytest.mark.parametrize(("family", "scenario"), SCENARIOS)
def test_a_story_told_to_the_protagonist_says_you_and_no_telling_changes_an_answer(family: str, scenario: str) -> None:
    world = drawn(family, scenario)
    key = find_protagonist(world)
    other, second = recast(world, built_in()), second_person(world)
    assert recast(world, built_in()) == other
    assert other.people[key].name[0] not in {person.name[0] for person in world.people.values()}
    assert text(second) == text(second_person(other)), "the same words whatever their name and gender were"
    assert world.people[key].name not in re.findall(r"\w+", " ".join(text(second)))
    assert [one for one in text(second) if DISAGREES.search(one)] == []
    for part, roles in (("roles", world.scenes), ("short", world.scenes), ("questions", world.questions)):
        for one in roles:
            for phrasing in built_in().phrasings(world.family, one.role, part):
                told = {fill_phrasing(phrasing, one.slots, w.people, w.words, second=key) for w in (world, other)}
                assert len(told) == 1, told
                assert not DISAGREES.search(min(told)), told
    thing = change_object(world, built_in())
    for changed in (other, second, drop_scenes(world, {"filler"}), *([thing] if thing else [])):
        assert same_answers(world, changed)


def kind(one: Question) -> tuple[object, ...]:
    return one.kind, one.who, one.fact, one.role, frozenset(one.choices)


@pytest.mark.parametrize(("family", "scenario"), TWINS)
def test_twins_and_cases_ask_the_same_people_the_same(family: str, scenario: str) -> None:
    found = 0
    for world in (drawn(family, scenario, place) for place in range(2)):
        other, name = draw_twin(world, built_in()), world.people[find_protagonist(world)].name
        assert other.people == world.people
        assert set(map(kind, other.questions)) <= set(map(kind, world.questions))
        cases = [one for one in find_world_cases(world, built_in()) if isinstance(one, Case)]
        made = [(one.f, one.own, one.own_twin) for one in cases]
        of_f, learned = {f.id for f, _, _ in made}, {kind(one): rules.answer(other, one) for one in other.questions}
        for item in items(world, built_in()):
            about = item.factors["asked"] == find_protagonist(world) and item.factors["condition"] == "false_belief"
            about = about and item.factors.get("scene") in (None, 5)  # in earlier scenes, twins do not differ
            if about and item.factors["dimension"] in ("belief", "action", "intention"):
                same = learned.get(kind(read_record(item).questions[0])) in (None, item.factors["answer_key"])
                assert same or item.id in of_f, "without cause and percept, the protagonist's belief is the right one"
        for f, p, p_twin in made:
            found += 1
            assert (p.base, p_twin.base) == (f.id, f.id)
            assert (p.factors["variant"], p_twin.factors["variant"]) == ("ppt_p", "ppt_p_twin")
            assert p.factors["answer_key"] == f.factors["answer_key"] != p_twin.factors["answer_key"]
            assert p.factors["condition"] in ("true_belief", None), "what p's person believes is so, or is not said"
            if f.factors["order"] == 1:
                assert p_twin.factors["condition"] == "true_belief"
                assert f.factors["dimension"] != "belief" or f.answer != f.factors["reality"]
            assert len({read_record(one).questions[0].choices for one in (f, p, p_twin)}) == 1
            for item in (p, p_twin):
                words = " ".join((*item.story, item.question, *item.choices))
                assert name not in re.findall(r"\w+", words)
                assert re.search(r"\b(you|your)\b", words, re.IGNORECASE)
                assert not DISAGREES.search(words)
                assert not re.search(r"\byou(r|rself)?\b", " ".join(item.choices), re.IGNORECASE)
            assert len(p.story) < len(f.story)
    assert found


def test_worlds_without_a_twin() -> None:
    assert draw_twin(drawn("transfer", "no_transfer"), built_in()) is None
    world = drawn("transfer", "false_belief")
    scenes = (*world.scenes[:-1], world.scenes[-1].model_copy(update={"role": "put"}))
    with pytest.raises(ContentError, match="was drawn from other words than these"):
        draw_twin(world.model_copy(update={"scenes": scenes}), built_in())


UNREADABLE = [
    ({"peeple": {}}, "peeple: unknown key; did you mean 'people'? Known: "),
    ({"second": "Z"}, "world: the story is told to 'Z', who is nobody of this world"),
]


@pytest.mark.parametrize(("change", "said"), UNREADABLE)
def test_items_without_a_readable_record_are_refused_by_name(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    item, path = next(items(drawn("transfer", "false_belief"), built_in())), tmp_path / "worlds.jsonl"
    path.write_bytes(item.model_copy(update={"world": item.world | change}).to_json())
    with pytest.raises(ContentError) as raised:
        list(load(path))
    assert str(raised.value).startswith(f"{path}: item {item.id!r}: its record of a world: {said}")
    with pytest.raises(ConfigError, match=f"item {item.id!r} has no record of a world"):
        read_record(item.model_copy(update={"world": None}))


RETELL = make_retell()


@cache
def originals() -> tuple[Item, ...]:
    """Items of a world of each family in each scenario, some hundreds."""
    told = [(f, scenario, place) for f in FAMILIES for place, scenario in enumerate(f.scenarios)]
    drawn = [f.world(built_in(), f"{f.name}-5-{place:04d}", scenario) for f, scenario, place in told]
    found = [one for world in drawn for one in items(world, built_in(), questions=range(min(len(world.questions), 5)))]
    return tuple(item.model_copy(update={"canary": "a canary"}) for item in found)


SEES = re.compile(r"transparent|see-through|\bopen\b|glass|crystal|label|wire")


def other_thing(original: Item, one: Item, world: World, told: World, places: tuple[int, ...]) -> None:
    """Another object has other words, into which one cannot see, and no old one is left."""
    changed = {key for key in world.words if world.words[key] != told.words[key]}
    gone = {world.words[key] for key in changed} - set(told.words.values())
    text = " ".join((*one.story, one.question, *one.choices))
    assert gone
    assert not [word for word in gone if "{" not in word and re.search(rf"\b{re.escape(word)}\b", text)]
    assert not [key for key in changed if SEES.search(told.words[key])]
    values = [key for key in world.facts[world.questions[0].fact] if key in world.words]
    if world.family not in ("causal", "appearance") or ("work" not in world.words and world.family != "causal"):
        assert all(label(told, key) != label(world, key) for key in values)
        real = {label(world, key): label(told, key) for key in values}.get(str(original.factors["reality"]))
        assert one.factors["reality"] == (real or original.factors["reality"])


def other_person(original: Item, one: Item, world: World, told: World, places: tuple[int, ...]) -> None:
    """No trace of the old person is left."""
    old, new = (w.people[find_protagonist(world)] for w in (world, told))
    said = [set(re.findall(r"[\w-]+", " ".join((*i.story, i.question, *i.choices)))) for i in (original, one)]
    assert old.name not in said[1]
    assert (old.gender != new.gender, old.culture != new.culture) == (True, True)
    assert (old.name in said[0]) <= (new.name in said[1])


def fewer_words(original: Item, one: Item, world: World, told: World, places: tuple[int, ...]) -> None:
    """30 to 40 percent shorter, without fillers."""
    before, after = (sum(len(text.split()) for text in item.story) for item in (original, one))
    assert 1 - MOST <= after / before <= 1 - LEAST
    assert "filler" not in {scene.part for scene in told.scenes}
    assert list(places) == sorted(places)
    for text, place in zip(one.story, places, strict=True):
        assert len(text.split()) <= len(original.story[place].split())


def other_words(original: Item, one: Item, world: World, told: World, places: tuple[int, ...]) -> None:
    """Every sentence is said by another entry of its file."""
    assert all(before != after for before, after in zip(original.story, one.story, strict=True))
    assert one.question != original.question
    assert one.choices == original.choices
    for before, after in zip(world.scenes, told.scenes, strict=True):
        offered = built_in().phrasings(world.family, before.role)
        old, new = (offered[scene.phrasing % len(offered)] for scene in (before, after))
        assert not [
            group for group in built_in().group_phrasings(world.family, before.role) if old in group and new in group
        ]


def other_order(original: Item, one: Item, world: World, told: World, places: tuple[int, ...]) -> None:
    """Neighbours of declared roles change places."""
    assert tuple(original.story[place] for place in places) == one.story
    assert sorted(places) == list(range(len(original.story)))
    moved = [place for new, place in enumerate(places) if new != place]
    assert moved
    for first, second in zip(moved[::2], moved[1::2], strict=True):
        assert first == second + 1
        assert (world.scenes[second].role, world.scenes[first].role) in PAIRS[world.family]
        assert not re.match(r"Then|After|Later|Now|With that", "".join(original.story[second + 2 : second + 3]))


OF_KIND = [(OBJECT, other_thing, 1), (PERSON, other_person, 1), (PARAPHRASE, other_words, 1)]
OF_KIND += [(CONDENSED, fewer_words, 0.93), (ORDER, other_order, 0.87)]


@pytest.mark.parametrize(("kind", "holds", "least"), OF_KIND, ids=lambda value: getattr(value, "name", None))
def test_variants_are_there_true_and_changed(kind: Kind, holds: Any, least: float) -> None:
    by_id, stories, families = {item.id: item for item in originals()}, defaultdict(set), set()
    found = [one for one in make_variants(originals(), [kind], lambda name: RETELL) if isinstance(one, Item)]
    assert len(found) >= least * len(originals())
    for number, one in enumerate(found):
        original = by_id[str(one.base)]
        world = read_record(original)
        told, places = retell_world(world, kind, built_in())
        stories[original.story].add(one.story)
        families.add(world.family)
        if number % 3 == 0:
            question = retell_question(told, world.questions[0], kind, places, built_in())
            (again,) = items(told.model_copy(update={"questions": (question,)}), built_in())
            assert (one.story, one.question, one.choices) == (again.story, again.question, again.choices)
            assert (one.answer, one.gold) == (again.answer, again.gold)
        assert world.questions[0].choices[one.choices.index(one.answer)] == original.factors["answer_key"]
        assert [one.meaning(choice) for choice in one.choices] == list(original.choices)
        assert (one.id, one.cluster, one.canary) == (f"{original.id}/{kind.name}", original.cluster, "a canary")
        own = {"variant": kind.name, "variant_by": "record", "sentences": len(one.story)}
        own["reality"] = one.factors["reality"]
        assert one.factors == {**original.factors, **own}
        assert one.gold is None or len(one.gold.sets or ()) == len(one.story)
        holds(original, one, world, told, places)
    assert {len(told) for told in stories.values()} == {1}, "all questions about a story get the same retold story"
    assert families == set(BY_NAME)


def test_all_tellings_of_a_world_get_the_same_person_and_the_same_object() -> None:
    for family in FAMILIES:
        told = [family.world(built_in(), f"{family.name}-5-0001", scenario) for scenario in family.versions[-1]]
        assert len({retell_world(world, PERSON, built_in())[0].people["P"] for world in told}) == 1
        named = [retell_world(world, OBJECT, built_in())[0].words for world in told]
        assert all(named[0].get(key) == text for other in named for key, text in other.items() if key in "xyzw")


def _asked(world: World, **question: Any) -> Item:
    one = Question(kind="reality", fact="place", choices=("x", "y", "z"), role="reality", **question)
    (item,) = items(world.model_copy(update={"questions": (one,)}), built_in())
    return item


def _moves() -> World:
    """A world in which a thing is moved by two sentences whose roles may change places."""
    world = BY_NAME["transfer"].world(built_in(), "transfer-5-0000", "no_transfer")
    slots = [({"A": "S", "l": key}, (f"fact place={key} seen S",)) for key in "xy"]
    moves = [Scene(role="elsewhere", slots=slot, phrasing=0, events=events) for slot, events in slots]
    return world.model_copy(update={"scenes": tuple(moves)})


def test_where_the_truth_would_change_or_no_other_telling_is_there_is_no_variant() -> None:
    lexicon, moves = built_in(), _moves()
    short, _ = variants.condense(BY_NAME["transfer"].world(lexicon, "transfer-5-0000", "false_belief"), lexicon)
    brief = short.model_copy(update={"scenes": tuple(one.model_copy(update={"told": "short"}) for one in short.scenes)})
    scenes = tuple(Scene(role="elsewhere", slots={"A": "S", "l": k}, phrasing=n) for k, n in (("x", 2), ("y", 1)))
    leaning = moves.model_copy(update={"scenes": scenes})
    unsettled = moves.model_copy(
        update={"scenes": (moves.scenes[0], moves.scenes[1].model_copy(update={"events": ()}))}
    )
    assert _asked(unsettled).gold is not None
    for make, reason in (
        (lambda: variants.condense(brief, lexicon), variants.NOT_SHORTER),
        (
            lambda: reorder_scenes(leaning, ("Then Ann ties a ribbon to the box.", "Ann oils a hinge of the tin.")),
            STUCK,
        ),
        (lambda: RETELL(_asked(moves), ORDER), CHANGES_TRUTH),
        (lambda: RETELL(_asked(moves, at=0), ORDER), variants.MOMENT),
        (lambda: RETELL(_asked(unsettled), ORDER), variants.UNSETTLED),  # its place is none of the choices at first
        (lambda: retell_world(moves, CHOICES, lexicon), "know no variant 'choices'"),
    ):
        with pytest.raises(InapplicableError, match=re.escape(reason)):
            make()
    assert reorder_scenes(leaning, ("Ann dusts the box.", "Ann oils a hinge of the tin."))[1] == (1, 0)
    for family, pairs in PAIRS.items():
        assert all(built_in().phrasings(family, role) for pair in pairs for role in pair)


def test_what_cannot_be_told_again_is_dropped_with_a_reason() -> None:
    original = next(item for item in originals() if item.factors["order"] == 1)
    wrong = next(choice for choice in original.choices if choice != original.answer)

    def world(**changed: Any) -> dict[str, Any]:
        return {"world": {**original.world, **changed}}

    for change, reason in (
        ({"world": None}, variants.NO_RECORD),
        (world(people=3), variants.NO_RECORD),
        (world(family="../words"), variants.NO_FAMILY),
        (world(scenes=[{"role": "nowhere"}]), variants.OTHER_WORDS),
        ({"story": ("Ann has a box.", *original.story[1:])}, variants.OTHER_WORDS),
        ({"question": "What now?"}, variants.OTHER_WORDS),
        ({"answer": wrong}, variants.OTHER_WORDS),
    ):
        with pytest.raises(InapplicableError, match=re.escape(reason)):
            RETELL(original.model_copy(update=change), PERSON)


@pytest.fixture(scope="module")
def made() -> list[Case]:
    """What the questions of two worlds of each family make."""
    drawn, mark = draw_worlds(built_in(), 2 * len(FAMILIES), 3), {"canary": "canary"}
    found = (find_world_cases(world, built_in(), lambda item: item.model_copy(update=mark)) for world in drawn)
    return [case for cases in found for case in cases if isinstance(case, Case)]


def test_every_family_makes_cases_whose_twin_asks_and_offers_what_f_does(made: list[Case]) -> None:
    assert {case.family for case in made} == {family.name for family in FAMILIES}
    for case in made:
        assert find_problem(case) is None
        assert {case.f.canary, case.own.canary, case.own_twin.canary} == {"canary"}
        world, noticed = read_record(case.f), draw_twin(read_record(case.f), built_in())
        assert world.second is read_record(case.twin).second is None
        assert (case.twin.question, case.twin.choices) == (case.f.question, case.f.choices)
        assert read_record(case.twin).scenes == read_record(case.own_twin).scenes == noticed.scenes
        assert world.people[find_protagonist(world)].name in " ".join(case.twin.story)


def test_a_cue_parts_from_the_belief_where_the_twin_learns_otherwise_or_words_are_doubted(made: list[Case]) -> None:
    assert {(case.family, case.parted) for case in made if case.parted} == {
        ("contents", "informed"),
        ("transfer", "informed"),
        ("testimony", "trusted_false"),
        ("testimony", "distrusted_true"),
    }
    for case in made:
        f, twin = (
            [event for scene in read_record(one).scenes for event in scene.events] for one in (case.f, case.twin)
        )
        new = [event.split()[0] for event in twin if event not in f]
        assert case.parted != "informed" or new == ["tell"], "what P saw is the same"
        assert case.family != "testimony" or new == ["see"], "what P was told is the same"


def test_labels_are_what_the_rules_say_that_people_believe(made: list[Case]) -> None:
    labelled = [case for case in made if case.holders]
    assert {case.family for case in labelled} >= {"contents", "transfer", "causal", "second_order", "valley"}
    for case in labelled:
        holders = case.holders
        assert holders["protagonist"] == case.f.answer
        assert holders["protagonist_in_twin"] == case.f.choices[case.true_choice]
        assert {name: case.f.factors[name] for name in holders} == dict(holders)
        if case.f.factors["order"] == 1:
            assert holders["reality"] != holders["protagonist"]
            assert holders["reality_in_twin"] == holders["protagonist_in_twin"]
    contents = [case.holders for case in labelled if case.family == "contents"]
    assert all(len({one["protagonist"], one["other"], one["reality"]}) == 3 for one in contents)
    assert all(one["other"] == one["other_in_twin"] for one in contents)  # who put it in first left before the second
    assert not any(case.holders for case in made if case.f.factors["kind"] in ("feeling", "reply_about"))


def test_a_world_by_hand_has_the_labels_that_a_reader_gives_it() -> None:
    question = Question(kind="belief", who=("P",), fact="place", choices=("x", "y", "z", "unknown"), role="belief")
    lines = ("fact place=x seen P, Q, R, S", "fact place=y seen Q, R", "fact place=z seen Q")
    missed = small(*lines, questions=(question,))
    noticed = small(*lines[:2], "fact place=z seen Q, P", questions=(question,))
    assert rules.answer(missed, question) == "x"
    told = ("drawer", "basket", "chest", "chest", "basket", "chest")
    names = ("protagonist", "other", "reality", "protagonist_in_twin", "other_in_twin", "reality_in_twin")
    assert holders_of(missed, noticed) == dict(zip(names, told, strict=True))


def test_a_file_makes_the_cases_of_its_worlds_under_its_own_ids(tmp_path: Path) -> None:
    world = BY_NAME["transfer"].world(built_in(), "transfer-3-0001", "false_belief")
    told = list(items(world, built_in()))
    write_items(path := tmp_path / "worlds.jsonl", told)
    found = [case for case in cases(path) if isinstance(case, Case)]
    assert found == [case for case in find_world_cases(world, built_in()) if isinstance(case, Case)] != []
    usual = list(benchmarks.get("worlds").found_cases(path))
    assert [case.f.factors["kind"] for case in usual] == ["belief", "action"]
    changed = [item.model_copy(update={"question": "Where?"}) for item in told if item.factors["asked"] == "P"]
    write_items(path, changed)
    with pytest.raises(ContentError, match=r"worlds\.jsonl:\d+: item 'transfer-3-0001/.*told otherwise than its rec"):
        list(cases(path))
