"""What a run says of itself: the manifest, checked against the one in the folder, and the snapshot of its items."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import tomserve
from tomserve.engine.clock import now
from tomserve.engine.request import Identity, Sampling
from tomserve.errors import RunMismatchError
from tomserve.items import Item, items_digest, read_items, write_items
from tomserve.prompting.strategy import Strategy
from tomserve.runs import runfolder
from tomserve.runs.journal import Journal
from tomserve.serving.target import Target


def is_complete(items: Collection[str], manifest: dict[str, Any], journal: Journal) -> bool:
    """Whether every item of the run, given by id, has a final row for every strategy of the run."""
    return all(Identity(item, strategy, 0) in journal.final for item in items for strategy in manifest["strategies"])


def snapshot(folder: Path, items: list[Item], *, fresh: bool) -> Collection[str]:
    """Keep every item ever asked in ``items.jsonl``: a run explains itself. Returns their ids."""
    path = folder / "items.jsonl"
    known = {item.id: item for item in read_items(path)} if path.exists() and not fresh else {}
    if not known or any(item.id not in known for item in items):
        known.update({item.id: item for item in items})
        write_items(path, [known[identifier] for identifier in sorted(known)])
    return known


def portable(value: Any) -> Any:
    """Paths of this machine in a form that can be shared: the checkout as ".", the home as "~", Python as "python".

    Applied to what only tells where something lay; nothing reads these fields back.
    """
    if isinstance(value, dict):
        return {name: portable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [portable(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if value == sys.executable or value.startswith(f"{sys.prefix}/bin/python"):
        return "python"
    for folder, short in ((Path(tomserve.__file__).parents[1], "."), (Path.home(), "~")):
        if value.startswith(f"{folder}/"):
            return short + value[len(str(folder)) :]
    return value


def run_manifest(
    folder: Path,
    benchmark: str,
    benchmark_path: Path | None,
    benchmark_gold: str | None,
    every: list[Item],
    chosen: Target,
    strategies: list[Strategy],
    sampling: Sampling,
    asked: Collection[str],
) -> dict[str, Any]:
    """The run's manifest, checked against what is in the folder. Raises RunMismatchError."""
    new: dict[str, Any] = {
        "schema": 1,
        "run": folder.resolve().name,
        "benchmark": benchmark,
        "benchmark_path": str(benchmark_path) if benchmark_path else None,
        **({"benchmark_gold": benchmark_gold} if benchmark_gold else {}),
        "benchmark_digest": items_digest(every),
        "benchmark_items": len(every),
        "model": chosen.model,
        "revision": chosen.revision,
        "preset": chosen.preset.name if chosen.preset else None,
        "sampling": sampling.to_dict(),
        "strategies": {s.name: {"digest": s.digest, "max_tokens": s.max_tokens, "chain": s.chain} for s in strategies},
        "content": portable({s.name: str(s.folder) for s in strategies}),
        "endpoints": [],
        "server": {},
        "sessions": [],
        "tomserve": tomserve.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "created": now(),
        "limit": None,
    }
    old = runfolder.read_manifest(folder)
    if old is not None:
        runfolder.check_same(old, new, folder, asked)
        for field in ("strategies", "content"):
            before = {name: value for name, value in old.get(field, {}).items() if name in asked}
            new[field] = {**before, **new[field]}
        if asked:  # who answered, and when, is history: only a session that asks adds to it
            kept = ("created", "endpoints", "server", "sessions", "limit", "tomserve", "python", "platform", "noise")
            new |= {name: old[name] for name in kept if name in old}
    elif asked:
        journal = folder / "responses.jsonl"
        raise RunMismatchError(f"{journal} is there without a manifest.json; restore it, or use --run NEW")
    return new
