"""The designs of the benchmarks that can be searched: levels, twins, tellings, and phrasings that are really others."""

from __future__ import annotations

from itertools import islice

import pytest

from tomserve.items import Item
from tomserve.items.item import factor_text
from tomserve.weakness.design import DESIGNS, TELLING


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
    assert not {item.cluster for told in drawn(benchmark, seed=6, number=2) for item in told} & {
        item.cluster for told in first for item in told
    }


def test_fresh_worlds_are_told_by_other_phrasings() -> None:
    told = [drawn("worlds", fresh=fresh, number=12) for fresh in (False, True)]
    for one, other in zip(*told, strict=True):
        for item, same in zip(one, other, strict=False):
            if TELLING not in item.factors and item.id == same.id:
                assert not set(item.story) & set(same.story)
                assert item.answer == same.answer


def test_levels_of_a_world_say_what_happens_in_it() -> None:
    for told in drawn("worlds", number=14):
        for item in told:
            if item.factors["family"] == "transfer" and item.factors["scenario"] == "no_transfer":
                assert DESIGNS["worlds"].read_levels(item)["moves"] == "0"
            if item.factors["family"] == "transfer" and item.factors.get("condition") == "false_belief":
                assert DESIGNS["worlds"].read_levels(item)["missed"] in ("1", "2")


def test_levels_are_texts() -> None:
    assert [factor_text(value) for value in (None, True, 2, "x")] == ["none", "true", "2", "x"]
