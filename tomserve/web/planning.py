"""What an experiment would cost and what it could show, while somebody still chooses it; nothing is asked of any
server."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pydantic

from tomserve import benchmarks, content
from tomserve.runs import planning
from tomserve.runs.item_store import ItemStore
from tomserve.runs.noise_check import TIMES
from tomserve.runs.planning import VariedItems, add_variants, split_variants
from tomserve.studies import power
from tomserve.variants import parse_kinds
from tomserve.weakness.design import find_design
from tomserve.weakness.rounds import SearchSettings, draw_pool
from tomserve.web import background
from tomserve.web.background import Computation
from tomserve.workflows.evaluate import Experiment
from tomserve.workflows.search import STRATEGY, check_search

VARIED = 240  # of so many questions at most the variants are made; how many all have is estimated from them

MINIMUM = "minimum_detectable_effect"  # how the column of a plan begins that says what can be found

MATTER = frozenset(
    {"benchmark", "path", "gold", "where", "strategy", "limit", "repeats", "noise_check", "variants", "temperature"}
    | {"seed", "max_tokens", "search"}
)
"""The fields of an experiment that its plan depends on."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison could find."""

    name: str  # what is compared
    units: str  # such as "34 stages"
    effect: float | None
    """The smallest true difference of shares, from 0 to 1, that four studies of five find, where its class alone is
    affected; None where there are too few units."""
    sd: float  # how much the units' differences are assumed to spread


@dataclass(frozen=True, slots=True)
class Plan:
    """What an experiment would send, and what it could show."""

    benchmark: str
    strategies: tuple[str, ...]
    questions: int  # that are asked, without variants
    every: int  # that the benchmark has
    drawn: str  # what is left out, in words
    variants: int  # that are asked besides
    again: int  # questions that the noise check asks again, each at two numbers of requests in flight
    requests: int  # all that is sent
    fewest: bool  # whether there may be more, as a program decides how many turns a conversation has
    about: bool  # whether variants were counted on a part of the questions
    prompt_tokens: int  # about so many
    first_turns: bool  # whether these are those of first turns alone
    reply_tokens: int  # the most that replies may have
    longest: int  # tokens of the longest prompt
    comparisons: tuple[Comparison, ...]

    def sentence(self) -> str:
        """What is sent, in a sentence."""
        many = "at least " * self.fewest + "about " * self.about
        whose = " (first turns)" if self.first_turns else ""
        return (
            f"{many}{self.requests:,} requests with about {self.prompt_tokens:,} tokens of prompts{whose} and at most "
            f"{self.reply_tokens:,} of replies"
        )


def plan_experiment(experiment: Experiment) -> Plan:
    """The plan of an experiment, computed in this process. Raises TomserveError where it is not possible."""
    options = experiment.options()
    planning.check_options(options)
    if experiment.search is not None:
        return _plan_search(check_search(experiment.search, options), options.strategies or (STRATEGY,))
    benchmark = benchmarks.get(options.benchmark)
    every = ItemStore(benchmark.items(options.path, options.gold, benchmarks.ALL))
    every.draw = benchmarks.draw_of(benchmark, every.benchmarks)
    originals, given = split_variants(every)
    kinds = parse_kinds(options.variants) if options.variants else ()
    asked = originals.where(benchmark.conditions(options.where)).take(options.limit)
    names = tuple(dict.fromkeys(options.strategies or benchmark.strategies))
    part = asked if len(asked) <= VARIED or not kinds else asked.take_share(VARIED / len(asked))
    told = add_variants(part, given, kinds, benchmarks.retelling(benchmark, options.path), every.ids)
    variants = round(len(told.variants) * len(asked) / max(1, len(part)))
    share = VariedItems(asked, kinds=kinds).again(options.noise_check)
    again = len(asked.take_share(share)) if share else 0
    made = power.plan_study(benchmark, options.path, names, repeats=options.repeats, items=asked)
    more = (len(asked) + variants + TIMES * again) / max(1, len(asked))
    return Plan(
        benchmark=benchmark.name,
        strategies=names,
        questions=len(asked),
        every=len(originals),
        drawn="" if len(asked) == len(originals) else f"asks {asked.describe(originals)}",
        variants=variants,
        again=again,
        about=len(part) < len(asked),
        **_sent(made, more),
        comparisons=tuple(
            Comparison(row["comparison"], row["units"], row.get(f"{MINIMUM}, SD {power.SD[0]:g}"), power.SD[0])
            for row in made.comparisons.iter_rows(named=True)
        ),
    )


def _plan_search(settings: SearchSettings, strategies: tuple[str, ...]) -> Plan:
    """The plan of a search, whose questions are not known before: about as many tokens as others of its design have."""
    design = find_design(settings.benchmark)
    sample = [question.item for question in draw_pool(design, 0, VARIED)]
    made = power.plan_study(benchmarks.get(settings.benchmark), None, strategies, items=sample)
    more = settings.budget / len(sample)
    return Plan(
        benchmark=settings.benchmark,
        strategies=strategies,
        questions=settings.budget,
        every=settings.budget,
        drawn="asks in rounds, each where answers so far are worst; half of the questions confirm what is found",
        variants=0,
        again=0,
        about=True,
        **_sent(made, more),
        comparisons=(),
    )


def _sent(made: power.Plan, more: float) -> dict[str, Any]:
    """What is sent, as a Plan says it, where a study sends so many times as much as `made`."""
    return {
        "requests": round(made.requests * more),
        "fewest": made.open,
        "prompt_tokens": round(made.tokens * more),
        "first_turns": made.later,
        "reply_tokens": round(int(made.cost["answer tokens at most"].sum()) * more),
        "longest": int(made.cost["longest prompt"].max() or 0),  # type: ignore[arg-type]  # whole numbers, at least one
    }


def plan(out: Path, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of an experiment. options: experiment, its JSON."""
    del out, runs
    return asdict(plan_experiment(Experiment.model_validate_json(options["experiment"])))


LOOK = 0.1  # seconds between two looks at whether a plan is there
WAITING = threading.BoundedSemaphore(8)
"""So many wait for plans at once: each keeps one of the threads by which all pages are answered."""


def find_plan(experiment: Experiment, patience: float = 120.0) -> Plan | None:
    """The plan of an experiment, computed beside the server; None where it is not there within so many seconds, or too
    many wait already: ask again then. Raises ConfigError with what is wrong where the experiment cannot be planned."""
    fields = experiment.model_copy(
        update={name: field.default for name, field in Experiment.model_fields.items() if name not in MATTER}
    ).model_dump_json(by_alias=True)
    folders = [root / name for root in content.roots() for name in ("dataset", "prompts")]
    sources = [path for folder in folders for path in sorted(folder.rglob("*"))]
    if experiment.path is not None:
        path = Path(experiment.path).resolve()  # how a link looks says nothing of what it leads to
        sources += [path, *(sorted(path.rglob("*"))[:10_000] if path.is_dir() else ())]
    computation = Computation("plan", (), {"experiment": fields}, sources=tuple(sources))
    until = time.monotonic() + patience
    found = background.require(computation)
    if found is None and WAITING.acquire(blocking=False):
        try:
            while found is None and time.monotonic() < until:
                time.sleep(LOOK)
                found = background.require(computation)
        finally:
            WAITING.release()
    return None if found is None else _plans.validate_python(found.facts)


_plans = pydantic.TypeAdapter(Plan)
