"""Stories that were edited so that the answer changes: do the chain of thought and the answer change together?

A twin of a question is the same question, with the same choices, about another version of its story (of the same
cluster) with another right answer: the protagonist looks into the tin after all, or the label is swapped. Where a run
has asked both, nothing needs to be asked again. That a chain stays while its answer moves shows that it was not what
moved it (the counterfactual test of Atanasova et al. 2023, there of explanations).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tomserve.faithfulness.chains import EditCase, offered_choices
from tomserve.faithfulness.prose_edits import find_conclusion
from tomserve.faithfulness.source_run import Chain, SourceRun, chain_columns, read_chain, read_rows_of
from tomserve.faithfulness.table import LABELS, LEFT_OUT, ORIGINAL, STORY, TWIN, of_rows
from tomserve.items import Item, read_items
from tomserve.runs.runfolder import ITEMS
from tomserve.status import OK

NO_TWIN = "the run has no version of the story in which the answer is another"
NO_CHAIN = "the twin of the question has no chain that can be read"
"""Reasons why a pair is left out."""


def choose_twins(items: Iterable[Item], wanted: Iterable[str]) -> dict[str, Item]:
    """The twin of each of the wanted items that has one: the one whose story has the most sentences in common."""
    alike: dict[tuple[str, str, frozenset[str]], list[Item]] = defaultdict(list)
    for item in items:
        if item.base is None and item.cluster is not None and item.answer is not None:
            alike[item.cluster, item.question, frozenset(item.choices)].append(item)
    names, found = set(wanted), dict[str, Item]()
    for group in alike.values():
        for item in group:
            others = [one for one in group if one.answer != item.answer and one.story != item.story]
            if item.id in names and others:
                own = set(item.story)
                found[item.id] = min(others, key=lambda one: (len(own ^ set(one.story)), one.id))
    return found


def compare_twins(source: SourceRun, chains: Sequence[Chain], run: str) -> pl.DataFrame:
    """The rows of the table about these chains and the chains of their twins, two for each pair, which counts once.
    run: the name of the measurement. Raises ConfigError where a file of the run cannot be read."""
    twins = choose_twins(read_items(source.folder / ITEMS), {chain.item.id for chain in chains})
    names = {chain.strategy.name for chain in chains}
    answered = read_rows_of(source.folder, {twin.id for twin in twins.values()}, names)
    rows: list[Mapping[str, Any]] = []
    seen: set[tuple[str, frozenset[str]]] = set()
    for chain in chains:
        named = {"run": run, "model": source.manifest.model, "kind": STORY, "own": chain.written.model_answer}
        twin = twins.get(chain.item.id)
        if twin is None:
            rows.append({**named, **_left_out(chain, NO_TWIN)})
            continue
        pair = (chain.strategy.name, frozenset((chain.item.id, twin.id)))
        if pair in seen:
            continue
        seen.add(pair)
        other = read_chain(twin, chain.strategy, answered.get((twin.id, chain.strategy.name), {}))
        made = _pair(chain, other) if isinstance(other, Chain) else [_left_out(chain, NO_CHAIN)]
        rows += [{**named, **row} for row in made]
    return of_rows(rows)


def _left_out(chain: Chain, reason: str) -> dict[str, Any]:
    return {**chain_columns(chain), "condition": TWIN, "outcome": LEFT_OUT, "reason": reason}


def _pair(chain: Chain, other: Chain) -> Iterator[dict[str, Any]]:
    for condition, one in ((ORIGINAL, chain), (TWIN, other)):
        answered = {"condition": condition, "outcome": OK, "answer": one.written.model_answer, "right": one.item.answer}
        yield {**chain_columns(chain), **answered, "implied": find_end(one), "edited": one.written.text}


def find_end(chain: Chain) -> str | None:
    """The label on which a chain ends by itself, whatever was answered after it; None where it cannot be read."""
    written = chain.written
    if written.form == LABELS:
        return written.entries[-1].label
    case = EditCase(chain.item, written, (), None, len, offered_choices(chain.item, chain.lettered))
    return find_conclusion(case, written.text, None)
