"""What a user names to be written, as by `--out`: one function decides how, and refuses what must not be lost.

A regular file is replaced in one step, and keeps its permissions and, where that is possible, its owner. A device, a
named pipe and an open stream (``/dev/null``, ``/dev/stdout``, a process substitution of the shell) are written to once
everything is there. Refused are files of runs, what the command reads itself, folders, and disks.

>>> with open_output(Path("table.csv")) as file:                                    # doctest: +SKIP
...     file.write(b"a,b")
"""

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from tomserve.content import files
from tomserve.errors import ConfigError

_OF_A_RUN = re.compile(
    r"manifest\.json|(items|responses|noise|reader|excluded)\.jsonl|(scores|responses)\.parquet|report\.html"
    r"|(reader|scores|report|seal|progress|workbench|batch)\.json|experiment\.yaml|people\.csv|console\.txt"
    r"|(log|server)\.(txt|log)|\.lock|.*\.torn-.*\.txt|\.tomserve-.*|work"
)
"""The names of files and folders that belong to a run, where they lie in its folder."""

_MANIFEST = "manifest.json"
_LINKS = 40  # how many links in a row are followed at most, as the kernel does


def parse_file(text: str) -> Path:
    """The file that the user names on a command line. Raises ConfigError where that is nothing, or a folder."""
    if not text:
        raise ConfigError("--out and the like: found an empty name; expected a file")
    if text.endswith("/") or Path(text).name in ("", ".."):
        raise ConfigError(f"{files.one_line(text)}: names a folder; expected a file")
    return Path(text).expanduser()


def parse_folder(text: str) -> Path:
    """The folder that the user names on a command line. Raises ConfigError where that is nothing."""
    if not text:
        raise ConfigError("--out and the like: found an empty name; expected a folder")
    return Path(text).expanduser()


def check_output(path: Path, *inputs: Path | None, own: Collection[str] = ()) -> None:
    """Raise ConfigError where `path` must not be written. inputs: files that are read, and folders whose files are.
    own: names of files of a run that may be replaced after all."""
    for name in _names(path):
        _refuse_run(path, name, own)
    number = _stream(path)
    try:
        status = os.fstat(number) if number is not None else path.stat()
    except OSError as error:
        if number is not None:
            raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None
        return  # nothing is there, or a link that leads nowhere; both can be replaced
    if not any(is_kind(status.st_mode) for is_kind in (stat.S_ISREG, stat.S_ISCHR, stat.S_ISFIFO)) and not (
        number is not None and stat.S_ISSOCK(status.st_mode)
    ):
        raise ConfigError(f"{path}: is {files.describe_kind(status.st_mode)}; expected a file or a new name")
    for given in inputs:
        if stat.S_ISREG(status.st_mode) and given is not None and (taken := _is_in(status, given, own)) is not None:
            raise ConfigError(f"{path}: is {taken}, which is read; choose another file, so that it is not overwritten")


@contextlib.contextmanager
def open_output(path: Path, *inputs: Path | None, own: Collection[str] = ()) -> Iterator[IO[bytes]]:
    """Yield a new file (its path is `name`) whose content takes the place of `path`, or goes to where that leads, when
    the block ends without an error. Raises ConfigError as `check_output` does, OSError."""
    check_output(path, *inputs, own=own)
    number, status = _stream(path), None
    with contextlib.suppress(OSError):
        status = path.stat()
    if number is None and (status is None or stat.S_ISREG(status.st_mode)):
        with files.temporary_file(path.parent) as made:
            yield made
            if status is not None:
                _copy_mode(made, status)
            files.put_in_place(made, path)
        return
    with files.temporary_folder() as scratch:
        with open(scratch / "content", "xb") as made:
            yield made
        with open(scratch / "content", "rb") as source, _open_stream(path, number) as target:
            shutil.copyfileobj(source, target, 1 << 16)


def _copy_mode(file: IO[bytes], status: os.stat_result) -> None:
    """Give a new file the permissions and the owner of the one that it replaces, as far as this user may."""
    about = os.fstat(file.fileno())
    with contextlib.suppress(OSError):
        if (about.st_uid, about.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(file.fileno(), status.st_uid, status.st_gid)
    with contextlib.suppress(OSError):
        os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode) & 0o777)


@contextlib.contextmanager
def _open_stream(path: Path, number: int | None) -> Iterator[IO[bytes]]:
    """A device, pipe or stream, open for writing. A stream goes on where it stands, as a shell's redirection does."""
    # Opening a pipe that nobody reads yet waits.
    descriptor = os.dup(number) if number is not None else os.open(path, os.O_WRONLY | os.O_NOCTTY)
    with os.fdopen(descriptor, "wb") as target:
        yield target


def _stream(path: Path) -> int | None:
    """The number of the open stream of this process that a path stands for; None for any other path."""
    for name in _names(path):
        if match := re.fullmatch(rf"/proc/(?:self|{os.getpid()})/(?:task/\d+/)?fd/(\d+)", name):
            return int(match[1])
    return None


def _names(path: Path) -> list[str]:
    """All names by which a path leads to what it stands for: its own, and those of the links that it is, in order."""
    found: list[str] = []
    name = os.path.abspath(path)
    while len(found) < _LINKS:
        name = os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))
        found.append(name)
        try:
            name = os.path.join(os.path.dirname(name), os.readlink(name))
        except OSError:
            return found
    return found


def _refuse_run(path: Path, name: str, own: Collection[str]) -> None:
    """Raise ConfigError where that is the name of a file that belongs to a run. path: as the user gave it."""
    whole = Path(name)
    for folder in whole.parents:
        inside = whole.relative_to(folder).parts
        if not _OF_A_RUN.fullmatch(inside[0]) or (len(inside) == 1 and inside[0] in own):
            continue
        if os.path.lexists(folder / _MANIFEST):
            raise ConfigError(
                f"{path}: belongs to the run {folder}; choose another file, so that nothing of it is lost"
            )


def _is_in(status: os.stat_result, given: Path, own: Collection[str]) -> Path | None:
    """The file that this is: `given` itself, or a file in the folder `given`; None where it is neither."""
    try:
        if not given.is_dir():
            return given if os.path.samestat(given.stat(), status) else None
        with os.scandir(given) as entries:
            for entry in entries:
                if entry.name not in own and os.path.samestat(entry.stat(), status):
                    kept = _OF_A_RUN.fullmatch(entry.name) or not os.path.lexists(given / _MANIFEST)
                    return Path(entry.path) if kept else None  # other files in a run's folder are the user's
    except OSError:
        pass
    return None
