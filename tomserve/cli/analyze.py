"""The commands that need no server: `score`, `analyze`, `figures`, `report` and `compare`."""

from pathlib import Path
from typing import Annotated

import typer

from tomserve.cli.options import (
    AllOption,
    ByOption,
    IntervalsOption,
    LabelOption,
    PathOption,
    SourcesArgument,
    StudyOption,
    console,
)
from tomserve.content import output_path
from tomserve.content.output_path import parse_file, parse_folder
from tomserve.content.text import say
from tomserve.errors import ConfigError, one_of


def score(
    runs: SourcesArgument = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=parse_file, help="File to write the score table to as well: .parquet, .csv or .jsonl."),
    ] = None,
    responses: Annotated[
        Path | None,
        typer.Option(help="JSONL file of another tool's replies: item and text, perhaps strategy and model."),
    ] = None,
    items: Annotated[Path | None, typer.Option(help="JSONL file of the items that --responses answers.")] = None,
    benchmark: Annotated[
        str | None,
        typer.Option(
            help="Benchmark that --responses answers, or the FILE.py that declares it or the runs' benchmark."
        ),
    ] = None,
    path: PathOption = None,
    model: Annotated[
        str | None, typer.Option(help="Model of the replies that name none. Default: the file's name.")
    ] = None,
    gold: Annotated[
        str,
        typer.Option(
            help="Right answers of runs: run (as they were asked) or current (today's data, with --out). "
            "With --responses: which of the benchmark's sets."
        ),
    ] = "run",
    reader: Annotated[
        str | None,
        typer.Option(
            metavar="URL|MODEL",
            help="A model that reads the replies that the rules cannot read: the address of its server, or its name if "
            "it is served on this machine. Its choices are kept, and used from then on; none goes back to the rules.",
        ),
    ] = None,
    reader_model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which model reads, where the address of --reader serves several."),
    ] = None,
    reader_sample: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="How many replies that the rules have read the reader reads, too, to see how far both agree. "
            "Default: 100.",
        ),
    ] = None,
    reader_may_be_evaluated_model: Annotated[
        bool, typer.Option("--reader-may-be-evaluated-model", help="Allow a model to read its own replies.")
    ] = False,
) -> int:
    """Score the replies of runs again, or those of another tool.

    Runs are scored from their folders alone, without a server. Replies of another tool are given by --responses. The
    exit code is 1 where more than one in ten of the replies could not be read, or where a reader did not reply.
    """
    from tomserve.cli.score import ReaderOptions, score_file, score_runs

    wishes = ReaderOptions(reader, reader_model, reader_sample, reader_may_be_evaluated_model)
    if responses is not None:
        answers = None if gold == "run" else gold
        return score_file(responses, items, benchmark, path, out, model, runs or (), answers, wishes)
    if items is not None or model is not None or not (benchmark or ".py").endswith(".py"):
        raise ConfigError("--items, --benchmark and --model belong to --responses FILE")
    return score_runs(runs or (None,), out, gold, benchmark, wishes, path)


def analyze(
    runs: SourcesArgument = None,
    study: StudyOption = None,
    intervals: IntervalsOption = None,
    by: ByOption = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=parse_folder, help="Folder to write the tables to, one file each. Default: print them."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Format of the tables: table, csv, md, latex or json.")
    ] = "table",
    label: LabelOption = None,
    whole: AllOption = False,
) -> int:
    """Compute the tables of a study from runs or score tables.

    Runs of one model with different strategies are counted as one model with all of them. The exit code is 1 where more
    than one in ten of the replies could not be read.
    """
    from tomserve.cli import output, score
    from tomserve.reporting import tables
    from tomserve.studies.missing_data import agreement_lines

    if form not in tables.FORMATS:
        raise ConfigError(one_of("format", form, tables.FORMATS))
    analysis, lacking = score.analyze_sources(runs or (None,), study, intervals, by or (), label or [])
    found, layouts, notes = analysis.tables, analysis.study.layouts, analysis.notes
    if out is not None or form != "table":
        output.warn_doubts(analysis)
    if out is not None:
        for path in tables.write_tables(
            found, out, "csv" if form == "table" else form, layouts, notes, inputs=score.list_inputs(runs or (None,))
        ):
            say(f"written: {path}")
    elif form == "table":
        output.show_result(analysis, console(), whole=whole)
        for said in agreement_lines(lacking):
            say(said)
    else:
        print(tables.render_all(found, form, layouts, notes), end="")
    return output.tell_unread(lacking)


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN_A", help="Name or path of a run, or a score table.")],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN_B]",
            help="The run or table that is compared with it. Default: two strategies of RUN_A, by --strategies.",
        ),
    ] = None,
    strategies: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Compare strategy A of RUN_A with strategy B of RUN_B (or of RUN_A). Default: each strategy that "
            "both have with itself, or, where each has one of its own, these two.",
        ),
    ] = None,
    common: Annotated[
        bool, typer.Option("--common", help="Compare only the questions that both were asked, and leave out the rest.")
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Margin, such as 0.02 for two points, for tests of non-inferiority of RUN_B and of equivalence."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FACTOR[,FACTOR]",
            help="Break differences down by this factor, or by several crossed ones (kind,order); repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=parse_folder, help="Folder to write the full tables of effects, flips, changes and so on to."
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Format of the files in --out: csv, md, latex or json.")
    ] = "csv",
    whole: AllOption = False,
) -> None:
    """Compare two runs, or two strategies, question by question.

    It shows the paired differences in accuracy, the answers that flipped, and what else differs between the runs. The
    questions of a fresh edition are compared with those that they were made from.
    """
    from tomserve.cli import output, score
    from tomserve.reporting import tables
    from tomserve.reporting.overview import print_overview
    from tomserve.reporting.table_layout import print_prose
    from tomserve.studies import comparison

    if form not in tables.FORMATS or form == "table":
        raise ConfigError(one_of("format", form, set(tables.FORMATS) - {"table"}))
    pair = None
    if strategies is not None:
        one, comma, other = (name.strip() for name in strategies.partition(","))
        if not one or not comma or not other or "," in other:
            raise ConfigError(f"--strategies {strategies!r}: expected two names with a comma between them, such as a,b")
        pair = (one, other)
    found = comparison.compare(
        first, second, strategies=pair, common=common, margin=margin, by=by or (), note=output.warn
    )
    for said in found.lacking:
        output.warn(said)
    say(f"A = {found.a}, B = {found.b}")
    if any(found.left_out):
        say(f"left out: {found.left_out[0]} answers of A and {found.left_out[1]} of B have no partner")
    verdicts, shown = comparison.comparison_verdicts(found), comparison.comparison_summary(found)
    if whole:
        if found.caption is not None:
            print_prose(f"{found.caption}\n", console())
        for verdict in verdicts:
            print_prose(f"in short: {verdict}\n", console())
        tables.show_tables(shown, console())
    else:
        print_overview(None, verdicts, comparison.effects_in_short(found), console())
    say(f"noise floor: {found.noise or 'not measured'}")
    if out is not None:
        for path in tables.write_tables(
            comparison.all_tables(found),
            out,
            form,
            notes=comparison.comparison_notes(found),
            inputs=score.list_inputs((first, second or first)),
        ):
            say(f"written: {path}")


def figures(
    out: Annotated[Path, typer.Option(parser=parse_folder, help="Folder to write the figures to.")],
    runs: SourcesArgument = None,
    form: Annotated[list[str] | None, typer.Option("--format", help="pdf or svg; repeatable. Default: both.")] = None,
    columns: Annotated[int, typer.Option(min=1, max=2, help="How many columns of a paper a figure spans.")] = 1,
    study: StudyOption = None,
    intervals: IntervalsOption = None,
    by: ByOption = None,
    label: LabelOption = None,
) -> None:
    """Draw the figures of a study for a paper: as PDF and SVG with their fonts, in the width of one or two columns.

    Each has its caption beside it, and figures.tex shows all of them. Figures that cannot be drawn of these runs are
    named with the reason.
    """
    from tomserve.cli import output
    from tomserve.reporting import figure_export
    from tomserve.reporting.html import figures

    forms = list(dict.fromkeys(form or figure_export.FORMS))
    for one in forms:
        if one not in figure_export.FORMS:
            raise ConfigError(one_of("format", one, figure_export.FORMS))
    drawn, read = figures.figures(runs or (None,), intervals, label or [], study, by=by or ())
    for lacking in drawn:
        if lacking.missing and not lacking.panels:
            say(f"{lacking.title}: {lacking.missing}")
    for figure in figure_export.write_figures(drawn, out, forms, columns, read):
        say(f"written: {', '.join(map(str, figure.files))}")
        for doubt in figure.doubts():
            output.warn(doubt)
    if "pdf" in forms:
        say(f"written: {out / 'figures.tex'}")


def report(
    runs: SourcesArgument = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=parse_file,
            help="HTML file to write. Default: report.html in the run's folder, or beside a score table.",
        ),
    ] = None,
    opened: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    study: StudyOption = None,
    intervals: IntervalsOption = None,
    by: ByOption = None,
    label: LabelOption = None,
    benchmark: Annotated[
        str | None,
        typer.Option(help="The FILE.py that declares the runs' benchmark, so that its metrics and beliefs are shown."),
    ] = None,
) -> None:
    """Write the report of runs or score tables as one HTML file that opens offline.

    It holds verdicts in words, figures, tables, and every question with its story and the model's reply; stories and
    replies only of runs, since a score table holds none.
    """
    from tomserve import benchmarks
    from tomserve.cli import score
    from tomserve.reporting.html.report import write_report

    if benchmark is not None:
        benchmarks.get(benchmark)  # from now on known by its name
    sources = score.list_inputs(runs or (None,))
    if out is not None:
        output_path.check_output(out, *sources, own=("report.html",))
    score.load_sources(runs or (None,), label or [])
    if out is None and runs and len(runs) == 1 and (parts := score.find_parts(runs[0])) is not None:
        out = parts / "report.html"
    path = write_report(runs or (None,), out, intervals, label or [], study, by=by or ())
    say(f"report: {path}")
    if opened:
        typer.launch(str(path.resolve()))
