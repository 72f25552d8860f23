"""What is kept of an import: the manifest that says where a run comes from, and the files of its folder.

A folder is written under its lock, the rows first and the manifest last. The rows of an import say so themselves, so
that a folder with rows and no manifest is known for what an interrupted import has left, and is written anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tomserve.content import files
from tomserve.content.files import digest_file
from tomserve.content.text import count_noun
from tomserve.errors import ConfigError
from tomserve.interop.foreign import Sample
from tomserve.items.files import write_chunks
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.strategy import list_strategies as strategies
from tomserve.runs import journal as runs_journal
from tomserve.runs import runfolder
from tomserve.runs.item_store import ItemStore
from tomserve.runs.manifest import ForeignFile, ForeignRecord, Manifest

if TYPE_CHECKING:
    from tomserve.interop.bringing_match import Asked
    from tomserve.interop.bringing_run import Made, Meant

MOST = 1000
"""So many tasks are named in a manifest at most."""

LONGEST = 200
"""Most characters of a text in which a tool says something of itself."""

ITEMS = "items.jsonl"

_LEFT = frozenset({ITEMS, runs_journal.JOURNAL, ".lock", "log.txt"})
"""What an interrupted import may have left in a folder."""


@dataclass
class Arm:
    """One way of asking. repeats: how many replies to a question it has at most. ours: whether every reply is to a
    question that tomserve exported, asked by its prompts."""

    repeats: int = 1
    ours: bool = True

    def see(self, sample: Sample) -> None:
        """Note a reply."""
        self.repeats = max(self.repeats, sample.repeat + 1)
        self.ours = self.ours and sample.item is not None


def manifest_of(meant: Meant, made: Made, items: ItemStore, arms: Mapping[str, Arm], asked: Asked) -> Manifest:
    """The manifest of a run."""
    whole = items if asked.known is None else asked.known.stock
    repeats = max((arm.repeats for arm in arms.values()), default=1)
    fixed: dict[str, Any] = {
        "benchmark": made.benchmark,
        **({} if asked.path is None else {"benchmark_path": str(asked.path)}),
        "benchmark_digest": whole.digest(),
        "benchmark_items": len(whole),
        "model": meant.model,
        "revision": None,
        "sampling": {"repeats": repeats} if repeats > 1 else {},
    }
    told = Manifest.new(made.folder, (), **fixed).to_dict()
    about = meant.about
    lost = {f"is no question of {made.benchmark}": made.lost, "shares the grade of another reply": made.others}
    record = ForeignRecord(
        tool=about.tool,
        version=_short(about.version),
        tasks=list(meant.tasks)[:MOST],
        files=[ForeignFile(name=one.name, bytes=one.bytes, digest=one.digest) for one in meant.origins],
        created=_short(about.created),
        samples=made.replies,
        left_out={reason[:LONGEST]: count for reason, count in {**meant.left_out, **lost}.items() if count},
        matched=made.items if made.matched else 0,
        counts=made.counts,
        grades=list(meant.grades),
        other_grades=list(meant.other_grades),
        settings=dict(about.settings),
    )
    told |= {
        "strategies": {name: _strategy(name, arms[name], matched=made.matched) for name in sorted(arms)},
        "foreign": record.model_dump(),
        "limit": made.items if made.items < len(whole) else None,
        "complete": True,
    }
    return Manifest.model_validate(told)


def _short(text: str | None) -> str | None:
    return None if text is None else files.one_line(text[:LONGEST])


def _strategy(name: str, arm: Arm, *, matched: bool) -> dict[str, Any]:
    """What the manifest keeps of a way of asking. Where it is one of ours, by which another tool asked questions of
    ours, a chain of beliefs was asked for as that strategy does. Whether letters were shown is kept with each reply."""
    chain = matched and arm.ours and name in strategies() and Strategy.load(name).chain
    return {"digest": None, "max_tokens": None, "chain": chain}


def put(folder: Path, items: ItemStore, rows: Path, manifest: Manifest) -> bool:
    """Write a run into its folder. Returns whether it was new; a folder that holds just this run stays as it is.

    Raises ConfigError for a folder that holds anything else, JournalError and MachineError where it cannot be written.
    """
    if was_there(folder, items, rows, manifest):
        return False
    with runfolder.RunFolder(folder) as run:
        if was_there(folder, items, rows, manifest):  # another process was quicker
            return False
        with rows.open("rb") as file:
            write_chunks(folder / runs_journal.JOURNAL, iter(lambda: file.read(1 << 20), b""))
        write_chunks(folder / ITEMS, (line + b"\n" for line in items.lines))
        run.write_manifest(manifest)
        foreign = manifest.foreign
        assert foreign is not None
        files_read = count_noun(len(foreign.files), "file")
        run.log(f"{count_noun(foreign.samples, 'reply', 'replies')} brought from {files_read} of {foreign.tool}")
    return True


def was_there(folder: Path, items: ItemStore, rows: Path, manifest: Manifest) -> bool:
    """Whether a folder holds just this run. Raises ConfigError where it holds another one, or anything else but what an
    interrupted import has left."""
    there = Manifest.read(folder) if folder.is_dir() else None
    if there is None:
        if folder.is_dir():
            _check_left(folder)
        return False
    way_out = "bring these files into a new run by --run NEW"
    if there.foreign is None:
        raise ConfigError(f"{folder}: holds another run; {way_out}")
    journal, wanted = runs_journal.journal_path(folder), manifest.foreign
    assert wanted is not None
    same = (
        [one.digest for one in there.foreign.files] == [one.digest for one in wanted.files]
        and (there.foreign.counts, there.benchmark) == (wanted.counts, manifest.benchmark)
        and journal.exists()
        and digest_file(journal) == digest_file(rows)
        and _holds_just(folder / ITEMS, items)
    )
    if not same:
        raise ConfigError(f"{folder}: holds an import of other files, or by other options; {way_out}")
    return True


def _holds_just(path: Path, items: ItemStore) -> bool:
    """Whether a file holds these items in their order, and nothing else."""
    if not path.exists() or path.stat().st_size != items.size:
        return False
    with files.open_for_reading(path) as file:
        return all(line == own + b"\n" for line, own in zip(file, items.lines, strict=False))


def _check_left(folder: Path) -> None:
    """Raise ConfigError unless all in a folder without a manifest is what an interrupted import has left: nothing else
    writes a manifest last, and every row of an import says what was asked."""
    inside = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".tomserve-"))
    strange = [name for name in inside if name not in _LEFT]
    if not strange and runs_journal.JOURNAL in inside:
        with files.open_for_reading(folder / runs_journal.JOURNAL) as file:
            strange = [] if b'"asked":' in file.readline(1 << 26) else [runs_journal.JOURNAL]
    elif not strange and ITEMS in inside:  # an import writes its rows before
        strange = [ITEMS]
    if strange:
        raise ConfigError(
            f"{folder}: is no run, but holds {strange[0]!r:.80}; bring the files into a new run by --run NEW, or move "
            "it away"
        )
