"""Other words for the same world: another object, other phrasings, and fewer words.

Each function gives the world told otherwise, the same for all questions of the story and, as far as they share a scene,
for all scenarios of the world. None looks at the questions: whether the truth is the same says
tomserve.benchmarks.worlds.retelling.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tomserve.benchmarks.worlds.draws import ranked
from tomserve.benchmarks.worlds.lexicon import Lexicon
from tomserve.benchmarks.worlds.record import Question, Scene, World
from tomserve.benchmarks.worlds.rendering import sentences
from tomserve.benchmarks.worlds.variants import other_object
from tomserve.benchmarks.worlds.wording import expanded
from tomserve.errors import InapplicableError
from tomserve.stability.kinds import LEAST, MOST

AIM = (LEAST + MOST) / 2
"""The share of its words by which a story is made shorter, as nearly as whole sentences allow."""

NO_OBJECT = "no object of the story has other words on the lists"
ONE_PHRASING = "less than half of its sentences have another phrasing"
NOT_SHORTER = "its sentences cannot be told so much more briefly"


def with_other_object(world: World, lexicon: Lexicon) -> World:
    """The world with other words for the values of its facts or, where these are no things, with another thing.

    Each new word is from the list of the old one, none of which bears on an answer: no container of these lists is
    open or can be seen through. A causal story gets another detail of its thing, one of what was made another thing
    that was made, and one of a group another matter to settle. Raises InapplicableError where no list has other words.
    """
    words = _another_block(world, lexicon)
    if words is not None:
        return world.model_copy(update={"words": world.words | words})
    changed = other_object(world, lexicon, 0)
    if changed is None:
        raise InapplicableError(NO_OBJECT)
    return changed


def _another_block(world: World, lexicon: Lexicon) -> dict[str, str] | None:
    """Other words for what a family's file describes as a whole; None for a world that has nothing of the kind."""
    if "detail" in world.words:
        offered = _details(lexicon, world.family, world.words["detail"])
        return {"detail": _other(world, offered)} if offered else None
    extras = lexicon.extras(world.family)
    if "work" in world.words:
        works = {one["work"]: one for one in extras.get("works", ())}
        works.pop(world.words["work"], None)
        return {key: str(text) for key, text in works[_other(world, works)].items()} if works else None
    if "g" in world.words:
        settings = {one["group"]: one for one in extras.get("settings", ())}
        settings.pop(world.words["g"], None)
        return _matter(world, settings[_other(world, settings)]) if settings else None
    return None


def _other(world: World, offered: Any) -> str:
    return ranked(offered, "object", world.name)[0]


def _matter(world: World, setting: Mapping[str, Any]) -> dict[str, str]:
    """The words of another setting of a group, for the values that the world has."""
    values = world.facts["matter"]
    words = {"g": setting["group"], "d": setting["decider"], "m": setting["matter"]}
    for value, text in zip(values, ranked(setting["values"], "object", world.name), strict=False):
        words |= {value: text, f"c_{value}": setting["claim"].format(v=f"{{{value}}}")}
        words[f"act_{value}"] = setting["act"].format(v=f"{{{value}}}")
    return words


@lru_cache(maxsize=1024)
def _details(lexicon: Lexicon, family: str, detail: str) -> tuple[str, ...]:
    """The other details that a template offers in the place of this one."""
    for template in lexicon.extras(family).get("templates", ()):
        offered = [one for phrasing in template["detail"] for one in expanded(phrasing)]
        if detail in offered:
            return tuple(one for one in offered if one != detail)
    return ()


def paraphrased(world: World, lexicon: Lexicon) -> World:
    """The world with every sentence in another phrasing of its role: one that its file lists apart, not only another
    alternative within the same one. Raises InapplicableError where less than half of the sentences have one."""
    taken: dict[str, set[str]] = defaultdict(set)
    scenes = tuple(_rephrased(world, scene, lexicon, taken[scene.role]) for scene in world.scenes)
    changed = sum(new.phrasing != old.phrasing for new, old in zip(scenes, world.scenes, strict=True))
    if 2 * changed < len(scenes):
        raise InapplicableError(ONE_PHRASING)
    return world.model_copy(update={"scenes": scenes})


def _rephrased(world: World, scene: Scene, lexicon: Lexicon, taken: set[str]) -> Scene:
    offered = lexicon.phrasings(world.family, scene.role)
    number = _another(world, scene.role, "roles", scene.phrasing, lexicon, taken)
    taken.add(offered[number % len(offered)])
    return scene.model_copy(update={"phrasing": number})


def rephrased(world: World, question: Question, lexicon: Lexicon) -> Question:
    """The question in another phrasing."""
    number = _another(world, question.role, "questions", question.phrasing, lexicon, set())
    return question.model_copy(update={"phrasing": number})


def _another(world: World, role: str, part: str, number: int, lexicon: Lexicon, taken: set[str]) -> int:
    """The number of another phrasing than this one, not among those taken while there is one; the same where there is
    none."""
    offered = lexicon.phrasings(world.family, role, part)
    old = offered[number % len(offered)]
    others = [one for group in lexicon.grouped(world.family, role, part) if old not in group for one in group]
    fresh = [one for one in others if one not in taken] or others
    return offered.index(ranked(fresh, "paraphrase", world.name, role, old)[0]) if fresh else number


def condensed(world: World, lexicon: Lexicon) -> tuple[World, tuple[int, ...]]:
    """The world in 30 to 40% fewer words, and which of its lines are left: without its fillers, and with so many
    scenes told briefly that the story comes near to AIM.

    Raises InapplicableError where whole sentences do not allow it.
    """
    full = [len(text.split()) for text in sentences(world, lexicon)]
    brief = _briefly(world, lexicon)
    short = [len(text.split()) for text in sentences(brief, lexicon)]
    total = sum(full)
    places = [place for place, scene in enumerate(world.scenes) if scene.part != "filler"]
    left = sum(full[place] for place in places)
    told: set[int] = set()
    order = ranked([str(place) for place in places], "condensed", world.name)
    for place in map(int, order):
        gain = full[place] - short[place]
        if gain > 0 and left > (1 - AIM) * total and left - gain >= (1 - MOST) * total:
            left -= gain
            told.add(place)
    if not (1 - MOST) * total <= left <= (1 - LEAST) * total:
        raise InapplicableError(NOT_SHORTER)
    scenes = tuple((brief if place in told else world).scenes[place] for place in places)
    return world.model_copy(update={"scenes": scenes}), tuple(places)


def _briefly(world: World, lexicon: Lexicon) -> World:
    """The world with every scene told briefly, those of one role by its phrasings in turn."""
    told: Counter[str] = Counter()
    scenes = []
    for scene in world.scenes:
        offered = lexicon.phrasings(world.family, scene.role, "short")
        first = int(ranked(map(str, range(len(offered))), "short", world.name, scene.role)[0])
        scenes.append(scene.model_copy(update={"told": "short", "phrasing": (first + told[scene.role]) % len(offered)}))
        told[scene.role] += 1
    return world.model_copy(update={"scenes": tuple(scenes)})
