"""The audit of an edition: what rules that only look at words have right, by class."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from tomserve.benchmarks.base import Findings, outcome
from tomserve.benchmarks.learned_baselines import Answers
from tomserve.benchmarks.perturbed.baselines import (
    RULES,
    SHIPPED,
    applies_to,
    audit_baselines,
    fit_rules,
    pairs_of,
    select_learnable,
)
from tomserve.benchmarks.perturbed.stages import (
    FIRST,
    PERTURBATIONS,
    SECOND,
    Edition,
    Stage,
    derive,
    in_false_belief_subset,
    load_stages,
)
from tomserve.items import Item

MOST = 0.6
"""The largest share of right answers that a rule may have in a class of the false-belief subset."""

CONTROL = "none"
"""The class that is left out of this goal: there the classic answer is the right one by design."""

OVERALL = "overall"

STAGES, SHOWN = 4, 15
"""In how many stages a word must stand to be called telling, and how many such words the audit shows."""

NOTES = {
    "right": "Right answers of all questions about a belief in the false-belief scenario, by class. A rule of kind "
    "learned answers each stage as the other stages taught it.",
    "both": "The share of these questions that a rule has right, in how many of the ten classes of perturbation it has "
    f"more than half right, in how many more than {MOST:.0%}, and whether it meets the published criterion of limited "
    "robust Theory of Mind: more than half right on unperturbed stories and in five of the ten classes.",
    "telling": "Words, pairs of words, and words within a class (class:word) that go most often with one role of the "
    "right answer, as far as four stages have them: what an author would mend first. excess: standard deviations above "
    "chance; of so many words some lie high by chance.",
}
GOAL = (
    f"No rule shall have more than {MOST:.0%} right in a class, or meet limited robust Theory of Mind. The class none "
    "is left out of the first: there the classic answer is the right one by design, so that whoever gives it is right."
)
CLASSIC_GOAL = "No constant rule shall meet limited robust Theory of Mind on the false-belief subset."


def audit_stages(stages: Sequence[Stage], own: bool) -> Findings:
    """The audit of these stages (see `audit_items`), and how much of their gold rests on what their authors say that
    the asked person infers."""
    equal, total = 0, 0
    for stage in stages:
        for story in stage.stories:
            events = [sentence.events for sentence in story.sentences.values()]
            without = derive(events, stage.file.asked_person(story.task), inference=False)
            equal += sum(
                one.belief.labels == line.belief.labels for one, line in zip(without, story.lines, strict=True)
            )
            total += len(events)
    items = [item for stage in stages for item in stage.items()]
    found = audit_items(items, stages[0].edition, own)
    return replace(found, lines=(f"Sets of beliefs that need no stated inference: {equal} of {total}.", *found.lines))


def audit_items(items: Sequence[Item], edition: Edition, own: bool, first: Sequence[Item] | None = None) -> Findings:
    """What rules have right; the exit code is 1 where one exceeds the goal, or where the answers of a learned rule in
    the score tables are not those of a fit.

    own: whether these are the items of the dataset itself, so that its score tables hold answers of learned rules.
    first: the items of the first edition, which are shown beside those of the second, None for those of its dataset.
    """
    learned = fit_rules(items, edition)
    if not edition.pairs:
        tables, problems = _audit_classic(items, learned)
        goal, notes = CLASSIC_GOAL, {}
    else:
        tables, problems = _audit_pairs(items, learned, first)
        goal, notes = GOAL, NOTES
    if own:
        problems += SHIPPED[edition.name].problems(select_learnable(items, edition), learned)
    return Findings.of_problems(problems, outcome(problems), before=(goal,), tables=tables, notes=notes)


def _audit_classic(items: Sequence[Item], learned: Answers) -> tuple[dict[str, pl.DataFrame], list[str]]:
    accuracy, criteria, kinds = audit_baselines(items, learned, RULES[FIRST.name])
    titles = {"false_belief": "right answers, false-belief subset", "all": "right answers, all questions"}
    tables = {title: pivot_classes(accuracy.filter(subset=subset)) for subset, title in titles.items()}
    tables["published robustness criteria"] = criteria.join(kinds, on="rule", how="left", maintain_order="left")
    plain = kinds.filter(kind="constant")["rule"].to_list()
    bad = criteria.filter((pl.col("subset") == "false_belief") & pl.col("limited_robust") & pl.col("rule").is_in(plain))
    return tables, [f"{rule!r} reaches limited robust ToM on the false-belief subset" for rule in bad["rule"]]


def _audit_pairs(
    items: Sequence[Item], learned: Answers, first: Sequence[Item] | None
) -> tuple[dict[str, pl.DataFrame], list[str]]:
    if first is None:
        first = [item for stage in load_stages(None, FIRST) for item in stage.items()]
    second, earlier = count_right(items, learned), count_right(first, fit_rules(first, SECOND))
    tables = {
        "right answers, second edition": pivot_classes(second),
        "right answers, first edition": pivot_classes(earlier),
        "both editions": compare_editions(second, earlier),
        "telling words of the second edition": telling_words(items),
    }
    return tables, list(find_excesses(second))


def telling_words(items: Sequence[Item]) -> pl.DataFrame:
    """The words and pairs of words, alone and within a class, that tell the role of an answer most (see NOTES): how
    many stories have them, and how many of these have the role that they go with most often. Stories of the class none,
    which all have one role by design, do not count; deviations are those of a Poisson count."""
    asked = [item for item in items if applies_to(item) and item.factors["perturbation"] != CONTROL]
    stories = [item for item in asked if not item.factors.get("swapped")]
    usual = Counter(str(item.factors["belief_role"]) for item in stories)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    stages: dict[str, set[object]] = defaultdict(set)
    for item in stories:
        for word in {*pairs_of(item)} - set(PERTURBATIONS):
            found[word][str(item.factors["belief_role"])] += 1
            stages[word].add(item.factors["stage"])
    rows = []
    for word, counts in found.items():
        if len(stages[word]) >= STAGES:
            role, count = counts.most_common(1)[0]
            expected = counts.total() * usual[role] / usual.total()
            excess = round((count - expected) / math.sqrt(expected), 2)
            rows.append({"word": word, "role": role, "with it": count, "stories": counts.total(), "excess": excess})
    schema = {"word": pl.String, "role": pl.String, "with it": pl.Int64, "stories": pl.Int64, "excess": pl.Float64}
    return pl.DataFrame(rows, schema=schema).sort("excess", "word", descending=[True, False]).head(SHOWN)


def count_right(items: Sequence[Item], learned: Answers) -> pl.DataFrame:
    """How many questions of the false-belief subset each rule has right, by class and overall; learned rules as
    `fit_rules` gives their answers."""
    subset = [item for item in items if in_false_belief_subset(item.factors)]
    if not subset:
        return pl.DataFrame(schema={"rule": pl.String, "perturbation": pl.String, "right": pl.Int64, "total": pl.Int64})
    table, _, _ = audit_baselines(subset, learned, RULES[SECOND.name])
    return table.filter(subset="false_belief").drop("subset")


def pivot_classes(counts: pl.DataFrame) -> pl.DataFrame:
    """One row a rule, in the order in which rules are declared, and a column a class."""
    if counts.is_empty():
        return pl.DataFrame()
    names = [name for name in (*PERTURBATIONS, OVERALL) if name in set(counts["perturbation"])]
    cells = counts.with_columns(cell=pl.format("{}/{}", "right", "total"))
    return cells.pivot("perturbation", index="rule", values="cell", maintain_order=True).select("rule", *names)


def _sum_counts(counts: pl.DataFrame) -> pl.DataFrame:
    share, tested = pl.col("right") / pl.col("total"), ~pl.col("perturbation").is_in([OVERALL, CONTROL])
    half = pl.col("right") * 2 > pl.col("total")
    above = (tested & half).sum().cast(pl.Int64)
    ostensible = ((pl.col("perturbation") == CONTROL) & half).any()
    return counts.group_by("rule", maintain_order=True).agg(
        share.filter(pl.col("perturbation") == OVERALL).first().round(3).alias("right"),
        above.alias("above half"),
        (tested & (share > MOST)).sum().cast(pl.Int64).alias(f"above {MOST:.0%}"),
        (ostensible & (above >= 5)).alias("limited robust"),
    )


def compare_editions(second: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """One row a rule: what NOTES["both"] says, of both editions. second, first: as `count_right` gives them."""
    other = _sum_counts(first)
    named = other.rename({name: f"first: {name}" for name in other.columns if name != "rule"})
    return _sum_counts(second).join(named, on="rule", how="left", maintain_order="left")


def find_excesses(counts: pl.DataFrame) -> Iterator[str]:
    """A sentence for each case in which a rule exceeds the goal (see GOAL). counts: as `count_right` gives them."""
    tested = counts.filter(~pl.col("perturbation").is_in([OVERALL, CONTROL]))
    for rule, name, right, total in tested.select("rule", "perturbation", "right", "total").iter_rows():
        if right > MOST * total:
            share = f"{right} of {total} right ({right / total:.0%})"
            yield f"{rule!r} has {share} in the class {name}, more than {MOST:.0%}"
    for row in _sum_counts(counts).filter("limited robust").iter_rows(named=True):
        yield (
            f"{row['rule']!r} meets limited robust Theory of Mind on the false-belief subset: more than half right on "
            f"unperturbed stories and in {row['above half']} of ten classes"
        )
