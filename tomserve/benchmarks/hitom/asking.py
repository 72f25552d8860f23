"""Choose whom to ask about, and where the answer stands among the choices, so that the items are balanced.

Within every order, and apart for stories with and without tells, the classes of a trait are kept level:

    position      the answer is the first, the second or a later container in which the object is seen or said to be
    first-order   it is also what the innermost agent believes, or not (orders from 2)
    tell          the tells decide it, or not (stories with tells; orders that tells reach: all from 1 under
                  common_knowledge, but private ones only 1 and 2; 1 and 2 as released)
    letter        its place among the choices

Of several nestings of agents, drawn at random, the first is asked that puts every trait into its rarest class, else the
best of them, as long as no class falls too far behind another (SLACK). A story without such a question is drawn again.
Letters are dealt afterwards and never need a new story. Twins are balanced by the deceptive one.
`--order-sensitive` is stricter: at no time are fewer than half of the items of an order sensitive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import add
from typing import NamedTuple

from tomserve.benchmarks.hitom.dice import Dice
from tomserve.benchmarks.hitom.minds import Minds
from tomserve.benchmarks.hitom.plan import ORDERS_RANGE, TRAITS, Plan
from tomserve.benchmarks.hitom.plot import Plot
from tomserve.benchmarks.hitom.words import CONTAINERS
from tomserve.errors import ConfigError

SLACK, MOST = 2, 8
"""How many items a class may fall behind another of the same trait and order, with or without tells: 2, but one more
for every PATIENCE stories drawn in vain, up to 8."""
PATIENCE = 8
STORIES = 1000  # stories that are drawn before the generator gives up

Leads = list[int]
"""For each class of a trait how many items it has more than the rarest class."""
Classes = list[tuple[Leads, int]]  # for each trait of a question its classes, and which of them it is in


def _count(leads: Leads, at: int) -> None:
    """Count one more item of a class."""
    leads[at] += 1
    if 0 not in leads:
        leads[:] = [lead - 1 for lead in leads]


class _Traits(NamedTuple):
    """What is kept level for one order, with or without tells; None where the plan or the order has no such trait."""

    position: Leads | None
    tell: Leads | None
    first_order: Leads | None
    sensitive: Leads | None
    reached: bool  # whether tells can decide questions of that order


class Balance:
    """What has been asked so far, and what to ask of the next story."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._semantics = plan.gold
        self._kind = "deceptive" if plan.twins else ""
        self._traits: dict[tuple[int, bool], _Traits] = {
            (order, told): self._fresh(order, told) for order in plan.orders for told in (False, True)
        }
        self._letters = {order: [0] * len(CONTAINERS) for order in plan.orders}
        self._failed: Counter[int] = Counter()
        self._insensitive: Counter[int] = Counter()
        self._hardest_first = sorted(plan.orders, key=lambda order: -(order or ORDERS_RANGE[1] + 1))

    def _fresh(self, order: int, told: bool) -> _Traits:
        """The traits of an order before anything is asked."""
        plan = self.plan
        position, first_order, tell = (name in plan.balance for name in TRAITS[:3])
        reached = 1 <= order <= 2 or (order > 2 and plan.gold != "released" and plan.tell_kind != "private")
        return _Traits(
            position=[0, 0, 0] if position else None,
            tell=[0, 0] if tell and told and reached else None,
            first_order=[0, 0] if first_order and order > 1 else None,
            sensitive=[0, 0] if plan.order_sensitive and order > 1 else None,
            reached=told and reached,
        )

    def ask(self, dice: Dice, plot: Plot, drawn: int) -> list[tuple[int, ...]] | None:
        """The agents asked about, as bits, one tuple an order, or None where the story would upset the balance.

        `drawn` is the number of stories drawn before it in vain.
        """
        slack = min(SLACK + drawn // PATIENCE, MOST)
        minds = Minds(plot, self._kind, self._semantics)
        agents = plot.scene.agents
        found: dict[int, tuple[int, ...]] = {}
        counted: Classes = []
        for order in self._hardest_first:
            ring = dice.shuffle(agents)  # of which every stretch is tried
            best = self._best(minds, ring + ring, order, slack)
            if best is None:
                return None
            found[order] = best[0]
            counted += best[1]
        for leads, at in counted:
            _count(leads, at)
        return [found[order] for order in self.plan.orders]

    def _best(
        self, minds: Minds, ring: tuple[int, ...], order: int, slack: int
    ) -> tuple[tuple[int, ...], Classes] | None:
        """The stretch of the ring that puts every trait into its rarest class, else the best, with its classes."""
        position, tell, first_order, sensitive, reached = self._traits[order, minds.told]
        best: tuple[tuple[int, ...], Classes] | None = None
        least = place = other = copied = 0
        for turn in range(len(ring) // 2 if order else 1):
            asked = ring[turn : turn + order]
            belief = witnessed = minds.witnessed(asked)
            if reached:
                belief = minds.belief(asked, witnessed)
            behind = lead = 0
            if position is not None:
                place = 0 if belief == minds.first else 1 if belief == minds.second else 2
                behind = lead = position[place]
            if tell is not None and lead < slack:
                other = belief != witnessed
                behind += (lead := tell[other])
            if first_order is not None and lead < slack:
                copied = belief == minds.alone(asked[-1])
                behind += (lead := first_order[copied])
            if lead >= slack:
                self._failed[order] += 1
                continue
            changes = False
            if sensitive is not None:
                changes = minds.turned(asked, belief)
                if sensitive[0] >= sensitive[1] and not changes:
                    self._insensitive[order] += 1
                    continue
            if best is None or behind < least:
                each = ((position, place), (tell, other), (first_order, copied), (sensitive, changes))
                best, least = (asked, [(leads, at) for leads, at in each if leads is not None]), behind
            if not least:
                break
        return best

    def give_up(self, number: int) -> ConfigError:
        """The error to raise where no story keeps the balance."""
        failed = self._insensitive or self._failed
        if not failed:
            return ConfigError(
                f"story {number}: none of {STORIES} drawn stories fits --lines and --choices; give more of them, or "
                "fewer --moves, --tells and --chapters"
            )
        order, _ = failed.most_common(1)[0]
        more = " or --lines" if self.plan.lines is not None else ""
        option = "--order-sensitive" if self._insensitive else f"the balance ({', '.join(self.plan.balance)})"
        return ConfigError(
            f"story {number}: none of {STORIES} drawn stories keeps {option} at order {order}; give fewer --stories, "
            f"other --orders, more --moves or --tells{more}, or balance less (--balance)"
        )

    def letter(self, dice: Dice, answers: Sequence[tuple[int, str]], others: Sequence[str]) -> list[str]:
        """The choices in their order: `answers` are (order, container) of the story's questions, `others` the rest.

        Each answer takes the free place that its orders have had least often; the rest fall as they may.
        """
        size = len({label for _, label in answers}) + len(others)
        rest = dice.sample(others, len(others))
        if "letter" not in self.plan.balance:
            return dice.sample([*dict.fromkeys(label for _, label in answers), *rest], size)
        orders: dict[str, list[int]] = {}
        for order, label in answers:
            orders.setdefault(label, []).append(order)
        places: list[str | None] = [None] * size
        free = dice.sample(range(size), size)
        for label in sorted(orders, key=lambda label: -len(orders[label])):
            dealt = [self._letters[order] for order in orders[label]]
            often = dealt[0][:size]
            for counts in dealt[1:]:
                often = list(map(add, often, counts))
            at = min(free, key=often.__getitem__)
            free.remove(at)
            places[at] = label
            for counts in dealt:
                counts[at] += 1
        return [label if label is not None else rest.pop() for label in places]
