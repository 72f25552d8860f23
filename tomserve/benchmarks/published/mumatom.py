"""MuMA-ToM, the text of its scenes (Shi et al. 2025, arXiv 2408.12574): does one person help or hinder another?

    tomserve items mumatom --path questions.json --where task=social_goal

225 scenes of two persons in a home, with four questions of three options each: what the helper or hinderer believed,
whether it was help or hindrance (social goal), and what the one took for the other's goal (belief of goal). Half of the
questions ask which statement is LEAST likely. Scenes have videos; here the whole scene is told, by the file's field
`description`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from tomserve.benchmarks.published.base import (
    RULES,
    Record,
    Source,
    highest_only,
    lower_words,
    published,
    split_sentences,
)
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.scoring.baselines import Baseline

SOURCE = Source("mumatom", "SCAI-JHU/MuMA-ToM", "Files/questions.json", "Apache-2.0", "a62569a")
TASKS = {"belief": ("belief", 1), "social_goal": ("intention", 1), "belief_of_goal": ("belief", 2)}
"""The authors' kinds of questions, each with its dimension and the order of what is asked: 2 where one person's mind is
about the mind of the other."""

_QUOTED = re.compile(r"[\"“]([^\"“”]+)[\"”]")
_OPTION = re.compile(r"[A-Z]\)\s*(.*)")


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The questions in the order of the file. Raises ConfigError where the file is missing, ContentError by field."""
    scenes = SOURCE.json(path)
    for number in scenes.data:
        scene = scenes.object(number)
        story = split_sentences(decode_description(scene.text("description", "the text of a scene")))
        if not story:
            raise scene.wrong("description", "the text of a scene")
        questions, answers, labels = map(scene.object, ("questions", "answers", "labels"))
        for name in questions.data:
            yield _item(number, name, story, questions, answers, labels)


def decode_description(description: str) -> str:
    """The text of a description, which the file writes as Python shows bytes: b'...', with a backslash and n for a new
    line. One of them lacks the last quote."""
    text = re.sub(r"^b(['\"])(.*?)\1?$", r"\2", description.strip(), flags=re.S)
    return text.replace("\\n", "\n").replace("\\'", "'").replace('\\"', '"')


def _item(number: str, name: str, story: tuple[str, ...], questions: Record, answers: Record, labels: Record) -> Item:
    question, *rest = (line.strip() for line in questions.text(name).splitlines() if line.strip())
    options = [found[1] for line in rest if (found := _OPTION.fullmatch(line))]
    if len(options) < 2 or len(options) != len(rest):
        raise questions.wrong(name, "a question, then a line for each option: 'A) ...'")
    right = _OPTION.fullmatch(answers.text(name))
    if right is None or right[1] not in options:
        raise answers.wrong(name, "one of the question's options")
    task = labels.choice(name, TASKS)
    dimension, order = TASKS[task]
    likely = "least" if "LEAST" in question else "most"
    return questions.place.at(name).item(
        id=f"{number}/{name}",
        story=story,
        question=question,
        choices=options,
        answer=right[1],
        cluster=f"scene/{number}",
        factors={"task": task, "dimension": dimension, "order": order, "likely": likely, "options": len(options)},
    )


def _differences(path: Path | None) -> list[str]:
    """A scene is a row."""
    rows = (orjson.dumps(scene, option=orjson.OPT_SORT_KEYS) for scene in SOURCE.json(path).data.items())
    return SOURCE.differences(rows)


def _spoken_share(item: Item, choice: str) -> float:
    """The share of a choice's words that somebody in the scene speaks."""
    spoken = lower_words(" ".join(_QUOTED.findall(" ".join(item.story))))
    return len(lower_words(choice) & spoken) / max(1, len(lower_words(choice)))


REMARK = (
    "In belief the option that repeats what was said is right under MOST and under LEAST alike (rule 'what was said'), "
    "so that no mind is needed. "
    "In social_goal the shortest option ('indifferent') is never right: two options are left, and chance is .5. "
    "In belief_of_goal the option that denies ('doesn't know') is right where MOST offers it, never under LEAST."
)

BENCHMARK = published(
    SOURCE,
    load,
    _differences,
    ("task", "likely"),
    (*RULES, Baseline("what was said", highest_only(_spoken_share))),
    remarks=lambda path, items: (REMARK,),
    papers=("MuMA-ToM: Multi-modal Multi-Agent Theory of Mind (arXiv:2408.12574)",),
    study="mumatom",
    strategies=("letters", "letters_cot"),
    draw=Draw(unit=("scene", "scenes")),
    lettered=True,
)
