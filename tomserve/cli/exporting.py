"""The commands `export inspect`, `lm-eval` and `every-eval-ever`: a run in the form of other tools' files.

tomserve export inspect mine --out logs
tomserve export every-eval-ever mine --out eee --organization "Our lab"
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tomserve.cli.options import QuietOption, console
from tomserve.content.output_path import parse_folder

if TYPE_CHECKING:
    from tomserve.interop.scored_replies import ScoredReplies
    from tomserve.reporting.progress import RunScreen

RunArgument = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="Name or path of a run. If left out: the newest.")
]
OutOption = Annotated[Path, typer.Option(parser=parse_folder, help="Folder to write the files to.")]
StrategyOption = Annotated[list[str] | None, typer.Option(help="Only this way of asking. Repeatable.")]


def export_inspect(
    out: OutOption, run: RunArgument = None, strategy: StrategyOption = None, quiet: QuietOption = False
) -> None:
    """Write a run as logs of Inspect, one for each strategy.

    Inspect's viewer, its functions and `inspect score` read them. A failure is wrong there, too.
    """
    from tomserve.content.text import say
    from tomserve.interop.inspect_export import export_log

    replies, screen = _replies(run, strategy, quiet)
    out.mkdir(parents=True, exist_ok=True)
    taken = set[str]()
    for one in replies.strategies:
        name = free = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{replies.folder.name}_{one}")[:200]
        while free in taken:  # two names may be the same in these letters
            free = f"{name}_{len(taken) + 1}"
        taken.add(free)
        path = out / f"{free}.eval"
        say(f"written: {path}, {export_log(replies, one, path, screen):,} samples")


def export_lm_eval(
    out: OutOption, run: RunArgument = None, strategy: StrategyOption = None, quiet: QuietOption = False
) -> None:
    """Write a run as lm-eval's --log_samples does: samples_<task>_<date>.jsonl and results_<date>.json, in a folder of
    the model's name.

    Each strategy is a task of its own.
    """
    from tomserve.content.text import say
    from tomserve.interop.lm_eval_files import export_samples

    replies, screen = _replies(run, strategy, quiet)
    for path in export_samples(replies, out, screen):
        say(f"written: {path}")


def export_every_eval_ever(
    out: OutOption,
    run: RunArgument = None,
    strategy: StrategyOption = None,
    organization: Annotated[str, typer.Option(help="Who evaluates, as the files say it.")] = "unknown",
    relationship: Annotated[
        str, typer.Option(help="How that stands to who made the model: first_party, third_party, collaborative, other.")
    ] = "third_party",
    developer: Annotated[
        str | None,
        typer.Option(help="Who made the model, such as openai, where its name does not say so as ORG/MODEL does."),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Write a run in the schema of Every Eval Ever, which leaderboards share: accuracy with its uncertainty, and every
    reply.

    The files lie in data/<benchmark>/<developer>/<model>/, as its own checks ask for.
    """
    from tomserve.cli.telling import warn
    from tomserve.content.text import say
    from tomserve.errors import ConfigError, one_of
    from tomserve.interop.every_eval_ever import RELATIONSHIPS, UNKNOWN, Evaluation

    if relationship not in RELATIONSHIPS:
        raise ConfigError(f"--relationship: {one_of('relationship', relationship, RELATIONSHIPS)}")
    if developer is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", developer):
        raise ConfigError(f"--developer: found {developer!r:.60}; expected letters, digits, '.', '_' and '-'")
    replies, screen = _replies(run, strategy, quiet)
    made = [Evaluation(replies, one, organization, relationship, developer) for one in replies.strategies]
    if any(one.model.startswith(f"{UNKNOWN}/") for one in made):
        warn(
            f"nothing says who made the model {replies.manifest.model!r:.80}, so that its files lie in the folder "
            f"'{UNKNOWN}', which leaderboards may refuse; say it by --developer NAME"
        )
    written = [path for one in made for path in one.write(out, screen) or ()]
    if not written:
        raise ConfigError(f"{replies.folder}: nothing was answered yet")
    for path in written:
        say(f"written: {path}")


def _replies(run: str | None, strategies: list[str] | None, quiet: bool) -> tuple[ScoredReplies, RunScreen]:
    from tomserve.cli.telling import warn
    from tomserve.interop.scored_replies import ScoredReplies
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs.runfolder import find_run

    return ScoredReplies(find_run(run), strategies or None, warn), RunScreen(console(), quiet=quiet)
