"""Trial folders in the form of DynToM, with stories of our own: 71 questions about five scenes, as its authors ask."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

STATES = ("belief", "emotion", "intention", "action")
COURSE = {
    "belief": ["the kiln is broken", "the clay is wet", "the glaze is old", "the shelf is weak", "the fair is near"],
    "emotion": ["upset about the kiln", "calm about the clay", "cross about the glaze", "afraid of the shelf", "glad"],
    "intention": ["repair the kiln", "dry the clay", "buy glaze", "prop the shelf", "pack for the fair"],
    "action": ["calls a fitter", "opens a window", "walks to the shop", "fetches a plank", "fills a crate"],
}
"""What a potter believes, feels, intends and does, scene by scene."""

WHY = ["smoke rose", "rain came in", "the jar was dusty", "a plank cracked", "a letter came"]


def words_of(state: str, place: int) -> str:
    """The state in a scene; from the sixth scene on it comes again."""
    return COURSE[state][place % 5] + " again" * (place // 5)


def write_trials(folder: Path, count: int = 2, scenes: int = 5, first: int = 1) -> Path:
    """Write `count` trials of stories of that many scenes into the folder, and return it. Numbers begin at `first`."""
    for number in range(first, first + count):
        name = ("Mira Sol", "Tavo Ek", "Ines Orr", "Bram Utt")[number % 4]
        write_trial(folder / f"trial{number}", story(name, scenes), questions(name, scenes, number))
    return folder


def write_trial(folder: Path, told: Any, asked: Any) -> Path:
    """Write one trial's two files and the one that is not to be read, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "story.json").write_text(json.dumps(told))
    (folder / "question_new.json").write_text(json.dumps(asked))
    (folder / "question.json").write_text("{}")
    return folder


def story(name: str, scenes: int = 5) -> dict[str, Any]:
    """A story's file; its dialogues have the four forms that occur, and its sketch states every answer."""
    short = name.split()[0]
    dialogues: list[Any] = [
        [{short: "Look at this."}, {"Neighbour": "Oh dear."}],
        {short: "It will do.", "Neighbour": "Will it?"},
        [{"speaker": "Neighbour", "line": "Shall I help?"}, {short: "Please do."}],
        f"{short}: Hold on.\nNeighbour: I do.",
    ]
    told = {}
    for place in range(scenes):
        belief, emotion, intention, action = (words_of(state, place) for state in STATES)
        told[f"scenario {place + 1}"] = {
            "background": f"{short} thinks {belief}, is {emotion}, wants to {intention} and {action}.",
            "dialogue": dialogues[place % 4],
        }
    return {"main character": name, "scenario numbers": scenes, "sketch": {"secret": "all answers"}, "story": told}


def option_lists(scenes: int) -> Iterator[tuple[str, str, str, list[str]]]:
    """Every question of a story: its id, its words with NAME, the right option and all options, the right one first."""
    words = {state: [words_of(state, place) for place in range(scenes)] for state in STATES}
    number = 0
    for state in STATES:
        for place in range(scenes):
            number += 1
            others = [words[one][place] for one in STATES if one != state]
            asked = f"What is the {state} of NAME in scenario {place + 1}?"
            yield f"type_a_what_{number}", asked, words[state][place], [*words[state], *others]
    links = (("belief", "emotion"), ("belief&emotion", "intention"), ("intention", "action"))
    number = 0
    for place in range(scenes):
        for cause, state in links:
            number += 1
            ways = [f"{words['belief'][one]}, hence {words[state][one]}" for one in range(scenes)]
            asked = f"In scenario {place + 1}, how does the {cause} of NAME influence the {state} of NAME?"
            yield f"type_c_how_{number}", asked, ways[place], [*ways, "by chance"]
    yield from _changes(words, scenes)


def _changes(words: dict[str, list[str]], scenes: int) -> Iterator[tuple[str, str, str, list[str]]]:
    reasons = [
        f"{WHY[place % 5]}{' again' * (place // 5)} for the {state}" for state in STATES for place in range(scenes - 1)
    ]
    for number, state in enumerate(STATES, 1):
        course = [" -> ".join(words[state][shift:] + words[state][:shift]) for shift in range(scenes)]
        yield (
            f"type_d_how_{number}",
            f"How does the {state} of NAME change across the {scenes} scenarios?",
            course[0],
            course,
        )
        for place in range(scenes - 1):
            one = (number - 1) * (scenes - 1) + place
            between = f"from scenario {place + 1} to scenario {place + 2}"
            asked = f"Whether the {state} of NAME change {between}? if yes, from what to what?"
            pairs = [f"Yes, from {words[state][at]} to {words[state][at + 1]}" for at in range(scenes - 1)]
            yield f"type_d_whether_{one + 1}", asked, pairs[place], [*pairs, "No"]
            asked = f"Why does the {state} of NAME change {between}?"
            yield f"type_d_why_{one + 1}", asked, reasons[one], reasons


def questions(name: str, scenes: int = 5, seed: int = 0) -> dict[str, Any]:
    """The questions' file, with the options shuffled. The first "why" gives its right option twice, the first "how" of
    a course a wrong one."""
    dice = Random(seed)
    found = {}
    for identifier, asked, right, options in option_lists(scenes):
        more = [right] if identifier == "type_d_why_1" else options[1:2] if identifier == "type_d_how_1" else []
        texts = dice.sample([*options, *more], len(options) + len(more))
        found[identifier] = question(asked.replace("NAME", name), right, texts)
    return found


def question(asked: str, right: str, texts: Sequence[str]) -> dict[str, Any]:
    """One question as the file writes it."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return {
        "question": asked,
        "true answer": letters[list(texts).index(right)],
        "options": [f"{letter}. {text}" for letter, text in zip(letters, texts, strict=False)],
        "question type": "type_x",
    }
