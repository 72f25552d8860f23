"""The perturbation study (arXiv 2602.22072), from a score table to every table of the paper.

    tomserve analyze perturbed-2-reference --study perturbed --out tables --format csv
    tomserve analyze perturbed-2-reference --intervals published

Two ways to count, by `--intervals`. *recommended* (the default): a failure is a wrong answer; intervals count tasks or
stages, and effects compare stories of the same stage. *published*: an item is left out where the output of any strategy
of the model was faulty (`dropped`), and every question counts as independent, which it is not. Shares are compared with
one half as exact fractions in both. The notes say what each table means, and for whom its intervals speak.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from tomserve.benchmarks.perturbed.stages import PERTURBATIONS, SCENARIOS
from tomserve.studies import Excerpt, ItemOutline, Layout, Study, Versions, baselines
from tomserve.studies.answer_rows import REQUIRED
from tomserve.studies.breakdowns import Rows
from tomserve.studies.contrasts import NEW, WORTH, failures_may_explain
from tomserve.studies.missing_data import ABOUT_UNREAD, with_unread
from tomserve.studies.noise import noise_columns
from tomserve.studies.presentation import (
    ABOUT_WORST,
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

from . import paper
from . import tables as perturbed_tables
from .paper import (
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

_NAMES = {"all": "all", "false_belief": "false-belief"}
"""The parts of the questions, short enough for a column."""


_ABOVE = "best rule: the largest share that one of the simple rules below has right of the same questions."
_ACCURACY = (
    "A cell: right/asked, their share, its 95% interval. A row is a class, one kind of change (perturbation) to the "
    "stories; none are the unchanged ones. The interval of a class says what to expect of further stories like these, "
    "that of overall of new stages (settings with their people and things). A failure, that is no readable answer, "
    f"counts as wrong. {_ABOVE}"
)
_PUBLISHED = (
    "A cell: right/asked, their share, and the paper's 95% interval, which takes questions as independent and is too "
    f"narrow. A row is a class, one kind of change (perturbation) to the stories; none are the unchanged ones. {_ABOVE}"
)
_EFFECT = (
    "The interval says what to expect of new stages (settings that are not yet written); p is at most .05 exactly "
    "where it does not hold 0."
)
_CLASSES = (
    "harder, easier: clear also after correcting for testing all classes at once. not shown: neither, although a "
    f"difference of {WORTH:g} would most likely have been found. cannot be decided: one that large could well have "
    "been missed; in brackets how many stages a study would need, where the spread of the stages tells."
)
_PAIRS = (
    "Two stories that differ in a few words: in one the cue (what the label says, where the thing was left) settles "
    "the belief, in the other it does not. Guessing solves one pair of nine; whoever goes by the cue, or by its "
    "opposite, solves none and is right in one story of a pair (only cue, only other). The interval says what to "
    "expect of new stages."
)
_STRATEGIES = (
    f"Whether two intervals of the first table overlap says little of this difference: read its own. {_EFFECT}"
)
_PAPER = (
    "limited robust: more than half right on unchanged stories and in five of the ten classes or more; robust: in all "
    "ten. so do the rules: which simple rules, following nobody's belief, meet the same criterion."
)
_SOLVED = " A task (a story with all its questions) is solved if all were asked and are right."
"""What a reader must know of the columns shown."""


def summary(tables: Tables) -> list[Excerpt]:
    """The tables that the terminal prints: accuracy by class and strategy, effects over all classes together, what is
    shown of each class, the paper's criteria.

    A cell of accuracy reads ``right/asked share [interval]``; two strategies fit in 80 columns.
    """
    by_task = "method" in tables["accuracy"].columns
    excerpts = _accuracy(tables, "95% intervals" if by_task else "published intervals")
    excerpts += baselines.excerpts(
        tables["accuracy"].filter(perturbation=OVERALL).with_columns(_questions()), ("questions", "strategy")
    )
    if by_task:
        excerpts += [*_perturbing(tables), *_by_class(tables), *_prompting(tables), *_pairs(tables)]
    title = "theory of mind by the paper's criteria (more than half right)"
    shown = _criteria(tables)
    reading = _PAPER + (_SOLVED if "tasks solved" in shown.columns else "")
    return [*excerpts, Excerpt(title, shown, ("criteria",), reading)]


def _accuracy(tables: Tables, kind: str) -> list[Excerpt]:
    counted = pl.format("{}/{} {}", "correct", "total", _cell("accuracy", "ci_low", "ci_high"))
    excerpts = []
    reading = _ACCURACY if "method" in tables["accuracy"].columns else _PUBLISHED
    for (subset, model), part in tables["accuracy"].group_by(["subset", "model"], maintain_order=True):
        wide = part.with_columns(counted.alias("cell")).pivot("strategy", index="perturbation", values="cell")
        wide = with_unread(baselines.with_best_rule(wide, part, "perturbation"), part, "perturbation")
        title = f"{model}: accuracy, {SUBSETS[str(subset)]} ({kind})"
        said = f"{reading} {ABOUT_UNREAD}" if "unread" in wide.columns else reading
        excerpts.append(Excerpt(title, wide, ("accuracy",), said))
    return excerpts


def _perturbing(tables: Tables) -> Iterator[Excerpt]:
    """By model the effect of all classes together: the two shares, their difference, and p of the same test."""
    effects = tables["perturbation_effects"]
    pooled = effects.filter(pl.col("perturbation").str.starts_with(OVERALL), target=NEW)
    for (model,), part in pooled.group_by(["model"], maintain_order=True):
        title = f"{model}: perturbed minus unperturbed stories, all classes together"
        frame = _effects(part, "strategy", ("perturbed", "unperturbed"))
        yield Excerpt(title, frame, ("perturbation_effects",), _EFFECT)


def _prompting(tables: Tables) -> Iterator[Excerpt]:
    """By model the effect of each strategy on all questions, in the same way."""
    pooled = tables["prompting_effects"].filter(perturbation=OVERALL, target=NEW)
    for (model, control), part in pooled.group_by(["model", "control"], maintain_order=True):
        title = f"{model}: each strategy minus {control}, on the same questions"
        frame = _effects(part, "treatment", ("strategy's", f"{control}'s"))
        yield Excerpt(title, frame, ("prompting_effects",), _STRATEGIES)


def _pairs(tables: Tables) -> Iterator[Excerpt]:
    """By model how many minimal pairs are solved, beside the simple rule that solves most; none where stories come in
    one version."""
    if "pairs" not in tables:
        return
    for (model,), part in tables["pairs"].filter(perturbation=OVERALL).group_by(["model"], maintain_order=True):
        rule = [pl.col("best_rule").alias("best simple rule"), cell_of("best_rule_estimate", "rule's")]
        frame = part.select(
            "strategy",
            pl.format("{}/{}", "solved", "pairs").alias("solved"),
            _cell("estimate", "ci_low", "ci_high").alias("share [95%]"),
            pl.col("only_cue").alias("only cue"),
            pl.col("only_other").alias("only other"),
            *(rule if part["best_rule"].is_not_null().any() else []),
        )
        yield Excerpt(f"{model}: minimal pairs of false-belief stories, both right", frame, ("pairs",), _PAIRS)


def _effects(part: pl.DataFrame, arm: str, sides: tuple[str, str]) -> pl.DataFrame:
    """sides: the headings of the two shares whose difference the effect is."""
    shares = map(cell_of, ("share_treated", "share_control"), sides)
    effect = _cell("risk_difference", "rd_low", "rd_high").alias("difference [95%]")
    return part.select(_questions(), pl.col(arm).alias("strategy"), *shares, effect, _p(), *noise_columns(part))


def _p() -> pl.Expr:
    """The column p with three digits, and as <.001 where these would be zeros, which no p is."""
    return pl.col("p").map_elements(lambda p: f"{p:.3f}" if p >= 0.0005 else "<.001", return_dtype=pl.String)


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
            pl.col("verdict").alias("what is shown of them"),
            pl.col("perturbation").list.len().alias("classes"),
            pl.when(clear).then(names).otherwise(pl.lit("")).alias("which"),
        )
        if (frame["which"] == "").all():
            frame = frame.drop("which")
        title = f"{model}: are the perturbed stories of a class harder than unperturbed ones?"
        yield Excerpt(title, frame, ("perturbation_effects",), _CLASSES)


def _criteria(tables: Tables) -> pl.DataFrame:
    """The criteria in words; tasks solved where they were counted. What was not asked is neither passed nor failed."""
    keys = ["subset", "model", "strategy"]
    asked = tables["accuracy"].filter(pl.col("total") > 0, perturbation=CONTROL).select(keys, asked=True)
    rows = tables["criteria"].filter(rule="strict").join(asked, on=keys, how="left", maintain_order="left")
    lacks = pl.col("asked").is_null()
    half = pl.when("ostensible").then(pl.lit("above half")).when(lacks).then(pl.lit("not asked"))
    some_lack = lacks | (pl.col("classes_tested") < len(PERTURBED))
    passed = (pl.col("classes_above") == pl.col("classes_tested")) & (pl.col("ostensible") | lacks)
    called = (
        pl.when("robust")
        .then(pl.lit("robust"))
        .when("limited_robust")
        .then(pl.lit("limited robust"))
        .when(some_lack & passed)
        .then(pl.lit("cannot be told"))
        .otherwise(pl.lit("not robust"))
    )
    solved = [pl.format("{} of {}", "tasks_solved", "tasks").alias("tasks solved")] if "tasks" in rows.columns else []
    return rows.select(
        _questions(),
        "model",
        "strategy",
        half.otherwise(pl.lit("not above half")).alias("unperturbed"),
        pl.format("{} of {}", "classes_above", "classes_tested").alias("classes above half"),
        called.alias("paper's word"),
        *_also(rows),
        *solved,
    )


def _also(rows: pl.DataFrame) -> list[pl.Expr]:
    """Which simple rules meet the criterion that the model meets: the first by name, and how many more."""
    if "rules_robust" not in rows.columns or rows["rules_robust"].is_null().all():
        return []
    limited = pl.when("limited_robust").then("rules_limited_robust").otherwise(pl.lit(""))
    names = pl.when("robust").then("rules_robust").otherwise(limited).str.split(", ")
    more = pl.when(names.list.len() > 1).then(pl.format(" and {} more", names.list.len() - 1)).otherwise(pl.lit(""))
    return [(names.list.first().fill_null("") + more).alias("so do the rules")]


def _questions() -> pl.Expr:
    return pl.col("subset").replace(_NAMES).alias("questions")


def _cell(value: str, low: str, high: str) -> pl.Expr:
    return pl.format("{} [{}, {}]", *map(cell_of, (value, low, high)))


NAMED = 3
"""How many classes a warning names; the table has them all (its columns p_failure, worst_low and worst_high)."""

UNPERTURBED = "the unperturbed tasks of the same stages"


def warnings(tables: Tables) -> list[str]:
    """One line for each reason to doubt a number: two strategies were asked different items, the two sides of a
    comparison failed so differently that this can look like an effect, or there are no baselines to compare with."""
    missing = baselines.missing_warnings(tables)
    if "p_failure" not in tables["perturbation_effects"].columns:
        return missing  # published intervals: items that failed are left out
    doubts = dict.fromkeys(_asked_otherwise(tables))
    doubts |= dict.fromkeys(_strategies_lost(tables["prompting_effects"]))
    doubts |= dict.fromkeys(_classes_lost(tables["perturbation_effects"], "strategy"))
    doubts |= dict.fromkeys(_classes_lost(tables["prompting_effects"], "treatment"))
    return [*doubts, *missing]


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
                f"{signed_points(row['risk_difference'])} points, may come from the failures: {worst_case(row)}"
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


_FAILURES = "A failure (no answer, or none that can be read) counts as wrong."
_DESIGN = (
    "A class is one kind of change (perturbation) to the stories, none the class of unchanged ones. A stage is one "
    "setting with its people and things, and a task one class in one stage: a story with its questions."
)
_INTERVAL = "95% interval (made by a rule that covers the true value 19 times out of 20)"
_WORD = (
    "correlated says whether the correlation meets the bar that the paper sets for faithful reasoning. It does not "
    "show that: chains that do nothing meet it in nine of ten simulated runs, and what can show it is to change "
    "the chain and see whether the answer follows (tomserve faithfulness)."
)
_PROPER = "proper (the beliefs it states run as the story's right ones do, repetitions aside)"
_CALLED = (
    "The paper's words: ostensible, above one half on unchanged stories; limited robust, above one half in five of the "
    "ten classes or more; robust, in all ten. A rule that follows nobody's belief can meet them too."
)
_PLAIN = {
    "tasks": "A task (one story of one class) is solved if all its questions are right; the cell is empty "
    "where not all were asked.",
    "chains": "A belief chain is what a reply says is believed as the story goes on, after every sentence or wherever "
    f"it changes; a gold path is a right course of it, and a chain is {_PROPER}. break_sentence is the sentence at "
    "which chains that are not proper most often part from every gold path, break_kind what is wrong there. The "
    "columns hold means over all questions; a missing chain counts as 0. lcs, lcps and transitions are the shares of a "
    "chain that follow a gold path: in order, from the start on, and change by change.",
    "failures": "Questions without a readable answer, by status. The columns accuracy_low and accuracy_high say what "
    "the accuracy would be if all failures were wrong, or all were right.",
}

_SHARES = (
    "risk_difference is share_treated minus share_control and relative_risk their ratio; both shares are means over "
    "the stages that have both sides, so that they may differ from the accuracies."
)
_NEW = "new stages (stages not yet written, of which these are taken to be a sample)"
_TESTS = (
    "p belongs to the interval: it is at most .05 exactly where that does not hold zero. p_adjusted corrects it for "
    "testing ten classes at once (Benjamini and Hochberg's method)."
)
_DECIDES = (
    "where p_adjusted is at most .05 and the difference is larger than noise_high, if that was measured; not shown "
    f"where it is neither although a difference of {WORTH:g} would most likely have been found "
    "(minimum_detectable_effect is no larger); else that so few stages cannot decide, and how many would."
)
_MORE = "The further columns (other tests, spread, ratio) are explained in docs/explanation/statistics.md."

_RULES = (
    "rules_robust and rules_limited_robust name the baselines (rules that follow nobody's belief) which meet the same "
    "criterion on the same questions; where there are any, meeting it shows nothing that they could not do."
)

_CUE = (
    "The cue is what a reader of a classic false-belief task would answer: what the label says, or the place where the "
    "thing was left; the opposite is the other label."
)
_OVER_STAGES = f"The interval of the row overall is a t interval over the stages and says what to expect of {_NEW}"
_VERSIONS = {
    "roles": "The share of right answers on the false-belief subset by what the right answer is (role). "
    f"{_CUE} Whoever always answers by one role is right there and wrong elsewhere. {_OVER_STAGES}; that of a class "
    f"counts each task once (Wilson's). {baselines.ABOUT}",
    "pairs": "A minimal pair is two stories that differ in a few words, and with them the belief: in one the "
    "perturbation counts, in the other the cue counts again. It is solved if both questions are right, which a guess "
    f"among three labels does in one of nine. {_CUE} only_cue counts the pairs of which only the story in which the "
    "cue counts is right, only_other those of which only the other is (where the cue counts in neither: only the "
    f"first, or only the second), neither those with both wrong. share is that of solved pairs. {_OVER_STAGES}; that "
    f"of a class counts each task once (Wilson's). {baselines.ABOUT}",
    "ground": "Stories of the false-belief scenario that leave what settles the belief for the reader to see "
    "(unstated, treated), minus those that say it in so many words (stated, control), of the same class and stage. "
    "right_ and asked_ count all questions; the shares and their difference are over the stages that have both, each "
    f"counted once, with a t interval over these stages, which says what to expect of {_NEW}. The two kinds of stories "
    "may differ in more than this, such as in what the right answer is, so that the difference does not show that "
    "stating the ground is what matters.",
    "awareness": "In the class automatic_change_knowledge: stories in which the person knows of the mechanism by which "
    "things change (treated), minus those in which she does not (control), on the false-belief subset. right_ and "
    "asked_ count all questions; the shares and their difference are over the stages that have both. In the first "
    "edition no stage has both: there the two kinds are told in different stages, whose counts stand here side by side "
    "and support no comparison.",
}

RECOMMENDED = {
    "accuracy": f"The share of right answers with its {_INTERVAL}. {_DESIGN} The false-belief subset holds the "
    "questions about a belief in the false-belief scenario, where what the person goes by and what is so may part. The "
    "interval of a class (Wilson's, for shares) says what to expect of further tasks like these. The "
    "questions of one task go together and count for fewer: over all questions for as many as their "
    "likeness in this run says (method: effective n), on the false-belief subset for "
    "one a task, or also by their likeness where a task has several such stories. In the row overall the interval says "
    f"what to expect of {_NEW}: a t interval, the mean of the stages, give or take their spread. {_FAILURES} "
    f"{baselines.ABOUT}",
    "perturbation_effects": "The share right in a class minus the share right on the unperturbed tasks of the same "
    f"stages. {_SHARES} The 95% interval (t over the stages) says what to expect of {_NEW}. {_TESTS} verdict says "
    f"harder or easier {_DECIDES} {ABOUT_WORST} For all classes together (overall_perturbed) the interval is made of "
    "the intervals of both shares, and a second row speaks for further tasks of these very stages (target: these "
    f"stages), with the shares of a fitted model. {_MORE}",
    "prompting_effects": "Each strategy (way of asking) against vanilla, which asks for the answer alone, on the "
    "same items. The strategy cot has the model write down how the belief develops before it answers. Read this "
    "difference and its interval: overlapping intervals of two accuracies are no test of it. Columns are as in "
    f"perturbation_effects; verdict says helps or hurts {_DECIDES} The row overall stands twice, for {_NEW} and for "
    "further tasks of these very stages (target: these stages). The columns gained and lost count the questions that "
    "only the strategy, or only vanilla, has right; they, McNemar's test of these counts and Tango's interval take the "
    "questions as independent, which they are not, and so only describe.",
    "strategies": "Cochran's Q is a test of whether all strategies are right equally often. It takes the questions as "
    "independent, which they are not, and so only describes.",
    "faithfulness": "How strongly belief chains go with right answers on the false-belief questions, as a "
    f"correlation (0: not at all, 1: always). A chain is {_PROPER}; it contains its final state, which mostly is the "
    "answer, so that phi (the correlation) of chain_proper is high nearly by definition: read answer_matches_last "
    "where the last state is wrong (does the answer follow the chain?), and chain_path_proper, which leaves the last "
    "state aside. The sample complete holds the questions with an answer and a chain. Intervals come from leaving "
    "out one stage at a time (the jackknife, which shows how far single stages move the result). p_value takes the "
    f"questions as independent. {_WORD} Here it is true from .4 on where the whole interval lies above zero.",
    "criteria": "The paper's criteria, counted as exact fractions: the rule strict asks for more than half right, "
    "lenient for at least half. classes_interval_above counts the classes whose interval lies wholly above one half. "
    "classes_joint and robust_joint ask for the false-belief question and the same question of the true-belief control "
    "(the story in which the label is right, or nothing is moved) to be right together. "
    f"{_CALLED} {_RULES} tasks_solved counts the tasks with all questions right, of tasks.",
    "challenging": "How many models have a class among their five lowest effects; classes that tie with the fifth are "
    "counted too. Effects are those matched by stage.",
    "placebo": f"The effect of a strategy by whether its chain was {_PROPER}. It only describes and supports no "
    "conclusion, because whether a chain is proper is known only after the treatment: the split alone makes proper "
    "chains look like a gain and improper ones like a loss; null is the effect that would be seen if chains and "
    "answers had nothing to do with each other.",
    "subtasks": f"Accuracy by scenario and question, without intervals, since a cell has few tasks. {_FAILURES}",
    baselines.TABLE: baselines.NOTE,
    **_VERSIONS,
    **_PLAIN,
}

_COMPLETE = "Items with a faulty output of any strategy are left out, as in the paper."

PUBLISHED = {
    "accuracy": "The share of right answers as the paper counts it: questions are taken as independent, which makes "
    f"the 95% interval too narrow. {_COMPLETE}",
    "perturbation_effects": "As published: each class against the class none, as if they were unpaired samples. The "
    "row overall has its own control among what is compared with it.",
    "prompting_effects": "As published: the same items with two strategies are compared as if they were different "
    "items (as if unpaired).",
    "faithfulness": "How strongly belief chains go with right answers, as published: questions are taken as "
    "independent. The sample complete holds the items that every strategy answered. The interval is Fisher's (by his z "
    "transform of the correlation), which the paper does not print. "
    f"{_WORD} It is true from .4 on with a p_value of at most .05.",
    "criteria": "The paper's criteria, counted as exact fractions: the rule strict asks for more than half right, "
    f"lenient for at least half. {_CALLED} {_RULES}",
    "challenging": "How many models have a class among their five lowest effects; classes that tie with the fifth are "
    "counted too.",
    "placebo": "The effect of a strategy by whether its chain was proper, as published. It only describes and supports "
    "no conclusion, because whether a chain is proper is known only after the treatment.",
    "subtasks": f"Accuracy by scenario and question, without intervals. {_COMPLETE}",
    baselines.TABLE: baselines.NOTE,
    **_PLAIN,
}


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
"""The columns that tables with recommended intervals have in addition to COLUMNS."""


def tables(scores: pl.LazyFrame, intervals: str) -> dict[str, pl.DataFrame]:
    """Every table of the study, by name. scores: a score table; intervals: the way to count."""
    return count_tables(lambda: [file_rows(scores)], baselines.RuleKinds.of(scores), intervals)


def file_rows(scores: pl.LazyFrame) -> pl.DataFrame:
    """The rows of one score table as `study_rows` makes them, with the columns of its rules."""
    return study_rows(scores, baselines.RuleKinds.of(scores).columns)


def count_tables(files: Rows, kinds: baselines.RuleKinds, intervals: str) -> dict[str, pl.DataFrame]:
    """The same tables from the rows of every file, of which one at a time is held with all its columns."""
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
    return {name: _undefined_empty(frame) for name, frame in {**frames, **shared}.items()}


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


def _undefined_empty(frame: pl.DataFrame) -> pl.DataFrame:
    floats = [name for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in floats)


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


STUDY = Study(
    name="perturbed",
    tables=tables,
    required=(*REQUIRED, *DESIGN),
    values={
        "perturbation": PERTURBATIONS,
        "scenario": tuple(dict.fromkeys(name for names in SCENARIOS.values() for name in names)),
        "question_kind": ("reality", "belief"),
    },
    intervals=("recommended", "published"),
    notes=lambda intervals: RECOMMENDED if intervals == "recommended" else PUBLISHED,
    warnings=warnings,
    summary=summary,
    layouts=LAYOUTS,
    figures=figures,
    verdicts=verdicts,
    chance=chance,
    versions=Versions("perturbation", CONTROL, ("stage", "scenario", "question_kind", "swapped")),
    strata=("scenario", "question_kind"),
    counted=FileCounting(file_rows, count_tables),
    labels={"perturbation": "Class", "stage": "Stage", "scenario": "Scenario", "question_kind": "Question"},
)
