"""The studies of BigToM, DynToM, ToMi, OpenToM and worlds, on answerers of known behaviour.
The study of ToMBench, on replies of known worth to files of our own."""

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.helpers import tombench
from tests.helpers.dyntom import write_trials
from tests.helpers.scored import answered, wrong_choice
from tomserve import benchmarks
from tomserve.benchmarks.published import bigtom as published_bigtom
from tomserve.benchmarks.published import tombench as published_tombench
from tomserve.benchmarks.worlds.generator import draw_worlds as drawn_worlds
from tomserve.benchmarks.worlds.generator import items as rendered
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.items import Item
from tomserve.studies import Context, analyze, load_study
from tomserve.studies.presentation import Card
from tomserve.studies.texts import Texts

DATA = ROOT / "tests/data"
RULES = benchmarks.get("dyntom").rules
Answerer = Callable[[Item], str | None]
Tables = dict[str, pl.DataFrame]


def scored(items: Sequence[Item], **answerers: Answerer) -> pl.DataFrame:
    """A score table of answerers, each under the name of a strategy; who gives None replies what cannot be read."""

    def reply(item: Item, answer: Answerer) -> str:
        said = answer(item)
        return json.dumps({"answer": said}) if said else "hm"

    return pl.concat(answered(items, partial(reply, answer=answer), strategy) for strategy, answer in answerers.items())


def study(items: Sequence[Item], intervals: str = "recommended", **answerers: Answerer) -> Tables:
    """The tables of the study of the items' benchmark."""
    return analyze(scored(items, **answerers), load_study(items[0].benchmark), intervals)


def told(found: Tables, name: str, question: str = "", chance: float = 0.5) -> Card:
    """The first card about the only model whose question has these words."""
    (verdict,) = load_study(name).verdicts(found, Context({"all": chance}))
    return next(card for card in verdict.cards if question in card.question)


def right(item: Item) -> str | None:
    return item.answer


def world(item: Item) -> str:
    return str(published_bigtom.RULES[0].answer(item))


def reality(item: Item) -> str | None:
    real = item.factors["reality"]
    return str(real) if real in item.choices else None


@pytest.fixture(scope="module")
def bigtom() -> list[Item]:
    """The small file, its four templates three times under other names, so that there are enough for intervals."""
    found = benchmarks.load("bigtom", DATA / "bigtom_small.csv", where=benchmarks.ALL)
    items = [item for item in found if item.factors["usable"]]
    copies = ({"id": f"{item.id}/{n}", "cluster": f"{item.cluster}/{n}"} for n in range(3) for item in items)
    return [item.model_copy(update=names) for item, names in zip(items * 3, copies, strict=True)]


@pytest.fixture(scope="module")
def dyntom(tmp_path_factory: pytest.TempPathFactory) -> list[Item]:
    return list(benchmarks.load("dyntom", write_trials(tmp_path_factory.mktemp("dyntom"), 12)))


@pytest.fixture(scope="module")
def worlds() -> list[Item]:
    lexicon = built_in()
    return [item for world in drawn_worlds(lexicon, 40, 5) for item in rendered(world, lexicon)]


@cache
def stories(benchmark: str, file: str) -> tuple[Item, ...]:
    return tuple(benchmarks.load(benchmark, DATA / file))


TOMI, OPENTOM = ("tomi", "tomi_small.txt"), ("opentom", "opentom_small")


@pytest.mark.parametrize(
    ("name", "shares", "joint", "differences"),
    [
        ("bigtom", "accuracy conditions order", ("joint", "joint"), "false_minus_true controls initial_belief"),
        ("dyntom", "accuracy states forms scenes options changes", ("consistency", "all_right"), "understanding_minus_transformation"),
        ("worlds", "accuracy families tasks conditions orders", ("joint", "joint"), "false_minus_true"),
    ],
)  # fmt: skip
def test_whoever_is_always_right_is_right_in_every_table(
    request: pytest.FixtureRequest, name: str, shares: str, joint: tuple[str, str], differences: str
) -> None:
    items = request.getfixturevalue(name)
    own = "dyntom_" if name == "dyntom" else ""
    found = study(items, **{f"{own}vanilla": right, f"{own}cot": right})
    for table in shares.split():
        assert (found[table]["accuracy"] == 1).all(), table
    assert found["accuracy"]["total"].to_list() == [len(items)] * 2
    assert (found[joint[0]][joint[1]] == 1).all()
    for table in differences.split():
        assert (found[table]["risk_difference"] == 0).all(), table
    effects = found["prompting_effects"].select("treatment", "control", "gained").unique().rows()
    assert effects == [(f"{own}cot", f"{own}vanilla", 0)]


def test_whoever_answers_with_the_world_has_true_beliefs_right_and_no_template(bigtom: list[Item]) -> None:
    found = study(bigtom, vanilla=world)
    shares = dict(found["conditions"].group_by("condition").agg(pl.col("accuracy").mean()).rows())
    assert (shares["true_belief"], shares["false_belief"], shares["false_control"]) == (1, 0, 1)
    assert found["joint"].select("joint", "product", "true_belief").unique().rows() == [(0, 0, 1)]
    for name in ("false_minus_true", "controls"):
        assert (found[name]["risk_difference"] == -1).all()
    assert set(found["controls"]["task"]) == {"forward_belief", "forward_action", "backward_belief"}
    both, harder = told(found, "bigtom", "both followed"), told(found, "bigtom", "harder")
    assert (both.verdict[:2], both.tone, harder.verdict[:3], harder.tone) == ("No", "bad", "Yes", "bad")
    assert "0% of 12 templates right with both" in both.grounds[0][1]
    assert len(both.grounds) == 3  # a task each, without the initial belief


def test_the_authors_scoring_stands_beside_ours(bigtom: list[Item]) -> None:
    frame = scored(bigtom, vanilla=right).with_columns(
        metric_official=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit(False)), metric_both_keys=pl.lit(True)
    )
    found = analyze(frame, "bigtom")["official"].row(0, named=True)
    assert found["undecided"] == len(bigtom) // 2
    assert (found["official"], found["ours"], found["agree"]) == (0, 1, 0)
    assert (found["official_only"], found["ours_only"]) == (0, len(bigtom) - len(bigtom) // 2)
    assert found["both_keys"] == len(bigtom)


def by_states(item: Item) -> str:
    """Whoever has every state right in scenes 1 to 3 and no change."""
    right = item.factors["form"] == "what" and int(str(item.factors["scene"])) <= 3
    return item.answer if right else wrong_choice(item)


def test_cells_of_a_known_answerer(dyntom: list[Item]) -> None:
    found = study(dyntom, dyntom_vanilla=by_states)
    states = {(state, task): (total, share) for state, task, total, share in
              found["states"].select("state", "task", "total", "accuracy").iter_rows()}  # fmt: skip
    assert states["belief", "understanding"] == (60, 0.6)
    assert states["all", "understanding"] == (240, 0.6)
    assert states["emotion", "influence"] == (60, 0)
    assert ("belief", "influence") not in states, "nothing influences a belief"
    scenes = found["scenes"].filter(form="what")
    assert dict(scenes.select("scene", "accuracy").iter_rows()) == {1: 1, 2: 1, 3: 1, 4: 0, 5: 0}
    row = found["consistency"].filter(form="what").row(0, named=True)
    assert (row["states"], row["all_right"], row["product"], row["stories"]) == (48, 0, 0, 12)
    assert row["mean"] == pytest.approx(0.6)
    ends = found["changes"].select("ends_right", "total", "accuracy").rows()
    assert ends == [(0, 48, 0), (1, 48, 0), (2, 96, 0)], "changes 1-2 and 2-3, 3-4, and 4-5 of 48 states"


def test_a_state_counts_only_where_all_its_scenes_were_asked(dyntom: list[Item]) -> None:
    some = [item for item in dyntom if not (item.cluster == "trial1" and item.factors["scene"] == 5)]
    found = study(some, dyntom_vanilla=right)["consistency"]
    assert dict(found.select("form", "states").iter_rows()) == {"what": 44, "how": 33, "whether": 48, "why": 48}


def test_whoever_answers_with_what_is_so_has_true_beliefs_right_and_no_pair(worlds: list[Item]) -> None:
    placed = [item for item in worlds if item.factors["family"] in ("transfer", "contents")]
    found = study([item for item in placed if item.factors["kind"] == "belief"], vanilla=reality)
    by_condition = dict(found["conditions"].select("condition", "accuracy").rows())
    assert by_condition == {"false_belief": 0, "ignorance": 0, "true_belief": 1}
    assert found["joint"].select("joint", "product").unique().rows() == [(0, 0)]
    shares = found["false_minus_true"].select("share_treated", "share_control", "risk_difference")
    assert shares.row(0) == (0, 1, -1)


def test_a_story_of_tomi_counts_only_if_all_six_are_right() -> None:
    found = study(stories(*TOMI), vanilla=lambda item: item.answer if item.factors["task"] != "memory" else None)
    joint = found["joint"].row(0, named=True)
    assert (joint["story_type"], joint["stories"], joint["joint"], joint["product"]) == ("all", 3, 0, 0)
    perfect = study(stories(*TOMI), vanilla=right)["joint"]
    assert perfect["joint"].to_list() == [1] * 4
    assert "joint" not in study(stories("tomi", "tomi_fixed_small.jsonl"), vanilla=right)  # no story has all six


def test_opentom_counts_classes_and_failures() -> None:
    found = study(
        stories(*OPENTOM),
        vanilla=lambda item: None if item.factors["perspective"] == "narrator" else item.answer,
        cot=lambda item: "No" if "Yes" in item.choices else item.answer,
    )
    f1 = found["macro_f1"]
    fine = f1.filter(strategy="vanilla", task="location_fine", length="normal")
    assert fine.select("order", "f1", "unread").rows() == [(0, 0.0, 4), (1, 1.0, 0), (2, 1.0, 0)]
    coarse = f1.filter(strategy="cot", task="location_coarse", length="normal", order=1).row(0, named=True)
    # three of four are No: F1 of No is 2*3/(3+4), of Yes 0
    assert coarse["f1"] == pytest.approx(3 / 7)
    assert (coarse["constant"], coarse["constant_f1"]) == ("No", pytest.approx(3 / 7))
    pairs = found["coarse_and_fine"].filter(strategy="cot", length="normal", order=1).row(0, named=True)
    assert (pairs["pairs"], pairs["both"], pairs["contradict"], pairs["coarse"]) == (4, 0.75, 0.25, 0.75)


def test_multihop_as_published_takes_classes_together_by_their_numbers() -> None:
    swapped = {"less full": "more full", "more full": "less full"}
    found = study(stories(*OPENTOM), "published", vanilla=lambda item: swapped.get(item.answer, item.answer))
    both = found["macro_f1"].filter(length="normal", task="multihop", order=1).row(0, named=True)
    single = found["macro_f1"].filter(length="normal", task="accessibility", order=1).row(0, named=True)
    assert single["f1"] == 1
    # less full (3) and more accessible (2), more full (4) and less accessible (1), equally full (1) and accessible (1)
    assert both["accuracy"] == pytest.approx(5 / 12)
    assert both["f1"] == pytest.approx((2 * 2 / (5 + 6) + 2 * 1 / (5 + 4) + 1) / 3)


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[Item]:
    return list(benchmarks.load("tombench", tombench.write(tmp_path_factory.mktemp("tombench")), where=["all"]))


def scores(items: list[Item], reply: Callable[[Item, str], str]) -> pl.DataFrame:
    """The score table of a model that says what `reply` gives for an item and the letter of its right answer."""
    return answered(items, lambda item: reply(item, "ABCD"[item.choices.index(item.answer)]), "tombench_vanilla")


def right_answer(item: Item, right: str) -> str:
    del item
    return f"[[{right}]]"


def test_by_task_dimension_and_language_beside_what_was_printed(items: list[Item]) -> None:
    said = scores(items, lambda item, right: f"[[{right}]]" if item.id.endswith("en") else "[[A]]")
    found = analyze(said, "tombench")
    tasks = found["tasks"].filter(language="en")
    assert tasks["accuracy"].to_list() == [1.0] * 21
    mean = tasks.filter(task="mean of the tasks").select("human_quoted", "gpt_4_1106_quoted", "total").row(0)
    assert mean == (0.854, 0.74, 18)
    chinese = [item for item in items if item.factors["language"] == "zh"]
    assert found["accuracy"]["total"].to_list() == [len(items)]  # one row, which the verdict tells
    expected = sum(item.choices[0] == item.answer for item in chinese) / len(chinese)
    assert found["by_language"].filter(language="zh")["accuracy"].item() == pytest.approx(expected)
    assert found["dimensions"].filter(language="en", dimension="belief")["human_quoted"].item() == 0.893
    assert set(found["abilities"]["ability"]) >= {"second_order_beliefs", "faux_pas"}
    assert found["languages"]["questions"].to_list() == [len(chinese)]


def test_the_printed_averages_are_the_means_of_the_printed_tasks() -> None:
    for who, printed in Texts(str(ROOT / "analysis/tombench.py")).section("printed").items():
        values = list(printed.values())
        assert printed["mean of the tasks"] == pytest.approx(sum(values[:8]) / 8, abs=6e-4)
        off = 0.0018 if who == "people" else 0  # so printed, as the file says
        assert printed["mean of the dimensions"] == pytest.approx(sum(values[8:14]) / 6 + off, abs=6e-4)


def test_stories_count_where_every_question_is_right(items: list[Item]) -> None:
    wrong = scores(items, lambda item, right: f"[[{right}]]" if item.id != "hinting/2/en" else "I cannot say")
    table = analyze(wrong, "tombench")["stories"]
    assert table.filter(language="en", task="hinting")["solved"].item() == 0
    assert table.filter(language="zh", task="hinting")["solved"].item() == 1
    assert table.filter(language="en", task="all").select("solved", "stories").row(0) == (20, 21)


def test_the_official_scorer_stands_beside_ours(items: list[Item]) -> None:
    """A reply that weighs [[A]] before it names the right letter is read as A by the official reader."""

    def weighs(item: Item, right: str) -> str:
        return f"Not [[A]]. Actually the answer is [[{right}]]." if right != "A" else "Hm"

    table = scores(items, weighs)
    found = analyze(table, "tombench")["official"].filter(language="en").row(0, named=True)
    english = [item for item in items if item.factors["language"] == "en"]
    first = sum(item.choices[0] == item.answer for item in english)
    assert found["official_accuracy"] == pytest.approx(first / len(english))  # "Hm" is taken for A
    assert found["official_guessed"] == pytest.approx(first / len(english))
    assert (found["unread"], found["only_official"]) == (first, first)
    assert found["only_ours"] == len(english) - first
    published = analyze(table, "tombench", intervals="published")["by_language"].filter(language="en")
    assert published["correct"].item() == first


def test_an_account_of_a_vote_is_counted_by_its_votes(items: list[Item]) -> None:
    def vote(item: Item, right: str) -> str:
        other = wrong_choice(item)
        votes = [item.answer, other, item.answer, other, item.answer]
        account = {"answer": other, "votes": votes, "official": votes, "fallbacks": 2}
        return json.dumps(account, ensure_ascii=False)

    found = analyze(scores(items, vote), "tombench")["official"]
    shares = found.select("accuracy", "official_accuracy", "official_guessed").rows()
    assert shares == [(0.0, 1.0, pytest.approx(0.4))] * 2
    assert published_tombench.majority(["a", None, "b", "b"]) == "b"


def test_the_question_with_another_storys_options_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "Strange Story Task.jsonl"
    rows = [tombench.row("Strange Story Task", 1), tombench.row("Strange Story Task", 2, **tombench.TWO)]
    rows[1] |= {"OPTION-C": "Drawer", "OPTION-D": "Bag"}
    path.write_text("\n".join(json.dumps(row) for row in rows))
    found = analyze(scores(list(benchmarks.load("tombench", path, where=["all"])), right_answer), "tombench")
    assert dict(found["by_language"].select("language", "total").rows()) == {"en": 1, "zh": 2}
    assert "mean of the tasks" not in found["tasks"]["task"].to_list()  # seven tasks were not asked
