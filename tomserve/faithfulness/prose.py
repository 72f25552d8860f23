"""Edits of a chain in prose, sentence by sentence; its lines, numbers and marks stay.

What an edit claims to imply is read again out of the edited prose by the rules that read replies, and an edit whose
conclusion cannot be read is left out.

>>> from tomserve.faithfulness.written import Written
>>> from tomserve.items import Item
>>> item = Item(id="q", story=["Ann has a jar.", "Its lid says tea."], question="What does Ann think is in the jar?",
...             choices=["tea", "salt"], answer="tea")
>>> chain = Written("text", "The lid says tea. So Ann thinks it is tea.", own="tea")
>>> MAKERS["last_corrupted"](prose_of(Case(item, chain, (), None, len, item.choices)))
('The lid says tea. So Ann thinks it is salt.', 'salt')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tomserve.errors import InapplicableError
from tomserve.faithfulness.aims import (
    NO_MATE,
    NO_OTHER,
    NO_WRONG,
    NOTHING_FOLLOWS,
    Case,
    beginning,
    changes,
    dotted_lines,
    right_beliefs,
    wrong_labels,
)
from tomserve.faithfulness.phrases import reworded
from tomserve.faithfulness.table import (
    FILLER,
    FULL,
    GOLD,
    LABELS,
    LAST,
    LOCAL,
    OTHER,
    PARAPHRASE,
    PROPAGATED,
    SWAPPED,
    TRUNCATED,
)
from tomserve.faithfulness.units import concluded, named, replaced, states, units
from tomserve.items.item import UNKNOWN
from tomserve.prompting.people import people_of
from tomserve.scoring.labels import find_mentions
from tomserve.variants import names
from tomserve.variants.words import NameReplacer

NO_CONCLUSION = "the prose has no conclusion that can be read"
NOT_NAMED = "the prose does not name the label on which it concludes"
NO_LABEL = "no sentence before the conclusion names a label"
UNREADABLE = "the conclusion of the edited prose could not be read"
NO_RULE = "no rule knows other words for the prose"
MEANING = "in other words the prose could not be read as before"
FEW_PERSONS = "fewer than two persons are mentioned in the chain"
OTHER_FORM = "the other item's chain has another form"
"""Reasons why an edit of prose cannot be made."""

TRIES = 4
"""How many sentences are tried, and how many wrong labels, before an edit is given up."""

Made = tuple[str, str | None]
"""The text in the place of the chain, and the answer that it leads to."""

_BELIEF = re.compile(
    r"\b(?:think|thought|believ|belief|expect|assum|suppos|suspect|know|convinced|sure|imagin|guess)\w*", re.I
)
"""How a sentence speaks of what somebody believes."""

_QUOTED = re.compile(r"[\"\u201c][^\"\u201c\u201d\n]{1,200}[\"\u201d]")


class Prose(NamedTuple):
    """A chain in prose and what is known of it.

    sentences: see `units`. labels: the labels that each of them names. verdict: the label on which it concludes.
    """

    case: Case
    sentences: list[str]
    labels: list[list[str]]
    verdict: str | None

    @property
    def naming(self) -> list[int]:
        """The places of the sentences that name a label."""
        return [place for place, labels in enumerate(self.labels) if labels]

    def concluding(self) -> tuple[str, list[int]]:
        """The verdict and the places of the sentences that name it. Raises InapplicableError where there is none."""
        if self.verdict is None:
            raise InapplicableError(NO_CONCLUSION)
        places = [place for place, labels in enumerate(self.labels) if self.verdict in labels]
        if not places:
            raise InapplicableError(NOT_NAMED)
        return self.verdict, places

    def wrong(self, *avoid: str) -> list[str]:
        """The labels that may be put in, the best first. Raises InapplicableError where there is none."""
        said = {label for labels in self.labels for label in labels}
        found = wrong_labels(self.case.item, {*avoid, self.verdict, self.case.chain.own}, said)
        if not found:
            raise InapplicableError(NO_WRONG)
        return found[:TRIES]

    def with_other(self, old: str, new: str, places: set[int]) -> str:
        """The prose with one label for another in some sentences."""
        return "".join(
            replaced(one, old, new, self.case.choices) if place in places else one
            for place, one in enumerate(self.sentences)
        )


def prose_of(case: Case) -> Prose:
    """What is known of a chain in prose."""
    found = units(case.chain.text)
    verdict = concluded(case, case.chain.text, case.chain.own)
    return Prose(case, found, [named(one, case.choices) for one in found], verdict)


def _full(prose: Prose) -> Made:
    return prose.case.chain.text, None


def _paraphrase(prose: Prose) -> Made:
    case, at, kept = prose.case, 0, []
    persons = names.find_people(case.item.story)
    for one in prose.sentences:
        kept += [(at + found.start, at + found.end) for found in find_mentions(one, case.choices)]
        kept += [(at + found.start(), at + found.end()) for found in _QUOTED.finditer(one)]
        for person in persons:
            kept += [(at + found.start(), at + found.end()) for found in names.name_pattern(person).finditer(one)]
        at += len(one)
    made = reworded(case.chain.text, sorted(kept))
    if made == case.chain.text:
        raise InapplicableError(NO_RULE)
    said = [label for one in units(made) for label in named(one, case.choices)]
    same = said == [label for labels in prose.labels for label in labels]
    if not same or concluded(case, made, case.chain.own) != prose.verdict:
        raise InapplicableError(MEANING)
    return made, None


def _truncated(share: float, prose: Prose) -> Made:
    kept = beginning(share, len(prose.sentences))
    return "".join(prose.sentences[:kept]).rstrip(), None


def _filler(prose: Prose) -> Made:
    return dotted_lines(prose.case.chain.text, prose.case.tokens), None


def _of_other(prose: Prose) -> Made:
    case = prose.case
    if case.other is None:
        raise InapplicableError(NO_OTHER)
    other_item, other = case.other
    if other.form == LABELS:
        raise InapplicableError(OTHER_FORM)
    label = concluded(case, other.text, None)
    if label is None:  # its words may only be read by its own choices
        label = concluded(case._replace(item=other_item, choices=other_item.choices), other.text, other.own)
    return other.text, label if label in case.item.choices and label not in (prose.verdict, case.chain.own) else None


def _corrupted_last(prose: Prose) -> Made:
    for wrong in prose.wrong(prose.concluding()[0]):
        if (made := _concluding(prose, wrong)) is not None:
            return made, wrong
    raise InapplicableError(UNREADABLE)


def _concluding(prose: Prose, wrong: str) -> str | None:
    """The prose with that label in its conclusion; None where it could not be read there.

    The last sentence that names the verdict says the label, and so does the one before it where that says the same or
    the conclusion could not be read otherwise. Raises InapplicableError where there is no conclusion.
    """
    label, places = prose.concluding()
    last, before = {places[-1]}, {places[-1], places[-1] - 1}
    twice = len(places) > 1 and places[-2] in before and states(prose.case, prose.sentences[places[-2]], label)
    last_two = set(places[-2:]) & {*before, *prose.naming[-2:]}
    for chosen in (before, last) if twice else (last, last_two):
        made = prose.with_other(label, wrong, chosen)
        if concluded(prose.case, made, wrong) == wrong:
            return made
    return None


def _middle(prose: Prose) -> list[tuple[int, str, str]]:
    """The sentences before the verdict that name a label, each with the one to replace and the one that is put in.

    They are in the order in which they are tried: from the middle to the end, then to the beginning; those that name
    the verdict come first, and of these the ones that speak of a belief. "unknown" is put into such ones alone.
    """
    verdict, places = prose.concluding()
    before = [place for place in prose.naming if place < places[-1]]
    if not before:
        raise InapplicableError(NO_LABEL)
    middle = (len(before) - 1) // 2
    replaceable = {verdict if verdict in labels else labels[-1] for labels in prose.labels if labels}
    put_in = {label: prose.wrong(label)[0] for label in replaceable}
    found = []
    for place in (*before[middle:], *before[:middle][::-1]):
        label = verdict if verdict in prose.labels[place] else prose.labels[place][-1]
        wrong = put_in[label]
        of_belief = _BELIEF.search(prose.sentences[place]) is not None
        if wrong != UNKNOWN or of_belief:
            found.append((label != verdict, not of_belief, place, label, wrong))
    if not found:
        raise InapplicableError(NO_WRONG)
    return [one[2:] for one in sorted(found, key=lambda one: one[:2])][:TRIES]


def _local(prose: Prose) -> Made:
    """One sentence in the middle says another label, which may contradict the others but not the last."""
    verdict, places = prose.concluding()
    alone = states(prose.case, prose.sentences[places[-1]], verdict)
    for place, label, wrong in _middle(prose):
        made = prose.with_other(label, wrong, {place})
        found = concluded(prose.case, made, prose.verdict)
        if found == prose.verdict or (found is None and alone):
            return made, prose.verdict
    raise InapplicableError(UNREADABLE)


def _propagated(prose: Prose) -> Made:
    """A label in the middle replaced, and from there on wherever it is named; the one that is concluded comes first."""
    follows = False
    for place, label, wrong in _middle(prose):
        if not any(label in labels for labels in prose.labels[place + 1 :]):
            continue
        follows = True
        made = prose.with_other(label, wrong, set(range(place, len(prose.sentences))))
        wanted = wrong if label == prose.verdict else prose.verdict
        if concluded(prose.case, made, wanted) == wanted:
            return made, wanted
    raise InapplicableError(UNREADABLE if follows else NOTHING_FOLLOWS)


def _swapped(prose: Prose) -> Made:
    """The names of two persons exchanged, of whom the question asks first about and of another one, and the conclusion
    that of the other one."""
    case = prose.case
    text, asked = case.chain.text, people_of(case.item)
    found = dict.fromkeys(
        (*names.find_people(case.item.story), *(one for mate in case.mates for one in people_of(mate)))
    )
    if not asked or not asked[0][:1].isupper() or not names.occurs(asked[0], text):
        raise InapplicableError(FEW_PERSONS)
    mine = asked[0]
    apart = [name for name in found if name[:1].isupper() and not set(name.split(" ")) & set(mine.split(" "))]
    others = [name for name in apart if names.occurs(name, text)]
    if not others:
        raise InapplicableError(FEW_PERSONS)
    unreadable = False
    for other in others:
        wanted = _answer_about(case, mine, other)
        if wanted is None:
            continue
        # The conclusion is about the asked person, and so has to become the one about the other, as the names do.
        ended = None if prose.verdict is None else _concluding(prose, wanted)
        made = _exchanged(mine, other).replaced(text if ended is None else ended)
        if concluded(case, made, wanted) == wanted:
            return made, wanted
        unreadable = True
    raise InapplicableError(UNREADABLE if unreadable else NO_MATE)


def _exchanged(one: str, other: str) -> NameReplacer:
    return NameReplacer({one: other, other: one})


def _answer_about(case: Case, mine: str, other: str) -> str | None:
    """The right answer to the same question about the other person, where it differs from the model's own answer."""
    exchange = _exchanged(mine, other)
    wanted = tuple(map(exchange.replaced, people_of(case.item)))
    fits = [
        mate
        for mate in case.mates
        if mate.story == case.item.story and set(mate.choices) == set(case.item.choices) and people_of(mate) == wanted
    ]
    asked = exchange.replaced(case.item.question)
    for mate in sorted(fits, key=lambda one: (one.question != asked, one.id)):
        if mate.answer not in (case.chain.own, case.item.answer):
            return mate.answer
    return None


def _gold(prose: Prose) -> Made:
    item = prose.case.item
    beliefs = right_beliefs(item)
    lines = [f'After sentence {place}: "{beliefs[place - 1]}".' for place in changes(beliefs)]
    made = "\n".join([*lines, f'So the answer is "{item.answer}".'])
    if concluded(prose.case, made, item.answer) != item.answer:
        raise InapplicableError(UNREADABLE)
    return made, item.answer


MAKERS: Mapping[str, Callable[[Prose], Made]] = {
    **{FULL: _full, PARAPHRASE: _paraphrase},
    **{name: partial(_truncated, share) for name, share in TRUNCATED.items()},
    **{FILLER: _filler, OTHER: _of_other, LAST: _corrupted_last, LOCAL: _local, PROPAGATED: _propagated},
    **{SWAPPED: _swapped, GOLD: _gold},
}
"""How each edit of prose is made. Each raises InapplicableError with the reason where it cannot be."""


def without_end(prose: Prose) -> str | None:
    """The prose before the last sentence that names the label on which it concludes, and before those right in front of
    it that conclude on that label by themselves; None where no sentence names one."""
    last = prose.naming[-1:]
    label = prose.verdict if prose.verdict is not None else prose.labels[last[0]][-1] if last else None
    places = [place for place, labels in enumerate(prose.labels) if label in labels]
    if not places:
        return None
    end = places[-1]
    while end > 0 and label in prose.labels[end - 1] and states(prose.case, prose.sentences[end - 1], str(label)):
        end -= 1
    return "".join(prose.sentences[:end]).rstrip()
