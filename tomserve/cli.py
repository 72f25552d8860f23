"""The command line: thin, and quick to start because every command imports what it needs when it runs.

tomserve eval --base-url http://localhost:8000/v1 --limit 16
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tomserve import __version__, cli_dataset
from tomserve.errors import ConfigError, StoppedError, TomserveError, one_of

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Theory-of-Mind evaluation of language models behind vLLM or any OpenAI-compatible endpoint.",
)
app.add_typer(cli_dataset.app, name="dataset")

VARIABLES = {
    "TOMSERVE_API_KEY",
    "TOMSERVE_API_KEY_FILE",
    "TOMSERVE_CACHE",
    "TOMSERVE_CONTENT",
    "TOMSERVE_DATA",
    "TOMSERVE_PARENT_FD",
    "TOMSERVE_RUNS",
}

RunArgument = Annotated[list[str] | None, typer.Argument(metavar="RUN...", help="Run names or paths [the newest].")]
PathOption = cli_dataset.PathOption


def main() -> None:
    """Entry point: expected failures end in one line on stderr and their exit code, never in a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _terminate)
    try:
        _check_variables()
        ours, extra = _split(sys.argv[1:])
        EXTRA[:] = extra
        code = app(args=ours, standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except TomserveError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; repeat the command to go on", 130)
    except typer.Exit as error:
        sys.exit(error.exit_code)
    except typer.Abort:
        _fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `tomserve items ... | head`
        sys.exit(0)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a bare command: its help, as it is
            print(error.format_message(), file=sys.stderr)  # type: ignore[attr-defined]
            sys.exit(2)
        if hasattr(error, "format_message"):  # click's own usage errors
            context = getattr(error, "ctx", None)
            hint = f" Try `{context.command_path} --help`." if context is not None else ""
            _fail(f"{error.format_message()}{hint}", 2)
        raise


EXTRA: list[str] = []
"""What stood after ``--``: vLLM's flags, which must not be taken for a preset name."""


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Arguments before and after the first ``--``; only `serve` takes any after it."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    if "serve" not in arguments[:at]:
        raise ConfigError("`--` hands flags to vLLM and belongs to `tomserve serve`")
    return arguments[:at], arguments[at + 1 :]


def _fail(message: str, code: int) -> None:
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split()))
    print(f"tomserve: {shown}", file=sys.stderr)
    sys.exit(code)


def _terminate(number: int, frame: object) -> None:
    del frame
    raise StoppedError(f"stopped by {signal.Signals(number).name}; repeat the command to go on", 128 + number)


def _check_variables() -> None:
    for name in sorted(os.environ):
        if name.startswith("TOMSERVE_") and name not in VARIABLES:
            raise ConfigError(one_of("environment variable", name, VARIABLES))


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    # Tables must not be cut where there is no terminal to fit into.
    return console if console.is_terminal else Console(width=200, highlight=False)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tomserve {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    content: Annotated[Path | None, typer.Option(help="Folder whose content files come first.")] = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    del version
    if content is not None:
        os.environ["TOMSERVE_CONTENT"] = str(content)


@app.command(name="eval")
def evaluate_command(
    model: Annotated[str | None, typer.Option(help="Model or preset to ask [what is served; else reference].")] = None,
    base_url: Annotated[list[str] | None, typer.Option(help="Endpoint(s), e.g. http://host:8000/v1.")] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark to run.")] = "perturbed",
    path: PathOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help="Strategies [vanilla, cot].")] = None,
    run: Annotated[str | None, typer.Option(help="Run name or path [<benchmark>-<model>].")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only N items, spread over the classes.")] = None,
    revision: Annotated[str | None, typer.Option(help="Model revision, where only you know it.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, max=2**31, help="Tokens a reply [the strategy's].")] = None,
    timeout: Annotated[float, typer.Option(min=1, max=1e6, help="Seconds a request.")] = 600.0,
    concurrency: Annotated[int, typer.Option(min=1, max=65536, help="Requests in flight.")] = 64,
    setup: Annotated[bool, typer.Option("--setup", help="Install vLLM where a server must be started.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> int:
    """Ask a model a benchmark's questions, score the answers, print the table. Repeat to resume."""
    from tomserve.engine.transport import FINAL
    from tomserve.evaluation import DEFAULT_STRATEGIES, EvalOptions, evaluate
    from tomserve.scoring.table import scores_of

    console = _console()
    options = EvalOptions(
        benchmark=benchmark,
        path=path,
        strategies=tuple(strategy or DEFAULT_STRATEGIES),
        model=model,
        base_urls=tuple(base_url or ()),
        run=run,
        limit=limit,
        revision=revision,
        max_tokens=max_tokens,
        timeout=timeout,
        concurrency=concurrency,
        setup=setup,
        quiet=quiet,
    )
    result = evaluate(options, console)
    scores = scores_of(result.folder, fresh=True)
    if result.added:
        rate = result.added / max(result.seconds, 1e-9)
        console.print(f"{result.added} rows in {result.seconds:.0f} s ({rate:.1f}/s, start-up included)")
    else:
        console.print("nothing left to ask", highlight=False)
    _print_study(scores, console)
    console.print(f"run: {result.folder}", soft_wrap=True, markup=False)
    if result.failures:
        listed = ", ".join(f"{count} {status}" for status, count in result.failures.items())
        again = "; repeat the command to ask again" if set(result.failures) - FINAL else "; final, not asked again"
        console.print(f"failures: {listed}{again}", markup=False)
    bad = {status for status in result.failures if status != "refusal"}
    return 1 if bad else 0


def _print_study(scores: Any, console: Console) -> None:
    from tomserve.reporting import tables
    from tomserve.studies import analyze, default_study, load_study, printable

    study = load_study(default_study(scores))
    tables.show(printable(study, analyze(scores, study)), console)


@app.command()
def serve(
    model: Annotated[str, typer.Argument(help="Preset name, or a preset file.")] = "reference",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command, start nothing.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the presets.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print the memory arithmetic.")] = False,
    setup: Annotated[bool, typer.Option("--setup", help="Install vLLM where it is missing.")] = False,
) -> None:
    """Serve a preset with vLLM in the foreground; plain `tomserve eval` finds it. Flags after -- go to vLLM."""
    from tomserve.serving import foreground

    console = _console()
    if listing:
        foreground.list_presets(console)
    elif explain:
        foreground.explain(model, console)
    elif dry_run:
        print(foreground.command(model, host, port, EXTRA).shell())
    else:
        foreground.serve(model, host, port, EXTRA, setup=setup, console=console)


@app.command()
def score(
    runs: RunArgument = None,
    out: Annotated[Path | None, typer.Option(help="Also write the table there (.parquet, .csv, .jsonl).")] = None,
    responses: Annotated[Path | None, typer.Option(help="JSONL of another tool: item, text; strategy, model.")] = None,
    items: Annotated[Path | None, typer.Option(help="JSONL of the items that --responses answer.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Benchmark that --responses answer.")] = None,
    path: PathOption = None,
    model: Annotated[str | None, typer.Option(help="Model of --responses without one [the file's name].")] = None,
    gold: Annotated[str, typer.Option(help="run: as asked; current: today's dataset (needs --out).")] = "run",
) -> None:
    """Score runs again from their folders alone, or what another tool answered; offline."""
    from tomserve import rescore

    if responses is not None:
        rescore.foreign(responses, items, benchmark, path, out, model, runs or ())
    elif items is not None or benchmark is not None or path is not None or model is not None:
        raise ConfigError("--items, --benchmark, --path and --model belong to --responses FILE")
    else:
        rescore.own(runs or (None,), out, gold)


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


@app.command()
def analyze(
    runs: RunArgument = None,
    study: Annotated[str | None, typer.Option(help="Study name or path [the benchmark's].")] = None,
    intervals: Annotated[str | None, typer.Option(help="Kind of intervals [the study's first].")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the tables.")] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv, md, latex or json.")] = "table",
    label: Annotated[list[str] | None, typer.Option(help="RUN=NAME: name of a run's model in the tables.")] = None,
) -> None:
    """Compute a study's tables from runs or score tables, offline."""
    import polars as pl

    from tomserve import rescore, studies
    from tomserve.engine.runfolder import existing_run
    from tomserve.reporting import tables
    from tomserve.scoring.table import TABLES, load_scores

    if form not in tables.FORMATS:
        raise ConfigError(one_of("format", form, tables.FORMATS))
    for run in runs or (None,):
        if run is None or not run.endswith(TABLES):
            rescore.warn_incomplete(existing_run(run), _warn)
    scores = pl.concat([load_scores(run, note=_warn) for run in runs or (None,)], how="diagonal_relaxed")
    scores = studies.labelled(scores, label or [])
    module = studies.load_study(study or studies.default_study(scores))
    found = studies.analyze(scores, module, intervals)
    layouts = getattr(module, "LAYOUTS", {})
    if out is not None:
        for path in tables.write(found, out, "csv" if form == "table" else form, layouts):
            print(f"written: {path}")
    elif form == "table":
        tables.show(studies.printable(module, found), _console())
    else:
        print(tables.render_all(found, form, layouts), end="")


@app.command()
def items(
    benchmark: Annotated[str, typer.Argument(help="Benchmark name.")],
    path: PathOption = None,
    where: Annotated[list[str] | None, typer.Option(help="Keep items with factor=value; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write [standard output].")] = None,
) -> None:
    """Export a benchmark's items as JSONL, the shape that --benchmark items takes."""
    from tomserve import benchmarks
    from tomserve import items as items_module

    found = items_module.where(benchmarks.get(benchmark).load(path), where or [])
    if out is None:
        for item in found:
            sys.stdout.buffer.write(item.to_json() + b"\n")
        return
    kept = list(found)
    items_module.write_items(out, kept)
    print(f"written: {len(kept)} items to {out}")


@app.command()
def runs(run: Annotated[str | None, typer.Argument(help="Show this one.")] = None) -> None:
    """List the runs, or show one."""
    from tomserve.reporting import listing

    listing.show_run(run, _console()) if run else listing.list_runs(_console())


@app.command()
def setup(
    engine: Annotated[str | None, typer.Option(help="cpu or cuda [cuda where a GPU is found].")] = None,
) -> None:
    """Install the server side (vLLM for this machine) into this environment."""
    from tomserve.serving import install

    if engine not in (None, "cpu", "cuda"):
        raise ConfigError(one_of("engine", engine, ["cpu", "cuda"]))
    print(f"vLLM ({install.setup(engine, print)}) is installed")


@app.command()
def doctor(
    base_url: Annotated[list[str] | None, typer.Option(help="Endpoints to look at, too.")] = None,
) -> int:
    """What is installed, reachable and usable here, and what to do about the rest."""
    from tomserve.serving.doctor import diagnose

    return diagnose(_console(), base_url or [])
