"""What the prose of a stage may hold: the slots that are known, and no label outside of them.

>>> prose = Prose(("walnuts", "buttons"), ("",))
>>> prose.mistake("The box holds {x} and no {y}.")
>>> prose.mistake("The box holds walnuts.")
"'walnuts' stands outside a slot and would not be swapped; write {x} or {y}"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tomserve.benchmarks.perturbed.stagefile import SLOT
from tomserve.errors import one_of


class Prose:
    """Checks texts of one stage.

    labels: every form of every label. forms: the names of the forms, "" for the label itself.
    """

    def __init__(self, labels: Iterable[str], forms: Sequence[str]) -> None:
        self._forms = forms
        plain = [re.sub(r"^(the|an?|some) ", "", label, flags=re.I).casefold() for label in labels]
        stems = {re.sub(r"s$", "", word) if len(word) > 3 else word for word in plain}
        listed = "|".join(sorted(map(re.escape, stems), key=len, reverse=True))
        self._bare = re.compile(rf"\b({listed})(s|es)?\b", re.I)

    def mistake(self, template: str) -> str | None:
        """What is wrong with a text; None where nothing is."""
        for match in SLOT.finditer(template):
            name, form = match[1], match[2] or ""
            if name == "asked" and not form:
                continue
            if name not in ("x", "y"):
                return one_of("slot", match[0], ["{x}", "{y}", "{asked}"])
            if form not in self._forms:
                return one_of(f"form of {name}", form, [key for key in self._forms if key])
        rest = SLOT.sub("\0", template)
        if "{" in rest or "}" in rest:
            return "a brace outside a slot; slots are {x}, {y}, {x.form}, {asked}"
        if bare := self._bare.search(rest):
            return f"{bare[0]!r} stands outside a slot and would not be swapped; write {{x}} or {{y}}"
        if template != template.strip() or "\n" in template:
            return "text must be one line without spaces around it"
        return None
