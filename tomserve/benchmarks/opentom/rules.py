"""What readers answer to OpenToM who follow nobody's mind: always the same class, or always what is really so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tomserve.items import Item
from tomserve.scoring.baselines import Baseline

_REAL: Mapping[tuple[str, str | None], str] = {
    ("location_coarse", None): "no",
    ("location_fine", None): "new",
    ("fullness", "original"): "less full",
    ("fullness", "new"): "more full",
}
"""What is so in the end, whoever is asked about: the object was moved. Of accessibility and attitude this says
nothing."""


def class_of(item: Item, choice: str) -> str:
    """The class of a choice: `original` or `new` for a place, else the choice itself."""
    for name in ("original", "new"):
        if item.factors.get(f"place_{name}") == choice:
            return name
    return choice


def _choice(item: Item, wanted: str) -> str | None:
    """The choice of that class, in whatever case; None where the item has none."""
    return next((choice for choice in item.choices if class_of(item, choice).casefold() == wanted), None)


def _reality(item: Item) -> str | None:
    if item.factors.get("task") == "location_fine" and "in the beginning" in item.question:
        return _choice(item, "original")
    place = item.factors.get("container")
    wanted = _REAL.get((str(item.factors.get("task")), place if isinstance(place, str) else None))
    return None if wanted is None else _choice(item, wanted)


def _unmoved(item: Item) -> str | None:
    """The answer of somebody who does not know that the object was moved."""
    for wanted in ("yes", "original", "equally full", "equally accessible"):
        if (found := _choice(item, wanted)) is not None:
            return found
    return None


def _always(wanted: str) -> Callable[[Item], str | None]:
    return lambda item: _choice(item, wanted)


RULES = (
    Baseline("always reality", _reality, "constant"),
    Baseline("always as at first", _unmoved, "constant"),
    *(Baseline(f"always {name}", _always(name), "constant") for name in ("positive", "neutral", "negative")),
    *(Baseline(f"always {name}", _always(f"{name} accessible"), "constant") for name in ("less", "more")),
)
"""The rules of the benchmark's field `rules`."""
