"""The perturbation study (arXiv 2602.22072), from a score table to every table of the paper.

    tomserve analyze perturbed-2-reference --study perturbed --out tables --format csv
    tomserve analyze perturbed-2-reference --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): a failure is a wrong answer; intervals count tasks or
stages, and effects compare stories of the same stage. *published*: an item is left out where the output of any strategy
of the model was faulty (`dropped`), and every question counts as independent, which it is not. Shares are compared with
one half as exact fractions in both. The notes say what each table means, and for whom its intervals speak.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from tomserve.benchmarks.perturbed.stages import PERTURBATIONS, SCENARIOS
from tomserve.studies import Excerpt, ItemOutline, Layout, Study, Versions, baselines
from tomserve.studies.answer_rows import REQUIRED, drop_undefined
from tomserve.studies.breakdowns import Rows
from tomserve.studies.contrasts import NEW, WORTH, failures_may_explain
from tomserve.studies.missing_data import with_unread
from tomserve.studies.noise import noise_columns
from tomserve.studies.phrases import PHRASES
from tomserve.studies.presentation import (
    Chance,
    Row,
    Tables,
    by_choices,
    cell_of,
    finite_or_none,
    mean_of,
    p_value,
    percent,
    readable_name,
    signed_points,
    worst_case,
)
from tomserve.studies.study import FileCounting
from tomserve.studies.texts import Texts

from . import paper
from . import tables as perturbed_tables
from .paper import (
    LIMITED,
    add_solved_tasks,
    challenging,
    counts_of,
    criteria_records,
    estimated_effects,
    exact_effects,
    with_rules,
)
from .report import figures, verdicts
from .tables import (
    CONTROL,
    DESIGN,
    OVERALL,
    PERTURBED,
    SUBSETS,
    CountedRows,
    counted_rows,
    failures,
    sorted_frame,
    study_rows,
    subsets,
    subtasks,
    tasks,
    with_overall,
)

TEXTS = Texts(__file__, worth=f"{WORTH:g}")

_NAMES = {"all": "all", "false_belief": "false-belief"}  # the parts of the questions, short enough for a column


def summary(tables: Tables) -> list[Excerpt]:
    """The tables that the terminal prints: accuracy by class and strategy, effects over all classes together, what is
    shown of each class, the paper's criteria. A cell of accuracy reads ``right/asked share [interval]``; two strategies
    fit in 80 columns."""
    by_task = "method" in tables["accuracy"].columns
    excerpts = _accuracy(tables, "95% intervals" if by_task else "published intervals")
    excerpts += baselines.excerpts(
        tables["accuracy"].filter(perturbation=OVERALL).with_columns(_questions()), ("questions", "strategy")
    )
    if by_task:
        excerpts += [*_perturbing(tables), *_by_class(tables), *_prompting(tables), *_pairs(tables)]
    title = "the paper's criteria (more than half correct)"
    shown = _criteria(tables)
    reading = TEXTS["paper"] + (f" {TEXTS['solved']}" if "tasks solved" in shown.columns else "")
    return [*excerpts, Excerpt(title, shown, ("criteria",), reading)]


def _accuracy(tables: Tables, kind: str) -> list[Excerpt]:
    counted = pl.format("{}/{} {}", "correct", "total", _cell("accuracy", "ci_low", "ci_high"))
    excerpts = []
    reading = TEXTS["accuracy"] if "method" in tables["accuracy"].columns else TEXTS["published"]
    for (subset, model), part in tables["accuracy"].group_by(["subset", "model"], maintain_order=True):
        wide = part.with_columns(counted.alias("cell")).pivot("strategy", index="perturbation", values="cell")
        wide = with_unread(baselines.with_best_rule(wide, part, "perturbation"), part, "perturbation")
        title = f"{model}: accuracy, {SUBSETS[str(subset)]} ({kind})"
        said = f"{reading} {PHRASES['about_unread']}" if "unread" in wide.columns else reading
        excerpts.append(Excerpt(title, wide, ("accuracy",), said))
    return excerpts


def _perturbing(tables: Tables) -> Iterator[Excerpt]:
    """By model the effect of all classes together: the two shares, their difference, and p of the same test."""
    effects = tables["perturbation_effects"]
    pooled = effects.filter(pl.col("perturbation").str.starts_with(OVERALL), target=NEW)
    for (model,), part in pooled.group_by(["model"], maintain_order=True):
        title = f"{model}: perturbed minus unperturbed stories, all classes together"
        frame = _effects(part, "strategy", ("perturbed", "unperturbed"))
        yield Excerpt(title, frame, ("perturbation_effects",), TEXTS["effect"])


def _prompting(tables: Tables) -> Iterator[Excerpt]:
    """By model the effect of each strategy on all questions, in the same way."""
    pooled = tables["prompting_effects"].filter(perturbation=OVERALL, target=NEW)
    for (model, control), part in pooled.group_by(["model", "control"], maintain_order=True):
        title = f"{model}: each strategy minus {control}, on the same questions"
        frame = _effects(part, "treatment", ("strategy's", f"{control}'s"))
        yield Excerpt(title, frame, ("prompting_effects",), TEXTS["strategies"])


def _pairs(tables: Tables) -> Iterator[Excerpt]:
    """By model how many minimal pairs are solved, beside the simple rule that solves most; none where stories come in
    one version."""
    if "pairs" not in tables:
        return
    for (model,), part in tables["pairs"].filter(perturbation=OVERALL).group_by(["model"], maintain_order=True):
        rule = [pl.col("best_rule").alias("best baseline"), cell_of("best_rule_estimate", "its accuracy")]
        frame = part.select(
            "strategy",
            pl.format("{}/{}", "solved", "pairs").alias("solved"),
            _cell("estimate", "ci_low", "ci_high").alias("share [95%]"),
            pl.col("only_cue").alias("only cue"),
            pl.col("only_other").alias("only other"),
            *(rule if part["best_rule"].is_not_null().any() else []),
        )
        yield Excerpt(f"{model}: minimal pairs of false-belief stories, both right", frame, ("pairs",), TEXTS["pairs"])


def _effects(part: pl.DataFrame, arm: str, sides: tuple[str, str]) -> pl.DataFrame:
    """sides: the headings of the two shares whose difference the effect is."""
    shares = map(cell_of, ("share_treated", "share_control"), sides)
    effect = _cell("risk_difference", "rd_low", "rd_high").alias("difference [95%]")
    p = pl.col("p").map_elements(lambda p: f"{p:.3f}" if p >= 0.0005 else "<.001", pl.String)  # zeros, which no p is
    return part.select(_questions(), pl.col(arm).alias("strategy"), *shares, effect, p, *noise_columns(part))


def _by_class(tables: Tables) -> Iterator[Excerpt]:
    """By model how many classes have which verdict, and which they are where the verdict is a clear one."""
    effects = tables["perturbation_effects"].drop_nulls("verdict")
    named = pl.col("verdict").cast(pl.String)  # of a kind of its own where no class has a verdict
    effects = effects.with_columns(named.str.replace(r" with \d+ stages?", " with so few stages"))
    for (model,), part in effects.group_by(["model"], maintain_order=True):
        counted = part.group_by(["subset", "strategy", "verdict"], maintain_order=True).agg("perturbation")
        clear = pl.col("verdict").str.contains("^(harder|easier)")
        names = pl.col("perturbation").list.eval(pl.element().str.replace_all("_", " ")).list.join(", ")
        order = pl.col("strategy") != part["strategy"][0]
        frame = counted.sort("subset", order, ~clear, "verdict", maintain_order=True).select(
            _questions(),
            "strategy",
            pl.col("verdict").alias("finding"),
            pl.col("perturbation").list.len().alias("classes"),
            pl.when(clear).then(names).otherwise(pl.lit("")).alias("which"),
        )
        if (frame["which"] == "").all():
            frame = frame.drop("which")
        title = f"{model}: are perturbed stories harder, by class?"
        yield Excerpt(title, frame, ("perturbation_effects",), TEXTS["classes"])


def _criteria(tables: Tables) -> pl.DataFrame:
    """The criteria in words; tasks solved where they were counted. What was not asked is neither passed nor failed."""
    keys = ["subset", "model", "strategy"]
    asked = tables["accuracy"].filter(pl.col("total") > 0, perturbation=CONTROL).select(keys, asked=True)
    rows = tables["criteria"].filter(rule="strict").join(asked, on=keys, how="left", maintain_order="left")
    lacks = pl.col("asked").is_null()
    half = pl.when("ostensible").then(pl.lit("above half")).when(lacks).then(pl.lit("not asked"))
    # Of what was not asked everything is possible; without half of the unchanged stories no class makes up for them.
    most = pl.col("classes_above") + len(PERTURBED) - pl.col("classes_tested")
    some_lack = (lacks | (pl.col("classes_tested") < len(PERTURBED))) & (pl.col("ostensible") | lacks)
    called = (
        pl.when(pl.col("robust") & pl.col("ostensible"))
        .then(pl.lit("robust"))
        .when(pl.col("limited_robust") & pl.col("ostensible"))
        .then(pl.lit("limited robust"))
        .when(some_lack & (most >= LIMITED))
        .then(pl.lit("cannot be told"))
        .otherwise(pl.lit("not robust"))
    )
    counted = pl.when(pl.col("tasks") > 0).then(pl.format("{} of {}", "tasks_solved", "tasks"))
    solved = [counted.otherwise(pl.lit("none asked whole")).alias("tasks solved")] if "tasks" in rows.columns else []
    return rows.select(
        _questions(),
        "model",
        "strategy",
        half.otherwise(pl.lit("not above half")).alias("unperturbed"),
        pl.format("{} of {}", "classes_above", "classes_tested").alias("classes above half"),
        called.alias("paper's term"),
        *_also(rows),
        *solved,
    )


def _also(rows: pl.DataFrame) -> list[pl.Expr]:
    """Which shortcut baselines meet the criterion that the model meets: the first by name, and how many more."""
    if "rules_robust" not in rows.columns or rows["rules_robust"].is_null().all():
        return []
    none, half = pl.lit(""), pl.col("ostensible")
    limited = pl.when(pl.col("limited_robust") & half).then("rules_limited_robust").otherwise(none)
    names = pl.when(pl.col("robust") & half).then("rules_robust").otherwise(limited).str.split(", ")
    more = pl.when(names.list.len() > 1).then(pl.format(" and {} more", names.list.len() - 1)).otherwise(pl.lit(""))
    return [(names.list.first().fill_null("") + more).alias("also met by")]


def _questions() -> pl.Expr:
    return pl.col("subset").replace(_NAMES).alias("questions")


def _cell(value: str, low: str, high: str) -> pl.Expr:
    return pl.format("{} [{}, {}]", *map(cell_of, (value, low, high)))


# How many classes a warning names; the table has them all (its columns p_failure, worst_low and worst_high)
NAMED = 3

UNPERTURBED = "the unperturbed tasks of the same stages"


def warnings(tables: Tables) -> Iterator[str]:
    """One line for each reason to doubt a number: two strategies were asked different items, the two sides of a
    comparison failed so differently that this can look like an effect, or there are no baselines to compare with."""
    if "p_failure" in tables["perturbation_effects"].columns:  # with published intervals, what failed is left out
        yield from _asked_otherwise(tables)
        yield from _strategies_lost(tables["prompting_effects"])
        yield from _classes_lost(tables["perturbation_effects"], "strategy")
        yield from _classes_lost(tables["prompting_effects"], "treatment")
    yield from baselines.missing_warnings(tables)


def _asked_otherwise(tables: Tables) -> Iterator[str]:
    totals = tables["accuracy"].filter(perturbation=OVERALL).select("subset", "model", "strategy", "total")
    asked = {tuple(row[:3]): row[3] for row in totals.iter_rows()}
    for row in tables["prompting_effects"].filter(perturbation=OVERALL).iter_rows(named=True):
        subset, model, treatment, control = (row[name] for name in ("subset", "model", "treatment", "control"))
        most = max(asked.get((subset, model, strategy), 0) for strategy in (treatment, control))
        if row["n"] < most:
            both = f"({SUBSETS[subset]}): {row['n']} of {most} compare"
            yield f"{model}: {treatment} and {control} were asked different items {both}"


def _strategies_lost(effects: pl.DataFrame) -> Iterator[str]:
    for row in effects.filter(perturbation=OVERALL, target=NEW).iter_rows(named=True):
        p = finite_or_none(row["p_failure"])
        if p is not None and p <= 0.05:
            treatment, control = row["treatment"], row["control"]
            failed = f"{percent(row['failed_treated'])} against {percent(row['failed_control'])}"
            yield (
                f"{row['model']}: {treatment} and {control} did not fail equally often ({failed} of "
                f"{SUBSETS[row['subset']]}, {p_value(p)}), so that their difference, "
                f"{signed_points(row['risk_difference'])} points, may be due to failures; {worst_case(row)}"
            )


def _classes_lost(effects: pl.DataFrame, arm: str) -> Iterator[str]:
    """A line for each strategy of which classes failed so often that failures may explain their effects; a class that
    is named for all questions is not named again for a part of them."""
    named: set[tuple[object, ...]] = set()
    by_class = effects.filter(~pl.col("perturbation").str.starts_with(OVERALL))
    for (subset, model, strategy), part in by_class.group_by(["subset", "model", arm], maintain_order=True):
        doubtful = [
            row
            for row in part.iter_rows(named=True)
            if failures_may_explain(row) and (model, strategy, row["perturbation"]) not in named
        ]
        named |= {(model, strategy, row["perturbation"]) for row in doubtful}
        if doubtful:
            whose = f"{model}, {strategy}, {SUBSETS[str(subset)]}"
            worst_first = sorted(doubtful, key=lambda row: -abs(row["failed_treated"] - row["failed_control"]))
            more = len(doubtful) - NAMED
            others = f"; and of {more} more class{'es' * (more > 1)}" if more > 0 else ""
            yield f"{whose}: failures may explain the effect of {'; '.join(map(_lost, worst_first[:NAMED]))}{others}"


def _lost(row: Row) -> str:
    name, share = readable_name(row["perturbation"]), percent(row["failed_treated"])
    against = f"of {row['control']}" if "control" in row else f"of {UNPERTURBED}"
    failed = f"{share} failed, {against} {percent(row['failed_control'])}"
    return f"{name} ({failed}; the difference is {signed_points(row['risk_difference'])} points; {worst_case(row)})"


LAYOUTS = {
    "accuracy": Layout("accuracy", ("ci_low", "ci_high"), "perturbation", "subset", above=0.5),
    "perturbation_effects": Layout("risk_difference", ("rd_low", "rd_high"), "perturbation", "subset"),
    "prompting_effects": Layout(
        "risk_difference", ("rd_low", "rd_high"), "perturbation", "subset", columns=("model", "treatment")
    ),
}
CONTRAST = "risk_difference rd_low rd_high relative_risk rr_low rr_high"
TESTS = (
    "share_treated share_control p p_adjusted verdict p_moderated p_moderated_adjusted p_sign_flip p_smallest "
    "p_failure failed_treated failed_control worst_low worst_high noise noise_high minimum_detectable_effect "
    "units_needed sd units tasks few_tasks target method zeros"
)
WITHIN = (
    "right_treated asked_treated right_control asked_control share_treated share_control risk_difference rd_low "
    "rd_high p stages target method"
)
COLUMNS = {
    "accuracy": "subset model strategy perturbation correct total accuracy ci_low ci_high",
    "perturbation_effects": f"subset model strategy perturbation {CONTRAST}",
    "prompting_effects": f"subset model perturbation treatment control {CONTRAST}",
    "strategies": "subset model q df p_value strategies n informative",
    "faithfulness": "model strategy sample metric coefficient value ci_low ci_high p_value n correlated",
    "criteria": "subset model strategy rule ostensible classes_above limited_robust robust classes_tested "
    "rules_robust rules_limited_robust",
    "challenging": "subset strategy perturbation models_in_top_five models challenging",
    "placebo": "model strategy perturbation chain risk_difference rd_low rd_high n verdict subset",
    baselines.TABLE: "subset model perturbation rule kind right total accuracy said",
    "roles": "model strategy perturbation role correct total accuracy ci_low ci_high",
    "pairs": "model strategy perturbation solved pairs share ci_low ci_high only_cue only_other neither",
    "ground": f"model strategy perturbation {WITHIN}",
    "awareness": f"model strategy {WITHIN}",
}
# The columns that tables with recommended intervals have in addition to COLUMNS
MORE = {
    "accuracy": "failed unread accuracy_dropped accuracy_high tasks few_tasks estimate target method "
    + baselines.RULE_COLUMNS,
    "perturbation_effects": f"{TESTS} p_permutation mh_risk_difference mh_risk_ratio",
    "prompting_effects": f"{TESTS} gained lost both neither mcnemar_exact mcnemar_mid_p tango_low tango_high n",
    "faithfulness": "within within_low within_high minimum maximum both only_chain only_answer neither "
    "auc auc_low auc_high within_auc method",
    "criteria": "classes_interval_above classes_joint robust_joint tasks_solved tasks",
    "placebo": "null null_sd",
    "roles": f"failed tasks few_tasks estimate target method {baselines.RULE_COLUMNS}",
    "pairs": f"failed tasks few_tasks estimate target method {baselines.RULE_COLUMNS}",
}


def count_tables(files: Rows, kinds: baselines.RuleKinds, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study by name, from the rows of every file, of which one at a time is held with all its
    columns."""
    rows = counted_rows(files(), kinds)
    return _published_tables(rows, kinds) if intervals == "published" else _recommended_tables(rows, kinds)


def _published_tables(counted: CountedRows, kinds: baselines.RuleKinds) -> dict[str, pl.DataFrame]:
    rows, belief, _ = counted
    complete = rows.filter("complete")
    shares = paper.accuracy(rows)
    counts = counts_of(shares)
    effects = sorted_frame(paper.perturbation_effects(counts), f"{COLUMNS['perturbation_effects']} note")
    named: dict[str, pl.DataFrame] = {
        "accuracy": shares,
        "perturbation_effects": effects,
        "prompting_effects": sorted_frame(paper.prompting_effects(rows), f"{COLUMNS['prompting_effects']} n note"),
        "faithfulness": sorted_frame(paper.faithfulness(belief), COLUMNS["faithfulness"]),
        "criteria": sorted_frame(criteria_records(counts, with_rules(complete, kinds, {})), COLUMNS["criteria"]),
        "challenging": sorted_frame(challenging(exact_effects(counts)), COLUMNS["challenging"]),
        "placebo": sorted_frame(paper.placebo(belief), COLUMNS["placebo"]),
    }
    return {**named, **_shared_tables(counted, complete, kinds)}


def _recommended_tables(counted: CountedRows, kinds: baselines.RuleKinds) -> dict[str, pl.DataFrame]:
    rows, belief, _ = counted
    records = list(perturbed_tables.accuracy(rows, kinds))
    effects = list(perturbed_tables.perturbation_effects(rows))
    shared = _shared_tables(counted, rows, kinds)
    more = with_rules(rows, kinds, add_solved_tasks(shared["tasks"], perturbed_tables.criteria_columns(rows, records)))
    counts = {(r["subset"], r["model"], r["strategy"], r["perturbation"]): (r["correct"], r["total"]) for r in records}
    by_name: dict[str, Iterator[dict[str, Any]]] = {
        "accuracy": iter(records),
        "perturbation_effects": iter(effects),
        "prompting_effects": perturbed_tables.prompting_effects(rows),
        "strategies": perturbed_tables.strategies(rows),
        "faithfulness": perturbed_tables.faithfulness(belief),
        "criteria": criteria_records(counts, more),
        "challenging": challenging(estimated_effects(effects)),
        "placebo": perturbed_tables.placebo(belief),
        **perturbed_tables.tables(belief, kinds),
    }
    frames = {name: sorted_frame(made, f"{COLUMNS[name]} {MORE.get(name, '')}") for name, made in by_name.items()}
    return {name: drop_undefined(frame) for name, frame in {**frames, **shared}.items()}


def _shared_tables(counted: CountedRows, sample: pl.DataFrame, kinds: baselines.RuleKinds) -> dict[str, pl.DataFrame]:
    once = sample.select("model", "item", "perturbation", "false_belief", *kinds.columns).unique(["model", "item"])
    listed = baselines.rule_records(with_overall(subsets(once)), kinds, ("subset", "model", "perturbation"))
    return {
        baselines.TABLE: sorted_frame(listed, COLUMNS[baselines.TABLE]),
        "subtasks": subtasks(sample),
        "tasks": tasks(counted.every),
        "chains": counted.chains,
        "failures": failures(counted.every),
    }


def chance(items: Iterable[ItemOutline]) -> Chance:
    """What a blind guess scores: the mean of 1 / number of choices, over all asked items ("all") and over those of the
    false-belief subset."""
    every: list[float] = []
    belief: list[float] = []
    for item in items:
        every.append(1 / item.choices)
        if (item.factors.get("scenario"), item.factors.get("question_kind")) == ("false_belief", "belief"):
            belief.append(1 / item.choices)
    shares = {"all": mean_of(every), "false_belief": mean_of(belief)}
    return Chance({name: share for name, share in shares.items() if share is not None}, by_choices(()).meaning)


COUNTED = FileCounting(study_rows, count_tables)

STUDY = Study(
    name="perturbed",
    tables=COUNTED.of_one,
    required=(*REQUIRED, *DESIGN),
    values={
        "perturbation": PERTURBATIONS,
        "scenario": tuple(dict.fromkeys(name for names in SCENARIOS.values() for name in names)),
        "question_kind": ("reality", "belief"),
    },
    intervals=("recommended", "published"),
    notes=TEXTS.notes,
    warnings=warnings,
    summary=summary,
    layouts=LAYOUTS,
    figures=figures,
    verdicts=verdicts,
    chance=chance,
    versions=Versions("perturbation", CONTROL, ("stage", "scenario", "question_kind", "swapped")),
    strata=("scenario", "question_kind"),
    counted=COUNTED,
    labels={"perturbation": "Class", "stage": "Stage", "scenario": "Scenario", "question_kind": "Question"},
)
