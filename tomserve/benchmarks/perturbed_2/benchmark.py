"""Perturbed false-belief tasks, second edition: ``dataset/perturbed-2/stages/*.yaml``.

A task has three or four stories of the false-belief scenario, among them a minimal pair in one of which the surface cue
counts again, and three controls. Each story has a question about reality and one about a belief, each in an original
version and in one with the two labels exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve import content
from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say
from tomserve.benchmarks.perturbed.show import shown
from tomserve.benchmarks.perturbed_2.check import load_stage
from tomserve.benchmarks.perturbed_2.generating import generate
from tomserve.benchmarks.perturbed_2.rules import RULES
from tomserve.benchmarks.perturbed_2.stage import BENCHMARK as NAME
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, read_items
from tomserve.items.draw import Draw
from tomserve.stability import Retell

FOLDER = "dataset/perturbed-2/stages"


def stages(path: Path | None = None) -> list[Stage]:
    """The checked stages, sorted by name, of a stage file or a folder of them; of the dataset's own for None.

    Raises ConfigError where there are none or two files claim one stage, ContentError for a mistake in a file.
    """
    if path is None:
        files = list(content.names(FOLDER, ".yaml").values())
    elif path.is_dir():
        files = sorted(path.glob("*.yaml"))
    else:
        files = [path]
    if not files:
        raise ConfigError(f"no stage files (*.yaml) in {path or FOLDER}")
    found: dict[str, Stage] = {}
    for file in files:
        stage = load_stage(file)
        if (other := found.setdefault(stage.file.stage, stage)) is not stage:
            raise ConfigError(f"{file}: stage {stage.file.stage!r} is already in {other.path}")
    return [found[name] for name in sorted(found)]


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """All items of all stages. path: a stage file or a folder of them, or a file of items (.jsonl) such as a fresh
    edition, None for the dataset's own. gold: not used, as there is one set of right answers. Raises ConfigError and
    ContentError as `stages` does, ContentError for an item of another benchmark."""
    del gold
    if path is not None and path.suffix == ".jsonl":
        for item in read_items(path):
            if item.benchmark != NAME:
                reason = f"item {item.id!r} is of benchmark {item.benchmark!r}; use --benchmark items"
                raise ContentError(reason, path=path)
            yield item
        return
    for stage in stages(path):
        yield from stage.items()


def validate(path: Path | None, say: Say) -> Findings:
    """Check the dataset's structure (see tomserve.benchmarks.perturbed_2.validate)."""
    from tomserve.benchmarks.perturbed_2.validate import findings  # imported here, because asking needs none of it

    del say
    return findings(stages(path), own=path is None)


def audit(path: Path | None, say: Say) -> Findings:
    """Score rules that only look at words, beside the first edition (see tomserve.benchmarks.perturbed_2.auditing)."""
    from tomserve.benchmarks.perturbed_2.auditing import findings  # imported here, because it imports scipy

    found = stages(path)
    say("fitting and scoring shortcuts, about ten seconds ...")
    return findings(found, own=path is None)


def show(path: Path | None, where: Sequence[str]) -> Findings:
    """Print stories for reading. where: a stage, a class, a version; raises ConfigError for one that is not there."""
    return shown(load(path), where)


def retelling(path: Path | None) -> Retell:
    """What makes variants of the items (see tomserve.benchmarks.perturbed_2.retelling)."""
    from tomserve.benchmarks.perturbed_2.retelling import retelling as made  # imported here: few runs have variants

    return made(path)


DRAW = Draw(
    over=("stage", "perturbation"),
    whole=("slot", "swapped"),
    alike=("stage",),
    first="none",
    unit=("story or pair", "stories and pairs"),
    group=("task", "tasks"),
)
"""A story is drawn with its two questions, and the two stories of a minimal pair together. All tasks of a stage get the
same slots (the pair, another false-belief story, one of the controls), so that a class is compared with the unperturbed
task of its stage on the same ones."""

BENCHMARK = Benchmark(
    NAME,
    load,
    papers=("The perturbed false-belief tasks (arXiv:2602.22072)",),
    study="perturbed",
    reasoned=("scenario=false_belief", "question_kind=belief"),
    draw=DRAW,
    rules=RULES,
    validate=validate,
    audit=audit,
    show=show,
    generate=generate,
    retelling=retelling,
)
"""The value by which tomserve knows the benchmark."""
