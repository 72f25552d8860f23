"""Merges the parts of an evaluation, or any runs that ask the same, into an ordinary run.

It may be done at any time, also while parts are still asked, and again later: what is merged is replaced as a whole,
and what is there already counts as one more source, so that nothing of it is lost where it was resumed meanwhile (see
tomserve.shards.joining for which rows are taken from where).

>>> merge([Path("runs/mine.parts")], Path("runs/mine")).complete                                  # doctest: +SKIP
True
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tomserve.content import files, temporary
from tomserve.content.files import digest_file
from tomserve.content.paths import PARTS_ENDING, run_name
from tomserve.errors import ConfigError, JournalError, RunMismatchError
from tomserve.runs import journal, runfolder, verification
from tomserve.runs.manifest import Manifest, MergedPart, explain_closed
from tomserve.runs.progress import Listener, SilentListener, Stop
from tomserve.runs.runfolder import RunFolder, check_files, missing_manifest_error
from tomserve.scoring.responses import NOISE, place_of
from tomserve.shards import history, joining, reader
from tomserve.shards.history import Told
from tomserve.shards.questions import Gathered, gather
from tomserve.shards.record import FILE, Shards, part_folder


@dataclass(frozen=True)
class Merged:
    """What a merging made.

    folder: of the merged run. parts: how many runs were merged. missing: the parts that are not there.
    rows, bytes: of its journal. answered: how many conversations have ended. wanted: how many there are to be.
    complete: whether all have. changed: whether anything of the run is another than before. seconds: how long it took.
    """

    folder: Path
    parts: int
    missing: tuple[Path, ...]
    rows: int
    bytes: int
    answered: int
    wanted: int
    complete: bool
    changed: bool
    seconds: float


@dataclass(frozen=True)
class _Source:
    """A run that is merged. manifest: None where nothing was asked of it yet. own: whether it is the merged run."""

    folder: Path
    name: str
    manifest: Manifest | None
    own: bool = False

    @property
    def told(self) -> list[Told]:
        return [] if self.manifest is None else [Told(self.name, self.folder, self.manifest, self.own)]


def merge(sources: Sequence[Path], into: Path, listener: Listener | None = None, stop: Stop | None = None) -> Merged:
    """Merge runs into one.

    sources: their folders, or folders of parts, which stand for all of their parts. into: the folder of the merged run;
    it is made, or is that of an earlier merging, which is a source as well. listener: told how far it is [nobody].
    stop: ends it early; then the merged run stays as it was.

    Raises ConfigError, by file and line, for what cannot be read; RunMismatchError where the runs do not ask the same,
    and where `into` holds something else; MachineError where it is in use; JournalError where it cannot be written.
    """
    began, listener, stop = time.monotonic(), listener or SilentListener(), stop or Stop()
    folders, shards, missing = _folders(sources, into)
    found = sorted((_source(folder) for folder in folders), key=lambda one: (one.name, str(one.folder)))
    if shards is None and not any(one.manifest for one in found):
        raise ConfigError(f"{folders[0]}: nothing was asked of it yet (manifest.json is missing); ask it first")
    history.check_same([told for one in found for told in one.told], shards)
    new = not into.exists()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(RunFolder(into))
        if new:
            stack.callback(_unmake, into)
        found = [*found, *_own(into)]
        told = [one for source in found for one in source.told]
        history.check_same(told, shards)
        journal.restore_journal(into, listener.message)
        try:
            work = _Work(folder, found, told, shards, listener, stop)
            done = work.run(complete=not missing)
        except OSError as error:
            raise JournalError(
                f"{error.filename or into}: cannot be used ({error.strerror or error}); the run is as it was, so free "
                "space and repeat the command"
            ) from None
    parts = len(found) - sum(one.own for one in found)
    return Merged(into, parts, missing, *done, time.monotonic() - began)


def _folders(sources: Sequence[Path], into: Path) -> tuple[list[Path], Shards | None, tuple[Path, ...]]:
    """The folders of the runs that are merged, each once; what they are parts of; and which parts are not there."""
    shards: Shards | None = None
    folders: dict[Path, Path] = {}
    missing: list[Path] = []
    for source in sources:
        if not (source / FILE).exists():
            folders[source.resolve()] = source
            continue
        record = Shards.read(source)
        if shards is not None and shards.digest != record.digest:
            raise RunMismatchError(
                f"{source}: holds parts of another evaluation than the folder before it; merge each by itself, then "
                "the runs that this makes"
            )
        shards = record
        for number in range(len(record.parts)):
            path = part_folder(source, number)
            if path.is_dir():
                folders[path.resolve()] = path
            else:
                missing.append(path)
    if into.resolve() in folders:
        raise ConfigError(f"{into}: is to be merged, and to be what is merged into; name another run by --into")
    if not folders:
        raise ConfigError("nothing is there to be merged; give a run, or a folder of parts")
    return list(folders.values()), shards, tuple(missing)


def _source(folder: Path) -> _Source:
    """A run that is to be merged. Raises ConfigError where the folder holds none."""
    check_files(folder)
    manifest = Manifest.read(folder)
    if manifest is None:
        if journal.has_journal(folder) and journal.file_size(folder / runfolder.JOURNAL):
            raise missing_manifest_error(folder / runfolder.JOURNAL)
        if not (folder / runfolder.ITEMS).exists():
            raise ConfigError(f"{folder}: no run there (manifest.json is missing); name runs, or a folder of parts")
    if manifest is not None and manifest.foreign is not None:
        held = explain_closed(False, manifest.foreign)
        raise ConfigError(f"{folder}: holds {held}; they are joined by one `tomserve import` of all files, not merged")
    name = run_name(folder)
    if "/" not in name and folder.absolute().parent.name.endswith(PARTS_ENDING):  # a part that lies elsewhere
        name = f"{folder.absolute().parent.name}/{name}"
    return _Source(folder, name, manifest)


def _own(into: Path) -> list[_Source]:
    """What the merged run holds already. Raises RunMismatchError where that was not made by merging."""
    manifest = Manifest.read(into)
    if manifest is None:
        if (into / runfolder.JOURNAL).exists():
            raise missing_manifest_error(into / runfolder.JOURNAL)
        return []
    if manifest.parts is None:
        raise RunMismatchError(
            f"{into}: holds a run that was not made by merging; name another one by --into, and this one among those "
            "that are merged if it belongs to them"
        )
    return [_Source(into, run_name(into), manifest, own=True)]


def _unmake(into: Path) -> None:
    """Remove the folder of a merged run again where nothing came of it."""
    if not (into / "manifest.json").exists():
        with contextlib.suppress(OSError):
            (into / ".lock").unlink()
            into.rmdir()


@dataclass(frozen=True)
class _Work:
    """The merging of runs that were found to ask the same. folder: of the merged run, which is locked."""

    folder: RunFolder
    sources: Sequence[_Source]
    told: Sequence[Told]
    shards: Shards | None
    listener: Listener
    stop: Stop

    def run(self, *, complete: bool) -> tuple[int, int, int, int, bool, bool]:
        """Do it. complete: whether every part is there. Returns the fields of `Merged` from `rows` to `changed`."""
        into = self.folder.path
        manifest = history.united(run_name(into), self.told, self.shards, ())
        with contextlib.ExitStack() as stack:
            items = stack.enter_context(temporary.file(into))
            gathered = gather([one.folder / runfolder.ITEMS for one in self.sources], items)
            made: list[tuple[IO[bytes], Path]] = [(items, into / runfolder.ITEMS)]
            read, rows, joined = self._joined(stack, made, gathered, manifest, runfolder.JOURNAL)
            again, _, _ = self._joined(stack, made, gathered, manifest, NOISE)
            merged = [self._part(one, read) for one in self.sources if not one.own]
            manifest = history.united(run_name(into), self.told, self.shards, merged)
            places = {place_of(key) for one in again.values() for key in one.keys}
            history.note_checks(manifest, self.told, apart=not gathered.shared, again=len(places))
            wanted = len(gathered.ids) * len(manifest.strategies) * manifest.repeats
            manifest.complete = complete and joined.ended == wanted
            reader.unite([one.folder for one in self.sources], stack, into, made)
            changed = self._put(made, manifest)
        return rows.rows, rows.bytes, joined.ended, wanted, manifest.complete, changed

    def _joined(
        self,
        stack: contextlib.ExitStack,
        made: list[tuple[IO[bytes], Path]],
        gathered: Gathered,
        manifest: Manifest,
        name: str,
    ) -> tuple[dict[Path, joining.Journal], joining.Written, joining.Joined]:
        """The journals of that name, by the folders of their runs, joined into one of the files that are made."""
        places = {
            one.folder: journal.journal_path(one.folder) if name == runfolder.JOURNAL else one.folder / name
            for one in self.sources
        }
        paths = {folder: path for folder, path in places.items() if path.exists()}
        total = sum(path.stat().st_size for path in paths.values())
        talking = {strategy: one.turns != 1 for strategy, one in manifest.strategies.items()}
        asked = joining.Asked(gathered.ids, talking, manifest.repeats, levels=name == NOISE)
        pace = joining.Pace(f"reading {name}", total, self.listener.message, self.stop.check)
        read = {folder: joining.read(path, asked, pace) for folder, path in paths.items()}
        joined = joining.join(list(read.values()))
        if not paths and name == NOISE:
            return {}, joining.Written(0, 0, ""), joined
        out = stack.enter_context(temporary.file(self.folder.path))
        pace = joining.Pace(f"writing {name}", total, self.listener.message, self.stop.check)
        rows = joining.copy(list(read.values()), joined.lost, out, pace)
        made.append((out, self.folder.path / name))
        return read, rows, joined

    def _part(self, source: _Source, read: dict[Path, joining.Journal]) -> MergedPart:
        """The record of a run that was merged."""
        if (journal := read.get(source.folder)) is None:
            return MergedPart(run=source.name)
        complete = source.manifest is not None and source.manifest.complete
        file = journal.file
        return MergedPart(run=source.name, rows=file.count, bytes=file.size, digest=file.digest, complete=complete)

    def _put(self, made: Sequence[tuple[IO[bytes], Path]], manifest: Manifest) -> bool:
        """Put the files that were made in their places, those that are other ones than before. Returns whether any is.

        Whenever this is ended, what is there is a run that the same command completes.
        """
        for file, _ in made:
            file.flush()
        new = [
            (file, path)
            for file, path in made
            if not path.exists() or digest_file(Path(file.name)) != digest_file(path)
        ]
        before = Manifest.read(self.folder.path)
        if not new and before is not None and before.to_dict() == manifest.to_dict():
            return False
        if new and (self.folder.path / verification.SEAL_FILE).exists():
            raise RunMismatchError(
                f"{self.folder.path}: is sealed, and merging would change it; merge into another run by --into, or "
                f"delete {verification.SEAL_FILE}"
            )
        if new and (before is None or before.complete):
            self.folder.write_manifest(manifest.model_copy(update={"complete": False}))
        for file, path in new:
            files.put_in_place(file, path)
        self.folder.write_manifest(manifest)
        self.folder.log(f"merged {sum(not one.own for one in self.sources)} runs; complete: {manifest.complete}")
        return True
