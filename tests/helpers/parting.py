"""Small runs written by hand, whole or as parts: several strategies, samples, conversations, failures and a noise check."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from tests.conftest import make_item
from tomserve.items import write_items
from tomserve.runs.journal import read_rows
from tomserve.runs.scores import scores_of

ONCE, TALK = "vanilla", "twice"
"""A strategy that asks once, and one that takes a conversation of two requests."""

REPEATS = 2


def line(item: str, strategy: str, turn: int, sample: int, *, text: str | None, second: int, **more: Any) -> bytes:
    """One row. text: None for an attempt that timed out. second: when it came."""
    row = {"schema": 1, "item": item, "strategy": strategy, "turn": turn}
    row |= {"sample": sample} if sample else {}
    row |= {"key": f"{item}-{strategy}-{turn}-{sample}", "status": "timeout" if text is None else "ok", "text": text}
    return (
        orjson.dumps(row | {"time": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z", "reused": False} | more)
        + b"\n"
    )


def talk(item: str, strategy: str, sample: int, *, failures: int, second: int, text: str = "tea") -> list[bytes]:
    """The rows of one conversation that ended, after some attempts that failed."""
    about = {"sample": sample}
    rows = [line(item, strategy, 0, **about, text=None, second=second) for _ in range(failures)]
    if strategy == ONCE:
        return [*rows, line(item, strategy, 0, **about, text=text, second=second + 1)]
    first = line(item, strategy, 0, **about, text="let me see", second=second + 1)
    return [*rows, first, line(item, strategy, 1, **about, text=text, second=second + 2, closes=2)]


def names(count: int) -> list[str]:
    """The ids of that many items."""
    return [make_item(number).id for number in range(1, count + 1)]


def manifest(**more: Any) -> dict[str, Any]:
    """The manifest of such a run."""
    strategies = {
        ONCE: {"digest": "sha256:1", "max_tokens": 16, "chain": False},
        TALK: {"digest": "sha256:2", "max_tokens": 16, "chain": False, "turns": 2},
    }
    asked = {"benchmark": "demo", "benchmark_path": None, "benchmark_digest": "sha256:0", "benchmark_items": 9}
    return {
        **{"schema": 1, "run": "mine", **asked, "model": "m", "revision": None, "preset": None},
        **{"sampling": {"temperature": 0.5, "seed": 0, "repeats": REPEATS}, "strategies": strategies, "content": {}},
        **{"endpoints": [], "server": {}, "sessions": [{"time": "2026-01-01T00:00:00Z"}], "limit": None},
        **{"tomserve": "1", "python": "3", "platform": "here", "created": "2026-01-01T00:00:00Z", "complete": False},
        **more,
    }


def written(
    folder: Path, items: Iterable[str], rows: Iterable[bytes], again: Iterable[bytes] = (), **more: Any
) -> Path:
    """A run folder with these items and rows. again: the rows of its noise check. more: fields of its manifest."""
    folder.mkdir(parents=True)
    wanted = set(items)
    write_items(folder / "items.jsonl", [one for n in range(1, 10) if (one := make_item(n)).id in wanted])
    (folder / "responses.jsonl").write_bytes(b"".join(rows))
    if noise := list(again):
        (folder / "noise.jsonl").write_bytes(b"".join(noise))
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest(**more)))
    return folder


def scored(folder: Path) -> bytes:
    """The bytes of the score table of a run."""
    scores_of(folder)
    return (folder / "scores.parquet").read_bytes()


def talks(folder: Path, name: str = "responses.jsonl") -> dict[tuple[Any, ...], list[bytes]]:
    """The rows of a run by conversation, each as it stands in the file."""
    found: dict[tuple[Any, ...], list[bytes]] = {}
    data = (folder / name).read_bytes()
    for offset, row in read_rows(folder / name):
        key = (row["item"], row["strategy"], row.get("sample") or 0, row.get("concurrency"))
        found.setdefault(key, []).append(data[offset : data.index(b"\n", offset) + 1])
    return found
