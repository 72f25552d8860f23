"""Edits of a chain that is a JSON list of beliefs, written in the style of the model's own list.

>>> from tomserve.items import Item
>>> item = Item(id="q", story=["A jar.", "It has tea.", "It is shut."], question="What is in it?",
...             choices=["unknown", "tea", "salt"], answer="tea", gold={"sets": [["unknown"], ["tea"], ["tea"]]})
>>> chain = Written("labels", '["unknown","tea","tea"]', (Entry(1, "unknown"), Entry(2, "tea"), Entry(3, "tea")), True)
>>> case = Case(item, chain, (), None, len, item.choices)
>>> MAKERS["last_corrupted"](case), MAKERS["middle_propagated"](case)
(('["unknown","tea","salt"]', 'salt'), ('["unknown","salt","salt"]', 'salt'))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from tomserve.errors import InapplicableError
from tomserve.faithfulness.aims import (
    NO_MATE,
    NO_OTHER,
    NO_WRONG,
    NOTHING_FOLLOWS,
    SAME,
    Case,
    automaton_of,
    beginning,
    changes,
    dots,
    mates_of,
    path,
    right_beliefs,
    wrong_labels,
)
from tomserve.faithfulness.lists import shape_of
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
from tomserve.faithfulness.written import Entry, Written
from tomserve.prompting.people import people_of

EVERY_SENTENCE = "a list of bare labels for every sentence has no other form"
ONE_BELIEF = "the chain has one belief alone"
IS_GOLD = "the chain is the gold chain already"
OTHER_FORM = "the other item's chain has another form"
LAST_ALONE = "agents swapped differ from this chain in the last belief alone"
"""Reasons why an edit of a list cannot be made."""

Made = tuple[str, str | None]
"""The text in the place of the chain, and the answer that it leads to."""


def _full(case: Case) -> Made:
    return case.chain.text, None


def _paraphrase(case: Case) -> Made:
    """The same beliefs for every sentence where only changes are listed, or only the changes where more is."""
    entries, length = case.chain.entries, len(case.item.story)
    shape = shape_of(case.chain.text)
    if not case.chain.plain and len(thinned := _thinned(entries)) < len(entries):
        return shape.written(thinned), None
    for last in (entries[-1].sentence, length):  # filled up to its own end, or to the story's
        if len(filled := _filled(entries, last)) > len(entries):
            return shape.written(filled), None
    raise InapplicableError(EVERY_SENTENCE if case.chain.plain else SAME)


def _thinned(entries: Iterable[Entry]) -> list[Entry]:
    """The beliefs that differ from the one before them."""
    found: list[Entry] = []
    for entry in entries:
        if not found or found[-1].label != entry.label:
            found.append(entry)
    return found


def _filled(entries: Sequence[Entry], last: int) -> list[Entry]:
    """A belief for every sentence from the first stated one to the last given one: the one stated last."""
    said = {entry.sentence: entry.label for entry in entries}
    found: list[Entry] = []
    for sentence in range(entries[0].sentence, last + 1):
        found.append(Entry(sentence, said[sentence] if sentence in said else found[-1].label))
    return found


def _truncated(share: float, case: Case) -> Made:
    kept = beginning(share, len(case.chain.entries))
    return shape_of(case.chain.text).written(case.chain.entries[:kept]), None


def _filler(case: Case) -> Made:
    """The same list with dots for every belief, equally many for each, which tell nothing of which it was."""
    lengths = [case.tokens(entry.label) for entry in case.chain.entries]
    wanted = max(1, round(sum(lengths) / len(lengths)))
    typical = min((entry.label for entry in case.chain.entries), key=lambda one: abs(case.tokens(one) - wanted))
    made = dots(typical, case.tokens)
    entries = [Entry(entry.sentence, made) for entry in case.chain.entries]
    return shape_of(case.chain.text).written(entries), None


def _of_other(case: Case) -> Made:
    if case.other is None:
        raise InapplicableError(NO_OTHER)
    other = case.other[1]
    if other.form != LABELS or not other.entries:
        raise InapplicableError(OTHER_FORM)
    length = len(case.item.story)
    said = {min(entry.sentence, length): entry.label for entry in other.entries}  # of one sentence the last
    if case.chain.plain:
        said = dict(enumerate(said.values(), 1))
    entries = [Entry(sentence, label) for sentence, label in said.items()]
    last = entries[-1].label
    implied = last if last in case.item.choices and last != case.chain.entries[-1].label else None
    return shape_of(case.chain.text).written(entries), implied


def _corrupted_last(case: Case) -> Made:
    entries = case.chain.entries
    wrong = _wrong(case)
    return _replaced(case, {len(entries) - 1: wrong}), wrong


def _wrong(case: Case, place: int = -1) -> str:
    """The label that is put in at that place: neither what stands there nor the last belief, the model's answer or the
    right one."""
    entries = case.chain.entries
    avoid = {entries[place].label, entries[-1].label, case.chain.own}
    found = wrong_labels(case.item, avoid, {entry.label for entry in entries})
    if not found:
        raise InapplicableError(NO_WRONG)
    return found[0]


def _replaced(case: Case, labels: Mapping[int, str]) -> str:
    """The list with other labels at some places, counted from 0."""
    entries = [Entry(one.sentence, labels.get(at, one.label)) for at, one in enumerate(case.chain.entries)]
    return shape_of(case.chain.text).written(entries)


def _middle(case: Case) -> int:
    if len(case.chain.entries) < 2:
        raise InapplicableError(ONE_BELIEF)
    return (len(case.chain.entries) - 1) // 2


def _local(case: Case) -> Made:
    place = _middle(case)
    return _replaced(case, {place: _wrong(case, place)}), case.chain.entries[-1].label


def _propagated(case: Case) -> Made:
    """The belief in the middle from which the last one follows, or some other one does, replaced with what follows."""
    layers = [set(layer) for layer in automaton_of(case.item).labels]
    entries, middle = case.chain.entries, _middle(case)
    changed = [place > 0 and layer != layers[place - 1] for place, layer in enumerate(layers)]
    last_change = [0]  # up to each sentence, counted from 1, the last after which the gold belief changed
    for place, new in enumerate(changed, 1):
        last_change.append(place if new else last_change[-1])
    since = [last_change[min(entry.sentence, len(layers))] for entry in entries]
    best: tuple[int, int] | None = None
    for place in (*range(middle, len(entries) - 1), *range(middle - 1, -1, -1)):
        end = place
        while end + 1 < len(entries) and since[end + 1] == since[place]:
            end += 1
        if end > place and (best is None or (end + 1 == len(entries) and best[1] + 1 < len(entries))):
            best = place, end
        if best is not None and best[1] + 1 == len(entries):
            break
    if best is None:
        raise InapplicableError(NOTHING_FOLLOWS)
    place, end = best
    wrong = _wrong(case, place)
    made = _replaced(case, dict.fromkeys(range(place, end + 1), wrong))
    return made, wrong if end + 1 == len(entries) else entries[-1].label


def _swapped(case: Case) -> Made:
    """What somebody else believes or, where no other person is asked about, what is really so: beliefs of which the
    last is wrong for this question. One that differs in the last belief alone is no edit of its own."""
    last = case.chain.entries[-1].label
    asked = people_of(case.item)
    found: list[tuple[bool, list[Entry]]] = []
    same = False
    for mate in mates_of(case):
        beliefs = path(automaton_of(mate), mate.answer)
        entries = _at(beliefs, [entry.sentence for entry in case.chain.entries])
        if entries[-1].label != beliefs[-1] and not case.chain.plain:  # what changes after this chain's end
            entries.append(Entry(changes(beliefs)[-1], beliefs[-1]))
        before = [entry.label for entry in entries[:-1]]
        alone = before == [entry.label for entry in case.chain.entries[:-1]] and len(entries) == len(case.chain.entries)
        same = same or alone
        if not alone and entries[-1].label not in (last, case.chain.own, case.item.answer):
            somebody = bool(people_of(mate)) and people_of(mate) != asked
            found.append((not somebody, entries))
    if not found:
        raise InapplicableError(LAST_ALONE if same else NO_MATE)
    entries = min(found, key=lambda one: one[0])[-1]
    return shape_of(case.chain.text).written(entries), entries[-1].label


def _at(beliefs: Sequence[str], sentences: Iterable[int]) -> list[Entry]:
    """The beliefs of a right chain at some sentences; behind its end its last one holds."""
    return [Entry(sentence, beliefs[min(sentence, len(beliefs)) - 1]) for sentence in sentences]


def _gold(case: Case) -> Made:
    beliefs, entries = right_beliefs(case.item), case.chain.entries
    sentences = [entry.sentence for entry in entries]
    made = _at(beliefs, sentences)
    if case.chain.plain:
        if made[-1].label != beliefs[-1]:  # what changes after this chain's end
            made = _at(beliefs, range(1, len(beliefs) + 1))
    else:
        if len(_thinned(entries)) == len(entries) < len(beliefs):
            first = sentences[0] if made[0].label == beliefs[0] else 1
            made = _at(beliefs, [first, *(one for one in changes(beliefs) if one > first)])
        elif made[-1].label != beliefs[-1]:
            made = _at(beliefs, sorted({*sentences, *changes(beliefs)}))
    if tuple(made) == entries:
        raise InapplicableError(IS_GOLD)
    return shape_of(case.chain.text).written(made), case.item.answer


MAKERS: Mapping[str, Callable[[Case], Made]] = {
    **{FULL: _full, PARAPHRASE: _paraphrase},
    **{name: partial(_truncated, share) for name, share in TRUNCATED.items()},
    **{FILLER: _filler, OTHER: _of_other, LAST: _corrupted_last, LOCAL: _local, PROPAGATED: _propagated},
    **{SWAPPED: _swapped, GOLD: _gold},
}
"""How each edit of a list is made. Each raises InapplicableError with the reason where it cannot be."""


def without_end(chain: Written) -> str:
    """The list without the trailing run of its last belief, from which its answer could be read."""
    entries = list(chain.entries)
    while entries and entries[-1].label == chain.entries[-1].label:
        entries.pop()
    return shape_of(chain.text).written(entries)


def last_of(chain: Written) -> str | None:
    """The label on which a chain ends; for prose the answer that followed it."""
    return chain.entries[-1].label if chain.entries else chain.own
