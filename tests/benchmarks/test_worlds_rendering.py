"""From words to sentences, from worlds to items, and the drawing of worlds by a seed."""

import pytest

from tests.helpers.small_worlds import PEOPLE, ask, small
from tomserve.benchmarks.worlds.audit import all_knowing, find_missing_brief, find_slips, phrasing_slots, reality
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.generator import draw_worlds, items, label, sentences
from tomserve.benchmarks.worlds.lexicon import built_in, expand_phrasing, fill_phrasing
from tomserve.benchmarks.worlds.record import World
from tomserve.items import UNKNOWN

WORDS = {
    **{"o": "key", "x": "oboe case", "u": "ukulele", "h": "hourglass", "e": "umbrella", "t": "one-way ticket"},
    "c": "that {P} {P:is|are|am} late",
}


def said(phrasing: str, **how: str | None) -> str:
    return fill_phrasing(phrasing, {"A": "P", "B": "Q"}, PEOPLE, WORDS, **how)


SAID = [
    ("{A} {A:puts|put} {A.his} {o} down.", "Ann puts her key down.", "You put your key down."),
    ("{B} gives {A} {A.his} {o}.", "Ben gives Ann her key.", "Ben gives you your key."),
    ("{A's} {o} is safe, {A.he} {A:thinks|think}.", "Ann's key is safe, she thinks.", "Your key is safe, you think."),
    ("{B} lets {A} help {A.himself}.", "Ben lets Ann help herself.", "Ben lets you help yourself."),
    ("It rains. {A} {A:goes|go}.", "It rains. Ann goes.", "It rains. You go."),
    (
        "A {x}, a {u}, a {h}, a {e} and a {t}.",
        *["An oboe case, a ukulele, an hourglass, an umbrella and a one-way ticket."] * 2,
    ),
]


def test_people_are_named_by_slots_in_all_three_persons() -> None:
    for phrasing, third, second in SAID:
        assert (said(phrasing), said(phrasing, second="P")) == (third, second)
    assert said("{A} {A:sees|see} {B's} {o}.", second="Q") == "Ann sees your key."
    assert said("{A} {A:believes|believe} {A:is|are|am} {A.he}", first="P") == "I believe am I"
    assert [said("{c}", **how) for how in ({"first": "P"}, {"second": "P"})] == ["that I am late", "that you are late"]
    assert said("{c}", second="P", first="P") == "that I am late", "whoever says I is not called you"
    assert said("{A} {A:does|do} it {A.himself} for {A.him}", first="P") == "I do it myself for me"
    for phrasing, reason in (("{A} has the {w}.", "nothing to fill {w}"), ("{A.she} goes.", "{A.she} is no pronoun")):
        with pytest.raises(ValueError, match=reason):
            said(phrasing)
    assert phrasing_slots("{A} {B:has|have} {C.his} {o}, {D's} {l}.") == {*"ABCDol"}


def test_alternatives_are_written_out_and_leave_the_forms_of_a_verb_together() -> None:
    for phrasing, count in (
        ("({A} goes|{A} {A:leaves|leave}) (now|today|at once).", 6),
        ("(In the end |){A} goes.", 2),
    ):
        found = expand_phrasing(phrasing)
        assert len(set(found)) == count
        assert all(text.count("{") == text.count("}") and "  " not in text for text in found)
    assert expand_phrasing("({A:goes|go}|{A:leaves|leave}) now") == ("{A:goes|go} now", "{A:leaves|leave} now")


def world(scenario: str = "false_belief") -> World:
    return BY_NAME["transfer"].world(built_in(), "transfer-4-0002", scenario)


@pytest.mark.parametrize("name", BY_NAME)
def test_items_carry_their_world_of_which_they_are_made_again(name: str) -> None:
    told = [BY_NAME[name].world(built_in(), f"{name}-4-0000", scenario) for scenario in BY_NAME[name].scenarios]
    assert [*find_missing_brief(told, built_in()), *find_slips(told, built_in())] == [], (
        "every role is said briefly without a slip"
    )
    for one in told:
        for item in items(one, built_in()):
            assert (item.cluster, item.story) == (one.name, sentences(one, built_in()))
            own = World.model_validate(item.world)
            assert own.model_copy(update={"questions": one.questions}) == one
            (again,) = items(own, built_in())
            same = ("question", "choices", "answer", "gold")
            assert [getattr(again, field) for field in same] == [getattr(item, field) for field in same]


def test_gold_is_there_where_every_sentence_settles_the_question() -> None:
    whole = list(items(world(), built_in()))
    belief = next(item for item in whole if item.factors["asked"] == "P")
    assert len(belief.gold.sets) == len(belief.story)
    assert (belief.gold.sets[0], belief.gold.sets[-1]) == ((UNKNOWN,), (belief.answer,))
    assert next(item for item in whole if item.factors["task"] == "action").gold is None
    # What the rules do not settle is left out, and the ids of the others stay; some questions can be asked alone.
    unsettled = world().questions[0].model_copy(update={"kind": "desire", "who": ("R",)})
    changed = world().model_copy(update={"questions": (unsettled, *world().questions[1:])})
    assert [item.id for item in items(changed, built_in())] == [item.id for item in whole][1:]
    assert [item.id for item in items(world(), built_in(), questions=[1, 3])] == [whole[1].id, whole[3].id]
    for scenario, knows in (("false_belief", False), ("informed_protagonist", True)):
        asked_of = [item for item in items(world(scenario), built_in()) if item.factors["asked"] == "P"]
        (belief,) = [item for item in asked_of if item.factors["kind"] == "belief"]
        assert all_knowing(belief) == reality(belief)
        assert (all_knowing(belief) == belief.answer) is knows


def test_the_condition_compares_the_belief_with_what_is_so_and_the_reader_is_called_you() -> None:
    for lines, condition in (
        (("fact place=x seen P", "fact place=y"), "false_belief"),
        (("fact place=x seen P",), "true_belief"),
        (("fact place=x",), "ignorance"),
    ):
        changed = {"role": "closing", "slots": dict.fromkeys("abc", "o")}
        scenes = tuple(scene.model_copy(update=changed) for scene in small(*lines).scenes)
        question = ask("belief", "place", "P", slots={"A": "P"})
        (item,) = items(small(scenes=scenes, questions=(question,)), built_in())
        assert [item.factors[name] for name in ("condition", "order", "asked")] == [condition, 1, "P"]
    second = small("fact culprit=Q", second="Q")
    assert [label(second, key) for key in ("P", "Q", "x", UNKNOWN)] == ["Ann", "you", "drawer", UNKNOWN]
    assert label(second, "Q", first="Q") == "I"


def test_more_worlds_begin_with_the_fewer_and_another_seed_draws_others() -> None:
    first, fewer, other = (list(draw_worlds(built_in(), *given)) for given in ((14, 5), (7, 5), (7, 6)))
    assert fewer == first[: len(fewer)]
    assert {repr(one.scenes) for one in fewer}.isdisjoint(repr(one.scenes) for one in other)
