"""How far blind annotations agree with the hand-written gold of the dataset.

    python dataset/annotation/agreement.py [--as-annotated] [--list]

Prints, for each annotator, Krippendorff's alpha with the MASI distance over all sentences, over the sentences where the
gold label changes, and over last sentences. The 95 % intervals are percentiles of 2,000 seeded draws that resample
tasks, because the sentences of a task depend on each other; they speak about further tasks of the same kind.

A reply counts for a story that has not changed since: neither its text nor its questions nor its gold. Gold that was
changed after a reply had been read would agree with it for no good reason. Replies to changed stories are counted and
left out; --as-annotated compares all replies with the gold as it was when they were written. --list prints every
disagreement, too.

A round of annotation is a folder with `sheets/` (what was handed out), `gold.jsonl` (the gold at that time) and
`replies/` of one annotator, or `replies/NAME/` of several. The first round lies in this folder, the round after the
stories were changed in `second/`.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from alpha import drawn_alphas, krippendorff_alpha
from sheets import read, stories, unchanged

HERE = Path(__file__).parent
DRAWS = 2000
"""Number of resampled sets of tasks for an interval."""
KINDS = ("belief", "reality")
Pair = tuple[frozenset[str], frozenset[str]]
"""The labels of one sentence: those of the gold, and those of the annotator."""


class Story(NamedTuple):
    """A story as it was handed out: its sentences, what is known of it, and the gold sets by kind of question."""

    sentences: list[str]
    where: str
    cluster: str
    gold: dict[str, list[list[str]]]


def main() -> None:
    """Print a table for each annotator, and with --list every disagreement. Exits with a message where a reply has
    another number of sentences or belongs to no story that was handed out.
    """
    for folder in (HERE, HERE / "second"):
        sent, changed = handed_out(folder, as_annotated="--as-annotated" in sys.argv)
        for name, files in annotators(folder / "replies"):
            report(name, files, sent, changed)


def annotators(folder: Path) -> list[tuple[str, list[Path]]]:
    """The annotators of a round and their files of replies; the one annotator of the first round has no name."""
    named = [(f"Annotator {path.name}: ", sorted(path.glob("*.jsonl"))) for path in sorted(folder.glob("*/"))]
    return [("", files)] if (files := sorted(folder.glob("*.jsonl"))) else [found for found in named if found[1]]


def handed_out(folder: Path, *, as_annotated: bool) -> tuple[dict[str, Story], set[str]]:
    """The stories of a round by code, and the codes of those that have changed since. as_annotated: take all stories
    with the gold of that time, and none as changed."""
    now, sent, changed = stories(), {}, set()
    sheets = sorted((folder / "sheets").glob("*.jsonl"))
    gold = {entry["code"]: entry for entry in read(folder / "gold.jsonl")} if sheets else {}
    for entry in (entry for path in sheets for entry in read(path)):
        code = entry["code"]
        belief = now[code]["belief"]
        where = f"{belief.cluster}/{belief.factors['scenario']}"
        sent[code] = Story(entry["sentences"], where, belief.cluster, {kind: gold[code][kind] for kind in KINDS})
        if not as_annotated and not unchanged(entry, gold[code], now[code]):
            changed.add(code)
    return sent, changed


def report(name: str, files: Sequence[Path], sent: dict[str, Story], changed: set[str]) -> None:
    """Print the table of one annotator, and with --list the disagreements."""
    pairs: dict[tuple[str, str], dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    disagreements: list[str] = []
    replies = [(path, reply) for path in files for reply in read(path)]
    for path, reply in replies:
        if reply["code"] not in sent:
            raise SystemExit(f"{path}: {reply['code']}: no story of this code was handed out; correct the code")
        if reply["code"] not in changed:
            disagreements += compare(path, reply, sent[reply["code"]], pairs)
    stale = sum(reply["code"] in changed for _, reply in replies)
    print(f"{name}{len(replies) - stale} stories compared; {stale} replies to stories that have changed since")
    print("| sets | over | n | equal | alpha (MASI) | 95% interval, tasks resampled |")
    print("|---|---|---|---|---|---|")
    for which in KINDS:
        tasks = [cells for (kind, _), cells in sorted(pairs.items()) if kind == which]
        for part in ("all sentences", "sentences of change", "last sentences"):
            print(f"| {which} | {part} | {row([cells[part] for cells in tasks])} |")
    if "--list" in sys.argv:
        print(*disagreements, sep="\n")


def compare(path: Path, reply: Any, story: Story, pairs: dict[tuple[str, str], dict[str, list[Pair]]]) -> list[str]:
    """Add the pairs of a reply's sets and the gold's to `pairs`, by kind of question and task, then by part of the
    story. Gives a line for each disagreement."""
    disagreements = []
    for which in KINDS:
        gold = [frozenset(layer) for layer in story.gold[which]]
        given = [frozenset(layer) for layer in reply[which]]
        if len(given) != len(gold):
            raise SystemExit(
                f"{path}: {reply['code']}: {len(given)} sets for {len(gold)} sentences; give one a sentence"
            )
        cells = pairs[which, story.cluster]
        for t, pair in enumerate(zip(gold, given, strict=True)):
            cells["all sentences"].append(pair)
            if t and gold[t] != gold[t - 1]:
                cells["sentences of change"].append(pair)
            if t == len(gold) - 1:
                cells["last sentences"].append(pair)
            if pair[0] != pair[1]:
                disagreements.append(
                    f"{reply['code']} {story.where} {which} sentence {t + 1}: "
                    f"gold {sorted(pair[0])}, annotator {sorted(pair[1])}\n      {story.sentences[t]}"
                    + (f"\n      note: {reply['note']}" if reply.get("note") else "")
                )
    return disagreements


def row(tasks: Sequence[list[Pair]]) -> str:
    """The number of pairs, how many are equal, alpha and its interval, as cells of a table. tasks: pairs by task."""
    every = [pair for task in tasks for pair in task]
    draw, count = random.Random(1), len(tasks)
    chosen = [np.bincount(draw.choices(range(count), k=count), minlength=count) for _ in range(DRAWS)]
    alphas = sorted(drawn_alphas(tasks, np.stack(chosen)))
    low, high = alphas[int(0.025 * DRAWS)], alphas[int(0.975 * DRAWS) - 1]
    equal = sum(a == b for a, b in every)
    return f"{len(every)} | {equal} | {krippendorff_alpha(every):.3f} | {low:.3f} to {high:.3f}"


if __name__ == "__main__":
    main()
