"""Who knows what after every sentence of a Hi-ToM item, as the tracker derives it; the report shows it.

>>> item = Item(id="q", story=["Ann and Bo entered the den.", "The pen is in the red_box.", "Bo exited the den."],
...             question="Where does Ann think Bo thinks the pen is?", choices=["red_box", "unknown"], answer="red_box")
>>> for heading, labels in who_knows_what(item):
...     print(heading, labels)
sees it ('–', 'Ann, Bo', 'Ann')
really ('unknown', 'red_box', 'red_box')
Ann ('unknown', 'red_box', 'red_box')
Bo ('unknown', 'red_box', 'red_box')
Ann › Bo ('unknown', 'red_box', 'red_box')
"""

from __future__ import annotations

from tomserve.benchmarks.hitom.explain import parsed, semantics_of, traced
from tomserve.benchmarks.hitom.wordings import read_asked
from tomserve.items import Item

Column = tuple[str, tuple[str, ...]]


def who_knows_what(item: Item) -> list[Column]:
    """Headings, each with a text a sentence: which asked agents are in the object's room, where it really is, what each
    of them believes, and the asked nesting where no gold chain says it. Nothing for items of another form."""
    try:
        asked, obj = read_asked(item.question)
        story, trace = parsed(item.story), traced(item.story, obj)
    except ValueError:
        return []
    semantics = semantics_of(item)
    columns: list[Column] = []
    if asked:
        rooms = zip(story.presence(), story.rooms(), strict=True)
        seen = [[name for name in asked if obj in lies and where.get(name) == lies[obj]] for where, lies in rooms]
        columns.append(("sees it", tuple(", ".join(names) or "–" for names in seen)))
    nestings: list[tuple[str, ...]] = [(), *((name,) for name in asked), asked]
    for nesting in dict.fromkeys(nestings):
        if nesting != asked or item.gold is None:
            columns.append((" › ".join(nesting) or "really", tuple(trace.chain(nesting, semantics))))
    return columns
