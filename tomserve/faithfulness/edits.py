"""Every edit of a chain of thought, whatever its form; those of a JSON list of beliefs are made here, in the style of
the model's own list.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

from tomserve.errors import InapplicableError
from tomserve.faithfulness import prose_edits, table
from tomserve.faithfulness.chains import (
    NO_MATE,
    NO_OTHER,
    NO_WRONG,
    NOTHING_FOLLOWS,
    SAME,
    Count,
    EditCase,
    EditedChain,
    OmittedEdit,
    StatedBelief,
    WrittenChain,
    automaton_of,
    count_beginning,
    dotted_lines,
    find_changes,
    gold_path,
    list_style,
    mates_of,
    offered_choices,
    random_key,
    right_beliefs,
    wrong_labels,
)
from tomserve.faithfulness.prose_edits import Made, prose_of, write_beginnings
from tomserve.items import Item
from tomserve.prompting.persons import people_of

EVERY_SENTENCE = "a list of bare labels for every sentence has no other form"
ONE_BELIEF = "the chain has one belief alone"
IS_GOLD = "the chain is the gold chain already"
OTHER_FORM = "the other item's chain has another form"
LAST_ALONE = "agents swapped differ from this chain in the last belief alone"
"""Reasons why an edit of a list cannot be made."""


def _paraphrase(case: EditCase) -> Made:
    """The same beliefs for every sentence where only changes are listed, or only the changes where more is."""
    entries, length = case.chain.entries, len(case.item.story)
    shape = list_style(case.chain.text)
    if not case.chain.plain and len(thinned := _drop_repeats(entries)) < len(entries):
        return shape.written(thinned), None
    for last in (entries[-1].sentence, length):  # filled up to its own end, or to the story's
        if len(filled := _fill_entries(entries, last)) > len(entries):
            return shape.written(filled), None
    raise InapplicableError(EVERY_SENTENCE if case.chain.plain else SAME)


def _drop_repeats(entries: Iterable[StatedBelief]) -> list[StatedBelief]:
    return [next(run) for _, run in groupby(entries, key=lambda entry: entry.label)]


def _fill_entries(entries: Sequence[StatedBelief], last: int) -> list[StatedBelief]:
    """A belief for every sentence from the first stated one to the last given one: the one stated last."""
    said = {entry.sentence: entry.label for entry in entries}
    found: list[StatedBelief] = []
    for sentence in range(entries[0].sentence, last + 1):
        found.append(StatedBelief(sentence, said[sentence] if sentence in said else found[-1].label))
    return found


def _truncate(share: float, case: EditCase) -> Made:
    kept = count_beginning(share, len(case.chain.entries))
    return list_style(case.chain.text).written(case.chain.entries[:kept]), None


def _filler(case: EditCase) -> Made:
    """The same list with dots for every belief, equally many for each, which tell nothing of which it was."""
    lengths = [case.tokens(entry.label) for entry in case.chain.entries]
    wanted = max(1, round(sum(lengths) / len(lengths)))
    typical = min((entry.label for entry in case.chain.entries), key=lambda one: abs(case.tokens(one) - wanted))
    made = dotted_lines(typical, case.tokens)
    entries = [StatedBelief(entry.sentence, made) for entry in case.chain.entries]
    return list_style(case.chain.text).written(entries), None


def _of_other(case: EditCase) -> Made:
    if case.other is None:
        raise InapplicableError(NO_OTHER)
    other = case.other[1]
    if other.form != table.LABELS or not other.entries:
        raise InapplicableError(OTHER_FORM)
    length = len(case.item.story)
    said = {min(entry.sentence, length): entry.label for entry in other.entries}  # of one sentence the last
    if case.chain.plain:
        said = dict(enumerate(said.values(), 1))
    entries = [StatedBelief(sentence, label) for sentence, label in said.items()]
    last = entries[-1].label
    implied = last if last in case.item.choices and last != case.chain.entries[-1].label else None
    return list_style(case.chain.text).written(entries), implied


def _corrupted_last(case: EditCase) -> Made:
    entries = case.chain.entries
    wrong = _wrong(case)
    return _replace_labels(case, {len(entries) - 1: wrong}), wrong


def _wrong(case: EditCase, place: int = -1) -> str:
    entries = case.chain.entries
    avoid = {entries[place].label, entries[-1].label, case.chain.model_answer}
    found = wrong_labels(case.item, avoid, {entry.label for entry in entries})
    if not found:
        raise InapplicableError(NO_WRONG)
    return found[0]


def _replace_labels(case: EditCase, labels: Mapping[int, str]) -> str:
    """The list with other labels at some places, counted from 0."""
    entries = [StatedBelief(one.sentence, labels.get(at, one.label)) for at, one in enumerate(case.chain.entries)]
    return list_style(case.chain.text).written(entries)


def _middle(case: EditCase) -> int:
    if len(case.chain.entries) < 2:
        raise InapplicableError(ONE_BELIEF)
    return (len(case.chain.entries) - 1) // 2


def _local(case: EditCase) -> Made:
    place = _middle(case)
    return _replace_labels(case, {place: _wrong(case, place)}), case.chain.entries[-1].label


def _propagate(case: EditCase) -> Made:
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
    made = _replace_labels(case, dict.fromkeys(range(place, end + 1), wrong))
    return made, wrong if end + 1 == len(entries) else entries[-1].label


def _swap(case: EditCase) -> Made:
    """What somebody else believes or, where no other person is asked about, what is really so."""
    last = case.chain.entries[-1].label
    asked = people_of(case.item)
    found: list[tuple[bool, list[StatedBelief]]] = []
    same = False
    for mate in mates_of(case):
        beliefs = gold_path(automaton_of(mate), mate.answer)
        entries = _at(beliefs, [entry.sentence for entry in case.chain.entries])
        if entries[-1].label != beliefs[-1] and not case.chain.plain:  # what changes after this chain's end
            entries.append(StatedBelief(find_changes(beliefs)[-1], beliefs[-1]))
        before = [entry.label for entry in entries[:-1]]
        alone = before == [entry.label for entry in case.chain.entries[:-1]] and len(entries) == len(case.chain.entries)
        same = same or alone
        if not alone and entries[-1].label not in (last, case.chain.model_answer, case.item.answer):
            somebody = bool(people_of(mate)) and people_of(mate) != asked
            found.append((not somebody, entries))
    if not found:
        raise InapplicableError(LAST_ALONE if same else NO_MATE)
    entries = min(found, key=lambda one: one[0])[-1]
    return list_style(case.chain.text).written(entries), entries[-1].label


def _at(beliefs: Sequence[str], sentences: Iterable[int]) -> list[StatedBelief]:
    """The beliefs of a right chain at some sentences; behind its end its last one holds."""
    return [StatedBelief(sentence, beliefs[min(sentence, len(beliefs)) - 1]) for sentence in sentences]


def _write_gold(case: EditCase) -> Made:
    beliefs, entries = right_beliefs(case.item), case.chain.entries
    sentences = [entry.sentence for entry in entries]
    made = _at(beliefs, sentences)
    if case.chain.plain:
        if made[-1].label != beliefs[-1]:  # what changes after this chain's end
            made = _at(beliefs, range(1, len(beliefs) + 1))
    else:
        if len(_drop_repeats(entries)) == len(entries) < len(beliefs):
            first = sentences[0] if made[0].label == beliefs[0] else 1
            made = _at(beliefs, [first, *(one for one in find_changes(beliefs) if one > first)])
        elif made[-1].label != beliefs[-1]:
            made = _at(beliefs, sorted({*sentences, *find_changes(beliefs)}))
    if tuple(made) == entries:
        raise InapplicableError(IS_GOLD)
    return list_style(case.chain.text).written(made), case.item.answer


LIST_MAKERS: Mapping[str, Callable[[EditCase], Made]] = {
    table.PARAPHRASE: _paraphrase,
    **{name: partial(_truncate, share) for name, share in table.TRUNCATED.items()},
    **{
        table.FILLER: _filler,
        table.OTHER: _of_other,
        table.LAST: _corrupted_last,
        table.LOCAL: _local,
        table.PROPAGATED: _propagate,
    },
    **{table.SWAPPED: _swap, table.GOLD: _write_gold},
}
"""How each edit of a list is made. Each raises InapplicableError with the reason where it cannot be."""


def last_label(chain: WrittenChain) -> str | None:
    """The label on which a chain ends; for prose the answer that followed it."""
    return chain.entries[-1].label if chain.entries else chain.model_answer


def make_edits(
    item: Item,
    chain: WrittenChain,
    *,
    mates: Sequence[Item],
    other: tuple[Item, WrittenChain] | None,
    tokens: Count,
    lettered: bool = False,
) -> Iterator[EditedChain | OmittedEdit]:
    """Yield every edit of a chain, or why it cannot be made, in the order of EDITS. The arguments as in EditCase;
    lettered: whether the choices were offered by letter."""
    case = EditCase(item, chain, mates, other, tokens, offered_choices(item, lettered))
    known = None if chain.form == table.LABELS else prose_of(case)
    yield EditedChain(table.FULL, chain.text)
    for condition in table.EDITS[1:]:
        try:
            text, implied = LIST_MAKERS[condition](case) if known is None else prose_edits.MAKERS[condition](known)
            if text == chain.text:
                raise InapplicableError(SAME)
        except InapplicableError as error:
            yield OmittedEdit(condition, str(error))
        else:
            yield EditedChain(condition, text, implied)


NOT_CONTINUED = "thinking is not continued, since servers return it apart"


def make_beginnings(item: Item, chain: WrittenChain, *, lettered: bool = False) -> list[EditedChain | OmittedEdit]:
    """The beginnings of a chain for CONTINUATIONS, or why there are none. lettered: as for `make_edits`."""
    case = EditCase(item, chain, (), None, len, offered_choices(item, lettered))
    try:
        if chain.form == table.THINKING:
            raise InapplicableError(NOT_CONTINUED)
        own, changed, wrong = _begin_list(case) if chain.form == table.LABELS else write_beginnings(prose_of(case))
        if own == changed:
            raise InapplicableError(SAME)
    except InapplicableError as error:
        return [OmittedEdit(condition, str(error)) for condition in table.CONTINUATIONS]
    return [EditedChain(table.RESUMED, own), EditedChain(table.CONTINUED, changed, wrong)]


def _begin_list(case: EditCase) -> tuple[str, str, str]:
    place, style = _middle(case), list_style(case.chain.text)
    wrong, before = _wrong(case, place), case.chain.entries[:place]
    last = case.chain.entries[place]
    return style.begun([*before, last]), style.begun([*before, last._replace(label=wrong)]), wrong


def remove_verdict(item: Item, chain: WrittenChain, *, lettered: bool = False) -> str | None:
    """The chain without its verdict: a list without the trailing run of its last belief, prose without the sentences
    that conclude. None where nothing would be left out."""
    if chain.form == table.LABELS:
        entries = list(chain.entries)
        while entries and entries[-1].label == chain.entries[-1].label:
            entries.pop()
        return list_style(chain.text).written(entries)
    case = EditCase(item, chain, (), None, len, offered_choices(item, lettered))
    text = prose_edits.remove_conclusion(prose_of(case))
    return None if text == chain.text else text


def choose_other(
    item: Item, chain: WrittenChain, pool: Sequence[tuple[Item, WrittenChain]]
) -> tuple[Item, WrittenChain] | None:
    """The chain of the pool that is shown in the place of this one, the same every time; None where it has none.

    It is one in the same form of another cluster, or of another story where no other cluster is there; where possible
    with the same choices and another end, and of about the same length.
    """
    alike = [one for one in pool if one[1].form == chain.form and one[0].story != item.story]
    found = [one for one in alike if one[0].cluster != item.cluster] or alike
    if not found:
        return None
    last, choices = last_label(chain), set(item.choices)
    length = _length(chain)

    def rank(one: tuple[Item, WrittenChain]) -> tuple[bool, bool, int]:
        end = last_label(one[1])
        return set(one[0].choices) != choices or end == last, end == last, abs(_length(one[1]) - length)

    best = min(map(rank, found))
    return min((one for one in found if rank(one) == best), key=lambda one: random_key(item.id, one[0].id))


def _length(chain: WrittenChain) -> int:
    return len(chain.entries) or len(chain.text)
