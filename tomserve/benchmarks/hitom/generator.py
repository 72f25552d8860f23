"""Generator of Hi-ToM stories with questions, gold answers and gold chains: seeded, balanced, fast.

The same plan gives the same bytes on every machine and in every version of Python, and its first stories whatever
their number. Items are made as rows, which are written without being validated (five in half a millisecond);
that they are what `make_row` makes of the story as it is told is proven by the tests.

Every item is told by the sentences of the released generator, so that `--format hitom` is a file like the official
one and reads back. What differs from the released stories, on purpose: agents leave in another order than they are
listed in; an object may be moved several times in a turn; rooms and the object asked about do not come back in later
chapters (so that no label hangs on what one sees on coming back); tells always concern the object asked about. What
stays, and must be known to whoever reads the numbers: without tells a nested belief is what all asked agents saw
together last.

    >>> rows = next(generate(Plan(stories=1, seed=7).check()))
    >>> [row["factors"]["order"] for row in rows]
    [0, 1, 2, 3, 4]
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import add
from typing import Any, NamedTuple

import orjson

from tomserve.benchmarks.hitom.events import Story, words
from tomserve.benchmarks.hitom.items import CORRECTED, TrackedBeliefs, make_row, story_id, write_choices
from tomserve.benchmarks.hitom.plan import LETTERS, ORDERS_RANGE, TRAITS, Plan
from tomserve.benchmarks.hitom.sampler import (
    MOST_PLACES,
    UNTOLD,
    Dice,
    Plot,
    draw,
    draw_distractors,
    set_scene,
    tell_lines,
)
from tomserve.errors import ConfigError
from tomserve.items import SCHEMA, Factor, Item

SLACK, MOST = 2, 8
"""How many items a class may fall behind another of the same trait and order, with or without tells: 2, but one more
for every PATIENCE stories drawn in vain, up to 8."""
PATIENCE = 8
STORIES = 1000  # stories that are drawn before the generator gives up

Leads = list[int]
"""For each class of a trait how many items it has more than the rarest class."""
Classes = list[tuple[Leads, int]]  # for each trait of a question its classes, and which of them it is in


class _Traits(NamedTuple):
    """What is kept level for one order, with or without tells; None where the plan or the order has no such trait."""

    position: Leads | None
    tell: Leads | None
    first_order: Leads | None
    sensitive: Leads | None
    reached: bool  # whether tells can decide questions of that order


class Balance:
    """What has been asked so far, and what to ask of the next story.

    Questions are balanced. Within every order, and apart for stories with and without tells, the classes of a trait
    are kept level:

        position      the answer is the first, the second or a later container in which the object is seen or said to be
        first-order   it is also what the innermost agent believes, or not (orders from 2)
        tell          the tells decide it, or not (stories with tells; orders that tells reach: all from 1 under
                      common_knowledge, but private ones only 1 and 2; 1 and 2 as released)
        letter        its place among the choices

    Of several nestings of agents, drawn at random, the first is asked that puts every trait into its rarest class,
    else the best of them, as long as no class falls too far behind another (SLACK). A story without such a question is
    drawn again. Letters are dealt afterwards and never need a new story. Twins are balanced by the deceptive one.
    `--order-sensitive` is stricter: at no time are fewer than half of the items of an order sensitive.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._kind = "deceptive" if plan.twins else ""
        self._traits: dict[tuple[int, bool], _Traits] = {
            (order, told): self._fresh(order, told) for order in plan.orders for told in (False, True)
        }
        self._letters = {order: [0] * len(words().containers) for order in plan.orders}
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

    def ask(self, dice: Dice, plot: Plot, drawn: int) -> list[tuple[str, ...]] | None:
        """The agents asked about, one tuple an order, or None where the story would upset the balance. `drawn` is the
        number of stories drawn before it in vain."""
        slack = min(SLACK + drawn // PATIENCE, MOST)
        minds = TrackedBeliefs(plot.trace(self._kind), self.plan.gold)
        agents = plot.scene.names
        found: dict[int, tuple[str, ...]] = {}
        counted: Classes = []
        for order in self._hardest_first:
            ring = tuple(dice.sample(agents, len(agents)))  # of which every stretch is tried
            best = self._best(minds, ring + ring, order, slack)
            if best is None:
                return None
            found[order] = best[0]
            counted += best[1]
        for leads, at in counted:
            leads[at] += 1
            if 0 not in leads:
                leads[:] = [lead - 1 for lead in leads]
        return [found[order] for order in self.plan.orders]

    def _best(
        self, minds: TrackedBeliefs, ring: tuple[str, ...], order: int, slack: int
    ) -> tuple[tuple[str, ...], Classes] | None:
        """The stretch of the ring that puts every trait into its rarest class, else the best, with its classes."""
        position, tell, first_order, sensitive, reached = self._traits[order, minds.told]
        best: tuple[tuple[str, ...], Classes] | None = None
        least = place = other = copied = 0
        for turn in range(len(ring) // 2 if order else 1):
            asked = ring[turn : turn + order]
            belief = witnessed = minds.belief_by_sight(asked)
            if reached:
                belief = minds.belief(asked)
            behind = lead = 0
            if position is not None:
                place = min(minds.places.index(belief), 2)
                behind = lead = position[place]
            if tell is not None and lead < slack:
                other = belief != witnessed
                behind += (lead := tell[other])
            if first_order is not None and lead < slack:
                copied = belief == minds.belief(asked[-1:])
                behind += (lead := first_order[copied])
            if lead >= slack:
                self._failed[order] += 1
                continue
            changes = False
            if sensitive is not None:
                changes = minds.depends_on_order(asked, belief)
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
        Each answer takes the free place that its orders have had least often; the rest fall as they may."""
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


Rows = list[dict[str, Any]]
"""The items of a drawn story, or of its four twins one after the other, as JSON has them but for `schema`. They share
their choices and the agents asked about."""


def generate(plan: Plan) -> Iterator[Rows]:
    """The items of a checked plan, story by story, with its twins where it has them. Raises ConfigError where balance
    cannot be kept."""
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
            fits = plan.lines is None or plot.height <= plan.lines
            if fits and plan.choices is not None and plan.choices < MOST_PLACES:
                fits = len(_mentioned_containers(plan, plot)) <= plan.choices
            if fits and (asked := balance.ask(dice, plot, drawn)) is not None:
                rows = _make_rows(dice, plan, balance, plot, asked)
                break
            if not fits or drawn % 20 == 19:
                scene = set_scene(dice, plan, cell)
        else:
            raise balance.give_up(number)
        if rows[0]["cluster"] in known:
            raise ConfigError(f"story {number} has been told before; ask for fewer --stories, or for longer ones")
        known.add(rows[0]["cluster"])
        yield rows


def _mentioned_containers(plan: Plan, plot: Plot) -> dict[str, None]:
    """The containers where the object asked about is seen or said to be in any twin, in order and each once."""
    said = [tell.container(kind) for tell in plot.told for kind in plan.kinds]
    return dict.fromkeys([*plot.containers, *said])


def _make_rows(dice: Dice, plan: Plan, balance: Balance, plot: Plot, asked: list[tuple[str, ...]]) -> Rows:
    count = dice.pick(plan.distractors) if plan.lines is None else plan.lines - plot.height
    gaps, noise = draw_distractors(dice, plot, count)
    semantics, thing = plan.gold, plot.scene.object
    ends = {kind: TrackedBeliefs(plot.trace(kind, gaps), semantics) for kind in plan.kinds}
    answers = [(len(who), ends[kind].belief(who)) for kind in plan.kinds for who in asked]
    elsewhere = [label for chapter in plot.scene.later for label in chapter.containers]
    elsewhere += [thing for _, thing in noise]
    choices = tuple(
        balance.letter(dice, answers, _other_choices(dice, plan, _mentioned_containers(plan, plot), elsewhere, answers))
    )
    named = {*plot.containers, *elsewhere}
    rows: Rows = []
    for kind in plan.kinds:
        sentences = tuple(_merge_distractors(tell_lines(plot, kind), gaps, [sentence for sentence, _ in noise]))
        told = f"hitom/{story_id(sentences)}"
        cluster = rows[0]["cluster"] if rows else told  # the story, or all of its twins together
        lies = len(plot.told) if kind == "deceptive" else 0 if kind else sum([not tell.honest for tell in plot.told])
        tells = [] if kind in UNTOLD else plot.told
        public = len([tell for tell in tells if tell.hearer is None])
        factors: dict[str, Factor] = {
            "length": len(plot.scene.later) + 1,
            "deception": lies > 0,
            "object": thing,
            "semantics": semantics,
            "n_deceptive": lies,
            **({"twin": cluster.removeprefix("hitom/"), "twin_kind": kind} if kind else {}),
            # what follows are the values of `story_factors`, without reading the story again
            "n_lines": len(sentences),
            "n_agents": len(plot.scene.names),
            "n_tells": len(tells),
            "n_public": public,
            "n_private": len(tells) - public,
            "n_distractors": len(gaps),
            "n_containers_mentioned": len(named.union([tell.container(kind) for tell in tells]).intersection(choices)),
            "reentered": len(plot.scene.later) >= len(words().rooms) and Story.parse(sentences).reentered,
        }
        made = (make_row(told, sentences, ends[kind], who, choices, factors) for who in asked)
        rows += [{**row, "cluster": cluster} for row in made]
    return rows


def _merge_distractors(told: list[str | None], gaps: list[int], noise: list[str]) -> list[str]:
    """The lines that there are, with the distractors where they belong."""
    found: list[str | None] = []
    since = 0
    for gap, event in zip(gaps, noise, strict=True):
        found += told[since : gap + 1]
        found.append(event)
        since = gap + 1
    found += told[since:]
    return [line for line in found if line is not None]


def _other_choices(
    dice: Dice, plan: Plan, own: dict[str, None], elsewhere: list[str], answers: list[tuple[int, str]]
) -> list[str]:
    """The choices that answer no question: where else the object is seen or said to be (`own` has the answers, too);
    what else the story mentions, as far as there is room; then any, up to the number wanted."""
    right, known = {label for _, label in answers}, set(words().containers)
    more = [label for label in dict.fromkeys(elsewhere) if label not in own and label in known]
    if plan.choices is not None:
        more = more[: plan.choices - len(own)]
        named = {*own, *more}
        more += dice.sample([label for label in words().containers if label not in named], plan.choices - len(named))
    return [*(label for label in own if label not in right), *more]


def item_lines(rows: Rows) -> Iterator[bytes]:
    """Items as JSON, one line each without its newline, as Item.to_json writes them."""
    return (orjson.dumps({"schema": SCHEMA, **row}) for row in rows)


def records(rows: Rows, first: int = 0) -> Iterator[dict[str, Any]]:
    """The items of a story as records of the official file, which are numbered from `first` on. Raises ConfigError for
    more choices than letters."""
    if (count := len(rows[0]["choices"]) - 1) > LETTERS:
        questions = len({row["factors"]["order"] for row in rows})
        raise ConfigError(
            f"story {first // questions + 1} has {count} choices, the official form letters for {LETTERS}; "
            f"give --choices {LETTERS}, fewer --chapters or --format items"
        )
    for number, row in enumerate(rows, first):
        yield {
            "prompting_type": CORRECTED,
            "deception": row["factors"]["deception"],
            "story_length": row["factors"]["length"],
            "question_order": row["factors"]["order"],
            "sample_id": number,
            "story": "".join([f"{line} {text}\n" for line, text in enumerate(row["story"], 1)]),
            "question": row["question"],
            "choices": write_choices(row["choices"][:-1]),
            "answer": row["answer"],
        }


def official_file(stories: Iterable[Rows]) -> Iterator[bytes]:
    """A file of the official form, {"data": [record, ...]}, in pieces with one record on each line."""
    before, count = b'{"data": [\n', 0
    for rows in stories:
        for record in records(rows, count):
            yield before + orjson.dumps(record)
            before = b",\n"
        count += len(rows)
    yield b"\n]}\n"


def items(plan: Plan) -> Iterator[Item]:
    """The items of a plan. Raises ConfigError where the plan or its balance is impossible."""
    for rows in generate(plan.check()):
        yield from map(Item.model_validate, rows)
