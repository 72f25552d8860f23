"""Options that several commands share, and the console they print to."""

from __future__ import annotations

import copy
import functools
import inspect
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperOption

from tomserve import content as contents
from tomserve.cli import exit_codes
from tomserve.content.text import say
from tomserve.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from rich.console import Console


Function = TypeVar("Function", bound=Callable[..., Any])


class _Command(TyperCommand):
    """A command that refuses an option given twice where it takes one value, the first of which would not count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        single = [one for one in order if isinstance(one, TyperOption) and not (one.multiple or one.is_flag)]
        for option in single:
            if single.count(option) > 1:
                raise ConfigError(f"{option.opts[0]} is given more than once; expected one")
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """A group of such commands."""

    def command(self, name: str | None = None, **more: Any) -> Callable[[Function], Function]:
        return super().command(name, cls=_Command, **more)


def _use(context: typer.Context, content: Path | None) -> Path | None:
    """Look in this folder first for all content that is found from now on; None changes nothing."""
    if context.parent is None:
        _GIVEN.clear()  # a new command line
    if content is not None:
        os.environ["TOMSERVE_CONTENT"] = str(content)
        _GIVEN[:] = [str(content)]
    return content


_GIVEN: list[str] = []
"""The folder that this command line names by --content."""


ContentOption = Annotated[
    Path | None,
    typer.Option(
        "--content",
        metavar="DIR",
        callback=_use,
        is_eager=True,
        help="Folder of your own presets, prompts and studies.",
    ),
]
"""May stand anywhere on the line: `tomserve` itself, its groups, and by `with_content` all of its commands take it."""


def group(about: str, **more: Any) -> App:
    """A group of commands, which takes --content as each of them does."""
    made = App(no_args_is_help=True, rich_markup_mode=None, help=about, **more)

    @made.callback()
    def _options(content: ContentOption = None) -> None:
        del content  # it was dealt with while the line was read

    return made


def _send(context: typer.Context, header: list[str] | None) -> list[str] | None:
    """Send these headers with every request of this process and of those that it starts."""
    if header and not context.resilient_parsing:
        from tomserve.serving import keys

        keys.use_headers(header)
    return header


HeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="NAME=VARIABLE",
        callback=_send,
        help="Send this header with the value of that environment variable, such as api-key=AZURE_KEY, with every "
        "request; repeatable. OPENAI_API_KEY is not sent then.",
    ),
]
"""What every command takes that is given the address of an endpoint, by `with_content`."""


PLACEHOLDERS = {"base_url": "URL", "run": "RUN", "first": "RUN_A", "second": "RUN_B", "path": "PATH"} | {
    **dict.fromkeys(("benchmark", "strategy", "study", "model", "name", "transport", "engine", "gold"), "NAME"),
    **dict.fromkeys(
        ("port", "seed", "limit", "concurrency", "max_tokens", "replicas", "models", "unread", "failed"), "N"
    ),
    **dict.fromkeys(("timeout", "hedge"), "SECONDS"),
    **{"host": "ADDRESS", "gpus": "GPUS", "where": "FACTOR=VALUE", "label": "RUN=NAME", "form": "FORM"},
    **{"thinking": "on|off|N", "intervals": "NAME", "revision": "REVISION"},
}
"""What stands for the value of an option or argument in the help, by the name of the parameter."""

_BY_TYPE = {Path: "PATH", int: "N", float: "NUMBER", str: "TEXT"}


def _name_value(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter of a command, with a word in capitals for its value; typer itself would name a Python type."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter
    kind, *about = get_args(parameter.annotation)
    kinds = {one for arm in (kind, *get_args(kind)) for one in (arm, *get_args(arm))}
    word = next((word for type_, word in _BY_TYPE.items() if type_ in kinds), None)
    if word is None or about[0].metavar is not None:
        return parameter
    info = copy.copy(about[0])
    info.metavar = PLACEHOLDERS.get(parameter.name, word)
    return parameter.replace(annotation=Annotated[kind, info])


RUNS_STUDIES = ("analyze", "report", "compare")
"""The commands that say once that a content folder's studies are run; `doctor` says it in the line of the folder."""

SHOWN = 5
"""So many of them are named."""


def with_content(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the option --content besides its own, and with words for what its options take."""

    @functools.wraps(command)
    def wrapped(*, content: Path | None = None, header: list[str] | None = None, **options: Any) -> Any:
        del content, header  # typer has called _use and _send already
        try:
            if command.__name__ in RUNS_STUDIES and _GIVEN and (programs := contents.programs()):
                shown = ", ".join(programs[:SHOWN]) + ", ..." * (len(programs) > SHOWN)
                place = _GIVEN.pop()
                say(f"note: {place} holds studies, which are programs and run with your rights: {shown}", error=True)
            return command(**options)
        except KeyboardInterrupt:  # a library that listens to Ctrl-C itself for a while, as Polars does, raises it
            raise Interrupted(signal.SIGINT) from None

    own = inspect.signature(command, eval_str=True)  # typer evaluates no texts of a signature that is given
    more: list[inspect.Parameter] = []
    if own.parameters.keys() & {"base_url", "reader", "rewriter"}:
        more.append(inspect.Parameter("header", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=HeaderOption))
    content = inspect.Parameter("content", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ContentOption)
    wrapped.__signature__ = own.replace(parameters=[*map(_name_value, own.parameters.values()), *more, content])  # type: ignore[attr-defined]
    return wrapped


def lasting(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, which goes on where standard output cannot be written any more: its result lies in files."""

    @functools.wraps(command)
    def wrapped(**options: Any) -> Any:
        exit_codes.survive_lost_output()
        return command(**options)

    return wrapped


PathOption = Annotated[
    Path | None, typer.Option("--path", help="File or folder that the benchmark reads instead of its own data.")
]
GoldOption = Annotated[
    str | None, typer.Option("--gold", help="Set of gold answers to score by, where the benchmark has several.")
]
BenchmarkOption = Annotated[
    str | None,
    typer.Option(
        help="Name of a benchmark, or a FILE.py that declares one. Default: tomserve's own false-belief tasks."
    ),
]
StrategyOption = Annotated[
    list[str] | None, typer.Option(help="Prompting strategy; repeatable. Default: the benchmark's.")
]
OwnBenchmarkOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The FILE.py of your own benchmark, where it was asked: no record names a path."),
]
OwnStrategyOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FOLDER", help="Folder of a strategy of your own that was asked, where it is no content."),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Only questions with this factor=value, or one of several values separated by commas; repeatable; all "
        "for every question. Default: the benchmark's, mostly all."
    ),
]
LimitOption = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of questions, drawn as whole stories evenly over the design.")
]
RevisionOption = Annotated[
    str | None, typer.Option(help="Revision of the model's weights, recorded where the server does not report it.")
]
MaxTokensOption = Annotated[
    int | None, typer.Option(min=1, max=2**31, help="Maximum tokens of a reply. Default: the strategy's.")
]
ThinkingOption = Annotated[
    str | None,
    typer.Option(help="Thinking of a reasoning model: on, off, or a budget in tokens. Default: the preset's."),
]
EffortOption = Annotated[
    str | None,
    typer.Option(
        metavar="WORD", help="Reasoning effort of a hosted model, in its provider's terms: low, medium, high."
    ),
]


def _read_object(text: str) -> dict[str, Any]:
    """What --extra-body says, as an object. Raises ConfigError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"--extra-body: not JSON ({error}); expected an object, such as '{_EXAMPLE}'") from None
    if not isinstance(found, dict):
        raise ConfigError(f"--extra-body: expected an object of JSON, such as '{_EXAMPLE}'")
    return found


_EXAMPLE = '{"top_p": 0.9}'
ExtraBodyOption = Annotated[
    dict[str, Any] | None,
    typer.Option(
        parser=_read_object, metavar="JSON", help="Extra fields of every request, as a JSON object; they are recorded."
    ),
]
SchemaOption = Annotated[
    str,
    typer.Option(
        "--schema",
        metavar="on|auto|off",
        help="Constrain replies to their JSON schema: always, where the server supports it, or never.",
    ),
]
TemperatureOption = Annotated[float, typer.Option(min=0, max=2, help="Sampling temperature; 0 is greedy decoding.")]
SeedOption = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="Seed of the first sample; each further sample adds 1.")
]
RepeatsOption = Annotated[
    int,
    typer.Option(
        min=1, max=1000, help="Samples of each question, scored by majority vote; needs a temperature above 0."
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="Name of the model or of its preset. Default: the model that the server offers, else `reference`."
    ),
]
BaseUrlOption = Annotated[
    list[str] | None,
    typer.Option(help="Address of an endpoint, such as http://host:8000/v1. Repeatable, to use several in parallel."),
]
TransportOption = Annotated[
    str, typer.Option(help="HTTP client: httptools, or openai (OpenAI's own, for hosted providers).")
]
ConcurrencyOption = Annotated[
    int | None, typer.Option(min=1, max=65536, help="Concurrent requests. Default: found during the run.")
]
AgainOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STATUS",
        help="Repeat questions that ended with this final status, such as refusal or http_400; repeatable.",
    ),
]
AcceptChangeOption = Annotated[
    bool,
    typer.Option(
        "--accept-change", help="Continue a run although its server or model has changed; the change is recorded."
    ),
]
SetupOption = Annotated[
    bool, typer.Option("--setup", help="Install vLLM first, if a server has to be started and vLLM is missing.")
]
ReportOption = Annotated[bool, typer.Option(help="Write report.html into the run's folder at the end.")]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the report in the browser at the end.")]
NoiseCheckOption = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Share of the questions, from 0 to 1, to repeat in other batches, which measures the noise floor.",
    ),
]
VariantsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KINDS",
        help="Variants of each question to ask as well, with changes that should not matter: all, or a list of again, "
        "object, person, condensed, choices, paraphrase and order, separated by commas.",
    ),
]
StudyOption = Annotated[str | None, typer.Option(help="Name or path of a study. Default: the study of the benchmark.")]
IntervalsOption = Annotated[
    str | None,
    typer.Option(
        help="Kind of confidence intervals: recommended, published or, in the study accuracy, effective. Default: the "
        "study's default."
    ),
]
ByOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FACTOR[,FACTOR]",
        help="Break results down by this factor, or by several crossed ones (kind,order); repeatable.",
    ),
]
LabelOption = Annotated[list[str] | None, typer.Option(help="RUN=NAME: rename the model of a run; repeatable.")]
LayersOption = Annotated[
    str | None, typer.Option(metavar="LIST", help="Layers to change, such as 1,4-6. Default: all of them.")
]
AlphasOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Strengths of the change, such as 0.001,0.01; a smaller one moves further. Default: nine for each layer, "
        "from where nothing flips to where everything does.",
    ),
]
FewestOption = Annotated[
    int | None,
    typer.Option(min=2, help="How many questions must be answered by the false belief, at least. Default: 50."),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where weights are measured: cpu, cuda, cuda:1, or auto to spread a model over all GPUs. Default: a GPU "
        "where there is one.",
    ),
]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Numbers of the weights: float32, bfloat16 or float16. Default: bfloat16 on a GPU, and on a CPU with a "
        "unit for it (AMX) if they are stored so; else float32.",
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Print all tables with their notes, and every warning.")]
"""Whether the whole result is printed instead of a screen of it."""

QuietOption = Annotated[bool, typer.Option("--quiet", help="Print only warnings, results and paths.")]
RunArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN",
        help="Names of runs, such as mine or pilot/mine, or paths such as ./mine. Default: the newest run.",
    ),
]

SourcesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN",
        help="Names of runs, such as mine or pilot/mine, or paths such as ./mine; of the parts of an evaluation "
        "mine.parts. Default: the newest run.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The options that say which questions are asked, and by which strategies."""

    benchmark: BenchmarkOption = None
    path: PathOption = None
    gold: GoldOption = None
    where: WhereOption = None
    strategy: StrategyOption = None


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The options that say how many questions are asked, and how replies are drawn."""

    limit: LimitOption = None
    revision: RevisionOption = None
    max_tokens: MaxTokensOption = None
    thinking: ThinkingOption = None
    reasoning_effort: EffortOption = None
    extra_body: ExtraBodyOption = None
    answer_schema: SchemaOption = "on"
    temperature: TemperatureOption = 0.0
    seed: SeedOption = 0
    repeats: RepeatsOption = 1


@dataclass(frozen=True, kw_only=True)
class Showing:
    """The options that say how much of a result is shown, and whether a report is written and opened."""

    report: ReportOption = True
    opened: OpenOption = False
    whole: AllOption = False
    quiet: QuietOption = False


def with_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, in whose signature each parameter that is a group of options is replaced by these options."""
    own = inspect.signature(command, eval_str=True)
    kinds = {name: one.annotation for name, one in own.parameters.items()}
    groups = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and is_dataclass(kind)}

    @functools.wraps(command)
    def wrapped(**options: Any) -> Any:
        for name, group in groups.items():
            options[name] = group(**{one.name: options.pop(one.name) for one in fields(group) if one.name in options})
        return command(**options)

    parameters: list[inspect.Parameter] = []
    for name, one in own.parameters.items():
        group = groups.get(name)
        parameters += inspect.signature(group, eval_str=True).parameters.values() if group is not None else [one]
    wrapped.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return wrapped


PIPE = 100_000
"""Columns of the console where the output is a file or a pipe: more than any table has, so that each row is one
line."""


def console() -> Console:
    """The console to print tables to: as wide as the terminal, or PIPE columns where the output is a file or a pipe."""
    from tomserve.reporting.table_layout import Terminal

    found = Terminal(highlight=False)
    return found if found.is_terminal else Terminal(width=PIPE, highlight=False)
