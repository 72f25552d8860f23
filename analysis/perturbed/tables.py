"""The tables of the perturbation study as tomserve recommends to count: paired effects over tasks and stages, chains,
and versions of stories.

Intervals and tests count tasks or stages rather than questions, and a failure is a wrong answer (see
docs/explanation/statistics.md). All functions take rows as study_rows makes them.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import polars as pl

from tomserve.benchmarks.perturbed.stages import PERTURBATIONS
from tomserve.stats import association, clustered, paired
from tomserve.studies import baselines
from tomserve.studies.answer_rows import BASELINE, REQUIRED, prepare_rows, split_by
from tomserve.studies.contrasts import (
    NEW,
    THESE,
    Record,
    add_sums,
    adjust_family,
    cluster_correlation,
    contrast,
    effect_columns,
    integer_codes,
    matched_contrast,
    pair_rows,
    share,
    sums_of_answers,
    sums_of_pairs,
)

# Factors that the items of this benchmark have, and that the study needs
DESIGN = ("stage", "perturbation", "scenario", "question_kind")
# The class of the unperturbed stories, that of all stories together, and what other strategies are compared with
CONTROL, OVERALL, VANILLA = "none", "overall", BASELINE
# The parts of the questions that the tables count, as readers know them
SUBSETS = {"all": "all questions", "false_belief": "false-belief subset"}
PERTURBED = tuple(name for name in PERTURBATIONS if name != CONTROL)
# The classes of changed stories, and where a class stands in a table
ORDER = {name: place for place, name in enumerate((*PERTURBATIONS, OVERALL, "overall_perturbed"))}
METRICS = ("chain_proper", "chain_lcs", "chain_lcps", "chain_transitions")
MORE_METRICS = ("transitions_distinct", "sentence_accuracy", "change_f1", "length")


def study_rows(scores: pl.LazyFrame) -> pl.DataFrame:
    """One row an answer (see tomserve.studies.answer_rows.prepare_rows), with the columns of its rules; its cluster is
    the task, one class of one stage. `complete`: no strategy of the model failed on the item. `false_belief`: it
    belongs to the false-belief subset."""
    chain = dict.fromkeys((*METRICS, *(f"chain_{name}" for name in MORE_METRICS)), pl.Float64)
    extra = {**chain, **dict.fromkeys(("chain_proper", "chain_path_proper", "chain_last_correct"), pl.Boolean)}
    extra |= {"answer_matches_last": pl.Boolean, "chain_break": pl.Int64, "chain_break_kind": pl.String}
    extra |= dict.fromkeys(("swapped", "version", "twin", "ground", "belief_role", "aware", "fresh"), pl.String)
    extra |= {"task_questions": pl.Int64}
    floors = [name for name in scores.collect_schema().names() if name.startswith("floor_")]
    return (
        prepare_rows(scores, (*REQUIRED, *DESIGN, *floors, *baselines.RuleKinds.of(scores).columns), extra)
        .with_columns(
            cluster=pl.col("stage") + "/" + pl.col("perturbation"),
            false_belief=(pl.col("scenario") == "false_belief") & (pl.col("question_kind") == "belief"),
        )
        .with_columns(complete=~pl.col("faulty").any().over("model", "item"))
        .with_columns(pl.col(pl.String).cast(pl.Categorical))  # a quarter of the memory of texts
        .collect(engine="streaming")
    )


class CountedRows(NamedTuple):
    """What the tables are counted from: of all questions the columns that tell which are right; those of the
    false-belief subset with their chains; and the table `chains`."""

    every: pl.DataFrame
    belief: pl.DataFrame
    chains: pl.DataFrame


def counted_rows(files: Iterable[pl.DataFrame], kinds: baselines.RuleKinds) -> CountedRows:
    """The rows of all files, each as `study_rows` makes them; one at a time is held with all its columns."""
    known = (*REQUIRED, *DESIGN, "cluster", "swapped", "version", "fresh", "task_questions", *kinds.columns)
    known += ("faulty", "unread", "re_asked", "changed", "false_belief", "complete")
    every, belief, sums, places = [], [], [], []
    for rows in files:
        every.append(rows.select(known))
        belief.append(rows.filter("false_belief").select(pl.exclude("^floor_.*$")))
        sums.append(_chain_sums(with_overall(rows)))
        broken = with_overall(rows.filter(pl.col("chain_break_kind").is_not_null()))
        place = (pl.col("chain_break").alias("break_sentence"), pl.col("chain_break_kind").alias("break_kind"))
        breaks = pl.len().cast(pl.Int64).alias("breaks")
        places.append(broken.group_by("model", "strategy", "perturbation", *place).agg(breaks))
    order = ("model", "strategy", "item")  # so that sums of fractions do not depend on the files
    return CountedRows(pl.concat(every), pl.concat(belief).sort(order), chains(pl.concat(sums), pl.concat(places)))


def subsets(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows once for all questions and once for the false-belief subset, told apart by the column `subset`."""
    parts = {"all": rows, "false_belief": rows.filter("false_belief")}
    return pl.concat([part.with_columns(pl.lit(name).alias("subset")) for name, part in parts.items()])


def with_overall(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows twice: with their own class, and all of them as the class overall."""
    return pl.concat([rows, as_overall(rows)])


def as_overall(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.lit(OVERALL, rows.schema["perturbation"]).alias("perturbation"))


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame sorted: all questions before the false-belief subset, models by name, vanilla before other strategies,
    classes in the order of the paper, then by the remaining columns of the design."""
    frame, keys = frame.with_columns(pl.col(pl.Categorical).cast(pl.String)), list[pl.Expr]()
    for name in ("subset", "model", "strategy", "treatment", "sample", "perturbation", "stage", "scenario", "status"):
        if name in frame.columns:
            if name == "strategy":
                keys.append(pl.col(name) != VANILLA)  # what the others are compared with stands first
            placed = pl.col(name).replace_strict(ORDER, default=None, return_dtype=pl.Int64)
            keys.append(placed if name == "perturbation" else pl.col(name))
    return frame.sort(keys, maintain_order=True)


def sorted_frame(records: Iterator[dict[str, Any]], columns: str) -> pl.DataFrame:
    """The records as a sorted frame with those columns (names separated by spaces). It has the columns also where there
    are no records; where vanilla was not asked, for example, there are no effects of prompting."""
    listed = list(records)
    if not listed:
        return pl.DataFrame(schema=dict.fromkeys(columns.split(), pl.String))
    frame = in_order(pl.DataFrame(listed, infer_schema_length=None))
    missing = [name for name in columns.split() if name not in frame.columns]
    return frame.with_columns(pl.lit(None).alias(name) for name in missing).select(*columns.split())


def with_chains(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of those models and strategies that write belief chains; a chain that is missing there scores 0."""
    asked = rows.filter(pl.col("chain_proper").is_not_null().any().over("model", "strategy"))
    numbers = [pl.col(f"chain_{name}").fill_null(0.0) for name in ("lcs", "lcps", "transitions", *MORE_METRICS)]
    return asked.with_columns(pl.col("chain_proper").fill_null(False), *numbers)


def pairs_of(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """For each model and strategy but vanilla: both names, and its rows paired with vanilla's on the same items."""
    for (model, strategy), treated in rows.group_by(["model", "strategy"], maintain_order=True):
        control = rows.filter(model=model, strategy=VANILLA)
        if strategy != VANILLA and control.height:
            yield str(model), str(strategy), pair_rows(treated, control)


def chained_pairs(rows: pl.DataFrame, sample: pl.DataFrame) -> Iterator[tuple[str, str, str, pl.DataFrame]]:
    """For each model, strategy that writes chains in `rows`, and class (and overall): these names and, of the rows of
    `sample`, its rows paired with vanilla's on the same items."""
    writes = set(with_chains(rows).select("model", "strategy").iter_rows())
    for model, strategy, pairs in pairs_of(sample):
        if (model, strategy) in writes:
            for (name,), part in with_overall(pairs).group_by(["perturbation"], maintain_order=True):
                yield model, strategy, str(name), part


EXACT = 1e-9  # by how much a mean of zeros and ones may exceed one half through rounding alone


def accuracy(rows: pl.DataFrame, kinds: baselines.RuleKinds) -> Iterator[Record]:
    """The records of `accuracy`: for a class the interval is for further tasks like these, for `overall` it is for new
    stages. Over all questions a task counts for as many independent questions as the intra-class correlation says that
    is pooled over the classes of its model and strategy. On the false-belief subset it counts once, as it has two
    questions there; where stories come in several versions, and it has more, it counts by their likeness too. Beside
    each share stands the best of the rules of `kinds` on the same questions."""
    arm = ["model", "strategy"]
    read = (*arm, "perturbation", "stage", "cluster", "false_belief", "correct", "faulty", "unread", *kinds.columns)
    versions = rows["version"].is_not_null().any()
    for named, own in split_by(rows.select(read), arm, sort=False):  # what is not read is not copied
        parts = {"all": own, **({"false_belief": own.filter("false_belief")} if versions else {})}
        alikeness = {subset: cluster_correlation(part, "perturbation") for subset, part in parts.items()}
        for key, stratum, sums, rules in counted_by(subsets(own), ("subset", "perturbation"), kinds):
            counted = share(sums, stratum, None if stratum else alikeness.get(key["subset"]))
            yield {**key, **named, **counted, **rules}


def counted_by(
    rows: pl.DataFrame, keys: Sequence[str], kinds: baselines.RuleKinds
) -> Iterator[tuple[Record, str | None, pl.DataFrame, Record]]:
    """What `baselines.sums_with_rules` says of each class and of all together, with the stratum of its interval: for a
    class none, for `overall` the stage."""
    for stratum, frame in ((None, rows), ("stage", as_overall(rows))):
        for key, sums, rules in baselines.sums_with_rules(frame, keys, kinds, stratum):
            yield key, stratum, sums, rules


def perturbation_effects(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `perturbation_effects`: each class against the unperturbed tasks of the same stages, with p
    adjusted over the classes and a verdict; then all ten classes together, once for new stages and once for these
    stages alone."""
    keys = ["model", "strategy", "perturbation", "stage", "false_belief"]
    sums = subsets(sums_of_answers(rows, keys)).drop("false_belief")
    for key, some in split_by(sums, ("subset", "model", "strategy"), sort=False):
        part, effects = add_sums([some]), []
        by_class = {one["perturbation"][0]: one for one in part.partition_by("perturbation")}
        for name in PERTURBED:
            if name in by_class:
                two = pl.concat([by_class[one] for one in (CONTROL, name) if one in by_class])
                effect = matched_contrast(two, two["perturbation"] == name, stratum="stage")
                effects.append({**key, "perturbation": name, **effect})
        yield from adjust_family(effects, PERTURBED, words=("harder", "easier"))
        if effects:
            treated = part["perturbation"] != CONTROL
            for pool in (NEW, THESE):
                effect = matched_contrast(part, treated, stratum="stage", pool=pool)
                yield {**key, "perturbation": "overall_perturbed", **effect}


def prompting_effects(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `prompting_effects`: each strategy against vanilla, by class for new stages with p adjusted over
    the classes and a verdict; then over all classes, once for new stages and once for further tasks of these stages."""
    shown = ("model", "strategy", "item", "perturbation", "stage", "cluster", "false_belief", "correct", "faulty")
    for model, strategy, pairs in pairs_of(rows.select(*shown, "re_asked", "changed")):
        for (subset,), part in subsets(pairs).group_by(["subset"], maintain_order=True):
            key = {"subset": subset, "model": model, "treatment": strategy, "control": VANILLA}
            named = split_by(sums_of_pairs(part, ("perturbation", "stage")), ("perturbation",), sort=False)
            classes = [{**key, **name, **contrast(one, "stage")} for name, one in named]
            yield from adjust_family(classes, PERTURBED, words=("hurts", "helps"))
            for stratum, target in (("stage", NEW), (None, THESE)):
                yield {**key, "perturbation": "overall", **contrast(part, stratum, target)}


def strategies(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `strategies`: Cochran's Q, a test of whether all strategies are right equally often, on the items
    that all were asked; none for one or two strategies. It takes the items as independent."""
    for key, part in split_by(subsets(rows), ("subset", "model"), sort=False):
        names = sorted(part["strategy"].unique().to_list())
        if len(names) > 2:
            wide = part.pivot("strategy", index="item", values="correct").drop_nulls()
            test = paired.cochrans_q(wide.select(names).to_numpy().astype(float))
            listed = {"strategies": " ".join(names), "n": wide.height, "informative": test.informative}
            yield {**key, "q": test.q, "df": test.df, "p_value": test.p, **listed}


def faithfulness(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `faithfulness`, over the rows of the false-belief subset that have a chain and an answer. They
    hold the correlation of each chain metric with a right answer, over all rows and within classes, with intervals from
    leaving out one stage at a time (the jackknife), and how often the answer is the last stated belief."""
    chosen = with_chains(rows.filter("false_belief")).filter(~pl.col("faulty") & pl.col("chain_length").gt(0))
    for arm, part in split_by(chosen, ("model", "strategy"), sort=False):
        key = {**arm, "sample": "complete"}
        right, stages = part["correct"].to_numpy().astype(float), integer_codes(part["stage"])
        classes = integer_codes(part["perturbation"])
        for metric in (METRICS[0], "chain_path_proper", *METRICS[1:]):
            binary = metric in ("chain_proper", "chain_path_proper")
            values = part[metric].cast(pl.Float64).to_numpy()
            estimates = _coefficient(values, right, stages, classes, binary)
            yield {**key, "metric": metric, "coefficient": "phi" if binary else "point_biserial", **estimates}
        for sample, some in (("complete", part), ("wrong_last", part.filter(~pl.col("chain_last_correct")))):
            known = some.filter(pl.col("answer_matches_last").is_not_null())
            matches = known.with_columns(correct=pl.col("answer_matches_last"))
            following = share(matches, "stage")
            last = {"metric": "answer_matches_last", "coefficient": "share", "value": following["accuracy"]}
            counts = {"ci_low": following["ci_low"], "ci_high": following["ci_high"], "n": known.height}
            yield {**key, "sample": sample, **last, **counts, "method": following["method"]}


def _coefficient(values: Any, right: Any, stages: Any, classes: Any, binary: bool) -> Record:
    def value_of(x: Any, y: Any) -> float:
        return association.phi(x, y).phi if binary else association.separation(x, y).point_biserial

    interval = association.jackknife(value_of, (values, right), stages, without=association.correlations)
    within = association.jackknife(
        association.within_correlation,
        (values, right, classes),
        stages,
        without=lambda x, y, of, left: association.correlations(x, y, left, of - of.min()),
    )
    found: Record = {"value": interval.estimate, "ci_low": interval.low, "ci_high": interval.high, "n": len(right)}
    known = not math.isnan(interval.estimate) and not math.isnan(interval.low)
    found["correlated"] = interval.estimate >= 0.4 and interval.low > 0 if known else None
    found |= {"within": within.estimate, "within_low": within.low, "within_high": within.high}
    if binary:
        table = association.phi(values, right)
        found |= {"minimum": table.minimum, "maximum": table.maximum, "both": table.both, "neither": table.neither}
        found |= {"only_chain": table.only_x, "only_answer": table.only_y, "p_value": table.p}
    else:
        auc = association.jackknife(
            lambda x, y: association.separation(x, y).auc,
            (values, right),
            stages,
            scale=(0, 1),
            without=association.aucs,
        )
        found |= {"auc": auc.estimate, "auc_low": auc.low, "auc_high": auc.high}
        found["within_auc"] = association.within_auc(values, right, classes)
    return {**found, "method": interval.method}


def placebo(rows: pl.DataFrame) -> Iterator[Record]:
    """The records of `placebo`: the effect against vanilla where the chain was proper and where it was not, each beside
    what it would be if chains and answers had nothing to do with each other (`null`)."""
    chosen = rows.filter("false_belief")
    for model, strategy, name, part in chained_pairs(chosen, chosen):
        columns = ("control", "correct", "chain_proper")
        control, treated, proper = part.select(pl.col(columns).fill_null(False).cast(pl.Float64)).to_numpy().T
        split = association.placebo_split(control, treated, proper)
        for chain, half in zip(("proper", "improper"), split, strict=True):
            key = {"model": model, "strategy": strategy, "perturbation": name, "chain": chain}
            effect = {"risk_difference": half.effect, "n": half.items, "subset": "false_belief"}
            verdict = "descriptive" if half.items else "undefined"
            yield {**key, **effect, "verdict": verdict, "null": half.null, "null_sd": half.null_sd}


def criteria_columns(rows: pl.DataFrame, shares: list[Record]) -> dict[tuple[str, str, str], Record]:
    """Further columns of the table `criteria`, by subset, model and strategy: in how many classes the whole interval
    lies above one half, and in how many the false-belief question and its control are right together. shares: the
    records of the table `accuracy`."""
    found: dict[tuple[str, str, str], Record] = {}
    joint = _joint(rows)
    for record in shares:
        key = (record["subset"], record["model"], record["strategy"])
        entry = found.setdefault(key, {"classes_interval_above": 0, **joint.get(key[1:], _NO_JOINT)})
        if record["perturbation"] in PERTURBED and record["ci_low"] > 0.5:
            entry["classes_interval_above"] += 1
    return found


_NO_JOINT: Record = {"classes_joint": None, "robust_joint": None}


def _joint(rows: pl.DataFrame) -> dict[tuple[str, str], Record]:
    """Classes in which the false-belief question and the same question of control 1 (the label is right, nothing is
    moved) are right together for more than half of the pairs, by model and strategy. There is no entry where the
    questions cannot be paired, as in a table without the column `swapped`."""
    found: dict[tuple[str, str], Record] = {}
    keys = ["model", "strategy", "cluster", "swapped", "telling"]
    tellings = rows.with_columns(telling=pl.col("fresh").cast(pl.String).fill_null(""))
    for (model, strategy), part in tellings.group_by(["model", "strategy"], maintain_order=True):
        belief = part.filter(question_kind="belief")
        control = belief.filter(pl.col("scenario").is_in(["correct_label", "no_transfer"]))
        both = belief.filter("false_belief").join(control.select(*keys, other="correct"), on=keys, how="inner")
        if both.is_empty():
            continue
        together = both.group_by("perturbation").agg((pl.col("correct") & pl.col("other")).mean().alias("share"))
        passed = together.filter(pl.col("perturbation").is_in(PERTURBED) & (pl.col("share") > 0.5 + EXACT)).height
        found[str(model), str(strategy)] = {"classes_joint": passed, "robust_joint": passed == len(PERTURBED)}
    return found


# How many questions a whole task of the first edition has: four scenarios, two kinds of question, two versions. Items
# of the second edition say how many theirs has (the factor `task_questions`).
SUBTASKS = 16


def subtasks(rows: pl.DataFrame) -> pl.DataFrame:
    """The table `subtasks`: accuracy by class, scenario and kind of question, without intervals."""
    keys = ["model", "strategy", "perturbation", "scenario", "question_kind"]
    counted = rows.group_by(keys, maintain_order=True)
    counts = counted.agg(pl.col("correct").sum().cast(pl.Int64), pl.len().cast(pl.Int64).alias("total"))
    return in_order(counts.sort("question_kind").with_columns((pl.col("correct") / pl.col("total")).alias("accuracy")))


def tasks(rows: pl.DataFrame) -> pl.DataFrame:
    """The table `tasks`: how many of a task's questions are right, and whether it is solved. It is solved if all its
    questions (`questions`) were asked and all are right, and null if all asked ones are right but some were not asked.
    A task that is told anew, too, has its questions once in each telling."""
    right, asked = pl.col("subtasks_right"), pl.col("subtasks")
    counted = rows.group_by("model", "strategy", "stage", "perturbation", maintain_order=True).agg(
        pl.col("correct").sum().cast(pl.Int64).alias("subtasks_right"),
        pl.len().cast(pl.Int64).alias("subtasks"),
        questions=pl.col("task_questions").max().fill_null(SUBTASKS) * pl.col("fresh").n_unique(),
    )
    # The questions that were not asked might have been answered wrongly.
    solved = pl.when(right < asked).then(False).when(asked == pl.col("questions")).then(True).otherwise(None)
    last = ("subtasks", "questions")
    return in_order(counted.with_columns(solved.alias("solved"))).select(pl.exclude(last), *last)


_CHAIN_NUMBERS = ("lcs", "lcps", "transitions", *MORE_METRICS)


def _chain_sums(rows: pl.DataFrame) -> pl.DataFrame:
    """By class the sums of the chain metrics, in which a missing chain scores 0, and of what only some rows have."""
    floors = [name for name in rows.columns if name.startswith("floor_")]
    partly = ("answer_matches_last", *floors)
    return rows.group_by("model", "strategy", "perturbation", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("total"),
        pl.col("chain_proper").count().cast(pl.Int64).alias("written"),
        pl.col("chain_proper").sum().cast(pl.Int64).alias("proper"),
        *(pl.col(f"chain_{name}").sum().alias(name) for name in _CHAIN_NUMBERS),
        *(pl.col(name).cast(pl.Float64).sum() for name in partly),
        *(pl.col(name).count().cast(pl.Int64).alias(f"known {name}") for name in partly),
    )


def chains(sums: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """The table `chains`, from the sums of all files: means of the chain metrics by class, for models and strategies
    that write chains, and where improper chains most often leave the gold path, the first of equally frequent places.
    """
    keys = ["model", "strategy", "perturbation"]
    whole = sums.group_by(keys, maintain_order=True).agg(pl.all().sum())
    whole = whole.filter((pl.col("written") > 0).any().over("model", "strategy"))
    partly = [name.removeprefix("known ") for name in whole.columns if name.startswith("known ")]
    means = whole.select(
        *keys,
        "total",
        "proper",
        (pl.col("proper") / pl.col("total")).alias("proper_share"),
        *(pl.col(name) / pl.col("total") for name in _CHAIN_NUMBERS),
        *(pl.when(pl.col(f"known {name}") > 0).then(pl.col(name) / pl.col(f"known {name}")) for name in partly),
    )
    places = places.group_by(*keys, "break_sentence", "break_kind").agg(pl.col("breaks").sum())
    places = places.sort("breaks", "break_sentence", "break_kind", descending=[True, False, False])
    first = places.unique(keys, keep="first", maintain_order=True)
    joined = means.join(first, on=keys, how="left").with_columns(pl.col("breaks").fill_null(0))
    shown = [*keys, "total", "proper", "proper_share", "lcs", "lcps", "transitions", *first.columns[3:]]
    return in_order(joined).select(*shown, pl.exclude(*shown))


def failures(rows: pl.DataFrame) -> pl.DataFrame:
    """The table `failures`: rows without an answer by class and status. accuracy_low and accuracy_high are the accuracy
    of the class if all its failures were wrong, or all were right."""
    keys = ["model", "strategy", "perturbation"]
    every = with_overall(rows.select(*keys, "status", "correct", "faulty"))
    cells = every.group_by(keys, maintain_order=True).agg(
        pl.len().alias("asked"), pl.col("correct").sum().alias("right"), pl.col("faulty").sum().alias("failed")
    )
    counted = (
        every.filter("faulty")
        .group_by(*keys, "status", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"))
    )
    joined = counted.join(cells, on=keys).with_columns(
        (pl.col("count") / pl.col("asked")).alias("share"),
        (pl.col("right") / pl.col("asked")).alias("accuracy_low"),
        ((pl.col("right") + pl.col("failed")) / pl.col("asked")).alias("accuracy_high"),
    )
    return in_order(joined.select(*keys, "status", "count", "share", "accuracy_low", "accuracy_high"))


KEYS = ("model", "strategy", "perturbation")
# What the two questions of a minimal pair have in common; `fresh` is empty where the stories are the released ones
TOGETHER = ("model", "strategy", "stage", "perturbation", "swapped", "fresh")


def tables(belief: pl.DataFrame, kinds: baselines.RuleKinds) -> dict[str, Iterator[Record]]:
    """The records of those of these tables for which the rows of the false-belief subset say anything, by name."""
    found = {}
    if belief["belief_role"].is_not_null().any():
        found["roles"] = roles(belief, kinds)
    if belief["twin"].is_not_null().any():
        found["pairs"] = pairs(belief, kinds)
    if belief["ground"].is_not_null().any():
        found["ground"] = ground(belief)
    if belief["aware"].is_not_null().any():
        found["awareness"] = awareness(belief)
    return found


def roles(belief: pl.DataFrame, kinds: baselines.RuleKinds) -> Iterator[Record]:
    """The records of `roles`: accuracy by what the right answer is, seen from the cue."""
    known = belief.drop_nulls("belief_role").rename({"belief_role": "role"})
    for key, stratum, sums, rules in counted_by(known, (*KEYS, "role"), kinds):
        yield {**key, **share(sums, stratum), **rules}


def pairs(belief: pl.DataFrame, kinds: baselines.RuleKinds) -> Iterator[Record]:
    """The records of `pairs`: how many minimal pairs have both questions right, beside the rule that solves most."""
    other = belief.select(
        *TOGETHER,
        pl.col("version").alias("twin"),
        other="correct",
        other_faulty="faulty",
        other_role="belief_role",
        **{f"other_{name}": pl.col(name) for name in kinds.columns},
    )
    both = belief.drop_nulls("twin").join(
        other, on=[*TOGETHER, "twin"], how="inner", nulls_equal=True, maintain_order="left"
    )
    # Of both stories, the one in which the cue counts is named first, whichever edits the other.
    turned = (pl.col("belief_role") == "cue") | (pl.col("other_role") != "cue")
    both = both.with_columns(
        cue_right=pl.when(turned).then("correct").otherwise("other"),
        other_right=pl.when(turned).then("other").otherwise("correct"),
        faulty=pl.col("faulty") | pl.col("other_faulty"),
        correct=pl.col("correct") & pl.col("other"),
        **{name: pl.col(name) & pl.col(f"other_{name}") for name in kinds.columns},
    )
    alone = (
        with_overall(both)
        .group_by(KEYS)
        .agg(
            (pl.col("cue_right") & ~pl.col("other_right")).sum().cast(pl.Int64).alias("only_cue"),
            (pl.col("other_right") & ~pl.col("cue_right")).sum().cast(pl.Int64).alias("only_other"),
        )
    )
    apart = {tuple(key): (only_cue, only_other) for *key, only_cue, only_other in alone.iter_rows()}
    for key, stratum, sums, rules in counted_by(both, KEYS, kinds):
        counted = share(sums, stratum)
        only_cue, only_other = apart[tuple(key.values())]
        neither = counted["total"] - counted["correct"] - only_cue - only_other
        yield {
            **{**key, "solved": counted["correct"], "pairs": counted["total"], "share": counted["accuracy"], **counted},
            **{"only_cue": only_cue, "only_other": only_other, "neither": neither},
            **rules,
        }


def ground(belief: pl.DataFrame) -> Iterator[Record]:
    """The records of `ground`: stories that leave what settles the belief unstated, minus those that state it, of the
    same class and stage."""
    told = belief.drop_nulls("ground").with_columns(treated=pl.col("ground") == "unstated")
    for key, part in split_by(with_overall(told), KEYS, sort=False):
        yield {**key, **_within(part)}


def awareness(belief: pl.DataFrame) -> Iterator[Record]:
    """The records of `awareness`: stories in which the person knows of the mechanism that changes things, minus those
    in which she does not, in stages that have both."""
    told = belief.drop_nulls("aware").with_columns(treated=pl.col("aware") == "true")
    for key, part in split_by(told, ("model", "strategy"), sort=False):
        yield {**key, **_within(part)}


def _within(part: pl.DataFrame) -> Record:
    """Rows that are `treated` against the others of the same stage and class: counts over all, and the difference over
    the stages in which some class has both. All of these are undefined where there is no such stage."""
    cells = part.group_by("stage", "cluster", maintain_order=True).agg(
        pl.col("correct").filter("treated").mean().alias("on"),
        pl.col("correct").filter(~pl.col("treated")).mean().alias("off"),
    )
    both, on, right = cells.drop_nulls(), part["treated"], part["correct"]
    found: Record = {"right_treated": int((right & on).sum()), "asked_treated": int(on.sum())}
    found |= {"right_control": int((right & ~on).sum()), "asked_control": int((~on).sum())}
    found["stages"] = both["stage"].n_unique()
    if both.is_empty():
        undefined = ("share_treated", "share_control", "risk_difference", "rd_low", "rd_high", "p")
        return {**found, **dict.fromkeys(undefined, math.nan), "target": None, "method": "no stage has both"}
    sides, names = (both[name].to_numpy() for name in ("on", "off")), ("cluster", "stage")
    pairs = clustered.pair_sums(*sides, *(integer_codes(both[name]) for name in names))
    effect = clustered.pairs_effect(pairs, strata=True)
    columns = effect_columns(effect, NEW)
    shown = ("share_treated", "share_control", "risk_difference", "rd_low", "rd_high")
    return {**found, **{name: columns[name] for name in shown}, "p": effect.p, "target": NEW, "method": effect.method}
