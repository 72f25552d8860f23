"""Checks the right answers of worlds by a second implementation of their rules, and measures how fast items are made.

    python bench/worlds.py [--items 10000] [--seed 2]

The first implementation generates items and is timed, in CPU seconds of this one process: worlds, stories, questions,
gold chains, factors, one JSON line each. Aim: 5,000 a minute. The second one (_possible_worlds.py) shares
no code with it: it goes through all possible histories that agree with what people perceived, and tries all choices.
It answers every line of these items again, from the `world` in the line alone, and must agree on each; after every
sentence where there is a gold chain. The count is printed by family; exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from itertools import chain, count, islice

import _possible_worlds
import orjson
from _figures import figure

from tomserve.benchmarks.worlds.generator import draw_worlds, items
from tomserve.benchmarks.worlds.lexicon import built_in

AIM = 5_000
SHOWN = 20


def generated(number: int, seed: int) -> tuple[list[bytes], float]:
    """So many items as lines of JSON, and the CPU seconds that they took; reading the phrasings is not counted."""
    lexicon = built_in()
    endless = chain.from_iterable(draw_worlds(lexicon, 1_000, seed + more) for more in count())
    made = (item.to_json() for world in endless for item in items(world, lexicon))
    next(made)
    began = time.process_time()
    return list(islice(made, number)), time.process_time() - began


def main() -> int:
    """Generate, compare, print; 1 where the two implementations disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    lines, seconds = generated(options.items, options.seed)
    pace = 60 * len(lines) / seconds
    counted: Counter[str] = Counter()
    chains, found = 0, list[str]()
    for line in lines:
        item = orjson.loads(line)
        counted[item["factors"]["family"]] += 1
        chains += item["gold"] is not None
        found += _possible_worlds.disagreements(item)
    print(f"{'family':<16}items")
    for family, number in sorted(counted.items()):
        print(f"{family:<16}{number:>5,}")
    for one in found[:SHOWN]:
        print(one)
    print(f"{len(lines):,} items, {chains:,} with a gold chain: {len(found):,} disagreements")
    figure("disagreements", len(found), at_most=0, rounds=len(lines))
    figure("items a minute on one core", pace, at_least=AIM)
    print(f"{pace:,.0f} items a minute on one core ({1000 * seconds / len(lines):.2f} ms each; aim: {AIM:,} a minute)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
