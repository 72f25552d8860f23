"""The benchmark of generated worlds: its fixed release, files of fresh ones, and its stories as a reader sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tomserve.benchmarks.base import Benchmark, Findings, Say, select_groups
from tomserve.benchmarks.worlds import generator
from tomserve.benchmarks.worlds.audit import RULES, audit_worlds, validate_worlds
from tomserve.benchmarks.worlds.counterfactuals import cases
from tomserve.benchmarks.worlds.generator import NAME, draw_worlds, generate, items, load_release
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.benchmarks.worlds.variants import make_retell, read_record
from tomserve.errors import ConfigError, ContentError
from tomserve.items import Item, read_items
from tomserve.items.draw import Draw

PLACE = ("family", "world", "scenario")
"""What the user names, in this order."""


def show_stories(items: Iterable[Item], where: Sequence[str]) -> Findings:
    """Every story once, with what happens in each sentence and all its questions.

    where: a family, or a family and the number of a world, or these and a scenario. Raises ConfigError for a name that
    is not there, for more than three, and for none, since there are thousands of stories.
    """
    if not where or len(where) > len(PLACE):
        raise ConfigError("name a family, and then the number of a world and a scenario if you like: transfer 3")
    stories: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        number = item.cluster.rsplit("-", 1)[-1].lstrip("0") or "0"
        place = (str(item.factors["family"]), number, str(item.factors.get("scenario")))
        stories.setdefault(place, []).append(item)
    found = select_groups(stories, where, PLACE)
    return Findings(sections={"/".join(place): tuple(_lines(story)) for place, story in found.items()})


def _lines(story: Sequence[Item]) -> Iterable[str]:
    scenes = (story[0].world or {}).get("scenes", [])
    for number, sentence in enumerate(story[0].story):
        events = "; ".join(scenes[number].get("events", ())) if number < len(scenes) else ""
        yield f"{number + 1:2d}. {sentence}" + (f"  [{events}]" if events else "")
    for item in story:
        yield f"    {item.question} ({', '.join(item.choices)}) -> {item.answer}"


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the fixed release, or of a file that `tomserve generate worlds` wrote.

    gold: not used, as there is one set of right answers. Raises ContentError for an item of another benchmark.
    """
    del gold
    if path is None:
        yield from generator.read_or_generate(load_release(), generate_release)
        return
    for item in read_items(path):
        if item.benchmark != NAME:
            raise ContentError(f"item {item.id!r} is of benchmark {item.benchmark!r}; use --benchmark items", path=path)
        check_record(item, path)
        yield item


def generate_release() -> Iterator[Item]:
    """The items of the fixed release, generated anew, which takes seconds."""
    lexicon, release = built_in(), load_release()
    for world in draw_worlds(lexicon, release.worlds, release.seed):
        for item in items(world, lexicon):
            yield item.model_copy(update={"canary": release.canary})


def check_record(item: Item, path: Path) -> None:
    """Refuse an item whose record or family is none, as a file of somebody else may have it. Raises ContentError."""
    family = item.factors.get("family")
    if not isinstance(family, str):
        raise ContentError(
            f"item {item.id!r}: its factor family is {family!r}; expected the name of a family", path=path
        )
    read_record(item, path)


def audit(path: Path | None, say: Say) -> Findings:
    """Score readers who follow nobody's mind (see tomserve.benchmarks.worlds.audit)."""
    found = list(load(path))
    say(f"fitting and scoring readers of {len(found):,} questions, about a minute ...")
    return audit_worlds(found)


def validate(path: Path | None, say: Say) -> Findings:
    """Check that all phrasings can be said and the release is what it was (tomserve.benchmarks.worlds.audit)."""
    del say
    return validate_worlds(list(generate_release()) if path is None else None)


def show(path: Path | None, where: Sequence[str]) -> Findings:
    """Print stories for reading. where: a family, the number of a world, a scenario; raises ConfigError for others."""
    return show_stories(load(path), where)


DRAW = Draw(over=("family",), unit=("world", "worlds"), group=("family", "families"))
"""Whole worlds are drawn, all scenarios of one together, and equally many of each family."""

BENCHMARK = Benchmark(
    NAME,
    load,
    study="worlds",
    reasoned=("condition=false_belief", "dimension=belief"),
    draw=DRAW,
    rules=RULES,
    validate=validate,
    audit=audit,
    show=show,
    generate=generate,
    retelling=make_retell,
    cases=cases,
    usual_cases=("family=contents,transfer", "scenario=false_belief", "kind=belief,action"),
)
"""The value by which tomserve knows the benchmark."""
