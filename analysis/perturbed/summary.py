"""What the terminal shows of the perturbation study's tables; every table fits into 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tomserve.studies import Excerpt, baselines
from tomserve.studies.contrasts import NEW
from tomserve.studies.families import WORTH
from tomserve.studies.noise import shown as shown_noise
from tomserve.studies.showing import Tables
from tomserve.studies.unread import ABOUT as ABOUT_UNREAD
from tomserve.studies.unread import with_unread
from tomserve.studies.words import cell

from .rows import CONTROL, OVERALL, PERTURBED, SUBSETS

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
        wide = with_unread(baselines.with_best(wide, part, "perturbation"), part, "perturbation")
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
        rule = [pl.col("best_rule").alias("best simple rule"), _number("best_rule_estimate").alias("rule's")]
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
    shares = [
        _number(name).alias(heading) for name, heading in zip(("share_treated", "share_control"), sides, strict=True)
    ]
    effect = _cell("risk_difference", "rd_low", "rd_high").alias("difference [95%]")
    return part.select(_questions(), pl.col(arm).alias("strategy"), *shares, effect, _p(), *shown_noise(part))


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
    return pl.format("{} [{}, {}]", *map(_number, (value, low, high)))


def _number(name: str) -> pl.Expr:
    return pl.col(name).map_elements(cell, pl.String, skip_nulls=False)
