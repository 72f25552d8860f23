"""Making variants: one for each item and kind, with everything checked that can be checked of the two alone.

>>> item = Item(id="q", story=["Tea is in the box."], question="What is in the box?", choices=["tea", "salt"],
...             answer="tea")
>>> def retell(item, kind):
...     if kind is not kinds.PARAPHRASE:
...         raise InapplicableError("nothing to change")
...     return variant(item, kind, by="rules", story=["What the box holds is tea."])
>>> for made in variants([item], [kinds.PERSON, kinds.CHOICES, kinds.PARAPHRASE], lambda benchmark: retell):
...     print(made.kind.name if isinstance(made, Dropped) else (made.id, made.choices, made.story[0]))
person
('q/choices', ('salt', 'tea'), 'Tea is in the box.')
('q/paraphrase', ('tea', 'salt'), 'What the box holds is tea.')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol

from tomserve.errors import InapplicableError
from tomserve.items import Factor, Gold, Item
from tomserve.stability import kinds
from tomserve.stability.kinds import Kind


class Dropped(NamedTuple):
    """A variant that was not made: of which item, of which kind, and why."""

    item: str
    kind: Kind
    reason: str


Retell = Callable[[Item, Kind], Item]
"""A function that makes a variant of an item, by `variant`. It raises InapplicableError where it cannot."""

RECORD, RULES = "record", "rules"
"""How a variant was made (its factor `variant_by`): from the record of its story with the truth computed again, or by
rules from text alone. A rewriter is named by "rewriter:" and its model."""

REWRITER = "rewriter:"
"""With this the factor `variant_by` of a variant begins that a model has written; the rest is the model's name."""

CHANGES_TRUTH = "the right answer would change"
UNCHANGED = "nothing to change"
TAKEN = "another question has the id that it would get"
"""Reasons for which any benchmark may drop a variant."""


def variant(
    item: Item,
    kind: Kind,
    *,
    by: str,
    story: Sequence[str] | None = None,
    question: str | None = None,
    choices: Sequence[str] | None = None,
    answer: str | None = None,
    gold: Gold | None = None,
) -> Item:
    """A variant of an item, which keeps all that is not given.

    item: the original. kind: what is changed. by: how it was made (RECORD, RULES or a rewriter). story, question: as
    the variant tells them. choices: for each choice of the original, in their order, the one that stands for it.
    answer: the right answer, as computed for the variant; None for the one that stands for the original's. gold: its
    rationale; None for the original's where sentences and choices correspond one by one, else for none.
    """
    told = tuple(story) if story is not None else item.story
    offered = tuple(choices) if choices is not None else item.choices
    same = dict(zip(item.choices, offered, strict=True))
    if gold is None and item.gold is not None and len(told) == len(item.story) and kind is not kinds.ORDER:
        gold = item.gold if offered == item.choices else renamed(item.gold, same)
    return Item(
        id=f"{item.id}/{kind.name}",
        benchmark=item.benchmark,
        story=told,
        question=question if question is not None else item.question,
        choices=offered,
        answer=answer if answer is not None else same[item.answer],
        gold=gold,
        factors={**item.factors, "variant": kind.name, "variant_by": by},
        cluster=item.cluster,
        canary=item.canary,
        base=item.id,
        meanings=item.choices if offered != item.choices else None,
    )


def renamed(gold: Gold, labels: dict[str, str]) -> Gold:
    """The rationale with other labels. labels: the new label of each."""
    if gold.chains is not None:
        return Gold(chains=tuple(tuple(labels[label] for label in chain) for chain in gold.chains))
    return Gold(
        sets=tuple(tuple(labels[label] for label in layer) for layer in gold.sets or ()),
        edges=tuple((t, labels[before], labels[after]) for t, before, after in gold.edges),
        policy=gold.policy,
    )


def variants(
    items: Iterable[Item],
    wanted: Sequence[Kind],
    retelling: Callable[[str], Retell],
    have: Collection[tuple[str | None, str]] = frozenset(),
) -> Iterator[Item | Dropped]:
    """The variants of these items: for each item and kind either an item or why there is none, in that order.

    items: the originals; an item that is itself a variant has none. wanted: the kinds; T0 makes no items. retelling:
    gives the function that retells the items of a benchmark, by the benchmark's name. have: the ids of originals with
    the names of kinds of which there is a variant already, so that none is made.

    Reversing the choices needs no record and is done here. Every variant is checked against its original: the right
    answer must stand for the right one there, and something must differ; one that fails is dropped with the reason.
    """
    teller = cache(retelling)
    for item in items:
        if item.base is not None:
            continue
        for kind in wanted:
            if kind is kinds.AGAIN or (item.id, kind.name) in have:
                continue
            try:
                made = _reversed(item) if kind is kinds.CHOICES else teller(item.benchmark)(item, kind)
            except InapplicableError as reason:
                yield Dropped(item.id, kind, str(reason))
                continue
            fault = _fault(item, made)
            yield made if fault is None else Dropped(item.id, kind, fault)


class HasFactors(Protocol):
    """An item, or an outline of one."""

    @property
    def factors(self) -> Mapping[str, Factor]:
        """The factors by name."""
        ...


def rewritten_by(items: Iterable[HasFactors]) -> set[str]:
    """The models that have rewritten any of these items: none of them may be evaluated on them."""
    made_by = (item.factors.get("variant_by") for item in items)
    return {one.removeprefix(REWRITER) for one in made_by if isinstance(one, str) and one.startswith(REWRITER)}


def _reversed(item: Item) -> Item:
    """The item with its choices in reversed order."""
    made = variant(item, kinds.CHOICES, by=RECORD)
    return made.model_copy(update={"choices": item.choices[::-1]})


def _fault(item: Item, made: Item) -> str | None:
    """Why a variant cannot be used beside its original; None where it can."""
    if made.meaning(made.answer) != item.answer or sorted(map(made.meaning, made.choices)) != sorted(item.choices):
        return CHANGES_TRUTH
    same = made.story == item.story and made.question == item.question and made.choices == item.choices
    return UNCHANGED if same else None
