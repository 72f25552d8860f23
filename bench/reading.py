"""How many final answers of free prose are read, and how many of what is read is wrong, by kind of model.

python bench/reading.py [--part "held out"] [--rungs] [--unread]

replies.jsonl holds 755 replies written in the manner of six kinds of models. The first 335 were labelled by a second
reader who did not see what the writer had intended, and who agreed in all of them. Half of these ("seen") were read
while the rules of tomserve.scoring were written; the others ("held out") never were, and only their figures were looked
at. The other 420 were written later, batch by batch, and labelled by their writer; each batch was measured before it
was read for better rules, so that its first figures tell what to expect of replies that nobody has seen:

| part     | written                              | coverage at first sight | wrong at first sight |
|----------|--------------------------------------|-------------------------|----------------------|
| batch 1  | against the rules of the first 335    | 73.3% of 135            | 2.0% of 101          |
| batch 2  | after the rules were revised          | 89.9% of 138            | 0.8% of 125          |
| batch 3  | to be hard: long, others' beliefs     | 76.2% of 63             | 7.7% of 52           |
| batch 4  | the same, after a revision            | 78.9% of 38             | 3.2% of 31           |

(Two replies of batch 2 were labelled as having no answer afterwards, since a reader may find two in them.) All parts
are harder than most replies: one in ten holds no answer, some name a letter and the words of another choice, and many
say a choice in words of their own, which no rule can read.

coverage: of the replies in which the reader found an answer, the share from which it is read. wrong: of the replies
from which something is read, the share in which the reader found something else, or nothing.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import orjson
from _figures import figure

from tomserve.scoring.answers import Reading, read_reply
from tomserve.scoring.labels import LetteredChoices

REPLIES = Path(__file__).parent / "replies.jsonl"
HELD_OUT = "held out"


def reading(reply: dict[str, Any]) -> Reading:
    """What is read from one reply."""
    choices = LetteredChoices(reply["choices"]) if reply["lettered"] else tuple(reply["choices"])
    return read_reply(reply["text"], choices, None, reply["question"])


def main() -> None:
    """Print a line for each part and kind, and what reading costs."""
    parser = argparse.ArgumentParser(description="precision and coverage of the reader of free prose")
    parser.add_argument("--part", help='only this part of the replies, such as "seen" or "batch 2"')
    parser.add_argument(
        "--rungs", action="store_true", help="print how many each form of answer read, and how many wrong"
    )
    parser.add_argument("--unread", action="store_true", help="print replies that are not read, but for held out ones")
    given = parser.parse_args()
    replies = [orjson.loads(line) for line in REPLIES.read_bytes().splitlines()]
    replies = [reply for reply in replies if given.part in (None, reply["half"])]
    began = time.perf_counter()
    found = {reply["id"]: reading(reply) for reply in replies}
    spent = time.perf_counter() - began
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    rungs: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for reply in replies:
        got, label = found[reply["id"]].answer, reply["label"]
        for kind in (reply["kind"], "all"):
            count = counts[reply["half"], kind]
            for place, holds in enumerate(
                (label is not None, label is not None and got == label, got is not None, got not in (None, label))
            ):
                count[place] += holds
        if got is not None:
            rung = (found[reply["id"]].parse or "").split("+")[0]
            rungs[reply["half"], rung]["wrong" if got != label else "right"] += 1
        if given.unread and reply["half"] != HELD_OUT and got != label:
            print(f"{reply['id']} ({reply['kind']}), expected {label!r}, read {got!r}:\n{reply['text']}\n")
    print(f"{'part':10s}{'kind':14s}{'answers':>8s}{'coverage':>10s}{'read':>6s}{'wrong':>8s}")
    for part, kind in sorted(counts, key=lambda one: (one[0], one[1] == "all")):
        there, right, known, wrong = counts[part, kind]
        print(f"{part:10s}{kind:14s}{there:8d}{right / there:10.1%}{known:6d}{wrong / max(known, 1):8.1%}")
        if kind == "all":
            figure(f"{part}, coverage", right / there, rounds=there)
            figure(f"{part}, wrong", wrong / max(known, 1), rounds=known)
    for (part, rung), tally in sorted(rungs.items()) if given.rungs else ():
        print(f"{part:10s}{rung:14s}{tally['right']:6d} right{tally['wrong']:4d} wrong")
    figure("a reply", 1000 * spent / len(replies), unit="ms", rounds=len(replies))
    print(f"{1000 * spent / len(replies):.2f} ms a reply")


if __name__ == "__main__":
    main()
