"""The plan of a faithfulness measurement: every edit, hint and prediction, its cost, and the file that keeps it.

Edits depend on how the server counts tokens and on what a rewriter said, so that they are made once and kept.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import polars as pl
from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tomserve.benchmarks import Benchmark
from tomserve.content import files
from tomserve.engine.prompt_tokens import estimate_tokens
from tomserve.errors import ConfigError, JournalError
from tomserve.faithfulness import edits, table
from tomserve.faithfulness.chains import Count, EditedChain, OmittedEdit, WrittenChain
from tomserve.faithfulness.hints import HintedTurn
from tomserve.faithfulness.settings import CONTINUE_PROBE, EDIT_PROBE, HINT_PROBE, LIMIT, Settings
from tomserve.faithfulness.source_run import Chain, SourceRun, draw_chains, has_turn, marks_reasoning, unit_of
from tomserve.items import EVERY, Item, where
from tomserve.prompting.strategy import Strategy
from tomserve.runs.cost import Figure, measure_prompts
from tomserve.stats.chain_edits import FIFTH, expected_ends

FILE, HOW = "planned.jsonl", "how.json"
"""The files of a run's folder of work: the plan, and how the server holds replies that are begun."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class PlannedQuestion:
    """One question of a measurement, or an edit that could not be made (status LEFT_OUT); the fields as in the table.

    For a prediction `edited` is what the predicting model is shown of the chain.
    """

    item: str
    strategy: str
    kind: Annotated[str, StringConstraints(pattern=f"^({table.EDIT}|{table.HINT}|{table.PREDICTION})$")]
    condition: str
    shown: str | None = None
    implied: str | None = None
    edited: str | None = None
    status: str | None = None
    reason: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether it is asked at all."""
        return self.status != table.LEFT_OUT

    @property
    def name(self) -> str:
        """What its questions are called in the journal, in the place of a strategy's name."""
        return ".".join(filter(None, (self.strategy, self.kind, self.condition, self.shown)))


def write_plan(path: Path, planned: Iterable[PlannedQuestion]) -> None:
    """Write the plan in one step. Raises JournalError where the file cannot be written."""
    lines = (
        orjson.dumps({name: value for name, value in asdict(one).items() if value is not None}) + b"\n"
        for one in planned
    )
    _write(path, lines)


def write_prefill_support(path: Path, held_by: str | None) -> None:
    """Keep how the server constrains a reply that is begun (see `ModelAccess`). Raises JournalError."""
    _write(path, [orjson.dumps({"held_by": held_by})])


def read_prefill_support(path: Path) -> str | None:
    """What `write_prefill_support` kept. Raises ConfigError where it cannot be read."""
    try:
        found = files.read_json(path, "use --run NEW to begin anew")["held_by"]
    except (OSError, KeyError, TypeError, IndexError):
        found = 0
    if found is not None and not isinstance(found, str):
        raise ConfigError(f"{path}: does not say how replies were held; use --run NEW to begin anew")
    return found


def _write(path: Path, lines: Iterable[bytes]) -> None:
    try:
        with files.replace_file(path) as file:
            file.writelines(lines)
    except OSError as error:
        raise JournalError(f"{path}: cannot be written ({error.strerror}); free space and resume") from None


def read_plan(path: Path) -> list[PlannedQuestion]:
    """The plan in a file. Raises ConfigError by file and line where it is none."""
    way_out, found = "use --run NEW to begin anew", list[PlannedQuestion]()
    read = TypeAdapter(PlannedQuestion)
    try:
        with files.open_for_reading(path) as file:
            for number, line in enumerate(files.read_lines(file, path), 1):
                try:
                    found.append(read.validate_json(line))
                except ValidationError as error:
                    loc = error.errors()[0]["loc"]
                    reason = f"field {loc[0]!r} is not as planned" if loc else "not a planned question"
                    raise ConfigError(f"{path}:{number}: {reason}; {way_out}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); {way_out}") from None
    return found


Ways = Callable[[Chain], Sequence[str]]
"""A function that gives the ways in which an edited chain is shown: PREFILL, CALL or both."""

SHOWN_EARLIER = "the chain is shown in an earlier message, which is not continued"
"""Why a chain is not gone on with."""

Paraphrases = Mapping[tuple[str, str], str]
"""Paraphrases that a model made, by item and strategy."""

ONLY_VERDICT = "nothing would be left of the chain but its verdict"
"""Why a chain cannot be shown without its verdict."""


def make_plan(
    source: SourceRun,
    settings: Settings,
    ways: Ways,
    tokens: Count = estimate_tokens,
    paraphrases: Paraphrases | None = None,
    no_continuing: str | None = None,
) -> Iterator[PlannedQuestion]:
    """Every question of the measurement, chain by chain, so that those that share a prompt come together. paraphrases:
    those that a model made, in the place of those by rules. no_continuing: why the server continues no reply, None
    where it does."""
    chains = draw_chains(source.chains, settings.limit)
    pools: dict[str, list[tuple[Item, WrittenChain]]] = defaultdict(list)
    for chain in source.chains:
        pools[chain.strategy.name].append((chain.item, chain.written))
    for chain in sorted(chains, key=lambda one: (one.strategy.name, one.strategy.order(one.item))):
        item, written, name, lettered = chain.item, chain.written, chain.strategy.name, chain.lettered
        if EDIT_PROBE in settings.probes:
            other = edits.choose_other(item, written, pools[name])
            mates, own = source.mates_of(item), (paraphrases or {}).get((item.id, name))
            for one in edits.make_edits(item, written, mates=mates, other=other, tokens=tokens, lettered=lettered):
                if one.condition in settings.edits:
                    edit = (
                        one if one.condition != table.PARAPHRASE or own is None else EditedChain(table.PARAPHRASE, own)
                    )
                    yield from (_plan(chain, table.EDIT, edit, way) for way in ways(chain))
        if CONTINUE_PROBE in settings.probes:
            for made in edits.make_beginnings(item, written, lettered=lettered):
                for way in ways(chain):
                    reason = no_continuing or (None if way == table.PREFILL or has_turn(chain) else SHOWN_EARLIER)
                    yield _plan(chain, table.EDIT, made if reason is None else OmittedEdit(made.condition, reason), way)
        if HINT_PROBE in settings.probes:
            wanted = (one for name, one in chain.hints.items() if name.partition("_")[0] in settings.hints)
            yield from (_plan(chain, table.HINT, one) for one in wanted)
        if settings.predictor is not None:
            rest = edits.remove_verdict(item, written, lettered=lettered)
            for condition, text in ((table.QUESTION, None), (table.CHAIN, written.text), (table.NO_VERDICT, rest)):
                if condition == table.NO_VERDICT and text is None:
                    yield _plan(chain, table.PREDICTION, OmittedEdit(condition, ONLY_VERDICT))
                else:
                    own = written.model_answer
                    yield PlannedQuestion(item.id, name, table.PREDICTION, condition, implied=own, edited=text)
    if EDIT_PROBE in settings.probes:
        for name, items in source.unreadable.items():
            for item, reason in items:
                yield PlannedQuestion(item.id, name, table.EDIT, table.FULL, status=table.LEFT_OUT, reason=reason)


def _plan(
    chain: Chain, kind: str, made: EditedChain | HintedTurn | OmittedEdit, shown: str | None = None
) -> PlannedQuestion:
    item, strategy = chain.item.id, chain.strategy.name
    if isinstance(made, OmittedEdit):
        return PlannedQuestion(item, strategy, kind, made.condition, shown, status=table.LEFT_OUT, reason=made.reason)
    text = made.text if isinstance(made, EditedChain) else None
    return PlannedQuestion(item, strategy, kind, made.condition, shown, made.implied, text)


def count_requests(planned: Sequence[PlannedQuestion], calls: Mapping[str, int]) -> list[Figure]:
    """What a plan asks. calls: how many requests a whole reply takes, by strategy (a hint asks for one)."""
    asked = [one for one in planned if one.is_asked]
    requests: Counter[str] = Counter()
    for one in asked:
        again = one.condition in table.CONTINUATIONS and calls.get(one.strategy, 1) > 1  # the chain, then the answer
        requests[one.kind] += calls.get(one.strategy, 1) if one.kind == table.HINT else 1 + again
    chains = Counter(strategy for strategy, _ in dict.fromkeys((one.strategy, one.item) for one in asked))
    named = {table.EDIT: "after edited chains", table.HINT: "with hints", table.PREDICTION: "to the predicting model"}
    parts = ", ".join(f"{requests[kind]:,} {words}" for kind, words in named.items() if kind in requests)
    left_out = len(planned) - len(asked)
    return [
        Figure(
            "chains",
            chains.total(),
            "chains",
            ", ".join(f"{count:,} of {name}" for name, count in chains.items()) or "none",
            "those of the run that can be read, drawn evenly over its stories",
            ("--strategy", "--where", "--limit"),
        ),
        Figure(
            "requests",
            requests.total(),
            "requests",
            f"{requests.total():,} ({parts or 'none'})",
            "one for each chain, edit and way of showing it, as many as a reply takes for each hint",
            ("--probe", "--edit", "--shown", "--predictor"),
        ),
        Figure(
            "edits and hints that cannot be made",
            left_out,
            "edits and hints",
            f"{left_out:,}",
            "the chain has nothing that such an edit or hint could change",
        ),
    ]


def expect_ends(sizes: Counter[str]) -> tuple[float, str]:
    """How far the interval of an exact 0 or 1 will reach, and that of one half beside it in words. sizes: how many
    chains each unit has."""
    exact, half = expected_ends(list(sizes.values()))
    between = "" if math.isnan(half) else f", one half ±{half:.2f}"
    return exact, f"an exact 0 or 1 ±{exact:.2f}{between}"


def expect_intervals(chains: Sequence[Chain]) -> Figure:
    """How wide the intervals of the estimates will be with these chains, which are those that are edited."""
    said, worst = [], 0.0
    for name in dict.fromkeys(chain.strategy.name for chain in chains):
        sizes = Counter(unit_of(chain.item) for chain in chains if chain.strategy.name == name)
        exact, ends = expect_ends(sizes)
        worst = max(worst, exact)
        said.append(f"{name}: {ends} ({sizes.total():,} chains of {len(sizes):,} units)")
    return Figure(
        "width of 95% intervals",
        worst,
        "share of answers",
        "; ".join(said) or "none",
        f"answers correlated by .1 within a unit; that nothing depends on a chain needs less than ±{FIFTH:.2f}",
        ("--limit", "--where"),
    )


def estimate_costs(
    benchmark: Benchmark, items: Sequence[Item], strategies: Sequence[str], models: int = 1
) -> pl.DataFrame:
    """A row for each of the strategies that marks where its reasoning is, with the requests that its chains take.

    benchmark: whose conditions say which of the items count. Requests are those of all edits and hints in one way of
    showing chains, which some chains do not take; prompt tokens are estimated, without the chains themselves. The edits
    of one chain share its prompt, which a server with a prefix cache computes once. Raises ConfigError where no
    strategy marks its reasoning.
    """
    loaded = [one for one in map(Strategy.load, dict.fromkeys(strategies)) if marks_reasoning(one)]
    if not loaded:
        raise ConfigError(
            f"none of {', '.join(strategies)} marks where its reasoning is (`reasoning` in strategy.yaml, or a list of "
            "beliefs), so that no chains can be edited; name one by --strategy, such as cot"
        )
    try:
        questions = (item for item in items if item.base is None)  # chains about variants are not edited
        wanted = list(where(questions, benchmark.reasoned or (EVERY,)))
    except ConfigError:  # none of the questions that were drawn meets the benchmark's conditions
        wanted = []
    rows = []
    for strategy in loaded:
        chains = min(len(wanted), LIMIT)
        tokens = measure_prompts(wanted, strategy).tokens / max(1, len(wanted)) * chains * models
        calls = strategy.turns or strategy.calls
        edited, hinted = len(table.EDITS) * chains * models, len(table.HINTS) * chains * calls * models
        rows.append(
            {
                "strategy": strategy.name,
                "chains": chains * models,
                "after edits": edited,
                "with hints": hinted,
                "requests": edited + hinted,
                "prompt tokens (about)": round(tokens * (len(table.EDITS) + len(table.HINTS) * calls)),
                "of them new": round(tokens * (1 + len(table.HINTS))),
            }
        )
    return pl.DataFrame(rows)
