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
from collections.abc import Iterator, Sequence

from tomserve.benchmarks.hitom.plan import ORDERS_RANGE, TRAITS, Plan
from tomserve.benchmarks.hitom.plot import Dice, Plot
from tomserve.benchmarks.hitom.question_item import order_sensitive
from tomserve.benchmarks.hitom.tracker import Trace
from tomserve.benchmarks.hitom.words import CONTAINERS
from tomserve.errors import ConfigError

SLACK, MOST = 2, 8
"""How many items a class may fall behind another of the same trait and order, with or without tells: 2, but one more
for every PATIENCE stories drawn in vain, up to 8."""
PATIENCE = 8
DRAWS = 1  # how often the agents are put in a random ring, of which every stretch is tried
STORIES = 1000  # stories that are drawn before the generator gives up

Classes = list[tuple[list[int], int]]  # for each trait the counts of its classes, and the class of the question


class Balance:
    """What has been asked so far, and what to ask of the next story."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.semantics = plan.gold
        self._counts: dict[tuple[str, int, bool], list[int]] = {}
        self._letters: dict[int, list[int]] = {}
        self._failed: Counter[int] = Counter()
        self._insensitive: Counter[int] = Counter()
        self._alone: dict[tuple[str, ...], str] = {}  # what single agents of the story at hand believe
        self._position, self._first_order, self._tell = (name in plan.balance for name in TRAITS[:3])
        self._hardest_first = sorted(plan.orders, key=lambda order: -(order or ORDERS_RANGE[1] + 1))

    def ask(self, dice: Dice, plot: Plot, drawn: int) -> list[tuple[str, ...]] | None:
        """The agents asked about, one tuple an order, or None where the story would upset the balance.

        `drawn` is the number of stories drawn before it in vain.
        """
        self._alone.clear()
        slack = min(SLACK + drawn // PATIENCE, MOST)
        traced = plot.traced("deceptive" if self.plan.twins else "") if plot.told else None
        places = traced.places if traced else list(dict.fromkeys(plot.chapters[0].containers))
        found: dict[int, tuple[str, ...]] = {}
        counted: Classes = []
        for order in self._hardest_first:
            best = self._best(dice, plot, order, traced, places, slack)
            if best is None:
                return None
            found[order] = best[0]
            counted += best[1]
        for counts, at in counted:
            counts[at] += 1
        return [found[order] for order in self.plan.orders]

    def _best(
        self, dice: Dice, plot: Plot, order: int, traced: Trace | None, places: list[str], slack: int
    ) -> tuple[tuple[str, ...], Classes] | None:
        best: tuple[tuple[str, ...], Classes] | None = None
        least = 0
        ring: list[str] = []
        for at in range(DRAWS * len(plot.names) if order else 1):
            if not (turn := at % len(plot.names)):
                ring = dice.sample(plot.names, len(plot.names)) * 2
            asked = tuple(ring[turn : turn + order])
            behind = 0
            classes: Classes = []
            for counts, number in self._classes(asked, plot, traced, places):
                lead = counts[number] - min(counts)
                if lead >= slack:
                    self._failed[order] += 1
                    break
                behind += lead
                classes.append((counts, number))
            else:
                if self.plan.order_sensitive and order > 1:
                    plain, sensitive = counts = self._count("sensitive", order, True, 2)
                    changes = traced is not None and order_sensitive(traced, asked, self.semantics)
                    if plain >= sensitive and not changes:
                        self._insensitive[order] += 1
                        continue
                    classes.append((counts, changes))
                if best is None or behind < least:
                    best, least = (asked, classes), behind
                if not least:
                    break
        return best

    def _count(self, trait: str, order: int, told: bool, size: int) -> list[int]:
        return self._counts.setdefault((trait, order, told), [0] * size)

    def _classes(
        self, asked: tuple[str, ...], plot: Plot, traced: Trace | None, places: list[str]
    ) -> Iterator[tuple[list[int], int]]:
        order, told = len(asked), traced is not None
        witnessed = belief = plot.witnessed(asked)
        if reached := traced is not None and self._reached(order):
            assert traced is not None
            belief = traced.belief(asked, self.semantics)
        if self._position:
            yield self._count("position", order, told, 3), min(places.index(belief), 2)
        if self._tell and reached:
            yield self._count("tell", order, told, 2), belief != witnessed
        if self._first_order and order > 1:
            alone = asked[-1:]
            first = self._alone.get(alone)
            if first is None:
                first = plot.witnessed(alone) if traced is None else traced.belief(alone, self.semantics)
                self._alone[alone] = first
            yield self._count("first-order", order, told, 2), belief == first

    def _reached(self, order: int) -> bool:
        """Whether tells can decide questions of that order."""
        return 1 <= order <= 2 or (order > 2 and self.semantics != "released" and self.plan.tell_kind != "private")

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
            dealt = [self._letters.setdefault(order, [0] * len(CONTAINERS)) for order in orders[label]]
            often = dealt[0] if len(dealt) == 1 else list(map(sum, zip(*dealt, strict=True)))
            at = min(free, key=often.__getitem__)
            free.remove(at)
            places[at] = label
            for counts in dealt:
                counts[at] += 1
        return [label if label is not None else rest.pop() for label in places]
