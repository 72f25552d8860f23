"""Makes a plan from the options: which items are asked, which model, and by which strategies.

Making a plan asks no question and writes no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tomserve import benchmarks, variants
from tomserve.benchmarks import Benchmark
from tomserve.benchmarks.base import require_choices
from tomserve.content.compact_index import FirstPlaces
from tomserve.engine import transports
from tomserve.engine.request import Sampling
from tomserve.engine.retry import RetryPolicy
from tomserve.errors import ConfigError, one_of
from tomserve.items import Item
from tomserve.runs import checking, noise_check
from tomserve.runs.manifest_parts import VariantsRecord
from tomserve.runs.noise_check import Drawn
from tomserve.runs.questions import Questions
from tomserve.runs.reader import names_at, names_of
from tomserve.runs.stock import Stock
from tomserve.runs.strategies import check_chance, strategies_of, thinking_of
from tomserve.runs.varying import Varied, apart, varied
from tomserve.runs.whole import Whole
from tomserve.serving import endpoint
from tomserve.serving.endpoint import Target
from tomserve.serving.probe import WaitPolicy

TELL_EVERY = 100_000
"""After so many items it is said how many were read."""


@dataclass(frozen=True)
class EvalOptions:
    """The options of `tomserve eval` and `tomserve.ask`. None, or empty, means the default that their help states.

    benchmark: the name of the benchmark, or the path of a file that declares one.
    items: the items themselves, where a caller has them; `benchmark` is then only the name that the run notes.
    path, gold: the benchmark's file, and which set of correct answers counts.
    where: conditions that the questions have to meet (see tomserve.items.where).
    strategies: names or folders of prompting strategies.
    model, revision: the model's id or a preset's name, and its exact version.
    base_urls: the addresses of the servers.
    run: the name or folder of the run.
    limit: how many items are asked at most.
    max_tokens: how many tokens a reply may have.
    thinking: "on", "off" or a number of tokens.
    timeout: seconds that one request may take.
    concurrency: how many requests are in flight; None to find it out.
    transport: how requests are sent, one of tomserve.engine.transports.TRANSPORTS.
    hedge: seconds after which a second server is asked, too.
    noise_check: the share of the items that is asked again.
    variants: the kinds of variants that are asked besides the items, by their names; see tomserve.variants.
    setup: whether vLLM may be installed where it is needed and missing.
    start: whether a server of the model may be started where none runs; that of the reference model always may.
    accept_change: whether to go on where another server or model answers than before.
    temperature: how much chance there is in the choice of a token; 0 for the likeliest token always.
    seed: the seed of the first sample; each further one has the next number.
    repeats: how many samples of each question are asked.
    patience: seconds to wait for a server that is busy or still loads before the first question, and for one that
    gives nothing but refusals later; None for what suits the case.
    policy: how often and when a failed request is sent again.
    whole: the evaluation of which this one is a part, where it is one; see tomserve.runs.whole.
    """

    benchmark: str | None = None
    items: Sequence[Item] = ()
    path: Path | None = None
    gold: str | None = None
    where: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    model: str | None = None
    base_urls: tuple[str, ...] = ()
    run: str | None = None
    limit: int | None = None
    revision: str | None = None
    max_tokens: int | None = None
    thinking: str | None = None
    timeout: float = 600.0
    concurrency: int | None = None
    transport: str = transports.DEFAULT
    hedge: float | None = None
    noise_check: float | None = None
    variants: tuple[str, ...] = ()
    setup: bool = False
    start: bool = False
    accept_change: bool = False
    temperature: float = 0.0
    seed: int = 0
    repeats: int = 1
    patience: float | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    whole: Whole | None = None

    @property
    def asking_policy(self) -> RetryPolicy:
        """The policy by which questions are asked: with the user's own patience, where one is given."""
        return self.policy if self.patience is None else replace(self.policy, lost_after=self.patience)


@dataclass(frozen=True)
class Plan:
    """What an evaluation is to ask, and which model.

    options: what the user wants.
    benchmark: the benchmark that the items belong to.
    every: all items of the benchmark.
    parted: those of them that are no variants, and those that are.
    wanted: those that are no variants and meet the conditions (`--where`); a limit may leave some of them out.
    varied: the questions of the run, and their variants.
    target: the server and the model.
    questions: what is asked.
    again: what the noise check asks again.
    sampling: temperature, seed and further fields of each request.
    name: the model's part of the run's name, unless the user names the run.
    """

    options: EvalOptions
    benchmark: Benchmark
    every: Stock
    parted: tuple[Stock, Stock]
    wanted: Stock
    varied: Varied
    target: Target
    questions: Questions
    again: Questions
    sampling: Sampling
    name: str

    @property
    def called(self) -> str:
        """The benchmark's name in the run: the one given with the items, else the benchmark's own."""
        return self.options.benchmark or self.benchmark.name if self.options.items else self.benchmark.name

    @property
    def drawn(self) -> str | None:
        """What the conditions and the limit draw, in words; None where they leave nothing out."""
        items, (every, _) = self.varied.originals, self.parted
        if len(items) == len(every):
            return None
        conditions = conditions_of(self.options, self.benchmark)
        said = [f"where {' and '.join(conditions)}"] if conditions else []
        said += [f"limit {self.options.limit}"] if self.options.limit is not None else []
        return f"{', '.join(said)}: asks {items.described(every)}"

    @property
    def again_share(self) -> float:
        """The share of the originals that is asked again."""
        return self.drawn_again.share

    @property
    def drawn_again(self) -> Drawn:
        """What the noise check draws: of these items, or of those of the evaluation of which they are a part."""
        if self.options.whole is not None:
            return self.options.whole.drawn
        return Drawn(self.varied.again(self.options.noise_check), len(self.again.items), len(self.varied.originals))

    @property
    def variants(self) -> VariantsRecord | None:
        """What the manifest keeps of the variants; None where none were wanted."""
        whole = self.options.whole
        return self.varied.record() if whole is None else whole.variants

    def resumed(self, asked: Collection[str], again: Collection[str]) -> Plan:
        """The plan for a run that was begun: a limit, and a noise check, first take the items that the run took before.

        A run that an earlier version of tomserve began, which drew other items, is so finished before it grows.

        asked: ids of the items that the run was ever to ask. again: ids of those in its noise check.
        """
        originals = self.wanted.limited(self.options.limit, asked)
        told = self.varied
        if originals.ids != told.originals.ids:
            told = _varied(self.options, self.benchmark, self.parted, originals)
        repeated = _repeated(self.options, told, again)
        questions = replace(self.questions, items=told.items)
        return replace(self, varied=told, questions=questions, again=replace(self.questions, items=repeated))


def plan(options: EvalOptions, waiting: WaitPolicy | None = None, chosen: Target | None = None) -> Plan:
    """Make the plan: load the items, choose the server, load the strategies.

    waiting: how to wait for a server that is busy or still loads. chosen: the model, where the caller knows it and no
    server is to be looked for. Raises TomserveError where an option is wrong or does not fit the others.
    """
    if options.transport not in transports.TRANSPORTS:
        raise ConfigError(one_of("transport", options.transport, transports.TRANSPORTS))
    noise_check.check_share(options.noise_check)
    checking.check(options)
    benchmark = _benchmark(options)
    every = _every(options, benchmark, waiting or WaitPolicy())
    chosen = chosen or endpoint.choose_target(
        options.base_urls, options.model, options.revision, waiting, start=options.start
    )
    if options.whole is not None:
        chosen = options.whole.agreed(chosen)
    preset = chosen.preset
    thinking = thinking_of(preset, chosen.model, options.thinking)
    strategies = strategies_of(options, benchmark, preset, thinking)
    check_chance(options, strategies)
    parted = apart(every)
    wanted = parted[0].where(conditions_of(options, benchmark))
    told = _varied(options, benchmark, parted, wanted.limited(options.limit))
    _check_rewriter(told, chosen)
    made = Plan(
        options,
        benchmark,
        every,
        parted,
        wanted,
        told,
        chosen,
        Questions(told.items, strategies, options.repeats),
        Questions(_repeated(options, told), strategies, options.repeats),
        Sampling(
            float(options.temperature),
            options.seed,
            preset.extra(options.thinking) if preset else {},
            options.repeats,
        ),
        _named(options, chosen, thinking),
    )
    if options.whole is not None:
        options.whole.check(made)
    return made


def _repeated(options: EvalOptions, varied: Varied, asked: Collection[str] = frozenset()) -> Stock:
    """The originals that the noise check asks again. asked: ids of those that it has asked again, which come first."""
    if options.whole is not None:
        return options.whole.repeated(varied.originals)
    share = varied.again(options.noise_check)
    return varied.originals.drawn(share, asked) if share else Stock()


def conditions_of(options: EvalOptions, benchmark: Benchmark) -> tuple[str, ...]:
    """The conditions that a question has to meet: the user's, else the benchmark's own. Items that a caller has are
    what is wanted."""
    return benchmark.conditions(options.where or (benchmarks.ALL if options.items else ()))


def _varied(options: EvalOptions, benchmark: Benchmark, parted: tuple[Stock, Stock], originals: Stock) -> Varied:
    """The questions that are asked, and their variants. parted: as in Plan. originals: those of them that are asked."""
    every, given = parted
    kinds = variants.parse_kinds(options.variants) if options.variants else ()
    return varied(originals, given, kinds, benchmarks.retelling(benchmark, options.path), every.ids)


def _check_rewriter(varied: Varied, chosen: Target) -> None:
    """Raise ConfigError where some variants were rewritten by the model that is to be asked."""
    if same := sorted(names_of(variants.find_rewriters(varied.variants.entries())) & names_at(chosen)):
        raise ConfigError(
            f"variants of these items were rewritten by {same[0]}, the model that is to be asked, which would find its "
            "own sentences easier than others'; have another model rewrite them (tomserve items --rewriter), or name "
            "other kinds by --variants"
        )


def _named(options: EvalOptions, chosen: Target, thinking: int) -> str:
    """The model's part of the run's name, which tells where it is asked in another way than by default."""
    preset, name = chosen.preset, chosen.model
    if preset is not None and preset.reasoning is not None and thinking != preset.thinking_tokens():
        name += f"-thinking-{thinking or 'off'}"
    if options.temperature:
        name += f"-temperature-{options.temperature:g}"
    return f"{name}-x{options.repeats}" if options.repeats > 1 else name


def _benchmark(options: EvalOptions) -> Benchmark:
    """The benchmark to ask. Items that a caller has may belong to one that tomserve does not know."""
    if not options.items:
        return benchmarks.get(options.benchmark)
    benchmark = benchmarks.find(options.benchmark or benchmarks.ANYBODYS)
    return benchmark or Benchmark(benchmarks.ANYBODYS, lambda path, gold: iter(options.items), mixed=True)


def _every(options: EvalOptions, benchmark: Benchmark, waiting: WaitPolicy) -> Stock:
    """All items: those that a caller has, else the benchmark's, each kept as a line as soon as it comes.

    waiting: is told now and then how many items there are. Raises ConfigError where two of a caller's items have the
    same id, and as the benchmark does.
    """
    if not options.items:
        every = Stock(_told(benchmark.items(options.path, options.gold, benchmarks.ALL), waiting))
    else:
        every = options.items if isinstance(options.items, Stock) else Stock(require_choices(options.items))
        ids = FirstPlaces()
        for place, name in enumerate(every.ids):
            if ids.add(name, place) != place:
                raise ConfigError(f"two of the items have the id {name!r}; give each an id of its own")
    every.draw = benchmarks.draw_of(benchmark, every.benchmarks)
    return every


def _told(items: Iterable[Item], waiting: WaitPolicy) -> Iterator[Item]:
    """The items; how many came so far is said every TELL_EVERY items, as somebody's generator may take long."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % TELL_EVERY:
            waiting.check()
            waiting.note(f"{number:,} items read so far; the first question is asked once the last item is there")
