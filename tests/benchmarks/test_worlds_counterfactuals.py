"""Cases of worlds: what every telling says, what its answer is, and who believes what."""

from pathlib import Path

import pytest

from tests.helpers.small_worlds import small
from tomserve import benchmarks
from tomserve.benchmarks.counterfactuals import Case, find_problem
from tomserve.benchmarks.worlds import rules
from tomserve.benchmarks.worlds.benchmark import cases, find_world_cases, holders_of, label_case
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.generator import draw_worlds, items
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.record import Question
from tomserve.benchmarks.worlds.variants import draw_twin, find_protagonist, read_record
from tomserve.errors import ContentError
from tomserve.items import write_items


@pytest.fixture(scope="module")
def made() -> list[Case]:
    """What the questions of two worlds of each family make."""
    drawn = draw_worlds(built_in(), 2 * len(FAMILIES), 3)
    found = [label_case(one, "canary") for world in drawn for one in find_world_cases(world, built_in())]
    return [case for case in found if isinstance(case, Case)]


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
    assert (
        found
        == [case for one in find_world_cases(world, built_in()) if isinstance(case := label_case(one, None), Case)]
        != []
    )
    usual = list(benchmarks.get("worlds").found_cases(path))
    assert [case.f.factors["kind"] for case in usual] == ["belief", "action"]
    changed = [item.model_copy(update={"question": "Where?"}) for item in told if item.factors["asked"] == "P"]
    write_items(path, changed)
    with pytest.raises(ContentError, match=r"worlds\.jsonl:\d+: item 'transfer-3-0001/.*told otherwise than its rec"):
        list(cases(path))
