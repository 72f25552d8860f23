"""The benchmark of generated worlds: its fixed release, files of fresh ones, and its stories as a reader sees them."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tomserve.benchmarks.base import Benchmark, Findings, Say, read_own, select_groups
from tomserve.benchmarks.counterfactuals import IN_TWIN, PARTED, Case, NoCase, add_factors
from tomserve.benchmarks.worlds import generator
from tomserve.benchmarks.worlds.audit import RULES, audit_worlds, validate_worlds
from tomserve.benchmarks.worlds.families import BY_NAME
from tomserve.benchmarks.worlds.generator import NAME, draw_worlds, generate, items, label, load_release
from tomserve.benchmarks.worlds.lexicon import Lexicon, built_in
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rules import answer, believed
from tomserve.benchmarks.worlds.variants import (
    draw_twin,
    drop_scenes,
    find_protagonist,
    make_retell,
    read_record,
    same_question,
    second_person,
    version,
)
from tomserve.errors import ConfigError, ContentError
from tomserve.items import UNKNOWN, Item, numbered_items
from tomserve.items.draw import Draw


def find_world_cases(
    world: World, lexicon: Lexicon, written: Callable[[Item], Item] = lambda item: item
) -> Iterator[Case | NoCase]:
    """What all questions about a false belief of the protagonist, or about what follows from it, make: a case, or why
    they make none. The belief may be one about what somebody else believes.

    In a case, `own` is the story without the change and without who noticed it, told to the reader as the protagonist,
    so that what f's protagonist believes falsely is simply so; `own_twin` is the twin, in which the protagonist
    noticed, told to the reader likewise; `twin` is that twin as somebody tells it who is nobody in it. Labels for
    probes, and where a surface cue parts from the belief, are factors of f.

    The choices of own and own_twin are in the first person: those about the protagonist call them "I", and those for
    whose question the phrasings have a beginning (`first_person`, such as "I believe that ") begin so; short ones such
    as the name of a place, and "unknown", stay as they are. Where they are worded otherwise than those of f, `meanings`
    says which of those they stand for. A question whose answer in own is not that of f makes no case, such as surprise,
    where there is nothing to be surprised about; nor does one whose answer in the twin is that of f. Nothing comes of a
    world without twin, in which the protagonist misses nothing.

    written: gives each item f as it is to be called and marked.
    """
    who = find_protagonist(world)
    family = BY_NAME[world.family]
    if world.second is not None or world.design.get("scenario") not in family.twins:
        return
    if not any(_asks(world, question, who) for question in world.questions):
        return  # the twin would be drawn for nothing
    other = draw_twin(world, lexicon)
    if other is None:
        return
    bare = second_person(drop_scenes(world, {"cause", "percept"}))
    for place, question in enumerate(world.questions):
        made = next(items(world, lexicon, questions=[place]), None) if _asks(world, question, who) else None
        if made is None:
            continue
        f, right = written(made), made.factors["answer_key"]
        same = same_question(question, other.questions)
        if same is None:
            yield NoCase(f, "it is not asked in the twin")
            continue
        same = same.model_copy(update={"phrasing": question.phrasing})
        told = _with_question(bare, bare.questions[place]), _with_question(second_person(other), same)
        plain, noticed = (answer(one, one.questions[0]) for one in told)
        if plain != right:
            yield NoCase(f, "without the change its answer is another one")
        elif noticed is None:
            yield NoCase(f, "it has no answer in the twin")
        elif noticed == right:
            yield NoCase(f, "its answer in the twin is the same")
        else:
            prefix = lexicon.first_person(world.family, question.role)
            own, own_twin = (
                version(f, telling, lexicon, name, first=who, prefix=prefix)
                for telling, name in zip(told, ("ppt_p", "ppt_p_twin"), strict=True)
            )
            asked, seen = _with_question(world, question), _with_question(other, same)
            holders = holders_of(asked, seen)
            scenarios = (str(one.design["scenario"]) for one in (world, other))
            parted = next((one for one in scenarios if one in family.parted), None)
            labelled = add_factors(f, holders if parted is None else {**holders, PARTED: parted})
            yield Case(labelled, own, own_twin, version(f, seen, lexicon, "ppt_twin"), world.family, holders)


def _with_question(world: World, question: Question) -> World:
    return world.model_copy(update={"questions": (question,)})


def _asks(world: World, question: Question, who: Key) -> bool:
    """Whether a question is about a false belief of that person (about the fact, or about what the next one asked about
    believes), or about what follows from it."""
    if question.who[:1] != (who,):
        return False
    belief, real = (believed(world, question, people) for people in (question.who, question.who[1:]))
    return belief != real and not {belief, real} & {None, UNKNOWN}


def cases(path: Path | None = None, where: Sequence[str] = ()) -> Iterator[Case | NoCase]:
    """The cases of the fixed release, or of a file that `tomserve generate worlds` wrote.

    where: conditions that cases have to meet; of the release, worlds of other families than they name are passed over,
    which saves most of the time.

    Variants in a file (see tomserve.variants) are passed over: their originals make the cases. Raises ContentError for
    an item without a record, and for one that is not what its record says.
    """
    lexicon = built_in()
    if path is not None:
        for line, item in numbered_items(path):
            if item.base is None:
                yield from find_world_cases(read_record(item, path), lexicon, partial(_as_written, item, path, line))
        return
    release, wanted = load_release(), _families(where)
    mark = {"canary": release.canary}
    for world in draw_worlds(lexicon, release.worlds, release.seed):
        if wanted is None or world.family in wanted:
            yield from find_world_cases(world, lexicon, lambda item: item.model_copy(update=mark))


def _families(where: Sequence[str]) -> set[str] | None:
    """The families that conditions name; None where all may meet them, and where they name one that there is not, which
    only all families together can tell."""
    named = [set(value.split(",")) for name, _, value in (one.partition("=") for one in where) if name == "family"]
    wanted = set.intersection(*named) if named else None
    return wanted if wanted and wanted <= BY_NAME.keys() else None


def _as_written(item: Item, path: Path, line: int, made: Item) -> Item:
    """The item of a file that its record makes. Raises ContentError where that tells something else."""
    if (made.story, made.question, made.choices) != (item.story, item.question, item.choices):
        reason = f"item {item.id!r} is told otherwise than its record; generate it again with these words"
        raise ContentError(reason, path=path, line=line)
    return item


def holders_of(world: World, twin: World) -> dict[str, str | None]:
    """The labels for probes of a world with one question, and of its twin. protagonist: what the question asks for,
    where that is a belief about a fact, or an act that has its name from it, as going to a place has. reality: what is
    so. other: what somebody else believes, if possible neither of these, the same person in both worlds; where the
    question is what the protagonist takes another to believe, that other person. What is none of the choices has no
    label. Nothing where the question asks for something else, such as a feeling."""
    (question,) = world.questions
    belief = believed(world, question, question.who)
    if belief is None or answer(world, question) != belief or question.kind not in ("belief", "action"):
        return {}
    other = question.who[1:] or _choose_other(world, question, belief)
    found: dict[str, str | None] = {}
    for told, ending in ((world, ""), (twin, IN_TWIN)):
        for name, who in (("protagonist", question.who), ("other", other), ("reality", ())):
            key = believed(told, told.questions[0], who) if who is not None else None
            found[name + ending] = label(world, key) if key in question.choices and key is not None else None
    return found


def _choose_other(world: World, question: Question, belief: Key) -> tuple[Key, ...] | None:
    """The person whose belief is the likeliest to be told apart: neither the protagonist's nor what is so; else one
    that is not the protagonist's; None where everybody else believes the same or nothing."""
    held = {key: believed(world, question, (key,)) for key in world.people if key not in question.who}
    others = {key: value for key, value in held.items() if value not in (None, UNKNOWN, belief)}
    real = believed(world, question, ())
    chosen = next((key for key, value in others.items() if value != real), next(iter(others), None))
    return None if chosen is None else (chosen,)


PLACE = ("family", "world", "scenario")
"""What the user names, in this order."""


def show(path: Path | None, where: Sequence[str]) -> Findings:
    """Print every story once, with what happens in each sentence and all its questions. where: a family, or a family
    and the number of a world, or these and a scenario. Raises ConfigError for a name that is not there, for more than
    three, and for none, since there are thousands of stories."""
    if not where or len(where) > len(PLACE):
        raise ConfigError("name a family, and then the number of a world and a scenario if you like: transfer 3")
    stories: dict[tuple[str, ...], list[Item]] = {}
    for item in load(path):
        number = item.cluster.rsplit("-", 1)[-1].lstrip("0") or "0"
        place = (str(item.factors["family"]), number, str(item.factors.get("scenario")))
        stories.setdefault(place, []).append(item)
    found = select_groups(stories, where, PLACE)
    return Findings(sections={"/".join(place): tuple(_lines(story)) for place, story in found.items()})


def _lines(story: Sequence[Item]) -> Iterator[str]:
    scenes = (story[0].world or {}).get("scenes", [])
    for number, sentence in enumerate(story[0].story):
        events = "; ".join(scenes[number].get("events", ())) if number < len(scenes) else ""
        yield f"{number + 1:2d}. {sentence}" + (f"  [{events}]" if events else "")
    for item in story:
        yield f"    {item.question} ({', '.join(item.choices)}) -> {item.answer}"


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the fixed release, or of a file that `tomserve generate worlds` wrote. Raises ContentError for an
    item of another benchmark, and for one whose record or family is none, as a file of somebody else may have it."""
    if path is None:
        yield from generator.read_or_generate(load_release(), generate_release)
        return
    for item in read_own(path, NAME):
        if not isinstance(family := item.factors.get("family"), str):
            reason = f"item {item.id!r}: its factor family is {family!r}; expected the name of a family"
            raise ContentError(reason, path=path)
        read_record(item, path)
        yield item


def generate_release() -> Iterator[Item]:
    """The items of the fixed release, generated anew, which takes seconds."""
    lexicon, release = built_in(), load_release()
    for world in draw_worlds(lexicon, release.worlds, release.seed):
        for item in items(world, lexicon):
            yield item.model_copy(update={"canary": release.canary})


def audit(path: Path | None, say: Say) -> Findings:
    """Score readers who follow nobody's mind (see tomserve.benchmarks.worlds.audit)."""
    found = list(load(path))
    say(f"fitting and scoring readers of {len(found):,} questions, about a minute ...")
    return audit_worlds(found)


def validate(path: Path | None, say: Say) -> Findings:
    """Check that all phrasings can be said and the release is what it was (tomserve.benchmarks.worlds.audit)."""
    return validate_worlds(list(generate_release()) if path is None else None)


BENCHMARK = Benchmark(
    NAME,
    load,
    study="worlds",
    reasoned=("condition=false_belief", "dimension=belief"),
    draw=Draw(over=("family",), unit=("world", "worlds"), group=("family", "families")),
    rules=RULES,
    validate=validate,
    audit=audit,
    show=show,
    generate=generate,
    retelling=make_retell,
    cases=cases,
    usual_cases=(
        "family=contents,transfer,testimony",
        "scenario=false_belief,trusted_false,distrusted_true",
        "kind=belief,action",
    ),
)
