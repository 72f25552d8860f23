"""Write the sheets for blind annotation: the unswapped stories of every task and scenario, without class or gold.

    python dataset/annotation/sheets.py OUT [--sheets 8]

A story is known by a code, a hash of its name, so that a sheet does not tell what it is about. The order of stories and
labels is random, with a fixed seed.
"""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path

import orjson

from tomserve.benchmarks.perturbed import load
from tomserve.items import Item

SEED = 7
"""The seed of the codes and of all random orders; the replies refer to codes made with it."""


def code(item: Item) -> str:
    """Six hex digits for an item's story, which say nothing about it."""
    return hashlib.sha256(f"{SEED}:{item.cluster}/{item.factors['scenario']}".encode()).hexdigest()[:6]


def stories() -> dict[str, dict[str, Item]]:
    """The unswapped items by the code of their story, each as {"belief": item, "reality": item}."""
    by_code: dict[str, dict[str, Item]] = {}
    for item in load():
        if not item.factors["swapped"]:
            by_code.setdefault(code(item), {})[str(item.factors["question_kind"])] = item
    return by_code


def main() -> None:
    """Write sheet-1.jsonl, sheet-2.jsonl, ... into the folder OUT. Exits with the usage where options are wrong."""
    if len(sys.argv) not in (2, 4):
        sys.exit("usage: python dataset/annotation/sheets.py OUT [--sheets N]")
    out, count = Path(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) == 4 else 8
    out.mkdir(parents=True, exist_ok=True)
    order = random.Random(SEED)
    by_code = stories()
    codes = sorted(by_code)
    order.shuffle(codes)
    for sheet in range(count):
        lines = []
        for code_of_story in codes[sheet::count]:
            belief, reality = by_code[code_of_story]["belief"], by_code[code_of_story]["reality"]
            labels = list(belief.choices)
            order.shuffle(labels)
            entry = {
                "code": code_of_story,
                "sentences": belief.story,
                "labels": labels,
                "person": belief.factors["asked"],
                "belief_question": belief.question,
                "reality_question": reality.question,
            }
            lines.append(orjson.dumps(entry) + b"\n")
        (out / f"sheet-{sheet + 1}.jsonl").write_bytes(b"".join(lines))
        print(f"sheet-{sheet + 1}.jsonl: {len(lines)} stories")


if __name__ == "__main__":
    main()
