"""Looks whether what a run folder holds fits together: rows, prompts, questions and scores are made again and compared.

A run may come from somebody else. Its scores may not be those of its replies, its right answers not those of the
benchmark, and its replies may have been given to other prompts than it says. All of that is found here, offline. What
cannot be found is a reply that was made up or exchanged: only a seal can tell that (see tomserve.runs.sealing), from
the time on at which it was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tomserve import benchmarks, variants
from tomserve.content import files, signatures
from tomserve.content.compact_index import FirstPlaces
from tomserve.content.files import one_line
from tomserve.errors import ConfigError, TomserveError
from tomserve.items import read_items
from tomserve.runs import kept, measured, packed, sealing
from tomserve.runs.index import Seen
from tomserve.runs.journal import identity_of, read_rows
from tomserve.runs.manifest import Manifest
from tomserve.runs.prompted import Prompts
from tomserve.runs.runfolder import check_files
from tomserve.runs.scores import score_run
from tomserve.runs.stock import Stock
from tomserve.runs.varying import varied
from tomserve.scoring.responses import NOISE
from tomserve.status import FINAL

SEAL = "seal"
"""What the check of a seal is called; every run is looked at for one, after all else."""


class Finding(NamedTuple):
    """What came of one check.

    what: what was looked at. holds: whether it is as it should be; None where that could not be found out.
    said: what was found, without a full stop.
    """

    what: str
    holds: bool | None
    said: str


class Wanted(NamedTuple):
    """What a user gives for the checks of a run.

    path: the file or folder that the benchmark read instead of its own data (``--path``). strategies: folders of the
    user's own strategies. signers: the keys that may have signed the run (see tomserve.content.signatures).
    """

    path: Path | None = None
    strategies: Sequence[str] = ()
    signers: Path | None = None


def findings(folder: Path, wanted: Wanted | None = None) -> Iterator[Finding]:
    """Check a run, one thing after the other: its rows, prompts, questions, scores and seal.

    folder: the run's folder. Raises ConfigError where it is no run, or what the user gives is wrong.
    """
    check_files(folder)
    manifest, wanted = Manifest.read(folder), wanted or Wanted()
    if manifest is None:
        raise ConfigError(f"{folder}: no run there (manifest.json is missing)")
    if manifest.measured:
        yield _table(folder, manifest)
    elif not packed.has_journal(folder):
        yield Finding("rows", None, "nothing was asked yet")
    else:
        rows = _rows(folder, manifest)
        yield rows
        if rows.holds:
            yield _prompts(folder, manifest, wanted)
            yield _questions(folder, manifest, wanted)
            yield _scores(folder)
    yield from sealed(folder, wanted.signers)


def sealed(folder: Path, signers: Path | None = None) -> Iterator[Finding]:
    """Check the seal of a run, and its signature. signers: as in Wanted; then the newest link must be signed by one."""
    try:
        seal = sealing.Seal.read(folder)
        broken = [] if seal is None else list(sealing.differences(folder, seal.links))
    except ConfigError as error:
        yield Finding(SEAL, False, str(error))
        return
    if seal is None:
        lacks = "not sealed, so that nobody can tell whether replies were changed since; `tomserve seal` does it"
        yield Finding(SEAL, False if signers is not None else None, lacks)
        return
    newest = seal.links[-1]
    since = f"sealed {one_line(newest.time)[:40]}, {newest.digest}"
    if not broken:
        links = f" (the newest of {len(seal.links)} seals)" if len(seal.links) > 1 else ""
        yield Finding(SEAL, True, f"nothing has changed since it was {since}{links}")
    else:
        kind = "grown since it was" if all(one.grown for one in broken) else "not as it was"
        yield Finding(SEAL, False, f"{kind} {since}: {'; '.join(one.said for one in broken)}")
    if newest.signature is None:
        yield Finding("signature", False if signers is not None else None, "the seal is not signed")
    else:
        found = signatures.check_signature(newest.digest, newest.signature, signers)
        yield Finding("signature", found.good, found.said)


def _table(folder: Path, manifest: Manifest) -> Finding:
    """Whether a measured run holds the table that was measured."""
    try:
        frame, _ = measured.read(folder, manifest)
    except ConfigError as error:
        return Finding("table", False, str(error))
    return Finding("table", True, f"the {frame.height:,} rows that the manifest names; they cannot be made again")


def _rows(folder: Path, manifest: Manifest) -> Finding:
    """Whether every line is a row about an item and a strategy of the run, and no question has two final replies."""
    strange: Counter[str] = Counter()
    try:
        items = FirstPlaces([item.id for item in read_items(folder / kept.ITEMS)])
        seen, count, statuses = Seen(), 0, Counter[str]()
        for _, row in read_rows(packed.journal(folder)):
            count += 1
            identity, final = identity_of(row), row["status"] in FINAL
            statuses[row["status"]] += not final
            strange["about an item that the run does not hold"] += row["item"] not in items
            strange["of a strategy that the manifest does not name"] += row["strategy"] not in manifest.strategies
            strange["to a question that had its final reply"] += identity in seen
            if final:
                seen.add(identity)
        for _, row in read_rows(folder / NOISE):
            strange[f"of {NOISE} about an item that the run does not hold"] += row["item"] not in items
    except TomserveError as error:
        return Finding("rows", False, str(error))
    if found := [f"{number:,} {what}" for what, number in strange.items() if number]:
        return Finding("rows", False, f"{count:,} rows, of which {'; '.join(found)}")
    failed = sum(statuses.values())
    return Finding("rows", True, f"{count:,} rows" + (f", {failed:,} of them failed attempts" if failed else ""))


def _prompts(folder: Path, manifest: Manifest, wanted: Wanted) -> Finding:
    """Whether the rows answer the prompts that their questions and strategies make."""
    try:
        prompts = Prompts(folder, manifest, wanted.strategies)
        found = [prompts.compare(path) for path in (packed.journal(folder), folder / NOISE) if path.exists()]
    except TomserveError as error:
        return Finding("prompts", None, f"could not be made again: {error}")
    equal, differing = sum(one.equal for one in found), sum(one.differing for one in found)
    strange = sum((one.strange for one in found), Counter[str]())
    rest = "; ".join(
        f"{count:,} rows of {one_line(name)[:80]} not compared, whose prompts are not those of this version"
        for name, count in strange.items()
    )
    if differing:
        first = next(one.first for one in found if one.first)
        said = f"{differing:,} rows answer another prompt than their question makes, first {one_line(first)[:200]}"
        return Finding("prompts", False, f"{said}; {rest}" if rest else said)
    said = f"{equal:,} rows answer the prompts that the questions make"
    return Finding("prompts", None if strange else True, f"{said}; {rest}" if rest else said)


def _questions(folder: Path, manifest: Manifest, wanted: Wanted) -> Finding:
    """Whether the items of a run, with their right answers, are those of the benchmark."""
    named = one_line(manifest.benchmark)[:80]
    benchmark = benchmarks.find(manifest.benchmark)
    if benchmark is None:
        return Finding("questions", None, f"not compared: the benchmark {named!r} is not known here")
    if manifest.benchmark_path is not None and wanted.path is None:
        return Finding("questions", None, "not compared: they came from a file; give it by --path")
    try:
        every = Stock(benchmark.items(wanted.path, manifest.benchmark_gold, benchmarks.ALL))
    except TomserveError as error:
        return Finding("questions", None, f"not compared: {error}")
    if every.digest() != manifest.benchmark_digest:
        text = f"not compared: {named} holds other questions in this version than when the run was made"
        return Finding("questions", None, text)
    own, lines = Stock(read_items(folder / kept.ITEMS)), FirstPlaces(every.ids)
    strange = [place for place, name in enumerate(own.ids) if lines.find(name) is None]
    differing = [
        name
        for place, name in enumerate(own.ids)
        if (at := lines.find(name)) is not None and every.lines[at] != own.lines[place]
    ]
    changed, unknown = _variants(manifest, own, strange, benchmark, wanted.path, every)
    differing += changed
    if differing:
        first = one_line(differing[0])[:200]
        return Finding("questions", False, f"{len(differing):,} are not those of {named}, first item {first!r}")
    said = f"{len(own) - len(unknown):,} are those of {named}, with their right answers"
    if unknown:
        more = f"; {len(unknown):,} variants could not be made again, first {one_line(unknown[0])[:200]!r}"
        return Finding("questions", None, said + more)
    return Finding("questions", True, said)


def _variants(
    manifest: Manifest,
    own: Stock,
    places: Sequence[int],
    benchmark: benchmarks.Benchmark,
    path: Path | None,
    every: Stock,
) -> tuple[list[str], list[str]]:
    """Of the items at these places, which the benchmark does not hold, the ids of those that differ from the variants
    of these kinds that are made of its items, and the ids of those that nothing is known about."""
    if not places:
        return [], []
    known = set(manifest.variants.kinds) if manifest.variants is not None else set()
    kinds = [kind for kind in variants.parse_kinds(("all",)) if kind.name in known]
    originals = own.part([place for place in range(len(own)) if place not in set(places)])
    made = varied(originals, Stock(), kinds, benchmarks.retelling(benchmark, path), every.ids).variants
    there = FirstPlaces(made.ids)
    differing, unknown = [], []
    for place in places:
        name = own.ids[place]
        at = there.find(name)
        if at is None:
            unknown.append(name)
        elif made.lines[at] != own.lines[place]:
            differing.append(name)
    return differing, unknown


def _scores(folder: Path) -> Finding:
    """Whether the kept table is what scoring gives."""
    unread: list[str] = []
    try:
        now = score_run(folder, note=unread.append)
    except TomserveError as error:
        return Finding("scores", False, f"cannot be made: {error}")
    path = folder / kept.TABLE
    if not path.exists():
        return Finding("scores", True, f"{now.height:,} rows are made; no table is kept")
    try:
        with files.open_for_reading(path) as file:
            table = pl.read_parquet(BytesIO(file.read()))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = one_line(" ".join(str(error).split()))[:120]
        return Finding("scores", False, f"{path.name} is no table ({reason}); it is made again when it is needed")
    if found := compared(table, now):
        return Finding("scores", False, f"{path.name} is not what the replies give: {found}; `tomserve score` mends it")
    return Finding("scores", True, f"{path.name} holds what the replies give, {now.height:,} rows")


def compared(table: pl.DataFrame, now: pl.DataFrame) -> str | None:
    """How a kept table differs from the one that was made now, in words; None where it does not.

    The column `run` is left out, because a run may have been given another name since.
    """
    there, wanted = (set(frame.columns) - {"run"} for frame in (table, now))
    if there != wanted:
        said = [f"it lacks {', '.join(sorted(wanted - there)[:5])}"] if wanted - there else []
        more = ", ".join(one_line(name)[:40] for name in sorted(there - wanted)[:5])
        return "; ".join([*said, *([f"it has columns besides ({more})"] if more else [])])
    if table.height != now.height:
        return f"it has {table.height:,} rows in place of {now.height:,}"
    differing = []
    for name in now.columns:
        if name == "run":
            continue
        one, other = table[name], now[name]
        if one.dtype != other.dtype:
            differing.append(f"{name} is {one.dtype} in place of {other.dtype}")
        elif not one.equals(other, null_equal=True):
            rows = (one.ne_missing(other)).sum() if not one.dtype.is_nested() else None
            differing.append(f"{name} differs" + (f" in {rows:,} of {now.height:,} rows" if rows else ""))
    return ", ".join(differing[:5]) or None
