"""Agreement of the hand-written gold with the blind second annotation; lists every disagreement.

    python dataset/annotation/agreement.py [--list]

Krippendorff's alpha with MASI distance over all sentences, over sentences where the belief changes, and over last
sentences, with intervals that resample tasks (2,000 seeded draws, percentiles). Replies whose story has changed since
(their code or number of sentences is no longer there) are counted and left out.
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
Pair = tuple[frozenset[str], frozenset[str]]


def main() -> None:
    """Print the table, and with --list every disagreement."""
    pairs: dict[tuple[str, str], dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    differing: list[str] = []
    known, read, stale = stories(), 0, 0
    sent = {
        entry["code"]: tuple(entry["sentences"])
        for path in sorted((HERE / "sheets").glob("*.jsonl"))
        for entry in map(orjson.loads, path.read_bytes().splitlines())
    }
    for path in sorted((HERE / "replies").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            reply = orjson.loads(line)
            story = known.get(reply["code"])
            if story is None or story["belief"].story != sent[reply["code"]]:
                stale += 1
                continue
            read += 1
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
                        differing.append(
                            f"{reply['code']} {item.cluster}/{item.factors['scenario']} {which} sentence {t + 1}: "
                            f"gold {sorted(pair[0])}, second {sorted(pair[1])}\n      {item.story[t]}"
                            + (f"\n      note: {reply['note']}" if reply.get("note") else "")
                        )
    print(f"{read} stories compared; {stale} replies to stories that have changed since")
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
        print(*differing, sep="\n")


if __name__ == "__main__":
    main()
