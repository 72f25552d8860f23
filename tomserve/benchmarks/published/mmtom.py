"""MMToM-QA, text part (Jin et al. 2024, arXiv 2401.08743): what does somebody seek, and where do they think it is?

    tomserve items mmtom --path questions.json --where task=belief

600 questions with two options, about what a person did in an apartment. The factor `type` is the authors': 1.1 to 1.3
ask what the person believes, 2.1 to 2.4 what the person wants. The videos of the benchmark are not asked here.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tomserve.benchmarks.published.base import (
    RULES,
    Source,
    by_letter,
    digest_key,
    number_again,
    one_line,
    published,
    split_lines,
)
from tomserve.items import Item
from tomserve.items.draw import Draw

SOURCE = Source("mmtom", "chuanyangjin/MMToM-QA", "Benchmark/questions.json", "MIT", "cba94f3")
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

_FORM = re.compile(
    r"(?>(.+?)\nQuestion: )(?>(.+?) \(a\) )(?>(.+?) \(b\) )(.+?) Please respond with either a or b\.", re.S
)


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The questions in the order of the file. Raises ConfigError where the file is missing, ContentError by line and
    field for what is no question."""
    asked: Counter[str] = Counter()
    for place, line in SOURCE.lines(path):
        row = place.json(line)
        form = _FORM.fullmatch(row.text("question"))
        if form is None or not (story := split_lines(form[1])):
            expected = "a story, then 'Question: ... (a) ... (b) ... Please respond with either a or b.'"
            raise row.wrong("question", expected)
        answer, kind = row.choice("answer", ("a", "b")), row.choice("question_type", TYPES)
        question, *options = map(one_line, form.groups()[1:])
        if options[0].casefold() == options[1].casefold():
            raise row.wrong("question", "two different options")
        episode = row.data.get("episode")
        key = f"{episode}/{kind}/{digest_key(form[1], question, sorted(options))}"
        name = number_again(asked, key)
        task, dimension = ("goal", "desire") if kind.startswith("2") else ("belief", "belief")
        yield place.at("question").item(
            id=name,
            story=story,
            question=question,
            choices=options,
            answer=options["ab".index(answer)],
            cluster=f"episode/{episode}",
            factors={
                **{"task": task, "dimension": dimension, "type": kind, "order": 1, "options": 2},
                "asked_before": name != key,
            },
        )


METRIC = by_letter(lambda text, letter: text.strip("\n").strip(" ").lower()[:1] == letter)
"""Whether the first character of a reply in free text is the letter of the right option, as the authors read it."""


def _remarks(path: Path | None, items: Sequence[Item]) -> Iterator[str]:
    yield (
        "Types 1.1 and 1.2 are right by the option without 'not', type 1.3 by the one with it, and type 2.1 by the "
        "option that the question does not name: see the rules. Compare an accuracy with theirs, type by type."
    )
    if twice := sum(bool(item.factors["asked_before"]) for item in items):
        are = "is asked" if twice == 1 else "are asked"
        yield f"{twice} of the questions {are} twice, with the options in the other order."


BENCHMARK = published(
    SOURCE,
    load,
    lambda path: SOURCE.differences(line.encode() for _, line in SOURCE.lines(path)),
    ("task", "type"),
    RULES,
    remarks=_remarks,
    papers=("MMToM-QA: Multimodal Theory of Mind Question Answering (arXiv:2401.08743)",),
    study="mmtom",
    strategies=("letters", "letters_cot"),
    draw=Draw(unit=("episode", "episodes")),
    lettered=True,
    metrics=(METRIC,),
)
