"""Check the files that tell the sentences of stages otherwise, as part of `tomserve dataset validate`."""

from __future__ import annotations

from collections.abc import Iterator

from tomserve.benchmarks.perturbed_2.condensing import shortened
from tomserve.benchmarks.perturbed_2.retoldfile import Checked, path_of
from tomserve.benchmarks.perturbed_2.stage import Stage
from tomserve.benchmarks.perturbed_2.telling import Telling
from tomserve.errors import ContentError, InapplicableError
from tomserve.stability.kinds import CONDENSED, LEAST, MOST


def problems(stage: Stage) -> Iterator[str]:
    """One line for each thing that is wrong with the file of a stage, with file, line and field; none where there is no
    file. Besides mistakes these are stories that cannot be told in 30 to 40% fewer words."""
    if not path_of(stage).is_file():
        return
    try:
        checked = Checked(stage)
    except ContentError as error:
        yield str(error)
        return
    faults = list(checked.faults())
    yield from (str(fault.error) for fault in faults)
    if not faults:
        yield from _lengths(checked)


def _lengths(checked: Checked) -> Iterator[str]:
    telling = Telling(checked.stage, checked.retold)
    for story in checked.stage.stories:
        try:
            telling.told(story, CONDENSED)
        except InapplicableError:
            share = shortened(telling.forms(story))
            where = f"{checked.path}:{checked.lines.at(('tasks', story.task))}: {story.task}/{story.version}"
            yield (
                f"{where}: All sentences in their short form have {share:.1%} fewer words; expected {LEAST:.0%} at "
                f"least, and full ones beside them that make it {MOST:.0%} at most."
            )
