"""Variants of items of worlds: each changes the record of a world, and its truth is computed again.

With another protagonist (`recast`), other words for the values (`change_object`) or told to a reader who is the
protagonist (`second_person`), the right choices stay the same, key by key, as the rules know neither names nor words.
The twin (`draw_twin`), in which the protagonist notices what changes, has answers of its own. benchmark.py puts these
together to what perspective-taking is measured by.

For stability (tomserve.variants) the story is rendered with other words for an object or for the protagonist, in
fewer words, in other phrasings, or with sentences in another order. All questions about a story get the same retold
story. An item whose right answer would not be that of its original, choice by choice and with the exception of the
order also after every line, has no variant of that kind.

    >>> from tomserve.benchmarks.worlds.families import BY_NAME
    >>> from tomserve.benchmarks.worlds.lexicon import built_in
    >>> from tomserve.benchmarks.worlds.generator import items
    >>> first = next(items(BY_NAME["transfer"].world(built_in(), "transfer-1-0007", "false_belief"), built_in()))
    >>> made = make_retell()(first, variants.OBJECT)
    >>> made.id, made.answer == first.answer, made.meaning(made.answer) == first.answer
    ('transfer-1-0007/false_belief/00/object', False, True)
"""

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from tomserve import variants
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.generator import items, label, sentences, tell
from tomserve.benchmarks.worlds.lexicon import Lexicon, built_in, expand_phrasing
from tomserve.benchmarks.worlds.record import Gender, Key, Part, Person, Question, Scene, World
from tomserve.benchmarks.worlds.rules import WorldHistory
from tomserve.content.validation import choose_error, explain, place_of
from tomserve.errors import ConfigError, ContentError, InapplicableError, one_of
from tomserve.items import UNKNOWN, Item
from tomserve.variants import text_rules


def find_protagonist(world: World) -> Key:
    """The key of the person whom variants are about. Raises ConfigError for a family that nobody knows."""
    if world.family not in BY_NAME:
        raise ConfigError(f"world {world.name!r}: {one_of('family', world.family, BY_NAME)}")
    return BY_NAME[world.family].protagonist


def read_record(item: Item, path: Path | None = None) -> World:
    """The world that an item was made from. path: the file of the item, to be named in an error. Raises ConfigError for
    an item without a record, or with one that cannot be read; ContentError where the file is known."""
    if item.world is None:
        reason = f"item {item.id!r} has no record of a world; `tomserve generate worlds` writes items that have one"
    else:
        try:
            return World.model_validate(item.world)
        except ValidationError as error:
            first = choose_error(error)
            place = ".".join(map(str, place_of(first, item.world))) or "world"
            reason = f"item {item.id!r}: its record of a world: {place}: {explain(first, item.world, World)}"
    raise ConfigError(reason) if path is None else ContentError(reason, path=path)


def version(
    item: Item, world: World, lexicon: Lexicon, variant: str, *, first: Key | None = None, prefix: str = ""
) -> Item:
    """The item that a world makes of its one question, as a version of another item. variant: the value of the factor,
    which also ends the id. first: key of whom the choices call "I". prefix: what comes before those choices that are
    the same without it. Where choices are worded otherwise than the item's, `meanings` says what they stand for. Raises
    ValueError where the rules settle no answer."""
    made = list(items(world, lexicon, first=first))
    if len(made) != 1:
        raise ValueError(f"item {item.id!r}: as {variant} it has {len(made)} settled questions instead of one")
    (one,) = made
    labels = {label(world, key, first=first): key for key in world.questions[0].choices}
    shown = {
        text: text if key == UNKNOWN or text != label(world, key) else prefix + text for text, key in labels.items()
    }
    choices = tuple(shown[text] for text in one.choices)
    return one.model_copy(
        update={
            "id": f"{item.id}/{variant}",
            "choices": choices,
            "answer": shown[one.answer],
            "gold": one.gold and variants.rename_labels(one.gold, shown),
            "meanings": None if choices == item.choices else item.choices,
            "factors": {**one.factors, "variant": variant},
            "canary": item.canary,
            "base": item.id,
        }
    )


def second_person(world: World) -> World:
    """The world told to a reader who is the protagonist: "you". Only the wording changes."""
    return world.model_copy(update={"second": find_protagonist(world)})


def drop_scenes(world: World, parts: Collection[Part]) -> World:
    """The world without the scenes of these parts; a question about a line is about the last line that is left of it.
    The truth may change with it; whoever drops scenes says what they expect of it."""
    left = [place for place, scene in enumerate(world.scenes) if scene.part not in parts]

    def shift(question: Question) -> Question:
        if question.at is None:
            return question
        return question.model_copy(update={"at": max(0, sum(place <= question.at for place in left) - 1)})

    changed = {"scenes": tuple(world.scenes[place] for place in left), "questions": tuple(map(shift, world.questions))}
    return world.model_copy(update=changed)


def recast(world: World, lexicon: Lexicon) -> World:
    """The world with another protagonist: another name of another culture, another gender, so that all pronouns change.
    The new name begins with another letter than all names of the story."""
    rng = random.Random(f"recast/0/{world.name}")
    key = find_protagonist(world)
    old = world.people[key]
    gender: Gender = "man" if old.gender == "woman" else "woman"
    taken = {person.name[0] for person in world.people.values()}
    offered = sorted(
        (name, block["culture"])
        for block in lexicon.words["names"]
        for name in block["women" if gender == "woman" else "men"]
        if block["culture"] != old.culture and name[0] not in taken
    )
    if not offered:
        raise ContentError(
            f"world {world.name!r}: the words have no other name for its protagonist", path=lexicon.folder
        )
    name, culture = rng.choice(offered)
    people = {**world.people, key: Person(name=name, gender=gender, culture=culture)}
    return world.model_copy(update={"people": people})


def change_object(world: World, lexicon: Lexicon) -> World | None:
    """The world with other words for the values of its facts, each from the list that it was drawn from; None where no
    value has a word from a list."""
    rng = random.Random(f"other_object/0/{world.name}")
    words = dict(world.words)
    for values in world.facts.values():
        keys = [key for key in values if key in world.words]
        texts = {world.words[key] for key in keys}
        found = [one for one in _lists(lexicon, world.family) if texts <= set(one)]
        if not keys or not found:
            continue
        elsewhere = {text for key, text in words.items() if key not in keys}
        offered = [text for text in min(found, key=len) if text not in elsewhere]
        if (chosen := _others(rng, [world.words[key] for key in keys], offered)) is not None:
            words |= dict(zip(keys, chosen, strict=True))
    return world.model_copy(update={"words": words}) if words != world.words else None


def _others(rng: random.Random, old: Sequence[str], offered: Sequence[str]) -> list[str] | None:
    """As many different words, none of them where it was; new ones as far as there are any. None where it cannot be."""
    fresh = [text for text in dict.fromkeys(offered) if text not in old]
    rng.shuffle(fresh)
    again = list(old[len(fresh) :])
    chosen = [*fresh[: len(old)], *again]
    turn = rng.randrange(len(old))
    for step in range(len(old)):
        turned = chosen[(turn + step) % len(old) :] + chosen[: (turn + step) % len(old)]
        if all(new != was for new, was in zip(turned, old, strict=True)):
            return turned
    return None


@lru_cache(maxsize=32)
def _lists(lexicon: Lexicon, family: str) -> tuple[tuple[str, ...], ...]:
    """All lists of texts among the words, and among what the family's file has beside its phrasings."""
    return tuple(_texts([lexicon.words, lexicon.extras(family)]))


def _texts(part: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(part, Mapping):
        for one in part.values():
            yield from _texts(one)
    elif isinstance(part, list) and part and all(isinstance(one, str) for one in part):
        yield tuple(part)
    elif isinstance(part, list):
        for one in part:
            yield from _texts(one)


def draw_twin(world: World, lexicon: Lexicon) -> World | None:
    """The world as its family draws it where the protagonist notices what changes, or is told; None for a scenario
    without twin. Names and words that a variant changed are changed in the twin, too, and its choices stand in the same
    order. Other phrasings and dropped fillers are not carried over: make the twin first. Raises ContentError for a
    world that was drawn from other words or phrasings than the lexicon's."""
    find_protagonist(world)
    family, scenario = BY_NAME[world.family], world.design.get("scenario")
    noticed = family.twin(world.name, str(scenario))
    if noticed is None:
        return None
    before = family.world(lexicon, world.name, str(scenario))
    drawn = iter(before.scenes)
    if not all(any(_scene_content(one) == _scene_content(scene) for one in drawn) for scene in world.scenes):
        raise ContentError(
            f"world {world.name!r} was drawn from other words than these, so that its twin cannot be drawn; "
            "generate it again",
            path=lexicon.folder,
        )
    after = family.world(lexicon, world.name, noticed)
    people = {key: one for key, one in world.people.items() if one != before.people[key]}
    words = {key: one for key, one in world.words.items() if one != before.words.get(key)}
    questions = tuple(
        found for question in world.questions if (found := same_question(question, after.questions)) is not None
    )
    return after.model_copy(
        update={
            "people": after.people | people,
            "words": after.words | words,
            "questions": questions,
            "second": world.second,
        }
    )


def _scene_content(scene: Scene) -> tuple[str, tuple[tuple[str, Key], ...], tuple[str, ...]]:
    return scene.role, tuple(sorted(scene.slots.items())), scene.events


def same_question(question: Question, others: Sequence[Question]) -> Question | None:
    """The one of the others that asks the same, with its choices in the question's order; None where none does."""

    def asks(one: Question) -> tuple[object, ...]:
        return one.kind, one.who, one.fact, one.role, frozenset(one.choices)

    found = [one for one in others if asks(one) == asks(question)]
    found = [one for one in found if one.at == question.at] or found
    found = [one for one in found if one.phrasing == question.phrasing] or found
    return found[0].model_copy(update={"choices": question.choices}) if found else None


def rank_by_digest(texts: Iterable[str], *seed: str) -> list[str]:
    """The texts in an order that follows from the seed alone. Equal texts stay beside each other."""
    beginning = hashlib.blake2b("\x1f".join(seed).encode(), digest_size=16)

    def digest(text: str) -> bytes:
        whole = beginning.copy()
        whole.update(b"\x1f" + text.encode())
        return whole.digest()

    return sorted(texts, key=digest)


AIM = (variants.LEAST + variants.MOST) / 2
"""The share of its words by which a story is made shorter, as nearly as whole sentences allow."""

NO_OBJECT = "no object of the story has other words on the lists"
ONE_PHRASING = "less than half of its sentences have another phrasing"
NOT_SHORTER = "its sentences cannot be told so much more briefly"


def replace_object(world: World, lexicon: Lexicon) -> World:
    """The world with other words for the values of its facts or, where these are no things, with another thing. Each
    new word is from the list of the old one, none of which bears on an answer: no container of these lists is open or
    can be seen through. A causal story gets another detail of its thing, one of what was made another thing that was
    made, and one of a group another matter to settle. Raises InapplicableError where no list has other words."""
    words = _replace_block(world, lexicon)
    if words is not None:
        return world.model_copy(update={"words": world.words | words})
    changed = change_object(world, lexicon)
    if changed is None:
        raise InapplicableError(NO_OBJECT)
    return changed


def _replace_block(world: World, lexicon: Lexicon) -> dict[str, str] | None:
    """Other words for what a family's file describes as a whole; None for a world that has nothing of the kind."""

    def ranked(offered: Iterable[str]) -> list[str]:
        return rank_by_digest(offered, "object", world.name)

    extras, words = lexicon.extras(world.family), world.words
    if "detail" in words:
        offered = _details(lexicon, world.family, words["detail"])
        return {"detail": ranked(offered)[0]} if offered else None
    part, key, name = ("works", "work", "work") if "work" in words else ("settings", "g", "group")
    blocks = {one[name]: one for one in extras.get(part, ()) if one[name] != words.get(key)}
    if key not in words or not blocks:
        return None
    block = blocks[ranked(blocks)[0]]
    if part == "works":
        return {key: str(text) for key, text in block.items()}
    found = {"g": block["group"], "d": block["decider"], "m": block["matter"]}
    for value, text in zip(world.facts["matter"], ranked(block["values"]), strict=False):
        found |= {value: text, f"c_{value}": block["claim"].format(v=f"{{{value}}}")}
        found[f"act_{value}"] = block["act"].format(v=f"{{{value}}}")
    return found


@lru_cache(maxsize=1024)
def _details(lexicon: Lexicon, family: str, detail: str) -> tuple[str, ...]:
    """The other details that a template offers in the place of this one."""
    for template in lexicon.extras(family).get("templates", ()):
        offered = [one for phrasing in template["detail"] for one in expand_phrasing(phrasing)]
        if detail in offered:
            return tuple(one for one in offered if one != detail)
    return ()


def paraphrase(world: World, lexicon: Lexicon) -> World:
    """The world with every sentence in another phrasing of its role: one that its file lists apart, not only another
    alternative within the same one. Raises InapplicableError where less than half of the sentences have one."""
    taken: dict[str, set[str]] = defaultdict(set)
    scenes = []
    for scene in world.scenes:
        offered = lexicon.phrasings(world.family, scene.role)
        number = _choose_other_phrasing(world, scene, "roles", lexicon, taken[scene.role])
        taken[scene.role].add(offered[number % len(offered)])
        scenes.append(scene.model_copy(update={"phrasing": number}))
    if 2 * sum(new.phrasing != old.phrasing for new, old in zip(scenes, world.scenes, strict=True)) < len(scenes):
        raise InapplicableError(ONE_PHRASING)
    return world.model_copy(update={"scenes": tuple(scenes)})


def _choose_other_phrasing(
    world: World, one: Scene | Question, part: str, lexicon: Lexicon, taken: Collection[str] = ()
) -> int:
    """The number of another phrasing than it has, not among those taken while there is one; the same where there is
    none."""
    offered = lexicon.phrasings(world.family, one.role, part)
    old = offered[one.phrasing % len(offered)]
    groups = lexicon.group_phrasings(world.family, one.role, part)
    others = [text for group in groups if old not in group for text in group]
    fresh = [text for text in others if text not in taken] or others
    return offered.index(rank_by_digest(fresh, "paraphrase", world.name, one.role, old)[0]) if fresh else one.phrasing


def condense(world: World, lexicon: Lexicon) -> tuple[World, tuple[int, ...]]:
    """The world in 30 to 40% fewer words, and which of its lines are left: without its fillers, and with so many scenes
    told briefly that the story comes near to AIM. Raises InapplicableError where whole sentences do not allow it."""
    full = [len(text.split()) for text in sentences(world, lexicon)]
    brief = _tell_briefly(world, lexicon)
    short = [len(text.split()) for text in sentences(brief, lexicon)]
    total = sum(full)
    places = [place for place, scene in enumerate(world.scenes) if scene.part != "filler"]
    left = sum(full[place] for place in places)
    told: set[int] = set()
    order = rank_by_digest([str(place) for place in places], "condensed", world.name)
    for place in map(int, order):
        gain = full[place] - short[place]
        if gain > 0 and left > (1 - AIM) * total and left - gain >= (1 - variants.MOST) * total:
            left -= gain
            told.add(place)
    if not (1 - variants.MOST) * total <= left <= (1 - variants.LEAST) * total:
        raise InapplicableError(NOT_SHORTER)
    scenes = tuple((brief if place in told else world).scenes[place] for place in places)
    return world.model_copy(update={"scenes": scenes}), tuple(places)


def _tell_briefly(world: World, lexicon: Lexicon) -> World:
    """The world with every scene told briefly, those of one role by its phrasings in turn."""
    told: Counter[str] = Counter()
    scenes = []
    for scene in world.scenes:
        offered = lexicon.phrasings(world.family, scene.role, "short")
        first = int(rank_by_digest(map(str, range(len(offered))), "short", world.name, scene.role)[0])
        scenes.append(scene.model_copy(update={"told": "short", "phrasing": (first + told[scene.role]) % len(offered)}))
        told[scene.role] += 1
    return world.model_copy(update={"scenes": tuple(scenes)})


_TRUST = ("trusts", "doubts")
_FACES = ("mask_glad", "mask_sad", "open_glad", "open_sad")

PAIRS: Mapping[str, frozenset[tuple[str, str]]] = {
    "contents": frozenset([("box", "people"), ("read", "read"), ("read", "look"), ("look", "read")]),
    "transfer": frozenset(
        [("wants", "absent"), ("wants", "put"), ("leaves", "leaves"), ("goes", "leaves"), ("elsewhere", "elsewhere")]
    ),
    "second_order": frozenset([("wants", "late"), ("late", "absent")]),
    "causal": frozenset([("wants", "wants"), ("view", "ignorant"), ("ignorant", "view")]),
    "appearance": frozenset((one, two) for one in _FACES for two in _FACES),
    "testimony": frozenset([("tells", "tells"), *((one, two) for one in _TRUST for two in _TRUST)]),
    "valley": frozenset([("trust", "replies")]),
}
"""By family the roles of neighbours that may change places: both say who somebody is, what somebody wants, knows or
does apart from the other, and neither names what only the other has introduced."""

_LEANS = re.compile(
    r"^(?:Then|After|Afterwards|Now|And now|Next|Only now|At last|Later(?! today)|Back again|With that|"
    r"The story begins|On the way|Soon|Among those|As all of them)\b|\bthen\b|\bthat is all\b"
)
"""How a sentence leans on the one before it, or on the order in which things happen."""

_UNFIT = {("wants", "put"): re.compile(r"\bbrought\b")}
"""Words for which neighbours of two roles stay where they are: nobody is told to have brought what was put away."""

STUCK = "no two of its sentences can change places"


def reorder_scenes(world: World, story: Sequence[str]) -> tuple[World, tuple[int, ...]]:
    """The world with neighbours in each other's place, and for each new line the old one. story: its sentences. All
    neighbours change places that may, from the first on, none twice. Raises InapplicableError where none may."""
    exchanged: list[int] = []
    leaning = [_LEANS.search(text) is not None for text in story] + [False]
    place = 0
    while place + 1 < len(story):
        roles = world.scenes[place].role, world.scenes[place + 1].role
        unfit = roles in _UNFIT and _UNFIT[roles].search(story[place]) is not None
        if roles in PAIRS.get(world.family, ()) and not unfit and not any(leaning[place : place + 3]):
            exchanged.append(place)
            place += 1
        place += 1
    if not exchanged:
        raise InapplicableError(STUCK)
    new = text_rules.swap_order(len(story), exchanged)
    return world.model_copy(update={"scenes": tuple(world.scenes[place] for place in new)}), new


NO_RECORD = "it has no record of its world"
NO_FAMILY = "its world is of a family that nobody knows"
OTHER_WORDS = "its record tells another story than its own"
SAME = "two of its choices would be called the same"
UNSETTLED = "the rules settle no answer after some of its lines"
MOMENT = "it asks about a moment between two sentences that change places"

STORIES = 256
"""So many stories are kept as they are told in one way, for the questions about them that follow."""


def make_retell(path: Path | None = None) -> variants.Retell:
    """The function that makes variants of items of worlds. path: not used, as every item carries its own record."""
    return _retell


def retell_world(world: World, kind: variants.Kind, lexicon: Lexicon) -> tuple[World, tuple[int, ...]]:
    """The world as a variant tells it, and for each of its lines the 0-based line of the original. The questions stay
    as they were; `retell_question` fits them to the new lines and phrasings. Raises InapplicableError with the reason
    where the world cannot be told so."""
    every = tuple(range(len(world.scenes)))
    if kind == variants.OBJECT:
        return replace_object(world, lexicon), every
    if kind == variants.PERSON:
        return recast(world, lexicon), every
    if kind == variants.CONDENSED:
        return condense(world, lexicon)
    if kind == variants.PARAPHRASE:
        return paraphrase(world, lexicon), every
    if kind == variants.ORDER:
        return reorder_scenes(world, sentences(world, lexicon))
    raise InapplicableError(f"the records of worlds know no variant {kind.name!r}")


def retell_question(
    world: World, question: Question, kind: variants.Kind, places: tuple[int, ...], lexicon: Lexicon
) -> Question:
    """The question as the retold world asks it. world: the retold one. places: as from `retell_world`. Raises
    InapplicableError where the moment that it asks about is none of the new story."""
    if question.at is not None:
        after = {place for place in places if place <= question.at}
        if not after or set(places[: len(after)]) != after:
            raise InapplicableError(MOMENT)
        question = question.model_copy(update={"at": len(after) - 1})
    if kind != variants.PARAPHRASE:
        return question
    return question.model_copy(update={"phrasing": _choose_other_phrasing(world, question, "questions", lexicon)})


def _retell(item: Item, kind: variants.Kind) -> Item:
    """A variant of an item. Raises InapplicableError with the reason where there is none."""
    world, own = _original(orjson.dumps(item.world))
    if (item.story, item.question, item.choices, item.answer) != (own.story, own.question, own.choices, own.answer):
        raise InapplicableError(OTHER_WORDS)
    changed, places, told = _tell_otherwise(orjson.dumps({**(item.world or {}), "questions": []}), kind)
    question = retell_question(changed, world.questions[0], kind, places, built_in())
    changed = changed.model_copy(update={"questions": (question,)})
    if len({label(changed, key) for key in question.choices}) < len(question.choices):
        raise InapplicableError(SAME)
    new = next(items(changed, built_in(), told=told), None)
    if new is None or new.factors["answer_key"] != own.factors["answer_key"]:
        raise InapplicableError(variants.CHANGES_TRUTH)
    gold = None
    if item.gold is not None and item.gold.sets is not None:
        if (gold := new.gold) is None:
            raise InapplicableError(UNSETTLED)
        before = variants.rename_labels(gold, dict(zip(new.choices, own.choices, strict=True))).sets or ()
        # Where the lines that are left stand in their old order, the answers after each of them must be the old ones.
        if kind != variants.ORDER and any(
            item.gold.sets[place] != now for place, now in zip(places, before, strict=True)
        ):
            raise InapplicableError(variants.CHANGES_TRUTH)
    made = variants.make_variant(
        item, kind, by=variants.RECORD, story=new.story, question=new.question, choices=new.choices, gold=gold
    )
    factors = {name: new.factors[name] for name in ("sentences", "reality") if name in item.factors}
    return made.model_copy(update={"factors": made.factors | factors})


@variants.remember_reasons(STORIES)
def _original(record: bytes) -> tuple[World, Item]:
    """The world of a record, given as JSON, and the item that it makes. Raises InapplicableError for one that cannot be
    told again."""
    try:
        world = World.model_validate(orjson.loads(record))
        (_,) = world.questions
    except ValueError:
        raise InapplicableError(NO_RECORD) from None
    if world.family not in BY_NAME:
        raise InapplicableError(NO_FAMILY)
    try:
        (own,) = items(world, built_in())
    except (ValueError, ContentError):
        raise InapplicableError(OTHER_WORDS) from None
    return world, own


@variants.remember_reasons(8 * STORIES)
def _tell_otherwise(
    story: bytes, kind: variants.Kind
) -> tuple[World, tuple[int, ...], tuple[tuple[str, ...], WorldHistory]]:
    """A story told in one way (see `retell_world` and `tell`). story: the record of its world without questions, as
    JSON."""
    changed, places = retell_world(World.model_validate(orjson.loads(story)), kind, built_in())
    return changed, places, tell(changed, built_in())
