"""ToMBench (Chen et al. 2024): 2,860 multiple-choice questions in Chinese and English on 8 tasks and 31 abilities.

``--path`` names the folder ``data`` of github.com/zhchen18/ToMBench, or one of its files; neither is part of tomserve.
Every question is an item in either language. The English ones are asked unless ``--where language=zh``, or ``--where
all`` for both, says otherwise.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve.benchmarks.benchmark import Benchmark
from tomserve.benchmarks.findings import Findings, Say, outcome
from tomserve.benchmarks.foreign.auditing import audited
from tomserve.benchmarks.tombench.official import METRIC, orders
from tomserve.benchmarks.tombench.source import (
    ABILITY,
    ANSWER,
    FIELDS,
    LETTERS,
    NUMBER,
    PROBES,
    Row,
    lines,
    paths,
    rows,
    source,
)
from tomserve.errors import ContentError
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.scoring.baselines import Baseline

DIMENSIONS = ("emotion", "desire", "intention", "knowledge", "belief", "non_literal_communication")
"""The six kinds of abilities, in the paper's order."""

_SAME = {
    "desires_influence_on_emotions_beliefs": "desires_influence",
    "desires_influence_on_actions": "desires_influence",
}


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """Every question in English and in Chinese, with its options in an order drawn by the question.

    The order is drawn because the file's is not balanced: B is right in 34 of 100 questions, D in 18. `cluster` is the
    story with all its questions in both languages. Raises ConfigError and ContentError as `rows` does.
    """
    del gold
    for story, row in _stories(rows(path)):
        for language in FIELDS:
            yield _item(row, story, language)


def _stories(all_rows: Iterator[Row]) -> Iterator[tuple[int, Row]]:
    """Each row with the number of its story in its file: a story ends where its questions are numbered anew, unless the
    next row tells the same story."""
    last: Row | None = None
    number = 0
    for row in all_rows:
        place = row.data.get(NUMBER)
        if not isinstance(place, int) or isinstance(place, bool):
            raise row.error(NUMBER, place, "a whole number")
        if last is None or last.task != row.task:
            number = 1
        elif place <= last.data[NUMBER] and all(row.text(field[0]) != last.text(field[0]) for field in FIELDS.values()):
            number += 1
        yield number, row
        last = row


def _item(row: Row, story: int, language: str) -> Item:
    told, asked, _ = FIELDS[language]
    options, letter = row.options(language), row.letter
    if LETTERS.index(letter) >= len(options):
        raise row.error(ANSWER, letter, f"the letter of one of {len(options)} options")
    answer = options[LETTERS.index(letter)]
    dimension, ability, order = _ability(row)
    name = f"{row.task}/{row.line}"
    kept = list({option.casefold(): option for option in reversed(options)}.values())[::-1]
    if answer not in kept:
        raise row.error(
            "OPTIONS", answer, "a right answer that differs from the other options in more than letter case"
        )
    shown = orders(f"{name}/order", sorted(kept, key=options.index), 1)[0]
    factors = {
        "task": row.task,
        "part": "abilities" if row.task in PROBES.values() else "tasks",
        "dimension": dimension,
        "ability": ability,
        "order": order,
        "language": language,
        "options": len(shown),
        "letter": letter,
        "number": row.data[NUMBER],
        "fault": _fault(row, language, len(options) - len(kept)),
    }
    try:
        return Item(
            id=f"{name}/{language}",
            story=[row.text(told)],
            question=row.text(asked),
            choices=shown,
            answer=answer,
            factors=factors,
            cluster=f"{row.task}/story {story}",
        )
    except ValueError as error:  # what none of the fields above can see, such as a control character
        reason = " ".join(str(error).split())[:200]
        raise ContentError(
            f"{reason}; take the file anew from {source().words}", path=row.file, line=row.line
        ) from None


def _ability(row: Row) -> tuple[str, str, int | None]:
    """The dimension, the ability, and the order of the belief that is asked for where it is one about contents or a
    place. A row may name two abilities, "Location false beliefs" and "Second-order beliefs": then the second counts."""
    named = re.findall(r"([A-Z][\w -]*?):\s*(.*?)\s*(?=[A-Z][\w-]*: |$)", row.text(ABILITY))
    if not named:
        raise row.error(ABILITY, row.data[ABILITY], "a name such as 'Belief: Content false beliefs'")
    kind, ability = (_name(part) for part in named[-1])
    if kind not in DIMENSIONS:
        raise row.error(ABILITY, row.data[ABILITY], f"one of the kinds {', '.join(DIMENSIONS)} before the colon")
    first = {"content_false_beliefs": 1, "location_false_beliefs": 1, "second_order_beliefs": 2}
    return kind, _SAME.get(ability, ability), first.get(ability)


def _name(text: str) -> str:
    return re.sub(r"\W+", "_", text.strip().lower()).strip("_")


def _fault(row: Row, language: str, doubled: int) -> str | None:
    """What is known to be wrong with a question of the known file: it has the options of another story (seen by their
    number, which differs between the languages), an option twice, or a letter that the official scorer cannot match."""
    if language == "en" and len(row.options("en")) != len(row.options("zh")):
        return "of_another_story"
    if doubled:
        return "option_twice"
    return "letter_misspelt" if row.data[ANSWER] != row.letter else None


def validate(path: Path | None, say: Say) -> Findings:
    """Whether the files are the known ones, row by row, and can be read."""
    del say
    found = [line for file in paths(path) for _, line in lines(file)]
    different = source().differences(found, whole=_whole(path))
    problems = [] if different is None else [different]
    count = sum(1 for _ in load(path))
    said = f"{count:,} questions in two languages from {len(found):,} rows: {outcome(problems)}"
    return Findings(lines=(*problems, said), code=int(bool(problems)))


def _whole(path: Path | None) -> bool:
    """Whether all twenty files are expected there, and not one of them."""
    return path is None or path.expanduser().is_dir()


def audit(path: Path | None, say: Say) -> Findings:
    """What the files hold, by language and task (see foreign.auditing), with what the two languages do not share."""
    del say
    items = list(load(path))
    found = (line for file in paths(path) for _, line in lines(file))
    different = source().differences(found, whole=_whole(path))
    said = [*([different] if different else []), *_letters(items), *_languages(items), _left(path)]
    return audited(items, ("language", "task"), RULES, said)


def _letters(items: Sequence[Item]) -> list[str]:
    """Where the right answers stand in the file, and which of its questions are faulty."""
    english = [item for item in items if item.factors["language"] == "en"]
    places = Counter(str(item.factors["letter"]) for item in english)
    told = ", ".join(f"{letter} {places[letter]:,}" for letter in LETTERS)
    faults = Counter((item.factors["fault"], item.factors["language"]) for item in items if item.factors["fault"])
    wrong = "; ".join(f"{kind} ({language}): {count}" for (kind, language), count in sorted(faults.items()))
    return [f"Letters of the right answers in the file: {told}.", f"Faulty questions: {wrong or 'none known'}."]


def _languages(items: Sequence[Item]) -> list[str]:
    """How many stories are one story in one language and several in the other."""
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    shared: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for item in items:
        told[item.cluster, str(item.factors["language"])].add(item.story[0])
        shared[item.story].add(str(item.factors["task"]))
    uneven = sum(len(told[name, "en"]) != len(told[name, "zh"]) for name, language in told if language == "en")
    twice = sum(len(tasks) > 1 for tasks in shared.values())
    return [
        f"{uneven} stories are worded in one way in one language and in several in the other.",
        f"{twice} stories stand in several tasks.",
    ]


def _left(path: Path | None) -> str:
    """In how many questions the official prompt shows an option with a letter of the file's beside another letter: it
    takes off "A. " alone, and many options begin with "A." or "A:"."""
    count: Counter[str] = Counter()
    for row in rows(path):
        for language, (_, _, fields) in FIELDS.items():
            count[language] += any(
                " ".join(row.text(field).replace(f"{letter}. ", "").split()) != option
                for letter, field, option in zip(LETTERS, fields, row.options(language), strict=False)
            )
    told = " and ".join(f"{count[language]:,} ({language})" for language in FIELDS)
    return f"Questions in whose official prompt an option keeps its letter in the file, beside the one shown: {told}."


def _longest(item: Item) -> str:
    return max(item.choices, key=len)


def _shortest(item: Item) -> str:
    return min(item.choices, key=len)


def _of_letter(letter: str) -> Baseline:
    """The rule that always takes this letter of the file; its answer is known from where the right one stood."""

    def answer(item: Item) -> str | None:
        if item.factors.get("letter") == letter:
            return item.answer
        return next(choice for choice in item.choices if choice != item.answer)

    return Baseline(f"always {letter.lower()} of the file", answer, "constant")


RULES = (
    Baseline("longest choice", _longest),
    Baseline("shortest choice", _shortest),
    *(_of_letter(letter) for letter in LETTERS),
)

BENCHMARK = Benchmark(
    "tombench",
    load,
    papers=("ToMBench: Benchmarking Theory of Mind in Large Language Models (arXiv:2402.15052)",),
    terms=source().words,
    study="tombench",
    strategies=("tombench_vanilla", "tombench_cot"),
    draw=Draw(over=("task",), unit=("story", "stories"), group=("task", "tasks")),
    usual=("language=en",),
    lettered=True,
    metrics=(METRIC,),
    rules=RULES,
    validate=validate,
    audit=audit,
)
