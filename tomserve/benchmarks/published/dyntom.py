"""DynToM: how a person's belief, emotion, intention and action change over the scenes of a story, by its own files.

    tomserve eval --benchmark dyntom --path DynToM/data/script/data --limit 710

Of a trial's folder two files are read: of story.json the field `story` alone, because `sketch` beside it states all
answers, and question_new.json, because in question.json the right answer is always the first.

    >>> factors("What is the belief of Ann Lee in scenario 2?")["task"]
    'understanding'
"""

import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import polars as pl

from tomserve.benchmarks.base import Benchmark, Findings, Say
from tomserve.benchmarks.published.base import Record, Source, audit_items, one_line, read_digests, row_digest
from tomserve.content import files
from tomserve.content.text import count_noun
from tomserve.items import Factor, Item
from tomserve.items.draw import Draw
from tomserve.scoring.baselines import Baseline

STORY, QUESTIONS, FIRST = "story.json", "question_new.json", "question.json"
"""The files of a trial that are read, and the one that is not."""

SCENES = 5
"""How many scenes the stories have that are asked: those of the paper; 50 of the released ones have 4, 6 or 7."""

SOURCE = Source(
    "dyntom",
    "GAIR-NLP/DynToM",
    "data/script/data",
    "none in the repository; its card on Hugging Face, YangXiao-nlp/DynToM, says apache-2.0",
    "9c95b1b8300f",
    "Clone the repository and name this folder, the repository or one trial's folder",
    ("trial", "trials"),
)
_TRIAL = re.compile(r"trial(\d+)")
_SCENE = re.compile(r"(?:scenario)?[ _]?(\d{1,3})", re.I)
_OPTION = re.compile(r"([a-z])\.\s*(.*)", re.S)


def trial_folders(path: Path | None) -> list[Path]:
    """The folders of all trials, by their numbers. path: a folder of trials, the repository, or the folder of one
    trial. Raises ConfigError where nothing is there, ContentError where it holds no trial."""
    path = SOURCE.require_path(path)
    if (path / STORY).is_file():
        return [path]
    for place in (path, path / SOURCE.file):
        if found := [one for one in place.glob("trial*") if _TRIAL.fullmatch(one.name)]:
            return sorted(found, key=lambda one: int(one.name.removeprefix("trial")))
    raise SOURCE.place(path).error(f"holds no folder such as trial50 with a {STORY}")


def read_story(folder: Path) -> list[list[str]]:
    """The lines of each scene of a trial's story. Raises ContentError with file and field for what is no story."""
    story = SOURCE.json(folder / STORY).object("story")
    for number, name in enumerate(story.data, 1):
        if (found := _SCENE.fullmatch(name)) is None or int(found[1]) != number:
            raise story.place.wrong(name, f"'scenario {number}'")
    return [scene_lines(story.object(name)) for name in story.data]


def scene_lines(scene: Record) -> list[str]:
    """The background of a scene and what is said in it, a line an utterance. The dialogue has one of three forms in the
    files: a list of objects that give each speaker's words by the speaker's name, or under `speaker` and `line`; one
    such object; or a text of lines. Raises ContentError for another form."""
    background, dialogue = scene.data.get("background"), scene.data.get("dialogue")
    if not isinstance(background, str):
        raise scene.wrong("background", "text")
    said = [background]
    if isinstance(dialogue, str):
        said += dialogue.splitlines()
    else:
        for turn in dialogue if isinstance(dialogue, list) else [dialogue]:
            if not isinstance(turn, dict) or not all(isinstance(words, str) for words in turn.values()):
                raise scene.place.at("dialogue").wrong(turn, "an object of a speaker and what is said")
            pairs = [(turn["speaker"], turn["line"])] if turn.keys() == {"speaker", "line"} else turn.items()
            said += [f"{speaker}: {words}" for speaker, words in pairs]
    found = [line for one in said if (line := one_line(one))]
    if not found:
        raise scene.place.error("holds no text; expected a background or a dialogue")
    return found


def require_questions(folder: Path) -> Path:
    """The file of a trial's questions. Raises ContentError where it is not there, but the file beside it is that must
    not be asked."""
    if not (folder / QUESTIONS).is_file() and (folder / FIRST).is_file():
        reason = f"is not there; {FIRST} beside it does not do, because its right answer is always the first"
        raise SOURCE.place(folder / QUESTIONS).error(reason)
    return folder / QUESTIONS


def make_items(folder: Path, scenes: Sequence[Sequence[str]]) -> Iterator[Item]:
    """Yield the items of a trial: one a question, with all scenes as their story and the trial as their cluster. Raises
    ContentError with file and field for what is no question, one of another form, or one about a scene that is not
    there."""
    story = tuple(
        line for number, (first, *rest) in enumerate(scenes, 1) for line in (f"Scenario {number}: {first}", *rest)
    )
    asked = SOURCE.json(require_questions(folder))
    for name in asked.data:
        yield _item(folder.name, one_line(name), asked.object(name), story, len(scenes))


def _item(trial: str, name: str, asked: Record, story: tuple[str, ...], scenes: int) -> Item:
    question = one_line(asked.text("question"))
    try:
        design = factors(question)
    except ValueError as error:
        raise asked.place.at("question").error(str(error)) from None
    number = design["until_scene"] or design["scene"] or 1
    if not 1 <= int(number) <= scenes:
        raise asked.place.at("question").error(f"asks about scene {number} of {scenes}")
    texts = []
    for place, option in enumerate(asked.take("options", list, "a list of texts")):
        letter = chr(ord("a") + place)
        parts = _OPTION.fullmatch(option) if isinstance(option, str) else None
        if parts is None or parts[1] != letter or not (text := one_line(parts[2])):
            raise asked.place.at("options").wrong(option, f"a text that begins with '{letter}. '")
        texts.append(text)
    right = asked.text("true answer")
    if right not in [*string.ascii_lowercase[: len(texts)]]:
        raise asked.wrong("true answer", f"the letter of one of {len(texts)} options")
    once = {text.casefold(): text for text in reversed(texts)}  # the first of equal ones stays
    choices = tuple(dict.fromkeys(once[text.casefold()] for text in texts))
    answer = once[texts[string.ascii_lowercase.index(right)].casefold()]
    return asked.place.item(
        id=f"{trial}/{name}",
        story=story,
        question=question,
        choices=choices,
        answer=answer,
        factors={
            **design,
            **{"scenes": scenes, "options": len(choices), "merged": len(texts) - len(choices)},
            "twice_right": sum(once[text.casefold()] == answer for text in texts) > 1,
        },
        cluster=trial,
    )


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
    raise ValueError(f"is {question!r:.80}; expected a question of one of the forms {', '.join(FORMS)}")


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


RULES = (Baseline("shared words", most_shared_words), Baseline("first choice but no", first_but_no, "constant"))
"""The rules of the benchmark's field `rules`, beside which "always no" of every benchmark has none right."""


SHOWN = 10
"""So many names of trials that are not as known are printed."""

FAULTS = {
    "options given twice": "questions with an option that is given twice; the texts are merged, in the first place",
    "right option given twice": "of these, questions whose right option is given twice; either counts as right",
    "no change is right": 'questions whether something changes to which "No" is the right answer',
}


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """Yield the questions of all trials of five scenes, trial by trial; of a single trial, whatever scenes it has.
    path: the folder of trials (see `trial_folders`). Raises ConfigError and ContentError for what is missing or is not
    as it should be."""
    return _load(trial_folders(path), Counter())


def _load(found: Sequence[Path], sizes: Counter[int]) -> Iterator[Item]:
    """The same of these trials, one of them in memory at a time. sizes: counts all trials by their number of scenes."""
    for folder in found:
        scenes = read_story(folder)
        sizes[len(scenes)] += 1
        if len(scenes) == SCENES or len(found) == 1:
            yield from make_items(folder, scenes)
    if not sizes[SCENES] and len(found) > 1:
        raise SOURCE.place(found[0].parent).error(f"none of {len(found):,} trials has {SCENES} scenes")


def trial_bytes(folder: Path) -> bytes:
    """What of a trial is compared: its story and its questions, as their bytes."""
    try:
        return b"\0".join(files.read_own(file) for file in (folder / STORY, require_questions(folder)))
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise SOURCE.place(Path(error.filename or folder)).error(reason) from None


def differences(path: Path | None) -> list[str]:
    """How the trials differ from those of the known commit, with the names of some that do."""
    folders, digests = trial_folders(path), dict[str, str]()

    def rows() -> Iterator[bytes]:
        for folder in folders:
            yield (held := trial_bytes(folder))
            digests[folder.name] = row_digest(held)

    said = SOURCE.differences(rows(), whole=len(folders) > 1)
    known = {digest for (digest,) in read_digests("dyntom")}
    if strange := [name for name, digest in digests.items() if digest not in known]:
        more = f" and {len(strange) - SHOWN:,} more" if len(strange) > SHOWN else ""
        said = [f"{said[0]}: {', '.join(strange[:SHOWN])}{more}"]
    return said


def validate(path: Path | None, say: Say) -> Findings:
    """Whether the trials are those of the known commit, and those of any number of scenes can be asked."""
    found = trial_folders(path)
    said = differences(path)
    sizes: Counter[int] = Counter()
    for folder in found:
        scenes = read_story(folder)
        sizes[len(scenes)] += sum(1 for _ in make_items(folder, scenes))
    counts = ", ".join(f"{count:,} about stories of {size}" for size, count in sorted(sizes.items()))
    told = f"{count_noun(len(found), 'trial')}, {sizes.total():,} questions by the number of scenes: {counts}"
    same = f"{'these are the known trials' if len(found) > 1 else 'this is a known trial'}, byte for byte"
    return Findings(lines=(told, *(said or [same])), code=int(bool(said)))


def audit(path: Path | None, say: Say) -> Findings:
    """What the five-scene trials hold, what readers without a mind get, and what is wrong with questions."""
    found = trial_folders(path)
    many = count_noun(len(found), "trial")
    say(f"reading {many} and scoring readers of every question, a minute for all of them ...")
    sizes: Counter[int] = Counter()
    faults: dict[str, Counter[str]] = defaultdict(Counter)

    def count(items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            counts = faults[str(item.factors["form"])]
            counts["questions"] += 1
            counts["options given twice"] += bool(item.factors["merged"])
            counts["right option given twice"] += bool(item.factors["twice_right"])
            counts["no change is right"] += item.answer.casefold() == "no"
            yield item

    done = audit_items(count(_load(found, sizes)), ("task", "form", "state"), RULES)
    trials = ", ".join(f"{count:,} of {size} scenes" for size, count in sorted(sizes.items()))
    asked = f"{many}: {trials}. Asked are those of {SCENES} scenes, the number in the paper."
    meant = (f"{name}: {meaning}." for name, meaning in FAULTS.items())
    known = {form: {name: counts[name] for name in ("questions", *FAULTS)} for form, counts in faults.items()}
    table = pl.DataFrame([{"form": form, **counts} for form, counts in known.items()])
    note = "Known faults of questions, by the form of the question; what each means stands below."
    return replace(
        done,
        tables={**done.tables, "faults": table},
        notes={**done.notes, "faults": note},
        lines=(*SOURCE.differences(map(trial_bytes, found), whole=len(found) > 1), asked, *meant),
    )


BENCHMARK = Benchmark(
    SOURCE.benchmark,
    load,
    rules=RULES,
    terms=SOURCE.words,
    papers=(
        "Towards Dynamic Theory of Mind: Evaluating LLM Adaptation to Temporal Evolution of Human States "
        "(arXiv:2505.17663)",
    ),
    study="dyntom",
    strategies=("dyntom_vanilla", "dyntom_cot"),
    draw=Draw(unit=("story", "stories")),
    lettered=True,
    validate=validate,
    audit=audit,
)
