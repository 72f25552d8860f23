# ruff: noqa: E501 - lines of the tables of texts and values
"""Changes to a run folder such as chance, other programs and hostile people make, each of which a seed gives again.

>>> changed = mutate(Path("runs/r"), seed=7)                                          # doctest: +SKIP
>>> print(changed)                                                                    # doctest: +SKIP
manifest.json: field sampling.seed becomes 9223372036854775808
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from tomserve.content.files import digest_bytes

CSI, LINK, CLIPBOARD = "\x1b[2J\x1b[31m", "\x1b]8;;https://evil.example\x1b\\", "\x1b]52;c;ZXZpbA==\x07"
"""What clears a screen, makes a link, and writes to the clipboard of a terminal."""

TEXTS = (
    *(CSI + "red", LINK + "here" + LINK, CLIPBOARD, "\x9b31mred", "\u202egnp.exe", "\u2066\u2067x", "a\u200bb\ufeffc"),
    *("line\nline", "line\r\x1b[Aover", "a\x00b", "\x7f\x08\x08", "\u2028\u2029", "", " ", ".", "..", "../../../etc/passwd"),
    *("/etc/passwd", "~", "-rf", "--help", "*", "^.*$", "(?P<a>", "[a-", "a,b", "a=b", 'a"b', "a'b", "a|b", "a`b", "\\", "%s"),
    *("{x}", "{{7*7}}", "{% raw %}", "</script><script>alert(1)</script>", "javascript:alert(1)", "=1+1", "@SUM(A1)", "a" * 70_000),
    *("\\input{/etc/passwd}", "\\write18{id}", "nan", "inf", "null", "\U0001f468\u200d\U0001f469", "漢字" * 40, "e\u0301" * 30, "\u0130"),
    *("item", "correct", "run", "model", "strategy", "answer", "chain_x", "noise_x", "status", "metric_x", "literal", "ok", "length"),
)  # fmt: skip
"""Texts that something may obey, take for a pattern, a path or markup, or that are as long or as short as none should be."""

HUGE, DEEP, SURROGATE, NOT_NUMBERS, DOUBLE = "\0huge", "\0deep", "\0surrogate", "\0infinite", "\0double"
"""Marks of values that only text can hold, not a program; `_text` puts them into the JSON."""

RAW = {
    **{'"\\u0000huge"': str(2**70), '"\\u0000deep"': "[" * 1500 + "]" * 1500, '"\\u0000surrogate"': '"\\ud800x"'},
    **{'"\\u0000infinite"': "1e999", '"\\u0000double"': '{"a":1,"a":2}'},
}

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**15, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 0.5, -0.0, 1e308, 1e-320),
    *([], {}, [None], [[]], [1, "a"], {"a": None}, {"": {}}, ["x", "x"], [{"a": 1}], "text", "3", "true"),
    *(HUGE, DEEP, SURROGATE, NOT_NUMBERS, DOUBLE),
)  # fmt: skip
"""Values of every type, at the edges of what numbers can be."""

LONGEST = 1 << 26
"""A file with more bytes is not read here; such are the sparse ones."""

JSON = ("manifest.json", "reader.json", "report.json")
LINES = ("responses.jsonl", "items.jsonl", "noise.jsonl", "reader.jsonl")


def mutate(folder: Path, seed: int | str, victim: Path | None = None) -> str:
    """Change one to three things in a run folder, and say which. victim: where links lead."""
    rng = Random(seed)
    said = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        names = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.is_symlink())
        wanted = [name for name in names if name.endswith((".json", ".jsonl", ".parquet", ".txt"))]
        if not wanted:
            break
        weights = [6 if name in ("manifest.json", "scores.parquet") else 5 if name in LINES else 2 for name in wanted]
        path = folder / rng.choices(wanted, weights)[0]
        try:
            what = _mutated(path, rng, victim or Path("/etc/passwd"))
        except (MemoryError, RecursionError, pl.exceptions.PolarsError):  # what an earlier change left is too strange
            what = "nothing"
        said.append(f"{path.name}: {what}")
    return "; ".join(said)


def _mutated(path: Path, rng: Random, victim: Path) -> str:
    if rng.random() < 0.18 or path.stat().st_size > LONGEST:
        return _of_file(path, rng, victim)
    if rng.random() < 0.1:
        return _of_bytes(path, rng)
    if path.name.endswith(".parquet"):
        return _of_table(path, rng)
    if path.name.endswith((".json", ".jsonl")):
        return _of_json(path, rng)
    return _of_bytes(path, rng)


# ── fields of JSON ──────────────────────────────────────────────────────────────────────────────────────────────────


def _text(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=True)
    for mark, raw in RAW.items():
        text = text.replace(mark, raw)
    return text


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in JSON data, as the keys and numbers that lead there."""
    found = [path] if path else []
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        found += _places(value, (*path, key))
    return found


def _of_json(path: Path, rng: Random) -> str:
    try:
        texts = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
        place = rng.randrange(len(texts))
        data = json.loads(texts[place])
        places = _places(data)
        chosen = rng.choice([one for one in places if len(one) == 1] if rng.random() < 0.5 else places)
    except (ValueError, IndexError, RecursionError):
        return _of_bytes(path, rng)
    at = data
    for key in chosen[:-1]:
        at = at[key]
    key, value = chosen[-1], _value(rng)
    what = rng.choice(("value", "value", "value", "text", "text", "remove", "rename", "add", "every"))
    named = ".".join(map(str, chosen))
    if what == "remove":
        del at[key]
    elif what == "rename" and isinstance(at, dict):
        at[rng.choice(TEXTS)] = at.pop(key)
    elif what == "add" and isinstance(at, dict):
        at[rng.choice((*TEXTS, "gold", "factors", "turn", "closes", "conclusion", "person", "sample", "base"))] = value
    else:
        value = rng.choice(TEXTS) if what == "text" else value
        at[key] = value
    texts[place] = _text(data)
    if what == "every" and path.suffix == ".jsonl" and len(chosen) == 1:
        for number, text in enumerate(texts):
            with contextlib.suppress(ValueError):  # a line that was broken before
                texts[number] = _text({**one, key: value}) if isinstance(one := json.loads(text), dict) else text
    path.write_text("\n".join(texts) + "\n")
    return f"field {named[:60]}, {what}: {value!r:.50}"


def _value(rng: Random) -> Any:
    return rng.choice(VALUES) if rng.random() < 0.75 else rng.choice(TEXTS)


# ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _flipped(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 3, 20))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _joined(data: bytes, rng: Random) -> bytes:
    ends = [place for place, byte in enumerate(data) if byte == 10][:-1]
    return data if not ends else data[: (at := rng.choice(ends))] + data[at + 1 :]


def _shuffled(data: bytes, rng: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines)


def _utf16(data: bytes, rng: Random) -> bytes:
    return data.decode(errors="replace").encode("utf-16")


BYTES: dict[str, Callable[[bytes, Random], bytes]] = {
    "flipped": _flipped,
    "joined": _joined,
    "lines in another order": _shuffled,
    "UTF-16": _utf16,
    "truncated": lambda data, rng: data[: rng.randrange(len(data) + 1)],
    "empty": lambda data, rng: b"",
    "a byte order mark": lambda data, rng: b"\xef\xbb\xbf" + data,
    "CRLF": lambda data, rng: data.replace(b"\n", b"\r\n"),
    "CR": lambda data, rng: data.replace(b"\n", b"\r"),
    "no last line end": lambda data, rng: data.rstrip(b"\n"),
    "gzip": lambda data, rng: gzip.compress(data, mtime=0),
    "twice": lambda data, rng: data + data,
    "NUL behind it": lambda data, rng: data + b"\0" * 100,
    "NUL": lambda data, rng: b"\0" * 100,
    "a huge line": lambda data, rng: data + b'{"x":"' + b"a" * 2_000_000 + b'"}\n',
    "deep": lambda data, rng: b"[" * 100_000,
    "a scalar": lambda data, rng: rng.choice((b"3\n", b"null\n", b'"text"\n', b"[]\n", b"{}\n", b"true\n")),
    "Latin-1": lambda data, rng: data.replace(b"a", b"\xe4"),
}


def _of_bytes(path: Path, rng: Random) -> str:
    name = rng.choice(list(BYTES))
    path.write_bytes(BYTES[name](path.read_bytes(), rng))
    return name


# ── what stands at the path ─────────────────────────────────────────────────────────────────────────────────────────


def _socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the name of a socket may have 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 36)


KINDS = (
    "removed",
    "folder",
    "pipe",
    "socket",
    "link",
    "link to nothing",
    "link to itself",
    "forbidden",
    "sparse",
    "hard link",
)


def _of_file(path: Path, rng: Random, victim: Path) -> str:
    kind = rng.choice(KINDS)
    if kind == "forbidden":
        path.chmod(0)
        return kind
    if kind == "hard link":
        path.with_name("second name").unlink(missing_ok=True)
        os.link(path, path.with_name("second name"))
        return kind
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        _socket(path)
    elif kind == "sparse":
        _sparse(path)
    elif kind.startswith("link"):
        path.symlink_to({"link": victim, "link to nothing": victim.with_name("none"), "link to itself": path}[kind])
    return kind


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────

COLUMNS: dict[str, Callable[[int, Random], pl.Series]] = {
    "texts": lambda n, rng: pl.Series([rng.choice(TEXTS) for _ in range(n)]),
    "numbers": lambda n, rng: pl.Series([rng.choice((0, -1, 2**63 - 1)) for _ in range(n)], dtype=pl.Int64),
    "unsigned": lambda n, rng: pl.Series([2**64 - 1] * n, dtype=pl.UInt64),
    "floats": lambda n, rng: pl.Series([rng.choice((0.5, float("nan"), float("inf"), None)) for _ in range(n)]),
    "truths": lambda n, rng: pl.Series([rng.choice((True, False, None)) for _ in range(n)], dtype=pl.Boolean),
    "bytes": lambda n, rng: pl.Series([b"\xff\x00"] * n),
    "lists": lambda n, rng: pl.Series([[1, 2]] * n),
    "lists of texts": lambda n, rng: pl.Series([["a", None]] * n),
    "structs": lambda n, rng: pl.Series([{"a": 1, "b": "c"}] * n),
    "dates": lambda n, rng: pl.Series([0] * n).cast(pl.Datetime),
    "durations": lambda n, rng: pl.Series([0] * n).cast(pl.Duration),
    "decimals": lambda n, rng: pl.Series(["1.5"] * n).cast(pl.Decimal(10, 2)),
    "categories": lambda n, rng: pl.Series(["a"] * n).cast(pl.Categorical),
    "nulls": lambda n, rng: pl.Series([None] * n, dtype=pl.Null),
    "small": lambda n, rng: pl.Series([1] * n, dtype=pl.Int8),
}


def _of_table(path: Path, rng: Random) -> str:
    try:
        frame = pl.read_parquet(path)
    except Exception:  # an earlier change has left no table
        return _of_bytes(path, rng)
    name, kind = rng.choice(frame.columns or ["x"]), rng.choice(list(COLUMNS))
    what = rng.choice(
        ("column", "column", "column", "remove", "rename", "add", "no rows", "rows twice", "one value", "keep one")
    )
    if what == "column":
        frame = frame.with_columns(COLUMNS[kind](frame.height, rng).alias(name))
    elif what == "remove":
        frame = frame.drop(name)
    elif what == "rename":
        frame = frame.rename({name: kind})
    elif what == "add":
        name = rng.choice(
            (
                "",
                "^.*$",
                "*",
                "factor",
                "literal",
                "chain_proper",
                "sample",
                "gold",
                CSI,
                "a" * 500,
                "len",
                "index",
                "lower",
            )
        )
        frame = frame.with_columns(COLUMNS[kind](frame.height, rng).alias(name))
    elif what == "no rows":
        frame = frame.clear()
    elif what == "rows twice":
        frame = pl.concat([frame, frame])
    elif what == "one value":
        frame = frame.with_columns(pl.lit(frame[name][0] if frame.height else None).alias(name))
    else:
        frame = frame.select(name)
    frame.write_parquet(path)
    manifest = path.with_name("manifest.json")
    if manifest.is_file() and rng.random() < 0.9 and manifest.stat().st_size < LONGEST:
        _sign(manifest, path, frame.height)
    return f"{what} {name!r:.30} ({kind})"


def _sign(manifest: Path, table: Path, rows: int) -> None:
    """Have the manifest of a measured run say that this is the table that was measured, as whoever forges one does."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        data = json.loads(manifest.read_bytes())
        data["table"] |= {"digest": digest_bytes(table.read_bytes()), "bytes": table.stat().st_size, "rows": rows}
        manifest.write_text(_text(data))
