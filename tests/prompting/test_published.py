"""The published ways to ask benchmarks that others own: what is sent, and that replies of their form are read."""

import pytest

from tests.conftest import ROOT
from tests.helpers.strategies import talk
from tomserve import benchmarks
from tomserve.prompting.strategy import Strategy
from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import LetteredChoices

SMALL = ROOT / "tests/data/bigtom_small.csv"


def test_bigtom_is_asked_as_its_authors_did() -> None:
    item = next(benchmarks.load("bigtom", SMALL))
    shown = f"Story: {' '.join(item.story)}\nQuestion: {item.question}\nChoose one of the following:\n"
    shown += f"a){item.choices[0]}\nb){item.choices[1]}"
    [turn], _ = talk(Strategy.load("bigtom_0shot"), item, lambda turn: "a)")
    assert turn.schema is None
    assert turn.messages[0]["content"].startswith("Answer the questions based on the context. Keep your answer concise")
    assert turn.messages[1]["content"].strip() == shown
    assert turn.max_tokens == 100
    turns, _ = talk(Strategy.load("bigtom_cot"), item, lambda turn: "She sees it.")
    assert [turn.max_tokens for turn in turns] == [200, 30]
    assert turns[0].messages[1]["content"].strip() == f"{shown}\nThought: Let's think step by step:"
    assert [message["role"] for message in turns[1].messages] == ["system", "user", "assistant", "user"]
    assert turns[1].messages[-1]["content"].strip() == "Write the answer as <option>) <answer>\nAnswer:"


@pytest.mark.parametrize("form", ["Answer:{key}{label}", "Answer: {key} {label}", "{key}", "{key} {label}", "{label}"])
def test_replies_in_the_published_form_are_read(form: str) -> None:
    item = next(benchmarks.load("bigtom", SMALL))
    choices = LetteredChoices(item.choices)
    for key, label in zip(("a)", "b)"), choices, strict=True):
        assert read_reply(form.format(key=key, label=label), choices).answer == label
