"""Tables of the shards of an evaluation: how it was divided, how far each shard is, and what the cluster says of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from tomserve.content.paths import PARTS_ENDING
from tomserve.content.text import count_noun, sanitize
from tomserve.distributed import slurm
from tomserve.distributed.cluster import Job, Task
from tomserve.distributed.shards import EXPECTED, PartRecord, PartState, Shards, part_folder, shown_name
from tomserve.reporting.table_layout import print_table
from tomserve.runs import progress
from tomserve.runs.noise_check import TIMES

STATUS_ROWS = 60  # so many parts are listed at most; of more, those that are complete or that wait are only counted
ALWAYS = ("part", "state", "done")  # columns that are shown also where they say nothing
LONGEST = 40  # characters of a node's name, or of a cluster's word, that are shown


@dataclass(frozen=True)
class ShardStatus:
    """A part with everything that its line tells; None for what is unknown."""

    part: PartState
    rate: float | None  # rows a second lately
    left: float | None  # seconds
    task: Task | None
    node: str
    begun: int | None


def show_status(
    folder: Path, found: Sequence[PartState], job: Job | None, tasks: Mapping[int, Task], console: Console
) -> None:
    """Print the parts, a line for all of them, and what the job is. folder: of the parts. found: how far they are. job,
    tasks: what was submitted, and what the cluster says of it."""
    seen = [_shard_status(folder, one, job, tasks.get(one.number)) for one in found]
    listed = seen
    if len(seen) > STATUS_ROWS:
        quiet = ("complete", "waiting")
        listed = [one for one in seen if one.part.state not in quiet or _cluster(one) not in ("", "PENDING")][
            :STATUS_ROWS
        ]
        listed = [one for one in listed if one.part.state != "complete"]
    if listed:
        rows = [_status_cells(one) for one in listed]
        told = [name for name in rows[0] if name in ALWAYS or any(row[name] for row in rows)]
        frame = pl.DataFrame([{name: row[name] for name in told} for row in rows])
        print_table(f"parts of {sanitize(folder.name.removesuffix(PARTS_ENDING))}", frame, console)
    if len(listed) < len(seen):
        console.print(f"{len(seen) - len(listed)} more parts are not listed", highlight=False)
    for line in status_lines(seen, job):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def status_lines(seen: Sequence[ShardStatus], job: Job | None) -> list[str]:
    """What is to be said of all parts: how many are how far, when they may be done, and which job asks them."""
    states = Counter(one.part.state for one in seen)
    done, total = sum(one.part.done for one in seen), sum(one.part.total for one in seen)
    rate = sum(one.rate or 0.0 for one in seen)
    said = f"{done:,} of {total:,} requests, {sum(one.part.failures for one in seen):,} failed; parts: "
    said += ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    if rate > 0 and done < total:
        said += f"; {rate:,.1f} a second, about {_time((total - done) / rate)} left at this rate"
    told = [said]
    if job is not None:
        told.append(f"{job.cluster} job {sanitize(job.id)}, submitted at {sanitize(job.time)}")
    for one in seen:
        if one.task is not None and one.task.note and one.task.state not in ("RUNNING", "COMPLETED"):
            told.append(f"part {one.part.number}: {sanitize(one.task.state)}, {sanitize(one.task.note)}")
    if len(told) > STATUS_ROWS:
        told[STATUS_ROWS:] = [f"and {len(told) - STATUS_ROWS} more notes of the cluster"]
    return told


def _shard_status(folder: Path, part: PartState, job: Job | None, task: Task | None) -> ShardStatus:
    """What is known of a part."""
    record = progress.read_progress(part_folder(folder, part.number)) if part.state == "running" else None
    rate = record.rate if record is not None else None
    left = (part.total - part.done) / rate if rate and part.total >= part.done else None
    began = None
    if job is not None:
        began = slurm.read_starts(folder / slurm.LOGS / f"{part.number:04}.starts", job.id)
    node = task.node if task is not None and task.node else began.node if began is not None else ""
    counted = task.restarts + 1 if task is not None and task.restarts is not None else None
    return ShardStatus(part, rate, left, task, node, counted if counted is not None else began.count if began else None)


def _cluster(one: ShardStatus) -> str:
    return one.task.state if one.task is not None else ""


def _status_cells(one: ShardStatus) -> dict[str, str]:
    part = one.part
    return {
        "part": f"{part.number:04}",
        "state": part.state,
        "done": f"{part.done}/{part.total}",
        "failed": str(part.failures or ""),
        "rate": "" if one.rate is None else f"{one.rate:.1f}/s",
        "left": "" if one.left is None else _time(one.left),
        "cluster": sanitize(_cluster(one))[:LONGEST],
        "node": sanitize(one.node)[:LONGEST],
        "starts": "" if one.begun is None else str(one.begun),
    }


def _time(seconds: float) -> str:
    """A span of time, such as 1:02:03."""
    return str(timedelta(seconds=round(min(seconds, 1e9))))


SHOWN = 20  # so many parts are listed; of more, the first and the last ones are


MANY = 10_000_000  # counts from here on are shown in millions


def show_shards(shards: Shards, folder: Path, screen: Console) -> None:
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
    for line in shard_lines(shards):
        screen.print(line, markup=False, highlight=False)
    name = sanitize(shown_name(folder))
    for line in (
        f"parts: {sanitize(str(folder))}",
        f"next: `tomserve work {name} --part 0`, and so on, on any machine that sees the folder; or `tomserve work "
        f"{name}` for one after the other",
    ):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)


def shard_lines(shards: Shards) -> list[str]:
    """What is to be said of the parts as a whole: how even they are, and what dividing costs."""
    weights = [part.weight for part in shards.parts]
    mean = sum(weights) / len(weights)
    largest = max(weights) / mean if mean else 1.0
    whole = _sum(shards)
    lost = max(0, shards.shared_tokens - whole.shared_tokens) / max(1, whole.prompt_tokens)
    several = [sanitize(name) for name, one in shards.strategies.items() if one.turns != 1]
    first = f"requests and tokens are those of first turns: {', '.join(several)} may take several for each question"
    again = sum(len(part.again) for part in shards.parts)
    more = again * TIMES * len(shards.strategies) * shards.options.repeats
    twice = f"the noise check asks {count_noun(again, 'question')} again, at {TIMES} numbers of requests in flight "
    twice += f"each: {more:,} requests more, beside those of the parts"
    return [
        f"the largest part is {largest:.3f} times the mean; dividing costs {lost:.2%} of the prompt tokens, which "
        "parts cannot share",
        f"work: prompt tokens that are not shared, and one in {EXPECTED} of the tokens that replies may have",
        *([twice] if again else []),
        *([first] if several else []),
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
