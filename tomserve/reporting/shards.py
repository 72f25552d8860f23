"""The table of the parts into which an evaluation was divided."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from tomserve.content.text import sanitize
from tomserve.distributed.shards import EXPECTED, PartRecord, Shards, shown_name

SHOWN = 20
"""So many parts are listed; of more, the first and the last ones are."""


MANY = 10_000_000
"""Counts from here on are shown in millions."""


def show(shards: Shards, folder: Path, screen: Console) -> None:
    """Print the parts, how even they are, what dividing costs, and what to do next. folder: of the parts."""
    table = Table(box=None, pad_edge=False)
    for name in ("part", "items", "requests", "prompt tokens", "shared", "reply at most", "work"):
        table.add_column(name, justify="right")
    parts = list(enumerate(shards.parts))
    half = SHOWN // 2
    listed = parts if len(parts) <= SHOWN else [*parts[:half], None, *parts[-half:]]
    for one in listed:
        table.add_row(*(["..."] * 7 if one is None else _cells(f"{one[0]:04}", one[1])))
    if len(parts) > 1:
        table.add_row(*_cells("all", _sum(shards)))
    screen.print(table)
    for line in lines(shards):
        screen.print(line, markup=False, highlight=False)
    name = sanitize(shown_name(folder))
    for line in (
        f"parts: {sanitize(str(folder))}",
        f"next: `tomserve work {name} --part 0`, and so on, on any machine that sees the folder; or `tomserve work "
        f"{name}` for one after the other",
    ):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)


def lines(shards: Shards) -> list[str]:
    """What is to be said of the parts as a whole: how even they are, and what dividing costs."""
    weights = [part.weight for part in shards.parts]
    mean = sum(weights) / len(weights)
    largest = max(weights) / mean if mean else 1.0
    whole = _sum(shards)
    lost = max(0, shards.shared_tokens - whole.shared_tokens) / max(1, whole.prompt_tokens)
    return [
        f"the largest part is {largest:.3f} times the mean; dividing costs {lost:.2%} of the prompt tokens, which "
        "parts cannot share",
        f"work: prompt tokens that are not shared, and one in {EXPECTED} of the tokens that replies may have",
    ]


def _cells(name: str, part: PartRecord) -> list[str]:
    counts = (part.items, part.requests, part.prompt_tokens, part.shared_tokens, part.reply_tokens, part.weight)
    return [name, *map(_short, counts)]


def _short(count: int) -> str:
    """A count; a large one in millions, so that a terminal of 80 columns has room for all of them."""
    return f"{count:,}" if count < MANY else f"{count / 1e6:,.1f} M"


def _sum(shards: Shards) -> PartRecord:
    """All parts as one."""
    fields = ("items", "requests", "prompt_tokens", "shared_tokens", "reply_tokens")
    counts = {name: sum(getattr(part, name) for part in shards.parts) for name in fields}
    return PartRecord(digest="", **counts)
