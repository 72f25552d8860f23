"""A chain against the gold rationale sentence by sentence, with a brute force over all gold chains."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import make_item
from tests.helpers.rationales import LABELS, listed, rationales
from tomserve.items import Gold
from tomserve.items.automaton import compile_sets
from tomserve.scoring.chains import VERDICTS, check_proper, judge_sentences, score_chain
from tomserve.scoring.score import score_row

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


@st.composite
def judged_chains(draw):
    rationale = draw(rationales())
    numbers = draw(st.sets(st.integers(1, len(rationale[0])), min_size=1))
    return rationale, [(number, draw(st.sampled_from(LABELS))) for number in sorted(numbers)]


def filled(stated, length: int) -> list[str | None]:
    given, now, out = dict(stated), None, []
    for number in range(1, length + 1):
        now = given.get(number, now)
        out.append(now)
    return out


def f1(mine, gold) -> float:
    changes = [{(t, seq[t]) for t in range(1, len(seq)) if seq[t] != seq[t - 1]} for seq in (mine, gold)]
    total = len(changes[0]) + len(changes[1])
    return 2 * len(changes[0] & changes[1]) / total if total else 1.0


@given(judged_chains())
def test_equals_the_brute_force_over_all_gold_chains(case) -> None:
    rationale, stated = case
    automaton, golds = compile_sets(*rationale), listed(*rationale)
    if not golds:
        return
    judged = judge_sentences(automaton, stated)
    mine = filled(stated, len(rationale[0]))
    assert judged.accuracy == max(sum(a == b for a, b in zip(mine, gold, strict=True)) for gold in golds) / len(mine)
    assert judged.change_f1 == pytest.approx(max(f1(mine, gold) for gold in golds))
    assert set(judged.verdicts) <= set(VERDICTS)
    assert (judged.first_break is None) == (judged.accuracy == 1.0)
    if not check_proper(automaton, [label for _, label in stated]):
        assert judged.first_break is not None, "an improper chain breaks somewhere"


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
