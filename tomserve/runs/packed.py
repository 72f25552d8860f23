"""A journal that was packed: ``responses.parquet`` in the place of ``responses.jsonl``, a tenth as large.

It holds every line of the journal as it stood, beside columns by which other programs can choose rows, and, in the
metadata of the file, how many bytes and lines the journal had, and its digest. Whoever reads a run asks `journal` where
its journal is: that of a packed run is unpacked into a temporary file, which this process keeps until it ends. What
writes to a run unpacks it in its place first.

>>> journal(Path("runs/mine")).name                                                               # doctest: +SKIP
'responses.jsonl'
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import orjson
import polars as pl
import pydantic

from tomserve.content import files, temporary
from tomserve.content.files import digest_file
from tomserve.errors import ConfigError, JournalError, MachineError

JOURNAL, PACKED = "responses.jsonl", "responses.parquet"
"""The names of a run's journal, and of the file that holds it packed."""

MARK = "tomserve_journal"
"""The name under which the file's metadata say what it holds, as JSON."""

LINE = "line"
"""The column that holds the lines of the journal, each with its end."""

DENSEST = 1000
"""A file that claims to hold more than this many times its own bytes is refused: no replies are that much alike."""

BATCH = 5_000
"""So many lines are unpacked at a time, or fewer where the file was packed in smaller groups."""

WAY_OUT = "take the file from where you have the run from, or unpack it with the tomserve that packed it"


class Header(pydantic.BaseModel):
    """What a packed file says of the journal that it holds: its length, its number of lines, and its digest."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Annotated[int, pydantic.Field(alias="schema", ge=1, le=1)] = 1
    bytes: Annotated[int, pydantic.Field(ge=0, lt=2**63)]
    lines: Annotated[int, pydantic.Field(ge=0, lt=2**63)]
    digest: Annotated[str, pydantic.Field(pattern=r"^sha256:[0-9a-f]{64}$")]


def is_packed(folder: Path) -> bool:
    """Whether a run's journal is there in its packed form alone."""
    return not os.path.lexists(folder / JOURNAL) and os.path.lexists(folder / PACKED)


def has_journal(folder: Path) -> bool:
    """Whether a run has a journal, packed or not."""
    return os.path.lexists(folder / JOURNAL) or os.path.lexists(folder / PACKED)


def header(path: Path) -> Header:
    """What a packed file says of itself. Raises ConfigError where it is none, or not to be believed."""
    files.check_regular(path)
    try:
        held = pl.read_parquet_metadata(path).get(MARK)
        found = Header.model_validate(orjson.loads(held if isinstance(held, str) else ""))
    except (*_BROKEN, orjson.JSONDecodeError, pydantic.ValidationError) as error:
        raise _refused(path, error) from None
    if found.bytes > DENSEST * path.stat().st_size:
        raise ConfigError(f"{path}: claims to hold {found.bytes:,} bytes, more than its own size can; {WAY_OUT}")
    return found


_BROKEN = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What Polars raises for a file that is no Parquet file, or a broken one."""


def _refused(path: Path, error: BaseException) -> ConfigError:
    reason = files.one_line(" ".join(str(error).split()))[:120]
    return ConfigError(f"{path}: holds no journal that tomserve packed ({reason}); {WAY_OUT}")


def chunks(path: Path) -> Iterator[bytes]:
    """The bytes of the journal that a packed file holds, some thousand lines at a time.

    Raises ConfigError where they are not those that were packed, at the latest after the last of them.
    """
    wanted, found, size = header(path), hashlib.sha256(), 0
    try:
        lines = pl.scan_parquet(path, glob=False).select(pl.col(LINE).cast(pl.Binary))
        for batch in lines.collect_batches(chunk_size=BATCH, maintain_order=True, engine="streaming"):
            piece = b"".join(batch[LINE].drop_nulls())
            found.update(piece)
            size += len(piece)
            if size > wanted.bytes:
                break
            yield piece
    except _BROKEN as error:
        raise _refused(path, error) from None
    if size != wanted.bytes or f"sha256:{found.hexdigest()}" != wanted.digest:
        raise ConfigError(f"{path}: does not hold the journal any more that was packed; {WAY_OUT}")


def measure(path: Path) -> tuple[int, str]:
    """Length and digest of a file of a run, as tomserve.content.files.digest_file gives them; where it is a journal that
    is packed, those of the journal. All of it is read. Raises OSError, and ConfigError as `chunks` does."""
    if path.name != JOURNAL or not is_packed(path.parent):
        return digest_file(path)
    packed = path.with_name(PACKED)
    for _ in chunks(packed):
        pass
    about = header(packed)
    return about.bytes, about.digest


def size_of(path: Path) -> int:
    """Length of a file of a run; where it is a journal that is packed, that of the journal. Raises OSError."""
    if path.name != JOURNAL or not is_packed(path.parent):
        return path.stat().st_size
    return header(path.with_name(PACKED)).bytes


def lines_in(folder: Path) -> int:
    """How many lines the packed journal of a run has, by what it says of itself; 0 where it has none that is whole."""
    with contextlib.suppress(ConfigError):
        return header(folder / PACKED).lines if is_packed(folder) else 0
    return 0


def _unpack(packed: Path, out: Path) -> None:
    with open(out, "xb") as file:
        for piece in chunks(packed):
            file.write(piece)


_LOCK = threading.Lock()
_KEPT: dict[tuple[str, int, int, int], Path] = {}
_FOLDERS: dict[int, contextlib.ExitStack] = {}
"""The journals that were unpacked by this process, and what removes them when it ends, by its number."""


def journal(folder: Path) -> Path:
    """The path of a run's journal, from which it can be read; there need be none yet.

    That of a packed run is a temporary file, which must not be changed. Raises ConfigError as `chunks` does, and
    MachineError where there is no room to unpack it.
    """
    if not is_packed(folder):
        return folder / JOURNAL
    packed = folder / PACKED
    files.check_regular(packed)
    with _LOCK:
        try:
            status = packed.stat()
        except OSError as error:
            raise ConfigError(f"{packed}: cannot be read ({error.strerror})") from None
        key = (str(packed.resolve()), status.st_ino, status.st_size, status.st_mtime_ns)
        if (found := _KEPT.get(key)) is None or not found.exists():
            try:
                place = _folder().enter_context(temporary.folder())
                found = place / JOURNAL
                _unpack(packed, found)
            except OSError as error:
                raise MachineError(
                    f"{packed}: cannot be unpacked ({error.strerror}); free space, name another folder by TMPDIR, or "
                    "unpack it in its place (`tomserve unpack RUN`)"
                ) from None
            _KEPT[key] = found
        return found


def _folder() -> contextlib.ExitStack:
    """What keeps the temporary folders of this process."""
    number = os.getpid()
    if number not in _FOLDERS:
        stack = _FOLDERS[number] = contextlib.ExitStack()
        atexit.register(lambda: stack.close() if os.getpid() == number else None)
    return _FOLDERS[number]


def restore(folder: Path, say: Callable[[str], None] = lambda text: None) -> bool:
    """Unpack a run's journal in its place, as rows are to be added. Returns whether it was packed.

    folder: the run's folder, which this process has locked. say: is told that it is done. Raises ConfigError as
    `chunks` does, and JournalError where there is no room.
    """
    if not is_packed(folder):
        with contextlib.suppress(FileNotFoundError):
            (folder / PACKED).unlink()  # a packing was ended before it had removed the journal, which counts
        return False
    try:
        with files.replace_file(folder / JOURNAL) as file:
            for piece in chunks(folder / PACKED):
                file.write(piece)
        (folder / PACKED).unlink()
    except OSError as error:
        raise JournalError(
            f"{folder / JOURNAL}: cannot be written ({error.strerror}); free space and repeat the command"
        ) from None
    say(f"{folder / PACKED} was unpacked, as rows are added; `tomserve pack` packs it again")
    return True
