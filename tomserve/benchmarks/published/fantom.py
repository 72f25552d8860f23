"""FANToM, its multiple-choice belief questions (Kim et al. 2023, arXiv 2310.15421): who missed what in a
conversation?

    tomserve items fantom --path FOLDER --where context=short

Some people leave a conversation and come back. What do they believe about what was said meanwhile? Each question has
two options: that the person knows it, and that the person does not. `context` says how much of the conversation is
shown: the passage alone (short), as the authors' table counts, or all of it (full); `accessible` whether the person
heard what is asked about; `order` is 2 for a belief about a belief; `part` and `piece` are the passage and the piece
of information, `tom_type` the official file's name of the order. Passages of one conversation are one cluster. The
official order of the options is drawn for each run; here it follows from the question.

    >>> number_pieces(["What does Ivo believe about the price of the old boat?", "What does Ada think Ivo believes the "
    ...                "price of the boat is?", "What does Ivo believe about the weather on Monday?"], {"ivo", "ada"})
    [0, 0, 1]
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tomserve.benchmarks.published.base import (
    RULES,
    Place,
    Record,
    Source,
    by_letter,
    digest_key,
    git_blob_name,
    is_negated,
    number_again,
    one_line,
    published,
    read_digests,
    read_texts,
    split_lines,
)
from tomserve.content import files
from tomserve.errors import ConfigError
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.scoring.baselines import Baseline

SOURCE = Source(
    "fantom",
    "SCAI-JHU/AutoToM",
    "benchmarks/full_data_formatted",
    "MIT for the data, for evaluation only; Apache-2.0 for that repository",
    "3f569b7",
    note="Give the folder with the files FANToM_*.csv, one of them, or fantom_v1.json, which the program of "
    "github.com/skywalker023/fantom fetches",
)
OFFICIAL = "fantom_v1.json"
COLUMNS = ("context", "question", "answer_choices", "gt_answer")
NAME = re.compile(r"(?<![a-z])(accessible|inaccessible)_(short|full)_context_(first|second)-order\.csv$")
"""What the name of a CSV file says: whether all persons could hear the information, how much of the conversation is
shown, and the order of the belief."""


@dataclass(frozen=True)
class BeliefQuestion:
    """One question, and the lines of the conversation that are shown. The last four are known from the official file
    alone."""

    place: Place
    told: tuple[str, ...]
    question: str
    right: str
    wrong: str
    context: str  # "short" for the passage with the information alone, "full" for the conversation from its beginning
    accessible: bool  # whether the person asked about heard the information
    order: int
    conversation: str | None = None  # its number there
    part: str | None = None  # that of the passage
    piece: str | None = None  # that of the piece of information
    tom_type: str | None = None  # what that file calls the order; cyclic: what one believes another believes of oneself

    @cached_property
    def identity(self) -> str:
        """What a question is known by, whichever part of the conversation is shown."""
        return digest_key(self.question, sorted((self.right, self.wrong)), self.accessible, self.order)


def find_files(path: Path | None) -> list[Path]:
    """The files of the user's `path`: itself, or the CSV files of a folder. Raises ConfigError where there is none."""
    path = SOURCE.require_path(path)
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if NAME.search(file.name))
    if not found:
        raise ConfigError(f"{path}: holds no file FANToM_*_order.csv; expected {SOURCE.words}. {SOURCE.note}")
    return found


def read_questions(path: Path | None) -> Iterator[BeliefQuestion]:
    """The questions of all files, short contexts after full ones, each file in its order. Raises ConfigError where the
    file is missing, ContentError by line or field for what is no question."""
    for file in find_files(path):
        if file.suffix == ".json":
            yield from _read_official(file)
        elif (named := NAME.search(file.name)) is not None:
            rows = SOURCE.csv(file, COLUMNS, ",")
            if (head := tuple(next(rows).data.values())) != COLUMNS:
                raise SOURCE.place(file, 1).at("columns").wrong(",".join(head), ",".join(COLUMNS))
            for row in rows:
                told = split_lines(row.text("context"))
                right, wrong = _options(row)
                accessible, order = named[1] == "accessible", 1 if named[3] == "first" else 2
                question = one_line(row.text("question"))
                yield BeliefQuestion(row.place, told, question, right, wrong, named[2], accessible, order)
        else:
            example = "FANToM_tom:belief:accessible_short_context_first-order.csv, which says what is asked"
            raise SOURCE.place(file).wrong(file.name, f"a name such as {example}, or {OFFICIAL}")


def _options(row: Record) -> tuple[str, str]:
    """The right and the wrong option of a row, with single spaces."""
    found = read_texts(row.text("answer_choices"))
    if len(found) != 2 or not all(map(str.strip, found)):
        raise row.wrong("answer_choices", "a list of two texts")
    first, second = map(one_line, found)
    right = one_line(row.text("gt_answer"))
    if right not in (first, second):
        raise row.wrong("gt_answer", "one of answer_choices")
    return right, second if right == first else first


def _read_official(file: Path) -> Iterator[BeliefQuestion]:
    place = SOURCE.place(file)
    sets = _rowwise(place.value(SOURCE.text(file)))
    for one in Record(place, {"sets": sets}).objects("sets"):
        for asked in one.objects("beliefQAs"):
            names = ("question", "correct_answer", "wrong_answer", "question_type", "tom_type")
            question, right, wrong, kind, order = (one_line(asked.text(name)) for name in names)
            if not kind.endswith((":accessible", ":inaccessible")):
                raise asked.wrong("question_type", "tom:belief:accessible or tom:belief:inaccessible")
            if order.split(":")[0] not in ("first-order", "second-order"):
                raise asked.wrong("tom_type", "first-order, or second-order with what is behind a colon")
            piece = one.text("set_id")
            numbers = (piece.split("-")[0], "-".join(piece.split("-")[:2]), piece, order)
            accessible, level = kind.endswith(":accessible"), 2 if order.startswith("second") else 1
            for context in ("short", "full"):
                told = split_lines(one.text(f"{context}_context"))
                yield BeliefQuestion(asked.place, told, question, right, wrong, context, accessible, level, *numbers)


def _rowwise(found: Any) -> Any:
    """The sets of a file that has them column by column, `{"set_id": {"0": ...}, ...}`, which the authors' program
    (pandas.read_json) reads as well as a list of them; anything else as it is."""
    if not isinstance(found, dict) or not isinstance(found.get("beliefQAs"), dict):
        return found
    columns = {name: column for name, column in found.items() if isinstance(column, dict)}
    return [{name: column.get(row) for name, column in columns.items()} for row in columns["beliefQAs"]]


ENOUGH = 0.6
"""The share of the words of the shorter question that two questions about one piece have in common."""

COMMON = frozenset(
    """
    what who whom whose how why when where which does do did is was were are be been being believe believes believed
    think thinks thought belief beliefs know knows about regarding that the a an of to in on for with by their his her
    its he she they and or has have had s as at from it this these those
    """.split()  # noqa: SIM905
)
"""Words that say nothing of which piece of information is asked about."""


def number_pieces(questions: Sequence[str], people: Collection[str]) -> list[int]:
    """A number for each question, from 0, which those about the same piece of information share. questions: those about
    one passage. people: the speakers, in small letters."""
    groups: list[list[set[str]]] = []
    found = []
    for question in questions:
        words = {word for word in re.findall(r"\w+", question.casefold()) if word not in COMMON and word not in people}
        near = [max(len(words & one) / max(1, min(len(words), len(one))) for one in group) for group in groups]
        best = max(range(len(near)), key=near.__getitem__, default=None)
        if best is None or near[best] < ENOUGH:
            best = len(groups)
            groups.append([])
        groups[best].append(words)
        found.append(best)
    return found


_SILENT = re.compile(r"[^\s:]+:")
"""A line of a conversation in which nothing is said."""


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The questions in the order of the files; one whose options are the same is left out. Raises as
    `read_questions`."""
    asked = [one for one in read_questions(path) if one.right.casefold() != one.wrong.casefold()]
    places = _places(asked)
    conversations = _conversations(asked, {content: part for content, (part, _) in places.items()})
    ids: Counter[str] = Counter()
    for one in asked:
        part, piece = places[one.identity]
        yield one.place.item(
            id=number_again(ids, f"{one.context}/{one.identity}"),
            story=one.told,
            question=one.question,
            choices=sorted((one.right, one.wrong), key=lambda option: (digest_key(one.question, option), option)),
            answer=one.right,
            cluster=f"conversation/{conversations[part]}",
            factors={
                **{"task": "belief", "dimension": "belief", "context": one.context, "accessible": one.accessible},
                **{"order": one.order, "part": part, "piece": piece, "options": 2},
                "tom_type": one.tom_type,
            },
        )


def _places(asked: Sequence[BeliefQuestion]) -> dict[str, tuple[str, str]]:
    """The passage and the piece of information of each question, by its content. Where the file does not say them, the
    passage is that of the short context, or the whole conversation where only that is at hand; and the pieces are found
    by the words of the questions, those that all heard apart from the others."""
    passages: dict[str, BeliefQuestion] = {}
    for one in sorted(asked, key=lambda one: one.context != "full"):  # the short ones last, so that they count
        passages[one.identity] = one
    found: dict[str, tuple[str, str]] = {}
    together: dict[tuple[str, bool], list[BeliefQuestion]] = defaultdict(list)
    for content, one in passages.items():
        if one.part is not None and one.piece is not None:
            found[content] = (one.part, f"{one.piece}/{'heard' if one.accessible else 'missed'}")
        else:
            together[digest_key(one.told), one.accessible].append(one)
    for (part, accessible), group in together.items():
        people = {line.split(":")[0].casefold() for line in group[0].told}
        numbers = number_pieces([one.question for one in group], people)
        for one, number in zip(group, numbers, strict=True):
            found[one.identity] = (part, f"{part}/{'heard' if accessible else 'missed'}/{number}")
    return found


def _conversations(asked: Sequence[BeliefQuestion], parts: Mapping[str, str]) -> dict[str, str]:
    """The conversation of each passage: by the official file, or else that in which it is found. asked: the questions.
    parts: the passage of each, by its content. A passage belongs to the conversation that is shown with the same
    question, or that holds its text; one for which neither is at hand stands alone."""
    found: dict[str, str] = {}
    told: dict[str, str] = {}  # the text of each whole conversation, by its key
    for one in asked:
        part = parts[one.identity]
        if one.conversation is not None:
            found[part] = one.conversation
        elif one.context == "full":
            found[part] = digest_key(one.told)
            told[found[part]] = "\n".join(one.told)
    for one in asked:
        if (part := parts[one.identity]) not in found:
            text = "\n".join(one.told)
            holding = [name for name, whole in told.items() if text in whole]
            found[part] = holding[0] if len(holding) == 1 else part
    return found


def _is_right(text: str, letter: str) -> bool:
    """Whether a reply begins with the letter of the right option, or holds that letter in brackets anywhere."""
    text = text.strip()
    for cue in ("Answer:", "Choose an answer from above:"):
        if cue in text:
            text = text.split(cue)[-1].strip()
            break
    text = text.lower()
    begins = text.startswith((f"({letter})", *(f"{letter}{mark}" for mark in ").:,")))
    return begins or f"({letter})" in text or text == letter


METRIC = by_letter(_is_right)


def _remarks(path: Path | None, items: Sequence[Item]) -> Iterator[str]:
    if whole := len(items) - len({(item.story, item.question) for item in items}):
        yield (
            f"{whole:,} questions are asked twice, because the passage is the whole conversation (context short and "
            "full)."
        )
    yield (
        "Where the information was missed, the option that denies is nearly always right, and where it was heard, the "
        "other one: each half alone is answered without a mind (see the rules), so read both halves together."
    )
    if same := sum(one.right.casefold() == one.wrong.casefold() for one in read_questions(path)):
        yield f"{same:,} questions whose two options are the same are left out."
    if silent := sum(any(_SILENT.fullmatch(line) for line in item.story) for item in items):
        yield f"{silent:,} questions show a conversation in which somebody's line is empty."


def _compare_files(path: Path | None) -> list[str]:
    """How the files differ from the known ones, and which are not there: one line each."""
    known = dict(read_digests("fantom"))
    at_hand = find_files(path)
    if any(file.suffix == ".json" for file in at_hand):
        return [f"{OFFICIAL} is not compared with the authors' file, whose digest tomserve does not know."]
    found = {named[0]: git_blob_name(files.read_own(file)) for file in at_hand if (named := NAME.search(file.name))}
    said = [
        f"{name} is not the file of commit {SOURCE.commit} of {SOURCE.repository}."
        for name, digest in sorted(found.items())
        if known.get(name) != digest
    ]
    missing = sorted(known.keys() - found)
    return [*said, f"Not at hand: {', '.join(missing)}."] if missing and path is not None and path.is_dir() else said


def _reader(denying: bool) -> Callable[[Item], str]:
    """The answer of somebody who takes the option that denies, or the one that does not, and where both or neither do
    the shorter one, or the longer one, since "does not know" is soon said."""

    def answer(item: Item) -> str:
        those = [choice for choice in item.choices if is_negated(choice) is denying]
        return those[0] if len(those) == 1 else sorted(item.choices, key=len)[0 if denying else -1]

    return answer


OWN = (Baseline("denying else shortest", _reader(True)), Baseline("affirming else longest", _reader(False)))
"""What the options alone give away: the first of information that was missed, the second of what was heard."""

BENCHMARK = published(
    SOURCE,
    load,
    _compare_files,
    ("context", "accessible", "order"),
    (*RULES, *OWN),
    remarks=_remarks,
    papers=("FANToM: A Benchmark for Stress-testing Machine Theory of Mind in Interactions (arXiv:2310.15421)",),
    study="fantom",
    strategies=("letters", "letters_cot"),
    draw=Draw(unit=("conversation", "conversations")),
    lettered=True,
    metrics=(METRIC,),
)
