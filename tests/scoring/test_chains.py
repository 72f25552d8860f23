"""Chain metrics: the published vectors, and a brute-force reference over listed gold chains."""

import json
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.rationales import LABELS, listed, rationales
from tomserve.items.automaton import compile_chains, compile_sets
from tomserve.scoring.chains import (
    check_path_proper,
    check_proper,
    lcps,
    lcs,
    score_chain,
    transition_overlaps,
)

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "chain_vectors.json").read_text())
chains = st.lists(st.sampled_from(LABELS), min_size=1, max_size=6)


def runs(chain) -> list[tuple[str, int]]:
    return [(label, len(list(group))) for label, group in groupby(chain)]


def is_proper(chain, gold) -> bool:
    mine, theirs = runs(chain), runs(gold)
    return len(mine) == len(theirs) and all(x == y and n <= m for (x, n), (y, m) in zip(mine, theirs, strict=True))


def longest_common(a, b) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def leading(a, b) -> int:
    total = 0
    for (x, n), (y, m) in zip(runs(a), runs(b), strict=False):
        if x != y:
            break
        total += min(n, m)
    return total


def overlap(chain, gold, distinct: bool = False) -> float:
    pairs = {pair for pair in pairwise(chain) if not distinct or pair[0] != pair[1]}
    return len(pairs & set(pairwise(gold))) / len(pairs) if pairs else float(is_proper(chain, gold))


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
    assert check_proper(automaton, chain, prefix=True) == expected["preproper"]
    assert lcs(automaton, chain) == expected["lcs"]
    assert lcps(automaton, chain) == expected["lcps"]
    overlaps = (expected["top_all"], expected["top_distinct"])
    assert transition_overlaps(automaton, chain, right) == pytest.approx(overlaps, abs=1e-6)


@given(rationales(), chains)
def test_metrics_equal_the_brute_force_over_all_gold_chains(rationale: tuple, chain: list[str]) -> None:
    automaton, golds = compile_sets(*rationale), listed(*rationale)
    right = check_proper(automaton, chain)
    assert right == any(is_proper(chain, gold) for gold in golds)
    prefixes = [gold[:n] for gold in golds for n in range(1, len(gold) + 1)]
    assert check_proper(automaton, chain, prefix=True) == any(is_proper(chain, gold) for gold in prefixes)
    assert lcs(automaton, chain) == max((longest_common(chain, gold) for gold in golds), default=0)
    assert lcps(automaton, chain) == max((leading(chain, gold) for gold in golds), default=0)
    every = [max((overlap(chain, gold, distinct) for gold in golds), default=0.0) for distinct in (False, True)]
    assert transition_overlaps(automaton, chain, right) == pytest.approx(tuple(every))
    score = score_chain(automaton, chain)
    found = (score.proper, score.lcs, score.lcps, score.transitions, score.transitions_distinct)
    shares = (lcs(automaton, chain) / len(chain), lcps(automaton, chain) / len(chain))
    assert found == pytest.approx((right, *shares, *every))


@given(rationales(), chains)
def test_path_correctness_leaves_the_last_state_out(rationale: tuple, chain: list[str]) -> None:
    def without_last_run(sequence) -> list[str]:
        kept = list(sequence)
        while kept and kept[-1] == sequence[-1]:
            kept.pop()
        return kept

    mine = without_last_run(chain)
    golds = [without_last_run(gold) for gold in listed(*rationale)]
    expected = any(is_proper(mine, gold) if mine else not gold for gold in golds)
    automaton = compile_sets(*rationale)
    assert check_path_proper(automaton, chain) == expected
    if check_proper(automaton, chain):
        assert check_path_proper(automaton, chain)


def test_an_empty_chain_scores_nothing() -> None:
    score = score_chain(compile_sets([["x"]]), [])
    assert (score.proper, score.lcs, score.lcps, score.transitions) == (False, 0.0, 0.0, 0.0)


def test_a_long_story_with_wide_sets_is_quick() -> None:
    # 3^40 gold chains: listing them would never end
    automaton = compile_sets([list("uxy")] * 40, policy="free")
    chain = list("uxy" * 13)
    assert check_proper(automaton, chain)
    assert lcs(automaton, chain) == 39
    assert transition_overlaps(automaton, chain, True) == (1.0, 1.0)
