"""Whether a text that a model wrote says the same as a chain in other words.

>>> from tomserve.items import Item
>>> item = Item(id="q", story=["Ann has a jar.", "Its lid says tea."], question="What does Ann think is in the jar?",
...             choices=["tea", "salt"], answer="tea")
>>> chain = Written("text", "The lid says tea. So Ann thinks it is tea.", own="tea")
>>> same_meaning(item, chain, "As the lid says tea, the answer is tea.")
True
>>> same_meaning(item, chain, "The lid says tea. So Ann thinks it is salt.")
False
"""

from __future__ import annotations

from itertools import groupby

from tomserve.faithfulness.aims import Case
from tomserve.faithfulness.reading import offered
from tomserve.faithfulness.table import LABELS
from tomserve.faithfulness.units import concluded, named, units
from tomserve.faithfulness.written import Written
from tomserve.items import Item


def same_meaning(item: Item, chain: Written, text: str, *, lettered: bool = False) -> bool:
    """Whether a text names the same labels in the same order as a chain in prose, concludes on the same one and is no
    copy of it; never for a list of labels, which has no other words. A label that is named several times running counts
    once. lettered: whether the choices were offered by letter."""
    if chain.form == LABELS or _folded(text) == _folded(chain.text):
        return False
    case = Case(item, chain, (), None, len, offered(item, lettered))
    verdict = concluded(case, chain.text, chain.own)
    return _order(case, text) == _order(case, chain.text) and concluded(case, text, chain.own) == verdict


def _order(case: Case, text: str) -> list[str]:
    """The labels that a text names, in order, without repeats."""
    return [label for label, _ in groupby(label for one in units(text) for label in named(one, case.choices))]


def _folded(text: str) -> str:
    """The words of a text alone."""
    return " ".join(text.casefold().split())
