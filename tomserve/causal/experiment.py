"""A causal experiment: finds the cases and the model, estimates the cost, and measures into a run folder, where an
interrupted measurement goes on. Only `load_subject` imports torch.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tomserve import benchmarks
from tomserve.benchmarks.counterfactuals import Case, draw_cases
from tomserve.causal import checkpoints, interventions
from tomserve.causal.activations import ActivationCache, Backend, Readings
from tomserve.causal.checkpoints import Checkpoint
from tomserve.causal.interventions import baseline_rows, count_cells, probe_rows
from tomserve.causal.power import describe_power, found_share
from tomserve.causal.projection import assign_folds
from tomserve.causal.prompts import ORDERS, PromptSet, adapt_strategy, check_strategy, find_eligible, prompts_of
from tomserve.causal.settings import FEWEST, FOLDS, STRATEGY, Settings
from tomserve.causal.steering import TRANSFER_LEAST
from tomserve.causal.strengths import TRIED
from tomserve.causal.table import SCHEMA, TOLD
from tomserve.content import digest, files
from tomserve.content.files import one_line
from tomserve.content.paths import run_name, runs_root
from tomserve.content.text import format_bytes, format_duration
from tomserve.errors import ConfigError, MachineError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.runs.cost import Figure, measure_prompts
from tomserve.runs.measurement import MeasuredRun
from tomserve.runs.progress import MeasureListener
from tomserve.runs.runfolder import default_name, run_path
from tomserve.serving.install import installed_version as version
from tomserve.serving.sizing import BYTES

if TYPE_CHECKING:
    from tomserve.causal.hf.model import HfBackend

GPU_RATE = 3e14
"""Operations (multiplications and additions) a second that a large GPU of today does in bfloat16, at 30% of its peak: a
guess, as no GPU was at hand to measure it."""

FITTING, FITTING_ALPHA = 500, 70
"""Operations, or what takes as long, that the maps and controls of a layer cost the CPU for each pair of cases and unit
of width, and for each strength besides. From 100 to 400 cases at widths from 1024 to 8192 one core took between .8 and
1.4 times as long as that (2026-11-23)."""

BFLOAT16 = 2  # times as fast as in float32 is a CPU that multiplies numbers of bfloat16 by itself, at least
SHARE = 0.25  # of a machine's memory, which the steps of a group of layers may take
ROW = 14  # bytes that a row of the table takes in Parquet, as measured


@dataclass(frozen=True)
class Workload:
    """How much is to be done."""

    cases: int  # false-belief items
    tokens: float  # of a prompt, on average
    layers: int  # that are moved
    alphas: int  # strengths
    other_families: int  # of stories, from which maps are carried over to a case
    true_pairs: bool = False  # whether maps of true-belief pairs are tried, too

    @property
    def prompts(self) -> int:
        """How many prompts are run once in full: every telling of every case in both orders."""
        return self.cases * len(TOLD) * len(ORDERS)

    @property
    def cells(self) -> int:
        """How many steps an item makes in a layer, and each order of its choices."""
        return count_cells(self.alphas, self.other_families, self.true_pairs)

    @property
    def reruns(self) -> int:
        """How often the last token of a prompt is run again, where every case is eligible."""
        return self.cases * len(ORDERS) * self.layers * self.cells


@dataclass(frozen=True)
class Machine:
    """What the measurement runs on."""

    rate: float  # operations a second
    memory: int  # bytes of the main memory
    device: str  # in words
    weight: int  # bytes of one parameter there
    processor: float  # operations a second of the CPU, which fits the maps whatever runs the model
    keeps: bool = False  # whether the search for strengths finds its prompts in memory, in every layer

    @classmethod
    def here(cls, device: str, gpus: int) -> Machine:
        """This machine. device: cpu or cuda. gpus: how many GPUs are used."""
        memory, processor = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _measured_rate()
        if device == "cpu":
            return cls(processor, memory, f"CPU, {os.cpu_count()} cores", 4, processor, keeps=True)
        several = f"{gpus} GPUs, of which one computes at a time"  # a model is spread over them block by block
        return cls(GPU_RATE, memory, several if gpus > 1 else "one GPU", 2, processor)

    @property
    def for_steps(self) -> int:
        return int(SHARE * self.memory)


def _measured_rate() -> float:
    """Operations a second of all cores of this CPU in float32, as a model reaches them, and maps in float64: the
    quickest of many small products of matrices on one core, as often as there are cores. A product that small takes no
    second thread, which on a busy machine would wait, and reaches half of what a large one does, as a model does."""
    left, product = np.ones((48, 48), np.float32), np.empty((48, 48), np.float32)
    begun, quickest = time.perf_counter(), float("inf")
    while (now := time.perf_counter()) - begun < 0.2:
        np.matmul(left, left, product)
        quickest = min(quickest, time.perf_counter() - now)
    return (os.cpu_count() or 1) * 2 * 48**3 / quickest


def estimate_cost(checkpoint: Checkpoint, work: Workload, machine: Machine) -> list[Figure]:
    """What that much work takes with that model on that machine, if every case is eligible.

    A prompt costs two operations for each parameter that is active and token; a re-run the same for one token and, for
    its attention to the prefix, four for each layer, unit of width and token. Each group of layers runs every prefix
    once more, and its search for strengths some of them. The maps of a layer cost what FITTING says.
    """
    one = max(1, work.cells * work.cases * checkpoint.width * 4)
    size = max(1, machine.for_steps // one)
    groups = -(-work.layers // size)
    per_token = 2.0 * checkpoint.active
    searched = (groups if machine.keeps else work.layers) * min(TRIED, work.cases)
    prefixes = (work.prompts + groups * work.cases * len(ORDERS) + searched) * work.tokens * per_token
    reruns = work.reruns * (per_token + 4.0 * checkpoint.layers * checkpoint.width * work.tokens)
    pairs = work.layers * work.cases**2 * checkpoint.width
    fitting = pairs * (FITTING + FITTING_ALPHA * work.alphas) / machine.processor
    seconds = (prefixes + reruns) / machine.rate + fitting
    weights, steps = checkpoint.parameters * machine.weight, min(size, work.layers) * one
    cache = int(checkpoint.cache_numbers * machine.weight * work.tokens)
    states, table = work.prompts * checkpoint.layers * checkpoint.width * 4, 2 * ROW * work.reruns
    return [
        Figure(
            "re-runs",
            work.reruns,
            "re-runs",
            f"at most {work.reruns:,} re-runs of one token, after {work.prompts:,} prompts of {work.tokens:.0f} tokens",
            f"{work.cases:,} cases x {len(ORDERS)} orders x {work.layers} layers x {work.cells} steps, if every "
            "case is eligible",
            ("--limit", "--where", "--layers", "--alphas"),
        ),
        Figure(
            "time",
            seconds / 3600,
            "h",
            f"about {format_duration(seconds)} on {machine.device}",
            f"at {machine.rate / 1e9:,.0f} billion operations a second; of that this CPU fits maps for about "
            f"{format_duration(fitting)}",
            ("--device", "--gpus"),
        ),
        Figure(
            "memory",
            (weights + cache + steps) / 1e9,
            "GB",
            f"weights {format_bytes(weights)}, cache of one prompt {format_bytes(cache)}, steps {format_bytes(steps)}",
            f"{machine.weight} bytes a parameter; steps of as many layers at once as fit into {SHARE:.0%} of the main "
            f"memory, which makes {groups} group{'s' * (groups > 1)} of layers",
            ("--dtype",),
        ),
        Figure(
            "disk",
            (states + table) / 1e9,
            "GB",
            f"states {format_bytes(states)}, table {format_bytes(table)}",
            f"states of every prompt after each layer; {ROW} bytes a row of the table, once in parts and once in all",
        ),
    ]


FILES = (".jsonl", ".json", ".yaml", ".yml")  # how the names of files of items end
ANY_FILE = "items"  # the benchmark that reads a user's file of items
DTYPES = ("float32", "bfloat16", "float16")  # in which a model may be run


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What a measurement runs on; it may differ from session to session, and the manifest notes it for each."""

    device: str | None = None  # cpu, cuda, cuda:N, or auto for all GPUs; None for what is there
    dtype: str | None = None  # of the weights, None for float32 on a CPU and bfloat16 on a GPU
    batch: int | None = None  # prompts that run at once, None for as many as the memory holds
    revision: str | None = None  # of a model on the hub

    def __post_init__(self) -> None:
        if self.device is not None and not re.fullmatch(r"cpu|cuda(:\d{1,4})?|auto", self.device):
            raise ConfigError(f"--device {one_line(self.device)}: expected cpu, cuda, cuda:N, or auto for all GPUs")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ConfigError(f"--dtype {one_line(self.dtype)}: expected {', '.join(DTYPES)}")
        if self.batch is not None and self.batch < 1:
            raise ConfigError(f"batch is {self.batch}; expected 1 or more prompts")


@dataclass(frozen=True)
class ExperimentSetup:
    """What is measured."""

    checkpoint: Checkpoint
    benchmark: str  # its name
    cases: tuple[Case, ...]  # all that the settings want
    left_out: Counter[str]  # how many false-belief questions make no case, by the reason

    @property
    def digest(self) -> str:
        """A digest of all tellings of all cases."""
        return digest(*sorted(item.to_json() for case in self.cases for item in tellings(case)))

    @property
    def items(self) -> Iterator[Item]:
        """All tellings of all cases, each once."""
        known: set[str] = set()
        for case in self.cases:
            for item in tellings(case):
                if item.id not in known:
                    known.add(item.id)
                    yield item

    @property
    def other_families(self) -> int:
        """From how many other families maps are carried over to a case of a family that is large enough."""
        sizes = Counter(case.family for case in self.cases)
        return max(0, sum(size >= TRANSFER_LEAST for size in sizes.values()) - 1)


def tellings(case: Case) -> list[Item]:
    """The tellings of a case: f, p, its twin in the second person and, where there is one, in the third."""
    return [case.f, case.own, case.own_twin, *([case.twin] if case.twin is not None else [])]


def find_setup(settings: Settings, on: Hardware) -> ExperimentSetup:
    """The model and the cases that the settings name; no weights are read.

    Raises ConfigError for a model that cannot be measured, for a benchmark without cases, for conditions that no case
    meets, and for a strategy whose reply does not begin with the answer; ContentError by file and line.
    """
    checkpoint = checkpoints.resolve_model(settings.model, on.revision)
    name, path = settings.items, settings.path
    if name.endswith(FILES):
        name, path = ANY_FILE, Path(name).expanduser()
    benchmark = benchmarks.require_cases(benchmarks.get(name))
    left_out: Counter[str] = Counter()
    cases = list(benchmark.found_cases(path, settings.where, left_out))
    draw = benchmarks.draw_of(benchmark, {case.f.benchmark for case in cases})
    cases = draw_cases(cases, settings.limit, draw)
    strategy = Strategy.load(settings.strategy)
    if cases:
        check_strategy(strategy, cases[0].f)
    return ExperimentSetup(checkpoint, benchmark.name, tuple(cases), left_out)


def load_subject(found: ExperimentSetup, settings: Settings, on: Hardware) -> tuple[HfBackend, PromptSet]:
    """Load the model, and make the prompts of all cases. Raises MachineError where torch or transformers are missing or
    the memory does not suffice, ConfigError for a strategy whose reply does not begin with the answer."""
    checkpoints.require_extra()
    from tomserve.causal.hf import model

    spread = on.device == "auto"
    loaded = model.load_checkpoint(
        found.checkpoint,
        device=None if spread else on.device,
        dtype=on.dtype,
        device_map="auto" if spread else None,
        batch=on.batch,
    )
    strategy = adapt_strategy(settings.strategy, loaded.tokenizer)
    context = loaded.backend.context
    asked = PromptSet.of(found.cases, lambda case: prompts_of(case, strategy, loaded.tokenizer, context))
    return loaded.backend, asked


def plan_experiment(settings: Settings, on: Hardware, gpus: int | None = None) -> list[Figure]:
    """What the measurement takes and can find, without reading any weights. gpus: for a machine with so many; None for
    this one. The length of a prompt is estimated from some of the cases. Raises as `find_setup`."""
    found = find_setup(settings, on)
    sample = [item for case in found.cases[:: max(1, len(found.cases) // 50)] for item in tellings(case)]
    tokens = measure_prompts(sample, Strategy.load(settings.strategy)).tokens / len(sample)
    parted = sum(case.parted is not None for case in found.cases)
    text, why = describe_power(parted)
    power = Figure("power", found_share(parted, 1.0, 1.0), "", text, why, ("--limit", "--where"))
    return [*estimate_setup(found, settings, tokens, describe_machine(on, found.checkpoint, gpus)), power]


def describe_machine(on: Hardware, checkpoint: Checkpoint, gpus: int | None = None) -> Machine:
    """What that model is measured on. gpus: for a machine with so many; None for this one."""
    from tomserve.serving.sizing import find_gpus

    count = gpus if gpus is not None else 0 if on.device == "cpu" else len(find_gpus())
    kind = "cuda" if count else "cpu"
    here = Machine.here(kind, count if gpus is not None or on.device == "auto" else min(1, count))
    dtype = on.dtype or checkpoints.default_dtype(checkpoint, kind)
    faster = BFLOAT16 if kind == "cpu" and dtype == "bfloat16" and checkpoints.multiplies_bfloat16() else 1
    return replace(here, weight=int(BYTES[dtype]), rate=faster * here.rate)


def estimate_setup(found: ExperimentSetup, settings: Settings, tokens: float, on: Machine) -> list[Figure]:
    """What the measurement takes where prompts have so many tokens on average."""
    layers = len(settings.selected_layers(found.checkpoint.layers))
    work = Workload(len(found.cases), tokens, layers, settings.strengths, found.other_families, settings.true_pairs)
    return estimate_cost(found.checkpoint, work, on)


STUDY = "causal"  # the study that reads the table
BATCH = 64  # so many prompts are run before their states are kept


NOTED = ("devices", "hardware", "dtype", "attention", "reruns")
"""What the manifest notes of a session besides, as the backend describes itself: the numbers may depend on it."""


@dataclass(frozen=True)
class ExperimentResult:
    """A finished measurement."""

    folder: Path  # of its run
    measured: bool  # whether anything was left to do


def run_states(
    asked: PromptSet, states: ActivationCache, fewest: int, backend: Backend, listener: MeasureListener
) -> int:
    """Run every prompt whose states are not there yet, the false-belief items first, and return how many of these are
    eligible. Raises ConfigError where they are fewer than `fewest`, before the other tellings are run; MachineError for
    states that are not finite, as numbers may be too large for the model's dtype."""
    missing = set(states.missing.tolist())
    listener.phase("states", states.prompts)
    listener.advance(states.prompts - len(missing))
    first = {asked.place(number, order) for number in range(len(asked.cases)) for order in ORDERS}
    _run_prompts(asked, states, missing & first, backend, listener)
    count = check_eligible(asked, states, fewest)
    _run_prompts(asked, states, missing - first, backend, listener)
    listener.done()
    return count


def _run_prompts(
    asked: PromptSet, states: ActivationCache, wanted: set[int], backend: Backend, listener: MeasureListener
) -> None:
    order = sorted(wanted, key=lambda place: asked.prompts[place].tokens)  # those of a story side by side
    for start in range(0, len(order), BATCH):
        places = order[start : start + BATCH]
        found: Readings = backend.run([asked.prompts[place] for place in places])
        if not np.isfinite(found.states).all():
            layer = int(np.flatnonzero(~np.isfinite(found.states).all(axis=(0, 2)))[0]) + 1
            raise MachineError(
                f"the model's states after layer {layer} are not finite, so that they overflow its dtype or its "
                "weights are broken; measure with --dtype float32, or bfloat16 where that does not fit"
            )
        states.write(np.array(places, np.int64), found)
        listener.advance(len(places))


def check_eligible(asked: PromptSet, states: ActivationCache, fewest: int) -> int:
    """How many cases are eligible. Raises ConfigError where they are fewer than that."""
    count = sum(find_eligible(asked, states.answers))
    if count < fewest:
        raise ConfigError(
            f"{count} of {len(asked.cases)} false-belief items are eligible (answered by the false-belief choice in "
            f"both orders, the likeliest token being a choice); {fewest} are needed. Use more cases, another "
            "strategy that this model answers, or --fewest N if wide intervals are wanted"
        )
    return count


def run_experiment(
    found: ExperimentSetup,
    backend: Backend,
    asked: PromptSet,
    settings: Settings,
    run: MeasuredRun,
    listener: MeasureListener,
    on: Machine,
) -> None:
    """Measure everything and finish the run. Raises ConfigError where too few cases are eligible."""
    layers = settings.selected_layers(backend.layers)
    of = digest(asked.digest.encode(), backend.dtype.encode())  # another data type makes other states
    states = ActivationCache(
        run.work / "states",
        prompts=len(asked.prompts),
        layers=backend.layers,
        width=backend.width,
        choices=asked.choices,
        digest=of,
    )
    count = run_states(asked, states, settings.fewest, backend, listener)
    listener.note(f"{count} of {len(asked.cases)} false-belief questions are eligible")
    folds = assign_folds(asked.clusters, settings.folds, settings.seed, [case.family for case in asked.cases])
    moves = interventions.Interventions(asked, states, folds, settings, on.for_steps)
    listener.phase("re-runs", interventions.count_reruns(moves, len(layers)))
    parts = list(
        interventions.run_interventions(moves, backend, layers, run.work / "moved" / of[-12:], listener.advance)
    )
    listener.done()
    listener.phase("probes", len(layers))
    read = probe_rows(asked, states, folds, layers, settings.seed, listener.advance)
    listener.done()
    _finish(run, found, settings.strategy, pl.concat([baseline_rows(asked, states.answers), read]), parts)


def _finish(
    run: MeasuredRun, found: ExperimentSetup, asked_by: str, first: pl.DataFrame, parts: Sequence[Path]
) -> None:
    """Put the table together, without holding all of it in memory, and keep it."""
    named = {"run": run_name(run.path), "model": found.checkpoint.name, "benchmark": found.benchmark}
    named["asked_by"] = asked_by

    def whole(frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.with_columns(pl.lit(value).cast(SCHEMA[name]).alias(name) for name, value in named.items())

    path = run.work_file("table.parquet")
    with files.replace_file(path) as file:
        frames = [first.lazy(), *(files.scan_foreign_parquet(part) for part in parts)]
        pl.concat([whole(frame) for frame in frames]).sink_parquet(file.name)
    run.finish(path)
    run.clear_work()


def measure(
    settings: Settings,
    place: str | Path | None = None,
    listener: MeasureListener | None = None,
    on: Hardware | None = None,
) -> ExperimentResult:
    """Measure what the settings say, or go on with it, and return the finished run.

    place: the name or folder of the run; None for ``causal-<benchmark>-<model>``. Raises ConfigError for what cannot be
    measured (see `find_setup`, and where too few cases are eligible), RunMismatchError where the folder holds another
    measurement, MachineError where the model cannot be loaded.
    """
    on, listener = on or Hardware(), listener or MeasureListener()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "several processes of torchrun would write into one run; start one without torchrun, with --device auto to "
            "spread the model over all GPUs"
        )
    found = find_setup(settings, on)
    settings.selected_layers(found.checkpoint.layers)
    for reason, count in found.left_out.most_common():
        listener.note(f"{count:,} false-belief question{'s make' if count > 1 else ' makes'} no case: {reason}")
    own = default_name(f"{STUDY}-{found.benchmark}", found.checkpoint.name)
    folder = runs_root() / own if place is None else run_path(place) if isinstance(place, str) else place
    with MeasuredRun.open(
        folder,
        study=STUDY,
        model=found.checkpoint.name,
        revision=found.checkpoint.revision or found.checkpoint.digest,
        benchmark=found.benchmark,
        benchmark_digest=found.digest,
        settings=settings.to_record(),
        command=command_of(settings),
    ) as run:
        if run.complete:
            return ExperimentResult(folder, False)
        run.write_items(found.items)
        listener.note(f"loading {found.checkpoint.name} from {found.checkpoint.place}")
        backend, asked = load_subject(found, settings, on)
        description = backend.describe()
        run.log(f"model: {description}")
        versions = {name: version(name) for name in ("torch", "transformers", "numpy", "polars")}
        noted = {name: description[name] for name in NOTED}
        run.note_environment({**versions, "batch": on.batch or "as many as fit", **noted})
        for reason, count in asked.left_out.most_common():
            listener.note(f"{count:,} case{'s are' if count > 1 else ' is'} left out: {reason}")
        here = describe_machine(on, found.checkpoint)
        for figure in estimate_setup(found, settings, asked.mean_tokens, here):
            listener.note(f"{figure.name}: {figure.text} ({figure.why})")
        run_experiment(found, backend, asked, settings, run, listener, here)
    return ExperimentResult(folder, True)


def command_of(settings: Settings) -> str:
    """The command that makes such a run, for whoever wants to make it again."""
    parts = ["tomserve", "causal", settings.model, "--items", settings.items]
    if settings.path is not None:
        parts += ["--path", str(settings.path)]
    for condition in settings.where:
        parts += ["--where", condition]
    if settings.limit is not None:
        parts += ["--limit", str(settings.limit)]
    for name, value, usual in (
        ("strategy", settings.strategy, STRATEGY),
        ("layers", settings.layers and ",".join(map(str, settings.layers)), None),
        ("alphas", settings.alphas and ",".join(f"{alpha:g}" for alpha in settings.alphas), None),
        ("folds", str(settings.folds), str(FOLDS)),
        ("seed", str(settings.seed), "0"),
        ("fewest", str(settings.fewest), str(FEWEST)),
    ):
        if value != usual:
            parts += [f"--{name}", str(value)]
    if settings.true_pairs:
        parts.append("--true-pairs")
    return " ".join(parts)
