"""Shortcut baselines, audit and validation of worlds: what readers get who follow nobody's mind.

Their names stand in the tables of ``tomserve dataset audit worlds``, and the rules of RULES beside every accuracy.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from zlib import crc32

import polars as pl

from tomserve.benchmarks.base import Findings, outcome
from tomserve.benchmarks.learned_baselines import predict_held_out
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.generator import Release, draw_worlds, items, load_release
from tomserve.benchmarks.worlds.lexicon import AN, Lexicon, built_in
from tomserve.benchmarks.worlds.record import World
from tomserve.benchmarks.worlds.rules import Case, answer
from tomserve.errors import ContentError
from tomserve.items import UNKNOWN, Item, items_digest
from tomserve.scoring.baselines import GENERIC, Baseline, list_mentions

FOLDS = 5
"""Into how many parts the worlds are split for what is learned: each part is answered by what the others taught."""

BAG = "bag of words"
"""The name of the reader that is learned."""

_WORD = re.compile(r"\w+")


def reality(item: Item) -> str | None:
    """What is really so; None where the item does not say or that is no choice."""
    real = item.factors.get("reality")
    return real if isinstance(real, str) and real in item.choices else None


def beside_the_name(item: Item) -> str | None:
    """The choice that is named last in the last sentence that names both a choice and whoever is asked about last in
    the question."""
    people = _people(item)
    asked = [name for name in _WORD.findall(item.question) if name in people]
    for sentence in reversed(item.story):
        if asked and asked[-1] in sentence:
            found = [choice for choice in item.choices if choice in sentence]
            if found:
                return max(found, key=sentence.rfind)
    return None


OMNISCIENT = "everybody knows all"
"""The name of the reader who goes by the rules, but takes everybody to know what is really so."""


class _AllKnow(Case):
    """A case in which everybody believes what is really so."""

    __slots__ = ()

    def find_belief(self, who: tuple[str, ...] | None = None, at: int | None = None) -> str:
        del who
        return super().find_belief((), at)


def all_knowing(item: Item) -> str | None:
    """The answer by the rules, were everybody to know what is really so; None where they settle none."""
    if not item.world:
        return None
    world = World.model_validate(item.world)
    question = world.questions[0]
    found = answer(world, question, case=_AllKnow)
    return item.choices[question.choices.index(found)] if found is not None else None


def second_mentioned(item: Item) -> str | None:
    """The choice that the story mentions second; None where it mentions fewer."""
    found = list(dict.fromkeys(list_mentions(item)))
    return found[1] if len(found) > 1 else None


RULES = (
    Baseline("always reality", reality, "constant"),
    Baseline("beside the name", beside_the_name),
    Baseline("longest choice", lambda item: max(item.choices, key=len)),
    Baseline("shortest choice", lambda item: min(item.choices, key=len)),
)
"""The rules of the benchmark's field `rules`."""

MENTIONED = {rule.name: rule.answer for rule in GENERIC if rule.name.endswith("mentioned")}
LOOKING: Mapping[str, Callable[[Item], str | None]] = {
    "first mentioned": MENTIONED["first mentioned"],
    "second mentioned": second_mentioned,
    **MENTIONED,
    **{rule.name: rule.answer for rule in RULES},
}
"""The readers that need no fit, by name."""


def _people(item: Item) -> dict[str, str]:
    """The names of the people of an item's world, each with the word that stands for it: by order in the story."""
    record = item.world or {}
    names = [str(person["name"]) for person in record.get("people", {}).values()]
    text = " ".join(item.story)
    found = sorted((name for name in names if name in text), key=text.index)
    return {name: f"person{place}" for place, name in enumerate(found)}


def roles(items: Sequence[Item]) -> Callable[[Item], dict[str, str]]:
    """A function that gives an item's choices by what can be seen of them without knowing the answer. items: those of
    one class. A choice that is the same in at least a tenth of them, such as "glad" or "unknown", is known by itself;
    the others by the order in which the story mentions them first, or in which they are listed. All items get the same
    names, with an empty text where an item has no such choice."""
    common = Counter(choice for item in items for choice in item.choices)
    fixed = sorted(choice for choice, count in common.items() if count * 10 >= len(items))
    most = max(len(item.choices) for item in items)
    names = [
        *(f"={choice}" for choice in fixed),
        *(f"mentioned{k}" for k in range(most)),
        *(f"place{k}" for k in range(most)),
    ]

    def of(item: Item) -> dict[str, str]:
        found = dict.fromkeys(names, "")
        seen = [choice for choice in dict.fromkeys(list_mentions(item)) if choice not in fixed]
        for place, choice in enumerate(seen):
            found[f"mentioned{place}"] = choice
        rest = [choice for choice in item.choices if choice not in fixed and choice not in seen]
        for place, choice in enumerate(rest):
            found[f"place{place}"] = choice
        for choice in item.choices:
            if choice in fixed:
                found[f"={choice}"] = choice
        return found

    return of


def bag_of_words(items: Sequence[Item]) -> dict[str, str]:
    """The answers of a bag of words by item id: how often each word occurs in story and question, learned on other
    worlds. items: those of one class. People and choices are known by their order in the story."""
    known = roles(items)

    def words(item: Item) -> list[str]:
        named = {choice: role for role, choice in known(item).items() if choice and choice != UNKNOWN}
        people = _people(item)
        story, question = _mask_words(" ".join(item.story), named, people), _mask_words(item.question, named, people)
        return [*story, *question, *(f"? {word}" for word in question)]

    split = [
        item.model_copy(update={"factors": {"stage": str(crc32(item.cluster.encode()) % FOLDS)}}) for item in items
    ]
    return predict_held_out(split, words, known)


def _mask_words(text: str, labels: Mapping[str, str], people: Mapping[str, str]) -> list[str]:
    """The words of a text in small letters, with labels and names by what stands for them."""
    for label in sorted(labels, key=len, reverse=True):
        text = text.replace(label, re.sub(r"\W", "", labels[label]))
    return [people.get(word) or word.casefold() for word in _WORD.findall(text)]


PHRASINGS = 8
"""How many phrasings a role must have."""

SAMPLE = 25
"""How many worlds of each family are told with every phrasing in turn."""

_SLIP = re.compile(r"[{}|]|\s{2}|\s[,.;:?!]|,\.|\.\.|\b(\w+) \1\b(?<!had had)")
"""What no sentence may have: open slots and alternatives, stray spaces and stops, a word twice."""


def validate_worlds(own: Sequence[Item] | None) -> Findings:
    """The check as lines: a line for each family, a line for each problem, and a summary; the exit code is 1 for
    problems. own: the items of the release; None where a file was given instead, so that only the phrasings are
    checked."""
    lexicon, listed, lines = built_in(), list[str](), list[str]()
    for family in FAMILIES:
        told = list(draw_worlds(lexicon, SAMPLE, 0, [family]))
        checks = (*find_few_phrasings(told, lexicon), *find_missing_brief(told, lexicon), *find_slips(told, lexicon))
        listed += [f"{family.name}: {problem}" for problem in checks]
        listed += [f"{family.name}: {problem}" for problem in find_unsettled(told, lexicon)]
        roles = {scene.role for world in told for scene in world.scenes}
        lines.append(f"{family.name}: {len(roles)} roles of sentences, scenarios {', '.join(family.scenarios)}")
    listed, counted = list(dict.fromkeys(listed)), ""
    if own is not None:
        listed += check_release(own, load_release())
        counted = f"{len(own):,} questions, {items_digest(iter(own))[:19]}: "
    return Findings.of_problems(listed, f"{counted}{outcome(listed)}", before=lines)


def find_few_phrasings(told: Sequence[World], lexicon: Lexicon) -> Iterator[str]:
    """A sentence for each role of these worlds that has too few phrasings."""
    for world in told:
        asked = {(question.role, "questions") for question in world.questions}
        for role, part in sorted({(scene.role, "roles") for scene in world.scenes} | asked):
            count = len(lexicon.phrasings(world.family, role, part))
            if count < PHRASINGS:
                yield f"{part} {role!r} has {count} phrasings; expected at least {PHRASINGS}"


def find_missing_brief(told: Sequence[World], lexicon: Lexicon) -> Iterator[str]:
    """A sentence for each role of these worlds that is not said briefly, or not of everybody and everything that the
    scene is about. A brief phrasing has the slots that the scene fills and all longer phrasings have; what is the same
    all over the world may be left out. It has no slot that none of them has."""
    said = dict.fromkeys((world.family, scene.role, frozenset(scene.slots)) for world in told for scene in world.scenes)
    for family, role, filled in said:
        full = [phrasing_slots(phrasing) for phrasing in lexicon.phrasings(family, role)]
        try:
            short = lexicon.phrasings(family, role, "short")
        except ContentError as error:
            yield error.reason
            continue
        wanted, known = filled & frozenset.intersection(*full), frozenset.union(*full)
        for phrasing in short:
            if missing := wanted - phrasing_slots(phrasing):
                yield f"the brief phrasing {phrasing!r} of {role!r} does not name {sorted(missing)[0]!r}"
            if strange := phrasing_slots(phrasing) - known:
                yield f"the brief phrasing {phrasing!r} of {role!r} names {sorted(strange)[0]!r}, as no longer one does"


def phrasing_slots(phrasing: str) -> frozenset[str]:
    """The slots of a phrasing."""
    return frozenset(re.findall(r"\{(\w+)", phrasing))


def find_slips(told: Sequence[World], lexicon: Lexicon) -> Iterator[str]:
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


def find_unsettled(told: Sequence[World], lexicon: Lexicon) -> Iterator[str]:
    """A sentence for each question of these worlds that the rules do not settle, though it is in the record."""
    for world in told:
        settled = {item.id for item in items(world, lexicon)}
        if missing := len(world.questions) - len(settled):
            yield f"{world.name}: {missing} of {len(world.questions)} questions are not settled by the rules"


def check_release(own: Sequence[Item], release: Release) -> Iterator[str]:
    """A sentence where these items are not those of the release: words, phrasings or code have changed since."""
    if (found := items_digest(iter(own))) != release.digest or len(own) != release.items:
        yield (
            f"these are {len(own):,} items with the digest {found}, not {release.name} with {release.items:,} and "
            f"{release.digest}: words, phrasings or rules differ from the release, so call them by another name"
        )


MARGIN = 0.05
"""By how much a reader may be better than chance in a class."""

CONSTANT = "best constant"
"""The reader that always gives the choice that is right most often in the class: a label, or a place in the list."""

NOTES = {
    "right": "The share of right answers in each class of question (family, task, dimension) of readers who follow "
    "nobody's mind. chance: one over the number of choices, averaged. A reader of kind learned answers each fifth of "
    f"the worlds as the others taught it. {OMNISCIENT}: whoever follows wishes, acts and feelings by the rules, but "
    "takes everybody to know what is really so; that is a reader of minds, for whom the goal does not hold, and shows "
    "how much of a class hangs on beliefs that differ from the world.",
    "balance": "How often the choice of each kind is right: by its place in the list, and by the key of its value in "
    "the record of its world.",
}
GOAL = (
    f"No reader shall be right more often than chance plus {MARGIN:.2f} in a class, unless the class says why. A class "
    "that is too small to tell counts as good while chance plus this margin and three standard errors covers its share."
)


def group_classes(items: Iterable[Item]) -> dict[tuple[str, str, str], list[Item]]:
    """Items by family, task and dimension."""
    found: dict[tuple[str, str, str], list[Item]] = defaultdict(list)
    for item in items:
        found[tuple(str(item.factors.get(name)) for name in ("family", "task", "dimension"))].append(item)  # type: ignore[index]
    return dict(sorted(found.items()))


def count_right(items: Sequence[Item]) -> pl.DataFrame:
    """One row for each class and reader: right, total and chance."""
    rows = []
    for (family, task, dimension), members in group_classes(items).items():
        chance = sum(1 / len(item.choices) for item in members) / len(members)
        for reader, right in _readers(members):
            known = {"family": family, "task": task, "dimension": dimension, "reader": reader}
            rows.append({**known, "right": right, "total": len(members), "chance": chance})
    return pl.DataFrame(rows)


def _readers(items: Sequence[Item]) -> Iterator[tuple[str, int]]:
    """The names of all readers, and how many of these items each has right."""
    places = Counter(item.choices.index(item.answer) for item in items)
    known = roles(items)
    fixed = Counter(
        role for item in items for role, label in known(item).items() if label == item.answer and role[0] == "="
    )
    yield CONSTANT, max([*places.values(), *fixed.values()])
    for name, rule in LOOKING.items():
        yield name, sum(rule(item) == item.answer for item in items)
    yield OMNISCIENT, sum(all_knowing(item) == item.answer for item in items)
    answers = bag_of_words(items)
    yield BAG, sum(answers.get(item.id) == item.answer for item in items)


def find_problems(counts: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """For each case in which a reader exceeds the goal (see GOAL) a sentence, with the reason that its family states
    for it, empty where it states none."""
    for row in counts.iter_rows(named=True):
        share, error = row["right"] / row["total"], (row["chance"] * (1 - row["chance"]) / row["total"]) ** 0.5
        if row["reader"] != OMNISCIENT and share > row["chance"] + MARGIN + 3 * error:
            kind = f"{row['task']}/{row['dimension']}" if row["task"] != row["dimension"] else row["task"]
            family = BY_NAME.get(row["family"])
            most, reason = family.reasons.get((row["task"], row["reader"]), (0.0, "")) if family else (0.0, "")
            if share > most:
                reason = ""
            yield (
                f"{row['family']}, {kind}: {row['reader']!r} has {row['right']} of {row['total']} right "
                f"({share:.2f}; chance {row['chance']:.2f})",
                reason,
            )


def tabulate_balance(items: Sequence[Item]) -> pl.DataFrame:
    """One row a class: how often the right choice stands in each place, and how often each key is right."""
    rows = []
    for (family, task, dimension), members in group_classes(items).items():
        places = Counter(item.choices.index(item.answer) for item in members)
        keys = Counter(str(item.factors.get("answer_key")) for item in members)
        rows.append(
            {
                **{"family": family, "task": task, "dimension": dimension, "items": len(members)},
                "places": " ".join(str(places[place]) for place in range(max(places) + 1)),
                "keys": ", ".join(f"{key} {count}" for key, count in keys.most_common(6)),
            }
        )
    return pl.DataFrame(rows)


def audit_worlds(items: Sequence[Item]) -> Findings:
    """The audit to print; its exit code is 1 where a reader exceeds the goal without a stated reason (see GOAL)."""
    counts = count_right(items)
    cells = counts.with_columns(share=(pl.col("right") / pl.col("total")).round(2), chance=pl.col("chance").round(2))
    index = ["family", "task", "dimension", "total", "chance"]
    right = cells.pivot("reader", index=index, values="share", maintain_order=True)
    found = list(find_problems(counts))
    open_ones = [text for text, reason in found if not reason]
    stated = [f"stated reason: {text}: {reason}" for text, reason in found if reason]
    tables = {"right answers": right, "balance": tabulate_balance(items)}
    return Findings.of_problems(open_ones, outcome(open_ones), before=(GOAL, *stated), tables=tables, notes=NOTES)
