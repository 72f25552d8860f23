"""Counterfactual cases: a false-belief item with the other tellings of its story that an intervention needs.

A telling names the item by `base`, and says by the factor `variant` what it is: ppt_p (p), ppt_p_twin (p~) or
ppt_twin (the third-person twin). Factors of the item itself may name its `family`, and for probes what the
protagonist and another person believe and what is really so (HOLDERS), in f and in the twin; and how a
surface cue parts from the belief (PARTED).

    >>> fields = {"cluster": "jar", "question": "What is in the jar?", "choices": ["tea", "salt"]}
    >>> f = Item(id="jar/f", story=["Ann fills in tea.", "Ann leaves.", "Ben fills in salt."], answer="tea", **fields)
    >>> tellings = ("ppt_p", "You fill in tea.", "tea"), ("ppt_p_twin", "You see salt.", "salt")
    >>> p, twin = (Item(id=f"jar/{name}", story=[told], answer=answer, base=f.id, factors={"variant": name}, **fields)
    ...            for name, told, answer in tellings)
    >>> [case.scenario for case in find_cases([f, p, twin])]
    ['jar']
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tomserve.content.text import count_noun as number
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Factor, Item, numbered_items
from tomserve.items.draw import Draw, draw_places

HOLDERS = ("protagonist", "other", "reality")
"""Whose belief, or what is really so, a label of `Case.holders` names; the same with IN_TWIN behind it, in the twin."""

IN_TWIN = "_in_twin"


@dataclass(frozen=True, slots=True)
class Case:
    """A question about a false belief, with the tellings that take the protagonist's place.

    The choices of all four stand in the same order and mean the same (Item.meanings where they are worded otherwise).
    """

    f: Item  # whose answer is what follows from the false belief
    own: Item  # p, the story as the protagonist saw it, told to "you"; its answer means that of f
    own_twin: Item  # p~, the twin in which the protagonist noticed, told to "you"; its answer is the true-belief choice
    twin: Item | None = None  # the same twin in the third person
    family: str = "all"  # the kind of story, such as "contents", between which a map may transfer
    holders: Mapping[str, str | None] = field(default_factory=dict)  # for probes, a choice of f or None by NAMES, or {}

    @property
    def scenario(self) -> str:
        """The story that the case is about, which is what folds and intervals are drawn over."""
        return self.f.cluster

    @property
    def factors(self) -> Mapping[str, Factor]:
        """The place of f in the design, by which conditions choose cases."""
        return self.f.factors

    @property
    def parted(self) -> str | None:
        """How a surface cue parts from the belief here (see PARTED); None where none does."""
        how = self.f.factors.get(PARTED)
        return None if how is None else str(how)

    @property
    def false_choice(self) -> int:
        """The place, among f's choices, of what follows from the false belief."""
        return self.f.choices.index(self.f.answer)

    @property
    def true_choice(self) -> int:
        """The place, among f's choices, of what follows from the true belief."""
        return self.own_twin.choices.index(self.own_twin.answer)


class NoCase(NamedTuple):
    """A question about a false belief that makes no case. item: the question, or what there is of it. reason: why."""

    item: Item
    reason: str

    @property
    def factors(self) -> Mapping[str, Factor]:
        """The place of the question in the design, by which conditions choose cases."""
        return self.item.factors


def find_problem(case: Case) -> tuple[Item, str] | None:
    """What keeps a case from being one, with the telling that it is about; None where nothing does."""
    f = case.f
    for telling in (case.own, case.own_twin, *([case.twin] if case.twin is not None else [])):
        if telling.cluster != f.cluster:
            return telling, f"its cluster is {telling.cluster!r:.60}; expected that of {f.id!r}: {f.cluster!r:.60}"
        if len(telling.choices) != len(f.choices):
            return telling, f"it has {len(telling.choices)} choices; expected {len(f.choices)}, as {f.id!r} has"
        meant = [telling.meaning(choice) for choice in telling.choices]
        if meant != list(f.choices):
            what = "stand in another order than" if set(meant) == set(f.choices) else "do not stand for"
            return telling, f"its choices {what} those of {f.id!r}; say by `meanings` which of those each stands for"
    if case.own.meaning(case.own.answer) != f.answer:
        return (
            case.own,
            f"its answer means {case.own.meaning(case.own.answer)!r:.60}; expected {f.answer!r:.60}, as of f",
        )
    if case.true_choice == case.false_choice:
        return case.own_twin, f"its answer means that of {f.id!r}, {f.answer!r:.60}; expected another one"
    if case.twin is not None and case.twin.choices.index(case.twin.answer) != case.true_choice:
        said = case.own_twin.meaning(case.own_twin.answer)
        return case.twin, f"its answer is {case.twin.answer!r:.60}; expected {said!r:.60}, as of {case.own_twin.id!r}"
    for name, label in case.holders.items():
        if label is not None and label not in f.choices:
            return f, f"{name} is {label!r:.60}; expected one of its choices, or none"
    return None


PARTED = "parted"
"""The factor of f that says how a surface cue (what was seen, what was told, what is named last) parts from the belief
in a case: the cue is not what is believed in f, or it is the same in the twin, in which the belief is another. Its
values are the sorts of such cases, for each of which a map has to do its work."""

P, P_TWIN, TWIN = TELLINGS = ("ppt_p", "ppt_p_twin", "ppt_twin")
"""Values of the factor `variant`: p, p~, and the third-person twin."""

ALL = "all"
"""The family of a case where nothing else is said."""

NAMES = (*HOLDERS, *(name + IN_TWIN for name in HOLDERS))
"""The names of the labels in Case.holders, which are factors of f in a file."""

WANTED = (
    f"expected items with versions of the factor variant={P} and {P_TWIN}, as `tomserve items worlds --cases` writes "
    "them; see docs/how-to/causal-items.md"
)


def find_cases(
    items: Iterable[Item], path: Path | None = None, lines: Mapping[str, int] | None = None
) -> Iterator[Case | NoCase]:
    """The cases among some items, in the order of their false-belief items, and what makes none.

    path, lines: their file and each one's line by its id, for messages. Choices of a telling are put into the order of
    f's. Raises ContentError (ConfigError without a path) for a version that is given twice, or does not fit its item.
    """
    originals: dict[str, Item] = {}
    told: dict[str, dict[str, Item]] = {}

    def refuse(item: Item, reason: str) -> ConfigError:
        if path is None:
            return ConfigError(f"item {item.id!r}: {reason}")
        return ContentError(f"item {item.id!r}: {reason}", path=path, line=(lines or {}).get(item.id))

    for item in items:
        variant = item.factors.get("variant")
        if variant in TELLINGS and item.base is not None:
            first = told.setdefault(item.base, {}).setdefault(str(variant), item)
            if first is not item:
                raise refuse(item, f"{item.base!r} has a version {variant} already: {first.id!r}")
        elif variant in TELLINGS:
            raise refuse(item, f"a version {variant} names by `base` the item that it is a version of; it has none")
        elif item.base is None:
            originals[item.id] = item
    for base, versions in told.items():
        if base not in originals:
            yield NoCase(next(iter(versions.values())), "the item that it is a version of is not there")
    for item in originals.values():
        versions = told.get(item.id, {})
        missing = [name for name in (P, P_TWIN) if name not in versions]
        if missing:
            yield NoCase(item, f"it has no version {' and none '.join(missing)}")
            continue
        own, own_twin, twin = (_fit_telling(item, versions[name]) if name in versions else None for name in TELLINGS)
        assert own is not None
        assert own_twin is not None
        family = item.factors.get("family")
        case = Case(item, own, own_twin, twin, ALL if family is None else str(family), _holders(item))
        if (wrong := find_problem(case)) is not None:
            raise refuse(*wrong)
        yield case


def read_cases(path: Path) -> Iterator[Case | NoCase]:
    """The cases of a file of items, as `find_cases` finds them. Raises ContentError for one without versions."""
    lines: dict[str, int] = {}
    items = []
    for line, item in numbered_items(path):
        lines[item.id] = line
        items.append(item)
    if not any(item.factors.get("variant") in TELLINGS for item in items):
        raise ContentError(f"holds no cases; {WANTED}", path=path)
    yield from find_cases(items, path, lines)


def items_of(case: Case) -> tuple[Item, ...]:
    """The items of a case as a file holds them, which `find_cases` reads back: f with its labels as factors, then p, p~
    and, where there is one, the third-person twin."""
    f = add_factors(case.f, case.holders)
    if case.family != ALL and f.factors.get("family") != case.family:
        f = f.model_copy(update={"factors": {**f.factors, "family": case.family}})
    return f, case.own, case.own_twin, *([case.twin] if case.twin is not None else [])


def add_factors(f: Item, factors: Mapping[str, str | None]) -> Item:
    """The item with further factors, such as the labels for probes; itself where there are none."""
    new = {**f.factors, **factors}
    return f if new == f.factors else f.model_copy(update={"factors": new})


def draw_cases(cases: Sequence[Case], limit: int | None, draw: Draw) -> list[Case]:
    """At most so many cases, drawn as the benchmark draws items (whole scenarios, mostly); None keeps all."""
    return (
        list(cases)
        if limit is None
        else [cases[place] for place in draw_places([case.f for case in cases], limit, draw)]
    )


def describe_cases(cases: Sequence[Case]) -> str:
    """How many cases there are, of how many scenarios, and of which families where there are several.

    >>> describe_cases([])
    '0 cases of 0 scenarios'
    """
    families = Counter(case.family for case in cases)
    scenarios = len({case.scenario for case in cases})
    said = f"{number(len(cases), 'case')} of {number(scenarios, 'scenario')}"
    parts = ", ".join(f"{name} {count:,}" for name, count in sorted(families.items()))
    return f"{said}: {parts}" if len(families) > 1 else said


def _fit_telling(f: Item, telling: Item) -> Item:
    """The telling in the form of a case: in f's cluster where it names none, its choices in the order of f's."""
    changes: dict[str, object] = {}
    if telling.cluster == telling.id:
        changes["cluster"] = f.cluster
    meant = {telling.meaning(choice): choice for choice in telling.choices}
    if set(meant) == set(f.choices) and list(meant) != list(f.choices):
        changes["choices"] = tuple(meant[choice] for choice in f.choices)
        changes["meanings"] = f.choices if telling.meanings else None
    return telling.model_copy(update=changes) if changes else telling


def _holders(f: Item) -> dict[str, str | None]:
    """The labels for probes among the factors of f, the last five read only where the first is given: some benchmarks
    have a factor `reality` of their own."""
    if f.factors.get(NAMES[0]) is None:
        return {}
    return {name: None if f.factors.get(name) is None else str(f.factors[name]) for name in NAMES}
