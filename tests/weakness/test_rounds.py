"""The rounds of a search: which questions are asked, that they follow from the answers, and what is found."""

from collections.abc import Callable
from random import Random

import numpy as np
import polars as pl
import pytest

from tests.weakness.designs import DESIGN, FACTORS, weak_in
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.studies import compute
from tomserve.weakness.design import DESIGNS, Cell, write_cell
from tomserve.weakness.estimate import Record, count_random, estimate_cells, estimate_surface, level_rows
from tomserve.weakness.model import Cells, fit, scan
from tomserve.weakness.rounds import CONFIRMED, PART, RANDOM, SEARCH, TWIN, Search, SearchSettings

SETTINGS = SearchSettings("worlds", 600, seed=4)
PAIR: Cell = (("colour", "red"), ("size", "big"))


def asked(answer: Callable[[Item], bool], settings: SearchSettings = SETTINGS) -> list[list[Item]]:
    search, rounds, answers = Search(settings, DESIGN), [], {}
    while items := search.following(answers):
        answers |= {item.id: bool(answer(item)) for item in items}
        rounds.append(items)
    return rounds


def scored(answer: Callable[[Item], bool], settings: SearchSettings = SETTINGS) -> pl.DataFrame:
    items = [item for found in asked(answer, settings) for item in found]
    rows = [{"item": item.id, "correct": answer(item), **item.factors} for item in items]
    return level_rows(pl.DataFrame(rows, infer_schema_length=None), FACTORS)


def found(answer: Callable[[Item], bool], settings: SearchSettings = SETTINGS) -> list[Record]:
    return estimate_cells(scored(answer, settings), FACTORS, ())


def test_a_search_spends_its_budget_and_confirms_by_stories_that_it_never_saw() -> None:
    rounds = asked(weak_in(colour="red"))
    items = [item for one in rounds for item in one]
    parts = {part: [item for item in items if item.factors[PART] == part] for part in (SEARCH, CONFIRMED, RANDOM, TWIN)}
    assert [len(one) for one in rounds[:-1]] == [48, *[24] * 10, 12]
    assert len({item.id for item in items}) == len(items) <= SETTINGS.budget
    assert all(item.factors[PART] == SEARCH for one in rounds[:-1] for item in one)
    seen, fresh = ({item.cluster for part in some for item in parts[part]} for some in ((SEARCH,), (CONFIRMED, RANDOM)))
    assert not seen & fresh
    assert all("anew" in item.story[0] for part in (CONFIRMED, RANDOM, TWIN) for item in parts[part])
    assert len({item.cluster for item in parts[CONFIRMED]}) == len(parts[CONFIRMED]) == len(parts[RANDOM])
    twins = {item.cluster: item for item in parts[TWIN]}
    assert all(twins[item.cluster].answer != item.answer for item in parts[CONFIRMED])


def test_a_search_goes_where_the_model_is_weak() -> None:
    rounds = asked(weak_in(colour="red", size="big"))
    items = [item for one in rounds[:-1] for item in one]
    share = sum(item.factors["colour"] == "red" and item.factors["size"] == "big" for item in items) / len(items)
    assert share > 1 / 3  # one in nine of all questions lies there


@pytest.mark.parametrize("weak", [{"colour": "red"}, {"colour": "red", "size": "big"}])
def test_a_known_weak_cell_is_found_and_confirmed(weak: dict[str, str]) -> None:
    first = found(weak_in(**weak))[0]
    assert first["cell"] == write_cell(tuple(weak.items()))
    assert first["weak"]
    assert first["ci_low"] < 1 / 3 < first["ci_high"] < first["elsewhere"]
    assert first["diff_low"] < first["difference"] < first["diff_high"] < 0
    assert first["random_needed"] > 0
    assert first["asked"] <= SETTINGS.budget


def test_the_accuracy_of_an_unfinished_search_is_that_of_its_random_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later rounds ask where the model seems weak, and say nothing of all questions; nor is it known where it breaks."""
    monkeypatch.setitem(DESIGNS, "worlds", DESIGN)
    answer = weak_in(colour="red", size="big")
    begun, more = asked(answer)[:2]
    rows = [{"item": one.id, "correct": answer(one), **one.factors} for one in [*begun, *more]]
    who = {"benchmark": "worlds", "model": "m", "strategy": "vanilla", "status": "ok", "answer": "tea"}
    made = compute(pl.DataFrame([{**who, **row} for row in rows], infer_schema_length=None), "search")
    right = sum(map(answer, begun))
    assert made.tables["accuracy"].select("correct", "total").row(0) == (right, 48)
    assert [card.verdict for card in made.verdicts()[0].cards] == ["Not known yet"]


def test_where_nothing_is_weak_nothing_is_called_weak() -> None:
    rows = [row for seed in range(5) for row in found(weak_in(), SearchSettings("worlds", 300, seed))]
    assert rows
    assert not any(row["weak"] for row in rows)
    assert {row["random_needed"] for row in rows} == {None}


@pytest.mark.parametrize(("known", "weak"), [(0.0, False), (0.6, True)])
def test_a_guess_among_more_choices_is_no_weakness(known: float, weak: bool) -> None:
    """Who guesses one in five of the red boxes, and one in two of the others, is as weak everywhere; who knows three
    fifths of the others is not."""
    shares = {True: 0.2, False: known + (1 - known) / 2}
    rows = scored(lambda item: Random(f"guess/{item.id}").random() < shares[item.factors["colour"] == "red"])
    chances = rows.with_columns(floor_guess=pl.when(colour="red").then(0.2).otherwise(0.5))
    first, before = (estimate_cells(some, FACTORS, ())[0] for some in (chances, rows))
    assert (first["cell"], first["weak"], before["weak"]) == ("colour=red", weak, True)
    assert first["guess_difference"] == pytest.approx(-0.3 * (1 - known), abs=0.06)


def test_the_same_answers_give_the_same_rounds_and_others_give_others() -> None:
    answer, settings = weak_in(colour="red"), SearchSettings("worlds", 200)
    whole, again = asked(answer, settings), Search(settings, DESIGN)
    answers = {item.id: answer(item) for one in whole for item in one}
    assert [again.following(answers) for _ in whole] == whole
    assert again.following(answers) == []
    assert asked(weak_in(colour="blue"), settings)[1:] != whole[1:]
    assert Search(SearchSettings("worlds", 200, seed=5), DESIGN).following({}) != whole[0]


def test_a_question_without_an_answer_counts_as_wrong() -> None:
    searches = [Search(SETTINGS, DESIGN) for _ in range(2)]
    first, _ = (search.following({}) for search in searches)
    wrong = {item.id: item.factors["colour"] != "red" for item in first}
    none = {name: answer for name, answer in wrong.items() if answer}
    assert searches[0].following(wrong) == searches[1].following(none)


def test_the_surface_shows_the_weak_cell_as_its_lowest() -> None:
    rows = scored(weak_in(colour="red", size="big"))
    for cell in (PAIR, PAIR[:1]):
        surface = list(estimate_surface(rows, FACTORS, cell))
        assert {(row["factor"], row["other"]) for row in surface} == {("colour", "size")}
        lowest = min(surface, key=lambda row: row["expected"])
        assert (lowest["level"], lowest["other_level"]) == ("red", "big")


def cells() -> Cells:
    levels = [{"colour": c, "size": s} for c in ("red", "green", "blue") for s in ("big", "small") for _ in range(40)]
    return Cells.of(levels)


def test_cells_are_all_levels_and_pairs_once() -> None:
    names = cells().names
    assert [len(name) for name in names] == [1] * 5 + [2] * 6
    assert PAIR in names
    assert Cells.of([{"colour": colour, "size": "big"} for colour in "rg"]).names == (
        (("colour", "g"),),
        (("colour", "r"),),
    )


def test_a_pair_without_answers_is_expected_where_its_levels_predict() -> None:
    space = cells()
    member = space.member.astype(float)
    hidden = space.names.index(PAIR)
    places = np.flatnonzero(~space.member[:, hidden])
    right = np.where(
        member[places, space.names.index(PAIR[:1])] + member[places, space.names.index(PAIR[1:])] > 0, 0.4, 0.9
    )
    right = (np.arange(places.size) % 10 < 10 * right).astype(float)
    mean = fit(space, *space.count(places, right), float(right.mean())).mean
    singles = [mean[space.names.index(one)] for one in (PAIR[:1], PAIR[1:])]
    assert mean[hidden] < min(singles)
    assert scan(space, places, right)[hidden] == 0


def test_counts_of_random_questions() -> None:
    assert count_random(0.5, 0.8, 0.05, 300) > count_random(0.5, 0.8, 0.2, 300) > count_random(0.2, 0.8, 0.2, 300)  # type: ignore[operator]
    assert (
        count_random(0.8, 0.5, 0.1, 10) is count_random(0.5, None, 0.1, 10) is count_random(0.5, 0.8, 0.0, 10) is None
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [({"budget": 10}, "--budget 10"), ({"seed": -1}, "--seed -1"), ({"benchmark": "bigtom"}, "generator")],
)
def test_impossible_settings_are_refused(given: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SearchSettings(**{"benchmark": "worlds", "budget": 600, **given})
