"""Copies finished shards to and from a store that fsspec reaches, such as ``s3://bucket/mine.parts``.

Each file is read back and compared; ``copied.json``, which names all files with their lengths and digests, comes last:
a folder without it is not looked at. Who may read and write there is said by fsspec's own configuration or by the
environment, never by the address, which ends up in records and on screens.

>>> is_store_url("s3://bucket/mine.parts"), is_store_url("pilot/mine")
(True, False)
"""

from __future__ import annotations

import errno
import ftplib
import hashlib
import io
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, Literal, TypeVar, cast

import fsspec
import orjson
import pydantic
import tenacity
from fsspec.implementations.local import LocalFileSystem

from tomserve.content import files
from tomserve.content.files import digest_file, one_line
from tomserve.content.validation import RUN_PART, Strict
from tomserve.distributed.shards import FILE as SHARDS
from tomserve.distributed.shards import MOST
from tomserve.errors import ConfigError, ConflictError, MachineError, ServerError, TomserveError
from tomserve.runs import journal
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Listener
from tomserve.runs.runfolder import RunFolder

ATTEMPTS, LONGEST_WAIT = 6, 30.0
"""How often something is tried where the connection breaks, and how many seconds are waited at most in between."""

Result = TypeVar("Result")


def is_store_url(text: str) -> bool:
    """Whether a text on the command line names a place in a store, rather than a run or a path of this machine."""
    return "://" in text


def check_address(url: str) -> None:
    """Raise ConfigError where an address holds a name, a password or a token, of which the message shows nothing, and
    for one of the web, since fsspec believes what a server there says of the length of a file."""
    scheme = url.split("://", 1)[0]
    shown = scheme if re.fullmatch(r"[a-z0-9+]{1,20}", scheme) else "..."
    if re.search(r"//[^/]*@", url) or "?" in url or "#" in url:
        raise ConfigError(
            f"{shown}://...: holds a name, a password or a token; expected an address without any, as it is written "
            "down; give them by fsspec's configuration, such as FSSPEC_FTP_USERNAME and FSSPEC_FTP_PASSWORD"
        )
    if "::" in url or not re.fullmatch(r"[a-z0-9+]{1,20}://[^\s\x00-\x1f]*", url):
        raise ConfigError(f"{one_line(url)[:100]}: no address of a store; expected such as s3://bucket/mine.parts")
    if scheme in ("http", "https"):
        raise ConfigError(f"{one_line(url)[:100]}: no store is reached by {scheme}; download the parts, and merge them")
    if scheme == "memory":
        raise ConfigError(f"{one_line(url)[:100]}: ends with the command; name a store that keeps what is copied there")


def open_store(url: str) -> tuple[Any, str]:
    """What reaches the place that an address names, and its path there. Raises ConfigError for an address that cannot
    be used, as that of a link on a disk, and MachineError where a package is missing that reaches it."""
    check_address(url)
    try:
        system, path = fsspec.core.url_to_fs(url, skip_instance_cache=True)
    except ImportError as error:
        raise MachineError(
            f"{url}: needs a package that is not installed ({one_line(str(error))[:120]}); install it into an "
            "environment of its own, or copy the parts by the store's own program (such as `aws s3 sync`) and merge "
            "the copies"
        ) from None
    except (AttributeError, TypeError, ValueError) as error:  # of what needs more than an address to be found
        said = one_line(str(error))[:120] if "Protocol not known" in str(error) else "an address alone does not tell it"
        raise ConfigError(f"{url}: cannot be used ({said}); expected such as s3://bucket/mine.parts") from None
    except (OSError, EOFError, ftplib.Error) as error:
        raise _unreachable_error(url, error) from None
    if isinstance(system, LocalFileSystem):
        files.refuse_link(Path(path))
    return system, path


def _unreachable_error(url: str, error: BaseException) -> ServerError:
    reason = one_line(" ".join(str(error).split()))[:160] or type(error).__name__
    return ServerError(f"{url}: cannot be reached ({reason}); look at the store, and repeat the command")


def _passes(error: BaseException) -> bool:
    """Whether an error may be gone at the next try."""
    lasting = ftplib.error_perm, FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    passing = isinstance(error, OSError | EOFError | ftplib.Error | ServerError) and not isinstance(error, lasting)
    return passing and not full


FILE = "copied.json"  # the file that says that all of a part was copied, and what
PIECE = 1 << 20  # so many bytes are copied at a time

COPIED = (
    *("manifest.json", "items.jsonl", journal.JOURNAL, journal.PACKED, "noise.jsonl"),
    *("reader.jsonl", "reader.json", "scores.parquet"),
)
"""The files of a part that are copied, where it has them."""


class CopiedFile(Strict, strict=True):
    """A file of a part in a store: its length, and its digest as ``sha256sum`` prints it."""

    bytes: Annotated[int, pydantic.Field(ge=0, lt=2**63)]
    digest: Annotated[str, pydantic.Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class CopiedPart(Strict, strict=True):
    """What ``copied.json`` holds: the files of a part by their names."""

    schema_: Annotated[Literal[1], pydantic.Field(alias="schema")] = 1
    files: dict[Literal[COPIED], CopiedFile]  # type: ignore[valid-type]  # the names of a constant


@dataclass(frozen=True)
class _Folder:
    """A folder in a store. Each method tries again, with a new connection, where the connection breaks.

    They raise ServerError where it breaks every time, or something else is there than was sent.
    """

    url: str
    listener: Listener

    def below(self, name: str) -> _Folder:
        return replace(self, url=f"{self.url}/{name}")

    def retry(self, work: Callable[[Any, str], Result]) -> Result:
        """Do something with what reaches the folder and its path there; also raises FileNotFoundError."""

        def tell(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            self.listener.message(f"{self.url}: {one_line(str(error))[:120]}; trying again")

        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=LONGEST_WAIT),
            retry=tenacity.retry_if_exception(_passes),
            before_sleep=tell,
            reraise=True,
        )
        try:
            return attempts(lambda: work(*open_store(self.url)))
        except (FileNotFoundError, TomserveError):
            raise
        except (OSError, EOFError, ftplib.Error) as error:
            raise _unreachable_error(self.url, error) from None
        except Exception as error:  # libraries of stores have errors of their own, as where nobody is signed in
            said = one_line(" ".join(str(error).split()))[:120]
            raise ConfigError(f"{self.url}: cannot be used ({type(error).__name__}: {said})") from None

    def prepare(self) -> None:
        """Make the folder, without the file that says that all of it was copied."""

        def make(system: Any, path: str) -> None:
            system.makedirs(path, exist_ok=True)
            if system.exists(done := f"{path}/{FILE}"):
                system.rm_file(done)

        self.retry(make)

    def read(self, name: str) -> bytes | None:
        """A small file; None where it is not there."""

        def read(system: Any, path: str) -> bytes:
            with _open_file(system, f"{path}/{name}") as file:
                return file.read(files.LONGEST_LINE + 1)

        try:
            return self.retry(read)
        except FileNotFoundError:
            return None
        except ServerError as error:
            if "550" in str(error):  # what FTP says of a file that is not there
                return None
            raise

    def write(self, name: str, opened: Callable[[], IO[bytes]], held: CopiedFile) -> None:
        """Write a file, and read it back. opened: opens what is written. held: its length and digest."""

        def write(system: Any, path: str) -> None:
            with opened() as source, _open_file(system, f"{path}/{name}", writing=True) as target:
                shutil.copyfileobj(source, target, PIECE)
            with _open_file(system, f"{path}/{name}") as file:
                found = _copy_pieces(file, held.bytes, lambda piece: None)
            if found != held:
                raise ServerError(f"{self.url}/{name}: holds {found.bytes:,} bytes that are not those that were sent")

        self.retry(write)

    def fetch(self, name: str, into: Path, held: CopiedFile) -> None:
        """Copy a file from the folder, which has to be what its record says. Raises MachineError where that says more
        than there is room for."""
        if held.bytes > (free := shutil.disk_usage(into.parent).free):
            raise MachineError(f"{self.url}/{name}: has {held.bytes:,} bytes by {FILE}, and {free:,} are free here")

        def fetch(system: Any, path: str) -> None:
            with _open_file(system, f"{path}/{name}") as source, files.open_for_writing(into) as target:
                found = _copy_pieces(source, held.bytes, target.write)
            if found != held:
                raise ServerError(f"{self.url}/{name}: is not what {FILE} says; copy the part there again")

        self.retry(fetch)


def _open_file(system: Any, path: str, *, writing: bool = False) -> IO[bytes]:
    """A file of a store. On a disk, where others may write to the store, no link is followed to or from another file.
    Raises ConfigError for a link or a pipe, and OSError."""
    if isinstance(system, LocalFileSystem):
        return files.open_for_writing(Path(path)) if writing else files.open_for_reading(Path(path))
    return cast(IO[bytes], system.open(path, "wb" if writing else "rb"))


def _copy_pieces(file: IO[bytes], most: int, take: Callable[[bytes], object]) -> CopiedFile:
    """Length and digest of a file, of which at most a piece more than `most` bytes is read. take: gets every piece."""
    found, size = hashlib.sha256(), 0
    while size <= most and (piece := file.read(PIECE)):
        take(piece)
        found.update(piece)
        size += len(piece)
    return CopiedFile(bytes=size, digest=f"sha256:{found.hexdigest()}")


def _open_folder(url: str, listener: Listener | None) -> _Folder:
    check_address(url)
    return _Folder(url.rstrip("/"), listener or Listener())


def upload_part(folder: Path, url: str, listener: Listener | None = None) -> str:
    """Copy a finished part to a store, where it becomes a folder of the same name. Returns the address of that folder.

    folder: of the part, which is locked meanwhile. url: of the place where the parts lie; the record of the evaluation
    (shards.json) is copied there, too. Copying it again is safe. Raises ConflictError for a part that is not complete,
    ConfigError for an address that cannot be used, ServerError where the store cannot be reached or holds something
    else than what was sent.
    """
    root, whole = _open_folder(url, listener), folder.resolve()
    with RunFolder(folder):
        manifest = Manifest.read(folder)
        if manifest is None or not manifest.complete:
            raise ConflictError(f"{folder}: is not complete; only finished parts are copied to a store")
        held = {name: _describe_file(folder / name) for name in COPIED if (folder / name).exists()}
        record = orjson.dumps({"schema": 1, "files": {name: one.model_dump() for name, one in held.items()}})
        target = root.below(whole.name)
        if target.read(FILE) == record:
            return target.url
        target.prepare()
        if (shards := whole.parent / SHARDS).exists():
            root.write(SHARDS, partial(files.open_for_reading, shards), _describe_file(shards))
        for name, one in held.items():
            root.listener.message(f"copying {name} ({one.bytes:,} bytes) to {target.url}")
            target.write(name, partial(files.open_for_reading, folder / name), one)
        last = CopiedFile(bytes=len(record), digest=files.digest_bytes(record))
        target.write(FILE, partial(io.BytesIO, record), last)
    return target.url


def _describe_file(path: Path) -> CopiedFile:
    files.check_regular(path)
    size, digest = digest_file(path)
    return CopiedFile(bytes=size, digest=digest)


def list_parts(url: str, listener: Listener | None = None) -> list[str]:
    """The addresses of all parts that were copied to a place whole, sorted. url: of a part, of the folder of parts, or
    the latter followed by ``/*``. Raises as `upload_part` does, and ConfigError where no part is there."""
    root = _open_folder(url.rstrip("/").removesuffix("/*"), listener)
    if root.read(FILE) is not None:
        return [root.url]

    def list_names(system: Any, path: str) -> list[str]:
        names = sorted(one.rstrip("/").rpartition("/")[2] for one in system.ls(path, detail=False))
        return [name for name in names if RUN_PART.fullmatch(name) and system.exists(f"{path}/{name}/{FILE}")]

    try:
        names = root.retry(list_names)
    except FileNotFoundError:
        names = []
    if not names:
        raise ConfigError(f"{root.url}: holds no part that was copied whole ({FILE} is missing)")
    if len(names) > MOST:
        raise ConfigError(f"{root.url}: holds more than {MOST:,} parts; name them one by one")
    return [f"{root.url}/{name}" for name in names]


def download_part(url: str, into: Path, listener: Listener | None = None) -> Path:
    """Copy a part from a store, and return its folder.

    url: of the part. into: the folder in which a folder of the same name is made. Raises ConfigError where the part is
    not whole, or its record broken, and ServerError where the store cannot be reached or what comes is not what the
    record says.
    """
    part = _open_folder(url, listener)
    name, text = part.url.rpartition("/")[2], part.read(FILE)
    if text is None or not RUN_PART.fullmatch(name):
        raise ConfigError(f"{url}: is no part that was copied whole ({FILE} is missing)")
    try:
        record = CopiedPart.model_validate(files.load_json(text))
    except (orjson.JSONDecodeError, pydantic.ValidationError) as error:
        reason = one_line(" ".join(str(error).split()))[:160]
        raise ConfigError(f"{url}/{FILE}: is not what tomserve writes ({reason}); copy the part again") from None
    folder = into / name
    folder.mkdir()
    for file, held in record.files.items():
        part.listener.message(f"copying {file} ({held.bytes:,} bytes) from {url}")
        part.fetch(file, folder / file, held)
    return folder


def download_parts(urls: Sequence[str], within: Path, listener: Listener | None = None) -> list[Path]:
    """Copy all parts at these addresses, and return the folders of what was copied.

    within: the folder in which they are made. Where the record of the evaluation lies beside the parts, the folder of
    all of them is returned, so that parts that are missing are known. Raises as `list_parts` and `download_part` do.
    """
    folders = []
    for number, url in enumerate(urls):
        found = list_parts(url, listener)
        root = url.rstrip("/").removesuffix("/*")
        alone = found == [root]
        called = (root.rpartition("/")[0] if alone else root).rpartition("/")[2]
        place = within / f"{number}" / (called if RUN_PART.fullmatch(called) else "parts")
        place.mkdir(parents=True)
        parts = [download_part(part, place, listener) for part in found]
        record = None if alone else _open_folder(root, listener).read(SHARDS)
        if record is not None:
            (place / SHARDS).write_bytes(record)
        folders += [place] if record is not None else parts
    return folders
