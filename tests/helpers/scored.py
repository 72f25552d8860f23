"""Score tables in memory, from pairs of an item and its response."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import polars as pl

from tomserve import benchmarks
from tomserve.items import Item
from tomserve.scoring.grades import FIELD, GRADED
from tomserve.scoring.metrics import ScoringLookup, plain_scoring
from tomserve.scoring.score import SAMPLED, Answers, TableSpec, build_frame, sample_of


def score_table(
    run: str,
    model: str,
    answered: Iterable[tuple[Item, Mapping[str, Any]]],
    chains: Collection[str] = (),
    rules: ScoringLookup = plain_scoring,
    lettered: Collection[str] = (),
) -> pl.DataFrame:
    """Score pairs of an item and its response; samples of one question become one row. A response has `strategy`,
    `status` and `text`, and a `sample` from 1 on where it is a further sample. Other parameters and errors: see
    tomserve.scoring.table.write_score_table."""
    questions: dict[tuple[str, Any, Any, int], tuple[Item, list[Mapping[str, Any]]]] = {}
    factors: dict[str, set[type]] = {}
    rows = [(item, {"model": model, **row}) for item, row in answered]
    sampled = any(map(sample_of, (row for _, row in rows)))
    for number, (item, row) in enumerate(rows):
        one = (item.id, row["model"], row["strategy"], 0 if sampled else number)
        questions.setdefault(one, (item, []))[1].append(row)
        for name, value in item.factors.items():
            factors.setdefault(name, set()).add(type(value))
    pairs: list[Answers] = [(item, sorted(found, key=sample_of), (), ()) for item, found in questions.values()]
    known = {item.id: item for item, *_ in pairs}
    graded, varied = (any(type(row.get(FIELD)) is dict for _, row in rows), any(item.base for item in known.values()))
    spec = TableSpec.of(
        run,
        factors,
        {item.benchmark for item in known.values()},
        rules,
        {**(SAMPLED if sampled else {}), **(GRADED if graded else {})},
        original=(lambda item: known.get(item.base or "")) if varied else None,
        chains=chains,
        lettered=lettered,
    )
    return build_frame(pairs, spec)


def answered(items: Iterable[Item], answer: Callable[[Item], str | None], strategy: str = "vanilla") -> pl.DataFrame:
    """The scores of a model that answers so, by what each item's benchmark says; a reply that is None did not come."""
    said = [(item, answer(item)) for item in items]
    rows = [(one, {"strategy": strategy, "status": "ok" if text else "timeout", "text": text}) for one, text in said]
    return score_table("r", "m", rows, rules=benchmarks.scoring_of)


def wrong_choice(item: Item) -> str:
    """The first choice that is not the right one."""
    return next(choice for choice in item.choices if choice != item.answer)
