"""Measures how many Hi-ToM stories a second the generator makes on one core, with questions, gold answers and factors.

    python bench/hitom.py [--stories 2000] [--rounds 5]

For the default plan (balanced in position, first-order, tell and letter), without balance, for matched twins and for
order-sensitive items: stories a CPU second of one process, and how many times as long as the floor. The floor is what
is left where nothing has to be drawn, believed or balanced: the same stories, kept in memory, named by the digest of
their sentences and encoded as JSON lines, which are thrown away. Every round times all plans and their floors one after
the other; medians of the rounds, with the lowest and the highest in brackets. Aims: 6,000 stories a second of the
default plan, 2,500 order-sensitive ones. The released script makes about 60.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from _figures import spread_figure

from tomserve.benchmarks.hitom.generator import Rows, generate, item_lines
from tomserve.benchmarks.hitom.items import story_id
from tomserve.benchmarks.hitom.plan import Plan

RELEASED = 60
AIMS = {"balanced": 6000.0, "order-sensitive": 2500.0}


def encode(families: Iterable[Rows], *, name: bool) -> float:
    """CPU seconds to encode the items of these stories, which are made while it reads them if they are not there yet;
    `name`: and to name their stories again."""
    began = time.process_time()
    for family in families:
        for line in item_lines(family):
            len(line)
        for story in dict.fromkeys(row["story"] for row in family) if name else ():
            story_id(story)
    return time.process_time() - began


def spread(figures: list[float], form: str) -> str:
    """The median of some figures, with the lowest and the highest."""
    return f"{median(figures):{form}} ({min(figures):{form}} to {max(figures):{form}})"


def main() -> None:
    """Time every plan and its floor in rounds, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stories", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    stories = max(options.stories // 4 * 4, 4)
    plans = {
        "balanced": Plan(stories=stories),
        "not balanced": Plan(stories=stories, balance=()),
        "twins": Plan(stories=stories, tells=(2,), twins=True),
        "order-sensitive": Plan(stories=stories, tells=(2,), order_sensitive=True),
    }
    ready = {name: list(generate(plan.check())) for name, plan in plans.items()}
    speeds, times = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for _ in range(options.rounds):
        for name, plan in plans.items():
            ours, floor = encode(generate(plan), name=False), encode(ready[name], name=True)
            speeds[name].append(stories / ours)
            times[name].append(ours / floor)
    for name in plans:
        spread_figure(f"{name}, stories a second", speeds[name], at_least=AIMS.get(name))
        print(
            f"{name:16s} {spread(speeds[name], ',.0f')} stories/s, {spread(times[name], '.1f')} times the floor, "
            f"{median(speeds[name]) / RELEASED:.0f} x the released script"
        )


if __name__ == "__main__":
    main()
