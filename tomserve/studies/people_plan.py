"""What a study with people can find, for `tomserve plan --people`: power, and how many people and stories it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import polars as pl

from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.stats.power import ASSUMED, MOST, Spread, class_power, least_number, model_power, spread_of
from tomserve.studies.people import CLASS, NONE, answers

EFFECTS = (0.1, 0.2)
"""The differences of shares that are planned for."""

NOTE = (
    "A person answers one question about each story, and no two versions of one task's story; people and tasks both "
    "count as samples. power: the share of such studies that find a difference of that size. people: how many it takes "
    "with the given number of stories each; stories: how many each person has to read where there are so many people "
    "as given. Empty: not even {most} people, or one story of every task, are enough, as there are too few tasks. "
    "{source}: {spread}. Questions to choose from: {questions:,} about "
    "{tasks} tasks."
)

Power = Callable[[int, int, float], float]
"""The power with so many people, so many stories each, for an effect."""


def spread_from(scores: pl.DataFrame) -> Spread | None:
    """The spread of people's answers that a score table shows; None where it holds too few of them."""
    rows = answers(scores)
    if not rows.height:
        return None
    classes = rows[CLASS].fill_null("") if CLASS in rows.columns else pl.Series([""] * rows.height)
    return spread_of(*(one.to_numpy() for one in (rows["right"], rows["person"], rows["cluster"], classes)))


def in_words(spread: Spread) -> str:
    """The spread in words.

    >>> in_words(Spread())
    '80% right; of the variance of an answer 10% with the person, 5% with the person in a class, 15% with the task'
    """
    return (
        f"{spread.share:.0%} right; of the variance of an answer {spread.people:.0%} with the person, "
        f"{spread.people_by_class:.0%} with the person in a class, {spread.stories:.0%} with the task"
    )


def note(items: Sequence[Item], known: Spread | None, run: str | None) -> str:
    """What is to be said of the table: what it shows, and on what it rests.

    items: those that are asked. known: the spread that a run showed; None where ASSUMED is taken. run: that run, None
    for none.
    """
    why = "" if run is None else f" ({run} has too few answers of people)"
    return NOTE.format(
        most=MOST,
        source=f"Assumed{why}" if known is None else f"Measured in {run}",
        spread=in_words(known or ASSUMED),
        questions=len(items),
        tasks=len({item.cluster for item in items}),
    )


def table(
    items: Sequence[Item],
    people: int,
    stories: int,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    spread: Spread = ASSUMED,
) -> pl.DataFrame:
    """A row for each kind of comparison: the power for each of EFFECTS with these people and stories, and how many
    people, and how many stories each, reach `power`.

    items: those that are asked. people: how many. stories: how many each reads. alpha: the level of the tests. Raises
    ConfigError for more stories than there are tasks, since nobody reads two versions of one task's story.
    """
    tasks = len({item.cluster for item in items})
    if stories > tasks:
        raise ConfigError(
            f"--stories {stories}: there are {tasks} tasks to choose from, and nobody is to read two versions of one; "
            f"ask for at most {tasks} stories, or raise --limit"
        )
    rows = []
    for name, at in _comparisons(items, spread, alpha):
        row: dict[str, Any] = {"comparison": name}
        for effect in EFFECTS:
            row[f"power for {effect:g}"] = at(people, stories, effect)
            row[f"people for {effect:g}"] = least_number(_more_people(at, stories, effect), power)
            row[f"stories for {effect:g}"] = (
                least_number(_more_stories(at, people, effect), power, tasks) if tasks > 1 else None
            )
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None).fill_nan(None)


def _more_people(at: Power, stories: int, effect: float) -> Callable[[int], float]:
    return lambda people: at(people, stories, effect)


def _more_stories(at: Power, people: int, effect: float) -> Callable[[int], float]:
    return lambda stories: at(people, stories, effect)


def _comparisons(items: Sequence[Item], spread: Spread, alpha: float) -> Iterator[tuple[str, Power]]:
    """The comparisons that the items allow, each with its power. Stories are spread over the classes as the design of a
    questionnaire spreads them: in proportion to the questions of each class."""
    clusters: dict[str, set[str]] = defaultdict(set)
    counts: dict[str, int] = defaultdict(int)
    for item in items:
        name = str(item.factors.get(CLASS, ""))
        clusters[name].add(item.cluster)
        counts[name] += 1
    every = len({item.cluster for item in items})
    others = [name for name in counts if name != NONE]
    if NONE in counts and others:
        share = counts[NONE] / len(items)
        typical = median(counts[name] for name in others) / len(items)
        size = median(len(clusters[name]) for name in others)
        rest = len(set().union(*(clusters[name] for name in others)))

        def one(people: int, stories: int, effect: float) -> float:
            sides = (stories * typical, stories * share)
            return class_power(people, sides, (size, len(clusters[NONE])), effect, spread, alpha)

        def all_(people: int, stories: int, effect: float) -> float:
            sides = (stories * (1 - share), stories * share)
            return class_power(people, sides, (rest, len(clusters[NONE])), effect, spread, alpha)

        def against(people: int, stories: int, effect: float) -> float:
            questions = typical * len(items)
            return model_power(people, stories * typical, size, questions, effect, spread, alpha)

        yield f"one class against {NONE}", one
        yield f"all classes against {NONE}", all_
        yield "people against a model, one class", against
    yield (
        "people against a model, overall",
        lambda people, stories, effect: model_power(people, stories, every, len(items), effect, spread, alpha),
    )
