"""Makes the variants of every item of benchmarks, and counts what could be made of each kind, and how fast.

    python bench/variants.py worlds [OTHER ...] [--items 500]

For each benchmark and kind: how many variants were made, the share of the items, the time an item in process time, and
every reason for which there is none, with its count. Aims: at most 5% of the items of worlds without a variant of a
kind, and 0.5 ms an item and kind. Exit code 1 where a variant does not stand for the answer of its original.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from itertools import islice

from tomserve import benchmarks
from tomserve.items import Item
from tomserve.stability import AGAIN, KINDS, Kind, variants
from tomserve.stability.making import CHANGES_TRUTH, Dropped


def made(items: list[Item], kind: Kind, benchmark: benchmarks.Benchmark) -> tuple[Counter[str], Counter[str], float]:
    """How many variants were made, by family, why the others were not, and the seconds that it took."""
    reasons, families = Counter[str](), Counter[str]()
    by_id = {item.id: item for item in items}
    began = time.process_time()
    for one in variants(items, [kind], benchmarks.retelling(benchmark)):
        family = str(by_id[one.item if isinstance(one, Dropped) else str(one.base)].factors.get("family", ""))
        if isinstance(one, Dropped):
            reasons[f"{one.reason}{family and f' ({family})'}"] += 1
        else:
            families[family] += 1
    return families, reasons, time.process_time() - began


def main() -> int:
    """Make, count, print; 1 where an answer changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="+")
    parser.add_argument("--items", type=int, default=None, help="so many items of each benchmark; all by default")
    options = parser.parse_args()
    wrong = False
    for name in options.benchmarks:
        benchmark = benchmarks.get(name)
        items = list(islice(benchmark.items(), options.items))
        print(f"{name}: {len(items):,} items")
        for kind in KINDS:
            if kind is AGAIN:
                continue
            families, reasons, seconds = made(items, kind, benchmark)
            count, pace = families.total(), 1000 * seconds / len(items)
            print(f"  {kind.short} {kind.name:<11}{count:>7,}  {count / len(items):>6.1%}  {pace:.2f} ms an item")
            for reason, number in reasons.most_common():
                print(f"       {number:>7,}  {reason}")
                wrong |= reason.startswith(CHANGES_TRUTH)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
