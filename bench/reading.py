"""How many final answers of free prose are read, and how many of what is read is wrong, by kind of model.

python bench/reading.py [--half "held out"] [--unread]

replies.jsonl holds 335 replies written in the manner of five kinds of models. A second reader labelled them without
seeing what the writer had intended, and agreed in all 335. Half of them ("seen") were read while the rules of
tomserve.scoring were written; the others ("held out") were not, and a figure of theirs is what to expect of replies
like these. They are harder than most: one in six holds no answer, one in sixteen names a letter and the words of
another choice, and many say a choice in words of their own, which no rule can read.

coverage: of the replies in which the second reader found an answer, the share from which it is read. wrong: of the
replies from which something is read, the share in which the second reader found something else, or nothing.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson

from tomserve.scoring.answers import read
from tomserve.scoring.labels import Lettered

REPLIES = Path(__file__).parent / "replies.jsonl"


def answer(reply: dict[str, Any]) -> str | None:
    """What is read from one reply."""
    choices = Lettered(reply["choices"]) if reply["lettered"] else tuple(reply["choices"])
    return read(reply["text"], choices, None, reply["question"]).answer


def main() -> None:
    """Print a line for each half and kind, and what reading costs."""
    parser = argparse.ArgumentParser(description="precision and coverage of the reader of free prose")
    parser.add_argument("--half", choices=("seen", "held out"), help="only this half")
    parser.add_argument("--unread", action="store_true", help="print the replies of the seen half that are not read")
    given = parser.parse_args()
    replies = [orjson.loads(line) for line in REPLIES.read_bytes().splitlines()]
    began = time.perf_counter()
    found = {reply["id"]: answer(reply) for reply in replies}
    spent = time.perf_counter() - began
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for reply in replies:
        got, label = found[reply["id"]], reply["label"]
        for kind in (reply["kind"], "all"):
            count = counts[reply["half"], kind]
            for place, holds in enumerate(
                (label is not None, label is not None and got == label, got is not None, got not in (None, label))
            ):
                count[place] += holds
        if given.unread and reply["half"] == "seen" and got != label:
            print(f"{reply['id']} ({reply['kind']}), expected {label!r}, read {got!r}:\n{reply['text']}\n")
    print(f"{'half':10s}{'kind':14s}{'answers':>8s}{'coverage':>10s}{'read':>6s}{'wrong':>8s}")
    for half, kind in sorted(counts, key=lambda one: (one[0], one[1] == "all")):
        there, right, known, wrong = counts[half, kind]
        if given.half in (None, half):
            print(f"{half:10s}{kind:14s}{there:8d}{right / there:10.1%}{known:6d}{wrong / max(known, 1):8.1%}")
    print(f"{1000 * spent / len(replies):.2f} ms a reply")


if __name__ == "__main__":
    main()
