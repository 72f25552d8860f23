"""The command `tomserve`: all of its commands and groups (tomserve.cli.exit_codes says how each of them ends).

It starts quickly because only the module of the command that is run is imported, and imports what it needs then.

    tomserve eval --base-url http://localhost:8000/v1 --limit 16
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tomserve import __version__
from tomserve.cli.options import ContentOption, lasting, with_content
from tomserve.errors import ConfigError, one_of

# Every environment variable that tomserve reads; any other that begins with TOMSERVE_ is taken for a slip of the pen.
VARIABLES = {
    "TOMSERVE_API_KEY",
    "TOMSERVE_API_KEY_FILE",
    "TOMSERVE_CONTENT",
    "TOMSERVE_DATA",
    "TOMSERVE_HEADERS",
    "TOMSERVE_KEYS",
    "TOMSERVE_PARENT_FD",
    "TOMSERVE_QUEUE",
    "TOMSERVE_RUNS",
}


def command() -> int:
    """Run the command that the command line names, and return its exit code. Raises what the command raises."""
    _check_variables()
    ours, extra = _split(_with_number(sys.argv[1:]))
    if "serve" in ours:
        from tomserve.cli import serve

        serve.EXTRA[:] = extra
    first = ours[:1] if {*ours[:1]} & {*_PLACES} else ()  # else all, for an error that lists them
    code = build_app(*first)(args=ours, standalone_mode=False)
    return code if isinstance(code, int) else 0


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments before and after the first ``--``. Raises ConfigError unless the command is `serve`."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    if "serve" not in arguments[:at]:
        raise ConfigError("`--` hands flags to vLLM and belongs to `tomserve serve`")
    return arguments[:at], arguments[at + 1 :]


def _with_number(arguments: list[str]) -> list[str]:
    """The arguments with a number after --unread and --failed, which may stand alone: then they list LISTED."""
    lists = {"--unread", "--failed"}
    if lists.isdisjoint(arguments):
        return arguments
    from tomserve.cli.runs import LISTED

    following = [*arguments, ""][1:]
    alone = [one in lists and not after.isdecimal() for one, after in zip(arguments, following, strict=True)]
    return [f"{one}={LISTED}" if bare else one for one, bare in zip(arguments, alone, strict=True)]


def _check_variables() -> None:
    """Raise ConfigError for an environment variable that begins with TOMSERVE_ and that nothing reads."""
    for name in sorted(os.environ):
        if name.startswith("TOMSERVE_") and name not in VARIABLES:
            raise ConfigError(one_of("environment variable", name, VARIABLES))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tomserve {__version__}")
        raise typer.Exit


def _options(
    content: ContentOption = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    del content, version  # both have been dealt with while the line was read


SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Ask a model": {
        "eval": ("evaluate.evaluate_command", "Ask a benchmark's questions and score the answers."),
        "stability": ("stability.stability", "Ask variants, too: how often does the answer stay the same?"),
        "faithfulness": ("faithfulness.faithfulness", "Edit chains of thought: does the answer follow from them?"),
        "causal": ("causal.causal", "Look inside: does a map take perspectives and cause answers?"),
        "functional": ("functional.functional", "Behaviour, stability and mechanism of models, and a score."),
    },
    "Score and analyse": {
        "score": ("analyze.score", "Score the replies of runs again, or those of another tool."),
        "analyze": ("analyze.analyze", "Compute the tables of a study from runs or score tables."),
        "compare": ("analyze.compare", "Compare two runs, or two strategies, question by question."),
        "report": ("analyze.report", "Write the report of runs as one HTML file."),
        "figures": ("analyze.figures", "Draw the figures of a study for a paper, as PDF and SVG."),
        "plan": ("plan.plan", "Tell what a study would cost and which effects it could find."),
    },
    "Serve a model": {
        "serve": ("serve.serve", "Serve a model with vLLM in the foreground."),
        "setup": ("serve.setup", "Install vLLM for this machine into this Python environment."),
        "doctor": ("serve.doctor", "Tell what is installed, reachable and usable here."),
    },
    "Ask on many machines": {
        "shard": ("shard.shard", "Divide an evaluation into parts."),
        "work": ("shard.work", "Ask parts of a divided evaluation."),
        "submit": ("submit.app", "Hand a divided evaluation to Slurm or Ray."),
        "status": ("submit.status", "Show how far each part of a divided evaluation is."),
        "cancel": ("submit.cancel", "End the job that asks a divided evaluation."),
        "merge": ("merge.merge", "Merge parts, or runs that ask the same, into one run."),
    },
    "Questions and runs": {
        "items": ("items.items", "Export the items of a benchmark as JSONL."),
        "dataset": ("dataset.app", "Check or read the dataset of a benchmark."),
        "generate": ("dataset.generators", "Generate new items of a benchmark."),
        "runs": ("runs.runs", "List all runs, or the failures or unread replies of one."),
        "seal": ("runs.seal", "Record digests of runs, so that any later change is found."),
        "verify": ("runs.verify", "Check a run by making its rows, scores and report again."),
        "pack": ("merge.pack", "Pack the journals of finished runs to a tenth of their size."),
        "unpack": ("merge.unpack", "Unpack them again, byte for byte."),
    },
    "Other tools": {
        "web": ("web.web", "Serve the workbench: queue, watch and compare in a browser."),
        "export": ("", "Write what other tools read, from logs to batch files."),
        "import": ("", "Read what other tools wrote, from logs to batch files."),
    },
}
"""All commands as `tomserve --help` shows them: where each is, and what it does in one line of a terminal."""

LASTING = {
    *("eval", "stability", "causal", "faithfulness", "functional", "serve", "setup", "score", "report", "figures"),
    *("seal", "merge", "pack", "unpack"),
}
"""The commands whose result lies in files, so that they go on where standard output cannot be written any more."""

_PLACES = {name: place for commands in SECTIONS.values() for name, (place, _) in commands.items()}


class _Sections(TyperGroup):
    """The help of `tomserve`, which lists its commands by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:12}", about) for name, (_, about) in commands.items()])


_HELP = "what other tools {}, from logs to files for batch queues."
_INTEROP = {
    "export": (_HELP.format("read"), ("artefact", "batch", "every-eval-ever", "hub", "inspect", "lm-eval")),
    "import": (_HELP.format("wrote"), ("batch", "csv", "inspect", "jsonl", "lm-eval")),
}


def build_app(*names: str) -> typer.Typer:
    """The command line with the commands and groups of these names, or with all where none is named.

    Only the modules of these commands are imported, as declaring the options of all of them takes longer than many a
    command needs.
    """
    app = typer.Typer(
        cls=_Sections,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Evaluate the Theory of Mind of language models behind vLLM or any OpenAI-compatible endpoint.",
    )
    app.callback()(_options)
    for name in sorted(names or _PLACES, key=[*_PLACES].index):
        place = _PLACES[name]
        if not place:
            app.add_typer(_interop_group(name), name=name)
        elif isinstance(found := _load(place), typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(with_content(lasting(found) if name in LASTING else found))
    return app


def _load(place: str) -> Any:
    """What a module of this package holds under a name, such as "runs.seal"."""
    module, _, name = place.partition(".")
    return getattr(importlib.import_module(f"tomserve.cli.{module}"), name)


def _interop_group(name: str) -> typer.Typer:
    """The group `export` or `import`, whose commands are the functions of tomserve.cli.interop that begin with it."""
    verb = {"export": "Write", "import": "Read"}[name]
    about, members = _INTEROP[name]
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=f"{verb} {about}")

    @group.callback()
    def _group(content: ContentOption = None) -> None:
        del content  # it was dealt with while the line was read

    for member in members:
        command = _load(f"interop.{name}_{member.replace('-', '_')}")
        group.command(member)(with_content(lasting(command)))
    return group
