"""Commands over what was answered already (score, analyze, compare), and plan, before anything is. All are offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tomserve.cli.options import PathOption, RunArgument, console
from tomserve.errors import ConfigError, one_of


def score(
    runs: RunArgument = None,
    out: Annotated[Path | None, typer.Option(help="Also write the table there (.parquet, .csv, .jsonl).")] = None,
    responses: Annotated[Path | None, typer.Option(help="JSONL of another tool: item, text; strategy, model.")] = None,
    items: Annotated[Path | None, typer.Option(help="JSONL of the items that --responses answer.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark that --responses answer; or FILE.py, also of the runs.")
    ] = None,
    path: PathOption = None,
    model: Annotated[str | None, typer.Option(help="Model of --responses without one [the file's name].")] = None,
    gold: Annotated[
        str, typer.Option(help="run: as asked; current: today's dataset (needs --out). --benchmark: as for eval.")
    ] = "run",
) -> None:
    """Score runs again from their folders alone, or what another tool answered; offline."""
    from tomserve.cli import rescore

    if responses is not None:
        answers = None if gold == "run" else gold
        rescore.foreign(responses, items, benchmark, path, out, model, runs or (), answers)
    elif items is not None or path is not None or model is not None or not (benchmark or ".py").endswith(".py"):
        raise ConfigError("--items, --benchmark, --path and --model belong to --responses FILE")
    else:
        rescore.own(runs or (None,), out, gold, benchmark)


def analyze(
    runs: RunArgument = None,
    study: Annotated[str | None, typer.Option(help="Study name or path [the benchmark's].")] = None,
    intervals: Annotated[str | None, typer.Option(help="recommended or published [the study's first].")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the tables.")] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv, md, latex or json.")] = "table",
    label: Annotated[list[str] | None, typer.Option(help="RUN=NAME: name of a run's model in the tables.")] = None,
) -> None:
    """Compute a study's tables from runs or score tables, offline."""
    import polars as pl

    from tomserve.cli import rescore
    from tomserve.reporting import tables
    from tomserve.runs.runfolder import existing_run
    from tomserve.runs.scores import load_scores
    from tomserve.scoring.table import TABLES
    from tomserve.studies import compute, labelled

    if form not in tables.FORMATS:
        raise ConfigError(one_of("format", form, tables.FORMATS))
    for run in runs or (None,):
        if run is None or not run.endswith(TABLES):
            rescore.warn_incomplete(existing_run(run))
    scores = pl.concat([load_scores(run, note=rescore.warn) for run in runs or (None,)], how="diagonal_relaxed")
    analysis = compute(labelled(scores, label or []), study, intervals)
    for doubt in analysis.warnings:
        rescore.warn(doubt)
    found, layouts, notes = analysis.tables, analysis.study.layouts, analysis.notes
    if out is not None:
        for path in tables.write(found, out, "csv" if form == "table" else form, layouts, notes):
            print(f"written: {path}")
    elif form == "table":
        tables.show_analysis(analysis, console())
    else:
        print(tables.render_all(found, form, layouts, notes), end="")


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN_A", help="Run name or path, or a score table.")],
    second: Annotated[str, typer.Argument(metavar="RUN_B", help="The one compared with it.")],
    common: Annotated[bool, typer.Option("--common", help="Compare what both were asked, leave out the rest.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for effects, flips and differences, whole.")] = None,
    form: Annotated[str, typer.Option("--format", help="With --out: csv, md, latex or json.")] = "csv",
) -> None:
    """Compare two runs on the same questions: paired differences, flips, what differs between them."""
    from tomserve.cli import rescore
    from tomserve.reporting import tables
    from tomserve.studies import compare as comparing

    if form not in tables.FORMATS or form == "table":
        raise ConfigError(one_of("format", form, set(tables.FORMATS) - {"table"}))
    found = comparing.compare(first, second, common=common, note=rescore.warn)
    print(f"A = {first}, B = {second}")
    if any(found.left_out):
        print(f"left out: {found.left_out[0]} answers of A and {found.left_out[1]} of B have no partner")
    tables.show(comparing.summary(found), console())
    print(f"noise floor: {found.noise or 'not measured'}")
    if out is not None:
        differences = tables.frame(found.differences, ["field", "a", "b"])
        whole = {"effects": found.effects, "flips": found.flips, "differences": differences}
        for path in tables.write(whole, out, form):
            print(f"written: {path}")


def plan(
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark, or FILE.py of your own, to plan [the default one].")
    ] = None,
    path: PathOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help="Strategies [the benchmark's: vanilla, cot].")] = None,
    models: Annotated[int, typer.Option(min=1, help="Models to ask.")] = 1,
    power: Annotated[float, typer.Option(min=0.01, max=0.999, help="Wanted power.")] = 0.8,
    alpha: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Level of the tests.")] = 0.05,
) -> None:
    """What a study costs and what it can show, before any GPU time."""
    from tomserve import benchmarks
    from tomserve.reporting import tables
    from tomserve.studies import plan as planning

    asked = benchmarks.get(benchmark)
    found = planning.plan(asked, path, tuple(strategy or asked.strategies), models, power, alpha)
    print(
        f"{found.items} items, {models} model{'s' * (models > 1)}: {found.requests} requests, "
        f"about {found.tokens / 1e6:.1f} million prompt tokens"
    )
    shown = {"requests": found.cost, f"what can be found (power {power:g}, level {alpha:g})": found.comparisons}
    tables.show(shown, console())


def report(
    runs: RunArgument = None,
    out: Annotated[Path | None, typer.Option(help="HTML file to write [report.html in the run's folder].")] = None,
    opened: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    study: Annotated[str | None, typer.Option(help="Study name or path [the benchmark's].")] = None,
    intervals: Annotated[str | None, typer.Option(help="recommended or published [the study's first].")] = None,
    label: Annotated[list[str] | None, typer.Option(help="RUN=NAME: name of a run's model in the report.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="FILE.py that declares the runs' benchmark, for its beliefs and metrics.")
    ] = None,
) -> None:
    """Write one self-contained HTML file: verdicts, figures, tables, every item. It opens offline, anywhere."""
    from tomserve import benchmarks
    from tomserve.cli import rescore
    from tomserve.reporting.html.build import write_report
    from tomserve.runs.runfolder import existing_run

    if benchmark is not None:
        benchmarks.get(benchmark)  # from now on known by its name
    for run in runs or (None,):
        rescore.warn_incomplete(existing_run(run))
    path = write_report(runs or (None,), out, intervals, label or [], study, rescore.warn)
    print(f"report: {path}")
    if opened:
        typer.launch(str(path.resolve()))
