"""The plan of an evaluation: from its options which items and variants are asked, of which model, and by which
strategies.

Making a plan asks no question and writes no file. A shard asks some of an evaluation's questions; its manifest
describes the whole evaluation, so that the manifests of the shards agree and their rows can be joined.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Protocol

import orjson
import pydantic

from tomserve import benchmarks, variants
from tomserve.benchmarks import Benchmark
from tomserve.benchmarks.base import require_choices
from tomserve.content.validation import ModelName, Name, note_dataset, strategy_name
from tomserve.engine import transports
from tomserve.engine.adaptations import POLICIES, SchemaPolicy
from tomserve.engine.redact import Redactor
from tomserve.engine.request import RESERVED, Sampling
from tomserve.engine.retry import RetryPolicy
from tomserve.errors import ConfigError, RunMismatchError, one_of
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.runs.conversations import Questions
from tomserve.runs.item_store import ItemStore, read_checked
from tomserve.runs.manifest import AskedStrategy, Manifest, VariantsRecord, short_text
from tomserve.runs.noise_check import NoiseSample
from tomserve.runs.open_again import parse_statuses
from tomserve.serving import endpoint, keys
from tomserve.serving.endpoint import Target
from tomserve.serving.presets import Preset, merge_fields
from tomserve.serving.probe import WaitPolicy
from tomserve.variants import Dropped, Kind, Retell

HOTTEST = 2  # the highest temperature that servers take
SEEDS = 2**31  # seeds are below this number; servers take 32 bits with a sign at least
MOST_REPEATS = 1000  # how many samples of a question there may be at most


def check_options(options: EvalOptions) -> None:
    """Raise ConfigError where a list, a number, a share, the temperature, the seed or the number of samples cannot
    be."""
    for name in ("base_urls", "strategies", "variants", "where", "again"):
        if isinstance(given := getattr(options, name), str):  # it would be taken letter by letter
            raise ConfigError(f"{name} is the text {given!r:.60}; expected a list of texts, such as [{given!r:.60}]")
    parse_statuses(options.again)
    for name in ("limit", "max_tokens", "concurrency"):
        if (count := getattr(options, name)) is not None and (type(count) is not int or count < 1):
            raise ConfigError(f"{name} is {count!r:.40}; expected a whole number from 1 on")
    for name, said in {"timeout": "the timeout", "hedge": "hedge", "patience": "the patience"}.items():
        seconds = getattr(options, name)
        if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 1):
            raise ConfigError(f"{said} is {seconds!r:.40}; expected seconds, at least 1")
    if (share := options.noise_check) is not None and not 0 < share <= 1:
        raise ConfigError(f"--noise-check {share:g}: expected a share of the items above 0, at most 1, e.g. 0.02")
    if options.answer_schema not in POLICIES:
        raise ConfigError(one_of("--schema", options.answer_schema, POLICIES))
    temperature, seed, repeats = options.temperature, options.seed, options.repeats
    if not isinstance(temperature, int | float) or isinstance(temperature, bool) or not 0 <= temperature <= HOTTEST:
        raise ConfigError(f"temperature is {temperature!r:.40}; expected a number from 0 (greedy) to {HOTTEST}")
    if type(seed) is not int or not 0 <= seed < SEEDS:
        raise ConfigError(f"seed is {seed!r:.40}; expected a whole number from 0 to {SEEDS - 1}")
    if type(repeats) is not int or not 1 <= repeats <= MOST_REPEATS:
        raise ConfigError(f"repeats is {repeats!r:.40}; expected a whole number from 1 to {MOST_REPEATS}")
    check_extra_body(options)
    if repeats > 1 and not temperature:
        raise ConfigError(
            f"--repeats {repeats}: at temperature 0 all samples of a question are the same; add a temperature, such as "
            "--temperature 0.7, or use --noise-check SHARE to see how often an answer changes by chance"
        )


def check_extra_body(options: EvalOptions) -> None:
    """Raise ConfigError where the further fields of a request are no JSON object, are set elsewhere, or hold a key."""
    extra, effort = options.extra_body, options.reasoning_effort
    try:
        if not isinstance(extra, Mapping):
            raise TypeError
        orjson.dumps(dict(extra))
    except TypeError:
        said = 'expected an object of JSON, such as {"top_p": 0.9}'
        raise ConfigError(f"--extra-body: {type(extra).__name__!r:.40} cannot be sent; {said}") from None
    if taken := sorted(set(extra) & RESERVED.keys()):
        raise ConfigError(f"--extra-body: tomserve sets {taken[0]!r} itself; {RESERVED[taken[0]]}")
    if effort is not None and not (isinstance(effort, str) and re.fullmatch("[a-z]{1,20}", effort)):
        raise ConfigError(f"--reasoning-effort {effort!r:.40}: expected a word such as low, medium or high")
    if effort is not None and extra.get("reasoning_effort", effort) != effort:
        raise ConfigError("--extra-body holds another 'reasoning_effort' than --reasoning-effort; leave one out")
    if Redactor(*keys.all_keys()).redact_json(dict(extra)) != extra:
        raise ConfigError(
            "--extra-body holds an API key, which the run's records would show; leave it out: keys are sent by "
            "TOMSERVE_API_KEY, or in a header by --header NAME=VARIABLE"
        )


def request_fields(options: EvalOptions, preset: Preset | None) -> dict[str, Any]:
    """The fields of every request beside those that tomserve sets itself: the preset's, then the user's own."""
    effort = {} if options.reasoning_effort is None else {"reasoning_effort": options.reasoning_effort}
    return merge_fields(preset.extra(options.thinking) if preset else {}, options.extra_body, effort)


WAY_OUT = "ask with what the evaluation was divided with, or divide it again under another name"
"""What a user can do where a part would be asked in another way than the others."""


@dataclass(frozen=True)
class WholeEvaluation:
    """The evaluation of which a run is a part."""

    fields: Mapping[str, Any]  # those of its manifest from `benchmark` to `sampling`
    strategies: Mapping[str, AskedStrategy]  # what is known of those that ask
    digest: str  # of the items of this part alone
    sample: NoiseSample  # what the noise check of the whole draws
    again: frozenset[str] = field(default_factory=frozenset)  # the ids of the items of this part that it draws
    variants: VariantsRecord | None = None  # the record of all variants, None where none were wanted

    def resolve_target(self, target: Target) -> Target:
        """The server, with the revision of the whole's model: a server that does not say which one it serves is taken
        at the user's word. Raises RunMismatchError where it serves another model, or another revision of it."""
        revision = self.fields.get("revision")
        if target.model != self.fields["model"]:
            raise _differs("model", self.fields["model"], target.model)
        if None not in (revision, target.revision) and revision != target.revision:
            raise _differs("revision", revision, target.revision)
        return replace(target, revision=revision)

    def check(self, plan: Plan) -> None:
        """Raise RunMismatchError at the first thing in which a plan would not ask this part of the whole: its items,
        its sampling, and what shapes the requests of its strategies."""
        if plan.every.digest() != self.digest:
            raise RunMismatchError(
                "items.jsonl of this part holds other questions than it was given (their digest differs); restore the "
                "file, or divide the evaluation again under another name"
            )
        if (sampling := plan.sampling.record()) != self.fields["sampling"]:
            raise _differs("sampling", self.fields["sampling"], sampling)
        loaded = {one.name: AskedStrategy.of(one) for one in plan.questions.strategies}
        if sorted(loaded) != sorted(self.strategies):
            raise _differs("strategies", sorted(self.strategies), sorted(loaded))
        for name, strategy in loaded.items():
            for part in AskedStrategy.model_fields:
                if (was := getattr(self.strategies[name], part)) != (now := getattr(strategy, part)):
                    raise _differs(f"{part} of strategy {name!r}", was, now)

    def noise_items(self, originals: ItemStore) -> ItemStore:
        """Those of the part's items that its noise check asks again."""
        return originals.part([place for place, name in enumerate(originals.ids) if name in self.again])


def _differs(what: str, planned: Any, found: Any) -> RunMismatchError:
    difference = f"{what} was {short_text(planned)} when the evaluation was divided, here it is {short_text(found)}"
    return RunMismatchError(f"{difference}; {WAY_OUT}")


def manifest_fields(plan: Plan) -> dict[str, Any]:
    """The fields of the manifest, from `benchmark` to `sampling`, of what a plan asks."""
    options = plan.options
    return {
        "benchmark": plan.benchmark_name,
        "benchmark_path": str(options.path) if options.path else None,
        **({"benchmark_gold": options.gold} if options.gold else {}),
        "benchmark_digest": plan.every.digest(),
        "benchmark_items": len(plan.wanted),
        **plan.benchmark.provenance,
        **({} if (rounds := options.rounds) is None else {"study": rounds.study}),
        "model": plan.target.model,
        "revision": plan.target.revision,
        "preset": plan.target.preset.name if plan.target.preset else None,
        "sampling": plan.sampling.record(),
        **({} if rounds is None else {"settings": dict(rounds.record)}),
    }


def begin_manifest(plan: Plan, folder: Path) -> Manifest:
    """The manifest of a run in that folder that begins now, and asks what was planned."""
    whole = plan.options.whole
    fields = manifest_fields(plan) if whole is None else whole.fields
    return Manifest.new(folder, plan.questions.strategies, **fields)


def load_strategies(options: EvalOptions, benchmark: Benchmark, preset: Preset | None, thinking: int) -> list[Strategy]:
    """The strategies that the user wants, else the benchmark's own, as the model's preset changes them. Raises
    ConfigError where two have the same name."""
    strategies = [
        Strategy.load(
            name,
            system_role=preset.system_role if preset else True,
            overrides=preset.prompt_parts if preset else {},
            max_tokens=options.max_tokens or 0,
            thinking=thinking,
        )
        for name in dict.fromkeys(options.strategies or benchmark.strategies)
    ]
    if twice := [name for name, count in Counter(s.name for s in strategies).items() if count > 1]:
        raise ConfigError(f"two strategies are called {twice[0]!r}; rename the folder of one")
    return strategies


def load_strategy_folders(names: Sequence[str], given: Sequence[str], *, some: bool = False) -> tuple[str, ...]:
    """The strategies that a record names, those by their folders that the user gives for them now. some: whether the
    record may name only some of those. Raises ConfigError where the user gives one that it does not."""
    folders = {strategy_name(one): one for one in given}
    if not some and (strange := [name for name in folders if name not in names]):
        raise ConfigError(one_of("--strategy", strange[0], names))
    return tuple(folders.get(name, name) for name in names)


def thinking_budget(preset: Preset | None, model: str, wanted: str | None) -> int:
    """How many tokens a reply may think. Raises ConfigError where no preset says how the model's thinking is set."""
    if preset is None and wanted is not None:
        raise ConfigError(
            f"--thinking {wanted}: no preset tells how {model} is switched; write launch/models/NAME.yaml with a "
            "reasoning: section (qwen3-8b.yaml is an example)"
        )
    return preset.thinking_tokens(wanted) if preset is not None else 0


def check_sampling_varies(options: EvalOptions, strategies: Sequence[Strategy]) -> None:
    """Raise ConfigError where samples are wanted of a strategy whose own temperature makes them all the same."""
    for strategy in strategies if options.repeats > 1 else ():
        if strategy.greedy(options.temperature):
            raise ConfigError(
                f"--repeats {options.repeats}: strategy {strategy.name} sets the temperature of its turns to 0 in "
                f"{strategy.folder / 'strategy.yaml'}, so that all samples of a question are the same; leave it out"
            )


AGAIN_ITEMS = 200  # of so many originals T0 asks the same prompt again, where --noise-check names no share

REASONS = 20
"""So many reasons for which variants were left out are recorded of each kind; further ones are counted together."""


@dataclass(frozen=True)
class VariedItems:
    """The items of a run: the originals, and the variants that go with them. originals, variants: in the order in which
    they are asked. dropped: for each kind, how many variants were left out, by reason."""

    originals: ItemStore
    variants: ItemStore = field(default_factory=ItemStore)
    kinds: Sequence[Kind] = ()  # the kinds that were wanted
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def items(self) -> ItemStore:
        """All of them, the originals first."""
        return self.originals.concat(self.variants) if len(self.variants) else self.originals

    @property
    def made(self) -> dict[str, int]:
        """How many variants there are of each kind that was wanted."""
        counted = Counter(entry.kind for entry in self.variants.entries())
        return {kind.name: counted[kind.name] for kind in self.kinds if kind is not variants.AGAIN}

    def again(self, share: float | None) -> float:
        """The share of the originals that is asked again: what --noise-check says, else what T0 needs, else 0."""
        if share or variants.AGAIN not in self.kinds or not len(self.originals):
            return share or 0.0
        return min(1.0, AGAIN_ITEMS / len(self.originals))

    def record(self) -> VariantsRecord | None:
        """What the manifest keeps of the variants; None where none were wanted."""
        if not self.kinds:
            return None
        dropped = {}
        for kind, reasons in self.dropped.items():
            most = dict(Counter(reasons).most_common(REASONS))
            rest = sum(reasons.values()) - sum(most.values())
            dropped[kind] = most | ({"other reasons": rest} if rest else {})
        return VariantsRecord(kinds=[kind.name for kind in self.kinds], made=self.made, dropped=dropped)

    def describe(self) -> str | None:
        """In one line, how many variants of each kind there are, and how many were left out; None without variants."""
        if not self.kinds:
            return None
        made = ", ".join(f"{kind} {count:,}" for kind, count in self.made.items())
        left = {kind: sum(reasons.values()) for kind, reasons in self.dropped.items() if reasons}
        without = ", ".join(f"{kind} {count:,}" for kind, count in left.items())
        many = f"{len(self.originals):,} question{'s' * (len(self.originals) != 1)}"
        text = f"variants of {many}: {made}" if made else ""
        return (f"{text}; left out: {without}" if without else text) or None


def split_variants(every: ItemStore) -> tuple[ItemStore, ItemStore]:
    """The items that are no variants, and those that are. Raises ConfigError for a variant whose original is missing or
    a variant itself, whose choices or right answer do not stand for the original's, and whose factor `variant` names no
    kind."""
    originals, given = every.split_variants()
    places = {name: place for place, name in enumerate(originals.ids)} if len(given) else {}
    for line in given.lines:
        variant = orjson.loads(line)
        name, base, kind = variant["id"], variant["base"], variant["factors"].get("variant", "other")
        if (place := places.get(base)) is None:
            raise ConfigError(
                f"item {name!r} is a variant of {base!r} (its field 'base'), and no item that is no variant itself has "
                "this id; keep the originals together with their variants, or leave 'base' out"
            )
        own = orjson.loads(originals.lines[place])
        means = dict(zip(variant["choices"], variant.get("meanings") or variant["choices"], strict=True))
        if set(means.values()) != set(own["choices"]) or means[variant["answer"]] != own["answer"]:
            raise ConfigError(
                f"item {name!r} is a variant of {base!r} (its field 'base'), but its choices or its answer do not "
                f"stand for those of {base!r}; say by 'meanings' which choice stands for which, or leave 'base' out"
            )
        if not isinstance(kind, str) or not kind or kind == variants.AGAIN.name:
            raise ConfigError(
                f"item {name!r}: factor 'variant' is {kind!r:.60}; expected the name of a kind of variant"
            )
    return originals, given


def add_variants(
    originals: ItemStore,
    given: ItemStore,
    kinds: Sequence[Kind],
    retelling: Callable[[str], Retell],
    taken: Iterable[str] = (),
) -> VariedItems:
    """The originals with their variants. given: variants that came with the items. kinds: the kinds that are wanted;
    empty for those that were given. retelling: what tells the items of a benchmark otherwise, by its name. taken: ids
    that no variant may get."""
    chosen = frozenset(originals.ids if kinds or len(given) else ())
    wanted = {kind.name for kind in kinds}
    fitting = (entry for entry in given.entries() if not wanted or entry.kind in wanted)
    known = given.part(array("Q", (entry.place for entry in fitting if str(entry.base) in chosen)))
    if not kinds:
        return VariedItems(originals, known)
    have = {(entry.base, entry.kind) for entry in known.entries()}
    dropped: dict[str, Counter[str]] = {kind.name: Counter() for kind in kinds if kind is not variants.AGAIN}
    ids = frozenset(chain(taken, originals.ids, given.ids))

    def new_variants() -> Iterator[Item]:
        for one in variants.make_variants(originals, kinds, retelling, have):
            if isinstance(one, Dropped):
                dropped[one.kind.name][one.reason] += 1
            elif one.id in ids:
                dropped[str(one.factors["variant"])][variants.TAKEN] += 1
            else:
                yield one

    known = known.concat(ItemStore(new_variants()))
    return VariedItems(originals, known, tuple(kinds), {kind: dict(one) for kind, one in dropped.items()})


class Rounds(Protocol):
    """Questions that follow from the answers to those before: the same answers give the same rounds again. record: the
    settings that they follow from, which a run keeps and must not change. study: what reads such a run. expected: about
    how many questions there will be in all; 0 once the last round is known."""

    @property
    def record(self) -> Mapping[str, Any]: ...
    @property
    def study(self) -> str: ...
    @property
    def expected(self) -> int: ...

    def following(self, answers: Mapping[str, bool]) -> Sequence[Item]:
        """The questions of the next round; none after the last. answers: whether each question of the rounds so far, by
        its id, was answered right; one that is not there has no answer."""


TELL_EVERY = 100_000  # after so many items it is said how many were read


@dataclass(frozen=True)
class EvalOptions:
    """The options of `tomserve eval` and `tomserve.ask`. None, or empty, means the default that their help states.
    items: the items themselves, where a caller has them; `benchmark` is then only the name that the run notes. path,
    gold: the benchmark's file, and which set of correct answers counts. model, revision: the model's id or a preset's
    name, and its exact version. variants: the kinds of variants that are asked besides the items, by their names; see
    tomserve.variants. start: whether a server of the model may be started where none runs; that of the reference model
    always may. patience: seconds to wait for a server that is busy or still loads before the first question, and for
    one that gives nothing but refusals later; None for what suits the case. whole: the evaluation of which this one is
    a part, where it is one; see tomserve.runs.planning. rounds: what proposes further items once these are answered."""

    benchmark: str | None = None  # the name of the benchmark, or the path of a file that declares one
    items: Sequence[Item] = ()
    path: Path | None = None
    gold: str | None = None
    where: tuple[str, ...] = ()  # conditions that the questions have to meet (see tomserve.items.where)
    strategies: tuple[str, ...] = ()  # names or folders of prompting strategies
    model: str | None = None
    base_urls: tuple[str, ...] = ()  # the addresses of the servers
    run: str | None = None  # the name or folder of the run
    limit: int | None = None  # how many items are asked at most
    revision: str | None = None
    max_tokens: int | None = None  # how many tokens a reply may have
    thinking: str | None = None  # "on", "off" or a number of tokens
    reasoning_effort: str | None = None  # how much a hosted reasoning model is to think: "low", "medium", "high", ...
    extra_body: Mapping[str, Any] = field(default_factory=dict)  # further fields of every request
    answer_schema: SchemaPolicy = "on"  # whether replies must be held to a schema, as far as the server can, or never
    timeout: float = 600.0  # seconds that one request may take
    concurrency: int | None = None  # how many requests are in flight; None to find it out
    transport: str = transports.DEFAULT  # how requests are sent, one of tomserve.engine.transports.TRANSPORTS
    hedge: float | None = None  # seconds after which a second server is asked, too
    noise_check: float | None = None  # the share of the items that is asked again
    variants: tuple[str, ...] = ()
    setup: bool = False  # whether vLLM may be installed where it is needed and missing
    start: bool = False
    again: tuple[str, ...] = ()  # statuses of final rows without an answer whose questions are asked again
    accept_change: bool = False  # whether to go on where another server or model answers than before
    temperature: float = 0.0  # how much chance there is in the choice of a token; 0 for the likeliest token always
    seed: int = 0  # the seed of the first sample; each further one has the next number
    repeats: int = 1  # how many samples of each question are asked
    patience: float | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)  # how often and when a failed request is sent again
    whole: WholeEvaluation | None = None
    rounds: Rounds | None = None

    @property
    def asking_policy(self) -> RetryPolicy:
        """The policy by which questions are asked: with the user's own patience, where one is given."""
        return self.policy if self.patience is None else replace(self.policy, lost_after=self.patience)


Seconds = Annotated[float, pydantic.Field(ge=1, le=1e6, allow_inf_nan=False)]
Several = Annotated[tuple[str, ...], pydantic.Field(max_length=1000)]


class RecordedOptions(pydantic.BaseModel):
    """What is to be asked of which model, and how, with the fields of `tomserve eval --config`, as files hold it. key:
    the name of the variable that holds the API key, never the key."""

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
        populate_by_name=True,
    )

    model: ModelName | None = None
    base_url: Several = ()
    key: Annotated[str, pydantic.Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")] | None = None
    benchmark: Name | None = None
    path: str | None = None
    gold: str | None = None
    where: Several = ()
    strategy: Annotated[tuple[Name, ...], pydantic.Field(max_length=1000)] = ()
    limit: Annotated[int, pydantic.Field(ge=1)] | None = None
    revision: str | None = None
    max_tokens: Annotated[int, pydantic.Field(ge=1, le=2**31)] | None = None
    thinking: str | None = None
    reasoning_effort: Annotated[str, pydantic.Field(pattern=r"^[a-z]{1,20}$")] | None = None
    extra_body: dict[str, Any] = {}
    answer_schema: SchemaPolicy = "on"
    temperature: Annotated[float, pydantic.Field(ge=0, le=HOTTEST)] = 0.0
    seed: Annotated[int, pydantic.Field(ge=0, le=SEEDS - 1)] = 0
    repeats: Annotated[int, pydantic.Field(ge=1, le=MOST_REPEATS)] = 1
    timeout: Seconds = 600.0
    concurrency: Annotated[int, pydantic.Field(ge=1, le=65536)] | None = None
    transport: str = transports.DEFAULT
    hedge: Seconds | None = None
    noise_check: Annotated[float, pydantic.Field(ge=0, le=1)] | None = None
    variants: Several = ()
    patience: Seconds | None = None

    def options(self) -> EvalOptions:
        """The same as the options of an evaluation."""
        own = self.model_dump(include={one.name for one in fields(EvalOptions)} - {"path"})
        path = None if self.path is None else Path(self.path)
        return EvalOptions(base_urls=self.base_url, strategies=self.strategy, path=path, **own)


@dataclass(frozen=True)
class Plan:
    """What an evaluation is to ask, and which model. wanted: those that are no variants and meet the conditions
    (`--where`); a limit may leave some of them out."""

    options: EvalOptions  # what the user wants
    benchmark: Benchmark  # the benchmark that the items belong to
    every: ItemStore  # all items of the benchmark
    parted: tuple[ItemStore, ItemStore]  # those of them that are no variants, and those that are
    wanted: ItemStore
    varied: VariedItems  # the questions of the run, and their variants
    target: Target  # the server and the model
    questions: Questions  # what is asked
    again: Questions  # what the noise check asks again
    sampling: Sampling  # temperature, seed and further fields of each request
    name: str  # the model's part of the run's name, unless the user names the run

    @property
    def benchmark_name(self) -> str:
        """The benchmark's name in the run: the one given with the items, else the benchmark's own."""
        return self.options.benchmark or self.benchmark.name if self.options.items else self.benchmark.name

    @property
    def selection(self) -> str | None:
        """What the conditions and the limit draw, in words; None where they leave nothing out."""
        items, (every, _) = self.varied.originals, self.parted
        if len(items) == len(every):
            return None
        conditions = choose_conditions(self.options, self.benchmark)
        said = [f"where {' and '.join(conditions)}"] if conditions else []
        said += [f"limit {self.options.limit}"] if self.options.limit is not None else []
        return f"{', '.join(said)}: asks {items.describe(every)}"

    @property
    def again_share(self) -> float:
        """The share of the originals that is asked again."""
        return self.noise_sample.share

    @property
    def noise_sample(self) -> NoiseSample:
        """What the noise check draws: of these items, or of those of the evaluation of which they are a part."""
        if self.options.whole is not None:
            return self.options.whole.sample
        return NoiseSample(
            self.varied.again(self.options.noise_check), len(self.again.items), len(self.varied.originals)
        )

    @property
    def variants(self) -> VariantsRecord | None:
        """What the manifest keeps of the variants; None where none were wanted."""
        whole = self.options.whole
        return self.varied.record() if whole is None else whole.variants

    def resume(self, asked: Collection[str], again: Collection[str]) -> Plan:
        """The plan for a run that was begun: a limit, and a noise check, first take the items that it took before.
        asked, again: ids of the items that the run, and its noise check, were ever to ask."""
        originals = self.wanted.take(self.options.limit, asked)
        varied = self.varied
        if originals.ids != varied.originals.ids:
            varied = _with_variants(self.options, self.benchmark, self.parted, originals)
        repeated = _noise_items(self.options, varied, again)
        questions = replace(self.questions, items=varied.items)
        return replace(self, varied=varied, questions=questions, again=replace(self.questions, items=repeated))


def make_plan(options: EvalOptions, waiting: WaitPolicy | None = None, chosen: Target | None = None) -> Plan:
    """Load the items, choose the server (unless it is `chosen`), load the strategies. Raises TomserveError where an
    option is wrong or does not fit the others."""
    if options.transport not in transports.TRANSPORTS:
        raise ConfigError(one_of("transport", options.transport, transports.TRANSPORTS))
    check_options(options)
    benchmark = _choose_benchmark(options)
    every = _load_items(options, benchmark, waiting or WaitPolicy())
    chosen = chosen or endpoint.choose_target(
        options.base_urls, options.model, options.revision, waiting, start=options.start
    )
    if options.whole is not None:
        chosen = options.whole.resolve_target(chosen)
    preset = chosen.preset
    thinking = thinking_budget(preset, chosen.model, options.thinking)
    strategies = load_strategies(options, benchmark, preset, thinking)
    check_sampling_varies(options, strategies)
    parted = split_variants(every)
    wanted = parted[0].where(choose_conditions(options, benchmark))
    varied = _with_variants(options, benchmark, parted, wanted.take(options.limit))
    _check_rewriter(varied, chosen)
    plan = Plan(
        options,
        benchmark,
        every,
        parted,
        wanted,
        varied,
        chosen,
        Questions(varied.items, strategies, options.repeats),
        Questions(_noise_items(options, varied), strategies, options.repeats),
        Sampling(float(options.temperature), options.seed, request_fields(options, preset), options.repeats),
        _run_suffix(options, chosen, thinking),
    )
    if options.whole is not None:
        options.whole.check(plan)
    return plan


def _noise_items(options: EvalOptions, varied: VariedItems, asked: Collection[str] = frozenset()) -> ItemStore:
    """The originals that the noise check asks again. asked: ids of those that it has asked again, which come first."""
    if options.whole is not None:
        return options.whole.noise_items(varied.originals)
    share = varied.again(options.noise_check)
    return varied.originals.take_share(share, asked) if share else ItemStore()


def choose_conditions(options: EvalOptions, benchmark: Benchmark) -> tuple[str, ...]:
    """The conditions that a question has to meet: the user's, else the benchmark's own. Items that a caller has are
    what is wanted."""
    return benchmark.conditions(options.where or (benchmarks.ALL if options.items else ()))


def _with_variants(
    options: EvalOptions, benchmark: Benchmark, parted: tuple[ItemStore, ItemStore], originals: ItemStore
) -> VariedItems:
    """The questions that are asked, and their variants. parted: as in Plan. originals: those of them that are asked."""
    every, given = parted
    kinds = variants.parse_kinds(options.variants) if options.variants else ()
    return add_variants(originals, given, kinds, benchmarks.retelling(benchmark, options.path), every.ids)


def _check_rewriter(varied: VariedItems, chosen: Target) -> None:
    """Raise ConfigError where some variants were rewritten by the model that is to be asked."""
    if not varied.variants:
        return
    from tomserve.runs.grader import model_names, reader_names

    if same := sorted(reader_names(variants.find_rewriters(varied.variants.entries())) & model_names(chosen)):
        raise ConfigError(
            f"variants of these items were rewritten by {same[0]}, the model that is to be asked, which would find its "
            "own sentences easier than others'; have another model rewrite them (tomserve items --rewriter), or name "
            "other kinds by --variants"
        )


def _run_suffix(options: EvalOptions, chosen: Target, thinking: int) -> str:
    """The model's part of the run's name, which tells where it is asked in another way than by default."""
    preset, name = chosen.preset, chosen.model
    if preset is not None and preset.reasoning is not None and thinking != preset.thinking_tokens():
        name += f"-thinking-{thinking or 'off'}"
    if options.reasoning_effort:
        name += f"-effort-{options.reasoning_effort}"
    if options.temperature:
        name += f"-temperature-{options.temperature:g}"
    return f"{name}-x{options.repeats}" if options.repeats > 1 else name


def _choose_benchmark(options: EvalOptions) -> Benchmark:
    """The benchmark to ask. Items that a caller has may belong to one that tomserve does not know."""
    if not options.items:
        return benchmarks.get(options.benchmark)
    benchmark = benchmarks.find(options.benchmark or benchmarks.ANYBODYS)
    return benchmark or Benchmark(benchmarks.ANYBODYS, lambda path, gold: iter(options.items), mixed=True)


def _load_items(options: EvalOptions, benchmark: Benchmark, waiting: WaitPolicy) -> ItemStore:
    """All items: those that a caller has, else the benchmark's, each kept as a line as soon as it comes."""
    if not options.items:
        if options.path is not None:
            note_dataset(options.path)

        def read() -> Iterator[Item]:
            return _tell_progress(benchmark.items(options.path, options.gold, benchmarks.ALL), waiting)

        own = options.path if benchmark.name == benchmarks.ANYBODYS else None
        every = ItemStore(read()) if own is None else read_checked(own.expanduser(), read)
    else:
        every = options.items if isinstance(options.items, ItemStore) else ItemStore(require_choices(options.items))
        if twice := [name for name, count in Counter(every.ids).items() if count > 1]:
            raise ConfigError(f"two of the items have the id {twice[0]!r}; give each an id of its own")
    every.draw = benchmarks.draw_of(benchmark, every.benchmarks)
    return every


def _tell_progress(items: Iterable[Item], waiting: WaitPolicy) -> Iterator[Item]:
    """The items; how many came so far is said every TELL_EVERY items, as somebody's generator may take long."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % TELL_EVERY:
            waiting.check()
            waiting.note(f"{number:,} items read so far; the first question is asked once the last item is there")
