"""Every edit of a chain, whatever its form; its chain without the verdict; and whose chain is shown instead of it.

>>> from tomserve.faithfulness.written import Entry
>>> item = Item(id="q", story=["A jar.", "It has tea."], question="What is in it?", choices=["tea", "salt"],
...             answer="tea")
>>> chain = Written("labels", '["tea", "tea"]', (Entry(1, "tea"), Entry(2, "tea")), True, own="tea")
>>> made = {one.condition: one for one in edits(item, chain, mates=(), other=None, tokens=len)}
>>> made["last_corrupted"]
Edited(condition='last_corrupted', text='["tea", "salt"]', implied='salt')
>>> made["gold"]
LeftOut(condition='gold', reason='the item has no gold rationale')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tomserve.errors import InapplicableError
from tomserve.faithfulness import labels, prose
from tomserve.faithfulness.aims import SAME, Case, draw
from tomserve.faithfulness.reading import offered
from tomserve.faithfulness.table import EDITS, FULL, LABELS
from tomserve.faithfulness.written import Count, Edited, LeftOut, Written
from tomserve.items import Item


def edits(
    item: Item,
    chain: Written,
    *,
    mates: Sequence[Item],
    other: tuple[Item, Written] | None,
    tokens: Count,
    lettered: bool = False,
) -> Iterator[Edited | LeftOut]:
    """Yield every edit of a chain, or why it cannot be made, in the order of tomserve.faithfulness.table.EDITS.

    item: whose chain it is. mates: other questions, of which those about the same story with the same choices are
    looked at. other: the chain of another item, with that item (see `chosen_other`). tokens: counts the tokens of a
    text. lettered: whether the choices were offered by letter.
    """
    case = Case(item, chain, mates, other, tokens, offered(item, lettered))
    known = None if chain.form == LABELS else prose.prose_of(case)
    for condition in EDITS:
        try:
            text, implied = labels.MAKERS[condition](case) if known is None else prose.MAKERS[condition](known)
        except InapplicableError as error:
            yield LeftOut(condition, str(error))
            continue
        if text == chain.text and condition != FULL:
            yield LeftOut(condition, SAME)
        else:
            yield Edited(condition, text, implied)


def without_verdict(item: Item, chain: Written, *, lettered: bool = False) -> str | None:
    """The chain without its verdict: a list without the trailing run of its last belief, prose without the sentences
    that conclude. None where nothing would be left out."""
    case = Case(item, chain, (), None, len, offered(item, lettered))
    text = labels.without_end(chain) if chain.form == LABELS else prose.without_end(prose.prose_of(case))
    return None if text == chain.text else text


def chosen_other(item: Item, chain: Written, pool: Sequence[tuple[Item, Written]]) -> tuple[Item, Written] | None:
    """The chain that is shown in the place of this one, the same every time; None where the pool has none.

    pool: chains with their items. It is one in the same form of another cluster, or of another story where no other
    cluster is there; where possible with the same choices and another end, and of about the same length.
    """
    alike = [one for one in pool if one[1].form == chain.form and one[0].story != item.story]
    found = [one for one in alike if one[0].cluster != item.cluster] or alike
    if not found:
        return None
    last, choices = labels.last_of(chain), set(item.choices)
    length = _length(chain)

    def rank(one: tuple[Item, Written]) -> tuple[bool, bool, int]:
        end = labels.last_of(one[1])
        return set(one[0].choices) != choices or end == last, end == last, abs(_length(one[1]) - length)

    best = min(map(rank, found))
    return min((one for one in found if rank(one) == best), key=lambda one: draw(item.id, one[0].id))


def _length(chain: Written) -> int:
    """How long a chain is: how many beliefs, or how many characters of prose."""
    return len(chain.entries) or len(chain.text)
