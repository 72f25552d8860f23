"""The three layers of each model, behaviour, mechanism and stability: the answers, pairs and net effects that the
score counts, and digests of them.

Each layer counts, of every benchmark, the answers of the strategy that asks for the answer alone (see
answer_rows.plain_strategies). Where most answers of a layer are lacking, the layer is not computed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tomserve.causal import table as t
from tomserve.content import digest
from tomserve.scoring.score import PEOPLE
from tomserve.stats.functional import Behaviour, Mechanism, ModelScore, Stability
from tomserve.stats.functional import ModelLayers as FunctionalModelLayers
from tomserve.studies import answer_rows, baselines, breakdowns, load_study, variant_pairs
from tomserve.studies.answer_rows import ORIGINAL, has_variants, originals, split_by, split_scores, with_columns
from tomserve.studies.contrasts import Record
from tomserve.studies.presentation import percent
from tomserve.variants import KINDS

ITEMS = "items"  # what stands for the benchmark where a table names none
ANSWERS, MEASUREMENT, ASKED_PEOPLE = "answers", "measurement", "people"  # what a run holds
# The columns of answers that decide B or S; the columns of rules, which stand beside them, are digested as well
READ = tuple(dict.fromkeys((*breakdowns.READ, *variant_pairs.READ, *PEOPLE, "run")))


def benchmark_of(frame: pl.DataFrame) -> pl.Expr:
    """The benchmark of each row, ITEMS where none is named."""
    return pl.col("benchmark").fill_null(ITEMS) if "benchmark" in frame.columns else pl.lit(ITEMS)


def list_inputs(
    answers: pl.DataFrame,
    moved: pl.DataFrame,
    people: pl.DataFrame,
    plain: Mapping[tuple[str, str], str],
    known: Mapping[str, str],
) -> Iterator[Record]:
    """The rows of the table. answers, moved, people: of models, of measurements, and of people. plain: the strategy
    that is counted, by model and benchmark. known: the benchmark whose measurement is counted, by model."""
    for frame, what in ((answers, ANSWERS), (moved, MEASUREMENT), (people, ASKED_PEOPLE)):
        if not frame.height:
            continue
        run = pl.col("run").fill_null("") if "run" in frame.columns else pl.lit("")
        told = frame.with_columns(run=run, benchmark=benchmark_of(frame))
        for key, part in split_by(told, ("model", "run", "benchmark")):
            model, _, benchmark = map(str, key.values())
            held = [*part["asked_by" if what == MEASUREMENT else "strategy"].drop_nulls().unique().sort()]
            strategy = asked = ", ".join(held) or None
            used = what == ASKED_PEOPLE or known.get(model) in (benchmark, "")
            if what == ANSWERS:
                strategy = plain.get((model, benchmark)) if plain.get((model, benchmark)) in held else None
                used = strategy is not None
            yield {
                **{name: str(value) for name, value in key.items()},
                **{"holds": what, "strategy": strategy, "asked": asked, "counted": used, "rows": part.height},
                "scenarios": part["cluster"].drop_nulls().n_unique() if "cluster" in part.columns else None,
                "digest": _digest(part, what),
            }


def _digest(part: pl.DataFrame, what: str) -> str:
    """A digest of the columns that are read, which neither the order of the rows changes nor what a table was combined
    with: a column that is empty throughout counts as one that is not there."""
    if what == MEASUREMENT:
        names: tuple[str, ...] = tuple(t.SCHEMA)
    else:
        names = (*READ, *baselines.RuleKinds.of(part.lazy()).columns)
        typed = {
            name: kind for name, kind in {**breakdowns.FACTORS, **variant_pairs.OWN}.items() if name in part.columns
        }
        part = with_columns(part.lazy(), typed).collect()
    there = [name for name in names if name in part.columns and part[name].null_count() < part.height]
    kept = part.select(_text(part, name) for name in there)
    return digest(kept.sort(there).write_csv().encode())


def _text(part: pl.DataFrame, name: str) -> pl.Expr:
    if isinstance(part.schema[name], pl.List):
        return pl.col(name).list.eval(pl.element().cast(pl.String)).list.join(",", ignore_nulls=False)
    return pl.col(name).cast(pl.String)


TABLE = "task_types"  # the table of the study of behaviour to which rows are added
ALL = "all that B counts"  # what stands in the column `dimension` of such a row
_KEYS = ("model", "strategy", "benchmark", "task")


def with_whole_tasks(tables: Mapping[str, pl.DataFrame], asked: breakdowns.TaskRows) -> dict[str, pl.DataFrame]:
    """The tables, with a row for each type of task that asks about several dimensions, after those of its dimensions.
    tables: of the study of behaviour. asked: the rows that they count."""
    made = dict(tables)
    rows = pl.DataFrame(list(_rows(asked)), infer_schema_length=None)
    if TABLE in made and rows.height:
        joined = pl.concat([made[TABLE], rows], how="diagonal_relaxed")
        made[TABLE] = joined.sort(_KEYS, maintain_order=True)
    return made


def _rows(asked: breakdowns.TaskRows) -> Iterator[Record]:
    for key, part in split_by(asked.rows.filter("mind"), _KEYS):
        if part["dimension"].n_unique() > 1:
            found = breakdowns.corrected_share(part, asked.kinds, "recommended")
            yield {**key, "dimension": ALL, **found, "in_b": True}


COUNTED = ("T1", "T2", "T3", "T4")  # the kinds of variants that S counts, by their short names
NAMES = {kind.short: kind.name for kind in KINDS}
# The studies of single layers, whose tables this one sets side by side
B_NAME, C_NAME, S_NAME = "behaviour", "causal", "stability"

Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class ModelLayers:
    """What was given, by model. models: the layers of each. plain: the strategy that is counted, by model and
    benchmark. told: the tables of the studies of single layers, by the study's name; those of stability are of the
    questions that B counts. measured: by model, what of its measurements counts; further: those that do not. asked: the
    originals; pairs: those that B counts with their variants. people: rows that people answered. inputs: the table
    `inputs`."""

    models: Mapping[str, FunctionalModelLayers]
    plain: Mapping[tuple[str, str], str]
    told: Mapping[str, Tables]
    measured: Mapping[str, t.Outcomes]
    further: tuple[Mapping[str, str], ...]
    asked: breakdowns.TaskRows | None
    pairs: variant_pairs.VariantPairs | None
    people: pl.DataFrame
    inputs: tuple[Record, ...] = field(default_factory=tuple)


def gather_layers(scores: pl.LazyFrame, *, tables: bool = True) -> ModelLayers:
    """Everything that the tables count. scores: answers, measurements, or both (see tomserve.studies.answer_rows).
    tables: whether those of the single layers are wanted."""
    answers, moved = split_scores(scores.collect())
    people, answers = _of_people(answers)
    plain = dict(_plain(answers))
    asked = breakdowns.task_rows(originals(answers).lazy()) if answers.height else None
    counted = _in_b(answers, asked) if asked is not None else answers
    again = "noise_compared" in counted.columns and bool((counted["noise_compared"].list.len() > 0).any())
    paired = variant_pairs.pair_variants(counted.lazy()) if has_variants(counted) or again else None
    arms = t.read_outcomes(moved.lazy()) if moved.height else []
    known, further = _choose_measurements(arms, set(answers["benchmark"]) if "benchmark" in answers.columns else set())
    names = [*answers["model"].unique(maintain_order=True)] if answers.height else []
    told: dict[str, Tables] = {}
    if tables and asked is not None:
        told[B_NAME] = with_whole_tasks(load_study(B_NAME).tables(originals(answers).lazy(), "recommended"), asked)
    if tables and paired is not None:
        told[S_NAME] = load_study(S_NAME).tables(counted.lazy(), "recommended")
    if tables and moved.height:
        make: Callable[..., Tables] = load_study(C_NAME).tables
        shown = {"names": ("headline", "net_by_layer")} if "names" in inspect.signature(make).parameters else {}
        told[C_NAME] = make(moved.lazy(), "recommended", **shown)  # a user's own study may know no names
    judged = told.get(C_NAME, {}).get("headline", pl.DataFrame())
    models = {
        str(name): FunctionalModelLayers(
            _behaviour(asked, plain, name), _mechanism(known.get(name), judged), _stability(paired, plain, name)
        )
        for name in sorted(dict.fromkeys([*names, *known]))
    }
    benchmarks = {model: one.arm["benchmark"] for model, one in known.items()}
    inputs = tuple(list_inputs(answers, moved, people, plain, benchmarks))
    return ModelLayers(models, plain, told, known, further, asked, paired, people, inputs)


def _of_people(answers: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of runs that people answered, with the questions that they left open, and those of models."""
    if "people" not in answers.columns:
        return answers.clear(), answers
    run = pl.col("run").fill_null("") if "run" in answers.columns else pl.lit("")
    told = answers.with_columns(_run=run)
    theirs = told.filter(pl.col("people").list.len() > 0).select("model", "_run").unique()
    parts = (told.join(theirs, on=["model", "_run"], how=how, maintain_order="left") for how in ("semi", "anti"))
    people, models = (part.drop("_run") for part in parts)
    return people, models


def _in_b(answers: pl.DataFrame, asked: breakdowns.TaskRows) -> pl.DataFrame:
    """The answers without the originals that B leaves out, and without their variants: questions about the world, and
    those that their benchmark marks as unusable."""
    key = ("model", "strategy", "_benchmark", "_of")
    original = pl.col(ORIGINAL).cast(pl.String) if ORIGINAL in answers.columns else pl.lit(None, pl.String)
    told = answers.with_columns(_benchmark=benchmark_of(answers), _of=pl.coalesce(original, "item"))
    mind = asked.rows.filter("mind").select("model", "strategy", _benchmark="benchmark", _of="item")
    left = told.filter(original.is_null()).select(key).join(mind, on=key, how="anti")
    return told.join(left, on=key, how="anti", maintain_order="left").drop("_benchmark", "_of")


def _plain(answers: pl.DataFrame) -> Iterator[tuple[tuple[str, str], str]]:
    """The strategy that counts, by model and benchmark: the one that asks for the answer alone."""
    if not answers.height:
        return
    keys = ("model", "benchmark")
    frame = answers.with_columns(benchmark=benchmark_of(answers)).select(*keys, "strategy").unique()
    for (model, benchmark), part in frame.sort(keys).group_by(keys, maintain_order=True):
        for chosen in answer_rows.plain_strategies(part["strategy"])[:1]:
            yield (str(model), str(benchmark)), chosen


def rows_of_strategy(frame: pl.DataFrame, plain: Mapping[tuple[str, str], str], model: str) -> pl.DataFrame:
    """The rows of a model by the strategy that counts, with the column `scenario`."""
    of = {benchmark: name for (who, benchmark), name in plain.items() if who == model}
    benchmark = pl.when(pl.col("benchmark") == "").then(pl.lit(ITEMS)).otherwise(pl.col("benchmark"))
    own = frame.filter(pl.col("model") == model).with_columns(benchmark=benchmark)
    wanted = pl.col("benchmark").replace_strict(of, default=None, return_dtype=pl.String)
    return own.filter(pl.col("strategy") == wanted).with_columns(scenario=_scenario())


def _scenario() -> pl.Expr:
    """The name of a scenario, by which layers share it: its benchmark and its cluster."""
    return pl.format("{}: {}", "benchmark", "cluster")


def _behaviour(asked: breakdowns.TaskRows | None, plain: Mapping[tuple[str, str], str], model: str) -> Behaviour | None:
    if asked is None:
        return None
    rows = rows_of_strategy(asked.rows.filter("mind"), plain, model)
    if not rows.height:
        return None
    chance = rows["chance"].cast(pl.Float64).to_numpy()
    task = rows.select(pl.format("{}: {}", "benchmark", "task")).to_series().to_numpy()
    return Behaviour(rows["correct"].to_numpy(), chance, task, rows["scenario"].to_numpy())


def _stability(
    found: variant_pairs.VariantPairs | None, plain: Mapping[tuple[str, str], str], model: str
) -> Stability | None:
    if found is None:
        return None
    named = pl.col("variant").replace_strict({name: short for short, name in NAMES.items()}, default=None,
                                             return_dtype=pl.String)  # fmt: skip
    rows = rows_of_strategy(found.pairs, plain, model).with_columns(short=named).filter(pl.col("short").is_in(COUNTED))
    if not rows.height:
        return None
    return Stability(rows["same"].to_numpy(), rows["short"].to_numpy(), rows["scenario"].to_numpy(), COUNTED)


def _choose_measurements(
    arms: list[t.Outcomes], benchmarks: set[str]
) -> tuple[dict[str, t.Outcomes], tuple[Mapping[str, str], ...]]:
    """The measurement of each model that counts, and those that do not: first one on a benchmark that was asked, too,
    then that with most eligible items."""
    found: dict[str, t.Outcomes] = {}
    further = []
    ordered = sorted(arms, key=lambda one: (one.arm["benchmark"] not in benchmarks, -one.select().height,
                                            one.arm["benchmark"]))  # fmt: skip
    for one in ordered:
        if one.arm["model"] in found:
            further.append(one.arm)
        found.setdefault(one.arm["model"], one)
    return found, tuple(further)


def _mechanism(found: t.Outcomes | None, judged: pl.DataFrame) -> Mechanism | None:
    """judged: the table `headline` of the study of interventions, whose verdict may not let C count; empty where its
    verdicts are not wanted."""
    if found is None:
        return None
    items = found.select()
    own, patch = t.net_effects(found, t.PPT, fitted=t.HELD_OUT, items=items), t.net_effects(found, t.PATCH, items=items)
    controls = {name: t.net_effects(found, name, fitted=t.HELD_OUT, items=items) for name in t.CONTROLS}
    lacking = t.find_incomplete(own, controls) if own.cells else []
    kept = t.find_complete(own, patch, *controls.values())
    named = items.with_columns(benchmark=pl.lit(found.arm["benchmark"])).select(_scenario()).to_series().to_numpy()
    changed = found.moves.filter(pl.col("map") == t.NO_OP)["changed_true"].drop_nulls()
    unproven = judged.filter(~pl.col("causes"), **found.arm)["verdict"] if judged.height else ()
    return Mechanism(
        own.values[kept],
        {name: effects.values[kept] for name, effects in controls.items()},
        patch.values[kept],
        named[kept],
        items=int(kept.sum()),
        broken=float(np.mean(np.sort(changed.to_numpy()))) if changed.len() else None,
        lacking=_lacking(lacking),
        unproven="; ".join(f"the verdict on it is: {verdict}" for verdict in unproven),
        ladders=own.layers,
    )


def _lacking(controls: Sequence[str]) -> str:
    """Why C cannot be counted where controls lack cells; empty where none does."""
    if not controls:
        return ""
    if len(controls) == len(t.CONTROLS):
        return "no control was measured in every cell of the map"
    named = ", ".join(name.replace("_", " ") for name in controls)
    of, were = ("control", "was") if len(controls) == 1 else ("controls", "were")
    return f"the {of} {named} {were} not measured in every cell of the map"


def has_repeats(found: ModelLayers, model: str) -> bool:
    """Whether originals of a model were asked again, so that T0 stands beside S."""
    if found.pairs is None:
        return False
    return bool(rows_of_strategy(found.pairs.originals, found.plain, model)["levels_compared"].sum())


_SIZE = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)\s?([bm])(?![a-z])", re.IGNORECASE)


def size_of(model: str) -> float | None:
    """How many billions of parameters a model's name says it has; None where it says nothing.

    >>> size_of("Llama-3.1-70B-Instruct"), size_of("mixtral-8x7b"), size_of("smol-135M"), size_of("gpt-4o")
    (70.0, 56.0, 0.135, None)
    """
    found = _SIZE.search(re.sub(r"[-_/]", " ", model))
    if found is None:
        return None
    return int(found[1] or 1) * float(found[2]) * (1.0 if found[3].lower() == "b" else 0.001)


MOST_LACKING = 0.5  # where a larger share of the replies that a layer counts is lacking, the layer is not computed


def questions(found: ModelLayers, model: str) -> pl.DataFrame:
    """The rows of a model's answers that B counts; none where it was asked nothing."""
    if found.asked is None:
        return pl.DataFrame(schema=dict.fromkeys(("benchmark", "item", "chance", "task"), pl.String))
    return rows_of_strategy(found.asked.rows.filter("mind"), found.plain, model)


def variants(found: ModelLayers, model: str) -> pl.DataFrame:
    """The rows of a model's answers to variants that S counts; none where it was asked none."""
    if found.pairs is None:
        names = ("benchmark", "original_item", "variant", "item")
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    kinds = [NAMES[short] for short in COUNTED]
    return rows_of_strategy(found.pairs.variants.filter(pl.col("variant").is_in(kinds)), found.plain, model)


@dataclass(frozen=True)
class Replies:
    """How many replies there are, how many of them did not come (failed), and how many could not be read (unread)."""

    count: int = 0
    failed: int = 0
    unread: int = 0

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Replies:
        """The replies of rows of answers."""
        if not rows.height or "faulty" not in rows.columns:
            return cls(rows.height)
        unread = int(rows["unread"].sum())
        return cls(rows.height, int(rows["faulty"].sum()) - unread, unread)

    def __add__(self, other: Replies) -> Replies:
        return Replies(self.count + other.count, self.failed + other.failed, self.unread + other.unread)

    def lacking(self) -> str:
        """Why a layer that counts these replies is not computed; empty where it is."""
        missing = self.failed + self.unread
        if not self.count or missing <= MOST_LACKING * self.count:
            return ""
        how = {(True, False): "failed", (False, True): "could not be read"}
        said = how.get((self.failed > 0, self.unread > 0), "failed or could not be read")
        return f"{percent(missing / self.count)} of the replies {said}"


def readable_layers(found: ModelLayers) -> tuple[dict[str, FunctionalModelLayers], dict[str, dict[str, str]]]:
    """The layers of each model, less those most of whose replies are lacking, and why these are left out."""
    kept: dict[str, FunctionalModelLayers] = {}
    why: dict[str, dict[str, str]] = {}
    for model, layers in found.models.items():
        asked, changed = Replies.of(questions(found, model)), Replies.of(variants(found, model))
        lacking = {"b": asked.lacking(), "s": changed.lacking() or asked.lacking()}
        lacking = {name: said for name, said in lacking.items() if said and getattr(layers, name) is not None}
        kept[model] = replace(layers, **dict.fromkeys(lacking))
        why[model] = lacking
    return kept, why


def explain_missing(scored: Mapping[str, ModelScore], why: Mapping[str, Mapping[str, str]]) -> dict[str, ModelScore]:
    """The scores, with the reasons why layers were left out."""
    return {model: replace(one, missing_layers={**one.missing_layers, **why[model]}) for model, one in scored.items()}
