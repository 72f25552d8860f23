"""Generator of worlds: drawn by a seed, rendered as sentences and items; with the fixed release.

The copy of the release lies in the user's cache and may be deleted at any time. It is named after everything that the
release is made from (the code, the words and phrasings, the release's own description), and is believed only if its
content has the SHA-256 digest that the release's description names, so that neither a change of these nor one of the
file goes unnoticed.

    >>> load_release().name
    'worlds-1'
"""

from __future__ import annotations

import contextlib
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
from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.benchmarks.base import Findings
from tomserve.benchmarks.worlds.draft import Family
from tomserve.benchmarks.worlds.families import BY_NAME, FAMILIES
from tomserve.benchmarks.worlds.lexicon import FOLDER, Lexicon, built_in, fill_phrasing
from tomserve.benchmarks.worlds.record import Key, Question, World
from tomserve.benchmarks.worlds.rules import WorldHistory, answer, answers, read_world
from tomserve.content import files, output_path, validation
from tomserve.content.output_path import parse_file
from tomserve.content.paths import cache_root
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


def items(
    world: World, lexicon: Lexicon, *, questions: Sequence[int] | None = None, first: Key | None = None
) -> Iterator[Item]:
    """An item for each question that the rules settle, in the order of the record.

    questions: the places of the questions to make items of; None for all. first: the key of whom the choices call "I".
    Raises as `sentences` does, and ValueError for events that make no sense.
    """
    story, known = sentences(world, lexicon), read_world(world)
    for number, question in enumerate(world.questions):
        if questions is not None and number not in questions:
            continue
        right = answer(world, question, known)
        if right is None:
            continue
        labels = {key: label(world, key, first=first) for key in question.choices}
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
            world=_record(world, question),
        )


def _record(world: World, question: Question) -> dict[str, object]:
    """The record of the world with this question alone."""
    return world.model_copy(update={"questions": (question,)}).to_dict()


def _factors(world: World, question: Question, right: Key, known: WorldHistory) -> dict[str, Factor]:
    """The item's place in the design. right: the key of the right choice. known: what happened."""
    probe = question.model_copy(update={"kind": "belief", "choices": (*world.facts[question.fact], UNKNOWN)})
    condition: str | None = None
    real = answer(world, probe.model_copy(update={"kind": "reality", "who": ()}), known)
    if question.who:
        believed = answer(world, probe.model_copy(update={"who": question.who[-1:]}), known)
        if believed == UNKNOWN:
            condition = "ignorance"
        elif real not in (None, UNKNOWN):
            condition = "true_belief" if believed == real else "false_belief"
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
    """Yield so many worlds, each in all scenarios of its version, families in turn.

    lexicon: the words and phrasings. number: how many worlds. seed: of all random choices; the same seed gives the same
    worlds, and more of them begin with the fewer.
    """
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
        right = answer(world, question, known)
        questions.append(question if right is None else _with_right(world.family, question, right, counts))
    return world.model_copy(update={"questions": tuple(questions)})


def _with_right(family: str, question: Question, right: str, counts: Counter[tuple[str, str, int]]) -> Question:
    kind = (family, f"{question.role}/{len(question.choices)}")
    wanted = min(range(len(question.choices)), key=lambda place: (counts[*kind, place], question.choices[place]))
    counts[*kind, wanted] += 1
    order = [key for key in question.choices if key != right]
    order.insert(wanted, right)
    return question.model_copy(update={"choices": tuple(order)})


class Release(BaseModel):
    """A fixed release. name: what publications call it. worlds, seed: what it is drawn by. items, digest: what must
    come of that, in any order. file: the SHA-256 digest of the file of these items in their order, a line of JSON each.
    canary: marks its items as data that no model must be trained on."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    worlds: int = Field(ge=1)
    seed: int = Field(ge=0)
    items: int = Field(ge=1)
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    file: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    canary: str


@cache
def load_release() -> Release:
    """The release as ``dataset/worlds/release.yaml`` describes it.

    Raises ConfigError where the file is not installed, ContentError by line for a mistake in it.
    """
    return validation.load_model(content.require(f"{FOLDER}/release.yaml"), Release)


LARGEST = 32 << 20
"""Most bytes that are read of a kept file; that of the release has two million."""

PIECE = 1 << 20

Generate = Callable[[], Iterator[Item]]


def read_or_generate(release: Release, generate: Generate) -> Iterator[Item]:
    """The items of the release, in their order: those of the kept file, or else generated, and kept if all are taken.

    release: what describes it. generate: makes its items. Where nothing can be kept, nothing is.
    """
    path = release_path(release)
    if (data := _read_copy(path, release.file)) is not None:
        with io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(data), PIECE) as lines:
            yield from map(Item.from_json, lines)
        return
    pieces, sha, compressor = list[bytes](), hashlib.sha256(), zstandard.ZstdCompressor().compressobj()
    for item in generate():
        line = item.to_json() + b"\n"
        sha.update(line)
        pieces.append(compressor.compress(line))
        yield item
    if f"sha256:{sha.hexdigest()}" == release.file:
        _write_copy(path, b"".join((*pieces, compressor.flush())))


def release_path(release: Release) -> Path:
    """Where the file of this release is kept, by this code, words and phrasings."""
    words = sorted(path for path in content.require(FOLDER).rglob("*.yaml") if path.is_file())
    code = content.code_digest([Path(__file__).parent]).encode()
    made_from = content.digest(code, release.model_dump_json().encode(), *words)
    return cache_root() / "tomserve" / f"{release.name}-{made_from.removeprefix('sha256:')[:16]}.jsonl.zst"


def _read_copy(path: Path, digest: str) -> bytes | None:
    """The compressed content of the file, None where there is none of that digest."""
    try:
        with files.open_for_reading(path) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            return None
        sha, left = hashlib.sha256(), LARGEST * 16
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            while left > 0 and (piece := reader.read(PIECE)):
                sha.update(piece)
                left -= len(piece)
    except (OSError, ConfigError, zstandard.ZstdError):
        return None
    return data if f"sha256:{sha.hexdigest()}" == digest else None


def _write_copy(path: Path, data: bytes) -> None:
    with contextlib.suppress(OSError, ConfigError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.replace_file(path, 0o600) as file:
            file.write(data)


SEEDS = 2**63


def generate(
    out: Annotated[Path, typer.Option(parser=parse_file, help="JSONL file to write.")],
    number: Annotated[
        int, typer.Option("--worlds", min=1, max=1_000_000, help="How many worlds to write, families in turn.")
    ] = 200,
    seed: Annotated[
        int,
        typer.Option(min=0, max=SEEDS - 1, help="Seed of the random draws. The same seed gives the same bytes."),
    ] = 0,
    family: Annotated[
        list[str] | None, typer.Option(help="Family of worlds; repeat it. If left out: all families.")
    ] = None,
) -> Findings:
    """Generate social stories about belief, desire, intention, emotion and action, with proven answers.

    How many questions of each family were written is printed at the end.
    """
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
