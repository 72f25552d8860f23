"""The stories of a stage file as a reader sees them, each sentence with what it leaves possible.

    python -m tomserve.benchmarks.perturbed_2.show FILE [CLASS [VERSION]]

prints them for the author of a stage: after every sentence the labels that the asked person may believe in, and those
that may be so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tomserve.benchmarks.perturbed.stagefile import fill
from tomserve.benchmarks.perturbed_2.check import load_stage
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.errors import TomserveError


def shown(stage: Stage, task: str | None = None, version: str | None = None) -> Iterator[str]:
    """Lines that tell every story once, with x and y not exchanged. task, version: only these."""
    labels = {symbol: slot.label for symbol, slot in stage.file.labels.items()}
    for story in stage.stories:
        if (task and story.task != task) or (version and story.version != version):
            continue
        made = stage.version(story)
        role = f"{stage.role(story)}, {made.ground or stage.file.scenario(story.version)}"
        yield ""
        yield f"{stage.file.stage}/{story.task}/{story.version} ({role}; asked: {stage.file.asked(story.task)})"
        for number, (sentence, line) in enumerate(zip(story.sentences.values(), story.lines, strict=True), 1):
            belief, world = (
                "|".join(labels.get(one, one) for one in layer.labels) for layer in (line.belief, line.world)
            )
            text = fill(sentence.text, stage.file.labels, stage.file.asked(story.task))
            yield f"{number:3d}. {text}  [belief {belief}; world {world}]"


def main() -> int:
    """Show the file that the command line names."""
    if not 2 <= len(sys.argv) <= 4:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        stage = load_stage(Path(sys.argv[1]))
    except TomserveError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(shown(stage, *sys.argv[2:])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
