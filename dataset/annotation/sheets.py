"""Write the sheets for blind annotation: the unswapped stories of every task and scenario, without class or gold.

    python dataset/annotation/sheets.py OUT [--sheets 8] [--changed] [--gold FILE]

A story is known by a code, a hash of its name, so that a sheet does not tell what it is about. The order of stories and
labels is random, with a fixed seed. --changed writes only the stories whose text, questions or gold have changed since
the first round of annotation. --gold writes the gold of these stories as it is now to a file that no annotator may see;
`agreement.py` asks it whether the gold is still the same.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def written(code_of_story: str, story: Mapping[str, Item]) -> dict[str, Any]:
    """A story's gold as a line of a file gold.jsonl: its code, and the sets of labels of each kind of question."""
    sets = {kind: item.gold.sets for kind, item in story.items() if item.gold and item.gold.sets}
    return {"code": code_of_story} | {kind: [list(layer) for layer in found] for kind, found in sorted(sets.items())}


def unchanged(entry: Mapping[str, Any], gold: Mapping[str, Any], story: Mapping[str, Item]) -> bool:
    """Whether a story is as it was handed out: its text, its questions and its gold. entry: its line of a sheet. gold:
    its line of the round's gold.jsonl."""
    return (
        entry["sentences"] == list(story["belief"].story)
        and all(entry[f"{kind}_question"] == item.question for kind, item in story.items())
        and gold == written(entry["code"], story)
    )


def read(path: Path) -> list[Any]:
    """The lines of a file of JSON lines."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def changed() -> set[str]:
    """The codes of the stories that are not as they were in the first round, or were not in it."""
    here, now = Path(__file__).parent, stories()
    gold = {entry["code"]: entry for entry in read(here / "gold.jsonl")}
    sent = [entry for path in sorted((here / "sheets").glob("*.jsonl")) for entry in read(path)]
    return set(now) - {
        code for entry in sent if (code := entry["code"]) in now and unchanged(entry, gold[code], now[code])
    }


def main() -> None:
    """Write sheet-1.jsonl, sheet-2.jsonl, ... into the folder OUT. Exits with the usage where options are wrong."""
    parser = argparse.ArgumentParser(description="Write the sheets for blind annotation.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--sheets", type=int, default=8)
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--gold", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    order = random.Random(SEED)
    by_code = stories()
    codes = sorted(changed() if options.changed else by_code)
    if options.gold is not None:
        options.gold.write_bytes(b"".join(orjson.dumps(written(name, by_code[name])) + b"\n" for name in codes))
    order.shuffle(codes)
    for sheet in range(options.sheets):
        lines = []
        for code_of_story in codes[sheet :: options.sheets]:
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
        (options.out / f"sheet-{sheet + 1}.jsonl").write_bytes(b"".join(lines))
        print(f"sheet-{sheet + 1}.jsonl: {len(lines)} stories")


if __name__ == "__main__":
    main()
