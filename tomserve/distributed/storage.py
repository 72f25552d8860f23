"""Copies finished shards to and from a store that fsspec reaches, such as ``s3://bucket/mine.parts``.

Each file is read back and compared; ``copied.json``, which names all files with their lengths and digests, comes last:
a folder without it is not looked at. Who may read and write there is said by fsspec's own configuration or by the
environment, never by the address, which ends up in records and on screens.

>>> is_store_url("s3://bucket/mine.parts"), is_store_url("pilot/mine")
(True, False)
"""

from __future__ import annotations

import ftplib
import hashlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple, TypeVar

import fsspec
import orjson
import pydantic
import tenacity

from tomserve.content import files
from tomserve.content.files import digest_file, one_line
from tomserve.distributed.shards import FILE as SHARDS
from tomserve.distributed.shards import MOST
from tomserve.errors import ConfigError, ConflictError, MachineError, ServerError
from tomserve.runs import journal
from tomserve.runs.manifest import Manifest
from tomserve.runs.progress import Listener, SilentListener, Stop
from tomserve.runs.runfolder import RunFolder

ATTEMPTS, LONGEST_WAIT = 6, 30.0
"""How often something is tried where the connection breaks, and how many seconds are waited at most in between."""

Result = TypeVar("Result")


class StorePlace(NamedTuple):
    """A place in a store. url: as it was given, without what is secret. system: what reaches it. path: of it there."""

    url: str
    system: Any
    path: str

    def below(self, name: str) -> StorePlace:
        """The place of that name in this one."""
        return StorePlace(f"{self.url.rstrip('/')}/{name}", self.system, f"{self.path.rstrip('/')}/{name}")


def is_store_url(text: str) -> bool:
    """Whether a text on the command line names a place in a store, rather than a run or a path of this machine."""
    return "://" in text


def check_address(url: str) -> None:
    """Raise ConfigError where an address holds a name, a password or a token; the message shows none of it."""
    scheme = url.split("://", 1)[0]
    shown = scheme if re.fullmatch(r"[a-z0-9+]{1,20}", scheme) else "..."
    if re.search(r"//[^/]*@", url) or "?" in url or "#" in url:
        raise ConfigError(
            f"{shown}://...: holds a name, a password or a token; expected an address without any, as it is written "
            "down; give them by fsspec's configuration, such as FSSPEC_FTP_USERNAME and FSSPEC_FTP_PASSWORD"
        )
    if "::" in url or not re.fullmatch(r"[a-z0-9+]{1,20}://[^\s\x00-\x1f]*", url):
        raise ConfigError(f"{one_line(url)[:100]}: no address of a store; expected such as s3://bucket/mine.parts")


def open_store(url: str) -> StorePlace:
    """The place that an address names. Raises ConfigError for an address that cannot be used, and MachineError where a
    package is missing that reaches it."""
    check_address(url)
    try:
        system, path = fsspec.core.url_to_fs(url, skip_instance_cache=True)
    except ImportError as error:
        raise MachineError(
            f"{url}: needs a package that is not installed ({one_line(str(error))[:120]}); install it into an "
            "environment of its own, or copy the parts by the store's own program (such as `aws s3 sync`) and merge "
            "the copies"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{url}: cannot be used ({one_line(str(error))[:120]})") from None
    except (OSError, EOFError, ftplib.Error) as error:
        raise _unreachable_error(url, error) from None
    return StorePlace(url.rstrip("/"), system, path)


def _unreachable_error(url: str, error: BaseException) -> ServerError:
    reason = one_line(" ".join(str(error).split()))[:160] or type(error).__name__
    return ServerError(f"{url}: cannot be reached ({reason}); look at the store, and repeat the command")


def _lasting(error: BaseException) -> bool:
    """Whether an error stays however often something is tried."""
    if isinstance(error, ftplib.error_perm):
        return True
    return isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | IsADirectoryError)


def retry_in_store(url: str, work: Callable[[StorePlace], Result], listener: Listener, stop: Stop) -> Result:
    """Do something in a place, again and again with a new connection where it breaks. Raises ServerError where it
    breaks every time, and FileNotFoundError where nothing is there."""

    def tell(state: tenacity.RetryCallState) -> None:
        stop.check()
        error = state.outcome.exception() if state.outcome else None
        listener.message(f"{url}: {one_line(str(error))[:120]}; trying again")

    attempts = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=LONGEST_WAIT),
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, OSError | EOFError | ftplib.Error | ServerError) and not _lasting(error)
        ),
        before_sleep=tell,
        reraise=True,
    )
    try:
        return attempts(lambda: work(open_store(url)))
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ftplib.Error) as error:
        raise _unreachable_error(url, error) from None


FILE = "copied.json"  # the file that says that all of a part was copied, and what

COPIED = (
    *("manifest.json", "items.jsonl", journal.JOURNAL, journal.PACKED, "noise.jsonl"),
    *("reader.jsonl", "reader.json", "scores.parquet"),
)
"""The files of a part that are copied, where it has them."""

PIECE = 1 << 20  # so many bytes are copied at a time

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


class _Copied(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)


class CopiedFile(_Copied):
    """A file of a part in a store: its length, and its digest as ``sha256sum`` prints it."""

    bytes: Annotated[int, pydantic.Field(ge=0, lt=2**63)]
    digest: Annotated[str, pydantic.Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class CopiedPart(_Copied):
    """What ``copied.json`` holds: the files of a part by their names."""

    schema_: Annotated[Literal[1], pydantic.Field(alias="schema")] = 1
    files: dict[Literal[COPIED], CopiedFile]  # type: ignore[valid-type]  # the names of a constant


def upload_part(folder: Path, url: str, listener: Listener | None = None, stop: Stop | None = None) -> str:
    """Copy a finished part to a store, where it becomes a folder of the same name. Returns the address of that folder.

    folder: of the part, which is locked meanwhile. url: of the place where the parts lie; the record of the evaluation
    (shards.json) is copied there, too. listener: told what is copied [nobody]. stop: ends it early.

    Copying it again is safe. Raises ConflictError for a part that is not complete, ConfigError for an address that
    cannot be used, ServerError where the store cannot be reached or holds something else than what was sent.
    """
    listener, stop = listener or SilentListener(), stop or Stop()
    check_address(url)
    whole = folder.resolve()
    with RunFolder(folder):
        manifest = Manifest.read(folder)
        if manifest is None or not manifest.complete:
            raise ConflictError(f"{folder}: is not complete; only finished parts are copied to a store")
        there = {name: folder / name for name in COPIED if (folder / name).exists()}
        held = {name: _describe_file(path) for name, path in there.items()}
        record = orjson.dumps({"schema": 1, "files": {name: one.model_dump() for name, one in held.items()}})
        target = f"{url.rstrip('/')}/{whole.name}"
        if _read(target, listener, stop) == record:
            return target
        retry_in_store(target, _prepare_folder, listener, stop)
        if (shards := whole.parent / SHARDS).exists():
            _send(url, SHARDS, shards.read_bytes(), listener, stop)
        for name, path in there.items():
            listener.message(f"copying {name} ({held[name].bytes:,} bytes) to {target}")
            retry_in_store(target, partial(_upload_file, path, held[name], stop), listener, stop)
        _send(target, FILE, record, listener, stop)
    return target


def _describe_file(path: Path) -> CopiedFile:
    files.check_regular(path)
    size, digest = digest_file(path)
    return CopiedFile(bytes=size, digest=digest)


def _prepare_folder(place: StorePlace) -> None:
    """Make a folder for a part, without the file that says that all of it was copied."""
    place.system.makedirs(place.path, exist_ok=True)
    done = place.below(FILE).path
    if place.system.exists(done):
        place.system.rm_file(done)


def _upload_file(path: Path, held: CopiedFile, stop: Stop, part: StorePlace) -> None:
    """Copy a file to a part's place, and read it back. Raises ServerError where something else is there then."""
    place = part.below(path.name)
    with files.open_for_reading(path) as source, place.system.open(place.path, "wb") as target:
        while piece := source.read(PIECE):
            stop.check()
            target.write(piece)
    with place.system.open(place.path, "rb") as file:
        found = _read_pieces(file, held.bytes, lambda piece: None)
    if found != held:
        raise ServerError(f"{place.url}: holds {found.bytes:,} bytes that are not those that were sent")


def _read_pieces(file: IO[bytes], most: int, take: Callable[[bytes], object]) -> CopiedFile:
    """Length and digest of a file in a store, of which at most a piece more than `most` bytes is read. take: called
    with every piece."""
    found, size = hashlib.sha256(), 0
    while size <= most and (piece := file.read(PIECE)):
        take(piece)
        found.update(piece)
        size += len(piece)
    return CopiedFile(bytes=size, digest=f"sha256:{found.hexdigest()}")


def _send(url: str, name: str, content: bytes, listener: Listener, stop: Stop) -> None:
    """Write a small file to a store, and read it back."""

    def send(place: StorePlace) -> None:
        at = place.below(name)
        with at.system.open(at.path, "wb") as file:
            file.write(content)
        with at.system.open(at.path, "rb") as file:
            if file.read(len(content) + 1) != content:
                raise ServerError(f"{at.url}: is not what was sent")

    retry_in_store(url, send, listener, stop)


def _read(url: str, listener: Listener, stop: Stop, name: str = FILE) -> bytes | None:
    """A small file in a store; None where it is not there."""

    def read(place: StorePlace) -> bytes:
        at = place.below(name)
        with at.system.open(at.path, "rb") as file:
            content: bytes = file.read(files.LONGEST_LINE + 1)
        return content

    try:
        return retry_in_store(url, read, listener, stop)
    except FileNotFoundError:
        return None
    except ServerError as error:
        if "550" in str(error):  # what FTP says of a file that is not there
            return None
        raise


def list_parts(url: str, listener: Listener | None = None, stop: Stop | None = None) -> list[str]:
    """The addresses of all parts that were copied to a place whole, sorted.

    url: of a part, of the folder of parts, or the latter followed by ``/*``. Raises as `upload_part` does, and
    ConfigError where no part is there.
    """
    listener, stop = listener or SilentListener(), stop or Stop()
    check_address(url)
    root = url.rstrip("/").removesuffix("/*")
    if _read(root, listener, stop) is not None:
        return [root]

    def list_names(place: StorePlace) -> list[str]:
        names = sorted(one.rstrip("/").rpartition("/")[2] for one in place.system.ls(place.path, detail=False))
        found = [name for name in names if _NAME.fullmatch(name)]
        return [name for name in found if place.system.exists(place.below(name).below(FILE).path)]

    try:
        names = retry_in_store(root, list_names, listener, stop)
    except FileNotFoundError:
        names = []
    if not names:
        raise ConfigError(f"{root}: holds no part that was copied whole ({FILE} is missing)")
    if len(names) > MOST:
        raise ConfigError(f"{root}: holds more than {MOST:,} parts; name them one by one")
    return [f"{root}/{name}" for name in names]


def download_part(url: str, into: Path, listener: Listener | None = None, stop: Stop | None = None) -> Path:
    """Copy a part from a store, and return its folder.

    url: of the part. into: the folder in which a folder of the same name is made. Raises ConfigError where the part is
    not whole, or its record broken, and ServerError where the store cannot be reached or what comes is not what the
    record says.
    """
    listener, stop = listener or SilentListener(), stop or Stop()
    name = url.rstrip("/").rpartition("/")[2]
    text = _read(url, listener, stop)
    if text is None or not _NAME.fullmatch(name):
        raise ConfigError(f"{url}: is no part that was copied whole ({FILE} is missing)")
    try:
        record = CopiedPart.model_validate(orjson.loads(text))
    except (orjson.JSONDecodeError, pydantic.ValidationError) as error:
        reason = one_line(" ".join(str(error).split()))[:160]
        raise ConfigError(f"{url}/{FILE}: is not what tomserve writes ({reason}); copy the part again") from None
    folder = into / name
    folder.mkdir()
    for file, held in record.files.items():
        listener.message(f"copying {file} ({held.bytes:,} bytes) from {url}")
        retry_in_store(url, partial(_download_file, folder / file, held, stop), listener, stop)
    return folder


def _download_file(path: Path, held: CopiedFile, stop: Stop, part: StorePlace) -> None:
    """Copy a file from a part's place. Raises ServerError where it is not what the record says."""
    place = part.below(path.name)
    with place.system.open(place.path, "rb") as source, open(path, "wb") as target:

        def keep(piece: bytes) -> None:
            stop.check()
            target.write(piece)

        found = _read_pieces(source, held.bytes, keep)
    if found != held:
        raise ServerError(f"{place.url}: is not what {FILE} says; copy the part there again")


def download_parts(
    urls: Sequence[str], within: Path, listener: Listener | None = None, stop: Stop | None = None
) -> list[Path]:
    """Copy all parts at these addresses, and return the folders of what was copied.

    within: the folder in which they are made. Where the record of the evaluation lies beside the parts, the folder of
    all of them is returned, so that parts that are missing are known. Raises as `list_parts` and `download_part` do.
    """
    folders = []
    for number, url in enumerate(urls):
        found = list_parts(url, listener, stop)
        root = url.rstrip("/").removesuffix("/*")
        alone = found == [root]
        called = (root.rpartition("/")[0] if alone else root).rpartition("/")[2]
        place = within / f"{number}" / (called if _NAME.fullmatch(called) else "parts")
        place.mkdir(parents=True)
        for part in found:
            download_part(part, place, listener, stop)
        record = None if alone else _read(root, listener or SilentListener(), stop or Stop(), SHARDS)
        if record is not None:
            (place / SHARDS).write_bytes(record)
        folders += [place] if record is not None else [place / part.rpartition("/")[2] for part in found]
    return folders
