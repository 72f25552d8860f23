"""Open, read, create and replace files in folders that others may write to: no links, bounded reads, atomic
replacement, snapshots of growing files.

A run folder that was downloaded is data, and its entries are not to be trusted: ``responses.jsonl`` may be a link to a
private key, ``report.html`` one to the user's own file, ``log.txt`` a named pipe, any of them a hole of a terabyte.
Therefore no link at the end of a path is followed, only regular files are opened, lines and files have a longest
length, and a file is replaced through a temporary one. The folder itself may be reached through a link (``runs/`` on
another disk).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedReader
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import orjson

from tomserve.content import parquet_pages
from tomserve.errors import ConfigError, ContentError

if TYPE_CHECKING:
    import polars as pl

Found = TypeVar("Found")

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""What stands at a path that is no regular file, in words for messages."""


def one_line(text: str) -> str:
    r"""The text with every character that cannot be printed written as an escape, so that a message stays on one line.

    >>> one_line("done\n2026 all 10 right")
    'done\\n2026 all 10 right'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def check_regular(path: Path, *, alone: bool = False) -> None:
    """Raise ConfigError unless `path` is a regular file or nothing is there. alone: refuse a file with a second name
    (hard link), too, as it is to be changed in place."""
    try:
        status = path.lstat()
    except OSError:
        return  # nothing is there, or opening it will say what is wrong
    if stat.S_ISLNK(status.st_mode):
        raise ConfigError(
            f"{path}: is a symbolic link{_target(path)}, which is not followed; put the file itself there (`cp -L` "
            "copies it), or delete the link"
        )
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path}: is {describe_kind(status.st_mode)}; expected a regular file, so move it away")
    if alone and status.st_nlink > 1:
        raise ConfigError(
            f"{path}: has {status.st_nlink} names (hard links), and writing would change the file under all of them; "
            "put a copy in its place"
        )


def refuse_link(folder: Path) -> None:
    """Raise ConfigError where a link stands in the place of a folder."""
    if folder.is_symlink():
        raise ConfigError(
            f"{folder}: is a symbolic link{_target(folder)}, which is not followed; put what it leads to in its place, "
            "or delete the link"
        )


def open_regular(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open the regular file `path` and return its descriptor. flags: those of `os.open`, but not O_TRUNC. mode: the
    permissions, before the umask, of a file that this creates. Raises ConfigError for anything that is no regular file
    and, where it is to be written, has a second name; OSError where it cannot be opened."""
    writing = bool(flags & (os.O_WRONLY | os.O_RDWR))
    check_regular(path, alone=writing)
    # Another process may have put something else there since: O_NOFOLLOW refuses a link, and O_NONBLOCK does not wait
    # for the other end of a named pipe.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
    try:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path}: is {describe_kind(mode)}; expected a regular file, so move it away")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_for_reading(path: Path) -> BufferedReader:
    """Open the regular file `path` for reading. Raises ConfigError and OSError as `open_regular` does."""
    return os.fdopen(open_regular(path, os.O_RDONLY), "rb")


def read_bytes(path: Path) -> bytes:
    """What the regular file `path` holds. Raises ConfigError and OSError as `open_regular` does."""
    with open_for_reading(path) as file:
        return file.read()


_STREAM = re.compile(r"/dev/(fd/)?[^/]+|/proc/[^/]+/fd/\d+")
"""The names of open streams and devices."""


def open_own(path: Path) -> BufferedReader:
    """Open a file that no stranger chooses: one that is shipped with tomserve, lies in a content folder, belongs to the
    system or to a model's weights, or that the user has typed. It may be a link, as long as it likes, and a pipe where
    it has the name of an open stream (``/dev/stdin``, ``/dev/fd/63``). Raises ContentError for a pipe or device of any
    other name, such as may lie in a folder in place of a file, and for a hole: reading it may never end. Raises
    OSError."""
    file = open(path, "rb", opener=_unwaiting)  # noqa: SIM115  # the caller closes it
    mode = (status := os.fstat(file.fileno())).st_mode
    try:
        if (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)) and not _STREAM.fullmatch(os.path.abspath(path)):
            reason = f"is {describe_kind(mode)}; expected a file, or the name of an open stream such as /dev/stdin"
            raise ContentError(reason, path=path)
        _check_hole(path, status)
    except ConfigError:
        file.close()
        raise
    os.set_blocking(file.fileno(), True)
    return file


def read_own(path: Path) -> bytes:
    """What such a file holds. Raises OSError."""
    with open_own(path) as file:
        return file.read()


def read_own_text(path: Path, errors: str = "strict") -> str:
    """The text in UTF-8 of such a file. Raises OSError, and UnicodeDecodeError unless `errors` says otherwise."""
    return read_own(path).decode("utf-8", errors)


def scan_parquet(*paths: Path) -> pl.LazyFrame:
    """The table in one or several Parquet files, in whose names no character stands for others. Raises ConfigError for
    a link, a pipe and the like, and what Polars raises for a file that is none, at the latest when it is collected."""
    import polars

    for path in paths:
        _check_for_polars(path)
    return polars.scan_parquet(list(paths), glob=False)


def _check_for_polars(path: Path) -> None:
    """Raise ConfigError where Polars could not open a file, or should not."""
    check_regular(path)
    if any("\udc80" <= sign <= "\udcff" for sign in str(path)):  # how Python spells other bytes
        raise ConfigError(f"{one_line(str(path))}: its path is no UTF-8, which Polars cannot read; rename it")


MOST_COLUMNS = 2000
"""A table with more columns is taken for something else."""


def refuse_columns(where: Path | str, count: int) -> None:
    """Raise ConfigError for a table of too many columns, which would keep its reader busy. where: for the message."""
    if count > MOST_COLUMNS:
        raise ConfigError(f"{where}: has {count:,} columns; expected at most {MOST_COLUMNS:,}")


FREE, MOST_A_BYTE = 50_000_000, 200
"""A Parquet file with more values than FREE, and than so many a byte, is refused: tables of scores have ten to fifty,
and a value that is repeated takes no room in the file, but in memory."""

CALENDAR = -62_135_596_800_000, 253_402_300_799_999
"""Milliseconds since 1970 from the year 1 to 9999, which are all that Python can show."""

ROOM, DENSEST = 1 << 29, 1000
"""So is one whose pages are unpacked to more bytes than ROOM, and than so many times its own, or whose texts have more:
one that is repeated is held once, until it is worked on."""


def scan_foreign_parquet(path: Path, held: bytes | None = None) -> pl.LazyFrame:
    """The table in a Parquet file that may come from anybody, with lists at most in its columns. held: its bytes, where
    they were read already. Raises ConfigError for one that holds more than its size can, and as `scan_parquet` does."""
    import polars

    try:
        found, size = _look_through(path, parquet_pages.add_up, held)
    except ValueError as error:
        raise ConfigError(f"{path}: not a parquet table ({error})") from None
    table = scan_parquet(path) if held is None else polars.scan_parquet(io.BytesIO(held))
    labels, dates = (polars.Categorical, polars.Enum), polars.col(polars.Date, polars.Datetime)
    for name, kind in (columns := table.collect_schema()).items():
        inner = kind.inner if isinstance(kind, polars.List) else kind
        if inner.is_nested() or (inner is not kind and (inner.is_temporal() or isinstance(inner, labels))):
            reason = f"column {name!r:.80} is {kind!s:.80}; expected texts, numbers or true and false"
            raise ConfigError(f"{path}: {reason}")
    refuse_columns(path, len(columns))
    values = max(found.values, table.select(polars.len()).collect().item() * len(columns))
    _refuse_more(path, f"{values:,} values", values > max(FREE, MOST_A_BYTE * size), size)
    _refuse_more(path, f"{found.bytes:,} bytes", found.bytes > max(ROOM, DENSEST * size), size)
    if any(isinstance(kind, polars.Date | polars.Datetime) for kind in columns.values()):
        # the year is that of a date's own zone
        shown = dates.dt.epoch("ms").is_between(*CALENDAR) & dates.dt.year().is_between(1, 9999)
        if not all(table.select(shown.all()).collect(engine="streaming").row(0)):
            raise ConfigError(f"{path}: holds a date before the year 1 or after 9999; expected one of the calendar")
    return table


def _look_through(path: Path, look: Callable[[bytes | mmap], Found], held: bytes | None) -> tuple[Found, int]:
    """What a look through the bytes of a Parquet file finds, before Polars has them, and how many there are."""
    if held is not None:
        return look(held), len(held)
    if not path.stat().st_size:
        return look(b""), 0  # which cannot be mapped
    with open_for_reading(path) as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
        return look(mapped), len(mapped)


def read_foreign_parquet(path: Path, held: bytes | None = None) -> pl.DataFrame:
    """The whole table in such a file. Raises as `scan_foreign_parquet` and `refuse_long_texts` do."""
    table = scan_foreign_parquet(path, held).collect()
    refuse_long_texts(path, table.lazy(), held)
    return table


def refuse_long_texts(path: Path, table: pl.LazyFrame, held: bytes | None = None) -> None:
    """Raise ConfigError where the texts of a table are longer than a file of its size can hold; see DENSEST."""
    import polars as pl

    kinds = ((pl.String,), (pl.List(pl.String),), (pl.Categorical, pl.Enum))
    plain, listed, labels = (pl.col(kind) for kind in kinds)
    sizes = (plain.str.len_bytes(), listed.explode().str.len_bytes(), labels.cat.len_bytes())
    total = pl.sum_horizontal(pl.lit(0), *(one.cast(pl.UInt64).sum() for one in sizes))
    texts = table.select(total).collect(engine="streaming").item()
    size = path.stat().st_size if held is None else len(held)
    _refuse_more(path, f"texts of {texts:,} bytes", texts > max(ROOM, DENSEST * size), size)


def _refuse_more(path: Path, what: str, wrong: bool, size: int) -> None:
    if wrong:
        raise ConfigError(f"{path}: says that it holds {what}, more than {size:,} bytes can; restore it")


def read_parquet_metadata(path: Path) -> dict[str, str]:
    """What was written beside the table in a Parquet file, which may come from anybody. Raises ValueError
    where it is none, and as `scan_parquet` does."""
    import polars

    _check_for_polars(path)
    _look_through(path, parquet_pages.check_end, None)
    return polars.read_parquet_metadata(path)


_BLANK = re.compile(r"\s")


def read_tail(path: Path, most: int) -> str:
    """The end of a text file, such as a log: at most so many bytes of it, from between two words, so that a key that is
    not replaced yet stands there whole or not at all; "" where it cannot be read."""
    try:
        with open_for_reading(path) as file:
            file.seek(begin := max(0, os.fstat(file.fileno()).st_size - most))
            text = file.read(most).decode("utf-8", "replace")
    except (OSError, ConfigError):
        return ""
    return text if not begin else "".join(text.partition(between[0])[1:]) if (between := _BLANK.search(text)) else ""


def open_for_writing(path: Path) -> IO[bytes]:
    """Open the regular file `path` for writing, created where it is missing and emptied where it is not. Raises
    ConfigError and OSError as `open_regular` does."""
    file = os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT), "wb")
    file.truncate(0)
    return file


def create_file(path: Path) -> IO[bytes]:
    """Create a new file under a name that is not taken: `path`, or the same with a number before the suffix
    (``log-2.txt``). Raises OSError where it cannot be created."""
    number, name = 1, path
    while True:
        try:
            return open(name, "xb")  # which follows no link
        except FileExistsError:
            number += 1
            name = path.with_name(f"{path.stem}-{number}{path.suffix}")


@contextlib.contextmanager
def replace_file(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Yield a new file (its path is `name`) that takes the place of `path` in one step when the block ends; what stood
    there, even a link, is replaced and not written to. mode: its permissions, before the umask. Raises ConfigError
    where `path` is a folder, a device or the like, OSError where the file cannot be written."""
    check_replaceable(path)
    with temporary_file(path.parent, mode) as file:
        yield file
        put_in_place(file, path)


def replace_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Put a file that holds just these bytes in the place of `path` in one step, as `replace_file` does."""
    with replace_file(path, mode) as file:
        file.write(data)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file or folder until it is closed, if no other process holds it; returns whether it was
    taken. Raises OSError where the file system has no locks. (The library filelock knows no shared locks, opens the
    file by itself and follows links, and would empty it, where the process that holds it has written its number.)"""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, so that nobody else may enter them, whatever the umask lets
    others do. Raises OSError where that is not possible."""
    for one in (*reversed(folder.parents), folder):
        one.mkdir(mode=0o700, exist_ok=True)


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder; yields False where another process does. A file system without locks for folders, as
    NFS is one, lets several through. Raises OSError where the folder cannot be opened."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        alone = True
        with contextlib.suppress(OSError):
            alone = try_lock(lock)
        yield alone
    finally:
        os.close(lock)


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is missing, as soon as no other process holds it. Raises OSError,
    and ConfigError where a link or the like has its name."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


# Temporary files and folders are locked as long as they are in use. What a process leaves behind that is killed is
# known by its lock, which nobody holds any more, and is removed by whoever makes the next one in the same folder.

_TEMPORARY = re.compile(r"\.tomserve-[0-9a-f]{16}\.(part|work)")
"""The names of temporary files, which lie beside the file whose place they take, and of temporary folders."""

_in_use: set[str] = set()  # the paths of the temporary files and folders of this process


@contextlib.contextmanager
def temporary_file(parent: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A new file (its path is `name`) in a folder. If it still has its name when the block ends, it is removed. mode:
    its permissions, before the umask. Raises OSError where it cannot be created."""
    _sweep(parent)
    path = str(parent / f".tomserve-{secrets.token_hex(8)}.part")
    _in_use.add(path)
    try:
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            if _hold(file.fileno()):
                yield file
                return
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        _in_use.discard(path)
    with temporary_file(parent, mode) as file:
        yield file


@contextlib.contextmanager
def temporary_folder(within: Path | None = None) -> Iterator[Path]:
    """A new folder that nobody else can read, which is removed with all that is in it when the block ends. within:
    where it is made; None for the system's folder for temporary files. Raises OSError where it cannot be made."""
    parent = Path(tempfile.gettempdir()) if within is None else within
    _sweep(parent)
    path = str(parent / f".tomserve-{secrets.token_hex(8)}.work")
    _in_use.add(path)
    lock = -1
    try:
        os.mkdir(path, 0o700)
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if lock >= 0 and _hold(lock):
            yield Path(path)
            return
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _in_use.discard(path)
        if lock >= 0:
            os.close(lock)
    with temporary_folder(within) as folder:
        yield folder


def _hold(descriptor: int) -> bool:
    """Lock what was just made, which the sweep of another process may hold for a moment; returns whether it is still
    there, as that sweep may have come before the lock."""
    with contextlib.suppress(OSError):  # some file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


def _sweep(parent: Path) -> None:
    """Remove this user's temporary files and folders there whose lock nobody holds; no link and no pipe."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if not (found := _TEMPORARY.fullmatch(entry.name)) or entry.path in _in_use:
                continue
            with contextlib.suppress(OSError):
                about, is_file = entry.stat(follow_symlinks=False), found[1] == "part"
                of_kind = entry.is_file(follow_symlinks=False) if is_file else entry.is_dir(follow_symlinks=False)
                if not of_kind or about.st_uid != os.geteuid():
                    continue
                lock = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if try_lock(lock):
                        os.unlink(entry.path) if is_file else shutil.rmtree(entry.path, ignore_errors=True)
                finally:
                    os.close(lock)


def abandon_temporaries() -> None:
    """Remove the temporary files and folders of this process at once, as it is about to be ended in mid-work."""
    for path in list(_in_use):
        with contextlib.suppress(OSError):
            if path.endswith(".work"):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)


def put_in_place(file: IO[bytes], path: Path) -> None:
    """Give a temporary file that was written the name `path`, once its content is on the disk. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())
    os.replace(file.name, path)
    sync_folder(path.parent)


def check_replaceable(path: Path) -> None:
    """Raise ConfigError where `path` is something that must not be replaced by a file."""
    try:
        status = path.stat()
    except OSError:
        return  # nothing is there, or a link that leads nowhere; both can be replaced
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path}: is {describe_kind(status.st_mode)}; expected a file or a new name")
    # such as /dev/stdout where the output goes to a file
    if path.is_symlink() and os.readlink(path).startswith(("/proc/", "/dev/")):
        raise ConfigError(f"{path}: stands for an open stream; expected a file or a new name")


def sync_folder(folder: Path) -> None:
    """Make sure that a new name in this folder survives a power failure, where the file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _target(path: Path) -> str:
    """The words that say where the link leads; none where the link has just been removed."""
    try:
        return f" to {one_line(os.readlink(path))}"
    except OSError:
        return ""


def describe_kind(mode: int) -> str:
    """What a file of this mode is, in words for a message."""
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


LONGEST_LINE = 1 << 26
"""The most bytes of a line, and of a file of JSON. A reply of a hundred thousand tokens has half a megabyte."""

HOLE = 1 << 30
"""A file of fewer bytes is read even where it is a hole. A file system that compresses keeps text in a tenth."""


def read_lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """The lines of an open file, with their ends. path: for messages. Raises ConfigError by file and line for one that
    is longer than LONGEST_LINE."""
    for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), 1):
        if len(line) > LONGEST_LINE:
            raise line_too_long(path, number)
        yield line


def line_too_long(path: Path, number: int) -> ConfigError:
    """The error for a line that is longer than LONGEST_LINE."""
    return ConfigError(
        f"{path}:{number}: this line has more than {LONGEST_LINE >> 20} MB; expected one JSON object on each line, so "
        "restore the file"
    )


def refuse_hole(path: Path) -> None:
    """Raise ConfigError for a long file of which almost nothing was ever written, so that reading it takes for ever."""
    with contextlib.suppress(OSError):
        _check_hole(path, path.lstat())


def _check_hole(path: Path, status: os.stat_result) -> None:
    if status.st_size > HOLE and status.st_blocks * 512 * 100 < status.st_size:
        raise ConfigError(
            f"{path}: is {status.st_size >> 20:,} MB long, of which {status.st_blocks * 512 >> 10:,} kB were ever "
            "written; restore the file"
        )


@contextlib.contextmanager
def refuse_os_errors(path: Path, what: str = "cannot be read", way_out: str = "") -> Iterator[None]:
    """Within the block an OSError becomes a ContentError of one line: the path, what cannot be done with it, why not,
    and the way out."""
    try:
        yield
    except OSError as error:
        raise ContentError(f"{what} ({error.strerror}){way_out and f'; {way_out}'}", path=path) from None


MOST_VALUES = 1 << 22
"""The most values of one text of JSON, of which three bytes may take a hundred in memory. A reply with the likelihoods
of all its tokens has some hundred thousand."""

_ROOM = 54  # levels that are left for what a value is written within
_SHALLOW = 200  # brackets that a text may have without its depth being looked at


def load_json(text: bytes | str, loads: Callable[[Any], Any] = orjson.loads) -> Any:
    """What a text of JSON holds, which may come from anybody. loads: reads it. Raises orjson.JSONDecodeError where it
    is none, has more values than MOST_VALUES, or is nested more deeply than it could be written again."""
    if len(text) <= _SHALLOW:
        return loads(text)
    signs: Any = ",[{" if isinstance(text, str) else (b",", b"[", b"{")
    if len(text) > MOST_VALUES and text.count(signs[0]) > MOST_VALUES:
        raise orjson.JSONDecodeError(f"more than {MOST_VALUES:,} values", "", 0)
    found = loads(text)
    if text.count(signs[1]) + text.count(signs[2]) > _SHALLOW and is_deep(found):
        raise orjson.JSONDecodeError("nested too deeply", "", 0)
    return found


def read_json(path: Path, way_out: str) -> Any:
    """What a small file of JSON holds. Raises ConfigError by file and line (with `way_out`) where it is none, too long,
    nested more deeply than can be written again, or a link, a pipe or the like; FileNotFoundError and OSError."""
    with open_for_reading(path) as file:
        text = file.read(LONGEST_LINE + 1)
    if len(text) > LONGEST_LINE:
        raise ConfigError(f"{path}: has more than {LONGEST_LINE >> 20} MB; expected a small file of JSON; {way_out}")
    try:
        return load_json(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not JSON ({error.msg}); {way_out}") from None


def is_deep(value: Any) -> bool:
    """Whether a value that was read as JSON lies so deep in itself that, a few levels deeper, it could not be written
    again (orjson writes 254)."""
    for _ in range(_ROOM):
        value = [value]
    try:
        orjson.dumps(value)
    except TypeError:
        return True
    return False


CHUNK = 1 << 20  # bytes that are read at once from the beginning to the end of a file
_LINE = 2048  # bytes that are read at first of a line that is looked up: more than most lines have


class FileSnapshot:
    """A file as it was when it was opened, as a run may be scored while it is asked; what is appended later is not
    seen. size: how many of its bytes to read, None for all that it has now. `digest` (as ``sha256sum`` prints it, after
    ``sha256:``) and `count`, the number of lines, are known once `lines` was read to its end. Raises OSError where it
    cannot be read."""

    def __init__(self, path: Path, size: int | None = None) -> None:
        self.path, self.digest, self.count = path, "", 0
        self._file = open(path, "rb", buffering=0, opener=_unwaiting)  # noqa: SIM115  # open as long as this
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode):
            self._file.close()
            raise ConfigError(f"{path}: is no regular file; expected a file of lines, which is read more than once")
        self.size = status.st_size if size is None else min(size, status.st_size)

    @property
    def descriptor(self) -> int:
        """The number under which the operating system knows the open file."""
        return self._file.fileno()

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs that has inherited the open file under the same number."""
        return {**vars(self), "_file": self.descriptor}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._file = os.fdopen(state["_file"], "rb", buffering=0)

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """The number (from 1), the offset in bytes and the bytes of every line, with the newline if there is one."""
        offset, number, found = 0, 0, hashlib.sha256()
        begun: list[bytes] = []  # the pieces of a line whose end is not read yet
        for chunk in self.chunks():
            found.update(chunk)
            first, *more = chunk.split(b"\n")
            begun.append(first)
            if not more:
                if len(begun) > LONGEST_LINE // CHUNK:
                    raise line_too_long(self.path, number + 1)
                continue
            last = more.pop()
            for text in (b"".join(begun), *more):
                number += 1
                line = text + b"\n"
                yield number, offset, line
                offset += len(line)
            begun = [last]
        if line := b"".join(begun):
            number += 1
            yield number, offset, line
        self.count, self.size, self.digest = number, offset + len(line), _name(found.hexdigest())

    def chunks(self) -> Iterator[bytes]:
        offset = 0
        while chunk := os.pread(self.descriptor, min(CHUNK, self.size - offset), offset):
            yield chunk
            offset += len(chunk)

    def line(self, offset: int) -> bytes:
        """The line that begins at that offset in bytes."""
        line, step = b"", _LINE
        while piece := os.pread(self.descriptor, min(step, self.size - offset), offset):
            end = piece.find(b"\n")
            if end >= 0:
                return line + piece[: end + 1]
            line, step, offset = line + piece, 2 * step, offset + len(piece)
        return line

    def is_unchanged(self) -> bool:
        """Whether the file still holds the bytes that `lines` gave; they are read once more."""
        size, found = 0, hashlib.sha256()
        for chunk in self.chunks():
            found.update(chunk)
            size += len(chunk)
        return size == self.size and _name(found.hexdigest()) == self.digest


def whole_length(path: Path) -> int:
    """How many bytes of a file are whole lines. Raises OSError."""
    with open_for_reading(path) as file:
        end = file.seek(0, 2)
        while end > 0:
            step = min(CHUNK, end)
            file.seek(end - step)
            if (at := file.read(step).rfind(b"\n")) >= 0:
                return end - step + at + 1
            end -= step
    return 0


def digest_file(path: Path) -> tuple[int, str]:
    """Length in bytes and digest of a whole file, as a FileSnapshot names it. Raises as `open_own` does."""
    with open_own(path) as file:
        found = hashlib.file_digest(file, "sha256")
        return file.tell(), _name(found.hexdigest())


def begins_with(path: Path, size: int, digest: str | None) -> bool:
    """Whether the first `size` bytes of a file are all there and have that digest. Raises as FileSnapshot does."""
    begun = FileSnapshot(path, size)
    if begun.size < size:
        return False
    deque(begun.lines(), maxlen=0)
    return begun.digest == digest


def digest_bytes(data: bytes) -> str:
    """The digest of bytes, as a FileSnapshot names it."""
    return _name(hashlib.sha256(data).hexdigest())


def _unwaiting(path: str, flags: int) -> int:
    """An opener for `open` that does not wait for somebody to write into a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def changed_error(path: Path) -> ConfigError:
    """The error to raise for a file that was changed while it was read."""
    return ConfigError(f"{path}: was changed while it was read; repeat the command")


def _name(digits: str) -> str:
    return f"sha256:{digits}"
