"""The design that a search explores: for each benchmark with a generator its factors, and an endless stream of stories.

A cell is a level of one factor, or one level each of two:

>>> cell = parse_cell("family=transfer & missed=2")
>>> describe_cell(cell, DESIGNS["worlds"].factors)
'where the story is of the family transfer and the person asked about missed the last 2 changes'
>>> write_cell(cell)
'family=transfer & missed=2'
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from random import Random
from typing import Any

from tomserve import benchmarks
from tomserve.errors import ConfigError, InapplicableError, one_of
from tomserve.items import Item
from tomserve.items.item import factor_text
from tomserve.variants import CHOICES, CONDENSED, OBJECT, ORDER, PARAPHRASE, PERSON, Kind, Retell, make_variants

Cell = tuple[tuple[str, str], ...]  # one or two factors, each with its level

Levels = Mapping[str, str]  # the level of each factor of one question
ReadLevels = Callable[[Item], Mapping[str, Any]]
Stories = Callable[[int, bool, Sequence[str]], Iterator[list[Item]]]


@dataclass(frozen=True)
class Design:
    """What can be varied in the questions of a benchmark."""

    # Each factor with what a sentence says of a level, which stands for {}; "{}|one|many" by whether the level is 1
    factors: Mapping[str, str]
    # Yields stories without end by a seed: of each all its questions in all its tellings. The flag asks for phrasings
    # that the stories without the flag never have, where the benchmark has several; the names are those of the families
    # that the stories are drawn from, where it has any.
    stories: Stories
    levels: ReadLevels  # the levels of the factors that items do not have yet
    same: Callable[[Item], Hashable]  # what the same question has in common in two tellings of a story

    def read_levels(self, item: Item) -> dict[str, str]:
        """The level of each factor."""
        found = {**item.factors, **self.levels(item)}
        return {name: factor_text(found.get(name)) for name in self.factors}

    def find_twin(self, item: Item, told: Sequence[Item]) -> Item | None:
        """The same question in another telling of the story, with another right answer; None where there is none. told:
        the questions of all tellings."""
        key, own = self.same(item), (item.story, item.factors.get("answer_key", item.answer))
        return next(
            (
                one
                for one in told
                if one.story != own[0] and one.factors.get("answer_key", one.answer) != own[1] and self.same(one) == key
            ),
            None,
        )


def find_design(benchmark: str) -> Design:
    """The design of a benchmark. Raises ConfigError that lists those that have one."""
    if benchmark not in DESIGNS:
        raise ConfigError(f"{one_of('--benchmark', benchmark, DESIGNS)}; a search needs a benchmark with a generator")
    return DESIGNS[benchmark]


def write_cell(cell: Cell) -> str:
    """A cell as text, which `parse_cell` reads."""
    return " & ".join(f"{name}={level}" for name, level in cell)


def parse_cell(text: str) -> Cell:
    """The cell of a text; parts without a level are left out, as the text may be a stranger's."""
    parts = (part.partition("=") for part in text.split(" & "))
    return tuple((name, level) for name, equals, level in parts if equals)


def describe_cell(cell: Cell, factors: Mapping[str, str]) -> str:
    """A cell in words. factors: of the design."""
    said = []
    for name, level in cell:
        text, *forms = factors.get(name, f"{name} is {{}}").split("|")
        word = forms[level != "1"] if forms else ""
        said.append(text.replace("{}", level.replace("_", " ")).replace("[]", word))
    return f"where {' and '.join(said)}"


def count_level(number: int, most: int = 2) -> str:
    """A number as a level; those from `most` on are one level."""
    return str(number) if number < most else f"{most} or more"


def place_level(item: Item) -> dict[str, str]:
    """Where the right answer stands among the choices, and how late the story names it among them."""
    at = item.choices.index(item.answer)
    place = "first" if not at else "last" if at == len(item.choices) - 1 else "neither first nor last"
    text = " ".join(item.story).casefold()
    named = {choice: text.rfind(choice.casefold()) for choice in item.choices}
    latest = max(named.values())
    mention = "not at all" if named[item.answer] < 0 else "last" if named[item.answer] == latest else "earlier"
    return {"position": place, "mention": mention}


def length_level(lines: int, short: int, middle: int) -> str:
    """The length of a story in words. short, middle: the lines of such a story at most."""
    return "short" if lines <= short else "of middle length" if lines <= middle else "long"


def tell_otherwise(
    told: list[Item], kinds: Sequence[Kind], seed: str, retell: Retell, levels: ReadLevels
) -> list[Item]:
    """The questions of a story as they are or, for half of the stories, as a variant whose kind is the level of the
    factor TELLING (see tomserve.variants). A question that no variant can be made of is left out then."""
    dice = Random(seed)
    if dice.random() >= 0.5:
        return told
    kind, before, found = dice.choice(kinds), {item.id: item for item in told}, []
    for made in make_variants(told, (kind,), lambda _: retell):
        if isinstance(made, Item) and made.base is not None:
            item = before[made.base]
            factors = {**item.factors, **levels(item), TELLING: kind.name}
            made = made.model_copy(update={"base": None, "meanings": None, "factors": factors})
            found.append(made.model_copy(update={"factors": {**factors, **levels(made)}}))
    return found or told


TELLING = "telling"
CHANGES = (OBJECT, PERSON, CONDENSED, CHOICES, ORDER)
"""How a story may be retold. Other words are no level, as all fresh stories have them."""

SHARED = {
    TELLING: "the story is told in the way “{}”",
    "order": "the belief is of order {}",
    "position": "the right answer stands {} among the choices",
    "mention": "of the choices the right answer is named {}",
}
"""Factors that several benchmarks have, with what a sentence says of a level."""


WORLDS = {
    "family": "the story is of the family {}",
    "dimension": "the question is about {}",
    "condition": "the belief asked about is a {}",
    **SHARED,
    "moves": "the fact changes {} [] after the beginning|time|times",
    "missed": "the person asked about missed the last {} []|change|changes",
    "seen_by": "{} [] the last change|person sees|people see",
    "hearsay": "somebody tells a person of it: {}",
    "fillers": "{} [] without bearing on the answer|sentence is|sentences are",
    "length": "the story is {}",
    "options": "there are {} choices",
}


def _worlds_stories(seed: int, fresh: bool, families: Sequence[str]) -> Iterator[list[Item]]:
    from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
    from tomserve.benchmarks.worlds.generator import draw_worlds, items
    from tomserve.benchmarks.worlds.lexicon import built_in

    lexicon = built_in()
    chosen = [BY_NAME[name] for name in families] or FAMILIES
    tellings = draw_worlds(lexicon, 1_000_000, seed, chosen)
    retell = benchmarks.retelling(benchmarks.get("worlds"))("worlds")
    for number, (_, worlds) in enumerate(groupby(tellings, key=lambda world: world.name)):
        told = [item for world in worlds for item in items(_choose_phrasings(world, lexicon, fresh), lexicon)]
        yield tell_otherwise(told, CHANGES, f"{seed}/{number}/telling", retell, _worlds_levels)


def _choose_phrasings(world: Any, lexicon: Any, fresh: bool) -> Any:
    """The world told by the first half of the phrasings of each role, or, fresh, by the second half."""

    def choose(role: str, part: str, phrasing: int) -> int:
        groups = lexicon.group_phrasings(world.family, role, part)
        border, whole = sum(map(len, groups[: (len(groups) + 1) // 2])), sum(map(len, groups))
        if border == whole:
            return phrasing
        return border + phrasing % (whole - border) if fresh else phrasing % border

    scenes = tuple(one.model_copy(update={"phrasing": choose(one.role, "roles", one.phrasing)}) for one in world.scenes)
    questions = tuple(
        one.model_copy(update={"phrasing": choose(one.role, "questions", one.phrasing)}) for one in world.questions
    )
    return world.model_copy(update={"scenes": scenes, "questions": questions})


def _worlds_levels(item: Item) -> dict[str, Any]:
    shown = {"length": length_level(len(item.story), 10, 12), **place_level(item)}
    if TELLING in item.factors:  # a retold story has the other levels of the one before
        return shown
    record = item.world or {}
    (question,) = record["questions"]
    fact, asked = question["fact"], (question.get("who") or [""])[-1]
    scenes = record["scenes"]
    moves, hearsay, seen, missed = -1, False, set[str](), dict[str, int]()
    for event in (event for scene in scenes for event in scene.get("events", ())):
        kind, _, rest = event.partition(" ")
        people = {name.strip(", ") for name in rest.partition(" seen ")[2].split()}
        if kind == "fact" and rest.startswith(f"{fact}="):
            moves, seen = moves + 1, people
            missed = {name: missed.get(name, 0) + (moves > 0) for name in record["people"] if name not in people}
        elif kind in ("see", "alone") and rest.endswith(f" {fact}"):
            seen = seen | {name.strip(",") for name in rest.split()[:-1]}
            missed = {name: number for name, number in missed.items() if name not in seen}
        hearsay |= kind == "tell" and not rest.startswith("-")
    return {
        TELLING: "original",
        "moves": count_level(moves, 3),
        "missed": count_level(missed.get(asked, 0), 3) if asked else None,
        "seen_by": count_level(len(seen), 3),
        "hearsay": hearsay,
        "fillers": count_level(sum(scene.get("part") == "filler" for scene in scenes)),
        **shown,
    }


PERTURBED = {
    "perturbation": "the perturbation is {}",
    "kind": "the story is one of {}",
    "scenario": "the scenario is {}",
    "question_kind": "the question is about {}",
    "answer_role": "the right answer is the {} one",
    "critical_form": "the critical line is told: {}",
    "length": "the story is {}",
    **{name: text for name, text in SHARED.items() if name != "order"},
}


def _perturbed_stories(seed: int, fresh: bool, families: Sequence[str]) -> Iterator[list[Item]]:
    """Every edition tells each stage with other names, labels and things, by the released wordings or, fresh, by the
    others."""
    del families
    from tomserve.benchmarks.perturbed.fresh import mark_fresh, order_by_key, read_names
    from tomserve.benchmarks.perturbed.stages import SECOND, load_stages
    from tomserve.benchmarks.perturbed.variants import tell_anew

    names, stages = read_names(), {stage.file.stage: stage for stage in load_stages(None, SECOND)}
    for edition in count():
        of_edition = seed * 1000 + edition
        for stage in order_by_key(stages, of_edition, "stages"):
            told, maker = tell_anew(stages[stage], of_edition, names, other=fresh)
            tasks = {task: list(group) for task, group in groupby(told.items(), key=lambda item: item.cluster)}
            for task in order_by_key(tasks, of_edition, "tasks"):
                key = f"{of_edition}/{task}/telling"
                made = tell_otherwise(tasks[task], (CONDENSED, CHOICES, ORDER), key, maker.retell, _perturbed_levels)
                marked = mark_fresh(made, told, of_edition)
                yield [item.model_copy(update={"cluster": f"{item.cluster}/{of_edition}"}) for item in marked]


def _perturbed_levels(item: Item) -> dict[str, Any]:
    told = item.factors.get(TELLING, "original")
    return {TELLING: told, "length": length_level(len(item.story), 6, 9), **place_level(item)}


HITOM = {
    **SHARED,
    "length": "the story has {} []|chapter|chapters",
    "twin_kind": "the agents' claims are {}",
    "tell_relevant": "a claim decides the answer: {}",
    "equals_reality": "the right answer is where the object really is: {}",
    "equals_first_order": "the innermost agent alone believes the same: {}",
    "order_sensitive": "the order of the agents matters: {}",
    "containers": "the story names {} containers",
    "distractors": "{} [] without bearing on the answer|sentence is|sentences are",
    "lines": "the story has {} sentences",
}


def _hitom_stories(seed: int, fresh: bool, families: Sequence[str]) -> Iterator[list[Item]]:
    """Stories with their twins, in the released words or, fresh, in those of paraphrases."""
    del families
    from tomserve.benchmarks.hitom.generator import generate
    from tomserve.benchmarks.hitom.plan import TWINS, Plan

    retell = benchmarks.retelling(benchmarks.get("hitom"))("hitom")
    say = partial(_say_otherwise, retell=retell) if fresh else lambda item: item
    for edition in count():
        plan = Plan(stories=100 * len(TWINS), seed=seed * 1000 + edition, tells=(2,), twins=True).check()
        for number, rows in enumerate(generate(plan)):
            told, key = list(map(Item.model_validate, rows)), f"{seed}/{edition}/{number}/telling"
            yield list(map(say, tell_otherwise(told, CHANGES, key, retell, _hitom_levels)))


def _say_otherwise(item: Item, retell: Retell) -> Item:
    """The question in other words; as it is where it is condensed, which has words of its own."""
    with contextlib.suppress(InapplicableError):
        made = retell(item, PARAPHRASE)
        return item.model_copy(update={"story": made.story, "question": made.question})
    return item


def _hitom_levels(item: Item) -> dict[str, Any]:
    if TELLING in item.factors:
        return place_level(item)
    lines, containers = (int(str(item.factors[name])) for name in ("n_lines", "n_containers_mentioned"))
    return {
        TELLING: "original",
        "lines": "up to 20" if lines <= 20 else "21 to 35" if lines <= 35 else "36 or more",
        "containers": "up to 4" if containers <= 4 else "5 to 7" if containers <= 7 else "8 or more",
        "distractors": count_level(int(str(item.factors["n_distractors"]))),
        **place_level(item),
    }


DESIGNS = {
    "worlds": Design(
        WORLDS,
        _worlds_stories,
        _worlds_levels,
        lambda item: (item.id.split("/")[2], *map(item.factors.get, ("kind", "asked", "task"))),
    ),
    "perturbed-2": Design(
        PERTURBED,
        _perturbed_stories,
        _perturbed_levels,
        lambda item: tuple(map(item.factors.get, ("question_kind", "swapped"))),
    ),
    "hitom": Design(HITOM, _hitom_stories, _hitom_levels, lambda item: item.question),
}
"""The designs by the name of their benchmark."""
