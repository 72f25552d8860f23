"""Keeps the fixed release once it was generated: from then on it is read, in a quarter of the time.

The file lies in the user's cache and may be deleted at any time. It is named after everything that the release is made
from (the code, the words and phrasings, the release's own description), and is believed only if its content has the
SHA-256 digest that the release's description names, so that neither a change of these nor one of the file goes
unnoticed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard

from tomserve import content
from tomserve.benchmarks.worlds.lexicon import FOLDER
from tomserve.benchmarks.worlds.release import Release
from tomserve.content import files
from tomserve.content.paths import cache_root
from tomserve.errors import ConfigError
from tomserve.items import Item

LARGEST = 32 << 20
"""Most bytes that are read of a kept file; that of the release has two million."""

PIECE = 1 << 20

Generate = Callable[[], Iterator[Item]]


def items(release: Release, generate: Generate) -> Iterator[Item]:
    """The items of the release, in their order: those of the kept file, or else generated, and kept if all are taken.

    release: what describes it. generate: makes its items. Where nothing can be kept, nothing is.
    """
    path = place(release)
    if (data := _kept(path, release.file)) is not None:
        with io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(data), PIECE) as lines:
            yield from map(Item.from_json, lines)
        return
    pieces, sha, compressor = list[bytes](), hashlib.sha256(), zstandard.ZstdCompressor().compressobj()
    for item in generate():
        line = item.to_json() + b"\n"
        sha.update(line)
        pieces.append(compressor.compress(line))
        yield item
    if f"sha256:{sha.hexdigest()}" == release.file:
        _keep(path, b"".join((*pieces, compressor.flush())))


def place(release: Release) -> Path:
    """Where the file of this release is kept, by this code, words and phrasings."""
    words = sorted(path for path in content.require(FOLDER).rglob("*.yaml") if path.is_file())
    code = content.code_digest([Path(__file__).parent]).encode()
    made_from = content.digest(code, release.model_dump_json().encode(), *words)
    return cache_root() / "tomserve" / f"{release.name}-{made_from.removeprefix('sha256:')[:16]}.jsonl.zst"


def _kept(path: Path, digest: str) -> bytes | None:
    """The compressed content of the file, None where there is none of that digest."""
    try:
        with files.open_for_reading(path) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            return None
        sha, left = hashlib.sha256(), LARGEST * 16
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            while left > 0 and (piece := reader.read(PIECE)):
                sha.update(piece)
                left -= len(piece)
    except (OSError, ConfigError, zstandard.ZstdError):
        return None
    return data if f"sha256:{sha.hexdigest()}" == digest else None


def _keep(path: Path, data: bytes) -> None:
    with contextlib.suppress(OSError, ConfigError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.replace_file(path, 0o600) as file:
            file.write(data)
