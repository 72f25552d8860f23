"""Limits of what is read from a server, which hold for every kind of request, and how a compressed body is read.

Requests ask for bodies that are not compressed. One that is nevertheless is read where it is compressed once by gzip or
deflate, and never beyond the limit of what it may hold.
"""

from __future__ import annotations

import zlib

MAX_BODY = 16 * 2**20
"""Bytes of a reply that are read at most, compressed or not: a larger one is no chat completion."""

MAX_HEAD = 64 * 2**10
"""Bytes of a response before its body that are read at most, those that only say to wait (HTTP 100 to 199) included."""

OVERHEAD = 2
"""A body in chunks may take so many times its own size at most: the rest of the bytes says where the chunks end."""

UNENCODED = "identity"
"""The value of Accept-Encoding: nothing that is compressed is asked for."""

_KNOWN_ENCODINGS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""Ways to compress a body, each with what zlib calls it."""


def decompressed(body: bytes, encoding: bytes, most: int) -> bytes | None:
    """A body as it was before it was compressed, or None where that is longer than `most` bytes.

    encoding: the header Content-Encoding; empty where there is none. Raises ValueError, whose text names the encoding,
    for a way to compress that is not read, and for bytes that are not compressed so, or not whole.
    """
    encoding = encoding.strip().lower()
    if encoding in (b"", UNENCODED.encode()) or not body:
        return body
    try:
        return _inflated(body, encoding, most)
    except (zlib.error, KeyError):
        raise ValueError(encoding[:40].decode("latin-1")) from None


def _inflated(body: bytes, encoding: bytes, most: int) -> bytes | None:
    reader = zlib.decompressobj(_KNOWN_ENCODINGS[encoding])
    try:
        whole = reader.decompress(body, most + 1)
    except zlib.error:
        if encoding != b"deflate":
            raise
        reader = zlib.decompressobj(-15)  # what calls itself deflate often lacks zlib's header
        whole = reader.decompress(body, most + 1)
    if len(whole) > most:
        return None
    if not reader.eof:
        raise zlib.error("incomplete")
    return whole
