"""Reads a million random and mutated replies, and measures how the reader's time grows with the length of the worst.

    python bench/ladder.py [--texts 1000000]

Prints texts a second and the share of texts that each way of reading (a rung of the ladder) understands. For texts
made to be slow it prints the time of 200,000 characters as a multiple of that of 100,000 (about 2 where time is linear,
4 where it is quadratic). Exits with 1 if a text breaks the reader or a ratio is above 3.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

from _figures import figure

from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import LetteredChoices

CHOICES = ("tea", "salt", "the jar", "unknown")
OFFERED = LetteredChoices(("red_box", "blue_box", "tin_ladle_box", "plum_bin", "unknown"))
SEEDS = (
    '{"beliefs": [{"sentence": 1, "belief": "tea"}, {"sentence": 2, "belief": "salt"}], "answer": "salt"}',
    "Sure!\n```json\n{'answer': 'tea',}\n```\nThe answer is tea.",
    "<think>maybe salt</think>\n**Answer:** the tea.",
    '{"answer": "unknown"\n\n\n',
    "The jar",
)
ALPHABET = "{}[]\"'`:,.\\\n teasltjrunkow_answerbeliefs0123<>/é\U0001f600"
SLOW = {
    "open braces": "{",
    "braces": "{}",
    "nested": '{"answer":',
    "quotes": '{"',
    "fences": "```\n",
    "half fences": "```json\n{",
    "answers in a line": "answer is ",
    "answers in lines": "Answer: x\n",
    "objects": '{"answer": "tea"} ',
    "bad objects": "{'answer': tea} ",
    "commas": '{"answer": "tea", ',
    "brackets": "[",
    "spaces": " ",
    "escapes": '{"answer": "\\\\',
    "thoughts": "<think></think>",
}
SLOW_LETTERED = {  # (before, again and again, after)
    "spaces": ("B.", " ", "c1_box"),
    "tabs": ("so", "\t", "blue_box"),
    "line ends": ("x", "\n", "blue_box"),
    "letters": ("B. ", "B. ", ""),
    "commas": ("B", ",,,,", "c1_box"),
    "conclusions": ("", "so ", "blue_box"),
    "one word": ("", "b", ""),
    "answers": ("", "answer is ", "B"),
    "forms": ("", "answer: ", "B"),
    "denials": ("it is ", "not ", "blue_box"),
    "brackets": ("B", "(", "blue_box"),
}


def text(noise: random.Random) -> str:
    """A random string, or one of the seed texts with random edits."""
    if noise.random() < 0.3:
        return "".join(noise.choices(ALPHABET, k=noise.randrange(120)))
    found = noise.choice(SEEDS)
    for _ in range(noise.randrange(4)):
        at = noise.randrange(len(found) + 1)
        found = found[:at] + "".join(noise.choices(ALPHABET, k=noise.randrange(4))) + found[at + noise.randrange(6) :]
    return found


def seconds(words: str, choices: Sequence[str] = CHOICES) -> float:
    """Seconds to read a text, the best of three: the figure that other programs disturb least."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        read_reply(words, choices, 3)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> int:
    """Run both parts; returns 1 where one of them fails, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1_000_000)
    noise = random.Random(0)
    count = parser.parse_args().texts
    rungs: Counter[str] = Counter()
    bad = 0
    began = time.perf_counter()
    for _ in range(count):
        reading = read_reply(text(noise), CHOICES, 3)
        rungs[(reading.parse or "none").split("+")[0] if reading.answer is not None else "invalid"] += 1
        bad += (reading.answer is None) == (reading.reason is None)
    took = time.perf_counter() - began
    figure("texts a second, with their making", count / took, rounds=count)
    figure("readings that contradict themselves", bad, at_most=0, rounds=count)
    print(f"{count} texts, none raised, {bad} inconsistent; {count / took:.0f} texts/s (with their making)")
    print("  " + ", ".join(f"{rung} {share / count:.1%}" for rung, share in rungs.most_common()))
    slow = 0
    forms: list[tuple[str, tuple[str, str, str], Sequence[str]]] = [
        *((name, ("", piece, ""), CHOICES) for name, piece in SLOW.items()),
        *((f"{name}, by letter", parts, OFFERED) for name, parts in SLOW_LETTERED.items()),
    ]
    for name, (before, piece, after), choices in forms:
        short, long = (before + (piece * (size // len(piece) + 1))[:size] + after for size in (100_000, 200_000))
        took = seconds(long, choices)
        ratio = took / max(seconds(short, choices), 1e-6)
        slow += ratio > 3
        print(f"  {name:22s} 200,000 characters {took * 1000:7.1f} ms, {ratio:4.1f} times 100,000")
    figure("forms that take more than linear time", slow, at_most=0, rounds=len(forms))
    return 1 if bad or slow else 0


if __name__ == "__main__":
    sys.exit(main())
