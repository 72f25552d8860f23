"""Paths of content (presets, prompts, stages, studies), of runs and of the cache.

The first folder that has the file wins: the one given as ``--content DIR`` or ``TOMSERVE_CONTENT``; then the
checkout, where the package's parent folder is one; then ``tomserve/_content/``, which an installed wheel contains. A
path that the user gives explicitly is opened as it is and not searched for. The current directory is not searched: a
study is code, and no code is to be run merely because of the folder in which one stands.
"""

import hashlib
import os
import re
import shlex
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tomserve.errors import ConfigError

PACKAGE = Path(__file__).resolve().parents[1]  # the folder of the package `tomserve` itself


@cache
def checkout() -> Path | None:
    """The repository that this package runs from, known by its pyproject.toml; None in an installed wheel."""
    pyproject = PACKAGE.parent / "pyproject.toml"
    try:
        name = tomllib.loads(pyproject.read_text("utf-8")).get("project", {}).get("name")
    except (OSError, tomllib.TOMLDecodeError):
        return None
    return PACKAGE.parent if name == "tomserve" else None


def roots() -> list[Path]:
    """The folders that are searched, in order. Raises ConfigError where TOMSERVE_CONTENT is not a folder."""
    folders: list[Path] = []
    chosen = os.environ.get("TOMSERVE_CONTENT")
    if chosen:
        folder = Path(chosen).expanduser()
        if not folder.is_dir():
            raise ConfigError(f"content folder {chosen!r} (--content or TOMSERVE_CONTENT) is not a folder")
        folders.append(folder.resolve())
    if (here := checkout()) is not None:
        folders.append(here)
    if (PACKAGE / "_content").is_dir():
        folders.append(PACKAGE / "_content")
    return folders


def programs() -> list[str]:
    """The studies in the folder of --content or TOMSERVE_CONTENT, sorted: programs, which run with the user's rights
    wherever a study is looked for. None where that folder is the checkout or the package, which came installed."""
    first = roots()[0] if os.environ.get("TOMSERVE_CONTENT") else None
    if first is None or first in (checkout(), PACKAGE / "_content"):
        return []
    found = (*(first / "analysis").glob("*.py"), *(first / "analysis").glob("*/study.py"))
    return sorted(path.relative_to(first).as_posix() for path in found)


def find(relative: str) -> Path | None:
    """The first file or folder with that path relative to one of the `roots`, or None where no root has it."""
    return next((root / relative for root in roots() if (root / relative).exists()), None)


def require(relative: str) -> Path:
    """What `find` finds. Raises ConfigError where no root has it, which says how to name another one."""
    if (found := find(relative)) is None:
        raise ConfigError(f"{relative} is in none of the content folders; name one that has it by --content")
    return found


def names(folder: str, suffix: str) -> dict[str, Path]:
    """All files ``<name><suffix>`` in `folder` of any root, by name and sorted by it; the first root that has a name
    wins. `suffix` may reach into folders: ``names("prompts", "/strategy.yaml")`` lists the strategies."""
    paths: dict[str, Path] = {}
    for root in roots():
        for path in sorted((root / folder).glob(f"*{suffix}")):
            name = path.relative_to(root / folder).as_posix()[: -len(suffix)]
            paths.setdefault(name, path)
    return dict(sorted(paths.items()))


def data_file(name: str) -> Path | None:
    """The path of a data file that others published and that is not shipped with tomserve; None where it is not there.
    It is looked for in the folder TOMSERVE_DATA, or else in ``../shared/data`` beside the checkout."""
    chosen, here = os.environ.get("TOMSERVE_DATA"), checkout()
    folder = Path(chosen).expanduser() if chosen else here.parent / "shared/data" if here else None
    return folder / name if folder is not None and (folder / name).is_file() else None


def digest(*parts: bytes | Path) -> str:
    """SHA-256 of byte strings and of files' contents, as ``sha256:<64 hex>``. The length of each part is included, so
    that moving a byte from one part to the next changes it. Raises OSError for a file that cannot be read."""
    data = [part for part in parts if isinstance(part, bytes)]
    if len(data) < len(parts):
        return digest_of(parts)  # files are read one after the other, and what is in memory is digested at once
    return "sha256:" + hashlib.sha256(b"".join([len(part).to_bytes(8, "big") + part for part in data])).hexdigest()


def digest_of(parts: Iterable[bytes | Path]) -> str:
    """The `digest` of these parts, of which one at a time is in memory. Raises OSError as it does."""
    sha = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.read_bytes()
        sha.update(len(data).to_bytes(8, "big") + data)
    return "sha256:" + sha.hexdigest()


CODE = frozenset((".py", ".js", ".css", ".j2", ".json", ".yaml"))
"""Suffixes of the files that `code_digest` reads: programs, templates, texts, and data that lie among the programs."""


def code_digest(places: Iterable[Path]) -> str:
    """The `digest` of all code in these folders or files; file names count, relative to the folder that holds the
    place, so that a renamed file changes it."""
    parts: list[bytes | Path] = []
    for place in places:
        paths = place.rglob("*") if place.is_dir() else [place]
        for path in sorted(path for path in paths if path.suffix in CODE):
            parts += [path.relative_to(place.parent).as_posix().encode(), path]
    return digest(*parts)


PARTS_ENDING = ".parts"
"""How the folder is called that holds the parts of a run: the run's name, and this (see tomserve.distributed)."""


def runs_root() -> Path:
    """The folder that holds the runs: ``TOMSERVE_RUNS`` where it is set, else ``./runs``."""
    return Path(os.environ.get("TOMSERVE_RUNS") or "runs")


def absolute_runs_root() -> Path:
    """The folder that holds the runs by its one path from ``/``, through no link: a path below it, unlike a name, is
    taken for the same folder by whoever is given it."""
    return runs_root().resolve()


def cache_root() -> Path:
    """The folder for what can be made again, for all programs of the user: ``XDG_CACHE_HOME``, else ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def state_root() -> Path:
    """The folder for what programs of a user remember: ``XDG_STATE_HOME``, if absolute, else ``~/.local/state``."""
    given = Path(os.environ.get("XDG_STATE_HOME") or ".")
    return given if given.is_absolute() else Path.home() / ".local/state"


def run_name(folder: Path) -> str:
    """What a run is called: the path of its folder below the one that holds the runs, such as ``pilot/first``. A run
    that lies elsewhere is called like its folder. Bytes in it that are no UTF-8 are replaced, as no record can hold
    them."""
    whole, root = folder.resolve(), absolute_runs_root()
    name = whole.relative_to(root).as_posix() if root in whole.parents else whole.name
    return recordable(name)


def recordable(path: str | Path) -> str:
    """A path as text that a record can hold: bytes in it that are no UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def run_place(folder: Path) -> str:
    """What tells a run from every other of this machine: its name below the folder of runs, or its path elsewhere."""
    whole = folder.resolve()
    return run_name(folder) if absolute_runs_root() in whole.parents else recordable(whole)


def export_name(folder: Path, strategy: str) -> str:
    """What a file with a strategy's replies is called beside those of other runs: ``RUN_STRATEGY``, where the strategy
    has "-" for "_", so that the last "_" ends the run's name; with a digest where another run or strategy could be
    called so as well."""
    whole = f"{run_name(folder)}_{strategy.replace('_', '-')}"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", whole.replace("/", "__"))[:180]
    if run_place(folder) == run_name(folder) and name.replace("__", "/") == whole and "-" not in strategy:
        return name
    return f"{name}-{digest(run_place(folder).encode(), strategy.encode())[7:15]}"


def run_argument(folder: Path) -> str:
    """What a command is given to find the run in a folder, as a shell takes it: its name or, where it does not lie
    below the folder of runs, its path."""
    if absolute_runs_root() in folder.resolve().parents:
        return run_name(folder)
    path = str(folder)
    return shlex.quote(path if path.startswith(("/", "./", "../")) else f"./{path}")
