"""Reads the trial folders of DynToM: each has a story of several scenes and the questions about it.

Of a folder two files are read: of story.json the field `story` alone, because `sketch` beside it states all answers,
and question_new.json, because in question.json the right answer is always the first.

>>> lines({"background": "Ann waits.", "dialogue": [{"Ann": "Hello?"}, {"speaker": "Bo", "line": "Hi."}]})
['Ann waits.', 'Ann: Hello?', 'Bo: Hi.']
>>> lines({"background": "Ann waits.", "dialogue": {"Ann": "Hello?", "Bo": "Hi."}})
['Ann waits.', 'Ann: Hello?', 'Bo: Hi.']
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tomserve.benchmarks.foreign import Source
from tomserve.errors import ContentError

STORY, QUESTIONS, FIRST = "story.json", "question_new.json", "question.json"
"""The files of a trial that are read, and the one that is not."""

INSIDE = "data/script/data"
"""The folder of trials within the repository."""

SCENES = 5
"""How many scenes the stories have that are asked: those of the paper; 50 of the released ones have 4, 6 or 7."""

DIGESTS = Path(__file__).parents[1] / "foreign/dyntom.txt"
"""The digests of the known commit's trials, one a line."""

WAY_OUT = "take the folder anew from the repository"
_TRIAL = re.compile(r"trial(\d+)")
_SCENE = re.compile(r"(?:scenario)?[ _]?(\d{1,3})", re.I)
_OPTION = re.compile(r"([a-z])\.\s*(.*)", re.S)


@dataclass(frozen=True)
class Question:
    """A question of a trial.

    id: its id in the file. text: what is asked. choices: the options in the file's order, each text once. answer: the
    right one. merged: how many options were left out, because an earlier one has the same text. twice_right: whether
    one of them had the text of the right one.
    """

    id: str
    text: str
    choices: tuple[str, ...]
    answer: str
    merged: int
    twice_right: bool


@dataclass(frozen=True)
class Trial:
    """A story with its questions. scenes: the lines of each scene. questions: in the order of the file."""

    name: str
    path: Path
    scenes: tuple[tuple[str, ...], ...]
    questions: tuple[Question, ...]


def source(digests: tuple[str, ...] = ()) -> Source:
    """Where the folder comes from. digests: those of the known one's trials, where they are needed."""
    return Source(
        "dyntom",
        "GAIR-NLP/DynToM",
        INSIDE,
        "none in the repository; its card on Hugging Face, YangXiao-nlp/DynToM, says apache-2.0",
        "9c95b1b8300f",
        digests,
        "Clone the repository and name this folder, the repository or one trial's folder",
        ("trial", "trials"),
    )


def known() -> Source:
    """Where the folder comes from, with a digest of each trial of the known commit."""
    return source(tuple(DIGESTS.read_text("ascii").split()))


def folders(path: Path | None) -> list[Path]:
    """The folders of all trials, by their numbers.

    path: a folder of trials, the repository, or the folder of one trial. Raises ConfigError where nothing is there,
    ContentError where it holds no trial.
    """
    path = source().need(path)
    if (path / STORY).is_file():
        return [path]
    inside = path / INSIDE
    for place in (path, inside):
        try:
            found = [one for one in place.iterdir() if _TRIAL.fullmatch(one.name) and one.is_dir()]
        except OSError:
            found = []
        if found:
            return sorted(found, key=lambda one: int(one.name.removeprefix("trial")))
    raise ContentError(f"holds no folder such as trial50 with a {STORY}; expected {source().words}", path=path)


def trials(path: Path | None, scenes: int | None = SCENES) -> Iterator[Trial]:
    """Yield the trials one by one, so that one at a time is in memory.

    path: see `folders`; a trial that is the only one is read whatever number of scenes it has. scenes: how many scenes
    each of several must have; None for any number. Raises ContentError with file and field for what cannot be read.
    """
    found = folders(path)
    wanted = None if len(found) == 1 else scenes
    empty = True
    for folder in found:
        story = told(folder)
        if wanted is None or len(story) == wanted:
            empty = False
            yield Trial(folder.name, folder, story, tuple(asked(folder)))
    if empty:
        raise ContentError(f"none of {len(found):,} trials has {wanted} scenes; {WAY_OUT}", path=path or Path())


def told(folder: Path) -> tuple[tuple[str, ...], ...]:
    """The lines of each scene of a trial's story. Raises ContentError with file and field for what is no story."""
    path = folder / STORY
    story = _object(path).get("story")
    if not isinstance(story, dict) or not story:
        raise ContentError(f"found {story!r:.60}; expected an object of scenes; {WAY_OUT}", path=path, field="story")
    scenes = []
    for number, (name, scene) in enumerate(story.items(), 1):
        if (found := _SCENE.fullmatch(name)) is None or int(found[1]) != number:
            reason = f"found {name!r:.60}; expected 'scenario {number}'; {WAY_OUT}"
            raise ContentError(reason, path=path, field="story")
        try:
            scenes.append(tuple(lines(scene)))
        except ValueError as error:
            raise ContentError(f"{error}; {WAY_OUT}", path=path, field=f"story.{name}") from None
    return tuple(scenes)


def lines(scene: Any) -> list[str]:
    """The background of a scene and what is said in it, a line an utterance.

    The dialogue has one of three forms in the files: a list of objects that give each speaker's words by the speaker's
    name, or under `speaker` and `line`; one such object; or a text of lines. Raises ValueError for another form.
    """
    if not isinstance(scene, dict) or not isinstance(scene.get("background"), str):
        raise ValueError(f"found {scene!r:.60}; expected an object with background and dialogue")
    dialogue = scene.get("dialogue")
    if isinstance(dialogue, str):
        said = dialogue.splitlines()
    else:
        said = [line for turn in (dialogue if isinstance(dialogue, list) else [dialogue]) for line in _said(turn)]
    found = [line for one in (scene["background"], *said) if (line := _plain(one))]
    if not found:
        raise ValueError("found no text; expected a background or a dialogue")
    return found


def _said(turn: Any) -> Iterator[str]:
    if not isinstance(turn, dict) or not all(isinstance(words, str) for words in turn.values()):
        raise ValueError(f"dialogue: found {turn!r:.60}; expected an object of a speaker and what is said")
    pairs = [(turn["speaker"], turn["line"])] if set(turn) == {"speaker", "line"} else turn.items()
    yield from (f"{speaker}: {words}" for speaker, words in pairs)


def needed(folder: Path) -> None:
    """Raise ContentError where a trial lacks its questions, but has the file beside them that must not be asked."""
    if not (folder / QUESTIONS).is_file() and (folder / FIRST).is_file():
        reason = f"is not there; {FIRST} beside it does not do, because its right answer is always the first; {WAY_OUT}"
        raise ContentError(reason, path=folder / QUESTIONS)


def asked(folder: Path) -> Iterator[Question]:
    """Yield a trial's questions. Raises ContentError with file and field for what is no question."""
    path = folder / QUESTIONS
    needed(folder)
    for name, found in _object(path).items():
        try:
            yield _question(_plain(name), found)
        except (ValueError, KeyError, TypeError) as error:
            reason = f"has no field {error}" if isinstance(error, KeyError) else str(error)
            raise ContentError(f"{reason}; {WAY_OUT}", path=path, field=f"{name:.60}") from None


def _question(name: str, found: Any) -> Question:
    if not isinstance(found, dict) or not isinstance(found["question"], str):
        raise ValueError(f"found {found!r:.60}; expected an object with question, options and true answer")
    if not isinstance(found["options"], list):
        raise ValueError(f"options: found {found['options']!r:.60}; expected a list of texts")
    texts = []
    for place, option in enumerate(found["options"]):
        letter = chr(ord("a") + place)
        parts = _OPTION.fullmatch(option) if isinstance(option, str) else None
        if parts is None or parts[1] != letter or not (text := _plain(parts[2])):
            raise ValueError(f"options: found {option!r:.60}; expected a text that begins with '{letter}. '")
        texts.append(text)
    right = found["true answer"]
    place = ord(right) - ord("a") if isinstance(right, str) and len(right) == 1 else -1
    if not 0 <= place < len(texts):
        raise ValueError(f"true answer: found {right!r:.60}; expected the letter of one of {len(texts)} options")
    once = {text.casefold(): text for text in reversed(texts)}  # the first of equal ones stays
    choices = tuple(dict.fromkeys(once[text.casefold()] for text in texts))
    if len(choices) < 2:
        raise ValueError("options: found fewer than two different ones")
    answer = once[texts[place].casefold()]
    twice = sum(once[text.casefold()] == answer for text in texts) > 1
    return Question(name, _plain(found["question"]), choices, answer, len(texts) - len(choices), twice)


def _plain(text: str) -> str:
    """The text in one line."""
    return " ".join(text.split())


def _object(path: Path) -> Mapping[str, Any]:
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ContentError(f"cannot be read ({error.strerror}); {WAY_OUT}", path=path) from None
    except orjson.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} (column {error.colno}); {WAY_OUT}"
        raise ContentError(reason, path=path, line=error.lineno) from None
    if not isinstance(found, dict):
        raise ContentError(f"found {found!r:.60}; expected a JSON object; {WAY_OUT}", path=path)
    return found
