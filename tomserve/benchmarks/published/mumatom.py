"""MuMA-ToM, the text of its scenes (Shi et al. 2025, arXiv 2408.12574): does one person help or hinder another?

    tomserve items mumatom --path questions.json --where task=social_goal

225 scenes of two persons in a home, with four questions of three options each: what the helper or hinderer believed,
whether it was help or hindrance (social goal), and what the one took for the other's goal (belief of goal). Half of the
questions ask which statement is LEAST likely. Scenes have videos; here the whole scene is told, by the file's field
`description`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from tomserve.benchmarks.base import Benchmark, Findings, Say
from tomserve.benchmarks.published import Source
from tomserve.benchmarks.published.base import (
    RULES,
    audit_items,
    highest_only,
    lower_words,
    make_item,
    read_digests,
    split_sentences,
    validate_rows,
)
from tomserve.errors import ContentError, one_of
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.scoring.baselines import Baseline

SOURCE = Source(
    "mumatom", "SCAI-JHU/MuMA-ToM", "Files/questions.json", "Apache-2.0", "a62569a", digests=read_digests("mumatom")
)
TASKS = {"belief": ("belief", 1), "social_goal": ("intention", 1), "belief_of_goal": ("belief", 2)}
"""The authors' kinds of questions, each with its dimension and the order of what is asked: 2 where one person's mind is
about the mind of the other."""

_QUOTED = re.compile(r"[\"“]([^\"“”]+)[\"”]")
_OPTION = re.compile(r"[A-Z]\)\s*(.*)")


def scenes(path: Path | None) -> Mapping[str, Any]:
    """The scenes by their numbers. Raises as `Source.text`, and ContentError for what is no object of scenes."""
    file = SOURCE.require_path(path)
    try:
        found = orjson.loads(SOURCE.text(path))
    except orjson.JSONDecodeError as error:
        raise ContentError(f"is no JSON ({error.msg}); expected {SOURCE.words}", path=file, line=error.lineno) from None
    if not isinstance(found, dict) or not found:
        raise ContentError(f"found {str(found)!r:.60}; expected scenes by number, as in {SOURCE.words}", path=file)
    return found


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The questions in the order of the file. Raises ConfigError where the file is missing, ContentError by field."""
    del gold
    file = SOURCE.require_path(path)
    for number, scene in scenes(path).items():
        for part in ("description", "questions", "answers", "labels"):
            if not isinstance(scene, dict) or not isinstance(scene.get(part), str if part == "description" else dict):
                raise _wrong(file, f"{number}.{part}", scene, "a description, questions, answers and labels")
        story = split_sentences(decode_description(scene["description"]))
        if not story:
            raise _wrong(file, f"{number}.description", scene["description"], "the text of a scene")
        for name, asked in scene["questions"].items():
            yield _item(file, number, scene, name, asked, story)


def _wrong(file: Path, field: str, found: object, expected: str) -> ContentError:
    return ContentError(f"found {found!r:.80}; expected {expected}. The file is {SOURCE.words}", path=file, field=field)


def decode_description(description: str) -> str:
    """The text of a description, which the file writes as Python shows bytes: b'...', with a backslash and n for a new
    line. One of them lacks the last quote."""
    text = re.sub(r"^b(['\"])(.*?)\1?$", r"\2", description.strip(), flags=re.S)
    return text.replace("\\n", "\n").replace("\\'", "'").replace('\\"', '"')


def _item(file: Path, number: str, scene: Mapping[str, Any], name: str, asked: Any, story: tuple[str, ...]) -> Item:
    place = f"{number}.questions.{name}"
    said = [line.strip() for line in asked.splitlines() if line.strip()] if isinstance(asked, str) else []
    question, rest = "".join(said[:1]), said[1:]
    options = [found[1] for line in rest if (found := _OPTION.fullmatch(line))]
    if len(options) < 2 or len(options) != len(rest):
        raise _wrong(file, place, asked, "a question, then a line for each option: 'A) ...'")
    given = scene["answers"].get(name)
    right = _OPTION.fullmatch(given.strip()) if isinstance(given, str) else None
    if right is None or right[1] not in options:
        raise _wrong(file, f"{number}.answers.{name}", given, "one of the question's options")
    task = str(scene["labels"].get(name))
    if task not in TASKS:
        reason = one_of("kind of question", task[:60], TASKS)
        raise ContentError(reason, path=file, field=f"{number}.labels.{name}")
    if len({option.casefold() for option in options}) < len(options):
        raise _wrong(file, place, asked, "options that differ")
    dimension, order = TASKS[task]
    likely = "least" if "LEAST" in question else "most"
    return make_item(
        file,
        None,
        place,
        id=f"{number}/{name}",
        benchmark="mumatom",
        story=story,
        question=question,
        choices=options,
        answer=right[1],
        cluster=f"scene/{number}",
        factors={"task": task, "dimension": dimension, "order": order, "likely": likely, "options": len(options)},
    )


def rows(path: Path | None) -> list[bytes]:
    """A scene each, as `Source.differences` takes it."""
    return [orjson.dumps([name, scene], option=orjson.OPT_SORT_KEYS) for name, scene in scenes(path).items()]


def audit(path: Path | None, say: Say) -> Findings:
    """What the file holds, by task and by MOST or LEAST (see tomserve.benchmarks.published.base)."""
    del say
    said = [
        "In belief the option that repeats what was said is right under MOST and under LEAST alike (rule 'what was "
        "said'), so that no mind is needed. "
        "In social_goal the shortest option ('indifferent') is never right: two options are left, and chance is .5. "
        "In belief_of_goal the option that denies ('doesn't know') is right where MOST offers it, never under LEAST.",
        SOURCE.differences(rows(path)) or "",
    ]
    return audit_items(list(load(path)), ("task", "likely"), (*RULES, OWN), [line for line in said if line])


def validate(path: Path | None, say: Say) -> Findings:
    """Whether the file is the known one, and can be read whole."""
    del say
    count = sum(1 for _ in load(path))
    return validate_rows(SOURCE, rows(path), f"{count:,} questions about {len(scenes(path)):,} scenes")


def _spoken_share(item: Item, choice: str) -> float:
    """The share of a choice's words that somebody in the scene speaks."""
    spoken = lower_words(" ".join(_QUOTED.findall(" ".join(item.story))))
    return len(lower_words(choice) & spoken) / max(1, len(lower_words(choice)))


OWN = Baseline("what was said", highest_only(_spoken_share))

BENCHMARK = Benchmark(
    "mumatom",
    load,
    papers=("MuMA-ToM: Multi-modal Multi-Agent Theory of Mind (arXiv:2408.12574)",),
    terms=SOURCE.words,
    study="mumatom",
    strategies=("letters", "letters_cot"),
    draw=Draw(unit=("scene", "scenes")),
    lettered=True,
    rules=(*RULES, OWN),
    validate=validate,
    audit=audit,
)
