"""Perturbed false-belief tasks (design of arXiv 2602.22072; stories written for tomserve): ``dataset/stages/*.yaml``.

Sixteen questions a task: four scenarios x {reality, belief} x {original, swapped}.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tomserve import content
from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say
from tomserve.benchmarks.perturbed.stagecheck import load_stage
from tomserve.benchmarks.perturbed.stagefile import Stage
from tomserve.errors import ConfigError
from tomserve.items import Item


def stages(path: Path | None = None) -> list[Stage]:
    """The checked stages of a stage file, a folder of them, or the dataset's own, by stage name.

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
    """All items of all stages; `path` may name one stage file or a folder of them. They have one set of answers, so
    that `gold` says nothing."""
    del gold
    for stage in stages(path):
        yield from stage.items("perturbed")


def validate(path: Path | None, say: Say) -> Findings:
    """The proof of the dataset's structure (see tomserve.benchmarks.perturbed.validate)."""
    from tomserve.benchmarks.perturbed.validate import findings  # on demand: asking needs none of it

    del say
    return findings(stages(path))


def audit(path: Path | None, say: Say) -> Findings:
    """Shortcuts scored on the dataset, and its gold against its events (see tomserve.benchmarks.perturbed.auditing)."""
    from tomserve.benchmarks.perturbed.auditing import findings  # on demand: it imports scipy

    found = stages(path)
    say("scoring shortcuts, about 20 s ...")
    return findings(found)


BENCHMARK = Benchmark("perturbed", load, study="perturbed", stratum="perturbation", validate=validate, audit=audit)
