"""The commands about the machine and its servers: `serve`, `setup`, `doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from tomserve.cli.options import console
from tomserve.errors import ConfigError, one_of

EXTRA: list[str] = []
"""What stood after ``--``: vLLM's flags, which must not be taken for a preset name."""


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


def setup(
    engine: Annotated[str | None, typer.Option(help="cpu or cuda [cuda where a GPU is found].")] = None,
) -> None:
    """Install the server side (vLLM for this machine) into this environment."""
    from tomserve.serving import install

    if engine not in (None, "cpu", "cuda"):
        raise ConfigError(one_of("engine", engine, ["cpu", "cuda"]))
    print(f"vLLM ({install.setup(engine, print)}) is installed")


def doctor(
    base_url: Annotated[list[str] | None, typer.Option(help="Endpoints to look at, too.")] = None,
) -> int:
    """What is installed, reachable and usable here, and what to do about the rest."""
    from tomserve.cli.doctor import diagnose

    return diagnose(console(), base_url or [])
