"""The commands about run folders: `tomserve runs` lists them, `tomserve seal` and `tomserve verify` show that they
are sound.
"""

from pathlib import Path
from typing import Annotated

import typer

from tomserve.cli.options import PathOption, RunArgument, console
from tomserve.content.text import say
from tomserve.errors import ConfigError

LISTED = 10
"""How many unread replies, or failed requests, are listed where no number is given."""


def runs(
    run: Annotated[
        str | None,
        typer.Argument(
            help="Name or path of the run to show. Default: list all. With --unread or --failed also a score table, "
            "with --unread also a file of replies with --items or --benchmark; if left out then: the newest run."
        ),
    ] = None,
    unread: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"List the replies that could not be read, at most N ({LISTED} where no number stands there): why, "
            "and how each of them ends.",
        ),
    ] = None,
    failed: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"List the requests that failed, at most N ({LISTED} where no number stands there), in the server's "
            "words, and the way out.",
        ),
    ] = None,
    items: Annotated[Path | None, typer.Option(help="JSONL file of the items that a file of replies answers.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmark that a file of replies answers, or the FILE.py that declares it.")
    ] = None,
    path: PathOption = None,
) -> None:
    """List all runs, show the questions and failures of one, or list its unread replies or failed requests."""
    from tomserve.reporting import run_list

    if unread is not None:
        from tomserve.cli import score
        from tomserve.reporting.run_list import show_unread

        show_unread(*score.list_unread(run, unread, items, benchmark, path), console())
    elif failed is not None:
        from tomserve.cli import score
        from tomserve.reporting.run_list import show_failed

        show_failed(*score.list_failed(run, failed), console())
    elif items is not None or benchmark is not None or path is not None:
        raise ConfigError("--items, --benchmark and --path say what a file of replies answers; they need --unread")
    else:
        run_list.show_run(run, console()) if run else run_list.list_runs(console())


MARKS = {True: ("ok", "green"), False: ("NOT OK", "bold red"), None: ("-", "yellow")}
"""How the outcome of a check is shown, and in which colour; None where nothing could be checked."""


def seal(
    runs: RunArgument = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="SSH key to sign the seal with, such as ~/.ssh/id_ed25519. Default: no signature."
        ),
    ] = None,
) -> None:
    """Seal runs: record digests of their files in seal.json, so that any later change can be found.

    It prints the digest of the seal. Publish it somewhere else (a paper, a registration), or sign the seal by --key:
    whoever can write to the folder could make another seal. A run that has grown is sealed again in the same way; the
    earlier seals remain.
    """
    from tomserve.runs import verification
    from tomserve.runs.runfolder import find_run

    for run in runs or (None,):
        folder = find_run(run)
        link = verification.seal(folder, key)
        signed = "sealed and signed" if link.signature is not None else "sealed"
        say(f"{signed}: {folder}\n{link.digest}")


def verify(
    runs: RunArgument = None,
    signers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="SSH keys that may have signed the runs: a file of allowed signers, or a public key (.pub). Default: "
            "tell only which key it was.",
        ),
    ] = None,
    path: PathOption = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(metavar="FOLDER", help="Folder of a strategy of your own that the runs used; repeatable."),
    ] = None,
) -> int:
    """Check that runs fit together: make rows, prompts, questions, scores and report again, and compare.

    No model is asked, and nothing of the runs is changed. The exit code is 1 where anything is not as it should be.
    What could not be checked is said.
    """
    from rich.text import Text

    from tomserve.content.text import sanitize
    from tomserve.reporting.table_layout import print_entry
    from tomserve.runs.runfolder import find_run
    from tomserve.runs.verification import VerifyOptions
    from tomserve.workflows.run import iterate_checks

    if signers is not None and not signers.expanduser().is_file():
        raise ConfigError(f"--signers {signers}: there is no such file; expected public keys of OpenSSH")
    holds, screen = True, console()
    for run in runs or (None,):
        folder = find_run(run)
        screen.print(sanitize(f"run {folder}"), highlight=False, markup=False, soft_wrap=True)
        for one in iterate_checks(folder, VerifyOptions(path, tuple(strategy or ()), signers)):
            word, style = MARKS[one.holds]
            head = Text(f"  {one.what:9}  ").append(f"{word:6}  ", style)
            print_entry(head, sanitize(one.said), screen)
            holds &= one.holds is not False
    if not holds:
        say("not everything is as it should be")
    return 0 if holds else 1
