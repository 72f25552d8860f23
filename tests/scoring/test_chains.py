"""Chains against the gold rationale: published vectors, one gold chain or several, and sentence by sentence."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_item
from tests.helpers.rationales import LABELS, listed, rationales
from tomserve.benchmarks import load
from tomserve.items import Gold, Item
from tomserve.items.rationale import Automaton, compile_chains, compile_sets
from tomserve.scoring.chains import (
    check_path_proper,
    check_proper,
    judge_sentences,
    lcps,
    lcs,
    score_chain,
    transition_overlaps,
)
from tomserve.scoring.score import score_row

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "chain_vectors.json").read_text())


belief_chains = st.lists(st.sampled_from(LABELS), min_size=1, max_size=6)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_published_vectors(vector: dict) -> None:
    chain, expected = vector["llm"], vector["expected"]
    if vector["policy"] == "explicit_chains":
        automaton = compile_chains(vector["gold_chains"])
    else:
        automaton = compile_sets(vector["gold_sets"], [tuple(e) for e in vector["edges"]], vector["policy"])
        assert sorted(map(list, automaton.chains())) == sorted(vector["gold_chains"])
    right = check_proper(automaton, chain)
    assert right == expected["proper"]
    assert lcs(automaton, chain) == expected["lcs"]
    assert lcps(automaton, chain) == expected["lcps"]
    overlaps = (expected["top_all"], expected["top_distinct"])
    assert transition_overlaps(automaton, chain, right) == pytest.approx(overlaps, abs=1e-6)
    score = score_chain(automaton, chain)
    assert (score.lcs, score.lcps) == pytest.approx((expected["lcs_p"], expected["lcps_p"]), abs=1e-6)


@given(rationales(), belief_chains)
def test_against_several_gold_chains_every_metric_is_the_best_against_one(rationale: tuple, chain: list[str]) -> None:
    """A single gold chain is followed in a way of its own, which the published vectors hold."""
    golds = [compile_chains([gold]) for gold in listed(*rationale)]
    stated = list(enumerate(chain, 1))[: len(rationale[0])]

    def measured(gold: Automaton) -> tuple[float, ...]:
        right, judged = check_proper(gold, chain), judge_sentences(gold, stated)
        path = check_path_proper(gold, chain)
        overlaps = transition_overlaps(gold, chain, right)
        return right, path, lcs(gold, chain), lcps(gold, chain), *overlaps, judged.accuracy, judged.change_f1

    if golds:
        best = [max(values) for values in zip(*map(measured, golds), strict=True)]
        assert list(measured(compile_sets(*rationale))) == pytest.approx(best)


@pytest.mark.parametrize(
    ("chain", "right"), [("unknown tea salt", 1), ("unknown tea milk", 1), ("tea salt", 0), ("unknown", 0)]
)
def test_path_correctness_leaves_the_last_state_out(chain: str, right: bool) -> None:
    assert check_path_proper(GOLD, chain.split()) == right


def test_an_empty_chain_scores_nothing() -> None:
    score = score_chain(compile_sets([["x"]]), [])
    assert (score.proper, score.lcs, score.lcps, score.transitions) == (False, 0.0, 0.0, 0.0)


def test_a_long_story_with_wide_sets_is_quick() -> None:
    # 3^40 gold belief_chains: listing them would never end
    automaton = compile_sets([list("uxy")] * 40, policy="free")
    chain = list("uxy" * 13)
    assert check_proper(automaton, chain)
    assert lcs(automaton, chain) == 39
    assert transition_overlaps(automaton, chain, True) == (1.0, 1.0)


def test_pairs_that_no_memory_holds_are_not_compared() -> None:
    chain = [label for pair in itertools.product("uvwxyz", repeat=2) for label in pair]
    assert transition_overlaps(compile_sets([list("uvwxyz")] * 20, policy="free"), chain, False) == (None, None)


def test_a_chain_that_takes_too_long_is_not_compared() -> None:
    sets = [["a", "b"]] * 20
    item = Item(id="x", story=["x"] * 20, question="?", choices=["a", "b"], answer="a",
                gold={"sets": sets, "policy": "free"})  # fmt: skip
    for beliefs, reason in ((1000, None), (20_000, "holds more beliefs than can be compared")):
        text = orjson.dumps({"answer": "a", "beliefs": ["a", "b"] * (beliefs // 2)}).decode()
        row = score_row("r", "m", item, {"strategy": "s", "status": "ok", "text": text}, True)
        assert (row["chain_reason"], row["chain_proper"]) == (reason, False)
        assert (row["chain_lcs"] == 0.0) is (reason is not None)


GOLD = compile_sets([["unknown"], ["tea"], ["tea"], ["salt"]])


def verdicts(*beliefs: str | None, others=()) -> tuple[str, ...]:
    return judge_sentences(GOLD, list(enumerate(beliefs, 1)), others).verdicts


def test_every_verdict() -> None:
    assert verdicts("unknown", "tea", "tea", "salt") == ("right",) * 4
    assert verdicts("unknown", "unknown", "tea", "salt")[1] == "too_late"
    assert verdicts("unknown", "tea", "salt", "salt")[2] == "too_early"
    assert verdicts("unknown", "tea", "milk", "salt")[2] == "wrong"
    assert verdicts("unknown", "tea", None, "salt")[2] == "out_of_vocabulary"
    assert judge_sentences(GOLD, [(1, "unknown"), (2, "tea"), (4, "salt")]).verdicts[2] == "skipped"
    reality = compile_sets([["milk"], ["milk"], ["milk"], ["salt"]])
    assert verdicts("unknown", "tea", "milk", "salt", others=[reality])[2] == "other_belief"


def test_the_nearer_of_before_and_after_decides() -> None:
    back = compile_sets([["a"], ["b"], ["b"], ["b"], ["a"]])
    near_end = judge_sentences(back, [(1, "a"), (2, "b"), (3, "b"), (4, "a"), (5, "a")]).verdicts
    assert near_end == ("right", "right", "right", "too_early", "right")
    near_start = judge_sentences(back, [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "a")]).verdicts
    assert near_start == ("right", "too_late", "right", "right", "right")


def test_sentence_accuracy_fills_forward_and_takes_the_best_path() -> None:
    judged = judge_sentences(GOLD, [(1, "unknown"), (2, "tea")])
    assert judged.accuracy == 0.75
    assert (judged.verdicts[3], judged.first_break) == ("skipped", 3)
    either = compile_sets([["x", "y"], ["x", "y"], ["x", "y"]])
    assert judge_sentences(either, [(1, "y"), (2, "y"), (3, "x")]).accuracy == pytest.approx(2 / 3)


def test_change_f1() -> None:
    assert judge_sentences(GOLD, [(1, "unknown"), (2, "tea"), (4, "salt")]).change_f1 == 1.0
    late = judge_sentences(GOLD, [(1, "unknown"), (3, "tea"), (4, "salt")])
    assert late.change_f1 == pytest.approx(0.5)
    assert judge_sentences(GOLD, [(1, "unknown")]).change_f1 == 0.0
    assert judge_sentences(compile_sets([["x"], ["x"]]), [(1, "x")]).change_f1 == 1.0


def test_beliefs_beyond_the_story_have_no_sentence_and_none_stands_before_the_first() -> None:
    with pytest.raises(ValueError, match="sentence 0 of 4"):
        judge_sentences(GOLD, [(0, "tea")])
    right = ("unknown", "tea", "tea", "salt")
    longer = judge_sentences(GOLD, list(enumerate((*right, "salt", "tea", None), 1)))
    assert longer.verdicts == ("right",) * 4 + ("beyond", "beyond", "out_of_vocabulary")
    assert (longer.accuracy, longer.first_break) == (1.0, 4)
    assert longer.change_f1 == pytest.approx(2 * 2 / (4 + 2))  # two of its four changes are no change of the story
    assert judge_sentences(GOLD, list(enumerate((*right, "salt"), 1))).change_f1 == 1.0
    assert judge_sentences(GOLD, list(enumerate(("tea", *right), 1))).first_break == 0


@given(st.lists(st.sampled_from(["unknown", "tea", "salt"]), min_size=1, max_size=9))
def test_a_plain_list_of_any_length_gets_the_published_metrics(chain: list[str]) -> None:
    found = row(orjson.dumps({"beliefs": chain, "answer": "tea"}).decode())
    score = score_chain(compile_sets([["unknown"], ["tea"], ["tea"]]), chain)
    names = ("proper", "lcs", "lcps", "transitions", "transitions_distinct")
    assert {name: found[f"chain_{name}"] for name in names} == {name: getattr(score, name) for name in names}
    assert (found["chain"], found["chain_reason"]) == (chain, None)
    assert (found["chain_break"] is None) == score.proper


def row(text: str, **item) -> dict:
    gold = Gold(sets=[["unknown"], ["tea"], ["tea"]])
    response = {"strategy": "cot", "status": "ok", "text": text}
    return score_row("r", "m", make_item(gold=gold, **item), response, True)


def test_a_row_says_where_its_chain_breaks() -> None:
    found = row('{"beliefs": ["unknown", "unknown", "tea"], "answer": "tea"}')
    assert (found["chain_proper"], found["chain_break"], found["chain_break_kind"]) == (False, 2, "too_late")
    told = '{"beliefs": [{"sentence": 1, "belief": "unknown"}, {"sentence": 2, "belief": "tea"}], "answer": "salt"}'
    proper_one = row(told)
    assert (proper_one["chain_proper"], proper_one["chain_break_kind"]) == (True, None)
    assert (found["answer_matches_last"], proper_one["answer_matches_last"]) == (True, False)
    assert proper_one["chain_verdicts"] == ["right", "right", "skipped"]
    assert proper_one["chain_sentences"] == [1, 2]
    odd = row('{"beliefs": ["unknown", "milk", "tea"], "answer": "tea"}')
    assert (odd["chain"], odd["chain_break"], odd["chain_break_kind"]) == (None, 2, "out_of_vocabulary")
    assert odd["chain_lcs"] == odd["chain_sentence_accuracy"] == 0.0
    assert row('{"answer": "tea"}')["chain_break_kind"] == "missing"


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
