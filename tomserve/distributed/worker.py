"""The worker that asks a shard, on whatever machine it is called.

A shard is asked as an ordinary run: the same plan, phases, journal and signals. What it asks comes from the record of
the shards and from its own items; what is found here, such as the prompts of a strategy or the model that a server
offers, is compared with that record before anything is asked.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tomserve.distributed.shards import FILE, ITEMS, ShardOptions, Shards, part_folder, part_state
from tomserve.engine.addresses import redact_url
from tomserve.errors import ConfigError
from tomserve.items import read_items
from tomserve.runs import runfolder
from tomserve.runs.evaluation import EvalResult, Evaluation, Servers, evaluate
from tomserve.runs.item_store import ItemStore
from tomserve.runs.noise_check import NoiseSample
from tomserve.runs.planning import EvalOptions, WholeEvaluation, load_strategy_folders
from tomserve.runs.progress import Listener
from tomserve.serving import keys


@dataclass(frozen=True)
class Connection:
    """How the model is reached; it may differ from part to part. None: as the evaluation was divided with."""

    base_urls: tuple[str, ...] = ()  # of servers; empty: those it was divided with, else one of this machine
    timeout: float | None = None  # seconds of one request
    concurrency: int | None = None
    transport: str | None = None
    hedge: float | None = None  # seconds after which a second server is asked, too
    patience: float | None = None  # seconds to wait for a server that loads
    here: bool = False  # use a server of this machine, whatever it was divided with
    setup: bool = False  # install vLLM first where it is missing
    accept_change: bool = False  # go on where another server answers than before
    strategies: tuple[str, ...] = ()  # folders of the user's own, as the record of the parts holds their names alone


def ask_part(
    folder: Path,
    number: int,
    how: Connection,
    listener: Listener,
    drive: Callable[[Evaluation], None],
    servers: Servers | None = None,
) -> EvalResult:
    """Ask what is left of the part of that number, from 0; parameters and errors as of `tomserve.runs.evaluation`.
    Raises RunMismatchError where it would be asked in another way than the evaluation was divided for."""
    return evaluate(part_options(folder, Shards.read(folder), number, how), listener, drive, servers=servers)


def part_options(folder: Path, shards: Shards, number: int, how: Connection) -> EvalOptions:
    """The options by which a part is asked. Raises ConfigError where there is no such part, or it lacks its items."""
    if not 0 <= number < len(shards.parts):
        raise ConfigError(f"part {number}: {folder} holds parts 0 to {len(shards.parts) - 1}")
    place = part_folder(folder, number)
    if not (place / ITEMS).exists():
        raise ConfigError(
            f"{place / ITEMS}: is missing, so that nobody knows what this part asks; restore it, or divide the "
            "evaluation again under another name"
        )
    runfolder.check_files(place)
    options = shards.options
    own = ("base_urls", "here", "setup", "accept_change", "strategies")
    given = {
        one.name: value for one in fields(how) if one.name not in own and (value := getattr(how, one.name)) is not None
    }
    return replace(
        options.options(),
        benchmark=shards.benchmark,
        strategies=load_strategy_folders(options.strategy, how.strategies),
        items=ItemStore(read_items(place / ITEMS)),
        base_urls=_addresses(options, how),
        variants=(),  # those that were wanted are among the items
        noise_check=shards.noise or None,
        run=os.path.abspath(place),
        start=True,
        setup=how.setup,
        accept_change=how.accept_change,
        whole=whole_evaluation(shards, number),
        **given,
    )


def whole_evaluation(shards: Shards, number: int) -> WholeEvaluation:
    """What a part knows of the evaluation that it belongs to."""
    part = shards.parts[number]
    repeated = sum(len(one.again) for one in shards.parts)
    drawn = NoiseSample(shards.noise, repeated, shards.originals)
    return WholeEvaluation(shards.asked, shards.strategies, part.digest, drawn, frozenset(part.again), shards.variants)


def _addresses(options: ShardOptions, how: Connection) -> tuple[str, ...]:
    """The addresses that are asked; none for a server of this machine.

    Raises ConfigError where a key would be sent to an address that only the record names, and where the record names
    the variable of a key: the parts may come from somebody else, who would so be sent the key.
    """
    if how.here or not (how.base_urls or options.base_url):
        return ()
    if options.key is not None and keys.own_key() is None:
        raise ConfigError(
            f"{FILE} says that the API key is in the variable {options.key}; put it into TOMSERVE_API_KEY, as no names "
            "of variables are taken from there"
        )
    if not how.base_urls and keys.any_secret() is not None:
        raise ConfigError(
            f"the API key would be sent to {', '.join(map(redact_url, options.base_url))}, which {FILE} names; say so "
            "by --base-url URL, or use a server of this machine by --here"
        )
    return how.base_urls or options.base_url


def next_part(folder: Path, passed: Collection[int] = ()) -> int | None:
    """The first part that is not complete and that no process asks; None where there is none. passed: numbers of parts
    that are left out. Raises ConfigError as `part_state` does."""
    for number, part in enumerate(Shards.read(folder).parts):
        if number not in passed and part_state(folder, number, part).state not in ("running", "complete"):
            return number
    return None
