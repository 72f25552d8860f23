"""Merges the shards of an evaluation, or any runs that ask the same, into one ordinary run.

It may be done at any time, also while shards are still asked, and again later: what is merged is replaced as a whole,
and what is there already counts as one more source, so that nothing of it is lost where it was resumed meanwhile.

>>> merge([Path("runs/mine.parts")], Path("runs/mine")).complete                                  # doctest: +SKIP
True
"""

import contextlib
import hashlib
import heapq
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from tomserve._version import __version__
from tomserve.content import files
from tomserve.content.files import FileSnapshot, digest_file, one_line, open_for_reading
from tomserve.content.paths import PARTS_ENDING, run_name
from tomserve.distributed import journals
from tomserve.distributed.shards import ASKED, FILE, Shards, part_folder
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, JournalError, RunMismatchError
from tomserve.items import line_id
from tomserve.runs import journal, runfolder, verification
from tomserve.runs.manifest import (
    FIXED,
    AskedStrategy,
    Manifest,
    MergedPart,
    NoiseRecord,
    Session,
    VariantsRecord,
    explain_closed,
    short_text,
)
from tomserve.runs.noise_check import find_other_engines
from tomserve.runs.progress import Listener
from tomserve.runs.runfolder import RunFolder, check_files, missing_manifest_error
from tomserve.scoring.grades import JOURNAL, MARK, RECORD, GradeFiles, GraderChoices
from tomserve.scoring.responses import NOISE

PART = "part"  # the field of a session that says in which run it was; sessions of the merged run itself do not have it


@dataclass(frozen=True)
class _Source:
    """A run that is merged."""

    folder: Path
    name: str
    found: Manifest | None  # None where nothing was asked of it yet
    own: bool = False  # whether it is the merged run itself, which may have been resumed after it was merged

    @property
    def manifest(self) -> Manifest:
        """That of a run of which something was asked."""
        assert self.found is not None
        return self.found


def check_same_evaluation(runs: Sequence[_Source], shards: Shards | None) -> None:
    """Raise RunMismatchError at the first difference between runs that may not differ, because they then ask something
    else. shards: the record of what they are parts of, if they are."""
    known: dict[str, tuple[AskedStrategy, str]] = {}
    if shards is not None:
        known = {name: (one, "the record of the parts") for name, one in shards.strategies.items()}
    for one in runs:
        if one.manifest.measured:
            raise RunMismatchError(f"{one.folder}: holds a measurement and no answers, so it cannot be merged")
        first = runs[0]
        for name in (*FIXED, "adaptations"):
            there, here = getattr(first.manifest, name), getattr(one.manifest, name)
            if there != here:
                raise _differs(one, f"{name} is {short_text(here)}, in {first.folder} it is {short_text(there)}")
        if shards is not None and one.manifest.benchmark_digest != shards.benchmark_digest:
            raise _differs(one, "its benchmark is another one than in the record of the parts")
        for name, strategy in one.manifest.strategies.items():
            former, where = known.setdefault(name, (strategy, str(one.folder)))
            for key in AskedStrategy.model_fields:
                if (was := getattr(former, key)) != (here := getattr(strategy, key)):
                    said = f"strategy {name!r}: {key} is {short_text(here)}, in {where} it is {short_text(was)}"
                    raise _differs(one, said)


def _differs(one: _Source, said: str) -> RunMismatchError:
    return RunMismatchError(
        f"{one.folder}: {said}; only runs that ask the same can be merged, so leave one of them out"
    )


def merge_manifests(run: str, runs: Sequence[_Source], shards: Shards | None, parts: Sequence[MergedPart]) -> Manifest:
    """The manifest of the merged run, which is not complete yet.

    runs: those of which something was asked, the merged run last. shards: the record of what they are parts of, which
    says what is asked where no part was begun; else None. parts: the runs that are merged now.
    """
    given = _merge_settings(runs, shards)
    manifests = [one.manifest for one in runs]
    sessions = _sessions(runs)
    asked = [one for one in sessions if one.asked] or sessions
    last = asked[-1].time if asked else None
    oldest = min((one for one in manifests if one.created), key=lambda one: str(one.created), default=None)
    before = next((one.manifest.parts or [] for one in runs if one.own), [])
    merged = {one.run: one for one in (*before, *parts)}
    fields = {
        "schema": 1,
        "run": run,
        **given,
        "endpoints": sorted({address for one in manifests for address in one.endpoints}),
        "server": next((dict(one.server) for one in manifests if last in [each.time for each in one.sessions]), {}),
        "sessions": [one.to_dict() for one in sessions],
        "tomserve": oldest.tomserve if oldest else __version__,
        "python": oldest.python if oldest else platform.python_version(),
        "platform": oldest.platform if oldest else platform.platform(),
        "created": oldest.created if oldest else utc_now(),
        "limit": _limit(manifests, shards),
        "parts": [merged[name].model_dump() for name in sorted(merged)],
    }
    made = Manifest.model_validate(fields)
    for one in manifests:
        made.take_further_fields(one)
    return made


def _merge_settings(runs: Sequence[_Source], shards: Shards | None) -> dict[str, Any]:
    """The fields that say what was asked of which model, and by which strategies."""
    found: dict[str, Any] = {}
    strategies: dict[str, Any] = {}
    if shards is not None:
        found = shards.asked
        for name, one in shards.strategies.items():  # as a manifest holds them: what is as it mostly is, is left out
            always = {"digest": one.digest, "max_tokens": one.max_tokens, "chain": one.chain}
            strategies[name] = always | one.model_dump(exclude_defaults=True)
    for run in runs:
        there = run.manifest.to_dict()
        for name in (*ASKED, "benchmark_file", "adaptations"):
            if name in there:
                found.setdefault(name, there[name])
        for name, strategy in there["strategies"].items():
            strategies.setdefault(name, strategy)
    content = {name: place for run in runs for name, place in run.manifest.content.items()}
    if found.get("benchmark_gold") is None:
        found.pop("benchmark_gold", None)
    return {**found, "strategies": strategies, "content": content}


def _limit(manifests: Sequence[Manifest], shards: Shards | None) -> int | None:
    """To how many items the user limited the whole run; None for all, and where the runs had different limits."""
    if shards is not None:
        limit = shards.experiment.get("limit")
        return limit if type(limit) is int else None
    limits = {one.limit for one in manifests}
    return limits.pop() if len(limits) == 1 else None


def _sessions(runs: Sequence[_Source]) -> list[Session]:
    """The sessions of all runs in the order of their times, each once, with the run that each was in."""
    found: dict[tuple[str | None, str | None, int], Session] = {}
    for one in reversed(runs):  # of a session that the merged run knows already, the run itself knows more by now
        count: Counter[tuple[str | None, str | None]] = Counter()
        for session in one.manifest.sessions:
            held = session.to_dict()
            part = held.get(PART) if isinstance(held.get(PART), str) else None if one.own else one.name
            place = (part, session.time)
            found[*place, count[place]] = Session.model_validate({**held, **({PART: part} if part else {})})
            count[place] += 1
    order = sorted(found, key=lambda key: (key[1] or "", key[0] or "", key[2]))
    return [found[key] for key in order]


def note_checks(manifest: Manifest, runs: Sequence[_Source], *, apart: bool, again: int) -> None:
    """Note the noise check and the variants of all runs in the manifest of the merged one. apart: whether no two of the
    runs, but the merged one, have an item in common. again: how many items have replies of a noise check."""
    checks = [one.manifest.noise for one in runs if one.manifest.noise]
    if checks:
        best = max(checks, key=lambda one: one.items)
        of = [one.manifest.noise.of or 0 for one in runs if one.manifest.noise and not one.own]
        summed = sum(of) if apart and again > best.items else 0  # parts of one evaluation state what the whole draws
        manifest.noise = NoiseRecord(
            share=best.share,
            seed=best.seed,
            items=max(again, best.items),
            of=max([summed, *(one.of or 0 for one in checks)]) or None,
            concurrencies=sorted({level for one in checks for level in one.concurrencies}),
            other_engines=sorted(
                {name for one in checks for name in one.other_engines}
                | set(find_other_engines(manifest) if manifest.sessions else ())
            ),
        )
    made = [one.manifest.variants for one in runs if one.manifest.variants and not one.own]
    own = [one.manifest.variants for one in runs if one.manifest.variants and one.own]
    if made or own:
        alike = all(one == made[0] for one in made)  # as of the parts of one evaluation
        manifest.variants = _variants(made, own, apart=apart and not alike)


def _variants(made: Sequence[VariantsRecord], own: Sequence[VariantsRecord], *, apart: bool) -> VariantsRecord:
    """What is noted of the variants of all runs: their sums where the runs have no item in common, else the largest."""

    def together(counts: Callable[[VariantsRecord], dict[str, int]]) -> dict[str, int]:
        total: dict[str, int] = {}
        for number, one in enumerate((*made, *own)):
            for name, count in counts(one).items():
                before = total.get(name, 0)
                total[name] = before + count if apart and number < len(made) else max(before, count)
        return dict(sorted(total.items()))

    kinds = list(dict.fromkeys(kind for one in (*made, *own) for kind in one.kinds))
    return VariantsRecord(
        kinds=kinds,
        made=together(lambda one: one.made),
        dropped={
            kind: together(lambda one, kind=kind: one.dropped.get(kind, {}))  # type: ignore[misc]
            for kind in kinds
            if any(kind in one.dropped for one in (*made, *own))
        },
    )


class MergedItems(NamedTuple):
    """The items of several runs. ids: their ids, numbered in order. shared: how many of them several files hold."""

    ids: dict[str, int]
    shared: int


def merge_items(paths: Sequence[Path], out: IO[bytes]) -> MergedItems:
    """Write the items of several files to one, each once; the files are read side by side, line by line.

    Raises ConfigError, by file and line, for a line that is no item or does not follow the one before it, and
    RunMismatchError where two files hold different items of one id.
    """
    ids, shared, before = dict[str, int](), 0, None
    for key, which, number, line in heapq.merge(*(_lines(path, which) for which, path in enumerate(paths))):
        if before is not None and before[0] == key:
            shared += before[1] != which
            if before[3] != line:
                raise RunMismatchError(
                    f"{paths[which]}:{number}: item {one_line(key.decode())[:100]!r} is another one than in "
                    f"{paths[before[1]]}:{before[2]}; merge only runs that ask the same items"
                )
            continue
        ids.setdefault(key.decode(), len(ids))
        out.write(line)
        before = (key, which, number, line)
    return MergedItems(ids, shared)


def _lines(path: Path, which: int) -> Iterator[tuple[bytes, int, int, bytes]]:
    """The items of a file: the bytes of the id, the number of the file, that of the line, and the line."""
    last = b""
    try:
        with open_for_reading(path) as file:
            for number, line in enumerate(files.read_lines(file, path), 1):
                name = line_id(path, number, line).encode()
                if name <= last and number > 1:
                    raise ConfigError(
                        f"{path}:{number}: item {one_line(name.decode())[:100]!r} does not come after the one before "
                        "it; expected items sorted by id, each once, as tomserve writes them, so restore the file"
                    )
                last = name
                yield name, which, number, line if line.endswith(b"\n") else line + b"\n"
    except FileNotFoundError:
        return  # nothing was asked of that run yet
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def merge_choices(folders: Sequence[Path], into: Path, new_file: Callable[[str], IO[bytes]]) -> None:
    """Write the choices of all runs, and the record of the reader who made them.

    folders: of the runs, the merged run's own last. Raises RunMismatchError where the runs were read by different
    readers, and ConfigError for a file that cannot be read.
    """
    places = [GradeFiles.of_run(folder) for folder in folders if (folder / RECORD).exists()]
    if not places:
        return
    records = [GraderChoices(place).record for place in places]
    for place, record in zip(places, records, strict=True):
        if record[MARK] != records[0][MARK]:
            raise RunMismatchError(
                f"{place.record}: names another reader than {places[0].record}; have one reader read both "
                "(`tomserve score RUN --reader`), or remove one of the records, and read again what is merged"
            )
    rows = new_file(JOURNAL)
    seen: set[bytes] = set()
    for place in places:
        for _, _, line in FileSnapshot(place.journal, files.whole_length(place.journal)).lines():
            if (digest := hashlib.blake2b(line, digest_size=12).digest()) not in seen:
                seen.add(digest)
                rows.write(line)
    record = records[-1] if len(places) == 1 or places[-1].record.parent == into else {**records[0], "sample": None}
    new_file(RECORD).write(orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")


@dataclass(frozen=True)
class MergeResult:
    """What a merging made."""

    folder: Path  # of the merged run
    parts: int  # runs that were merged
    missing: tuple[Path, ...]  # parts that are not there
    rows: int  # of the journal
    answered: int  # conversations that have ended
    wanted: int  # conversations that there are to be
    complete: bool  # whether all have ended
    changed: bool  # whether anything of the run is another than before
    seconds: float


def merge(sources: Sequence[Path], into: Path, listener: Listener | None = None) -> MergeResult:
    """Merge runs into one.

    sources: their folders, or folders of parts, which stand for all of their parts. into: the folder of the merged run;
    that of an earlier merging is a source as well. Where this is ended early, the merged run stays as it was.

    Raises ConfigError, by file and line, for what cannot be read; RunMismatchError where the runs do not ask the same,
    and where `into` holds something else; MachineError where it is in use; JournalError where it cannot be written.
    """
    began, listener = time.monotonic(), listener or Listener()
    folders, shards, missing = _folders(sources, into)
    found = sorted((_source(folder) for folder in folders), key=lambda one: (one.name, str(one.folder)))
    if shards is None and not any(one.found for one in found):
        raise ConfigError(f"{folders[0]}: nothing was asked of it yet (manifest.json is missing); ask it first")
    check_same_evaluation(_begun(found), shards)
    new = not into.exists()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(RunFolder(into))
        if new:
            stack.callback(_remove_unfinished, into)
        found = [*found, *_own(into)]
        runs = _begun(found)
        check_same_evaluation(runs, shards)
        journal.restore_journal(into, listener.message)
        try:
            done = _Work(folder, found, shards, listener, stack).run(complete=not missing)
        except OSError as error:
            raise JournalError(
                f"{error.filename or into}: cannot be used ({error.strerror or error}); the run is as it was, so free "
                "space and repeat the command"
            ) from None
    parts = len(found) - sum(one.own for one in found)
    return MergeResult(into, parts, missing, *done, time.monotonic() - began)


def _begun(sources: Sequence[_Source]) -> list[_Source]:
    return [one for one in sources if one.found is not None]


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
    return _Source(folder, _source_name(folder), manifest)


def _source_name(folder: Path) -> str:
    """What the merged run's manifest calls a run that was merged."""
    name = run_name(folder)
    if "/" not in name and folder.absolute().parent.name.endswith(PARTS_ENDING):  # a part that lies elsewhere
        name = f"{folder.absolute().parent.name}/{name}"
    return name


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


def check_named_run(into: Path, parts: Sequence[Path], *, fetched: bool = False) -> None:
    """Raise RunMismatchError where the run that a record of parts names was merged from other parts: a stranger's
    record may name any run of the user's, whose rows would be replaced. parts: the folders of the parts. fetched:
    whether they are copies from a store, where anybody's may have that name; then their rows are compared."""
    manifest = Manifest.read(into)
    merged = (manifest.parts if manifest is not None else None) or ()
    before = {Path(one.run).parent.name for one in merged}
    if fetched:
        same = all(_begins_as(parts, one) for one in merged if one.digest is not None)
    else:
        same = not before or not before.isdisjoint(Path(_source_name(part / "0000")).parent.name for part in parts)
    if not same:
        raise RunMismatchError(
            f"{into}: was merged from {one_line(min(before) or 'other runs')}, whose rows {parts[0].name} does not "
            "hold; say by --into which run is to be made"
        )


def _begins_as(parts: Sequence[Path], merged: MergedPart) -> bool:
    """Whether one of these folders has a part of that name that holds the rows that were merged, others behind them."""
    name = Path(merged.run)
    path = next((folder / name.name for folder in parts if folder.name == name.parent.name), None)
    return (
        path is not None
        and journal.has_journal(path)
        and files.begins_with(journal.journal_path(path), merged.bytes, merged.digest)
    )


def _remove_unfinished(into: Path) -> None:
    if not (into / "manifest.json").exists():
        with contextlib.suppress(OSError):
            (into / ".lock").unlink()
            into.rmdir()


@dataclass(frozen=True)
class _Work:
    """The merging of runs that were found to ask the same."""

    folder: RunFolder  # of the merged run, which is locked
    sources: Sequence[_Source]
    shards: Shards | None
    listener: Listener
    stack: contextlib.ExitStack
    made: list[tuple[IO[bytes], Path]] = field(default_factory=list)  # files, and the places that they are for

    def new_file(self, name: str) -> IO[bytes]:
        """A file that is put in its place at the end."""
        file = self.stack.enter_context(files.temporary_file(self.folder.path))
        self.made.append((file, self.folder.path / name))
        return file

    def run(self, *, complete: bool) -> tuple[int, int, int, bool, bool]:
        """Merge. complete: whether every part is there. Returns `rows` to `changed` of `MergeResult`."""
        into, runs = self.folder.path, _begun(self.sources)
        manifest = merge_manifests(run_name(into), runs, self.shards, ())
        paths = [one.folder / runfolder.ITEMS for one in self.sources]
        items = merge_items(paths, self.new_file(runfolder.ITEMS))
        read, rows, ended = self._join(items.ids, manifest, runfolder.JOURNAL)
        again, _, _ = self._join(items.ids, manifest, NOISE)
        merged = [self._part(one, read) for one in self.sources if not one.own]
        manifest = merge_manifests(run_name(into), runs, self.shards, merged)
        places = {key >> journals.ARMS for one in again.values() for key in one.keys}
        note_checks(manifest, runs, apart=not items.shared, again=len(places))
        divided = sum(part.items for part in self.shards.parts) if self.shards is not None else 0
        # Fewer are there than were divided where one part is a copy of another.
        wanted = max(len(items.ids), divided) * len(manifest.strategies) * manifest.repeats
        manifest.complete = complete and ended == wanted
        merge_choices([one.folder for one in self.sources], into, self.new_file)
        changed = self._install(manifest)
        return rows, ended, wanted, manifest.complete, changed

    def _join(
        self, ids: dict[str, int], manifest: Manifest, name: str
    ) -> tuple[dict[Path, journals.JournalIndex], int, int]:
        """The journals of that name, by the folders of their runs, joined into one; how many rows that has, and how
        many conversations have ended in it."""
        places = {
            one.folder: journal.journal_path(one.folder) if name == runfolder.JOURNAL else one.folder / name
            for one in self.sources
        }
        paths = {folder: path for folder, path in places.items() if path.exists()}
        if not paths and name == NOISE:
            return {}, 0, 0
        total = sum(path.stat().st_size for path in paths.values())
        talking = {strategy: one.turns != 1 for strategy, one in manifest.strategies.items()}
        asked = journals.KnownRows(ids, talking, manifest.repeats, levels=name == NOISE)
        pace = journals.PaceReporter(f"reading {name}", total, self.listener.message)
        read = {folder: journals.read_journal(path, asked, pace) for folder, path in paths.items()}
        lost, ended = journals.join_journals(list(read.values()))
        pace = journals.PaceReporter(f"writing {name}", total, self.listener.message)
        return read, journals.copy_rows(list(read.values()), lost, self.new_file(name), pace), ended

    def _part(self, source: _Source, read: dict[Path, journals.JournalIndex]) -> MergedPart:
        if (journal := read.get(source.folder)) is None:
            return MergedPart(run=source.name)
        file = journal.file
        return MergedPart(
            run=source.name,
            rows=file.count,
            bytes=file.size,
            digest=file.digest,
            complete=source.found is not None and source.found.complete,
        )

    def _install(self, manifest: Manifest) -> bool:
        """Put the files that were made in their places, those that are other ones than before. Returns whether any is.
        Whenever this is ended, what is there is a run that the same command completes."""
        for file, _ in self.made:
            file.flush()
        new = [
            (file, path)
            for file, path in self.made
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
