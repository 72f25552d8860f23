"""Divides an evaluation into shards that are even in tokens, and writes the folder of each.

Shards are cut out of the order in which prompts are asked, so that prompts with a common beginning stay on one server.
The record is written last: before that, a folder of shards is nothing, and dividing again makes it anew.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tomserve._version import __version__
from tomserve.content import files
from tomserve.content.paths import PARTS_ENDING, run_name
from tomserve.content.validation import check_run_name
from tomserve.distributed.cost import count_tokens, item_weights
from tomserve.distributed.shards import FILE, ITEMS, MOST, PartRecord, ShardOptions, Shards, find_folder, part_folder
from tomserve.engine.prompt_tokens import BYTES_A_TOKEN
from tomserve.engine.records import utc_now
from tomserve.errors import ConfigError, MachineError, RunMismatchError
from tomserve.items import write_chunks
from tomserve.runs import planning
from tomserve.runs.cost import PromptCost, measure_prompts
from tomserve.runs.item_store import sort_places
from tomserve.runs.manifest import AskedStrategy
from tomserve.runs.planning import EvalOptions, Plan, manifest_fields
from tomserve.runs.progress import Listener
from tomserve.runs.runfolder import default_name
from tomserve.serving.probe import WaitPolicy

Numbers = npt.NDArray[np.int64]

TOLERANCE = 0.05  # by this share a part may be larger than an even one, where a better cut lies near


def part_ends(weights: Sequence[int] | Numbers, sharing: Sequence[int] | Numbers, parts: int) -> list[int]:
    """Where each part ends: part k holds the weights from the end of part k - 1 up to, but not including, its own.

    Each cut lies where two neighbours have least in common, within TOLERANCE of an even share around the place of an
    even cut, so that no part is larger than an even one by more than that and one weight.

    weights [n]: of each piece, whole numbers from 0. sharing [n]: how much each piece has in common with the one before
    it, which a cut between the two loses. parts: how many, from 1 to n; each holds at least one piece.
    """
    sums = np.concatenate(([0], np.cumsum(np.asarray(weights, dtype=np.int64))))
    shared = np.asarray(sharing, dtype=np.int64)
    count, even = len(sums) - 1, int(sums[-1]) / parts
    ends = [0]
    for number in range(1, parts):
        ideal, slack = number * even, TOLERANCE / 2 * even
        low, high = ends[-1] + 1, count - (parts - number)
        window = np.arange(np.searchsorted(sums, ideal - slack, "left"), np.searchsorted(sums, ideal + slack, "right"))
        if not len(window):  # one heavy piece reaches over all of it
            place = int(np.searchsorted(sums, ideal))
            window = np.array([place - 1 if ideal - sums[place - 1] < sums[place] - ideal else place])
        window = np.unique(np.clip(window, low, high))
        # Of equally good places the one that is nearest to an even cut.
        ends.append(int(window[np.lexsort((np.abs(sums[window] - ideal), shared[window]))[0]]))
    return [*ends[1:], count]


def divide(
    options: EvalOptions,
    folder: Path | None,
    *,
    parts: int | None = None,
    part_tokens: int | None = None,
    listener: Listener,
    key: str | None = None,
) -> Shards:
    """Divide an evaluation into parts, and write the folder of the parts.

    options: what is to be asked; nothing needs to be served yet. folder: of the parts, None for that of the run's name.
    parts: how many at most. part_tokens: instead of that, about how many tokens each may have. key: the name of the
    variable that holds the API key, where an experiment's file names one.

    Where the folder holds the same parts already, it is left as it is. Raises ConfigError for numbers that cannot be,
    RunMismatchError where the folder holds other parts or the run exists, MachineError where it cannot be written, and
    as `tomserve.runs.planning.make_plan` does.
    """
    if (parts is None) == (part_tokens is None):
        raise ConfigError("give --parts N or --part-tokens N, one of the two")
    for name, number in {"--parts": parts, "--part-tokens": part_tokens}.items():
        if number is not None and number < 1:
            raise ConfigError(f"{name} {number}: expected a whole number from 1 on")
    if parts is not None and parts > MOST:
        raise ConfigError(
            f"--parts {parts}: expected at most {MOST:,}, as the folders of parts have names of four digits"
        )
    made = planning.make_plan(replace(options, start=True), WaitPolicy(listener.message))
    place = folder or find_folder(options.run or default_name(made.benchmark_name, made.name))
    units = _Units(made, listener)
    count = units.count(parts, part_tokens)
    if parts is not None and count < parts:
        listener.message(f"there are {count:,} questions to divide, so that there are {count:,} parts, not {parts:,}")
    part_of = units.assign_parts(count)
    shards = _record(made, place, units.costs, part_of, ShardOptions.of(options, made.benchmark_name, made.target, key))
    with _lock_folder(place):
        if _is_divided(place, shards):
            listener.message(f"{place} holds these {len(shards.parts)} parts already")
            return Shards.read(place)
        _clear(place)
        for number, held in enumerate(_items_of_parts(made, part_of, count)):
            lines = made.questions.items.lines
            write_chunks(part_folder(place, number) / ITEMS, (lines[item] + b"\n" for item in held))
        try:
            shards.write(place)
        except OSError as error:
            raise MachineError(
                f"{place / FILE}: cannot be written ({error.strerror}); free space, and divide again"
            ) from None
    return shards


class _Units:
    """The originals of a plan with what belongs to them, in the order in which they are asked.

    costs: of each strategy. originals [m]: their places among the items. weights [m]: what asking each and its variants
    costs, in bytes. sharing [m]: how many bytes its prompt has in common with that of the original before it.
    """

    def __init__(self, made: Plan, listener: Listener) -> None:
        items = made.questions.items
        self._made = made
        listener.message(f"looking at the prompts of {len(items):,} questions")
        self.costs = [
            measure_prompts(items, strategy, lambda done: listener.message(f"{done:,} prompts looked at"))
            for strategy in made.questions.strategies
        ]
        self._owners = self._find_owners()
        first = self.costs[0]
        weights = sum(item_weights(cost, made.questions.repeats) for cost in self.costs)
        owned = np.zeros(len(items), dtype=np.int64)
        np.add.at(owned, self._owners, weights)
        self.originals, self.sharing = self._in_order(first)
        self.weights = owned[self.originals]

    def _find_owners(self) -> Numbers:
        """The place of the original of each item; an original's is its own."""
        varied = self._made.varied
        places = {name: place for place, name in enumerate(varied.originals.ids)}
        owners = np.arange(len(self._made.questions.items), dtype=np.int64)
        for number, entry in enumerate(varied.variants.entries(), len(varied.originals)):
            owners[number] = places[str(entry.base)]
        return owners

    def _in_order(self, cost: PromptCost) -> tuple[array[int], array[int]]:
        """The originals in the order in which they are asked, and what each shares with the one before it."""
        places, sharing = array("q"), array("q")
        least = 0
        for number, place in enumerate(cost.order):
            least = min(least, cost.shared[number])
            if self._owners[place] == place:
                places.append(place)
                sharing.append(least)
                least = cost.sizes[place]
        return places, sharing

    def count(self, parts: int | None, part_tokens: int | None) -> int:
        """How many parts there are to be: as many as wanted, or as keep each below so many tokens; at least one, and no
        more than originals. Raises ConfigError where there would be more than MOST."""
        if parts is not None:
            return min(parts, len(self.originals))
        assert part_tokens is not None
        tokens = int(np.sum(self.weights)) // BYTES_A_TOKEN
        found = -(-tokens // part_tokens)
        if found > MOST:
            raise ConfigError(
                f"--part-tokens {part_tokens}: makes more than {MOST:,} parts of {tokens:,} tokens; expected at least "
                f"{-(-tokens // MOST):,}"
            )
        return max(1, min(found, len(self.originals)))

    def assign_parts(self, parts: int) -> Sequence[int]:
        """The part of each item [n], from 0."""
        part = np.zeros(len(self._owners), dtype=np.int64)
        start = 0
        places = np.asarray(self.originals, dtype=np.int64)
        for number, end in enumerate(part_ends(self.weights, self.sharing, parts)):
            part[places[start:end]] = number
            start = end
        return array("q", part[self._owners].tobytes())


def _items_of_parts(made: Plan, part_of: Sequence[int], parts: int) -> Iterator[Sequence[int]]:
    """The places of the items of each part, in the order of their ids."""
    by_id = np.asarray(sort_places(name.encode() for name in made.questions.items.ids), dtype=np.int64)
    own = np.asarray(part_of, dtype=np.int64)[by_id]
    sorted_places = by_id[np.argsort(own, kind="stable")]
    ends = np.cumsum(np.bincount(own, minlength=parts))
    for start, end in zip([0, *ends], ends, strict=False):
        yield array("q", sorted_places[start:end].tobytes())


def _record(
    made: Plan, place: Path, costs: Sequence[PromptCost], part_of: Sequence[int], options: ShardOptions
) -> Shards:
    questions, parts = made.questions, max(part_of) + 1
    tokens = count_tokens(costs, part_of, parts, questions.repeats)
    (undivided,) = count_tokens(costs, [0] * len(part_of), 1, questions.repeats)
    drawn = frozenset(made.again.items.ids)
    again: list[list[str]] = [[] for _ in range(parts)]
    for name, part in zip(questions.items.ids, part_of, strict=True) if len(drawn) else ():
        if name in drawn:
            again[part].append(name)
    records = []
    for number, held in enumerate(_items_of_parts(made, part_of, parts)):
        records.append(
            PartRecord(
                items=len(held),
                requests=len(held) * len(questions.strategies) * questions.repeats,
                **tokens[number]._asdict(),
                digest=questions.items.part(held).digest(),
                again=tuple(sorted(again[number])),
            )
        )
    noted = manifest_fields(made)
    provenance: dict[Any, Any] = {name: noted.pop(name) for name in made.benchmark.provenance}
    name = run_name(place.with_name(place.name.removesuffix(PARTS_ENDING)))
    try:
        check_run_name(name)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}; name the run by letters, digits, '.', '_' and '-'") from None
    return Shards(
        run=name,
        created=utc_now(),
        tomserve=__version__,
        experiment=options.to_dict(),
        provenance=provenance,
        strategies={one.name: AskedStrategy.of(one) for one in questions.strategies},
        variants=made.variants,
        noise=made.again_share,
        originals=len(made.varied.originals),
        shared_tokens=undivided.shared_tokens,
        parts=tuple(records),
        **noted,
    )


@contextlib.contextmanager
def _lock_folder(place: Path) -> Iterator[None]:
    """Make the folder of the parts, and keep other processes that divide from it meanwhile."""
    with contextlib.ExitStack() as held:
        try:
            place.mkdir(parents=True, exist_ok=True)
            alone = held.enter_context(files.lock_folder(place))
        except OSError as error:
            hint = "choose a writable place by TOMSERVE_RUNS or --run PATH"
            raise MachineError(f"{place}: cannot be written ({error.strerror}); {hint}") from None
        if not alone:
            raise MachineError(f"{place}: another process divides into it right now; wait for it, or use --run NEW")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # nothing was written, and nothing is left behind
                place.rmdir()


def _is_divided(place: Path, shards: Shards) -> bool:
    """Whether the folder holds these parts already. Raises RunMismatchError where it holds others, or where the run
    that they would be merged into is there without them."""
    run = place.with_name(place.name.removesuffix(PARTS_ENDING))
    if not os.path.lexists(place / FILE):
        if run != place and (run / "manifest.json").exists():
            raise RunMismatchError(f"{run}: is a run already, which the parts would be merged into; use --run NEW")
        return False
    there = Shards.read(place)
    if (differing := _difference(there, shards)) is not None:
        raise RunMismatchError(
            f"{place}: holds {len(there.parts)} parts of an evaluation whose {differing} differ; use --run NEW, or "
            "delete the folder"
        )
    return True


def _difference(there: Shards, shards: Shards) -> str | None:
    """In which field two records differ that both describe parts; None where they are of the same ones."""
    one, other = (each.model_dump(exclude={"created", "tomserve"}) for each in (there, shards))
    return next((name for name, value in one.items() if other[name] != value), None)


def _clear(place: Path) -> None:
    """Remove what a `tomserve shard` that was killed has left. Raises ConfigError where anything else is there."""
    for entry in sorted(os.scandir(place), key=lambda one: one.name):
        inside = []
        if entry.is_dir(follow_symlinks=False):
            inside = [
                name for name in os.listdir(entry.path) if name != "items.jsonl" and not name.startswith(".tomserve-")
            ]
            if re.fullmatch(r"\d{4}", entry.name) and not inside:
                shutil.rmtree(entry.path, ignore_errors=True)
                continue
        elif entry.name.startswith(".tomserve-"):
            continue
        raise ConfigError(f"{place}: holds {entry.name}, which is no part that was just divided; use --run NEW")
