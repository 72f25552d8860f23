"""What the workbench is told when it starts."""

from dataclasses import dataclass
from pathlib import Path

from tomserve.content.paths import absolute_runs_root

PORT = 8321  # the port where it listens unless told otherwise


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `tomserve web`.

    host, port: where it listens.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    auth: bool = False
    """Whether people sign in with a name and a password; without it whoever has the token of the printed address may do
    everything."""
    workers: int = 1  # how many experiments that share a server, or the GPUs of this machine, run at once
    keys: tuple[tuple[str, str], ...] = (("TOMSERVE_API_KEY", ""), ("OPENAI_API_KEY", ""))
    """Which environment variables an experiment may take its API key from, each with the address that the key may be
    sent to, "" for any."""
    proxy: str | None = None
    """Under which address others reach it, such as https://tom.example.org, where a reverse proxy stands before it;
    None where none does."""

    @property
    def folder(self) -> Path:
        """The folder of the workbench's own files, ``runs/.web``, whether it exists or not."""
        return absolute_runs_root() / ".web"
