"""What the sessions of a run noted that makes its replies doubtful, in sentences.

>>> list(doubts([{"doubts": {"strange": {"budget": 2}}}, {"doubts": {"strange": {"budget": 1}}}]))
["3 replies ended for a reason that is not known to tomserve and count as whole texts: 'budget' (3); if it means that \
they were cut off or filtered, so may their answers be"]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tomserve.content import files
from tomserve.content.text import count_noun
from tomserve.engine.prompt_tokens import describe_truncation
from tomserve.status import KINDS, LONGEST


def doubts(sessions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence on each thing. sessions: those of a manifest that was checked."""
    noted: list[Mapping[str, Any]] = [session.get("doubts") or {} for session in sessions]
    cut = [one["cut"] for one in noted if one.get("cut")]
    if cut:
        yield describe_truncation(max(cut, key=lambda one: int(one["prompts"])))
    strange: Counter[str] = Counter()
    for one in noted:
        strange.update(one.get("strange") or {})
    if strange:
        named = ", ".join(f"{files.one_line(name[:LONGEST])!r} ({n:,})" for name, n in strange.most_common(KINDS))
        yield (
            f"{count_noun(strange.total(), 'reply', 'replies')} ended for a reason that is not known to "
            f"tomserve and count as whole texts: {named}; if it means that they were cut off or filtered, so may their "
            "answers be"
        )
