"""Batch files on the disk: requests are written in files that a queue takes, results are found by their ids.

>>> with Requests(Path("asked.jsonl")) as requests:                                   # doctest: +SKIP
...     requests.add(request)
>>> results = Results([Path("answered.jsonl")])                                       # doctest: +SKIP
>>> results.reply(request.key).status                                                 # doctest: +SKIP
'ok'
"""

from __future__ import annotations

import contextlib
import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import orjson

from tomserve.content import files, output_path
from tomserve.content.compact_index import FirstPlaces, Index, text_checksum
from tomserve.engine.request import Request
from tomserve.engine.transport import Reply
from tomserve.errors import ConfigError
from tomserve.interop.batch_lines import custom_id, is_request, reply_in, request_line

MOST_REQUESTS = 50_000
"""How many requests OpenAI takes in one file at most."""

MOST_BYTES = 200_000_000
"""How many bytes OpenAI takes in one file at most."""


@dataclass(frozen=True)
class Written:
    """A file of requests that was written. path: of the file. requests, bytes: how many it has."""

    path: Path
    requests: int
    bytes: int


class Requests:
    """Writes requests to files of limited size; of requests that are equal only the first is written.

    path: the first file; further ones are called ``NAME-2.jsonl``, ``NAME-3.jsonl`` and so on. per_file, most_bytes:
    how many requests, and bytes, a file has at most. written: the files so far, each of which is whole.

    Nothing is written for no requests. Raises ConfigError where one of the files is there already: it may be in a queue
    at the moment, and what is asked twice is paid twice.
    """

    def __init__(self, path: Path, per_file: int = MOST_REQUESTS, most_bytes: int = MOST_BYTES) -> None:
        self._path, self._per_file, self._most_bytes = path, per_file, most_bytes
        self.written: list[Written] = []
        self._keys = FirstPlaces()
        self._stack = contextlib.ExitStack()
        self._file: IO[bytes] | None = None
        self._requests = self._bytes = 0
        output_path.check_output(path)
        self._refuse(path)
        self._refuse(self._named(2))

    def __enter__(self) -> Requests:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._close()
        else:
            self._stack.__exit__(kind, error, trace)

    def __len__(self) -> int:
        """How many requests were written."""
        return len(self._keys)

    def add(self, request: Request) -> bool:
        """Write a request, unless an equal one was written. Returns whether it was.

        Raises ConfigError for one that is longer than a file may be, OSError where the file cannot be written.
        """
        if self._keys.find(request.key) is not None:
            return False
        line = request_line(request)
        if len(line) > self._most_bytes:
            item, strategy, turn, _ = request.identity
            raise ConfigError(
                f"strategy {strategy!r}, item {item!r}, turn {turn} (counted from 0): the request has {len(line):,} "
                f"bytes, a file at most {self._most_bytes:,}; raise --max-bytes, or leave that item out"
            )
        if self._requests >= self._per_file or self._bytes + len(line) > self._most_bytes:
            self._close()
        if self._file is None:
            path = self._named(len(self.written) + 1)
            self._refuse(path)
            self._file = self._stack.enter_context(files.replace_file(path))
        self._file.write(line)
        self._keys.add(request.key, 0)
        self._requests, self._bytes = self._requests + 1, self._bytes + len(line)
        return True

    def _close(self) -> None:
        """Put the file that is being written in its place."""
        if self._file is None:
            return
        self._stack.close()
        self.written.append(Written(self._named(len(self.written) + 1), self._requests, self._bytes))
        self._file, self._requests, self._bytes = None, 0, 0

    def _named(self, number: int) -> Path:
        return self._path if number == 1 else self._path.with_name(f"{self._path.stem}-{number}{self._path.suffix}")

    def _refuse(self, path: Path) -> None:
        if path.exists() or path.is_symlink():
            raise ConfigError(
                f"{path}: is there already, and may wait in a queue; name another file by --out, or move it away"
            )


@dataclass
class Results:
    """The results in files that came back from a queue, found by their ids.

    paths: the files, output and error files in any order. About 30 bytes a result are held; lines are read again when
    they are wanted. A last line that is not whole, as a broken download leaves one, is left out and counted.

    digests: of each file, by its path. cut_off: the files that end within a line. Raises ConfigError by file and line
    for anything else that is no result, before any result is used.
    """

    paths: Sequence[Path]
    digests: dict[str, str] = field(default_factory=dict)
    cut_off: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._places, self._files = array("Q"), array("H")
        self._index = Index(32, 32)
        self._open: list[IO[bytes]] = []
        self.used = bytearray()
        for number, path in enumerate(dict.fromkeys(self.paths)):
            self._read(number, path)

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open:
            file.close()

    def __len__(self) -> int:
        """How many results there are."""
        return len(self._places)

    def reply(self, key: str) -> Reply | None:
        """The reply to the request with that key; None where there is none.

        Of several results of one request the first final one counts, else the last. All of them are then `used`.
        """
        found: Reply | None = None
        for number in sorted(self._index.get(text_checksum(key))):
            data = self._data(number)
            if custom_id(data) != key:
                continue  # another id with the same checksum
            self.used[number] = True
            if found is None or not found.final:
                found = reply_in(data)
        return found

    def unused(self) -> Iterator[str]:
        """The ids of results that no request was found for so far."""
        for number, used in enumerate(self.used):
            if not used and (name := custom_id(self._data(number))) is not None:
                yield name

    def _read(self, number: int, path: Path) -> None:
        """Take note of where each result of a file stands."""
        try:
            file = files.open_for_reading(path)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
        self._open.append(file)
        offset, digest = 0, hashlib.sha256()
        for row, line in enumerate(files.read_lines(file, path), 1):
            digest.update(line)
            if (name := self._named(path, row, line)) is not None:
                self._index.add(text_checksum(name), len(self._places))
                self._places.append(offset)
                self._files.append(number)
            offset += len(line)
        self.digests[str(path)] = digest.hexdigest()
        self.used.extend(bytes(len(self._places) - len(self.used)))

    def _named(self, path: Path, row: int, line: bytes) -> str | None:
        """The id of the result on a line; None for an empty line, and for a last line that is not whole."""
        if not line.strip():
            return None
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if not line.endswith(b"\n"):
                self.cut_off.append(path)
                return None
            raise ConfigError(f"{path}:{row}: not JSON ({error.msg}); expected a result; download it again") from None
        if (name := custom_id(data)) is not None:
            return name
        if is_request(data):
            raise ConfigError(
                f"{path}:{row}: holds requests (field 'body'); expected the results of a batch (fields 'custom_id' and "
                "'response'): hand this file to the queue, and import what it gives back"
            )
        raise ConfigError(
            f"{path}:{row}: is no result of a batch; expected an object with 'custom_id' and 'response' or 'error'"
        )

    def _data(self, number: int) -> Any:
        """What the line of a result holds. Raises ConfigError where the file has changed meanwhile."""
        file = self._open[self._files[number]]
        file.seek(self._places[number])
        try:
            return orjson.loads(file.readline(files.LONGEST_LINE + 1))
        except orjson.JSONDecodeError:
            raise ConfigError(
                f"{list(dict.fromkeys(self.paths))[self._files[number]]}: has changed while it was read; repeat the "
                "command"
            ) from None
