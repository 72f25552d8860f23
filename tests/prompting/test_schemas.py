"""The schemas of replies: what they let through, by jsonschema and as the engine of a server enforces them (xgrammar)."""

from collections.abc import Callable
from typing import Any

import jsonschema
import orjson
import pytest

from tests.conftest import make_item
from tomserve.prompting.strategy import Strategy

LABELS = ["the red tub", 'a "crate"', "unknown"]


def _by_schema(schema: Any, reply: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(reply))


def _by_grammar(schema: Any, reply: Any) -> bool:
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string

    grammar = xgrammar.Grammar.from_json_schema(orjson.dumps(schema).decode(), any_whitespace=True)
    return bool(_is_grammar_accept_string(grammar, orjson.dumps(reply).decode()))


@pytest.mark.parametrize("length", [4, 5, 30])
@pytest.mark.parametrize("judge", [_by_schema, pytest.param(_by_grammar, marks=pytest.mark.system)])
def test_chains_of_the_story_pass_and_no_others(judge: Callable[..., bool], length: int) -> None:
    story = [f"Sentence number {number}." for number in range(1, length + 1)]
    item = make_item(story=story, choices=LABELS, answer="unknown", gold=None)

    def passes(beliefs: list[tuple[int, str]], answer: str = "unknown", strategy: str = "cot") -> bool:
        listed = [{"sentence": number, "belief": belief} for number, belief in beliefs]
        return judge(Strategy.load(strategy).turn(item).schema, {"beliefs": listed, "answer": answer})

    every = [(number, LABELS[number % 3]) for number in range(1, length + 1)]
    assert passes([(1, "unknown")])
    assert passes([(1, "unknown"), (length, 'a "crate"')], 'a "crate"')
    assert passes([(length, "unknown"), (2, "the red tub")]), "a grammar cannot demand an order; the reader sorts"
    assert passes(every)
    for number in (0, length + 1, -1):
        assert not passes([(number, "unknown")])
    assert not passes([])
    assert not passes([(1, "the blue tub")])
    assert not passes([(1, "unknown")], "the blue tub")
    assert not passes([(1 + number % length, "unknown") for number in range(length + 1)]), "more than sentences"
    assert passes(every, strategy="cot_every_sentence")
    assert not passes(every[:-1], strategy="cot_every_sentence")
    assert not passes([*every[:1], *every[2:]], strategy="cot_every_sentence")
