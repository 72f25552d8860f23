"""Cases of worlds: false-belief questions with their other tellings, and labels for probes by the rules of belief."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve.benchmarks.case import IN_TWIN, Case, NoCase
from tomserve.benchmarks.cases import labelled
from tomserve.benchmarks.worlds.drawing import worlds
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.lexicon import Lexicon, built_in
from tomserve.benchmarks.worlds.record import Key, World
from tomserve.benchmarks.worlds.release import released
from tomserve.benchmarks.worlds.rendering import label
from tomserve.benchmarks.worlds.rules import answer
from tomserve.benchmarks.worlds.triples import Told, tried
from tomserve.benchmarks.worlds.variants import record
from tomserve.errors import ContentError
from tomserve.items import UNKNOWN, Item, numbered_items


def cases(path: Path | None = None, where: Sequence[str] = ()) -> Iterator[Case | NoCase]:
    """The cases of the fixed release, or of a file that `tomserve generate worlds` wrote.

    where: conditions that cases have to meet; of the release, worlds of other families than they name are passed over,
    which saves most of the time.

    Variants in a file (see tomserve.stability) are passed over: their originals make the cases. Raises ContentError for
    an item without a record, and for one that is not what its record says.
    """
    lexicon = built_in()
    if path is not None:
        for line, item in numbered_items(path):
            if item.base is None:
                yield from _of_item(item, lexicon, path, line)
        return
    release = released()
    wanted = _families(where)
    for world in worlds(lexicon, release.worlds, release.seed):
        if wanted is None or world.family in wanted:
            for found in tried(world, lexicon):
                yield case_of(found, release.canary)


def _families(where: Sequence[str]) -> set[str] | None:
    """The families that conditions name; None where all may meet them, and where they name one that there is not, which
    only all families together can tell."""
    named = [set(value.split(",")) for name, _, value in (one.partition("=") for one in where) if name == "family"]
    wanted = set.intersection(*named) if named else None
    return wanted if wanted and wanted <= BY_NAME.keys() else None


def case_of(found: Told | NoCase, canary: str | None) -> Case | NoCase:
    """What a question makes, with labels for probes. canary: what marks its items as data that is not for training."""
    if isinstance(found, NoCase):
        return NoCase(found.item.model_copy(update={"canary": canary}), found.reason)
    f, own, own_twin, twin = (item.model_copy(update={"canary": canary}) for item in found)
    holders = holders_of(record(f), record(twin))
    return Case(labelled(f, holders), own, own_twin, twin, str(f.factors["family"]), holders)


def _of_item(item: Item, lexicon: Lexicon, path: Path, line: int) -> Iterator[Case | NoCase]:
    """What an item of a file makes, under its own id; nothing where it is not about a false belief."""
    for found in tried(record(item, path), lexicon):
        made = found.item if isinstance(found, NoCase) else found.f
        if (made.story, made.question, made.choices) != (item.story, item.question, item.choices):
            reason = f"item {item.id!r} is told otherwise than its record; generate it again with these words"
            raise ContentError(reason, path=path, line=line)
        if isinstance(found, NoCase):
            yield case_of(NoCase(item, found.reason), item.canary)
            continue
        told = (
            version.model_copy(update={"id": f"{item.id}/{version.factors['variant']}", "base": item.id})
            for version in found[1:]
        )
        yield case_of(Told(item, *told), item.canary)


def holders_of(world: World, twin: World) -> dict[str, str | None]:
    """The labels for probes of a world with one question, and of its twin.

    protagonist: what the question asks for, where that is a belief about a fact, or an act that has its name from it,
    as going to a place has. reality: what is so. other: what somebody else believes, if possible neither of these, the
    same person in both worlds; where the question is what the protagonist takes another to believe, that other person.
    What is none of the choices has no label. Nothing where the question asks for something else, such as a feeling.
    """
    (question,) = world.questions
    believed = _believed(world, question.who)
    if believed is None or answer(world, question) != believed or question.kind not in ("belief", "action"):
        return {}
    other = question.who[1:] or _other(world, believed)
    found: dict[str, str | None] = {}
    for told, ending in ((world, ""), (twin, IN_TWIN)):
        for name, who in (("protagonist", question.who), ("other", other), ("reality", ())):
            key = _believed(told, who) if who is not None else None
            found[name + ending] = label(world, key) if key in question.choices and key is not None else None
    return found


def _believed(world: World, who: tuple[Key, ...]) -> Key | None:
    """What these people believe of the fact that is asked about, when it is asked; what is so, for nobody."""
    (question,) = world.questions
    choices = (*world.facts[question.fact], UNKNOWN)
    kind = "belief" if who else "reality"
    return answer(world, question.model_copy(update={"kind": kind, "who": who, "choices": choices}))


def _other(world: World, believed: Key) -> tuple[Key, ...] | None:
    """The person whose belief is the likeliest to be told apart: neither the protagonist's nor what is so; else one
    that is not the protagonist's; None where everybody else believes the same or nothing."""
    (question,) = world.questions
    known = {key: _believed(world, (key,)) for key in world.people if key not in question.who}
    held = {key: belief for key, belief in known.items() if belief not in (None, UNKNOWN, believed)}
    real = _believed(world, ())
    chosen = next((key for key, belief in held.items() if belief != real), next(iter(held), None))
    return None if chosen is None else (chosen,)
