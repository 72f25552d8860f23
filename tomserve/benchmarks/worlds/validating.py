"""Check worlds: that every phrasing can be said, every question answered, and the release is what it was.

tomserve dataset validate worlds
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tomserve.benchmarks.findings import Findings, outcome
from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.lexicon import Lexicon, built_in
from tomserve.benchmarks.worlds.record import World
from tomserve.benchmarks.worlds.release import Release, released
from tomserve.benchmarks.worlds.rendering import items
from tomserve.benchmarks.worlds.wording import AN
from tomserve.errors import ContentError
from tomserve.items import Item, items_digest

PHRASINGS = 8
"""How many phrasings a role must have."""

SAMPLE = 25
"""How many worlds of each family are told with every phrasing in turn."""

_SLIP = re.compile(r"[{}|]|\s{2}|\s[,.;:?!]|,\.|\.\.|\b(\w+) \1\b(?<!had had)")
"""What no sentence may have: open slots and alternatives, stray spaces and stops, a word twice."""


def findings(own: Sequence[Item] | None) -> Findings:
    """The check as lines: a line for each family, a line for each problem, and a summary; the exit code is 1 for
    problems.

    own: the items of the release; None where a file was given instead, so that only the phrasings are checked.
    """
    lexicon, listed, lines = built_in(), list[str](), list[str]()
    for family in FAMILIES:
        told = list(worlds(lexicon, SAMPLE, 0, [family]))
        checks = (*few(told, lexicon), *brief(told, lexicon), *slips(told, lexicon))
        listed += [f"{family.name}: {problem}" for problem in checks]
        listed += [f"{family.name}: {problem}" for problem in unsettled(told, lexicon)]
        roles = {scene.role for world in told for scene in world.scenes}
        lines.append(f"{family.name}: {len(roles)} roles of sentences, scenarios {', '.join(family.scenarios)}")
    listed = list(dict.fromkeys(listed))
    lines += [f"problem: {problem}" for problem in listed]
    if own is not None:
        listed += (changed := list(other_release(own, released())))
        lines += [f"problem: {problem}" for problem in changed]
        lines.append(f"{len(own):,} questions, {items_digest(iter(own))[:19]}: {outcome(listed)}")
    else:
        lines.append(outcome(listed))
    return Findings(lines=tuple(lines), code=1 if listed else 0)


def few(told: Sequence[World], lexicon: Lexicon) -> Iterator[str]:
    """A sentence for each role of these worlds that has too few phrasings."""
    for world in told:
        asked = {(question.role, "questions") for question in world.questions}
        for role, part in sorted({(scene.role, "roles") for scene in world.scenes} | asked):
            count = len(lexicon.phrasings(world.family, role, part))
            if count < PHRASINGS:
                yield f"{part} {role!r} has {count} phrasings; expected at least {PHRASINGS}"


def brief(told: Sequence[World], lexicon: Lexicon) -> Iterator[str]:
    """A sentence for each role of these worlds that is not said briefly, or not of everybody and everything that the
    scene is about.

    A brief phrasing has the slots that the scene fills and all longer phrasings have; what is the same all over the
    world may be left out. It has no slot that none of them has.
    """
    said = dict.fromkeys((world.family, scene.role, frozenset(scene.slots)) for world in told for scene in world.scenes)
    for family, role, filled in said:
        full = [named(phrasing) for phrasing in lexicon.phrasings(family, role)]
        try:
            short = lexicon.phrasings(family, role, "short")
        except ContentError as error:
            yield error.reason
            continue
        wanted, known = filled & frozenset.intersection(*full), frozenset.union(*full)
        for phrasing in short:
            if missing := wanted - named(phrasing):
                yield f"the brief phrasing {phrasing!r} of {role!r} does not name {sorted(missing)[0]!r}"
            if strange := named(phrasing) - known:
                yield f"the brief phrasing {phrasing!r} of {role!r} names {sorted(strange)[0]!r}, as no longer one does"


def named(phrasing: str) -> frozenset[str]:
    """The slots of a phrasing."""
    return frozenset(re.findall(r"\{(\w+)", phrasing))


def slips(told: Sequence[World], lexicon: Lexicon) -> Iterator[str]:
    """A sentence for each slip of the pen in these worlds, told with every phrasing in turn, in full and briefly, in
    the third person and in the second."""
    for place, world in enumerate(told):
        person = BY_NAME[world.family].protagonist
        for second, length in ((None, "full"), (person, "full"), (None, "short"), (person, "short")):
            update = {"told": length}
            scenes = tuple(s.model_copy(update=update | {"phrasing": s.phrasing + place}) for s in world.scenes)
            other = world.model_copy(update={"scenes": scenes, "second": second})
            try:
                found = list(items(other, lexicon))
            except (ValueError, ContentError) as error:
                yield str(error)
                continue
            for text in dict.fromkeys(text for item in found for text in (*item.story, item.question)):
                if (slip := _SLIP.search(text) or AN.search(text)) is not None:
                    yield f"{slip[0]!r} in {text!r}"
            repeated = [text for text, count in Counter(found[0].story).items() if count > 1] if found else []
            yield from (f"said twice in {world.name}: {text!r}" for text in repeated)


def unsettled(told: Sequence[World], lexicon: Lexicon) -> Iterator[str]:
    """A sentence for each question of these worlds that the rules do not settle, though it is in the record."""
    for world in told:
        settled = {item.id for item in items(world, lexicon)}
        if missing := len(world.questions) - len(settled):
            yield f"{world.name}: {missing} of {len(world.questions)} questions are not settled by the rules"


def other_release(own: Sequence[Item], release: Release) -> Iterator[str]:
    """A sentence where these items are not those of the release: words, phrasings or code have changed since."""
    if (found := items_digest(iter(own))) != release.digest or len(own) != release.items:
        yield (
            f"these are {len(own):,} items with the digest {found}, not {release.name} with {release.items:,} and "
            f"{release.digest}: words, phrasings or rules differ from the release, so call them by another name"
        )
