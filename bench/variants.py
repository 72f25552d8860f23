"""Makes the variants of every item of benchmarks, and counts what could be made of each kind, and how fast.

    python bench/variants.py worlds [OTHER ...] [--items 500]

For each benchmark and kind: how many variants were made, the share of the items, and every reason for which there is
none, with its count by family; and the process time an item and kind. Aims: at most 5% of the items of worlds without
a variant of a kind, and 0.5 ms an item and kind. Exit code 1 where the right answer of a variant would have changed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from itertools import islice

from _figures import figure

from tomserve import benchmarks
from tomserve.variants import AGAIN, CHANGES_TRUTH, KINDS, Dropped, Kind, make_variants

PACE, SHARE = 0.5, 0.95
"""The aims: milliseconds an item and kind, and the share of items with a variant of a kind."""


def main() -> int:
    """Make, count, print; 1 where an answer changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="+")
    parser.add_argument("--items", type=int, default=None, help="so many items of each benchmark; all by default")
    options = parser.parse_args()
    wrong = False
    kinds = tuple(kind for kind in KINDS if kind is not AGAIN)
    known = {kind.name: kind for kind in kinds}
    for name in options.benchmarks:
        benchmark = benchmarks.get(name)
        items = list(islice(benchmark.items(), options.items))
        groups = {item.id: str(item.factors.get("family", name)) for item in items}
        count, reasons = Counter[Kind](), dict[Kind, Counter[str]]()
        began = time.process_time()
        for one in make_variants(items, kinds, benchmarks.retelling(benchmark)):
            if isinstance(one, Dropped):
                reasons.setdefault(one.kind, Counter())[f"{one.reason} ({groups[one.item]})"] += 1
                wrong |= one.reason == CHANGES_TRUTH
            else:
                count[known[str(one.factors["variant"])]] += 1
        pace = 1000 * (time.process_time() - began) / len(items) / len(kinds)
        print(f"{name}: {len(items):,} items, {pace:.2f} ms an item and kind")
        figure(f"{name}, an item and kind", pace, unit="ms", at_most=PACE, rounds=len(items))
        for kind in kinds:
            share = count[kind] / len(items)
            figure(f"{name}, with a variant: {kind.name}", share, at_least=SHARE if name == "worlds" else None)
            print(f"  {kind.short} {kind.name:<11}{count[kind]:>7,}  {share:>6.1%}")
            for reason, number in reasons.get(kind, Counter[str]()).most_common():
                print(f"       {number:>7,}  {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
