"""The schemas of replies as the engine of a server enforces them: xgrammar, which vLLM uses, asked without a server."""

from __future__ import annotations

import orjson
import pytest

from tests.conftest import make_item
from tomserve.prompting.strategy import Strategy

SENTENCES = [4, 5, 12, 30]
LABELS = ["the red tub", 'a "crate"', "unknown"]


def accepts(length: int, strategy: str = "cot"):  # type: ignore[no-untyped-def]
    """A function that says whether the grammar of a story of so many sentences lets a reply through."""
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string

    story = [f"Sentence number {number}." for number in range(1, length + 1)]
    item = make_item(story=story, choices=LABELS, answer="unknown", gold=None)
    schema = Strategy.load(strategy).turn(item).schema
    grammar = xgrammar.Grammar.from_json_schema(orjson.dumps(schema).decode(), any_whitespace=True)

    def check(beliefs: list[tuple[int, str]], answer: str = "unknown") -> bool:
        listed = [{"sentence": number, "belief": belief} for number, belief in beliefs]
        return bool(_is_grammar_accept_string(grammar, orjson.dumps({"beliefs": listed, "answer": answer}).decode()))

    return check


@pytest.mark.parametrize("length", SENTENCES)
def test_a_chain_of_changes_of_any_length_passes(length: int) -> None:
    check = accepts(length)
    assert check([(1, "unknown")])
    assert check([(1, "unknown"), (length, 'a "crate"')], 'a "crate"')
    assert check([(length, "unknown"), (2, "the red tub")]), "a grammar cannot demand an order; the reader sorts"
    assert check([(number, LABELS[number % 3]) for number in range(1, length + 1)])


@pytest.mark.parametrize("length", SENTENCES)
def test_what_is_no_chain_of_the_story_does_not(length: int) -> None:
    check = accepts(length)
    assert not check([])
    assert not check([(0, "unknown")])
    assert not check([(length + 1, "unknown")])
    assert not check([(-1, "unknown")])
    assert not check([(1, "the blue tub")])
    assert not check([(1, "unknown")], "the blue tub")
    assert not check([(1 + number % length, "unknown") for number in range(length + 1)]), "more than sentences"


@pytest.mark.parametrize("length", SENTENCES)
def test_the_form_of_every_sentence_lets_none_be_left_out(length: int) -> None:
    check = accepts(length, "cot_every_sentence")
    every = [(number, LABELS[number % 3]) for number in range(1, length + 1)]
    assert check(every)
    assert not check(every[:-1])
    assert not check([*every[:1], *every[2:]])
