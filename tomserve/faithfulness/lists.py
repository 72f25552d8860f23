"""How a model writes its list of beliefs, so that another list can be written in the same way.

>>> shape = shape_of('[{"sentence":1,"belief":"tea"}]')
>>> shape.written([Entry(1, "salt"), Entry(3, "tea")])
'[{"sentence":1,"belief":"salt"},{"sentence":3,"belief":"tea"}]'
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from tomserve.errors import InapplicableError
from tomserve.faithfulness.spans import elements, members
from tomserve.faithfulness.written import Entry

STRANGE = "the list of beliefs is written in a form of its own"


class Shape(NamedTuple):
    """The marks and blanks of a list.

    opening, between, closing: what stands before the first element, between two and behind the last. parts: of an
    element that is an object, what stands before, between and behind its two values; None where elements are labels.
    label_first: whether the label is the first of them. escaped: whether letters beyond ASCII are written as escapes.
    """

    opening: str
    between: str
    closing: str
    parts: tuple[str, str, str] | None = None
    label_first: bool = False
    escaped: bool = False

    def written(self, entries: Sequence[Entry]) -> str:
        """The list of these beliefs; an empty one has no blanks."""
        if not entries:
            return "[]"
        return self.opening + self.between.join(map(self._element, entries)) + self.closing

    def _element(self, entry: Entry) -> str:
        label = json.dumps(entry.label, ensure_ascii=self.escaped)
        if self.parts is None:
            return label
        first, second = (label, str(entry.sentence)) if self.label_first else (str(entry.sentence), label)
        return f"{self.parts[0]}{first}{self.parts[1]}{second}{self.parts[2]}"


def shape_of(text: str) -> Shape:
    """How this list is written, by its first two elements. Raises InapplicableError for a text that is no list of
    labels, or of objects with a sentence and a belief and nothing else."""
    found = elements(text)
    if not found:
        raise InapplicableError(STRANGE)
    first = found[0]
    opening, closing, escaped = text[: first.start], text[found[-1].end :], "\\u" in text
    parts, label_first, gap = None, False, " "
    if isinstance(first.value, dict):
        held = members(text, first.start)
        if held is None or len(held) != 2 or {one.key for one in held} != {"sentence", "belief"}:
            raise InapplicableError(STRANGE)
        one, two = held
        parts = (text[first.start : one.start], text[one.end : two.start], text[two.end : first.end])
        label_first = one.key == "belief"
        gap = " " if any(blank in parts[1] for blank in " \n\t") else ""
    elif not isinstance(first.value, str):
        raise InapplicableError(STRANGE)
    between = "," + (opening[1:] if "\n" in opening else gap)  # one element shows no mark between two
    if len(found) > 1:
        between = text[first.end : found[1].start]
    return Shape(opening, between, closing, parts, label_first, escaped)
