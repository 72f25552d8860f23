"""The options --reader of `tomserve score`: a model reads what the rules cannot.

What asks a model is imported where one is asked, since every command that reads scores comes by here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tomserve import benchmarks
from tomserve.cli.options import console
from tomserve.content.text import say
from tomserve.errors import ConfigError
from tomserve.scoring.grades import GradeFiles

if TYPE_CHECKING:
    from tomserve.runs.grader import Reader, ReadingOutcome
    from tomserve.scoring.responses import ItemFile, ResponseFile

NONE = "none"
"""What --reader is given to go back to the rules alone."""


@dataclass(frozen=True)
class Wishes:
    """What the user wants of a reader.

    given: its address or name, "none" to use none any more, None where nothing was said. model: which of the models at
    the address. sample: how many replies that the rules have read it reads, too. own: whether it may be the evaluated
    model.
    """

    given: str | None = None
    model: str | None = None
    sample: int | None = None
    own: bool = False

    def found(self) -> Reader | None:
        """The reader; None where none is wanted. Raises ConfigError for options that belong to --reader."""
        if self.given is not None and self.given != NONE:
            from tomserve.runs import grader
            from tomserve.serving.probe import WaitPolicy

            return grader.find_reader(self.given, self.model, WaitPolicy(note=lambda text: say(text, error=True)))
        if self.model is not None or self.sample is not None or self.own:
            raise ConfigError(
                "--reader-model, --reader-sample and --reader-may-be-evaluated-model belong to --reader URL or MODEL"
            )
        return None

    @property
    def size(self) -> int:
        """How many replies the sample has at most."""
        from tomserve.runs.grader import SAMPLE

        return SAMPLE if self.sample is None else self.sample

    @property
    def none(self) -> bool:
        """Whether the rules alone are to read from now on."""
        return self.given == NONE


NOTHING = Wishes()
"""Nobody said anything of a reader."""


def of_run(folder: Path, found: Reader, wishes: Wishes) -> int:
    """Have the reader read what the rules cannot read of a run, and say what came of it. Returns 1 where it did not
    reply about some of it, else 0."""
    from tomserve.cli import signals
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs import grader

    drive, screen = signals.heard, RunScreen(console())
    outcome = grader.read_run(folder, found, sample=wishes.size, own=wishes.own, listener=screen, drive=drive)
    return _told(outcome)


def of_file(out: Path, files: tuple[ItemFile, ResponseFile], found: Reader, wishes: Wishes) -> int:
    """The same for the replies of another tool. out: the table that is made of them; the choices are kept beside it."""
    from tomserve.cli import signals
    from tomserve.reporting.progress import RunScreen
    from tomserve.runs import grader
    from tomserve.runs import grader as reading

    survey = grader.Survey(*files, benchmarks.scoring_of, wishes.size)
    job = reading.ReadingJob(found, survey, GradeFiles.beside(out), RunScreen(console()), own=wishes.own)
    return _told(reading.read_replies(job, signals.heard))


def _told(outcome: ReadingOutcome) -> int:
    for line in outcome.lines():
        say(line)
    return int(bool(outcome.failures))


def forget(places: Sequence[GradeFiles]) -> None:
    """Go back to the rules alone."""
    from tomserve.runs import grader

    for place in places:
        if grader.forget_reader(place):
            say(f"reader: not used any more; its choices stay in {place.journal}")
