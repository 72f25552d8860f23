"""Writes one run of foreign replies: its items, its rows and a manifest that says where they come from.

The manifest is written last, so that a run that was interrupted is none, and the import is simply repeated. Bringing
the same files again changes nothing; a folder that holds anything else is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from tomserve import benchmarks
from tomserve.content import digest, temporary
from tomserve.content.index import Firsts
from tomserve.errors import ConfigError
from tomserve.interop.foreign import About, Origin, Sample
from tomserve.interop.items_of import factors_of, item_of
from tomserve.interop.matching import Known
from tomserve.interop.spool import Spool
from tomserve.items import Item
from tomserve.items.files import write_chunks
from tomserve.runs import packed, runfolder
from tomserve.runs.manifest import Manifest
from tomserve.runs.manifest_parts import ForeignFile, ForeignRecord
from tomserve.runs.stock import Stock

STRATEGY = "imported"
"""The way of asking where neither the file nor the user names one."""


class Meant(NamedTuple):
    """What a run is to hold. task: what it is called. model: who answered. tasks: the tasks as the tool names them.
    about, origins: what the files say of themselves, and which they are. left_out: how many replies were not read, by
    reason. strategy: the way of asking where the file names none. counts: whose reading counts, None to decide. named:
    the beginning of the items' ids; None where the samples' ids have one."""

    task: str
    model: str
    tasks: tuple[str, ...]
    about: About
    origins: tuple[Origin, ...]
    left_out: Mapping[str, int]
    strategy: str | None
    counts: Literal["tomserve", "tool"] | None
    named: str | None


@dataclass
class Made:
    """A run that was made. folder: of it. replies, items: how many it holds. benchmark: what its questions are of.
    matched: whether that is a benchmark of ours. counts: whose reading counts. ungraded: replies whose grade should
    count and is missing. differing: how many targets differ from our answers, and the first of these questions.
    factors: what questions can be split by. repeated: replies that a later one to the same question replaced. fresh:
    whether it was made now, rather than found as it is."""

    folder: Path
    replies: int = 0
    items: int = 0
    benchmark: str = ""
    matched: bool = False
    counts: Literal["tomserve", "tool"] = "tool"
    ungraded: int = 0
    differing: int = 0
    differs_first: str | None = None
    factors: tuple[str, ...] = ()
    repeated: int = 0
    fresh: bool = True


def write(
    folder: Path,
    spool: Spool,
    meant: Meant,
    matched: tuple[Known, Sequence[str | None]] | None,
    chosen: Mapping[str, str],
    path: Path | None,
) -> Made:
    """Write the run.

    folder: where. spool: its replies. meant: what else it is to hold. matched: the benchmark of ours, with the id of
    the item of each reply (None for one that is left out); None where questions are taken as they are. chosen: which
    facts become which factors. path: the benchmark's file, where it was given.

    Raises ConfigError where the folder holds something else, or where nothing says whether any reply is right;
    MachineError and JournalError where it cannot be written.
    """
    made = Made(folder, matched=matched is not None, repeated=spool.repeated)
    made.benchmark = matched[0].name if matched is not None else _named(meant.task)
    made.counts = meant.counts or ("tomserve" if matched is not None else "tool")
    with temporary.folder() as scratch:
        items = _items(spool, meant, matched, made, chosen, path)
        rows = scratch / "responses.jsonl"
        arms: Counter[str] = Counter()
        write_chunks(rows, _rows(spool, meant, matched, made, items.ids, arms))
        if made.counts == "tool" and made.ungraded == made.replies:
            raise ConfigError(
                f"{meant.origins[0].name if meant.origins else meant.task}: no reply carries a grade, and the "
                "questions are none that tomserve can read replies to; name the column that says what is right by "
                "--map correct=COLUMN, or the questions' benchmark by --benchmark NAME"
            )
        manifest = _manifest(folder, meant, made, items, arms, _repeats(spool), path)
        if _same(folder, manifest, rows):
            made.fresh = False
            return made
        with runfolder.RunFolder(folder) as run:
            write_chunks(folder / "items.jsonl", (line + b"\n" for line in items.lines))
            with rows.open("rb") as file:
                write_chunks(folder / packed.JOURNAL, iter(lambda: file.read(1 << 20), b""))
            run.write_manifest(manifest)
            run.log(f"{made.replies} replies brought from {len(meant.origins)} files of {meant.about.tool}")
    return made


def _named(task: str) -> str:
    """What the questions of a task are called as a benchmark: never like one of ours, whose rules would score them."""
    slug = "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in task.lower()).split())[:80]
    slug = slug or "imported"
    return f"imported-{slug}" if slug in (*benchmarks.names(), benchmarks.ANYBODYS) else slug


def _items(
    spool: Spool,
    meant: Meant,
    matched: tuple[Known, Sequence[str | None]] | None,
    made: Made,
    chosen: Mapping[str, str],
    path: Path | None,
) -> Stock:
    """The items that were asked, sorted by their ids."""
    if matched is not None:
        asked = set(matched[1])
        every = benchmarks.load(matched[0].name, path, None, benchmarks.ALL)
        stock = Stock(item for item in every if item.id in asked)
    else:
        stock = Stock(_own(spool, meant, made.benchmark, chosen))
        made.factors = tuple(chosen.values())
    order = sorted(range(len(stock)), key=lambda place: stock.ids[place])
    made.items = len(stock)
    return stock.part(order)


def _own(spool: Spool, meant: Meant, benchmark: str, chosen: Mapping[str, str]) -> Iterator[Item]:
    """An item for each question, as its first reply tells it; another text under the same id is refused."""
    seen, texts, places = Firsts(), list[str](), list[str]()
    for sample in spool:
        item = item_of(sample, benchmark, factors_of(sample, chosen), "" if meant.named is None else meant.named)
        item = item if meant.named is not None else item.model_copy(update={"id": item.id.removeprefix("/")})
        place = seen.add(item.id, len(texts))
        text = digest(sample.asked.encode())
        if place == len(texts):
            texts.append(text)
            places.append(sample.place)
            yield item
        elif texts[place] != text and sample.strategy is None:
            raise ConfigError(
                f"{sample.place}: question {sample.id!r:.80} has another text than at {places[place]}; give every "
                "question an id of its own"
            )


def _rows(
    spool: Spool,
    meant: Meant,
    matched: tuple[Known, Sequence[str | None]] | None,
    made: Made,
    ids: Sequence[str],
    arms: Counter[str],
) -> Iterator[bytes]:
    """The rows, and in `made` and `arms` what is counted of them."""
    named = iter(matched[1]) if matched is not None else None
    known = set(ids)
    for sample in spool:
        item = next(named) if named is not None else _identity(sample, meant, made.benchmark)
        if item is None:
            continue
        assert item in known
        strategy = meant.strategy or sample.strategy or STRATEGY
        arms[strategy] += 1
        made.replies += 1
        if matched is not None:
            _compare_targets(sample, item, matched[0], made)
        yield orjson.dumps(_row(sample, item, strategy, meant, made)) + b"\n"


def _identity(sample: Sample, meant: Meant, benchmark: str) -> str:
    made = item_of(sample, benchmark, {}, "" if meant.named is None else meant.named).id
    return made if meant.named is not None else made.removeprefix("/")


def _compare_targets(sample: Sample, item: str, known: Known, made: Made) -> None:
    """Count a target that is another answer than ours, so that nobody takes one benchmark's labels for another's."""
    target, ours = (sample.target or "").strip(), known.targets[item]
    if len(target) > 1 and target.casefold() != ours.casefold():
        made.differing += 1
        made.differs_first = made.differs_first or item


def _row(sample: Sample, item: str, strategy: str, meant: Meant, made: Made) -> dict[str, Any]:
    grade, counts = sample.grade, made.counts == "tool"
    made.ungraded += counts and (grade is None or grade.correct is None)
    told: dict[str, Any] = {"by": "", "correct": None, "answer": None, "value": None}
    if grade is not None:
        told = {"by": grade.by, "correct": grade.correct, "answer": grade.answer, "value": grade.value}
    tool = meant.about.tool
    return {
        "schema": 1,
        "item": item,
        "strategy": strategy,
        "turn": 0,
        **({"sample": sample.repeat} if sample.repeat else {}),
        "key": digest(tool.encode(), sample.task.encode(), sample.id.encode(), sample.asked.encode())[7:39],
        "status": sample.status,
        "text": sample.text,
        "reasoning": sample.reasoning,
        "finish_reason": sample.finish,
        "usage": dict(sample.usage) if sample.usage else None,
        "error": sample.error,
        "timings": {} if sample.seconds is None else {"total_s": sample.seconds},
        "attempts": 1,
        "endpoint": tool,
        "served_model": meant.model,
        "reused": False,
        "asked": sample.asked,
        **({"graded": {**told, "counts": counts}} if grade is not None or counts else {}),
    }


def _repeats(spool: Spool) -> int:
    return max((sample.repeat for sample in spool), default=0) + 1


def _manifest(
    folder: Path, meant: Meant, made: Made, items: Stock, arms: Mapping[str, int], repeats: int, path: Path | None
) -> Manifest:
    whole = items
    if made.matched:
        whole = Stock(benchmarks.load(made.benchmark, path, None, benchmarks.ALL))
    asked = {
        "benchmark": made.benchmark,
        "benchmark_digest": whole.digest(),
        "benchmark_items": len(whole),
        "model": meant.model,
        "revision": None,
        "sampling": {"repeats": repeats} if repeats > 1 else {},
    }
    about = meant.about
    record = ForeignRecord(
        tool=about.tool,
        version=about.version,
        tasks=list(meant.tasks),
        files=[ForeignFile(name=one.name, bytes=one.bytes, digest=one.digest) for one in meant.origins],
        created=about.created,
        samples=made.replies,
        left_out=dict(meant.left_out),
        matched=made.items if made.matched else 0,
        counts=made.counts,
        settings=dict(about.settings),
    )
    told = Manifest.new(folder, (), **asked).to_dict()
    chain = {name: {"digest": None, "max_tokens": None, "chain": False} for name in sorted(arms)}
    told |= {"strategies": chain, "foreign": record.model_dump(), "complete": True}
    told["limit"] = made.items if made.items < len(whole) else None
    return Manifest.model_validate(told)


def _same(folder: Path, manifest: Manifest, rows: Path) -> bool:
    """Whether the folder holds just this run. Raises ConfigError where it holds another one, or anything else."""
    there = Manifest.read(folder) if folder.is_dir() else None
    if there is None:
        for name in (packed.JOURNAL, packed.PACKED):
            if folder.is_dir() and (folder / name).exists() and not _begun(folder):
                raise ConfigError(f"{folder}: holds answers already; bring the files into a new run by --run NEW")
        return False
    journal = packed.journal(folder)
    if there.foreign is None or not journal.exists() or digest(journal) != digest(rows):
        what = "another run" if there.foreign is None else "an import of other files, or by other options"
        raise ConfigError(f"{folder}: holds {what}; bring these files into a new run by --run NEW")
    return there.foreign == manifest.foreign


def _begun(folder: Path) -> bool:
    """Whether a folder without a manifest is what an interrupted import has left: nothing writes a manifest last but an
    import, and every row of one says so."""
    with (folder / packed.JOURNAL).open("rb") as file:
        return b'"asked":' in file.readline(1 << 20)
