"""Made-up cases in very plain words, for models whose mechanism is known (see tests.helpers.subjects).

>>> case = cases(2)[0]
>>> case.f.choices[case.false_choice], case.f.choices[case.true_choice]
('soap', 'beans')

There are two families: "contents", where what is in a box is swapped, and "transfer", where a ball is moved. What
matters is said by phrases that the subjects' tokenizer takes for one token each (PHRASES), such as "fills it with tea".
"""

import random
from dataclasses import dataclass, replace
from pathlib import Path

from tomserve.benchmarks.counterfactuals import PARTED, Case
from tomserve.benchmarks.worlds.benchmark import find_world_cases
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.items import UNKNOWN, Item

LABELS = {
    "contents": "tea salt rice sand flour sugar beans nuts corn wool soap coins",
    "transfer": "attic cellar garage kitchen pantry shed porch hall loft barn study orchard",
}
FAMILIES = {family: labels.split() for family, labels in LABELS.items()}
"""The labels of each family."""

NAMES = ["Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jon", "Kim", "Lea"]
FEELINGS = ["warm", "cold", "calm", "tired", "proud", "merry", "shy", "bold"]
"""What only the twin told to "you" says: how one feels."""
FILLERS = ("The sun shines.", "A dog barks.", "It is late.", "Rain falls.")


@dataclass(frozen=True, slots=True)
class Words:
    """The phrases of a family in two wordings, which say the same: of what is put somewhere by somebody ("fills it
    with"), or by "you" ("fill it with"); of what is noticed, likewise; of what goes unnoticed; and of the change."""

    found: str
    put: tuple[str, str]
    you_put: tuple[str, str]
    saw: tuple[str, str]
    you_saw: tuple[str, str]
    missed: tuple[str, str]
    changed: str
    question: str
    own_question: str


PHRASES = {
    "contents": Words(
        *("a box", ("fills it with", "loads it with"), ("fill it with", "load it with")),
        *(("notices the", "spots the"), ("notice the", "spot the"), ("not notice the", "not spot the")),
        *("swaps it for", "What does {name} believe is in the box?", "What do you believe is in the box?"),
    ),
    "transfer": Words(
        *("a ball", ("puts it in the", "sets it in the"), ("put it in the", "set it in the")),
        *(("looks at the", "peeks at the"), ("look at the", "peek at the"), ("not look at the", "not peek at the")),
        *("moves it to the", "Where does {name} believe the ball is?", "Where do you believe the ball is?"),
    ),
}


def cases(count: int = 160, seed: int = 1) -> list[Case]:
    """So many cases, one a scenario, whose families take turns; the same ones for a seed."""
    return [_case(number, random.Random(f"{seed}/{number}")) for number in range(count)]


def released(family: str, number: int) -> Case:
    """The first case of the release's world of that family and number."""
    world = BY_NAME[family].world(built_in(), f"{family}-1-{number:04}", "false_belief")
    first = next(one for one in find_world_cases(world, built_in()) if isinstance(one, Case))
    return replace(first, twin=None)


def write_items(path: Path, count: int = 160, seed: int = 1) -> Path:
    """Write the cases as a file of items with versions, as `tomserve causal --items FILE` reads it; returns the path.

    What is named last is not what is believed in f, and is the same in its twin.
    """
    lines = []
    for case in cases(count, seed):
        f = case.f.model_copy(update={"factors": {"family": case.family, PARTED: "named last", **case.holders}})
        lines += [item.to_json() + b"\n" for item in (f, case.own, case.own_twin, case.twin) if item is not None]
    path.write_bytes(b"".join(lines))
    return path


def _case(number: int, rng: random.Random) -> Case:
    family = list(FAMILIES)[number % len(FAMILIES)]
    words, (first, last) = PHRASES[family], rng.sample(FAMILIES[family], 2)
    (name, other), wording, watches = rng.sample(NAMES, 2), rng.randrange(2), rng.random() < 0.5
    filler = rng.sample(FILLERS, rng.randrange(3))
    choices = rng.sample([first, last, UNKNOWN], 3)
    changes = [f"Somebody {words.changed} {last}.", f"{other} {'watches' if watches else 'sleeps'}."]
    theirs = [f"{name} finds {words.found}.", *filler, f"{name} {words.put[wording]} {first}.", f"{name} goes away."]
    yours = [f"You find {words.found}.", *filler, f"You {words.you_put[wording]} {first}.", "You go away."]
    felt = f"You feel {rng.choice(FEELINGS)}."
    base = f"{family}/{number:03}"

    def item(variant: str | None, story: list[str], answer: str) -> Item:
        own = variant in ("ppt_p", "ppt_p_twin")
        return Item(
            id=f"{base}/{variant}" if variant else base, story=story,
            question=words.own_question if own else words.question.format(name=name), choices=choices, answer=answer,
            cluster=base, factors={"variant": variant} if variant else {}, **({"base": base} if variant else {}),
        )  # fmt: skip

    return Case(
        item(None, [*theirs, *changes, f"{name} does {words.missed[wording]} {last}."], first),
        item("ppt_p", yours, first),
        item("ppt_p_twin", [*yours, *changes, f"You {words.you_saw[wording]} {last}.", felt], last),
        item("ppt_twin", [*theirs, *changes, f"{name} {words.saw[wording]} {last}."], last),
        family,
        {
            **{"protagonist": first, "other": last if watches else None, "reality": last},
            **{"protagonist_in_twin": last, "other_in_twin": last if watches else None, "reality_in_twin": last},
        },
    )
