"""Rules that answer Hi-ToM questions without nesting beliefs: how far they get is what accuracy has to be read against.

    always reality    where the object is
    first order       what the innermost agent believes: the answer of the same story's first-order question, copied
    joint witness     the container at the last sentence that all asked agents saw together; tells do not count

>>> from tomserve.benchmarks.hitom.events import Story
>>> from tomserve.benchmarks.hitom.tracker import trace
>>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den.",
...                      "Ann moved the pen to the blue_box."])
>>> answers(trace(story, "pen"), ("Bo", "Ann"))
{'always reality': 'blue_box', 'first order': 'blue_box', 'joint witness': 'red_box'}

They stand in the score table beside every reply, and `tomserve dataset audit hitom` counts the same answers. Without
tells a nested belief *is* the joint-witness answer, so that on such items a right answer shows no recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from tomserve.benchmarks.hitom.explain import semantics_of, traced
from tomserve.benchmarks.hitom.tracker import Semantics, Trace
from tomserve.benchmarks.hitom.wordings import read_asked
from tomserve.items import Item
from tomserve.scoring.baselines import Baseline


def reality(trace: Trace, asked: Sequence[str], semantics: Semantics = "released") -> str:
    """Where the object is."""
    del asked, semantics
    return trace.belief()


def first_order(trace: Trace, asked: Sequence[str], semantics: Semantics = "released") -> str:
    """What the innermost of the asked agents believes."""
    return trace.belief(asked[-1:], semantics)


def joint_witness(trace: Trace, asked: Sequence[str], semantics: Semantics = "released") -> str:
    """The container at the last sentence that all of `asked` saw together, in whatever order."""
    del semantics
    return trace.seen.label(asked)


_ANSWERS: dict[str, Callable[[Trace, Sequence[str], Semantics], str]] = {
    "always reality": reality,
    "first order": first_order,
    "joint witness": joint_witness,
}


def answers(trace: Trace, asked: Sequence[str], semantics: Semantics = "released") -> dict[str, str]:
    """What each rule answers to a question, by the name of the rule.

    trace: the story's trace for the object. asked: the agents asked about, the outermost first. semantics: by which
    beliefs are derived.
    """
    return {name: rule(trace, asked, semantics) for name, rule in _ANSWERS.items()}


@lru_cache(maxsize=16)
def _answered(story: tuple[str, ...], question: str, semantics: Semantics) -> dict[str, str]:
    """The answers to a question, by the name of the rule; none where story or question has another form."""
    try:
        asked, obj = read_asked(question)
        return answers(traced(story, obj), asked, semantics)
    except ValueError:
        return {}


def _of(name: str) -> Callable[[Item], str | None]:
    def answer(item: Item) -> str | None:
        """The rule's answer to an item; None where its story or question has another form, or lacks that choice."""
        found = _answered(item.story, item.question, semantics_of(item)).get(name)
        return found if found in item.choices else None

    return answer


RULES = tuple(
    Baseline(name, _of(name), "constant" if rule is reality else "simpler") for name, rule in _ANSWERS.items()
)
"""The rules of the benchmark's field `rules`."""
