"""How many final answers of free prose are read, and how many of what is read is wrong, by kind of model.

python bench/reading.py [--part "held out"] [--rungs] [--unread] [--reader URL [--reader-model MODEL]]

replies.jsonl holds 755 replies written in the manner of six kinds of models. The first 335 were labelled by a second
reader who did not see what the writer had intended; of one half ("seen 2") only figures were looked at before the
present rules were written. The other 420 (batch 1 to 4) were written and labelled later.

smollm2.jsonl holds replies of SmolLM2-135M-Instruct (4 bits) to our own stories, by several prompts and temperatures,
with a label: what a person takes for the final answer, or none. Each part was drawn and labelled without knowing what
the rules read, and looked at once; since then it is development, as all of replies.jsonl. "smollm2 3" was labelled
twice by one reader, in two orders (kappa .97, on 144 replies, six of them to BigToM and not kept), "smollm2 4" by two
readers, neither of whom saw what the other or the rules had read (124 of 128 alike, kappa .96; the others were settled
before anything was read). At first sight:

| replies                        | answers | coverage | wrong, invented | rules before: coverage | wrong, invented |
|--------------------------------|---------|----------|-----------------|------------------------|-----------------|
| 175 of replies.jsonl (seen 2)  | 144     | 82.6%    | 4               | 84.7%                  | 1               |
| 266 to our stories (smollm2 2) | 143     | 89.5%    | 10              | 80.4%                  | 17              |
| 47 to BigToM                   | 26      | 84.6%    | 4               | 76.9%                  | 4               |
| 138 to our stories (smollm2 3) | 69      | 94.2%    | 6               | 88.4%                  | 2               |
| 98 to our stories (smollm2 4)  | 50      | 84.0%    | 9               | 82.0%                  | 8               |
| 30 to BigToM, ToMATO (published 1) | 18  | 72.2%    | 4               | 66.7%                  | 3               |
| 58 to our stories (smollm2 5)  | 33      | 97.0%    | 4               |                        |                 |
| 65 to BigToM, ToMATO (published 2) | 36  | 66.7%    | 8               |                        |                 |
| 23 to our stories (smollm2 6)  | 13      | 76.9%    | 1               | 76.9%                  | 2               |
| 12 to BigToM, ToMATO (published 3) | 5   | 100.0%   | 3               | 80.0%                  | 2               |

The rules that read "smollm2 3", "smollm2 4" and "published 1", "smollm2 5" and "published 2", and the last two rows,
were each written after what stands above was seen. "smollm2 4", "published 1" and the last two rows are long replies
at temperatures up to .9: half hold no answer, and of 87 that are read 17 are wrong. "smollm2 5" are replies of at most
60 tokens at such temperatures. From there on one reader labelled, who had read the rules and not what they read. What
was wrong in "smollm2 5" and "published 2" was a choice in the midst of telling something else, and sentences by a
letter with the words of another one.

published.jsonl holds replies to questions of others: their files have to be in TOMSERVE_DATA, and nothing of them is
kept here. With --reader a model reads what the rules leave unread, by `tomserve score --reader`.

coverage: of the replies in which the reader found an answer, the share from which it is read. wrong: of the replies
from which something is read, the share in which the reader found something else, or nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl
from _figures import figure

import tomserve
from tomserve.content.paths import data_file
from tomserve.items import Item
from tomserve.scoring.answers import Reading, read_reply
from tomserve.scoring.labels import ASKED, OFFERED, LetteredChoices
from tomserve.status import LENGTH, OK

REPLIES = tuple(Path(__file__).parent / name for name in ("replies.jsonl", "smollm2.jsonl", "published.jsonl"))
PUBLISHED = {"bigtom": "bigtom.csv", "tomato": "tomato_fb.json"}
HELD_OUT = "held out"


def load_replies() -> list[dict[str, Any]]:
    """The labelled replies, those to others' questions only where the files of these are in TOMSERVE_DATA."""
    replies = [orjson.loads(line) for file in REPLIES for line in file.read_bytes().splitlines()]
    there = {name: path for name, file in PUBLISHED.items() if (path := data_file(file)) is not None}
    items = {(name, item.id): item for name, path in there.items() for item in tomserve.load(name, path=path)}
    ours = [reply for reply in replies if "item" not in reply]
    return ours + [fill_in(one, items[one["kind"], one["item"]]) for one in replies if one.get("kind") in there]


def fill_in(reply: dict[str, Any], item: Item) -> dict[str, Any]:
    """A reply to a question of others, of which only what the model wrote itself is kept: four or more words of the
    item that follow each other are given as where they begin in it, and their length."""
    told = "\n".join((*item.story, item.question, *item.choices))
    text = "".join(one if isinstance(one, str) else told[one[0] : sum(one)] for one in reply["text"])
    label = None if reply["label"] is None else item.choices[reply["label"]]
    return {**reply, "question": item.question, "choices": list(item.choices), "text": text, "label": label}


def reading(reply: dict[str, Any]) -> Reading:
    """What is read from one reply."""
    choices: Sequence[str] = tuple(reply["choices"])
    if reply["lettered"]:
        offered = reply.get(
            "offered"
        )  # the places of the choices beside A, B, C, where these were shown in another order
        choices = LetteredChoices(choices, offered and tuple(choices[place] for place in offered))
    return read_reply(reply["text"], choices, None, reply["question"], reply.get("whole", True))


def read_by(reader: Sequence[str], replies: Sequence[dict[str, Any]]) -> dict[str, Reading]:
    """What is read by the rules, and by a reader where they find nothing, as `tomserve score` does it with these
    options."""
    with tempfile.TemporaryDirectory() as folder:
        items, given, scores = (Path(folder) / name for name in ("items.jsonl", "replies.jsonl", "scores.parquet"))
        with items.open("wb") as questions, given.open("wb") as rows:
            for one in replies:
                choices, whole = one["choices"], one.get("whole", True)
                item = {"id": one["id"], "story": [one["id"]], "question": one["question"], "choices": choices}
                questions.write(orjson.dumps({**item, "answer": choices[0], "cluster": one["id"]}) + b"\n")
                row = {"item": one["id"], "text": one["text"], "status": OK if whole else LENGTH}
                if one["lettered"]:
                    offered = [choices[place] for place in one.get("offered") or range(len(choices))]
                    row |= {OFFERED: offered, ASKED: one["question"]}
                rows.write(orjson.dumps(row) + b"\n")
        files = ("--responses", given, "--items", items, "--out", scores)
        if subprocess.run([sys.executable, "-m", "tomserve", "score", *files, *reader]).returncode > 1:
            raise SystemExit(2)  # 1: more than a tenth stay unread
        found = pl.read_parquet(scores, columns=["item", "answer", "parse"])
        return {item: Reading(parse, answer) for item, answer, parse in found.rows()}


def main() -> None:
    """Print a line for each part and kind, and what reading costs."""
    parser = argparse.ArgumentParser(description="precision and coverage of the reader of free prose")
    parser.add_argument("--part", help='only this part of the replies, such as "seen" or "batch 2"')
    parser.add_argument(
        "--rungs", action="store_true", help="print how many each form of answer read, and how many wrong"
    )
    parser.add_argument("--unread", action="store_true", help="print replies that are not read, but for held out ones")
    parser.add_argument("--reader", metavar="URL", help="a model that reads what the rules leave unread")
    parser.add_argument("--reader-model", help="which model at that address")
    given = parser.parse_args()
    replies = [reply for reply in load_replies() if given.part in (None, reply["half"])]
    began = time.perf_counter()
    found = {reply["id"]: reading(reply) for reply in replies}
    spent = time.perf_counter() - began
    if given.reader:
        model = ("--reader-model", given.reader_model) if given.reader_model else ()
        found = read_by(("--reader", given.reader, *model), replies)
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
        if given.unread and not reply["half"].endswith(HELD_OUT) and got != label:
            print(f"{reply['id']} ({reply['kind']}), expected {label!r}, read {got!r}:\n{reply['text']}\n")
    print(f"{'part':18s}{'kind':14s}{'answers':>8s}{'coverage':>10s}{'read':>6s}{'wrong':>8s}")
    for part, kind in sorted(counts, key=lambda one: (one[0], one[1] == "all")):
        there, right, known, wrong = counts[part, kind]
        print(f"{part:18s}{kind:14s}{there:8d}{right / max(there, 1):10.1%}{known:6d}{wrong / max(known, 1):8.1%}")
        if kind == "all":
            figure(f"{part}, coverage", right / max(there, 1), rounds=there)
            figure(f"{part}, wrong", wrong / max(known, 1), rounds=known)
    for (part, rung), tally in sorted(rungs.items()) if given.rungs else ():
        print(f"{part:18s}{rung:14s}{tally['right']:6d} right{tally['wrong']:4d} wrong")
    figure("a reply", 1000 * spent / len(replies), unit="ms", rounds=len(replies))
    print(f"{1000 * spent / len(replies):.2f} ms a reply")


if __name__ == "__main__":
    main()
