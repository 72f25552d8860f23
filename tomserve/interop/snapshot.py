"""Copies of runs as they are handed on: only the files that make up a run, as they are at one moment.

Everything that an artefact says of its runs is computed from these copies, as whoever gets it does; a run that goes on
meanwhile does not change it. Never taken are logs, what a server printed, who the people of a study are, and what a
link leads to; folders of this machine are replaced by short words.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tomserve import content
from tomserve.content import files, temporary
from tomserve.content.paths import run_name, runs_root
from tomserve.errors import ConfigError
from tomserve.runs import journal, runfolder, verification
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import check_files, find_run
from tomserve.scoring.table import TABLES

MANIFEST = "manifest.json"
TAKEN = (*verification.SEALED, journal.PACKED, verification.SEAL_FILE)
"""The files of a run of answers that are handed on, as far as it has them. A measured run has its table besides."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_SECRET = re.compile(r"key|token|secret|passw|credential", re.I)
_SHORTEST = 12
"""Fewest characters of a secret of the environment that is looked for; a shorter one would be found by chance."""


@dataclass
class Snapshot:
    """Copies of runs.

    root: the folder that holds them, as TOMSERVE_RUNS. folders: by name, where each run lies really. manifests: by
    name. taken: the files of the copies, each with its run's name. sealed: the names of those with a seal. said: what
    the user has to know, in sentences.
    """

    root: Path
    folders: dict[str, Path] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    sealed: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """What the runs are called here, in the order in which they were given."""
        return list(self.folders)

    def files(self) -> Iterator[tuple[str, Path]]:
        """Every file of the copies with its name below the folder of all runs."""
        for name in self.taken:
            yield name, self.root / name

    def labels(self, given: Sequence[str], runs: Sequence[str]) -> list[str]:
        """The labels RUN=NAME for the runs as they are called here. given: for the runs as the user calls them. runs:
        these, in the order of `names`."""
        names = {run_name(find_run(run)): name for run, name in zip(runs, self.names, strict=True)}
        parts = [label.partition("=") for label in given]
        return [f"{names.get(run, run)}{equals}{name}" for run, equals, name in parts]


@contextlib.contextmanager
def taken(runs: Sequence[str]) -> Iterator[Snapshot]:
    """Copies of these runs, given by names or paths, which are removed when the block ends.

    Within the block, the runs that are found by name are these copies. Raises ConfigError for what is no run, two runs
    of one name, a secret of the environment in a file, and what cannot be copied.
    """
    with temporary.folder() as scratch:
        made = Snapshot((scratch / "runs").resolve())
        places = _places()
        for run in runs:
            if run.endswith(TABLES):
                raise ConfigError(f"{run}: is a table of scores; an artefact holds runs, from which it can be computed")
            folder = find_run(run)
            name = _named(run_name(folder))
            if name in made.folders:
                raise ConfigError(f"{run}: two runs are called {name!r}; rename the folder of one")
            made.folders[name] = folder
            _copy(made, name, folder, places)
        before = os.environ.get("TOMSERVE_RUNS")
        os.environ["TOMSERVE_RUNS"] = str(made.root)
        try:
            yield made
        finally:
            if before is None:
                del os.environ["TOMSERVE_RUNS"]
            else:
                os.environ["TOMSERVE_RUNS"] = before


def _named(name: str) -> str:
    """What a run is called in an artefact: as before, where that can be the name of a run."""
    parts = [re.sub(r"[^A-Za-z0-9._-]+", "-", part) for part in name.split("/")]
    return "/".join(part if _NAME.fullmatch(part) else f"run{part}"[:200] for part in parts)


def _places() -> list[tuple[str, str]]:
    """Folders of this machine with what stands for them elsewhere, the longest first. Where a command is called counts
    only outside of the home folder, so that the same run gives the same bytes from everywhere else."""
    home, checkout = Path.home(), content.checkout()
    known = [(folder, short) for folder, short in ((Path.cwd(), "."), (runs_root().resolve(), "runs"))
             if home not in (folder, *folder.parents)]  # fmt: skip
    known += [(checkout, ".")] if checkout is not None else []
    found = {str(folder): short for folder, short in (*known, (home, "~")) if len(folder.parts) > 1}
    return sorted(found.items(), key=lambda one: -len(one[0]))


def _copy(made: Snapshot, name: str, folder: Path, places: Sequence[tuple[str, str]]) -> None:
    check_files(folder)
    manifest = Manifest.read(folder)
    assert manifest is not None  # existing_run has found it
    target = made.root / name
    target.mkdir(parents=True)
    made.manifests[name] = manifest
    names = (*TAKEN, runfolder.TABLE) if manifest.measured else TAKEN
    for one in names:
        if not (folder / one).is_file():
            continue
        try:
            with files.open_for_reading(folder / one) as source, (target / one).open("xb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
            made.taken.append(f"{name}/{one}")
        except OSError as error:
            raise ConfigError(f"{folder / one}: cannot be copied ({error.strerror})") from None
    if (target / verification.SEAL_FILE).exists():
        made.sealed.add(name)
    else:
        _without_places(target / MANIFEST, places)
    for path in sorted(target.iterdir()):
        _look(made, name, path, places)


def _without_places(path: Path, places: Sequence[tuple[str, str]]) -> None:
    """Write a manifest anew without the folders of this machine, where it names any."""
    given = orjson.loads(path.read_bytes())
    told = portable(given, places)
    if told != given:
        path.write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n")


def portable(value: Any, places: Sequence[tuple[str, str]]) -> Any:
    """The value with short words in the place of the folders of this machine, in all texts in it.

    >>> portable({"path": "/home/ann/big.csv", "n": 1}, [("/home/ann", "~")])
    {'path': '~/big.csv', 'n': 1}
    """
    if isinstance(value, dict):
        return {name: portable(inner, places) for name, inner in value.items()}
    if isinstance(value, list):
        return [portable(inner, places) for inner in value]
    if isinstance(value, str):
        for folder, short in places:
            value = re.sub(rf"{re.escape(folder)}(?=/|$)", short, value)
    return value


def _look(made: Snapshot, name: str, path: Path, places: Sequence[tuple[str, str]]) -> None:
    """Look for what must not be handed on: refuse a secret of the environment, and tell of folders of this machine."""
    secrets = {
        variable: value.encode()
        for variable, value in os.environ.items()
        if _SECRET.search(variable) and len(value) >= _SHORTEST and not Path(value).exists()
    }
    home = next((folder.encode() for folder, short in places if short == "~"), None)
    found, before = 0, b""
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            text = before + block
            for variable, value in secrets.items():
                if value in text:
                    raise ConfigError(
                        f"{made.folders[name] / path.name}: holds what the variable {variable} of your environment "
                        "holds, which looks like a key; take it out of the file, or unset the variable"
                    )
            found += home is not None and home + b"/" in text
            before = text[-4096:]
    if found:
        made.said.append(
            f"{made.folders[name] / path.name}: names your home folder, and is handed on as it is; look whether "
            "that may be read by others"
        )
