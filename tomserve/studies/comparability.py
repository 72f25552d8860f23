"""Comparability of results: what each was asked and how, which of them may stand side by side, and why others may not.
Leaderboards, the functional score, the workbench and `compare` decide by this module alone; what nobody has recorded
has its field's default, a value like any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
import polars as pl

from tomserve.causal.settings import BY_EFFECT
from tomserve.causal.table import CONTROLS, HELD_OUT, PPT, Outcomes
from tomserve.content import digest
from tomserve.engine.adaptations import TABLE
from tomserve.runs.manifest import ForeignRecord, Manifest
from tomserve.scoring import grades
from tomserve.studies.answer_rows import originals, split_scores

NONE = "no adaptation"


@dataclass(frozen=True, kw_only=True)
class AnswerConditions:
    """What was asked of one benchmark by one strategy, and how the replies were sampled and read."""

    benchmark: str
    strategy: str
    count: int = 0  # How many questions were asked, without their variants
    questions: str = ""  # A digest of their names
    content: str = ""  # A digest of their types of task, chances and answers as well
    variants: int = 0  # How many variants were asked
    changed: str = ""  # A digest of their names
    digest: str = ""  # A digest of all items of the benchmark
    gold: str = ""  # Which set of right answers counts
    prompt: str = ""  # A digest of the prompts
    temperature: float = 0.0
    repeats: int = 1
    seed: int | None = None  # The seed of sampling where there is chance in it
    adaptations: str = NONE  # How its server had to be asked otherwise, as far as that changes what is asked
    scoring: str = ""  # What the replies were read by, besides the rules of this version

    @property
    def ground(self) -> tuple[str, str, str, str]:
        """What people's answers have to share with a model's to stand beside them: the questions."""
        return self.benchmark, self.digest, self.gold, self.questions

    def of_people(self) -> AnswerConditions:
        """What of this has to be the same of people, whose answers are neither sampled nor prompted: the `ground`."""
        told = AnswerConditions(benchmark=self.benchmark, strategy=self.strategy, count=self.count)
        return replace(told, questions=self.questions, digest=self.digest, gold=self.gold)

    def record(self, manifest: Manifest, scores: Mapping[str, Any]) -> AnswerConditions:
        """The same with what a run's manifest and the record of its scores tell."""
        temperature, seed = float(manifest.sampling.get("temperature") or 0), manifest.sampling.get("seed")
        strategy = manifest.strategies.get(self.strategy)
        rules = [str(scores["benchmark_file"])] if "benchmark_file" in scores else []
        rules += ["a model reads"] if grades.RECORD in (scores.get("files") or {}) else []
        prompt = (strategy.digest or "") if strategy is not None else ""
        if (foreign := manifest.foreign) is not None:
            prompt = prompt or _asked_elsewhere(foreign)
            rules += [f"{foreign.tool}: {', '.join(foreign.grades)}"] if foreign.counts == "tool" else []
        held = [one.name for one in TABLE.values() if one.changing and one.name in (manifest.adaptations or ())]
        return replace(
            self,
            digest=manifest.benchmark_digest or "",
            gold=manifest.benchmark_gold or "",
            prompt=prompt,
            temperature=temperature,
            repeats=manifest.repeats,
            adaptations=", ".join(held) or NONE,
            seed=seed if temperature and type(seed) is int else None,
            scoring=", ".join(rules),
        )


# What another tool records of how it asked: its prompts, and in SAMPLING_RECORD how replies were sampled.
ELSEWHERE, SAMPLING_RECORD = ("n-shot", "gen_kwargs", "task_args", "steps"), "model_generate_config"
SAMPLED_BY = (
    *("temperature", "top_p", "top_k", "seed", "max_tokens", "num_choices", "best_of", "system_message", "stop_seqs"),
    *("frequency_penalty", "presence_penalty", "reasoning_effort", "reasoning_tokens", "extra_body"),
)


def _asked_elsewhere(foreign: ForeignRecord) -> str:
    """A digest of how another tool asked, as far as it has recorded that; "" where it has not."""
    sampling = foreign.settings.get(SAMPLING_RECORD)
    told = {name: foreign.settings.get(name) for name in ELSEWHERE}
    told |= {name: sampling.get(name) for name in SAMPLED_BY} if isinstance(sampling, dict) else {}
    found = {name: value for name, value in told.items() if value not in (None, "", {}, [])}
    return digest(orjson.dumps([foreign.tool, found], option=orjson.OPT_SORT_KEYS)) if found else ""


@dataclass(frozen=True, kw_only=True)
class MeasurementConditions:
    """What was measured inside a model, and how."""

    benchmark: str
    cases: int = 0
    names: str = ""  # A digest of the names of the cases
    asked_by: str = ""  # The strategies that asked
    layers: str = ""  # Those that were moved, or "all" where they are all from the first on, as many as the model has
    alphas: tuple[float, ...] = ()  # The strengths; () where each layer has its own
    controls: tuple[str, ...] = ()
    digest: str = ""  # A digest of all cases there were
    where: str = ""  # The conditions that chose the cases
    folds: str = ""

    def record(self, manifest: Manifest) -> MeasurementConditions:
        """The same with what the manifest of the measurement tells."""
        where, folds = (str(manifest.settings.get(name, "")) for name in ("where", "folds"))
        alphas = () if manifest.settings.get("alphas") == BY_EFFECT else self.alphas
        return replace(self, digest=manifest.benchmark_digest or "", where=where, folds=folds, alphas=alphas)


@dataclass(frozen=True)
class Conditions:
    """What one result was made from: answers to benchmarks, in the order of their names, and a measurement."""

    answers: tuple[AnswerConditions, ...] = ()
    measurement: MeasurementConditions | None = None


def answer_conditions(questions: pl.DataFrame, variants: pl.DataFrame | None = None) -> tuple[AnswerConditions, ...]:
    """The conditions of each benchmark and strategy, as far as score tables tell. questions: rows of
    `breakdowns.task_rows`. variants: rows with `benchmark`, `original_item`, `variant` and `item`."""
    found, keys = [], ("benchmark", "strategy")
    for (benchmark, strategy), part in questions.sort(keys, maintain_order=True).group_by(keys, maintain_order=True):
        told = ("benchmark", "item", "task", "dimension", "chance", "options", "answer_role")
        known = (name for name in told if name in part.columns and part[name].null_count() < part.height)
        content = part.select(known).unique()
        names = content.select("benchmark", "item").unique()
        own = variants.filter(pl.col("benchmark") == benchmark) if variants is not None and variants.height else None
        pairs = pl.DataFrame() if own is None else own.select("benchmark", "original_item", "variant", "item").unique()
        found.append(
            AnswerConditions(
                benchmark=str(benchmark), strategy=str(strategy), count=names.height, questions=_digest(names),
                content=_digest(content), variants=pairs.height, changed=_digest(pairs) if pairs.height else "",
            )
        )  # fmt: skip
    return tuple(found)


def measurement_conditions(found: Outcomes) -> MeasurementConditions:
    """The conditions of a measurement, as far as its table tells."""
    moves = found.moves.filter(pl.col("map") == PPT, pl.col("fitted") == HELD_OUT)
    maps = set(found.moves["map"])
    layers = sorted({int(layer) for layer in moves["layer"]})
    strengths = moves.group_by("layer").agg(pl.col("alpha").drop_nulls().unique().sort())["alpha"].unique()
    return MeasurementConditions(
        benchmark=str(found.arm["benchmark"]),
        cases=found.items.height,
        names=_digest(found.items.select("item")),
        asked_by=", ".join(found.answers["asked_by"].drop_nulls().unique().sort()) or "an unknown strategy",
        layers="all" if layers == list(range(1, len(layers) + 1)) else ", ".join(map(str, layers)),
        alphas=tuple(strengths[0]) if len(strengths) == 1 else (),
        controls=tuple(name for name in CONTROLS if name in maps),
    )


def _digest(frame: pl.DataFrame) -> str:
    told = frame.select(pl.col(pl.Float64, pl.Float32).round(12), pl.exclude(pl.Float64, pl.Float32).cast(pl.String))
    return digest(told.sort(told.columns).write_csv().encode())


# What is said of fields that differ; of those that stand together only the first that does is said.
_ANSWERS: Sequence[Mapping[str, str]] = (
    {
        "count": "was asked {one:,} questions instead of {other:,}: repeat with the same --limit",
        "questions": "was asked other questions of the same number (another file or version)",
        "content": "was asked questions of the same names with other types of task, chances or answers",
        "digest": "was asked another version of the benchmark: repeat with the same one",
        "gold": "was scored by other right answers: score it again by the same",
        "variants": "was asked {one:,} variants instead of {other:,}: repeat it in a new folder (--run)",
        "changed": "was asked other variants of the same questions: repeat it in a new folder (--run)",
    },
    {
        "strategy": "was asked by {one} instead of {other}: repeat with the same strategy",
        "prompt": "was asked by prompts of another text or form, or another limit of tokens: repeat with the same",
    },
    {
        "temperature": "was sampled at temperature {one} instead of {other}: repeat with the same",
        "seed": "was sampled with another seed: repeat with the same",
        "adaptations": "was asked otherwise, for its server ({one} instead of {other}): ask both the same way",
    },
    {"repeats": "was sampled {one} times instead of {other}: repeat with the same number"},
    {"scoring": "was read by other rules: score it again by the same"},
)

_MEASUREMENT: Sequence[Mapping[str, str]] = (
    {
        "benchmark": "was measured on cases of {one} instead of {other}: repeat with the same --items",
        "cases": "was measured on {one:,} cases instead of {other:,}: repeat with the same --cases",
        "names": "was measured on other cases of the same number (another file or version)",
        "digest": "was measured on cases of another version: repeat with the same",
        "where": "was measured on cases that other conditions chose: repeat with the same options",
    },
    {"asked_by": "was measured by {one} instead of {other}: repeat with the same strategy"},
    {
        "layers": "was measured at other layers: repeat with the same --layers",
        "alphas": "was measured at other strengths: repeat with the same --alphas",
    },
    {"controls": "was measured with other controls: repeat it in a new folder (--run)"},
    {"folds": "was measured in {one} folds instead of {other}: repeat with the same options"},
)


def describe_difference(one: Conditions, other: Conditions) -> str:
    """In what a result differs from another one beside which it may not stand, with the way out; "" where it may.

    >>> asked = [Conditions((AnswerConditions(benchmark="worlds", strategy=name),)) for name in ("letters", "vanilla")]
    >>> describe_difference(*asked), describe_difference(asked[0], asked[0])
    ('was asked by letters instead of vanilla: repeat with the same strategy', '')
    """
    return "; ".join(_differences(one, other))


def _differences(one: Conditions, other: Conditions) -> Iterator[str]:
    benchmarks, expected = ([each.benchmark for each in result.answers] for result in (one, other))
    if benchmarks != expected:
        asked, instead = (", ".join(names) or "nothing" for names in (benchmarks, expected))
        yield f"was asked {asked} instead of {instead}: repeat with the same --benchmark"
    else:
        for mine, theirs in zip(one.answers, other.answers, strict=True):
            of = f"{mine.benchmark}: " if len(benchmarks) > 1 else ""
            yield from (f"{of}{clause}" for clause in _clauses(mine, theirs, _ANSWERS))
    if one.measurement is not None and other.measurement is not None:
        yield from _clauses(one.measurement, other.measurement, _MEASUREMENT)
    elif one.measurement is not other.measurement:
        yield f"was {'not ' if one.measurement is None else ''}measured inside (--weights)"


def _clauses(mine: object, theirs: object, rungs: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for rung in rungs:
        for name, clause in rung.items():
            own, expected = getattr(mine, name), getattr(theirs, name)
            if own != expected:
                yield clause.format(one=own, other=expected)
                break


Name = TypeVar("Name", str, tuple[str, str])


class Comparable(NamedTuple, Generic[Name]):
    """Which results are set side by side. largest: the names of those that are. others: why not, by name. tied: whether
    another group is as large."""

    largest: tuple[Name, ...]
    others: dict[Name, str]
    tied: bool


def group_comparable(results: Mapping[Name, Conditions], *, measured: bool = True) -> Comparable[Name]:
    """The largest group of results that may stand side by side, and why the others may not stand beside them.

    measured: whether they count what was measured inside; if not, that is left out of account.
    Of equally large groups it is that with most questions, then with most cases, then that of the first name.
    """
    if not measured:
        results = {name: replace(one, measurement=None) for name, one in results.items()}
    groups: dict[Conditions, list[Name]] = {}
    for name in sorted(results):
        groups.setdefault(results[name], []).append(name)

    def size(one: Conditions) -> tuple[int, int, int]:
        cases = one.measurement.cases if one.measurement is not None else 0
        return len(groups[one]), sum(each.count for each in one.answers), cases

    if not groups:
        return Comparable((), {}, tied=False)
    best = max(groups, key=size)
    others = {name: describe_difference(one, best) for name, one in results.items() if one != best}
    return Comparable(tuple(groups[best]), others, sum(len(own) == len(groups[best]) for own in groups.values()) > 1)


MOST = 4  # How many runs a note names at most


def unlike_notes(scores: pl.DataFrame, manifests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each benchmark and strategy by which some runs of a score table were asked otherwise than most, so
    that their numbers may not stand beside these. manifests: by the run's name; what they tell counts where all runs
    have one."""
    if not {"run", "model", "strategy", "item"} <= set(scores.columns):
        return []
    rows = originals(split_scores(scores).answers).drop_nulls("run")
    named = pl.col("benchmark").fill_null("") if "benchmark" in rows.columns else pl.lit("")
    parts = {str(run): part for (run,), part in rows.with_columns(benchmark=named).group_by("run", maintain_order=True)}
    whole = all(manifests.get(run) for run in parts)
    asked: dict[tuple[str, str], dict[str, Conditions]] = {}
    of = {run: str(part["model"][0]) for run, part in parts.items()}
    for run, part in parts.items() if len(parts) > 1 else ():
        manifest = Manifest.model_validate(dict(manifests[run])) if whole else None
        for one in answer_conditions(part):
            told = one if manifest is None else one.record(manifest, {})
            asked.setdefault((one.benchmark, one.strategy), {})[run] = Conditions((told,))
    said: dict[tuple[str, str], list[str]] = {}
    for (benchmark, strategy), results in asked.items():
        alone = Counter(of[run] for run in results)  # several runs of one model are counted as one
        found = group_comparable({run: one for run, one in results.items() if alone[of[run]] == 1}, measured=False)
        listed = [f"{run} {why}" for run, why in list(found.others.items())[:MOST]]
        more = f"; and {len(found.others) - MOST} more" if len(found.others) > MOST else ""
        if listed:
            beside = f"{found.largest[0]}{' and others' if len(found.largest) > 1 else ''}"
            text = f"not to be set beside {beside}, nor ranked with it: {'; '.join(listed)}{more}"
            said.setdefault((benchmark, text), []).append(strategy)
    return [f"{benchmark}{' by ' * bool(benchmark)}{', '.join(of)}: {text}" for (benchmark, text), of in said.items()]
