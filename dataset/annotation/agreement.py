"""How far a blind second annotation agrees with the hand-written gold of the dataset.

    python dataset/annotation/agreement.py [--list]

Prints Krippendorff's alpha with the MASI distance over all sentences, over the sentences where the gold label changes,
and over last sentences. The 95 % intervals are percentiles of 2,000 seeded draws that resample tasks, because the
sentences of a task depend on each other; they speak about further tasks of the same kind. Replies to stories that have
changed since (their code or their sentences are no longer there) are counted and left out. --list prints every
disagreement, too.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from pathlib import Path

import orjson
from sheets import stories

from tomserve.stats.agreement import krippendorff_alpha

HERE = Path(__file__).parent
DRAWS = 2000
"""Number of resampled sets of tasks for an interval."""
Pair = tuple[frozenset[str], frozenset[str]]
"""The labels of one sentence: those of the gold, and those of the second annotator."""


def main() -> None:
    """Print the table, and with --list every disagreement. Exits with a message where a reply has another number of
    sentences.
    """
    pairs: dict[tuple[str, str], dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    disagreements: list[str] = []
    annotated, compared, stale = stories(), 0, 0
    sent = {
        entry["code"]: tuple(entry["sentences"])
        for path in sorted((HERE / "sheets").glob("*.jsonl"))
        for entry in map(orjson.loads, path.read_bytes().splitlines())
    }
    for path in sorted((HERE / "replies").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            reply = orjson.loads(line)
            story = annotated.get(reply["code"])
            if story is None or story["belief"].story != sent[reply["code"]]:
                stale += 1
                continue
            compared += 1
            for which in ("belief", "reality"):
                item = story[which]
                assert item.gold is not None  # stages always have a rationale,
                assert item.gold.sets is not None  # and give it as sets
                gold = [frozenset(layer) for layer in item.gold.sets]
                given = [frozenset(layer) for layer in reply[which]]
                if len(given) != len(gold):
                    raise SystemExit(f"{path}: {reply['code']}: {len(given)} sets for {len(gold)} sentences")
                for t, pair in enumerate(zip(gold, given, strict=True)):
                    cells = pairs[which, item.cluster]
                    cells["all sentences"].append(pair)
                    if t and gold[t] != gold[t - 1]:
                        cells["sentences of change"].append(pair)
                    if t == len(gold) - 1:
                        cells["last sentences"].append(pair)
                    if pair[0] != pair[1]:
                        disagreements.append(
                            f"{reply['code']} {item.cluster}/{item.factors['scenario']} {which} sentence {t + 1}: "
                            f"gold {sorted(pair[0])}, second {sorted(pair[1])}\n      {item.story[t]}"
                            + (f"\n      note: {reply['note']}" if reply.get("note") else "")
                        )
    print(f"{compared} stories compared; {stale} replies to stories that have changed since")
    print("| sets | over | n | equal | alpha (MASI) | 95% interval, tasks resampled |")
    print("|---|---|---|---|---|---|")
    for which in ("belief", "reality"):
        tasks = [cells for (kind, _), cells in sorted(pairs.items()) if kind == which]
        for part in ("all sentences", "sentences of change", "last sentences"):
            every = [pair for cells in tasks for pair in cells[part]]
            draw = random.Random(1)
            alphas = sorted(
                krippendorff_alpha([pair for cells in draw.choices(tasks, k=len(tasks)) for pair in cells[part]])
                for _ in range(DRAWS)
            )
            low, high = alphas[int(0.025 * DRAWS)], alphas[int(0.975 * DRAWS) - 1]
            same = sum(a == b for a, b in every)
            alpha = krippendorff_alpha(every)
            print(f"| {which} | {part} | {len(every)} | {same} | {alpha:.3f} | {low:.3f} to {high:.3f} |")
    if "--list" in sys.argv:
        print(*disagreements, sep="\n")


if __name__ == "__main__":
    main()
