"""Measures how many Hi-ToM stories a second the generator makes on one core, with questions, gold answers and factors.

    python bench/hitom.py [--stories 6000]

CPU seconds of one process, best of three, for the default plan (balanced in position, first-order, tell and letter),
without balance, for matched twins and for order-sensitive items; and as a multiple of the released script, which makes
about 60 such stories a second. Aim: 3,000 a second. The items are encoded as JSON lines and thrown away.
"""

from __future__ import annotations

import argparse
import time

from tomserve.benchmarks.hitom.generator import generate, item_lines
from tomserve.benchmarks.hitom.plan import Plan

RELEASED = 60
ROUNDS = 3


def seconds(plan: Plan) -> tuple[float, int]:
    """CPU seconds to generate the stories of a plan and encode their items, and how many bytes these take."""
    size = 0
    began = time.process_time()
    for family in generate(plan.check()):
        for line in item_lines(family):
            size += len(line)
    return time.process_time() - began, size


def main() -> None:
    """Time every plan and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stories", type=int, default=6000)
    stories = parser.parse_args().stories // 4 * 4
    plans = {
        "default": Plan(stories=stories),
        "not balanced": Plan(stories=stories, balance=()),
        "twins": Plan(stories=stories, tells=(2,), twins=True),
        "order-sensitive": Plan(stories=stories, tells=(2,), order_sensitive=True),
    }
    for name, plan in plans.items():
        times, sizes = zip(*(seconds(plan) for _ in range(ROUNDS)), strict=True)
        speed = stories / min(times)
        print(
            f"{name:16s} {speed:7.0f} stories/s  ({min(times):.2f} to {max(times):.2f} s for {stories}, "
            f"{sizes[0] / 1e6:.0f} MB)  {speed / RELEASED:5.0f} x the released script's {RELEASED}"
        )


if __name__ == "__main__":
    main()
