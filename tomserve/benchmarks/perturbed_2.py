"""Perturbed false-belief tasks, second edition: ``dataset/perturbed-2/stages/*.yaml``, fresh editions, and the audit.

A task has three or four stories of the false-belief scenario, among them a minimal pair in one of which the surface
cue counts again, and three controls. Each story has a question about reality and one about a belief, each in an
original version and in one with the two labels exchanged.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer

from tomserve.benchmarks.base import Benchmark, Findings, Say, outcome
from tomserve.benchmarks.perturbed import baselines
from tomserve.benchmarks.perturbed.baselines import RULES_2, applies_to, audit_baselines, fit_edition_2, pairs_of
from tomserve.benchmarks.perturbed.edition_1 import load as load_edition_1
from tomserve.benchmarks.perturbed.edition_1 import show_stories
from tomserve.benchmarks.perturbed.stages_1 import PERTURBATIONS, in_false_belief_subset
from tomserve.benchmarks.perturbed.stages_2 import BENCHMARK as NAME
from tomserve.benchmarks.perturbed.stages_2 import Stage, load_stages
from tomserve.content import output_path
from tomserve.content.output_path import parse_file
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, items_digest, read_items, write_items
from tomserve.items.draw import Draw
from tomserve.variants import Retell

if TYPE_CHECKING:
    from tomserve.benchmarks.perturbed import fresh

__all__ = ["BENCHMARK", "load", "load_stages"]


SEEDS = 2**63
RUN = 8
"""Words of a run by which it is counted how much of the released stories a fresh edition repeats."""


def generate(
    seed: Annotated[
        int | None,
        typer.Option("--fresh", metavar="SEED", min=0, max=SEEDS - 1, help="Tell every stage anew by this seed."),
    ] = None,
    out: Annotated[Path | None, typer.Option(parser=parse_file, help="JSONL file to write.")] = None,
    path: Annotated[
        Path | None, typer.Option(help="Stage file, or folder of them. If left out: those of the dataset.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; list what keeps stages from being told anew, by file and line."),
    ] = False,
) -> Findings:
    """Write a fresh edition: the same events with other names, labels, things and wordings.

    No model can have seen it before it is published. The same seed gives the same bytes. The exit code is 1 where
    --check finds a problem.
    """

    if check == (seed is not None) or (out is None) != check:
        raise ConfigError("give --fresh SEED and --out FILE, or --check alone")
    from tomserve.benchmarks.perturbed import fresh, validation_2

    found = load_stages(path)
    names = fresh.read_names()
    if seed is None or out is None:
        return check_stages(found, names)
    output_path.check_output(out, path)
    for stage in found:
        if listed := validation_2.find_fresh_problems(stage):
            raise _first_problem(listed)
    released = [item for stage in found for item in stage.items()]
    made = [item for stage in found for item in fresh.generate_items(stage, seed, names)]
    write_items(out, made, lambda name: output_path.open_output(name, path))
    written = (
        f"written: {len(made)} items of {_many(len(found), 'stage')} by seed {seed} to {out}, {items_digest(made)[:19]}"
    )
    return Findings(lines=(*describe_overlap(released, made), written))


def _first_problem(listed: Sequence[ContentError]) -> ContentError:
    """The first of a stage's problems, with what to do."""
    first, more = listed[0], f" ({len(listed)} problems in this file)" if len(listed) > 1 else ""
    reason = f"{first.reason}{more}; tomserve generate perturbed-2 --check lists all"
    return ContentError(reason, path=first.path, line=first.line, field=first.field)


def check_stages(stages: Sequence[Stage], names: fresh.Names) -> Findings:
    """What keeps stages from being told anew, what is not used, and how much of the released stories would be kept."""
    from tomserve.benchmarks.perturbed import fresh, validation_2

    listed = [problem for stage in stages for problem in validation_2.find_fresh_problems(stage)]
    lines = [line for stage in stages for line in validation_2.find_unused_words(stage)]
    if not listed:
        released = [item for stage in stages for item in stage.items()]
        lines += describe_overlap(
            released, [item for stage in stages for item in fresh.generate_items(stage, 0, names)]
        )
    count = _many(len(listed), "problem") if listed else "every stage can be told anew"
    return Findings.of_problems(list(map(str, listed)), f"{_many(len(stages), 'stage')}: {count}", before=lines)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def describe_overlap(released: Sequence[Item], made: Sequence[Item]) -> list[str]:
    """A line that says how much of the released stories a fresh edition repeats, and in which stage most."""
    from tomserve.benchmarks.perturbed import fresh

    shares = {
        stage: fresh.overlap(_of_stage(released, stage), _of_stage(made, stage), RUN)
        for stage in dict.fromkeys(str(item.factors["stage"]) for item in released)
    }
    most = max(shares, key=lambda stage: shares[stage])
    share = fresh.overlap(released, made, RUN)
    return [
        f"{share:.0%} of the runs of {RUN} words in the released stories occur in the fresh ones as well "
        f"(most in stage {most}: {shares[most]:.0%})"
    ]


def _of_stage(items: Sequence[Item], stage: str) -> list[Item]:
    return [item for item in items if item.factors["stage"] == stage]


FOLDER = "dataset/perturbed-2/stages"


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """All items of all stages. path: a stage file or a folder of them, or a file of items (.jsonl) such as a fresh
    edition, None for the dataset's own. gold: not used, as there is one set of right answers. Raises ConfigError and
    ContentError as `load_stages` does, ContentError for an item of another benchmark."""
    del gold
    if path is not None and path.suffix == ".jsonl":
        for item in read_items(path):
            if item.benchmark != NAME:
                reason = f"item {item.id!r} is of benchmark {item.benchmark!r}; use --benchmark items"
                raise ContentError(reason, path=path)
            yield item
        return
    for stage in load_stages(path):
        yield from stage.items()


def validate(path: Path | None, say: Say) -> Findings:
    """Check the dataset's structure (see tomserve.benchmarks.perturbed.validation_2)."""
    from tomserve.benchmarks.perturbed.validation_2 import validate_stages  # asking needs none of it

    del say
    return validate_stages(load_stages(path), own=path is None)


def audit(path: Path | None, say: Say) -> Findings:
    """Score rules that only look at words, beside the first edition (see `audit_items`)."""
    found = load_stages(path)
    say("fitting and scoring shortcuts, about ten seconds ...")
    return audit_items(found, own=path is None)


def show(path: Path | None, where: Sequence[str]) -> Findings:
    """Print stories for reading. where: a stage, a class, a version; raises ConfigError for one that is not there."""
    return show_stories(load(path), where)


def retelling(path: Path | None) -> Retell:
    """What makes variants of the items (see tomserve.benchmarks.perturbed.variants)."""
    from tomserve.benchmarks.perturbed.variants import make_retell  # imported here: few runs have variants

    return make_retell(path)


DRAW = Draw(
    over=("stage", "perturbation"),
    whole=("slot", "swapped"),
    alike=("stage",),
    first="none",
    unit=("story or pair", "stories and pairs"),
    group=("task", "tasks"),
)
"""A story is drawn with its two questions, and the two stories of a minimal pair together. All tasks of a stage get the
same slots (the pair, another false-belief story, one of the controls), so that a class is compared with the unperturbed
task of its stage on the same ones."""

BENCHMARK = Benchmark(
    NAME,
    load,
    papers=("The perturbed false-belief tasks (arXiv:2602.22072)",),
    study="perturbed",
    reasoned=("scenario=false_belief", "question_kind=belief"),
    draw=DRAW,
    rules=RULES_2,
    validate=validate,
    audit=audit,
    show=show,
    generate=generate,
    retelling=retelling,
)
"""The value by which tomserve knows the benchmark."""


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


def audit_items(stages: Sequence[Stage], own: bool, first: Sequence[Item] | None = None) -> Findings:
    """The audit to print; its exit code is 1 where a rule exceeds the goal (see GOAL), or where the answers of a
    learned rule in the score tables are not those of a fit.

    own: whether these are the stages of the dataset itself, so that its score tables hold answers of learned rules.
    first: the items of the first edition, None for those of its dataset.
    """
    if first is None:
        first = list(load_edition_1())
    items = [item for stage in stages for item in stage.items()]
    learned = fit_edition_2(items)
    second = count_right(items, learned)
    tables = {
        "right answers, second edition": pivot_classes(second),
        "right answers, first edition": pivot_classes(earlier := count_right(first, fit_edition_2(first))),
        "both editions": compare_editions(second, earlier),
        "telling words of the second edition": telling_words(items),
    }
    problems = list(find_excesses(second))
    if own:
        problems += baselines.find_shipped_problems(items, learned)
    return Findings.of_problems(problems, outcome(problems), before=(GOAL,), tables=tables, notes=NOTES)


def telling_words(items: Sequence[Item]) -> pl.DataFrame:
    """The words and pairs of words, alone and within a class, that tell the role of an answer most, for authors to
    mend: how many stories have them, and how many of these have the role that they go with most often.

    items: all items of the edition; stories of the class none, which all have one role by design, do not count. A word
    counts once a story, and must stand in stories of four stages at least; its excess is in standard deviations of a
    Poisson count above what the share of the role lets expect.
    """
    asked = [item for item in items if applies_to(item) and not item.factors.get("swapped")]
    stories = [item for item in asked if item.factors["perturbation"] != CONTROL]
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


def count_right(items: Sequence[Item], learned: Mapping[str, Mapping[str, str]]) -> pl.DataFrame:
    """How many questions of the false-belief subset each rule has right, by class and overall.

    items: of either edition. learned: the answers of the learned rules, as `fit_edition_2` gives them.
    """
    subset = [item for item in items if in_false_belief_subset(item.factors)]
    if not subset:
        return pl.DataFrame(schema={"rule": pl.String, "perturbation": pl.String, "right": pl.Int64, "total": pl.Int64})
    table, _, _ = audit_baselines(subset, learned, RULES_2)
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
