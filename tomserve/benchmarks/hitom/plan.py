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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tomserve.benchmarks.hitom.events import words
from tomserve.benchmarks.hitom.tracker import SEMANTICS, Semantics
from tomserve.errors import ConfigError, one_of

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
    All combinations of chapters, agents and tells are taken in turn."""

    stories: int = 120
    seed: int = 0
    chapters: tuple[int, ...] = (1, 2, 3)
    agents: tuple[int, ...] = (5,)
    orders: tuple[int, ...] = (0, 1, 2, 3, 4)
    tells: tuple[int, ...] = (0, 2)
    tell_kind: str = "both"
    truth: str = "deceptive"
    moves: tuple[int, ...] = (1, 2, 3, 4, 5)  # one is drawn for every chapter, each as likely as the others
    distractors: tuple[int, ...] = (0, 1, 2, 3)  # likewise for every story
    lines: int | None = None  # the number of sentences of every story, reached by adding distractors
    choices: int | None = 15  # the number of containers to choose from; None for those that the story mentions
    balance: tuple[str, ...] = TRAITS
    order_sensitive: bool = False
    twins: bool = False
    semantics: Semantics | None = None  # None: see `gold`

    @property
    def gold(self) -> Semantics:
        """The semantics by which the answers are derived: the released one, or common knowledge where that one has no
        order-sensitive item of the orders asked."""
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
        for name, found, low, high in (
            ("--stories", (self.stories,), 1, None),
            ("--chapters", self.chapters, 1, None),
            ("--agents", self.agents, *AGENTS_RANGE),
            ("--orders", self.orders, *ORDERS_RANGE),
            ("--tells", self.tells, 0, None),
            ("--moves", self.moves, 0, None),
            ("--distractors", self.distractors, 0, None),
            ("--choices", () if self.choices is None else (self.choices,), 4, len(words().containers)),
        ):
            for value in found:
                if value < low or (high is not None and value > high):
                    raise ConfigError(f"{name} {value}: expected {low} {'or more' if high is None else f'to {high}'}")
        for option, given, known in (
            ("--tell-kind", self.tell_kind, TELL_KINDS),
            ("--truth", self.truth, TRUTHS),
            ("--semantics", self.gold, SEMANTICS),
            *(("--balance", name, TRAITS) for name in self.balance),
        ):
            if given not in known:
                raise ConfigError(one_of(option, given, known))
        if (reason := next(self._list_contradictions(), None)) is not None:
            raise ConfigError(reason)
        return self

    def _list_contradictions(self) -> Iterator[str]:
        """What options say that cannot be had together, with the way out."""
        highest, fewest, need = max(self.orders), min(self.agents), self.fewest_lines()
        released = self.gold == "released"
        if highest > fewest:
            allowed = f"--agents allows {fewest} in a story"
            yield f"--orders {highest}: needs {highest} agents, but {allowed}; ask for lower orders"
        if self.lines is not None and self.lines < need:
            yield f"--lines {self.lines}: the longest stories of this plan have {need} or more; give {need + 4}"
        if self.twins and self.stories % len(TWINS):
            below = self.stories // len(TWINS) * len(TWINS)
            fit = f"{below} or {below + len(TWINS)}" if below else len(TWINS)
            yield f"--stories {self.stories}: matched twins come in fours; ask for {fit}"
        if self.twins and min(self.tells) == 0:
            yield "--twins: every family has tells to leave out; give --tells 1 or more, not 0"
        if self.twins and self.truth != TRUTHS[0]:
            yield f"--truth {self.truth}: twins are truthful and deceptive in turn; leave --truth out"
        if self.twins and self.order_sensitive:
            yield "--order-sensitive: two twins of four have no tells and never are; leave --twins out"
        if self.order_sensitive and highest < 2:
            yield f"--order-sensitive: orders from 2 have agents to permute, not {highest}; give --orders 2"
        if self.order_sensitive and min(self.tells) == 0:
            yield "--order-sensitive: without tells no order matters; give --tells 1 or more, not 0"
        if self.order_sensitive and highest > 2 and (released or self.tell_kind == "private"):
            which = "released tells" if released else "private tells"
            way = "--semantics common_knowledge" if released else "--tell-kind both"
            yield f"--order-sensitive: {which} never reach order {highest}; give {way}, or --orders 0-2"

    def fewest_lines(self) -> int:
        """The smallest number of sentences that the stories of every cell can have."""

        def fewest(cell: Cell) -> int:
            first, later = (3 + n + max(min(self.moves), n) for n in (cell.agents, _LEAST))
            return first + later * (cell.chapters - 1) + cell.tells

        return max(map(fewest, self.cells))


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
