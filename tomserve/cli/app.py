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
    first = ours[:1] if {*ours[:1]} & {*_GROUPS, *_LASTING, *_OTHERS} else ()  # else all, for an error that lists them
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
    """The arguments with a number after --unread, which may stand alone: then it lists UNREAD replies."""
    if "--unread" not in arguments:
        return arguments
    from tomserve.cli.runs import UNREAD

    following = [*arguments, ""][1:]
    alone = [one == "--unread" and not after.isdecimal() for one, after in zip(arguments, following, strict=True)]
    return [f"{one}={UNREAD}" if bare else one for one, bare in zip(arguments, alone, strict=True)]


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


SECTIONS = {
    "Ask a model": {
        "eval": "Ask a benchmark's questions and score the answers.",
        "stability": "Ask variants, too: how often does the answer stay the same?",
        "faithfulness": "Edit chains of thought: does the answer follow from them?",
        "causal": "Look inside: does a map take perspectives and cause answers?",
        "functional": "Behaviour, stability and mechanism of models, and a score.",
    },
    "Score and analyse": {
        "score": "Score the replies of runs again, or those of another tool.",
        "analyze": "Compute the tables of a study from runs or score tables.",
        "compare": "Compare two runs, or two strategies, question by question.",
        "report": "Write the report of runs as one HTML file.",
        "figures": "Draw the figures of a study for a paper, as PDF and SVG.",
        "plan": "Tell what a study would cost and which effects it could find.",
    },
    "Serve a model": {
        "serve": "Serve a model with vLLM in the foreground.",
        "setup": "Install vLLM for this machine into this Python environment.",
        "doctor": "Tell what is installed, reachable and usable here.",
    },
    "Ask on many machines": {
        "shard": "Divide an evaluation into parts.",
        "work": "Ask parts of a divided evaluation.",
        "submit": "Hand a divided evaluation to Slurm or Ray.",
        "status": "Show how far each part of a divided evaluation is.",
        "cancel": "End the job that asks a divided evaluation.",
        "merge": "Merge parts, or runs that ask the same, into one run.",
    },
    "Questions and runs": {
        "items": "Export the items of a benchmark as JSONL.",
        "dataset": "Check or read the dataset of a benchmark.",
        "generate": "Generate new items of a benchmark.",
        "runs": "List all runs, or the failures or unread replies of one.",
        "seal": "Record digests of runs, so that any later change is found.",
        "verify": "Check a run by making its rows, scores and report again.",
        "pack": "Pack the journals of finished runs to a tenth of their size.",
        "unpack": "Unpack them again, byte for byte.",
    },
    "Other tools": {
        "web": "Serve the workbench: queue, watch and compare in a browser.",
        "export": "Write what other tools read, from logs to batch files.",
        "import": "Read what other tools wrote, from logs to batch files.",
    },
}
"""All commands as `tomserve --help` shows them, each with what it does in one line of a terminal."""


class _Sections(TyperGroup):
    """The help of `tomserve`, which lists its commands by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:12}", about) for name, about in commands.items()])


_GROUPS = {
    "dataset": "dataset.app",
    "generate": "dataset.generators",
    "submit": "submit.app",
    "export": "",
    "import": "",
}
"""The groups of commands by their names, and where each is; the commands of those of interop are listed below."""

_LASTING = {
    **{"eval": "evaluate.evaluate_command", "stability": "stability.stability", "causal": "causal.causal"},
    **{"faithfulness": "faithfulness.faithfulness", "functional": "functional.functional", "serve": "serve.serve"},
    **{"score": "analyze.score", "report": "analyze.report", "figures": "analyze.figures", "setup": "serve.setup"},
    **{"seal": "runs.seal", "merge": "merge.merge", "pack": "merge.pack", "unpack": "merge.unpack"},
}
"""The commands whose result lies in files, so that they go on where standard output cannot be written any more."""

_OTHERS = {
    **{"analyze": "analyze.analyze", "compare": "analyze.compare", "plan": "plan.plan", "verify": "runs.verify"},
    **{"items": "items.items", "runs": "runs.runs", "doctor": "serve.doctor", "shard": "shard.shard"},
    **{"work": "shard.work", "status": "submit.status", "cancel": "submit.cancel", "web": "web.web"},
}
"""The other commands, by their names."""

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
    wanted = names or (*_GROUPS, *_LASTING, *_OTHERS)
    for name, place in _GROUPS.items():
        if name in wanted:
            app.add_typer(_interop_group(name) if name in _INTEROP else _load(place), name=name)
    for name, place in _LASTING.items():
        if name in wanted:
            app.command(name)(with_content(lasting(_load(place))))
    for name, place in _OTHERS.items():
        if name in wanted:
            app.command(name)(with_content(_load(place)))
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
