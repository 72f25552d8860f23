"""ToMBench (Chen et al. 2024): 2,860 multiple-choice questions in Chinese and English on 8 tasks and 31 abilities.

``--path`` names the folder ``data`` of github.com/zhchen18/ToMBench, or one of its files; neither is part of
tomserve. Every question is an item in either language. The English ones are asked unless ``--where language=zh``, or
``--where all`` for both, says otherwise.

    >>> letter_of("I think it is [[B]]."), letter_of("The answer is C"), letter_of("no idea")
    (('B', 'marked'), ('C', 'last letter'), ('A', 'nothing'))
    >>> majority(["tea", "salt", "salt", "tea", None])
    'tea'
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tomserve.benchmarks.published.base import Record, Source, one_line, published
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.draw import Draw, seeded_order
from tomserve.scoring.answers import Reading
from tomserve.scoring.baselines import Baseline
from tomserve.scoring.metrics import Metric

TASKS = {
    "Unexpected Outcome Test": "unexpected_outcome",
    "Scalar Implicature Test": "scalar_implicature",
    "Persuasion Story Task": "persuasion_story",
    "False Belief Task": "false_belief",
    "Ambiguous Story Task": "ambiguous_story",
    "Hinting Task Test": "hinting",
    "Strange Story Task": "strange_story",
    "Faux-pas Recognition Test": "faux_pas_recognition",
}
"""The names of the files of the eight tasks, in the paper's order, and what tables call them."""

PROBES = {
    name: re.sub(r"\W", "_", name.lower())
    for name in (
        *("Completion of Failed Actions", "Discrepant Desires", "Discrepant Emotions", "Discrepant Intentions"),
        *("Emotion Regulation", "Hidden Emotions", "Knowledge-Attention Links", "Knowledge-Pretend Play Links"),
        *("Moral Emotions", "Multiple Desires", "Percepts-Knowledge Links", "Prediction of Actions"),
    )
}
"""The names of the other twelve files, each of which holds questions on one ability, and what tables call them."""

KNOWN = {**TASKS, **PROBES}

LETTERS = "ABCD"
ABILITY, NUMBER, ANSWER = "能力\nABILITY", "序号\nINDEX", "答案\nANSWER"
FIELDS = {
    "en": ("STORY", "QUESTION", tuple(f"OPTION-{letter}" for letter in LETTERS)),
    "zh": ("故事", "问题", tuple(f"选项{letter}" for letter in LETTERS)),
}
"""The fields of the story, the question and the four options, by language."""


SOURCE = Source(
    "tombench",
    "zhchen18/ToMBench",
    "data",
    "MIT, for evaluation only",
    "4f491f0",
    note="--path names the folder with its 20 files *.jsonl, or one of these files",
)


def bare(option: str, letter: str) -> str:
    """The option without its own letter, which many options carry in one of several spellings.

    >>> bare("B.tea", "B"), bare("B: tea", "B"), bare("A. tea", "B"), bare("A big jar", "A")
    ('tea', 'tea', 'A. tea', 'A big jar')
    """
    return one_line(re.sub(rf"^{letter}\s*[.:,\u3001\uff0c\uff0e\uff1a]\s*(?=\S)", "", option))


def options(row: Record, language: str) -> list[str]:
    """The options in the order of the file without their letters, as many as there are: the last two may be null or
    NaN. Raises ContentError where fewer than two are there, or one is missing between others."""
    fields = FIELDS[language][2]
    found: list[str] = []
    for letter, field in zip(LETTERS, fields, strict=True):
        value = row.data.get(field)
        if value is None or value != value:  # NaN, which the files have where JSON has null
            break
        found.append(bare(row.text(field), letter))
    if len(found) < 2 or any(isinstance(row.data.get(field), str) for field in fields[len(found) :]):
        raise row.wrong(fields[len(found)], "two options, or four")
    return found


def right_letter(row: Record) -> str:
    """The letter of the right answer. Raises ContentError where it is none."""
    letter = row.text(ANSWER).rstrip(". ")
    if letter not in [*LETTERS]:
        raise row.wrong(ANSWER, "one of A, B, C, D")
    return letter


def paths(path: Path | None) -> list[Path]:
    """The files, in the order of KNOWN. Raises ConfigError where some of a folder's are missing, or a name is none of
    the twenty."""
    found = SOURCE.require_path(path)
    if not found.is_dir():
        if found.stem not in KNOWN:
            expected = f"one of the names of {SOURCE.words}, such as {next(iter(KNOWN))}.jsonl"
            raise ConfigError(f"{found}: the name says which task it holds; expected {expected}")
        return [found]
    files_of = [found / f"{name}.jsonl" for name in KNOWN]
    if missing := [one.name for one in files_of if not one.is_file()]:
        raise ConfigError(
            f"{found}: lacks {len(missing)} of 20 files, the first is {missing[0]!r}; expected {SOURCE.words}, "
            "or --path FILE for one of them"
        )
    return files_of


def rows(path: Path | None) -> Iterator[tuple[str, Record]]:
    """All rows, each with its task. Raises ConfigError as `paths` does, ContentError by file and line for what is no
    row."""
    for file in paths(path):
        for place, line in SOURCE.lines(file):
            yield KNOWN[file.stem], place.json(line, json.loads)  # which reads NaN, too


SHUFFLES = 5
"""How often the official evaluation asks each question, each time with the options in another order."""

MARKED, LAST, NOTHING = "marked", "last letter", "nothing"
"""How the official reader came to a letter: by [[B]] or [B]; by the last capital A to D of the reply, be it the first
letter of a sentence; or by nothing at all, where it takes A."""


def letter_of(text: str) -> tuple[str, str]:
    """The letter that the official reader finds in a reply, and how it came to it. Of several marked letters the first
    of the alphabet counts, not the last that was written: a reply that weighs [[A]] and ends with [[B]] is read as
    A."""
    for form in ("[[{}]]", "[{}]"):
        for letter in LETTERS:
            if form.format(letter) in text:
                return letter, MARKED
    last = max(((text.rfind(letter), letter) for letter in LETTERS), key=lambda found: found[0])
    return (last[1], LAST) if last[0] >= 0 else (LETTERS[0], NOTHING)


def majority(votes: Sequence[str | None]) -> str | None:
    """What most votes are for; of several the one that was voted for first. None, no readable vote, counts for nothing;
    None as well where there is no vote."""
    counts = Counter(vote for vote in votes if vote is not None)
    return counts.most_common(1)[0][0] if counts else None


def orders(item_id: str, choices: Sequence[str], count: int = SHUFFLES) -> list[list[str]]:
    """The options in as many orders as are asked for, drawn by the question alone: the same in both languages, in every
    run, whatever else is asked. The official evaluation draws them by one seed for the whole run, so that a question's
    orders depend on all questions before it. item_id: the item's id, whose last part is the language."""
    question = item_id.rpartition("/")[0] or item_id
    orders = (seeded_order(range(len(choices)), question, number, separator=":") for number in range(count))
    return [[choices[place] for place in order] for order in orders]


def official_columns(item: Item, reading: Reading) -> Mapping[str, Any]:
    """The columns of METRIC for one reply, from its text alone: a letter, or the account of a vote."""
    if not reading.text:
        return {}
    try:
        account = json.loads(reading.text)
    except (ValueError, RecursionError):
        account = None
    if isinstance(account, dict) and isinstance(account.get("official"), list):
        votes = [vote if isinstance(vote, str) else None for vote in account["official"]]
        fallbacks = account.get("fallbacks")
        chosen = majority([vote or "" for vote in votes]) or None
        share = fallbacks / len(votes) if isinstance(fallbacks, int) and votes else None
    elif isinstance(account, dict):
        return {}  # a reply in another form, which the official reader is not made for
    else:
        letter, how = letter_of(reading.text)
        if not (offered := reading.choice_order(item.choices)):
            return {}  # nothing says what the letters stood for
        place = LETTERS.index(letter)
        chosen = offered[place] if place < len(offered) else None
        share = float(how != MARKED)
    # The official comparison is with the file's letter, which is once "A. ", so that nothing can be right.
    right = chosen == item.answer and item.factors.get("fault") != "letter_misspelt"
    return {"metric_official_correct": right, "metric_official_guessed": share}


METRIC = Metric({"metric_official_correct": pl.Boolean, "metric_official_guessed": pl.Float64}, official_columns)
"""Whether the official scorer counts the reply as right; and whether (of a vote: in what share of the replies) its
reader found no marked letter, and took the last capital A to D, or A."""


DIMENSIONS = ("emotion", "desire", "intention", "knowledge", "belief", "non_literal_communication")
"""The six kinds of abilities, in the paper's order."""

_SAME = {
    "desires_influence_on_emotions_beliefs": "desires_influence",
    "desires_influence_on_actions": "desires_influence",
}


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """Every question in English and in Chinese, with its options in an order drawn by the question. The order is drawn
    because the file's is not balanced: B is right in 34 of 100 questions, D in 18. `cluster` is the story with all its
    questions in both languages: a story ends where its questions are numbered anew, unless the next row tells the same
    story. Raises ConfigError and ContentError as `rows` does."""
    last: tuple[str, Record] | None = None
    story = 0
    for task, row in rows(path):
        number = row.take(NUMBER, int, "a whole number")
        if last is None or last[0] != task:
            story = 1
        elif number <= last[1].data[NUMBER] and all(
            row.text(field[0]) != last[1].text(field[0]) for field in FIELDS.values()
        ):
            story += 1
        for language in FIELDS:
            yield _item(task, row, story, language)
        last = task, row


def _item(task: str, row: Record, story: int, language: str) -> Item:
    told, asked, _ = FIELDS[language]
    offered, letter = options(row, language), right_letter(row)
    if LETTERS.index(letter) >= len(offered):
        raise row.wrong(ANSWER, f"the letter of one of {len(offered)} options")
    answer = offered[LETTERS.index(letter)]
    dimension, ability, order = _ability(row)
    name = f"{task}/{row.place.line}"
    kept = list({option.casefold(): option for option in reversed(offered)}.values())[::-1]
    shown = orders(f"{name}/order", sorted(kept, key=offered.index), 1)[0]
    return row.place.item(
        id=f"{name}/{language}",
        story=[row.text(told)],
        question=row.text(asked),
        choices=shown,
        answer=answer,
        factors={
            "task": task,
            "part": "abilities" if task in PROBES.values() else "tasks",
            "dimension": dimension,
            "ability": ability,
            "order": order,
            "language": language,
            "options": len(shown),
            "letter": letter,
            "number": row.data[NUMBER],
            "fault": _fault(row, language, len(offered) - len(kept)),
        },
        cluster=f"{task}/story {story}",
    )


def _ability(row: Record) -> tuple[str, str, int | None]:
    """The dimension, the ability, and the order of the belief that is asked for where it is one about contents or a
    place. A row may name two abilities, "Location false beliefs" and "Second-order beliefs": then the second counts."""
    named = re.findall(r"([A-Z][\w -]*?):\s*(.*?)\s*(?=[A-Z][\w-]*: |$)", row.text(ABILITY))
    if not named:
        raise row.wrong(ABILITY, "a name such as 'Belief: Content false beliefs'")
    kind, ability = (_name(part) for part in named[-1])
    if kind not in DIMENSIONS:
        raise row.wrong(ABILITY, f"one of the kinds {', '.join(DIMENSIONS)} before the colon")
    first = {"content_false_beliefs": 1, "location_false_beliefs": 1, "second_order_beliefs": 2}
    return kind, _SAME.get(ability, ability), first.get(ability)


def _name(text: str) -> str:
    return re.sub(r"\W+", "_", text.strip().lower()).strip("_")


def _fault(row: Record, language: str, doubled: int) -> str | None:
    """What is known to be wrong with a question of the known file: it has the options of another story (seen by their
    number, which differs between the languages), an option twice, or a letter that the official scorer cannot match."""
    if language == "en" and len(options(row, "en")) != len(options(row, "zh")):
        return "of_another_story"
    if doubled:
        return "option_twice"
    return "letter_misspelt" if row.data[ANSWER] != right_letter(row) else None


def _differences(path: Path | None) -> list[str]:
    """How the rows of all twenty files differ, or of the one that is named."""
    found = (line.strip().encode() for file in paths(path) for _, line in SOURCE.lines(file))
    return SOURCE.differences(found, whole=SOURCE.require_path(path).is_dir())


def _remarks(path: Path | None, items: Sequence[Item]) -> Iterator[str]:
    """Where the right answers stand in the file, which of its questions are faulty, how many stories are one story in
    one language and several in the other, and what the official prompt leaves of the file's letters."""
    places = Counter(str(item.factors["letter"]) for item in items if item.factors["language"] == "en")
    yield f"Letters of the right answers in the file: {', '.join(f'{one} {places[one]:,}' for one in LETTERS)}."
    faults = Counter((item.factors["fault"], item.factors["language"]) for item in items if item.factors["fault"])
    wrong = "; ".join(f"{kind} ({language}): {count}" for (kind, language), count in sorted(faults.items()))
    yield f"Faulty questions: {wrong or 'none known'}."
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    shared: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for item in items:
        told[item.cluster, str(item.factors["language"])].add(item.story[0])
        shared[item.story].add(str(item.factors["task"]))
    uneven = sum(len(told[name, "en"]) != len(told[name, "zh"]) for name, language in told if language == "en")
    yield f"{uneven} stories are worded in one way in one language and in several in the other."
    yield f"{sum(len(tasks) > 1 for tasks in shared.values())} stories stand in several tasks."
    left = Counter[str]()  # the prompt takes off "A. " alone, and many options begin with "A." or "A:"
    for _, row in rows(path):
        for language, (_, _, fields) in FIELDS.items():
            left[language] += any(
                one_line(row.text(field).replace(f"{letter}. ", "")) != option
                for letter, field, option in zip(LETTERS, fields, options(row, language), strict=False)
            )
    counts = " and ".join(f"{left[language]:,} ({language})" for language in FIELDS)
    yield f"Questions in whose official prompt an option keeps its letter in the file, beside the one shown: {counts}."


def _of_letter(letter: str) -> Baseline:
    """The rule that always takes this letter of the file; its answer is known from where the right one stood."""

    def answer(item: Item) -> str | None:
        if item.factors.get("letter") == letter:
            return item.answer
        return next(choice for choice in item.choices if choice != item.answer)

    return Baseline(f"always {letter.lower()} of the file", answer, "constant")


RULES = (
    Baseline("longest choice", lambda item: max(item.choices, key=len)),
    Baseline("shortest choice", lambda item: min(item.choices, key=len)),
    *map(_of_letter, LETTERS),
)

BENCHMARK = published(
    SOURCE,
    load,
    _differences,
    ("language", "task"),
    RULES,
    remarks=_remarks,
    papers=("ToMBench: Benchmarking Theory of Mind in Large Language Models (arXiv:2402.15052)",),
    study="tombench",
    strategies=("tombench_vanilla", "tombench_cot"),
    draw=Draw(over=("task",), unit=("story", "stories"), group=("task", "tasks")),
    usual=("language=en",),
    lettered=True,
    metrics=(METRIC,),
)
