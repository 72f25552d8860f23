"""Reads the members of an Inspect log, a zip file that may come from anybody, one at a time and within bounds.

Newer versions of Inspect compress members by zstandard, which the standard library does not read. Nothing is ever
written to disk, so that the names of members can lead nowhere.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import zstandard

from tomserve.errors import ConfigError
from tomserve.interop import inspect_json
from tomserve.interop.foreign import Origin
from tomserve.interop.inspect_json import LARGEST

ZSTANDARD = 93
"""The number of the method in zip files."""

RATIO, SMALL = 1000, 1 << 24
"""A member above SMALL bytes that is packed more tightly than this was made to fill somebody's memory."""

MEMBERS = 2_000_000
"""The most members of a log."""

_LOCAL = struct.Struct("<4s5H3L2H")
_BLOCK = 1 << 20


class Members:
    """The members of a zip file, each of which is read as a whole when it is asked for.

    path: the file. Raises ConfigError where it is no zip file, is torn off or has too many members.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] = inspect_json.opened(path)
        try:
            listed = zipfile.ZipFile(self._file).infolist()
        except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError, UnicodeDecodeError) as error:
            self._file.close()
            if path.suffix != ".eval":
                raise ConfigError(
                    f"{path}: no log of Inspect, which ends in .eval or .json; give one, or read spreadsheets by "
                    "`tomserve import csv`, JSON lines by `jsonl`, and samples of lm-eval by `lm-eval`"
                ) from None
            raise ConfigError(
                f"{path}: no whole zip file ({error}); expected a log of Inspect (.eval) whose copying was not broken "
                "off; copy it again, or convert it by `inspect log convert --to json`"
            ) from None
        if len(listed) > MEMBERS:
            raise ConfigError(f"{path}: has {len(listed):,} members; expected at most {MEMBERS:,}")
        self._members = {one.filename: one for one in listed}  # of two of one name the later counts, as in Inspect

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def names(self) -> list[str]:
        """The names of the members in the order of the file."""
        return list(self._members)

    def json(self, name: str) -> Any:
        """What a member holds as JSON. Raises ValueError that says what is wrong with it."""
        return inspect_json.loads(self._unpacked(self._members[name]))

    def _unpacked(self, member: zipfile.ZipInfo) -> bytes:
        if member.flag_bits & 1:
            raise ValueError("is encrypted")
        size, packed = member.file_size, member.compress_size
        if max(size, packed) > LARGEST or (size > SMALL and size > RATIO * max(packed, 1)):
            raise ValueError(f"would have {size >> 20:,} MB, unpacked from {packed >> 10:,} kB")
        self._file.seek(member.header_offset)
        head = self._file.read(_LOCAL.size)
        if len(head) < _LOCAL.size or not head.startswith(b"PK\3\4"):
            raise ValueError("does not lie where the list of members says")
        *_, name_length, extra_length = _LOCAL.unpack(head)
        self._file.seek(name_length + extra_length, io.SEEK_CUR)
        data = self._file.read(packed)
        if len(data) < packed:
            raise ValueError("is torn off")
        text = _plain(data, member.compress_type, size)
        if len(text) != size or zlib.crc32(text) != member.CRC:
            raise ValueError("does not have the length and checksum that the list of members says")
        return text

    def origin(self) -> Origin:
        """The file with the digest of its content."""
        return inspect_json.origin(self.path, self._file)

    def samples(self) -> Iterator[str]:
        """The names of the members that hold samples."""
        return (name for name in self._members if name.startswith("samples/") and name.endswith(".json"))


def _plain(data: bytes, method: int, size: int) -> bytes:
    """The bytes of a member, of which no more than one above the promised size are unpacked."""
    try:
        if method == zipfile.ZIP_STORED:
            return data
        if method == zipfile.ZIP_DEFLATED:
            return zlib.decompressobj(-15).decompress(data, size + 1)
        if method == ZSTANDARD:
            with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
                data, read_across_frames=True
            ) as file:
                found = bytearray()
                while len(found) <= size and (block := file.read(min(_BLOCK, size + 1 - len(found)))):
                    found += block
                return bytes(found)
    except (zlib.error, zstandard.ZstdError) as error:
        raise ValueError(f"cannot be unpacked ({error})") from None
    raise ValueError(f"is packed by a method that is not known (number {method})")
