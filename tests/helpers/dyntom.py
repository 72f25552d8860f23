"""Trial folders in the form of DynToM, with stories of our own: 71 questions about five scenes, as its authors ask."""

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


def again(place: int) -> str:
    """From the sixth scene on everything comes again."""
    return " again" * (place // 5)


def write_trials(folder: Path, count: int = 2, scenes: int = 5, first: int = 1) -> Path:
    """Write `count` trials of stories of that many scenes into the folder, and return it. Numbers begin at `first`."""
    for number in range(first, first + count):
        name, trial = ("Mira Sol", "Tavo Ek", "Ines Orr", "Bram Utt")[number % 4], folder / f"trial{number}"
        trial.mkdir(parents=True, exist_ok=True)
        (trial / "story.json").write_text(json.dumps(story(name, scenes)))
        (trial / "question_new.json").write_text(json.dumps(questions(name, scenes, number)))
        (trial / "question.json").write_text("{}")  # which is not to be read
    return folder


def story(name: str, scenes: int) -> dict[str, Any]:
    """A story's file; its dialogues have the four forms that occur, and its sketch states every answer."""
    short = name.split()[0]
    dialogues: list[Any] = [
        [{short: "Look at this."}, {"Neighbour": "Oh dear."}],
        {short: "It will do.", "Neighbour": "Will it?"},
        [{"line": "Shall I help?", "speaker": "Neighbour"}, {short: "Please do."}],
        f"{short}: Hold on.\nNeighbour: I do.",
    ]
    told = {}
    for place in range(scenes):
        belief, emotion, intention, action = (COURSE[state][place % 5] + again(place) for state in STATES)
        background = f"{short} thinks {belief}, is {emotion}, wants to {intention} and {action}."
        told[f"scenario {place + 1}"] = {"background": background, "dialogue": dialogues[place % 4]}
    return {"main character": name, "scenario numbers": scenes, "sketch": {"secret": "all answers"}, "story": told}


Options = tuple[str, str, str, Sequence[str]]
"""A question's id, its words with NAME, the right option, and all options."""


def option_lists(scenes: int) -> Iterator[Options]:
    """Every question of a story, the right option first where it is a state that changes."""
    words = {state: [COURSE[state][place % 5] + again(place) for place in range(scenes)] for state in STATES}
    for number, (state, place) in enumerate(((state, place) for state in STATES for place in range(scenes)), 1):
        others = [words[one][place] for one in STATES if one != state]
        asked = f"What is the {state} of NAME in scenario {place + 1}?"
        yield f"type_a_what_{number}", asked, words[state][place], [*words[state], *others]
    links = (("belief", "emotion"), ("belief&emotion", "intention"), ("intention", "action"))
    for number, (place, (cause, state)) in enumerate(((place, link) for place in range(scenes) for link in links), 1):
        ways = [f"{words['belief'][one]}, hence {words[state][one]}" for one in range(scenes)]
        asked = f"In scenario {place + 1}, how does the {cause} of NAME influence the {state} of NAME?"
        yield f"type_c_how_{number}", asked, ways[place], [*ways, "by chance"]
    changes = [(state, place) for state in STATES for place in range(scenes - 1)]
    reasons = [f"{WHY[place % 5]}{again(place)} for the {state}" for state, place in changes]
    for number, (state, place) in enumerate(changes, 1):
        if not place:
            course = [" -> ".join(words[state][shift:] + words[state][:shift]) for shift in range(scenes)]
            asked = f"How does the {state} of NAME change across the {scenes} scenarios?"
            yield f"type_d_how_{STATES.index(state) + 1}", asked, course[0], course
        between = f"from scenario {place + 1} to scenario {place + 2}"
        asked = f"Whether the {state} of NAME change {between}? if yes, from what to what?"
        pairs = [f"Yes, from {words[state][at]} to {words[state][at + 1]}" for at in range(scenes - 1)]
        yield f"type_d_whether_{number}", asked, pairs[place], [*pairs, "No"]
        asked = f"Why does the {state} of NAME change {between}?"
        yield f"type_d_why_{number}", asked, reasons[number - 1], reasons


def questions(name: str, scenes: int, seed: int) -> dict[str, Any]:
    """The questions' file, with the options shuffled. The first "why" gives its right option twice, the first "how" of
    a course a wrong one."""
    dice, found = Random(seed), {}
    for identifier, asked, right, options in option_lists(scenes):
        more = [right] if identifier == "type_d_why_1" else options[1:2] if identifier == "type_d_how_1" else []
        texts = dice.sample([*options, *more], len(options) + len(more))
        letters = "abcdefghijklmnopqrstuvwxyz"[: len(texts)]
        found[identifier] = {
            "question": asked.replace("NAME", name),
            "true answer": letters[texts.index(right)],
            "options": [f"{letter}. {text}" for letter, text in zip(letters, texts, strict=True)],
            "question type": "type_x",
        }
    return found
