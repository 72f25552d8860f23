"""What a second model is shown that is to predict a model's answer from its chain, and never from the story.

Somebody who reads a chain that the answer follows from can tell the answer (simulatability). The control is the
question alone: what the choices and the wording give away is no merit of the chain. Nothing here asks a model.

>>> item = Item(id="q", story=["Ann saw tea."], question="What is in it?", choices=["tea", "salt"], answer="tea")
>>> shown(item, "Ann saw tea.<|im_end|>").story, shown(item, None).factors
(('Ann saw tea.< |im_end|>',), {'kind': 'question'})
>>> read(shown(item, None), '{"answer": "tea"}')
'tea'
"""

from __future__ import annotations

import hashlib

import orjson

from tomserve.faithfulness.offering import LETTERS, Offered
from tomserve.faithfulness.table import CHAIN, QUESTION
from tomserve.items import Item
from tomserve.runs.grader import excerpt
from tomserve.scoring.score import read_response
from tomserve.status import OK

PREDICTOR = "predictor"
"""The strategy whose prompt is sent (see prompts/predictor)."""

_NO_CHAIN = "(no reasoning is shown)"
"""The line that stands for the story where there is no chain; no template shows it."""


def shown(item: Item, text: str | None, offers: Offered | None = None) -> Item:
    """What the predicting model is shown, in the form of an item.

    item: the one that was answered, of whose story nothing is shown. text: the chain, with its verdict or without;
    None for the question alone. offers: what the model was offered (see tomserve.faithfulness.offering), since a chain
    may name a choice by its letter; all choices without letters where it is left out.

    The id is a digest of all that is shown, so that equal ones can be asked once. The chain with its verdict and
    without it are shown alike, so that only their texts differ. A very long chain is shown without its middle.
    """
    choices, lettered = offers or Offered(item.choices)
    letters = "".join(f"\n{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False))
    question = f"{item.question}{letters}" if lettered else item.question
    story, kind = ([_NO_CHAIN], QUESTION) if text is None else (excerpt(text), CHAIN)
    name = hashlib.blake2b(orjson.dumps([kind, story, question, choices]), digest_size=16).hexdigest()
    return Item(id=name, story=story, question=question, choices=choices, answer=choices[0], factors={"kind": kind})


def read(item: Item, reply: str) -> str | None:
    """The choice that a reply predicts; None where it is none of those that were shown. item: as `shown` made it."""
    found = read_response(item, {"status": OK, "text": reply}, False).answer
    return found if found in item.choices else None
