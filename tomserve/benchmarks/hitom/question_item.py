"""Make an Item of a Hi-ToM question, with a stable id, its choices, its gold chain and its design factors.

>>> from tomserve.benchmarks.hitom.tracker import trace
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
from typing import Generic, Protocol, TypeVar

from tomserve.benchmarks.hitom.baselines import mentioned
from tomserve.benchmarks.hitom.events import Claim, Distractor, Story, Tell
from tomserve.benchmarks.hitom.questions import write_question
from tomserve.benchmarks.hitom.reader import story_id
from tomserve.benchmarks.hitom.tracker import Semantics, Trace
from tomserve.items import UNKNOWN, Factor, Gold, Item


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
    cluster: str | None = None,
) -> Item:
    """The item of one question.

    story: the story. traced: its trace for `obj`, which its questions share. asked: the agents asked about, the
    outermost first. obj: the object. choices: the containers to choose from. factors: the factors of the story (see
    `story_factors`), to which those of the question are added. answer: the right answer, None for the tracker's.
    semantics: by which beliefs are derived. suffix: added to the id, to tell items of one question apart. cluster: the
    unit of the intervals, None for the story. The gold chain is left out where it does not end in the answer; then the
    factor `label_agrees` is false.
    """
    chain = traced.chain(asked, semantics)
    answer = chain[-1] if answer is None else answer
    sentences = story.sentences()
    told = f"hitom/{story_id(sentences)}"
    return Item(
        id=item_id(told, asked, obj, semantics) + suffix,
        benchmark="hitom",
        story=sentences,
        question=write_question(asked, obj),
        choices=(*(label for label in choices if label != UNKNOWN), UNKNOWN),
        answer=answer,
        gold=Gold(chains=(tuple(chain),)) if chain[-1] == answer and set(chain) <= {*choices, UNKNOWN} else None,
        factors={**factors, **StoryFacts(Tracked(traced, semantics), choices).factors(asked, chain[-1], answer)},
        cluster=told if cluster is None else cluster,
    )


def item_id(story: str, asked: Sequence[str], obj: str, semantics: Semantics = "released") -> str:
    """The id of a question about a story ("hitom/" and its `story_id`), content-addressed; other semantics than the
    released one end it, so that no two sets have one id for two answers."""
    return "/".join((story, obj, *(asked or ("really",)), *((semantics,) if semantics != "released" else ())))


def story_factors(story: Story, choices: Sequence[str]) -> dict[str, Factor]:
    """The factors that all questions of a story share: counts of its parts, and whether a room is entered again."""
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


Agent = TypeVar("Agent", contravariant=True)


class Ends(Protocol[Agent]):
    """What chains of agents believe at the end of a story: all that the factors of a question are made of. Agents may
    be names or anything else.

    told: whether anything is said about the object. places: the containers in which it is seen or said to be, in order
    of their first mention.
    """

    @property
    def told(self) -> bool: ...

    @property
    def places(self) -> Sequence[str]: ...

    def belief(self, chain: Sequence[Agent], /) -> str:
        """Where the object is by that chain; by the empty one, really."""

    def otherwise(self, chain: Sequence[Agent], /) -> str:
        """The same under the other semantics."""

    def witnessed(self, chain: Sequence[Agent], /) -> str:
        """The same as if nothing were said."""

    def turned(self, chain: Sequence[Agent], belief: str, /) -> bool:
        """Whether the same agents in some other order believe something else than `belief`, which is the chain's.

        Only a tell can make it so. Under either semantics the answer depends on which agents are asked and on which of
        them comes last (at order 2, released, that is the whole order; above it, released, not even that matters).
        """


class Tracked:
    """The ends of a story that the tracker has read, by the names of agents (see Ends)."""

    def __init__(self, traced: Trace, semantics: Semantics = "released") -> None:
        self._traced, self._semantics = traced, semantics
        self._other: Semantics = "common_knowledge" if semantics == "released" else "released"
        self.told, self.places = traced.told, traced.places

    def belief(self, chain: Sequence[str]) -> str:
        """Where the object is by that chain."""
        return self._traced.belief(chain, self._semantics)

    def otherwise(self, chain: Sequence[str]) -> str:
        """The same under the other semantics."""
        return self._traced.belief(chain, self._other)

    def witnessed(self, chain: Sequence[str]) -> str:
        """The same as if nothing were said."""
        return self._traced.seen.label(chain)

    def turned(self, chain: Sequence[str], belief: str) -> bool:
        """Whether the same agents in another order believe something else."""
        others = ((*chain[:at], *chain[at + 1 :], chain[at]) for at in range(len(chain) - 1))
        return self.told and any(self.belief(other) != belief for other in others)


class StoryFacts(Generic[Agent]):
    """What the questions of one story share, computed once."""

    def __init__(self, ends: Ends[Agent], choices: Sequence[str]) -> None:
        self._ends = ends
        self._positions = {label: place for place, label in enumerate(choices, 1)}
        self._places = {label: place for place, label in enumerate(ends.places, 1)}
        self._told, self._reality = ends.told, ends.belief(())

    def factors(self, asked: Sequence[Agent], belief: str, answer: str) -> dict[str, Factor]:
        """The factors of one question, by where the tracked belief ends and by its answer.

        tell_relevant: the tells change where the tracked belief ends; equals_first_order, equals_reality,
        equals_joint_witness: the answer is also that rule's (see baselines.py); answer_position: place among the
        choices, from 1; answer_place: place among the containers in which the object is seen or said to be, in order of
        their first mention, from 1; order_sensitive: naming the asked agents in some other order would change where the
        belief ends; semantics_differ: the two semantics end differently; label_agrees: the tracker ends in the answer.
        """
        ends, told, order = self._ends, self._told, len(asked)
        witnessed = ends.witnessed(asked) if told else belief
        first = belief if order == 1 else ends.belief(asked[-1:])
        return {
            "order": order,
            "tell_relevant": belief != witnessed,
            "equals_first_order": answer == first,
            "equals_reality": answer == self._reality,
            "equals_joint_witness": answer == witnessed,
            "answer_position": self._positions.get(answer),
            "answer_place": self._places.get(answer),
            "order_sensitive": told and order > 1 and ends.turned(asked, belief),
            "semantics_differ": told and belief != ends.otherwise(asked),
            "label_agrees": belief == answer,
        }
