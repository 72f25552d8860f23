"""Perturbed false-belief tasks (design of arXiv 2602.22072; stories written for tomserve): ``dataset/stages/*.yaml``.

A task has sixteen questions: four scenarios, each with a question about reality and one about a belief, each in an
original version and in one with the two labels exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve import content
from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say
from tomserve.benchmarks.perturbed.rules import RULES
from tomserve.benchmarks.perturbed.show import shown
from tomserve.benchmarks.perturbed.stagecheck import load_stage
from tomserve.benchmarks.perturbed.stagefile import Stage
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.stability import Retell


def stages(path: Path | None = None) -> list[Stage]:
    """The checked stages, sorted by name, of a stage file or a folder of them; of the dataset's own for None.

    Raises ConfigError where there are none or two files claim one stage, ContentError for a mistake in a file.
    """
    if path is None:
        files = list(content.names("dataset/stages", ".yaml").values())
    elif path.is_dir():
        files = sorted(path.glob("*.yaml"))
    else:
        files = [path]
    if not files:
        raise ConfigError(f"no stage files (*.yaml) in {path or 'dataset/stages'}")
    found: dict[str, Stage] = {}
    for file in files:
        stage = load_stage(file)
        if (other := found.setdefault(stage.file.stage, stage)) is not stage:
            raise ConfigError(f"{file}: stage {stage.file.stage!r} is already in {other.path}")
    return [found[name] for name in sorted(found)]


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """All items of all stages. path: a stage file or a folder of them, None for the dataset's own. gold: not used, as
    there is one set of right answers. Raises ConfigError and ContentError as `stages` does."""
    del gold
    for stage in stages(path):
        yield from stage.items("perturbed")


def validate(path: Path | None, say: Say) -> Findings:
    """Check the dataset's structure (see tomserve.benchmarks.perturbed.validate)."""
    from tomserve.benchmarks.perturbed.validate import findings  # imported here, because asking needs none of it

    del say
    return findings(stages(path))


def audit(path: Path | None, say: Say) -> Findings:
    """Score simple rules on the dataset, and compare its gold with its events (see perturbed/auditing.py)."""
    from tomserve.benchmarks.perturbed.auditing import (
        findings,
    )  # imported here, because it imports scipy, which is slow

    found = stages(path)
    say("scoring shortcuts, about 20 s ...")
    return findings(found, own=path is None)


def show(path: Path | None, where: Sequence[str]) -> Findings:
    """Print stories for reading. where: a stage, a class, a scenario; raises ConfigError for one that is not there."""
    return shown(load(path), where)


DRAW = Draw(
    over=("stage", "perturbation"),
    whole=("scenario", "swapped"),
    alike=("stage",),
    first="none",
    unit=("story", "stories"),
    group=("task", "tasks"),
)
"""A story is drawn with its two questions. All tasks of a stage get the same scenarios, so that a class is compared
with the unperturbed task of its stage on the same ones."""


def retelling(path: Path | None) -> Retell:
    """What makes variants of the items (see tomserve.benchmarks.perturbed.retelling)."""
    from tomserve.benchmarks.perturbed.retelling import retelling as made  # imported here: few runs have variants

    return made(path)


BENCHMARK = Benchmark(
    "perturbed",
    load,
    papers=("The perturbed false-belief tasks (arXiv:2602.22072)",),
    study="perturbed",
    reasoned=("scenario=false_belief", "question_kind=belief"),
    draw=DRAW,
    rules=RULES,
    validate=validate,
    audit=audit,
    show=show,
    retelling=retelling,
)
