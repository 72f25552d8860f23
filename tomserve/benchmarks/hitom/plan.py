"""The plan of a generated Hi-ToM set: how many stories, of what kind, what is balanced, and the words they are made
of. Impossible plans are refused.

    >>> Plan(stories=8, agents=(3,), orders=(0, 4)).check()
    Traceback (most recent call last):
    tomserve.errors.ConfigError: --orders 4: needs 4 agents, but --agents allows 3 in a story; ask for lower orders
    >>> levels("3-5,8", "--agents")
    (3, 4, 5, 8)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from tomserve import content
from tomserve.benchmarks.hitom.tracker import SEMANTICS, Semantics
from tomserve.content import validation
from tomserve.errors import ConfigError, one_of

_List = Annotated[tuple[str, ...], Field(min_length=8)]


class Words(BaseModel):
    """The words of generated stories and of variants, as ``dataset/hitom/words.yaml`` has them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rooms: _List
    objects: _List
    containers: _List
    agents: _List
    animals: _List
    belongings: _List
    foods: _List
    other_agents: _List
    other_containers: _List
    released_colours: tuple[str, ...]
    other_colours: _List


@cache
def words() -> Words:
    """The words. Raises ConfigError where the file is not installed, ContentError by line for a mistake in it."""
    return validation.load_model(content.require("dataset/hitom/words.yaml"), Words)


TRAITS = ("position", "first-order", "tell", "letter")
"""What can be balanced within every order of belief; tomserve.benchmarks.hitom.generator explains each."""
TELL_KINDS = ("both", "public", "private")
TRUTHS = ("deceptive", "truthful", "mixed")
TWINS = ("none", "truthful", "deceptive", "filler")
"""The versions of a twin story: without tells, with truthful ones, with deceptive ones, with as many neutral lines."""
AGENTS_RANGE, ORDERS_RANGE = (3, 8), (0, 6)
LETTERS = 26
_LEAST = 3  # fewest agents of a chapter


class Cell(NamedTuple):
    """One cell of the design. Stories take the cells in turn, so that the numbers of stories differ by at most one."""

    chapters: int
    agents: int
    tells: int


@dataclass(frozen=True)
class Plan:
    """Everything that decides what is generated. A tuple of numbers lists the values (levels) that a variable takes.
    All combinations of chapters, agents and tells are taken in turn. For every chapter one of `moves` is drawn, and for
    every story one of `distractors`, each value being as likely as the others. lines: the number of sentences of every
    story, reached by adding distractors; None for no such number. choices: the number of containers to choose from;
    None for those that the story mentions. semantics: None is `released`, or `common_knowledge` where the released
    semantics has no order-sensitive item of the orders asked."""

    stories: int = 120
    seed: int = 0
    chapters: tuple[int, ...] = (1, 2, 3)
    agents: tuple[int, ...] = (5,)
    orders: tuple[int, ...] = (0, 1, 2, 3, 4)
    tells: tuple[int, ...] = (0, 2)
    tell_kind: str = "both"
    truth: str = "deceptive"
    moves: tuple[int, ...] = (1, 2, 3, 4, 5)
    distractors: tuple[int, ...] = (0, 1, 2, 3)
    lines: int | None = None
    choices: int | None = 15
    balance: tuple[str, ...] = TRAITS
    order_sensitive: bool = False
    twins: bool = False
    semantics: Semantics | None = None

    @property
    def gold(self) -> Semantics:
        """The semantics by which the answers are derived."""
        if self.semantics is not None:
            return self.semantics
        return "common_knowledge" if self.order_sensitive and max(self.orders) > 2 else "released"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of the design; the number of chapters varies fastest."""
        return tuple(Cell(c, a, t) for a in self.agents for t in self.tells for c in self.chapters)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The versions made of every drawn story: the four TWINS, or only "" (told as `truth` says)."""
        return TWINS if self.twins else ("",)

    def check(self) -> Plan:
        """Returns the plan itself. Raises ConfigError for the first option that cannot be met, with the way out."""
        if self.stories < 1:
            raise ConfigError(f"--stories {self.stories}: expected 1 or more")
        _check_range("--chapters", self.chapters, 1)
        _check_range("--agents", self.agents, *AGENTS_RANGE)
        _check_range("--orders", self.orders, *ORDERS_RANGE)
        for name, found in (("--tells", self.tells), ("--moves", self.moves), ("--distractors", self.distractors)):
            _check_range(name, found, 0)
        _check_known("--tell-kind", self.tell_kind, TELL_KINDS)
        _check_known("--truth", self.truth, TRUTHS)
        _check_known("--semantics", self.gold, SEMANTICS)
        for name in self.balance:
            _check_known("--balance", name, TRAITS)
        if max(self.orders) > min(self.agents):
            order, fewest = max(self.orders), min(self.agents)
            raise ConfigError(
                f"--orders {order}: needs {order} agents, but --agents allows {fewest} in a story; ask for lower orders"
            )
        if self.choices is not None:
            _check_range("--choices", (self.choices,), 4, len(words().containers))
        if self.lines is not None and self.lines < self.fewest_lines():
            need = self.fewest_lines()
            raise ConfigError(
                f"--lines {self.lines}: the longest stories of this plan have {need} or more; give {need + 4}"
            )
        if self.twins:
            self._check_twins()
        if self.order_sensitive:
            self._check_order_sensitive()
        return self

    def fewest_lines(self) -> int:
        """The smallest number of sentences that the stories of every cell can have."""
        return max(self._fewest(cell) for cell in self.cells)

    def _fewest(self, cell: Cell) -> int:
        moves = min(self.moves)
        first, later = (3 + n + max(moves, n) for n in (cell.agents, _LEAST))
        return first + later * (cell.chapters - 1) + cell.tells

    def _check_twins(self) -> None:
        if self.stories % len(TWINS):
            below = self.stories // len(TWINS) * len(TWINS)
            raise ConfigError(
                f"--stories {self.stories}: matched twins come in fours; ask for {below or ''}"
                f"{' or ' if below else ''}{below + len(TWINS)}"
            )
        if min(self.tells) == 0:
            raise ConfigError("--twins: every family has tells to leave out; give --tells 1 or more, not 0")
        if self.truth != TRUTHS[0]:
            raise ConfigError(f"--truth {self.truth}: twins are truthful and deceptive in turn; leave --truth out")
        if self.order_sensitive:
            raise ConfigError("--order-sensitive: two twins of four have no tells and never are; leave --twins out")

    def _check_order_sensitive(self) -> None:
        highest = max(self.orders)
        if highest < 2:
            raise ConfigError(
                f"--order-sensitive: orders from 2 have agents to permute, not {highest}; give --orders 2"
            )
        if min(self.tells) == 0:
            raise ConfigError("--order-sensitive: without tells no order matters; give --tells 1 or more, not 0")
        if highest > 2 and (self.gold == "released" or self.tell_kind == "private"):
            which = "released tells" if self.gold == "released" else "private tells"
            way = "--semantics common_knowledge" if self.gold == "released" else "--tell-kind both"
            raise ConfigError(f"--order-sensitive: {which} never reach order {highest}; give {way}, or --orders 0-2")


def levels(text: str, name: str) -> tuple[int, ...]:
    """The whole numbers of "0,2" or "3-8", each once, in order. Raises ConfigError naming the option `name`."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ConfigError(f"{name} {text!r}: expected numbers such as 3, 0,2 or 3-8")
        if int(match[2] or match[1]) - int(match[1]) > 1000:
            raise ConfigError(f"{name} {text!r}: more than a thousand levels; give fewer")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(found))


def _check_range(name: str, found: tuple[int, ...], low: int, high: int | None = None) -> None:
    for value in found:
        if value < low or (high is not None and value > high):
            raise ConfigError(f"{name} {value}: expected {low} {'or more' if high is None else f'to {high}'}")


def _check_known(name: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        raise ConfigError(one_of(name, found, known))
