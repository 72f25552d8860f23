"""The command line: thin, and quick to start because every command imports what it needs when it runs.

tomserve eval --base-url http://localhost:8000/v1 --limit 16
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve import __version__
from tomserve.cli import dataset as cli_dataset
from tomserve.cli import generate as cli_generate
from tomserve.cli import study as cli_study
from tomserve.cli.study import console
from tomserve.errors import ConfigError, StoppedError, TomserveError, one_of

if TYPE_CHECKING:
    from tomserve.studies import Analysis

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Theory-of-Mind evaluation of language models behind vLLM or any OpenAI-compatible endpoint.",
)
app.add_typer(cli_dataset.app, name="dataset")
app.add_typer(cli_generate.app, name="generate")

VARIABLES = {
    "TOMSERVE_API_KEY",
    "TOMSERVE_API_KEY_FILE",
    "TOMSERVE_CONTENT",
    "TOMSERVE_DATA",
    "TOMSERVE_PARENT_FD",
    "TOMSERVE_RUNS",
}

PathOption = cli_dataset.PathOption
GoldOption = Annotated[
    str | None, typer.Option("--gold", help="Which answers count, where a benchmark has several (hitom).")
]


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
    benchmark: Annotated[str | None, typer.Option(help="Benchmark, or FILE.py of your own [the default one].")] = None,
    path: PathOption = None,
    gold: GoldOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help="Strategies [the benchmark's: vanilla, cot].")] = None,
    run: Annotated[str | None, typer.Option(help="Run name or path [<benchmark>-<model>].")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only N items, spread over the classes.")] = None,
    revision: Annotated[str | None, typer.Option(help="Model revision, where only you know it.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, max=2**31, help="Tokens a reply [the strategy's].")] = None,
    thinking: Annotated[
        str | None, typer.Option(help="Of a model that thinks: on, off, or its tokens [its preset's].")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, max=1e6, help="Seconds a request.")] = 600.0,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=65536, help="Requests in flight [found out while running].")
    ] = None,
    transport: Annotated[str, typer.Option(help="aiohttp, or openai (its SDK) for hosted providers.")] = "aiohttp",
    hedge: Annotated[
        float | None, typer.Option(min=1, help="Ask a second endpoint too where the first is silent for S seconds.")
    ] = None,
    noise_check: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Re-ask that share with others in flight: the noise floor.")
    ] = None,
    setup: Annotated[bool, typer.Option("--setup", help="Install vLLM where a server must be started.")] = False,
    report: Annotated[bool, typer.Option(help="Write report.html at the end.")] = True,
    opened: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> int:
    """Ask a model a benchmark's questions, score the answers, print the table. Repeat to resume."""
    from tomserve.engine.transport import FINAL
    from tomserve.reporting import tables
    from tomserve.runs.evaluation import EvalOptions, evaluate
    from tomserve.runs.scores import scores_of
    from tomserve.studies import compute, noise

    screen = console()
    options = EvalOptions(
        benchmark=benchmark,
        path=path,
        gold=gold,
        strategies=tuple(strategy or ()),
        model=model,
        base_urls=tuple(base_url or ()),
        run=run,
        limit=limit,
        revision=revision,
        max_tokens=max_tokens,
        thinking=thinking,
        timeout=timeout,
        concurrency=concurrency,
        transport=transport,
        hedge=hedge,
        noise_check=noise_check,
        setup=setup,
        quiet=quiet,
    )
    result = evaluate(options, screen)
    scores = scores_of(result.folder)
    if result.added:
        screen.print(f"{result.seconds:.0f} s in all, start-up included", highlight=False)
    else:
        screen.print("nothing left to ask", highlight=False)
    analysis = compute(scores)
    tables.show_analysis(analysis, screen)
    if (floor := noise.line(scores)) is not None:
        screen.print(floor, highlight=False)
    screen.print(f"run: {result.folder}", soft_wrap=True, markup=False)
    if report and (path := _report(result.folder, analysis)) is not None:
        screen.print(f"report: {path}", soft_wrap=True, markup=False)
        if opened:
            typer.launch(str(path.resolve()))
    if result.failures:
        listed = ", ".join(f"{count} {status}" for status, count in result.failures.items())
        again = "; repeat the command to ask again" if set(result.failures) - FINAL else "; final, not asked again"
        screen.print(f"failures: {listed}{again}", markup=False)
    bad = {status for status in result.failures if status != "refusal"}
    return 1 if bad else 0


def _report(folder: Path, analysis: Analysis) -> Path | None:
    """The run's report, the one that is there where it still says the same; what goes wrong with a picture must not
    look like a failed run."""
    from tomserve.reporting.html.build import write_report
    from tomserve.reporting.html.standing import standing

    try:
        return standing(folder) or write_report([str(folder) + "/"], analysis=analysis)
    except TomserveError as error:
        print(f"warning: no report ({error})", file=sys.stderr)
        return None


@app.command()
def serve(
    model: Annotated[str, typer.Argument(help="Preset name, or a preset file.")] = "reference",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command, start nothing.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the presets.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print the memory arithmetic.")] = False,
    gpus: Annotated[str | None, typer.Option(help="Plan for these, e.g. 8xA100-80GB [those here].")] = None,
    replicas: Annotated[int, typer.Option(min=1, max=256, help="Servers, on ports from --port on.")] = 1,
    insecure: Annotated[bool, typer.Option("--insecure", help="Let others use --host without an API key.")] = False,
    setup: Annotated[bool, typer.Option("--setup", help="Install vLLM where it is missing.")] = False,
) -> None:
    """Serve a preset with vLLM in the foreground; plain `tomserve eval` finds it. Flags after -- go to vLLM."""
    from tomserve.serving import catalogue, foreground
    from tomserve.serving.launching import Wanted

    screen = console()
    wanted = Wanted(model, host, port, tuple(EXTRA), gpus, replicas, insecure)
    if listing:
        catalogue.list_presets(screen, gpus)
    elif explain:
        catalogue.explain(wanted, screen)
    elif dry_run:
        print("\n".join(foreground.commands(wanted)))
    elif gpus is not None:
        raise ConfigError("--gpus plans for a machine elsewhere: it goes with --dry-run, --explain or --list")
    else:
        foreground.serve(wanted, setup=setup, console=screen)


for _command in (cli_study.score, cli_study.analyze, cli_study.report, cli_study.compare, cli_study.plan):
    app.command()(_command)


@app.command()
def items(
    benchmark: Annotated[str, typer.Argument(help="Benchmark, or FILE.py of your own.")],
    path: PathOption = None,
    gold: GoldOption = None,
    where: Annotated[list[str] | None, typer.Option(help="Keep items with factor=value; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write [standard output].")] = None,
) -> None:
    """Export a benchmark's items as JSONL, the shape that --benchmark items takes."""
    from tomserve import benchmarks
    from tomserve import items as items_module

    found = items_module.where(benchmarks.load(benchmark, path, gold), where or [])
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

    listing.show_run(run, console()) if run else listing.list_runs(console())


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
    from tomserve.cli.doctor import diagnose

    return diagnose(console(), base_url or [])
