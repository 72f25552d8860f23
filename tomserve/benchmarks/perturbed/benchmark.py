"""Perturbed false-belief tasks (design of arXiv 2602.22072; stories written for tomserve), in two editions.

A task of the first edition has sixteen questions: four scenarios, each with a question about reality and one about a
belief, each in an original version and in one with the two labels exchanged. One of the second has three or four
stories of the false-belief scenario, among them a minimal pair in one of which the surface cue counts again.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tomserve.benchmarks.base import Benchmark, Findings, Say, read_own, select_groups
from tomserve.benchmarks.counterfactuals import Case, NoCase
from tomserve.benchmarks.perturbed.baselines import RULES
from tomserve.benchmarks.perturbed.stages import FIRST, SECOND, Edition, load_stages
from tomserve.content import output_path
from tomserve.content.output_path import parse_file
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, items_digest, write_items
from tomserve.items.draw import Draw
from tomserve.variants import Retell

PLACE = ("stage", "class", "version")
"""What the user names, in this order."""


def load(edition: Edition, path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """All items of all stages. path: a stage file or a folder of them, or a file of items (.jsonl) such as a fresh
    edition, None for the dataset's own. gold: not used, as there is one set of right answers. Raises ConfigError and
    ContentError as `load_stages` does, ContentError for an item of another benchmark."""
    del gold
    if path is not None and path.suffix == ".jsonl":
        yield from read_own(path, edition.name)
        return
    for stage in load_stages(path, edition):
        yield from stage.items()


def validate(edition: Edition, path: Path | None, say: Say) -> Findings:
    """Check the dataset's structure (see tomserve.benchmarks.perturbed.validation). Raises ContentError for a story
    told to "you" that does not fit its stage."""
    from tomserve.benchmarks.perturbed.validation import validate_stages  # asking needs none of it

    del say
    if edition is SECOND:
        list(cases(path))
    return validate_stages(load_stages(path, edition), own=path is None)


def audit(edition: Edition, path: Path | None, say: Say) -> Findings:
    """Score rules that only look at words (see tomserve.benchmarks.perturbed.audit)."""
    from tomserve.benchmarks.perturbed.audit import audit_stages  # asking needs none of it

    found = load_stages(path, edition)
    say("fitting and scoring shortcuts, up to a minute ...")
    return audit_stages(found, own=path is None)


def retelling(edition: Edition, path: Path | None) -> Retell:
    """What makes variants of the items (see tomserve.benchmarks.perturbed.variants)."""
    from tomserve.benchmarks.perturbed.variants import make_retell  # few runs have variants

    return make_retell(path, edition)


def show(edition: Edition, path: Path | None, where: Sequence[str]) -> Findings:
    """Every story once, with the labels as they were written: a heading, the question about the belief with its
    choices, and a line for each sentence.

    where: a stage, or a stage and a class, or these and a version; empty for all stories. Raises ConfigError for a name
    that is not there, and for more than three.
    """
    if len(where) > len(PLACE):
        raise ConfigError(f"{where[len(PLACE)]!r}: expected at most a stage, a class and a version")
    stories: dict[tuple[str, ...], dict[str, Item]] = {}
    for item in load(edition, path):
        if item.factors.get("swapped") is False:
            factors = item.factors
            place = factors["stage"], factors["perturbation"], factors.get("version", factors["scenario"])
            stories.setdefault(tuple(map(str, place)), {})[str(factors["question_kind"])] = item
    sections = {
        _heading(place, story["belief"]): tuple(_lines(story["belief"], story["reality"]))
        for place, story in select_groups(stories, where, PLACE).items()
        if {"belief", "reality"} <= set(story)
    }
    return Findings(sections=sections)


def _heading(place: tuple[str, ...], item: Item) -> str:
    factors = item.factors
    told = [str(one) for one in (factors.get("ground") or factors["scenario"], factors.get("belief_role")) if one]
    if factors.get("twin"):
        told.append(f"twin of {factors['twin']}")
    return f"{'/'.join(place)} ({'; '.join(told)}; asked: {factors['asked']}; answer: {item.answer})"


def _lines(belief: Item, reality: Item) -> Iterable[str]:
    sets = [item.gold.sets if item.gold is not None else None for item in (belief, reality)]
    yield f"{belief.question} ({', '.join(belief.choices)})"
    for number, sentence in enumerate(belief.story):
        possible = [", ".join(one[number]) if one is not None else "?" for one in sets]
        yield f"{number + 1:2d}. {sentence}  [belief: {possible[0]}; reality: {possible[1]}]"


def generate(
    seed: Annotated[
        int | None,
        typer.Option("--fresh", metavar="SEED", min=0, max=2**63 - 1, help="Tell every stage anew by this seed."),
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
    from tomserve.benchmarks.perturbed.fresh import describe_overlap, generate_items, read_names
    from tomserve.benchmarks.perturbed.validation import check_fresh, find_fresh_problems

    found, names = load_stages(path), read_names()
    if seed is None or out is None:
        return check_fresh(found, names)
    output_path.check_output(out, path)
    for stage in found:
        if listed := find_fresh_problems(stage):
            first, more = listed[0], f" ({len(listed)} problems in this file)" if len(listed) > 1 else ""
            reason = f"{first.reason}{more}; tomserve generate perturbed-2 --check lists all"
            raise ContentError(reason, path=first.path, line=first.line, field=first.field)
    released = [item for stage in found for item in stage.items()]
    made = [item for stage in found for item in generate_items(stage, seed, names)]
    write_items(out, made, lambda name: output_path.open_output(name, path))
    written = f"written: {len(made)} items of {count_noun(len(found), 'stage')} by seed {seed} to {out}"
    return Findings(lines=(describe_overlap(released, made), f"{written}, {items_digest(made)[:19]}"))


def cases(path: Path | None = None, where: Sequence[str] = ()) -> Iterator[Case | NoCase]:
    """The cases of the second edition (see tomserve.benchmarks.perturbed.cases)."""
    from tomserve.benchmarks.perturbed.cases import cases as found  # asking needs none of it

    return found(path, where)


def _benchmark(edition: Edition, story: str, unit: tuple[str, str], **fields: Any) -> Benchmark:
    """The benchmark of an edition. story: the factor that, with `swapped`, tells the stories of a task apart, each of
    which is drawn with its two questions. All tasks of a stage get the same ones, so that a class is compared with the
    unperturbed task of its stage on them."""
    of_stage = {"over": ("stage", "perturbation"), "alike": ("stage",), "first": "none", "group": ("task", "tasks")}
    return Benchmark(
        edition.name,
        partial(load, edition),
        papers=("The perturbed false-belief tasks (arXiv:2602.22072)",),
        study="perturbed",
        reasoned=("scenario=false_belief", "question_kind=belief"),
        draw=Draw(**of_stage, whole=(story, "swapped"), unit=unit),  # type: ignore[arg-type]
        rules=RULES[edition.name],
        validate=partial(validate, edition),
        audit=partial(audit, edition),
        show=partial(show, edition),
        retelling=partial(retelling, edition),
        **fields,
    )


FIRST_EDITION = _benchmark(FIRST, "scenario", ("story", "stories"))
# The two stories of a minimal pair have one slot, so that they are drawn together.
SECOND_EDITION = _benchmark(SECOND, "slot", ("story or pair", "stories and pairs"), generate=generate, cases=cases)
