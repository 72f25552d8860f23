"""MMToM-QA, text part (Jin et al. 2024, arXiv 2401.08743): what does somebody seek, and where do they think it is?

    tomserve items mmtom --path questions.json --where task=belief

600 questions with two options, about what a person did in an apartment. The factor `type` is the authors': 1.1 to 1.3
ask what the person believes, 2.1 to 2.4 what the person wants. The videos of the benchmark are not asked here.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from pathlib import Path

import orjson
import polars as pl

from tomserve.benchmarks.base import Benchmark, Findings, Say
from tomserve.benchmarks.published import Source
from tomserve.benchmarks.published.base import (
    RULES,
    audit_items,
    digest_key,
    make_item,
    read_digests,
    split_lines,
    validate_rows,
)
from tomserve.errors import ContentError, one_of
from tomserve.items import Item
from tomserve.items.draw import Draw
from tomserve.scoring.answers import Reading
from tomserve.scoring.metrics import Metric

SOURCE = Source(
    "mmtom", "chuanyangjin/MMToM-QA", "Benchmark/questions.json", "MIT", "cba94f3", digests=read_digests("mmtom")
)
TYPES = {
    "1.1": "belief, true, about the next container",
    "1.2": "belief, false, about the next container",
    "1.3": "belief after a long search",
    "2.1": "goal, given a true belief",
    "2.2": "goal, given a false belief",
    "2.3": "goal, given a belief that changed",
    "2.4": "goal, given what is done next",
}
"""The authors' seven types of questions, in words of our own."""

_FORM = re.compile(r"(.+?)\nQuestion: (.+?) \(a\) (.+?) \(b\) (.+?) Please respond with either a or b\.", re.S)


def rows(path: Path | None) -> list[tuple[int, bytes]]:
    """The lines of the file that hold anything, each with its number. Raises as `Source.text`."""
    told = enumerate(SOURCE.text(path).splitlines(), 1)
    return [(number, line.encode()) for number, line in told if line.strip()]


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The questions in the order of the file.

    Raises ConfigError where the file is missing, ContentError by line and field for what is no question.
    """
    del gold
    seen: dict[str, int] = {}
    for number, line in rows(path):
        file = SOURCE.require_path(path)
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ContentError(f"is no JSON ({error.msg}); expected {SOURCE.words}", path=file, line=number) from None
        yield _item(row, file, number, seen)


def _item(row: object, file: Path, number: int, seen: dict[str, int]) -> Item:
    def wrong(field: str, found: object, expected: str) -> ContentError:
        said = f"found {found!r:.80}; expected {expected}. The file is {SOURCE.words}"
        return ContentError(said, path=file, line=number, field=field)

    if not isinstance(row, dict):
        raise wrong("question", row, "an object with question, answer and question_type")
    asked = row.get("question")
    form = _FORM.fullmatch(asked.strip()) if isinstance(asked, str) else None
    if form is None:
        raise wrong(
            "question", asked, "a story, then 'Question: ... (a) ... (b) ... Please respond with either a or b.'"
        )
    if row.get("answer") not in ("a", "b"):
        raise wrong("answer", row.get("answer"), "a or b")
    kind = str(row.get("question_type"))
    if kind not in TYPES:
        raise ContentError(one_of("type", kind[:60], TYPES), path=file, line=number, field="question_type")
    story, question, *options = (" ".join(part.split()) if at else part for at, part in enumerate(form.groups()))
    if options[0].casefold() == options[1].casefold():
        raise wrong("question", options[1], "two different options")
    episode = row.get("episode")
    name = f"{episode}/{kind}/{digest_key(story, question, sorted(options))}"
    seen[name] = seen.get(name, 0) + 1
    told = split_lines(story)
    if not told:
        raise wrong("question", asked, "a story before 'Question:'")
    goal = kind.startswith("2")
    return make_item(
        file,
        number,
        "question",
        id=name if seen[name] == 1 else f"{name}/{seen[name]}",
        benchmark="mmtom",
        story=told,
        question=question,
        choices=options,
        answer=options["ab".index(row["answer"])],
        cluster=f"episode/{episode}",
        factors={
            **{"task": "goal" if goal else "belief", "dimension": "desire" if goal else "belief", "type": kind},
            **{"order": 1, "options": 2, "asked_before": seen[name] > 1},
        },
    )


def official(item: Item, reading: Reading) -> dict[str, bool | None]:
    """Whether the first character of a reply in free text is the letter of the right option, as the authors read it."""
    text = reading.text.strip("\n").strip(" ").lower()
    if text.startswith("{"):
        return {}  # the authors ask for no form
    if item.answer not in (offered := reading.choice_order(item.choices)):
        return {}  # nothing says what the letters stood for
    return {"metric_official": text[:1] == string.ascii_lowercase[offered.index(item.answer)]}


def audit(path: Path | None, say: Say) -> Findings:
    """What the file holds, by task and type (see tomserve.benchmarks.published.base)."""
    del say
    items = list(load(path))
    twice = sum(bool(item.factors["asked_before"]) for item in items)
    said = [
        "Types 1.1 and 1.2 are right by the option without 'not', type 1.3 by the one with it, and type 2.1 by the "
        "option that the question does not name: see the rules. Compare an accuracy with theirs, type by type.",
        f"{twice} of the questions is asked twice, with the options in the other order." if twice == 1 else "",
        SOURCE.differences(line for _, line in rows(path)) or "",
    ]
    return audit_items(items, ("task", "type"), RULES, [line for line in said if line])


def validate(path: Path | None, say: Say) -> Findings:
    """Whether the file is the known one, and can be read whole."""
    del say
    count = sum(1 for _ in load(path))
    return validate_rows(SOURCE, [line for _, line in rows(path)], f"{count:,} questions")


BENCHMARK = Benchmark(
    "mmtom",
    load,
    papers=("MMToM-QA: Multimodal Theory of Mind Question Answering (arXiv:2401.08743)",),
    terms=SOURCE.words,
    study="mmtom",
    strategies=("letters", "letters_cot"),
    draw=Draw(unit=("episode", "episodes")),
    lettered=True,
    metrics=(Metric({"metric_official": pl.Boolean}, official),),
    rules=RULES,
    validate=validate,
    audit=audit,
)
