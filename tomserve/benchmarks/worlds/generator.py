"""Generator of worlds: drawn by a seed, rendered as sentences and items; with the fixed release.

>>> load_release().name
'worlds-1'
"""

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Annotated

import typer
import zstandard
from pydantic import Field

from tomserve import content
from tomserve.benchmarks.base import Findings
from tomserve.benchmarks.worlds.draft import Family
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.lexicon import FOLDER, Lexicon, built_in, fill_phrasing
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rules import WorldHistory, answer, answers, believed, read_world
from tomserve.content import cache as cached
from tomserve.content import output_path, validation
from tomserve.content.output_path import parse_file
from tomserve.content.validation import Strict
from tomserve.errors import ConfigError, one_of
from tomserve.items import UNKNOWN, Gold, Item, write_chunks
from tomserve.items.item import Factor

NAME = "worlds"
"""The name of the benchmark."""


def sentences(world: World, lexicon: Lexicon) -> tuple[str, ...]:
    """The story, one sentence for each scene. Raises ContentError for a role without phrasings, ValueError for a
    phrasing with a slot that the world does not fill."""
    found = []
    for scene in world.scenes:
        offered = lexicon.phrasings(world.family, scene.role, "roles" if scene.told == "full" else "short")
        phrasing = offered[scene.phrasing % len(offered)]
        found.append(fill_phrasing(phrasing, scene.slots, world.people, world.words, second=world.second))
    return tuple(found)


def question_text(world: World, question: Question, lexicon: Lexicon) -> str:
    """The text of a question. Raises as `sentences` does."""
    offered = lexicon.phrasings(world.family, question.role, "questions")
    phrasing = offered[question.phrasing % len(offered)]
    return fill_phrasing(phrasing, question.slots, world.people, world.words, second=world.second)


def label(world: World, key: Key, *, first: Key | None = None) -> str:
    """The text of a choice. first: the key of whom the label calls "I"."""
    if key == UNKNOWN:
        return UNKNOWN
    if key in world.people:
        return "I" if key == first else "you" if key == world.second else world.people[key].name
    return fill_phrasing(world.words[key], {}, world.people, world.words, second=world.second, first=first)


def tell(world: World, lexicon: Lexicon) -> tuple[tuple[str, ...], WorldHistory]:
    """The story and what happens in it. Raises as `sentences` does, and ValueError for events that make no sense."""
    return sentences(world, lexicon), read_world(world)


def items(
    world: World,
    lexicon: Lexicon,
    *,
    questions: Sequence[int] | None = None,
    first: Key | None = None,
    told: tuple[tuple[str, ...], WorldHistory] | None = None,
) -> Iterator[Item]:
    """An item for each question that the rules settle, in the order of the record. questions: the places of the
    questions to make items of; None for all. first: the key of whom the choices call "I". told: what `tell` gives for
    the world, if that is known. Raises as `tell` does."""
    (story, known), record = told or tell(world, lexicon), world.to_dict()
    texts: dict[Key, str] = {}  # of the choices, which questions share
    for number, question in enumerate(world.questions):
        if questions is not None and number not in questions:
            continue
        right = answer(world, question, known)
        if right is None:
            continue
        texts |= {key: label(world, key, first=first) for key in question.choices if key not in texts}
        labels = {key: texts[key] for key in question.choices}
        chain = answers(world, question, known)
        gold = Gold(sets=tuple((labels[key],) for key in chain)) if chain and len(chain) == len(story) else None
        yield Item(
            id=f"{world.name}/{world.design.get('scenario', 'story')}/{number:02d}",
            benchmark=NAME,
            story=story,
            question=question_text(world, question, lexicon),
            choices=tuple(labels.values()),
            answer=labels[right],
            gold=gold,
            factors=_factors(world, question, right, known),
            cluster=world.name,
            world={**record, "questions": [record["questions"][number]]},
        )


def _factors(world: World, question: Question, right: Key, known: WorldHistory) -> dict[str, Factor]:
    """The item's place in the design. right: the key of the right choice. known: what happened."""
    condition: str | None = None
    real = believed(world, question, (), known)
    if question.who:
        belief = believed(world, question, question.who[-1:], known)
        if belief == UNKNOWN:
            condition = "ignorance"
        elif real not in (None, UNKNOWN):
            condition = "true_belief" if belief == real else "false_belief"
    return {
        "family": world.family,
        **world.design,
        **question.factors,
        "kind": question.kind,
        "condition": condition,
        "order": len(question.who),
        "asked": ">".join(question.who) or None,
        "answer_key": right,
        "reality": label(world, real) if real is not None else None,
        "options": len(question.choices),
        "sentences": known.lines,
    }


def draw_worlds(lexicon: Lexicon, number: int, seed: int, families: Sequence[Family] = FAMILIES) -> Iterator[World]:
    """Yield so many worlds, each in all scenarios of its version, families in turn. lexicon: the words and phrasings.
    number: how many worlds. seed: of all random choices; the same seed gives the same worlds, and more of them begin
    with the fewer."""
    placed: Counter[tuple[str, str, int]] = Counter()
    for place in range(number):
        family = families[place % len(families)]
        turn = place // len(families)
        for scenario in family.versions[turn % len(family.versions)]:
            world = family.world(lexicon, f"{family.name}-{seed}-{turn:04d}", scenario)
            yield _place_right_choices(_draw_questions(world, family.most), placed)


def _draw_questions(world: World, most: int) -> World:
    """The world with so many of its questions, drawn by its name, so that all scenarios of a world get the same."""
    if len(world.questions) <= most:
        return world
    chosen = sorted(Random(f"{world.name}/questions").sample(range(len(world.questions)), most))
    return world.model_copy(update={"questions": tuple(world.questions[place] for place in chosen)})


def _place_right_choices(world: World, counts: Counter[tuple[str, str, int]]) -> World:
    """The world with the right choice of each question where it has stood least often so far."""
    known = read_world(world)
    questions = []
    for question in world.questions:
        if (right := answer(world, question, known)) is not None:
            kind = (world.family, f"{question.role}/{len(question.choices)}")
            wanted = min((counts[*kind, place], key, place) for place, key in enumerate(question.choices))[2]
            counts[*kind, wanted] += 1
            order = [key for key in question.choices if key != right]
            order.insert(wanted, right)
            question = question.model_copy(update={"choices": tuple(order)})
        questions.append(question)
    return world.model_copy(update={"questions": tuple(questions)})


class Release(Strict):
    """A fixed release."""

    name: str  # what publications call it
    worlds: int = Field(ge=1)
    seed: int = Field(ge=0)
    items: int = Field(ge=1)  # how many must come of these
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")  # of the items, in any order
    file: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")  # of the file of them in their order, a line of JSON each
    canary: str  # marks its items as data that no model must be trained on


@cache
def load_release() -> Release:
    """The release as ``dataset/worlds/release.yaml`` describes it. Raises ConfigError where the file is not installed,
    ContentError by line for a mistake in it."""
    return validation.load_model(content.require(f"{FOLDER}/release.yaml"), Release)


def read_or_generate(release: Release, generate: Callable[[], Iterator[Item]]) -> Iterator[Item]:
    """The items of the release, in their order: those kept in the user's cache, or else generated, and kept if all are
    taken and are those that the release names. release: what describes it. generate: makes its items."""
    path = release_path(release)
    if (kept := cached.find(path)) is not None:
        with kept, zstandard.ZstdDecompressor().stream_reader(kept) as data, io.BufferedReader(data, 1 << 20) as lines:
            yield from map(Item.from_json, lines)
        return
    pieces, sha, compressor = list[bytes](), hashlib.sha256(), zstandard.ZstdCompressor().compressobj()
    for item in generate():
        line = item.to_json() + b"\n"
        sha.update(line)
        pieces.append(compressor.compress(line))
        yield item
    if f"sha256:{sha.hexdigest()}" == release.file:
        cached.keep(path, *pieces, compressor.flush())


def release_path(release: Release) -> Path:
    """Where the items of this release are kept, by the code, words and phrasings that they are made from."""
    words = sorted(path for path in content.require(FOLDER).rglob("*.yaml") if path.is_file())
    code = content.code_digest([Path(__file__).parent]).encode()
    return cached.place("release", content.digest(code, release.model_dump_json().encode(), *words).encode())


SEEDS = 2**63


def generate(
    out: Annotated[Path, typer.Option(parser=parse_file, help="JSONL file to write.")],
    number: Annotated[
        int, typer.Option("--worlds", min=1, max=1_000_000, help="How many worlds to write, families in turn.")
    ] = 200,
    seed: Annotated[
        int, typer.Option(min=0, max=SEEDS - 1, help="Seed of the random draws. The same seed gives the same bytes.")
    ] = 0,
    family: Annotated[
        list[str] | None, typer.Option(help="Family of worlds; repeat it. If left out: all families.")
    ] = None,
) -> Findings:
    """Generate social stories about belief, desire, intention, emotion and action, with proven answers. How many
    questions of each family were written is printed at the end."""
    for name in family or ():
        if name not in BY_NAME:
            raise ConfigError(one_of("--family", name, BY_NAME))
    if seed == load_release().seed:
        raise ConfigError(
            f"--seed {seed} is that of the release {load_release().name}, which tomserve items worlds --out FILE "
            "writes; choose another, so that the stories are new"
        )
    output_path.check_output(out)
    chosen = [BY_NAME[name] for name in dict.fromkeys(family)] if family else list(FAMILIES)
    lexicon, counts = built_in(), Counter[str]()

    def lines() -> Iterator[bytes]:
        for world in draw_worlds(lexicon, number, seed, chosen):
            for item in items(world, lexicon):
                counts[world.family] += 1
                yield item.to_json() + b"\n"

    write_chunks(out, lines(), output_path.open_output)
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return Findings(lines=(f"written: {counts.total():,} items of {number:,} worlds by seed {seed} to {out}", listed))
