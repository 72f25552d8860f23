"""Write the blind annotation sheets: every unswapped task x scenario story, in random order, without class or gold.

    python dataset/annotation/sheets.py OUT [--sheets 8]

The code of a story is a hash of its name, so that sheets carry no key; the order of stories and labels is seeded.
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


def code(item: Item) -> str:
    """Six hex digits that say nothing about the story."""
    return hashlib.sha256(f"{SEED}:{item.cluster}/{item.factors['scenario']}".encode()).hexdigest()[:6]


def stories() -> dict[str, dict[str, Item]]:
    """The unswapped items of each story, by code: {"belief": item, "reality": item}."""
    found: dict[str, dict[str, Item]] = {}
    for item in load():
        if not item.factors["swapped"]:
            found.setdefault(code(item), {})[str(item.factors["question_kind"])] = item
    return found


def main() -> None:
    """Write sheet-1.jsonl, sheet-2.jsonl, ... into OUT."""
    if len(sys.argv) not in (2, 4):
        sys.exit("usage: python dataset/annotation/sheets.py OUT [--sheets N]")
    out, count = Path(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) == 4 else 8
    out.mkdir(parents=True, exist_ok=True)
    order = random.Random(SEED)
    known = stories()
    names = sorted(known)
    order.shuffle(names)
    for sheet in range(count):
        lines = []
        for name in names[sheet::count]:
            belief, reality = known[name]["belief"], known[name]["reality"]
            labels = list(belief.choices)
            order.shuffle(labels)
            entry = {
                "code": name,
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
