"""A Hi-ToM question as an Item: stable id, closed choices, gold chain after every sentence, design factors.

>>> from tomserve.hitom.tracker import trace
>>> story = Story.parse(["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den."])
>>> item = make_item(story, trace(story, "pen"), ("Bo",), "pen", ("blue_box", "red_box"), {"length": 1})
>>> item.answer, item.choices, item.gold.chains
('red_box', ('blue_box', 'red_box', 'unknown'), (('unknown', 'red_box', 'red_box'),))
>>> item.factors["order"], item.factors["equals_reality"], item.factors["answer_position"]
(1, True, 2)

The choices are the containers in their given order and then "unknown", in every item alike: it is the label of a belief
before anything was seen, which an Item's chain needs, and never the answer of an official question. Who wants the
official fifteen lists `containers(item)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tomserve.beliefs import UNKNOWN
from tomserve.hitom.baselines import mentioned
from tomserve.hitom.events import Claim, Distractor, Story, Tell
from tomserve.hitom.questions import write_question
from tomserve.hitom.reader import story_id
from tomserve.hitom.tracker import Semantics, Trace
from tomserve.items import Factor, Gold, Item


def containers(item: Item) -> tuple[str, ...]:
    """The choices that are containers, in the order of the file's letters."""
    return tuple(choice for choice in item.choices if choice != UNKNOWN)


def make_item(
    story: Story,
    traced: Trace,
    asked: Sequence[str],
    obj: str,
    choices: Sequence[str],
    factors: Mapping[str, Factor],
    *,
    answer: str | None = None,
    semantics: Semantics = "released",
    suffix: str = "",
) -> Item:
    """The item of one question; `traced` is the story's trace for `obj`, shared by the story's questions.

    `answer` is the tracker's under `semantics` unless given. The gold chain is left out where it does not end in the
    answer, which `label_agrees` tells. `factors` are added to the question's own (and must hold the story's, see
    `story_factors`); `suffix` tells apart items of one question.
    """
    chain = traced.chain(asked, semantics)
    answer = chain[-1] if answer is None else answer
    sentences = story.sentences()
    cluster = f"hitom/{story_id(sentences)}"
    return Item(
        id="/".join((cluster, obj, *(asked or ("really",)))) + suffix,
        benchmark="hitom",
        story=sentences,
        question=write_question(asked, obj),
        choices=(*(label for label in choices if label != UNKNOWN), UNKNOWN),
        answer=answer,
        gold=Gold(chains=(tuple(chain),)) if chain[-1] == answer and set(chain) <= {*choices, UNKNOWN} else None,
        factors={**factors, **question_factors(traced, asked, choices, answer, semantics)},
        cluster=cluster,
    )


def story_factors(story: Story, choices: Sequence[str]) -> dict[str, Factor]:
    """What is the same for all questions of a story: counts of its parts, and whether a room is entered again."""
    public = sum(isinstance(event, Claim) for event in story.events)
    private = sum(isinstance(event, Tell) for event in story.events)
    return {
        "n_lines": len(story.events),
        "n_agents": len(story.agents),
        "n_tells": public + private,
        "n_public": public,
        "n_private": private,
        "n_distractors": sum(isinstance(event, Distractor) for event in story.events),
        "n_containers_mentioned": len(mentioned(story.sentences(), choices)),
        "reentered": story.reentered,
    }


def question_factors(
    traced: Trace, asked: Sequence[str], choices: Sequence[str], answer: str, semantics: Semantics = "released"
) -> dict[str, Factor]:
    """What one question is like, by its answer.

    tell_relevant: the tells change where the tracked belief ends; equals_first_order, equals_reality,
    equals_joint_witness: the answer is also that rule's (see baselines.py); answer_position: place among the choices,
    from 1; semantics_differ: the two semantics end differently; label_agrees: the tracker ends in the answer.
    """
    belief = traced.belief(asked, semantics)
    seen = [update.container for update in traced.decisive(asked, semantics) if not update.speaker]
    witnessed = seen[-1] if seen else UNKNOWN
    other: Semantics = "common_knowledge" if semantics == "released" else "released"
    return {
        "order": len(asked),
        "tell_relevant": belief != witnessed,
        "equals_first_order": answer == traced.belief(asked[-1:], semantics),
        "equals_reality": answer == traced.belief(),
        "equals_joint_witness": answer == witnessed,
        "answer_position": choices.index(answer) + 1 if answer in choices else None,
        "semantics_differ": belief != traced.belief(asked, other),
        "label_agrees": belief == answer,
    }
