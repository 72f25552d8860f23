"""The rounds of a search: which questions are asked next, from the answers so far.

Everything follows from the settings and the answers, so that a run that was interrupted is resumed by going through its
rounds again. At first the questions are drawn evenly; then each is drawn from the cell whose accuracy, drawn from the
model, is the lowest (Thompson sampling), one in four still at random. In the last round the weakest cells are asked
about by fresh stories, beside as many questions drawn at random, and the twins of those in the cells.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from random import Random
from typing import Any

import numpy as np

from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.weakness.design import Cell, Design, Levels, find_design, write_cell
from tomserve.weakness.model import Cells, fit, scan

STUDY = "search"  # the study that reads what a search asked

# The factors that tell what a question was asked for: by which part of the search, in which round, and in which cell
PART, ROUND, CELL = "part", "round", "cell"
SEARCH, CONFIRMED, RANDOM, TWIN = "search", "confirmed", "random", "twin"

FEWEST, MOST = 200, 20_000  # questions of a search, for each of which several are generated
SHARE = 0.5  # of the questions are asked by the search, the rest by the last round
FLOOR = 0.25  # of a round is drawn at random
POOL = 4  # so many questions are generated for each that the search asks
CELLS = 4  # how many cells are confirmed at most
CLEAR = 8.0  # the statistic of the scan from which a further cell is worth confirming
IN_VAIN = 40  # stories for each question wanted that may be drawn for a cell before it is taken to have no more

Answers = Mapping[str, bool]  # whether the answer to a question, by its id, is right


@dataclass(frozen=True)
class SearchSettings:
    """What a search explores, by how many questions, and by which seed."""

    benchmark: str
    budget: int
    seed: int = 0

    def __post_init__(self) -> None:
        find_design(self.benchmark)
        if type(self.budget) is not int or not FEWEST <= self.budget <= MOST:
            raise ConfigError(f"--budget {self.budget!r:.40}: expected a whole number from {FEWEST} to {MOST:,}")
        if type(self.seed) is not int or not 0 <= self.seed < 2**31:
            raise ConfigError(f"--seed {self.seed!r:.40}: expected a whole number from 0 to {2**31 - 1}")


@dataclass(frozen=True)
class Question:
    """A question that may be asked, and the level of each factor."""

    item: Item
    levels: Levels


class Search:
    """The rounds of a search (see tomserve.runs.planning.Rounds). design: what is explored; that of the benchmark
    unless another is given."""

    study = STUDY

    def __init__(self, settings: SearchSettings, design: Design | None = None) -> None:
        self.settings, self.design = settings, design or find_design(settings.benchmark)
        self.expected = settings.budget
        self._steps = self._rounds()
        self._begun = False

    @property
    def record(self) -> dict[str, Any]:
        """The settings, for the manifest of the run."""
        return {STUDY: asdict(self.settings)}

    def following(self, answers: Answers) -> list[Item]:
        """The questions of the next round; none after the last. answers: those to all rounds so far; a question without
        one was not answered and counts as wrong."""
        try:
            if self._begun:
                return self._steps.send(answers)
            self._begun = True
            return next(self._steps)
        except StopIteration:
            return []

    def _seed(self, part: int) -> int:
        """The seed of the stories of one part: no two searches and no two parts share stories."""
        return 2**32 + 16 * self.settings.seed + part

    def _rounds(self) -> Generator[list[Item], Answers, None]:
        total = round(SHARE * self.settings.budget)
        size = max(24, self.settings.budget // 25)
        pool = draw_pool(self.design, self._seed(0), POOL * total)
        cells = Cells.of([question.levels for question in pool])
        order = Random(f"{self.settings.seed}/first").sample(range(len(pool)), len(pool))
        asked, number = order[: min(2 * size, total)], 0
        right: list[int] = []
        new = asked
        while new:
            answers = yield [label(pool[place].item, pool[place].levels, SEARCH, number) for place in new]
            right += [int(answers.get(pool[place].item.id, False)) for place in new]
            number += 1
            new = propose(cells, asked, right, min(size, total - len(asked)), [self.settings.seed, number])
            asked = [*asked, *new]
        chosen = choose_cells(cells, asked, right)
        self.expected = 0
        yield [*self._confirm(chosen, [question.levels for question in pool], number)]

    def _confirm(self, chosen: Sequence[Cell], pool: Sequence[Levels], number: int) -> Iterator[Item]:
        """The last round: for each cell fresh questions with their twins, and as many questions drawn at random."""
        each = (self.settings.budget - round(SHARE * self.settings.budget)) // (3 * len(chosen))
        confirmed = 0
        for place, cell in enumerate(chosen):
            families = sorted({levels["family"] for levels in pool if lies_in(levels, cell) and "family" in levels})
            stories = self.design.stories(self._seed(2 + place), True, families)
            for question, twin in draw_cell(self.design, stories, cell, each, Random(f"{self.settings.seed}/{place}")):
                confirmed += 1
                yield label(question.item, question.levels, CONFIRMED, number, cell)
                if twin is not None:
                    yield label(twin, self.design.read_levels(twin), TWIN, number, cell)
        dice = Random(f"{self.settings.seed}/random")
        for told in islice(self.design.stories(self._seed(1), True, ()), confirmed):
            item = dice.choice(told)
            yield label(item, self.design.read_levels(item), RANDOM, number)


def label(item: Item, levels: Levels, part: str, number: int, cell: Cell = ()) -> Item:
    """The item with its levels and what it is asked for among its factors."""
    more = {name: level for name, level in levels.items() if name not in item.factors}
    asked_for = {PART: part, ROUND: number, CELL: write_cell(cell)}
    return item.model_copy(update={"factors": {**item.factors, **more, **asked_for}})


def lies_in(levels: Levels, cell: Cell) -> bool:
    """Whether a question with these levels lies in a cell."""
    return all(levels.get(name) == level for name, level in cell)


def draw_pool(design: Design, seed: int, number: int) -> list[Question]:
    """So many questions, or a few more: all questions of the first stories."""
    pool: list[Question] = []
    for told in design.stories(seed, False, ()):
        pool += [Question(item, design.read_levels(item)) for item in told]
        if len(pool) >= number:
            break
    return pool


def propose(cells: Cells, asked: Sequence[int], right: Sequence[int], size: int, seed: Sequence[int]) -> list[int]:
    """So many questions to ask next, by their places. asked: the places of those that were asked. right: 1 or 0 for
    each of them. seed: of the draws."""
    left = np.ones(len(cells.member), dtype=bool)
    left[list(asked)] = False
    dice = np.random.RandomState(list(seed))  # whose numbers are the same in every version of NumPy
    overall = (sum(right) + 1) / (len(right) + 2)
    posterior = fit(cells, *cells.count(asked, right), overall)
    chosen: list[int] = []
    for turn in range(size):
        draws = dice.beta(posterior.a, posterior.b)
        free = left
        if turn >= FLOOR * size:
            for cell in np.argsort(draws):
                if (free := left & cells.member[:, cell]).any():
                    break
        if not (places := np.flatnonzero(free)).size:
            break
        place = int(places[dice.randint(places.size)])
        left[place] = False
        chosen.append(place)
    return chosen


def choose_cells(cells: Cells, asked: Sequence[int], right: Sequence[int], most: int = CELLS) -> list[Cell]:
    """The weakest cells, at least one: by the scan statistic of the answers, each of those outside of the cells before
    it, as long as it is CLEAR. A level stands for a pair of it where the rest of the level is weak, too."""
    chosen: list[Cell] = []
    places, correct = np.asarray(asked), np.asarray(right)
    while len(chosen) < most and places.size:
        found = scan(cells, places, correct)
        best = int(np.argmax(found))
        if chosen and found[best] < CLEAR:
            break
        rest = ~cells.member[places, best]
        weak = scan(cells, places[rest], correct[rest])[cells.parents[best]]
        if cells.factor[best] < 0 and weak.max() >= CLEAR / 2:
            best = int(cells.parents[best][int(np.argmax(weak))])
        chosen.append(cells.names[best])
        outside = ~cells.member[places, best]
        places, correct = places[outside], correct[outside]
    return chosen


def draw_cell(
    design: Design, stories: Iterator[list[Item]], cell: Cell, number: int, dice: Random
) -> Iterator[tuple[Question, Item | None]]:
    """So many questions of a cell, or as many as can be found, each with its twin if it has one, and each of another
    story, so that they are independent of each other."""
    found = 0
    for told in islice(stories, IN_VAIN * number):
        inside = [one for item in told if lies_in((one := Question(item, design.read_levels(item))).levels, cell)]
        if inside:
            question = dice.choice(inside)
            yield question, design.find_twin(question.item, told)
            found += 1
        if found >= number:
            return
