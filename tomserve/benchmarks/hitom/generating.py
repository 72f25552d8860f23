"""The command `tomserve generate hitom`: its options, what it writes, and the tables of balance that it prints.

The parameters of `generate` are the options of the command line, so they are annotated as typer wants it. A *level* is
one value of a design variable, such as a number of chapters.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tomserve.benchmarks.findings import Findings
from tomserve.benchmarks.hitom import generator
from tomserve.benchmarks.hitom.balance import NOTES, official_file
from tomserve.benchmarks.hitom.balance import tables as balance_tables
from tomserve.benchmarks.hitom.plan import TRAITS, Plan, levels
from tomserve.benchmarks.hitom.tally import Tally
from tomserve.benchmarks.hitom.tracker import SEMANTICS
from tomserve.content import output_path
from tomserve.content.output_path import parse_file
from tomserve.errors import ConfigError, one_of
from tomserve.items import write_chunks

FORMATS = ("items", "hitom")


def generate(
    out: Annotated[Path, typer.Option(parser=parse_file, help="JSONL or JSON file to write.")],
    stories: Annotated[
        int, typer.Option(help="How many stories to write; with --twins each of the four versions counts.")
    ] = 120,
    seed: Annotated[
        int, typer.Option(help="Seed of the random draws. The same seed and options give the same bytes everywhere.")
    ] = 0,
    chapters: Annotated[
        str, typer.Option(help="Chapters of a story, as 2 or 1,3 or 1-3; several values are taken in turn.")
    ] = "1-3",
    agents: Annotated[
        str, typer.Option(help="Persons of a story, from 3 to 8; several values are taken in turn.")
    ] = "5",
    orders: Annotated[
        str, typer.Option(help="Orders of belief to ask about, from 0 to 6; every story is asked all of them.")
    ] = "0-4",
    tells: Annotated[
        str | None,
        typer.Option(help="Tells of a story, taken in turn. If left out: 0,2 (2 with --twins or --order-sensitive)."),
    ] = None,
    tell_kind: Annotated[str, typer.Option(help="Who hears what is told: public, private or both.")] = "both",
    truth: Annotated[
        str, typer.Option(help="Whether what is told is true: deceptive, truthful or mixed.")
    ] = "deceptive",
    moves: Annotated[
        str, typer.Option(help="Moves of the object in a chapter; one of these values is drawn for each.")
    ] = "1-5",
    distractors: Annotated[
        str, typer.Option(help="Distracting lines of a story; one of these values is drawn for each.")
    ] = "0-3",
    lines: Annotated[
        int | None, typer.Option(help="Give every story this many lines, by adding distracting lines.")
    ] = None,
    choices: Annotated[
        str, typer.Option(help="Containers to choose from: a number, or mentioned (those of the story).")
    ] = "15",
    balance: Annotated[
        list[str] | None,
        typer.Option(
            help="Trait to balance: position, first-order, tell, letter; repeat it. Or none. If left out: all."
        ),
    ] = None,
    order_sensitive: Annotated[
        bool,
        typer.Option(
            "--order-sensitive", help="At least half of the answers change when the persons asked about change places."
        ),
    ] = False,
    twins: Annotated[
        bool,
        typer.Option(
            "--twins", help="Tell each story four times: without tells, with true ones, with lies, with neutral lines."
        ),
    ] = False,
    semantics: Annotated[
        str | None,
        typer.Option(
            help="Rules by which beliefs follow: released or common_knowledge. If left out: as the options need."
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Form of the file: items (JSONL), or hitom (JSON like the official file).")
    ] = "items",
    report: Annotated[
        Path | None, typer.Option(parser=parse_file, help="Markdown file to write the achieved balance to as well.")
    ] = None,
) -> Findings:
    """Generate Hi-ToM stories with their questions and right beliefs.

    Every story is asked one question of each order. How well the answers are balanced is printed at the end.
    """
    if form not in FORMATS:
        raise ConfigError(one_of("--format", form, FORMATS))
    if semantics is not None and semantics not in SEMANTICS:
        raise ConfigError(one_of("--semantics", semantics, SEMANTICS))
    plan = Plan(
        stories=stories,
        seed=seed,
        chapters=levels(chapters, "--chapters"),
        agents=levels(agents, "--agents"),
        orders=levels(orders, "--orders"),
        tells=levels(tells or ("2" if twins or order_sensitive else "0,2"), "--tells"),
        tell_kind=tell_kind,
        truth=truth,
        moves=levels(moves, "--moves"),
        distractors=levels(distractors, "--distractors"),
        lines=lines,
        choices=None if choices == "mentioned" else _one(levels(choices, "--choices"), choices),
        balance=_balance(balance, TRAITS),
        order_sensitive=order_sensitive,
        twins=twins,
        semantics=next((name for name in SEMANTICS if name == semantics), None),
    ).check()
    if form == "hitom" and (twins or plan.gold != SEMANTICS[0]):
        what = "--twins" if twins else f"{plan.gold} semantics"
        raise ConfigError(f"--format hitom: the official form has no field for {what}; leave --format out")
    if report is not None and report.resolve() == out.resolve():
        raise ConfigError(f"--report {report} would overwrite the items of --out; choose another file")
    for one in (out, report):
        if one is not None:
            output_path.check_output(one)
    tally = _write(plan, form, out)
    made = f"written: {stories} stories, {stories * len(plan.orders)} items ({plan.gold} semantics) to {out}"
    tables = balance_tables(tally, official_file())
    return Findings(tables=tables, notes=NOTES, lines=(made,), markdown=report)


def _write(plan: Plan, form: str, out: Path) -> Tally:
    """Write the stories of a plan to a file as they are made; returns the counts of what came of it."""
    tally = Tally()

    def counted() -> Iterator[generator.Family]:
        for family in generator.generate(plan):
            tally.add_family(family)
            yield family

    if form == "hitom":
        write_chunks(out, generator.official_file(counted()), output_path.open_output)
    else:
        write_chunks(
            out,
            (line + b"\n" for family in counted() for line in generator.item_lines(family)),
            output_path.open_output,
        )
    return tally


def _one(found: tuple[int, ...], given: str) -> int:
    if len(found) != 1:
        raise ConfigError(f"--choices {given!r}: every story has the same number; give one, such as {found[0]}")
    return found[0]


def _balance(wanted: list[str] | None, traits: tuple[str, ...]) -> tuple[str, ...]:
    if wanted is None:
        return traits
    return () if wanted == ["none"] else tuple(dict.fromkeys(wanted))
