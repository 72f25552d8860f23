"""Variants of items: the same question in other words, by which it shows whether an answer is stable.

A *variant* is an item made from another one, its original (`Item.base`), by one of seven kinds of change: T1 to T4 are
those of the functional framework (Mohanty et al., layer 3), T0, T5 and T6 are ours. Its right answer is that of the
original, choice by choice (`Item.meanings`). Where an item has a record of its story, its benchmark tells it anew and
computes the truth again; where it is text alone, rules change the text, or a model rewrites it and every rewriting is
verified. A variant that cannot be made is left out, and counted with the reason.

    >>> [kind.name for kind in parse_kinds(["t1,order"])]
    ['object', 'order']
    >>> item = Item(id="q", story=["Tea is in the box."], question="What is in the box?", choices=["tea", "salt"],
    ...             answer="tea")
    >>> def retell(item, kind):
    ...     if kind is not PARAPHRASE:
    ...         raise InapplicableError("nothing to change")
    ...     return make_variant(item, kind, by="rules", story=["What the box holds is tea."])
    >>> for made in make_variants([item], [PERSON, CHOICES, PARAPHRASE], lambda benchmark: retell):
    ...     print(made.kind.name if isinstance(made, Dropped) else (made.id, made.choices, made.story[0]))
    person
    ('q/choices', ('salt', 'tea'), 'Tea is in the box.')
    ('q/paraphrase', ('tea', 'salt'), 'What the box holds is tea.')
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from tomserve.errors import ConfigError, InapplicableError, one_of
from tomserve.items import Gold, Item
from tomserve.items.item import HasFactors


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of variant: its name, which is the factor `variant` of its items, its short name, and what is changed."""

    name: str
    short: str
    changes: str


AGAIN = Kind("again", "T0", "nothing: the same prompt is sent again while other requests are in flight")
OBJECT = Kind("object", "T1", "an object of the story, or a detail of one, that does not bear on the answer")
PERSON = Kind("person", "T2", "who the person is: name and culture and, where all pronouns are sure, gender")
CONDENSED = Kind("condensed", "T3", "the length: the story is told in 30 to 40% fewer words")
CHOICES = Kind("choices", "T4", "the order of the choices, which is reversed")
PARAPHRASE = Kind("paraphrase", "T5", "the wording: every sentence is put in other words")
ORDER = Kind("order", "T6", "the order of sentences that do not depend on each other")

KINDS = (AGAIN, OBJECT, PERSON, CONDENSED, CHOICES, PARAPHRASE, ORDER)
"""All kinds, in the order of their short names."""

LEAST, MOST = 0.30, 0.40
"""By which share of its words a condensed story is shorter, at least and at most."""

ALL = "all"
"""What names all kinds at once."""


def parse_kinds(names: Iterable[str]) -> tuple[Kind, ...]:
    """The kinds of these names or short names, each once and in the order of KINDS.

    names: texts of one or several names with commas between them; "all" stands for all kinds. Raises ConfigError for a
    name that no kind has, and where no kind is named.
    """
    known = {name: kind for kind in KINDS for name in (kind.name, kind.short.lower())}
    wanted = [part.strip().lower() for text in names for part in text.split(",")]
    if not any(wanted):
        raise ConfigError(f"no kind of variant is named; expected {ALL}, or some of {', '.join(_kind_names())}")
    chosen: set[Kind] = set()
    for name in filter(None, wanted):
        if name == ALL:
            chosen.update(KINDS)
        elif name in known:
            chosen.add(known[name])
        else:
            raise ConfigError(f"--variants: {one_of('kind', name, [ALL, *_kind_names()])}")
    return tuple(kind for kind in KINDS if kind in chosen)


def _kind_names() -> list[str]:
    return [kind.name for kind in KINDS]


class Dropped(NamedTuple):
    """A variant that was not made: of which item, of which kind, and why."""

    item: str
    kind: Kind
    reason: str


Retell = Callable[[Item, Kind], Item]
"""A function that makes a variant of an item, by `make_variant`. It raises InapplicableError where it cannot."""

Given = ParamSpec("Given")
Made = TypeVar("Made")


def remember_reasons(size: int) -> Callable[[Callable[Given, Made]], Callable[Given, Made]]:
    """A decorator like lru_cache for a function that changes a story, which remembers also why it cannot be changed:
    the questions of a story come one after another. size: how many results are kept."""

    def decorate(change: Callable[Given, Made]) -> Callable[Given, Made]:
        @lru_cache(maxsize=size)
        def attempt(*given: Any) -> Made | InapplicableError:
            try:
                return change(*given)  # type: ignore[call-arg]
            except InapplicableError as reason:
                return reason

        @wraps(change)
        def changed(*given: Given.args, **_: Given.kwargs) -> Made:
            found = attempt(*given)
            if isinstance(found, InapplicableError):
                raise InapplicableError(str(found))
            return found

        return changed

    return decorate


RECORD, RULES = "record", "rules"
"""How a variant was made (its factor `variant_by`): from the record of its story with the truth computed again, or by
rules from text alone. A rewriter is named by "rewriter:" and its model."""

REWRITER = "rewriter:"
"""With this the factor `variant_by` of a variant begins that a model has written; the rest is the model's name."""

CHANGES_TRUTH = "the right answer would change"
UNCHANGED = "nothing to change"
TAKEN = "another question has the id that it would get"
"""Reasons for which any benchmark may drop a variant."""


def make_variant(
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
    if gold is None and item.gold is not None and len(told) == len(item.story) and kind is not ORDER:
        gold = item.gold if offered == item.choices else rename_labels(item.gold, same)
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


def rename_labels(gold: Gold, labels: dict[str, str]) -> Gold:
    """The rationale with other labels. labels: the new label of each."""
    if gold.chains is not None:
        return Gold(chains=tuple(tuple(labels[label] for label in chain) for chain in gold.chains))
    return Gold(
        sets=tuple(tuple(labels[label] for label in layer) for layer in gold.sets or ()),
        edges=tuple((t, labels[before], labels[after]) for t, before, after in gold.edges),
        policy=gold.policy,
    )


def make_variants(
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
            if kind is AGAIN or (item.id, kind.name) in have:
                continue
            try:
                if kind is CHOICES:
                    reversed_ = {"choices": item.choices[::-1]}
                    made = make_variant(item, CHOICES, by=RECORD).model_copy(update=reversed_)
                else:
                    made = teller(item.benchmark)(item, kind)
            except InapplicableError as reason:
                yield Dropped(item.id, kind, str(reason))
                continue
            fault = _find_fault(item, made)
            yield made if fault is None else Dropped(item.id, kind, fault)


def find_rewriters(items: Iterable[HasFactors]) -> set[str]:
    """The models that have rewritten any of these items: none of them may be evaluated on them."""
    made_by = (item.factors.get("variant_by") for item in items)
    return {one.removeprefix(REWRITER) for one in made_by if isinstance(one, str) and one.startswith(REWRITER)}


def _find_fault(item: Item, made: Item) -> str | None:
    """Why a variant cannot be used beside its original; None where it can."""
    if made.meaning(made.answer) != item.answer or sorted(map(made.meaning, made.choices)) != sorted(item.choices):
        return CHANGES_TRUTH
    same = made.story == item.story and made.question == item.question and made.choices == item.choices
    return UNCHANGED if same else None
