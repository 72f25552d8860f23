"""What the score counts: which controls, strategies, questions and runs, on tables whose truth is known."""

from collections.abc import Callable

import polars as pl
import pytest
import yaml

from analysis.functional import score
from analysis.functional.layers import B_NAME, ModelLayers, gather_layers
from tests.conftest import ROOT
from tests.helpers import measured_tables as moved
from tests.helpers.functional_tables import answers, share
from tests.helpers.measured_tables import measured
from tomserve.causal.table import CONTROLS, MOVE, NO_OP, SHUFFLED_PAIRS
from tomserve.stats.functional import ModelScore, score_models
from tomserve.studies import Context, answer_rows, breakdowns, load_study
from tomserve.studies.comparison import combine_scores
from tomserve.studies.contrasts import prompting_effects


def small(truth: moved.Truth = moved.REPRODUCED) -> pl.DataFrame:
    return measured(truth, layers=(1, 2), alphas=(1e-2,))


def scored(found: ModelLayers) -> dict[str, ModelScore]:
    return score_models(found.models, draws=100)


def named(name: str) -> pl.Expr:
    """The moves by a map."""
    return ((pl.col("kind").cast(pl.String) == MOVE) & (pl.col("map").cast(pl.String) == name)).fill_null(False)


def of_controls() -> pl.Expr:
    return pl.any_horizontal(named(name) for name in CONTROLS)


WITHOUT: list[tuple[Callable[[], pl.Expr], str]] = [
    (lambda: named(SHUFFLED_PAIRS) & (pl.col("layer") == 2), "the control shuffled pairs was not measured in every"),
    (of_controls, "no control was measured in every cell of the map"),
    (lambda: named(NO_OP), "the no-op was not measured"),
]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("lost", "why"), WITHOUT)
def test_c_needs_every_control_in_every_cell_and_the_no_op(lost: Callable[[], pl.Expr], why: str) -> None:
    """A map that shuffled pairs reproduce has a C near 0, and without that control it would have one near .7."""
    found = scored(gather_layers(combine_scores([answers(), small().filter(~lost())]).lazy()))["m"]
    assert why in found.missing_layers["c"]
    assert "ftom" not in found.draws


def test_the_study_of_interventions_judges_nothing_without_a_control() -> None:
    study = load_study("causal")
    found = study.tables(small().filter(~WITHOUT[0][0]()).lazy(), "recommended")
    row = found["headline"].row(0, named=True)
    assert (row["adjusted"], row["p_over_controls"]) == (None, None)
    assert any("shuffled pairs" in line and "not measured in every cell" in line for line in study.warnings(found))
    (verdict,) = study.verdicts(found, Context())
    (card,) = (one for one in verdict.cards if one.question == "Does it cause the answer?")
    assert card.verdict == "Cannot be measured"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("strategy", ["cot", "letters_cot", "simtom", "reason_native"])
def test_a_strategy_that_reasons_never_counts(strategy: str) -> None:
    found = gather_layers(answers(strategy=strategy).lazy())
    assert found.plain == {}
    assert set(scored(found)["m"].missing_layers) == {"b", "c", "s"}


@pytest.mark.usefixtures("alone")
def test_beside_the_source_stand_the_answers_that_b_counts_of_every_benchmark() -> None:
    """All right by vanilla; letters count of the other benchmark alone, where nothing is right."""
    wrong = [answers(share(0.0), strategy="letters", kinds=(), benchmark=name) for name in ("worlds", "fantom")]
    found = gather_layers(combine_scores([answers(), *wrong]).lazy())
    ours = score.published_and_ours(found)["published_behaviour"].filter(pl.col("from") == score.OURS)
    assert ours["overall"].to_list() == [0.5]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("others", [("letters",), ("letters", "cot_free", "letters_cot")])
def test_what_is_beside_its_partner_or_alone_counts(others: tuple[str, ...]) -> None:
    found = gather_layers(combine_scores([answers(strategy=one, benchmark="fantom") for one in others]).lazy())
    assert found.plain == {("m", "fantom"): "letters"}
    assert scored(found)["m"].b.estimate == 1


def test_strategies_that_reason_are_declared() -> None:
    """Every strategy of the folder prompts that writes more than an answer, or asks in several turns, is one that
    reasons; strategies that answer alone in one turn are none, however their reply is read."""
    longer = set()
    for folder in sorted((ROOT / "prompts").glob("*/strategy.yaml")):
        told = yaml.safe_load(folder.read_text("utf-8"))
        turns = [turn for turn in told.get("turns", []) if turn["name"] not in ("answer", "weigh", "ask")]
        most = max([told.get("max_tokens", 0), *(turn.get("max_tokens", 0) for turn in turns)])
        if "not for asking" not in told["description"] and (turns or most > 256):
            longer.add(folder.parent.name)
    by_thinking = {"reason_native", "simtom_oracle"}  # it thinks by itself, and it is told whose perspective counts
    told_apart = {one.name for one in (ROOT / "prompts").iterdir() if answer_rows.reasons(one.name)}
    assert told_apart == longer | by_thinking


def test_reasoning_is_held_against_its_own_partner() -> None:
    every = ("vanilla", "letters", "letters_cot", "cot")
    frame = combine_scores([answers(kinds=(), again=False, scenarios=10, strategy=one) for one in every])
    made = list(prompting_effects(breakdowns.task_rows(frame.lazy()).rows, None, ("benchmark",)))
    told = {row["treatment"]: row["control"] for row in made}
    assert told == {"cot": "vanilla", "letters": "vanilla", "letters_cot": "letters"}
    alone = combine_scores([answers(kinds=(), again=False, scenarios=10, strategy=one) for one in every[1:3]])
    made = list(prompting_effects(breakdowns.task_rows(alone.lazy()).rows, None, ("benchmark",)))
    assert [(row["treatment"], row["control"]) for row in made] == [("letters_cot", "letters")]


@pytest.mark.usefixtures("alone")
def test_the_effect_over_all_tasks_is_that_of_every_benchmark() -> None:
    """Reasoning helps in one benchmark and hurts as much in another; either alone would tell a story."""
    none, right = share(0.0), share(1.0)
    asked = (("worlds", "vanilla", none), ("worlds", "cot", right))
    asked += (("dyntom", "dyntom_vanilla", right), ("dyntom", "dyntom_cot", none))
    parts = [answers(of, model="m-7b", benchmark=name, strategy=how, kinds=()) for name, how, of in asked]
    frame = combine_scores(parts)
    effects = pl.DataFrame(list(score.by_task(gather_layers(frame.lazy()))), infer_schema_length=None)
    (row,) = effects.filter(task=score.ALL).to_dicts()
    assert (row["treatment"], row["control"]) == ("dyntom_cot, cot", "dyntom_vanilla, vanilla")
    assert row["risk_difference"] == pytest.approx(0)
    assert row["n"] == 2 * 80 * 3


def test_other_answers_have_another_digest() -> None:
    told = {of: next(iter(gather_layers(answers(share(of), scenarios=4).lazy()).inputs)) for of in (0.3, 0.8)}
    assert told[0.3]["digest"] != told[0.8]["digest"]


def people(open_questions: int = 0) -> pl.DataFrame:
    """Two people, who left the first questions open."""
    left = pl.int_range(pl.len()) < open_questions
    made = answers(share(0.8), model="people", kinds=(), again=False, scenarios=10)
    both = made.with_columns(
        people=pl.lit(["ann", "bob"]), people_right=pl.concat_list(pl.col("correct").cast(pl.Int64), pl.lit(1))
    )
    empty = (pl.when(~left).then(pl.col(name)).alias(name) for name in ("people", "people_right"))
    return both.with_columns(*empty, status=pl.when(left).then(pl.lit("unanswered")).otherwise("status"))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("open_questions", [0, 2])
def test_people_who_left_a_question_open_are_no_model(open_questions: int) -> None:
    found = gather_layers(combine_scores([answers(), people(open_questions)]).lazy())
    assert list(found.models) == ["m"]
    (row,) = score.humans(found)
    assert row["answers"] == 2 * (30 - open_questions)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("name", "value"), [("dimension", "reality"), ("usable", False)])
def test_s_counts_the_questions_that_b_counts(name: str, value: object) -> None:
    """All variants of one task are kept and none of the others: without that task S is 0."""
    left = pl.col("task") == "influence-1"
    told = pl.concat([answers(kept=0.0).filter(~left), answers(kept=1.0).filter(left)])
    otherwise = pl.col(name) if name in told.columns else pl.lit(None, pl.Boolean)
    frame = told.with_columns(pl.when(left).then(pl.lit(value)).otherwise(otherwise).alias(name))
    found = gather_layers(frame.lazy())
    assert scored(found)["m"].s.estimate == 0


@pytest.mark.usefixtures("alone")
def test_a_run_counts_only_where_it_holds_the_strategy_that_does() -> None:
    found = gather_layers(combine_scores([answers(), answers(strategy="cot")]).lazy())
    told = {one["run"]: (one["strategy"], one["asked"], one["counted"]) for one in found.inputs}
    assert told == {"run-m-vanilla": ("vanilla", "vanilla", True), "run-m-cot": (None, "cot", False)}
    (row,) = score.by_model(found, scored(found))
    assert row["inputs"] == "run-m-vanilla"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(("count", "why"), [(1, "only 1 pair of kind T1, and 8 are needed"), (8, None)])
def test_one_variant_is_no_quarter_of_s(count: int, why: str | None) -> None:
    frame = answers()
    first = frame.filter(pl.col("variant") == "object").head(count)
    rest = frame.filter((pl.col("variant") != "object").fill_null(True))
    assert scored(gather_layers(pl.concat([rest, first]).lazy()))["m"].missing_layers.get("s") == why


def test_b_is_made_of_types_of_task_as_a_whole() -> None:
    """Right wherever belief is asked about, and wrong about emotion: by dimension 1 and 0 in each type of task, as a
    whole half right."""
    even = pl.col("cluster").str.extract(r"(\d+)$").cast(pl.Int64) % 2 == 0
    frame = answers(lambda task, number: number % 2 == 0, kinds=(), again=False).with_columns(
        dimension=pl.when(even).then(pl.lit("belief")).otherwise(pl.lit("emotion"))
    )
    found = gather_layers(frame.lazy())
    table = found.told[B_NAME]["task_types"]
    wholes = table.filter(dimension="all that B counts")
    assert wholes["total"].to_list() == [80, 80, 80]
    b = scored(found)["m"].b.estimate
    assert wholes["corrected"].mean() == pytest.approx(b)
    assert table.filter(pl.col("dimension") != "all that B counts")["corrected"].mean() != pytest.approx(b)
