"""Worlds as a reader sees them: story, events and questions with their answers.

    tomserve dataset show worlds transfer 3

After every sentence stands what happens in it, in the notation of tomserve.benchmarks.worlds.events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tomserve.benchmarks.findings import Findings
from tomserve.errors import ConfigError, one_of
from tomserve.items import Item

PLACE = ("family", "world", "scenario")
"""What the user names, in this order."""


def shown(items: Iterable[Item], where: Sequence[str]) -> Findings:
    """Every story once, with what happens in each sentence and all its questions.

    where: a family, or a family and the number of a world, or these and a scenario. Raises ConfigError for a name that
    is not there, for more than three, and for none, since there are thousands of stories.
    """
    if not where or len(where) > len(PLACE):
        raise ConfigError("name a family, and then the number of a world and a scenario if you like: transfer 3")
    stories: dict[tuple[str, str, str], list[Item]] = {}
    for item in items:
        number = item.cluster.rsplit("-", 1)[-1].lstrip("0") or "0"
        place = (str(item.factors["family"]), number, str(item.factors.get("scenario")))
        stories.setdefault(place, []).append(item)
    for depth, wanted in enumerate(where):
        known = list(dict.fromkeys(place[depth] for place in stories))
        stories = {place: story for place, story in stories.items() if place[depth] == wanted}
        if not stories:
            raise ConfigError(one_of(PLACE[depth], wanted, known))
    return Findings(sections={"/".join(place): tuple(_lines(story)) for place, story in stories.items()})


def _lines(story: Sequence[Item]) -> Iterable[str]:
    scenes = (story[0].world or {}).get("scenes", [])
    for number, sentence in enumerate(story[0].story):
        events = "; ".join(scenes[number].get("events", ())) if number < len(scenes) else ""
        yield f"{number + 1:2d}. {sentence}" + (f"  [{events}]" if events else "")
    for item in story:
        yield f"    {item.question} ({', '.join(item.choices)}) -> {item.answer}"
