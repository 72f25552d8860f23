"""Which models the study of functional Theory of Mind ranks, and what it says of those that it does not."""

from collections.abc import Mapping

import polars as pl
import pytest

from analysis.functional import layers, score, study
from tests.helpers import measured_tables as moved
from tests.helpers.functional_tables import answers, share
from tests.helpers.measured_tables import measured
from tomserve.stats.functional import FTOM_1, Formula, ModelScore
from tomserve.stats.proportions import UNDEFINED, Interval
from tomserve.studies.comparison import combine_scores

pytestmark = pytest.mark.usefixtures("alone")

Tables = Mapping[str, pl.DataFrame]


def tables(*frames: pl.DataFrame, formula: Formula = FTOM_1) -> Tables:
    found = layers.gather_layers(combine_scores(list(frames)).lazy())
    scored = score.count_layers(found, formula)
    alike = score.groups(found, scored)
    listed = {
        "score": score.by_model(found, scored, formula),
        "ranking": score.ranking(alike),
        "not_compared": score.not_compared(alike),
        "sensitivity": score.sensitivity(alike, formula),
        "swaps": score.swaps(alike, formula),
        "inputs": iter(found.inputs),
    }
    made = {name: pl.DataFrame(list(each), infer_schema_length=None) for name, each in listed.items()}
    return {name: frame for name, frame in made.items() if frame.height}


def why(found: Tables, score: str = "ftom_bs") -> dict[str, str]:
    frame = found.get("not_compared", pl.DataFrame(schema=dict.fromkeys(("model", "score", "why"), pl.String)))
    return dict(frame.filter(score=score).select("model", "why").iter_rows())


def ranked(found: Tables, score: str = "ftom_bs") -> set[str]:
    return set(found["ranking"].filter(score=score)["model"]) if "ranking" in found else set()


def inside(model: str, *, layers: tuple[int, ...] = (1, 2), items: int = 100) -> pl.DataFrame:
    return measured(moved.WORKS, model, items, layers=layers, alphas=(1e-2,))


def test_models_that_were_asked_something_else_are_not_ranked_with_the_others() -> None:
    found = tables(
        answers(share(0.7), 0.9, model="a"),
        answers(share(0.75, "e"), 0.9, model="e"),
        answers(share(0.8), 0.9, model="b", benchmark="bigtom"),
        answers(share(0.9), 0.9, model="d", scenarios=10),
        answers(share(0.9), 0.9, model="t").with_columns(task=pl.lit("one")),
        answers(share(0.9), 0.9, model="v").with_columns(item=pl.col("item").str.replace("/object", "/thing")),
    )
    assert ranked(found) == {"a", "e"}
    assert why(found) == {
        "b": "was asked bigtom instead of worlds: repeat with the same --benchmark",
        "d": "was asked 30 questions instead of 240: repeat with the same --limit",
        "t": "was asked questions of the same names with other types of task, chances or answers",
        "v": "was asked other variants of the same questions: repeat it in a new folder (--run)",
    }
    assert any("left out of the ranks" in line and "d (was asked 30" in line for line in study.warnings(found))


def test_models_that_were_measured_otherwise_are_ranked_by_behaviour_and_stability_alone() -> None:
    """Not g, a deeper network: all layers of it were measured, as of a and b."""
    asked = [answers(share(0.8, name), 0.9, model=name, scenarios=40) for name in "abcdeg"]
    found = tables(
        *asked,
        *(inside("a"), inside("b"), inside("c", items=80), inside("d", layers=(2, 3)), inside("g", layers=(1, 2, 3))),
        inside("e").with_columns(asked_by=pl.lit("cot")),
    )
    assert ranked(found) == set("abcdeg")
    assert ranked(found, "ftom") == {"a", "b", "g"}
    assert why(found, "ftom") == {
        "c": "was measured on 80 cases instead of 100: repeat with the same --cases",
        "d": "was measured at other layers: repeat with the same --layers",
        "e": "was measured by cot instead of vanilla: repeat with the same strategy",
    }
    assert why(found) == {}


def test_equal_scores_share_a_rank() -> None:
    found = tables(answers(share(0.6), model="a"), answers(share(0.6), model="b"), answers(share(0.3), model="c"))
    ranks = found["ranking"]
    assert ranks.select("model", "rank").rows() == [("a", 1), ("b", 1), ("c", 3)]
    assert ranks["p_first"].to_list() == pytest.approx([0.5, 0.5, 0.0], abs=0.02)


def broken(frame: pl.DataFrame, of_ten: int, status: str) -> pl.DataFrame:
    """The answers, of which so many of ten did not come or could not be read."""
    bad = pl.int_range(pl.len()) // 5 % 10 < of_ten  # an original stands with its four variants
    lost = {name: pl.when(bad).then(None).otherwise(name) for name in ("answer", "correct", "original_place")}
    return frame.with_columns(status=pl.when(bad).then(pl.lit(status)).otherwise("status"), **lost)


@pytest.mark.parametrize("of_ten", [0, 1])
def test_replies_that_failed_or_could_not_be_read_stand_beside_the_layers(of_ten: int) -> None:
    found = tables(broken(answers(share(0.9), 0.95), of_ten, "timeout"))
    columns = ("questions", "scenarios", "failed", "unread")
    assert found["score"].select(columns).row(0) == (240, 80, of_ten / 10, 0)
    said = any("10% of the counted replies failed; they count as wrong" in line for line in study.warnings(found))
    assert said == (of_ten > 0)


@pytest.mark.parametrize(
    ("status", "said"),
    [("invalid", "60% of the replies could not be read"), ("timeout", "60% of the replies failed")],
)
def test_a_layer_most_of_whose_replies_are_lacking_is_not_computed(status: str, said: str) -> None:
    row = tables(broken(answers(share(0.9), 0.95), 6, status))["score"].row(0, named=True)
    assert (row["b"], row["s"], row["ftom_bs"]) == (None, None, None)
    assert (row["no_b"], row["no_s"]) == (said, said)


def test_a_score_of_zero_is_none_that_is_missing() -> None:
    zero = Interval(0.0, 0.0, 0.1, "")
    nothing = Interval(*UNDEFINED, "")

    def of(ftom: Interval, ftom_bs: Interval) -> ModelScore:
        return ModelScore(zero, zero, zero, ftom, ftom_bs, 0.0, 1.0, {}, {})

    found = layers.gather_layers(pl.concat([answers(model=name, scenarios=2) for name in "abc"]).lazy())
    scored = {"a": of(nothing, nothing), "b": of(nothing, zero), "c": of(zero, zero)}
    assert [row["model"] for row in score.by_model(found, scored)] == ["c", "b", "a"]
