"""Generate Hi-ToM stories with their questions, gold answers and gold chains: seeded, balanced, fast.

>>> family = next(generate(Plan(stories=1, seed=7).check()))
>>> story = family.stories[0]
>>> [len(asked) for asked in family.asked], len(story.questions[4].chain) == len(story.sentences)
([0, 1, 2, 3, 4], True)
>>> Item.from_json(next(item_lines(family))).factors["order"]
0

    plan.py      what is asked for, and whether it can be had
    plot.py      a story drawn by seeded dice (dice.py): rooms, moves, tells, in every twin; distractors
    minds.py     what its agents believe at its end; tongues.py tells it
    asking.py    whom to ask about and where the answer stands, so that the items are balanced
    here         the choices, the items in both forms
    tally.py     the balance that was achieved

The same plan gives the same bytes on every machine and in every version of Python, and its first stories whatever
their number. Items are written without being validated (five in a quarter of a millisecond); that they are what
`question_item.make_item` makes of the same story is proven by the tests.

Every item is told by the sentences of the released generator, so that `--format hitom` is a file like the official one
and reads back. What differs from the released stories, on purpose: agents leave in another order than they are listed
in; an object may be moved several times in a turn; rooms and the object asked about do not come back in later chapters
(so that no label hangs on what one sees on coming back); tells always concern the object asked about. What stays, and
must be known to whoever reads the numbers: without tells a nested belief is what all asked agents saw together last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import orjson

from tomserve.benchmarks.hitom.asking import STORIES, Balance
from tomserve.benchmarks.hitom.dice import Dice
from tomserve.benchmarks.hitom.events import Distractor, Story
from tomserve.benchmarks.hitom.minds import Minds
from tomserve.benchmarks.hitom.plan import LETTERS, Cell, Plan
from tomserve.benchmarks.hitom.plot import MOST_PLACES, UNTOLD, Plot, distractors, draw, set_scene
from tomserve.benchmarks.hitom.question_item import StoryFacts, item_id
from tomserve.benchmarks.hitom.questions import write_question
from tomserve.benchmarks.hitom.reader import CORRECTED, story_id, write_choices
from tomserve.benchmarks.hitom.tongues import EVENTS, SENTENCES, lines
from tomserve.benchmarks.hitom.tracker import Semantics
from tomserve.benchmarks.hitom.words import CONTAINERS, ROOMS
from tomserve.errors import ConfigError
from tomserve.items import SCHEMA, UNKNOWN, Factor, Item

BENCHMARK = "hitom"
T = TypeVar("T")
_CONTAINERS = frozenset(CONTAINERS)


class Question(NamedTuple):
    """One question: the agents asked about, the belief after every sentence, and all factors."""

    asked: tuple[str, ...]
    chain: list[str]
    factors: dict[str, Factor]


@dataclass
class Told:
    """One story of a family, and its questions. factors: those that all its questions share. plot, gaps, noise: what
    its events are made of: the plot, the lines of it after which distractors stand, and the distractors."""

    kind: str
    sentences: tuple[str, ...]
    id: str
    factors: dict[str, Factor]
    questions: tuple[Question, ...]
    plot: Plot
    gaps: list[int]
    noise: list[Distractor]

    @cached_property
    def story(self) -> Story:
        """The story as events. Items need but its sentences."""
        told = lines(self.plot, self.kind, EVENTS)
        return Story(tuple(_merged(told, self.gaps, self.noise)))


class Family(NamedTuple):
    """A drawn story, or its four twins, with what they share: questions and choices (the containers, in order)."""

    number: int  # of the first story, from 1
    cell: Cell
    stories: tuple[Told, ...]
    asked: tuple[tuple[str, ...], ...]  # one tuple of agents for each order
    object: str
    choices: tuple[str, ...]
    semantics: Semantics

    @property
    def cluster(self) -> str:
        """The unit of the intervals: the story, or all of its twins together."""
        return f"{BENCHMARK}/{self.stories[0].id}"


def generate(plan: Plan) -> Iterator[Family]:
    """The families of a checked plan: single stories, or twins. Raises ConfigError where balance cannot be kept."""
    balance = Balance(plan)
    known: set[str] = set()
    cells = plan.cells
    for at in range(plan.stories // len(plan.kinds)):
        dice = Dice(f"{plan.seed}:{at}")
        number = at * len(plan.kinds) + 1
        cell = cells[at % len(cells)]
        scene = set_scene(dice, plan, cell)
        for drawn in range(STORIES):
            plot = draw(dice, plan, cell, scene)
            fits = _fits(plot, plan)
            if fits and (asked := balance.ask(dice, plot, drawn)) is not None:
                family = _family(dice, plan, balance, plot, asked, number, cell)
                break
            if not fits or drawn % 20 == 19:
                scene = set_scene(dice, plan, cell)
        else:
            raise balance.give_up(number)
        if family.stories[0].id in known:
            raise ConfigError(f"story {number} has been told before; ask for fewer --stories, or for longer ones")
        known.add(family.stories[0].id)
        yield family


def _fits(plot: Plot, plan: Plan) -> bool:
    if plan.lines is not None and plot.height > plan.lines:
        return False
    if plan.choices is None or plan.choices >= MOST_PLACES:
        return True
    return len(_own(plan, plot)) <= plan.choices


def _own(plan: Plan, plot: Plot) -> dict[str, None]:
    """The containers where the object asked about is seen or said to be in any twin, in order and each once."""
    said = [tell.container(kind) for tell in plot.told for kind in plan.kinds]
    return dict.fromkeys([*plot.containers, *said])


def _family(
    dice: Dice, plan: Plan, balance: Balance, plot: Plot, asked: list[tuple[int, ...]], number: int, cell: Cell
) -> Family:
    count = dice.pick(plan.distractors) if plan.lines is None else plan.lines - plot.height
    gaps, noise = distractors(dice, plot, count)
    semantics = plan.gold
    named_by = dict(zip(plot.scene.agents, plot.scene.names, strict=True))
    names = [tuple([named_by[agent] for agent in who]) for who in asked]
    chains: dict[str, list[list[str]]] = {}
    for kind in plan.kinds:
        trace = plot.trace(kind, semantics, gaps)
        chains[kind] = [trace.chain(who) for who in names]
    answers = [(len(who), chain[-1]) for kind in plan.kinds for who, chain in zip(asked, chains[kind], strict=True)]
    elsewhere = [label for chapter in plot.scene.later for label in chapter.containers]
    elsewhere += [event.thing for event in noise]
    choices = tuple(balance.letter(dice, answers, _others(dice, plan, _own(plan, plot), elsewhere, answers)))
    named = {*plot.containers, *elsewhere}
    remarks = [event.text() for event in noise]
    told: list[Told] = []
    for kind in plan.kinds:
        written = lines(plot, kind, SENTENCES)
        sentences = tuple(_merged(written, gaps, remarks))
        lies = len(plot.told) if kind == "deceptive" else 0 if kind else sum([not tell.honest for tell in plot.told])
        name = story_id(sentences)
        factors: dict[str, Factor] = {
            "length": cell.chapters,
            "deception": lies > 0,
            "object": plot.scene.object,
            "semantics": semantics,
            "n_deceptive": lies,
        }
        if kind:
            factors |= {"twin": told[0].id if told else name, "twin_kind": kind}
        story = Told(kind, sentences, name, factors, (), plot, gaps, noise)
        factors |= _story_factors(story, choices, named)
        story.questions = _questions(Minds(plot, kind, semantics), asked, names, chains[kind], choices, factors)
        told.append(story)
    return Family(number, cell, tuple(told), tuple(names), plot.scene.object, choices, semantics)


def _story_factors(told: Told, choices: tuple[str, ...], named: set[str]) -> dict[str, Factor]:
    """The values of `question_item.story_factors`, without reading it again. named: containers in no tell."""
    plot, kind = told.plot, told.kind
    tells = [] if kind in UNTOLD else plot.told
    public = len([tell for tell in tells if tell.public])
    mentioned = named.union([tell.container(kind) for tell in tells])
    return {
        "n_lines": len(told.sentences),
        "n_agents": len(plot.scene.names),
        "n_tells": len(tells),
        "n_public": public,
        "n_private": len(tells) - public,
        "n_distractors": len(told.gaps),
        "n_containers_mentioned": len(mentioned.intersection(choices)),
        "reentered": len(plot.scene.later) >= len(ROOMS) and told.story.reentered,
    }


def _questions(
    minds: Minds,
    asked: list[tuple[int, ...]],
    names: list[tuple[str, ...]],
    chains: list[list[str]],
    choices: tuple[str, ...],
    factors: dict[str, Factor],
) -> tuple[Question, ...]:
    facts = StoryFacts(minds, choices)
    return tuple(
        [
            Question(name, chain, {**factors, **facts.factors(who, chain[-1], chain[-1])})
            for who, name, chain in zip(asked, names, chains, strict=True)
        ]
    )


def _merged(told: Sequence[T | None], gaps: list[int], noise: Sequence[T]) -> list[T]:
    """The lines that there are, with the distractors where they belong."""
    found: list[T | None] = []
    since = 0
    for gap, event in zip(gaps, noise, strict=True):
        found += told[since : gap + 1]
        found.append(event)
        since = gap + 1
    found += told[since:]
    return [line for line in found if line is not None]


def _others(
    dice: Dice, plan: Plan, own: dict[str, None], elsewhere: list[str], answers: list[tuple[int, str]]
) -> list[str]:
    """The choices that answer no question: where else the object is seen or said to be (`own` has the answers, too);
    what else the story mentions, as far as there is room; then any, up to the number wanted."""
    right = {label for _, label in answers}
    more = [label for label in dict.fromkeys(elsewhere) if label not in own and label in _CONTAINERS]
    if plan.choices is not None:
        more = more[: plan.choices - len(own)]
        named = {*own, *more}
        more += dice.sample([label for label in CONTAINERS if label not in named], plan.choices - len(named))
    return [*(label for label in own if label not in right), *more]


def item_lines(family: Family) -> Iterator[bytes]:
    """The items of a family as JSON, one line each without its newline, as Item.to_json writes them."""
    choices = orjson.Fragment(orjson.dumps((*family.choices, UNKNOWN)))
    cluster, thing = family.cluster, family.object
    for story in family.stories:
        sentences = orjson.Fragment(orjson.dumps(story.sentences))
        told = f"{BENCHMARK}/{story.id}"
        for asked, chain, factors in story.questions:
            yield orjson.dumps(
                {
                    "schema": SCHEMA,
                    "id": item_id(told, asked, thing, family.semantics),
                    "benchmark": BENCHMARK,
                    "story": sentences,
                    "question": write_question(asked, thing),
                    "choices": choices,
                    "answer": chain[-1],
                    "gold": {"chains": (chain,)},
                    "factors": factors,
                    "cluster": cluster,
                }
            )


def records(family: Family) -> Iterator[dict[str, Any]]:
    """The questions of a family as records of the official file. Raises ConfigError for more choices than letters."""
    if len(family.choices) > LETTERS:
        raise ConfigError(
            f"story {family.number} has {len(family.choices)} choices, the official form letters for {LETTERS}; "
            f"give --choices {LETTERS}, fewer --chapters or --format items"
        )
    for at, story in enumerate(family.stories):
        for place, question in enumerate(story.questions):
            yield {
                "prompting_type": CORRECTED,
                "deception": story.factors["deception"],
                "story_length": family.cell.chapters,
                "question_order": len(question.asked),
                "sample_id": (family.number - 1 + at) * len(family.asked) + place,
                "story": "".join([f"{line} {text}\n" for line, text in enumerate(story.sentences, 1)]),
                "question": write_question(question.asked, family.object),
                "choices": write_choices(family.choices),
                "answer": question.chain[-1],
            }


def official_file(families: Iterable[Family]) -> Iterator[bytes]:
    """A file of the official form, {"data": [record, ...]}, in pieces with one record on each line."""
    before = b'{"data": [\n'
    for family in families:
        for record in records(family):
            yield before + orjson.dumps(record)
            before = b",\n"
    yield b"\n]}\n"


def items(plan: Plan) -> Iterator[Item]:
    """The items of a plan. Raises ConfigError where the plan or its balance is impossible."""
    for family in generate(plan.check()):
        for line in item_lines(family):
            yield Item.from_json(line)
