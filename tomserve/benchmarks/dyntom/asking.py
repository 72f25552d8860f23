"""Items of DynToM: what a question asks about, read from its words, and how it stands in the design.

>>> factors("What is the belief of Ann Lee in scenario 2?")["task"]
'understanding'
>>> found = factors("In scenario 3, how does the belief&emotion of Ann Lee influence the intention of Ann Lee?")
>>> found["task"], found["cause"], found["state"], found["scene"]
('influence', 'belief and emotion', 'intention', 3)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from pydantic import ValidationError

from tomserve.benchmarks.dyntom.trials import QUESTIONS, WAY_OUT, Question, Trial
from tomserve.errors import ContentError
from tomserve.items import Factor, Item

STATES = ("belief", "emotion", "intention", "action")
TASKS = ("understanding", "influence", "transformation")
FORMS = ("what", "how", "whether", "how_change", "why")
"""Values of the factors state, task and form; the last three forms are transformations."""

_STATE = rf"({'|'.join(STATES)})"
_BETWEEN = r"from scenario (?P<scene>\d+) to scenario (?P<until>\d+)"
_PATTERNS = {
    "what": rf"What is the (?P<state>{_STATE}) of .+ in scenario (?P<scene>\d+)\?",
    "how": rf"In scenario (?P<scene>\d+), how does the (?P<cause>{_STATE}(?:&{_STATE})*) of .+ influence the "
    rf"(?P<state>{_STATE}) of .+\?",
    "whether": rf"Whether the (?P<state>{_STATE}) of .+ change {_BETWEEN}\? if yes, from what to what\?",
    "how_change": rf"How does the (?P<state>{_STATE}) of .+ change across the \d+ scenarios\?",
    "why": rf"Why does the (?P<state>{_STATE}) of .+ change {_BETWEEN}\?",
}


def factors(question: str) -> dict[str, Factor]:
    """What a question asks about: task, dimension, state, form, cause, scene and until_scene, None where it has none.
    Raises ValueError for a question of another form."""
    for form, pattern in _PATTERNS.items():
        if (found := re.fullmatch(pattern, question)) is not None:
            parts = found.groupdict()
            cause, scene, until = parts.get("cause"), parts.get("scene"), parts.get("until")
            return {
                "task": {"what": TASKS[0], "how": TASKS[1]}.get(form, TASKS[2]),
                "dimension": parts["state"],
                "state": parts["state"],
                "form": form,
                "cause": None if cause is None else cause.replace("&", " and "),
                "scene": None if scene is None else int(scene),
                "until_scene": None if until is None else int(until),
            }
    raise ValueError(f"found {question!r:.80}; expected a question of one of the forms {', '.join(FORMS)}")


def items(trial: Trial) -> Iterator[Item]:
    """Yield the items of a trial: one a question, with all scenes as their story and the trial as their cluster.

    Raises ContentError with file and field for a question of another form, or about a scene that is not there.
    """
    story = tuple(line for number, scene in enumerate(trial.scenes, 1) for line in _headed(number, scene))
    for question in trial.questions:
        try:
            design = factors(question.text)
            asked = design["until_scene"] or design["scene"] or 1
            if not 1 <= int(asked) <= len(trial.scenes):
                raise ValueError(f"asks about scene {asked} of {len(trial.scenes)}")
        except ValueError as error:
            field = f"{question.id}.question"
            raise ContentError(f"{error}; {WAY_OUT}", path=trial.path / QUESTIONS, field=field) from None
        yield _item(trial, question, story, design)


def _item(trial: Trial, question: Question, story: tuple[str, ...], design: dict[str, Factor]) -> Item:
    sizes = {"scenes": len(trial.scenes), "options": len(question.choices), "merged": question.merged}
    try:
        return Item(
            id=f"{trial.name}/{question.id}",
            benchmark="dyntom",
            story=story,
            question=question.text,
            choices=question.choices,
            answer=question.answer,
            factors={**design, **sizes, "twice_right": question.twice_right},
            cluster=trial.name,
        )
    except ValidationError as error:  # such as an option that is too long, or holds a control character
        first = error.errors()[0]
        reason = f"{first['msg']}, found {first['input']!r:.60}; {WAY_OUT}"
        raise ContentError(reason, path=trial.path / QUESTIONS, field=question.id) from None


def _headed(number: int, scene: tuple[str, ...]) -> Iterator[str]:
    yield f"Scenario {number}: {scene[0]}"
    yield from scene[1:]


@lru_cache(maxsize=16)
def scenes(story: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The lines of each scene of an item's story, the heading without its number; all lines where none is headed."""
    found: list[list[str]] = []
    for line in story:
        head = f"Scenario {len(found) + 1}: "
        if line.startswith(head) or not found:
            found.append([line.removeprefix(head)])
        else:
            found[-1].append(line)
    return tuple(map(tuple, found))
