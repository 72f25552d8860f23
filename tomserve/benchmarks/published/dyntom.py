"""DynToM: how a person's belief, emotion, intention and action change over the scenes of a story, by its own files.

    tomserve eval --benchmark dyntom --path DynToM/data/script/data --limit 710

Of a trial's folder two files are read: of story.json the field `story` alone, because `sketch` beside it states all
answers, and question_new.json, because in question.json the right answer is always the first.

    >>> factors("What is the belief of Ann Lee in scenario 2?")["task"]
    'understanding'
    >>> scene_lines({"background": "Ann waits.", "dialogue": [{"Ann": "Hello?"}, {"speaker": "Bo", "line": "Hi."}]})
    ['Ann waits.', 'Ann: Hello?', 'Bo: Hi.']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
import polars as pl
from pydantic import ValidationError

from tomserve.benchmarks.base import Benchmark, Findings, Say
from tomserve.benchmarks.published import Source
from tomserve.benchmarks.published.base import NOTES, audit_items, read_digests, row_digest
from tomserve.errors import ContentError
from tomserve.items import Factor, Item
from tomserve.items.draw import Draw
from tomserve.scoring.baselines import Baseline

STORY, QUESTIONS, FIRST = "story.json", "question_new.json", "question.json"
"""The files of a trial that are read, and the one that is not."""

INSIDE = "data/script/data"
"""The folder of trials within the repository."""

SCENES = 5
"""How many scenes the stories have that are asked: those of the paper; 50 of the released ones have 4, 6 or 7."""

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


def known_source() -> Source:
    """Where the folder comes from, with a digest of each trial of the known commit."""
    return source(read_digests("dyntom"))


def trial_folders(path: Path | None) -> list[Path]:
    """The folders of all trials, by their numbers.

    path: a folder of trials, the repository, or the folder of one trial. Raises ConfigError where nothing is there,
    ContentError where it holds no trial.
    """
    path = source().require_path(path)
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


def read_trials(path: Path | None, scenes: int | None = SCENES) -> Iterator[Trial]:
    """Yield the trials one by one, so that one at a time is in memory.

    path: see `trial_folders`; a trial that is the only one is read whatever number of scenes it has. scenes: how many
    scenes each of several must have; None for any number. Raises ContentError with file and field for what cannot be
    read.
    """
    found = trial_folders(path)
    wanted = None if len(found) == 1 else scenes
    empty = True
    for folder in found:
        story = read_story(folder)
        if wanted is None or len(story) == wanted:
            empty = False
            yield Trial(folder.name, folder, story, tuple(read_questions(folder)))
    if empty:
        raise ContentError(f"none of {len(found):,} trials has {wanted} scenes; {WAY_OUT}", path=path or Path())


def read_story(folder: Path) -> tuple[tuple[str, ...], ...]:
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
            scenes.append(tuple(scene_lines(scene)))
        except ValueError as error:
            raise ContentError(f"{error}; {WAY_OUT}", path=path, field=f"story.{name}") from None
    return tuple(scenes)


def scene_lines(scene: Any) -> list[str]:
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
        said = [line for turn in (dialogue if isinstance(dialogue, list) else [dialogue]) for line in _utterance(turn)]
    found = [line for one in (scene["background"], *said) if (line := _plain(one))]
    if not found:
        raise ValueError("found no text; expected a background or a dialogue")
    return found


def _utterance(turn: Any) -> Iterator[str]:
    if not isinstance(turn, dict) or not all(isinstance(words, str) for words in turn.values()):
        raise ValueError(f"dialogue: found {turn!r:.60}; expected an object of a speaker and what is said")
    pairs = [(turn["speaker"], turn["line"])] if set(turn) == {"speaker", "line"} else turn.items()
    yield from (f"{speaker}: {words}" for speaker, words in pairs)


def require_questions(folder: Path) -> None:
    """Raise ContentError where a trial lacks its questions, but has the file beside them that must not be asked."""
    if not (folder / QUESTIONS).is_file() and (folder / FIRST).is_file():
        reason = f"is not there; {FIRST} beside it does not do, because its right answer is always the first; {WAY_OUT}"
        raise ContentError(reason, path=folder / QUESTIONS)


def read_questions(folder: Path) -> Iterator[Question]:
    """Yield a trial's questions. Raises ContentError with file and field for what is no question."""
    path = folder / QUESTIONS
    require_questions(folder)
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


STATES = ("belief", "emotion", "intention", "action")
TASKS = ("understanding", "influence", "transformation")
FORMS = ("what", "how", "whether", "how_change", "why")
"""Values of the factors state, task and form; the last three forms are transformations."""

_STATE = rf"({'|'.join(STATES)})"
_BETWEEN = r"from scenario (?P<scene>\d+) to scenario (?P<until>\d+)"
_PATTERNS = {
    "what": rf"What is the (?P<state>{_STATE}) of .+ in scenario (?P<scene>\d+)\?",
    "how": rf"In scenario (?P<scene>\d+), how does the (?P<cause>{_STATE}(?:&{_STATE})*) of .+ influence the "
    rf"(?P<state>{_STATE}) of .+\?",
    "whether": rf"Whether the (?P<state>{_STATE}) of .+ change {_BETWEEN}\? if yes, from what to what\?",
    "how_change": rf"How does the (?P<state>{_STATE}) of .+ change across the \d+ scenarios\?",
    "why": rf"Why does the (?P<state>{_STATE}) of .+ change {_BETWEEN}\?",
}


def factors(question: str) -> dict[str, Factor]:
    """What a question asks about: task, dimension, state, form, cause, scene and until_scene, None where it has none.
    Raises ValueError for a question of another form."""
    for form, pattern in _PATTERNS.items():
        if (found := re.fullmatch(pattern, question)) is not None:
            parts = found.groupdict()
            cause, scene, until = parts.get("cause"), parts.get("scene"), parts.get("until")
            return {
                "task": {"what": TASKS[0], "how": TASKS[1]}.get(form, TASKS[2]),
                "dimension": parts["state"],
                "state": parts["state"],
                "form": form,
                "cause": None if cause is None else cause.replace("&", " and "),
                "scene": None if scene is None else int(scene),
                "until_scene": None if until is None else int(until),
            }
    raise ValueError(f"found {question!r:.80}; expected a question of one of the forms {', '.join(FORMS)}")


def make_items(trial: Trial) -> Iterator[Item]:
    """Yield the items of a trial: one a question, with all scenes as their story and the trial as their cluster.

    Raises ContentError with file and field for a question of another form, or about a scene that is not there.
    """
    story = tuple(line for number, scene in enumerate(trial.scenes, 1) for line in _with_heading(number, scene))
    for question in trial.questions:
        try:
            design = factors(question.text)
            asked = design["until_scene"] or design["scene"] or 1
            if not 1 <= int(asked) <= len(trial.scenes):
                raise ValueError(f"asks about scene {asked} of {len(trial.scenes)}")
        except ValueError as error:
            field = f"{question.id}.question"
            raise ContentError(f"{error}; {WAY_OUT}", path=trial.path / QUESTIONS, field=field) from None
        yield _item(trial, question, story, design)


def _item(trial: Trial, question: Question, story: tuple[str, ...], design: dict[str, Factor]) -> Item:
    sizes = {"scenes": len(trial.scenes), "options": len(question.choices), "merged": question.merged}
    try:
        return Item(
            id=f"{trial.name}/{question.id}",
            benchmark="dyntom",
            story=story,
            question=question.text,
            choices=question.choices,
            answer=question.answer,
            factors={**design, **sizes, "twice_right": question.twice_right},
            cluster=trial.name,
        )
    except ValidationError as error:  # such as an option that is too long, or holds a control character
        first = error.errors()[0]
        reason = f"{first['msg']}, found {first['input']!r:.60}; {WAY_OUT}"
        raise ContentError(reason, path=trial.path / QUESTIONS, field=question.id) from None


def _with_heading(number: int, scene: tuple[str, ...]) -> Iterator[str]:
    yield f"Scenario {number}: {scene[0]}"
    yield from scene[1:]


@lru_cache(maxsize=16)
def scenes(story: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The lines of each scene of an item's story, the heading without its number; all lines where none is headed."""
    found: list[list[str]] = []
    for line in story:
        head = f"Scenario {len(found) + 1}: "
        if line.startswith(head) or not found:
            found.append([line.removeprefix(head)])
        else:
            found[-1].append(line)
    return tuple(map(tuple, found))


_WORD = re.compile(r"[^\W_]+")
_CHANGE = re.compile(r"yes, from (.*?) to (.*)", re.I)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


@lru_cache(maxsize=16)
def _weights(story: tuple[str, ...]) -> tuple[dict[str, float], ...]:
    """For each scene its words, each with what it tells: 1 where no other scene has it, less the more have it."""
    told = [frozenset(_words(" ".join(lines))) for lines in scenes(story)]
    common = Counter(word for words in told for word in words)
    return tuple({word: 1 / common[word] for word in words} for words in told)


def _overlap(text: str, weights: dict[str, float]) -> float:
    """How much of a text's words a scene has, from 0 to 1."""
    words = _words(text)
    return sum(weights.get(word, 0.0) for word in words) / len(words) if words else 0.0


def _fits(choice: str, item: Item) -> float:
    """How well a choice repeats the scenes that the question names; for a course over all scenes, each its own part."""
    told, scene, until = _weights(item.story), item.factors.get("scene"), item.factors.get("until_scene")
    if not isinstance(scene, int):
        parts = choice.split("->")
        return sum(_overlap(part, told[place]) for place, part in enumerate(parts[: len(told)]))
    first = told[scene - 1]
    if not isinstance(until, int):
        return _overlap(choice, first)
    second = told[until - 1]
    if (found := _CHANGE.fullmatch(choice)) is not None:
        return _overlap(found[1], first) + _overlap(found[2], second)
    return _overlap(choice, first) + _overlap(choice, second)


def most_shared_words(item: Item) -> str:
    """The choice that repeats most of the asked scenes' words; of equal ones the first."""
    return max(item.choices, key=lambda choice: _fits(choice, item))


def first_but_no(item: Item) -> str | None:
    """The first choice that is not "No"; None for a question that has no such choice."""
    if not any(choice.casefold() == "no" for choice in item.choices):
        return None
    return next(choice for choice in item.choices if choice.casefold() != "no")


RULES = (
    Baseline("shared words", most_shared_words),
    Baseline("first choice but no", first_but_no, "constant"),
)
"""The rules of the benchmark's field `rules`, beside which "always no" of every benchmark has none right."""


SHOWN = 10
"""So many names of trials that are not as known are printed."""

PARTS = ("task", "form", "state")
"""The factors by which the audit counts."""

FAULTS = {
    "options given twice": "questions with an option that is given twice; the texts are merged, in the first place",
    "right option given twice": "of these, questions whose right option is given twice; either counts as right",
    "no change is right": 'questions whether something changes to which "No" is the right answer',
}


def validate_trials(path: Path | None, say: Say) -> Findings:
    """Whether the trials are those of the known commit, and all of them can be asked.

    path: as for `read_trials`, but for trials of any number of scenes. Raises errors as that does.
    """
    found = trial_folders(path)
    say(f"reading {_trials(found)} ...")
    source = known_source()
    there: dict[str, bytes] = {}

    def rows() -> Iterator[bytes]:
        for folder in found:
            held = trial_bytes(folder)
            there[folder.name] = row_digest(held).encode()
            yield held

    said = source.differences(rows(), whole=len(found) > 1)
    digests = {one.encode() for one in source.digests}
    strange = [name for name, one in there.items() if one not in digests]
    if strange:
        more = f" and {len(strange) - SHOWN:,} more" if len(strange) > SHOWN else ""
        said = f"{said}: {', '.join(strange[:SHOWN])}{more}"
    questions: Counter[int] = Counter()
    for trial in read_trials(path, scenes=None):
        questions[len(trial.scenes)] += sum(1 for _ in make_items(trial))
    sizes = ", ".join(f"{count:,} about stories of {size}" for size, count in sorted(questions.items()))
    lines = (f"{_trials(found)}, {questions.total():,} questions by the number of scenes: {sizes}",)
    same = "these are the known trials, byte for byte" if len(found) > 1 else "this is a known trial, byte for byte"
    return Findings(lines=(*lines, said or same), code=int(said is not None))


def _trials(found: Sequence[Path]) -> str:
    return f"{len(found):,} trial{'' if len(found) == 1 else 's'}"


def trial_bytes(folder: Path) -> bytes:
    """What of a trial is compared: its story and its questions, as their bytes."""
    require_questions(folder)
    try:
        return b"\0".join((folder / name).read_bytes() for name in (STORY, QUESTIONS))
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); {WAY_OUT}"
        raise ContentError(reason, path=Path(error.filename or folder)) from None


def audit_trials(path: Path | None, say: Say) -> Findings:
    """What the five-scene trials hold, what readers without a mind get, and what is wrong with questions.

    path: as for `read_trials`. Raises ConfigError and ContentError as `read_trials` does.
    """
    found = trial_folders(path)
    say(f"reading {_trials(found)} and scoring readers of every question, a minute for all of them ...")
    scenes: Counter[int] = Counter()
    faults: dict[str, Counter[str]] = {}
    done = audit_items(
        _count_items(read_trials(path, scenes=None), scenes, faults, alone=len(found) == 1), PARTS, RULES, ()
    )
    sizes = ", ".join(f"{count:,} of {size} scenes" for size, count in sorted(scenes.items()))
    differs = known_source().differences(map(trial_bytes, found), whole=len(found) > 1)
    lines = [differs] if differs else []
    lines += [f"{_trials(found)}: {sizes}. Asked are those of {SCENES} scenes, the number in the paper."]
    lines += [f"{name}: {meaning}." for name, meaning in FAULTS.items()]
    rows = [
        {"form": form, **{name: counts[name] for name in ("questions", *FAULTS)}} for form, counts in faults.items()
    ]
    tables = {**done.tables, "faults": pl.DataFrame(rows)}
    notes = {**NOTES, "faults": "Known faults of questions, by the form of the question; what each means stands below."}
    return Findings(tables=tables, notes=notes, lines=tuple(lines))


def _count_items(
    read: Iterable[Trial], scenes: Counter[int], faults: dict[str, Counter[str]], *, alone: bool
) -> Iterator[Item]:
    """Yield the items that are asked, and count on the way. scenes, faults: the counts. alone: of one trial only."""
    for trial in read:
        scenes[len(trial.scenes)] += 1
        if not alone and len(trial.scenes) != SCENES:
            continue
        for item in make_items(trial):
            counts = faults.setdefault(str(item.factors["form"]), Counter())
            counts["questions"] += 1
            counts["options given twice"] += bool(item.factors["merged"])
            counts["right option given twice"] += bool(item.factors["twice_right"])
            counts["no change is right"] += item.answer.casefold() == "no"
            yield item


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """Yield the questions of all trials of five scenes, trial by trial; of a single trial, whatever scenes it has.

    path: the folder of trials (see `trial_folders`). gold: not used, as there is one set of right answers.
    Raises ConfigError and ContentError for what is missing or is not as it should be.
    """
    del gold
    for trial in read_trials(path):
        yield from make_items(trial)


def validate(path: Path | None, say: Say) -> Findings:
    """Whether the trials are those of the known commit (see tomserve.benchmarks.published.dyntom)."""

    return validate_trials(path, say)


def audit(path: Path | None, say: Say) -> Findings:
    """What the trials hold, and what is wrong with it (see tomserve.benchmarks.published.dyntom)."""

    return audit_trials(path, say)


BENCHMARK = Benchmark(
    "dyntom",
    load,
    papers=(
        "Towards Dynamic Theory of Mind: Evaluating LLM Adaptation to Temporal Evolution of Human States "
        "(arXiv:2505.17663)",
    ),
    terms=source().words,
    study="dyntom",
    strategies=("dyntom_vanilla", "dyntom_cot"),
    draw=Draw(unit=("story", "stories")),
    lettered=True,
    rules=RULES,
    validate=validate,
    audit=audit,
)
"""Whole stories are drawn, each with all its questions."""
