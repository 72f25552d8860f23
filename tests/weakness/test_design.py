"""The designs of the benchmarks that can be searched: levels, twins, tellings, and phrasings that are really others."""

from itertools import islice

import pytest

from tomserve.items import Item
from tomserve.items.item import factor_text
from tomserve.weakness.design import DESIGNS, TELLING
from tomserve.weakness.rounds import label

FIRST = {"worlds": "contents-5-0000", "perturbed-2": "T02/induction_from_baseline/5000", "hitom": "hitom/d999c4cb3d57"}
"""The first story of the seed 5."""


def drawn(benchmark: str, seed: int = 5, fresh: bool = False, number: int = 8) -> list[list[Item]]:
    return list(islice(DESIGNS[benchmark].stories(seed, fresh, ()), number))


@pytest.mark.parametrize("benchmark", DESIGNS)
def test_every_question_has_a_level_of_every_factor_and_every_factor_varies(benchmark: str) -> None:
    design, stories = DESIGNS[benchmark], drawn(benchmark, number=30 if benchmark == "hitom" else 6)
    levels = [design.read_levels(item) for told in stories for item in told]
    for factor in set(design.factors) - {"perturbation", "kind", "scenario"}:
        assert len({one[factor] for one in levels}) > 1, factor
    assert {tuple(one) for one in levels} == {tuple(design.factors)}
    items = [item for told in stories for item in told]
    assert len({item.id for item in items}) == len(items)
    assert {item.base for item in items} == {None}
    labelled = (label(item, own, "search", 0) for item, own in zip(items, levels, strict=True))
    assert all(
        factor_text(one.factors[name]) == own[name] for one, own in zip(labelled, levels, strict=True) for name in own
    )


@pytest.mark.parametrize("benchmark", DESIGNS)
def test_a_twin_asks_the_same_in_another_telling_with_another_answer(benchmark: str) -> None:
    design, twins = DESIGNS[benchmark], 0
    for told in drawn(benchmark):
        for item in told:
            if (twin := design.find_twin(item, told)) is not None:
                twins += 1
                assert twin.cluster == item.cluster
                assert twin.story != item.story
                assert design.same(twin) == design.same(item)
                assert twin.factors.get(TELLING) == item.factors.get(TELLING)
    assert twins


@pytest.mark.parametrize("benchmark", DESIGNS)
def test_the_same_seed_gives_the_same_stories_and_another_other_ones(benchmark: str) -> None:
    first = drawn(benchmark, number=2)
    assert drawn(benchmark, number=2) == first
    assert first[0][0].cluster == FIRST[benchmark]  # also in another folder and on another machine
    assert not {item.cluster for told in drawn(benchmark, seed=6, number=2) for item in told} & {
        item.cluster for told in first for item in told
    }


@pytest.mark.parametrize("benchmark", DESIGNS)
def test_fresh_stories_are_told_by_other_wordings(benchmark: str) -> None:
    tellings = [{one.id: one for told in drawn(benchmark, fresh=fresh) for one in told} for fresh in (False, True)]
    pairs = [(item, tellings[1][name]) for name, item in tellings[0].items() if name in tellings[1]]
    assert len(pairs) > 20
    for item, same in pairs:
        if item.factors.get(TELLING) != "condensed":  # those have words of their own
            assert not set(item.story) & set(same.story)
            assert item.answer == same.answer


def test_levels_of_a_world_say_what_happens_in_it() -> None:
    for told in drawn("worlds", number=14):
        for item in told:
            if item.factors["family"] == "transfer" and item.factors["scenario"] == "no_transfer":
                assert DESIGNS["worlds"].read_levels(item)["moves"] == "0"
            if item.factors["family"] == "transfer" and item.factors.get("condition") == "false_belief":
                assert DESIGNS["worlds"].read_levels(item)["missed"] in ("1", "2")
