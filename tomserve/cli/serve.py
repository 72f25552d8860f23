"""The commands about this machine and its servers: `tomserve serve`, `tomserve setup` and `tomserve doctor`."""

from typing import Annotated

import typer

from tomserve.cli.options import ModelOption, Questions, Sampling, console, with_groups
from tomserve.content.text import say
from tomserve.errors import ConfigError, one_of

EXTRA: list[str] = []
"""The arguments after ``--``. They are flags of vLLM; `main` puts them here before the others are parsed."""


def serve(
    model: Annotated[
        str, typer.Argument(help="A preset, a preset file, ORG/MODEL on the Hugging Face hub, or a model's ./FOLDER.")
    ] = "reference",
    host: Annotated[str, typer.Option(help="Address on which the server listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on which the server listens.")] = 8000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the vLLM commands and start nothing.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the presets and end.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print how much memory the model needs, step by step, and end.")
    ] = False,
    gpus: Annotated[
        str | None,
        typer.Option(
            help="GPUs to plan for, such as 8xA100-80GB, or 2x8xA100-80GB for two machines. Default: those of this "
            "machine."
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="How vLLM connects several machines: mp, by its own processes, or ray. Default: mp. It goes with "
            "--dry-run."
        ),
    ] = None,
    replicas: Annotated[
        int,
        typer.Option(min=1, max=256, help="How many servers of the model to start, on --port and the ports after it."),
    ] = 1,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines use the server without an API key.")
    ] = False,
    setup: Annotated[bool, typer.Option("--setup", help="Install vLLM first, if it is missing.")] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Write the preset that is derived for the model to launch/models/, and end.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --save: replace a preset that is there.")] = False,
) -> None:
    """Serve a model with vLLM in the foreground.

    For a model without a preset, one is derived from the model's files. Plain `tomserve eval` in another terminal finds
    the server. Arguments after -- are handed to vLLM.
    """
    from tomserve.serving import serve
    from tomserve.serving.command import BACKENDS
    from tomserve.serving.serve import ServeOptions

    screen = console()
    chosen = next((name for name in BACKENDS if name == backend), None)
    if backend is not None and chosen is None:
        raise ConfigError(one_of("backend", backend, BACKENDS))
    if backend is not None and not dry_run:
        raise ConfigError("--backend is for models that take several machines: it goes with --dry-run and --gpus")
    wanted = ServeOptions(model, host, port, tuple(EXTRA), gpus, replicas, insecure, chosen)
    if force and not save:
        raise ConfigError("--force goes with --save, which it lets replace a preset")
    if listing:
        serve.list_presets(screen, gpus)
    elif explain or save:
        if explain:
            serve.explain_preset(wanted, screen)
        if save:
            serve.keep_preset(wanted, screen, force=force)
    elif dry_run:
        say("\n".join(serve.server_commands(wanted)))
    elif gpus is not None:
        raise ConfigError("--gpus plans for a machine elsewhere: it goes with --dry-run, --explain or --list")
    else:
        serve.serve(wanted, setup=setup, console=screen)


def setup(
    engine: Annotated[
        str | None,
        typer.Option(help="Which vLLM to install: cpu or cuda. Default: cuda where a GPU is found, else cpu."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree to all that would be asked, as where no terminal is at hand.")
    ] = False,
) -> None:
    """Install vLLM for this machine into this Python environment.

    Only files are installed whose digests tomserve knows, but for torch. Where the environment is not tomserve's own,
    it asks before it installs anything, as other packages may get other versions; before it removes anything, always.
    """
    import sys

    from tomserve.serving import install

    def agrees(what: str) -> bool:
        return yes or typer.confirm(f"{what[:1].upper()}{what[1:]}?")

    if engine not in (None, "cpu", "cuda"):
        raise ConfigError(one_of("engine", engine, ["cpu", "cuda"]))
    consent = agrees if yes or sys.stdin.isatty() else None
    say(f"vLLM ({install.setup(engine, say, consent)}) is installed")


@with_groups
def doctor(
    *,
    base_url: Annotated[
        list[str] | None, typer.Option(help="Address of an endpoint to try as well, by eight questions; repeatable.")
    ] = None,
    model: ModelOption = None,
    questions: Questions,
    sampling: Sampling,
) -> int:
    """Check what is installed, reachable and usable, and what an endpoint supports.

    What is not is named together with what to do about it. The exit code is 1 where something failed, or where an
    evaluation of an endpoint could not be run.
    """
    from tomserve.cli.doctor import diagnose
    from tomserve.cli.evaluate import make_options

    endpoints = [
        make_options(None, questions, sampling, model=model, base_url=[url])[0] for url in dict.fromkeys(base_url or ())
    ]
    return diagnose(console(), endpoints)
