"""The command `tomserve`: all of its commands and groups (tomserve.cli.exit_codes says how each of them ends).

It starts quickly because only the module of the command that is run is imported, and imports what it needs then.

    tomserve eval --base-url http://localhost:8000/v1 --limit 16
"""

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tomserve import __version__
from tomserve.cli.options import App, ContentOption, group, lasting, with_content
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
    if not {"causal", "functional"}.intersection(ours):  # others multiply matrices so small that threads only wait
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "serve" in ours:
        from tomserve.cli import serve

        serve.EXTRA[:] = extra
    first = ours[:1] or ["--help"]
    if first == ["--help"]:
        first = ["items"]  # what `_Sections` prints needs none of them
    elif not {*first} & {*_PLACES}:
        first = []  # all, for an error that lists them
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


SECTIONS: dict[str, dict[str, str]] = {
    "Evaluate a model": {
        "eval": "evaluate.evaluate_command",
        "stability": "stability.stability",
        "faithfulness": "faithfulness.faithfulness",
        "causal": "causal.causal",
        "functional": "functional.functional",
        "search": "search.search",
    },
    "Analyse results": {
        "score": "analyze.score",
        "analyze": "analyze.analyze",
        "compare": "analyze.compare",
        "report": "analyze.report",
        "figures": "analyze.figures",
        "plan": "plan.plan",
    },
    "Serve a model": {"serve": "serve.serve", "setup": "serve.setup", "doctor": "serve.doctor"},
    "Distribute a run": {
        "shard": "shard.shard",
        "work": "shard.work",
        "submit": "submit.app",
        "status": "submit.status",
        "cancel": "submit.cancel",
        "merge": "merge.merge",
    },
    "Prepare items": {"items": "items.items", "dataset": "dataset.app", "generate": "dataset.generators"},
    "Keep and show runs": {
        "runs": "runs.runs",
        "seal": "runs.seal",
        "verify": "runs.verify",
        "pack": "merge.pack",
        "unpack": "merge.unpack",
        "web": "web.web",
        "export": "",
        "import": "",
    },
}
"""All commands as `tomserve --help` shows them, and where each is."""

_ABOUT = {
    "eval": "Accuracy, beside chance and shortcut baselines.",
    "stability": "Robustness to changes that should not matter.",
    "faithfulness": "Whether answers depend on the chain of thought.",
    "causal": "Whether a perspective-taking map inside drives answers.",
    "functional": "Behaviour, stability and mechanism together, as one score.",
    "search": "The weakest questions, confirmed on fresh ones.",
}
"""What the commands of the first section measure, in a line of 80 characters."""

LASTING = {
    *(
        "eval",
        "stability",
        "causal",
        "faithfulness",
        "functional",
        "search",
        "serve",
        "setup",
        "score",
        "report",
        "figures",
    ),
    *("seal", "merge", "pack", "unpack"),
}
"""The commands whose result lies in files, so that they go on where standard output cannot be written any more."""

_PLACES = {name: place for commands in SECTIONS.values() for name, place in commands.items()}


class _Sections(TyperGroup):
    """The help of `tomserve`, which lists its commands by what they are for and fits a screen of 24 lines."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        first, *others = SECTIONS.items()
        with formatter.section(first[0]):
            formatter.write_dl([(f"{name:16}", _ABOUT[name]) for name in first[1]])
        with formatter.section("Other commands (COMMAND --help explains each)"):
            formatter.write_dl([(heading, ", ".join(commands)) for heading, commands in others])


_HELP = "files of other evaluation tools and batch queues."
_INTEROP = {
    "export": (_HELP, ("artefact", "batch", "every-eval-ever", "hub", "inspect", "lm-eval")),
    "import": (_HELP, ("batch", "csv", "inspect", "jsonl", "lm-eval")),
}


def build_app(*names: str) -> typer.Typer:
    """The command line with the commands and groups of these names, or with all where none is named.

    Only the modules of these commands are imported, as declaring the options of all of them takes longer than many a
    command needs.
    """
    app = App(
        cls=_Sections,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Evaluate theory of mind in language models, on OpenAI-compatible endpoints.",
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
    made = group(f"{verb} {about}")
    for member in members:
        command = _load(f"interop.{name}_{member.replace('-', '_')}")
        made.command(member)(with_content(lasting(command)))
    return made
