"""Ullman's alterations of two false-belief stories (2023, arXiv 2302.08399), with "she has no guess" as a third choice.

    tomserve eval --benchmark ullman --path ullman.csv

Nine rows of five fields with ";" between them: story, question, right answer, wrong answer, and that the person has no
guess. The file holds one story of unexpected contents and one of an unexpected transfer, each altered four times, so
that a reader who knows the originals by heart is wrong: nine questions about two stories, which tell much of one answer
and little of an accuracy. The right answer always stands third in the file; here the choices stand in an order that is
drawn for each item by its id.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tomserve.benchmarks.published.base import Source, cut_sentences, published, read_digests, row_digest
from tomserve.items import Item
from tomserve.items.draw import seeded_order
from tomserve.scoring.baselines import Baseline

DESIGN = (
    ("original", "unexpected_contents", "false_belief"),
    ("transparent_bag", "unexpected_contents", "true_belief"),
    ("cannot_read", "unexpected_contents", "no_belief"),
    ("trusted_testimony", "unexpected_contents", "true_belief"),
    ("filled_it_herself", "unexpected_contents", "true_belief"),
    ("transparent_box", "unexpected_transfer", "true_belief"),
    ("on_top", "unexpected_transfer", "true_belief"),
    ("told_by_phone", "unexpected_transfer", "true_belief"),
    ("asked_about_the_first", "unexpected_transfer", "false_belief"),
)
"""What each of the known rows is, in the order of their digests: the alteration, which story it is made of, and what
the person asked about believes."""

COLUMNS = ("story", "question", "right answer", "wrong answer", "no guess")
NO_GUESS = "has no guess"
"""How the choice ends that says that the person has none, such as "she has no guess"; it may be the right one."""

SOURCE = Source("ullman", "cicl-stanford/procedural-evals-tom", "data/expert_data/ullman.csv", "MIT", "fe647d6")


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The items of the user's file, one a row. A row that is none of the known ones has no alteration (null)."""
    known = dict(zip(chain.from_iterable(read_digests("ullman")), DESIGN, strict=True))
    for number, row in enumerate(SOURCE.csv(path, COLUMNS, ";"), 1):
        story, question, *choices = map(row.line, COLUMNS)
        choices = [choice.strip() for choice in choices]
        name = f"ullman/{number}"
        alteration, task, condition = known.get(row_digest(row.csv_bytes()), (None, "other", None))
        yield row.place.item(
            id=name,
            story=cut_sentences(story),
            question=question,
            choices=seeded_order(choices, name, separator=" "),
            answer=choices[0],
            factors={
                "task": task,
                "dimension": "belief",
                "alteration": alteration,
                "condition": condition,
                "no_guess": next((choice for choice in choices if choice.endswith(NO_GUESS)), None),
            },
            cluster=f"ullman/{number if alteration is None else task}",
        )


ORDER = "order: the right answer is the third field of every row; asked in the order of the file, it is always first."
RULES = (
    Baseline(
        "always no guess",
        lambda item: next((one for one in item.choices if one == item.factors.get("no_guess")), None),
        "constant",
    ),
)

BENCHMARK = published(
    SOURCE,
    load,
    lambda path: SOURCE.differences(row.csv_bytes() for row in SOURCE.csv(path, COLUMNS, ";")),
    ("task",),
    RULES,
    remarks=lambda path, items: (ORDER,),
    papers=("Large Language Models Fail on Trivial Alterations to Theory-of-Mind Tasks (arXiv:2302.08399)",),
)
