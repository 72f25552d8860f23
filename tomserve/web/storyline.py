"""A story sentence by sentence: what is right after each, and what a reply says is believed there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from tomserve import benchmarks
from tomserve.items import Item
from tomserve.runs import runfolder
from tomserve.scoring.table import MEASURED
from tomserve.web.people import Person
from tomserve.web.register import Line, Register

RUNS = 30
"""How many runs are looked at for the answers to one item, the newest first."""


class Sentence(NamedTuple):
    """A sentence. number: from 1. text: its words. gold: the labels that are right after it. stated: what the reply
    says, "" where it says nothing. verdict: how that was judged. breaks: whether the chain breaks here. more: what the
    benchmark knows besides, by the headings of `beliefs`."""

    number: int
    text: str
    gold: tuple[str, ...] = ()
    stated: str = ""
    verdict: str = ""
    breaks: bool = False
    more: tuple[str, ...] = ()


def layers(item: Item) -> list[tuple[str, ...]]:
    """The labels that are right after each sentence; empty where the item has no rationale."""
    if item.gold is None:
        return []
    if item.gold.chains is not None:
        return [tuple(dict.fromkeys(layer)) for layer in zip(*item.gold.chains, strict=True)]
    return [tuple(layer) for layer in item.gold.sets or ()]


def sentences(item: Item, score: Mapping[str, Any] | None = None) -> tuple[tuple[str, ...], tuple[Sentence, ...]]:
    """The headings of what the benchmark knows besides, and the sentences of an item. score: the row of the score table
    of a reply, None where nothing was asked."""
    gold = layers(item)
    benchmark = benchmarks.find(item.benchmark)
    beliefs = list(benchmark.beliefs(item)) if benchmark is not None else []
    stated, verdicts = {}, {}
    if score is not None and score.get("chain"):
        numbers = score.get("chain_sentences") or range(1, len(score["chain"]) + 1)
        stated = dict(zip(numbers, score["chain"], strict=False))
        verdicts = dict(enumerate(score.get("chain_verdicts") or (), 1))
    place = score.get("chain_break") if score is not None else None
    told = tuple(
        Sentence(
            number,
            text,
            gold[number - 1] if gold else (),
            stated.get(number, ""),
            str(verdicts.get(number) or "").replace("_", " "),
            place == number,
            tuple(labels[number - 1] if number <= len(labels) else "" for _, labels in beliefs),
        )
        for number, text in enumerate(item.story, 1)
    )
    return tuple(heading for heading, _ in beliefs), told


class Told(NamedTuple):
    """How a run answered an item, by one strategy."""

    run: str
    model: str
    strategy: str
    status: str
    answer: str
    correct: bool | None


def answers(item: Item, register: Register, person: Person) -> tuple[list[Told], int]:
    """How the runs that a person may see have answered an item, and how many runs were not looked at, because they are
    older than the RUNS newest ones of the benchmark or were not scored yet."""
    lines = [line for line in register.lines(person) if line.kind not in ("", MEASURED) and _may_hold(line, item)]
    found: list[Told] = []
    left = max(0, len(lines) - RUNS)
    for line in lines[:RUNS]:
        table = line.folder / runfolder.TABLE
        try:
            if table.is_symlink() or not table.is_file():
                left += 1
                continue
            rows = (
                pl.scan_parquet(table)
                .filter(pl.col("item") == item.id)
                .select("strategy", "status", "answer", "correct")
                .collect()
            )
        except (OSError, pl.exceptions.PolarsError):
            left += 1
            continue
        for strategy, status, said, correct in rows.iter_rows():
            found.append(Told(line.name, line.model, str(strategy), str(status), str(said or ""), correct))
    return found, left


def _may_hold(line: Line, item: Item) -> bool:
    return not line.broken and line.benchmark in (item.benchmark, benchmarks.ANYBODYS)
