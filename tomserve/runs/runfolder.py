"""The run folder ``runs/<run>/``: its place and name, its lock, its files, and whether its score table is up to date.

On a command line, RUN is the name of a folder under ``./runs`` (or ``TOMSERVE_RUNS``), such as ``mine`` or
``pilot/mine``, or a path that begins with ``./``, ``../``, ``~`` or ``/``."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from tomserve.content import digest_of, files
from tomserve.content.paths import PARTS_ENDING, run_name, runs_root
from tomserve.content.validation import RUN_PART
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, InUseError, JournalError, MachineError, RunMismatchError, one_of
from tomserve.items import read_ids, read_items, write_chunks
from tomserve.runs import journal
from tomserve.runs.item_store import ItemStore, sort_places
from tomserve.runs.journal import read_rows
from tomserve.runs.manifest import Manifest, refuse_closed
from tomserve.scoring.responses import NOISE
from tomserve.scoring.table import MEASURED

CHANGED = ("responses.jsonl", "noise.jsonl", "reader.jsonl", "log.txt", "server.log", "console.txt", ".lock")
"""Files of a run that are written to in place."""

CARD = "workbench.json"
"""What a workbench keeps of a run: whose it is, and its place in the queue (see tomserve.web.run_index)."""

REPLACED = (
    *("manifest.json", "items.jsonl", "reader.json", "scores.parquet", "report.html", "seal.json"),
    "responses.parquet",
    *("progress.json", CARD, "experiment.yaml", "batch.json"),
)
"""Files of a run that are never changed in place, but replaced as a whole."""


PARTS = "shards.json"
"""The record in a folder that holds the parts (shards) of an evaluation, each of which is a run folder."""

LOOKS, LOOK = 25, 0.01  # how often a lock that is held is tried again, and after how many seconds


def run_path(run: str) -> Path:
    """The folder of a run given by name or path; it need not exist. A text that begins with ``/``, ``./``, ``../`` or
    ``~`` is a path, any other a name below the folder of all runs, with or without ``runs/`` before it; only where
    there is no run of that name, but one at that path from the working directory, that one is meant. Raises ConfigError
    for characters that file names should not have, and ``..``."""
    if run.startswith(("/", "./", "../", "~")):
        return Path(run).expanduser()
    root, given = runs_root(), Path(run)
    parts = (given.relative_to(root) if root in given.parents else given).parts
    if not parts or not all(RUN_PART.fullmatch(part) for part in parts):
        raise ConfigError(
            f"run name {run!r}: use letters, digits, '.', '_' and '-', not beginning with '.' or '-', and '/' for "
            "folders, none of them called as a file of a run is; to give a path, begin it with ./ or /"
        )
    path = root.joinpath(*parts)
    return given if "/" in run and _is_run(given) and not _is_run(path) else path


DEEPEST = 100  # folders within each other in which runs are looked for


def runs_below(folder: Path, deepest: int = DEEPEST) -> Iterator[Path]:
    """Yield the folders of all runs below a folder, by name, at most so deep. What lies in a run is not searched, nor
    what a link leads to, unless it is a run; parts of an evaluation are left out."""
    if holds_parts(folder) or not deepest:
        return
    try:
        with os.scandir(folder) as entries:
            inside = sorted((one for one in entries if one.is_dir()), key=lambda one: one.name)
    except OSError:
        return
    for entry in inside:
        if _is_run(path := folder / entry.name):
            yield path
        elif not entry.is_symlink() and not entry.name.startswith("."):
            yield from runs_below(path, deepest - 1)


def _is_run(folder: Path) -> bool:
    return os.path.exists(folder / "manifest.json")


def holds_parts(folder: Path) -> bool:
    """Whether a folder holds the parts of an evaluation that was divided."""
    return os.path.lexists(folder / PARTS)


def newest_first() -> list[Path]:
    """The folders of all runs, beginning with the newest: the one whose manifest was written last. The time of a file
    only decides which run is shown here. Whether something is up to date never depends on it."""
    folders = runs_below(runs_root())
    return sorted(folders, key=lambda path: ((path / "manifest.json").stat().st_mtime_ns, path), reverse=True)


def find_run(run: str | None) -> Path:
    """The folder of a run that exists; None for the newest. Raises ConfigError that lists the runs there are."""
    if run is None:
        if not (folders := newest_first()):
            raise ConfigError(f"no runs in {runs_root()}/; make one with `tomserve eval` (or `make eval`)")
        check_files(folders[0])
        return folders[0]
    path = run_path(run)
    if not _is_run(path):
        for parts in (path, path.with_name(path.name + PARTS_ENDING)):
            if holds_parts(parts):
                name = run_name(parts).removesuffix(PARTS_ENDING)
                raise ConfigError(
                    f"{path}: no run yet, but {parts} holds its parts; `tomserve merge {name}` joins them"
                )
        if below := [run_name(found) for found in runs_below(path)] if path.is_dir() else []:
            raise ConfigError(
                f"{path}: is no run itself, but holds {len(below)}; name {' and '.join(below[:3])} instead, with "
                "--study functional for the three layers of one model"
            )
        names = [found.relative_to(runs_root()).as_posix() for found in runs_below(runs_root())]
        raise ConfigError(f"{path}: no run there (manifest.json is missing); {one_of('run', run, names)}")
    check_files(path)
    return path


def find_answered_run(run: str | None) -> Path:
    """The folder of a run that exists; None for the newest one that holds answers, whatever was measured since. Raises
    ConfigError as `find_run` does, and where there is no run of answers."""
    if run is not None:
        return find_run(run)
    for folder in newest_first():
        if (read_manifest(folder) or {}).get("kind") != MEASURED:
            return folder
    raise ConfigError(f"no run in {runs_root()}/ holds answers; make one with `tomserve eval` (or `make eval`)")


def answers_folder(run: str) -> Path:
    """The folder of a run, given by name or path, that is to hold answers; it need not exist. Raises ConfigError as
    `run_path` does, RunMismatchError for a measurement or another tool's replies."""
    path = run_path(run)
    if _is_run(path):
        check_files(path)
        if (old := Manifest.read(path)) is not None:
            refuse_closed(path, old.measured, old.foreign)
    return path


def check_files(folder: Path, *, change: bool = False) -> None:
    """Raise ConfigError at the first file of a run that is a link, a pipe, a folder or the like, as a run may come from
    somebody else. change: whether it is resumed: then files that are written to in place may have no hard link."""
    for name in REPLACED + CHANGED:
        files.check_regular(folder / name, alone=change and name in CHANGED)
        files.refuse_hole(folder / name)


def default_name(benchmark: str, model: str) -> str:
    """The name ``<benchmark>-<model>`` of a run, in which characters unusual in file names are replaced by '-'."""
    return f"{benchmark}-{re.sub(r'[^A-Za-z0-9._-]+', '-', model).strip('-.') or 'model'}"[:200]


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a run as a dictionary; None where there is none. Raises ConfigError that names the field where
    the manifest is broken, and as `check_files` does."""
    check_files(folder)
    manifest = Manifest.read(folder)
    return None if manifest is None else manifest.to_dict()


def missing_manifest_error(journal: Path) -> RunMismatchError:
    """The error for a run folder that holds a journal with rows but no manifest."""
    return RunMismatchError(f"{journal} is there without a manifest.json; restore it, or use --run NEW")


def read_asked_items(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The ids of the items that the run was ever to ask, and of those that its noise check has asked again."""
    items = folder / "items.jsonl"
    asked = frozenset(read_ids(items)) if items.exists() else frozenset()
    return asked, frozenset(row["item"] for _, row in read_rows(folder / NOISE))


def store_items(folder: Path, items: ItemStore, *, fresh: bool) -> list[str]:
    """Keep every item that the run was ever to ask in ``items.jsonl``, and return their ids. fresh: whether to drop the
    items of an earlier attempt that asked nothing. Items that are there were checked when they were written: only their
    ids are read, and nothing where the file holds exactly these items."""
    path = folder / "items.jsonl"
    there = path.exists() and not fresh
    if there and _holds_just(path, items):
        return items.ids
    own = frozenset(items.ids if there else ())
    known = list(read_ids(path) if there else ())
    if not known or len(own) > sum(name in own for name in known):  # ids in the file are all different
        every = items.concat(ItemStore(item for item in read_items(path) if item.id not in own)) if there else items
        order = sort_places(name.encode() for name in every.ids)
        write_chunks(path, (every.lines[place] + b"\n" for place in order))
        known = every.ids
    return known


def _holds_just(path: Path, items: ItemStore) -> bool:
    """Whether a file has a line for each of these items, and no other line."""
    if path.stat().st_size != items.size:
        return False
    with files.open_for_reading(path) as file:
        return digest_of(line.removesuffix(b"\n") for line in files.read_lines(file, path)) == items.digest()


def _check_place(folder: Path) -> None:
    """Raise ConfigError where a new run would lie in another run, or around others: no list would show all of them."""
    root, whole = runs_root().resolve(), folder.resolve()
    if holds_parts(whole) or (holds_parts(whole.parent) and not re.fullmatch(r"\d{4}", whole.name)):
        raise ConfigError(f"{folder}: is where the parts of an evaluation lie; choose a name outside of it")
    if _is_run(whole) or not (whole == root or root in whole.parents):
        return
    for parent in whole.parents:
        if parent == root:
            break
        if _is_run(parent):
            raise ConfigError(f"{folder}: lies in {parent}, which is a run itself; choose a name outside of it")
    if (other := next(runs_below(whole), None)) is not None:
        raise ConfigError(f"{folder}: holds other runs, such as {other.relative_to(whole)}; choose a name of its own")


class RunFolder:
    """A run folder that is locked by this process until the context is left. Raises MachineError while another process
    holds the lock, and where the folder cannot be written; raises ConfigError as `check_files` does, and for a new run
    in another run or around others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_place(path)
        try:
            if not path.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                files.sync_folder(path.parent)
            check_files(path, change=True)
            self._lock = files.open_regular(path / ".lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            hint = "choose a writable place by TOMSERVE_RUNS or --run PATH"
            raise MachineError(f"{path}: cannot be written ({error.strerror}); {hint}") from None
        try:
            for _ in range(LOOKS):  # a look at whether the run is in use holds the lock for a moment
                if files.try_lock(self._lock):
                    break
                time.sleep(LOOK)
            else:
                holder = os.pread(self._lock, 100, 0).decode("ascii", "replace").strip()
                holder = holder if holder.isdigit() else "unknown"
                raise InUseError(
                    f"{path}: in use by another tomserve process (pid {holder}); wait for it, or use --run NEW"
                )
        except OSError as error:  # a file system without locks, or a server that is gone
            os.close(self._lock)
            raise MachineError(
                f"{path}: cannot be locked ({error.strerror}), so that two programs could write to it at once; choose "
                "a place on another disk by TOMSERVE_RUNS or --run PATH"
            ) from None
        except InUseError:
            os.close(self._lock)
            raise
        with contextlib.suppress(OSError):  # the number only serves the message for whoever finds the run locked
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)  # the kernel drops the lock, also when the process is killed

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest in one step. Raises JournalError where the folder cannot be written any more, and
        ConfigError for a text that it cannot hold."""
        path = self.path / "manifest.json"
        try:
            text = orjson.dumps(manifest.to_dict(), option=orjson.OPT_INDENT_2) + b"\n"
        except TypeError:  # as of a file's name
            raise ConfigError(f"{path}: cannot hold a name that is no UTF-8; rename the file that is given") from None
        try:
            files.replace_bytes(path, text)
        except OSError as error:
            raise JournalError(f"{path}: cannot be written ({error.strerror})") from None

    def log(self, message: str) -> None:
        """Add a line with the time to ``log.txt``. An error is ignored, because a log must not end a run."""
        line = f"{utc_now()} {files.one_line(message)}\n".encode()
        with contextlib.suppress(OSError, ConfigError):
            log = files.open_regular(self.path / "log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with os.fdopen(log, "ab") as file:
                file.write(line)


TABLE = "scores.parquet"  # the file that keeps a run's score table
JOURNAL, ITEMS = journal.JOURNAL, "items.jsonl"  # the files of a run folder that hold its rows and its items

Record = Mapping[str, Any]
"""What a table was made from: `run`, `model`, `chains`, `turns` (of each strategy that has not exactly one), `lettered`
(the strategies that show the choices as A, B, C), `files` (each with `bytes` and `digest`), `benchmark_file` (digest of
the file that declares the benchmark, None for a built-in one and where it was not given), `scorer`, and `table`, the
digest of the table's file. Of a measured run: `run`, `model`, `files` and `table`."""
