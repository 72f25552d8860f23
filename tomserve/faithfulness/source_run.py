"""The finished run whose chains of thought are edited, with its strategies exactly as they asked for them."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tomserve import benchmarks
from tomserve.content.paths import run_name
from tomserve.content.validation import is_own_dataset
from tomserve.engine.adaptations import check_names
from tomserve.engine.records import CLOSES, CONCLUSION
from tomserve.engine.request import Sampling
from tomserve.errors import ConfigError, TomserveError, one_of
from tomserve.faithfulness import chains
from tomserve.faithfulness.chains import OmittedEdit, WrittenChain
from tomserve.faithfulness.hints import HintedTurn, add_hints
from tomserve.items import EVERY, Item, read_items
from tomserve.items import where as met
from tomserve.items.item import items_digest
from tomserve.prompting.strategy import Strategy
from tomserve.runs.journal import journal_path, read_rows, row_identity
from tomserve.runs.manifest import AskedStrategy, Manifest, explain_closed
from tomserve.runs.measurement import refuse_measured
from tomserve.runs.runfolder import ITEMS, check_files
from tomserve.scoring.score import read_response
from tomserve.scoring.thoughts import THINK, split_thoughts
from tomserve.serving.presets import Preset
from tomserve.status import ANSWERS

_SAMPLED = ("temperature", "seed", "repeats")
"""What the manifest keeps of the sampling besides further fields of a request."""


def sampling_of(folder: Path, manifest: Manifest) -> Sampling:
    """How the run was sampled. Raises ConfigError where that was with chance, or cannot be."""
    warmth, seed = (manifest.sampling.get(name) or 0 for name in ("temperature", "seed"))
    for name, value, kinds in (("temperature", warmth, (int, float)), ("seed", seed, (int,))):
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ConfigError(f"{folder / 'manifest.json'}: sampling.{name} is {value!r:.60}; expected a number")
    if warmth:
        raise ConfigError(
            f"{folder}: was sampled at temperature {warmth:g}, so that its answers change by chance, too; ask again at "
            "temperature 0 (tomserve eval without --temperature)"
        )
    extra = {name: value for name, value in manifest.sampling.items() if name not in _SAMPLED}
    return Sampling(0.0, int(seed), extra, adaptations=check_names(manifest.adaptations or ()))


def check_texts(path: Path, row: Mapping[str, Any]) -> None:
    """Raise ConfigError where a field of a reply that is read as text holds something else. path: the journal."""
    for name in ("text", "reasoning", "error", CONCLUSION):
        if row.get(name) is not None and not isinstance(row[name], str):
            raise ConfigError(
                f"{path}: item {row['item']!r:.80}: field {name!r} is {row[name]!r:.40}; expected text; repair or "
                "delete that line"
            )


def preset_of(manifest: Manifest) -> Preset | None:
    """The preset of the run's model: the one that its server was started by, else the one of that name."""
    own = manifest.server.get("preset")
    if isinstance(own, dict):
        return Preset.of_record(own, "manifest.json: server.preset")
    return Preset.lookup(manifest.preset) if manifest.preset else None


def strategy_of(folder: Path, manifest: Manifest, name: str, preset: Preset | None) -> Strategy:
    """A strategy with the options by which it asked in that run. Raises ConfigError where its prompts have changed."""
    record = manifest.strategies[name]
    overrides = preset.prompt_parts if preset else {}
    own = {"system_role": preset.system_role if preset else True, "overrides": overrides}
    for options in _options(record, preset):  # the manifest does not say how the most tokens came about
        strategy = Strategy.named(name, **own, **options)
        if strategy.digest == record.digest:
            return strategy
    raise ConfigError(
        f"{folder}: strategy {name!r} asks otherwise now than when this run was asked (its prompts, its most tokens or "
        "the model's preset have changed), so that edited chains would stand in other prompts; restore it, or ask again"
    )


def _options(record: AskedStrategy, preset: Preset | None) -> Iterator[dict[str, int]]:
    for thinking in dict.fromkeys((0, preset.thinking_tokens() if preset and preset.reasoning else 0)):
        yield {"thinking": thinking}
        if record.max_tokens and record.max_tokens > thinking:
            yield {"thinking": thinking, "max_tokens": record.max_tokens - thinking}


Rows = Mapping[int, Mapping[str, Any]]
"""The rows of one conversation by their turns."""

_COLON = re.compile(r'"answer"\s{0,20}:(\s{0,4})"')
"""The colon before an answer, with the white space behind it."""


@dataclass(frozen=True)
class Chain:
    """A chain that can be edited."""

    item: Item
    strategy: Strategy
    written: WrittenChain
    replies: tuple[str, ...] = ()  # those of the conversation's turns up to the reasoning, the last; () for one turn
    space: str = ""  # what the model wrote between the colon and its answer

    @property
    def lettered(self) -> bool:
        """Whether the choices were shown as A, B, C."""
        return is_lettered(self.item, self.strategy)

    @cached_property
    def hints(self) -> dict[str, HintedTurn | OmittedEdit]:
        """The prompt with each hint in it, by condition."""
        made = add_hints(self.item, self.strategy.turn, self.written.model_answer, lettered=self.lettered)
        return {one.condition: one for one in made}


@dataclass(frozen=True)
class SourceRun:
    """A finished run."""

    folder: Path
    manifest: Manifest
    sampling: Sampling
    preset: Preset | None
    chains: Sequence[Chain]  # those that can be edited, by strategy and item
    unreadable: Mapping[str, Sequence[tuple[Item, str]]] = field(default_factory=dict)  # the others, with the reason
    mates: Mapping[str, Sequence[Item]] = field(default_factory=dict)  # all questions about a story, by cluster

    @property
    def name(self) -> str:
        """The run's name."""
        return run_name(self.folder)

    def mates_of(self, item: Item) -> list[Item]:
        """The other questions about the item's story."""
        found = self.mates.get(item.cluster or item.id, ())
        return [one for one in found if one.id != item.id and one.story == item.story]


def item_columns(item: Item) -> dict[str, str]:
    """The columns of a table that say which item a row is about."""
    return {"benchmark": item.benchmark, "item": item.id, "cluster": item.cluster or item.id, "unit": unit_of(item)}


def chain_columns(chain: Chain) -> dict[str, Any]:
    """The columns of a table that say which chain a row is about."""
    return {
        **item_columns(chain.item),
        **{"asked_by": chain.strategy.name, "form": chain.written.form, "written": chain.written.text},
        **{"question": chain.item.question, "choices": len(chain.item.choices)},
    }


def unit_of(item: Item) -> str:
    """What counts as one independent draw in an interval: the stage where the item names one, else its cluster."""
    stage = item.factors.get("stage")
    return str(stage) if stage is not None else item.cluster or item.id


def read_source(folder: Path, strategies: Sequence[str], where: Sequence[str]) -> SourceRun:
    """Read a run. strategies, where: as in Settings.

    Raises ConfigError for a run without answers, one that was sampled with chance, strategies that mark no chain, and
    prompts that have changed since it was asked; ContentError where a file cannot be read.
    """
    check_files(folder)
    refuse_measured(folder, "has no chains", "name a run of answers (tomserve eval)")
    manifest = Manifest.load(folder)
    if (held := explain_closed(manifest.measured, manifest.foreign)) is not None:
        raise ConfigError(f"{folder}: holds {held}; chains are edited in runs that `tomserve eval` has made")
    sampling = sampling_of(folder, manifest)
    preset = preset_of(manifest)
    asked = list(manifest.strategies)
    for name in strategies:
        if name not in asked:
            raise ConfigError(f"{folder}: {one_of('strategy', name, asked)} (those that the run was asked by)")
    names = list(dict.fromkeys(strategies)) or asked
    loaded = {name: strategy_of(folder, manifest, name, preset) for name in names}
    if warm := [name for name, strategy in loaded.items() if marks_reasoning(strategy) and not strategy.greedy(0.0)]:
        raise ConfigError(f"{folder}: strategy {warm[0]!r} samples with chance, so that its answers change anyway")
    benchmark = benchmarks.find(manifest.benchmark)
    conditions = tuple(where) or (benchmark.reasoned if benchmark is not None else ()) or (EVERY,)
    items = list(met((item for item in read_items(folder / ITEMS) if item.base is None), conditions))
    rows = read_rows_of(folder, {item.id for item in items}, names)
    chains: list[Chain] = []
    unreadable: dict[str, list[tuple[Item, str]]] = defaultdict(list)
    for name, strategy in loaded.items():
        for item in items:
            found = read_chain(item, strategy, rows.get((item.id, name), {}))
            if isinstance(found, Chain):
                chains.append(found)
            elif found:
                unreadable[name].append((item, found))
    if not chains:
        said = {reason for pairs in unreadable.values() for _, reason in pairs}
        why = f" ({min(said)})" if said else "; strategies whose replies hold one say so by `reasoning` or `beliefs`"
        raise ConfigError(f"{folder}: none of its answers has a chain that can be edited{why}")
    return SourceRun(folder, manifest, sampling, preset, chains, dict(unreadable), _mates(folder, manifest, chains))


def marks_reasoning(strategy: Strategy) -> bool:
    """Whether a strategy says where its reasoning is."""
    return strategy.reasoning is not None or (strategy.chain and not strategy.is_multi_turn)


def read_rows_of(
    folder: Path, items: set[str], strategies: Iterable[str]
) -> dict[tuple[str, str], dict[int, Mapping[str, Any]]]:
    """The rows of the first sample of these questions, by item and strategy, then by turn."""
    wanted = set(strategies)
    found: dict[tuple[str, str], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    journal = journal_path(folder)
    for _, row in read_rows(journal):
        identity = row_identity(row)
        if identity.item in items and identity.strategy in wanted and identity.sample == 0:
            check_texts(journal, row)
            found[identity.item, identity.strategy][identity.turn] = row
    return found


def last_row(strategy: Strategy, rows: Rows) -> Mapping[str, Any] | None:
    """The row that ends a conversation, None where it has not ended."""
    if not strategy.is_multi_turn:
        return rows.get(0)
    return next((row for _, row in sorted(rows.items(), reverse=True) if CLOSES in row), None)


def read_chain(item: Item, strategy: Strategy, rows: Rows) -> Chain | str:
    """The chain of one answer; "" where the strategy marks none, else the reason why it cannot be edited. item: as it
    was shown. rows: those of the conversation about it, by turn."""
    thought = not marks_reasoning(strategy)
    row = last_row(strategy, rows)
    if row is None:
        return "" if thought else "it has no answer in the run"
    if row["status"] not in ANSWERS:
        return "" if thought else f"its answer is missing ({row['status']})"
    row = {**row, "text": row.get(CONCLUSION, row.get("text")) or ""}
    if thought and not (row.get("reasoning") or split_thoughts(row["text"]).thought is not None):
        return ""  # an answer alone
    lettered = is_lettered(item, strategy)
    own = read_response(item, row, lettered).answer
    if own is None:
        return "its answer cannot be read"
    replies: tuple[str, ...] = ()
    if strategy.reasoning is not None and strategy.reasoning.turn is not None:
        place = turn_place(strategy)
        replies = tuple(str((rows.get(turn) or {}).get("text") or "") for turn in range(place + 1))
        found = chains.turn_of(replies[place])
    elif strategy.reasoning is not None and strategy.reasoning.field is not None:
        found = chains.field_of(row["text"], strategy.reasoning.field)
    elif strategy.reasoning is not None or thought:
        marks = strategy.reasoning.marks if strategy.reasoning is not None else None
        found = chains.thinking_of(row["text"], row.get("reasoning"), marks or THINK)
    else:
        found = chains.labels_of(item, row["text"], lettered=lettered)
    if isinstance(found, str):
        return found
    spaced = _COLON.search(str(row["text"]))
    return Chain(item, strategy, found._replace(model_answer=own), replies, spaced[1] if spaced else "")


def has_turn(chain: Chain) -> bool:
    """Whether the chain is the reply of a turn of its own."""
    return chain.strategy.reasoning is not None and chain.strategy.reasoning.turn is not None


def turn_place(strategy: Strategy) -> int:
    """The place of the turn whose reply is the reasoning, from 0; turns are asked as strategy.yaml lists them."""
    assert strategy.reasoning is not None
    return strategy.turn_names.index(str(strategy.reasoning.turn))


def is_lettered(item: Item, strategy: Strategy) -> bool:
    benchmark = benchmarks.find(item.benchmark)
    return strategy.lettered or (benchmark is not None and benchmark.lettered)


def _mates(folder: Path, manifest: Manifest, chains: Sequence[Chain]) -> dict[str, list[Item]]:
    """All questions about the stories of these chains, by cluster, those that the run did not ask included."""
    wanted = {chain.item.cluster or chain.item.id for chain in chains}
    found: dict[str, dict[str, Item]] = defaultdict(dict)
    for item in (*_benchmarks_own(manifest), *read_items(folder / ITEMS)):
        if item.base is None and (item.cluster or item.id) in wanted:
            found[item.cluster or item.id][item.id] = item
    return {cluster: list(items.values()) for cluster, items in found.items()}


def _benchmarks_own(manifest: Manifest) -> list[Item]:
    """All items of the run's benchmark; none where they cannot be read here, or are others than those of the run."""
    benchmark = benchmarks.find(manifest.benchmark)
    named = manifest.benchmark_path
    if benchmark is None or benchmark.mixed or (named is not None and not is_own_dataset(named)):
        return []
    path = None if named is None else Path(named).expanduser()
    try:
        every = list(benchmark.items(path, manifest.benchmark_gold, benchmarks.ALL))
    except TomserveError:
        return []
    return every if items_digest(every) == manifest.benchmark_digest else []


def draw_chains(chains: Iterable[Chain], limit: int) -> list[Chain]:
    """At most `limit` chains of each strategy, spread evenly over the units; of one seed, so that runs are alike."""
    by_strategy: dict[str, dict[str, list[Chain]]] = defaultdict(lambda: defaultdict(list))
    for chain in chains:
        by_strategy[chain.strategy.name][unit_of(chain.item)].append(chain)
    found: list[Chain] = []
    for units in by_strategy.values():
        for members in units.values():
            members.sort(key=lambda one: (_drawn(one.item.id), one.item.id))
        order = sorted(units, key=lambda name: (_drawn(name), name))
        rounds = max(map(len, units.values()))
        spread = [units[name][turn] for turn in range(rounds) for name in order if turn < len(units[name])]
        found += spread[:limit]
    return found


def _drawn(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=8, salt=b"faithfulness").digest()
