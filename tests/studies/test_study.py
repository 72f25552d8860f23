"""The perturbation study as published, against the paper's own cells; studies in general; formats of tables.
The perturbation study's tables about stories that come in several versions: roles, pairs, ground, awareness.
Verdicts on single classes: what is clear, and from how many units on anything is."""

import csv
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, pearsonr
from statsmodels.stats.proportion import proportion_confint

from tests.conftest import ROOT
from tests.helpers import golden_tables
from tests.helpers.score_tables import scores
from tests.helpers.scored import answered, wrong_choice
from tomserve.benchmarks.perturbed.stages import PERTURBATIONS, load_stage
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.reporting.tables import render, render_all
from tomserve.stats.paper_formulas import (
    accuracy_interval,
    correlation_interval,
    phi,
    point_biserial,
    risk_difference,
    risk_ratio,
)
from tomserve.studies import BAD, Card, Context, analyze, compute, load_study
from tomserve.studies.contrasts import FEWEST_UNITS, THESE, class_verdict, contrast, matched_contrast

DATA = Path(__file__).parents[1] / "data"
CLASSES = {"no complication": "none", "overall": "overall", **{name.replace("_", " "): name for name in PERTURBATIONS}}
STRATEGIES = {"vp": "vanilla", "cot": "cot"}


def study_tables(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return analyze(frame, load_study("perturbed"), "published")


def published(table: str) -> list[dict[str, str]]:
    with (DATA / f"published_{table}.csv").open() as file:
        return list(csv.DictReader(file))


def counts() -> dict[tuple[str, str, str, str], tuple[int, int]]:
    """(subset, model, class, strategy) -> (right, asked), reconstructed from the printed cells."""
    return {
        (cell["subset"], cell["model"], CLASSES[cell["class"]], STRATEGIES[cell["prompting"]]): (
            int(cell["k"]),
            int(cell["n"]),
        )
        for cell in published("counts")
    }


@pytest.fixture(scope="module")
def paper() -> dict[str, pl.DataFrame]:
    """The study's tables on a score table that has the paper's counts, class by class, in both subsets."""
    known = counts()
    rows = []
    for (subset, model, name, strategy), (right, asked) in known.items():
        if subset != "all" or name == "overall":
            continue
        inside = known["false_belief", model, name, strategy]
        for part, (k, n) in (("belief", inside), ("reality", (right - inside[0], asked - inside[1]))):
            for number in range(n):
                row = {"model": model, "strategy": strategy, "item": f"{name}/{part}/{number}", "status": "ok"}
                row |= {"correct": number < k, "stage": "C1", "perturbation": name, "question_kind": part}
                rows.append({**row, "scenario": "false_belief"})
    return study_tables(pl.DataFrame(rows))


def cells(frame: pl.DataFrame, *keys: str) -> dict[tuple, dict]:
    return {tuple(row[key] for key in keys): row for row in frame.iter_rows(named=True)}


def printed(value: float) -> str:
    return f"{value + 0.0:.3f}".replace("-0.000", "0.000")


def test_every_printed_accuracy_is_reproduced(paper: dict[str, pl.DataFrame]) -> None:
    found = cells(paper["accuracy"], "subset", "model", "perturbation", "strategy")
    cells_of = published("table5")
    for cell in cells_of:
        row = found[cell["subset"], cell["model"], CLASSES[cell["class"]], STRATEGIES[cell["prompting"]]]
        for name in ("accuracy", "ci_low", "ci_high"):
            assert abs(row[name] - float(cell[name])) <= 0.00051, cell
    assert len(cells_of) == 144


def test_every_printed_effect_is_reproduced() -> None:
    """Tables 7 and 9 (against class none) and 12 (cot against vanilla), 1,224 figures, but for the six of three cells in
    which table 12 prints 1 [0, inf] where the risk ratio is 0."""
    known, wrong, compared = counts(), [], 0
    for table in ("table7", "table9", "table12"):
        for cell in published(table):
            subset, model, name = cell["subset"], cell["model"], CLASSES[cell["class"]]
            if table == "table12":
                treated, control = known[subset, model, name, "cot"], known[subset, model, name, "vanilla"]
            else:
                strategy = STRATEGIES[cell["prompting"]]
                treated, control = known[subset, model, name, strategy], known[subset, model, "none", strategy]
            figures = (*risk_difference(*treated, *control), *risk_ratio(*treated, *control))
            for figure, field in zip(figures, ("ate", "ate_low", "ate_high", "rr", "rr_low", "rr_high"), strict=True):
                compared += 1
                if printed(figure) != cell[field].replace("-0.000", "0.000"):
                    wrong.append((table, name, model, field, printed(figure), cell[field]))
    assert compared == 1224
    slips = [("preposition_replacement", "llama2-70b-chat"), ("uninformative_label", "llama2-70b-chat")]
    slips.append(("conclusion_from_sentiment", "mixtral-8x7b"))
    assert wrong == [
        ("table12", name, model, *rest)
        for name, model in slips
        for rest in (("rr", "0.000", "1.000"), ("rr_high", "nan", "inf"))
    ]


def test_the_study_gives_the_printed_effects(paper: dict[str, pl.DataFrame]) -> None:
    effects = cells(paper["perturbation_effects"], "subset", "model", "perturbation", "strategy")
    for cell in published("table9"):
        row = effects["false_belief", cell["model"], CLASSES[cell["class"]], STRATEGIES[cell["prompting"]]]
        found = [printed(row[name]) for name in ("risk_difference", "rd_low", "rd_high")]
        assert found == [cell[name].replace("-0.000", "0.000") for name in ("ate", "ate_low", "ate_high")], cell


def test_known_errors_of_the_paper_are_named_where_they_would_appear(paper: dict[str, pl.DataFrame]) -> None:
    noted = paper["prompting_effects"].filter(pl.col("note").is_not_null())
    assert set(noted.select("subset", "model", "perturbation").iter_rows()) == {
        ("false_belief", "llama2-70b-chat", "preposition_replacement"),
        ("false_belief", "llama2-70b-chat", "uninformative_label"),
        ("false_belief", "mixtral-8x7b", "conclusion_from_sentiment"),
    }
    assert set(noted["note"]) == {"the paper's table prints 1 [0, inf] in such cells"}


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_phi_is_the_correlation_of_the_two_columns(pairs: list[tuple[bool, bool]]) -> None:
    value, p = phi(*(pairs.count(cell) for cell in ((True, True), (True, False), (False, True), (False, False))))
    first, second = ([float(pair[place]) for pair in pairs] for place in (0, 1))
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert math.isnan(value)
        assert math.isnan(p)
    else:
        assert value == pytest.approx(pearsonr(first, second).statistic)
        assert p == pytest.approx(chi2.sf(len(pairs) * value**2, 1))
        if len(pairs) > 2:
            assert point_biserial([a for a, _ in pairs], second)[0] == pytest.approx(value)


def test_published_formulas_at_their_edges() -> None:
    assert (risk_ratio(3, 4, 0, 4)[0], risk_ratio(2, 4, 2, 4)[0]) == (math.inf, 1.0)
    undefined = (
        risk_ratio(0, 4, 0, 4),
        risk_difference(0, 0, 1, 4),
        accuracy_interval(0, 0),
        correlation_interval(0.5, 3),
    )
    assert all(math.isnan(value) for found in undefined for value in found)
    assert correlation_interval(0.5, 28) == pytest.approx((0.156, 0.736), abs=0.001)
    assert correlation_interval(1.0, 28) == (1.0, 1.0)
    assert (accuracy_interval(0, 4)[0], accuracy_interval(4, 4)[1]) == (0.0, 1.0)
    with pytest.raises(ValueError, match="expected 0 <= correct <= total"):
        accuracy_interval(5, 4)


def test_an_item_that_one_strategy_failed_on_is_left_out_of_both() -> None:
    failed = (pl.col("item") == "none/2") & (pl.col("strategy") == "cot")
    status = pl.when(failed).then(pl.lit("timeout")).otherwise("status")
    found = study_tables(scores().with_columns(status=status, correct=pl.col("correct") & ~failed))
    rows = found["accuracy"].filter(subset="all", perturbation="none").select("correct", "total", "dropped").rows()
    assert rows == [(2, 3, 1)] * 2
    failure = ("m", "cot", "none", "timeout", 1, 0.25, 0.5, 0.75)
    assert found["failures"].row(0) == failure
    assert found["failures"]["perturbation"].to_list() == ["none", "overall"]
    effect = cells(found["prompting_effects"], "subset", "perturbation")["all", "none"]
    named = [effect[name] for name in ("n", "risk_difference", "treatment", "control")]
    assert named == [3, 0.0, "cot", "vanilla"]


def test_a_text_that_was_cut_off_after_its_answer_is_no_failure() -> None:
    frame = scores(status=pl.lit("length"), answer=pl.lit("tea"))
    assert study_tables(frame)["failures"].is_empty()
    frame = scores(status=pl.lit("length"), answer=pl.lit(None, pl.String), correct=pl.lit(False))
    assert study_tables(frame)["accuracy"]["total"].to_list() == [0] * 12


def by_class(model: str, right: dict[str, int], of: int = 8) -> list[dict]:
    """Answers of which so many are right in each class; where none is said, all."""
    fixed = {"model": model, "strategy": "vanilla", "status": "ok", "stage": "C1"}
    fixed |= {"scenario": "false_belief", "question_kind": "belief"}
    return [
        {**fixed, "item": f"{name}/{n}", "correct": n < right.get(name, of), "perturbation": name}
        for name in PERTURBATIONS
        for n in range(of)
    ]


@pytest.mark.parametrize(
    ("right", "rule", "said"),
    [
        (dict.fromkeys(PERTURBATIONS, 4), "strict", (False, 0, False, False)),
        (dict.fromkeys(PERTURBATIONS, 4), "lenient", (True, 10, True, True)),
        (dict.fromkeys(PERTURBATIONS[1:6], 3), "strict", (True, 5, True, False)),
        (dict.fromkeys(PERTURBATIONS[1:7], 3), "strict", (True, 4, False, False)),
    ],
)
def test_exactly_half_is_above_by_the_lenient_rule_only(right: dict[str, int], rule: str, said: tuple) -> None:
    found = study_tables(pl.DataFrame(by_class("m", right)))["criteria"].filter(subset="all", rule=rule)
    assert found.select("ostensible", "classes_above", "limited_robust", "robust").rows() == [said]


def test_challenging_classes_and_their_tie_rule() -> None:
    hard = dict(zip(PERTURBATIONS[1:7], (1, 2, 3, 4, 5, 5), strict=True))  # the fifth and the sixth tie
    frame = pl.DataFrame([*by_class("a", hard), *by_class("b", hard), *by_class("c", {PERTURBATIONS[10]: 0})])
    found = cells(study_tables(frame)["challenging"].filter(subset="all"), "perturbation")
    assert all(found[name,]["challenging"] for name in PERTURBATIONS[1:7])
    # c: one class is lower; the other nine tie at the second place, but they are no harder than the control
    assert found[PERTURBATIONS[1],]["models_in_top_five"] == 2
    assert (found[PERTURBATIONS[10],]["models_in_top_five"], found[PERTURBATIONS[10],]["challenging"]) == (1, False)


def chained() -> pl.DataFrame:
    """Eight false-belief items: vanilla wrong everywhere, cot right on six of them; four chains proper, all of them right."""
    rows = []
    for n in range(8):
        row = {"model": "m", "item": f"none/{n}", "status": "ok", "stage": "C1", "perturbation": "none"}
        row |= {"scenario": "false_belief", "question_kind": "belief", "chain_break": None, "chain_break_kind": None}
        rows.append({**row, "strategy": "vanilla", "correct": False, "chain_proper": None, "chain_lcs": None})
        if n >= 4:
            row |= {"chain_break": 2, "chain_break_kind": "too_late" if n < 7 else "wrong"}
        row |= {"chain_proper": n < 4, "chain_lcs": 1.0 if n < 4 else n / 10, "chain_lcps": 0.5}
        rows.append({**row, "strategy": "cot", "correct": n < 6, "chain_transitions": 0.5})
    return pl.DataFrame(rows, infer_schema_length=None)


def test_faithfulness_placebo_and_breaks() -> None:
    found = study_tables(chained())
    correlations = cells(found["faithfulness"], "sample", "metric")
    assert correlations["complete", "chain_proper"]["value"] == pytest.approx(phi(4, 2, 0, 2)[0])
    assert correlations["complete", "chain_proper"]["n"] == 8
    assert math.isnan(correlations["complete", "chain_lcps"]["value"])
    assert correlations["complete", "chain_lcps"]["correlated"] is None
    placebo = cells(found["placebo"], "perturbation", "chain")
    assert placebo["overall", "improper"]["risk_difference"] == 0.5
    assert (placebo["overall", "proper"]["risk_difference"], placebo["overall", "proper"]["verdict"]) == (1.0, "gain")
    chains = found["chains"].row(0, named=True)
    assert (chains["total"], chains["proper"], chains["proper_share"]) == (8, 4, 0.5)
    assert (chains["break_sentence"], chains["break_kind"], chains["breaks"]) == (2, "too_late", 3)
    more = pl.concat([chained().with_columns(item=pl.col("item") + f"/{copy}") for copy in range(4)])
    verdicts = cells(study_tables(more)["placebo"], "perturbation", "chain")
    assert verdicts["overall", "improper"]["verdict"] == "placebo"


def test_a_task_is_solved_when_all_sixteen_are_right() -> None:
    base = {"model": "m", "strategy": "vanilla", "status": "ok", "perturbation": "none", "scenario": "false_belief"}
    rows = [
        {**base, "item": f"{stage}/{n}", "stage": stage, "question_kind": "belief", "correct": n != missed}
        for stage, size, missed in (("C1", 16, None), ("C2", 16, 3), ("C3", 8, None))
        for n in range(size)
    ]
    tables = recommended(pl.DataFrame(rows))
    assert tables["criteria"].select("tasks_solved", "tasks").row(0) == (1, 2), "the third was not asked whole"
    found = tables["tasks"]
    assert found.select("stage", "subtasks_right", "solved").rows() == [
        ("C1", 16, True),
        ("C2", 15, False),
        ("C3", 8, None),
    ]
    retold = [{**row, "item": f"{row['item']}/fresh-7", "fresh": "7"} for row in rows if row["stage"] != "C2"]
    both = study_tables(pl.DataFrame([{"fresh": None, **row} for row in rows] + retold, infer_schema_length=None))
    assert both["tasks"].select("subtasks_right", "solved").rows() == [(32, True), (15, False), (16, None)]


@pytest.mark.system
def test_tables_do_not_depend_on_threads(tmp_path: Path) -> None:
    chained().write_parquet(tmp_path / "s.parquet")
    command = [sys.executable, "-m", "tomserve", "analyze", tmp_path / "s.parquet", "--study", "perturbed"]
    one, three = (
        subprocess.run([*command, "--format", "csv"], env={**os.environ, "POLARS_MAX_THREADS": threads},
                       capture_output=True, check=True).stdout
        for threads in ("1", "3")
    )  # fmt: skip
    assert one == three


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (scores(perturbation=pl.lit("late_lable")), "item 'none/0': unknown perturbation 'late_lable'; did you mean"),
        (scores(status=pl.lit("")), "item 'none/0': status is empty; expected one of ok, length, refusal"),
        (scores(status=pl.lit(5)), "column 'status' is Int32; expected text: ok, length, refusal"),
        (scores(correct=pl.lit(None, pl.Boolean)), "item 'none/0': correct is empty"),
        (scores(strategy=pl.lit("perturbation")), "a strategy is called 'perturbation', as a column beside it is"),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_name(frame: pl.DataFrame, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        study_tables(frame)


def test_studies_are_not_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis/evil.py").write_text("raise SystemExit('ran')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="unknown study 'evil'"):
        load_study("evil")


def test_undefined_numbers_are_spelled_alike() -> None:
    frame = pl.DataFrame({"value": [math.nan, math.inf, None, 0.25], "n": [1, 2, 3, 4]})
    assert render(frame, "csv") == "value,n\nnan,1\ninf,2\n,3\n0.25,4\n"
    assert json.loads(render_all({"a": frame, "b": frame}, "json", {}))["b"][:2] == [
        {"value": "nan", "n": 1},
        {"value": "inf", "n": 2},
    ]


# recommended intervals


STAGES = ("C1", "C2", "C3", "C4", "T1", "T2", "T3")


def design(right, strategies=("vanilla", "cot"), subtasks: int = 4) -> pl.DataFrame:
    """The paper's stages and classes with `subtasks` false-belief questions a task; right(stage, class, n, strategy)."""
    rows = []
    for stage, name, n, strategy in product(STAGES, PERTURBATIONS, range(subtasks), strategies):
        if name != "uninformative_label" or stage in STAGES[:4]:
            row = {"model": "m", "strategy": strategy, "item": f"{stage}/{name}/{n}", "status": "ok", "stage": stage}
            row |= {"correct": right(stage, name, n, strategy), "perturbation": name, "swapped": str(n % 2)}
            scenario = "false_belief" if n < subtasks / 2 else "correct_label"
            rows.append({**row, "scenario": scenario, "question_kind": "belief", "rule_first_choice": n == 0})
    return pl.DataFrame(rows)


def recommended(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return analyze(frame, load_study("perturbed"))


def test_the_papers_terms_ask_for_unchanged_stories_and_leave_open_what_was_not_asked() -> None:
    """Right in all changed stories and no unchanged one; and in unchanged ones and four of six classes, four unasked."""

    def term(frame: pl.DataFrame) -> str:
        (shown,) = (one.frame for one in compute(frame, "perturbed").summary() if "criteria" in one.title)
        return str(shown["paper's term"].unique().item())

    changed = design(lambda stage, name, n, strategy: name != "none")
    assert term(changed) == "not robust"
    assert compute(changed, "perturbed").verdicts()[0].cards[0].verdict == "No"
    six = design(lambda stage, name, n, strategy: name in ("none", *PERTURBATIONS[1:5]))
    six = six.filter(pl.col("perturbation").is_in(PERTURBATIONS[:7]))
    assert term(six) == "cannot be told"
    assert term(six.with_columns(correct=pl.col("correct") & (pl.col("perturbation") != "none"))) == "not robust"


def test_recommended_accuracy_counts_tasks_and_failures() -> None:
    frame = design(lambda stage, name, n, strategy: n > 0).with_columns(
        status=pl.when(pl.col("item") == "C1/none/3").then(pl.lit("timeout")).otherwise("status")
    )
    rows = cells(recommended(frame)["accuracy"], "subset", "strategy", "perturbation")
    none = rows["all", "cot", "none"]
    assert (none["correct"], none["total"], none["failed"], none["tasks"], none["few_tasks"]) == (20, 28, 1, 7, True)
    assert none["accuracy_dropped"] == pytest.approx(20 / 27)
    assert none["accuracy_high"] == pytest.approx(21 / 28)
    # every task is right where the others are: its four questions are as unlike as any, and count for four
    assert (none["ci_low"], none["ci_high"]) == pytest.approx(proportion_confint(20, 28, method="wilson"))
    assert rows["all", "cot", "overall"]["target"] == "new stages"
    # on the false-belief subset a task counts once
    part = rows["false_belief", "cot", "none"]
    assert (part["ci_low"], part["ci_high"]) == pytest.approx(proportion_confint(3.5, 7, method="wilson"))


def test_perturbation_effects_are_matched_by_stage() -> None:
    """The class that exists in contents stages only is compared with the control of these stages, not of all."""
    easy = {"C1", "C2", "C3", "C4"}
    frame = design(lambda stage, name, n, strategy: stage in easy)
    effects = cells(recommended(frame)["perturbation_effects"], "subset", "strategy", "perturbation", "target")
    matched_one = effects["all", "cot", "uninformative_label", "new stages"]
    assert matched_one["risk_difference"] == 0.0, "pooled over stages it would be 1 - 4/7"
    assert (matched_one["units"], matched_one["p_smallest"]) == (4, 0.125)
    assert set(effects) >= {("all", "cot", "overall_perturbed", target) for target in ("new stages", "these stages")}
    family = [row["p_adjusted"] for key, row in effects.items() if key[0] == "all" and key[1] == "cot"]
    assert sum(p is not None for p in family) == 10


def test_prompting_effects_are_paired_and_cluster() -> None:
    """cot is right where vanilla is not in every task: one gained question a task, the same in each."""
    frame = design(lambda stage, name, n, strategy: n > 1 or (n == 1 and strategy == "cot"))
    effects = cells(recommended(frame)["prompting_effects"], "subset", "perturbation", "target")
    none = effects["all", "none", "new stages"]
    assert (none["risk_difference"], none["gained"], none["lost"], none["n"]) == (0.25, 7, 0, 28)
    assert (none["share_treated"], none["share_control"]) == (0.75, 0.5)
    assert none["p_sign_flip"] == 2 / 2**7
    overall = effects["all", "overall", "new stages"]
    assert (overall["units"], overall["p_sign_flip"]) == (7, 2 / 2**7)
    assert effects["all", "overall", "these stages"]["units"] == 74
    assert none["p_adjusted"] is None, "none is outside the family of ten"


def uneven(stage: str, name: str, n: int, strategy: str) -> bool:
    """Answers in which stages, classes and strategies differ, the same every time."""
    return (7 * STAGES.index(stage) + 5 * PERTURBATIONS.index(name) + 3 * n + 2 * (strategy == "cot")) % 11 > 3


def chains_beside_answers() -> pl.DataFrame:
    """The answer is the last stated belief and the path is noise: phi of chain_proper is high, of the path it is 0."""
    rows = []
    for place, base in enumerate(design(lambda *_: False, ("cot",), 4).iter_rows(named=True)):
        last, path = place % 2 == 0, place % 4 < 2
        more = {"correct": last, "chain_last_correct": last, "answer_matches_last": True, "chain_path_proper": path}
        more |= {"chain_proper": last and path, "chain_length": 3, "chain_lcs": 0.5, "chain_lcps": 0.5}
        rows.append({**base, **more, "scenario": "false_belief", "chain_transitions": place % 3 / 2})
    return pl.DataFrame(rows)


VARIED: dict[str, Callable[[], pl.DataFrame]] = {
    "uneven": lambda: design(uneven, subtasks=6),
    "three-strategies": lambda: design(uneven, ("vanilla", "cot", "filler")),
    "chains": chains_beside_answers,
    "chained": chained,
    "failing": lambda: design(uneven).with_columns(
        status=pl.when(pl.col("item").str.ends_with("e/3")).then(pl.lit("invalid")).otherwise("status")
    ),
}


@pytest.mark.parametrize("intervals", ["recommended", "published"])
@pytest.mark.parametrize("name", VARIED)
def test_numbers_and_words_of_other_tables_are_what_they_were(name: str, intervals: str) -> None:
    found = compute(VARIED[name](), "perturbed", intervals)
    words = {"warnings": found.warnings, "verdicts": found.verdicts()}
    golden_tables.check(f"perturbed-{name}-{intervals}", found.tables, **words)


def of_class(tables: dict[str, pl.DataFrame], name: str) -> dict:
    """The effect of a class over all questions, by vanilla."""
    return cells(tables["perturbation_effects"], "subset", "strategy", "perturbation")["all", "vanilla", name]


def broken(stage: str, name: str, n: int, strategy: str) -> bool:
    """Two classes much harder than the rest, and stages that differ a little."""
    bar = {"late_label": 12, "untrustworthy_testimony": 10}.get(name, 2)
    return n >= bar + (STAGES.index(stage) + PERTURBATIONS.index(name)) % 3 - 1


def test_a_class_gets_a_verdict_that_seven_stages_can_give() -> None:
    """With flips and Yekutieli's correction the least adjusted p of seven stages is .092, whatever the answers."""
    tables = recommended(design(broken, ("vanilla",), 16))
    row = of_class(tables, "late_label")
    assert row["verdict"] == "harder"
    assert row["p_adjusted"] < 0.001
    assert row["p_sign_flip"] == row["p_smallest"] == 2 / 2**7
    card = where_it_breaks(tables)
    assert (card.verdict, card.tone) == ("Significantly harder: late label, untrustworthy testimony", BAD)
    text = dict(card.grounds)["vanilla, all questions"]
    assert "Of 10 classes: 2 harder; 1 cannot be decided with 4 stages (needs 7); 7 not shown." in text
    easier = recommended(design(lambda *at: not broken(*at), ("vanilla",), 16))
    assert of_class(easier, "late_label")["verdict"] == "easier"


def where_it_breaks(tables: dict[str, pl.DataFrame]) -> Card:
    (verdict,) = load_study("perturbed").verdicts(tables, Context())
    return next(card for card in verdict.cards if card.question == "Where does it break?")


def test_stages_that_all_agree_do_not_show_that_all_would() -> None:
    """Everything is right: no spread is known, so that nothing is promised, and the interval decides."""
    for subtasks, said in ((16, "not shown"), (2, "cannot be decided with 7 stages")):
        row = of_class(recommended(design(lambda *_: True, ("vanilla",), subtasks)), "late_label")
        assert (row["risk_difference"], row["p"], row["sd"]) == (0.0, 1.0, 0.0)
        assert row["rd_low"] < 0 < row["rd_high"]
        assert (row["minimum_detectable_effect"], row["units_needed"]) == (None, None)
        assert row["verdict"] == said, (row["rd_low"], row["rd_high"])


def test_a_class_that_lost_answers_warns() -> None:
    """A class that loses 30% of its answers to failures in the same way looks .28 harder (p .00 or so), although its
    answers are as good as those to the unperturbed stories: the verdict and the warnings say so."""
    lost = design(lambda *_: True, ("vanilla",), 16).with_columns(
        status=pl.when((pl.col("perturbation") == "late_label") & (lost_of(pl.col("item")) < 5))
        .then(pl.lit("length"))
        .otherwise("status"),
        answer=pl.lit(None, pl.String),
        correct=~((pl.col("perturbation") == "late_label") & (lost_of(pl.col("item")) < 5)),
    )
    found = compute(lost, load_study("perturbed"))
    row = of_class(dict(found.tables), "late_label")
    assert row["risk_difference"] < -0.25
    assert row["failed_control"] == 0.0
    assert row["p_failure"] <= 0.05
    assert row["worst_low"] == row["risk_difference"] < row["worst_high"] == 0.0
    assert row["verdict"] == "harder, unless failures explain it"
    (warning,) = [line for line in found.warnings if "all questions" in line]
    assert "m, vanilla, all questions: failures may explain the effect of late label" in warning
    whole = compute(lost.with_columns(status=pl.lit("ok"), correct=pl.lit(True)), load_study("perturbed"))
    assert whole.warnings == ()


def lost_of(item: pl.Expr) -> pl.Expr:
    """The number of a question within its task."""
    return item.str.split("/").list.last().cast(pl.Int64)


def test_bounds_of_a_fitted_difference_hold_it() -> None:
    """Failures count as wrong in the difference: what it is if all of them are right is no bound of it by itself."""
    arm = pl.Series([False, True, True, False, False, True, True])
    data = pl.DataFrame(
        {
            "stage": ["S1"] * 3 + ["S2"] * 4, "cluster": list("abcddee"),
            "faulty": [False, True, False, True, False, False, False],
            "correct": [True, False, True, False, False, True, True],
        }
    )  # fmt: skip
    found = matched_contrast(data, arm, stratum="stage", pool=THESE)
    assert found["worst_low"] < found["risk_difference"] <= found["worst_high"]


def test_bounds_hold_what_failures_may_hide() -> None:
    frame = design(lambda stage, name, n, strategy: n > 1)
    failed = (pl.col("strategy") == "cot") & pl.col("item").str.ends_with("/3")
    frame = frame.with_columns(status=pl.when(failed).then(pl.lit("http_500")).otherwise("status"))
    study = load_study("perturbed")
    found = compute(frame, study)
    effect = cells(found.tables["prompting_effects"], "subset", "perturbation", "target")["all", "none", "new stages"]
    assert effect["risk_difference"] == effect["worst_low"] == -0.25
    assert effect["worst_high"] == 0.0
    assert (effect["failed_treated"], effect["failed_control"]) == pytest.approx((0.25, 0.0))
    assert effect["p_failure"] == 2 / 2**7, "failures of one strategy only"
    assert len(found.warnings) == 2, "none failed in the false-belief subset"
    assert "(25% against 0% of all questions, p < 0.001)" in found.warnings[0]
    assert "bounds if all failed answers are counted: −25 to 0" in found.warnings[0]
    whole = frame.with_columns(status=pl.lit("ok"))
    assert compute(whole, study).warnings == ()
    less = whole.filter((pl.col("strategy") == "vanilla") | (pl.col("perturbation") != "none"))
    assert "asked different items (all questions): 268 of 296 compare" in compute(less, study).warnings[0]


@pytest.mark.parametrize("noisy", [False, True])
def test_an_effect_that_batching_could_make_is_not_clear(noisy: bool) -> None:
    """The noise of an effect is that of its own rows: answers to unperturbed stories that change move every class's
    effect, answers of a class move only its own."""
    moved = (pl.col("perturbation") == "late_label") & (lost_of(pl.col("item")) < 14)
    changed = pl.when(moved & pl.lit(noisy)).then(pl.lit([64]))
    tables = recommended(
        design(broken, ("vanilla",), 16).with_columns(
            noise_compared=pl.lit([1, 64]), noise_answer=changed.otherwise(pl.lit([], pl.List(pl.Int64)))
        )
    )
    late, other = of_class(tables, "late_label"), of_class(tables, "untrustworthy_testimony")
    assert late["noise"] == pytest.approx(14 / 16 if noisy else 0)
    assert other["noise"] == 0
    assert 0.05 < other["noise_high"] < 0.07, "two sides of 112 questions, of which none changed"
    assert late["verdict"] == ("not shown, as batching alone could move it so far" if noisy else "harder")
    assert other["verdict"] == "harder"


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """The practice stage, three times over as three stages."""

    def renamed(item: Item, stage: str) -> Item:
        names = {"id": item.id.replace("P1", stage), "cluster": item.cluster.replace("P1", stage)}
        return item.model_copy(update={**names, "factors": {**item.factors, "stage": stage}})

    made = load_stage(ROOT / "tests/data/practice_stage_2.yaml").items()
    return [renamed(item, stage) for stage in ("P1", "P2", "P3") for item in made]


def studied(items: list[Item], wrong: set[str]) -> dict[str, pl.DataFrame]:
    """The tables of a model that answers all but the items whose names begin so."""
    missed = tuple(wrong)
    return recommended(answered(items, lambda item: wrong_choice(item) if item.id.startswith(missed) else item.answer))


def test_a_pair_is_solved_where_both_stories_are_right(items: list[Item]) -> None:
    found = studied(items, {"P1/late_label/forgot", "P2/late_label/remembers", "P3/automatic_change_knowledge/knows"})
    late = found["pairs"].row(by_predicate=pl.col("perturbation") == "late_label", named=True)
    assert (late["solved"], late["pairs"]) == (2, 6)
    assert (late["only_cue"], late["only_other"], late["neither"]) == (2, 2, 0)
    overall = found["pairs"].row(by_predicate=pl.col("perturbation") == "overall", named=True)
    assert (overall["solved"], overall["pairs"], overall["target"]) == (6, 12, "new stages")


def test_pairs_of_the_released_and_of_a_fresh_edition_are_not_mixed(items: list[Item]) -> None:
    """Of two editions that one model was asked, each story goes with the twin of its own edition."""
    named = ({"id": f"{one.id}/fresh-7", "factors": {**one.factors, "base": one.id, "fresh": 7}} for one in items)
    fresh = [item.model_copy(update=names) for item, names in zip(items, named, strict=True)]
    found = studied([*items, *fresh], {"P1/late_label/forgot"})["pairs"]
    late = found.row(by_predicate=pl.col("perturbation") == "late_label", named=True)
    assert (late["solved"], late["pairs"], late["only_cue"] + late["only_other"]) == (8, 12, 4)


def test_ground_is_compared_within_class_and_stage(items: list[Item]) -> None:
    found = studied(items, {f"P{n}/late_label/remembers" for n in (1, 2, 3)} | {"P1/late_label/forgot"})["ground"]
    late = found.row(by_predicate=pl.col("perturbation") == "late_label", named=True)
    assert (late["right_treated"], late["asked_treated"]) == (6, 12)
    assert (late["right_control"], late["asked_control"]) == (10, 12)
    assert late["risk_difference"] == pytest.approx(-1 / 3)
    overall = found.row(by_predicate=pl.col("perturbation") == "overall", named=True)
    assert overall["risk_difference"] == pytest.approx(-1 / 3 / 3)  # three classes, one of which differs


def test_numbers_of_all_tables_are_what_they_were(items: list[Item]) -> None:
    wrong = {"P1/late_label/passed_by", "P2/late_label/remembers", "P1/automatic_change_knowledge/knows", "P3/none"}
    golden_tables.check("perturbed-versions", studied(items, wrong))


def record(units: int, needed: int | None = None) -> dict:
    """A class whose difference is clear by its adjusted p, in so many units."""
    ends = {"risk_difference": -1.0, "rd_low": -1.0, "rd_high": -0.9, "worst_low": -1.0, "worst_high": -0.9}
    unknown = {"p_failure": math.nan, "minimum_detectable_effect": math.nan}
    return {**ends, **unknown, "p_adjusted": 0.01, "units_needed": needed, "units": units}


def test_nothing_is_clear_with_too_few_units_and_the_same_difference_is_with_enough() -> None:
    for units in range(1, FEWEST_UNITS):
        said = class_verdict(record(units), ("harder", "easier"))
        assert said == f"cannot be decided with {units} stage{'s' * (units > 1)} (needs {FEWEST_UNITS})"
        assert str(class_verdict(record(units, 25), ("harder", "easier"))).endswith("(needs 25)")
    assert class_verdict(record(FEWEST_UNITS), ("harder", "easier")) == "harder"


def test_tasks_that_fail_together_in_one_stage_are_one_observation() -> None:
    """In one of seven stages all eleven tasks fail with one strategy: eleven tasks, but one stage, tell against it."""
    rows = [
        {"cluster": f"{stage}/{task}", "stage": stage, "correct": True, "control": True}
        | {"faulty": stage == 0, "control_faulty": False}
        for stage in range(7)
        for task in range(11)
    ]
    assert contrast(pl.DataFrame(rows))["p_failure"] < 0.01
    assert contrast(pl.DataFrame(rows), "stage")["p_failure"] > 0.3
