"""Chains that leave out the sentences after which nothing changes: what every metric makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given, settings

from tests.conftest import make_item
from tests.helpers.rationales import listed, rationales
from tomserve.benchmarks import load
from tomserve.items.automaton import compile_sets
from tomserve.scoring.answers import read_reply
from tomserve.scoring.chains import judge_sentences, score_chain
from tomserve.scoring.score import score_row

LABELS = ("tea", "salt", "unknown")
PERFECT = (True, 1.0, 1.0, 1.0, 1.0)


def changes(chain: Sequence[str]) -> list[tuple[int, str]]:
    """A chain of every sentence as pairs of sentence and belief, without those that repeat the one before."""
    return [(t + 1, label) for t, label in enumerate(chain) if not t or label != chain[t - 1]]


def metrics(found) -> tuple[object, ...]:  # type: ignore[no-untyped-def]
    return found.proper, found.lcs, found.lcps, found.transitions, found.transitions_distinct


@settings(max_examples=50)
@given(rationales())
def test_the_changes_of_a_gold_chain_are_perfect_by_every_metric(rationale) -> None:  # type: ignore[no-untyped-def]
    sets, edges, policy = rationale
    gold = compile_sets(sets, edges, policy)
    for chain in listed(sets, edges, policy):
        told = changes(chain)
        assert metrics(score_chain(gold, [label for _, label in told])) == PERFECT
        judged = judge_sentences(gold, told)
        assert (judged.accuracy, judged.change_f1, judged.first_break) == (1.0, 1.0, None)
        assert set(judged.verdicts) <= {"right", "skipped"}


def early(chain: Sequence[str]) -> list[str] | None:
    """The chain with its first change one sentence early; None where nothing changes or there is no sentence for it."""
    first = next((t for t in range(1, len(chain)) if chain[t] != chain[t - 1]), 0)
    return [*chain[: first - 1], chain[first], *chain[first:]] if first > 1 else None


def test_a_change_one_sentence_early_is_proper_as_a_chain_of_changes_alone() -> None:
    """The same belief course, over all items of the dataset with a single gold chain: what it is in both forms."""
    found = 0
    for item in itertools.islice(load("perturbed"), 0, None, 5):
        assert item.gold is not None
        gold = item.gold.automaton()
        chains = list(gold.chains()) if all(len(layer) == 1 for layer in gold.labels) else []
        if len(chains) != 1 or (told := early(chains[0])) is None:
            continue
        found += 1
        assert not score_chain(gold, told).proper
        assert metrics(score_chain(gold, [label for _, label in changes(told)])) == PERFECT
        by_sentence, by_change = judge_sentences(gold, list(enumerate(told, 1))), judge_sentences(gold, changes(told))
        assert by_sentence.accuracy == by_change.accuracy == pytest.approx(1 - 1 / len(told)), "when it changed counts"
        assert by_sentence.change_f1 == by_change.change_f1 < 1
    assert found >= 4


ITEM = make_item(
    story=["One.", "Two.", "Three.", "Four."], gold={"sets": [["unknown"], ["tea"], ["tea"], ["salt"]]}, answer="salt"
)


def scored(*beliefs: tuple[int, str], answer: str = "salt") -> dict[str, object]:
    """The row of scores of a reply with these beliefs."""
    listed_beliefs = [{"sentence": number, "belief": belief} for number, belief in beliefs]
    text = orjson.dumps({"beliefs": listed_beliefs, "answer": answer}).decode()
    response = {"item": ITEM.id, "strategy": "s", "status": "ok", "text": text}
    return {**score_row("r", "m", ITEM, response, True)}


def test_a_row_of_scores_of_a_chain_of_changes() -> None:
    row = scored((1, "unknown"), (2, "tea"), (4, "salt"))
    assert (row["chain"], row["chain_length"], row["chain_proper"]) == (["unknown", "tea", "salt"], 3, True)
    assert row["answer_matches_last"]
    late = scored((2, "tea"), (4, "salt"))  # before the first belief there is none
    assert (late["chain_proper"], late["chain_sentence_accuracy"]) == (False, 0.75)


def test_a_single_belief_is_all_precision_and_little_else() -> None:
    """And so is its floor: a chain that knows nothing, of one belief too."""
    row = scored((1, "unknown"), answer="unknown")
    assert (row["chain_proper"], row["chain_lcs"], row["chain_lcps"]) == (False, 1.0, 1.0)
    assert (row["chain_transitions"], row["chain_sentence_accuracy"], row["chain_change_f1"]) == (0.0, 0.25, 0.0)
    assert (row["floor_first_lcs"], row["floor_first_lcps"], row["floor_answer_lcs"]) == (1.0, 1.0, 1.0)
    assert row["floor_first_sentence_accuracy"] == 0.25
    two = scored((1, "unknown"), (3, "salt"))
    assert (two["floor_first_lcs"], two["floor_answer_sentence_accuracy"]) == (0.5, 0.25)


def test_of_two_beliefs_after_one_sentence_the_last_counts() -> None:
    told = ((1, "unknown"), (2, "tea"), (4, "salt"))
    assert scored(*told[::-1]) == scored(*told), "out of order"
    twice = scored((1, "unknown"), (2, "salt"), (4, "salt"), (2, "tea"))
    assert twice == scored((1, "unknown"), (2, "tea"), (4, "salt"))


@pytest.mark.parametrize("number", [0, 5])
def test_a_number_out_of_range_spoils_the_chain_and_not_the_answer(number: int) -> None:
    row = scored((1, "unknown"), (number, "salt"))
    assert (row["answer"], row["correct"], row["chain"]) == ("salt", True, None)
    assert (row["chain_proper"], row["chain_lcs"], row["chain_sentence_accuracy"]) == (False, 0.0, 0.0)
    text = orjson.dumps({"beliefs": [{"sentence": number, "belief": "tea"}], "answer": "tea"}).decode()
    assert read_reply(text, LABELS, 4).chain_reason == f"belief 1: sentence {number} is out of range"
