"""A part of the items is drawn in whole units, spread over the design, nested, and by names and seed alone."""

import random
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tests.conftest import make_item
from tomserve import benchmarks
from tomserve.benchmarks import Draw
from tomserve.benchmarks.hitom.generator import items as generated
from tomserve.benchmarks.hitom.plan import Plan
from tomserve.items import Item
from tomserve.items.draw import describe, draw_places, limit_items

PERTURBED = benchmarks.get("perturbed")
ITEMS = list(PERTURBED.items())
TASKS = len({item.cluster for item in ITEMS})


def stories(items: list[Item]) -> dict[tuple[str, str], Counter[tuple[object, object]]]:
    """For each stage and class, how many questions about each story (scenario, swapped) there are."""
    found: dict[tuple[str, str], Counter[tuple[object, object]]] = defaultdict(Counter)
    for item in items:
        place = item.factors
        found[str(place["stage"]), str(place["perturbation"])][place["scenario"], place["swapped"]] += 1
    return found


@pytest.mark.parametrize("limit", [16, 88, 136, 352, 700])
def test_perturbed_stories_are_whole_and_all_tasks_get_equally_many(limit: int) -> None:
    part = limit_items(ITEMS, limit, PERTURBED.draw)
    found = stories(part)
    assert len(part) == limit
    assert {count for story in found.values() for count in story.values()} == {2}  # reality and belief
    sizes = [len(story) for story in found.values()] + [0] * (TASKS - len(found))
    assert max(sizes) - min(sizes) <= 1
    for (stage, _), story in found.items():
        assert limit == 136 or set(story) <= set(found[stage, "none"])  # which comes first where the stage is cut short
    if limit == 352:
        every, drawn = (Counter(item.factors["scenario"] for item in items) for items in (ITEMS, part))
        assert all(abs(drawn[scenario] / 352 - count / len(ITEMS)) < 0.06 for scenario, count in every.items())
        swapped = Counter(item.factors["swapped"] for item in part)
        assert abs(swapped[True] - swapped[False]) <= 40
        assert describe(part, ITEMS, PERTURBED.draw) == "352 of 1,088 questions: 176 stories of 68 tasks"


def test_larger_draws_hold_smaller_ones_whatever_the_order_of_the_file() -> None:
    shuffled = random.Random(1).sample(ITEMS, len(ITEMS))
    draws = []
    for limit in (1, 2, 7, 137, 500, 1088):
        found = {item.id for item in limit_items(ITEMS, limit, PERTURBED.draw)}
        assert found == {item.id for item in limit_items(shuffled, limit, PERTURBED.draw)}
        assert limit - 1 <= len(found) <= limit
        draws.append(found)
    assert all(small <= large for small, large in pairwise(draws))


def test_a_limit_below_one_unit_draws_a_part_of_it() -> None:
    items = [make_item(number, cluster="demo/one" if number < 8 else "demo/two") for number in range(16)]
    part, whole = limit_items(items, 3), limit_items(items, 10)
    assert (len(part), len({item.cluster for item in part})) == (3, 1)
    assert len(whole) == 8  # two more would be a part of the other cluster
    assert {item.id for item in part} < {item.id for item in whole}
    assert describe(part, items, Draw()) == "3 of 16 questions: part of one cluster"
    assert describe(whole, items, Draw(unit=("story", "stories"))) == "8 of 16 questions: 1 story"
    assert describe([*part, items[15]], items, Draw()) == "4 of 16 questions: 2 clusters (2 of them in part)"
    alone = [make_item(number) for number in range(5)]
    assert describe(alone[:2], alone, Draw()) == "2 of 5 questions"  # every question is a unit of its own


def test_exported_items_are_drawn_as_in_their_benchmark() -> None:
    items = benchmarks.get("items")
    assert benchmarks.draw_of(items, {"perturbed"}) == PERTURBED.draw
    assert benchmarks.draw_of(items, {"hitom", "items", "nobody-knows-it"}) == benchmarks.get("hitom").draw
    assert benchmarks.draw_of(items, {"hitom", "perturbed"}) == Draw()
    assert benchmarks.draw_of(PERTURBED, {"hitom"}) == PERTURBED.draw
    mixed = [*ITEMS[:32], *(make_item(number, cluster=f"demo/{number % 4}") for number in range(12))]
    found = limit_items(mixed, 13, benchmarks.draw_of(items, {item.benchmark for item in mixed}))
    assert {count for name, count in Counter(item.cluster for item in found).items() if name.startswith("demo")} == {3}
    # Questions of one's own stay together although their factors have the names of another benchmark.
    factors = [{"scenario": str(n // 4), "swapped": bool(n % 2)} for n in range(16)]
    tasks = [make_item(n + 16 * t, cluster=f"own/{t}", factors=factors[n]) for t in range(4) for n in range(16)]
    found = limit_items(tasks, 50, benchmarks.draw_of(items, {"demo"}))
    assert list(Counter(item.cluster for item in found).values()) == [16] * 3


PLANS = [(Plan(stories=8, seed=3), "cluster", 5), (Plan(stories=8, seed=3, tells=(1,), twins=True), "twin", 20)]


@pytest.mark.parametrize(("plan", "unit", "size"), PLANS, ids=["orders", "twins"])
def test_orders_and_twins_of_a_story_are_never_torn(plan: Plan, unit: str, size: int) -> None:
    """Joint accuracy counts a story at all its orders, and a comparison of twins all of them."""
    items = list(generated(plan))
    for limit in (20, 27, 39, len(items)):
        part = limit_items(items, limit, benchmarks.get("hitom").draw)
        assert set(Counter(item.factors.get(unit, item.cluster) for item in part).values()) == {size}


def test_what_a_run_asks_already_comes_first() -> None:
    before = {item.id for item in random.Random(2).sample(ITEMS, 40)}  # as if drawn in another way

    def asked(limit: int) -> set[str]:
        return {ITEMS[place].id for place in draw_places(ITEMS, limit, PERTURBED.draw, before)}

    assert asked(40) == before
    assert asked(20) < before
    assert len(asked(20)) == 20
    assert asked(60) > before
    ours = {item.id for item in limit_items(ITEMS, 176, PERTURBED.draw)}
    for limit in (20, 176, 300):
        found = {ITEMS[place].id for place in draw_places(ITEMS, limit, PERTURBED.draw, ours)}
        assert found == {item.id for item in limit_items(ITEMS, limit, PERTURBED.draw)}
