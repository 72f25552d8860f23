"""The seal of a run, ``seal.json``: digests by which anybody can tell later that its files are what they were.

A seal is a chain of links, one for each time that the run was sealed. A link holds the digest of every file that makes
up the run, and the digest of the link before it. Files that only grow (the journals) hold further digests, of their
beginning up to every thousandth line, so that where such a file was changed is known to a thousand lines. A link may
carry a signature of its own digest (see tomserve.content.signatures).

Whoever can write to the folder could make another seal. So publish the digest of the newest link somewhere else, in a
paper or a registration, or sign it: then nothing that it covers can be changed without a trace.

What can be made again from these files (scores, reports) and what only helps to find faults (logs) is not sealed.

>>> seal(Path("runs/example")).digest                                                             # doctest: +SKIP
'sha256:3f0c...'
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Annotated, Literal, NamedTuple

import orjson
import pydantic

from tomserve._version import __version__
from tomserve.content import files, signatures
from tomserve.content.files import digest_bytes, digest_file
from tomserve.content.paths import run_name
from tomserve.content.validation import validation_error
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError
from tomserve.runs import kept, packed
from tomserve.runs.manifest import Manifest
from tomserve.runs.runfolder import RunFolder, check_files
from tomserve.scoring import grades
from tomserve.scoring.responses import NOISE

FILE = "seal.json"

GROWING = (kept.JOURNAL, NOISE, grades.JOURNAL)
"""Files to which lines are only ever added."""

SEALED = ("manifest.json", kept.ITEMS, grades.RECORD, *GROWING)
"""The files that make up a run of answers. A measured run has its table besides."""

EVERY = 1000
"""A journal is digested anew after so many lines."""

Digest = Annotated[str, pydantic.StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Name = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z-]{1,50}\.[a-z]{1,10}$")]
Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


class SealedFile(_Part):
    """A file as it was sealed.

    bytes, digest: its length, and its digest as ``sha256sum`` prints it. lines: how many it had, of a file that grows.
    chain: the digests of its beginning up to every thousandth line, behind those of the links before.
    """

    bytes: Count
    digest: Digest
    lines: Count | None = None
    chain: tuple[Digest, ...] | None = None


class Link(_Part):
    """What one sealing recorded.

    time: when, by the clock of who sealed. tomserve: by which version. previous: the digest of the link before, with
    its signature; None for the first. files: the files by their names. signature: that of this link's digest.
    """

    time: str
    tomserve: str
    previous: Digest | None = None
    files: dict[Name, SealedFile]
    signature: str | None = None

    @property
    def digest(self) -> str:
        """The digest of all that the link holds but its signature, which is what is signed and published: of its JSON
        without blanks, with sorted names."""
        held = self.model_dump(exclude={"signature"}, exclude_none=True)
        return digest_bytes(orjson.dumps(held, option=orjson.OPT_SORT_KEYS))

    @property
    def whole(self) -> str:
        """The digest of the link with its signature, which the next link names."""
        return digest_bytes(orjson.dumps(self.model_dump(exclude_none=True), option=orjson.OPT_SORT_KEYS))


class Seal(_Part):
    """The seal of a run. links: what each sealing recorded, the oldest first."""

    schema_: Literal[1] = pydantic.Field(alias="schema")
    run: str
    links: Annotated[tuple[Link, ...], pydantic.Field(min_length=1)]

    @classmethod
    def read(cls, folder: Path) -> Seal | None:
        """The seal of that run; None where it has none. Raises ConfigError, by file and field, where it is broken."""
        path = folder / FILE
        try:
            data = files.read_json(path, WAY_OUT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        try:
            return cls.model_validate_json(orjson.dumps(data))  # of Python's lists it would take no tuples
        except pydantic.ValidationError as error:
            raise validation_error(error, data, cls, path, WAY_OUT) from None


WAY_OUT = "take the seal from where you have the run from, or delete it and seal the run yourself"


class Broken(NamedTuple):
    """What is not as it was sealed. said: in words. grown: whether rows were only added, and nothing was changed."""

    said: str
    grown: bool = False


def seal(folder: Path, key: Path | None = None) -> Link:
    """Seal a run as it is now: add a link to its seal, which begins with this one where it has none.

    folder: the run's folder, which is locked meanwhile. key: the SSH key to sign with; None for no signature.

    Returns the new link; where nothing has changed since the newest one, and no signature is wanted that it lacks, that
    one. Raises ConfigError where the folder holds no run, where its journal ends in half a line, and where it is not as
    an earlier link says; MachineError where the folder is in use or cannot be written.
    """
    with RunFolder(folder):
        sealed_before = Seal.read(folder)
        links = sealed_before.links if sealed_before is not None else ()
        if links and (broken := [one for one in differences(folder, links) if not one.grown]):
            raise ConfigError(
                f"{folder}: is not as it was sealed ({broken[0].said}); whoever changed it must say so: delete "
                f"{FILE}, and seal it anew"
            )
        now_there = _files(folder, links)
        if links and _same(links, now_there) and (key is None or links[-1].signature is not None):
            return links[-1]
        previous = links[-1].whole if links else None
        link = Link(time=utc_now(), tomserve=__version__, previous=previous, files=now_there)
        if key is not None:
            link = link.model_copy(update={"signature": signatures.sign_text(link.digest, key)})
        made = Seal.model_validate({"schema": 1, "run": run_name(folder), "links": (*links, link)})
        text = orjson.dumps(made.model_dump(by_alias=True, exclude_none=True), option=orjson.OPT_INDENT_2) + b"\n"
        try:
            with files.replace_file(folder / FILE) as file:
                file.write(text)
        except OSError as error:
            raise ConfigError(f"{folder / FILE}: cannot be written ({error.strerror})") from None
        return link


def differences(folder: Path, links: tuple[Link, ...]) -> Iterator[Broken]:
    """What of a run is not as its seal says, one by one; nothing where all of it is. Raises ConfigError for a file that
    cannot be read."""
    for number, (before, link) in enumerate(pairwise(links), 2):
        if link.previous != before.whole:
            yield Broken(f"link {number} of {FILE} does not follow from the one before it")
    newest = links[-1].files
    there = _there(folder)
    grown = any(
        name in GROWING and packed.size_of(folder / name) > one.bytes for name, one in newest.items() if name in there
    )
    grown |= any(name in GROWING and name not in newest for name in there)
    for name in dict.fromkeys((*newest, *there)):
        if name not in there:
            yield Broken(f"{name} is missing")
        elif name in GROWING:
            yield from _grown(_place(folder, name), links)
        elif name not in newest:
            yield Broken(f"{name} was added", grown)
        elif (found := _described(_place(folder, name), ())) != newest[name]:
            yield Broken(f"{name} is another one ({found.bytes:,} bytes, sealed were {newest[name].bytes:,})", grown)


def _grown(path: Path, links: tuple[Link, ...]) -> Iterator[Broken]:
    """What of a journal is not as it was sealed. Where only lines were added, how many."""
    name = path.name
    sealed = [link.files[name] for link in links if name in link.files]
    lengths = {one.bytes: one.digest for one in sealed}
    expected = [digest for one in sealed for digest in one.chain or ()]
    fits, last, offset, number = 0, max(lengths, default=0), 0, 0
    found, seen = hashlib.sha256(), {0: _hex(hashlib.sha256())}
    with _opened(path) as file:
        for number, line in enumerate(files.read_lines(file, path), 1):
            found.update(line)
            offset += len(line)
            if offset in lengths:
                seen[offset] = _hex(found)
            if number % EVERY == 0 and number // EVERY <= len(expected):
                if _hex(found) != expected[number // EVERY - 1]:
                    yield Broken(f"{name} was changed between lines {fits + 1:,} and {number:,}")
                    return
                fits = number
    if offset < last:
        yield Broken(f"{name} was changed behind line {fits:,}: it is {last - offset:,} bytes shorter")
    elif any(seen.get(length) != digest for length, digest in lengths.items()):
        yield Broken(f"{name} was changed behind line {fits:,}")
    elif number > (lines := (sealed[-1].lines or 0) if sealed else 0):
        yield Broken(f"{number - lines:,} lines of {name} were added since", grown=True)


def _files(folder: Path, links: tuple[Link, ...]) -> dict[str, SealedFile]:
    """The files of a run as they are now. Raises ConfigError where one of them ends in half a line."""
    return {name: _described(_place(folder, name), links) for name in _there(folder)}


def _there(folder: Path) -> list[str]:
    """The names of the files in a folder that make up the run. Raises ConfigError where it holds no run."""
    check_files(folder)
    manifest = Manifest.read(folder)
    if manifest is None:
        raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
    names = (*SEALED, kept.TABLE) if manifest.measured else SEALED
    return [name for name in names if _place(folder, name).exists()]


def _described(path: Path, links: tuple[Link, ...]) -> SealedFile:
    """A file as it is now; of one that grows, the chain goes on where that of the links ends."""
    if path.name not in GROWING:
        try:
            size, digest = digest_file(path)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        return SealedFile(bytes=size, digest=digest)
    found, size, number, chain = hashlib.sha256(), 0, 0, []
    done, line = sum(len(link.files[path.name].chain or ()) for link in links if path.name in link.files), b"\n"
    with _opened(path) as file:
        for number, line in enumerate(files.read_lines(file, path), 1):
            found.update(line)
            size += len(line)
            if number % EVERY == 0 and number // EVERY > done:
                chain.append(_hex(found))
    if not line.endswith(b"\n"):
        raise ConfigError(
            f"{path}: line {number} ends in the middle, as a killed process leaves it; repeat the command that made "
            "the run, which puts that right, then seal it"
        )
    return SealedFile(bytes=size, digest=_hex(found), lines=number, chain=tuple(chain))


def _same(links: tuple[Link, ...], found: dict[str, SealedFile]) -> bool:
    """Whether the newest link describes the same files."""
    return {name: one.digest for name, one in links[-1].files.items()} == {
        name: one.digest for name, one in found.items()
    }


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A file of the run, open for reading. Raises ConfigError where it cannot be read."""
    try:
        with files.open_for_reading(path) as file:
            yield file
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _place(folder: Path, name: str) -> Path:
    """The path of a file of the run, from which it can be read: that of a packed journal is a temporary one."""
    return packed.journal(folder) if name == kept.JOURNAL else folder / name


def _hex(found: hashlib._Hash) -> str:
    return f"sha256:{found.hexdigest()}"
