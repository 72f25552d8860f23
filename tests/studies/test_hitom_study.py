"""The Hi-ToM study: every table by hand on a few stories, on the official file, and on tables that are wrong."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import polars as pl
import pytest

from tests.helpers import golden_tables
from tomserve.errors import ConfigError, ContentError
from tomserve.studies import Context, Verdict, analyze, baselines, load_study

# story -> (length, deception, rights of vanilla by order, rights of the chain of thought)
STORIES: dict[str, tuple[int, bool, str, str]] = {
    "s1": (1, False, "110", "111"), "s2": (1, True, "100", "110"), "s3": (2, False, "111", "111"),
    "s4": (2, True, "010", "011"), "s5": (1, False, "0", "1"),
}  # fmt: skip


def scores(**changes: Any) -> pl.DataFrame:
    fixed: dict[str, Any] = {"run": "r", "model": "m", "status": "ok", "benchmark": "hitom", "parse": "json"}
    fixed |= {"gold": "corrected", "answer_position": 2, "places_offered": "blue red tan", "places_reality": "tan"}
    fixed |= {"places_mentioned": "tan red", "n_containers_mentioned": 2, "rule_joint_witness": True}
    fixed |= {"equals_reality": False, "equals_joint_witness": True, "rule_always_reality": False}
    rows = []
    for story, (length, deception, *rights) in STORIES.items():
        for strategy, marks in zip(("hitom_vanilla", "hitom_cot"), rights, strict=True):
            for order, mark in enumerate(marks):
                row = {**fixed, "strategy": strategy, "item": f"hitom/{story}/pen/{order}", "cluster": f"hitom/{story}"}
                row |= {"correct": mark == "1", "answer": "red" if mark == "1" else "tan"}
                row |= {"order": order, "length": length, "deception": deception}
                row |= {"tells_false": 2 * deception, "tells_false_asked": int(deception and length == 1)}
                row |= {"places_lower_order": "red" if order == 2 else "", "equals_first_order": order < 2}
                rows.append({**row, "rule_first_order": order < 2})
    return pl.DataFrame(rows).with_columns(**changes)


def study(frame: pl.DataFrame, intervals: str = "recommended") -> dict[str, pl.DataFrame]:
    return analyze(frame, load_study("hitom"), intervals)


def verdicts(found: dict[str, pl.DataFrame], chance: float) -> list[Verdict]:
    return list(load_study("hitom").verdicts(found, Context({"all": chance})))


def at(frame: pl.DataFrame, **where: Any) -> dict[str, Any]:
    """The one row with these values."""
    return frame.row(by_predicate=pl.all_horizontal(pl.col(name) == value for name, value in where.items()), named=True)


@pytest.fixture(scope="module")
def found() -> dict[str, pl.DataFrame]:
    return study(scores())


def test_accuracy_is_pooled_over_questions(found: dict[str, pl.DataFrame]) -> None:
    table = found["accuracy"]
    assert table.sort("strategy", "deception").select("strategy", "deception", "correct", "total").rows() == [
        ("hitom_cot", "overall", 11, 13),
        ("hitom_cot", "with", 4, 6),
        ("hitom_cot", "without", 7, 7),
        ("hitom_vanilla", "overall", 7, 13),
        ("hitom_vanilla", "with", 2, 6),
        ("hitom_vanilla", "without", 5, 7),
    ]
    row = at(table, strategy="hitom_vanilla", deception="overall")
    assert (row["stories"], row["few_stories"], row["minus_vanilla"]) == (5, True, None)
    assert row["ci_low"] < 7 / 13 < row["ci_high"]
    # paired, each story's mean: 1/3, 1/3, 0, 1/3, 1
    assert at(table, strategy="hitom_cot", deception="overall")["minus_vanilla"] == pytest.approx(0.4)
    effect = at(found["prompting_effects"], deception="overall")
    assert effect["risk_difference"] == pytest.approx(0.4)
    assert (effect["control"], effect["gained"], effect["lost"], effect["stories"]) == ("hitom_vanilla", 4, 0, 5)


def test_accuracy_as_published_is_the_mean_over_cells() -> None:
    found = study(scores(), "published")["accuracy"]
    vanilla, cot = (
        [at(found, strategy=name, deception=kind) for kind in ("without", "with", "overall")]
        for name in ("hitom_vanilla", "hitom_cot")
    )
    # without: cells 1/2, 1, 0 and 1, 1, 1; with: 1, 0, 0 and 0, 1, 0
    assert [row["accuracy"] for row in vanilla] == pytest.approx([0.75, 1 / 3, (0.75 + 1 / 3) / 2])
    assert [row["accuracy"] for row in cot] == pytest.approx([1, 2 / 3, 5 / 6])
    assert [row["minus_vanilla"] for row in cot] == pytest.approx([0.25, 1 / 3, 5 / 6 - (0.75 + 1 / 3) / 2])


def test_from_twenty_stories_on_the_interval_is_that_of_their_influences() -> None:
    """Of unequally many questions: around k/n."""
    rows = []
    for story, order in product(range(24), range(5)):
        row = {"model": "m", "strategy": "vanilla", "item": f"{story}/{order}", "status": "ok", "deception": False}
        right = (story * 7 + order * 3) % 5 < 1 + story % 4
        rows.append(row | {"correct": right, "cluster": str(story), "order": order, "length": 1})
    frame = pl.DataFrame(rows)
    some = frame.filter((pl.col("order") < 2) | (pl.col("cluster").cast(int) % 3 == 0))
    part = at(study(some)["accuracy"], deception="overall")
    assert part["accuracy"] == part["estimate"] == some["correct"].mean()
    # by hand: t with 23 df on the logit scale, the standard error that of a ratio of two means
    means = some.group_by("cluster").agg(pl.col("correct").sum().alias("k"), pl.len().alias("n"))
    residuals = (means["k"] - part["accuracy"] * means["n"]).to_numpy()
    error = math.sqrt((residuals**2).sum() / 23 / 24) / means["n"].mean()
    p = part["accuracy"]
    low = math.log(p / (1 - p)) - 2.0686576 * error / (p * (1 - p))
    assert part["ci_low"] == pytest.approx(1 / (1 + math.exp(-low)), rel=1e-6)


def test_joint_accuracy_beside_its_marginals(found: dict[str, pl.DataFrame]) -> None:
    table = found["joint_accuracy"].filter(strategy="hitom_vanilla", deception="overall", length="all")
    rows = table.select("stories", "accuracy", "joint", "product", "incomplete").rows()
    assert rows == [(5, 0.6, 0.6, 0.6, 0), (4, 0.75, 0.5, 0.5625, 1), (4, 0.25, 0.25, 0.140625, 1)]
    after = table.select("after_right", "after_right_n", "after_wrong", "after_wrong_n").rows()
    assert after == [(None,) * 4, (pytest.approx(2 / 3), 3, 1.0, 1), (pytest.approx(1 / 3), 3, 0.0, 1)]


# Twins


def twins() -> pl.DataFrame:
    """Two groups, orders 0 and 1; the deceptive twin of group a is wrong at order 1, where the tells matter."""
    wrong = {("a", "deceptive", 1), ("a", "none", 0), ("b", "deceptive", 0)}
    rows = []
    for group, kind, order in product("ab", ("none", "truthful", "deceptive", "filler"), (0, 1)):
        row = {"model": "m", "strategy": "vanilla", "item": f"hitom/{group}{kind}/pen/{order}", "status": "ok"}
        row |= {"correct": (group, kind, order) not in wrong, "cluster": f"hitom/{group}{kind}", "order": order}
        row |= {"length": 1, "deception": kind == "deceptive", "twin": group, "twin_kind": kind}
        rows.append(row | {"tell_relevant": kind == "deceptive" and order == 1})
    return pl.DataFrame(rows)


def test_twins_are_paired_by_group_and_question() -> None:
    found = study(twins())["twins"]
    counts = found.filter(treatment="deceptive", control="filler").select("tell_relevant", "order", "n").rows()
    assert counts == [("all", "all", 4), ("all", "0", 2), ("all", "1", 2), ("true", "all", 2), ("false", "all", 2)]
    shares = ["accuracy", "control_accuracy", "risk_difference"]
    assert found.filter(treatment="deceptive", control="filler").select(shares).unique().rows() == [(0.5, 1.0, -0.5)]
    against_none = at(found, treatment="deceptive", control="none", tell_relevant="all")
    assert [against_none[name] for name in ("n", *shares)] == [4, 0.5, 0.75, -0.25]
    assert set(found["stories"]) == {2}
    assert at(study(twins())["accuracy"], deception="overall")["stories"] == 2  # twins are one unit


# Errors


def error_rows() -> pl.DataFrame:
    """Gold is a; b is reality (and where it was put after leaving), c was claimed, d is a distractor, e and f are
    mentioned without more, z is not in the story. Chosen: b, c, e, z, unknown, and a right answer."""
    rows = []
    for number, answer in enumerate(("b", "c", "e", "z", "unknown", "a")):
        row = {"model": "m", "strategy": "vanilla", "item": str(number), "status": "ok", "correct": answer == "a"}
        row |= {"answer": answer, "cluster": str(number // 2), "order": 1, "length": 1, "deception": False}
        row |= {"answer_position": 1, "places_offered": "a b c d e f z", "places_mentioned": "a b c d e f"}
        row |= {"places_reality": "b", "places_after_leaving": "b", "places_claimed_place": "c"}
        rows.append(row | {"places_distractor": "d", "places_initial_place": "a"})
    return pl.DataFrame(rows)


def chained() -> pl.DataFrame:
    """Four questions with chains; two end wrongly, of which one answer follows; a path of phi 1 with the answers."""
    rows = []
    for number, (proper, right, matches) in enumerate(((1, 1, 1), (0, 1, 0), (0, 0, 1), (1, 1, 1))):
        row = {"model": "m", "strategy": "hitom_chain", "item": str(number), "status": "ok", "correct": bool(right)}
        row |= {"cluster": str(number), "order": number % 2, "length": 1, "deception": False, "chain_length": 3}
        row |= {"chain_proper": bool(proper), "chain_path_proper": bool(right), "chain_last_correct": bool(proper)}
        rows.append(row | {"answer_matches_last": bool(matches), "chain_lcs": 1.0 if proper else 0.5})
    rows.append({**rows[0], "item": "none", "chain_proper": None, "chain_lcs": None})  # an item without a gold chain
    return pl.DataFrame(rows)


def test_chains_by_hand() -> None:
    whole = at(study(chained())["chains"], order="all")
    assert (whole["total"], whole["proper"], whole["proper_share"], whole["lcs"]) == (4, 2, 0.5, 0.75)
    assert (whole["wrong_last"], whole["followed"], whole["followed_share"]) == (2, 1, 0.5)
    assert (whole["path_phi"], whole["lcps"]) == (pytest.approx(1), 0.0)


def test_errors_by_hand() -> None:
    found = study(error_rows())["errors"].filter(order="all")
    rows = {row["explanation"]: row for row in found.iter_rows(named=True)}
    assert set(found["wrong"]) == {5}
    flagged = {"reality", "claimed_place", "after_leaving", "unexplained", "not_in_story", "unknown"}
    assert {name: row["flagged"] for name, row in rows.items()} == {name: int(name in flagged) for name in rows}
    expected = dict.fromkeys(("reality", "claimed_place", "after_leaving", "distractor"), 0.2) | {"unexplained": 0.4}
    assert {name: row["expected"] for name, row in rows.items() if row["expected"]} == pytest.approx(expected)
    assert {name for name, row in rows.items() if row["alone"] == 1} == flagged - {"after_leaving"}
    assert rows["after_leaving"]["expected_alone"] == 0.0  # implied by reality
    assert rows["unexplained"]["excess_alone"] == pytest.approx(0.2 - 0.4)
    # by story: the differences of "reality" are .8, -.2 | -.2, -.2 | -.2; the interval is t with 2 df
    influences = [0 + (0.6 - 0) * 3 / 5, -0.4 * 3 / 5, -0.2 * 3 / 5]
    sd = math.sqrt(sum(value**2 for value in influences) / 2)
    assert rows["reality"]["excess"] == pytest.approx(0)
    assert rows["reality"]["excess_high"] == pytest.approx(4.302653 * sd / math.sqrt(3), rel=1e-5)


def test_a_foreign_table_needs_only_what_is_required() -> None:
    needed = ["model", "strategy", "item", "status", "correct", "order", "length", "deception"]
    found = study(scores().select(needed))
    assert at(found["accuracy"], strategy="hitom_vanilla", deception="overall")["correct"] == 7
    empty = {name for name, frame in found.items() if frame.is_empty()}
    assert empty >= {"errors", "answer_position", "deception_count", "lower_order_match"}
    assert found["baselines"]["accuracy"].is_null().all()  # nothing tells how many containers are mentioned
    assert [*load_study("hitom").warnings(found)] == [baselines.MISSING]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (scores(order=pl.col("order").cast(pl.String)), "column 'order' is String; expected whole numbers"),
        (scores(deception=pl.lit("no")), "column 'deception' is String; expected true or false"),
        (scores(order=-1), "item 'hitom/s1/pen/0': order -1 and length 1"),
        (twins().with_columns(twin_kind=pl.lit("filler")), "two filler items ask one question"),
    ],
)
def test_wrong_tables_are_refused_by_name(frame: pl.DataFrame, message: str) -> None:
    with pytest.raises((ConfigError, ContentError)) as error:
        study(frame)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (lambda copy, story: True, "Better than guessing"),
        (lambda copy, story: copy, "No: it copies"),
        (lambda copy, story: story % 40 == 0, "No: worse than guessing"),  # names what nobody mentioned
        (lambda copy, story: story % 5 == 0, "Not shown"),  # guesses among the five containers mentioned
    ],
)
def test_who_copies_is_told_from_who_is_seldom_right_anywhere(right: Callable[[bool, int], bool], said: str) -> None:
    rows = []
    for row in scores().filter(strategy="hitom_vanilla", length=1, order=2).head(1).to_dicts():
        for story, copy in product(range(80), (True, False)):
            own = {"item": f"hitom/{story}/pen/{copy}", "cluster": f"hitom/{story}", "equals_first_order": copy}
            rows.append({**row, **own, "correct": right(copy, story), "n_containers_mentioned": 5})
    (verdict,) = verdicts(study(pl.DataFrame(rows)), 1 / 15)
    assert next(card.verdict for card in verdict.cards if card.question == "Does it nest beliefs?") == said


APART = pl.col("order") == pl.when(pl.col("length") == 1).then(0).otherwise(2)
OTHER_GOLD = pl.when(pl.col("order") == 0).then(pl.lit("released")).otherwise(pl.lit("corrected"))
VARIED: dict[str, Callable[[], pl.DataFrame]] = {
    "plain": scores,
    "orders-apart": lambda: scores().filter(APART),
    "no-first-order": lambda: scores().filter(pl.col("order") != 1),
    "halves": lambda: pl.concat([scores(prompting_type=pl.lit(half), item=pl.col("item") + f"/{half}") for half in ("VP", "CoTP")]),
    "two-golds": lambda: scores(gold=OTHER_GOLD).filter((pl.col("strategy") == "hitom_cot") | (pl.col("cluster") != "hitom/s1")),
    "nothing-in-common": lambda: scores(item=pl.col("item") + "/" + pl.col("strategy")),
    "generated": lambda: pl.concat(
        [scores(semantics=pl.lit(name), item=pl.col("item") + name).drop("gold") for name in ("common", "released")]
    ),
    "twins": twins,
    "twins-of-a-family": lambda: twins().with_columns(cluster=pl.lit("hitom/") + pl.col("twin")),
    "uneven-twins": lambda: twins().filter((pl.col("twin") == "a") | (pl.col("order") == 0)),
    "errors": error_rows,
    "chains": chained,
}  # fmt: skip


@pytest.mark.parametrize("name", VARIED)
def test_numbers_and_doubts_of_other_tables_are_what_they_were(name: str) -> None:
    found = study(VARIED[name]())
    golden_tables.check(
        f"hitom-{name}", found, warnings=[*load_study("hitom").warnings(found)], verdicts=verdicts(found, 0.2)
    )
