"""Scores the parts of an evaluation, each into its own ``scores.parquet``, and passes over those that are scored.

Each part is scored as any run is (tomserve.runs.scores), with all cores that there are; a part whose files cannot be
scored is named, and the others are scored all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tomserve.errors import ConfigError
from tomserve.runs.scores import current_scores, read_current_record
from tomserve.scoring.table import Note
from tomserve.shards.record import Shards, part_folder


@dataclass(frozen=True)
class ScoredParts:
    """What became of the parts of an evaluation.

    scored: those that were scored now. current: those whose table was made from the very files that are there. waiting:
    those that hold no answers yet. broken: for each part that could not be scored, the reason.
    """

    scored: tuple[int, ...]
    current: tuple[int, ...]
    waiting: tuple[int, ...]
    broken: dict[int, str]

    @property
    def there(self) -> tuple[int, ...]:
        """The parts that have a score table now."""
        return tuple(sorted((*self.scored, *self.current)))


def score_parts(folder: Path, note: Note | None = None, done: Callable[[int, int], None] | None = None) -> ScoredParts:
    """Score every part that holds answers.

    folder: that of the parts. note: called with a sentence on each thing that could not be read. done: called after
    each part with its number and how many parts there are. Raises ConfigError where the record of the parts cannot be
    read.
    """
    shards = Shards.read(folder)
    scored, current, waiting, broken = [], [], [], {}
    for number in range(len(shards.parts)):
        part = part_folder(folder, number)
        try:
            if not (part / "manifest.json").exists():
                waiting.append(number)
            elif read_current_record(part) is not None:
                current.append(number)
            else:
                current_scores(part, note=note)
                scored.append(number)
        except (ConfigError, OSError) as error:
            broken[number] = str(error)
        if done is not None:
            done(number, len(shards.parts))
    return ScoredParts(tuple(scored), tuple(current), tuple(waiting), broken)
