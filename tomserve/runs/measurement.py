"""Runs that hold a measurement instead of answers: a table of what was found inside of a model, and its settings.

The folder is that of any run; what a measurement has done so far lies in its folder ``work``. The table cannot be
made from the other files, so that it is never scored again: its digest in the manifest says that it is the one that
was measured.

    with MeasuredRun.open(folder, study="mine", model="m", revision=None, benchmark="b", benchmark_digest=digest,
                          settings={"layers": 8}) as run:
        if not run.complete:
            run.write_items(items)
            run.finish(measure(run.work_file("states.bin")))

A process that is killed at any moment leaves a run that is either complete or is taken up by the same call.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import polars as pl

from tomserve._version import __version__
from tomserve.content import files
from tomserve.content.files import digest_bytes, digest_file
from tomserve.content.paths import run_name
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, JournalError, RunMismatchError
from tomserve.items import Item, write_items
from tomserve.runs import runfolder
from tomserve.runs.manifest import Manifest, Session, TableRecord, make_portable, refuse_difference, short_text
from tomserve.runs.runfolder import CARD, RunFolder, check_files
from tomserve.scoring.table import MEASURED, check_columns


def check_work(path: Path) -> None:
    """Raise ConfigError for anything but files and folders in the folder of work, however deep: a link there could have
    a measurement read or write other files of the user, and a pipe would have it wait for ever."""
    check_work_folder(path)
    for folder, names, other in os.walk(path):
        for name in names:
            check_work_folder(Path(folder) / name)
        for name in other:
            files.check_regular(Path(folder) / name, alone=True)


def check_work_folder(path: Path) -> None:
    """Raise ConfigError unless there is a folder at that path, which is no link, or nothing at all."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
        raise ConfigError(f"{path}: is no folder of this run (a link, or a file); move it away")


WORK = "work"  # the folder, inside that of the run, for what a measurement has done so far

FIXED = ("study", "benchmark", "benchmark_digest", "model", "revision")
"""Fields of the manifest that must stay the same within a measured run. All of its settings must, too."""

NEW = "use --run NEW for a new run"


class MeasuredRun:
    """A measured run that is open for writing: its folder is locked until the context is left. path: the run's folder.
    complete: whether the table of these settings has been measured already, so that nothing is left to do."""

    def __init__(self, folder: RunFolder, manifest: Manifest, *, complete: bool) -> None:
        self.path, self.complete = folder.path, complete
        self._folder, self._manifest = folder, manifest

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        study: str,
        model: str,
        revision: str | None,
        benchmark: str,
        benchmark_digest: str | None,
        settings: Mapping[str, Any],
        environment: Mapping[str, Any] | None = None,
        command: str | None = None,
    ) -> MeasuredRun:
        """Begin a measured run, or go on with one that was interrupted. study: the study that reads the table.
        benchmark, benchmark_digest: where the items come from. settings: everything else that decides what the table
        will hold, as JSON can hold it (NumPy numbers and tuples are taken as well). environment: hardware and versions
        of libraries, which may differ between sessions. command: what makes the run again. Raises RunMismatchError by
        the first difference where the folder holds another measurement that has begun, or answers; ConfigError and
        MachineError as RunFolder does."""
        path = folder
        given = {
            **{"schema": 1, "run": run_name(path), "kind": MEASURED, "study": study},
            **({} if command is None else {"command": make_portable(command)}),
            **{"benchmark": benchmark, "benchmark_digest": benchmark_digest},
            **{"model": model, "revision": revision, "strategies": {}, "sessions": []},
            **{"tomserve": __version__, "python": platform.python_version(), "platform": platform.platform()},
            **{"created": utc_now(), "settings": as_plain_json(settings), "complete": False},
        }
        manifest, locked = Manifest.model_validate(given), RunFolder(path)
        try:
            check_work(path / WORK)
            old = Manifest.read(path)
            if old is None and os.path.lexists(path / CARD):
                raise RunMismatchError(
                    f"{path}: somebody's experiment of that name waits in the queue of the workbench; use --run NEW"
                )
            if old is not None:
                _check_same(path, old, manifest)
                manifest.created, manifest.sessions = old.created, old.sessions
                if old.complete and old.table is not None and _is_table(path / runfolder.TABLE, old.table):
                    return cls(locked, old, complete=True)
            session = {"time": utc_now(), "tomserve": __version__, "measured_on": as_plain_json(environment or {})}
            manifest.sessions = [*manifest.sessions, Session.model_validate(session)]
            locked.write_manifest(manifest)
        except BaseException:
            locked.__exit__(None, None, None)
            raise
        return cls(locked, manifest, complete=False)

    def __enter__(self) -> MeasuredRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.__exit__(kind, error, trace)

    def log(self, message: str) -> None:
        """Add a line with the time to the run's ``log.txt``; an error of writing is ignored."""
        self._folder.log(message)

    def note_environment(self, found: Mapping[str, Any]) -> None:
        """Note in the manifest what this session turned out to measure on, beside the environment it was opened with.
        found: more names and values, or others in place of those that were given. Raises JournalError."""
        session = self._manifest.sessions[-1]
        session.measured_on = {**(session.measured_on or {}), **as_plain_json(found)}
        self._folder.write_manifest(self._manifest)

    def write_items(self, items: Iterable[Item]) -> int:
        """Keep the items that are measured in ``items.jsonl``. Returns how many there are. Raises JournalError."""
        count = write_items(self.path / runfolder.ITEMS, items)
        self._manifest.benchmark_items = count
        self._folder.write_manifest(self._manifest)
        return count

    @property
    def work(self) -> Path:
        """The folder for what has been done so far, made where it is missing."""
        path = self.path / WORK
        check_work_folder(path)
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise JournalError(f"{path}: cannot be made ({error.strerror}); free space, then repeat it") from None
        return path

    def work_file(self, name: str) -> Path:
        """The path of a file in the folder of work, which is a regular file or does not exist yet. Raises ConfigError
        for a link, a folder, or a file with a second name, and as `work` does."""
        path = self.work / name
        files.check_regular(path, alone=True)
        return path

    def clear_work(self) -> None:
        """Remove the folder of work with all that is in it; what a link in it leads to stays. Raises ConfigError where
        the folder itself is a link."""
        check_work_folder(self.path / WORK)
        shutil.rmtree(self.path / WORK, ignore_errors=True)

    def finish(self, table: pl.DataFrame | Path) -> None:
        """Keep the measured table in ``scores.parquet`` and mark the run as complete. table: the rows, or a Parquet
        file of them, which stays where it is. Raises JournalError where it cannot be written."""
        path = self.path / runfolder.TABLE
        try:
            with files.replace_file(path) as file:
                if isinstance(table, Path):
                    with files.open_for_reading(table) as source:
                        shutil.copyfileobj(source, file, 1 << 20)
                else:
                    table.write_parquet(file)
            size, digest = digest_file(path)
            rows = files.scan_parquet(path).select(pl.len()).collect().item()
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
            raise JournalError(f"{path}: cannot be written ({reason})") from None
        self._manifest.table = TableRecord(file=path.name, bytes=size, digest=digest, rows=rows)
        self._manifest.complete = self.complete = True
        self._folder.write_manifest(self._manifest)


def measured_manifest(folder: Path) -> Manifest | None:
    """The manifest of a run if it is a measured one; None for a run of answers, and where there is no run. Raises
    ConfigError where the manifest is broken."""
    check_files(folder)
    manifest = Manifest.read(folder)
    return manifest if manifest is not None and manifest.measured else None


def refuse_measured(folder: Path, what: str, way_out: str = "") -> None:
    """Raise ConfigError where that run is a measured one. what: what cannot be done, to follow "it", such as "cannot be
    scored again". way_out: what to do instead of measuring it again."""
    if (manifest := measured_manifest(folder)) is not None:
        error = f"{folder}: holds a measurement and no answers, so that it {what}"
        raise ConfigError(f"{error}; {way_out or suggest_repeat(manifest)}")


def suggest_repeat(manifest: Manifest) -> str:
    """How a measured run is made again: by its command, where that is safe to be shown, as it may be a stranger's."""
    command = manifest.command or ""
    if re.fullmatch(r"tomserve [\w ./:=,@+-]{1,300}", command) and " /" not in command:
        return f"to measure again: `{command} --run NEW`"
    return "to measure again, repeat the command that made it with --run NEW"


def read_table_bytes(folder: Path, manifest: Manifest) -> tuple[bytes, runfolder.Record]:
    """The bytes of a measured run's table, and its record. Raises ConfigError where the measurement is not finished,
    and where the table is missing or another one than was measured."""
    table = manifest.table
    if not manifest.complete or table is None:
        raise ConfigError(f"{folder}: its measurement is not finished; repeat the command that began it to go on")
    path = folder / runfolder.TABLE
    with files.refuse_os_errors(path, way_out=suggest_repeat(manifest)), files.open_for_reading(path) as file:
        found = file.read()
    if digest_bytes(found) != table.digest:
        raise ConfigError(
            f"{path}: is not the table that was measured (its digest is another one); {suggest_repeat(manifest)}"
        )
    items = {runfolder.ITEMS: digest_file(folder / runfolder.ITEMS)} if (folder / runfolder.ITEMS).exists() else {}
    described = {name: {"bytes": size, "digest": digest} for name, (size, digest) in items.items()}
    return found, {"schema": 1, "run": run_name(folder), "model": manifest.model, "files": described,
                   "table": table.digest}  # fmt: skip


def read_measurement(folder: Path, manifest: Manifest) -> tuple[pl.DataFrame, runfolder.Record]:
    """The table of a measured run as it was measured, and its record. Raises ConfigError as `read_table_bytes` does,
    and where the file holds no table, or one without rows."""
    table, record = read_table_bytes(folder, manifest)
    try:
        frame = files.read_foreign_parquet(folder / runfolder.TABLE, table)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = " ".join(str(error).split())[:120]
        raise ConfigError(
            f"{folder / runfolder.TABLE}: not a parquet table ({reason}); {suggest_repeat(manifest)}"
        ) from None
    if frame.is_empty():
        raise ConfigError(f"{folder / runfolder.TABLE}: holds no rows; {suggest_repeat(manifest)}")
    check_columns(frame, str(folder / runfolder.TABLE))
    return frame, record


def as_plain_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON gives them back, so that those of two sessions can be compared."""
    made: dict[str, Any] = orjson.loads(
        orjson.dumps(dict(value), option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    )
    return made


def environment_changes(manifest: Mapping[str, Any]) -> list[str]:
    """A sentence for each part of the environment that changed between two sessions of a measured run. manifest: as a
    dictionary."""
    sentences, before = [], None
    for session in manifest.get("sessions") or []:
        if not (now_there := session.get("measured_on")):
            continue  # it ended before it measured anything
        for name in dict.fromkeys((*(before or {}), *now_there)):
            if before is not None and before.get(name) != now_there.get(name):
                was, is_now = (files.one_line(short_text(one.get(name))) for one in (before, now_there))
                sentences.append(
                    f"{name} was {was} until the session of {short_text(session.get('time'))}, then {is_now}"
                )
        before = now_there
    return sentences


def _check_same(folder: Path, old: Manifest, new: Manifest) -> None:
    """Raise RunMismatchError at the first difference to the old manifest that a measured run may not have."""
    if not old.measured:
        raise RunMismatchError(f"{folder}: holds a model's answers and no measurement; {NEW}")
    if not _has_begun(folder):
        return  # nothing was measured yet, so that nothing can be mixed
    before, wanted = (
        {name: getattr(one, name) for name in FIXED}
        | {f"settings.{name}": value for name, value in one.settings.items()}
        for one in (old, new)
    )
    refuse_difference(folder, before, wanted, NEW)


def _is_table(path: Path, table: TableRecord) -> bool:
    """Whether the file at that path is the table that the manifest records."""
    with contextlib.suppress(OSError):
        return digest_file(path)[1] == table.digest
    return False


def _has_begun(folder: Path) -> bool:
    """Whether anything of a measurement is there already: its table, or a file of work."""
    with contextlib.suppress(OSError):
        if any((folder / WORK).iterdir()):
            return True
    return (folder / runfolder.TABLE).exists()
